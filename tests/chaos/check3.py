#!/usr/bin/env python3
"""The third judge of a history, which others wrote: check3.py HISTORY [NAME=SLOTS...]

It is porcupine, a checker of linearizability in Go. What it is asked are the models in porcupine/: a lock with fences, a lock with readers and
a semaphore, of which a loss is an operation as a release is. It gives one page with a picture for each lock. Where Go is not there,
or cannot build it, it says so and judges nothing; `test_check3.py` fails there.
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, "target", "porcupine", "judge")
# What porcupine has not decided by then is refused.
SECONDS = 60


def build():
    """Builds the program. Returns why that cannot be; nothing: it is built."""
    if not shutil.which("go"):
        return "there is no Go here"
    # What it downloads has to be what go.sum says.
    done = subprocess.run(["go", "build", "-mod=readonly", "-trimpath", "-o", PROGRAM, "."], cwd=os.path.join(HERE, "porcupine"),
                          capture_output=True, text=True)
    return f"Go cannot build it: {done.stderr.strip()[-300:]}" if done.returncode else ""


def command(path, slots, *words, seconds=SECONDS, least=1):
    told = ",".join(f"{name}={count}" for name, count in slots.items())
    return [PROGRAM, "-slots", told, "-seconds", str(seconds), "-least", str(least), *words, path]


def holds(path):
    with open(path) as file:
        return sum(line.startswith(("take ", "share ")) for line in file)


def judge(path, verdict, slots):
    """Adds porcupine's verdict on a history; its pages go into the folder `porcupine` beside that."""
    if why := build():
        print(f"     porcupine does not judge this run: {why}", flush=True)
        return
    pages, count = os.path.join(os.path.dirname(path), "porcupine"), holds(path)
    done = subprocess.run(command(path, slots, "-picture", pages, least=max(count, 1)), capture_output=True, text=True)
    print("".join(f"       {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="")
    verdict.line(done.returncode == 0, f"porcupine finds an order of {count} holds that the models permit"
                                       f" (a page for each lock: {os.path.relpath(pages, ROOT)})")


if __name__ == "__main__":
    from check import Verdict

    said = Verdict()
    judge(sys.argv[1], said, dict(word.split("=") for word in sys.argv[2:]))
    sys.exit(0 if said.passed and not said.failed else 1)
