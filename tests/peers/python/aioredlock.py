"""The module `aioredlock` over Quorlock.

To port a program: `await manager.lock(name, lock_timeout=t)` is `await client.lock(name, ttl=t, renew=False).acquire()`,
and `unlock`, `extend` and `lock.valid` are `release`, `extend` and `is_held` of the lease. `manager.is_locked(name)` is
`client.lock(name).locked()`.
"""

import quorlock.aio
from quorlock import LockContendedError, LockLostError, LockTimeoutError, NotOwnerError, QuorumUnavailableError

from nodes import client


class LockError(Exception):
    pass


class LockAcquiringError(LockError):
    pass


class LockRuntimeError(LockError):
    pass


class Lock:
    def __init__(self, manager, lease):
        self._manager, self.lease, self.resource, self.id = manager, lease, lease.name, lease.token

    @property
    def valid(self):
        return self.lease.is_held()

    async def extend(self, lock_timeout=None):
        await self._manager.extend(self, lock_timeout)

    async def release(self):
        await self._manager.unlock(self)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.release()


class Acquiring:
    """Theirs may be awaited, and entered by `async with`."""

    def __init__(self, lock):
        self._coroutine = lock

    def __await__(self):
        return self._coroutine.__await__()

    async def __aenter__(self):
        self._held = await self._coroutine
        return self._held

    async def __aexit__(self, *_):
        await self._held.release()


class Aioredlock:
    def __init__(self, redis_connections, retry_count=3, retry_delay_max=0.3, internal_lock_timeout=10):
        self._client = client(redis_connections, quorlock.aio)
        self._wait = retry_count * retry_delay_max
        self._ttl = internal_lock_timeout
        self._locks = []

    def lock(self, resource, lock_timeout=None):
        return Acquiring(self._lock(resource, lock_timeout))

    async def _lock(self, resource, lock_timeout):
        # Without a timeout of its own theirs is extended in the background, as ours is.
        timed = {"ttl": self._ttl} if lock_timeout is None else {"ttl": lock_timeout, "renew": False}
        try:
            lease = await self._client.lock(resource, reentrant=False, **timed).acquire(wait=self._wait)
        except (LockContendedError, LockTimeoutError) as error:
            raise LockAcquiringError("the lock is held by another") from error
        except QuorumUnavailableError as error:
            raise LockRuntimeError("too few servers answer") from error
        self._locks.append(Lock(self, lease))
        return self._locks[-1]

    async def extend(self, lock, lock_timeout=None):
        try:
            await lock.lease.extend(lock_timeout)
        except (LockLostError, NotOwnerError) as error:
            raise LockError("the lock is not held") from error

    async def unlock(self, lock):
        if not await lock.lease.release():
            raise LockError("the lock is not held")

    async def is_locked(self, resource_or_lock):
        return await self._client.lock(getattr(resource_or_lock, "resource", resource_or_lock)).locked()

    async def get_active_locks(self):
        return [lock for lock in self._locks if lock.valid]

    async def destroy(self):
        for lock in await self.get_active_locks():
            await lock.release()
