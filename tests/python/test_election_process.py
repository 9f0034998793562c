"""Candidates whose process is stopped, interrupted or killed."""

import signal
import unittest

import quorlock
import quorlock.aio
from support import Case, Child
from test_frameworks import GEVENT

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
