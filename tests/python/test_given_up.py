"""What is given away is delivered, or taken back: each call that gives something, in each moment in which its caller may go."""

import asyncio
import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
import unittest
import warnings

import quorlock
import quorlock.aio
import quorlock.testing

from support import LONG, Case, Child, eventually

# The longest there is: nothing that is left behind ends while a test looks.
TTL = 60
# Within so many seconds what nobody was given is free.
SOON = 10.0


class Loop(asyncio.SelectorEventLoop):
    """Cancels the task that is doomed, in the turn in which a result has come for it: before the task hears of that."""

    doomed = None

    def create_future(self):
        future = super().create_future()
        if self.doomed is not None:
            future.add_done_callback(lambda _: self.doomed.cancel())
        return future


class GivenUp(Case):
    def setUp(self):
        super().setUp()
        # Nodes that are stopped in a test are waited for.
        options = {"ttl": TTL, "wait": LONG, "node_timeout": 5}
        self.ours, self.others = (quorlock.aio.Client(self.nodes, **options) for _ in range(2))
        self.blocking, self.next = (quorlock.Client(self.nodes, **options) for _ in range(2))
        for client in (self.blocking, self.next):
            self.addCleanup(client.close)

    def unkept(self):
        """What a caller had and has released stays taken where it is kept: for what follows it is not to."""
        for name in ("a", "b"):
            self.next.force_release(name)

    def assert_free(self, *names):
        """Somebody else has it soon, and each slot."""
        self.stage.cont(1, 2)
        with contextlib.ExitStack() as leases:
            for name in names:
                leases.enter_context(self.next.lock(name, wait=SOON).acquire())
            for _ in range(2):
                leases.enter_context(self.next.semaphore("slots", 2, wait=SOON).acquire())
        self.assert_nothing_left()


class Asyncio(GivenUp):
    """Each of these gives the coroutine of a call, and what there is to look at where it is given up."""

    async def acquire(self):
        return self.ours.lock("a", keep=50).acquire(), None

    async def attempt(self):
        return self.ours.lock("a", keep=50).try_acquire(), None

    async def passed_on(self):
        """A lease of the same client, which is released when the call waits in line."""
        lease = await self.ours.lock("a", fencing=False).acquire()

        async def releases():
            while self.ours.stats()["waiting"] == 0:
                await asyncio.sleep(0)
            await lease.release()

        release = asyncio.ensure_future(releases())

        async def held():
            # Of a call that had not begun to wait nothing was passed on.
            release.cancel()
            await asyncio.wait([release])
            await lease.release()

        return self.ours.lock("a", fencing=False).acquire(), held

    async def several(self):
        return self.ours.lock_all(["a", "b"], keep=50).acquire(), None

    async def attempt_several(self):
        return self.ours.lock_all(["a", "b"], keep=50).try_acquire(), None

    async def slot(self):
        return self.ours.semaphore("slots", 2).acquire(), None

    async def scope(self):
        async def within():
            async with self.ours.lock("a"):
                await asyncio.sleep(0)

        return within(), None

    async def export(self):
        lease = await self.ours.lock("a").acquire()

        async def held():
            self.assertTrue(lease.is_held())
            self.assertIsNone(lease.lost.reason)
            self.assertTrue(await lease.release())

        return lease.export(), held

    async def adopt(self):
        lease = await self.ours.lock("a").acquire()
        # A vote that is under way would be taken back from where it comes to.
        self.stage.await_holders("lock:{a}", 3, LONG)
        text = await lease.export()

        async def adopted():
            # One that had not begun has changed nothing.
            with contextlib.suppress(quorlock.LockLostError):
                await (await self.others.adopt(text)).release()

        return self.others.adopt(text), adopted

    CALLS = acquire, attempt, passed_on, several, attempt_several, slot, scope, export, adopt

    async def had(self, given):
        """The caller has what it was given."""
        if isinstance(given, str):
            given = await self.others.adopt(given)
        if given is not None:
            self.assertTrue(given.is_held())
            await given.release()
            self.unkept()

    async def cut(self, call, cutting):
        """`cutting(task)` has its caller go. Returns whether that was in time."""
        call, undone = await call(self)
        task = asyncio.ensure_future(call)
        await cutting(task)
        await asyncio.wait([task])
        asyncio.get_running_loop().doomed = None
        self.stage.cont(1, 2)
        if not task.cancelled():
            await self.had(task.result())
        elif undone is not None:
            await undone()
        # The exception knows the frames, and these what was won: it must not wait for their collection.
        self.assert_free("a", "b")
        return task.cancelled()

    def each(self, cutting, loop=None):
        """How many were cut in time of all calls."""

        async def main():
            in_time = 0
            for call in self.CALLS:
                with self.subTest(call.__name__):
                    in_time += await self.cut(call, cutting)
            await self.ours.close()
            await self.others.close()
            return in_time

        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(main())

    def test_before_it_begins(self):
        async def cutting(task):
            task.cancel()

        self.assertEqual(self.each(cutting), len(self.CALLS))

    def test_when_it_has_begun(self):
        async def cutting(task):
            await asyncio.sleep(0)
            task.cancel()

        self.each(cutting)

    def test_while_nodes_do_not_answer(self):
        async def cutting(task):
            self.stage.stop(1, 2)
            await asyncio.wait([task], timeout=0.02)
            task.cancel()

        self.each(cutting)

    def test_in_the_turn_in_which_its_result_has_come(self):
        async def cutting(task):
            asyncio.get_running_loop().doomed = task

        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            self.assertEqual(self.each(cutting, Loop), len(self.CALLS))

    def test_when_its_loop_is_closed(self):
        for moment in ("begun", "hung", "answered"):
            for call in self.CALLS:
                # What is passed on takes a task of its own, which would go with the loop. Who is inside of a scope has its lease.
                if call not in (Asyncio.passed_on, Asyncio.scope):
                    with self.subTest(call.__name__, moment=moment):
                        self.closed(call, moment)

    def closed(self, call, moment):
        loop = asyncio.new_event_loop()
        coroutine, undone = loop.run_until_complete(call(self))
        if moment == "hung":
            self.stage.stop(1, 2)
        task = loop.create_task(coroutine)
        task._log_destroy_pending = False
        for _ in range(1 if moment == "begun" else 5):
            loop.run_until_complete(asyncio.sleep(0))
        if moment == "answered":
            # The loop is not looking meanwhile.
            self.next.lock("another").acquire().release()
        loop.close()
        self.stage.cont(1, 2)
        if task.done():
            asyncio.run(self.had(task.result()))
            self.assert_free("a", "b")
            return
        coroutine.close()
        if undone is not None:
            asyncio.run(undone())
        self.assert_free("a", "b")


