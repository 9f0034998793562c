"""A package that was built for a free-threaded Python, tried on it: many threads without the GIL, and asyncio beside them."""

import asyncio
import sys
import threading

from quorlock import Client, LockBusyError, redlock

assert not sys._is_gil_enabled(), "the package has switched the GIL on again"
THREADS, TIMES = 8, 200
NODES = ["memory://free-threaded"]
counter, inside, overlaps = 0, 0, 0


def count(client):
    """Adds without any other lock: what two of them do at once is lost, or seen."""
    global counter, inside, overlaps
    for _ in range(TIMES):
        with redlock("counter", client=client):
            inside += 1
            overlaps += inside != 1
            before = counter
            counter = before + 1
            inside -= 1


def all_at_once(work):
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def in_tasks(client):
    async def one():
        async with redlock("tasks", client=client) as lease:
            return lease.fence
    fences = await asyncio.gather(*(one() for _ in range(100)))
    assert len(set(fences)) == 100, fences


def main():
    with Client(NODES) as client, Client(NODES) as other:
        clients = [client, other] * THREADS
        all_at_once(lambda: count(clients.pop()))
        assert (counter, overlaps) == (THREADS * TIMES, 0), (counter, overlaps)
        asyncio.run(in_tasks(client))
        # One object from many threads: one has it, and each of the others is told so.
        lock, won, lost = client.lock("once"), [], []

        def try_it():
            try:
                won.append(lock.acquire(wait=0))
            except LockBusyError:
                lost.append(1)

        all_at_once(try_it)
        assert (len(won), len(lost)) == (1, THREADS - 1), (won, lost)
        all_at_once(won[0].is_held)
        won[0].release()
        # A lease that threads give up at once is given up once.
        lease = client.lock("given-up").acquire()
        all_at_once(lease.release)
        assert not lease.is_held()
    assert not sys._is_gil_enabled()
    print(f"free-threaded {sys.version.split()[0]}: 4 passed, 0 failed")


if __name__ == "__main__":
    main()
