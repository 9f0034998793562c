"""Porcupine takes a good history, and refuses it by name once an overlap, a fence out of order or a slot too many is put into it."""

import contextlib
import io
import os
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import check3  # noqa: E402
from check import Verdict  # noqa: E402

TTL, SLOTS = 400, {"pool": 2}
# So many holds of each lock: more than porcupine is given at once.
HOLDS = 2500
TWICE, MANY, ORDER = "two hold it at once", "more hold it than it has slots", "a fence is out of order"


def setUpModule():
    if why := check3.build():
        raise RuntimeError(why)


class Lease:
    """One hold of the good history, before it is lines."""

    def __init__(self, number, lock, begin, rng):
        self.worker, self.lock, self.shared = f"rust-{number % 7}", lock, False
        self.invoked, self.acquired, self.fence = begin - rng.randrange(300), begin, 10 + 2 * number
        self.until, self.at = begin + TTL, begin + 1 + rng.randrange(50)
        self.ends = rng.choices(("give", "lost", "dead", "keep"), (10, 1, 1, 1))[0]
        if self.ends == "lost":
            self.at = self.until + 20
        self.over = min(self.at, self.until)
        if self.ends == "keep":
            self.over = self.at + 30

    def lines(self):
        yield self.acquired, f"{'share' if self.shared else 'take'} {self.worker} {self.lock} {self.invoked} {self.acquired} {self.until} {self.fence}"
        if self.ends == "dead":
            yield self.at, f"dead {self.worker} {self.at}"
            return
        yield self.at, f"give {self.worker} {self.lock} {self.at} {self.until}"
        if self.ends == "keep":
            yield self.at + 1, f"keep {self.worker} {self.lock} {self.acquired} {self.over}"


def waiting(leases):
    """Lets each worker ask when it has given back what it had, as early as it does."""
    since = {}
    for lease in leases:
        lease.invoked = max(lease.invoked, since.get(lease.worker, 0))
        since[lease.worker] = lease.at + 2
    return leases


def locks(rng, name):
    """Holds one after the other."""
    at, found = 1000, []
    for number in range(HOLDS):
        found.append(Lease(number, name, at, rng))
        at = found[-1].over + 1
    return waiting(found)


def readers(rng):
    """Two readers beside each other, then one alone, and so on; readers may have one fence."""
    at, found = 1000, []
    for number in range(0, HOLDS, 3):
        some = [Lease(number + place, "prices", at + place, rng) for place in range(3)]
        for place, one in enumerate(some):
            one.ends, one.shared = "give", place < 2
            one.at = at + 5 + place
        some[1].fence = some[0].fence
        some[2].acquired, some[2].at = at + 10, at + 15
        found += some
        at += 20
    return waiting(found)


def slots(rng):
    return [lease for slot in range(2) for lease in locks(rng, f"pool.{slot}")]


def good():
    rng = random.Random(7)
    some = {"a": locks(rng, "a"), "prices": readers(rng), "pool": slots(rng)}
    for name, leases in some.items():
        for lease in leases:
            # A worker that dies gives up all that it has, so each has one lock.
            lease.worker = f"{lease.worker.split('-')[0]}-{lease.lock}-{lease.worker.split('-')[1]}"
    return some


