"""The tests of `threading.Lock` and `threading.RLock` that come with the running interpreter, over Quorlock.

To port a program: a lock of threads is `client.lock(name, wait=None, reentrant=False)`, an RLock the same without
`reentrant`. Both raise where a wait is over. A lock that another thread releases is released by its lease.
"""

import itertools

from quorlock import LockContendedError, LockTimeoutError
from test import lock_tests

from nodes import client

numbers = itertools.count()


class RLock:
    """A thread's own lock, which it may enter again."""

    reentrant = True

    def __init__(self):
        self._lock = client([{}]).lock(f"cpython:{next(numbers)}", reentrant=self.reentrant)

    def acquire(self, blocking=True, timeout=-1):
        # By -1 theirs waits forever; so would ours with `wait=None`, and here as long as a suite may.
        options = {} if timeout == -1 else {"timeout": timeout}
        try:
            lease = self._lock.acquire(blocking, **options)
        except (LockContendedError, LockTimeoutError):
            return False
        if lease:
            self._lease = lease
        return bool(lease)

    def release(self):
        self._lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


class Lock(RLock):
    """A lock that any thread may release: by the lease, for the lock releases what its caller holds."""

    reentrant = False

    def release(self):
        self._lease.release()

    def locked(self):
        return self._lock.locked()


class LockTests(lock_tests.LockTests):
    locktype = staticmethod(Lock)


class RLockTests(lock_tests.RLockTests):
    locktype = staticmethod(RLock)
