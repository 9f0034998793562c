#!/usr/bin/env python3
"""A candidate of the runs with leaders, as tests/leaders/README.md says: `leaders-worker.py blocking` or `… asyncio`."""

import asyncio
import os
import sys
import time

import quorlock
import quorlock.aio

NAME = os.environ["LEADERS_NAME"]
ELECTION = os.environ["LEADERS_ELECTION"]
HISTORY = os.open(os.environ["LEADERS_HISTORY"], os.O_WRONLY | os.O_APPEND)
TTL, STEP, CARELESS = (float(os.environ[f"LEADERS_{name}"]) / 1000 for name in ("TTL", "STEP", "CARELESS"))
OPTIONS = {"nodes": os.environ["QUORLOCK_NODES"], "label": NAME, "ttl": TTL}


def write(*words):
    os.write(HISTORY, (" ".join(map(str, words)) + "\n").encode())


class Work:
    """What goes into the history of one process."""

    fence = 0

    def begin(self, term):
        self.fence = term.fence
        self._end = time.monotonic_ns() + int(CARELESS * 1e9)
        self.look("begin", term)

    def look(self, kind, term):
        """Looks at the term and writes how it is. Returns whether to go on."""
        # The clock is read before the term is asked: what it says is true of then, too.
        now = time.monotonic_ns()
        held = bool(CARELESS) or term.is_held()
        write(kind, NAME, term.fence, int(held), now, now + int(term.remaining() * 1e9))
        return now < self._end if CARELESS else held

    def ended(self, term):
        write("ended", NAME, term.fence, time.monotonic_ns())

    def lost(self, reason):
        write("lost", NAME, self.fence, reason, time.monotonic_ns())

    def stopped(self):
        write("stopped", NAME, self.fence, time.monotonic_ns())


def blocking():
    work = Work()

    def steps(term):
        try:
            work.begin(term)
            while work.look("step", term):
                time.sleep(STEP)
        finally:
            work.ended(term)

    election = quorlock.Client(**OPTIONS).election(ELECTION)
    election.run(steps, again=True, on_lost=work.lost, on_stopped=work.stopped)


async def tasks():
    work = Work()

    async def steps(term):
        try:
            work.begin(term)
            while work.look("step", term):
                await asyncio.sleep(STEP)
        finally:
            work.ended(term)

    async def careless(term):
        # A task that nobody cancels is how to be careless in asyncio.
        await asyncio.shield(asyncio.create_task(steps(term)))

    election = quorlock.aio.Client(**OPTIONS).election(ELECTION)
    await election.run(careless if CARELESS else steps, again=True, on_lost=work.lost, on_stopped=work.stopped)


if __name__ == "__main__":
    if sys.argv[1] == "blocking":
        blocking()
    else:
        asyncio.run(tasks())
