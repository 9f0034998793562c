"""Blocking waits: the interpreter is free meanwhile, and Ctrl-C ends them."""

import asyncio
import ctypes
import queue
import signal
import sys
import threading
import time
import unittest

import quorlock
import quorlock.aio
from support import LONG, Case, Child, eventually, hold_elsewhere, memory

# Generous: the promise is 200 ms, on a machine that has nothing else to do. What is waited for takes far longer.
INTERRUPTED_WITHIN = 3.0


class Free(unittest.TestCase):
    def test_other_threads_run_while_one_waits(self):
        with quorlock.Client(memory("free")) as client:
            holder = client.lock("free", owner="holder")
            holder.acquire()
            waiting, got = threading.Event(), []

            def wait():
                waiting.set()
                got.append(client.lock("free").acquire(wait=LONG))

            thread = threading.Thread(target=wait)
            thread.start()
            # Were the interpreter not released, nobody could release the lock.
            waiting.wait(LONG)
            self.assertTrue(eventually(lambda: client.stats()["waiting"] > 0))
            holder.release()
            thread.join(LONG)
            self.assertEqual(len(got), 1)

    def test_other_threads_run_while_one_waits_for_a_loss(self):
        with quorlock.Client(memory("free")) as client:
            lease = client.lock("loss").acquire()
            waits = [threading.Thread(target=lease.lost.wait, args=limit) for limit in ((), (LONG,))]
            for wait in waits:
                wait.start()
            client.close()
            for wait in waits:
                wait.join(LONG)
                self.assertFalse(wait.is_alive())


class ExceptionThatIsSet(Case):
    """As dramatiq, rq and pytest-timeout set one for a thread, to end what it does."""

    def ends(self, wait, begun):
        ended = queue.Queue()

        class Shutdown(BaseException):
            pass

        def work():
            try:
                ended.put(wait())
            except Shutdown as error:
                ended.put(error)

        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(eventually(lambda: begun(thread)))
        # Behind the first look, which comes soon.
        time.sleep(0.3)
        set_for = ctypes.pythonapi.PyThreadState_SetAsyncExc
        self.assertEqual(set_for(ctypes.c_ulong(thread.ident), ctypes.py_object(Shutdown)), 1)
        # It would wait for ever.
        self.assertIsInstance(ended.get(timeout=LONG), Shutdown)
        thread.join(LONG)

    def test_it_ends_a_wait_for_a_lock_and_leaves_nothing(self):
        with quorlock.Client(memory("set-for-a-thread")) as client:
            holder = client.lock("a").acquire()
            self.ends(lambda: client.lock("a", wait=None).acquire(), lambda _: client.stats()["waiting"] == 1)
            self.assertTrue(eventually(lambda: client.stats()["waiting"] == 0))
            holder.release()
            client.lock("a", wait=0).acquire().release()

    def test_it_ends_a_wait_for_a_loss(self):
        with quorlock.Client(memory("set-for-a-loss")) as client:
            lease = client.lock("a").acquire()

            def waits(thread):
                frame = sys._current_frames().get(thread.ident)
                return frame is not None and frame.f_code.co_name == "waited_for_loss"

            self.ends(lease.lost.wait, waits)
            self.assertTrue(lease.is_held())


class Interrupted(Case):
    SCRIPT = """
import os, sys, threading, time, quorlock
client = quorlock.Client(ttl=20, node_timeout=2)
lock = client.lock("ctrl-c")
print("ready")
sys.stdin.readline()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted")
    sys.stdin.readline()
"""

    def interrupt(self, wait, begun):
        with Child(self.SCRIPT.format(wait=wait), self.nodes) as child:
            self.assertEqual(child.line(), "ready")
            child.process.stdin.write("\n")
            child.process.stdin.flush()
            begun(child)
            sent = time.monotonic()
            child.process.send_signal(signal.SIGINT)
            self.assertEqual(child.line(), "interrupted")
            self.assertLess(time.monotonic() - sent, INTERRUPTED_WITHIN)
            yield child
            self.assert_ends_well(child)

    def test_in_an_attempt(self):
        # Two nodes hang, the third has voted: the attempt is open, and its vote has to be taken back.
        self.stage.stop(1, 2)
        voted = lambda _: self.assertEqual(self.stage.await_holders("lock:{ctrl-c}", 1, LONG), [3])  # noqa: E731
        for wait in ("lock.acquire(wait=None)", "lock.__enter__()", "quorlock.redlock('ctrl-c', client=client).__enter__()"):
            for _ in self.interrupt(wait, voted):
                self.assertEqual(self.stage.await_holders("lock:{ctrl-c}", 0, 5.0), [])
        self.stage.cont(1, 2)
        self.assert_nothing_left()

    def test_between_attempts(self):
        hold_elsewhere(self.stage, "ctrl-c", 60)

        def asked(_):
            before = self.stage.calls("evalsha")
            self.assertTrue(eventually(lambda: self.stage.calls("evalsha") > before + 3))

        for _ in self.interrupt("lock.acquire(wait=None)", asked):
            pass
        self.assertEqual(self.stage.redis(1, "GET", "lock:{ctrl-c}"), b"other")

    def test_in_a_wait_for_a_loss(self):
        held = lambda _: self.assertEqual(len(self.stage.await_holders("lock:{ctrl-c}", 3, LONG)), 3)  # noqa: E731
        for wait in ("lock.acquire().lost.wait()", "lock.acquire().lost.wait(60)"):
            for _ in self.interrupt(wait, held):
                pass
            self.assert_nothing_left()

    def test_a_handler_that_does_not_raise_goes_on_waiting(self):
        with Child("""
import signal, quorlock
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
client = quorlock.Client(ttl=20)
print("ready")
client.lock("ctrl-c").acquire(wait=60).release()
print("acquired")
""", self.nodes) as child:
            hold_elsewhere(self.stage, "ctrl-c", 60)
            self.assertEqual(child.line(), "ready")
            child.process.send_signal(signal.SIGUSR1)
            self.assertEqual(child.line(), "handled")
            for number in (1, 2, 3):
                self.stage.redis(number, "DEL", "lock:{ctrl-c}")
            self.assertEqual(child.line(), "acquired")
            self.assert_ends_well(child)


