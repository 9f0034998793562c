"""What the READMEs tell a new user to type does what they say, as it stands."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402


def section(path, heading):
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)
    return found[1]


def blocks(text, language):
    return [re.sub(r"^  ", "", block, flags=re.MULTILINE) if indent else block
            for indent, block in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)]


class FirstLock(unittest.TestCase):
    """The section of that name, by one server and by none."""

    @classmethod
    def setUpClass(cls):
        text = section("README.md", "The first lock")
        [cls.python], [cls.node] = blocks(text, "python"), blocks(text, "js")
        cls.stage = cls.enterClassContext(Stage(1))

    def run_it(self, command, nodes):
        environment = dict(os.environ, QUORLOCK_NODES=nodes)
        done = subprocess.run(command, cwd=ROOT / "node", env=environment, capture_output=True, text=True, timeout=30)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^held for [0-9.]+ m?s more, and renewed; fence [1-9]\d*\n$")

    def test_python(self):
        for nodes in (self.stage.urls()[0], "memory://try"):
            self.run_it([sys.executable, "-c", self.python], nodes)

    def test_node(self):
        # Within the package its own name leads to it.
        for nodes in (self.stage.urls()[0], "memory://try"):
            self.run_it(["node", "--input-type=module", "-e", self.node], nodes)

    def test_nodes_given_where_the_text_says(self):
        python = self.python.replace('redlock("first")', 'redlock("first", nodes="memory://try")')
        node = self.node.replace('redlock("first", ', 'redlock("first", { nodes: "memory://try" }, ')
        self.assertNotIn("memory", self.python + self.node)
        self.run_it([sys.executable, "-c", python], "redis://127.0.0.1:1")
        self.run_it(["node", "--input-type=module", "-e", node], "redis://127.0.0.1:1")


class Signals(unittest.TestCase):
    def test_sigterm_releases_with_the_line_of_the_readme(self):
        [line] = [block for block in blocks((ROOT / "py/README.md").read_text(), "python") if "SIGTERM" in block]
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
