"""What the READMEs tell a new user to type does what they say, as it stands."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

import programs
from programs import ROOT, blocks, section, text

from stage import Stage  # noqa: E402


class FirstLock(unittest.TestCase):
    """The section of that name, by one server and by none."""

    @classmethod
    def setUpClass(cls):
        words = section("README.md", "The first lock")
        [cls.python], [cls.node], [cls.rust], [cls.c] = (blocks(words, name) for name in ("python", "js", "rust", "c"))
        cls.stage = cls.enterClassContext(Stage(1))
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def run_it(self, command, nodes):
        environment = dict(os.environ, QUORLOCK_NODES=nodes)
        done = subprocess.run(command, cwd=ROOT / "node", env=environment, capture_output=True, text=True, timeout=30)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^held for [0-9.]+ ?m?s more, and renewed; fence [1-9]\d*\n$")

    def with_a_server_and_without(self, command):
        for nodes in (self.stage.urls()[0], "memory://try"):
            self.run_it(command, nodes)

    def test_python(self):
        self.with_a_server_and_without(programs.python(self.python))

    def test_node(self):
        self.with_a_server_and_without(programs.node(self.node))

    def test_rust(self):
        self.with_a_server_and_without(programs.rust(self.folder, readme=self.rust)["readme"])

    def test_c(self):
        self.with_a_server_and_without(programs.c(self.folder, self.c))

    def test_nodes_given_where_the_text_says(self):
        python = self.python.replace('redlock("first")', 'redlock("first", nodes="memory://try")')
        node = self.node.replace('redlock("first", ', 'redlock("first", { nodes: "memory://try" }, ')
        rust = self.rust.replace("Client::builder().build()", 'Client::new(["memory://try"])')
        self.assertNotIn("memory", self.python + self.node + self.rust)
        commands = programs.python(python), programs.node(node), programs.rust(self.folder, given=rust)["given"]
        for command in commands:
            self.run_it(command, "redis://127.0.0.1:1")


class Signals(unittest.TestCase):
    def test_sigterm_releases_with_the_line_of_the_readme(self):
        [line] = [block for block in blocks(text("py/README.md"), "python") if "SIGTERM" in block]
        program = f"import signal, sys, quorlock\n{line}\n" + """
with quorlock.redlock("ends", ttl=60):
    print("held", flush=True)
    signal.pause()
"""
        with Stage(1) as stage:
            environment = dict(os.environ, QUORLOCK_NODES=stage.urls()[0])
            child = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(child.stdout.close)
            self.addCleanup(child.kill)
            self.assertEqual(child.stdout.readline(), "held\n")
            child.send_signal(signal.SIGTERM)
            self.assertEqual(child.wait(30), 143)
            self.assertEqual(stage.await_holders(b"lock:{ends}", 0, 5), [])


if __name__ == "__main__":
    unittest.main()
