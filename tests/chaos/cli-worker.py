#!/usr/bin/env python3
"""A worker of the fault runs that holds its locks by `quorlock run`: what it believes is what the command does, which beats as
long as it lives. Every second command ignores TERM. At SIGUSR1 the program that runs now is stopped, at SIGUSR2 it goes on.
"""

import ctypes
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time

import crew

NAME = os.environ["CHAOS_NAME"]
# It is for one lock, and what it says of a keep is for people. What is told of each workload as flags.
FLAGS = {"lock": lambda: [], "shared": lambda: ["--shared"] if random.random() < 0.75 else [], "slots": lambda count: ["--slots", count]}
WORKS = [work for work in (text.split(":") for text in os.environ["CHAOS_WORK"].split()) if work[0] in FLAGS]
HISTORY = os.open(os.environ["CHAOS_HISTORY"], os.O_WRONLY | os.O_APPEND)
END = int(os.environ["CHAOS_END"])
TTL_MS, WAIT_MS = (int(os.environ[f"CHAOS_{name}"]) for name in ("TTL", "WAIT"))
MAX_REST_SECONDS = 0.05
# This many ttls a command would like to live: most are cut short only by their own end, and a partition meets some.
LONGEST = 3
# Of a program that takes its time to start, and of its command that does, too.
PATIENCE = 0.5
BEATS = struct.Struct("=QQQQQ")
# The first moment, the last one, the fence, of a semaphore the slot, and when it was asked to end: for the worker, which outlives it.
COMMAND = """
import mmap, os, signal, struct, sys, time
page = mmap.mmap(int(sys.argv[1]), 40)
asked = 0
def told(*_):
    global asked
    asked = time.monotonic_ns()
if sys.argv[3] == "stubborn":
    signal.signal(signal.SIGTERM, told)
now = begun = time.monotonic_ns()
end = begun + int(sys.argv[2])
fence = int(os.environ["QUORLOCK_FENCE"])
slot = int(os.environ["QUORLOCK_SLOT"] or 0)
while now < end:
    page[:] = struct.pack("=QQQQQ", begun, now, fence, slot, asked)
    time.sleep(0.0003)
    now = time.monotonic_ns()
"""


def end_with_us():
    """The program does not outlive its worker, stopped or not: then its warden ends the command."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def once(page, fd):
    """One run of the program; what it was, goes into the history."""
    page[:] = bytes(BEATS.size)
    lives = int(random.uniform(0, LONGEST) * TTL_MS * 1e6)
    manner = random.choice(["stubborn", "willing"])
    # Behind what is waited for there is as much time again for the start of two programs.
    wait = f"{WAIT_MS * PATIENCE:.0f}ms"
    workload, name, *words = random.choice(WORKS)
    flags = FLAGS[workload](*words)
    invoked = time.monotonic_ns()
    program = subprocess.Popen(
        [*crew.CLI, "run", "-q", "--json", "-", "-w", wait, "--ttl", f"{TTL_MS}ms", "--label", NAME, *flags, name, "--", sys.executable, "-I", "-S", "-c", COMMAND, str(fd), str(lives), manner],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[fd], preexec_fn=end_with_us)
    signal.signal(signal.SIGUSR1, lambda *_: program.send_signal(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: program.send_signal(signal.SIGCONT))
    said = [json.loads(line) for line in program.communicate()[0].splitlines()]
    begun, last, fence, slot, asked = BEATS.unpack(page[:])
    if begun:
        if asked and any(one["event"] == "lost" and one["reason"] in ("refused", "forced") for one in said):
            # It was lost without notice, for too many nodes had lost their votes: nothing can end the command before, and one
            # that ignores TERM lives for the grace.
            last = min(last, asked)
        # Each slot is a lock of its own to the history.
        lock = f"{name}.{slot}" if workload == "slots" else name
        # Until behind the last beat, by as much as a command that is not held up takes to the next.
        line = f"{'share' if '--shared' in flags else 'take'} {NAME} {lock} {invoked} {begun} {last + 1} {fence}\ngive {NAME} {lock} {last} {last + 1}\n"
        os.write(HISTORY, line.encode())
    # Permissions are taken away by faults, too.
    if program.returncode not in (0, 69, 75, 76, 78, 128 + signal.SIGTERM, 128 + signal.SIGKILL):
        sys.exit(f"the program ended with {program.returncode}")


def main():
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    fd = os.memfd_create("beats")
    os.ftruncate(fd, BEATS.size)
    with mmap.mmap(fd, BEATS.size) as page:
        while time.monotonic_ns() < END:
            once(page, fd)
            time.sleep(random.uniform(0, MAX_REST_SECONDS))


if __name__ == "__main__":
    main()
