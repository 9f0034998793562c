"""Elections in asyncio."""

import asyncio
import contextlib
import logging
import time
import unittest

import quorlock
import quorlock.aio
from elections import NODES, TTL, Failed, endless, soon
from inside import Inside
from support import LONG


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.one, self.other = (self.client(label) for label in ("one", "other"))
        for client in (self.one, self.other):
            self.addAsyncCleanup(client.close)
        self.election = self.one.election(self.id())
        self.told = []

    def client(self, label):
        return quorlock.aio.Client(NODES, ttl=TTL, label=label)

    def runs(self, work, **options):
        """A task that runs the election, and tells in `told`."""
        options = {"on_lost": self.told.append, "on_stopped": lambda: self.told.append("stopped"), **options}
        task = asyncio.create_task(self.election.run(work, **options))
        self.addCleanup(task.cancel)
        return task

    async def is_queued(self):
        return (await self.other.inspect(self.id())).queued

    async def test_the_work_has_ended_before_the_next_candidate_leads(self):
        leads, cleans, clean = asyncio.Event(), asyncio.Event(), asyncio.Event()
        terms = []

        async def work(term):
            terms.append(term)
            leads.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cleans.set()
                await clean.wait()
                self.assertTrue(term.is_held())

        running = self.runs(work)
        await asyncio.wait_for(leads.wait(), LONG)
        leads.clear()
        next_leads = asyncio.create_task(self.other.election(self.id()).campaign())
        await soon(self.is_queued)
        self.assertTrue(self.election.is_leader())
        resigned = asyncio.create_task(self.election.resign())
        await asyncio.wait_for(cleans.wait(), LONG)
        leader = await self.other.election(self.id()).leader()
        self.assertEqual((leader.label, leader.fence >= terms[0].fence), ("one", True))
        self.assertEqual((resigned.done(), next_leads.done(), self.told), (False, False, []))
        clean.set()
        self.assertTrue(await asyncio.wait_for(resigned, LONG))
        self.assertEqual(self.told, ["stopped"])
        # And this one campaigns again, behind the other.
        term = await asyncio.wait_for(next_leads, LONG)
        self.assertGreater(term.fence, terms[0].fence)
        self.assertFalse(leads.is_set() or self.election.is_leader() or await self.election.resign())
        await term.release()
        await asyncio.wait_for(leads.wait(), LONG)
        self.assertGreater(terms[1].fence, term.fence)
        running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await running

    async def test_a_loss_cancels_the_work_and_campaigns_again(self):
        clean, ended, terms = asyncio.Event(), asyncio.Event(), []

        async def work(term):
            terms.append(term)
            if len(terms) == 2:
                return "led"
            await self.other.force_release(self.id())
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError as error:
                self.told.append(str(error))
                await clean.wait()
                # Nobody disturbs it, and however it ends it was over.
                await asyncio.sleep(0)
                ended.set()
                raise ValueError("too late") from None

        with endless(), self.assertNoLogs("quorlock", logging.ERROR):
            running = self.runs(work)
            await soon(lambda: len(self.told) == 2)
            # It may take its time; somebody else may lead by now.
            async with await asyncio.wait_for(self.other.election(self.id()).campaign(), LONG) as term:
                self.assertGreater(term.fence, terms[0].fence)
            self.assertEqual(self.told, ["forced", "the term is over (forced)"])
            self.assertEqual(len(terms), 1)
            clean.set()
            self.assertEqual(await asyncio.wait_for(running, LONG), "led")
        self.assertTrue(ended.is_set())
        self.assertEqual(self.told[2:], ["stopped", "stopped"])

    async def test_no_step_is_done_when_the_term_is_over(self):
        """The loop is busy for longer than the ttl; what is awaited comes in the same moment, as a result or as an error."""
        loop = asyncio.get_running_loop()
        for error in (None, ConnectionError()):
            went_on, awaited, terms = [], loop.create_future(), []

            def busy(error=error, awaited=awaited):
                time.sleep(0.4)
                awaited.set_exception(error) if error else awaited.set_result(None)

            async def work(term, awaited=awaited, terms=terms, went_on=went_on):
                terms.append(term)
                if len(terms) == 2:
                    return "led"
                loop.call_soon(busy)
                try:
                    went_on.append(await awaited)
                except ConnectionError:
                    went_on.append("tries again")

            self.told.clear()
            self.election = self.one.election(f"{self.id()} {error!r}", ttl=0.2, renew=False)
            self.assertEqual(await asyncio.wait_for(self.runs(work), LONG), "led")
            self.assertEqual((went_on, self.told), ([], ["expired", "stopped", "stopped"]))

    async def test_a_loss_that_its_last_step_meets(self):
        """It is told all the same, and work that fails then could do no better."""
        tries = []

        async def work(term):
            tries.append(term)
            if len(tries) == 1:
                time.sleep(0.4)
                raise ValueError("too late")
            return "led"

        self.election = self.one.election(self.id(), ttl=0.2, renew=False)
        with endless(), self.assertNoLogs("quorlock", logging.ERROR):
            self.assertEqual(await asyncio.wait_for(self.runs(work), LONG), "led")
        self.assertEqual(self.told, ["expired", "stopped", "stopped"])

    async def test_what_it_awaits_cannot_keep_it_from_being_stopped(self):
        went_on, leads, terms = [], asyncio.Event(), []

        async def stubborn():
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                return "never mind"

        async def work(term):
            terms.append(term)
            if len(terms) == 2:
                return "led"
            leads.set()
            went_on.append(await asyncio.create_task(stubborn()))

        running = self.runs(work)
        await asyncio.wait_for(leads.wait(), LONG)
        await asyncio.sleep(0)
        self.assertTrue(await asyncio.wait_for(self.election.resign(), LONG))
        self.assertEqual(await asyncio.wait_for(running, LONG), "led")
        self.assertEqual(went_on, [])

    async def test_a_cancellation_is_passed_on_and_awaited(self):
        steps, leads = [], asyncio.Event()

        async def work(term):
            for step in ("cancelled", "cancelled again"):
                leads.set()
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    steps.append(step)
            await asyncio.sleep(0)
            steps.append(term.is_held())

        running = self.runs(work)
        for _ in range(2):
            await asyncio.wait_for(leads.wait(), LONG)
            leads.clear()
            self.assertFalse(running.done())
            running.cancel("enough")
        with self.assertRaisesRegex(asyncio.CancelledError, "enough"):
            await running
        self.assertEqual((steps, self.told), (["cancelled", "cancelled again", True], ["stopped"]))
        self.assertIsNone(await self.election.leader())

    async def test_work_that_fails_pauses(self):
        tries = []

        async def work(term):
            tries.append(time.monotonic())
            if len(tries) == 1:
                raise ValueError("not today")
            return "done"

        with Failed().heard() as records:
            self.assertEqual(await asyncio.wait_for(self.runs(work), LONG), "done")
        self.assertGreaterEqual(tries[1] - tries[0], 0.5)
        self.assertIs(records.get_nowait().exc_info[0], ValueError)
        # The pause may be ended.
        with endless(), Failed().heard() as records:
            tries.clear()
            running = self.runs(work)
            await soon(lambda: not records.empty())
            self.assertIsNone(await self.election.leader())
            await self.one.close()
            with self.assertRaises(quorlock.ClientClosedError):
                await asyncio.wait_for(running, LONG)

    async def test_again_and_again_until_it_is_interrupted(self):
        fences, begun = [], time.monotonic()

        async def work(term):
            fences.append(term.fence)
            if len(fences) == 3:
                # No exception that ends the loop of these tests as well.
                raise GeneratorExit

        with self.assertRaises(GeneratorExit):
            await self.runs(work, again=True)
        self.assertEqual(fences, sorted(set(fences)))
        self.assertGreater(time.monotonic() - begun, 0.19)
        self.assertIsNone(await self.election.leader())
        self.assertEqual(self.told, 3 * ["stopped"])

        async def cancelled(term):
            raise asyncio.CancelledError

        with self.assertRaises(asyncio.CancelledError):
            await self.election.run(cancelled)
        self.assertIsNone(await self.election.leader())

    async def test_it_resigns_by_itself(self):
        terms = []

        async def work(term):
            terms.append(term)
            if len(terms) == 1:
                await self.election.resign()
                self.fail("goes on")
            return "led"

        self.assertEqual(await asyncio.wait_for(self.runs(work), LONG), "led")
        self.assertEqual(self.told, ["stopped", "stopped"])

    async def test_a_campaign_by_hand(self):
        term = await self.election.campaign()
        self.assertTrue(self.election.is_leader())
        self.assertIn("leads", repr(self.election))
        with self.assertRaises(quorlock.LockTimeoutError):
            await self.one.election(self.id(), wait=0.05).campaign()
        waits = asyncio.create_task(self.election.campaign())
        await soon(lambda: self.one.stats()["waiting"])
        waits.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waits
        self.assertTrue(await self.election.resign())
        self.assertFalse(term.is_held() or await self.election.resign())
        self.assertIsNone(await self.election.leader())

    async def test_what_is_not_valid_is_refused(self):
        with self.assertRaisesRegex(TypeError, "give a coroutine function"):
            await self.election.run(lambda term: "done")
        self.assertIsNone(await self.election.leader())
        with self.assertRaises(quorlock.InvalidArgumentError):
            self.one.election(self.id(), max_waiters=-1)
        for many in ({"shared": True}, {"slots": 2}):
            with self.assertRaisesRegex(TypeError, "unexpected keyword"):
                self.one.election(self.id(), **many)

        leads = asyncio.Event()

        async def work(term):
            leads.set()
            await asyncio.get_running_loop().create_future()

        running = self.runs(work)
        await asyncio.wait_for(leads.wait(), LONG)
        with self.assertRaisesRegex(RuntimeError, "another event loop"):
            await asyncio.to_thread(asyncio.run, self.election.resign())
        self.assertTrue(self.election.is_leader())
        running.cancel()

    async def test_candidates_that_resign_never_work_at_once(self):
        inside, done = Inside(), asyncio.Event()
        clients = [self.client(str(number)) for number in range(3)]
        elections = [client.election(self.id()) for client in clients]

        async def work(term):
            try:
                with inside:
                    if inside.entries == 30:
                        done.set()
                    try:
                        await asyncio.get_running_loop().create_future()
                    finally:
                        await asyncio.sleep(0.001)
            finally:
                self.assertTrue(term.is_held())

        async with contextlib.AsyncExitStack() as stack:
            for client in clients:
                await stack.enter_async_context(client)
            tasks = [asyncio.create_task(election.run(work)) for election in elections]
            while not done.is_set():
                await asyncio.gather(*(election.resign() for election in elections))
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual([type(end) for end in ends], 3 * [asyncio.CancelledError])
        self.assertEqual(inside.most, 1)


if __name__ == "__main__":
    unittest.main()
