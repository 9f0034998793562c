"""The judges of a fault run, on histories made by hand and at random; the resource; the schedule."""

import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import check  # noqa: E402
import check2  # noqa: E402
from crew import Orders  # noqa: E402
from faults import chosen_kinds, in_line  # noqa: E402
from history import NEVER, Writer, read  # noqa: E402
from kinds import KINDS, NETWORK, SERVER, WORKER  # noqa: E402
from protected import Resource  # noqa: E402
from schedule import CALM_SECONDS, Episode, Schedule, World  # noqa: E402
from stage import Stage  # noqa: E402
from witness import EVERY_SECONDS, LATE_SECONDS, Witness  # noqa: E402

BAD = os.path.join(HERE, "bad.history")
NO_FLOORS = check.Floors(0, 0, 0, calm_seconds=0)
NOTES = "".join(f"note {name} {value}\n" for name, value in
                {"begin": 0, "end": 100, "wait-ms": 1, "left": 0, "lost-updates": 0, "writes": 0, "stale": 0}.items())


def judged(path, floors=NO_FLOORS, kinds=()):
    verdict = check.Verdict()
    with contextlib.redirect_stdout(io.StringIO()):
        check.judge(path, floors, kinds, verdict)
    return "\n".join(verdict.failed)


class Case(unittest.TestCase):
    def history(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".history", delete=False)
        self.addCleanup(os.remove, file.name)
        with file:
            file.write(text)
        return file.name

    def counts(self, text):
        """What both judges count."""
        path = self.history(text)
        ours = check.figures(read(path))
        self.assertEqual(ours, check2.judge(path))
        return ours[:4]

    def kept(self, text):
        """How many holds began while their lock was kept, by both judges, and what the verdict on them is."""
        path = self.history(text + NOTES)
        ours = check.figures(read(path))
        self.assertEqual(ours, check2.judge(path))
        return ours[4], "K1" in judged(path)

    def stood(self, text):
        """How long each lock stood still, in ns."""
        return [(name, ns) for ns, _, name in check.stands(read(self.history(text + "note ttl-ms 0.0001\n")))]


