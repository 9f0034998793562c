#!/usr/bin/env python3
"""Judges the history of a fault run: check.py HISTORY (README.md says what is asked of one).

S1: the times in which two workers had reason to believe that they hold one lock do not overlap. S2: a hold that was
asked for after another was won has the larger fence. K1: none begins while a lock is kept. check2.py counts the same in
another way. And no lock stands still that a worker waits for, while nothing is wrong.
"""

import heapq
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass

import check2
from history import NEVER, STRAY, covered, language, read


@dataclass
class Floors:
    """What a run must have done to count as one, and how late a wait may end."""

    holds_a_second: float = 50.0
    each_kind: int = 20
    faulty_share: float = 0.3
    # Ours, and the node timeout of the crew: answers may be awaited for so long.
    late_ms: float = 200.0
    # For how long a lock may be free while a worker waits for it and nothing is wrong: far above the noise of a machine.
    still_ms: float = 500.0
    # For how long in all nothing may have been wrong, so that it would have shown.
    calm_seconds: float = 1.0


# What a fault has done lasts beyond its end: votes of the dead, places of the killed, nodes that are left alone.
AFTER_SECONDS = 1.5
# Workers that hold by a program: their waits begin and end with processes.
PROGRAMS = "cli-"


def weaken(history):
    """Marks the holds that a step forward may have robbed of a vote which they could not spare; counts the others it met."""
    stood = 0
    for begin, end, full in history.steps:
        for hold in history.holds:
            safe = (hold.lock, hold.worker) in full and hold.invoked < begin
            met = hold.invoked <= end and hold.until >= begin
            stood += met and safe
            if met and not safe:
                hold.weak = min(hold.weak, begin)
    return stood


def double_holds(holds):
    """Pairs of holds of one lock that were believed in at once."""
    pairs, live = [], []
    for hold in sorted((hold for hold in holds if hold.believed), key=lambda hold: hold.acquired):
        while live and live[0][0] <= hold.acquired:
            heapq.heappop(live)
        pairs += [(other, hold) for _, _, other in live if not (other.shared and hold.shared)]
        heapq.heappush(live, (hold.until, id(hold), hold))
    return pairs


def disorder(holds):
    """Holds that were asked for after another with the same or a larger fence was won; of two that share it there is no order."""
    fenced = [hold for hold in holds if hold.fence]
    won = sorted(fenced, key=lambda hold: hold.acquired)
    wrong, seen, largest, alone = [], 0, 0, 0
    for hold in sorted(fenced, key=lambda hold: hold.invoked):
        while seen < len(won) and won[seen].acquired < hold.invoked:
            largest = max(largest, won[seen].fence)
            alone = alone if won[seen].shared else max(alone, won[seen].fence)
            seen += 1
        if (alone if hold.shared else largest) >= hold.fence:
            wrong.append(hold)
    return wrong


def repeated(holds):
    fences = Counter(hold.fence for hold in holds if not hold.shared)
    return sum(count - 1 for fence, count in fences.items() if fence)


def early(history):
    """Holds that began while their lock was kept: each with the keep that it broke, and whether a step forward may have ended that."""
    found = []
    for worker, lock, begin, until in history.keeps:
        for hold in history.locks[lock]:
            if begin < hold.acquired < until and hold.believed:
                # What is kept has no holder, so at a step it is never among what had all votes.
                stepped = any(step <= hold.acquired and after >= begin and (lock, worker) not in full for step, after, full in history.steps)
                found.append((hold, until, stepped))
    return found


def adopted_again(history):
    return len(history.adopted) - len(set(history.adopted))


def base(lock):
    """The name of a lock, or of one of its slots."""
    return lock.split(".")[0]


def stages(history):
    """Of each lock, by its name, what went on: (from, to, what), where `what` is `wait`, or the slot that a worker is inside of or on
    the way to."""
    found = defaultdict(list)
    ttl = history.notes.get("ttl-ms", 0) * 1e6
    together = {(worker, invoked): locks for worker, locks, invoked in history.wants}

    def several(worker, invoked, until):
        # A worker that asks for several has some of them before the last.
        for lock in together[worker, invoked]:
            found[lock].append((invoked, until, lock))

    for hold in history.holds:
        begin, name = hold.acquired, base(hold.lock)
        if (hold.worker, hold.invoked) in together:
            several(hold.worker, hold.invoked, hold.until)
        elif hold.worker.startswith(PROGRAMS):
            begin = hold.invoked
        else:
            found[name].append((hold.invoked, begin, "wait"))
        found[name].append((begin, hold.until, hold.lock))
    for worker, word, invoked, returned, wait, _ in history.fails:
        if (worker, invoked) in together:
            several(worker, invoked, returned)
        elif wait and not worker.startswith(PROGRAMS):
            found[base(word)].append((invoked, returned, "wait"))
    for _, lock, begin, until in history.keeps:
        found[base(lock)].append((begin, until, lock))
    for lock, at in history.hands:
        # Until a worker adopts it, and at most for its ttl; that another takes it before is for S1 to find.
        found[base(lock)].append((at, at + ttl, lock))
    return found


