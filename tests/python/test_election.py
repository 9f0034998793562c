"""Leader election in both APIs: who leads, when the work of a term ends, and what comes after it."""

import asyncio
import contextlib
import logging
import queue
import signal
import threading
import time
import unittest
from unittest import mock

import quorlock
import quorlock.aio
from inside import Inside
from quorlock import Leadership, _channel, _native
from support import LONG, Case, Child, eventually, memory
from test_frameworks import GEVENT

NODES = memory("election")
# So that a renewal, which finds a loss, comes soon.
TTL = 0.5


async def soon(condition):
    """Waits until the condition holds, which may have to be awaited."""
    async with asyncio.timeout(LONG):
        while not (await value if asyncio.iscoroutine(value := condition()) else value):
            await asyncio.sleep(0)


class Patience:
    """In place of `Failures`: whoever's work has failed pauses for longer than any test."""

    def pause_after(self, led):
        return 1e6


def endless():
    return mock.patch.object(_native, "Failures", Patience)


class Failed(logging.Handler):
    """Waits for the log to tell of work that failed."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.records = queue.SimpleQueue()

    def emit(self, record):
        self.records.put(record)

    @contextlib.contextmanager
    def heard(self):
        logger = logging.getLogger("quorlock")
        logger.addHandler(self)
        propagates, logger.propagate = logger.propagate, False
        try:
            yield self.records
        finally:
            logger.removeHandler(self)
            logger.propagate = propagates


class Candidate:
    """A candidate on a thread of its own. Each of its terms is put into `terms`, and it leads until that is over."""

    def __init__(self, election, **options):
        self.election, self.inside = election, Inside()
        self.terms, self.ended = queue.SimpleQueue(), queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, kwargs=options, daemon=True)
        self.thread.start()

    def _run(self, **options):
        try:
            self.ended.put(self.election.run(self._lead, **options))
        except Exception as error:
            self.ended.put(error)

    def _lead(self, term):
        with self.inside:
            self.terms.put(term)
            eventually(lambda: not term.is_held(), 3 * LONG)


class Blocking(unittest.TestCase):
    def setUp(self):
        self.one, self.other = (self.client(label) for label in ("one", "other"))
        self.election = self.one.election(self.id())

    def client(self, label):
        client = quorlock.Client(NODES, ttl=TTL, label=label)
        self.addCleanup(client.close)
        return client

    def test_a_term_is_stored_in_the_layout_that_is_given(self):
        with self.one.election(self.id(), layout="redisson").campaign():
            with self.other.lock(self.id(), layout="redisson").attempt() as lease:
                self.assertIsNone(lease)
            with self.other.lock(self.id()).attempt() as lease:
                self.assertIsNotNone(lease)

    def test_the_next_candidate_leads_when_one_resigns(self):
        first = Candidate(self.election)
        term = first.terms.get(timeout=LONG)
        self.assertTrue(self.election.is_leader())
        self.assertIn("leads", repr(self.election))
        second = Candidate(self.other.election(self.id()))
        self.assertTrue(eventually(lambda: self.other.inspect(self.id()).queued == 1))
        leader = self.other.election(self.id()).leader()
        self.assertEqual((leader.label, leader.fence >= term.fence), ("one", True))
        self.assertFalse(second.election.is_leader())
        # It goes behind the other, and leads again after that.
        self.assertTrue(self.election.resign())
        self.assertEqual((term.is_held(), term.lost.reason), (False, None))
        later = second.terms.get(timeout=LONG)
        self.assertGreater(later.fence, term.fence)
        self.assertTrue(eventually(lambda: self.one.inspect(self.id()).queued == 1))
        self.assertTrue(second.election.resign())
        self.assertGreater(first.terms.get(timeout=LONG).fence, later.fence)
        self.assertFalse(second.election.resign())
        self.assertFalse(self.other.election(self.id()).resign())
        self.one.close()
        self.assertIsInstance(first.ended.get(timeout=LONG), quorlock.ClientClosedError)

    def test_work_that_is_done_ends_it(self):
        stopped = []
        self.assertEqual(self.election.run(lambda term: (term.is_held(), self.election.is_leader())), (True, True))
        self.assertIsNone(self.election.leader())
        fences, begun = [], time.monotonic()

        def work(term):
            fences.append(term.fence)
            if len(fences) == 3:
                raise SystemExit(3)

        with self.assertRaises(SystemExit):
            self.election.run(work, again=True, on_stopped=lambda: stopped.append(len(fences)))
        self.assertEqual((sorted(set(fences)), stopped), (fences, [1, 2, 3]))
        # Work that returns at once is not called as often as nodes answer.
        self.assertGreater(time.monotonic() - begun, 0.19)
        self.assertIsNone(self.election.leader())

    def test_work_that_fails_is_begun_again_after_a_pause(self):
        begun = []

        def work(term):
            begun.append(time.monotonic())
            if len(begun) == 1:
                raise ValueError("not today")
            return "done"

        with Failed().heard() as records:
            self.assertEqual(self.election.run(work), "done")
        self.assertGreaterEqual(begun[1] - begun[0], 0.5)
        record = records.get_nowait()
        self.assertIn("campaigns again in", record.getMessage())
        self.assertIs(record.exc_info[0], ValueError)
        self.assertIsNone(self.election.leader())

    def test_a_close_ends_the_pause(self):
        with endless(), Failed().heard() as records:
            thread_ended = queue.SimpleQueue()

            def run():
                try:
                    self.election.run(lambda term: 1 / 0)
                except quorlock.ClientClosedError as error:
                    thread_ended.put(error)

            threading.Thread(target=run, daemon=True).start()
            records.get(timeout=LONG)
            self.one.close()
            self.assertIsNotNone(thread_ended.get(timeout=LONG))

    def test_a_loss_is_told_and_campaigns_again(self):
        told, terms = [], []

        def work(term):
            terms.append(term)
            if len(terms) == 3:
                return "led"
            self.other.force_release(self.id())
            self.assertTrue(term.lost.wait(LONG))
            if len(terms) == 2:
                # It could do no better: this is no failure.
                raise ValueError("too late")
            return "too late"

        with endless(), self.assertNoLogs("quorlock", logging.ERROR):
            done = self.election.run(work, on_lost=told.append, on_stopped=lambda: told.append(None))
        self.assertEqual((done, told), ("led", ["forced", None, "forced", None, None]))
        self.assertLess(terms[0].fence, terms[1].fence)

    def test_a_loss_is_told_before_it_is_told_that_the_work_has_stopped(self):
        """Also where the thread that tells of losses is busy."""
        busy, go_on, told, terms = threading.Event(), threading.Event(), [], []
        self.addCleanup(go_on.set)
        lease = self.one.lock(f"{self.id()} busy").acquire()
        lease.on_lost(lambda reason: (busy.set(), go_on.wait(LONG)))
        self.other.force_release(lease.name)
        self.assertTrue(busy.wait(LONG))

        def work(term):
            terms.append(term)
            if len(terms) == 1:
                self.other.force_release(self.id())
                self.assertTrue(term.lost.wait(LONG))

        self.election.run(work, on_lost=told.append, on_stopped=lambda: told.append(None))
        self.assertEqual(told, ["forced", None, None])
        go_on.set()
        # What is told behind it: nothing more of this term.
        later = threading.Event()
        other = self.one.lock(f"{self.id()} later").acquire()
        other.on_lost(lambda reason: later.set())
        self.other.force_release(other.name)
        self.assertTrue(later.wait(LONG))
        self.assertEqual(told, ["forced", None, None])

    def test_what_the_callbacks_raise_is_logged(self):
        def broken(*_reason):
            raise ValueError("broken")

        def work(term):
            if not lost:
                lost.append(self.other.force_release(self.id()))
                self.assertTrue(term.lost.wait(LONG))
            return "done"

        lost = []
        with Failed().heard() as records:
            self.assertEqual(self.election.run(work, on_lost=broken, on_stopped=broken), "done")
        self.assertEqual([str(records.get(timeout=LONG).exc_info[1]) for _ in range(3)], 3 * ["broken"])

    def test_a_campaign_by_hand(self):
        term = self.election.campaign()
        self.assertTrue(term.is_held() and self.election.is_leader())
        # Nobody re-enters, not even the same thread.
        short = self.one.election(self.id(), wait=0.05)
        for again in (short, self.one.election(self.id(), wait=0.05)):
            with self.assertRaises(quorlock.LockTimeoutError):
                again.campaign()
        self.assertTrue(self.election.resign())
        with short.campaign() as term:
            self.assertTrue(short.is_leader())
        self.assertFalse(short.is_leader() or self.election.is_leader())

    def test_what_is_not_valid_is_refused(self):
        async def work(term):
            """Not to be run here."""

        with self.assertRaisesRegex(TypeError, "coroutine function"):
            self.election.run(work)
        with self.assertRaises(quorlock.InvalidArgumentError):
            self.one.election(self.id(), ttl=-1)
        with self.assertRaises(quorlock.InvalidArgumentError):
            self.one.election("")
        # Many hold those, and one leads.
        for many in ({"shared": True}, {"slots": 2}):
            with self.assertRaisesRegex(TypeError, "unexpected keyword"):
                self.one.election(self.id(), **many)
        with self.assertRaises(quorlock.InvalidArgumentError):
            next(self.election.observe(0))

    def test_no_candidate_works_twice_at_once(self):
        """Three candidates that resign and lose their terms: each begins its work only when that of its last term is over."""
        candidates = [Candidate(self.client(str(number)).election(self.id())) for number in range(3)]
        for turn in range(30):
            candidate = eventually(lambda: next((each for each in candidates if each.election.is_leader()), None))
            self.assertIsNotNone(candidate)
            if turn % 3:
                candidate.election.resign()
            else:
                self.other.force_release(self.id())
        self.assertEqual([candidate.inside.most for candidate in candidates], [1, 1, 1])


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


class Observers(Case):
    def setUp(self):
        super().setUp()
        self.one, self.watcher = (quorlock.Client(self.nodes, label=label) for label in ("one", "watcher"))
        for client in (self.one, self.watcher):
            self.addCleanup(client.close)

    def test_each_leader_and_never_an_old_one(self):
        seen = self.watcher.election(self.id()).observe(every=0.02)
        self.assertEqual(next(seen), Leadership(None, True))
        term = self.one.election(self.id()).campaign()
        now = next(seen)
        self.assertEqual((now.known, now.leader.label, now.leader.fence >= term.fence), (True, "one", True))
        # The same leader in another term is a change.
        term.release()
        again = self.one.election(self.id()).campaign()
        now = next(seen)
        if now.leader is None:
            now = next(seen)
        self.assertGreaterEqual(now.leader.fence, again.fence)
        self.stage.kill(1, 2)
        self.assertEqual(next(seen), Leadership(None, False))
        again.release()
        with self.assertRaises(quorlock.QuorumUnavailableError):
            self.watcher.election(self.id()).leader()
        self.watcher.close()
        with self.assertRaises(quorlock.ClientClosedError):
            next(seen)

    def test_a_close_ends_its_rest(self):
        seen, ended = self.watcher.election(self.id()).observe(every=1e6), queue.SimpleQueue()
        next(seen)

        def wait():
            try:
                ended.put(next(seen))
            except quorlock.ClientClosedError as error:
                ended.put(error)

        thread = threading.Thread(target=wait)
        thread.start()
        self.watcher.close()
        self.assertIsInstance(ended.get(timeout=LONG), quorlock.ClientClosedError)
        thread.join()

    def test_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                seen = client.election(self.id()).observe(every=0.01)
                self.assertEqual(await anext(seen), Leadership(None, True))
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(anext(seen), 0.05)
                term = self.one.election(self.id()).campaign()
                # A step that is given up, in whatever moment, loses no change.
                now = None
                while now is None:
                    with contextlib.suppress(TimeoutError):
                        now = await asyncio.wait_for(anext(seen), 0.001)
                self.assertEqual((now.known, now.leader.label), (True, "one"))
                term.release()
                async for now in seen:
                    self.assertEqual(now, Leadership(None, True))
                    break
                self.stage.kill(1, 2)
                async for now in seen:
                    self.assertEqual(now, Leadership(None, False))
                    break
                with self.assertRaises(quorlock.QuorumUnavailableError):
                    await client.election(self.id()).leader()

        asyncio.run(main())

    def test_a_change_that_nobody_took_comes_again(self):
        """The call is given up in the very turn of the loop in which its result has come."""

        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                seen = client.election(self.id()).observe(every=0.01)
                task = asyncio.create_task(seen.__anext__())

                filled = asyncio.get_running_loop().create_future()
                real = _channel.Awaited

                def watched(start):
                    awaited = real(start)
                    awaited.future.add_done_callback(lambda _: (task.cancel(), filled.set_result(awaited.future.result())))
                    return awaited

                with mock.patch.object(_channel, "Awaited", watched):
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                self.assertIsInstance(filled.result(), _native.Change)
                self.assertEqual(await asyncio.wait_for(anext(seen), LONG), Leadership(None, True))

        asyncio.run(main())


STOPPED = """
import asyncio, logging, sys, quorlock.aio

