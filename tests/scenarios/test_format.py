"""The scenario files and their format, without servers: python3 tests/scenarios/test_format.py"""

import glob
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import scenario  # noqa: E402

FILES = sorted(glob.glob(os.path.join(glob.escape(HERE), "**", "*" + scenario.SUFFIX), recursive=True))
ELSEWHERE = {"Forked", "Internal"}


def steps_of(*lines):
    return scenario.parse(["nodes 1", *lines])


class FakeStage:
    """What rewriting needs of a stage."""

    secrets = {"quorlock": "right", "wrong": "wrong"}
    certs = "/certs"

    @staticmethod
    def urls(numbers=(1, 2), via="tcp", user="quorlock", password="right", db=0, master=None):
        return [f"{via}:{number}:{user}:{password}:{db}" for number in numbers]


class Files(unittest.TestCase):
    def test_every_file_is_sound(self):
        self.assertGreaterEqual(len(FILES), 36)
        for path in FILES:
            with self.subTest(os.path.basename(path)):
                found = scenario.load(path)
                self.assertTrue(found.lines[0].startswith("# "), "first say what is done and what must come of it")
                self.assertLessEqual(len(found.lines), 30)
                scenario.checked(found.lines)

    def test_every_option_verb_and_kind_is_there(self):
        lines = [line for path in FILES for line in scenario.load(path).lines if scenario.content(line)]
        steps = scenario.parse([line for line in map(scenario.repeated, lines) if not line.startswith("nodes ")])
        options = {(step.verb, option) for step in steps for option in step.options}
        for verb, wanted in (("client", scenario.CLIENT_OPTIONS), ("lock", scenario.LOCK_OPTIONS)):
            self.assertEqual(set(wanted) - {option for user, option in options if user == verb}, set())
        self.assertEqual(set(scenario.VERBS) - {step.verb for step in steps}, set())
        self.assertEqual(scenario.KINDS - {step.expected for step in steps} - ELSEWHERE, set())

    def test_the_first_line_says_which_runners_a_file_is_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.scenario")

            def load(line):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"# what\n{line}\n")
                found = scenario.load(path)
                return found.shape, found.runners

            self.assertEqual(load("nodes 3 new"), (["3", "new"], scenario.RUNNERS))
            self.assertEqual(load("nodes 3 runners=rust,c new"), (["3", "new"], ("rust", "c")))
            for wrong in ("runners=", "runners=java", "runners=c,", "runners=c runners=cpp"):
                with self.assertRaises(scenario.FormatError):
                    load(f"nodes 3 {wrong}")


class Parsing(unittest.TestCase):
    def refused(self, *lines):
        with self.assertRaises(scenario.FormatError):
            scenario.check(steps_of(*lines))

    def test_a_line(self):
        client, acquire, started = steps_of("client c ttl=5 label=a=b", "", "# x", "in t acquire x l wait=0 -> Timeout",
                                            "start t acquire x l")
        self.assertEqual((client.line, client.verb, client.words), (2, "client", ["c"]))
        self.assertEqual(client.options, {"ttl": "5", "label": "a=b"})
        self.assertEqual((acquire.line, acquire.actor, acquire.expected), (5, "t", "Timeout"))
        self.assertEqual((acquire.words, acquire.options, acquire.started), (["x", "l"], {"wait": "0"}, False))
        self.assertTrue(started.started)

    def test_a_name_may_hold_an_equals_sign(self):
        self.assertEqual(steps_of("lock l c a=b ttl=5")[0].words, ["l", "c", "a=b"])

    def test_mistakes_are_found(self):
        good = ["client c", "lock l c a", "acquire x l", "held x -> true"]
        scenario.check(steps_of(*good))
        scenario.check(steps_of(*good, "force c a fence=x -> >=2", "force c a fence=5 -> Contended"))
        for bad in ("jump", "client c", "client d ttl=x", "client d ttl=none", "client d colour=red", "client d renew=1",
                    "client d max_waiters=-1", "lock m c b max_waiters=none", "client d fair=1",
                    "lock m d a", "lock m c", "acquire x l", "acquire y m", "held y -> true", "held x", "held x -> ok",
                    "remaining x -> true", "lost x -> none", "lost x soon -> none", "lost x 5 -> gone", "finish t 5",
                    "start t acquire y l", "start t release x", "start main acquire y l", "in t stage show", "cancel t",
                    "stage redis 1 SET k a;b", "stage redis 1 SET k *", "message says a", "acquire y l -> Confused",
                    "force d a -> 0", "force c a", "force c a -> ok", "force c a fence=y -> 0", "force c a ttl=5 -> 0"):
            with self.subTest(bad):
                self.refused(*good, bad)
        self.refused("client c", "lock l c a")
        self.refused(*good, "start t acquire y l", "in t held x -> true", "finish t 5")

    def test_texts(self):
        self.assertEqual(scenario.text("a%20b"), "a b")
        self.assertEqual(scenario.text("schl%C3%BCssel"), "schlüssel")
        self.assertEqual(scenario.text("%FF"), b"\xff")
        self.assertEqual(scenario.text("%"), "")

    def test_verdicts(self):
        for expected, got in (("ok", "ok"), (">=5", "5"), ("<=5", "4"), ("5", "5"), ("true", "true"), (">=0", "0")):
            self.assertTrue(scenario.holds(expected, got), (expected, got))
        for expected, got in (("ok", "Closed"), (">=5", "4"), ("<=5", "6"), ("5", "6"), ("true", "false"), (">=5", "ok")):
            self.assertFalse(scenario.holds(expected, got), (expected, got))


class Rewriting(unittest.TestCase):
    def line(self, line):
        return scenario.rewrite([line], FakeStage)[0]

    def test_clients(self):
        self.assertEqual(self.line("client c ttl=5 -> ok"),
                         "client c nodes=tcp:1:quorlock:right:0,tcp:2:quorlock:right:0 ttl=5 -> ok")
        self.assertEqual(self.line("client c nodes=2 via=tls db=3 user=default password=wrong"),
                         "client c nodes=tls:2:default:wrong:3")
        self.assertEqual(self.line("client c nodes=env"), "client c")
        self.assertEqual(self.line("client c nodes="), "client c nodes=")
        self.assertEqual(self.line("client c nodes=http://x ca=right cert=wrong key=right"),
                         "client c nodes=http://x ca=/certs/ca.crt cert=/certs/wrong-client.crt key=/certs/client.key")

    def test_sets_that_are_guarded(self):
        lines = ["nodes 1", "client c", "client d restart_guard=off namespace=x:", "client e restart_guard=on db=2 max_ttl=5"]
        places = lambda *how: [(numbers, more["db"]) for numbers, more in scenario.sets(lines, *how)]  # noqa: E731
        self.assertEqual(places(1), [([1], 2)])
        self.assertEqual(places(3), [([1, 2, 3], 0), ([1, 2, 3], 2)])
        # One that sentinels find is guarded however few nodes there are.
        self.assertEqual(places(1, True), [([1], 0), ([1], 2)])

    def test_other_lines(self):
        self.assertEqual(self.line("message lacks <secret:wrong>"), "message lacks wrong")
        self.assertEqual(self.line("lock l c a<x*3>b"), "lock l c axxxb")
        self.assertEqual(self.line("# client c <x*3>"), "# client c <x*3>")
        self.assertEqual(self.line("lock l c  a"), "lock l c  a")


if __name__ == "__main__":
    unittest.main()
