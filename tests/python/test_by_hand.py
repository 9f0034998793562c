"""What is acquired by hand: it has no owner, and ends by its release; and what would wait for itself."""

import asyncio
import concurrent.futures
import contextlib
import gc
import io
import threading
import unittest
import warnings
from unittest import mock

import quorlock
import quorlock.aio
from quorlock import _owner, once, redlock, testing
from support import LONG, eventually, memory

NODES = memory("by-hand")


class Case(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, wait=LONG)
        self.addCleanup(self.client.close)
        self.other = quorlock.Client(NODES)
        self.addCleanup(self.other.close)
        self.lock = self.client.lock(self.id())

    def is_free(self):
        lease = self.other.lock(self.id()).try_acquire()
        return lease is not None and lease.release()


class Release(Case):
    def test_it_ends_what_the_caller_has_acquired_and_nothing_else(self):
        lost, acquired, answers = threading.Event(), threading.Event(), []

        def loses():
            self.lock.acquire()
            try:
                testing.lose(self.id())
                lost.set()
                acquired.wait(LONG)
            finally:
                answers.append(self.lock.release())

        thread = threading.Thread(target=loses)
        thread.start()
        lost.wait(LONG)
        lease = self.lock.acquire()
        acquired.set()
        thread.join(LONG)
        self.assertEqual((answers, lease.is_held()), ([False], True))
        self.assertTrue(self.lock.release())

    def test_one_that_was_never_won(self):
        held = self.other.lock(self.id()).acquire()
        for acquire in (lambda: self.lock.acquire(timeout=0), lambda: self.lock.acquire(timeout=0.01)):
            with self.assertRaises(quorlock.LockBusyError):
                try:
                    acquire()
                finally:
                    self.assertFalse(self.lock.release())
        self.assertIsNone(self.lock.try_acquire())
        self.assertFalse(self.lock.release())
        self.assertRaises(quorlock.NotOwnerError, self.lock.release)
        self.lock.try_acquire()
        held.release()
        # It is no longer remembered once one was won.
        self.lock.acquire()
        self.assertTrue(self.lock.release())
        self.assertRaisesRegex(quorlock.NotOwnerError, r"lease\.release\(\)", self.lock.release)

    def test_through_this_object(self):
        self.lock.acquire()
        self.assertRaises(quorlock.NotOwnerError, self.client.lock(self.id()).release)
        self.assertTrue(self.lock.release())
        with self.lock:
            self.assertRaises(quorlock.NotOwnerError, self.lock.release)

    def test_the_newest_that_is_held(self):
        slots = self.client.semaphore(self.id(), 3)
        first = slots.acquire()
        second = slots.acquire()
        self.assertTrue(slots.release())
        self.assertEqual((first.is_held(), second.is_held()), (True, False))
        # One that is lost takes no place of one that is held.
        doomed = self.client.semaphore(self.id(), 3, ttl=0.1, renew=False)
        kept, lost = doomed.acquire(), doomed.acquire()
        kept.extend(30)
        self.assertTrue(lost.lost.wait(LONG))
        self.assertTrue(doomed.release())
        self.assertFalse(kept.is_held())
        self.assertFalse(doomed.release())
        self.assertTrue(slots.release())

    def test_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(NODES, wait=LONG) as client:
                lock = client.lock(self.id())

                async def loses(lost, acquired):
                    await lock.acquire()
                    try:
                        testing.lose(self.id())
                        lost.set()
                        await acquired.wait()
                    finally:
                        self.assertFalse(await lock.release())

                lost, acquired = asyncio.Event(), asyncio.Event()
                task = asyncio.create_task(loses(lost, acquired))
                await lost.wait()
                lease = await lock.acquire()
                acquired.set()
                await task
                self.assertTrue(lease.is_held())
                with self.assertRaises(quorlock.LockBusyError):
                    try:
                        await lock.acquire(timeout=0)
                    finally:
                        # What is held goes first.
                        self.assertTrue(await lock.release())
                self.assertFalse(await lock.release())
                with self.assertRaisesRegex(quorlock.NotOwnerError, r"lease\.release\(\)"):
                    await lock.release()

        asyncio.run(main())


