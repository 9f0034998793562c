"""Who holds a lock: `locked()`, `holder()`, `inspect()`, and what an error tells of it."""

import datetime
import unittest

import quorlock
import quorlock.aio
from quorlock import Holder, Inspection
from support import Case, memory

NODES = memory("inspection")


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, label="alex")
        self.other = quorlock.Client(NODES, label="")
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def test_nobody(self):
        lock = self.client.lock(self.id())
        self.assertIs(lock.locked(), False)
        self.assertIsNone(lock.holder())
        found = self.client.inspect(self.id())
        self.assertEqual((found.name, found.verdict, found.holder), (self.id(), "free", None))
        self.assertEqual({node.state for node in found.nodes}, {"free"})

    def test_somebody(self):
        lock = self.client.lock(self.id())
        with lock as lease:
            self.assertIs(self.other.lock(self.id()).locked(), True)
            holder = self.other.lock(self.id()).holder()
            self.assertIsInstance(holder, Holder)
            self.assertEqual(holder.label, "alex")
            self.assertGreaterEqual(holder.votes, 2)
            self.assertTrue(5 < holder.left <= 10.1)
            found = self.other.inspect(self.id())
            self.assertIsInstance(found, Inspection)
            self.assertEqual((found.verdict, found.fence, found.queued), ("held", lease.fence, 0))
            for node in found.nodes:
                if node.state == "held":
                    self.assertEqual((node.label, node.quarantine, node.error), ("alex", 0, None))
            self.assertNotIn(lease.token, repr(found))
        self.assertIs(lock.locked(), False)

    def test_a_holder_without_a_label(self):
        with self.other.lock(self.id()):
            self.assertIsNone(self.client.lock(self.id()).holder().label)

    def test_an_error_names_the_lock_and_its_holder(self):
        with self.client.lock(self.id()), self.assertRaises(quorlock.LockTimeoutError) as caught:
            self.other.lock(self.id()).acquire(timeout=0.02)
        self.assertEqual((caught.exception.name, caught.exception.holder), (self.id(), "alex"))
        with self.assertRaises(quorlock.InvalidArgumentError) as caught:
            self.client.lock("x", ttl=-1)
        self.assertEqual((caught.exception.name, caught.exception.holder), (None, None))


class Servers(Case):
    def test_since_when(self):
        with quorlock.Client(self.nodes) as client:
            lock = client.lock(self.id())
            # From here on the client knows the nodes' clocks.
            with lock:
                pass
            with lock:
                since = lock.holder().since
            self.assertLess(abs(datetime.datetime.now(datetime.UTC) - since), datetime.timedelta(seconds=5))


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_the_same(self):
        async with quorlock.aio.Client(NODES, label="alex") as client:
            lock = client.lock(self.id())
            self.assertIs(await lock.locked(), False)
            async with lock:
                self.assertIs(await lock.locked(), True)
                self.assertEqual((await lock.holder()).label, "alex")
                self.assertEqual((await client.inspect(self.id())).verdict, "held")


if __name__ == "__main__":
    unittest.main()
