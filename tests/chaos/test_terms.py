#!/usr/bin/env python3
"""The judge of the runs with leaders finds each thing that may be wrong, and finds nothing in a run that was right."""

import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import judged as by_hand  # noqa: E402
from terms import History, judge  # noqa: E402

# A stop, a kill and a cut, one second each; times in ms. Each line may be replaced in a test.
GOOD = """
note ttl-ns 1000
leads rust-1 10 1 0 900
seen rust-1 10 50
acts rust-1 10 1 100 900
begin 1 stopped 200 rust-1/10
leads node-1 20 1 1000 1900
seen node-1 20 1010
acts node-1 20 1 1010 1900
end 1 1100
ended rust-1 10 1110
lost rust-1 10 expired 1110
stopped rust-1 10 1110
acts node-1 20 1 1200 2100
begin 2 killed 1300 node-1/20
dead node-1 1301
leads cpp-1 30 1 2200 3100
seen cpp-1 30 2210
acts cpp-1 30 1 2210 3100
end 2 2220
begin 3 cut 2300 cpp-1/30
acts cpp-1 30 1 2400 3100
lost cpp-1 30 1 3101
acts cpp-1 30 0 3102 3102
ended cpp-1 30 3102
stopped cpp-1 30 3103
leads rust-1 40 1 3200 4100
seen rust-1 40 3210
acts rust-1 40 1 3210 4100
end 3 3300
note end 3500
""".strip().splitlines()
# Which words of a line are times.
TIMES = {"note": [2], "leads": [4, 5], "acts": [4, 5], "ended": [3], "lost": [4], "stopped": [3], "dead": [2], "begin": [3],
         "end": [2], "seen": [3], "stall": [1, 2]}


def judged(lines, times=1):
    text = by_hand.in_ns("\n".join(lines), TIMES, 10**6)
    return by_hand.judged(text, lambda path, verdict: judge(path, times, verdict))[0]


