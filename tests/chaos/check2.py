#!/usr/bin/env python3
"""A second judge of a history: check2.py HISTORY. It shares no line and no method with check.py, and must count the same.

Doubles: of n intervals, those that neither ended before this one nor begin after it overlap it; every pair is met twice.
Disorder: going down the fences, the earliest win among larger or equal ones must not be before this one was asked for.
Kept: of all wins of a lock, in order, those between the two ends of a keep. Adopted: a number that comes once more.
"""

import sys
from bisect import bisect_left, bisect_right
from itertools import groupby


def holds_of(path):
    """lock → [invoked, acquired, end, fence, shared]"""
    locks, now = {}, {}
    with open(path) as file:
        lines = [line.split() for line in file]
    for kind, who, *rest in lines:
        if kind in ("take", "share"):
            hold = [*map(int, rest[1:]), kind == "share"]
            now.setdefault(who, {})[rest[0]] = hold
            locks.setdefault(rest[0], []).append(hold)
        elif kind == "give" and rest[0] in now.get(who, {}):
            now[who].pop(rest[0])[2] = min(map(int, rest[1:3]))
        elif kind == "dead":
            for hold in now.pop(who, {}).values():
                hold[2] = min(hold[2], int(rest[0]))
    return locks


def doubles(holds):
    """Of all pairs that overlap those are none that share the lock, both of them."""
    return pairs(holds) - pairs([hold for hold in holds if hold[4]])


def pairs(holds):
    spans = [(hold[1], hold[2]) for hold in holds if hold[1] < hold[2]]
    begins, ends = (sorted(column) for column in zip(*spans)) if spans else ([], [])
    return sum(bisect_left(begins, end) - bisect_right(ends, begin) - 1 for begin, end in spans) // 2


def disorder(holds):
    wrong, earliest, alone = 0, float("inf"), float("inf")
    fenced = sorted((hold for hold in holds if hold[3]), key=lambda hold: -hold[3])
    for _, same in groupby(fenced, key=lambda hold: hold[3]):
        same = list(same)
        earliest = min([earliest] + [hold[1] for hold in same])
        alone = min([alone] + [hold[1] for hold in same if not hold[4]])
        wrong += sum((alone if hold[4] else earliest) < hold[0] for hold in same)
    return wrong


def words(path, kind):
    with open(path) as file:
        return [line.split()[1:] for line in file if line.startswith(f"{kind} ")]


def kept(path, locks):
    wins = {lock: sorted(hold[1] for hold in holds if hold[1] < hold[2]) for lock, holds in locks.items()}
    ends = [(wins.get(lock, []), int(begin), int(until)) for _, lock, begin, until in words(path, "keep")]
    return sum(max(0, bisect_left(some, until) - bisect_right(some, begin)) for some, begin, until in ends)


def judge(path):
    by_name = holds_of(path)
    locks = by_name.values()
    fences = [[hold[3] for hold in holds if hold[3] and not hold[4]] for holds in locks]
    numbers = sorted(number for _, _, number in words(path, "adopted"))
    return (sum(map(len, locks)), sum(map(doubles, locks)), sum(map(disorder, locks)),
            sum(len(some) - len(set(some)) for some in fences), kept(path, by_name), sum(a == b for a, b in zip(numbers, numbers[1:])))


if __name__ == "__main__":
    counted = judge(sys.argv[1])
    print("%d holds, %d double holds, %d out of order, %d repeated fences, %d of what was kept, %d adopted again" % counted)
    sys.exit(1 if any(counted[1:]) else 0)
