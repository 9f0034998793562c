#!/usr/bin/env python3
"""Tests of run.py: ten runs agree; and what is planted into one function of a copy of the sources is found, by that function's name."""

import contextlib
import io
import pathlib
import shutil
import sys
import unittest
from unittest import mock

import run

sys.path.insert(0, str(run.ROOT / "tests" / "sim"))

import bugs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PLANTED = "quorlock::token::Token::with_jitter"
# The scene whose counts differ most from run to run: it has the largest maps, whose hashes are seeded anew in each process.
DIFFERS = "in-flight-64"
PROFILE = """\
version: 1
positions: line
events: Ir

ob=(1) /there/program
fl=(1) ???
fn=(1) a::b::h0123456789abcdef
0 10
+3 5
cfn=(2) c::{{closure}}.llvm.123
calls=2 0
* 100
-3 1

fn=(2)
0 90
calls=1 0
0 7
fn=(1)
0 4
ob=(2) /lib/libc.so.6
fn=(3) memcpy
0 6
fn=(4) free
0 1
totals: 117
"""


def planted_copy():
    """A copy of the sources with what planted.bug says. Cargo knows packages of one target folder apart by their features, and not by where
    they are: without one of its own the planted core would be taken for the right one."""
    changed = {}
    for path, around, instead, _ in bugs.places("planted", HERE):
        before, place, after = bugs.cut(around)
        text = (run.ROOT / path).read_text(encoding="utf-8")
        assert text.count(before + place + after) == 1, f"a place of planted.bug is not there once in {path}"
        changed[path] = text.replace(before + place + after, before + instead + after).encode("utf-8")
    tree = run.ROOT / "target" / "counts" / "tree"
    bugs.mirror(tree, changed)
    return tree


class Runs(unittest.TestCase):
    def test_ten_runs_agree(self):
        self.assertLess(run.spread(run.built(), DIFFERS, 10), 0.002)


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before = run.count(run.built(), "cycle-1-node")
        built = pathlib.Path(run.built(planted_copy()))
        cls.program = run.ROOT / "target" / "counts" / "planted"
        # Cargo puts both programs in one place.
        shutil.move(built, cls.program)
        cls.now = run.count(cls.program, "cycle-1-node")

    def test_three_percent_in_one_function_fail_by_its_name(self):
        self.assertAlmostEqual(self.now.instructions / self.before.instructions, 1.03, delta=0.005)
        self.assertRegex(run.wrong(self.before, self.now), rf"^\+3\.\d% instructions, most in {PLANTED} by \d+")

    def test_one_more_allocation_fails(self):
        self.assertIn("; +1.00 allocations", run.wrong(self.before, self.now))

    def test_the_next_build_is_without_it(self):
        self.assertEqual(run.wrong(self.before, run.count(run.built(), "cycle-1-node")), "")


class Tool(unittest.TestCase):
    def test_what_a_function_calls_is_not_its_own(self):
        self.assertEqual(run.profile(PROFILE, "program"), (117, {"a::b": 20, "c::{{closure}}": 90, "libc.so.6": 7}))

    def test_a_function_that_is_not_kept_may_have_grown_most(self):
        before = run.Count(1000, 1.0, {"a": 500, "b": 400})
        now = run.Count(1060, 1.0, {"a": 510, "b": 400, "new": 60})
        self.assertEqual(run.growth(before, now), [(50, "new"), (10, "a")])
        self.assertEqual(run.wrong(before, now), "+6.0% instructions, most in new by 50; a by 10")

    def compared(self, tools):
        """What the comparison ends with and says, where each scene takes 3 % more than is kept and these are the tools."""
        kept, said = run.json.loads(run.KEPT.read_text())["scenes"], io.StringIO()
        more = {scene: run.Count(round(was["instructions"] * 1.03), was["allocations"], was["functions"]) for scene, was in kept.items()}
        with mock.patch.object(run, "here", lambda: tools), mock.patch.object(run, "count", lambda _, scene: more[scene]), contextlib.redirect_stdout(said):
            return run.compare("program", run.SCENES), said.getvalue()

    def test_another_compiler_is_said_and_fails_nothing(self):
        kept = run.json.loads(run.KEPT.read_text())
        tools = {tool: kept[tool] for tool in run.here()}
        status, said = self.compared(tools)
        self.assertEqual((status, said.count("FAIL"), said.splitlines()[-1]), (1, 4, "0 passed, 4 failed"))
        status, said = self.compared(tools | {"rustc": "rustc 9.9.9"})
        self.assertEqual((status, said.count("FAIL"), said.splitlines()[-1]), (0, 0, "4 passed, 0 failed"))
        self.assertRegex(said, r"^kept: rustc \S+ .*; here: rustc 9\.9\.9, .* So nothing is compared")

    def test_all_scenes_are_kept(self):
        kept = run.json.loads(run.KEPT.read_text())
        self.assertEqual(list(kept["scenes"]), run.SCENES)
        for scene in kept["scenes"].values():
            self.assertTrue(scene["functions"] and all(cost >= scene["instructions"] * run.SHARE for cost in scene["functions"].values()))


if __name__ == "__main__":
    unittest.main()
