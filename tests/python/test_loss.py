"""A lease that is lost: how the holder hears of it."""

import asyncio
import collections
import contextlib
import contextvars
import gc
import logging
import os
import sys
import threading
import time
import unittest
from functools import partial
from unittest import mock

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, Case, eventually, memory

NODES = memory("loss")
BRIEF = {"ttl": 0.2, "renew": False}
variable = contextvars.ContextVar("variable", default=None)


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)

    def test_lost(self):
        lease = self.client.lock(self.id(), **BRIEF).acquire()
        self.assertFalse(lease.lost.is_set())
        self.assertIsNone(lease.lost.reason)
        self.assertFalse(lease.lost.wait(0))
        self.assertFalse(lease.lost.wait(0.01))
        self.assertTrue(lease.lost.wait(LONG))
        self.assertTrue(lease.lost.wait())
        self.assertEqual((lease.lost.is_set(), lease.lost.reason, lease.is_held()), (True, "expired", False))
        self.assertIn("expired", repr(lease) + repr(lease.lost))
        with self.assertRaises(quorlock.LockLostError):
            lease.extend()
        self.assertFalse(lease.release())

    def test_a_scope_that_ends_normally_raises(self):
        for held in (self.client.lock(self.id(), **BRIEF), redlock(self.id(), client=self.client, **BRIEF)):
            with self.assertRaises(quorlock.LockLostError), held as lease:
                lease.lost.wait(LONG)
        with self.assertRaises(quorlock.LockLostError), self.client.lock(self.id(), **BRIEF).acquire() as lease:
            lease.lost.wait(LONG)

        @redlock(self.id(), client=self.client, **BRIEF)
        def job():
            time.sleep(0.3)

        self.assertRaises(quorlock.LockLostError, job)

    def test_the_bodys_own_exception_wins(self):
        with self.assertRaises(KeyError), self.client.lock(self.id(), **BRIEF) as lease:
            lease.lost.wait(LONG)
            raise KeyError
        broken = mock.patch.object(quorlock.Lease, "release", side_effect=quorlock.InternalError("broken"))
        with self.assertRaises(KeyError) as raised, broken, self.client.lock(self.id()) as lease:
            raise KeyError
        self.assertFalse(lease.is_held())
        self.assertIn("could not be released: Quorlock itself failed: broken", raised.exception.__notes__[0])

    def test_no_loss_after_release(self):
        with self.client.lock(self.id(), **BRIEF) as lease:
            lease.release()
            self.assertFalse(lease.lost.wait(0.4))
        self.assertIsNone(lease.lost.reason)

    def test_acquiring_again_after_a_loss(self):
        lock = self.client.lock(self.id(), **BRIEF)
        lost = lock.acquire()
        lost.lost.wait(LONG)
        again = lock.acquire()
        self.assertTrue(lock.release())
        self.assertEqual((again.is_held(), lock.release()), (False, False))
        with self.assertRaises(quorlock.NotOwnerError):
            lock.release()
        # A scope is entered again, and then that it was lost is told.
        with self.assertRaises(quorlock.LockLostError), lock as lease:
            lease.lost.wait(LONG)
            with self.assertRaisesRegex(quorlock.LockLostError, "release the old lease first"):
                lock.__enter__()

    def test_callbacks(self):
        told, done = [], threading.Event()
        lease = self.client.lock(self.id(), **BRIEF).acquire()

        def callback(reason):
            told.append((reason, threading.current_thread() is threading.main_thread()))
            done.set()

        lease.on_lost(callback)
        self.assertTrue(done.wait(LONG))
        done.clear()
        lease.on_lost(callback)
        self.assertTrue(done.wait(LONG))
        self.assertEqual(told, [("expired", False)] * 2)

    def test_a_callback_that_raises_harms_nobody(self):
        seen, done = [], threading.Event()

        def hook(unraisable):
            seen.append(unraisable.exc_type)
            done.set()

        before, sys.unraisablehook = sys.unraisablehook, hook
        try:
            for error in (KeyError, SystemExit, KeyboardInterrupt):
                def callback(_, error=error):
                    raise error

                lease = self.client.lock(self.id() + error.__name__, **BRIEF).acquire()
                lease.on_lost(callback)
                self.assertTrue(done.wait(LONG))
                done.clear()
        finally:
            sys.unraisablehook = before
        self.assertEqual(seen, [KeyError, SystemExit, KeyboardInterrupt])

    def test_no_callback_after_release(self):
        called = []
        with self.client.lock(self.id(), **BRIEF) as lease:
            lease.on_lost(called.append)
        other = self.client.lock("after", **BRIEF).acquire()
        other.lost.wait(LONG)
        self.assertEqual(called, [])

    def test_a_thread_that_ends(self):
        """Its lease is bound to no thread, and it is told that it has been left behind."""
        lock = self.client.lock(self.id(), ttl=0.3)
        with self.assertLogs("quorlock", "WARNING") as logged:
            thread = threading.Thread(target=lock.acquire)
            thread.start()
            thread.join(LONG)
            self.assertTrue(eventually(lambda: logged.output))
        self.assertRegex(logged.output[0], "the thread that acquired the lock .* has ended")
        (lease,) = lock._kept
        # Many renewals later.
        self.assertFalse(lease.lost.wait(1))
        self.assertTrue(lease.release())


