"""Which scope is left where several of one object are open: its own, or none."""

import asyncio
import contextlib
import gc
import threading
import unittest
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import quorlock
import quorlock.aio
from left import NODES, Case, Doubled, Part, Wrapper, enter, leave
from quorlock import redlock, testing
from support import LONG, eventually


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


if __name__ == "__main__":
    unittest.main()