class Judges(Case):
    def test_a_bad_history_is_flagged_by_both(self):
        self.assertEqual(check.figures(read(BAD)), (9, 2, 2, 1, 1, 1))
        self.assertEqual(check2.judge(BAD), (9, 2, 2, 1, 1, 1))
        for judge in ("check.py", "check2.py"):
            done = subprocess.run([sys.executable, os.path.join(HERE, judge), BAD], capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (1, b""), judge)
        said = judged(BAD, check.Floors(1e9, 1, 0.9, 100), ["hang", "drop"])
        for part in ("2 double holds", "2 holds out of order, 1 fences twice", "2 lost updates", "1 waits ended more than",
                     "1 keys left", "1 holds of 1 locks that were kept", "1 leases adopted twice", "at least 1e+09", "not ['drop']", "75% of the time"):
            self.assertIn(part, said)
        self.assertNotIn("checkers", said)

    def test_a_hold_may_begin_when_another_ends(self):
        self.assertEqual(self.counts("take x a 1 10 90 1\ngive x a 50 90\n"
                                     "take y a 2 50 150 2\ngive y a 60 150\n"), (2, 0, 0, 0))
        # It ends with its validity too.
        self.assertEqual(self.counts("take x a 1 10 90 1\ngive x a 500 90\n"
                                     "take y a 2 90 150 2\ngive y a 99 150\n"), (2, 0, 0, 0))
        self.assertEqual(self.counts("take x a 1 10 90 1\ngive x a 500 91\n"
                                     "take y a 2 90 150 2\ngive y a 99 150\n"), (2, 1, 0, 0))

    def test_who_shares_a_lock_may_be_beside_who_does_too(self):
        beside = "share x a 1 10 90 5\nshare y a 2 20 95 5\n"
        self.assertEqual(self.counts(beside), (2, 0, 0, 0))
        # Nobody else may; and two who share make two pairs with that one.
        self.assertEqual(self.counts(beside + "take z a 3 30 99 9\n"), (3, 2, 0, 0))
        self.assertEqual(self.counts("take z a 3 5 99 1\n" + beside), (3, 2, 0, 0))
        # Among them fences say nothing; but to who has it alone before, and after.
        order = "share x a 1 10 20 7\nshare y a 30 40 50 6\n"
        self.assertEqual(self.counts(order), (2, 0, 0, 0))
        self.assertEqual(self.counts(order + "take z a 60 70 80 6\n"), (3, 0, 1, 0))
        self.assertEqual(self.counts("take z a 1 2 3 9\ngive z a 3 3\n" + order.replace("share x a 1", "share x a 4")), (3, 0, 2, 0))

    def test_locks_are_separate_and_the_dead_hold_nothing(self):
        self.assertEqual(self.counts("take x a 1 10 90 1\ntake y b 1 10 90 1\ndead x 20\ntake z a 15 20 90 2\n"),
                         (3, 0, 0, 0))
        self.assertEqual(self.counts("take x a 1 10 90 1\ndead x 21\ntake z a 15 20 90 2\n"), (2, 1, 0, 0))

    def test_order_of_fences_counts_where_holds_follow_each_other_alone(self):
        both = "take x a {} 10 20 2\ngive x a 20 20\ntake y a {} 30 40 1\ngive y a 40 40\n"
        self.assertEqual(self.counts(both.format(1, 11)), (2, 0, 1, 0))
        self.assertEqual(self.counts(both.format(1, 10)), (2, 0, 0, 0))

    def test_both_judges_and_plain_counting_agree_on_random_histories(self):
        rng, doubles, wrong = random.Random(7), 0, 0
        for _ in range(300):
            holds, lines = [], []
            for worker in range(rng.randint(1, 12)):
                invoked = rng.randint(1, 40)
                acquired = invoked + rng.randint(0, 9)
                hold = (invoked, acquired, acquired + rng.randint(-2, 9), rng.randint(0, 15))
                holds.append(hold)
                lines += [f"take {worker} a {hold[0]} {hold[1]} 99 {hold[3]}", f"give {worker} a {hold[2]} 99"]
            pairs = [(one, other) for i, one in enumerate(holds) for other in holds[:i]]
            plain = sum(max(one[1], other[1]) < min(one[2], other[2]) for one, other in pairs
                        if one[1] < one[2] and other[1] < other[2])
            late = sum(any(other[1] < one[0] and other[3] >= one[3] > 0 for other in holds) for one in holds)
            counted = self.counts("\n".join(lines) + "\n")
            self.assertEqual(counted[1:3], (plain, late))
            doubles, wrong = doubles + plain, wrong + late
        self.assertGreater(min(doubles, wrong), 300)

    def test_a_step_weakens_only_what_had_not_all_votes(self):
        path = self.history("take x a 1 10 90 1\ntake y b 1 10 90 1\ntake z c 12 25 90 1\nstep 15 20 1,2 600 a/x,c/z\n")
        history = read(path)
        self.assertEqual(check.weaken(history), 2)
        self.assertEqual([hold.weak for hold in history.holds], [NEVER, 15, NEVER])
        # This one was not there yet when it was looked who has all votes.
        history = read(self.history("take z c 16 25 90 1\nstep 15 20 1 600 c/z\ntake x a 21 30 90 1\n"))
        check.weaken(history)
        self.assertEqual([hold.weak for hold in history.holds], [15, NEVER])

    def test_doubles_after_a_step_are_counted_apart(self):
        text = "take x a 1 10 90 1\nstep 15 20 1,2 600 {}\ntake y a 22 30 90 2\n"
        self.assertEqual(judged(self.history(text.format("-") + NOTES)), "")
        self.assertIn("1 double holds", judged(self.history(text.format("a/x") + NOTES)))

    def test_no_hold_begins_while_a_lock_is_kept(self):
        text = "take x a 1 10 90 1\ngive x a 20 90\ntake y {} 2 {} 99 2\nkeep x a 10 50\n"
        self.assertEqual(self.kept(text.format("a", 49)), (1, True))
        self.assertEqual(self.kept(text.format("a", 50)), (0, False))
        self.assertEqual(self.kept(text.format("b", 49)), (0, False))
        # That its holder has it meanwhile is nothing.
        self.assertEqual(self.kept("take x a 1 10 90 1\ngive x a 20 90\nkeep x a 10 50\n"), (0, False))
        # A step forward may end it early, and is counted; one before it or behind the other hold does not.
        broken = text.format("a", 40)
        for step, wrong in (("15 20", False), ("5 9", True), ("41 42", True)):
            self.assertEqual(self.kept(broken + f"step {step} 1 600 -\n"), (1, wrong), step)

    def test_one_goes_on_with_a_lease_that_is_exported(self):
        first = "take x a 1 10 15 1\nadopted x a 7\ngive x a 15 15\n"
        self.assertEqual(judged(self.history(first + "take y b 1 20 30 2\nadopted y b 8\n" + NOTES)), "")
        self.assertIn("1 leases adopted twice", judged(self.history(first + "take y a 16 20 30 2\nadopted y a 7\n" + NOTES)))

    def test_a_lock_stands_still_where_somebody_waits_and_nobody_is_inside(self):
        waits = "take x a 1 10 20 1\ngive x a 20 90\ntake y a {} 70 90 2\ngive y a 80 90\n"
        self.assertEqual(self.stood(waits.format(30)), [("a", 9), ("a", 40)])
        self.assertEqual(self.stood(waits.format(5)), [("a", 9), ("a", 50)])
        # As the verdict has it.
        slow = "take x a 0 {} 9000000000 1\n"
        self.assertIn("1 times a lock stood still", judged(self.history(slow.format(500_000_001) + NOTES)))
        self.assertNotIn("stood still for longer", judged(self.history(slow.format(500_000_000) + NOTES)))

    def test_a_wait_that_fails_counts_and_a_try_does_not(self):
        self.assertEqual(self.stood("fail x prices 10 30 1500 Timeout\n"), [("prices", 20)])
        self.assertEqual(self.stood("fail x job 10 30 0 Contended\n"), [])

    def test_nobody_stands_still_under_a_fault_nor_soon_after_nor_with_the_machine(self):
        waits, after = "fail x a 10 100000000000 1500 Timeout\n", int(check.AFTER_SECONDS * 1e9)
        self.assertEqual(self.stood(waits + "begin 1 hang 50 2\nend 1 60\n"), [("a", 40), ("a", 100000000000 - 60 - after)])
        self.assertEqual(self.stood(waits + "begin 1 hang 50 2\n"), [("a", 40)])
        self.assertEqual(self.stood("fail x a 10 100 1500 Timeout\nstall 30 80\n"), [("a", 20), ("a", 20)])
        # Nor where nodes do not answer in time, as a worker was told.
        self.assertEqual(self.stood(waits + "fail y b 50 60 0 QuorumUnavailableError\n"), [("a", 40), ("a", 100000000000 - 60 - after)])

    def test_nobody_stands_still_while_a_quorum_answers_the_witness_late(self):
        waits = "note nodes 3\nfail x a 10 100 1500 Timeout\n"
        self.assertEqual(self.stood(waits + "slow 1 20 40\nslow 2 30 60\n"), [("a", 20), ("a", 60)])
        # Of one of three a lock has no need.
        self.assertEqual(self.stood(waits + "slow 1 20 40\nslow 1 40 60\n"), [("a", 90)])

    def test_the_witness_tells_of_servers_that_answer_late(self):
        path = self.history("")
        with Stage(1) as stage, Witness(Writer(path), [stage.port(1)]):
            stage.stop(1)
            stopped = time.monotonic_ns()
            time.sleep(4 * LATE_SECONDS)
            stage.cont(1)
            until = time.monotonic() + 10
            while not any(end > stopped for _, _, end in read(path).slow) and time.monotonic() < until:
                time.sleep(EVERY_SECONDS)
        # It was stopped before it was asked last, or behind that.
        self.assertIn(1, [node for node, begin, end in read(path).slow if end - stopped > 3 * LATE_SECONDS * 1e9])

    def test_a_run_without_a_calm_moment_shows_nothing(self):
        text = "note begin 0\nbegin 1 hang 50 2\nend 1 60\nstall 3000000000 3000000010\nnote end 4000000000\n"
        calm = 50 + (3_000_000_000 - 60 - check.AFTER_SECONDS * 1e9) + (1_000_000_000 - 10)
        self.assertEqual(check.calm_seconds(read(self.history(text))), calm / 1e9)
        self.assertIn("in which nothing was wrong (at least 1;", judged(self.history(NOTES), check.Floors(0, 0, 0)))

    def test_a_free_slot_stands_still(self):
        both = "take x pool.0 5 10 60 1\ntake y pool.1 5 20 40 2\nfail z pool 30 60 1500 Timeout\n"
        self.assertEqual(self.stood(both), [("pool", 15), ("pool", 20)])

    def test_what_is_kept_on_its_way_or_won_for_several_does_not_stand_still(self):
        waits = "fail z a 20 90 1500 Timeout\n"
        self.assertEqual(self.stood(waits + "keep x a 10 70\n"), [("a", 20)])
        # For the ttl, which is 100 ns.
        self.assertEqual(self.stood(waits + "hand x a 10\n"), [])
        self.assertEqual(self.stood(waits.replace("90", "130") + "hand x a 10\n"), [("a", 20)])
        # Whoever waits for b may have a.
        self.assertEqual(self.stood(waits + "want x a,b 10\nfail x a,b 10 70 1500 Timeout\n"), [("a", 20)])
        # From where it was asked for a program may have it, whose command begins later.
        self.assertEqual(self.stood(waits + "take cli-1 a 15 80 90 1\n"), [])

    def test_a_client_with_another_list_must_hold_nothing(self):
        notes = "".join(f"note {name} 0\n" for name in ("begin", "wait-ms", "left", "lost-updates", "writes", "stale"))
        text = notes + "note end 100\nfail rust-stray a 1 2 0 Misconfigured\n"
        self.assertEqual(judged(self.history(text)), "")
        # Nobody else has the lock, and yet.
        self.assertIn("1 holds of clients with another list", judged(self.history(text + "take rust-stray a 3 10 90 1\n")))
        self.assertIn("1 double holds", judged(self.history(
            text + "take x a 1 20 80 1\ntake rust-stray a 3 10 90 2\n")))

    def test_a_line_is_found_from_where_one_looks(self):
        writer = Writer(self.history(""))
        self.addCleanup(writer.close)
        writer.write("fail", "x", "Timeout")
        since = writer.size()
        self.assertFalse(writer.told(since, "fail x "))
        writer.write("fail", "x", "Misconfigured")
        self.assertTrue(writer.told(since, "fail x ", "Misconfigured"))
        self.assertFalse(writer.told(since, "fail x ", "Timeout"))
        self.assertFalse(writer.told(since, "take x "))

    def test_nonsense_is_refused(self):
        for line in ("jump x", "give x a 1 2", "take x a 1", "end 7 1"):
            with self.assertRaises(ValueError, msg=line):
                read(self.history(line + "\n"))


