"""Which scope is left where several of one object are open: its own, or none."""

import asyncio
import contextlib
import gc
import sys
import threading
import unittest
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import quorlock
import quorlock.aio
from quorlock import _scope, redlock, testing
from support import LONG, eventually, memory

NODES = memory("left")


def enter(scope):
    """By hand, in a function that ends before the scope is left."""
    return scope.__enter__()


def leave(scope):
    scope.__exit__(None, None, None)


async def aenter(scope):
    return await scope.__aenter__()


async def aleave(scope):
    await scope.__aexit__(None, None, None)


class Wrapper:
    """A context manager of a user's, around a scope."""

    def __init__(self, scope):
        self.scope = scope

    def __enter__(self):
        return self._enter()

    def _enter(self):
        return self.scope.__enter__()

    def __exit__(self, *error):
        self.close(*error)

    def close(self, *error):
        self.scope.__exit__(*(error or (None, None, None)))

    async def __aenter__(self):
        return await self.scope.__aenter__()

    async def __aexit__(self, *error):
        await self.scope.__aexit__(*error)


class Doubled(Wrapper):
    def __enter__(self):
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)


class Part:
    """Enters in one method and leaves in another."""

    def __init__(self, scope):
        self.scope = scope

    def begin(self):
        return self.scope.__enter__()

    def end(self):
        self.scope.__exit__(None, None, None)

    async def abegin(self):
        return await self.scope.__aenter__()

    async def aend(self):
        await self.scope.__aexit__(None, None, None)


class Case(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, wait=LONG)
        self.addCleanup(self.client.close)
        self.pool = ThreadPoolExecutor(4)
        self.addCleanup(self.pool.shutdown)
        # Two slots: two scopes of one object are open at a time, each with a lease of its own.
        self.slots = self.client.semaphore(self.id(), 2)

    def elsewhere(self, function, *arguments):
        return self.pool.submit(function, *arguments).result(LONG)

    def assert_held(self, *leases):
        self.assertEqual([lease.is_held() for lease in leases], [True] * len(leases))

    def assert_ended(self, *leases):
        self.assertEqual([lease.is_held() for lease in leases], [False] * len(leases))


