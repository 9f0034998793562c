"""Cycles of a lock in Python, as many as it is told: see tests/endurance.py.

    endurance.py blocking|asyncio|forks NAMES
"""

import asyncio
import gc
import os
import sys

import quorlock
import quorlock.aio

KIND, NAMES = sys.argv[1], int(sys.argv[2])
LEAK = bool(os.environ.get("QUORLOCK_LEAK"))
TASKS = 16
# In a forked child: enough to come by every name of a few.
CHILD_CYCLES = 20

kept = []
cycles = 0


def name():
    global cycles
    cycles += 1
    return f"endures:{cycles % NAMES}"


def blocking(client, count):
    for _ in range(count):
        with client.lock(name()) as lease:
            if LEAK:
                kept.append(lease)


async def in_asyncio(client, count):
    async def task():
        for _ in range(count // TASKS):
            async with client.lock(name()) as lease:
                if LEAK:
                    kept.append(lease)

    await asyncio.gather(*(task() for _ in range(TASKS)))


def forks(client, count):
    """Children of a process that holds a lease and goes on: each makes a client of its own."""
    for _ in range(count):
        # None of the names that the child comes by.
        with client.lock("forked"):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    with quorlock.Client() as own:
                        blocking(own, CHILD_CYCLES)
                    status = 0
                finally:
                    os._exit(status)
            if LEAK:
                kept.append(bytes(1 << 20))
                kept.append(os.dup(0))
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise SystemExit("a forked child has failed")
        blocking(client, CHILD_CYCLES)


def orders():
    # By hand: a buffered reader would take more than a line, and a child would have it too.
    while line := os.read(0, 64):
        yield int(line)
        gc.collect()
        print("done", sys.getallocatedblocks(), flush=True)


async def serve_asyncio():
    async with quorlock.aio.Client() as client:
        for count in orders():
            await in_asyncio(client, count)


def main():
    if KIND == "asyncio":
        return asyncio.run(serve_asyncio())
    with quorlock.Client() as client:
        for count in orders():
            (forks if KIND == "forks" else blocking)(client, count)


if __name__ == "__main__":
    main()
