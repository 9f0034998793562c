#!/usr/bin/env python3
"""Tests of the comparing: a runner that passes what is wrong would make the suites worthless. Needs no server."""

import pathlib
import tempfile
import unittest

import run

LISTED = """
# a table
design     | suite::test_of_a_key*  | There is no such key.
missing 16 | *::test_locked         | There is no locked() yet.
"""
AS_LISTED = {"suite::test_lock": (True, ""), "suite::test_of_a_key[1]": (False, "x"), "suite::test_of_a_key[2]": (False, "x"),
             "suite::test_locked": (False, "x")}


class Judge(unittest.TestCase):
    def judged(self, ended, table=LISTED, **peer):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "expected").mkdir()
            (path / "expected" / "peer.txt").write_text(table)
            before, run.HERE = run.HERE, path
            try:
                return run.judge(run.Peer("peer", None, peer.pop("floor", 1), **peer), ended)
            finally:
                run.HERE = before

    def assert_wrong(self, words, ended, **more):
        _, wrong = self.judged(ended, **more)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(words, wrong[0])

    def test_what_ends_as_listed_is_good(self):
        self.assertEqual(self.judged(AS_LISTED), (3, []))

    def test_a_failure_that_is_not_listed_fails(self):
        self.assert_wrong("suite::test_lock fails, which is not listed: E second",
                          {**AS_LISTED, "suite::test_lock": (False, "first\nE second")})

    def test_a_listed_test_that_passes_fails(self):
        self.assert_wrong("test_of_a_key[2] passes, and", {**AS_LISTED, "suite::test_of_a_key[2]": (True, "")})

    def test_a_line_without_a_test_fails(self):
        ended = {test: told for test, told in AS_LISTED.items() if "locked" not in test}
        self.assert_wrong("names *::test_locked, and there is no such test", ended)
        self.assertEqual(self.judged(ended, varies=True), (2, []))

    def test_a_suite_that_runs_too_little_fails(self):
        self.assert_wrong("only 4 tests ran, at least 5 must", AS_LISTED, floor=5)

    def test_a_line_has_a_kind_and_a_reason(self):
        for line in ("design | *::test_lock", "design | *::test_lock | ", "sometimes | *::test_lock | It varies.",
                     "missing | *::test_lock | Not yet."):
            with self.subTest(line), self.assertRaisesRegex(ValueError, "missing ISSUE"):
                self.judged(AS_LISTED, table=line)

    def test_the_brackets_of_a_test_are_no_pattern(self):
        self.assert_wrong("test_of_a_key[2] fails, which is not listed",
                          {"t::test_of_a_key[1]": (False, "x"), "t::test_of_a_key[2]": (False, "x")},
                          table="design | *::test_of_a_key[1] | There is no such key.")

    def test_each_peer_has_its_table(self):
        for peer in run.PEERS:
            with self.subTest(peer.name):
                run.expected(peer)
        self.assertEqual({path.stem for path in (run.HERE / "expected").iterdir()}, {peer.name for peer in run.PEERS})


if __name__ == "__main__":
    unittest.main()
