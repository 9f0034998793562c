#!/usr/bin/env python3
"""Eight processes of all languages ask for random subsets of six names, in any order: nobody waits in a ring, and nobody holds
half of what it asked for. README.md says the rest.

    names.py [--seconds S] [--wait SECONDS] [--floor HOLDS] [--unsorted]

Ends with `N passed, M failed`.
"""

import argparse
import collections
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
ROOT = os.path.dirname(TESTS)
sys.path[:0] = [HERE, TESTS, os.path.join(TESTS, "faults")]

import check  # noqa: E402
import check2  # noqa: E402
from faults import leftovers  # noqa: E402
from history import Writer, read  # noqa: E402
from stage import Stage  # noqa: E402

# By their bytes a, b and c come first. By those of their keys the last two do, for a tag of its own stays as it is.
NAMES = ("a", "b", "c", "y", "p_{1}", "q_{2}")
PYTHON = [sys.executable, os.path.join(TESTS, "python", "names-worker.py")]
LANGUAGES = {
    "rust": [os.path.join(ROOT, "target", "release", "names-worker")],
    "c": [os.path.join(ROOT, "target", "c", "bin", "names-worker-c")],
    "c++": [os.path.join(ROOT, "target", "c", "bin", "names-worker-cpp")],
    "blocking": [*PYTHON, "blocking"],
    "asyncio": [*PYTHON, "asyncio"],
    "node": ["node", os.path.join(TESTS, "node", "names-worker.mjs")],
}
WORKERS = ("rust-1", "rust-2", "c-1", "c++-1", "blocking-1", "asyncio-1", "node-1", "node-2")
# On top of the run and the longest wait: start and close.
GRACE_SECONDS = 20.0
# How long a key may stay behind when all clients are closed.
STAY_SECONDS = 2.0
HISTORY = os.path.join(ROOT, "target", "names-history")


def run(folder, path, seconds, wait, how):
    """Lets the workers write the history; returns what they did wrong, and the keys that they left."""
    wrong = []
    with Stage(3) as stage:
        end = time.monotonic() + seconds
        words = [",".join(NAMES), str(int(end * 1e9)), str(int(wait * 1000)), how]
        workers = {}
        try:
            for name in WORKERS:
                with open(os.path.join(folder, name), "w") as said:
                    command = [*LANGUAGES[name.rpartition("-")[0]], ",".join(stage.urls()), path, name, *words]
                    workers[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            for name, worker in workers.items():
                try:
                    status = worker.wait(max(0.0, end - time.monotonic()) + wait + GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    wrong.append(f"{name} does not end")
                    continue
                if status:
                    with open(os.path.join(folder, name), errors="replace") as said:
                        wrong.append(f"{name} ended with status {status}: {said.read()[-1500:].strip()}")
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()
        left = leftovers(stage, range(1, len(stage) + 1), STAY_SECONDS)
    return wrong, left


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


def judge(path, workers, floor):
    """Prints the verdict on a history, and returns it."""
    history, verdict = read(path), check.Verdict()
    doubles = sum(len(check.double_holds(holds)) for holds in history.locks.values())
    disorder = sum(len(check.disorder(holds)) for holds in history.locks.values())
    verdict.line(not doubles, f"{doubles} double holds of {len(history.holds)}")
    verdict.line(not disorder, f"{disorder} holds with a fence that is not larger than one before")
    ours, theirs = check.figures(history), check2.judge(path)
    verdict.line(ours == theirs, f"two checkers count {ours} and {theirs} (holds, doubles, disorder, repeated fences)")
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
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--wait", type=float, help="of each call, in seconds: 30, and 2 with --unsorted")
    parser.add_argument("--floor", type=int, help="how often each worker must win; default: twice a second")
    parser.add_argument("--unsorted", action="store_true", help="each takes its names one by one in its own order: must fail")
    asked = parser.parse_args()
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    missing = [word for command in LANGUAGES.values() for word in command if os.sep in word and not os.path.exists(word)]
    if missing:
        print(f"there is no {missing[0]}: run `make build` first", file=sys.stderr)
        return 2
    wait = (2 if asked.unsorted else 30) if asked.wait is None else asked.wait
    floor = int(2 * asked.seconds) if asked.floor is None else asked.floor
    if os.path.exists(HISTORY):
        os.remove(HISTORY)
    Writer(HISTORY).close()
    with tempfile.TemporaryDirectory(prefix="qlnames") as folder:
        wrong, left = run(folder, HISTORY, asked.seconds, wait, "unsorted" if asked.unsorted else "together")
    verdict = judge(HISTORY, WORKERS, floor)
    verdict.line(not left, f"{len(left)} keys left behind")
    for number, key in left[:5]:
        print(f"       on node {number}: {key.decode(errors='backslashreplace')}")
    verdict.line(not wrong, f"{len(wrong)} workers failed")
    for words in wrong:
        print(f"       {words}")
    print(f"{verdict.passed} passed, {len(verdict.failed)} failed")
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
