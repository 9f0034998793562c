"""Every workload of every language does what README.md says of it, on a real server."""

import os
import re
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from crew import LANGUAGES, Crew, Orders  # noqa: E402
from history import Live, Writer  # noqa: E402
from stage import Stage  # noqa: E402
from terms import History  # noqa: E402

PATIENCE_SECONDS = 60
# What the history has of a worker of each of these: kinds of lines, and what the lock is called.
WORKLOADS = {
    "lock:a": (("take", "give", "hand", "adopted"), "a"),
    "shared:s": (("take", "share", "give"), "s"),
    "slots:p:2": (("take", "give"), r"p\.[01]"),
    "keep:k:50": (("take", "give", "keep"), "k"),
    "several:x:y:z": (("want", "take", "give"), "[xyz]"),
    "unsorted:u:v:w": (("want", "take", "give"), "[uvw]"),
    "unlocked:n": (("take", "give"), "n"),
    "election:e": (("leads", "acts"), None),
}


class Workers(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="qlchaos"))
        self.stage = self.enterContext(Stage(1))
        self.history = Writer(os.path.join(folder, "history"))
        self.live = Live(self.history.path, History)
        self.addCleanup(self.live.close)

    def crew(self, own, orders):
        return Crew(self.history, lambda _: self.stage.urls(), orders, own, own=own)

    def lines(self):
        """The kinds of lines that each worker has written."""
        with open(self.history.path) as file:
            words = [line.split() for line in file.read().splitlines()]
        found = {}
        for kind, worker, *_ in filter(lambda line: len(line) > 1, words):
            found.setdefault(worker, set()).add(kind)
        return found

    def test_each_workload_in_each_language(self):
        own = {f"{language}-{work.split(':')[0]}": {"CHAOS_WORK": f"{work}{language if work == 'election:e' else ''}"}
               for language in LANGUAGES for work in WORKLOADS}
        for language in LANGUAGES:
            own[f"{language}-lock"]["CHAOS_HAND"] = "2"
        # One by one they wait for each other in a ring, until a wait ends.
        orders = Orders(nodes=1, ttl=2000, max_ttl=60_000, node_timeout=250, wait=1000)

        def missing(_history=None):
            found = self.lines()
            return [(worker, kind) for worker in own for work, (kinds, _) in WORKLOADS.items()
                    if worker.endswith("-" + work.split(":")[0]) for kind in kinds if kind not in found.get(worker, ())]

        with self.crew(own, orders) as crew:
            self.live.wait(lambda _: not missing(), PATIENCE_SECONDS, lambda: time.sleep(0.1))
            self.assertEqual(missing(), [])
            crew.kill_all()
        self.assertEqual(crew.wrong, [])
        history = self.live.look()
        for work, (_, lock) in WORKLOADS.items():
            holds = [hold for hold in history.holds if hold.worker.endswith("-" + work.split(":")[0])]
            if work == "lock:a":
                # What is adopted has the name that it was exported with.
                lock = r"a|p\.[01]"
            self.assertEqual({hold.lock for hold in holds if not re.fullmatch(lock, hold.lock)}, set(), work)
            self.assertTrue(all(bool(hold.fence) != (work == "unlocked:n") for hold in holds), work)
            if work == "several:x:y:z":
                together = {(hold.worker, hold.invoked, hold.acquired) for hold in holds}
                self.assertEqual(len(together), len({(hold.worker, hold.invoked) for hold in holds}))

    def test_a_steady_worker_ends_with_a_lease_that_is_lost(self):
        own = {f"{language}-1": {"CHAOS_WORK": f"lock:{language}"} for language in LANGUAGES}
        orders = Orders(nodes=1, ttl=2000, max_ttl=60_000, node_timeout=250, wait=10_000, hold=300, steady=1)
        with self.crew(own, orders) as crew:
            end = time.monotonic() + PATIENCE_SECONDS
            while crew.running() and time.monotonic() < end:
                self.stage.redis(1, "FLUSHALL")
                time.sleep(0.1)
            crew.join(0)
        self.assertEqual(len(crew.wrong), len(LANGUAGES), crew.wrong)
        for said in crew.wrong:
            self.assertIn("a lease was lost before its release", said)

    def test_every_workload_is_listed_and_tried_here(self):
        with open(os.path.join(HERE, "README.md")) as page:
            listed = set(re.findall(r"`(\w+):[A-Z]", page.read()))
        self.assertEqual({work.split(":")[0] for work in WORKLOADS} | {"job"}, listed)


if __name__ == "__main__":
    unittest.main()
