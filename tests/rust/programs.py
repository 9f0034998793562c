#!/usr/bin/env python3
"""Runs programs that are drawn, of src/bin/programs: tests/rust/programs.py [PROGRAMS [SEED]]

PROGRAMS (20,000) from SEED (0) on nodes within their process, and a twentieth of them on a real server. Ends with
`N passed, M failed`.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))

from stage import Stage, ensure_server  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "release", "programs")


def run(count, seed, **environment):
    """How many passed and failed; a program that ends without a count has failed."""
    done = subprocess.run([PROGRAM, "--programs", str(count), "--from", str(seed)], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})
    lines = done.stdout.splitlines()
    print(*lines[:-1], sep="\n", end="\n" if lines[:-1] else "")
    found = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1] if lines else "")
    return (int(found[1]), int(found[2])) if found else (0, count)


def main():
    count, seed = [int(word) for word in sys.argv[1:]] + [20_000, 0][len(sys.argv) - 1:]
    ensure_server()
    counts = [run(count, seed)]
    with Stage(1) as stage:
        counts.append(run(count // 20, seed, QUORLOCK_NODES=stage.urls()[0]))
    passed, failed = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
