"""Scopes that are entered and left by other hands: functions and objects that do so, and a case that looks for leases which stay."""

import unittest
from concurrent.futures import ThreadPoolExecutor

import quorlock
from support import LONG, memory

NODES = memory("left")


def enter(scope):
    """By hand, in a function that ends before the scope is left."""
    return scope.__enter__()


def leave(scope):
    scope.__exit__(None, None, None)


async def aenter(scope):
    return await scope.__aenter__()


async def aleave(scope):
    await scope.__aexit__(None, None, None)


class Wrapper:
    """A context manager of a user's, around a scope."""

    def __init__(self, scope):
        self.scope = scope

    def __enter__(self):
        return self._enter()

    def _enter(self):
        return self.scope.__enter__()

    def __exit__(self, *error):
        self.close(*error)

    def close(self, *error):
        self.scope.__exit__(*(error or (None, None, None)))

    async def __aenter__(self):
        return await self.scope.__aenter__()

    async def __aexit__(self, *error):
        await self.scope.__aexit__(*error)


class Doubled(Wrapper):
    def __enter__(self):
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)


class Part:
    """Enters in one method and leaves in another."""

    def __init__(self, scope):
        self.scope = scope

    def begin(self):
        return self.scope.__enter__()

    def end(self):
        self.scope.__exit__(None, None, None)

    async def abegin(self):
        return await self.scope.__aenter__()

    async def aend(self):
        await self.scope.__aexit__(None, None, None)


class Case(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, wait=LONG)
        self.addCleanup(self.client.close)
        self.pool = ThreadPoolExecutor(4)
        self.addCleanup(self.pool.shutdown)
        # Two slots: two scopes of one object are open at a time, each with a lease of its own.
        self.slots = self.client.semaphore(self.id(), 2)

    def elsewhere(self, function, *arguments):
        return self.pool.submit(function, *arguments).result(LONG)

    def assert_held(self, *leases):
        self.assertEqual([lease.is_held() for lease in leases], [True] * len(leases))

    def assert_ended(self, *leases):
        self.assertEqual([lease.is_held() for lease in leases], [False] * len(leases))
