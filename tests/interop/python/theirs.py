"""The Python libraries behind the verbs: `theirs.py LIBRARY`, nodes from `QUORLOCK_NODES`.

Each waits as it does by itself, for at most `WAIT_SECONDS`. What it could not win, it has refused; every other error is one.
"""

import asyncio
import contextlib
import importlib
import importlib.metadata
import os
import sys

import verbs

WAIT_SECONDS = 20


class RedisPy:
    """`Lock` of redis-py, and of valkey-py, which has the same code."""

    def __init__(self, urls, module="redis", client="Redis"):
        self.client = getattr(importlib.import_module(module), client).from_url(urls[0])
        self.not_owned = importlib.import_module(f"{module.partition('.')[0]}.exceptions").LockNotOwnedError
        self.run = lambda value: value

    def acquire(self, name, ms, wait):
        self.lock = self.client.lock(name, timeout=ms / 1000, blocking=wait, blocking_timeout=WAIT_SECONDS)
        return self.run(self.lock.acquire())

    def release(self):
        try:
            self.run(self.lock.release())
        except self.not_owned:
            return False
        return True

    def extend(self, ms):
        try:
            return self.run(self.lock.extend(ms / 1000, replace_ttl=True))
        except self.not_owned:
            return False


class RedisPyAsyncio(RedisPy):
    def __init__(self, urls, module="redis", client="Redis"):
        super().__init__(urls, f"{module}.asyncio", client)
        self.run = asyncio.new_event_loop().run_until_complete


class RedlockPy:
    def __init__(self, urls):
        import redlock

        # Without a retry it sleeps after the only try, too.
        self.once = redlock.Redlock(urls, retry_count=1, retry_delay=0.001)
        self.patient = redlock.Redlock(urls, retry_count=WAIT_SECONDS * 5)

    def acquire(self, name, ms, wait):
        self.lock = (self.patient if wait else self.once).lock(name, ms)
        return bool(self.lock)

    def release(self):
        # It does not tell whether it was held.
        self.once.unlock(self.lock)
        return True

    def extend(self, ms):
        return None


class Pottery:
    """Its keys are `redlock:` and the name."""

    def __init__(self, urls):
        import pottery
        import redis

        self.pottery, self.masters = pottery, {redis.Redis.from_url(url) for url in urls}
        self.make, self.run = pottery.Redlock, lambda value: value

    def acquire(self, name, ms, wait):
        self.lock = self.make(key=name.removeprefix("redlock:"), masters=self.masters, auto_release_time=ms / 1000)
        return self.run(self.lock.acquire(blocking=wait, timeout=WAIT_SECONDS if wait else -1))

    def release(self):
        try:
            self.run(self.lock.release())
        except self.pottery.ReleaseUnlockedLock:
            return False
        return True

    def extend(self, ms):
        self.lock.auto_release_time = ms / 1000
        try:
            self.run(self.lock.extend())
        except self.pottery.ExtendUnlockedLock:
            return False
        return True


class PotteryAsyncio(Pottery):
    def __init__(self, urls):
        import redis.asyncio

        super().__init__(urls)
        self.masters = {redis.asyncio.Redis.from_url(url) for url in urls}
        self.make, self.run = self.pottery.AIORedlock, asyncio.new_event_loop().run_until_complete


class PythonRedisLock:
    """Its keys are `lock:` and the name; it counts in whole seconds."""

    def __init__(self, urls):
        import redis
        import redis_lock

        # It waits in one request for as long as a lock lives, and redis-py gives up a reply after 5 s.
        self.client, self.library = redis.Redis.from_url(urls[0], socket_timeout=None), redis_lock

    def acquire(self, name, ms, wait):
        self.lock = self.library.Lock(self.client, name.removeprefix("lock:"), expire=ms // 1000)
        return self.lock.acquire(blocking=wait)

    def release(self):
        try:
            self.lock.release()
        except self.library.NotAcquired:
            return False
        return True

    def extend(self, ms):
        try:
            self.lock.extend(ms // 1000)
        except self.library.NotAcquired:
            return False
        return True


class Nobody:
    """No lock at all, for the tests of the checks: whoever asks is told that it has it."""

    def __init__(self, urls):
        pass

    def acquire(self, name, ms, wait):
        return True

    def release(self):
        return True

    def extend(self, ms):
        return True


# By the adapter's word: the package, and what is made of the nodes' URLs.
LIBRARIES = {
    "redis-py": ("redis", RedisPy),
    "redis-py-asyncio": ("redis", RedisPyAsyncio),
    "valkey-py": ("valkey", lambda urls: RedisPy(urls, "valkey", "Valkey")),
    "valkey-py-asyncio": ("valkey", lambda urls: RedisPyAsyncio(urls, "valkey", "Valkey")),
    "redlock-py": ("redlock-py", RedlockPy),
    "pottery": ("pottery", Pottery),
    "pottery-asyncio": ("pottery", PotteryAsyncio),
    "python-redis-lock": ("python-redis-lock", PythonRedisLock),
    "nobody": (None, Nobody),
}


def main():
    package, make = LIBRARIES[sys.argv[1]]
    version = importlib.metadata.version(package) if package else "0"
    verbs.serve(make(os.environ["QUORLOCK_NODES"].split(",")), version)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
