"""The programs of docs/TESTING.md, as a user has them: each language's tests pass, and they run without any server."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import ROOT, RUST_PACKAGE, TARGET, text

PAGE = text("docs/TESTING.md")


def program(file):
    [body] = re.findall(rf"<!-- block: file={re.escape(file)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return body


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=TARGET)))

    def put(self, *files):
        for file in files:
            (self.folder / file).write_text(program(file))

    def run_it(self, *command, **environment):
        told = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
        done = subprocess.run(command, cwd=self.folder, env={**told, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_python(self):
        self.put("conftest.py", "test_orders.py")
        said = self.run_it(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")
        self.assertIn("3 passed", said)

    def test_node(self):
        self.put("orders.test.mjs")
        modules = self.folder / "node_modules"
        modules.mkdir()
        (modules / "quorlock").symlink_to(ROOT / "node")
        said = self.run_it("node", "--test", "--test-reporter=spec", "orders.test.mjs")
        self.assertRegex(said, r"pass 3\n")

    def test_rust(self):
        (self.folder / "src").mkdir()
        (self.folder / "src" / "main.rs").write_text(program("orders.rs"))
        (self.folder / "Cargo.toml").write_text(RUST_PACKAGE.format(core=ROOT / "core"))
        shutil.copy(ROOT / "Cargo.lock", self.folder)
        self.run_it("cargo", "run", "--quiet", "--offline", CARGO_TARGET_DIR=str(TARGET))


if __name__ == "__main__":
    unittest.main()
