"""Fences: numbers that grow with every hold of a lock, and a resource that goes by them."""

import os
import re
import sys
import tempfile
import threading
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, Case, Child, memory

NODES = memory("fences")
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "py", "examples")


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)

    def test_it_is_a_number_that_grows(self):
        lock, seen = self.client.lock(self.id()), []
        for _ in range(10):
            with lock as lease:
                self.assertIs(type(lease.fence), int)
                seen.append(lease.fence)
        self.assertEqual(seen, sorted(set(seen)))
        self.assertTrue(0 < seen[0] and seen[-1] < 2**53)
        # It says which hold it was, after its end too.
        self.assertEqual(lease.fence, seen[-1])

    def test_whoever_holds_it(self):
        other = quorlock.Client(NODES)
        self.addCleanup(other.close)
        seen = []
        for client in (self.client, other, self.client, other):
            with client.lock(self.id()) as lease:
                seen.append(lease.fence)
        self.assertEqual(seen, sorted(set(seen)))

    def test_a_reentry_keeps_it(self):
        lock = self.client.lock(self.id())
        with lock as outer, redlock(self.id(), client=self.client) as inner, lock as third:
            self.assertEqual({outer.fence, inner.fence, third.fence}, {outer.fence})
            self.assertIsNotNone(outer.fence)

    def test_threads_get_larger_ones_in_the_order_of_their_holds(self):
        seen = []

        def work():
            for _ in range(5):
                with self.client.lock(self.id(), wait=LONG) as lease:
                    seen.append(lease.fence)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual((len(seen), seen), (20, sorted(set(seen))))

    def test_none_without_fences(self):
        with self.client.lock(self.id(), fencing=False) as lease:
            self.assertIsNone(lease.fence)
        with quorlock.Client(NODES, fencing=False) as client:
            with client.lock(self.id()) as lease:
                self.assertIsNone(lease.fence)
            with client.lock(self.id(), fencing=True) as lease:
                self.assertGreater(lease.fence, 0)

    def test_redlock(self):
        held = redlock(self.id(), nodes=NODES)
        with held as first:
            pass
        with held as second:
            self.assertGreater(second.fence, first.fence)
        with redlock(self.id(), nodes=NODES, fencing=False) as lease:
            self.assertIsNone(lease.fence)

    def test_a_decorated_function(self):
        """It finds its fence by entering again."""
        seen = []

        @redlock("fences-job", client=self.client)
        def job():
            with redlock("fences-job", client=self.client) as lease:
                seen.append(lease.fence)

        @redlock("fences-job", client=self.client, fencing=False)
        def bare():
            with redlock("fences-job", client=self.client) as lease:
                seen.append(lease.fence)

        job()
        job()
        bare()
        self.assertLess(seen[0], seen[1])
        self.assertIsNone(seen[2])


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_in_asyncio_too(self):
        async with quorlock.aio.Client(NODES) as client:
            lock = client.lock(self.id())
            async with lock as first:
                self.assertIs(type(first.fence), int)
                async with lock as again, redlock(self.id(), client=client) as third:
                    self.assertEqual((again.fence, third.fence), (first.fence,) * 2)
            async with redlock(self.id(), client=client) as second:
                self.assertGreater(second.fence, first.fence)
            async with client.lock(self.id(), fencing=False) as lease:
                self.assertIsNone(lease.fence)
            async with redlock(self.id(), nodes=NODES, fencing=False) as lease:
                self.assertIsNone(lease.fence)


class Example(Case):
    def test_it_refuses_the_write_that_is_late(self):
        with open(os.path.join(EXAMPLES, "fences.py")) as file:
            script = file.read()
        with tempfile.TemporaryDirectory() as folder:
            with Child(script, self.nodes, os.path.join(folder, "accounts.db")) as child:
                status, said = child.end()
        self.assertEqual(status, 0, said)
        self.assertTrue(re.fullmatch(r"refused: a write to ann with the fence \d+ came too late\nbalance: 15\n", said), said)

    def test_its_resource_alone(self):
        sys.path.insert(0, EXAMPLES)
        self.addCleanup(sys.path.remove, EXAMPLES)
        import fences

        accounts = fences.Accounts(":memory:")
        accounts.open("a")
        accounts.write("a", 1, 5)
        for fence in (5, 4):
            with self.assertRaises(fences.TooLate):
                accounts.write("a", 2, fence)
        self.assertEqual(accounts.value("a"), 1)
        accounts.write("a", 3, 6)
        self.assertEqual(accounts.value("a"), 3)


if __name__ == "__main__":
    unittest.main()
