"""Who makes a blocking call: thread, task, greenlet and context, and when two of them are one owner."""

import asyncio
import contextlib
import contextvars
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import asgiref.sync
import django.http
import django.test
import django.urls
import django_app
import greenlet
import quorlock
import quorlock.aio
import trio
from IPython.core.interactiveshell import InteractiveShell
from inside import Inside
from quorlock import _owner, redlock
from support import LONG, memory

NODES = memory("owners")


class Owners(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, wait=LONG)
        self.addCleanup(self.client.close)
        self.held = redlock(self.id(), client=self.client)

    def reenters(self):
        """For whoever is called by the holder."""
        with self.held as lease:
            return lease.token

    def assert_at_once(self, function, *words):
        """Refused without a wait, and the error has these words."""
        before = time.monotonic()
        with self.assertRaises(quorlock.WouldDeadlockError) as raised:
            function()
        self.assertLess(time.monotonic() - before, LONG / 2)
        for word in words:
            self.assertIn(word, str(raised.exception))

    def assert_free(self):
        with ThreadPoolExecutor(1) as pool:
            self.assertTrue(pool.submit(lambda: self.client.lock(self.id()).acquire(wait=5).release()).result())


class Contexts(Owners):
    def test_what_the_holder_calls_reenters(self):
        with self.held as lease:
            self.assertEqual(self.reenters(), lease.token)
            self.assertEqual(contextvars.copy_context().run(self.reenters), lease.token)
            self.assertEqual(contextvars.copy_context().run(contextvars.copy_context().run, self.reenters), lease.token)
        self.assert_free()

    def test_another_context_of_the_same_thread_is_refused_at_once(self):
        with self.held:
            self.assert_at_once(lambda: contextvars.Context().run(self.reenters), "in another context", "owner=")

    def test_a_mark_of_a_hold_that_has_ended_counts_for_nothing(self):
        lock = self.client.lock(self.id())
        with lock:
            before = contextvars.copy_context()
        # Kept, so that the mark still finds its hold.
        other = contextvars.Context().run(lock.acquire)
        self.assertIsNone(before.run(lock.try_acquire))
        with self.assertRaises(quorlock.LockContendedError):
            before.run(lambda: self.client.lock(self.id(), wait=0).__enter__())
        other.release()

    def test_two_contexts_that_left_something_in_one_thread_are_two_owners(self):
        lock = self.client.lock(self.id())
        with lock as ended:
            one, two = contextvars.copy_context(), contextvars.copy_context()
        self.assertFalse(ended.is_held())
        lease = one.run(lock.__enter__)
        with two.run(lock.attempt().__enter__) or contextlib.nullcontext() as skipped:
            self.assertIsNone(skipped)
        self.assertEqual(one.run(self.reenters), lease.token)
        lease.release()

    def test_a_generator_is_one_owner_with_its_caller(self):
        def generator():
            with self.held as lease:
                yield lease.token

        one, two = generator(), generator()
        self.assertEqual(next(one), next(two))
        self.assertEqual(self.reenters(), next(generator()))
        # Out of order, as a pool of generators leaves them.
        one.close()
        two.close()
        self.assert_free()

    def test_marks_do_not_heap_up(self):
        from quorlock import _owner
        leases = []
        for number in range(500):
            with self.client.lock(f"{self.id()}-{number}") as lease:
                leases.append(lease)
        self.assertLess(_owner._newest_mark.get().depth, 64)

    def test_holds_of_many_names_do_not_heap_up(self):
        held = [self.client.lock(f"held-{number}").__enter__() for number in range(10)]
        for number in range(3 * _owner._MANY):
            with self.client.lock(f"many-{number}"):
                pass
        self.assertLessEqual(len(_owner._newest), 2 * _owner._MANY)
        # Those that live are known yet, to whoever would wait for them.
        for number, lease in enumerate(held):
            other = contextvars.Context().run
            self.assert_at_once(lambda: other(self.client.lock(f"held-{number}").__enter__), "another context")  # noqa: B023
            lease.release()

    def test_many_holds_at_once(self):
        locks = [self.client.lock(f"{self.id()}-{number}") for number in range(500)]
        leases = [lock.__enter__() for lock in locks]
        for lock, lease in zip(locks, leases, strict=True):
            with lock as again:
                self.assertEqual(again.token, lease.token)
        self.client.close()