class Fence(Case):
    def play(self, resource):
        """One hold after another, of which the first writes last."""
        value = int(resource.answer("read a 1"))
        later = int(resource.answer("read a 2"))
        return [resource.answer(f"write a 2 {later + 1}"), resource.answer(f"write a 1 {value + 1}")]

    def test_a_smaller_fence_is_refused(self):
        resource = Resource(honour=True)
        self.assertEqual(self.play(resource), ["ok", "stale"])
        self.assertEqual(resource.answer("read a 1"), "stale")
        self.assertEqual(resource.answer("read b 1"), "0")
        self.assertEqual(resource.figures, {"writes": 1, "stale": 2, "lost_updates": 0})

    def test_without_it_updates_are_lost(self):
        resource = Resource(honour=False)
        self.assertEqual(self.play(resource), ["ok", "ok"])
        self.assertEqual(resource.figures["lost_updates"], 1)

    def test_what_is_exported_is_told_to_one_and_the_next_to_two(self):
        resource = Resource(honour=True)
        self.assertEqual(resource.answer("next - 0"), "none")
        self.assertEqual([resource.answer(f"hand a {fence} quorlock1.{fence}") for fence in (4, 5)], ["ok", "ok"])
        told = [resource.answer("next - 0") for _ in range(4)]
        self.assertEqual(told, ["1 a quorlock1.4", "1 a quorlock1.4", "2 a quorlock1.5", "none"])

    def test_as_a_process(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, os.path.join(HERE, "protected.py"), os.path.join(folder, "s"), "honour"]
            done = subprocess.run(command, input="", capture_output=True, text=True, timeout=20)
        self.assertEqual(json.loads(done.stdout.splitlines()[1])["writes"], 0)


