#!/usr/bin/env python3
"""A worker of the chaos runs, as tests/chaos/README.md says: `chaos-worker.py blocking` or `chaos-worker.py asyncio`."""

import asyncio
import os
import random
import socket
import sys
import threading
import time

import quorlock
import quorlock.aio

SLICE_SECONDS = 0.02
MAX_REST_SECONDS = 0.004
# The end of what needs no lock is later than that of any run.
UNLOCKED_SECONDS = 3600.0


def setting(name):
    return os.environ[f"CHAOS_{name}"]


NAME = setting("NAME")
HISTORY = os.open(setting("HISTORY"), os.O_WRONLY | os.O_APPEND)
END, HAND, LONG, STEADY = (int(setting(name)) for name in ("END", "HAND", "LONG", "STEADY"))
TTL, WAIT, HOLD, STEP, CARELESS = (float(setting(name)) / 1000 for name in ("TTL", "WAIT", "HOLD", "STEP", "CARELESS"))
OPTIONS = {"nodes": os.environ["QUORLOCK_NODES"], "label": NAME, "ttl": TTL, "wait": WAIT}


def write(kind, *words):
    os.write(HISTORY, (" ".join(map(str, [kind, NAME, *words])) + "\n").encode())


def failed(names, invoked, error, wait=WAIT, prefix=""):
    write("fail", names, invoked, time.monotonic_ns(), int(wait * 1000), prefix + type(error).__name__)


class Hold:
    """What the history knows of one lease, or of what needs none."""

    def __init__(self, name, lease, invoked, acquired):
        self.name, self.lease, self.invoked, self.acquired, self.until = name, lease, invoked, acquired, acquired
        self.shared = lease is not None and lease.is_shared()
        self.fence = getattr(lease, "fence", None) or 0
        self.look(acquired)
        write("share" if self.shared else "take", name, invoked, acquired, self.until, self.fence)

    def look(self, now):
        # The clock was read before the lease is asked: the end may come out too early, never too late.
        left = UNLOCKED_SECONDS if self.lease is None else self.lease.remaining()
        if left > 0:
            self.until = max(self.until, now + int(left * 1e9))


class Blocking:
    """The blocking API, as coroutines that never wait: they have blocked before."""

    def __init__(self):
        self.client = quorlock.Client(**OPTIONS)

    async def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(setting("RESOURCE"))
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

    async def lead(self, election):
        def steps(lease):
            with Term(lease) as term:
                while term.look("acts"):
                    time.sleep(STEP)

        election.run(steps, **TOLD)


class Asyncio:
    def __init__(self):
        self.client = quorlock.aio.Client(**OPTIONS)
        self.sleep = asyncio.sleep
        self.run = asyncio.run

    async def connect(self):
        self._reader, self._writer = await asyncio.open_unix_connection(setting("RESOURCE"))

    async def ask(self, *words):
        self._writer.write((" ".join(map(str, words)) + "\n").encode())
        return (await self._reader.readline()).decode().strip()

    async def done(self, awaitable):
        return await awaitable

    async def lead(self, election):
        async def steps(lease):
            with Term(lease) as term:
                while term.look("acts"):
                    await asyncio.sleep(STEP)

        async def careless(lease):
            # A task that nothing cancels is how to be careless in asyncio.
            await asyncio.shield(asyncio.create_task(steps(lease)))

        await election.run(careless if CARELESS else steps, **TOLD)


async def inside(world, holds):
    """Reads what the locks protect, holds them for a while, and writes it."""
    values = [await world.ask("look" if held.shared else "read", held.name, held.fence) for held in holds]
    long = random.uniform(TTL, 2 * TTL) if LONG and random.randrange(LONG) == 0 else random.uniform(0, HOLD)
    end = time.monotonic() + long
    while (left := end - time.monotonic()) > 0:
        await world.sleep(min(left, SLICE_SECONDS))
        for held in holds:
            held.look(time.monotonic_ns())
    # Held or not: a pause may come after any look, so it is the resource that must refuse.
    for held, value in zip(holds, values):
        if value != "stale" and not held.shared:
            await world.ask("write", held.name, held.fence, int(value) + 1)


def give(holds):
    # Written before the release: a worker that is killed while nodes have yet to answer has given the lock back.
    at = time.monotonic_ns()
    for held in holds:
        write("give", held.name, at, held.until)


async def won(world, lock, names, invoked, wait=WAIT):
    """What an acquire gives; nothing if it fails, which the history then says."""
    try:
        return await world.done(lock.acquire())
    except quorlock.QuorlockError as error:
        failed(names, invoked, error, wait)
        return None


async def released(world, lease):
    held = await world.done(lease.release())
    if STEADY and not held:
        raise RuntimeError("a lease was lost before its release")
    return held


async def one(world, name, lock, wait=WAIT, hand=0):
    """One lease of a lock. Returns its hold if the release says that it was held until then."""
    invoked = time.monotonic_ns()
    lease = await won(world, lock, name, invoked, wait)
    if lease is None:
        return None
    held = Hold(name if lease.slot is None else f"{name}.{lease.slot}", lease, invoked, time.monotonic_ns())
    await inside(world, [held])
    give([held])
    if hand and random.randrange(hand) == 0 and await handed(world, held):
        return None
    return held if await released(world, lease) else None


