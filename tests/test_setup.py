#!/usr/bin/env python3
"""Tests of tests/setup.sh: what is missing is installed, or named before anything is built.

Each runs it with a PATH that has everything that this machine has but what is said to be missing, and with stand-ins.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "bin")
        self.path.mkdir()
        self.told = pathlib.Path(folder.name, "told")
        self.told.touch()
        for place in os.environ["PATH"].split(os.pathsep):
            for program in pathlib.Path(place).glob("*"):
                link = self.path / program.name
                if not link.is_symlink() and os.access(program, os.X_OK) and program.is_file():
                    link.symlink_to(program)
        # Whoever runs these, nothing is installed.
        self.stand_in("apt-get", 'echo "apt-get $*" >> "$TOLD"')
        self.stand_in("id", "echo 1000")

    def without(self, *names):
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def stand_in(self, name, body):
        self.without(name)
        (self.path / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.path / name).chmod(0o755)

    def run_it(self, *command):
        environment = dict(os.environ, PATH=str(self.path), TOLD=str(self.told), POLICY_RC_D=str(self.path / "policy-rc.d"))
        # Those of a make that runs these.
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            environment.pop(name, None)
        return subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def test_a_machine_that_has_everything_is_left_alone(self):
        for what in ("demo", "test"):
            done = self.run_it("tests/setup.sh", what)
            self.assertEqual((done.returncode, done.stdout, done.stderr, self.told.read_text()), (0, "", "", ""))

    def test_root_on_debian_gets_what_is_missing_and_nothing_else(self):
        self.stand_in("id", "echo 0")
        self.without("redis-server", "valgrind")
        done = self.run_it("tests/setup.sh", "test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("setup: installing redis-server valgrind\n", done.stdout)
        self.assertEqual(self.told.read_text().splitlines(),
                         ["apt-get update -q", "apt-get install -q -y --no-install-recommends redis-server valgrind"])

    def test_what_is_installed_is_not_started(self):
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", '[ "$1" != install ] || { "$POLICY_RC_D"; echo "$? for $5" >> "$TOLD"; }')
        self.without("promtool", "policy-rc.d")
        self.assertEqual(self.run_it("tests/setup.sh", "test").returncode, 0)
        self.assertEqual(self.told.read_text(), "101 for prometheus\n")
        self.assertFalse((self.path / "policy-rc.d").exists())
        # The machine's own stays.
        self.stand_in("policy-rc.d", "exit 7")
        self.run_it("tests/setup.sh", "test")
        self.assertIn("7 for prometheus\n", self.told.read_text())
        self.assertTrue((self.path / "policy-rc.d").exists())

    def test_the_demo_needs_less(self):
        self.without("valgrind", "clang", "cmake", "pkg-config")
        self.assertEqual(self.run_it("tests/setup.sh", "demo").returncode, 0)

    def test_who_is_not_root_is_told_all_of_it(self):
        self.without("redis-server", "clang")
        done = self.run_it("tests/setup.sh", "test")
        self.assertEqual((done.returncode, done.stdout, self.told.read_text()), (2, "", ""))
        self.assertIn("apt-get install redis-server clang\n", done.stderr)
        self.assertIn("the sanitizers of clang", done.stderr)

    def test_a_header_that_is_missing_is_named_by_its_package(self):
        for compiler in ("cc", "c++"):
            self.stand_in(compiler, "exit 1")
        done = self.run_it("tests/setup.sh", "test")
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install libuv1-dev libasio-dev\n", done.stderr)
        self.assertEqual(self.run_it("tests/setup.sh", "demo").returncode, 0)

    def test_where_it_is_no_debian_too(self):
        self.stand_in("id", "echo 0")
        self.without("apt-get", "redis-server")
        done = self.run_it("tests/setup.sh", "demo")
        self.assertEqual(done.returncode, 2)
        self.assertIn("what Debian has as: apt-get install redis-server\n", done.stderr)

    def test_what_is_too_old_is_named_and_nothing_is_installed(self):
        self.stand_in("id", "echo 0")
        self.without("redis-server")
        self.stand_in("node", "echo v18.20.4")
        self.stand_in("cargo", "echo cargo 1.85.1")
        done = self.run_it("tests/setup.sh", "demo")
        self.assertEqual((done.returncode, self.told.read_text()), (2, ""))
        self.assertIn("cargo 1.88 or later (here is 1.85.1): https://rustup.rs\n", done.stderr)
        self.assertIn("node 20.4 or later (here is 18.20.4): https://nodejs.org\n", done.stderr)
        self.assertNotIn("python3 3", done.stderr)
        self.assertIn("redis-server", done.stderr)

    def test_the_long_runs_need_go(self):
        self.stand_in("go", "echo go version go1.24.4 linux/amd64")
        done = self.run_it("tests/setup.sh", "full")
        self.assertEqual(done.returncode, 2)
        self.assertIn("go 1.26 or later (here is 1.24.4): https://go.dev\n", done.stderr)
        self.assertNotIn("go 1.26", self.run_it("tests/setup.sh", "test").stderr)

    def test_the_gate_needs_any_go(self):
        self.without("go")
        self.assertEqual(self.run_it("tests/setup.sh", "test").returncode, 0)
        done = self.run_it("tests/setup.sh", "gate")
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install golang-go\n", done.stderr)
        self.stand_in("go", "echo go version go1.19.8 linux/amd64")
        self.assertEqual(self.run_it("tests/setup.sh", "gate").returncode, 0)

    def test_make_names_it_before_anything_is_built(self):
        self.without("redis-server")
        for program in ("cargo", "npm"):
            real = os.readlink(self.path / program)
            self.stand_in(program, f'case $1 in -*|fmt|clippy) ;; *) echo "{program} $*" >> "$TOLD" ;; esac\nexec {real} "$@"')
        for target in ("demo", "test"):
            done = self.run_it("make", target)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("redis-server", done.stderr)
            self.assertEqual(self.told.read_text(), "")


if __name__ == "__main__":
    unittest.main()
