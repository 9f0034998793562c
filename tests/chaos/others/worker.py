"""A worker on one of Python's locks: `worker.py LIBRARY`. README.md says what it does, and what its environment has."""

import os
import random
import socket
import sys
import time

NAME, KEY = os.environ["NAME"], "ledger"
TTL = int(os.environ["TTL"])
NODES = os.environ["NODES"].split(",")
SENTINELS = [tuple(one.rsplit(":", 1)) for one in os.environ.get("SENTINELS", "").split(",") if one]
# After an acquire that has failed: a library that fails at once is not asked again at once.
REST_SECONDS = 0.01


class Ledger:
    def __init__(self):
        self._stream = socket.create_connection(("127.0.0.1", int(os.environ["LEDGER"]))).makefile("rw")

    def ask(self, *words):
        self._stream.write(" ".join(map(str, words)) + "\n")
        self._stream.flush()
        return self._stream.readline().split()


class Unlocked:
    """No lock at all: what the other figures are measured against."""

    fence = 0

    def acquire(self):
        return True

    def look(self):
        """Whether the library says that it has lost the lock; that of most has no such word."""
        return False

    def release(self):
        pass


class RedisPy(Unlocked):
    def __init__(self):
        import redis
        from redis.sentinel import Sentinel

        self.client = Sentinel(SENTINELS).master_for(os.environ["MASTER"]) if SENTINELS else redis.Redis.from_url(NODES[0])

    def acquire(self):
        self.lock = self.client.lock(KEY, timeout=TTL / 1000)
        return self.lock.acquire()

    def release(self):
        self.lock.release()


class PythonRedisLock(RedisPy):
    def acquire(self):
        import redis_lock

        # It counts in whole seconds.
        self.lock = redis_lock.Lock(self.client, KEY, expire=TTL // 1000, auto_renewal=True)
        return self.lock.acquire()


class RedlockPy(Unlocked):
    def __init__(self):
        import redlock

        self.redlock = redlock.Redlock(NODES)

    def acquire(self):
        self.lock = self.redlock.lock(KEY, TTL)
        return bool(self.lock)

    def release(self):
        self.redlock.unlock(self.lock)


class Pottery(Unlocked):
    def __init__(self):
        import redis

        self.masters = {redis.Redis.from_url(url) for url in NODES}

    def acquire(self):
        import pottery

        self.lock = pottery.Redlock(key=KEY, masters=self.masters, auto_release_time=TTL / 1000)
        return self.lock.acquire()

    def release(self):
        self.lock.release()


class Quorlock(Unlocked):
    def __init__(self):
        import quorlock

        self.client = quorlock.Client(os.environ["NODES"], ttl=TTL / 1000, max_ttl=TTL / 1000, label=NAME)

    def acquire(self):
        self.lease = self.client.lock(KEY).acquire()
        self.fence = self.lease.fence
        return True

    def look(self):
        return not self.lease.is_held()

    def release(self):
        self.lease.release()


class Unasked(Quorlock):
    def look(self):
        return False


LIBRARIES = {"unlocked": Unlocked, "redis-py": RedisPy, "python-redis-lock": PythonRedisLock, "redlock-py": RedlockPy,
             "pottery": Pottery, "quorlock": Quorlock,
             "quorlock-one": Quorlock, "quorlock-unasked": Unasked}


def attempt(ledger, lock):
    """One round; what goes wrong in the library is told by its name, and the next round begins."""
    try:
        held, why = lock.acquire(), "refused"
    except Exception as error:
        held, why = False, type(error).__name__
    if not held:
        ledger.ask("failed", why)
        time.sleep(random.uniform(0, REST_SECONDS))
        return
    number, *think = ledger.ask("read", KEY, lock.fence)
    if number != "stale":
        time.sleep(int(think[0]) / 1000)
        if lock.look():
            ledger.ask("lost")
        else:
            ledger.ask("write", KEY, lock.fence, int(number) + 1)
    try:
        lock.release()
    except Exception as error:
        ledger.ask("unreleased", type(error).__name__)


def main():
    lock, ledger = LIBRARIES[sys.argv[1]](), Ledger()
    ledger.ask("hello", NAME)
    while ledger.ask("next") == ["go"]:
        attempt(ledger, lock)
    # A library's threads keep nothing that is wanted now.
    os._exit(0)


if __name__ == "__main__":
    main()
