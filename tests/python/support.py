"""What the tests share: real servers, child processes, waiting for what must come."""

import atexit
import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)

from stage import Stage  # noqa: E402

# Longer than anything here takes on a busy machine, shorter than anybody's patience.
LONG = 20.0

# Where the interpreter itself is stuck no other bound helps.
faulthandler.dump_traceback_later(600, exit=True)

_stages = []


def servers():
    """Three servers that are a declared set, started once for the whole run, as on their first day."""
    if not _stages:
        _stages.append(Stage(3))
        atexit.register(_stages[0].close)
    else:
        _stages[0].heal()
        _stages[0].declare()
    return _stages[0]


def eventually(condition, seconds=LONG):
    """Waits until the condition holds; returns its last value."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value


def keys(stage):
    """All keys on the running nodes."""
    return sorted({key for number in stage.running() for key in stage.locks(number)})


def hold_elsewhere(stage, name, seconds, numbers=(1, 2, 3)):
    """A vote of somebody who is not Quorlock, on some nodes."""
    for number in numbers:
        stage.redis(number, "SET", f"lock:{{{name}}}", "other", "PX", str(int(seconds * 1000)))


class Child:
    """A Python process that runs a script and talks by lines."""

    def __init__(self, script, nodes, *arguments):
        environment = {**os.environ, "QUORLOCK_NODES": ",".join(nodes), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", script, *arguments], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def line(self):
        """The next line it prints; one that ends before has none. One that takes too long fails the test, and tells where
        its threads are."""
        late = threading.Event()

        def abort():
            late.set()
            self.process.send_signal(signal.SIGABRT)

        timer = threading.Timer(3 * LONG, abort)
        timer.start()
        try:
            line = self.process.stdout.readline().strip()
        finally:
            timer.cancel()
        if late.is_set():
            raise AssertionError(f"the child has printed nothing for {3 * LONG:.0f} s:\n{line}\n{self.process.stdout.read()}")
        return line

    def end(self):
        """Lets it end; returns its status and what it still had to say."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            said, _ = self.process.communicate(timeout=LONG)
            return self.process.returncode, said
        self.process.kill()
        return "no end", self.process.communicate()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Case(unittest.TestCase):
    """A test with real servers."""

    def setUp(self):
        self.stage = servers()
        self.nodes = self.stage.urls()

    # Well below the ttl: nothing expires.
    def assert_nothing_left(self, seconds=5.0):
        self.assertTrue(eventually(lambda: not keys(self.stage), seconds), f"left behind: {keys(self.stage)}")

    def assert_ends_well(self, child):
        status, said = child.end()
        self.assertEqual((status, said), (0, ""))


def memory(name):
    """Three nodes of a test's own in this process."""
    return [f"memory://{name}{number}" for number in range(3)]
