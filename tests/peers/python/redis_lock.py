"""The module `redis_lock` of python-redis-lock over Quorlock.

To port a program: `Lock(conn, name, expire=s)` is `client.lock(name, ttl=s, renew=False)`; with `auto_renewal=True`, or
without `expire`, leave both options out. The lease that `acquire` returns has a token of its own for each hold, so there
is no `id` to give, and release and extension go by the lease; another process goes on with it by `lease.export()` and
`client.adopt(text)`. `reset()` is `force_release()`, and for `get_owner_id()` there is `holder()`, which tells the label of
the holder's client.
"""

import logging

from quorlock import LockContendedError, LockLostError, LockTimeoutError

from nodes import LONG, client, of_redis

# The suite reads in the log what its processes do.
log = logging.getLogger("redis_lock")

# Theirs stays locked when its object is forgotten; a lease of ours that nobody has is released.
held = set()


class AlreadyAcquired(RuntimeError):
    pass


class NotAcquired(RuntimeError):
    pass


class InvalidTimeout(RuntimeError):
    pass


class TimeoutNotUsable(RuntimeError):
    pass


class TimeoutTooLarge(RuntimeError):
    pass


class NotExpirable(RuntimeError):
    pass


class Lock:
    def __init__(self, redis_client, name, expire=None, id=None, auto_renewal=False, strict=True, signal_expire=1000,
                 blocking=True):
        self._name = f"lock:{name}"
        self._expire = float(expire) if expire else None
        self._renews = auto_renewal or not expire
        self._blocking = blocking
        self._lease = None
        self._given_id = id
        options = {"ttl": self._expire} if expire else {}
        self._lock = client(of_redis(redis_client)).lock(self._name, renew=self._renews, reentrant=False, **options)

    @property
    def id(self):
        return self._lease.token if self._lease else self._given_id

    def acquire(self, blocking=True, timeout=None):
        log.debug("Acquiring Lock(%r) ...", self._name)
        if self._lease is not None and self._lease.is_held():
            raise AlreadyAcquired("this lock is held already")
        if timeout is not None and not blocking:
            raise TimeoutNotUsable("a timeout goes with blocking=True")
        timeout = int(timeout) if timeout else LONG
        if timeout < 0:
            raise InvalidTimeout(f"timeout is {timeout}")
        try:
            self._lease = self._lock.acquire(wait=timeout if blocking else 0)
            held.add(self._lease)
        except (LockContendedError, LockTimeoutError):
            self._lease = None
        log.debug("Acquired Lock(%r)." if self._lease else "Failed to acquire Lock(%r).", self._name)
        return self._lease is not None

    def release(self):
        log.debug("Releasing Lock(%r).", self._name)
        held.discard(self._lease)
        if self._lease is None or not self._lease.release():
            raise NotAcquired("the lock is not held")

    def extend(self, expire=None):
        if self._lease is None:
            raise NotAcquired("the lock is not held")
        try:
            self._lease.extend(expire)
        except LockLostError as error:
            raise NotAcquired("the lock is not held") from error

    def locked(self):
        return self._lock.locked()

    def reset(self):
        self._lock.force_release()

    def __enter__(self):
        if not self.acquire(blocking=self._blocking):
            raise NotAcquired("the lock is held by another")
        return self

    def __exit__(self, *_):
        self.release()


def reset_all(redis_client):
    # Theirs lists the keys itself; ours takes away the locks that a program names.
    for key in redis_client.scan_iter("lock:*"):
        client(of_redis(redis_client)).force_release(key)
