"""Eight processes of all languages ask for random subsets of six names, in any order: none of them waits in a ring, and none holds
half of what it asked for. With `--unsorted` each takes its names one by one in its own order, which must fail.
"""

import collections
import time

import check
from crew import LANGUAGES, Crew, Orders
from faults import leftovers
from history import read
from stage import Stage

# By their bytes a, b and c come first. By those of their keys the last two do, for a tag of its own stays as it is.
NAMES = ("a", "b", "c", "y", "p_{1}", "q_{2}")
WORKERS = (*(f"{language}-1" for language in LANGUAGES), "rust-2", "cpp-2", "node-2")
# On top of the run and the longest wait: start and close.
GRACE_SECONDS = 20.0
# How long a key may stay behind when all clients are closed.
STAY_SECONDS = 2.0


def arguments(parser):
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--wait", type=float, help="of each call, in seconds: 30, and 2 with --unsorted")
    parser.add_argument("--floor", type=int, help="how often each worker must win; default: twice a second")
    parser.add_argument("--unsorted", action="store_true", help="each takes its names one by one in its own order: must fail")


def heading(asked):
    return f"3 servers, {len(WORKERS)} workers, {len(NAMES)} names {'one by one' if asked.unsorted else 'together'} for {asked.seconds:g} s"


def play(asked, history, _seed):
    wait = (2 if asked.unsorted else 30) if asked.wait is None else asked.wait
    work = ":".join(["unsorted" if asked.unsorted else "several", *NAMES])
    orders = Orders(nodes=3, work=(work,), ttl=10_000, max_ttl=60_000, node_timeout=250, wait=int(1000 * wait), long=0, steady=1)
    end = time.monotonic_ns() + int(asked.seconds * 1e9)
    with Stage(orders.nodes) as stage:
        with Crew(history, lambda _: stage.urls(), orders, WORKERS, end=end) as crew:
            crew.join(asked.seconds + wait + GRACE_SECONDS)
        left = leftovers(stage, range(1, len(stage) + 1), STAY_SECONDS)
    return crew.wrong + [f"{key.decode(errors='backslashreplace')} is left on node {number}" for number, key in left]


def halves(history):
    """Calls after which, for a time or for good, a worker had some of what it asked for together and not all."""
    taken = collections.defaultdict(list)
    for hold in history.holds:
        taken[hold.worker, hold.invoked].append(hold)
    found = []
    for worker, locks, invoked in history.wants:
        holds = taken.pop((worker, invoked), [])
        got = sorted(hold.lock for hold in holds)
        spans = {(hold.acquired, hold.until) for hold in holds}
        if holds and (got != sorted(locks) or len(spans) > 1):
            found.append(f"{worker} asked for {','.join(locks)} at {invoked} and got {','.join(got)} in {len(spans)} spans")
    found += [f"{worker} never asked for what it got at {invoked}" for worker, invoked in taken]
    return found


def unanswered(history):
    """Calls that neither won nor failed."""
    answered = {(hold.worker, hold.invoked) for hold in history.holds}
    answered |= {(worker, invoked) for worker, _, invoked, *_ in history.fails}
    return [(worker, invoked) for worker, _, invoked in history.wants if (worker, invoked) not in answered]


def judge(asked, path, verdict, workers=WORKERS):
    floor = int(2 * asked.seconds) if asked.floor is None else asked.floor
    history = read(path)
    doubles = sum(len(check.double_holds(holds)) for holds in history.locks.values())
    disorder = sum(len(check.disorder(holds)) for holds in history.locks.values())
    verdict.line(not doubles, f"{doubles} double holds of {len(history.holds)}")
    verdict.line(not disorder, f"{disorder} holds with a fence that is not larger than one before")
    check.agreement(history, path, verdict)
    half = halves(history)
    verdict.line(not half, f"{len(half)} calls held a part of what they asked for")
    for words in half[:5]:
        print(f"       {words}")
    kept = sum(map(len, history.kept.values()))
    verdict.line(not kept, f"{kept} holds were not given back")
    endless = unanswered(history)
    verdict.line(not endless, f"{len(endless)} calls never returned")
    used = [fail for fail in history.fails if fail[-1] in ("Timeout", "LockTimeoutError")]
    longest = max((hold.acquired - hold.invoked for hold in history.holds), default=0)
    verdict.line(not used, f"{len(used)} waits were used up; the longest that was not took {longest / 1e6:.0f} ms")
    others = collections.Counter(fail[-1] for fail in history.fails if fail not in used)
    verdict.line(not others, f"{sum(others.values())} calls failed otherwise {dict(others) or ''}".rstrip())
    wins = collections.Counter(worker for worker, _ in {(hold.worker, hold.invoked) for hold in history.holds})
    few = [worker for worker in workers if wins[worker] < floor]
    verdict.line(not few, f"each worker won at least {floor} times: {dict(sorted(wins.items()))}")
