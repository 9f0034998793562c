"""What a request or a job does with one semaphore that all of them share: contextlib's stacks enter it and leave it, in
another order, thread, task or frame than they entered it in, and with errors."""

import asyncio
import contextlib
import itertools
import threading
import time


class Failure(Exception):
    """Of the work itself."""


class Stacks:
    """The work of requests, each in the way that its number tells, in one event loop or in threads.

    `slots`: the semaphore; `inside`: counts who is in. `wrong` tells of each lease that another's leave has ended, and of
    each that its own has not.
    """

    # So that some leave before others that came first.
    SECONDS = (0.001, 0.003, 0.002)

    def __init__(self, slots, inside):
        self.slots, self.inside, self.wrong = slots, inside, []
        self._seconds = itertools.cycle(self.SECONDS)
        # All slots could be held by those that wait for their second one.
        self._one_at_a_time, self._one_task_at_a_time = threading.Lock(), asyncio.Lock()

    def do(self, number):
        (self._here, self._elsewhere, self._passed_on, self._two, self._failing)[number % 5](number)

    async def ado(self, number):
        ways = (self._ahere, self._aelsewhere, self._apassed_on, self._atwo, self._acancelled, self._afailing)
        await ways[number % 6](number)

    def enter(self, stack):
        lease = stack.enter_context(self.slots)
        stack.enter_context(self.inside)
        return lease

    async def aenter(self, stack):
        lease = await stack.enter_async_context(self.slots)
        stack.enter_context(self.inside)
        return lease

    def work(self, lease):
        time.sleep(next(self._seconds))
        self._hold(lease)

    async def awork(self, lease):
        await asyncio.sleep(next(self._seconds))
        self._hold(lease)

    def _hold(self, lease):
        if not lease.is_held():
            self.wrong.append(f"another has ended slot {lease.slot}")

    def left(self, lease):
        if lease.is_held():
            self.wrong.append(f"slot {lease.slot} is still held")

    def _here(self, _):
        with contextlib.ExitStack() as stack:
            lease = self.enter(stack)
            self.work(lease)
        self.left(lease)

    def _elsewhere(self, _):
        stack = contextlib.ExitStack()
        lease = self.enter(stack)
        self.work(lease)
        thread = threading.Thread(target=stack.close)
        thread.start()
        thread.join()
        self.left(lease)

    def _passed_on(self, _):
        with contextlib.ExitStack() as stack:
            lease = self.enter(stack)
            kept = stack.pop_all()
        self.work(lease)
        close(kept)
        self.left(lease)

    def _two(self, number):
        stacks = [contextlib.ExitStack(), contextlib.ExitStack()]
        with self._one_at_a_time:
            leases = [self.enter(stack) for stack in stacks]
        for at in in_an_order(number):
            self.work(leases[at])
            close(stacks[at])
            self.left(leases[at])

    def _failing(self, _):
        try:
            with contextlib.ExitStack() as stack:
                lease = self.enter(stack)
                self.work(lease)
                raise Failure
        finally:
            self.left(lease)

    async def _ahere(self, _):
        async with contextlib.AsyncExitStack() as stack:
            lease = await self.aenter(stack)
            await self.awork(lease)
        self.left(lease)

    async def _aelsewhere(self, _):
        stack = contextlib.AsyncExitStack()
        lease = await asyncio.create_task(self.aenter(stack))
        await self.awork(lease)
        await asyncio.create_task(stack.aclose())
        self.left(lease)

    async def _apassed_on(self, _):
        async with contextlib.AsyncExitStack() as stack:
            lease = await self.aenter(stack)
            kept = stack.pop_all()
        await self.awork(lease)
        await aclose(kept)
        self.left(lease)

    async def _atwo(self, number):
        stacks = [contextlib.AsyncExitStack(), contextlib.AsyncExitStack()]
        async with self._one_task_at_a_time:
            leases = [await self.aenter(stack) for stack in stacks]
        for at in in_an_order(number):
            await self.awork(leases[at])
            await aclose(stacks[at])
            self.left(leases[at])

    async def _acancelled(self, _):
        entered = asyncio.get_running_loop().create_future()

        async def work():
            async with contextlib.AsyncExitStack() as stack:
                entered.set_result(await self.aenter(stack))
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.wait([task, entered], return_when=asyncio.FIRST_COMPLETED)
        lease = entered.result() if entered.done() else task.result()
        await self.awork(lease)
        task.cancel()
        await asyncio.wait([task])
        self.left(lease)

    async def _afailing(self, _):
        try:
            async with contextlib.AsyncExitStack() as stack:
                lease = await self.aenter(stack)
                await self.awork(lease)
                raise Failure
        finally:
            self.left(lease)


def in_an_order(number):
    return (0, 1) if number % 4 < 2 else (1, 0)


def close(stack):
    stack.close()


async def aclose(stack):
    await stack.aclose()