# The loss is a warning, which would stand among what is printed.
logging.getLogger("quorlock").addHandler(logging.NullHandler())

async def main():
    loop = asyncio.get_running_loop()
    async with quorlock.aio.Client(ttl=1, label="child") as client:
        terms = 0

        async def work(term):
            nonlocal terms
            terms += 1
            if terms == 2:
                return
            line = loop.create_future()
            loop.add_reader(sys.stdin, lambda: line.done() or line.set_result(None))
            print("leads")
            try:
                await line
                print("goes on")
            except asyncio.CancelledError:
                print("cancelled", term.is_held())
                raise
            finally:
                loop.remove_reader(sys.stdin)

        await client.election("stopped").run(work, on_lost=lambda reason: print("lost", reason),
                                             on_stopped=lambda: print("stopped"))

asyncio.run(main())
"""

INTERRUPTED = """
import asyncio, sys, quorlock, quorlock.aio
quorlock.Client().election("interrupted").campaign().release()

async def main():
    async with quorlock.aio.Client() as client:
        async def work(term):
            try:
                print("leads")
                if sys.argv[1] == "raises":
                    raise KeyboardInterrupt
                await asyncio.get_running_loop().create_future()
            finally:
                print("ends", term.is_held())

        await client.election("interrupted").run(work, on_stopped=lambda: print("stopped"))

