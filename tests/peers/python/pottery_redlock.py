"""The `Redlock`, `AIORedlock` and `synchronize` of pottery over Quorlock: a pytest plugin that puts them in place of theirs.

To port a program: `Redlock(key=k, masters=m, auto_release_time=t)` is `client.lock(k, ttl=t, renew=False)`, or better
with the renewal that Quorlock does by default; its `locked()` is `lease.remaining()`, `extend()` is `lease.extend()`.
"""

import functools

import pottery
import pytest
import pytest_asyncio
import quorlock.aio
import redis.asyncio
from pottery import (
    ExtendUnlockedLock,
    QuorumIsImpossible,
    QuorumNotAchieved,
    ReleaseUnlockedLock,
    TooManyExtensions,
)
from quorlock import LockContendedError, LockLostError, LockTimeoutError, NotOwnerError, QuorumUnavailableError

from nodes import LONG, client, of_redis

# What their conftest, which is not in the archive, provides.
URL = "redis://localhost:6379/1"


@pytest.fixture(name="redis")
def _redis():
    with redis.Redis.from_url(URL) as found:
        found.flushdb()
        yield found
        found.flushdb()


@pytest_asyncio.fixture(name="aioredis")
async def _aioredis():
    async with redis.asyncio.Redis.from_url(URL) as found:
        await found.flushdb()
        yield found
        await found.flushdb()


class Base:
    __slots__ = ("_extensions", "_lease", "auto_release_time", "context_manager_blocking", "context_manager_timeout", "key",
                 "masters")

    _NUM_EXTENSIONS = 3

    def __init__(self, *, key, masters, auto_release_time=10, context_manager_blocking=True, context_manager_timeout=-1,
                 raise_on_redis_errors=False, num_extensions=_NUM_EXTENSIONS):
        self._wait(context_manager_blocking, context_manager_timeout)
        self.key = f"redlock:{key}"
        self.masters = tuple(masters)
        self.auto_release_time = auto_release_time
        self.context_manager_blocking = context_manager_blocking
        self.context_manager_timeout = context_manager_timeout
        self._lease = None
        self._extensions = num_extensions

    @staticmethod
    def _wait(blocking, timeout):
        if not blocking and timeout != -1:
            raise ValueError("a timeout goes with blocking=True")
        return 0 if not blocking else LONG if timeout == -1 else timeout

    def _lock(self):
        # Their `auto_release_time` may be set at any time.
        return client(of_redis(*self.masters), self._api).lock(
            self.key, ttl=self.auto_release_time, renew=False, reentrant=False)

    def _error(self, kind):
        return kind(self.key, frozenset(self.masters))

    def _validity(self):
        return self._lease.remaining() if self._lease is not None else 0

    def _extended(self):
        if self._extensions == 0 and self._validity():
            raise self._error(TooManyExtensions)
        self._extensions -= 1

    def __repr__(self):
        return f"<{type(self).__name__} key={self.key}>"


class Redlock(Base):
    __slots__ = ()
    _api = quorlock

    def acquire(self, *, blocking=True, timeout=-1, raise_on_redis_errors=None):
        wait = self._wait(blocking, timeout)
        try:
            self._lease = self._lock().acquire(wait=wait)
        except (LockContendedError, LockTimeoutError):
            return False
        except QuorumUnavailableError as error:
            if raise_on_redis_errors:
                raise self._error(QuorumIsImpossible) from error
            return False
        return True

    def locked(self, *, raise_on_redis_errors=None):
        return self._validity()

    def extend(self, *, raise_on_redis_errors=None):
        if self._lease is None:
            raise self._error(ExtendUnlockedLock)
        self._extended()
        try:
            self._lease.extend()
        except (LockLostError, NotOwnerError) as error:
            raise self._error(ExtendUnlockedLock) from error

    def release(self, *, raise_on_redis_errors=None):
        if self._lease is None or not self._lease.release():
            raise self._error(ReleaseUnlockedLock)

    def __enter__(self):
        if not self.acquire(blocking=self.context_manager_blocking, timeout=self.context_manager_timeout):
            raise self._error(QuorumNotAchieved)
        return self

    def __exit__(self, *_):
        self.release()


class AIORedlock(Base):
    __slots__ = ()
    _api = quorlock.aio

    async def acquire(self, *, blocking=True, timeout=-1, raise_on_redis_errors=None):
        wait = self._wait(blocking, timeout)
        try:
            self._lease = await self._lock().acquire(wait=wait)
        except (LockContendedError, LockTimeoutError, QuorumUnavailableError):
            return False
        return True

    async def locked(self, *, raise_on_redis_errors=None):
        return self._validity()

    async def extend(self, *, raise_on_redis_errors=None):
        if self._lease is None:
            raise self._error(ExtendUnlockedLock)
        self._extended()
        try:
            await self._lease.extend()
        except (LockLostError, NotOwnerError) as error:
            raise self._error(ExtendUnlockedLock) from error

    async def release(self, *, raise_on_redis_errors=None):
        if self._lease is None or not await self._lease.release():
            raise self._error(ReleaseUnlockedLock)

    async def __aenter__(self):
        if not await self.acquire(blocking=self.context_manager_blocking, timeout=self.context_manager_timeout):
            raise self._error(QuorumNotAchieved)
        return self

    async def __aexit__(self, *_):
        await self.release()


def synchronize(*, key, masters, auto_release_time=10, blocking=True, timeout=-1, raise_on_redis_errors=False):
    def decorated(function):
        @functools.wraps(function)
        def wrapped(*arguments, **named):
            with Redlock(key=key, masters=masters, auto_release_time=auto_release_time,
                         context_manager_blocking=blocking, context_manager_timeout=timeout):
                return function(*arguments, **named)
        return wrapped
    return decorated


pottery.Redlock, pottery.AIORedlock, pottery.synchronize = Redlock, AIORedlock, synchronize
