"""`attempt`: work that is left out where others hold the lock."""

import asyncio
import contextlib
import threading

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, Case


class Attempt(Case):
    def setUp(self):
        super().setUp()
        self.client, self.other = (quorlock.Client(self.nodes) for _ in range(2))
        for client in (self.client, self.other):
            self.addCleanup(client.close)
        self.elsewhere = self.other.lock(self.id())

    def test_a_scope_without_a_lease(self):
        lock = self.client.lock(self.id())
        for scope in (lock.attempt(), redlock(self.id(), client=self.client).attempt()):
            with scope as lease:
                self.assertTrue(lease and lease.is_held())
                # The owner of it enters again.
                with scope as again:
                    self.assertEqual(again.token, lease.token)
            self.assertFalse(lease.is_held())
            with self.elsewhere, scope as lease:
                self.assertIsNone(lease)
            # A node whose release is under way yet would refuse a try.
            self.assert_nothing_left()
            # One that is inside without, within one that is inside with.
            with scope as outer:
                with self.assertRaises(ZeroDivisionError), self.held_by_another_thread(scope):
                    raise ZeroDivisionError
                self.assertTrue(outer.is_held())
            with self.assertRaises(quorlock.NotOwnerError):
                scope.__exit__(None, None, None)
        self.assert_nothing_left()

    @contextlib.contextmanager
    def held_by_another_thread(self, scope):
        """Another thread is inside the same scope, without a lease, while the body runs."""
        inside, go_on, leases = threading.Event(), threading.Event(), []

        def work():
            with scope as lease:
                leases.append(lease)
                inside.set()
                go_on.wait(LONG)

        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(inside.wait(LONG))
        try:
            yield
        finally:
            go_on.set()
            thread.join(LONG)
            self.assertEqual(leases, [None])

    def test_a_scope_that_waits(self):
        lock = self.client.lock(self.id(), wait=0)
        with self.elsewhere, lock.attempt(wait=0.05) as lease:
            self.assertIsNone(lease)
        held = self.elsewhere.acquire()
        timer = threading.Timer(0.05, held.release)
        timer.start()
        with lock.attempt(wait=LONG) as lease:
            self.assertTrue(lease)
        timer.join()

    def test_a_function_is_left_out(self):
        runs = []

        def job(word):
            runs.append(word)
            return word

        at_once = redlock(self.id(), client=self.client).attempt()(job)
        later = redlock(key=lambda word: self.id(), client=self.client).attempt(wait=0.05)(job)
        self.assertEqual((at_once("a"), later("b")), ("a", "b"))
        with self.elsewhere:
            self.assertEqual((at_once("c"), later("d")), (None, None))
        self.assertEqual(runs, ["a", "b"])

    def test_other_errors_are_raised(self):
        @redlock(self.id(), client=self.client).attempt()
        def raises():
            raise quorlock.LockContendedError("of its own")

        with self.assertRaises(quorlock.LockContendedError):
            raises()
        lock = self.client.lock(self.id())
        self.stage.kill(1, 2)
        with self.assertRaises(quorlock.QuorumUnavailableError), lock.attempt():
            self.fail("without a quorum")
        with self.assertRaises(ValueError), lock.attempt(wait=-2):
            self.fail("with such a wait")
        with self.assertRaises(TypeError):
            quorlock.once("job", every=40).attempt()

    def test_where_a_wait_would_be_for_our_own_thread(self):
        """What holds the lock can go on only once we do: that is said, and the work is not left out in silence."""

        async def main():
            async def other():
                with self.client.lock(self.id()).attempt(wait=LONG) as lease:
                    return lease

            with self.client.lock(self.id()):
                return await asyncio.create_task(other())

        with self.assertRaises(quorlock.WouldDeadlockError):
            asyncio.run(main())

    def test_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                runs = []
                lock = client.lock(self.id())
                short = redlock(self.id(), client=client)

                @short.attempt()
                async def job():
                    runs.append(1)
                    return "done"

                self.assertEqual(await job(), "done")
                for scope in (lock.attempt(), lock.attempt(wait=0.05), short.attempt(), short.attempt(wait=0.05)):
                    async with scope as lease:
                        self.assertTrue(lease and lease.is_held())
                    self.assertFalse(lease.is_held())
                    with self.elsewhere:
                        async with scope as lease:
                            self.assertIsNone(lease)
                    with self.assertRaises(ZeroDivisionError), self.elsewhere:
                        async with scope:
                            raise ZeroDivisionError
                    with self.assertRaises(quorlock.NotOwnerError):
                        await scope.__aexit__(None, None, None)
                    # A node whose release is under way yet would refuse the next try.
                    await asyncio.to_thread(self.assert_nothing_left)
                with self.elsewhere:
                    self.assertIsNone(await job())
                self.assertEqual(runs, [1])

        asyncio.run(main())
        self.assert_nothing_left()

    def test_tasks_in_one_scope(self):
        """One with the lease, others without: each leaves its own."""

        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                scope = client.lock(self.id()).attempt()
                inside, go_on = asyncio.Event(), asyncio.Event()

                async def without():
                    await inside.wait()
                    async with scope as lease:
                        self.assertIsNone(lease)

                async def inner():
                    async with scope as lease:
                        inside.set()
                        await go_on.wait()
                        return lease.is_held()

                with_it = asyncio.create_task(inner())
                await asyncio.gather(*(without() for _ in range(5)))
                go_on.set()
                self.assertTrue(await with_it)

        asyncio.run(main())
        self.assert_nothing_left()
