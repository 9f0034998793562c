"""The line in which threads and tasks of one client wait for a lock: its order, its bound, and leaving it."""

import asyncio
import signal
import threading
import time
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, Case, Child, eventually, memory

from stage import Stage
from stage.shards import hash_slot, tag

NODES = memory("line")
# Longer than a busy machine takes to see that somebody waits.
PATIENCE = 1.5


class Options(unittest.TestCase):
    REFUSED = (-1, 2**31, -(2**70), 2**70)
    WRONG_TYPES = ("5", 1.5, None, [])

    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)

    def makers(self, given):
        """Every way to give the option."""
        return (lambda: quorlock.Client(NODES, max_waiters=given), lambda: quorlock.aio.Client(NODES, max_waiters=given),
                lambda: self.client.lock("options", max_waiters=given),
                lambda: quorlock.aio.Client(NODES).lock("options", max_waiters=given),
                lambda: redlock("options", client=self.client, max_waiters=given).__enter__())

    def test_a_wrong_number_is_refused_by_name_and_value(self):
        for given in self.REFUSED:
            for make in self.makers(given):
                with self.subTest(given), self.assertRaises(quorlock.InvalidArgumentError) as raised:
                    make()
                self.assertIn(f"max_waiters is {given}: give an integer, 0 to 2147483647", str(raised.exception))

    def test_what_is_no_integer_is_refused_by_type(self):
        for given in self.WRONG_TYPES:
            for make in self.makers(given):
                with self.subTest(given), self.assertRaisesRegex(TypeError, f"max_waiters is a {type(given).__name__}"):
                    make()

    def test_a_free_lock_needs_no_place(self):
        for given in (0, 2**31 - 1):
            with self.client.lock("options", max_waiters=given) as lease:
                self.assertTrue(lease.is_held())
            with redlock("options", nodes=NODES, max_waiters=given) as lease:
                self.assertTrue(lease.is_held())


class Threads(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, ttl=60, wait=None)
        self.addCleanup(self.client.close)
        self.order = []

    def assert_waiting(self, count):
        self.assertTrue(eventually(lambda: self.client.stats()["waiting"] == count), self.client.stats())

    def begin(self, name, acquire):
        """A thread that holds the lock for a moment, or tells why it did not."""
        def work():
            try:
                with acquire():
                    self.order.append(name)
            except quorlock.QuorlockError as error:
                self.order.append((name, error.kind))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.addCleanup(thread.join, LONG)
        return thread

    def assert_ends(self, *threads):
        for thread in threads:
            thread.join(LONG)
            self.assertFalse(thread.is_alive())

    def test_they_get_it_in_the_order_in_which_they_came(self):
        lock = self.client.lock("threads")
        with lock:
            threads = []
            for number in range(8):
                threads.append(self.begin(number, lock.acquire))
                self.assert_waiting(number + 1)
        self.assert_ends(*threads)
        self.assertEqual(self.order, list(range(8)))
        # Only the first asked.
        self.assertEqual(self.client.stats()["attempts_lost"], 0)
        self.assert_waiting(0)

    def test_a_timeout_in_the_line(self):
        lock = self.client.lock("timeout")
        with lock:
            first = self.begin("first", lock.acquire)
            self.assert_waiting(1)
            begun = time.monotonic()
            second = self.begin("second", lambda: lock.acquire(timeout=PATIENCE))
            self.assert_waiting(2)
            third = self.begin("third", lock.acquire)
            self.assert_ends(second)
            self.assertGreaterEqual(time.monotonic() - begun, PATIENCE)
            self.assertEqual(self.order, [("second", "Timeout")])
            self.assert_waiting(2)
        self.assert_ends(first, third)
        self.assertEqual(self.order[1:], ["first", "third"])

    def test_too_many(self):
        lock = self.client.lock("many", max_waiters=1)
        with lock:
            waits = self.begin("waits", lock.acquire)
            self.assert_waiting(1)
            for name, enter in (("acquire", lock.acquire), ("with", lambda: lock),
                                ("redlock", lambda: redlock("many", client=self.client, max_waiters=1))):
                self.assert_ends(self.begin(name, enter))
                self.assertEqual(self.order.pop(), (name, "TooManyWaiters"))
            # That of the client is larger.
            more = self.begin("more", self.client.lock("many").acquire)
            self.assert_waiting(2)
        self.assert_ends(waits, more)
        self.assertEqual(self.order, ["waits", "more"])

    def test_too_many_for_a_client(self):
        with quorlock.Client(NODES, ttl=60, max_waiters=0) as client, client.lock("few"):
            refused = self.begin("refused", client.lock("few").acquire)
            # Had it waited, it would have done so for 10 s.
            self.assert_ends(refused)
            self.assertEqual(self.order, [("refused", "TooManyWaiters")])
            # A try does not wait, and is not one too many.
            self.assertIsNone(client.lock("few", owner="other").try_acquire())

    def test_a_fair_lock_is_not_passed_on(self):
        for fair, passed_on in (({}, 1), ({"fair": True}, 0)):
            lock = self.client.lock("fair", **fair)
            for enter in (lambda: lock, lambda: redlock("fair", client=self.client, **fair)):
                before = self.client.stats()["passed_on"]
                with enter():
                    first = self.begin("first", enter)
                    self.assert_waiting(1)
                    second = self.begin("second", enter)
                    self.assert_waiting(2)
                self.assert_ends(first, second)
                self.assertEqual(self.client.stats()["passed_on"], before + passed_on, fair)
        self.assertEqual(self.order, ["first", "second"] * 4)

    def test_a_wait_of_zero_takes_no_place(self):
        lock = self.client.lock("zero", max_waiters=0)
        with lock:
            self.assert_ends(self.begin("zero", lambda: lock.acquire(timeout=0)),
                             self.begin("once", lambda: lock.acquire(wait=0)))
        self.assertEqual(sorted(self.order), [("once", "Contended"), ("zero", "Contended")])

    def test_close_ends_every_wait(self):
        lock = self.client.lock("closed")
        lock.acquire()
        threads = []
        for number in range(3):
            threads.append(self.begin(number, lock.acquire))
            self.assert_waiting(number + 1)
        self.client.close()
        self.assert_ends(*threads)
        self.assertEqual(sorted(self.order), [(number, "Closed") for number in range(3)])