class Slow(Case):
    def test_a_callback_that_sleeps_loses_no_other_lease(self):
        # So long that a machine which stands still for a second costs nobody the lease.
        ttl = 2.0
        with quorlock.Client(self.nodes, ttl=ttl) as client, client.lock("kept") as kept:
            asleep, awake = threading.Event(), threading.Event()

            def callback(_):
                asleep.set()
                time.sleep(2 * ttl)
                awake.set()

            lease = client.lock("slow", ttl=0.1, renew=False).acquire()
            lease.on_lost(callback)
            self.assertTrue(asleep.wait(LONG))
            self.assertTrue(awake.wait(LONG))
            self.assertTrue(kept.is_held())
            self.assertEqual(client.stats()["lost"], 1)


class Withheld(unittest.TestCase):
    """A loss is told behind no callback of another lease and behind no log line."""

    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)
        self.kept = []

    def told(self, name):
        """An event that is set by the callback of a lease that is about to be lost."""
        told, lease = threading.Event(), self.client.lock(f"{self.id()}.{name}", **BRIEF).acquire()
        lease.on_lost(lambda _: told.set())
        self.kept.append(lease)
        return told

    def test_a_callback_that_blocks_withholds_no_loss(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        begun = []
        for name in "abc":
            begins = threading.Event()
            lease = self.client.lock(f"{self.id()}.{name}", **BRIEF).acquire()
            lease.on_lost(lambda _, begins=begins: (begins.set(), go_on.wait(LONG * 3)))
            begun.append((lease, begins))
        for _, begins in begun:
            self.assertTrue(begins.wait(LONG))
        self.assertTrue(self.told("last").wait(LONG))

    def test_what_blocks_withholds_no_end_of_a_term(self):
        go_on, logs, calls, leads = (threading.Event() for _ in range(4))
        self.addCleanup(go_on.set)
        name, ends = f"{self.id()}.term", []
        election = self.client.election(name, ttl=0.6)

        def work(term):
            if ends:
                return
            leads.set()
            told.wait(LONG * 3)

        told = threading.Event()
        candidate = threading.Thread(
            target=lambda: election.run(work, on_lost=lambda _: (ends.append(go_on.is_set()), told.set())))
        candidate.start()
        self.assertTrue(leads.wait(LONG))
        logger, handler = logging.getLogger("quorlock"), logging.Handler()
        handler.emit = lambda _: (logs.set(), go_on.wait(LONG * 3))
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        lease = self.client.lock(f"{self.id()}.other", **BRIEF).acquire()
        lease.on_lost(lambda _: (calls.set(), go_on.wait(LONG * 3)))
        self.assertTrue(calls.wait(LONG) and logs.wait(LONG))
        with quorlock.Client(NODES) as other:
            other.lock(name).force_release()
        # The work of the leader is told to stop while both still block.
        self.assertTrue(told.wait(LONG))
        self.assertEqual(ends, [False])
        go_on.set()
        candidate.join(LONG)
        self.assertFalse(candidate.is_alive())

    def test_a_log_handler_on_a_full_pipe_withholds_no_loss(self):
        reader, writer = os.pipe()
        # As that of a container whose log nobody reads.
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        os.set_blocking(writer, True)
        stream = os.fdopen(writer, "w")
        logger, handler = logging.getLogger("quorlock"), logging.StreamHandler(stream)
        blocks = threading.Event()
        handler.addFilter(lambda _: blocks.set() or True)
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        try:
            first = self.told("first")
            self.assertTrue(blocks.wait(LONG))
            self.assertTrue(first.wait(LONG))
            self.assertTrue(self.told("second").wait(LONG))
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            # Reads until the other end is closed, so that the thread for log lines goes on.
            drain = threading.Thread(target=lambda: collections.deque(iter(lambda: os.read(reader, 65536), b""), maxlen=0))
            drain.start()
            with handler.lock:
                stream.close()
            drain.join(LONG)
            os.close(reader)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = quorlock.aio.Client(NODES)
        self.addAsyncCleanup(self.client.close)

    async def test_await(self):
        async with asyncio.timeout(LONG):
            lease = await self.client.lock(self.id(), **BRIEF).acquire()
            self.assertEqual(await asyncio.gather(*(self.reason(lease) for _ in range(3))), ["expired"] * 3)
            self.assertEqual(await lease.lost, "expired")
            await lease.release()

    @staticmethod
    async def reason(lease):
        return await lease.lost

    async def told(self, lease):
        """By which thread, and in which context, callbacks of a lease are called; with what."""
        told, done = [], asyncio.Event()
        variable.set(self.id())

        def callback(*what):
            told.append((what, threading.current_thread(), variable.get()))
            done.set()

        for _ in range(2):
            done.clear()
            lease.on_lost(callback)
            self.assertFalse(done.is_set())
            await asyncio.wait_for(done.wait(), LONG)
        self.assertEqual(told[0][1:], (threading.main_thread(), self.id()))
        self.assertEqual(told[0], told[1])
        return told[0][0]

    async def test_callbacks_are_the_event_loops(self):
        lease = await self.client.lock(self.id(), **BRIEF).acquire()
        self.assertEqual(await self.told(lease), ("expired",))
        both = await self.client.lock_all([self.id(), "beside"], ttl=0.2, renew=False).acquire()
        self.assertEqual((await self.told(both))[1], "expired")

    async def test_callbacks_without_an_event_loop_are_a_thread_of_their_own(self):
        lease, told = await self.client.lock(self.id(), **BRIEF).acquire(), []
        done = threading.Event()
        begun = await asyncio.to_thread(lambda: (lease.on_lost(lambda _: (told.append(threading.current_thread()), done.set())),
                                                 threading.current_thread())[1])
        self.assertTrue(await asyncio.to_thread(done.wait, LONG))
        self.assertNotIn(told[0], (begun, threading.main_thread()))

    async def test_a_callback_that_raises_is_the_event_loops(self):
        lease, told = await self.client.lock(self.id(), **BRIEF).acquire(), asyncio.Event()

        def callback(_):
            raise KeyError("of its own")

        asyncio.get_running_loop().set_exception_handler(lambda _, context: (failures.append(context["exception"]), told.set()))
        failures = []
        lease.on_lost(callback)
        await asyncio.wait_for(told.wait(), LONG)
        self.assertEqual([type(failure) for failure in failures], [KeyError])

    async def test_no_callback_after_release(self):
        called = []
        lease = await self.client.lock(self.id(), **BRIEF).acquire()
        lease.on_lost(called.append)
        self.block_until_lost(1)
        # It is told in the next turn of the loop.
        await lease.release()
        await asyncio.sleep(0)
        self.assertEqual(called, [])

    async def test_await_may_be_given_up(self):
        async with self.client.lock(self.id()) as lease:
            for _ in range(3):
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(self.reason(lease), 0.01)
            self.assertTrue(lease.is_held())

    def ways_to_get_one(self):
        """Every way to a lease; each ends with a failure where a lost one is given."""
        lock = self.client.lock(self.id(), **BRIEF)

        async def entered(held):
            async with held:
                self.fail("the body ran")

        return lock.acquire, lock.try_acquire, lambda: entered(lock), lambda: entered(
            redlock(self.id(), client=self.client, **BRIEF))

    def block_until_lost(self, count):
        """Keeps the loop busy."""
        end = time.monotonic() + LONG
        while self.client.stats()["lost"] < count:
            self.assertLess(time.monotonic(), end, "not lost")

    def busy_when_done(self, create_future, count):
        future = create_future()
        # Runs before the task is woken, which registers later.
        future.add_done_callback(lambda _: self.block_until_lost(count))
        return future

    async def assert_not_given(self, task):
        with self.assertRaisesRegex(quorlock.LockLostError, "expired"):
            await task
        # Given back: nobody has to wait for the collector.
        lock = self.client.lock(self.id())
        self.assertIsNotNone(await lock.try_acquire())
        self.assertTrue(await lock.release())

    async def test_one_that_is_lost_before_the_loop_looks(self):
        for count, get in enumerate(self.ways_to_get_one(), 1):
            task = asyncio.create_task(get())
            await asyncio.sleep(0)
            self.block_until_lost(count)
            await self.assert_not_given(task)

    async def test_one_that_is_lost_before_its_task_goes_on(self):
        """The result is there, the task has not run, and then the loop is busy."""
        loop = asyncio.get_running_loop()
        for count, get in enumerate(self.ways_to_get_one(), 1):
            task = asyncio.create_task(get())
            with mock.patch.object(loop, "create_future", partial(self.busy_when_done, loop.create_future, count)):
                await asyncio.sleep(0)
            await self.assert_not_given(task)

    async def test_a_loss_cancels_the_task(self):
        for held in (self.client.lock(self.id(), **BRIEF), redlock(self.id(), client=self.client, **BRIEF)):
            with self.assertRaises(quorlock.LockLostError) as raised:
                async with held:
                    await asyncio.sleep(LONG)
            self.assertIsInstance(raised.exception.__cause__, asyncio.CancelledError)
            self.assertEqual(asyncio.current_task().cancelling(), 0)
        with self.assertRaises(quorlock.LockLostError):
            async with await self.client.lock(self.id(), **BRIEF).acquire():
                await asyncio.sleep(LONG)
        # The task is as before: it can wait.
        await asyncio.sleep(0)

    async def leases(self, **options):
        """What is entered as a scope when it is held already: one, and several."""
        yield await self.client.lock(self.id(), **options).acquire()
        yield await self.client.lock_all([self.id(), self.id() + "-2"], **options).acquire()

    async def test_a_lease_that_is_entered_more_than_once(self):
        async for lease in self.leases(**BRIEF):
            with self.assertRaises(quorlock.LockLostError) as raised:
                async with lease, lease:
                    async with lease:
                        await asyncio.sleep(LONG)
            self.assertIsInstance(raised.exception.__cause__, asyncio.CancelledError)
            self.assertEqual(asyncio.current_task().cancelling(), 0)
            await asyncio.sleep(0)
        # The innermost that is left ends the lease. That is no loss to those around it.
        async for lease in self.leases():
            async with lease:
                async with lease:
                    self.assertTrue(lease.is_held())
                self.assertFalse(lease.is_held())
            self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_a_lease_that_several_tasks_enter(self):
        async def in_scope(lease, entered, told):
            try:
                async with lease:
                    entered.release()
                    await asyncio.sleep(LONG)
            except quorlock.LockLostError:
                told.append(asyncio.current_task().cancelling())

        async for lease in self.leases(**BRIEF):
            entered, told = asyncio.Semaphore(0), []
            tasks = [asyncio.create_task(in_scope(lease, entered, told)) for _ in range(3)]
            for _ in tasks:
                await entered.acquire()
            await asyncio.gather(*tasks)
            self.assertEqual(told, [0, 0, 0])
        # One that its task has left open is left before that of a task which still runs.
        async for lease in self.leases(**BRIEF):
            await asyncio.create_task(lease.__aenter__())
            entered, told = asyncio.Semaphore(0), []
            task = asyncio.create_task(in_scope(lease, entered, told))
            await entered.acquire()
            await asyncio.to_thread(lease.lost.wait, LONG)
            with self.assertRaises(quorlock.LockLostError):
                await lease.__aexit__(None, None, None)
            await task
            self.assertEqual(told, [0])

    async def test_a_loss_in_a_decorated_function(self):
        @redlock(self.id(), client=self.client, **BRIEF)
        async def job():
            await asyncio.sleep(LONG)

        with self.assertRaises(quorlock.LockLostError):
            await job()

    async def test_a_body_that_swallows_the_cancellation(self):
        with self.assertRaises(quorlock.LockLostError):
            async with self.client.lock(self.id(), **BRIEF):
                try:
                    await asyncio.sleep(LONG)
                except asyncio.CancelledError:
                    pass
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_the_bodys_own_exception_wins(self):
        with self.assertRaises(KeyError):
            async with self.client.lock(self.id(), **BRIEF):
                try:
                    await asyncio.sleep(LONG)
                except asyncio.CancelledError:
                    raise KeyError from None
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_a_body_that_never_waits(self):
        with self.assertRaises(quorlock.LockLostError):
            async with self.client.lock(self.id(), **BRIEF):
                time.sleep(0.4)
        await asyncio.sleep(0.01)
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_a_cancellation_from_outside_stays_one(self):
        entered = asyncio.Event()

        async def work():
            async with self.client.lock(self.id(), **BRIEF):
                entered.set()
                try:
                    await asyncio.sleep(LONG)
                finally:
                    # Now the lease is lost, too.
                    time.sleep(0.4)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(task.cancelled())

    async def test_both_at_once(self):
        task = asyncio.current_task()
        with self.assertRaises(asyncio.CancelledError):
            async with self.client.lock(self.id(), **BRIEF) as lease:
                while not lease.lost.is_set():
                    time.sleep(0.01)
                task.cancel()
                await asyncio.sleep(LONG)
        self.assertEqual(task.uncancel(), 0)

    async def test_nested_scopes_of_one_lease(self):
        lock = self.client.lock(self.id(), **BRIEF)
        with self.assertRaises(quorlock.LockLostError):
            async with lock, lock:
                await asyncio.sleep(LONG)
        self.assertEqual(asyncio.current_task().cancelling(), 0)

    async def test_within_a_timeout(self):
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.05), self.client.lock(self.id()):
                await asyncio.sleep(LONG)
        with self.assertRaises(quorlock.LockLostError):
            async with asyncio.timeout(LONG), self.client.lock(self.id(), **BRIEF):
                await asyncio.sleep(LONG)

    async def test_a_scope_that_is_over_is_left_alone(self):
        async with self.client.lock(self.id(), **BRIEF):
            pass
        await asyncio.sleep(0.4)
        self.assertEqual(asyncio.current_task().cancelling(), 0)


class Kept(unittest.TestCase):
    def test_waiting_for_a_loss_again_and_again_costs_no_memory(self):
        # Each given-up wait must take back what it left in the lease.
        with quorlock.Client(NODES) as client, client.lock("kept") as lease:
            lease.lost.wait(0)
            gc.collect()
            before = memory_used()
            for _ in range(100_000):
                lease.lost.wait(0)
            self.assertLess(memory_used() - before, 4 << 20)


def memory_used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


if __name__ == "__main__":
    unittest.main()
