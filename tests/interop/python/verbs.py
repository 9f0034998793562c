"""What an adapter does with a library's locks: lines in, lines out, as ../README.md has them.

The locks that it serves have three methods: `acquire(name, ms, wait)` says whether it was won, tried once or waited for as the
library waits; `release()` whether it was still held, as far as the library tells; `extend(ms)` the same, and `None` where the
library extends nothing.
"""

import os
import random
import sys
import time

# Long enough for a busy machine: no lock of the counter ends by its time.
LOOP_MS = 10_000
STAY_SECONDS = 0.001


def pause(least, most):
    time.sleep(random.uniform(least, most))


def loop(locks, name, cycles, path, who, how):
    """This many times: the last number of the file is read under the lock, and the next one is written behind it."""
    for _ in range(cycles):
        while not locks.acquire(name, LOOP_MS, how == "waits"):
            pause(0.001, 0.005)
        with open(path, "rb") as file:
            lines = file.read().splitlines()
        number = int(lines[-1].split()[0]) if lines else 0
        time.sleep(STAY_SECONDS)
        # One write at the end of the file: two of them at once are two lines.
        out = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(out, b"%d %s\n" % (number + 1, who.encode()))
        os.close(out)
        if not locks.release():
            return "failed: the lock was not held any more when it was released"
        pause(0, 0.003)
    return "done"


def answer(locks, verb, words):
    if verb == "try":
        return "held" if locks.acquire(words[0], int(words[1]), False) else "refused"
    if verb == "hold":
        if locks.acquire(words[0], int(words[1]), False):
            return "held"
        say("waiting")
        return "held" if locks.acquire(words[0], int(words[1]), True) else "refused"
    if verb == "release":
        return "released" if locks.release() else "lost"
    if verb == "extend":
        extended = locks.extend(int(words[0]))
        return "none" if extended is None else "extended" if extended else "lost"
    if verb == "loop":
        return loop(locks, words[0], int(words[1]), *words[2:])
    return f"failed: no verb {verb}"


def say(words):
    print(words, flush=True)


def serve(locks, version):
    say(f"ready {version}")
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            said = answer(locks, verb, words)
        except Exception as error:
            said = "failed: " + f"{type(error).__name__}: {error}".replace("\n", " ")[:400]
        say(said)
    # Libraries leave threads behind.
    os._exit(0)
