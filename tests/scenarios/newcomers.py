#!/usr/bin/env python3
"""Newcomers beside a live queue: newcomers.py [--nodes N] [--tries T] COMMAND...

Clients queue for one lock on real servers and pass it on as fast as they can, so that at any time some of them wait. Runners
of the scenario files (COMMAND, one of a language) try to take it meanwhile without waiting. Each try must find it taken:
docs/explanation/waiting.md says that no newcomer passes a queue. Half of the tries are a new client's first, which asks by plain commands; the
others follow on a refusal, and ask by script. The last line is `N passed, M failed`, where each runner's tries are counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import quorlock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stage import Stage  # noqa: E402

# This many queue. One holds the lock and one is called; the rest is the queue.
WAITERS = 6
RUNNERS = 2
# Longer than anything here takes.
PATIENCE = 30.0
# A waiter who is called and does not come loses its turn after 200 ms (docs/explanation/waiting.md). Where the whole line stood still for most of
# that, as its process had no CPU, a try that wins proves nothing: the same is played again, so often at most.
STILL, AGAIN = 0.15, 2


class Line:
    """Clients that pass the lock on until they are told to stop."""

    def __init__(self, urls):
        self._urls = urls
        self._stop = threading.Event()
        self._moved = threading.Condition()
        self._turns = [0] * WAITERS
        self._last, self.still = time.monotonic(), 0.0
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WAITERS)]

    def _work(self, number):
        with quorlock.Client(self._urls) as client:
            while not self._stop.is_set():
                with client.lock("k", wait=PATIENCE):
                    pass
                with self._moved:
                    self._turns[number] += 1
                    now = time.monotonic()
                    self.still, self._last = max(self.still, now - self._last), now
                    self._moved.notify_all()

    def turns(self):
        return sum(self._turns)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        with self._moved:
            if not self._moved.wait_for(lambda: all(self._turns), PATIENCE):
                raise TimeoutError(f"the line does not move: {self._turns}")
            self.still = 0.0
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def newcomer(nodes, tries):
    """A scenario file of this many tries, two by each client."""
    lines = [f"nodes {nodes}"]
    for number in range(tries // 2):
        lines += [f"client C{number}", f"lock L{number} C{number} k"]
        lines += [f"try X{number} L{number} -> none", f"try Y{number} L{number} -> none", f"close C{number}"]
    return "\n".join([*lines, ""])


def run(nodes, tries, command):
    for _ in range(AGAIN):
        passed, failed, still = once(nodes, tries, command)
        if not failed or still < STILL:
            return passed, failed
        print(f"the line stood still for {still * 1e3:.0f} ms: once more", flush=True)
    return once(nodes, tries, command)[:2]


def once(nodes, tries, command):
    """How many tries were refused, how many runs were not as they should be, and for how long the line stood still at most."""
    with Stage(nodes) as stage, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "newcomer.scenario"
        file.write_text(newcomer(nodes, tries))
        environment = dict(os.environ, QUORLOCK_SCENARIO=str(file), QUORLOCK_STAGE="false", QUORLOCK_NODES=",".join(stage.urls()))
        with Line(stage.urls()) as line:
            before = line.turns()
            runners = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                       for _ in range(RUNNERS)]
            try:
                said = [(runner.communicate(timeout=600)[0].strip(), runner.returncode) for runner in runners]
            finally:
                for runner in runners:
                    runner.kill()
            moved, still = line.turns() - before, line.still
    print(f"{nodes} nodes: {RUNNERS * tries} tries, while the lock was passed on {moved} times, at most {still * 1e3:.0f} ms apart")
    failed = 0
    for text, status in said:
        if status:
            failed += 1
            print(f"FAIL {text or f'status {status}'}")
    # Tries beside a line that stands still would prove nothing.
    if moved < tries // 10:
        failed += 1
        print(f"FAIL the lock was passed on {moved} times only")
    return 0 if failed else RUNNERS * tries, failed, still


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, action="append", metavar="N", help="on this many servers; may be repeated (1, 3 and 5)")
    parser.add_argument("--tries", type=int, default=200, metavar="T", help="of each runner, on each number of servers (200)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if not asked.command:
        parser.error("which runner?")
    counts = [run(nodes, asked.tries, asked.command) for nodes in asked.nodes or (1, 3, 5)]
    passed, failed = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
