#!/usr/bin/env python3
"""A worker of the fault runs, as tests/faults/README.md says: `faults-worker.py blocking` or `faults-worker.py asyncio`."""

import asyncio
import inspect
import os
import random
import socket
import sys
import time

import quorlock
import quorlock.aio

SLICE_SECONDS = 0.02
MAX_REST_SECONDS = 0.004
NAME = os.environ["FAULTS_NAME"]
LOCKS = os.environ["FAULTS_LOCKS"].split(",")
HISTORY = os.open(os.environ["FAULTS_HISTORY"], os.O_WRONLY | os.O_APPEND)
END = int(os.environ["FAULTS_END"])


def seconds(name):
    return float(os.environ[f"FAULTS_{name}"]) / 1000


TTL, WAIT, HOLD = seconds("TTL"), seconds("WAIT"), seconds("HOLD")
HAND = int(os.environ["FAULTS_HAND"])


def options(client):
    found = {"nodes": os.environ["QUORLOCK_NODES"], "label": NAME, "ttl": TTL, "wait": WAIT,
             "max_ttl": seconds("MAX_TTL"), "node_timeout": seconds("NODE_TIMEOUT"),
             "wait_replicas": int(os.environ["FAULTS_WAIT_REPLICAS"])}
    guard = os.environ.get("FAULTS_GUARD")
    # Without such an option the guard is as if off.
    if guard and (guard != "off" or "restart_guard" in inspect.signature(client).parameters):
        found["restart_guard"] = guard
    return found


def hold_seconds():
    """Short as a rule; now and then long enough to be renewed."""
    return random.uniform(TTL, 2 * TTL) if random.random() < 0.005 else random.uniform(0, HOLD)


def write(*words):
    os.write(HISTORY, (" ".join(map(str, words)) + "\n").encode())


class Hold:
    """What goes into the history of one hold."""

    def __init__(self, lock, lease, invoked):
        # The clock is read before the lease is asked: the end may come out too early, never too late.
        self.lock, self.lease, now = lock, lease, time.monotonic_ns()
        self.acquired = now
        self.fence = getattr(lease, "fence", None) or 0
        self.until = now + int(lease.remaining() * 1e9)
        write("share" if lease.is_shared() else "take", NAME, lock, invoked, now, self.until, self.fence)

    def look(self):
        now = time.monotonic_ns()
        left = self.lease.remaining()
        if left > 0:
            self.until = max(self.until, now + int(left * 1e9))

    def give(self):
        write("give", NAME, self.lock, time.monotonic_ns(), self.until)


class Blocking:
    """The blocking API, as coroutines that never wait: they have blocked before."""

    def __init__(self):
        self.client = quorlock.Client(**options(quorlock.Client))

    async def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ["FAULTS_RESOURCE"])
        self._stream = connection.makefile("rw")

    async def ask(self, *words):
        self._stream.write(" ".join(map(str, words)) + "\n")
        self._stream.flush()
        return self._stream.readline().strip()

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
    def __init__(self):
        self.client = quorlock.aio.Client(**options(quorlock.aio.Client))
        self.sleep = asyncio.sleep
        self.run = asyncio.run

    async def connect(self):
        self._reader, self._writer = await asyncio.open_unix_connection(os.environ["FAULTS_RESOURCE"])

    async def ask(self, *words):
        self._writer.write((" ".join(map(str, words)) + "\n").encode())
        return (await self._reader.readline()).decode().strip()

    async def done(self, awaitable):
        return await awaitable


def lock_of(client, word):
    """What gives the lock of a word; the semaphore of `NAME*SLOTS`; of `NAME&` a lock that three of four share; of `NAME%KEEP` one
    that is kept for so many ms, of `NAME+NAME` both."""
    if "+" in word:
        both_at_once = client.lock_all(word.split("+"))
        return lambda: both_at_once
    if "%" in word:
        name, _, keep = word.partition("%")
        kept = client.lock(name, wait=0, keep=float(keep) / 1000)
        return lambda: kept
    if word.endswith("&"):
        both = client.rwlock(word[:-1])
        return lambda: both.read() if random.random() < 0.75 else both.write()
    name, _, slots = word.partition("*")
    lock = client.semaphore(name, int(slots)) if slots else client.lock(name)
    return lambda: lock


def held_as(word, lease):
    """What the history knows it by: each slot is a lock of its own."""
    name, _, slots = word.rstrip("&").partition("%")[0].partition("*")
    return f"{name}.{lease.slot}" if slots else name


async def work(world):
    await world.connect()
    locks = {word: lock_of(world.client, word) for word in LOCKS}
    while time.monotonic_ns() < END:
        if HAND:
            await go_on(world)
        word = random.choice(LOCKS)
        lock = locks[word]()
        invoked = time.monotonic_ns()
        if "+" in word:
            write("want", NAME, word.replace("+", ","), invoked)
        try:
            lease = await world.done(lock.acquire())
        except quorlock.QuorlockError as error:
            failed(word, invoked, error, "%" not in word)
        else:
            leases = list(lease) if "+" in word else [lease]
            holds = [Hold(one.name if "+" in word else held_as(word, one), one, invoked) for one in leases]
            await hold(world, holds)
            if HAND and (word.isalpha() or "*" in word) and random.randrange(HAND) == 0 and await handed(world, holds[0]):
                continue
            if await world.done(lease.release()) and "%" in word:
                write("keep", NAME, holds[0].lock, holds[0].acquired, invoked + int(word.partition("%")[2]) * 1_000_000)
        await world.sleep(random.uniform(0, MAX_REST_SECONDS))
    await world.done(world.client.close())


def failed(word, invoked, error, waits=True, prefix=""):
    write("fail", NAME, word, invoked, time.monotonic_ns(), int(WAIT * 1000) * waits, prefix + type(error).__name__)


async def go_on(world):
    """Goes on with a lease that a worker has exported, if one has."""
    told = await world.ask("next", "-", 0)
    if told == "none":
        return
    number, lock, text = told.split()
    invoked = time.monotonic_ns()
    try:
        lease = await world.done(world.client.adopt(text))
    except quorlock.QuorlockError as error:
        failed(lock, invoked, error, False, "adopt:")
        return
    held = Hold(lock, lease, invoked)
    write("adopted", NAME, lock, number)
    await hold(world, [held])
    await world.done(lease.release())


async def handed(world, held):
    """Whether the lease is another's to go on with; else it is held as before, or lost."""
    write("hand", NAME, held.lock, time.monotonic_ns())
    try:
        text = await world.done(held.lease.export())
    except quorlock.QuorlockError:
        return False
    await world.ask("hand", held.lock, held.fence, text)
    return True


async def hold(world, holds):
    """Up to where they are given back."""
    shared = holds[0].lease.is_shared()
    values = [await world.ask("look" if shared else "read", held.lock, held.fence) for held in holds]
    end = time.monotonic() + hold_seconds()
    while (left := end - time.monotonic()) > 0:
        await world.sleep(min(left, SLICE_SECONDS))
        for held in holds:
            held.look()
    # Held or not: a pause may come after any look, so it is the resource that must refuse.
    for held, value in zip(holds, values):
        if value != "stale" and not shared:
            await world.ask("write", held.lock, held.fence, int(value) + 1)
    # Written before: a worker that is killed while nodes have yet to answer has given the lock back.
    for held in holds:
        held.give()


if __name__ == "__main__":
    chosen = {"blocking": Blocking, "asyncio": Asyncio}[sys.argv[1]]()
    chosen.run(work(chosen))
