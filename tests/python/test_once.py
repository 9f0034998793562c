"""`keep`, and `once` on it: a job that every host starts, and one runs."""

import asyncio
import functools
import threading

import quorlock
import quorlock.aio
from quorlock import once, redlock
from support import LONG, Case, eventually


class Once(Case):
    def setUp(self):
        super().setUp()
        self.runs = []
        # Two hosts.
        self.clients = [quorlock.Client(self.nodes) for _ in range(2)]
        for client in self.clients:
            self.addCleanup(client.close)

    def job(self, client, **options):
        @once(self.id(), client=client, **{"every": 40, **options})
        def job(word="done"):
            self.runs.append(word)
            return word

        return job

    def test_one_of_two_hosts_runs_it(self):
        first, second = (self.job(client) for client in self.clients)
        self.assertEqual(first("a"), "a")
        # However soon it was done, and by the same host.
        self.assertIsNone(second("b"))
        self.assertIsNone(first("c"))
        self.assertEqual(self.runs, ["a"])

    def test_the_next_time_it_runs_again(self):
        first, second = (self.job(client, every=0.4) for client in self.clients)
        self.assertEqual(first("a"), "a")
        self.assertIsNone(second("b"))
        self.assertEqual(eventually(lambda: second("c")), "c")
        self.assert_nothing_left()

    def test_a_run_that_is_long_is_not_joined(self):
        begun, go_on = threading.Event(), threading.Event()

        @once(self.id(), client=self.clients[0], every=0.2)
        def long():
            begun.set()
            go_on.wait(LONG)
            return "done"

        results = []
        thread = threading.Thread(target=lambda: results.append(long()))
        thread.start()
        self.assertTrue(begun.wait(LONG))
        # Longer than `every`.
        with self.assertRaises(quorlock.LockTimeoutError):
            self.clients[1].lock(self.id()).acquire(timeout=0.5)
        self.assertIsNone(self.job(self.clients[1], every=0.2)())
        go_on.set()
        thread.join(LONG)
        self.assertEqual(results, ["done"])

    def test_what_the_job_raises_is_raised(self):
        @once(self.id(), client=self.clients[0], every=0.2)
        def fails():
            raise quorlock.LockContendedError("of its own")

        with self.assertRaisesRegex(quorlock.LockContendedError, "of its own"):
            fails()
        # It has run: nobody repeats it.
        self.assertIsNone(self.job(self.clients[1], every=0.2)())

    def test_coroutine_functions(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:

                @once(self.id(), client=client, every=0.2)
                async def job(word):
                    await asyncio.sleep(0)
                    return word

                return await job("a"), await job("b")

        self.assertEqual(asyncio.run(main()), ("a", None))

    def test_a_name_that_follows_from_the_arguments(self):
        @once(key=lambda user: f"{self.id()}:{user}", client=self.clients[0], every=0.2)
        def job(user):
            return user

        self.assertEqual([job("a"), job("b"), job("a")], ["a", "b", None])

    def test_it_is_for_functions(self):
        with self.assertRaisesRegex(TypeError, "for functions"), once(self.id(), client=self.clients[0], every=1):
            pass
        for refused in ("wait", "owner", "reentrant"):
            with self.assertRaisesRegex(TypeError, refused):
                once(self.id(), every=1, **{refused: 1})
        with self.assertRaisesRegex(quorlock.InvalidArgumentError, "20ms"):
            once(self.id(), every=0.01)(lambda: None)
        self.assertTrue(callable(once(self.id(), every=1)(functools.partial(print))))

    def test_a_job_has_one_name(self):
        for several in ({"name": ["a", "b"]}, {"key": ["a", "b"]}, {"name": []}):
            with self.assertRaisesRegex(TypeError, "one name"):
                once(every=40, client=self.clients[0], **several)

        @once(key=lambda: ["a", "b"], client=self.clients[0], every=40)
        def job():
            self.runs.append("a and b")

        with self.assertRaisesRegex(TypeError, "one name"):
            job()
        self.assertEqual(self.runs, [])

    def test_a_lease_that_nobody_got_keeps_nothing(self):
        """An acquire that is cancelled in the moment of its success must not cost the others their turn."""

        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                lock = client.lock(self.id(), keep=60, wait=0)
                for pause in range(0, 3000, 50):
                    task = asyncio.ensure_future(lock.acquire())
                    # Turns of the loop, and time, until it may be won.
                    await asyncio.sleep(pause / 1e6)
                    task.cancel()
                    try:
                        lease = await task
                    except asyncio.CancelledError:
                        continue
                    except quorlock.LockContendedError:
                        # The one before was won as it was cancelled, and is on its way back. A lock that is kept would be
                        # so for good.
                        continue
                    await lease.release()
                    return
                self.fail("it is never won")

        asyncio.run(main())

    def test_a_scope_with_keep(self):
        with redlock(self.id(), client=self.clients[0], keep=0.2):
            pass
        self.assertIsNone(self.clients[1].lock(self.id()).try_acquire())
        self.clients[1].lock(self.id()).acquire().release()
