"""Leader election in both APIs: who leads, when the work of a term ends, and what comes after it."""

import asyncio
import contextlib
import logging
import queue
import threading
import time
import unittest
from unittest import mock

import quorlock
import quorlock.aio
from elections import NODES, TTL, Candidate, Failed, endless
from quorlock import Leadership, _channel, _native
from support import LONG, Case, eventually


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


if __name__ == "__main__":
    unittest.main()