class Porcupine(unittest.TestCase):
    def setUp(self):
        self.leases = good()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def judged(self, *more, **options):
        """The status, and what is said of each lock."""
        path = os.path.join(self.folder, "history")
        lines = sorted((line for leases in self.leases.values() for lease in leases for line in lease.lines()), key=lambda one: one[0])
        with open(path, "w") as file:
            file.write("".join(f"{line}\n" for line in [*(line for _, line in lines), *more]))
        done = subprocess.run(check3.command(path, SLOTS, **options), capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        words = [line.split(None, 2) for line in done.stdout.splitlines()]
        return done.returncode, {name.rstrip(","): f"{word} {said}" for word, name, said in words}

    def refused(self, lock, words, *more):
        """Only this lock is refused, for these reasons alone."""
        status, said = self.judged(*more)
        self.assertEqual(status, 1)
        self.assertEqual([name for name, verdict in said.items() if verdict.startswith("FAIL")], [lock])
        self.assertEqual(said[lock].split(": ")[2].split("; ")[0], words)
        return said[lock]

    def middle(self, lock, ends="give", place=HOLDS // 2):
        """Of two that follow each other, the first of which ends so, from the middle on."""
        return next((one, two) for one, two in zip(self.leases[lock][place:], self.leases[lock][place + 1:]) if one.ends == ends)

    def test_a_good_history_is_taken(self):
        status, said = self.judged(least=3 * HOLDS)
        self.assertEqual(status, 0, said)
        self.assertEqual({name: line.split(": ")[0] for name, line in said.items()},
                         {"a": "ok as a lock", "pool": "ok as a semaphore of 2", "prices": "ok as a lock with readers"})
        self.assertEqual(said["a"].split(": ")[1], f"{HOLDS} holds, {2 * HOLDS} operations")
        for ends in ("give", "lost", "dead", "keep"):
            self.assertGreater(sum(lease.ends == ends for lease in self.leases["a"]), 100, ends)

    def test_an_overlap_is_refused(self):
        for ends in ("give", "lost", "dead"):
            with self.subTest(ends):
                self.leases = good()
                first, second = self.middle("a", ends)
                second.acquired = first.over - 1
                second.invoked = min(second.invoked, second.acquired)
                said = self.refused("a", TWICE)
                # The longest order has one of the two.
                self.assertRegex(said, f"no place for: rust-a-. acquires a, fence ({first.fence}|{second.fence}),")

    def test_an_overlap_at_the_edge_of_a_piece_is_refused(self):
        for place in (998, 999, 1000, 1001):
            self.leases = good()
            second, third = self.leases["a"][place:place + 2]
            # A hold is longer than was believed, into the next.
            second.ends, second.at, second.until = "give", third.acquired + 1, third.acquired + TTL
            self.refused("a", TWICE)

    def test_a_loss_is_no_release(self):
        # What is never given back is held until its last known end, and no longer.
        first, second = self.middle("a", "lost")
        first.lines = lambda: [(first.acquired, f"take {first.worker} a {first.invoked} {first.acquired} {first.until} {first.fence}")]
        first.worker += "-gone"
        self.assertEqual(self.judged()[0], 0)
        second.acquired = second.invoked = first.until - 1
        self.refused("a", TWICE)

    def test_what_is_kept_is_held(self):
        first, second = self.middle("a", "keep")
        second.acquired, second.invoked = first.over - 1, first.over - 2
        self.refused("a", TWICE)

    def test_a_fence_out_of_order_is_refused(self):
        for change in (0, -1, -2):
            with self.subTest(change):
                self.leases = good()
                first, second = self.middle("a")
                # Asked for behind the first, or, which exclusion alone puts behind it, while that was held.
                second.fence, second.invoked = first.fence + change, first.acquired - (change == -2)
                self.assertLess(first.acquired - 2, second.invoked)
                self.refused("a", ORDER)

    def test_a_fence_of_readers_out_of_order_is_refused(self):
        reader, _, writer = self.leases["prices"][1200:1203]
        writer.fence = reader.fence
        self.refused("prices", ORDER)
        self.leases = good()
        writer, reader = self.leases["prices"][1202:1204]
        reader.fence = writer.fence
        self.refused("prices", ORDER)

    def test_one_alone_beside_a_reader_is_refused(self):
        self.leases["prices"][1201].shared = False
        self.assertIn(TWICE, self.refused("prices", f"{TWICE}, {ORDER}"))
        self.leases = good()
        reader, _, writer = self.leases["prices"][1200:1203]
        writer.acquired, writer.invoked = reader.at - 1, reader.at - 2
        self.refused("prices", TWICE)

    def test_one_slot_too_many_is_refused(self):
        lease = max(self.leases["pool"][:100], key=lambda one: one.over - one.acquired)
        more = Lease(5, "pool.2", lease.acquired + 1, random.Random(1))
        more.ends, more.at, more.worker = "give", lease.over - 1, "node-9"
        self.leases["pool"].append(more)
        said = self.refused("pool", MANY)
        self.assertIn("no place for: node-9 acquires pool.2", said)

    def test_two_in_one_slot_are_refused(self):
        second = self.leases["pool"][HOLDS + 1000]
        second.lock, second.fence = "pool.0", 1_000_000
        second.at, second.until, second.ends = second.acquired + TTL, second.acquired + TTL, "give"
        status, said = self.judged()
        self.assertEqual(status, 1)
        self.assertIn(TWICE, said["pool"])

    def test_a_step_forward_may_take_a_vote(self):
        first, second = self.middle("a")
        first.at = second.acquired + 10
        self.refused("a", TWICE)
        step = f"step {first.acquired} {first.acquired} 1,2 900"
        self.assertEqual(self.judged(f"{step} -")[0], 0)
        self.assertEqual(self.judged(f"{step} b/{first.worker}")[0], 0)
        # It had the votes of all nodes, and was asked for before.
        first.invoked = min(first.invoked, first.acquired - 1)
        self.refused("a", TWICE, f"{step} a/{first.worker}")

    def test_what_is_not_decided_in_time_is_refused(self):
        status, said = self.judged(seconds=0)
        self.assertEqual(status, 1)
        self.assertEqual({line.split(": ", 2)[2] for line in said.values()}, {"unknown: it is not decided in time"})

    def test_too_few_holds_are_refused(self):
        status, said = self.judged(least=10 * HOLDS)
        self.assertEqual((status, [name for name, line in said.items() if line.startswith("FAIL")]), (1, ["only"]))

    def test_what_is_no_history_is_refused(self):
        path = os.path.join(self.folder, "history")
        for line, words in [("take rust-1 a 1 2 3", "take has 5 words"), ("take rust-1 a 1 2 x 4", "invalid syntax"),
                            ("give rust-1 a 1 2", "does not have it"), ("keep rust-1 a 1 2", "did not win it"),
                            ("take rust-1 pool.x 1 2 3 4", "no slot"), ("take rust-1 other.1 1 2 3 4", "no slot")]:
            with open(path, "w") as file:
                file.write(f"{line}\n")
            done = subprocess.run(check3.command(path, SLOTS), capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, line)
            self.assertIn(words, done.stderr)

    def said(self):
        """What the judge of runs makes of the history that was written last."""
        verdict = Verdict()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            check3.judge(os.path.join(self.folder, "history"), verdict, SLOTS)
        return verdict, said.getvalue()

    def test_a_run_has_its_verdict_and_a_page_for_each_lock(self):
        first, second = self.middle("a")
        second.fence = first.fence
        self.judged("begin 1 hang 1100 3", "end 1 1200")
        verdict, said = self.said()
        self.assertEqual((verdict.passed, len(verdict.failed)), (0, 1))
        self.assertIn(ORDER, said)
        for name in self.leases:
            with open(os.path.join(self.folder, "porcupine", f"{name}.html")) as file:
                self.assertIn("hang 3" if name != "a" else f"acquires a, fence {second.fence}", file.read())
        self.leases = good()
        self.judged()
        verdict, _ = self.said()
        self.assertEqual((verdict.passed, verdict.failed), (1, []))

    def test_a_machine_without_go_is_told(self):
        self.judged()
        with unittest.mock.patch.dict(os.environ, PATH=self.folder):
            verdict, said = self.said()
        self.assertEqual((verdict.passed, verdict.failed), (0, []))
        self.assertIn("porcupine does not judge this run: there is no Go here", said)


if __name__ == "__main__":
    unittest.main()