class Leftovers(Case):
    def test_what_lasts_as_long_as_a_place(self):
        class OneValue:
            def __init__(self, value):
                self.value = value

            def redis(self, number, *words):
                return self.value

        for value, lasts in ((b"=1 token", True), (b"@1 ", True), (b"&0 1 ", True), (b"-1 token", False), (b"token", False), (None, True)):
            self.assertEqual(in_line(OneValue(value), 1, b"lock:{a}"), lasts, value)
        for key in (b"lock:#q:{a}", b"lock:#pq:{a}", b"lock:#s:{a}"):
            self.assertTrue(in_line(None, 1, key), "a set, whose type GET refuses")


class Plan(Case):
    def plan(self, seed):
        """The first faults of a seed, without carrying them out."""
        world = World(None, None, ["rust-1", "c-1"], None, Orders(), random.Random(seed))
        schedule = Schedule(world, list(KINDS.values()))
        return [(kind.name, str(schedule.draw(kind))) for kind in world.random.sample(list(KINDS.values()), len(KINDS))]

    def test_a_seed_is_a_plan(self):
        self.assertEqual(self.plan(3), self.plan(3))
        self.assertNotEqual(self.plan(3), self.plan(4))

    def calms(self, kinds):
        """The numbers of the faults before which it was calm, of a run of 80 s with so many kinds, which last for an instant."""

        class Kind:
            alone, place, seconds, name, loses, of = False, WORKER, (0, 0), "none", False, ""

            @staticmethod
            def run(*_):
                yield None

        class Told:
            write = staticmethod(lambda *_: None)

        now, begun = [1000.0], [1000.0]
        world = World(None, None, ["rust-1"], Told, Orders(), random.Random(1))
        with unittest.mock.patch("schedule.time.monotonic", lambda: now[0]):
            schedule = Schedule(world, [Kind] * kinds)
            for _ in range(80_000):
                before = len(world.active)
                schedule.step(more=True)
                if len(world.active) > before:
                    begun.append(now[0])
                now[0] += 0.001
        return [number for number, (one, next) in enumerate(zip(begun, begun[1:])) if next - one >= CALM_SECONDS]

    def test_between_two_rounds_nothing_is_wrong(self):
        self.assertEqual(self.calms(60)[:3], [0, 60, 120])

    def test_few_kinds_are_not_held_up_by_that(self):
        first, second, *_ = self.calms(1)
        self.assertEqual(first, 0)
        self.assertGreater(second, 20)

    def test_what_comes_before_a_fault_is_a_part_of_it(self):
        class Kind:
            name = "late"

            @staticmethod
            def run(*_):
                yield 3.0
                yield None

        class Told:
            lines = []
            write = staticmethod(lambda *words: Told.lines.append(words))

        world = World(None, None, ["rust-1"], Told, Orders(), random.Random(1))
        now = [7]
        with unittest.mock.patch("schedule.time.monotonic_ns", lambda: now[0]):
            episode = Episode(world, Kind, "rust-1", 1.0)
            for now[0] in (7, 8, 9):
                episode.advance()
        self.assertEqual(Told.lines, [("begin", episode.number, "late", 7, "rust-1"), ("end", episode.number, 9)])

    def test_kinds_that_rest_on_the_guard_can_be_left_out(self):
        class Asked:
            kinds, without_guard, nodes = "", True, 5

        left = {kind.name for kind in chosen_kinds(Asked)}
        self.assertEqual(set(KINDS) - left, {"kill-empty", "kill-old-dump", "all-at-once", "flushall", "swapdb", "backend",
                                             "stray-beside-loss", "stray-beside-outage"})

    def test_of_two_nodes_no_clock_is_wrong_and_no_list(self):
        class Asked:
            kinds, without_guard, nodes = "", False, 2

        self.assertEqual({kind.place for kind in chosen_kinds(Asked)}, {NETWORK, SERVER, WORKER})


if __name__ == "__main__":
    unittest.main()
