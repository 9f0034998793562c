#!/usr/bin/env python3
"""What threads of the core share, in all interleavings of their steps: the tests of the core named `loom_tests`.

One build with `--cfg quorlock_loom`, which puts loom's locks in place of the system's (core/src/sync.rs), of the copy that has the seeded
bugs (sim/bugs.py). The flag is our own: crates that we use take `--cfg loom` for themselves. Each bug that `sim/caught.txt` names with the
word `loom` has to make its test fail: a wake-up that is lost is a deadlock there. Ends with `N passed, M failed`.
"""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "sim"))

import bugs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
CAUGHT = ROOT / "tests" / "sim" / "caught.txt"
TARGET = ROOT / "target" / "loom"
# A model that does not end is not explored.
SECONDS = 300


def cargo(*words, bug="", **options):
    env = dict(os.environ, RUSTFLAGS="--cfg quorlock_loom --cfg mutants -A warnings", CARGO_TARGET_DIR=str(TARGET),
               QUORLOCK_MUTANT=bug)
    command = ["cargo", "test", "--quiet", "--locked", "-p", "quorlock", "--lib", *words]
    return subprocess.run(command, cwd=bugs.TREE, env=env, text=True, **options)


def outcome(test, bug):
    """How many tests of that name passed and failed, and what they say."""
    try:
        done = cargo("--", "--test-threads=1", "--show-output", test, bug=bug, stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return (0, 1), f"no end after {SECONDS} s"
    found = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed", done.stdout)
    return tuple(map(int, found.groups())) if found else (0, 1), done.stdout


def main():
    bugs.copy()
    cargo("--no-run", check=True)
    (passed, failed), said = outcome("loom_tests", "")
    explored = re.findall(r"---- (\S+) stdout ----\n(\d+ interleavings)", said)
    print(*([said] if failed else [f"ok   {test}: {count}" for test, count in explored]), sep="\n", flush=True)
    for line in CAUGHT.read_text().splitlines():
        bug, test, by = line.split()
        if by != "loom":
            continue
        counted, said = outcome(test, bug)
        good = counted == (0, 1) and "panicked" in said
        passed, failed = passed + good, failed + (not good)
        why = re.search(r"panicked at [^\n]*\n([^\n]*)", said)
        print(f"{'ok  ' if good else 'FAIL'} {bug:24} {test}: {why[1][:80] if why else 'it is not seen'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
