#!/usr/bin/env python3
"""The checks of the demo see what they are there for."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ledger import Log, Resource, overlaps, refused  # noqa: E402


class Ledger(unittest.TestCase):
    def logs(self, *texts):
        """Logs with these lines, read."""
        found = []
        for text in texts:
            with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
                file.write(text)
                file.flush()
                found.append(Log(file.name))
                found[-1].follow()
        return found

    def test_fences_that_grow_are_taken(self):
        logs = self.logs("enter 1 0 10\nexit 2\nenter 5 0 12\nexit 6\n", "enter 3 0 11\nexit 4\n")
        self.assertEqual((refused(logs), [len(log.writes) for log in logs]), (0, [2, 1]))

    def test_a_smaller_or_equal_fence_is_refused(self):
        self.assertEqual(refused(self.logs("enter 1 0 10\nexit 2\n", "enter 3 0 9\nexit 4\nenter 5 0 10\nexit 6\n")), 2)

    def test_a_holder_that_is_late_is_refused(self):
        # It entered first, and wrote when the next one had.
        logs = self.logs("enter 1 0 10\nexit 6\n", "enter 3 0 11\nexit 4\n")
        self.assertEqual((refused(logs), overlaps(logs)), (1, 1))

    def test_a_refused_write_changes_nothing(self):
        resource = Resource()
        self.assertEqual([resource.write(7, 2), resource.write(8, 1)], [True, False])
        self.assertEqual(resource._rows.execute("SELECT value, fence FROM resource").fetchall(), [(7, 2)])

    def test_lines(self):
        plain, *broken = self.logs("enter 1 2\nexit 3\n", "enter 1\n", "enter 1 2 three\n", "enter 1 2 3 4\n", "exit 1\n")
        self.assertEqual((plain.holds, plain.waits, plain.writes, plain.broken), ([(1, 3)], [2], [], None))
        self.assertTrue(all(log.broken for log in broken), broken)


if __name__ == "__main__":
    unittest.main()
