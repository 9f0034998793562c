"""Quorlock behind the verbs, with raw names: `ours.py`, nodes from `QUORLOCK_NODES`."""

import quorlock
import verbs

WAIT_SECONDS = 20


class Ours:
    def __init__(self):
        # Not renewed: a hold that is left alone ends with its ttl, as those of the others.
        self.client = quorlock.Client(raw=True, renew=False)

    def acquire(self, name, ms, wait):
        lock = self.client.lock(name, ttl=ms / 1000, reentrant=False)
        try:
            self.lease = lock.acquire(wait=WAIT_SECONDS if wait else 0)
        except (quorlock.LockContendedError, quorlock.LockTimeoutError):
            return False
        return True

    def release(self):
        return self.lease.release()

    def extend(self, ms):
        try:
            self.lease.extend(ms / 1000)
        except quorlock.LockLostError:
            return False
        return True


if __name__ == "__main__":
    verbs.serve(Ours(), quorlock.__version__)
