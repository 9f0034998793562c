"""Several locks at once: all of them, or none."""

import asyncio
import collections
import gc
import threading
import types
import warnings
from unittest import mock

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, Case, eventually, hold_elsewhere


class Several(Case):
    def setUp(self):
        super().setUp()
        self.client = quorlock.Client(self.nodes)
        self.addCleanup(self.client.close)
        self.other = quorlock.Client(self.nodes)
        self.addCleanup(self.other.close)
        self.names = [f"{self.id()}.{letter}" for letter in "abc"]

    def test_all_for_a_scope(self):
        a, b, c = self.names
        with redlock([c, a, b, a], client=self.client) as leases:
            self.assertEqual(list(leases.fences), [a, b, c])
            self.assertEqual([lease.name for lease in leases], [a, b, c])
            self.assertEqual(leases[b].fence, leases.fences[b])
            self.assertEqual(len(leases), 3)
            self.assertTrue(leases.is_held() and leases.remaining() > 5)
            leases.extend(20)
            leases.ensure(5)
            self.assertGreater(leases.remaining(), 15)
            for name in self.names:
                self.assertIsNone(self.other.lock(name).try_acquire())
            with self.assertRaises(KeyError):
                leases["another"]
            self.assertIs(leases[f"{{{b}}}"], leases[b])
            self.assertIsNone(leases.lost.reason)
        self.assertFalse(leases.is_held())
        self.assertFalse(leases.release())
        self.assert_nothing_left()

    def test_a_name_with_its_hash_tag_and_without(self):
        a, b, _ = self.names
        tagged = f"{{{a}}}"
        with redlock([a, tagged, b], client=self.client) as leases:
            self.assertEqual(len(leases), 2)
            self.assertEqual(leases[a].fence, leases[tagged].fence)
            raw = redlock([a, tagged], client=self.client, raw=True, wait=0)
            with raw as apart:
                self.assertNotEqual(apart[a].name, apart[tagged].name)
                with self.assertRaises(KeyError):
                    apart[b]
        self.assert_nothing_left()

    def test_none_where_one_is_held(self):
        a, b, c = self.names
        locks = self.client.lock_all([a, b, c])
        with self.other.lock(b).acquire():
            self.assertIsNone(locks.try_acquire())
            self.assertIs(locks.acquire(blocking=False), False)
            with self.assertRaises(quorlock.LockTimeoutError) as caught:
                locks.acquire(timeout=0.2)
            self.assertEqual(caught.exception.name, b)
            with locks.attempt() as leases:
                self.assertIsNone(leases)
            with redlock([b, a], client=self.client).attempt(wait=0.1) as leases:
                self.assertIsNone(leases)
            for name in (a, c):
                self.assertTrue(eventually(lambda name=name: not self.other.lock(name).locked()))
        with locks.attempt(wait=LONG) as leases:
            self.assertTrue(leases.is_held())
        self.assert_nothing_left()

    def test_the_holder_enters_one_of_them_again(self):
        a, b, _ = self.names
        with redlock([a, b], client=self.client) as leases, redlock(b, client=self.client, wait=0) as again:
            self.assertEqual(again.fence, leases[b].fence)
            with redlock([b, a], client=self.client, wait=0) as both:
                self.assertEqual(both.fences, leases.fences)
            self.assertTrue(leases.is_held())
        self.assert_nothing_left()

    def test_a_mapping_is_no_list_of_names(self):
        for given in ({"a": 1}, collections.OrderedDict(a=1), types.MappingProxyType({"a": 1}), collections.namedtuple("Parts", "a")("a")):
            with self.assertRaisesRegex(TypeError, "the key is a"):
                redlock(key=lambda given: given, client=self.client)(self.fail)(given)
            self.assertRaisesRegex(TypeError, "name is a", redlock, given, client=self.client)

    def test_a_function_runs_with_all_of_them(self):
        a, b, _ = self.names

        @redlock(key=lambda one, two: [one, two], client=self.client)
        def move(one, two):
            return self.other.lock(one).locked() and self.other.lock(two).locked()

        self.assertTrue(move(b, a))

        @redlock([a, b], client=self.client)
        async def later():
            return self.other.lock(a).locked()

        self.assertTrue(asyncio.run(later()))
        self.assert_nothing_left()

    def test_two_threads_in_opposite_orders_go_on(self):
        a, b, _ = self.names
        inside, done = [], []

        def work(client, order):
            for _ in range(10):
                with redlock(order, client=client, wait=LONG):
                    inside.append(1)
                    self.assertEqual(len(inside), 1)
                    inside.pop()
            done.append(order)

        threads = [threading.Thread(target=work, args=pair) for pair in [(self.client, [a, b]), (self.other, [b, a])]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(len(done), 2)
        self.assert_nothing_left()

    def test_the_loss_of_one_is_the_loss_of_all(self):
        a, b, _ = self.names
        told = []
        with self.assertRaises(quorlock.LockLostError) as caught:
            with redlock([a, b], client=self.client, ttl=1) as leases:
                leases.on_lost(lambda *what: told.append(what))
                hold_elsewhere(self.stage, b, 60)
                self.assertTrue(leases.lost.wait(LONG))
                self.assertEqual((leases.lost.name, leases.lost.reason), (b, "refused"))
                self.assertFalse(leases.is_held())
                # Nobody comes in before the work has stopped.
                self.assertTrue(leases[a].is_held())
                self.assertTrue(eventually(lambda: told))
        self.assertEqual(caught.exception.name, b)
        self.assertEqual(told, [(b, "refused")])
        for number in (1, 2, 3):
            self.stage.redis(number, "DEL", f"lock:{{{b}}}")
        self.assert_nothing_left()

    def test_what_is_not_valid_is_refused(self):
        for names, error in [([], quorlock.InvalidArgumentError), ([f"n{n}" for n in range(17)], quorlock.InvalidArgumentError),
                             (["a", ""], quorlock.InvalidArgumentError), (["a", 7], TypeError)]:
            with self.subTest(names=names), self.assertRaises(error):
                self.client.lock_all(names)
        with self.assertRaises(TypeError):
            self.client.lock_all("ab")
        with self.assertRaises(quorlock.InvalidArgumentError):
            redlock([], client=self.client)(lambda: None)

    def test_leases_that_nobody_keeps_are_released_and_told_of(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            leases = self.client.lock_all(self.names).acquire()
            # A lease of them that is let go of is none of them.
            next(iter(leases))
            gc.collect()
            self.assertEqual(caught, [])
            self.assertTrue(leases.is_held())
            del leases
            gc.collect()
        self.assertEqual([warning.category for warning in caught], [ResourceWarning])
        self.assert_nothing_left()


class SeveralAsync(Case):
    def setUp(self):
        super().setUp()
        self.names = [f"{self.id()}.{letter}" for letter in "abc"]

    def run_with_client(self, work):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client, quorlock.aio.Client(self.nodes) as other:
                await work(client, other)

        asyncio.run(main())

    def test_all_or_none(self):
        a, b, c = self.names

        async def work(client, other):
            async with client.lock_all([c, a, b]) as leases:
                self.assertEqual(list(leases.fences), [a, b, c])
                await leases.ensure(5)
                await leases.extend(20)
                self.assertGreater(leases.remaining(), 15)
                self.assertIsNone(await other.lock_all([b, c]).try_acquire())
                async with redlock([b], client=other).attempt() as none:
                    self.assertIsNone(none)
                async with redlock([c, b], client=client, wait=0) as again:
                    self.assertEqual(again.fences, {b: leases.fences[b], c: leases.fences[c]})
            self.assertFalse(leases.is_held())
            held = await other.lock(b).acquire()
            with self.assertRaises(quorlock.LockTimeoutError):
                await client.lock_all(self.names).acquire(timeout=0.2)
            await held.release()

        self.run_with_client(work)
        self.assert_nothing_left()

    def test_a_wait_that_is_cancelled_leaves_nothing(self):
        a, b, _ = self.names

        async def work(client, other):
            held = await other.lock(b).acquire()
            waits = asyncio.create_task(client.lock_all([a, b]).acquire(timeout=None))
            while client.stats()["queued"] < 1:
                await asyncio.sleep(0.01)
            waits.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waits
            await held.release()

        self.run_with_client(work)
        self.assert_nothing_left()

    def test_a_call_that_is_cancelled_in_the_turn_of_its_result_keeps_nothing(self):
        a, b, _ = self.names
        cut = []

        async def work(client, other):
            loop = asyncio.get_running_loop()
            task = asyncio.create_task(client.lock_all([a, b], keep=60, wait=None).acquire())

            def look(future):
                # The result is there, and the task has yet to be told.
                if not future.done():
                    loop.call_soon(look, future)
                elif not task.done():
                    cut.append(task.cancel())

            made = loop.create_future

            def create_future():
                future = made()
                loop.call_soon(look, future)
                return future

            with mock.patch.object(loop, "create_future", create_future):
                await asyncio.wait([task])
            self.assertEqual((cut, task.cancelled()), ([True], True))
            # Else it is kept for nobody.
            async with other.lock_all([a, b], wait=LONG):
                pass

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.run_with_client(work)
            gc.collect()
        self.assertEqual(caught, [])
        self.assert_nothing_left()

    def test_the_loss_of_one_cancels_the_task(self):
        a, b, _ = self.names

        async def work(client, other):
            with self.assertRaises(quorlock.LockLostError) as caught:
                async with client.lock_all([a, b], ttl=1) as leases:
                    hold_elsewhere(self.stage, b, 60)
                    await asyncio.sleep(LONG)
            self.assertEqual(caught.exception.name, b)
            self.assertEqual((leases.lost.name, await leases.lost), (b, "refused"))

        self.run_with_client(work)
        for number in (1, 2, 3):
            self.stage.redis(number, "DEL", f"lock:{{{b}}}")
        self.assert_nothing_left()
