#!/usr/bin/env python3
"""Tests of the judge of names.py: each history but the first is wrong in one way, and is found so."""

import argparse
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import names  # noqa: E402
from judged import judged  # noqa: E402

GOOD = """\
want x a,b 1
take x b 1 10 900 1
take x a 1 10 901 1
want y b,c 2
give x b 20 900
give x a 20 901
take y b 2 30 900 2
take y c 2 30 900 1
give y b 40 900
give y c 40 900
"""


class Judge(unittest.TestCase):
    def wrong(self, *changes, more="", floor=1):
        """What is found wrong with the good history, after some changes."""
        text = GOOD
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        asked = argparse.Namespace(floor=floor)
        return judged(text + more, lambda path, verdict: names.judge(asked, path, verdict, ["x", "y"]))[0]

    def assert_wrong(self, words, *changes, **more):
        [said] = self.wrong(*changes, **more)
        self.assertTrue(re.search(words, said), said)

    def test_nothing_is_wrong(self):
        self.assertEqual(self.wrong(), [])

    def test_two_hold_one_name(self):
        self.assert_wrong("^1 double holds of 4", ("take y b 2 30 900 2\ntake y c 2 30", "take y b 2 15 900 2\ntake y c 2 15"))

    def test_a_fence_does_not_grow(self):
        self.assert_wrong("^1 holds with a fence", ("y b,c 2", "y b,c 11"), ("take y b 2 30 900 2", "take y b 11 30 900 1"),
                          ("take y c 2", "take y c 11"))

    def test_a_lease_is_missing(self):
        self.assert_wrong("^1 calls held a part", ("take y c 2 30 900 1\n", ""), ("give y c 40 900\n", ""))

    def test_one_comes_later_or_goes_earlier(self):
        self.assert_wrong("^1 calls held a part", ("take y c 2 30", "take y c 2 31"))
        self.assert_wrong("^1 calls held a part", ("give y c 40", "give y c 39"))
        # Lost, before the others were given back.
        self.assert_wrong("^1 calls held a part", ("take x a 1 10 901 1", "take x a 1 10 15 1"), ("give x a 20 901", "give x a 20 15"))

    def test_more_is_held_than_was_asked_for(self):
        self.assert_wrong("^1 calls held a part", ("want y b,c 2", "want y b 2"))
        self.assert_wrong("^1 calls held a part", ("want y b,c 2\n", ""))

    def test_one_that_failed_keeps_something(self):
        self.assert_wrong("^1 calls held a part", more="want x a,b 50\ntake x a 50 60 900 9\ngive x a 70 900\n")

    def test_a_hold_is_not_given_back(self):
        self.assertIn("1 holds were not given back", self.wrong(("give y c 40 900\n", "")))

    def test_a_wait_does_not_end(self):
        self.assert_wrong("^1 calls never returned", more="want x a,b 50\n")

    def test_a_wait_is_used_up(self):
        for kind in ("Timeout", "LockTimeoutError"):
            self.assert_wrong("^1 waits were used up", more=f"want x a,b 50\nfail x a,b 50 90 40 {kind}\n")
        self.assert_wrong("^1 calls failed otherwise {'Internal': 1}", more="want x a,b 50\nfail x a,b 50 90 40 Internal\n")

    def test_one_wins_too_rarely(self):
        self.assert_wrong("^each worker won at least 2 times: {'x': 1, 'y': 2}", floor=2,
                          more="want y a,b 50\ntake y a 50 60 900 9\ntake y b 50 60 900 9\ngive y a 70 900\ngive y b 70 900\n")


if __name__ == "__main__":
    unittest.main()
