#!/usr/bin/env python3
"""Which seeded bugs the checker of traces refuses, of those that fall over links: each in the schedule in which the simulator catches it.

Every one that S1 to S5, K1, RW or SE catch has to be refused. `accepted.txt` names the others that are not, each with its reason; one that is
refused and stands there, or is accepted and does not, fails. Ends with `N passed, M failed`.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "sim"))

import bugs  # noqa: E402
import mutants  # noqa: E402

# Of safety: no reason excuses these.
SAFETY = re.compile(r"(S[1-5]|K1|RW\d|SE\d)$")
FLOOR = 150


def reasons():
    lines = (HERE / "accepted.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def over_links():
    """The seed of each bug that falls over links."""
    return {name: by for name, (by, _) in mutants.remembered().items() if re.fullmatch(r"\d+", by)}


def judge(name, invariant, verdict, excused):
    """What is wrong with a verdict, if anything is."""
    if verdict == "refused":
        return "it stands in accepted.txt, and is refused" if name in excused else ""
    if SAFETY.match(invariant):
        return f"{invariant} catches it, and the checker accepts it"
    return "" if name in excused else f"{invariant} catches it, and the checker accepts it without a reason"


def main():
    # The judge fails for each of these.
    for case in [("a", "S1", "accepted", {"a": "why"}), ("a", "L1", "accepted", {}), ("a", "L1", "refused", {"a": "why"})]:
        assert judge(*case), case
    bugs.copy()
    mutants.cargo("build", "--release", "-q", "-p", "quorlock-proof", "--bin", "quorlock-proof", check=True)
    excused, passed, failed = reasons(), 0, 0
    words = [f"{name}={seed}" for name, seed in sorted(over_links().items())]
    command = [bugs.TARGET / "release" / "quorlock-proof", "mutants", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        for line in run.stdout:
            name, seed, invariant, verdict, *why = line.split(" ", 4)
            wrong = judge(name, invariant, verdict, excused)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            text = " ".join(why).strip()[:120]
            print(f"{'FAIL' if wrong else 'ok  '} {name:32} {seed} {invariant} {verdict}: {wrong or excused.get(name) or text}", flush=True)
    for name in sorted(set(excused) - set(over_links())):
        failed += 1
        print(f"FAIL {name}: no such bug falls over links")
    if passed < FLOOR:
        failed += 1
        print(f"FAIL fewer than {FLOOR}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
