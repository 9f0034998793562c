"""From a history of holds to its figures: hand-offs, idle gaps, shares, waits. Nothing else is read here.

A hold is `(granted, releasing, released, contender)`: when acquire returned, when release was called and when it returned, in
nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share; 0 is what had not come yet when the history was
written. From granted to releasing the contender takes itself for the holder. Whoever has released asks again at once: whoever
does not hold waits. Contenders are numbers from 0.
"""

import array
import collections
from dataclasses import dataclass
from statistics import median

FOREVER = float("inf")
# How drivers write a hold: contender, granted, releasing, released; eight bytes each, in the machine's order.
NUMBERS = 4


def read(path, first):
    """The holds that a driver wrote, its contenders numbered from `first`."""
    numbers = array.array("q")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    contender, granted, releasing, released = (numbers[i::NUMBERS] for i in range(NUMBERS))
    return [(*times, first + number) for *times, number in zip(granted, releasing, released, contender)]


@dataclass(frozen=True)
class Room:
    """Who may hold at once: this many, or the first `readers` of the contenders together and each of the others alone."""

    slots: int = 1
    readers: int = 0

    @property
    def whole(self):
        return self.readers or self.slots

    def of(self, contender):
        """How much of the whole a contender takes."""
        return self.whole if self.readers and contender >= self.readers else 1


ALONE = Room()


def idle_times(holds, room):
    """Of each hold, in order of grants, how long there was room for it while its contender waited, in ns: from the call of the release
    that made the room, or from its own last release if that came later. All wait from the first grant on. None where there was no room: too
    many held at once."""
    # A release that is called in the moment of a grant comes before it, but not before its own.
    events = sorted(event for number, (granted, releasing, _, _) in enumerate(holds)
                    for event in ((granted, 1, number), (releasing or FOREVER, 2 if releasing == granted else 0, number)))
    begin = min((hold[0] for hold in holds), default=0)
    # Since when there has been room for one of each size.
    since, used, asked, found = {1: begin, room.whole: begin}, 0, {}, [None] * len(holds)
    for time, kind, number in events:
        _, _, released, contender = holds[number]
        size = room.of(contender)
        if kind == 1:
            if used + size <= room.whole:
                found[number] = time - max(since[size], asked.get(contender, begin))
            used += size
            asked[contender] = released or FOREVER
        else:
            since.update({wanted: time for wanted in since if used + wanted > room.whole >= used - size + wanted})
            used -= size
    return found


def double_holds(holds, room=ALONE):
    """How many holds began while there was no room for them: others still took themselves for holders."""
    return idle_times(holds, room).count(None)


def gaps(holds, begin, end, room=ALONE):
    """Of each hand-off in this time how long the lock lay idle, from the call of release to the next grant, in ns.

    A hand-off is a grant to another contender than the one before. None where too many held at once.
    """
    found = []
    for (_, _, _, before), (granted, _, _, contender), idle in zip(holds, holds[1:], idle_times(holds, room)[1:]):
        if contender != before and begin <= granted < end:
            found.append(idle)
    return found


def waits(holds, begin, end):
    """Of each hold that was granted in this time, how long its contender waited for it, in ns, with the contender."""
    asked, found = {}, []
    for granted, _, released, contender in holds:
        if contender in asked and begin <= granted < end:
            found.append((granted - asked[contender], contender))
        asked[contender] = released or FOREVER
    return found


def longest_waits(holds, contenders, begin, end):
    """The longest wait of each contender in this time, in ns, from asking to the grant or to the end. Failed tries and the next
    are one wait."""
    since, longest = [begin] * contenders, [0] * contenders
    for granted, _, released, contender in holds:
        longest[contender] = max(longest[contender], min(granted, end) - since[contender])
        # Whoever has not released yet waits for nothing.
        since[contender] = max(begin, released or end)
    return [max(wait, end - asked) for wait, asked in zip(longest, since)]


def figures(holds, contenders, begin, end, room=ALONE):
    """What a run came to between these two moments."""
    holds = sorted(holds)
    within = [hold for hold in holds if begin <= hold[0] < end]
    counts = collections.Counter(hold[3] for hold in within)
    shares = [counts[contender] for contender in range(contenders)]
    handed, seconds = gaps(holds, begin, end, room), (end - begin) / 1e9
    found = {"seconds": round(seconds, 3), "holds": len(within), "holds_per_s": round(len(within) / seconds, 1),
             "handoffs": len(handed), "handoffs_per_s": round(len(handed) / seconds, 1),
             "share": round(min(shares) / max(shares), 3) if max(shares) else 0, "without": shares.count(0),
             "longest_ms": round(max(longest_waits(holds, contenders, begin, end)) / 1e6, 2),
             "violations": double_holds(holds, room)}
    idle = sorted(gap for gap in handed if gap is not None)
    if idle:
        found.update({f"gap_p{share}_us": round(idle[(len(idle) - 1) * share // 100] / 1e3, 2) for share in (50, 99)})
    if room.readers:
        found.update(of_kinds(holds, begin, end, room))
    stays = [releasing - granted for granted, releasing, _, _ in within if releasing]
    if stays:
        found["stay_us"] = round(median(stays) / 1e3, 2)
    return found


def of_kinds(holds, begin, end, room):
    """Of readers and of writers, how many holds there were and how long they waited for them."""
    found = {}
    for kind, ours in (("reader", lambda contender: contender < room.readers), ("writer", lambda contender: contender >= room.readers)):
        waited = sorted(wait for wait, contender in waits(holds, begin, end) if ours(contender))
        found[f"{kind}_holds"] = sum(ours(contender) and begin <= granted < end for granted, _, _, contender in holds)
        if waited:
            found.update({f"{kind}_p{share}_ms": round(waited[(len(waited) - 1) * share // 100] / 1e6, 2) for share in (50, 99)})
    return found
