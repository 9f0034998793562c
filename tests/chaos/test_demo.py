#!/usr/bin/env python3
"""The checks of the demo see what they are there for."""

import argparse
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import demo  # noqa: E402
from judged import judged  # noqa: E402

NOTES = "note lost-updates 0\nnote stale 0\nnote writes 3\n"
GOOD = """
take rust-1 ledger 0 1 90 10
give rust-1 ledger 2 90
take cpp-1 ledger 0 3 90 11
give cpp-1 ledger 4 90
take rust-1 ledger 2 5 90 12
give rust-1 ledger 6 90
"""


class Demo(unittest.TestCase):
    def wrong(self, *changes, notes=NOTES, lock="on"):
        """What is found wrong with the good history, after some changes."""
        text = GOOD
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        asked = argparse.Namespace(lock=lock)
        return judged(text + notes, lambda path, verdict: demo.judge(asked, path, verdict, ["rust-1", "cpp-1"]))[0]

    def finds(self, words, *changes, **more):
        [said] = self.wrong(*changes, **more)
        self.assertIn(words, said)

    def test_fences_that_grow_are_taken(self):
        self.assertEqual(self.wrong(), [])
        self.finds("2 holds had a fence", ("5 90 12", "5 90 0"))

    def test_a_smaller_or_equal_fence_is_found(self):
        self.finds("1 fences out of order", ("2 5 90 12", "4 5 90 10"))
        # Asked for at once, of which no order comes.
        self.finds("0 fences out of order", ("3 90 11", "3 90 10"), ("2 5 90 12", "2 5 90 13"))

    def test_a_holder_that_is_late_is_found(self):
        # It entered first, and left when the next one had.
        self.finds("1 overlaps", ("give rust-1 ledger 2 90", "give rust-1 ledger 4 90"))

    def test_what_the_resource_tells(self):
        self.finds("1 lost updates", notes=NOTES.replace("lost-updates 0", "lost-updates 1"))
        self.finds("1 requests with one of 3 fences refused", notes=NOTES.replace("stale 0", "stale 1"))

    def test_who_waits_in_vain(self):
        self.finds("1 waits failed ['Timeout']", notes=NOTES + "fail cpp-1 ledger 1 2 1 Timeout\n")
        self.finds("but not ['cpp-1']", ("cpp-1", "rust-2"))
        self.finds("the lock was had after the last fault", notes=NOTES + "begin 2 killed 7 2\n")


if __name__ == "__main__":
    unittest.main()