class Interrupted(Case):
    def test_ctrl_c_leaves_the_line(self):
        with Child("""
import logging, sys, threading, time, quorlock
# That this thread waits for what it has acquired by hand is told.
logging.getLogger("quorlock").setLevel(logging.ERROR)
client = quorlock.Client(ttl=20, wait=None)
lock = client.lock("ctrl-c")
held = client.lock("ctrl-c", owner="holder").acquire()
passed = threading.Event()

def behind():
    while client.stats()["waiting"] < 1:
        time.sleep(0.005)
    threading.Thread(target=tell).start()
    with lock:
        passed.set()

def tell():
    while client.stats()["waiting"] < 2:
        time.sleep(0.005)
    print("waiting")

thread = threading.Thread(target=behind)
thread.start()
try:
    lock.acquire()
except KeyboardInterrupt:
    print("interrupted")
while client.stats()["waiting"] != 1:
    time.sleep(0.005)
held.release()
print("passed", passed.wait(20))
thread.join()
""", self.nodes) as child:
            self.assertEqual(child.line(), "waiting")
            child.process.send_signal(signal.SIGINT)
            self.assertEqual(child.line(), "interrupted")
            # The one behind went on waiting, and was the first then.
            self.assertEqual(child.line(), "passed True")
            self.assert_ends_well(child)
        self.assert_nothing_left()


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = quorlock.aio.Client(NODES, ttl=60, wait=None)
        self.addAsyncCleanup(self.client.close)
        self.order = []

    async def assert_waiting(self, count):
        end = time.monotonic() + LONG
        while self.client.stats()["waiting"] != count and time.monotonic() < end:
            await asyncio.sleep(0.005)
        self.assertEqual(self.client.stats()["waiting"], count)

    async def hold(self, name, lock):
        async with lock:
            self.order.append(name)

    async def test_they_get_it_in_the_order_in_which_they_came(self):
        lock = self.client.lock("tasks")
        async with lock:
            tasks = [asyncio.create_task(self.hold(number, lock)) for number in range(50)]
            await self.assert_waiting(50)
        await asyncio.wait_for(asyncio.gather(*tasks), LONG)
        self.assertEqual(self.order, list(range(50)))
        self.assertEqual(self.client.stats()["attempts_lost"], 0)

    async def test_one_in_the_middle_is_cancelled(self):
        lock = self.client.lock("cancelled")
        for leave in ("acquire", "scope", "redlock"):
            with self.subTest(leave):
                self.order.clear()
                async with lock:
                    first = asyncio.create_task(self.hold("first", lock))
                    await self.assert_waiting(1)
                    scope = redlock("cancelled", client=self.client) if leave == "redlock" else lock
                    waits = lock.acquire() if leave == "acquire" else self.hold("second", scope)
                    second = asyncio.create_task(waits)
                    await self.assert_waiting(2)
                    third = asyncio.create_task(self.hold("third", lock))
                    await self.assert_waiting(3)
                    second.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await asyncio.wait_for(second, LONG)
                    await self.assert_waiting(2)
                await asyncio.wait_for(asyncio.gather(first, third), LONG)
                self.assertEqual(self.order, ["first", "third"])

    async def test_a_timeout_of_asyncio(self):
        lock = self.client.lock("timed")
        async with lock:
            first = asyncio.create_task(self.hold("first", lock))
            await self.assert_waiting(1)

            async def impatient():
                async with asyncio.timeout(PATIENCE):
                    await lock.acquire()

            second = asyncio.create_task(impatient())
            await self.assert_waiting(2)
            with self.assertRaises(TimeoutError) as raised:
                await asyncio.wait_for(second, LONG)
            # That of asyncio, not ours.
            self.assertNotIsInstance(raised.exception, quorlock.QuorlockError)
            await self.assert_waiting(1)
        await asyncio.wait_for(first, LONG)
        self.assertEqual(self.order, ["first"])

    async def test_a_timeout_in_the_line(self):
        async with self.client.lock("own"):
            with self.assertRaises(quorlock.LockTimeoutError):
                await asyncio.create_task(self.client.lock("own").acquire(timeout=0.05))
            await self.assert_waiting(0)

    async def test_too_many(self):
        lock = self.client.lock("many", max_waiters=1)
        async with lock:
            waits = asyncio.create_task(self.hold("waits", lock))
            await self.assert_waiting(1)
            for refused in (lock.acquire(), self.hold("scope", lock),
                            self.hold("redlock", redlock("many", client=self.client, max_waiters=1))):
                with self.assertRaisesRegex(quorlock.TooManyWaitersError, "max_waiters"):
                    await asyncio.wait_for(asyncio.create_task(refused), LONG)
        await asyncio.wait_for(waits, LONG)
        self.assertEqual(self.order, ["waits"])

    async def test_all_are_cancelled_at_once(self):
        lock = self.client.lock("all")
        async with lock:
            tasks = [asyncio.create_task(self.hold(number, lock)) for number in range(20)]
            await self.assert_waiting(20)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=LONG)
            await self.assert_waiting(0)
        # The line is as it was when it was new.
        await asyncio.wait_for(self.hold("after", lock), LONG)
        self.assertEqual(self.order, ["after"])