class Pairs(Case):
    """Ways to enter and leave that tell which scope is left, each used for two that overlap, the first one left first."""

    def check(self, begin_one, end_one, begin_two, end_two):
        for order in ((end_one, end_two), (end_two, end_one)):
            one, two = begin_one(), begin_two()
            self.assert_held(one, two)
            order[0]()
            first, second = (one, two) if order[0] is end_one else (two, one)
            self.assert_ended(first)
            self.assert_held(second)
            order[1]()
            self.assert_ended(second)

    def test_stacks(self):
        one, two = contextlib.ExitStack(), contextlib.ExitStack()
        for run in (lambda function, *arguments: function(*arguments), self.elsewhere):
            for wrap in (lambda scope: scope, Wrapper, Doubled):
                self.check(lambda: run(one.enter_context, wrap(self.slots)), lambda: run(one.close),
                           lambda: run(two.enter_context, wrap(self.slots)), lambda: run(two.close))

    def test_stacks_that_hand_on(self):
        one, two, kept = contextlib.ExitStack(), contextlib.ExitStack(), []

        def begin():
            lease = one.enter_context(self.slots)
            kept.append(one.pop_all())
            return lease

        self.check(begin, lambda: kept.pop().close(), lambda: two.enter_context(self.slots), two.close)

    def test_parts(self):
        one, two = Part(self.slots), Part(self.slots)
        for run in (lambda function, *arguments: function(*arguments), self.elsewhere):
            self.check(lambda: run(one.begin), lambda: run(one.end), lambda: run(two.begin), lambda: run(two.end))

    def test_one_object_that_two_threads_use(self):
        part, ready, go_on = Part(self.slots), threading.Barrier(3), [threading.Event(), threading.Event()]
        leases = [None, None]

        def work(at):
            leases[at] = part.begin()
            ready.wait(LONG)
            go_on[at].wait(LONG)
            part.end()

        for first in (0, 1):
            threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
            for thread in threads:
                thread.start()
            ready.wait(LONG)
            go_on[first].set()
            threads[first].join(LONG)
            self.assert_ended(leases[first])
            self.assert_held(leases[1 - first])
            go_on[1 - first].set()
            threads[1 - first].join(LONG)
            self.assert_ended(*leases)
            for event in go_on:
                event.clear()

    def test_one_wrapper_that_two_generators_use(self):
        shared = Wrapper(self.slots)

        def generator():
            with shared as lease:
                yield lease

        def by_hand():
            lease = self.slots.__enter__()
            try:
                yield lease
            finally:
                self.slots.__exit__(None, None, None)

        for make in (generator, by_hand):
            opened = {}

            def begin(at, make=make, opened=opened):
                opened[at] = make()
                return self.elsewhere(next, opened[at])

            self.check(lambda: begin(1), lambda: self.elsewhere(opened[1].close), lambda: begin(2), lambda: opened[2].close())

    def test_a_wrapper_that_is_closed_within_its_with(self):
        other = self.slots.__enter__()
        with contextlib.suppress(quorlock.NotOwnerError), Wrapper(self.slots) as lease:
            self.wrapper_of(lease)
        self.slots.__exit__(None, None, None)
        self.assert_ended(other, lease)

    def wrapper_of(self, lease):
        self.assert_held(lease)

    def test_nested_in_one_frame(self):
        with self.slots as outer, self.slots as inner:
            self.assert_held(outer, inner)
        self.assert_ended(outer, inner)
        by_hand = self.slots.__enter__()
        with self.slots as lease:
            self.slots.__exit__(None, None, None)
            self.assert_ended(by_hand)
            self.assert_held(lease)
        self.assert_ended(lease)

    def test_a_call_ends_no_with(self):
        with self.slots as lease:
            with self.assertRaises(quorlock.NotOwnerError):
                self.slots.__exit__(None, None, None)
            with self.assertRaises(quorlock.NotOwnerError):
                leave(self.slots)
            self.assert_held(lease)

    def test_a_helper_of_the_function_that_entered(self):
        lease = self.slots.__enter__()
        leave(self.slots)
        self.assert_ended(lease)

    def test_what_goes_on_is_left_by_nobody_else(self):
        def generator():
            lease = self.slots.__enter__()
            yield lease
            self.slots.__exit__(None, None, None)

        opened = generator()
        lease = next(opened)
        with self.assertRaisesRegex(quorlock.NotOwnerError, "still runs"):
            leave(self.slots)
        self.assert_held(lease)
        next(opened, None)
        self.assert_ended(lease)

    def test_a_loss_is_told_to_the_scope_that_lost(self):
        lock = redlock(self.id(), client=self.client)
        one, two = contextlib.ExitStack(), contextlib.ExitStack()
        lost = self.elsewhere(one.enter_context, lock)
        testing.lose(self.id())
        # Another thread: the same would enter its own once more.
        held = two.enter_context(lock)
        self.elsewhere(two.close)
        self.assertTrue(lost.lost and not held.lost)
        with self.assertRaises(quorlock.LockLostError):
            self.elsewhere(one.close)

    def test_one_that_goes_on_without_a_lease_frees_none(self):
        attempt = self.client.lock(self.id()).attempt()
        other = quorlock.Client(NODES)
        self.addCleanup(other.close)
        for enters, leaves in (
            (lambda stack: stack.enter_context(attempt), lambda stack: stack.close()),
            (lambda _: enter(attempt), lambda _: leave(attempt)),
        ):
            elsewhere, skipped, working = other.lock(self.id()).acquire(), contextlib.ExitStack(), contextlib.ExitStack()
            self.assertIsNone(self.elsewhere(enters, skipped))
            elsewhere.release()
            with ThreadPoolExecutor(1) as another:
                lease = eventually(lambda: another.submit(enters, working).result())  # noqa: B023
                if enters(contextlib.ExitStack()) is None:
                    self.elsewhere(leaves, skipped)
                self.assert_held(lease)
                another.submit(leaves, working).result(LONG)
            self.assert_ended(lease)

    def test_a_stack_that_is_dropped(self):
        lock = redlock(self.id(), client=self.client)
        stack = contextlib.ExitStack()
        stack.enter_context(lock)
        with self.assertWarnsRegex(ResourceWarning, "nobody keeps"), self.assertLogs("quorlock", "WARNING") as logged:
            del stack
            gc.collect()
            self.assertTrue(eventually(lambda: logged.output))
        self.assertTrue(eventually(lambda: not self.client.lock(self.id()).locked()))
        # Another that keeps its lease has it on.
        stack = contextlib.ExitStack()
        lease = stack.enter_context(lock)
        del stack
        gc.collect()
        self.assertTrue(lease.release())


class Early(Part):
    """A context manager of a user's that enters where it is made."""

    def __init__(self, scope):
        super().__init__(scope)
        self.lease = self.begin()

    def __enter__(self):
        return self.lease

    def __exit__(self, *error):
        self.end()