class Flag(Owners):
    def test_without_reentry(self):
        lock = self.client.lock(self.id(), reentrant=False)
        lease = lock.acquire()
        self.assertIsNone(lock.try_acquire())
        with self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
            lock.acquire(wait=0.05)
        # Nor by another that would.
        self.assertIsNone(self.client.lock(self.id()).try_acquire())
        # As with threading.Lock: acquired here, released there, acquired here.
        thread = threading.Timer(0.05, lease.release)
        thread.start()
        self.assertTrue(lock.acquire().is_held())
        thread.join()
        self.assertTrue(lock.release())
        with redlock(self.id(), client=self.client, reentrant=False, wait=0) as outer:
            self.assertTrue(outer.is_held())
            with self.assertRaises(quorlock.LockContendedError):
                redlock(self.id(), client=self.client, reentrant=False, wait=0).__enter__()
            self.assert_at_once(redlock(self.id(), client=self.client, reentrant=False).__enter__, "around this call", "reentrant")
            self.assert_at_once(self.client.lock(self.id()).acquire, "around this call", "by hand")

    def test_without_reentry_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(NODES) as client:
                lock = client.lock(self.id(), reentrant=False)
                await lock.acquire()
                self.assertIsNone(await lock.try_acquire())
                self.assertTrue(await lock.release())
                async with redlock(self.id(), client=client, reentrant=False, wait=0) as lease:
                    self.assertTrue(lease.is_held())
                    with self.assertRaises(quorlock.LockContendedError):
                        await lock.acquire(wait=0)

        asyncio.run(main())

    def test_what_makes_no_sense(self):
        self.assertRaises(quorlock.InvalidArgumentError, self.client.lock, "x", owner="a", reentrant=False)
        self.assertRaises(TypeError, redlock, "x", reentrant="no")


class Tasks(Owners):
    def test_ten_coroutines_that_block(self):
        inside = Inside()

        async def work():
            with self.held, inside:
                for _ in range(10):
                    await asyncio.sleep(0)

        async def main():
            return await asyncio.gather(*(work() for _ in range(10)), return_exceptions=True)

        outcome = asyncio.run(main())
        refused = [error for error in outcome if isinstance(error, quorlock.WouldDeadlockError)]
        self.assertEqual((inside.most, inside.entries, len(refused)), (1, 1, 9))
        self.assertIn("async with", str(refused[0]))
        self.assert_free()

    def test_a_task_reenters_its_own(self):
        async def main():
            with self.held as lease:
                await asyncio.sleep(0)
                self.assertEqual(self.reenters(), lease.token)
                self.assertEqual(contextvars.copy_context().run(self.reenters), lease.token)

        asyncio.run(main())
        self.assert_free()

    def test_callbacks_of_a_loop_are_strangers(self):
        async def main():
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            got = []

            def callback():
                got.append(self.client.lock(self.id()).try_acquire())
                if len(got) == 2:
                    done.set()

            loop.call_soon(callback)
            loop.call_soon(callback)
            await done.wait()
            return [lease is not None for lease in got]

        self.assertEqual(asyncio.run(main()), [True, False])

    def test_a_block_outside_of_the_loop_and_a_task_in_it(self):
        async def main():
            self.assert_at_once(self.reenters, "outside of the event loop", "async with", "owner=")

        with self.held:
            asyncio.run(main())

    def test_a_task_that_holds_by_asyncio(self):
        async def main():
            async with self.held:
                self.assert_at_once(self.reenters, "this task", "async with")
                # What a thread holds can go on.
                self.assertIsNone(await asyncio.to_thread(self.client.lock(self.id()).try_acquire))

        asyncio.run(main())

    def test_acquired_twice_in_a_pool(self):
        lock = self.client.lock(self.id(), wait=0.1)

        async def main():
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            lease = await asyncio.to_thread(lock.acquire)
            with self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
                await asyncio.to_thread(lock.acquire)
            with self.assertRaisesRegex(quorlock.NotOwnerError, "owner="):
                await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), lock.release)
            self.assertTrue(lease.release())

        asyncio.run(main())

    def test_one_owner_by_name(self):
        named = redlock(self.id(), client=self.client, owner="one")

        async def main():
            def enter():
                with named as lease:
                    return lease.token

            with named as lease:
                self.assertEqual(await asyncio.to_thread(enter), lease.token)
                self.assertEqual(await asyncio.create_task(asyncio.to_thread(enter)), lease.token)

        asyncio.run(main())

    def test_trio(self):
        inside = Inside()
        refused = []

        async def work():
            try:
                with self.held, inside:
                    for _ in range(10):
                        await trio.lowlevel.checkpoint()
            except quorlock.WouldDeadlockError as error:
                refused.append(str(error))

        async def main():
            with self.held as lease, inside:
                self.assertEqual(self.reenters(), lease.token)
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(work)

        trio.run(main)
        self.assertEqual((inside.most, len(refused)), (1, 5))
        self.assertNotIn("async with", refused[0])