async def handed(world, held):
    """Whether the lease is another worker's to go on with; else it is held as before, or lost."""
    write("hand", held.name, time.monotonic_ns())
    try:
        text = await world.done(held.lease.export())
    except quorlock.QuorlockError:
        return False
    await world.ask("hand", held.name, held.fence, text)
    return True


async def adopt(world):
    """Goes on with a lease that a worker has exported, if one has."""
    told = await world.ask("next", "-", 0)
    if told == "none":
        return
    number, name, text = told.split()
    invoked = time.monotonic_ns()
    try:
        lease = await world.done(world.client.adopt(text))
    except quorlock.QuorlockError as error:
        failed(name, invoked, error, 0, "adopt:")
        return
    held = Hold(name, lease, invoked, time.monotonic_ns())
    write("adopted", name, number)
    await inside(world, [held])
    give([held])
    await world.done(lease.release())


def wanted(names):
    """Two to four of them, in any order, and since when they are wanted."""
    some, invoked = random.sample(names, random.randint(2, min(4, len(names)))), time.monotonic_ns()
    write("want", ",".join(some), invoked)
    return some, invoked


# ---- the workloads, each by its name ----

async def lock(world, name):
    await one(world, name, world.client.lock(name), hand=HAND)


async def shared(world, name):
    both = world.client.rwlock(name)
    await one(world, name, both.read() if random.random() < 0.75 else both.write())


async def slots(world, name, count):
    await one(world, name, world.client.semaphore(name, int(count)), hand=HAND)


async def keep(world, name, ms):
    held = await one(world, name, world.client.lock(name, wait=0, keep=float(ms) / 1000), 0)
    if held:
        write("keep", name, held.acquired, held.invoked + int(ms) * 1_000_000)


async def several(world, *names):
    some, invoked = wanted(names)
    leases = await won(world, world.client.lock_all(some), ",".join(some), invoked)
    if leases is None:
        return
    acquired = time.monotonic_ns()
    holds = [Hold(lease.name, lease, invoked, acquired) for lease in leases]
    await inside(world, holds)
    give(holds)
    await released(world, leases)


async def unsorted(world, *names):
    """One by one, in the order in which they are wanted, which goes wrong."""
    (some, invoked), holds = wanted(names), []
    for name in some:
        lease = await won(world, world.client.lock(name), ",".join(some), invoked)
        if lease is None:
            break
        holds.append(Hold(name, lease, invoked, time.monotonic_ns()))
    if len(holds) == len(some):
        await inside(world, holds)
    give(holds)
    for held in holds:
        await world.done(held.lease.release())


async def unlocked(world, name):
    """Without the lock, which goes wrong."""
    now = time.monotonic_ns()
    holds = [Hold(name, None, now, now)]
    await inside(world, holds)
    give(holds)


class Term:
    """What goes into the history of one term; beside an old one that careless work goes on with."""

    # Of the term that is last.
    fence = 0

    def __init__(self, lease):
        self._lease, self._end = lease, time.monotonic_ns() + int(CARELESS * 1e9)
        Term.fence = lease.fence

    def __enter__(self):
        self.look("leads")
        return self

    def __exit__(self, *_):
        write("ended", self._lease.fence, time.monotonic_ns())

    def look(self, kind):
        """Looks at the term and writes how it is. Returns whether to go on."""
        # The clock is read before the term is asked: what it says is true of then, too.
        now = time.monotonic_ns()
        held = bool(CARELESS) or self._lease.is_held()
        write(kind, self._lease.fence, int(held), now, now + int(self._lease.remaining() * 1e9))
        return now < self._end if CARELESS else held


TOLD = {"again": True, "on_lost": lambda reason: write("lost", Term.fence, reason, time.monotonic_ns()),
        "on_stopped": lambda: write("stopped", Term.fence, time.monotonic_ns())}


async def election(world, name):
    """Runs for it until the process is killed."""
    await world.lead(world.client.election(name))


async def job(world, jobs, ticks, every, begin, off):
    """A host that starts each job at each of its ticks, as cron does: by the time of day, which this host has wrong."""
    every, begin, off = (float(ms) / 1000 for ms in (every, begin, off))

    def cron(number):
        @quorlock.once(f"job-{number}", every=every, client=world.client)
        def report(tick):
            write("ran", number, tick)

        for tick in range(int(ticks)):
            time.sleep(max(0.0, begin + tick * every - (time.time() + off)))
            report(tick)

    threads = [threading.Thread(target=cron, args=(number,)) for number in range(int(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


WORKLOADS = {work.__name__: work for work in (lock, shared, slots, keep, several, unsorted, unlocked, election, job)}


async def work(world):
    await world.connect()
    works = [text.split(":") for text in setting("WORK").split()]
    while time.monotonic_ns() < END:
        if HAND:
            await adopt(world)
        workload, *words = random.choice(works)
        await WORKLOADS[workload](world, *words)
        await world.sleep(random.uniform(0, MAX_REST_SECONDS))
    await world.done(world.client.close())


if __name__ == "__main__":
    chosen = {"blocking": Blocking, "asyncio": Asyncio}[sys.argv[1]]()
    chosen.run(work(chosen))