class Stop(BaseException):
    """What comes in the place of a result."""


class Blocking(GivenUp):
    """The same for calls that block, in the main thread by a signal, and elsewhere by what is set for the thread."""

    def acquire(self):
        return self.blocking.lock("a", keep=50).acquire

    def several(self):
        return self.blocking.lock_all(["a", "b"], keep=50).acquire

    def slot(self):
        return self.blocking.semaphore("slots", 2).acquire

    def export(self):
        self.lease = self.blocking.lock("a").acquire()
        return self.lease.export

    def adopt(self):
        lease = self.next.lock("a").acquire()
        self.stage.await_holders("lock:{a}", 3, LONG)
        self.text = lease.export()
        return lambda: self.blocking.adopt(self.text)

    CALLS = acquire, several, slot, export, adopt

    def over(self, given=None):
        """The caller has what it was given, or nothing was."""
        self.stage.cont(1, 2)
        if isinstance(given, str):
            given = self.next.adopt(given)
        elif given is None and self.lease is not None:
            self.assertTrue(self.lease.is_held())
            given = self.lease
        elif given is None and self.text is not None:
            with contextlib.suppress(quorlock.LockLostError):
                given = self.next.adopt(self.text)
        if given is not None:
            self.assertTrue(given.is_held())
            self.assertTrue(given.release())
            self.unkept()
        self.assert_free("a", "b")

    def setUp(self):
        super().setUp()
        self.lease = self.text = None

        def raises(*_):
            raise Stop

        self.addCleanup(signal.signal, signal.SIGUSR2, signal.signal(signal.SIGUSR2, raises))

    def begun(self, nodes):
        """Waits until a node that is not stopped has been asked."""
        self.assertTrue(eventually(lambda: self.stage.calls("time") + self.stage.calls("set") > nodes))

    def test_by_a_signal_while_nodes_do_not_answer(self):
        for call in self.CALLS:
            with self.subTest(call.__name__):
                self.lease = self.text = None
                call = call(self)
                self.stage.stop(1, 2)
                timer = threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGUSR2])
                with self.assertRaises(Stop):
                    timer.start()
                    call()
                self.over()

    def test_by_a_signal_that_comes_before_the_result(self):
        """It is raised behind the wait. What has come is dropped as what nobody had: it is not kept, and nobody is warned."""
        holder = self.next.lock("a").acquire()
        for call in (lambda lock: lock.acquire(), lambda lock: lock.acquire(wait=None)):
            main = threading.main_thread().ident

            def comes(main=main, holder=holder):
                self.assertTrue(eventually(lambda: self.blocking.stats()["waiting"] + self.blocking.stats()["queued"] > 0))
                signal.pthread_kill(main, signal.SIGUSR2)
                holder.release()

            thread = threading.Thread(target=comes)
            with warnings.catch_warnings():
                warnings.simplefilter("error", ResourceWarning)
                with self.assertRaises(Stop) as raised:
                    thread.start()
                    call(self.blocking.lock("a", keep=50))
            thread.join()
            self.assertIsNotNone(raised.exception)
            holder = self.next.lock("a").acquire(wait=SOON)
        holder.release()
        self.assert_free("a")

    def test_by_what_is_set_for_its_thread(self):
        set_for = ctypes.pythonapi.PyThreadState_SetAsyncExc
        for call in self.CALLS:
            with self.subTest(call.__name__):
                self.lease = self.text = None
                call, ended = call(self), []

                def calls(call=call, ended=ended):
                    try:
                        ended.append(call())
                    except Stop:
                        ended.append(None)

                self.stage.stop(1, 2)
                thread = threading.Thread(target=calls)
                thread.start()
                # It may strike before the call, and then nothing was begun.
                set_for(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
                thread.join(LONG)
                self.assertEqual(len(ended), 1)
                self.over(ended[0])

    def test_an_export_at_each_line(self):
        """In the place of each line of the package that an export comes to."""
        for line in range(1000):
            self.lease = lease = self.blocking.lock("a").acquire()
            told, text = [], None
            lease.on_lost(told.append)
            left = [line]

            def trace(frame, event, _, left=left):
                if "quorlock" not in frame.f_code.co_filename:
                    return None
                if event == "line":
                    if left[0] == 0:
                        raise Stop
                    left[0] -= 1
                return trace

            try:
                sys.settrace(trace)
                text = lease.export()
            except Stop:
                pass
            finally:
                sys.settrace(None)
            if text is not None:
                self.assertFalse(lease.is_held())
                self.next.adopt(text).release()
                break
            self.assertTrue(lease.is_held(), f"line {line}")
            # It is kept, and tells of its loss, as before.
            self.assertEqual(quorlock.testing.lose("a"), 1)
            self.assertTrue(eventually(lambda told=told: told == ["expired"]), f"line {line}")
            self.assertFalse(self.blocking.lock("a").acquire(wait=SOON).release() is None)
        self.assertGreater(line, 3)
        self.assert_free("a")


class Ended(GivenUp):
    """The interpreter ends while a thread of it waits for what it is given."""

    SCRIPT = """
import sys, threading, quorlock
client = quorlock.Client(ttl=60, wait=20, node_timeout=5)
call, text = sys.argv[1], sys.argv[2]
lease = client.lock("a").acquire() if call == "export" else None
calls = {"acquire": lambda: client.lock("a").acquire(), "several": lambda: client.lock_all(["a", "b"]).acquire(),
         "slot": lambda: client.semaphore("slots", 2).acquire(), "export": lambda: lease.export(),
         "adopt": lambda: client.adopt(text)}
client.lock("warm").acquire().release()
print("ready")
sys.stdin.readline()
threading.Thread(target=calls[call], daemon=True).start()
sys.stdin.readline()
"""

    def test_while_nodes_do_not_answer(self):
        for call in ("acquire", "several", "slot", "export", "adopt"):
            with self.subTest(call):
                text = ""
                if call == "adopt":
                    lease = self.blocking.lock("a").acquire()
                    self.stage.await_holders("lock:{a}", 3, LONG)
                    text = lease.export()
                with Child(self.SCRIPT, self.nodes, call, text) as child:
                    self.assertEqual(child.line(), "ready")
                    self.stage.stop(1, 2)
                    child.process.stdin.write("\n\n")
                    child.process.stdin.flush()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.process.wait(0.2)
                    self.stage.cont(1, 2)
                    status, _ = child.end()
                    self.assertEqual(status, 0)
                if call == "adopt":
                    # It may have ended before it began.
                    with contextlib.suppress(quorlock.LockLostError):
                        self.blocking.adopt(text).release()
                self.assert_free("a", "b")


if __name__ == "__main__":
    unittest.main()
