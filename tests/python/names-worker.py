#!/usr/bin/env python3
"""A worker of the proof of several locks at once, as tests/names/README.md says:
names-worker.py blocking|asyncio NODES HISTORY WORKER NAMES END WAIT together|unsorted.
"""

import asyncio
import os
import random
import sys
import time

import quorlock
import quorlock.aio

HOLD_SECONDS = 0.008
REST_SECONDS = 0.004


class Blocking:
    """The blocking API, as coroutines that never wait: they have blocked before."""

    Client = quorlock.Client

    async def sleep(self, long):
        time.sleep(long)

    async def done(self, result):
        return result

    def run(self, coroutine):
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise RuntimeError("it waits")


class Asyncio:
    Client = quorlock.aio.Client

    def __init__(self):
        self.sleep = asyncio.sleep
        self.run = asyncio.run

    async def done(self, awaitable):
        return await awaitable


class Worker:
    def __init__(self, world, nodes, history, name, names, end, wait, how):
        self._world, self._name, self._names = world, name, names.split(",")
        self._history = os.open(history, os.O_WRONLY | os.O_APPEND)
        self._end, self._wait = int(end), int(wait) / 1000
        self._one_round = self._together if how == "together" else self._unsorted
        self._client = world.Client(nodes.split(","), label=name)

    def _write(self, kind, *words):
        os.write(self._history, (" ".join(map(str, [kind, self._name, *words])) + "\n").encode())

    def _take(self, lease, invoked, acquired):
        """Returns until when the lease was valid as it was taken."""
        # The clock was read before the lease is asked: the end may come out too early, never too late.
        until = acquired + int(lease.remaining() * 1e9)
        self._write("take", lease.name, invoked, acquired, until, lease.fence)
        return until

    def _give(self, held):
        at = time.monotonic_ns()
        for lease, until in held:
            self._write("give", lease.name, at, until)

    def _failed(self, wanted, invoked, error):
        wait = int(self._wait * 1000)
        self._write("fail", ",".join(wanted), invoked, time.monotonic_ns(), wait, type(error).__name__)

    async def _together(self, wanted, invoked):
        """All by one call."""
        try:
            leases = await self._world.done(self._client.lock_all(wanted, wait=self._wait).acquire())
        except quorlock.QuorlockError as error:
            self._failed(wanted, invoked, error)
            return
        acquired = time.monotonic_ns()
        held = [(lease, self._take(lease, invoked, acquired)) for lease in leases]
        await self._world.sleep(random.uniform(0, HOLD_SECONDS))
        self._give(held)
        if not await self._world.done(leases.release()):
            raise RuntimeError("a lease was lost before its release")

    async def _unsorted(self, wanted, invoked):
        """One after the other, in the order in which they are wanted: what goes wrong."""
        held = []
        try:
            for name in wanted:
                lease = await self._world.done(self._client.lock(name, wait=self._wait).acquire())
                held.append((lease, self._take(lease, invoked, time.monotonic_ns())))
            await self._world.sleep(random.uniform(0, HOLD_SECONDS))
        except quorlock.QuorlockError as error:
            self._failed(wanted, invoked, error)
        self._give(held)
        for lease, _ in held:
            await self._world.done(lease.release())

    async def work(self):
        while time.monotonic_ns() < self._end:
            wanted, invoked = random.sample(self._names, random.randint(2, 4)), time.monotonic_ns()
            self._write("want", ",".join(wanted), invoked)
            await self._one_round(wanted, invoked)
            await self._world.sleep(random.uniform(0, REST_SECONDS))
        await self._world.done(self._client.close())


if __name__ == "__main__":
    chosen = {"blocking": Blocking, "asyncio": Asyncio}[sys.argv[1]]()
    chosen.run(Worker(chosen, *sys.argv[2:]).work())
