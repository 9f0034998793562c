#!/usr/bin/env python3
"""A worker of the demo, as tests/demo/README.md says: demo-worker.py NODES LEDGER LOG SECONDS on|off."""

import contextlib
import os
import random
import sys
import time

import quorlock

PAUSE_SECONDS = 0.001
TURN_SECONDS = 0.004


def add_one(ledger):
    """What the lock is for: between the read and the write nobody else may write."""
    balance = int(os.pread(ledger, 20, 0))
    time.sleep(PAUSE_SECONDS)
    os.pwrite(ledger, b"%019d\n" % (balance + 1), 0)


def main(nodes, ledger_path, log_path, seconds, lock_word):
    ledger = os.open(ledger_path, os.O_RDWR)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    end = time.monotonic() + float(seconds)
    lost = 0
    with contextlib.ExitStack() as stack:
        lock = None
        if lock_word == "on":
            lock = stack.enter_context(quorlock.Client(nodes.split(","))).lock("demo:ledger")
        while time.monotonic() < end:
            asked = time.monotonic_ns()
            lease = lock.acquire() if lock else None
            entered = time.monotonic_ns()
            fence = b" %d" % lease.fence if lease else b""
            os.write(log, b"enter %d %d%s\n" % (entered, entered - asked, fence))
            add_one(ledger)
            os.write(log, b"exit %d\n" % time.monotonic_ns())
            if lease and not lease.release():
                print("a lease was lost before its release", file=sys.stderr)
                lost += 1
            time.sleep(random.uniform(0, TURN_SECONDS))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
