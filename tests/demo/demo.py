#!/usr/bin/env python3
"""Processes of several languages, one lock, one ledger, five servers of which two fail. README.md says the rest."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from ledger import Log, balance, overlaps, percentile, refused  # noqa: E402
from stage import Stage  # noqa: E402

NODES = 5
KILLED, HUNG = 2, 4
TICK_SECONDS = 0.5
# On top of the run itself: start, the last wait for the lock, close.
GRACE_SECONDS = 30.0
# language: (how many, command, what makes it). A command may be replaced by QUORLOCK_DEMO_<LANGUAGE>.
WORKERS = {
    "python": (2, [sys.executable, os.path.join(ROOT, "tests", "python", "demo-worker.py")], "make build"),
    "rust": (2, [os.path.join(ROOT, "target", "release", "demo-worker")], "make build"),
    "c": (1, [os.path.join(ROOT, "target", "c", "bin", "demo-worker-c")], "make build"),
    "c++": (1, [os.path.join(ROOT, "target", "c", "bin", "demo-worker-cpp")], "make build"),
    "node": (2, ["node", os.path.join(ROOT, "tests", "node", "demo-worker.mjs")], "make build"),
}


class Worker:
    def __init__(self, language, number, command, folder, nodes, seconds, lock):
        self.language, self.name = language, f"{language}-{number}"
        self.log = Log(os.path.join(folder, f"{self.name}.log"))
        self._complaints = open(os.path.join(folder, f"{self.name}.err"), "w+")
        words = [",".join(nodes), os.path.join(folder, "ledger"), self.log.path, str(seconds), lock]
        self._process = subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL, stdout=self._complaints,
                                         stderr=subprocess.STDOUT)

    def running(self):
        return self._process.poll() is None

    def end(self):
        """Ends it if it still runs; returns what was wrong with it, or nothing."""
        hung = self.running()
        if hung:
            self._process.kill()
        status = self._process.wait()
        self.log.follow()
        self._complaints.seek(0)
        said = self._complaints.read().strip()
        self._complaints.close()
        wrong = "did not end" if hung else f"status {status}" if status else self.log.broken
        if not wrong and not self.log.holds:
            wrong = "never had the lock"
        return f"{self.name}: {wrong}" + (f"\n{said[-2000:]}" if said else "") if wrong else None


class Progress:
    """One line, rewritten on a terminal, and printed anew elsewhere."""

    def __init__(self):
        self._rewritten = sys.stdout.isatty()
        self._before = 0

    def show(self, seconds, workers, stage):
        by_language = {}
        for worker in workers:
            by_language[worker.language] = by_language.get(worker.language, 0) + len(worker.log.holds)
        total = sum(by_language.values())
        states = " ".join(f"{number}:{ {'up': 'up', 'stopped': 'hung', 'dead': 'dead'}[stage.state(number)]}"
                          for number in range(1, NODES + 1))
        line = (f"{seconds:5.1f} s  {total:6d} holds (+{total - self._before})  "
                + "  ".join(f"{language} {count}" for language, count in by_language.items()) + f"  nodes {states}")
        self._before = total
        print(f"\r{line}\033[K" if self._rewritten else line, end="" if self._rewritten else "\n", flush=True)

    def say(self, line):
        print(("\n" if self._rewritten else "") + line, flush=True)


def commands():
    """The table with every command that may be run, or a word on what is missing."""
    found = {}
    for language, (count, command, maker) in WORKERS.items():
        command = shlex.split(os.environ.get(f"QUORLOCK_DEMO_{language.upper()}", "")) or command
        missing = [path for path in command if os.sep in path and not os.path.exists(path)]
        if missing:
            print(f"there is no {missing[0]}: run `{maker}` first", file=sys.stderr)
            raise SystemExit(2)
        found[language] = (count, command)
    return found


def run(stage, workers, seconds):
    """Follows the workers until they have ended, and lets two nodes fail on the way. Returns when the last one failed."""
    progress, begun, failed = Progress(), time.monotonic(), 0
    faults = [(seconds / 3, lambda: stage.kill(KILLED), f"node {KILLED} is killed"),
              (seconds * 2 / 3, lambda: stage.stop(HUNG), f"node {HUNG} hangs")]
    while True:
        passed = time.monotonic() - begun
        for worker in workers:
            worker.log.follow()
        while faults and passed >= faults[0][0]:
            _, fail, words = faults.pop(0)
            fail()
            failed = time.monotonic_ns()
            progress.say(f"{passed:5.1f} s  {words}")
        progress.show(passed, workers, stage)
        if not any(worker.running() for worker in workers) or passed > seconds + GRACE_SECONDS:
            progress.say("")
            return failed
        time.sleep(TICK_SECONDS)


def report(workers, wrong, ledger, lock):
    """Prints the table and the verdict; returns the exit status."""
    print(f"{'process':<12}{'holds':>8}{'p50 ms':>10}{'p99 ms':>10}")
    for worker in workers:
        p50, p99 = (percentile(worker.log.waits, part) / 1e6 for part in (50, 99))
        print(f"{worker.name:<12}{len(worker.log.holds):>8}{p50:>10.2f}{p99:>10.2f}")
    holds = sum(len(worker.log.holds) for worker in workers)
    lost = holds - balance(ledger)
    logs = [worker.log for worker in workers]
    overlapping, late, fenced = overlaps(logs), refused(logs), sum(len(log.writes) for log in logs)
    print(f"\n{holds} holds, {lost} lost updates, {overlapping} overlaps, {late} of {fenced} writes with a fence refused"
          + (" (LOCK=off)" if lock == "off" else ""))
    if lock == "on" and not fenced:
        wrong.append("no write had a fence")
    for line in wrong:
        print(line)
    return 1 if lost or overlapping or late or wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("DEMO_SECONDS") or 12))
    parser.add_argument("--lock", choices=["on", "off"], default=os.environ.get("LOCK") or "on")
    asked = parser.parse_args()
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    table = commands()
    workers, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="qldemo") as folder, Stage(NODES) as stage:
        ledger = os.path.join(folder, "ledger")
        with open(ledger, "w") as file:
            file.write(f"{0:019d}\n")
        print(f"{NODES} servers; {', '.join(f'{count} {language}' for language, (count, _) in table.items())} "
              f"processes for {asked.seconds:g} s; lock {asked.lock}", flush=True)
        try:
            for language, (count, command) in table.items():
                for number in range(1, count + 1):
                    workers.append(Worker(language, number, command, folder, stage.urls(), asked.seconds, asked.lock))
            failed = run(stage, workers, asked.seconds)
        finally:
            wrong = list(filter(None, [worker.end() for worker in workers]))
        if not any(entered > failed for worker in workers for entered, _ in worker.log.holds):
            wrong.append("nobody had the lock after the last fault")
        return report(workers, wrong, ledger, asked.lock)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
