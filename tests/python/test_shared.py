"""One lock in two modes: many share it, or one has it alone."""

import asyncio
import queue
import threading
import typing
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock

from support import LONG, Case, memory


class Shared(Case):
    def setUp(self):
        super().setUp()
        self.client, self.other = (quorlock.Client(self.nodes, wait=LONG) for _ in range(2))
        for client in (self.client, self.other):
            self.addCleanup(client.close)

    def test_many_share_it(self):
        prices = self.client.rwlock("prices")
        with prices.read() as reading, self.other.lock("prices", shared=True) as beside:
            self.assertTrue(reading.is_shared() and beside.is_shared())
            self.assertIsNone(self.other.lock("prices", owner="another").try_acquire())
        with prices.write() as writing:
            self.assertFalse(writing.is_shared())
            self.assertGreater(writing.fence, max(reading.fence, beside.fence))
            self.assertIsNone(self.other.lock("prices", shared=True).try_acquire())
        self.assert_nothing_left()

    def test_threads_of_one_client_share_it(self):
        inside, done = threading.Barrier(8), queue.SimpleQueue()

        @redlock("report", client=self.client, shared=True)
        def read():
            # All of them are in it at once.
            inside.wait(LONG)
            done.put(True)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(done.qsize(), 8)
        self.assert_nothing_left()

    def test_who_shares_it_is_refused_it_alone(self):
        both = self.client.rwlock("a", wait=None)
        with both.read() as outer:
            with self.assertRaisesRegex(quorlock.WouldDeadlockError, "release the shared lease first") as raised:
                both.write().acquire()
            self.assertIsInstance(raised.exception, RuntimeError)
            self.assertEqual((raised.exception.kind, raised.exception.number, raised.exception.name), ("WouldDeadlock", 13, "a"))
            with both.read() as inner:
                self.assertEqual(inner.token, outer.token)
        with both.write() as outer, both.read() as inner:
            self.assertEqual((inner.token, inner.is_shared()), (outer.token, False))
        self.assert_nothing_left()

    def test_a_lease_is_downgraded(self):
        with self.client.lock("a") as lease:
            fence, came = lease.fence, queue.SimpleQueue()

            def read():
                with self.other.lock("a", shared=True) as reading:
                    came.put(reading.fence)

            thread = threading.Thread(target=read)
            thread.start()
            lease.downgrade()
            self.assertGreater(came.get(timeout=LONG), fence)
            thread.join()
            self.assertEqual((lease.is_shared(), lease.is_held(), lease.fence), (True, True, fence))
        with self.assertRaises(quorlock.NotOwnerError):
            lease.downgrade()
        self.assert_nothing_left()

    def test_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(self.nodes, wait=LONG) as client:
                both, inside = client.rwlock("a"), 0

                async def read():
                    nonlocal inside
                    async with both.read() as lease:
                        inside += 1
                        while inside < 5:
                            await asyncio.sleep(0)
                        self.assertTrue(lease.is_shared())

                await asyncio.gather(*(read() for _ in range(5)))
                async with both.write() as lease:
                    reading = asyncio.create_task(read())
                    await lease.downgrade()
                    await reading
                async with both.read():
                    with self.assertRaises(quorlock.WouldDeadlockError):
                        await both.write().acquire()

        asyncio.run(main())
        self.assert_nothing_left()

    def test_a_blocking_reader_within_a_task_is_not_stuck_behind_another(self):
        async def main():
            loop = asyncio.get_running_loop()
            first, second = loop.create_future(), loop.create_future()

            async def one():
                with self.client.lock("a", shared=True):
                    first.set_result(None)
                    await second

            async def two():
                await first
                # Another task of this thread shares it, which can go on: so may this one.
                with self.client.lock("a", shared=True):
                    second.set_result(None)

            await asyncio.gather(one(), two())

        asyncio.run(main())
        self.assert_nothing_left()


class Seen(unittest.TestCase):
    def test_what_readers_hold_is_told_by_a_word_that_the_type_has(self):
        client = quorlock.Client(memory("seen"))
        self.addCleanup(client.close)
        with client.lock("a", shared=True):
            states = {view.state for view in client.inspect("a").nodes}
        self.assertIn("shared", states)
        self.assertLessEqual(states, set(typing.get_args(quorlock.NodeView.__annotations__["state"])))


class Refused(unittest.TestCase):
    def test_what_does_not_go_with_it(self):
        client = quorlock.Client(memory("shared"))
        self.addCleanup(client.close)
        for options in ({"raw": True}, {"keep": 1}):
            with self.assertRaises(quorlock.InvalidArgumentError):
                client.lock("a", shared=True, **options)
        with self.assertRaisesRegex(TypeError, "shared"):
            client.lock("a", shared=1)


if __name__ == "__main__":
    unittest.main()