class InterruptedAnywhere(Case):
    def test_at_random_instants(self):
        """Wherever Ctrl-C strikes, in a wait or between two steps of a scope, no key stays behind."""
        with Child("""
import logging, random, signal, sys, threading, quorlock
# Where it strikes before a scope has its lease, that is told as one which is not kept.
logging.getLogger("quorlock").setLevel(logging.ERROR)
chance = random.Random(11)
signal.signal(signal.SIGALRM, signal.default_int_handler)
client = quorlock.Client(wait=20)
busy = threading.Event()

def contend():
    lock = client.lock("random")
    while not busy.is_set():
        with lock:
            pass

other = threading.Thread(target=contend)
other.start()
interrupted = entered = 0
lock, held = client.lock("random"), quorlock.redlock("random", client=client)
while interrupted < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + chance.random() ** 3 * 0.02)
        while True:
            with chance.choice((lock, held)) as lease:
                entered += lease.is_held()
    except KeyboardInterrupt:
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
busy.set()
other.join()
print(interrupted, entered)
sys.stdin.readline()
""", self.nodes) as child:
            interrupted, entered = map(int, child.line().split())
            self.assertEqual(interrupted, 300)
            self.assertGreater(entered, 30)
            # The client is still open: nobody else cleans up.
            self.assert_nothing_left()
            self.assert_ends_well(child)


class Hogged(Case):
    """A thread that keeps the interpreter to itself for twice the ttl, of which each third brings renewals."""

    # So long that a machine which stands still for a second costs nobody the lease.
    TTL = 2.0

    def hog(self):
        # PyDLL does not release the interpreter.
        ctypes.PyDLL(None).usleep(int(2 * self.TTL * 1e6))

    def test_no_lease_is_lost(self):
        with quorlock.Client(self.nodes, ttl=self.TTL) as client, client.lock("hogged") as lease:
            thread = threading.Thread(target=self.hog)
            thread.start()
            thread.join()
            self.assertTrue(lease.is_held())
            self.assertGreater(client.stats()["renewals"], 3)
            self.assertEqual(client.stats()["lost"], 0)

    def test_no_lease_of_a_loop_that_is_kept_busy_is_lost(self):
        async def main():
            async with quorlock.aio.Client(self.nodes, ttl=self.TTL) as client, client.lock("hogged") as lease:
                # Neither the loop nor any other thread of Python runs meanwhile.
                self.hog()
                self.assertTrue(lease.is_held())
                self.assertGreater(client.stats()["renewals"], 3)
                self.assertEqual(client.stats()["lost"], 0)

        asyncio.run(main())

    def test_nor_one_that_is_won_meanwhile(self):
        # In the main thread, which looks for signals and so waits for the interpreter.
        self.assertIs(threading.current_thread(), threading.main_thread())
        hold_elsewhere(self.stage, "hogged", 1.5)
        timer = threading.Timer(0.4, self.hog)
        with quorlock.Client(self.nodes, ttl=self.TTL) as client:
            timer.start()
            with client.lock("hogged", wait=LONG) as lease:
                timer.join()
                self.assertTrue(lease.is_held(), lease)
                self.assertEqual(client.stats()["lost"], 0)
                # It was won while the interpreter was kept, and looked after from then on.
                self.assertGreater(client.stats()["renewals"], 3)

    def test_one_that_is_lost_meanwhile_is_not_given(self):
        self.assertIs(threading.current_thread(), threading.main_thread())
        hold_elsewhere(self.stage, "hogged", 1.5)
        with quorlock.Client(self.nodes) as client:
            timer = threading.Timer(0.4, self.hog_until_lost, [client])
            timer.start()
            lock = client.lock("hogged", ttl=0.2, renew=False, wait=LONG)
            with self.assertRaisesRegex(quorlock.LockLostError, "expired"), lock:
                self.fail("the body ran")
            timer.join()
            self.assertTrue(lock.acquire().release())

    def hog_until_lost(self, client):
        interval, end = sys.getswitchinterval(), time.monotonic() + LONG
        sys.setswitchinterval(2 * LONG)
        try:
            while not client.stats()["lost"] and time.monotonic() < end:
                pass
        finally:
            sys.setswitchinterval(interval)


if __name__ == "__main__":
    unittest.main()