class Others(Case):
    """What looks like the way in which a scope was entered, and is another's."""

    def test_two_wrappers_in_one_function(self):
        attempt = self.client.semaphore(f"{self.id()} one", 1).attempt()
        with Wrapper(attempt) as working, Early(attempt) as skipped:
            self.assertIsNone(skipped)
            self.assert_held(working)
        self.assert_ended(working)
        with Wrapper(self.slots) as one:
            with Early(self.slots) as two:
                self.assert_held(one, two)
            self.assert_ended(two)
            self.assert_held(one)
        self.assert_ended(one)

    def test_a_callback_that_a_stack_was_given_by_hand(self):
        for push in (lambda stack: stack.push(self.slots), lambda stack: stack.push(self.slots.__exit__),
                     lambda stack: stack.callback(self.slots.__exit__, None, None, None)):
            for first in (True, False):
                with contextlib.ExitStack() as stack:
                    if first:
                        own = stack.enter_context(self.slots)
                    other = self.slots.__enter__()
                    # Called in the middle: one callback has run.
                    if not first:
                        push(stack)
                        stack.callback(lambda: (self.assert_held(other), self.assert_ended(own)))  # noqa: B023
                        own = stack.enter_context(self.slots)
                    else:
                        stack.callback(lambda: (self.assert_held(own), self.assert_ended(other)))  # noqa: B023
                        push(stack)
                self.assert_ended(own, other)

    def test_wrappers_that_one_stack_enters_at_once(self):
        async def run():
            async with quorlock.aio.Client(NODES, wait=LONG) as client:
                slots, gate = client.semaphore(self.id(), 2), asyncio.Event()

                class Waits:
                    async def __aenter__(self):
                        self.lease = await slots.__aenter__()
                        if self.lease is not None and not gate.is_set():
                            await gate.wait()
                        return self

                    async def __aexit__(self, *error):
                        await slots.__aexit__(*error)
                        left.append((self, [other.lease.is_held() for other in both]))

                both, left = [Waits(), Waits()], []
                async with contextlib.AsyncExitStack() as stack:
                    entered = [asyncio.create_task(stack.enter_async_context(one)) for one in both]
                    while not all(hasattr(one, "lease") for one in both):
                        await asyncio.sleep(0)
                    gate.set()
                    await asyncio.gather(*entered)
                for one, held in left[:1]:
                    self.assertEqual(held, [other is not one for other in both])

        asyncio.run(run())

    def test_what_threads_of_a_pool_run(self):
        attempt = self.client.lock(self.id()).attempt()

        async def run():
            working = await asyncio.to_thread(attempt.__enter__)
            self.assertIsNone(await asyncio.to_thread(attempt.__enter__))
            with self.assertLogs("quorlock", "WARNING"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                await asyncio.to_thread(attempt.__exit__, None, None, None)
            self.assert_held(working)
            await asyncio.to_thread(attempt.__exit__, None, None, None)
            self.assert_ended(working)

        asyncio.run(run())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            leases = [self.elsewhere(self.slots.__enter__) for _ in range(2)]
            self.elsewhere(self.slots.__exit__, None, None, None)
            self.assert_held(*leases)
            self.elsewhere(self.slots.__exit__, None, None, None)
            self.assert_ended(*leases)

    def test_objects_that_are_gone(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            leases = [Part(self.slots).begin() for _ in range(2)]
            Part(self.slots).end()
            self.assert_held(*leases)
            Part(self.slots).end()
            self.assert_ended(*leases)


class Kept(Case):
    """An open scope keeps nothing alive but its lease."""

    def test_an_object_that_leaves_when_it_is_dropped(self):
        class Dropped(Early):
            def __del__(self):
                self.end()

        one = Dropped(self.slots)
        lease = one.lease
        self.assert_held(lease)
        del one
        self.assert_ended(lease)

    def test_what_the_callers_have(self):
        class Local:
            pass

        def outer():
            local = Local()
            return weakref.ref(local), enter(self.slots)

        local, lease = outer()
        self.assertIsNone(local())
        leave(self.slots)
        self.assert_ended(lease)

    def test_a_frame_that_a_traceback_keeps_has_ended(self):
        def fails():
            fails.lease = self.slots.__enter__()
            raise ValueError

        try:
            fails()
        except ValueError as error:
            kept = error
        leave(self.slots)
        self.assert_ended(fails.lease)
        self.assertIsNotNone(kept.__traceback__)


class Tests(Case):
    """Contexts that unittest enters for a test or its class."""

    def test_contexts(self):
        slots, seen = self.slots, []

        class Inner(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.lease = cls.enterClassContext(slots)

            def setUp(self):
                self.own = self.enterContext(slots)

            def test_one(self):
                seen.append((self.lease, self.own))

            test_two = test_one

            def tearDown(self):
                seen.append(None if self.lease.is_held() and self.own.is_held() else self)

        outcome = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Inner).run(outcome)
        self.assertEqual((outcome.testsRun, outcome.errors, outcome.failures), (2, [], []))
        (of_class, first), one, (_, second), two = seen
        self.assertEqual((one, two), (None, None))
        self.assert_ended(of_class, first, second)


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


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = quorlock.aio.Client(NODES, wait=LONG)
        self.addAsyncCleanup(self.client.close)
        self.slots = self.client.semaphore(self.id(), 2)

    async def check(self, begin_one, end_one, begin_two, end_two):
        for order in ((end_one, end_two), (end_two, end_one)):
            one, two = await begin_one(), await begin_two()
            self.assertTrue(one.is_held() and two.is_held())
            await order[0]()
            first, second = (one, two) if order[0] is end_one else (two, one)
            self.assertEqual((first.is_held(), second.is_held()), (False, True))
            await order[1]()
            self.assertFalse(second.is_held())

    async def test_stacks(self):
        one, two = contextlib.AsyncExitStack(), contextlib.AsyncExitStack()
        runs = (
            lambda function, *arguments: function(*arguments),
            lambda function, *arguments: asyncio.create_task(function(*arguments)),
            lambda function, *arguments: asyncio.wait_for(function(*arguments), LONG),
        )
        for run in runs:
            for wrap in (lambda scope: scope, Wrapper):
                await self.check(lambda: run(one.enter_async_context, wrap(self.slots)), lambda: run(one.aclose),
                                 lambda: run(two.enter_async_context, wrap(self.slots)), lambda: run(two.aclose))

    async def test_parts_and_generators(self):
        one, two = Part(self.slots), Part(self.slots)
        await self.check(one.abegin, one.aend, two.abegin, two.aend)
        await self.check(lambda: asyncio.create_task(one.abegin()), lambda: asyncio.create_task(one.aend()), two.abegin, two.aend)
        shared = Wrapper(self.slots)

        async def generator():
            async with shared as lease:
                yield lease

        opened = {}

        async def begin(at):
            opened[at] = generator()
            return await anext(opened[at])

        await self.check(lambda: begin(1), lambda: opened[1].aclose(), lambda: begin(2), lambda: opened[2].aclose())

    async def test_a_stack_that_is_closed_within_another_scope(self):
        stack = contextlib.AsyncExitStack()
        lease = await stack.enter_async_context(self.slots)

        async def other():
            async with self.slots as own:
                await stack.aclose()
                self.assertEqual((lease.is_held(), own.is_held()), (False, True))
            self.assertFalse(own.is_held())

        await asyncio.create_task(other())

    async def test_none_is_released_before_all_have_left(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            one, two = await asyncio.create_task(aenter(self.slots)), await aenter(self.slots)
            with self.assertLogs("quorlock", "WARNING") as logged:
                await aleave(self.slots)
                self.assertTrue(one.is_held() and two.is_held())
                with self.assertRaises(quorlock.WouldDeadlockError):
                    await aenter(self.slots)
                await asyncio.create_task(aleave(self.slots))
        self.assertFalse(one.is_held() or two.is_held())
        self.assertEqual(sum("nothing tells which" in line for line in logged.output), 1)

    async def test_who_got_none_frees_nothing(self):
        attempt = self.client.lock(self.id()).attempt()
        lease = await asyncio.create_task(aenter(attempt))
        self.assertIsNone(await asyncio.create_task(aenter(attempt)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            await asyncio.create_task(aleave(attempt))
            self.assertTrue(lease.is_held())
            await asyncio.create_task(aleave(attempt))
        self.assertFalse(lease.is_held())

    async def test_a_stack_that_is_dropped(self):
        lock = redlock(self.id(), client=self.client)
        stack = contextlib.AsyncExitStack()
        await stack.enter_async_context(lock)
        with self.assertWarnsRegex(ResourceWarning, "nobody keeps"):
            del stack
            gc.collect()
            # The loop watches for its loss until it has gone on.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gc.collect()

    # Before, nothing tells unittest that it is to be awaited.
    if sys.version_info >= (3, 12):

        async def test_a_context_of_unittest(self):
            lock = self.client.lock(self.id())

            class Locked(unittest.IsolatedAsyncioTestCase):
                async def runTest(self):
                    self.lease = await self.enterAsyncContext(lock)

            test = Locked()
            self.assertTrue((await asyncio.to_thread(test.run)).wasSuccessful())
            self.assertFalse(test.lease.is_held())

    async def test_a_release_that_is_cancelled_before_it_begins(self):
        lock = self.client.lock(self.id())
        lease = await lock.__aenter__()
        leaving = asyncio.create_task(lock.__aexit__(None, None, None))
        leaving.cancel()
        await asyncio.wait([leaving])
        del leaving
        gc.collect()
        self.assertFalse(lease.is_held())


if __name__ == "__main__":
    unittest.main()