class Bridges(Owners):
    """asgiref, as Django uses it."""

    def test_back_in_the_same_thread(self):
        async def inner():
            return await asgiref.sync.sync_to_async(self.reenters)()

        with self.held as lease:
            self.assertEqual(asgiref.sync.async_to_sync(inner)(), lease.token)
        self.assert_free()

    def test_a_view_under_asgi(self):
        async def inner():
            return await asgiref.sync.sync_to_async(self.reenters)()

        def view():
            with self.held as lease:
                return asgiref.sync.async_to_sync(inner)() == lease.token == self.reenters()

        async def main():
            return await asgiref.sync.sync_to_async(view)()

        self.assertTrue(asyncio.run(main()))
        self.assert_free()

    def test_in_any_thread_waits(self):
        self.held = redlock(self.id(), client=self.client, wait=0.1)

        async def inner():
            return await asgiref.sync.sync_to_async(self.reenters, thread_sensitive=False)()

        with self.held, self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
            asgiref.sync.async_to_sync(inner)()


class Django(Owners):
    """A real application, by its ASGI handler: Django runs views that block in a thread of the request's own."""

    def get(self, view, times=1):
        """What a view answers, this many times at once."""
        with django.test.override_settings(ROOT_URLCONF=(django.urls.path("", view),)):
            replies = asyncio.run(django_app.get(*["/"] * times))
        return [reply.text for reply in replies]

    def test_a_view_that_blocks_reenters_what_it_calls(self):
        async def inner():
            return await asgiref.sync.sync_to_async(self.reenters)()

        def view(_request):
            with self.held as lease:
                again = asgiref.sync.async_to_sync(inner)()
            return django.http.HttpResponse(str(again == lease.token))

        self.assertEqual(self.get(view), ["True"])
        self.assert_free()

    def test_a_view_of_asyncio_is_refused_at_once_by_what_blocks_in_it(self):
        async def view(_request):
            async with self.held:
                self.assert_at_once(self.reenters, "async with")
                with self.assertRaisesRegex(quorlock.LockTimeoutError, "owner="):
                    await asgiref.sync.sync_to_async(lambda: self.client.lock(self.id()).acquire(wait=0.05))()
            return django.http.HttpResponse("refused")

        self.assertEqual(self.get(view), ["refused"])
        self.assert_free()

    def test_one_request_inside(self):
        inside = Inside()

        def view(_request):
            with self.held, inside:
                inside.linger()
            return django.http.HttpResponse("in")

        self.assertEqual(self.get(view, 5), ["in"] * 5)
        self.assertEqual((inside.most, inside.entries), (1, 5))


class Greenlets(Owners):
    def test_without_a_hub_another_greenlet_is_refused_at_once(self):
        inside = Inside()

        def work():
            with self.held as lease, inside:
                here.switch()
                return lease.token == self.reenters()

        here = greenlet.getcurrent()
        one, two = greenlet.greenlet(work), greenlet.greenlet(work)
        one.switch()
        self.assert_at_once(two.switch, "another greenlet", "owner=")
        self.assert_at_once(self.reenters, "another greenlet", "owner=")
        self.assertTrue(one.switch())
        self.assertEqual(inside.most, 1)
        self.assert_free()


class Cells(Owners):
    """Jupyter, which runs each cell as a task."""

    def run_cells(self, *cells):
        shell = InteractiveShell()
        shell.user_ns.update(client=self.client, name=self.id(), redlock=redlock)

        async def main():
            for cell in cells:
                run = shell.run_cell_async(cell, transformed_cell=cell, preprocessing_exc_tuple=None)
                (await asyncio.ensure_future(run)).raise_error()

        asyncio.run(main())

    def test_a_cell_reenters(self):
        self.run_cells("with redlock(name, client=client) as a, redlock(name, client=client) as b: assert a.token == b.token")
        self.assert_free()

    def test_by_hand_over_cells(self):
        self.run_cells("lock = client.lock(name)", "lock.acquire()", "assert lock.release()", "lease = lock.acquire();",
                       "assert lease.release()")
        self.assert_free()


if __name__ == "__main__":
    unittest.main()
