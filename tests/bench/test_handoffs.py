#!/usr/bin/env python3
"""The arithmetic of contended runs, on histories made by hand."""

import array
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from contest import together  # noqa: E402
from handoffs import Room, double_holds, figures, gaps, longest_waits, read  # noqa: E402
from table import PEERS, PROCESSES, W3  # noqa: E402

MS = 1_000_000


def hold(contender, granted, releasing, released):
    """Times in ms."""
    return (granted * MS, releasing * MS, released * MS, contender)


# 0 holds twice in a row, then 1, then 0; 2 never does. Each release takes 1 ms to return.
HISTORY = [hold(0, 100, 105, 106), hold(0, 107, 112, 113), hold(1, 115, 120, 121), hold(0, 126, 131, 132)]


class Handoffs(unittest.TestCase):
    def test_a_hand_off_is_a_grant_to_another_and_its_gap_begins_when_release_is_called(self):
        self.assertEqual(gaps(HISTORY, 0, 1000 * MS), [3 * MS, 6 * MS])

    def test_only_grants_within_the_time_count_but_their_predecessor_may_lie_before(self):
        self.assertEqual(gaps(HISTORY, 115 * MS, 126 * MS), [3 * MS])
        self.assertEqual(gaps(HISTORY, 116 * MS, 126 * MS), [])

    def test_a_grant_before_the_release_is_called_has_no_gap(self):
        self.assertEqual(gaps([hold(0, 1, 5, 6), hold(1, 4, 8, 9)], 0, 9 * MS), [None])
        self.assertEqual(gaps([hold(0, 1, 0, 0), hold(1, 4, 8, 9)], 0, 9 * MS), [None])

    def test_a_grant_before_the_release_returned_is_no_double_hold(self):
        self.assertEqual(double_holds([hold(0, 1, 5, 9), hold(1, 5, 8, 9)]), 0)

    def test_double_holds_are_seen_under_a_longer_hold_too(self):
        self.assertEqual(double_holds([hold(0, 1, 9, 10), hold(1, 2, 3, 4), hold(2, 8, 12, 13), hold(1, 12, 14, 15)]), 2)

    def test_an_unfinished_hold_lasts(self):
        self.assertEqual(double_holds([hold(0, 1, 0, 0), hold(1, 2, 3, 4), hold(1, 5, 6, 7)]), 2)

    def test_a_wait_begins_with_the_last_release_or_the_run_and_ends_with_the_grant_or_the_run(self):
        waits = longest_waits(HISTORY, 3, 90 * MS, 140 * MS)
        # 0: 113 to 126. 1: 90 to 115. 2: all the time.
        self.assertEqual(waits, [13 * MS, 25 * MS, 50 * MS])

    def test_the_wait_at_the_end_counts(self):
        self.assertEqual(longest_waits(HISTORY, 2, 90 * MS, 200 * MS), [68 * MS, 79 * MS])

    def test_who_holds_at_the_end_does_not_wait(self):
        self.assertEqual(longest_waits([hold(0, 2, 0, 0)], 1, 0, 50 * MS), [2 * MS])
        self.assertEqual(longest_waits([hold(0, 2, 60, 61)], 1, 0, 50 * MS), [2 * MS])

    def test_what_was_waited_before_the_run_does_not_count(self):
        self.assertEqual(longest_waits([hold(0, 1, 2, 3)], 1, 10 * MS, 50 * MS), [40 * MS])

    def test_a_grant_after_the_end_is_a_wait_to_the_end(self):
        self.assertEqual(longest_waits([hold(0, 80, 81, 82)], 1, 10 * MS, 50 * MS), [40 * MS])

    def test_a_slot_lies_idle_from_the_release_that_made_room(self):
        # Two slots: the third waits for the first that is given back, the fourth for the second.
        holds = [hold(0, 0, 10, 11), hold(1, 1, 20, 21), hold(2, 12, 30, 31), hold(3, 25, 30, 31)]
        self.assertEqual(gaps(holds, 0, 50 * MS, Room(slots=2))[1:], [2 * MS, 5 * MS])
        self.assertEqual(double_holds(holds, Room(slots=2)), 0)
        self.assertEqual(double_holds([*holds, hold(4, 26, 28, 29)], Room(slots=2)), 1)

    def test_readers_hold_together_and_a_writer_alone(self):
        room = Room(readers=2)
        holds = [hold(0, 0, 10, 11), hold(1, 1, 20, 21), hold(2, 23, 30, 31), hold(0, 32, 40, 41), hold(1, 35, 40, 41)]
        self.assertEqual(gaps(holds, 0, 50 * MS, room)[1:], [3 * MS, 2 * MS, 5 * MS])
        self.assertEqual(double_holds(holds, room), 0)
        self.assertEqual(double_holds([*holds, hold(2, 38, 39, 40)], room), 1)
        self.assertEqual(double_holds([hold(2, 0, 10, 11), hold(0, 5, 6, 7)], room), 1)
        found = figures(holds, 3, 0, 50 * MS, room)
        self.assertEqual((found["reader_holds"], found["writer_holds"], found["reader_p50_ms"]), (4, 1, 14.0))

    def test_figures_of_a_run(self):
        found = figures(reversed(HISTORY), 3, 90 * MS, 140 * MS)
        self.assertEqual(found, {"seconds": 0.05, "holds": 4, "holds_per_s": 80.0, "handoffs": 2, "handoffs_per_s": 40.0,
                                 "share": 0, "without": 1, "longest_ms": 50.0, "violations": 0, "gap_p50_us": 3000.0,
                                 "gap_p99_us": 3000.0, "stay_us": 5000.0})
        self.assertEqual(figures(HISTORY, 2, 90 * MS, 140 * MS)["share"], 0.333)

    def test_figures_of_a_run_in_which_nobody_held(self):
        found = figures([], 2, 0, 10 * MS)
        self.assertEqual((found["holds"], found["handoffs"], found["share"], found["without"], found["longest_ms"]),
                         (0, 0, 0, 2, 10.0))
        self.assertNotIn("gap_p50_us", found)

    def test_percentiles_lie_in_order(self):
        holds = [hold(i % 2, 10 * i, 10 * i + 10 - 1 - i % 100 // 99, 10 * i + 9) for i in range(201)]
        found = figures(holds, 2, 0, 10_000 * MS)
        self.assertEqual((found["gap_p50_us"], found["gap_p99_us"]), (1000.0, 1000.0))
        holds = [hold(i % 2, 10 * i, 10 * i + (5 if i % 50 == 0 else 9), 10 * i + 9) for i in range(201)]
        self.assertEqual(figures(holds, 2, 0, 10_000 * MS)["gap_p99_us"], 5000.0)

    def test_what_drivers_write_is_read(self):
        with tempfile.NamedTemporaryFile() as file:
            array.array("q", [0, 10, 20, 30, 1, 40, 50, 0]).tofile(file)
            file.flush()
            self.assertEqual(read(file.name, 8), [(10, 20, 30, 8), (40, 50, 0, 9)])

    def test_processes_are_put_together_in_the_time_that_they_share(self):
        told = [{"began": 0, "ended": 90 * MS, "cpu_ns": 3, "failures": 1, "late": 0, "error": None},
                {"began": 10 * MS, "ended": 100 * MS, "cpu_ns": 4, "failures": 0, "late": 2}]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in "ab"]
            # Two contenders here and one there. The grants at 5 and 95 ms are not in the time of both.
            for path, holds in zip(paths, ([(0, 5, 15), (1, 20, 30), (0, 95, 99)], [(0, 40, 50)])):
                with open(path, "wb") as file:
                    array.array("q", [n for who, *times in holds for n in (who, *(t * MS for t in (*times, times[-1])))]).tofile(file)
            found = together(told, paths, [0, 2, 3])
        self.assertEqual((found["seconds"], found["holds"], found["handoffs"], found["without"]), (0.08, 2, 2, 1))
        # The longest of all is 0's, from 15 ms to the end; the one of the last process waits from 50 ms on.
        self.assertEqual((found["longest_ms"], found["longest_last_ms"]), (75.0, 40.0))
        self.assertEqual((found["cpu_ns"], found["failures"], found["late"]), (7, 1, 2))
        self.assertNotIn("error", found)

    def test_processes_that_share_no_time_are_an_error(self):
        told = [{"began": 0, "ended": 5}, {"began": 5, "ended": 10}]
        with self.assertRaises(RuntimeError):
            together(told, [], [0, 1, 2])

    def test_languages_take_turns(self):
        mixed = next(peer for peer in PEERS if peer.name == "mixed:quorlock")
        self.assertEqual([mixed.driver(number) for number in range(3)], ["py:quorlock", "js:quorlock", "py:quorlock"])
        self.assertEqual([state for state in W3.states if mixed.takes(W3, state)], [f"{PROCESSES}, {stay} ms" for stay in (0, 5)])
        tuned = next(peer for peer in PEERS if peer.name == "js:redlock5+fast")
        self.assertEqual(tuned.driver(5), "js:redlock5+fast")


if __name__ == "__main__":
    unittest.main()