def slow_quorums(history):
    """The times in which a witness waited for so many nodes at once that no quorum was left."""
    nodes = int(history.notes.get("nodes", 0))
    spare, found, since, slow = nodes - (nodes // 2 + 1), [], None, 0
    for at, by in sorted([(begin, 1) for _, begin, _ in history.slow] + [(end, -1) for _, _, end in history.slow]):
        slow += by
        if slow > spare and since is None:
            since = at
        elif slow <= spare and since is not None:
            found.append((since, at))
            since = None
    return found


def troubles(history):
    """The times in which something is wrong, or was until just now: a fault, or a quorum that does not answer
    in time, a worker or the witness."""
    after = AFTER_SECONDS * 1e9
    faults = [(fault.begin, fault.end + after) for fault in history.faults.values()]
    unanswered = [(invoked, returned + after) for worker, _, invoked, returned, _, kind in history.fails
                  if "QuorumUnavailable" in kind and not worker.endswith(STRAY)]
    return faults + unanswered + history.stalls + slow_quorums(history)


def calm_seconds(history):
    """For how long nothing was wrong."""
    begin, end = history.notes["begin"], history.notes["end"]
    return (end - begin - covered(troubles(history), begin, end)) / 1e9


def stands(history):
    """How long each lock, or one of its slots, stood free while a worker waited for it: (ns, from, name), where
    neither a fault nor what it has left was about, nor the machine stood still."""
    excuses = [(begin, end, "excuse") for begin, end in troubles(history)]
    found = []
    for name, spans in stages(history).items():
        slots = {what for _, _, what in spans} - {"wait"} or {name}
        events = sorted([(begin, 1, what) for begin, end, what in spans + excuses if begin < end]
                        + [(end, -1, what) for begin, end, what in spans + excuses if begin < end])
        counts, since = Counter(), None
        for at, by, what in events:
            counts[what] += by
            still = counts["wait"] and not counts["excuse"] and not all(counts[slot] for slot in slots)
            if since is not None and since < at and not still:
                found.append((at - since, since, name))
            since = None if not still else at if since is None else since
    return found


def late_waits(history, late_ms):
    """Waits that ended too long past their deadline, how many more in which the worker or the machine stood still, the worst."""
    stops = defaultdict(list)
    for fault in history.faults.values():
        if fault.kind == "worker-pause":
            stops[fault.whom].append((fault.begin, fault.end))
    late, excused, worst = [], 0, 0
    wait_ns = history.notes["wait-ms"] * 1e6
    waits = [(hold.worker, hold.invoked, hold.acquired) for hold in history.holds]
    waits += [(worker, invoked, returned) for worker, _, invoked, returned, _, _ in history.fails]
    for worker, invoked, returned in waits:
        by = returned - invoked - wait_ns
        if by <= late_ms * 1e6:
            worst = max(worst, by)
        elif any(begin < returned and invoked < end for begin, end in stops[worker] + history.stalls):
            excused += 1
        else:
            late.append((worker, by))
    return late, excused, max([worst] + [by for _, by in late])


def faulty_seconds(history, begin, end):
    """How long at least one fault was on."""
    return covered([(fault.begin, fault.end) for fault in history.faults.values()], begin, end) / 1e9


def figures(history):
    """What both checkers count, for all locks: holds, double holds, holds out of order, repeated fences, holds of what was kept,
    leases that were adopted again."""
    # A copy, for a look at a lock without holds makes an entry.
    locks = list(history.locks.values())
    return (len(history.holds), sum(len(double_holds(holds)) for holds in locks),
            sum(len(disorder(holds)) for holds in locks), sum(map(repeated, locks)), len(early(history)), adopted_again(history))


class Verdict:
    def __init__(self):
        self.passed, self.failed = 0, []

    def line(self, good, words):
        print(f"{'ok  ' if good else 'FAIL'} {words}", flush=True)
        self.passed += bool(good)
        if not good:
            self.failed.append(words)


def exclusion(history, verdict):
    stood = weaken(history)
    within, outside = [], 0
    for holds in history.locks.values():
        for first, second in double_holds(holds):
            if second.acquired >= min(first.weak, second.weak):
                outside += 1
            else:
                within.append((first, second))
    weak = sum(hold.weak < NEVER for hold in history.holds)
    verdict.line(not within, f"S1: {len(within)} double holds; a step forward met {stood} holds with all votes, and "
                             f"{weak} others, of which {outside} doubled")
    for first, second in within[:5]:
        overlap = (min(first.until, second.until) - second.acquired) / 1e6
        print(f"       {first.lock}: {first.worker} from {first.acquired}, {second.worker} from {second.acquired}, "
              f"both for {overlap:.3f} ms")


def fences(history, verdict, asked):
    wrong = [hold for holds in history.locks.values() for hold in disorder(holds)]
    twice = sum(map(repeated, history.locks.values()))
    without = Counter(hold.worker for hold in history.holds if not hold.fence)
    verdict.line(not wrong and not twice, f"S2: {len(wrong)} holds out of order, {twice} fences twice")
    for hold in wrong[:5]:
        print(f"       {hold.lock}: {hold.worker} asked at {hold.invoked}, got {hold.fence}")
    if asked:
        verdict.line(not without, f"{sum(without.values())} holds without a fence {sorted(without) or ''}".rstrip())


def keeps(history, verdict):
    broken = early(history)
    within = [(hold, until) for hold, until, stepped in broken if not stepped]
    verdict.line(not within, f"K1: {len(within)} holds of {len(history.keeps)} locks that were kept; {len(broken) - len(within)} behind a step forward")
    for hold, until in within[:5]:
        print(f"       {hold.lock}: {hold.worker} from {hold.acquired}, {(until - hold.acquired) / 1e6:.3f} ms too early")


def adoptions(history, verdict):
    again = adopted_again(history)
    verdict.line(not again, f"{again} leases adopted twice, of {len(history.adopted)} adopted and {len(history.hands)} exported")


def still(history, verdict, wanted):
    found, calm = stands(history), calm_seconds(history)
    long = sorted(one for one in found if one[0] > wanted.still_ms * 1e6)[::-1]
    worst = max((ns for ns, _, _ in found), default=0)
    verdict.line(not long and calm >= wanted.calm_seconds,
                 f"{len(long)} times a lock stood still for longer than {wanted.still_ms:g} ms that somebody waited for, in {calm:.1f} s in "
                 f"which nothing was wrong (at least {wanted.calm_seconds:g}; longest {worst / 1e6:.0f} ms)")
    for ns, since, name in long[:5]:
        print(f"       {name} for {ns / 1e6:.0f} ms from {since}")


def updates(history, verdict):
    lost = int(history.notes["lost-updates"])
    verdict.line(not lost, f"{lost} lost updates behind the fence in {int(history.notes['writes'])} writes, {int(history.notes['stale'])} requests refused")


def strays(history, verdict):
    """A client that lists other nodes than the set has is to hold nothing, even while the lock is free."""
    held = sum(hold.worker.endswith(STRAY) for hold in history.holds)
    failed = Counter(kind for worker, *_, kind in history.fails if worker.endswith(STRAY))
    verdict.line(not held, f"{held} holds of clients with another list of nodes; they were refused: {dict(failed)}")


def rest(history, verdict, late_ms):
    late, excused, worst = late_waits(history, late_ms)
    whose = "".join(f", {worker} by {by / 1e6:.0f} ms" for worker, by in late[:3])
    verdict.line(not late, f"{len(late)} waits ended more than {late_ms:g} ms late (worst {worst / 1e6:.0f} ms{whose}); {excused} "
                           f"while the worker or the machine stood still")
    kinds = Counter(kind for worker, *_, kind in history.fails if not worker.endswith(STRAY))
    # A set that changes meanwhile is another one to an exported lease.
    broken = [kind for kind in kinds if kind.startswith(("Internal", "InvalidArgument", "NotOwner", "adopt:Internal", "adopt:NotOwner"))]
    verdict.line(not broken, f"failed acquires: {dict(kinds)}")
    left = int(history.notes["left"])
    verdict.line(not left, f"{left} keys left behind")


def floors(history, verdict, wanted, kinds):
    begin, end = int(history.notes["begin"]), int(history.notes["end"])
    seconds = (end - begin) / 1e9
    held = Counter(language(hold.worker) for hold in history.holds)
    pace = len(history.holds) / seconds
    verdict.line(pace >= wanted.holds_a_second, f"{len(history.holds)} holds in {seconds:.0f} s, {pace:.0f} a second "
                                                f"(at least {wanted.holds_a_second:g}): {dict(held)}")
    counts = Counter(fault.kind for fault in history.faults.values())
    rare = [kind for kind in kinds if counts[kind] < wanted.each_kind]
    verdict.line(not rare, f"{sum(counts.values())} faults of {len(counts)} kinds, each at least {wanted.each_kind} times"
                           + (f"; not {rare}" if rare else ""))
    print("       " + ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    share = faulty_seconds(history, begin, end) / seconds
    verdict.line(share >= wanted.faulty_share,
                 f"a fault on for {share:.0%} of the time (at least {wanted.faulty_share:.0%})")


def agreement(history, path, verdict):
    ours, theirs = figures(history), check2.judge(path)
    verdict.line(ours == theirs, f"two checkers count {ours} and {theirs} (holds, doubles, disorder, repeated fences, "
                                 f"holds of what was kept, adopted again)")


def judge(path, wanted, kinds, verdict, fenced=True, guarded=True):
    """Adds the verdict on a fault run."""
    history = read(path)
    exclusion(history, verdict)
    fences(history, verdict, fenced)
    keeps(history, verdict)
    adoptions(history, verdict)
    still(history, verdict, wanted)
    if guarded:
        updates(history, verdict)
    strays(history, verdict)
    rest(history, verdict, wanted.late_ms)
    floors(history, verdict, wanted, kinds)
    agreement(history, path, verdict)


if __name__ == "__main__":
    with_fences, said = any(hold.fence for hold in read(sys.argv[1]).holds), Verdict()
    judge(sys.argv[1], Floors(0, 0, 0, calm_seconds=0), [], said, with_fences, with_fences)
    sys.exit(1 if said.failed else 0)