class Called(Case):
    """Who is called asks at once, though another lock of its client cannot be voted for."""

    ROUNDS = 12
    # For all rounds together. A waiter that does not believe its call asks again by itself after 0.4 to 0.6 s, in each.
    BOUND = 2.4

    def play(self, nodes, bad, kind, wait):
        holder, waiter = (quorlock.Client(nodes, ttl=60, wait=None, node_timeout=1) for _ in range(2))
        for client in (holder, waiter):
            self.addCleanup(client.close)
        waited = 0.0
        for _ in range(self.ROUNDS):
            lease, came = holder.lock("good").acquire(), []

            def come():
                with waiter.lock("good"):
                    came.append(time.monotonic())

            thread = threading.Thread(target=come, daemon=True)
            thread.start()
            self.assertTrue(eventually(lambda: waiter.stats()["queued"] == 1), waiter.stats())
            with self.assertRaises(quorlock.QuorlockError) as raised:
                waiter.lock(bad).acquire(wait=wait)
            self.assertEqual(raised.exception.kind, kind)
            freed = time.monotonic()
            lease.release()
            thread.join(LONG)
            waited += came[0] - freed
        self.assertLess(waited, self.BOUND)

    def test_one_key_is_of_another_type(self):
        with Stage(1) as stage:
            for nodes in (self.stage, stage):
                for number in range(1, len(nodes) + 1):
                    nodes.redis(number, "RPUSH", "lock:{bad}", "x")
                with self.subTest(len(nodes)):
                    self.play(nodes.urls(), "bad", "Misconfigured", LONG)

    def test_one_shard_is_in_quarantine_or_one_hash_slot_is_being_moved(self):
        with Stage(1, shards=3) as stage:
            mark = f"lock:#quarantine:{{{tag(hash_slot('lock:{bad}'))}}}"
            stage.redis(1, "SET", mark, "1", "PX", "600000")
            stage.redis(1, "SET", "{moved}stays", "x")
            stage.move("begin_move", 1, "lock:{moved}", "next")
            for bad in ("bad", "moved"):
                with self.subTest(bad):
                    self.play(stage.urls(), bad, "QuorumUnavailable", 0.05)


if __name__ == "__main__":
    unittest.main()
