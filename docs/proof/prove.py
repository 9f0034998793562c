#!/usr/bin/env python3
"""`make prove`: all that shows that the rules hold, and that the code follows them, in under ten minutes on two cores.

Z3 runs beside TLC, which is followed by the checker of traces. Each part ends with `N passed, M failed`, or as cargo's tests do; so does this program, with the sum.
A part whose tool cannot be had fails. Only some parts: `prove.py z3 tlc graph traces worlds bugs guards`,
of which `guards` runs only where it is named.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = ROOT / "target" / "proof"
VENV = TARGET / "venv"
CHECKER = ROOT / "target" / "release" / "quorlock-proof"
REQUIREMENTS = HERE / "requirements.txt"


def solver():
    """The Python that has Z3, in an environment of its own."""
    made = VENV / ".made-from"
    wanted = REQUIREMENTS.read_text()
    if not made.exists() or made.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS], check=True)
        made.write_text(wanted)
    return VENV / "bin" / "python"


def python(*words):
    return [sys.executable, *words]


# What runs beside what: each row is a line of parts, one after the other.
PARTS = {
    "z3": lambda: [solver(), HERE / "z3" / "check.py"],
    "tlc": lambda: python(HERE / "tla" / "check.py"),
    "guards": lambda: python(HERE / "tla" / "check.py", "--guards"),
    "graph": lambda: ["sh", "-c", f"{sys.executable} {HERE}/tla/check.py --dump smallest && {CHECKER} graph smallest {TARGET}/dump/smallest.dot"],
    "traces": lambda: [CHECKER, "histories", "--schedules", "10000"],
    "worlds": lambda: ["cargo", "test", "--quiet", "--locked", "-p", "quorlock", "--lib", "exhaustive::", "--", "--include-ignored", "--nocapture"],
    "bugs": lambda: python(ROOT / "tests" / "proof" / "mutants.py"),
}
LINES = [["z3", "traces", "worlds"], ["tlc", "graph", "bugs", "guards"]]
# By hand: it takes each guard out of the specification in turn.
BY_HAND = {"guards"}


def run(name):
    begun = time.monotonic()
    log = TARGET / f"{name}.log"
    try:
        with log.open("w") as file:
            status = subprocess.run([os.fspath(word) for word in PARTS[name]()], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file,
                                    stderr=subprocess.STDOUT).returncode
        text = log.read_text()
    except (OSError, subprocess.CalledProcessError) as error:
        status, text = 1, str(error)
    counts = re.findall(r"^(?:test result: \w+\. )?(\d+) passed[,;] (\d+) failed", text, re.MULTILINE)
    passed, failed = map(int, counts[-1]) if counts else (0, 1)
    failed = max(failed, int(status != 0 or not passed))
    print(f"{'FAIL' if failed else 'ok  '} {name:<8} {passed:6d} passed {failed:3d} failed {time.monotonic() - begun:6.1f} s", flush=True)
    if failed:
        print("    " + "\n    ".join(text.splitlines()[-40:]), flush=True)
    return passed, failed


def main():
    wanted = sys.argv[1:] or [name for name in PARTS if name not in BY_HAND]
    unknown = [word for word in wanted if word not in PARTS]
    if unknown:
        print(f"no part {unknown[0]!r}: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    TARGET.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = pool.map(lambda line: [run(name) for name in line if name in wanted], LINES)
        passed, failed = map(sum, zip(*(counts for line in done for counts in line)))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
