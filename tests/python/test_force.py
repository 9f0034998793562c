"""A lock that is taken away from whoever holds it."""

import unittest

import quorlock
import quorlock.aio
from quorlock import Forced
from support import LONG, memory

NODES = memory("force")


class Blocking(unittest.TestCase):
    def setUp(self):
        self.holder = quorlock.Client(NODES, label="alex")
        self.operator = quorlock.Client(NODES)
        self.addCleanup(self.holder.close)
        self.addCleanup(self.operator.close)

    def test_the_holder_learns_it_and_another_gets_the_lock(self):
        lease = self.holder.lock(self.id(), ttl=0.3).acquire()
        forced = self.operator.force_release(self.id())
        self.assertIsInstance(forced, Forced)
        self.assertGreaterEqual(forced.freed, 2)
        self.assertEqual((forced.holder.label, forced.found.verdict), ("alex", "held"))
        self.assertNotIn(lease.token, repr(forced))
        self.assertTrue(lease.lost.wait(LONG))
        self.assertEqual(lease.lost.reason, "forced")
        self.assertEqual(self.operator.inspect(self.id()).verdict, "free")
        self.operator.lock(self.id()).acquire(timeout=LONG).release()

    def test_nobody_holds_it(self):
        forced = self.operator.lock(self.id()).force_release()
        self.assertEqual((forced.freed, forced.holder, forced.found.verdict), (0, None, "free"))

    def test_only_this_fence(self):
        with self.holder.lock(self.id()) as lease:
            with self.assertRaises(quorlock.LockContendedError) as caught:
                self.operator.force_release(self.id(), fence=lease.fence + 1)
            self.assertEqual(caught.exception.holder, "alex")
            self.assertTrue(lease.is_held())
        lease = self.holder.lock(self.id()).acquire()
        self.assertGreaterEqual(self.operator.lock(self.id()).force_release(fence=lease.fence).freed, 2)
        with self.assertRaises(quorlock.LockLostError):
            lease.extend()

    def test_what_is_no_fence(self):
        for fence in (0, -1, 2**53, 2**70):
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, f"fence is {fence}: give one"):
                self.operator.force_release(self.id(), fence=fence)
        with self.assertRaisesRegex(TypeError, "fence is 1.5: give an integer"):
            self.operator.force_release(self.id(), fence=1.5)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_the_same_in_asyncio(self):
        async with quorlock.aio.Client(NODES, label="alex") as client:
            lease = await client.lock(self.id()).acquire()
            with self.assertRaises(quorlock.LockContendedError):
                await client.lock(self.id()).force_release(fence=lease.fence + 1)
            forced = await client.force_release(self.id(), fence=lease.fence)
            self.assertGreaterEqual(forced.freed, 2)
            self.assertEqual(forced.holder.label, "alex")
            with self.assertRaises(quorlock.LockLostError):
                await lease.extend()
            self.assertEqual(lease.lost.reason, "forced")


if __name__ == "__main__":
    unittest.main()
