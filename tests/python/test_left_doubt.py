"""Scopes that are left while nothing tells which one is meant."""

import asyncio
import contextlib
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import quorlock
from left import Case, enter, leave
from quorlock import _scope, redlock, testing
from support import LONG


class Doubt(Case):
    """Scopes that were entered by functions which have ended, and nothing tells them apart."""

    def setUp(self):
        super().setUp()
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)

    def test_none_is_released_before_all_have_left(self):
        one, two = self.elsewhere(enter, self.slots), enter(self.slots)
        with self.assertLogs("quorlock", "WARNING") as logged:
            leave(self.slots)
            self.assert_held(one, two)
            leave(self.slots)
        self.assert_ended(one, two)
        self.assertEqual(sum("nothing tells which" in line for line in logged.output), 1)
        self.assertIn("by `with`", logged.output[0])
        with self.assertRaises(quorlock.NotOwnerError):
            leave(self.slots)

    def test_the_only_one_is_left_anywhere(self):
        lease = self.elsewhere(enter, self.slots)
        with self.slots as other:
            leave(self.slots)
            self.assert_ended(lease)
            self.assert_held(other)

    def test_what_is_known_to_be_left_settles_the_rest(self):
        def job(inside, go_on):
            self.slots.__enter__()
            inside.set()
            go_on.wait(LONG)
            self.slots.__exit__(None, None, None)

        lease, inside, go_on = enter(self.slots), threading.Event(), threading.Event()
        running = self.pool.submit(job, inside, go_on)
        inside.wait(LONG)
        leave(self.slots)
        self.assert_held(lease)
        go_on.set()
        running.result(LONG)
        self.assert_ended(lease)

    def test_a_loss_that_was_told_is_not_told_to_who_settles_it(self):
        def by_hand():
            yield lock.__enter__()
            lock.__exit__(None, None, None)

        lock, opened = self.client.lock(self.id(), reentrant=False), by_hand()
        lost = enter(lock)
        testing.lose(self.id())
        held = next(opened)
        with self.assertRaises(quorlock.LockLostError):
            leave(lock)
        self.assert_held(held)
        self.assertIsNone(next(opened, None))
        self.assert_ended(lost, held)

    def test_a_loss_is_told_to_all(self):
        lock = self.client.lock(self.id(), reentrant=False)
        lost = self.elsewhere(enter, lock)
        testing.lose(self.id())
        held = enter(lock)
        for _ in range(2):
            with self.assertRaises(quorlock.LockLostError):
                leave(lock)
        self.assertTrue(lost.lost)
        self.assert_ended(held)

    def test_who_has_left_does_not_wait_for_that(self):
        one, two = self.elsewhere(enter, self.slots), enter(self.slots)
        leave(self.slots)
        with self.assertRaisesRegex(quorlock.WouldDeadlockError, "by `with`"):
            enter(self.slots)
        self.assert_held(one, two)
        leave(self.slots)
        with self.slots, self.slots:
            pass

    def test_readers_that_overlap_for_ever_are_refused(self):
        lock = self.client.lock(self.id(), shared=True)
        pools = [ThreadPoolExecutor(1) for _ in range(2)]
        for pool in pools:
            self.addCleanup(pool.shutdown)
        begun, refused = pools[0].submit(enter, lock).result(LONG), 0
        for number in range(100):
            # Each comes before the one before it has left.
            come, gone = pools[1 - number % 2], pools[number % 2]
            try:
                come.submit(enter, lock).result(LONG)
            except quorlock.WouldDeadlockError:
                refused = number
                break
            gone.submit(leave, lock).result(LONG)
        self.assertGreater(refused, 8)
        # Then they come to an end, and the writer's turn.
        leave(lock)
        self.assert_ended(begun)
        self.assertFalse(lock.locked())

    def test_a_caller_that_leaves_twice_leaves_no_more_than_it_has_entered(self):
        attempt = self.slots.attempt()
        one, two = enter(attempt), self.elsewhere(enter, attempt)
        self.assertIsNone(self.elsewhere(enter, attempt))
        # The second may be of the one that went on without a slot.
        for _ in range(2):
            leave(attempt)
            self.assert_held(one, two)
        self.elsewhere(leave, attempt)
        self.assert_ended(one, two)

    def test_a_caller_that_leaves_the_newest_first_has_left_what_had_no_lease_before_the_oldest(self):
        attempt = self.slots.attempt()
        one = enter(attempt)
        with self.slots:
            self.assertIsNone(enter(attempt))
        two = enter(attempt)
        for _ in range(2):
            leave(attempt)
            self.assert_held(one, two)
        leave(attempt)
        self.assert_ended(one, two)

    def test_attempts_that_overlap_keep_nothing_held(self):
        attempt = self.client.lock(self.id()).attempt()
        pools = [ThreadPoolExecutor(1) for _ in range(3)]
        for pool in pools:
            self.addCleanup(pool.shutdown)
        for number in range(50):
            holder, *others = pools[number % 3 :] + pools[: number % 3]
            lease = holder.submit(enter, attempt).result(LONG)
            self.assert_held(lease)
            # One is left by its caller, another never, for there was nothing to release.
            self.assertEqual([pool.submit(enter, attempt).result(LONG) for pool in others], [None, None])
            others[0].submit(leave, attempt).result(LONG)
            self.assert_held(lease)
            holder.submit(leave, attempt).result(LONG)
            self.assert_ended(lease)


class TwoLoops(Case):
    """The event loops of two threads, which share one object."""

    def test_it_is_used_by_both_for_the_first_time_at_once(self):
        class Scopes(_scope.Scopes):
            def __init__(self):
                super().__init__()
                # Each thread has seen by now that the object has none yet.
                with contextlib.suppress(threading.BrokenBarrierError):
                    made.wait(LONG)

        async def enter_and_leave():
            async with scope as lease:
                entered.wait(LONG)
            self.assertFalse(lease.is_held())

        made, entered = threading.Barrier(2), threading.Barrier(2)
        for scope in (redlock(self.id(), client=self.client, slots=2), redlock(self.id(), client=self.client, slots=2).attempt()):
            with mock.patch.object(_scope, "Scopes", Scopes):
                for future in [self.pool.submit(asyncio.run, enter_and_leave()) for _ in range(2)]:
                    future.result(LONG)


if __name__ == "__main__":
    unittest.main()
