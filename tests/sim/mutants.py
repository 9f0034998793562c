#!/usr/bin/env python3
"""Every seeded bug must be caught by the simulator: by an invariant, not by an assertion.

The bugs are the `mutant!("name", right, wrong)` places of the core. One build with `--cfg mutants` carries all of them;
the environment variable QUORLOCK_MUTANT chooses. Prints a line for each, then `N passed, M failed`.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOOR = 8


def names():
    found = []
    for path in sorted((ROOT / "core" / "src").rglob("*.rs")):
        if path.name != "mutants.rs":
            found += re.findall(r'mutant!\(\s*"([a-z-]+)"', path.read_text())
    if len(set(found)) != len(found):
        sys.exit("two mutants share a name")
    return sorted(found)


def build():
    target = ROOT / "target" / "mutants"
    env = dict(os.environ, RUSTFLAGS="--cfg mutants", CARGO_TARGET_DIR=str(target))
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "quorlock-sim"], cwd=ROOT, env=env, check=True)
    return target / "release" / "quorlock-sim"


def run(binary, schedules, mutant):
    env = dict(os.environ, QUORLOCK_MUTANT=mutant)
    done = subprocess.run([binary, "run", "--schedules", str(schedules)], env=env, capture_output=True, text=True, timeout=900)
    caught = re.search(r"^seed (\d+) \(schedule (\d+)\): (\S+)(.*)$", done.stdout, re.M)
    return done.returncode, caught


def main():
    schedules = int(os.environ.get("SCHEDULES", "100000"))
    binary = build()
    passed = failed = 0

    def report(name, good, text):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {name:24} {text}", flush=True)

    code, _ = run(binary, 10_000, "")
    report("(none)", code == 0, "the same build without a bug violates nothing in 10000 schedules")
    for name in names():
        code, caught = run(binary, schedules, name)
        good = code == 1 and caught is not None and re.fullmatch(r"[SL]\d", caught[3]) is not None
        report(name, good, f"schedule {caught[2]}: {caught[3]}{caught[4]}" if caught else f"not caught in {schedules}")
    if passed + failed <= FLOOR:
        print(f"fewer than {FLOOR} mutants")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
