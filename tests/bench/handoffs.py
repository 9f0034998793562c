"""From a history of holds to its figures: hand-offs, idle gaps, shares, waits. Nothing else is read here.

A hold is `(granted, releasing, released, contender)`: when acquire returned, when release was called and when it returned, in
nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share; 0 is what had not come yet when the history was
written. From granted to releasing the contender takes itself for the holder. Who has released asks again at once: whoever
does not hold waits. Contenders are numbers from 0.
"""

import array
import collections
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


def double_holds(holds):
    """How many holds, in order of their grants, began while another contender still took itself for the holder."""
    until = found = 0
    for granted, releasing, _, _ in holds:
        found += granted < until
        until = max(until, releasing or FOREVER)
    return found


def gaps(holds, begin, end):
    """Of each hand-off in this time, how long the lock lay idle: from the call of release to the next grant, in ns.

    A hand-off is a grant to another contender than the one before. None where the two held at once.
    """
    found = []
    for (_, releasing, _, before), (granted, _, _, contender) in zip(holds, holds[1:]):
        if contender != before and begin <= granted < end:
            found.append(granted - releasing if 0 < releasing <= granted else None)
    return found


def longest_waits(holds, contenders, begin, end):
    """The longest wait of each contender in this time, in ns, from asking to the grant or to the end. Failed tries and the next
    are one wait."""
    since, longest = [begin] * contenders, [0] * contenders
    for granted, _, released, contender in holds:
        longest[contender] = max(longest[contender], min(granted, end) - since[contender])
        # Who has not released yet waits for nothing.
        since[contender] = max(begin, released or end)
    return [max(wait, end - asked) for wait, asked in zip(longest, since)]


def figures(holds, contenders, begin, end):
    """What a run came to between these two moments."""
    holds = sorted(holds)
    within = [hold for hold in holds if begin <= hold[0] < end]
    counts = collections.Counter(hold[3] for hold in within)
    shares = [counts[contender] for contender in range(contenders)]
    handed, seconds = gaps(holds, begin, end), (end - begin) / 1e9
    found = {"seconds": round(seconds, 3), "holds": len(within), "holds_per_s": round(len(within) / seconds, 1),
             "handoffs": len(handed), "handoffs_per_s": round(len(handed) / seconds, 1),
             "share": round(min(shares) / max(shares), 3) if max(shares) else 0, "without": shares.count(0),
             "longest_ms": round(max(longest_waits(holds, contenders, begin, end)) / 1e6, 2),
             "violations": double_holds(holds)}
    idle = sorted(gap for gap in handed if gap is not None)
    if idle:
        found.update({f"gap_p{share}_us": round(idle[(len(idle) - 1) * share // 100] / 1e3, 2) for share in (50, 99)})
    stays = [releasing - granted for granted, releasing, _, _ in within if releasing]
    if stays:
        found["stay_us"] = round(median(stays) / 1e3, 2)
    return found