def blocking():
    def work(term):
        try:
            print("leads")
            term.lost.wait()
        finally:
            print("ends", term.is_held())

    quorlock.Client().election("interrupted").run(work, on_stopped=lambda: print("stopped"))

try:
    blocking() if sys.argv[1] == "blocking" else asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", quorlock.Client().election("interrupted").leader())
"""

PAUSING = """
import logging, sys, quorlock
from quorlock import _native
from unittest import mock

class Told(logging.Handler):
    def emit(self, record):
        print(record.exc_info[0].__name__)

logging.getLogger("quorlock").addHandler(Told())
_native.Failures = mock.Mock()
_native.Failures().pause_after.return_value = 1e6
client = quorlock.Client()
"""

PAUSE_INTERRUPTED = PAUSING + """
try:
    client.election("pausing").run(lambda term: 1 / 0)
except KeyboardInterrupt:
    print("interrupted")
"""

PAUSE_IN_GEVENT = GEVENT + PAUSING + """
def run():
    try:
        client.election("pausing").run(lambda term: 1 / 0)
    except quorlock.ClientClosedError:
        print("closed")

told = Event()
class Rings(logging.Handler):
    def emit(self, record):
        told.set()

logging.getLogger("quorlock").addHandler(Rings())
runs = spawn(run)
told.wait()
# The greenlet pauses by now, or soon; and this one goes on.
while client.election("pausing").leader() is not None:
    sleep(0)
