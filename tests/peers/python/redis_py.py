"""The lock of redis-py, blocking and for asyncio, over Quorlock: a pytest plugin that puts it in the place of theirs.

To port a program: `r.lock(name, timeout=t)` is `client.lock(name, ttl=t, renew=False)`, or without these options a lock
that is renewed for as long as it is held; `blocking_timeout` is `wait`; what failed to acquire says so by an error, which
tells "held by another" from "the servers do not answer".
"""

import threading
import types

import quorlock.aio
import redis.asyncio.lock
import redis.lock
from quorlock import LockContendedError, LockLostError, LockTimeoutError, NotOwnerError
from redis.exceptions import LockError, LockNotOwnedError

from nodes import LONG, client, of_redis


class Base:
    def __init__(self, redis, name, timeout=None, sleep=0.1, blocking=True, blocking_timeout=None, thread_local=True,
                 raise_on_release_error=True):
        self.name = name
        self.timeout = timeout
        self.blocking = blocking
        self.blocking_timeout = LONG if blocking_timeout is None else blocking_timeout
        self.raise_on_release_error = raise_on_release_error
        # Without a timeout theirs lives until it is released; ours is renewed until then.
        options = {} if timeout is None else {"ttl": timeout, "renew": False}
        self._lock = client(of_redis(redis), self._api).lock(name, reentrant=False, **options)
        self.local = threading.local() if thread_local else types.SimpleNamespace()
        self._keep(None)

    def _keep(self, lease):
        self.local.lease = lease
        # Theirs is the value on the server, which with us is the token, a dot and the label, empty here.
        self.local.token = f"{lease.token}.".encode() if lease else None
        return lease is not None

    def _wait(self, blocking, blocking_timeout, token):
        if token is not None:
            raise NotImplementedError("the token of a hold is Quorlock's own")
        if not (self.blocking if blocking is None else blocking):
            return 0
        return self.blocking_timeout if blocking_timeout is None else blocking_timeout

    def _held(self, timed=False):
        if self.local.lease is None:
            raise LockError("the lock is not held", lock_name=self.name)
        if timed and self.timeout is None:
            raise LockError("the lock has no timeout", lock_name=self.name)
        return self.local.lease

    def _lost(self):
        return LockNotOwnedError("the lock is no longer held", lock_name=self.name)

    def _not_acquired(self):
        return LockError("the lock is held by another", lock_name=self.name)


class Lock(Base):
    _api = quorlock

    def acquire(self, sleep=None, blocking=None, blocking_timeout=None, token=None):
        try:
            return self._keep(self._lock.acquire(wait=self._wait(blocking, blocking_timeout, token)))
        except (LockContendedError, LockTimeoutError):
            return False

    def release(self):
        lease = self._held()
        self._keep(None)
        if not lease.release():
            raise self._lost()

    def extend(self, additional_time, replace_ttl=False):
        lease = self._held(timed=True)
        try:
            lease.extend(additional_time if replace_ttl else lease.remaining() + additional_time)
        except (LockLostError, NotOwnerError) as error:
            raise self._lost() from error
        return True

    def reacquire(self):
        return self.extend(self.timeout, replace_ttl=True)

    def owned(self):
        return self.local.lease is not None and self.local.lease.is_held()

    def locked(self):
        return self._lock.locked()

    def __enter__(self):
        if not self.acquire():
            raise self._not_acquired()
        return self

    def __exit__(self, *_):
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise


class AsyncLock(Base):
    _api = quorlock.aio

    async def acquire(self, blocking=None, blocking_timeout=None, token=None):
        try:
            return self._keep(await self._lock.acquire(wait=self._wait(blocking, blocking_timeout, token)))
        except (LockContendedError, LockTimeoutError):
            return False

    async def release(self):
        lease = self._held()
        self._keep(None)
        if not await lease.release():
            raise self._lost()

    async def extend(self, additional_time, replace_ttl=False):
        lease = self._held(timed=True)
        try:
            await lease.extend(additional_time if replace_ttl else lease.remaining() + additional_time)
        except (LockLostError, NotOwnerError) as error:
            raise self._lost() from error
        return True

    async def reacquire(self):
        return await self.extend(self.timeout, replace_ttl=True)

    async def owned(self):
        return self.local.lease is not None and self.local.lease.is_held()

    async def locked(self):
        return await self._lock.locked()

    async def __aenter__(self):
        if not await self.acquire():
            raise self._not_acquired()
        return self

    async def __aexit__(self, *_):
        try:
            await self.release()
        except LockError:
            if self.raise_on_release_error:
                raise


redis.lock.Lock = Lock
redis.asyncio.lock.Lock = AsyncLock
