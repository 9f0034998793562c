"""Who holds a lock: `locked()`, `holder()`, `inspect()`, and what an error tells of it."""

import datetime
import threading
import unittest

import quorlock
import quorlock.aio
from quorlock import Holder, Inspection, _default, once, redlock, semaphore
from support import LONG, Case, eventually, memory

NODES = memory("inspection")


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, label="alex")
        self.other = quorlock.Client(NODES, label="")
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def test_nobody(self):
        lock = self.client.lock(self.id())
        self.assertIs(lock.locked(), False)
        self.assertIsNone(lock.holder())
        found = self.client.inspect(self.id())
        self.assertEqual((found.name, found.verdict, found.holder), (self.id(), "free", None))
        self.assertEqual({node.state for node in found.nodes}, {"free"})

    def test_somebody(self):
        lock = self.client.lock(self.id())
        with lock as lease:
            self.assertIs(self.other.lock(self.id()).locked(), True)
            holder = self.other.lock(self.id()).holder()
            self.assertIsInstance(holder, Holder)
            self.assertEqual(holder.label, "alex")
            self.assertGreaterEqual(holder.votes, 2)
            self.assertTrue(5 < holder.left <= 10.1)
            found = self.other.inspect(self.id())
            self.assertIsInstance(found, Inspection)
            self.assertEqual((found.verdict, found.fence, found.queued), ("held", lease.fence, 0))
            for node in found.nodes:
                if node.state == "held":
                    self.assertEqual((node.label, node.quarantine, node.error), ("alex", 0, None))
            self.assertNotIn(lease.token, repr(found))
        self.assertIs(lock.locked(), False)

    def test_a_holder_without_a_label(self):
        with self.other.lock(self.id()):
            self.assertIsNone(self.client.lock(self.id()).holder().label)

    def test_a_label_of_a_lock_and_of_one_call(self):
        def label(name=self.id()):
            holder = self.other.lock(name).holder()
            return holder and holder.label

        lock = self.client.lock(self.id(), label="lock")
        several = self.client.lock_all([self.id(), "b"], label="lock")
        election = self.client.election(self.id(), label="lock")
        for seen, call in (
            ("alex", self.client.lock(self.id()).acquire), ("lock", lock.acquire), ("call", lambda: lock.acquire(label="call")),
            ("call", lambda: lock.acquire(False, label="call")), ("call", lambda: lock.acquire(timeout=1, label="call")),
            ("call", lambda: lock.try_acquire(label="call")), (None, lambda: lock.acquire(label="")), ("lock", several.acquire),
            ("call", lambda: several.acquire(label="call")), ("call", lambda: several.acquire(False, label="call")),
            ("call", lambda: several.try_acquire(label="call")), ("lock", election.campaign),
            ("call", lambda: election.campaign(label="call")), ("lock", self.client.rwlock(self.id(), label="lock").read().acquire),
        ):
            lease = call()
            self.assertEqual(label(), seen)
            lease.release()
        for seen, scope in (
            ("lock", lock), ("call", lock.attempt(label="call")), ("call", several.attempt(label="call")),
            ("own", redlock(self.id(), nodes=NODES, label="own")), ("own", redlock([self.id(), "b"], client=self.client, label="own")),
            ("own", redlock(self.id(), client=self.client, label="own").attempt()),
        ):
            with scope:
                self.assertEqual(label(), seen)
        self.assertEqual(once(self.id(), every=1, nodes=NODES, label="own")(label)(), "own")
        # Nobody is told who has a slot.
        with semaphore(self.id(), 1, nodes=NODES, label="own"), self.client.semaphore(self.id(), 2, label="own") as lease:
            self.assertTrue(lease.is_held())
        election.run(lambda _: self.assertEqual(label(), "lock"))

    def test_whoever_enters_a_lease_again_leaves_its_label(self):
        lock = self.client.lock(self.id(), label="first")
        with lock, self.client.lock(self.id(), label="second"):
            self.assertEqual(lock.holder().label, "first")
        with self.client.lock(self.id(), owner="o", label="first").acquire() as lease:
            with self.client.lock(self.id(), owner="o").acquire(label="second") as again:
                self.assertEqual((again.token, lock.holder().label), (lease.token, "first"))

    def test_a_label_that_is_refused(self):
        lock = self.client.lock(self.id())
        for label in ("l" * 257, "redis://user:secret@host\n", "\x7f"):
            for call in (lambda: quorlock.Client(NODES, label=label), lambda: self.client.lock("a", label=label),
                         lambda: self.client.lock_all(["a"], label=label), lambda: self.client.election("a", label=label),
                         lambda: lock.acquire(label=label), lambda: lock.try_acquire(label=label),
                         lambda: redlock("a", nodes=NODES, label=label).__enter__()):
                with self.assertRaisesRegex(quorlock.InvalidArgumentError, "label is") as caught:
                    call()
                self.assertNotIn("secret", str(caught.exception))
        for call in (lambda: self.client.lock("a", label=5), lambda: lock.acquire(label=None)):
            self.assertRaisesRegex(TypeError, "label is .*: give text", call)
        self.assertIs(lock.locked(), False)

    def test_an_error_names_the_lock_and_its_holder(self):
        with self.client.lock(self.id()), self.assertRaises(quorlock.LockTimeoutError) as caught:
            self.other.lock(self.id()).acquire(timeout=0.02)
        self.assertEqual((caught.exception.name, caught.exception.holder), (self.id(), "alex"))
        with self.assertRaises(quorlock.InvalidArgumentError) as caught:
            self.client.lock("x", ttl=-1)
        self.assertEqual((caught.exception.name, caught.exception.holder), (None, None))