class Judged(unittest.TestCase):
    def wrong(self, *changes, times=1):
        """What is wrong after `(old, new)`: `new`, one line or several, in the place of `old`; or none."""
        lines = list(GOOD)
        for old, *new in changes:
            place = lines.index(old)
            lines[place : place + 1] = new
        return judged(lines, times)

    def finds(self, words, *changes, times=1):
        found = self.wrong(*changes, times=times)
        self.assertEqual([one for one in found if words not in one], [])
        self.assertEqual(len(found), 1, found)

    def test_nothing_in_a_good_run(self):
        self.assertEqual(self.wrong(), [])

    def test_fences_out_of_order(self):
        changes = [(line, re.sub(r"node-1([ /])20", r"node-1\g<1>8", line)) for line in GOOD if re.search("node-1[ /]20", line)]
        found = self.wrong(*changes)
        self.assertTrue(any("1 of 4 terms with a fence out of order" in one for one in found), found)

    def test_a_term_that_was_lost_before_its_begin_is_no_matter(self):
        late = ["leads blocking-1 15 0 1050 1050", "acts blocking-1 15 0 1051 1051", "ended blocking-1 15 1052"]
        self.assertEqual(self.wrong(("end 1 1100", *late, "end 1 1100")), [])

    def test_two_valid_terms(self):
        self.finds("1 terms began while another was valid", ("acts rust-1 10 1 100 900", "acts rust-1 10 1 100 1001"))

    def test_a_term_that_was_given_up_ends_before_its_validity(self):
        given = ["acts cpp-1 30 1 3100 4000", "lost cpp-1 30 1 3101"]
        self.assertEqual(self.wrong(("lost cpp-1 30 1 3101", *given)), [])

    def test_a_killed_worker_believes_nothing(self):
        self.assertEqual(self.wrong(("acts node-1 20 1 1200 2100", "acts node-1 20 1 1200 2300")), [])

    def test_a_step_of_an_old_leader(self):
        self.finds("1 of 8 steps of an old leader",
                   ("lost cpp-1 30 1 3101", "lost cpp-1 30 1 3101", "acts cpp-1 30 1 3201 3100"))

    def test_a_stopped_leader_that_believes_to_lead(self):
        found = self.wrong(("ended rust-1 10 1110", "acts rust-1 10 1 1105 900", "ended rust-1 10 1110"))
        self.assertTrue(any("1 times a leader that was stopped went on" in one for one in found), found)

    def test_one_step_may_have_been_under_way(self):
        under_way = ["acts rust-1 10 1 190 900", "ended rust-1 10 1110"]
        self.assertEqual(self.wrong(("ended rust-1 10 1110", *under_way)), [])
        self.finds("1 times a leader that was stopped went on",
                   ("ended rust-1 10 1110", "acts rust-1 10 1 190 900", *under_way))

    def test_work_that_the_library_ends_does_not_look_once_more(self):
        looks = ["acts rust-1 10 1 190 900", "acts rust-1 10 0 1105 1105", "ended rust-1 10 1110"]
        self.finds("1 times a leader that was stopped went on", ("ended rust-1 10 1110", *looks))
        # Other work is to look, and then to stop.
        lines = [line.replace("rust-1", "blocking-1") for line in GOOD]
        place = lines.index("ended blocking-1 10 1110")
        lines[place : place + 1] = [look.replace("rust-1", "blocking-1") for look in looks]
        self.assertEqual(judged(lines), [])

    def test_work_that_is_to_be_ended_and_goes_on_to_look(self):
        looks = ["acts rust-1 10 0 1105 1105", "ended rust-1 10 1110"]
        # Once it may have been within that step.
        self.assertEqual(self.wrong(("ended rust-1 10 1110", *looks)), [])
        again = ["begin 4 stopped 3300 rust-1/40", "leads asyncio-1 50 1 4101 5000", "seen asyncio-1 50 4200", "end 4 4300",
                 "acts rust-1 40 0 4301 4301", "lost rust-1 40 expired 4302", "ended rust-1 40 4302", "stopped rust-1 40 4303"]
        self.finds("2 times a leader that was stopped went on", ("ended rust-1 10 1110", *looks),
                   ("note end 3500", *again, "note end 4500"))

    def test_work_that_begins_before_the_last_has_stopped(self):
        self.finds("1 times work was done out of order", ("stopped rust-1 10 1110",))

    def test_an_end_that_is_told_before_it_comes(self):
        self.finds("1 times work was done out of order", ("ended cpp-1 30 3102",),
                   ("stopped cpp-1 30 3103", "stopped cpp-1 30 3103", "ended cpp-1 30 3104"))

    def test_a_step_after_the_end(self):
        self.finds("1 times work was done out of order", ("stopped cpp-1 30 3103", "stopped cpp-1 30 3103",
                                                          "acts cpp-1 30 0 3104 3104"))

    def test_a_loss_that_is_not_told(self):
        self.finds("1 losses were not told", ("lost rust-1 10 expired 1110",))

    def test_a_loss_that_is_told_when_the_network_is_back(self):
        self.finds("1 losses were not told", ("lost cpp-1 30 1 3101", "lost cpp-1 30 1 3301"))

    def test_nobody_takes_over(self):
        self.finds("cut: another led within 3 s but for 1 of 1 times", ("leads rust-1 40 1 3200 4100",), ("seen rust-1 40 3210",),
                   ("acts rust-1 40 1 3210 4100",))

    def test_somebody_takes_over_late(self):
        late = [("leads rust-1 40 1 3200 4100", "leads rust-1 40 1 5301 6100"), ("acts rust-1 40 1 3210 4100",),
                ("seen rust-1 40 3210", "seen rust-1 40 5310"), ("note end 3500", "note end 5500")]
        self.finds("cut: another led within 3 s but for 1 of 1 times", *late)
        # The machine had no time for anybody.
        self.assertEqual(self.wrong(*late, ("end 3 3300", "stall 4000 4010", "end 3 3300")), [])

    def test_a_dead_leader_that_is_named(self):
        self.finds("1 dead leaders named", ("seen cpp-1 30 2210",), ("seen rust-1 40 3210", "seen rust-1 40 3310"))
        self.finds("1 dead leaders named", ("seen cpp-1 30 2210", "seen cpp-1 30 2210", "seen node-1 20 3302", "seen rust-1 40 3303"),
                   ("note end 3500", "note end 3500"))

    def test_an_observer_that_says_nothing(self):
        self.finds("1 of 4 terms were seen", *[(line,) for line in GOOD if line.startswith("seen") and "rust-1 10" not in line])

    def test_faults_that_met_no_leader(self):
        self.finds("not ['stopped', 'killed', 'cut']", times=2)
        # Its term was over before.
        self.finds("not ['killed']", ("acts node-1 20 1 1200 2100",), ("acts node-1 20 1 1010 1900",),
                   ("leads node-1 20 1 1000 1900", "leads node-1 20 1 1000 1200"))

    def test_a_line_that_is_none(self):
        for line in ("lead rust-1", "leads rust-1 10", "acts rust-9 10 1 0 0"):
            with self.assertRaisesRegex(ValueError, ":1: "):
                History().add(line)


if __name__ == "__main__":
    unittest.main()
