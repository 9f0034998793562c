"""What is asked of the history of a run with failovers.

A fault begins when the master is killed, stopped or told to give way, and ends when the sentinels name another that is one; whom it
meets is the number of its stage, with which the names of that stage's locks end.
"""

import re
from collections import Counter

from check import agreement, exclusion, fences, updates
from history import NEVER, read

KILLED, STOPPED, BY_HAND = KINDS = ("killed", "stopped", "by-hand")
# For which a promoted server gives no votes, beyond the longest ttl: what the core has (`GRACE` in its admission).
GRACE_SECONDS = 15
# What a client may need beyond that, to meet the promoted server and to win: a floor for sanity, for a busy machine too.
LATE_SECONDS = 15
# Of the failovers, this many must have met a holder, and a waiter, or there was nothing to see.
LIVE_SHARE = 0.5


def stage_of(lock):
    return re.search(r"\d+$", lock)[0]


class Failover:
    """One of them, with the holds of its stage."""

    def __init__(self, history, fault):
        holds = [hold for hold in history.holds if stage_of(hold.lock) == fault.whom]
        fails = [(invoked, returned) for _, lock, invoked, returned, _, _ in history.fails if stage_of(lock) == fault.whom]
        self.kind, self.done = fault.kind, fault.end < NEVER
        # Those that were held when it began, and those of them that were held beyond its end.
        self.held = [hold for hold in holds if hold.acquired < fault.begin < hold.until]
        self.survived = [hold for hold in self.held if hold.until > fault.end]
        waits = [(hold.invoked, hold.acquired) for hold in holds] + fails
        self.waited = sum(invoked < fault.begin < over for invoked, over in waits)
        later = [hold.acquired for hold in holds if hold.acquired > fault.end]
        first = min(later, default=NEVER)
        # From its begin to the first lock that is won behind it, less the time in which nothing could run.
        self.without = first if first == NEVER else first - fault.begin - history.stalled(fault.begin, first)
        self.took = fault.end - fault.begin


def seconds(values):
    """Their middle and their largest, as people read them."""
    values = sorted(values)
    if not values:
        return "none"
    return f"median {values[len(values) // 2] / 1e9:.1f} s, worst {values[-1] / 1e9:.1f} s"


def lateness(failovers, verdict, quarantine):
    """After each a lock is won again, no later than the guard asks for; `quarantine`: what that is, in ns."""
    limit = quarantine + LATE_SECONDS * 1e9
    for kind in KINDS:
        those = [one for one in failovers if one.kind == kind]
        if not those:
            continue
        late = [one for one in those if one.without > limit + one.took]
        without, took = seconds(one.without for one in those if one.without < NEVER), seconds(one.took for one in those)
        verdict.line(not late, f"{kind}: no lock was won for {without}, too long in {len(late)} of {len(those)}; "
                               f"the failover took {took}")
        held, survived = (sum(len(holds) for holds in some) for some in
                          ([one.held for one in those], [one.survived for one in those]))
        print(f"       {held} leases were held, {survived} of them beyond the failover; {sum(one.waited for one in those)} waited")


def judge(path, wanted, verdict):
    """Adds the verdict on a run in which each kind was to come this many times."""
    history = read(path)
    quarantine = history.notes["guarded"] * (GRACE_SECONDS * 1e9 + history.notes["ttl-ms"] * 1e6)
    exclusion(history, verdict)
    fences(history, verdict, asked=True)
    updates(history, verdict)
    failovers = [Failover(history, fault) for fault in history.faults.values()]
    undone = [one.kind for one in failovers if not one.done]
    verdict.line(not undone, f"{len(undone)} of {len(failovers)} failovers did not come about")
    lateness([one for one in failovers if one.done], verdict, quarantine)
    counts = Counter(one.kind for one in failovers if one.done)
    rare = [kind for kind, count in wanted.items() if counts[kind] < count]
    verdict.line(not rare, f"{sum(counts.values())} failovers, {dict(counts)}" + (f"; too few of {rare}" if rare else ""))
    live = sum(bool(one.held and one.waited) for one in failovers)
    verdict.line(live >= LIVE_SHARE * len(failovers), f"{live} of {len(failovers)} met a holder and a waiter")
    agreement(history, path, verdict)
