"""The judge of the runs with failovers, on histories made by hand: one wrong one for each thing that is asked."""

import argparse
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "scenarios")]

import failover  # noqa: E402
import judged as by_hand  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
TIMES = {"take": (3, 4, 5), "give": (3, 4), "fail": (3, 4), "begin": (3,), "end": (2,), "stall": (1, 2)}
# A worker holds the lock when the master is killed at 3 s, and another waits for it; the failover is over at 6 s, and the
# lock is won when the quarantine is.
GOOD = """
note ttl-ms 6000
note guarded 1
note lost-updates 0
note writes 2
note stale 0
take rust-1.1 a1 0.5 1 7 10
fail node-1.5 a1 2 4 2000 Timeout
begin 1 killed 3 1
end 1 6
give rust-1.1 a1 6.9 7
take node-1.5 a1 20 27.5 30 11
give node-1.5 a1 29 30
"""


def judged(text, count=1, kinds=("killed",)):
    """What is wrong with a history whose times are in seconds, of a run with so many failovers of each of these kinds."""
    asked = argparse.Namespace(count=count, kinds=kinds, wait_replicas=["0"])
    return by_hand.judged(by_hand.in_ns(text, TIMES, 1e9), lambda path, verdict: failover.judge(asked, path, verdict))


class Judge(unittest.TestCase):
    def wrong(self, old, new, *words):
        """With this change of the good history there is one thing wrong, and it is told so."""
        self.assertIn(old, GOOD)
        found, _ = judged(GOOD.replace(old, new))
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_a_good_history(self):
        wrong, said = judged(GOOD)
        self.assertEqual(wrong, [])
        for part in ("S1: 0 double holds", "killed: no lock was won for median 24.5 s", "the failover took median 3.0 s",
                     "1 leases were held, 1 of them beyond the failover; 1 waited", "1 of 1 met a holder and a waiter"):
            self.assertIn(part, said)

    def test_a_double_hold(self):
        self.wrong("take node-1.5 a1 20 27.5", "take node-1.5 a1 5 6.8", "S1: 1 double holds")

    def test_a_hold_may_begin_when_the_validity_of_the_other_has_ended(self):
        early = GOOD.replace("take node-1.5 a1 20 27.5", "take node-1.5 a1 5 7")
        self.assertEqual(judged(early.replace("give rust-1.1 a1 6.9 7", "give rust-1.1 a1 9 7"))[0], [])

    def test_fences_out_of_order(self):
        self.wrong("27.5 30 11", "27.5 30 9", "S2: 1 holds out of order")

    def test_a_lost_update(self):
        self.wrong("lost-updates 0", "lost-updates 1", "1 lost updates")

    def test_a_failover_that_does_not_come_about(self):
        wrong, _ = judged(GOOD.replace("end 1 6\n", ""), 0)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn("1 of 1 failovers did not come about", wrong[0])

    def test_a_lock_that_is_not_won_again_or_too_late(self):
        late = ("take node-1.5 a1 20 27.5 30", "take node-1.5 a1 20 42.5 45")
        self.wrong(*late, "killed: no lock was won for median 39.5 s", "in 1 of 1")
        self.wrong("take node-1.5 a1 20 27.5 30 11\ngive node-1.5 a1 29 30\n", "", "in 1 of 1")
        # Nothing could run meanwhile.
        self.assertEqual(judged(GOOD.replace(*late) + "stall 10 20\n")[0], [])
        # What both processors stood still is no longer for that.
        self.assertIn("in 1 of 1", judged(GOOD.replace(*late) + "stall 10 10.4\nstall 10 10.4\n")[0][0])
        # Nobody asks for a quarantine where the guard is off.
        self.assertIn("in 1 of 1", judged(GOOD.replace("guarded 1", "guarded 0"))[0][0])

    def test_holds_of_other_stages_say_nothing(self):
        other = GOOD + "take rust-11.1 a11 8 9 10 3\ngive rust-11.1 a11 9.5 10\n"
        self.assertIn("no lock was won for median 24.5 s", judged(other)[1])
        wrong, _ = judged(GOOD.replace("begin 1 killed 3 1", "begin 1 killed 3 11"))
        self.assertIn("0 of 1 met a holder and a waiter", "\n".join(wrong))

    def test_a_failover_that_nobody_noticed(self):
        self.wrong("take rust-1.1 a1 0.5 1", "take rust-1.1 a1 3.2 3.5", "0 of 1 met a holder")
        self.wrong("fail node-1.5 a1 2 4", "fail node-1.5 a1 3.5 4", "0 of 1 met a holder and a waiter")

    def test_too_few_failovers(self):
        wrong, _ = judged(GOOD, 2)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn("too few of ['killed']", wrong[0])

    def test_the_grace_is_that_of_the_core(self):
        with open(os.path.join(ROOT, "core", "src", "node", "admission.rs")) as source:
            seconds = re.search(r"GRACE: Duration = Duration::from_secs\((\d+)\)", source.read())[1]
        self.assertEqual(int(seconds), failover.GRACE_SECONDS)


if __name__ == "__main__":
    unittest.main()
