#!/usr/bin/env python3
"""`make sim SEED=n SHRINK=1` finds a shorter schedule, and what it prints can be replayed.

For seeded bugs that different oracles see: the shrunk history has at most a third of the lines of the whole one, ends with
the same violation, and comes again, line for line, from the command that was printed with it. The seeds are those of
`caught.txt`; where one is out of date, the next that catches the bug. Prints `N passed, M failed`.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bugs  # noqa: E402
from mutants import ROOT, TARGET, cargo, remembered  # noqa: E402

# One for each kind of oracle: time, what is on a node, leaks, waiting. The third is a scene's.
BUGS = ["counted-at-own-ttl", "dropped-attempt-stays", "any-server-takes-back", "given-lease-stays"]
# Of the search for one of them.
SECONDS = 5
# The time, who acts, what happens: tests/sim/README.md says so.
LINE = re.compile(r" *\d+\.\d{3} ms  (u\d+ c\d+|c\d+|n\d+|fault(:[\d.]+)?|world|VIOLATION) +\S.*")


def make(*words):
    command = ["make", "--no-print-directory", "sim", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600)
    return done.returncode, done.stdout


def history(output):
    return [line for line in output.splitlines() if LINE.fullmatch(line)]


def violation(lines):
    """What is violated, without whom, when and how much."""
    [last] = [line for line in lines if " ms  VIOLATION " in line]
    promise, *words = last.split("VIOLATION")[1].split()
    return [promise] + [word for word in words if not re.search(r"\d", word)]


def shrinks(bug, seed):
    """What is wrong with it, if anything is."""
    _, whole = make(f"SEED={seed}", f"MUTANT={bug}")
    _, shrunk = make(f"SEED={seed}", f"MUTANT={bug}", "SHRINK=1", f"SECONDS={SECONDS}")
    printed = re.search(r"^replay: make sim (.*)$", shrunk, re.MULTILINE)
    if not history(whole) or printed is None:
        return "no history, or no command that replays it"
    status, again = make(*printed[1].split())
    before, after = history(whole), history(shrunk)
    print(f"     {bug}: {len(before)} -> {len(after)} lines: make sim {printed[1]}")
    if 3 * len(after) > len(before):
        return f"{len(after)} lines of {len(before)} are more than a third"
    if violation(after) != violation(before):
        return f"another violation: {violation(after)} for {violation(before)}"
    if history(again) != after or not status:
        return "the printed command gives another history"
    return None


def refuses():
    status, _ = make("SEED=1", "WITHOUT=nonsense:1")
    return None if status else "takes a part that is none"


def main():
    bugs.copy()
    cargo("build", "--release", "-q", "--workspace", "--bin", "quorlock-sim", check=True)
    known = remembered()
    names = [f"{bug}={known[bug][0]}" for bug in BUGS]
    binary = TARGET / "release" / "quorlock-sim"
    caught = subprocess.run([binary, "mutants", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    cases = [(line.split()[0], lambda words=line.split(): shrinks(*words[:2])) for line in caught.stdout.splitlines()]
    failed = 0
    for name, case in [*cases, ("refuses what is no part", refuses)]:
        wrong = case()
        failed += wrong is not None
        print(f"{'ok  ' if wrong is None else 'FAIL'} {name}{f': {wrong}' if wrong else ''}", flush=True)
    print(f"{len(cases) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
