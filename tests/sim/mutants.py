#!/usr/bin/env python3
"""Every seeded bug must be caught by the simulator: by an invariant, not by an assertion.

The bugs are the `mutant!("name", right, wrong)` places of the core and of the simulator's network and clock, which stand
for the connection and the system's. One build with `--cfg mutants` carries all of them, and one process runs them one
after another on all cores, each until the first schedule that catches it. Prints a line for each, then
`N passed, M failed`. SCHEDULES bounds the schedules for each; those in RARE may need more, and are left to `make full`.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOOR = 95
# Bugs that are hard to reach: only judged with at least so many schedules.
RARE_SCHEDULES = 1_000_000
RARE = ("confirm-lowers", "record-before-quarantine")
# The numbers of the list of mutations that the protocol's analysis asks for.
NUMBERS = {
    "quorum-of-half": 1,
    "fence-without-write-back": 7,
    "fence-of-one-vote": 8,
    "confirm-unowned": 9,
    "pure-counters": 10,
    "no-quarantine": 11,
    "half-quarantine": 12,
    "repair-without-fence": 23,
    "repairs-in-quarantine": 25,
    "resend-counts-again": 27,
    "same-server-twice": 28,
    "record-ignored": 29,
    "not-ready-is-a-refusal": 46,
    "no-clamp": 48,
    "confirm-lowers": 51,
    "release-unowned": 2,
    "end-from-reply": 3,
    "no-validity-check": 4,
    "start-taken-late": 5,
    "drift-added": 6,
    "loss-not-sticky": 13,
    "any-answer-renews": 14,
    "token-per-client": 15,
    "extend-unowned": 16,
    "late-vote-revives": 17,
    "largest-end": 18,
    "no-drift": 19,
    "rates-beyond-drift": 20,
    "undo-what-granted": 21,
    "no-undo-unless-granted": 22,
    "repair-after-loss": 24,
    "renewal-shortens": 26,
    "tie-never-decided": 32,
    "renews-after-release": 38,
    "cancel-leaks": 39,
    "clock-stops-in-suspend": 40,
    "failure-is-a-vote": 45,
}


def names():
    found = []
    for folder in ("core/src", "tests/sim/src"):
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if path.name != "mutants.rs":
                found += re.findall(r'mutant!\(\s*"([a-z-]+)"', path.read_text())
    if len(set(found)) != len(found):
        sys.exit("two mutants share a name")
    unknown = (set(NUMBERS) | set(RARE)) - set(found)
    if unknown:
        sys.exit(f"no such mutants: {unknown}")
    return sorted(found)


def build():
    target = ROOT / "target" / "mutants"
    env = dict(os.environ, RUSTFLAGS="--cfg mutants", CARGO_TARGET_DIR=str(target))
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "quorlock-sim"], cwd=ROOT, env=env, check=True)
    return target / "release" / "quorlock-sim"


def main():
    schedules = int(os.environ.get("SCHEDULES", "100000"))
    binary = build()
    passed = failed = 0

    def report(name, good, text):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {NUMBERS.get(name, ''):>3} {name:24} {text}", flush=True)

    plain = subprocess.run([binary, "run", "--schedules", "20000"], stdout=subprocess.PIPE, text=True, timeout=900)
    report("(none)", plain.returncode == 0, "the same build and seeds without a bug violate nothing in 20000 schedules")
    judged = names()
    wanted = [name for name in judged if name not in RARE or schedules >= RARE_SCHEDULES]
    command = [binary, "mutants", "--schedules", str(schedules), *wanted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        lines = [line.split(" ", 2) for line in run.stdout]
    caught = {name: (seed, text.strip()) for name, seed, text in lines}
    for name in wanted:
        seed, text = caught.get(name, ("-", "no verdict"))
        good = re.match(r"[SL]\d ", text) is not None
        report(name, good, f"schedule {seed}: {text}" if good else text)
    for name in sorted(set(judged) - set(wanted)):
        print(f"     {name}: only with {RARE_SCHEDULES} schedules")
    if passed <= FLOOR:
        print(f"fewer than {FLOOR} mutants")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