client.close()
join([runs])
"""


class Processes(Case):
    def test_one_that_was_stopped_does_not_one_more_step_of_a_leader(self):
        with Child(STOPPED, self.nodes) as child, quorlock.Client(self.nodes) as client:
            self.assertEqual(child.line(), "leads")
            child.process.send_signal(signal.SIGSTOP)
            term = client.election("stopped").campaign()
            # What it waits for is there when it goes on.
            child.process.stdin.write("\n")
            child.process.stdin.flush()
            child.process.send_signal(signal.SIGCONT)
            said = [child.line() for _ in range(3)]
            self.assertEqual(said, ["lost expired", "cancelled False", "stopped"])
            self.assertTrue(term.is_held())
            term.release()
            self.assertEqual(child.line(), "stopped")
            self.assert_ends_well(child)

    def test_ctrl_c_resigns(self):
        for how in ("asyncio", "blocking", "raises"):
            with self.subTest(how), Child(INTERRUPTED, self.nodes, how) as child:
                self.assertEqual(child.line(), "leads")
                if how != "raises":
                    child.process.send_signal(signal.SIGINT)
                said = [child.line() for _ in range(3)]
                self.assertEqual(said, ["ends True", "stopped", "interrupted None"])
                self.assert_ends_well(child)

    def test_ctrl_c_ends_the_pause(self):
        with Child(PAUSE_INTERRUPTED, self.nodes) as child:
            self.assertEqual(child.line(), "ZeroDivisionError")
            child.process.send_signal(signal.SIGINT)
            self.assertEqual(child.line(), "interrupted")
            self.assert_ends_well(child)

    def test_other_greenlets_run_in_the_pause(self):
        with Child(PAUSE_IN_GEVENT, self.nodes) as child:
            self.assertEqual((child.line(), child.line()), ("ZeroDivisionError", "closed"))
            self.assert_ends_well(child)


if __name__ == "__main__":
    unittest.main()