class Owners(Case):
    def test_two_works_of_a_thread_are_two_owners(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            lease = pool.submit(self.lock.acquire).result(LONG)
            scope = self.client.lock(self.id(), wait=0)
            with self.assertRaises(quorlock.LockContendedError):
                pool.submit(scope.__enter__).result(LONG)
            # Handed on: any thread extends and releases it.
            lease.extend()
            self.assertTrue(lease.release())

    def test_it_outlives_its_thread(self):
        lock, leases = self.client.lock(self.id(), ttl=0.3), []
        thread = threading.Thread(target=lambda: leases.append(lock.acquire()))
        thread.start()
        thread.join(LONG)
        self.assertFalse(leases[0].lost.wait(1))
        self.assertTrue(leases[0].release())

    def test_a_lease_that_nobody_keeps_is_told(self):
        with self.assertLogs("quorlock", "WARNING") as logged, self.assertWarns(ResourceWarning):
            self.client.lock(self.id()).acquire()
            gc.collect()
            self.assertTrue(eventually(lambda: logged.output))
        self.assertIn("nobody keeps its lease", logged.output[0])
        self.assertTrue(eventually(self.is_free))

    def test_a_task_that_leaves_one_behind(self):
        async def main():
            async with quorlock.aio.Client(NODES) as client:
                lock, kept = client.lock(self.id()), []

                async def work():
                    kept.append(await lock.acquire())

                with self.assertLogs("quorlock", "WARNING") as logged:
                    await asyncio.create_task(work())
                    await asyncio.sleep(0)
                    gc.collect()
                self.assertRegex(logged.output[0], "the task that acquired the lock .* has ended")
                self.assertTrue(await kept[0].release())

        asyncio.run(main())


class Waits(Case):
    def test_for_what_this_thread_has_acquired_is_warned_of(self):
        lease = self.lock.acquire()
        with self.assertLogs("quorlock", "WARNING") as logged, self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
            self.lock.acquire(wait=0.01)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("acquired by hand by this thread", logged.output[0])
        with mock.patch.object(_owner, "WARNED_EVERY", 0.01), self.assertLogs("quorlock", "WARNING") as logged:
            thread = threading.Thread(target=lambda: (eventually(lambda: len(logged.output) > 3), lease.release()))
            thread.start()
            self.assertTrue(self.lock.acquire(wait=None).is_held())
            thread.join(LONG)
        self.assertGreater(len(logged.output), 3)
        self.lock.release()

    def test_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(NODES, wait=LONG) as client:
                lock = client.lock(self.id())
                lease = await lock.acquire()
                with self.assertLogs("quorlock", "WARNING") as logged, self.assertRaises(quorlock.LockTimeoutError):
                    await lock.acquire(wait=0.01)
                self.assertIn("acquired by hand by this task", logged.output[0])
                await lease.release()
                async with client.lock(self.id()):
                    for reentrant in (True, False):
                        again = client.lock(self.id(), reentrant=reentrant)
                        with self.assertRaises(quorlock.WouldDeadlockError):
                            await again.acquire()
                        self.assertIsNone(await again.try_acquire())
                    with self.assertRaises(quorlock.WouldDeadlockError):
                        await again.__aenter__()
                    with self.assertRaises(quorlock.WouldDeadlockError):
                        await again.attempt(wait=1).__aenter__()

                    async def child():
                        async with client.lock(self.id(), wait=0.01):
                            pass

                    # Another task that holds it on behalf of this one: the error says what to do.
                    with self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
                        await asyncio.create_task(child())
                with self.lock, self.assertRaises(quorlock.WouldDeadlockError):
                    await self.in_this_task(quorlock.aio.Client(NODES))

        asyncio.run(main())

    async def in_this_task(self, client):
        # Of one client alone it can be known.
        async with redlock(self.id(), client=self.client):
            self.fail("it is held by this task, in a blocking scope")

    def test_within_a_scope_of_its_own(self):
        with self.lock as lease:
            calls = (
                self.lock.acquire,
                self.client.lock(self.id(), reentrant=False).__enter__,
                self.client.lock(self.id(), reentrant=False).attempt(wait=1).__enter__,
                self.client.lock_all([self.id(), "more"], reentrant=False).__enter__,
                self.client.lock_all([self.id(), "more"]).acquire,
            )
            for call in calls:
                with self.assertRaisesRegex(quorlock.WouldDeadlockError, "around this call"):
                    call()
            self.assertIsNone(self.lock.try_acquire())
            self.assertIsNone(self.client.lock(self.id(), reentrant=False).attempt().__enter__())
            self.assertTrue(lease.is_held())


class Losses(Case):
    def test_an_error_of_the_body_has_the_loss_as_its_cause(self):
        with self.assertRaises(KeyError) as raised, self.lock:
            testing.lose(self.id())
            raise KeyError
        self.assertIsInstance(raised.exception.__cause__, quorlock.LockLostError)
        cause = ValueError()
        with self.assertRaises(KeyError) as raised, self.lock:
            testing.lose(self.id())
            raise KeyError from cause
        self.assertIs(raised.exception.__cause__, cause)
        self.assertIn("the lock was lost", raised.exception.__notes__[0])

        async def main():
            async with quorlock.aio.Client(NODES) as client, client.lock(self.id()):
                testing.lose(self.id())
                raise KeyError

        with self.assertRaises(KeyError) as raised:
            asyncio.run(main())
        self.assertIsInstance(raised.exception.__cause__, quorlock.LockLostError)

    def test_a_loss_is_true_and_waited_for(self):
        lease = self.lock.acquire()
        self.assertFalse(lease.lost)
        testing.lose(self.id())
        self.assertTrue(lease.lost)

        async def main():
            async with quorlock.aio.Client(NODES) as client:
                lease = await client.lock(self.id()).acquire()
                self.assertFalse(await lease.lost.wait(0.01))
                self.assertFalse(lease.lost.wait(0))
                with self.assertRaisesRegex(RuntimeError, "await lease.lost"):
                    bool(lease.lost.wait())
                waiting = asyncio.ensure_future(lease.lost.wait())
                # The loop is not blocked.
                await asyncio.sleep(0)
                testing.lose(self.id())
                self.assertTrue(await waiting)

        asyncio.run(main())

    def test_a_scope_that_is_cancelled_warns_of_nothing(self):
        async def main():
            async with quorlock.aio.Client(NODES) as client:
                lock = client.lock(self.id())

                async def work():
                    async with lock:
                        await asyncio.sleep(0)

                for turns in range(400):
                    task = asyncio.create_task(work())
                    for _ in range(turns % 8):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                del task
                gc.collect()

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            asyncio.run(main())
        self.assertEqual([str(each.message) for each in warned], [])


class Decorated(Case):
    def setUp(self):
        super().setUp()
        self.held = redlock(self.id(), client=self.client)

    def test_a_context_manager_holds_it_until_it_is_left(self):
        @self.held
        @contextlib.contextmanager
        def opened(word):
            self.assertFalse(self.is_free())
            yield word

        made = opened("a")
        self.assertTrue(self.is_free())
        with made as word:
            self.assertEqual((word, self.is_free()), ("a", False))
        self.assertTrue(self.is_free())

        @opened("b")
        def decorated():
            return self.is_free()

        self.assertEqual([decorated(), decorated()], [False, False])

        @self.held
        @contextlib.asynccontextmanager
        async def aopened(word):
            yield word

        async def main():
            async with aopened("c") as word:
                return word, self.is_free()

        self.assertEqual(asyncio.run(main()), ("c", False))
        self.assertTrue(self.is_free())

    def test_what_would_go_on_without_it_is_refused(self):
        go_on = threading.Event()
        done = []
        with concurrent.futures.ThreadPoolExecutor(1) as pool:

            def work():
                go_on.wait(LONG)
                done.append(self.is_free())

            self.addCleanup(go_on.set)
            threading.Timer(0.05, go_on.set).start()
            results = (
                lambda: pool.submit(work),
                lambda: map(str, [1]),
                lambda: iter([1]),
                contextlib.contextmanager(lambda: iter([1])),
            )
            for result in results:
                with self.subTest(result), self.assertRaisesRegex(TypeError, "would go on without the lock"):
                    self.held(lambda result=result: result())()
        # A future that was under way was waited for, within the lock.
        self.assertEqual(done, [False])

        @self.held
        async def late():
            return asyncio.sleep(0)

        with self.assertRaisesRegex(TypeError, "would go on without the lock"):
            asyncio.run(late())
        for refused in (dict, type(self)):
            self.assertRaisesRegex(TypeError, "class", self.held, refused)
        made = contextlib.contextmanager(lambda: iter([1]))
        for left_out in (self.held.attempt(), once(self.id(), every=40, client=self.client)):
            self.assertRaisesRegex(TypeError, "cannot leave its body out", left_out, made)
        self.assertEqual(self.held(lambda: io.StringIO("lines"))().read(), "lines")


if __name__ == "__main__":
    unittest.main()
