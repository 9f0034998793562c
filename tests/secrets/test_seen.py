#!/usr/bin/env python3
"""The judges of the draws see a secret that is shown: with --broken each draw shows its marker."""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DRAWS = 20


class Seen(unittest.TestCase):
    def assert_seen(self, *command):
        done = subprocess.run([*command, "--draws", str(DRAWS), "--broken"], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=600)
        self.assertRegex(done.stdout, rf"(?m)^[0-3] passed, {DRAWS} failed$")
        self.assertEqual(done.returncode, 1)

    def test_rust(self):
        self.assert_seen(os.path.join(ROOT, "target", "release", "secrets"))

    def test_python(self):
        self.assert_seen(sys.executable, os.path.join(HERE, "drawn.py"))

    def test_node(self):
        self.assert_seen("node", os.path.join(HERE, "drawn.mjs"))

    def test_commands(self):
        self.assert_seen(sys.executable, os.path.join(HERE, "commands.py"))


if __name__ == "__main__":
    unittest.main()
