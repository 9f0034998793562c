#!/usr/bin/env python3
"""docs/reference/protocol.md is enough to write a client from: one that was (`client.py`, here the stranger) and Quorlock share locks on
real servers, as the user that the page permits. Each excludes the other, waits in its turn, and has fences beyond the other's."""

import os
import sys
import threading
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import client  # noqa: E402
import quorlock  # noqa: E402
from stage import Stage  # noqa: E402

# Longer than anything here takes on a busy machine.
LONG = 30.0
TTL = 20_000
PAGE = os.path.join(HERE, "..", "..", "docs", "reference/protocol.md")


def eventually(condition):
    end = time.monotonic() + LONG
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return found


class Task(threading.Thread):
    """Something that is done beside the test, and what came of it."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.found = work, None
        self.start()

    def run(self):
        try:
            self.found = self.work()
        except Exception as error:
            self.found = error

    def result(self):
        self.join(LONG)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Together:
    """What both do on a set of NODES nodes."""

    def setUp(self):
        self.stage = Stage(self.NODES, auth=True, declare=False)
        self.addCleanup(self.stage.close)
        self.stage.declare(guard=True)
        self.numbers = range(1, self.NODES + 1)
        self.stranger, self.lock = self.a_stranger(), self.a_lock("a")
        self.order = []

    def a_stranger(self):
        made = client.Client(self.stage.urls())
        self.addCleanup(made.close)
        return made

    def a_lock(self, name):
        """A lock of a client of its own: two of one client would wait in its line."""
        made = quorlock.Client(self.stage.urls(), ttl=TTL / 1000, wait=LONG, restart_guard="on", label="quorlock")
        self.addCleanup(made.close)
        # It knows each node's name, and so the order of homes, once it was connected to all.
        with made.lock("warm").acquire():
            self.assertTrue(eventually(lambda: all(self.values("warm"))))
        self.assertTrue(eventually(lambda: not any(self.values("warm"))))
        return made.lock(name)

    def values(self, name="a"):
        return [self.stage.redis(number, "GET", f"lock:{{{name}}}") or b"" for number in self.numbers]

    def await_queued(self, count):
        def members():
            return max(self.stage.redis(number, "ZCARD", "lock:#q:{a}") for number in self.numbers)

        self.assertTrue(eventually(lambda: members() == 2 * count), f"{members()} members of the queue")

    def assert_nothing_left(self):
        def left():
            keys = [key for number in self.numbers for key in self.stage.keys(number)]
            return [key for key in keys if not key.startswith((b"lock:#f:", b"lock:#node"))]

        self.assertTrue(eventually(lambda: not left()), f"left behind: {left()}")

    def stranger_waits(self, stranger):
        """It holds the lock for a moment once it has it."""
        def work():
            lease = stranger.acquire("a", ttl=TTL, wait=LONG)
            self.order.append("stranger")
            lease.release()
            return lease.fence

        return Task(work)

    def quorlock_waits(self, lock):
        def work():
            with lock.acquire() as lease:
                self.order.append("quorlock")
            return lease.fence

        return Task(work)

    def test_alone_it_votes_by_plain_commands(self):
        self.stranger.acquire("a", ttl=TTL).release()
        self.stage.reset_counters()
        lease = self.stranger.acquire("a", ttl=TTL)
        self.assertGreater(lease.remaining(), 0.9 * TTL / 1000)
        self.assertEqual([value.partition(b".")[2] for value in self.values()], [b"stranger"] * self.NODES)
        fences = [int(self.stage.redis(number, "ZSCORE", "lock:#f:{a}", "f")) for number in self.numbers]
        self.assertEqual(fences, [lease.fence] * self.NODES)
        self.assertEqual(self.stage.calls("evalsha"), 0)
        self.assertTrue(lease.release())
        self.assertEqual(self.stage.calls("evalsha"), self.NODES)
        self.assert_nothing_left()

    def test_it_excludes_quorlock(self):
        lease = self.stranger.acquire("a", ttl=TTL)
        self.assertIsNone(self.lock.try_acquire())
        with self.assertRaises(quorlock.LockContendedError) as refused:
            self.lock.acquire(timeout=0)
        # Contention was seen: scripts ask now, which name the holder.
        self.assertIn("held by another, stranger", str(refused.exception))
        self.assertTrue(lease.release())
        self.assertIsNotNone(self.lock.try_acquire())

    def test_it_is_excluded(self):
        with self.lock.acquire():
            self.assertIsNone(self.stranger.acquire("a", ttl=TTL, wait=0))
            self.assertIsNone(self.stranger.acquire("a", ttl=TTL, wait=0.1))
        self.assert_nothing_left()
        self.assertTrue(self.stranger.acquire("a", ttl=TTL).release())

    def test_it_waits_for_quorlock_and_is_called(self):
        # Polls alone would come too late.
        with mock.patch.object(client.random, "uniform", return_value=10 * LONG):
            with self.lock.acquire() as lease:
                task = self.stranger_waits(self.stranger)
                self.await_queued(1)
                self.assertTrue(any(value.startswith(b"=") for value in self.values()))
                begun = time.monotonic()
            fence = task.result()
        self.assertLess(time.monotonic() - begun, TTL / 2000)
        self.assertGreater(fence, lease.fence)
        self.assert_nothing_left()

    def test_quorlock_waits_for_it_and_is_called(self):
        lease = self.stranger.acquire("a", ttl=TTL)
        task = self.quorlock_waits(self.lock)
        self.await_queued(1)
        home = 1 + self.stranger.nodes.index(lease.home)
        self.stage.reset_counters()
        self.assertTrue(lease.release())
        self.assertGreater(task.result(), lease.fence)
        self.assertEqual(self.stage.counters(home)["publish"], 1)
        self.assert_nothing_left()

    def test_both_take_their_turns(self):
        for holder in ("quorlock", "stranger"):
            with self.subTest(holder):
                self.order.clear()
                first = self.stranger.acquire("a", ttl=TTL) if holder == "stranger" else self.lock.acquire()
                tasks = []
                for _ in range(2):
                    tasks.append(self.stranger_waits(self.a_stranger()))
                    self.await_queued(len(tasks))
                    tasks.append(self.quorlock_waits(self.a_lock("a")))
                    self.await_queued(len(tasks))
                first.release()
                fences = [first.fence, *(task.result() for task in tasks)]
                self.assertEqual(self.order, ["stranger", "quorlock"] * 2)
                self.assertEqual(fences, sorted(set(fences)))
                self.assert_nothing_left()

    def test_none_passes_a_reservation_at_the_home(self):
        home = 1 + self.stranger.nodes.index(client.Attempt(self.stranger, "a", TTL).home)
        till = self.stranger.nodes[home - 1].time() + int(LONG * 10**6)
        self.stage.redis(home, "SET", "lock:{a}", f"@{till} 1 lock:#in:somebody", "PX", int(LONG * 1000))
        passed = 0
        for _ in range(20):
            self.assertIsNone(self.stranger.acquire("a", ttl=TTL, wait=0))
            if lease := self.lock.try_acquire():
                passed += lease.release()
        # All 20, if the votes of the other nodes were enough. Quorlock waits for the home, but not for long.
        self.assertLess(passed, 5)
        self.stage.redis(home, "DEL", "lock:{a}")
        self.assertIsNotNone(self.stranger.acquire("a", ttl=TTL, wait=LONG))

    def test_fences_grow_across_both_whatever_the_counters_are(self):
        # All differ, and are ahead of the clocks.
        for number in self.numbers:
            now = self.stranger.nodes[0].time()
            self.stage.redis(number, "ZADD", "lock:#f:{a}", now + 10**6 * (1 + number), "f")
        fences = [now]
        for _ in range(5):
            lease = self.stranger.acquire("a", ttl=TTL)
            lease.release()
            with self.lock.acquire() as other:
                fences += [lease.fence, other.fence]
        self.assertEqual(fences, sorted(set(fences)))
        self.assertGreater(fences[1], now + 10**6)

    def test_a_crowd_of_both_holds_it_one_at_a_time(self):
        inside, holds = [], []

        def hold(fence):
            inside.append(fence)
            holds.append(fence)
            time.sleep(0)
            self.assertEqual(inside.pop(), fence)
            self.assertEqual(inside, [])

        def quorlock_holds(lock):
            for _ in range(10):
                with lock.acquire() as lease:
                    hold(lease.fence)

        def stranger_holds(stranger):
            for _ in range(10):
                lease = stranger.acquire("a", ttl=TTL, wait=LONG)
                hold(lease.fence)
                self.assertTrue(lease.release())

        tasks = [Task(lambda s=self.a_stranger(): stranger_holds(s)) for _ in range(2)]
        tasks += [Task(lambda q=self.a_lock("a"): quorlock_holds(q)) for _ in range(2)]
        for task in tasks:
            task.result()
        self.assertEqual(len(holds), 40)
        self.assertEqual(holds, sorted(set(holds)))
        self.assert_nothing_left()

    def test_no_vote_of_a_node_in_quarantine_counts(self):
        for number in range(1, self.NODES // 2 + 2):
            self.stage.redis(number, "SET", "lock:#quarantine", "1", "PX", int(LONG * 1000))
        self.assertIsNone(self.stranger.acquire("a", ttl=TTL, wait=0.3))
        self.assertEqual(self.values(), [b""] * self.NODES)


class One(Together, unittest.TestCase):
    NODES = 1


class Three(Together, unittest.TestCase):
    NODES = 3


class Five(Together, unittest.TestCase):
    NODES = 5


class Page(unittest.TestCase):
    def test_the_example_of_the_order_of_homes_holds(self):
        key = client.fnv("lock:{orders:42}")
        order = sorted("abc", key=lambda name: client.mix(key ^ client.fnv(name)), reverse=True)
        example = f"For `lock:{{orders:42}}` and nodes named `a`, `b` and `c` it is `{'`, `'.join(order)}`."
        with open(PAGE) as page:
            self.assertIn(example, page.read())

    def test_the_stranger_knows_nothing_of_quorlock(self):
        with open(client.__file__) as text:
            self.assertNotRegex(text.read(), r"(?m)^\s*(import|from) (quorlock|redis|stage|support)\b")


if __name__ == "__main__":
    unittest.main()
