"""A scope of asyncio is left by what has entered it, or by none."""

import asyncio
import contextlib
import gc
import sys
import unittest
import warnings

import quorlock
import quorlock.aio
from left import NODES, Part, Wrapper, aenter, aleave
from quorlock import redlock
from support import LONG


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
