"""Holding a lock for a scope, for a call, and by hand; who owns it."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import os
import threading
import unittest
import warnings
from unittest import mock

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, eventually, memory

NODES = memory("scopes")


def in_thread(function):
    """What a function gives or raises in a thread of its own."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LONG)
    return outcome[0]


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)

    def contended(self, name):
        """Whether another thread is refused."""
        lease = in_thread(lambda: self.client.lock(name).try_acquire())
        return lease is None or not lease.release()

    def test_with_lock(self):
        lock = self.client.lock(self.id())
        with lock as lease:
            self.assertTrue(lease.is_held())
            self.assertEqual(lease.name, self.id())
            self.assertGreater(lease.remaining(), 5)
            self.assertTrue(self.contended(self.id()))
        self.assertFalse(lease.is_held())
        self.assertFalse(self.contended(self.id()))

    def test_with_redlock(self):
        for _ in range(2):
            with redlock(self.id(), nodes=NODES) as lease:
                self.assertTrue(lease.is_held())
                self.assertTrue(self.contended(self.id()))
            self.assertFalse(lease.is_held())

    def test_with_lease(self):
        with self.client.lock(self.id()).acquire() as lease:
            self.assertTrue(lease.is_held())
        self.assertFalse(lease.is_held())

    def test_decorator(self):
        @redlock("scopes-job", nodes=NODES)
        def job(x: int, *, y: int) -> int:
            """Does it."""
            self.assertTrue(self.contended("scopes-job"))
            return x + y

        self.assertEqual(job(1, y=2), 3)
        self.assertEqual((job.__name__, job.__doc__), ("job", "Does it."))
        self.assertFalse(self.contended("scopes-job"))

    def test_decorator_with_key_of_the_arguments(self):
        @redlock(key=lambda number: f"scopes-{number}", client=self.client)
        def job(number):
            self.assertTrue(self.contended("scopes-7"))
            self.assertFalse(self.contended("scopes-8"))
            return number

        self.assertEqual(job(7), 7)

    def test_decorator_refuses_generators(self):
        def generator():
            yield

        async def agenerator():
            yield

        for function in (generator, agenerator):
            self.assertRaises(TypeError, redlock("x", nodes=NODES), function)

    def test_decorator_without_a_name(self):
        def job():
            self.fail("runs without a lock")

        self.assertRaisesRegex(TypeError, r'job in place of a name: write @redlock\("a name"\)', redlock, job)
        self.assertRaisesRegex(TypeError, "name", redlock, functools.partial(job))

    def test_names_of_another_type(self):
        self.assertRaisesRegex(TypeError, "name is 5: give text, or bytes", redlock, 5)
        self.assertRaisesRegex(TypeError, "key is 5: give text, or bytes", redlock, key=5)
        self.assertRaisesRegex(TypeError, "name is 5", self.client.lock, 5)
        self.assertRaisesRegex(TypeError, "owner is 5", self.client.lock, "x", owner=5)
        self.assertRaisesRegex(TypeError, "the key is None", redlock(key=lambda: None, client=self.client)(self.fail))

    def test_options_are_checked_when_a_function_is_decorated(self):
        for options in ({"ttl": -1}, {"ttl": 4000}, {"drift": 2.0}, {"nodes": ["http://x"]}, {"name": ""}, {"ca": "/none.pem"},
                        {"client": self.client, "ttl": 4000}, {"ttl": "10"}, {"renew": "no"}):
            held = redlock(**{"name": "scopes-checked", **options})
            with self.subTest(options), self.assertRaises((quorlock.InvalidArgumentError, TypeError)):
                held(self.fail)
        before = os.environ.get("QUORLOCK_NODES")
        os.environ["QUORLOCK_NODES"] = "not known before it is called"
        try:
            redlock("scopes-checked", ttl=5)(self.fail)
        finally:
            del os.environ["QUORLOCK_NODES"]
            if before is not None:
                os.environ["QUORLOCK_NODES"] = before

    def test_certificates_of_the_one_line_form(self):
        for options in ({"cert": "x"}, {"cert_key": "x"}):
            self.assertRaisesRegex(ValueError, "cert and cert_key go together", redlock, "x", **options)
        both = {"cert": "/none.pem", "cert_key": "/none.key"}
        self.assertRaisesRegex(ValueError, "no file of that name", redlock("x", nodes=["rediss://x"], **both), self.fail)
        self.assertRaisesRegex(ValueError, "cert, cert_key: give them", redlock, "x", client=self.client, **both)

    def test_decorator_of_methods(self):
        class Jobs:
            @redlock("scopes-static", client=self.client)
            @staticmethod
            def static(number):
                return number, self.contended("scopes-static")

            @redlock("scopes-class", client=self.client)
            @classmethod
            def of_class(cls, number):
                return cls.__name__, number, self.contended("scopes-class")

        self.assertEqual(Jobs().static(1), (1, True))
        self.assertEqual(Jobs.of_class(2), ("Jobs", 2, True))
        self.assertRaisesRegex(TypeError, "run of a function", redlock("x"), 5)

    def test_decorator_refuses_what_goes_on_without_the_lock(self):
        async def work():
            self.fail("runs without the lock")

        def generator():
            yield self.fail("runs without the lock")

        async def agenerator():
            yield self.fail("runs without the lock")

        for late in (work, generator, agenerator):
            job = redlock(self.id(), client=self.client)(lambda late=late: late())
            with warnings.catch_warnings():
                # A coroutine that is not awaited is not passed over in silence either.
                warnings.simplefilter("error")
                self.assertRaisesRegex(TypeError, "lambda.*would go on without the lock.*async def", job)
            self.assertFalse(self.contended(self.id()))

        async def main():
            tasks = []

            @redlock(self.id(), client=self.client)
            def begins():
                tasks.append(asyncio.create_task(work()))
                return tasks[0]

            self.assertRaisesRegex(TypeError, "begins returned a Task", begins)
            await asyncio.wait(tasks)
            self.assertTrue(tasks[0].cancelled())

        asyncio.run(main())

    def test_redlock_refuses_what_makes_no_sense(self):
        for options in ({}, {"name": "x", "key": "y"}, {"name": "x", "client": self.client, "nodes": NODES},
                        {"name": "x", "client": self.client, "drift": 0.02}, {"name": "x", "nodes": ["http://x"]},
                        {"name": "", "nodes": NODES}, {"key": lambda: "x", "nodes": NODES}):
            with self.assertRaises(quorlock.InvalidArgumentError):
                redlock(**options).__enter__()

    def test_the_default_client_is_one_for_each_set_of_options(self):
        from quorlock import _default
        one = _default.client(NODES, {})
        self.assertIs(one, _default.client(tuple(NODES), {}))
        self.assertIs(one, _default.client(",".join(NODES), {}))
        self.assertIsNot(one, _default.client(NODES, {"drift": 0.02}))
        self.assertIsNot(one, _default.client(NODES[:1], {}))

    def test_many_sets_of_options_without_a_client_are_told_once(self):
        from quorlock import _default
        with (mock.patch.multiple(_default, _clients={}, _told_of_many=False), warnings.catch_warnings(record=True) as warned,
              self.assertLogs("quorlock", "WARNING") as logged):
            warnings.simplefilter("always")
            for i in range(40):
                self.assertEqual(len(warned), i > 16)
                with redlock(self.id(), nodes=NODES, drift=0.01 + i / 1000):
                    pass
            redlock(self.id(), nodes=NODES, drift=0.5)(lambda: None)()
        self.assertEqual([(one.category, one.filename) for one in warned], [(ResourceWarning, __file__)])
        self.assertIn("17 calls", str(warned[0].message))
        self.assertEqual(len(logged.output), 1)

    def test_options_are_not_refused_for_nodes_that_are_not_named_yet(self):
        # The environment names them when the client is first used.
        quorlock.Client(wait_replicas=1).lock("replicated")
        with mock.patch.dict(os.environ, QUORLOCK_WAIT_REPLICAS="1"):
            quorlock.Client().lock("replicated")
            redlock("replicated")(lambda: None)
        with self.assertRaisesRegex(quorlock.InvalidArgumentError, "wait_replicas is -1"):
            quorlock.Client(wait_replicas=-1)

    def test_nodes_of_the_environment(self):
        from quorlock import _default
        before = os.environ.get("QUORLOCK_NODES")
        try:
            os.environ["QUORLOCK_NODES"] = "memory://scopes-env1, memory://scopes-env2"
            client, late = quorlock.Client(), quorlock.Client()
            lock = late.lock("a")
            self.assertIn("not used", repr(client))
            client.stats()
            self.assertIn("scopes-env2", repr(client))
            self.assertIn("scopes-env2", repr(_default.client(None, {})))
            os.environ["QUORLOCK_NODES"] = "memory://scopes-env3"
            with lock:
                self.assertIn("scopes-env3", repr(late))
            client.stats()
            self.assertIn("scopes-env2", repr(client))
            self.assertIn("scopes-env3", repr(_default.client(None, {})))
        finally:
            del os.environ["QUORLOCK_NODES"]
            if before is not None:
                os.environ["QUORLOCK_NODES"] = before

    def test_nodes_of_the_environment_that_are_not_utf_8_are_refused(self):
        with mock.patch.dict(os.environ, QUORLOCK_NODES=os.fsdecode(b"redis://user:secret\xff@127.0.0.1")):
            calls = (
                lambda: quorlock.Client().lock("a").acquire(),
                lambda: quorlock.aio.Client().stats(),
                lambda: redlock("a", client=quorlock.Client()).__enter__(),
                redlock(self.id()).__enter__,
                redlock(self.id())(lambda: self.fail("it ran")),
            )
            for call in calls:
                with self.assertRaisesRegex(quorlock.InvalidArgumentError, "QUORLOCK_NODES is not UTF-8") as raised:
                    call()
                self.assertNotIn("secret", str(raised.exception))
            quorlock.Client(NODES).close()

    def test_reentry_by_one_thread(self):
        held = redlock(self.id(), client=self.client)
        with held as outer:
            with held as inner:
                self.assertEqual(inner.token, outer.token)
            self.assertFalse(inner.is_held())
            self.assertTrue(outer.is_held())
            self.assertTrue(self.contended(self.id()))
        self.assertFalse(self.contended(self.id()))

    def test_one_object_used_by_many_threads(self):
        held = redlock(self.id(), client=self.client, wait=LONG)
        inside, most = [], []

        def work():
            for _ in range(5):
                with held:
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual((len(most), max(most)), (40, 1))

    def open(self, held):
        """A generator inside of a scope."""
        with held as lease:
            yield lease

    def test_a_scope_that_is_left_elsewhere_ends_its_own_lease(self):
        for held in (self.client.lock(self.id()), redlock(self.id(), client=self.client)):
            for elsewhere in (in_thread, contextvars.Context().run, contextvars.copy_context().run):
                for leave in (lambda opened: opened.close(), lambda opened: next(opened, None),
                              lambda opened: self.assertRaises(OSError, opened.throw, OSError)):
                    opened = self.open(held)
                    lease = next(opened)
                    self.assertTrue(lease.is_held())
                    self.assertNotIsInstance(elsewhere(lambda: leave(opened)), Exception)
                    self.assertFalse(lease.is_held())
                    self.assertFalse(self.contended(self.id()))

    def test_it_ends_no_lease_but_its_own(self):
        held = redlock(self.id(), client=self.client, ttl=0.3, renew=False)
        lost = self.open(held)
        self.assertTrue(next(lost).lost.wait(LONG))

        def after_it():
            valid = self.open(held)
            return valid, next(valid)

        valid, lease = in_thread(after_it)
        lease.extend(20)
        with self.assertRaises(quorlock.LockLostError):
            next(lost)
        self.assertTrue(lease.is_held())
        valid.close()
        self.assertFalse(lease.is_held())

    def test_a_stack_that_is_left_elsewhere(self):
        lock = self.client.lock(self.id())
        for elsewhere in (in_thread, contextvars.Context().run):
            stack = contextlib.ExitStack()
            lease = stack.enter_context(lock)
            self.assertTrue(lease.is_held())
            elsewhere(stack.close)
            self.assertFalse(lease.is_held())

    def test_a_scope_outlives_the_thread_that_entered_it(self):
        opened = self.open(self.client.lock(self.id(), ttl=0.3))
        lease = in_thread(lambda: next(opened))
        # Many renewals later, each of which would see that the thread has ended.
        self.assertFalse(lease.lost.wait(1))
        opened.close()
        self.assertFalse(self.contended(self.id()))

    def test_leaving_what_was_not_entered_is_refused(self):
        lock = self.client.lock(self.id())
        with self.assertRaises(quorlock.NotOwnerError):
            lock.__exit__(None, None, None)
        with lock:
            pass
        with self.assertRaises(quorlock.NotOwnerError):
            lock.__exit__(None, None, None)

    def test_acquire_and_release_without_storing_the_lease(self):
        lock = self.client.lock(self.id())
        lock.acquire()
        gc.collect()
        self.assertTrue(self.contended(self.id()))
        self.assertTrue(lock.release())
        self.assertFalse(self.contended(self.id()))
        with self.assertRaises(quorlock.NotOwnerError):
            lock.release()
        self.assertEqual(len(lock._kept), 0)

    def test_a_collected_lease_is_released(self):
        lock = self.client.lock(self.id())
        lock.acquire()
        self.assertTrue(self.contended(self.id()))
        with self.assertWarns(ResourceWarning):
            del lock
        self.assertTrue(eventually(lambda: not self.contended(self.id())))

    def test_a_lease_that_nobody_keeps_is_warned_of(self):
        def by_hand():
            if self.client.lock(self.id()).try_acquire() and not self.contended(self.id()):
                return "discarded"

        def by_scope():
            self.client.lock(self.id()).__enter__()

        def by_reentry(held):
            with held:
                return held._enter().is_held()

        for discards in (by_hand, by_scope, lambda: by_reentry(self.client.lock(self.id()))):
            with self.assertWarnsRegex(ResourceWarning, "test_scopes.*nobody keeps its lease") as warned:
                discards()
                gc.collect()
            self.assertEqual(warned.filename, __file__)
            # Although the warning knows the lease.
            self.assertTrue(eventually(lambda: not self.contended(self.id())))

    def test_nothing_is_warned_of_where_nothing_is_forgotten(self):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            lock = self.client.lock(self.id())
            with lock, redlock(self.id(), client=self.client):
                pass
            with lock.acquire():
                pass
            lock.acquire()
            lock.release()
            lock.acquire().release()
            self.assertTrue(self.client.lock(self.id(), ttl=0.05, renew=False).acquire().lost.wait(LONG))
            # What is kept to see the loss by keeps the lease.
            lost = self.client.lock(self.id()).acquire().lost
            gc.collect()
            self.assertTrue(self.contended(self.id()))
            self.client.close()
            self.assertEqual(lost.reason, "closed")
            del lost
            gc.collect()
        self.assertEqual([str(each.message) for each in warned], [])

    def test_a_lease_in_a_cycle_with_its_callback_is_collected(self):
        lease = self.client.lock(self.id()).acquire()
        lease.on_lost(lambda reason: lease.name)
        self.assertTrue(self.contended(self.id()))
        with self.assertWarns(ResourceWarning):
            del lease
            gc.collect()
        self.assertTrue(eventually(lambda: not self.contended(self.id())))

    def test_another_thread_is_another_owner(self):
        lock = self.client.lock(self.id())
        lock.acquire()
        self.assertIsInstance(in_thread(lambda: lock.acquire(wait=0)), quorlock.LockContendedError)
        self.assertIsInstance(in_thread(lock.release), quorlock.NotOwnerError)
        self.assertTrue(lock.release())
        # Nor has the same thread one, of what is acquired by hand.
        with lock.acquire(), self.assertRaises(quorlock.LockContendedError):
            lock.acquire(wait=0)

    def test_a_named_owner_is_one_everywhere(self):
        for owner in ("job-7", b"\xff"):
            lock = self.client.lock(self.id(), owner=owner)
            lock.acquire()
            lease = in_thread(lambda: self.client.lock(self.id(), owner=owner).acquire(wait=0))
            self.assertTrue(lease.release())
            self.assertTrue(in_thread(lock.release))

    def test_ways_to_say_how_long_to_wait(self):
        lock = self.client.lock(self.id())
        held_by_holder = self.client.lock(self.id(), owner="holder").acquire()
        for call, error in (({"timeout": 0}, quorlock.LockContendedError),
                            ({"wait": 0}, quorlock.LockContendedError), ({"timeout": 0.05}, quorlock.LockTimeoutError),
                            ({"wait": 0.05}, TimeoutError), ({"wait": 1, "timeout": 1}, ValueError),
                            ({"blocking": False, "timeout": 1}, ValueError), ({"timeout": -2}, ValueError), ({"wait": -1}, ValueError),
                            ({"timeout": float("nan")}, ValueError), ({"timeout": "1"}, TypeError)):
            with self.subTest(call), self.assertRaises(error):
                lock.acquire(**call)
        self.assertIsNone(lock.try_acquire())
        # As threading.Lock has it.
        self.assertIs(lock.acquire(blocking=False), False)
        self.assertIs(lock.acquire(False, -1), False)
        released = threading.Timer(0.05, held_by_holder.release)
        released.start()
        self.assertTrue(self.client.lock(self.id(), wait=0).acquire(timeout=-1).release())
        released.join()
        self.assertTrue(lock.try_acquire().release())
        lease = lock.acquire(blocking=False)
        self.assertTrue(lease and lease.is_held() and lock.release())
        # Always true, so that it is never taken for a refusal.
        self.assertTrue(lease)
        with self.assertRaises(RuntimeError):
            lock.release()

    def test_names_that_are_not_text(self):
        lock = self.client.lock(b"\xff\xfe")
        self.assertEqual(lock.name, "\udcff\udcfe")
        with lock as lease, self.client.lock(lease.name) as again:
            self.assertEqual(again.token, lease.token)
        with self.assertRaises(quorlock.InvalidArgumentError):
            self.client.lock("\ud800")

    def test_extend_and_ensure(self):
        with self.client.lock(self.id(), ttl=1, renew=False) as lease:
            self.assertLess(lease.remaining(), 1)
            lease.extend(20)
            self.assertGreater(lease.remaining(), 15)
            # What is left is enough, though the ttl could not give it.
            lease.ensure(5)
            with self.assertRaises(quorlock.InvalidArgumentError):
                lease.ensure(30)
            with self.assertRaises(quorlock.InvalidArgumentError):
                lease.extend(1000)
        with self.assertRaises(quorlock.NotOwnerError):
            lease.extend()

    def test_close_ends_leases(self):
        with quorlock.Client(NODES) as client:
            lease = client.lock(self.id()).acquire()
        self.assertEqual(lease.lost.reason, "closed")
        with self.assertRaises(quorlock.ClientClosedError):
            client.lock(self.id()).acquire()


if __name__ == "__main__":
    unittest.main()