class Servers(Case):
    def test_since_when(self):
        with quorlock.Client(self.nodes) as client:
            lock = client.lock(self.id())
            # From here on the client knows the nodes' clocks.
            with lock:
                pass
            with lock:
                since = lock.holder().since
            self.assertLess(abs(datetime.datetime.now(datetime.UTC) - since), datetime.timedelta(seconds=5))

    def test_labels_without_a_client_share_one_and_its_connections(self):
        with redlock(self.id(), nodes=self.nodes, label="request"):
            pass
        client, clients = _default.client(self.nodes, {}), len(_default._clients)
        connects = client.stats()["connects"]
        for i in range(40):
            with redlock(self.id(), nodes=self.nodes, label=f"request {i}"), quorlock.Client(self.nodes) as other:
                self.assertEqual(other.lock(self.id()).holder().label, f"request {i}")
        self.assertEqual((len(_default._clients), client.stats()["connects"]), (clients, connects))

    def test_a_lease_that_is_passed_on_to_another_label_tells_it_at_once(self):
        # Each renewal of its own is 20 s apart.
        with quorlock.Client(self.nodes, ttl=60, wait=LONG) as client:
            won = [threading.Event(), threading.Event()]
            goes = [threading.Event(), threading.Event()]

            def work(i):
                with client.lock(self.id(), label=f"request {i}"):
                    won[i].set()
                    goes[i].wait(LONG)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
            held = client.lock(self.id()).acquire()
            for i, thread in enumerate(threads):
                thread.start()
                self.assertTrue(eventually(lambda i=i: client.stats()["waiting"] == i + 1))
            held.release()
            self.assertTrue(won[0].wait(LONG))
            goes[0].set()
            self.assertTrue(won[1].wait(LONG))
            self.assertEqual(client.stats()["passed_on"], 1)
            self.assertTrue(eventually(lambda: client.lock(self.id()).holder().label == "request 1", 10))
            goes[1].set()
            for thread in threads:
                thread.join(LONG)
        self.assert_nothing_left()


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_the_same(self):
        async with quorlock.aio.Client(NODES, label="alex") as client:
            lock = client.lock(self.id())
            self.assertIs(await lock.locked(), False)
            async with lock:
                self.assertIs(await lock.locked(), True)
                self.assertEqual((await lock.holder()).label, "alex")
                self.assertEqual((await client.inspect(self.id())).verdict, "held")

    async def test_a_label_of_a_lock_and_of_one_call(self):
        async with quorlock.aio.Client(NODES, label="alex") as client:
            lock, several = client.lock(self.id(), label="lock"), client.lock_all([self.id(), "b"], label="lock")
            election = client.election(self.id(), label="lock")
            for seen, call in (
                ("lock", lock.acquire()), ("call", lock.acquire(label="call")), ("call", lock.acquire(False, label="call")),
                ("call", lock.try_acquire(label="call")), ("lock", several.acquire()), ("call", several.acquire(label="call")),
                ("call", several.acquire(False, label="call")), ("call", several.try_acquire(label="call")),
                ("lock", election.campaign()), ("call", election.campaign(label="call")),
            ):
                lease = await call
                self.assertEqual((await lock.holder()).label, seen)
                await lease.release()
            for seen, scope in (("lock", lock), ("call", lock.attempt(label="call")), ("call", several.attempt(label="call")),
                                ("own", redlock(self.id(), nodes=NODES, label="own"))):
                async with scope:
                    self.assertEqual((await lock.holder()).label, seen)
            async with lock, client.lock(self.id(), label="again"):
                self.assertEqual((await lock.holder()).label, "lock")
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, "label is"):
                await lock.acquire(label="l" * 257)


if __name__ == "__main__":
    unittest.main()
