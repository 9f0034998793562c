"""Peers for asyncio: as in py_blocking.py, with functions to be awaited."""

import asyncio
import ctypes
import os
import pathlib
import secrets
import time

from py_blocking import DELETE, address
from py_meter import (DRAIN_SECONDS, HELD_TTL, INSIDE_SECONDS, TTL, WARM_CYCLES, Contest, Held, Meter, now, quorlock_options,
                      ready, wait_line)


def redis_clients(words):
    import redis.asyncio
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    options = {}
    if "fast" in words.settings:
        options["single_connection_client"] = words.workers == 1
    if "safe" in words.settings:
        options.update(socket_timeout=0.1, socket_connect_timeout=0.1, retry=Retry(NoBackoff(), 0))
    return [redis.asyncio.Redis(host=host, port=port, **options) for host, port in map(address, words.nodes)]


def quorlock(words):
    import quorlock.aio

    client = quorlock.aio.Client(words.nodes, ttl=TTL, **quorlock_options(words))
    return lambda name: (client.lock(name).acquire, quorlock.aio.Lease.release)


def redis_py(words):
    [client] = redis_clients(words)

    def make(name):
        lock = client.lock(name, timeout=TTL, thread_local="fast" not in words.settings)
        return lock.acquire, lambda _: lock.release()

    return make


def hand(words):
    clients = redis_clients(words)
    quorum = len(clients) // 2 + 1
    scripts = [client.register_script(DELETE) for client in clients]

    def make(name):
        async def release(token):
            await asyncio.gather(*(script(keys=[name], args=[token]) for script in scripts), return_exceptions=True)

        async def acquire():
            token = secrets.token_hex(20)
            votes = await asyncio.gather(*(client.set(name, token, nx=True, px=TTL * 1000) for client in clients),
                                         return_exceptions=True)
            if sum(vote is True for vote in votes) >= quorum:
                return token
            await release(token)
            return None

        return acquire, release

    return make


def pottery(words):
    from pottery import AIORedlock

    clients = redis_clients(words)

    def make(name):
        lock = AIORedlock(key=name, masters=clients, auto_release_time=TTL)
        return lock.acquire, lambda _: lock.release()

    return make


def aioredlock(words):
    from aioredlock import Aioredlock

    manager = Aioredlock(words.nodes, internal_lock_timeout=TTL)
    # A timeout of its own means: do not renew. That is less work than ours.
    timeout = TTL if "fast" in words.settings else None
    return lambda name: (lambda: manager.lock(name, timeout), manager.unlock)


def raw_native(words):
    """For one worker: a cycle writes to one descriptor and waits for another, twice."""
    bench = pathlib.Path(__file__).resolve().parent
    hop = ctypes.CDLL(str(bench.parents[1] / "target" / "bench" / "libhop.so"))
    hop.hop_open(",".join(words.nodes).encode(), "plain" in words.settings)
    wake, bell = hop.hop_wake(), hop.hop_bell()
    loop, over = asyncio.get_running_loop(), None

    def told():
        os.eventfd_read(bell)
        over.set_result(True)

    async def step(_=None):
        nonlocal over
        over = loop.create_future()
        os.eventfd_write(wake, 1)
        return await over

    loop.add_reader(bell, told)
    return lambda name: (step, step)


PEERS = {"quorlock": quorlock, "raw-native": raw_native, "redis-py": redis_py, "hand": hand, "pottery": pottery,
         "aioredlock": aioredlock}


async def cycles(meter, acquire, release, end, shared):
    times = []
    while (begun := now()) < end:
        try:
            held = await acquire()
            if held and shared:
                meter.enter()
                await asyncio.sleep(INSIDE_SECONDS)
                meter.leave()
            if held:
                await release(held)
            else:
                meter.failures += 1
        except Exception as error:
            meter.failed(error)
        times.append(now() - begun)
    meter.times += times


async def gate(words, first):
    """Waits for the other side without stopping the loop: requests under way must get on."""
    if words.gate:
        if first:
            ready()
        await asyncio.get_running_loop().run_in_executor(None, wait_line)


async def run(words):
    make, meter = PEERS[words.base](words), Meter()
    pairs = [make("bench" if words.shared else f"bench-{i}") for i in range(words.workers)]

    async def warm(acquire, release):
        for _ in range(2 if words.shared else max(2, WARM_CYCLES // words.workers)):
            await release(await acquire())

    await asyncio.gather(*(warm(*pair) for pair in pairs))
    await gate(words, True)
    end = meter.start(words.seconds)
    await asyncio.gather(*(cycles(meter, *pair, end, words.shared) for pair in pairs))
    meter.stop()
    meter.tell(words.peer)
    await gate(words, False)


async def contender(contest, number, acquire, release):
    holds, clock = contest.histories[number], time.monotonic_ns
    while clock() < contest.end:
        held = None
        try:
            held = await acquire()
            if not held:
                contest.failures += 1
                continue
            holds.extend((number, clock(), 0, 0))
            if contest.stay and clock() < contest.end:
                await asyncio.sleep(contest.stay)
            holds[-2] = clock()
            await release(held)
        except Exception as error:
            contest.failed(error)
        if held:
            holds[-1] = clock()


async def contend(words):
    make, contest = PEERS[words.base](words), Contest(words)

    async def warm(number):
        acquire, release = make(contest.warm_name(number))
        for _ in range(max(2, WARM_CYCLES // words.workers)):
            await release(await acquire())

    await asyncio.gather(*map(warm, range(words.workers)))
    await gate(words, True)
    contest.start()
    tasks = [asyncio.create_task(contender(contest, i, *make("bench"))) for i in range(words.workers)]
    await asyncio.sleep(words.seconds)
    contest.stop()
    _, late = await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
    contest.tell(len(late))
    await gate(words, False)


async def hold(words):
    held = Held()
    if words.base == "quorlock":
        import quorlock.aio

        client = quorlock.aio.Client(words.nodes, ttl=HELD_TTL)
        locks = [await client.lock(f"bench-{i}").acquire() for i in range(words.workers)]

        def is_held(lock):
            return lock.is_held()
    else:
        from aioredlock import Aioredlock

        client = Aioredlock(words.nodes, internal_lock_timeout=HELD_TTL)
        locks = [await client.lock(f"bench-{i}") for i in range(words.workers)]

        def is_held(lock):
            return lock.valid
    held.acquired()
    await gate(words, True)
    held.watch()
    await asyncio.sleep(words.seconds)
    held.tell(words.peer, len(locks), sum(not is_held(lock) for lock in locks))
    await gate(words, False)
    if words.base == "quorlock":
        await client.close()
