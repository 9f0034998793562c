"""The first minute of a new user, who types the first lock of README.md, or of the page that it leads to for another language: with
three servers that have run for a while, with three new ones, and with none.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import programs
from programs import ROOT

from stage import Stage  # noqa: E402

# The default of `max_ttl`, and more than that.
MAX_TTL, AGE = 60, 70
# Far less than a quarantine and than the default wait, and more than a machine stands still.
AT_ONCE = 5
PORT = 6379
# For a machine where somebody listens at the default port: a network of its own, with nothing but a loopback.
ALONE = """import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
os.execvp(sys.argv[1], sys.argv[1:])"""
LANGUAGES = {"python": "Python", "js": "Node", "rust": "Rust", "c": "C"}


class Ended:
    """How a program ended, and after how many seconds."""

    def __init__(self, command, nodes):
        environment = {name: value for name, value in os.environ.items() if name != "QUORLOCK_NODES"}
        if nodes:
            environment["QUORLOCK_NODES"] = ",".join(nodes)
        self._begun = time.monotonic()
        self._child = subprocess.Popen(command, cwd=ROOT / "node", env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait(self):
        try:
            self.out, self.err = self._child.communicate(timeout=60)
        finally:
            self._child.kill()
        self.seconds, self.status = time.monotonic() - self._begun, self._child.returncode
        return self


class FirstLock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.old = {name: cls.enterClassContext(Stage(3, declare=False, clocks=True)) for name in LANGUAGES}
        cls.new = cls.enterClassContext(Stage(3, declare=False))
        for stage in cls.old.values():
            for number in range(1, 4):
                # A server tells its age by the clock of its machine. Nobody has seen the clock before.
                stage.clock(number).step(AGE)
        folder, first = cls.enterClassContext(tempfile.TemporaryDirectory()), programs.first_locks()
        cls.commands = {"python": programs.python(first["python"]), "js": programs.node(first["js"]),
                        "rust": programs.rust(folder, first=first["rust"])["first"], "c": programs.c(folder, first["c"])}

    def test_three_servers_that_have_run_for_longer_than_max_ttl(self):
        for language, command in self.commands.items():
            with self.subTest(LANGUAGES[language]):
                stage = self.old[language]
                age = re.search(rb"uptime_in_seconds:(\d+)", stage.redis(1, "INFO", "server"))
                self.assertGreater(int(age[1]), MAX_TTL)
                ended = Ended(command, stage.urls()).wait()
                self.assertEqual((ended.status, ended.err), (0, ""))
                self.assertRegex(ended.out, programs.HELD[language])
                self.assertLess(ended.seconds, AT_ONCE)

    def test_three_new_servers(self):
        # A server is old once this machine has compiled something for a minute.
        self.new.restart(1, 2, 3)
        begun = {language: Ended(command, self.new.urls()) for language, command in self.commands.items()}
        for language, ended in begun.items():
            with self.subTest(LANGUAGES[language]):
                ended.wait()
                self.assertEqual((ended.status, ended.out.removeprefix("waiting\n")), (1, ""))
                [left] = re.findall(r"a quorum may vote in (\d+)(?:\.\d+)?s: wait for that", ended.err)
                self.assertTrue(MAX_TTL / 2 < int(left) < MAX_TTL, left)
                self.assertIn("have a deployment declare the set first (`quorlock explain sets`)", ended.err)

    def test_no_server(self):
        for language, command in self.commands.items():
            with self.subTest(LANGUAGES[language]), NobodyListens() as alone:
                # The best of three: a machine may stand still, and with it the start of an interpreter.
                tries = [Ended([*alone, *command], None).wait() for _ in range(3)]
                for ended in tries:
                    self.assertEqual((ended.status, ended.out.removeprefix("waiting\n")), (1, ""), ended.err)
                    for word in ("no node was named", "`redis-server`", "docker run", "QUORLOCK_NODES"):
                        self.assertIn(word, ended.err)
                self.assertLess(min(ended.seconds for ended in tries), 1)


class NobodyListens:
    """While it is open nobody listens at the default port. Yields what a command is to begin with for that."""

    def __enter__(self):
        self._port = socket.socket()
        # Bound, and without a queue for connections: it keeps others off, and refuses.
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._port.bind(("127.0.0.1", PORT))
        except OSError:
            return ["unshare", "--map-root-user", "--net", sys.executable, "-c", ALONE]
        return []

    def __exit__(self, *_):
        self._port.close()


if __name__ == "__main__":
    unittest.main()
