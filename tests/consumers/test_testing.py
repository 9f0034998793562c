"""The programs of docs/how-to/test-your-code.md, as a user has them: each language's tests pass, and they run without any server."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import ROOT, RUST_PACKAGE, TARGET, text

PAGE = text("docs/how-to/test-your-code.md")

ORDERS_PY = """
import quorlock

lock = quorlock.Client().lock("month", wait=0)


def close():
    with lock:
        pass
"""
TWO_PY = """
import orders
import pytest
import quorlock
from quorlock import testing


@pytest.mark.parametrize("time", [1, 2])
def test_is_kept_out(time):
    orders.close()
    with testing.held("month"), pytest.raises(quorlock.LockContendedError):
        orders.close()
"""
ORDERS_JS = """
import { Client } from "quorlock";

const lock = new Client().lock("month", { wait: 0 });
export const close = async () => (await lock.acquire()).release();
"""
HELD_JS = """
import assert from "node:assert/strict";
import { test } from "node:test";
import { LockContendedError } from "quorlock";
import { held } from "quorlock/testing";
import { close } from "./orders.mjs";

test("it is kept out", async () => {
  await close();
  await held("month", () => assert.rejects(close(), LockContendedError));
});
"""
JEST_CONFIG = """
module.exports = {
  testMatch: ["<rootDir>/*.test.cjs"], transform: {}, setupFiles: ["<rootDir>/setup.cjs"], maxWorkers: 2, testTimeout: 120_000,
  workerThreads: THREADS, cacheDirectory: "<rootDir>/cache",
};
"""
# Each waits for a file of the other's.
JEST = """
const { existsSync, writeFileSync } = require("node:fs");
const { setTimeout } = require("node:timers/promises");
const { redlock } = require("quorlock");
const { lose } = require("quorlock/testing");

const at = (name) => `${process.env.JEST_FOLDER}/is-${name}`;
const tell = (name) => writeFileSync(at(name), "");
const hear = async (name) => {
  while (!existsSync(at(name))) await setTimeout(20);
};
"""
HOLDS_JEST = JEST + """
test("it holds", async () => {
  let held;
  await redlock("month", async (lease) => {
    tell("held");
    await hear("lost");
    held = lease.isHeld();
  }).catch(() => {});
  expect(String(held)).toBe(process.env.THREADS === "true" ? "false" : "true");
});
"""
LOSES_JEST = JEST + """
test("it loses", async () => {
  await hear("held");
  expect(lose("month")).toBe(process.env.THREADS === "true" ? 1 : 0);
  tell("lost");
});
"""


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

    def test_python_clients_of_modules(self):
        (self.folder / "orders.py").write_text(ORDERS_PY)
        (self.folder / "test_two.py").write_text(TWO_PY)
        (self.folder / "conftest.py").write_text(program("one_set.py"))
        said = self.run_it(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")
        self.assertIn("2 passed", said)

    def modules(self):
        modules = self.folder / "node_modules"
        modules.mkdir()
        (modules / "quorlock").symlink_to(ROOT / "node")

    def test_node_clients_of_modules(self):
        self.put("setup.cjs")
        self.modules()
        (self.folder / "orders.mjs").write_text(ORDERS_JS)
        (self.folder / "held.test.mjs").write_text(HELD_JS)
        said = self.run_it("node", "--import", "./setup.cjs", "--test", "--test-reporter=spec", "held.test.mjs")
        self.assertRegex(said, r"pass 1\n")

    def test_jest_in_threads_and_processes(self):
        """Files that run side by side: what one loses is the other's in a thread, and not in a process."""
        self.put("setup.cjs")
        self.modules()
        (self.folder / "holds.test.cjs").write_text(HOLDS_JEST)
        (self.folder / "loses.test.cjs").write_text(LOSES_JEST)
        jest = ROOT / "tests" / "node" / "node_modules" / "jest" / "bin" / "jest.js"
        for threads in "false", "true":
            with self.subTest(threads=threads):
                (self.folder / "jest.config.cjs").write_text(JEST_CONFIG.replace("THREADS", threads))
                for file in self.folder.glob("is-*"):
                    file.unlink()
                # Files that were quick the last time run one after the other, whatever is said of workers.
                shutil.rmtree(self.folder / "cache", ignore_errors=True)
                self.run_it("node", str(jest), "--no-watchman", THREADS=threads, JEST_FOLDER=str(self.folder))

    def test_node(self):
        self.put("orders.test.mjs")
        self.modules()
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
