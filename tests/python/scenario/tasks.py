"""Scenarios with Python's asyncio API: an actor is a task."""

import asyncio

import quorlock.aio
import verbs


class Asyncio(verbs.Verbs):
    make_client = staticmethod(quorlock.aio.Client)
    pause = staticmethod(asyncio.sleep)
    outside = staticmethod(asyncio.to_thread)

    @staticmethod
    async def wait_lost(lost, seconds):
        async def loss():
            await lost

        try:
            await asyncio.wait_for(loss(), seconds)
        except TimeoutError:
            pass


class Actor:
    """Carries out lines in a task of its own."""

    def __init__(self, doer, name):
        self._doer = doer
        self._todo = asyncio.Queue()
        self.task = asyncio.create_task(self._serve(), name=name)

    def begin(self, step):
        answer = asyncio.get_running_loop().create_future()
        self._todo.put_nowait((step, answer))
        return answer

    async def _serve(self):
        while True:
            step, answer = await self._todo.get()
            try:
                got = await self._doer.answer(step)
            except Exception as error:
                answer.set_exception(error)
                continue
            if got == "Cancelled":
                # The cancellation has been reported; the actor lives on.
                asyncio.current_task().uncancel()
            answer.set_result(got)


class Actors:
    def __init__(self, doer):
        self._doer = doer
        self._actors = {}

    def begin(self, step):
        if step.actor not in self._actors:
            self._actors[step.actor] = Actor(self._doer, step.actor)
        return self._actors[step.actor].begin(step)

    @staticmethod
    async def result(answer, seconds):
        done, _ = await asyncio.wait([answer], timeout=seconds)
        return answer.result() if done else "pending"

    def cancel(self, actor):
        self._actors[actor].task.cancel()

    def end(self):
        for actor in self._actors.values():
            actor.task.cancel()


async def play(steps):
    doer = Asyncio()
    actors = Actors(doer)
    try:
        await verbs.play(steps, doer, actors)
    finally:
        actors.end()


def run(steps):
    asyncio.run(play(steps))

