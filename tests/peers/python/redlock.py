"""The module `redlock` of redlock-py over Quorlock.

To port a program: `dlm.lock(name, ms)` is `client.lock(name, ttl=ms / 1000, renew=False).acquire(wait=…)`, which raises
where theirs returns False, and `dlm.unlock(lock)` is `lease.release()`.
"""

import redis
from quorlock import LockContendedError, LockTimeoutError

from nodes import client, of_redis


class MultipleRedlockException(Exception):
    def __str__(self):
        return " :: ".join(map(str, self.args[0]))


class Lock:
    """Theirs is a tuple of three; ours needs the lease as well, by which it is released."""

    def __init__(self, lease):
        self.lease, self.resource, self.key = lease, lease.name, lease.token.encode()
        self.validity = int(lease.remaining() * 1000)


class Redlock:
    def __init__(self, connection_list, retry_count=3, retry_delay=0.2):
        try:
            self.servers = [redis.Redis(**one) for one in connection_list]
        except TypeError as error:
            raise Warning(str(error)) from error
        self._client = client(of_redis(*self.servers))
        self._wait = retry_count * retry_delay

    def lock(self, resource, ttl):
        if not isinstance(ttl, int):
            raise ValueError(f"ttl {ttl} is not an integer")
        try:
            return Lock(self._client.lock(resource, ttl=ttl / 1000, renew=False, reentrant=False).acquire(wait=self._wait))
        except (LockContendedError, LockTimeoutError):
            return False

    def unlock(self, lock):
        lock.lease.release()
