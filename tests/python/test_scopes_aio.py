"""Locks as scopes in asyncio."""

import asyncio
import contextlib
import functools
import gc
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock
from support import LONG, memory

NODES = memory("scopes")


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = quorlock.aio.Client(NODES)
        self.addAsyncCleanup(self.client.close)

    async def contended(self, name):
        """Whether another task is refused."""

        async def attempt():
            lease = await self.client.lock(name).try_acquire()
            if lease is not None:
                await lease.release()
            return lease is None

        return await asyncio.create_task(attempt())

    async def awaited(self, awaitable):
        return await awaitable

    async def test_async_with(self):
        lock = self.client.lock(self.id())
        for held in (lock, redlock(self.id(), client=self.client), redlock(self.id(), nodes=NODES), lock):
            async with held as lease:
                self.assertTrue(lease.is_held())
                self.assertTrue(await self.contended(self.id()))
            self.assertFalse(lease.is_held())
            self.assertFalse(await self.contended(self.id()))

    async def test_async_with_lease(self):
        async with await self.client.lock(self.id()).acquire() as lease:
            self.assertTrue(lease.is_held())
        self.assertFalse(lease.is_held())

    async def test_decorator(self):
        @redlock(key=lambda number: f"scopes-a{number}", client=self.client)
        async def handle(number):
            self.assertTrue(await self.contended("scopes-a1"))
            return number

        self.assertTrue(asyncio.iscoroutinefunction(handle))
        self.assertEqual(await handle(1), 1)
        self.assertFalse(await self.contended("scopes-a1"))

    async def test_decorator_of_what_is_called_and_awaited(self):
        inside, most = [], []

        class Job:
            async def __call__(self, number):
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()
                return number

            async def method(self, number):
                return await self(number)

        held = redlock(self.id(), client=self.client, wait=LONG)
        kinds = held(Job()), held(functools.partial(Job())), held(functools.partial(Job().method)), held(Job().method)
        self.assertTrue(all(map(asyncio.iscoroutinefunction, kinds)))
        self.assertEqual(await asyncio.gather(*(kind(number) for number, kind in enumerate(kinds * 3))), list(range(12)))
        self.assertEqual((len(most), max(most)), (12, 1))

    async def test_reentry_by_one_task_and_not_by_its_child(self):
        held = redlock(self.id(), client=self.client, wait=0)
        async with held as outer, held as inner:
            self.assertEqual(inner.token, outer.token)

            async def child():
                async with held:
                    pass

            with self.assertRaises(quorlock.LockContendedError):
                await asyncio.create_task(child())
        self.assertFalse(await self.contended(self.id()))

    async def test_a_thread_and_a_task_are_two_owners(self):
        async with redlock(self.id(), client=self.client):
            with self.assertRaises(quorlock.LockContendedError), redlock(self.id(), client=self.client, wait=0):
                pass
            # It would be a wait for itself.
            with self.assertRaisesRegex(quorlock.WouldDeadlockError, "async with"), redlock(self.id(), client=self.client):
                pass

    async def test_acquire_and_release_without_storing_the_lease(self):
        lock = self.client.lock(self.id())
        await lock.acquire()
        gc.collect()
        self.assertTrue(await self.contended(self.id()))
        self.assertTrue(await lock.release())
        self.assertFalse(await self.contended(self.id()))
        with self.assertRaises(quorlock.NotOwnerError):
            await lock.release()

    async def test_a_scope_that_is_left_in_another_task_ends_its_own_lease(self):
        async def generator(held):
            async with held as lease:
                yield lease

        for held in (self.client.lock(self.id()), redlock(self.id(), client=self.client)):
            for end in (lambda opened: opened.aclose(), lambda opened: anext(opened, None)):
                opened = generator(held)
                lease = await asyncio.create_task(self.awaited(anext(opened)))
                self.assertTrue(await self.contended(self.id()))
                await asyncio.create_task(self.awaited(end(opened)))
                self.assertFalse(lease.is_held())
                self.assertFalse(await self.contended(self.id()))
            stack = contextlib.AsyncExitStack()
            lease = await asyncio.create_task(stack.enter_async_context(held))
            await asyncio.create_task(stack.aclose())
            self.assertFalse(lease.is_held())

    async def test_what_an_ended_task_left_is_released(self):
        lock = self.client.lock(self.id())

        async def leave_it():
            await lock.acquire()

        with self.assertWarns(ResourceWarning):
            await asyncio.create_task(leave_it())
            # The loop knows the task until we have let it go on.
            await asyncio.sleep(0)
            gc.collect()
        async with lock as lease:
            self.assertTrue(lease.is_held())

    async def test_a_named_owner_is_one_everywhere(self):
        lock = self.client.lock(self.id(), owner="job-7")
        await asyncio.create_task(lock.acquire())
        gc.collect()
        self.assertTrue(await self.contended(self.id()))
        self.assertTrue(await asyncio.create_task(lock.release()))
        self.assertFalse(await self.contended(self.id()))

    async def test_many_tasks_one_object(self):
        held = redlock(self.id(), client=self.client, wait=LONG)
        inside, most = [], []

        async def work():
            async with held:
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

        await asyncio.gather(*(work() for _ in range(20)))
        self.assertEqual((len(most), max(most)), (20, 1))

    async def test_errors_and_calls(self):
        lock = self.client.lock(self.id())
        async with await self.client.lock(self.id(), owner="other").acquire():
            self.assertIs(await lock.acquire(blocking=False), False)
            with self.assertRaises(quorlock.LockContendedError) as raised:
                await lock.acquire(timeout=0)
            self.assertEqual(len(raised.exception.nodes), 3)
            with self.assertRaises(TimeoutError):
                await lock.acquire(timeout=0.05)
            self.assertIsNone(await lock.try_acquire())
        async with await lock.acquire(timeout=-1) as lease:
            self.assertIs(await lock.acquire(blocking=False), False)
            await lease.extend(20)
            await lease.ensure(5)
            self.assertGreater(lease.remaining(), 15)
            self.assertTrue(await lease.release())
            self.assertFalse(await lease.release())

    async def test_two_loops_use_one_client(self):
        def other():
            async def use():
                async with self.client.lock("scopes-two") as lease:
                    return lease.is_held()

            return asyncio.run(use())

        async with self.client.lock(self.id()):
            self.assertTrue(await asyncio.to_thread(other))
            self.assertTrue(await asyncio.to_thread(other))


if __name__ == "__main__":
    unittest.main()
