"""Blocking peers: each makes, for a worker's name, a function that acquires and one that releases what came of it.

`+fast` and `+safe` after a peer's name are its best settings, see README.md.
"""

import secrets
import threading
import time

from py_meter import (DRAIN_SECONDS, HELD_TTL, INSIDE_SECONDS, TTL, WARM_CYCLES, Contest, Held, Meter, now, quorlock_options,
                      ready, wait_line)

DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def address(url):
    host, _, port = url.removeprefix("redis://").partition(":")
    return host, int(port)


def redis_clients(words):
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    options = {}
    if "fast" in words.settings:
        options["single_connection_client"] = words.workers == 1
    if "safe" in words.settings:
        options.update(socket_timeout=0.1, socket_connect_timeout=0.1, retry=Retry(NoBackoff(), 0))
    # Not from_url: it leaves out what the constructor sets by default.
    return [redis.Redis(host=host, port=port, **options) for host, port in map(address, words.nodes)]


def quorlock(words):
    import quorlock

    client = quorlock.Client(words.nodes, ttl=TTL, **quorlock_options(words))
    return lambda name: (client.lock(name).acquire, quorlock.Lease.release)


def redis_py(words):
    [client] = redis_clients(words)

    # Of those that wait, the fast ones ask each millisecond.
    sleep = 0.001 if "fast" in words.settings else 0.1

    def make(name):
        lock = client.lock(name, timeout=TTL, sleep=sleep, thread_local="fast" not in words.settings)
        return lock.acquire, lambda _: lock.release()

    return make


def python_redis_lock(words):
    import redis_lock

    [client] = redis_clients(words)

    def make(name):
        lock = redis_lock.Lock(client, name, expire=TTL)
        return lock.acquire, lambda _: lock.release()

    return make


def hand(words):
    clients = redis_clients(words)
    quorum = len(clients) // 2 + 1
    scripts = [client.register_script(DELETE) for client in clients]

    def make(name):
        def release(token):
            for script in scripts:
                try:
                    script(keys=[name], args=[token])
                except Exception:
                    pass  # a node that is down: the others decide
            return True

        def acquire():
            token, votes = secrets.token_hex(20), 0
            for client in clients:
                try:
                    votes += bool(client.set(name, token, nx=True, px=TTL * 1000))
                except Exception:
                    pass
            if votes >= quorum:
                return token
            release(token)
            return None

        return acquire, release

    return make


def redlock_py(words):
    from redlock import Redlock

    manager = Redlock(redis_clients(words) if words.settings else words.nodes)
    return lambda name: (lambda: manager.lock(name, TTL * 1000), manager.unlock)


def pottery(words):
    from pottery import Redlock

    clients = redis_clients(words)

    def make(name):
        lock = Redlock(key=name, masters=clients, auto_release_time=TTL)
        return lock.acquire, lambda _: lock.release()

    return make


PEERS = {"quorlock": quorlock, "redis-py": redis_py, "python-redis-lock": python_redis_lock, "hand": hand,
         "redlock-py": redlock_py, "pottery": pottery}


def cycles(meter, acquire, release, end, shared):
    times = []
    while (begun := now()) < end:
        try:
            held = acquire()
            if held and shared:
                meter.enter()
                time.sleep(INSIDE_SECONDS)
                meter.leave()
            if held:
                release(held)
            else:
                meter.failures += 1
        except Exception as error:
            meter.failed(error)
        times.append(now() - begun)
    meter.times += times


def run(words):
    make, meter = PEERS[words.base](words), Meter()
    warm, go, end = threading.Barrier(words.workers + 1), threading.Event(), [0]

    def worker(number):
        acquire, release = make("bench" if words.shared else f"bench-{number}")
        for _ in range(2 if words.shared else max(2, WARM_CYCLES // words.workers)):
            release(acquire())
        warm.wait()
        go.wait()
        cycles(meter, acquire, release, end[0], words.shared)

    # One worker is the main thread itself: no other thread wants the interpreter then.
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(words.workers)] if words.workers > 1 else []
    for thread in threads:
        thread.start()
    if threads:
        warm.wait()
    else:
        acquire, release = make("bench-0")
        for _ in range(WARM_CYCLES):
            release(acquire())
    if words.gate:
        ready()
        wait_line()
    end[0] = meter.start(words.seconds)
    go.set()
    for thread in threads:
        thread.join()
    if not threads:
        cycles(meter, acquire, release, end[0], False)
    meter.stop()
    meter.tell(words.peer)
    if words.gate:
        wait_line()


def contender(contest, number, acquire, release):
    holds, clock = contest.histories[number], time.monotonic_ns
    while clock() < contest.end:
        held = None
        try:
            held = acquire()
            if not held:
                contest.failures += 1
                continue
            holds.extend((number, clock(), 0, 0))
            if contest.stay and clock() < contest.end:
                time.sleep(contest.stay)
            holds[-2] = clock()
            release(held)
        except Exception as error:
            contest.failed(error)
        if held:
            holds[-1] = clock()


def contend(words):
    make, contest = PEERS[words.base](words), Contest(words)
    warm, go = threading.Barrier(words.workers + 1), threading.Event()

    def worker(number):
        acquire, release = make(contest.warm_name(number))
        for _ in range(max(2, WARM_CYCLES // words.workers)):
            release(acquire())
        pair = make("bench")
        warm.wait()
        go.wait()
        contender(contest, number, *pair)

    threads = [threading.Thread(target=worker, args=(i,), daemon=True) for i in range(words.workers)]
    for thread in threads:
        thread.start()
    warm.wait()
    if words.gate:
        ready()
        wait_line()
    contest.start()
    go.set()
    time.sleep(words.seconds)
    contest.stop()
    patience = now() + DRAIN_SECONDS * 1e9
    for thread in threads:
        thread.join(max(0, (patience - now()) / 1e9))
    contest.tell(sum(thread.is_alive() for thread in threads))
    if words.gate:
        wait_line()


def hold(words):
    import quorlock

    held = Held()
    client = quorlock.Client(words.nodes, ttl=HELD_TTL)
    leases = [client.lock(f"bench-{i}").acquire() for i in range(words.workers)]
    held.acquired()
    if words.gate:
        ready()
        wait_line()
    held.watch()
    time.sleep(words.seconds)
    held.tell(words.peer, len(leases), sum(not lease.is_held() for lease in leases))
    if words.gate:
        wait_line()
    client.close()
