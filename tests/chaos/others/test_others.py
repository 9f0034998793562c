#!/usr/bin/env python3
"""The ledger counts what is lost, faults that miss and runs that are short do not count, and the page is what the kept figures say."""

import contextlib
import io
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import others  # noqa: E402
import page  # noqa: E402
import setups  # noqa: E402
import strikes  # noqa: E402
from ledger import Ledger  # noqa: E402

# Of a cell that counts.
HIT = {"from": 0, "held": 1, "struck": True, "worker": "redis-py-1", "write": "ok", "lost": 1, "others": 1}
GOOD = {"library": "redis-py", "fault": "restart", "version": setups.LIBRARIES["redis-py"].version(), "servers": "redis-server 7", "workers": 8,
        "updates": 10_007, "lost": 9, "refused": 0, "told": 0, "overdue": 0, "strikes": 10, "harmed": 9, "hits": [HIT] * 10, "wrong": [], "machine": "m"}
SECONDS = 10.0


class Worker:
    """A worker that a test leads by the hand."""

    def __init__(self, ledger, name):
        with socket.create_connection(("127.0.0.1", ledger.port)) as connection:
            self._stream = connection.makefile("rw")
        self.ask("hello", name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()

    def ask(self, *words):
        self.tell(*words)
        return self._stream.readline().strip()

    def tell(self, *words):
        self._stream.write(" ".join(map(str, words)) + "\n")
        self._stream.flush()


class TheLedger(unittest.TestCase):
    @contextlib.contextmanager
    def two(self, honour=False, updates=100):
        with Ledger(updates, honour) as ledger, Worker(ledger, "a") as a, Worker(ledger, "b") as b:
            ledger.allow(updates)
            yield ledger, a, b

    def test_a_write_over_anothers_is_a_lost_update(self):
        with self.two() as (ledger, a, b):
            self.assertEqual([a.ask("read", "ledger", 0), b.ask("read", "ledger", 0)], ["0 0", "0 0"])
            self.assertEqual([a.ask("write", "ledger", 0, 1), b.ask("write", "ledger", 0, 1)], ["ok", "ok"])
            self.assertEqual(ledger.resource.figures, {"writes": 2, "stale": 0, "lost_updates": 1})

    def test_one_after_the_other_loses_nothing(self):
        with self.two() as (ledger, a, b):
            for worker, number in ((a, 0), (b, 1), (a, 2)):
                self.assertEqual(worker.ask("read", "ledger", 0), f"{number} 0")
                worker.ask("write", "ledger", 0, number + 1)
            self.assertEqual(ledger.resource.figures["lost_updates"], 0)

    def test_fences_are_compared_only_where_that_is_asked_for(self):
        for honour, said, lost in ((True, "stale", 0), (False, "ok", 1)):
            with self.two(honour) as (ledger, a, b):
                a.ask("read", "ledger", 1)
                b.ask("read", "ledger", 2)
                b.ask("write", "ledger", 2, 1)
                self.assertEqual(a.ask("write", "ledger", 1, 1), said)
                self.assertEqual(ledger.resource.figures["lost_updates"], lost)

    def test_an_aim_takes_one_round_and_sees_what_comes_of_it(self):
        with self.two() as (ledger, a, b):
            aim = ledger.aim(1200)
            self.assertFalse(aim.taken.is_set())
            self.assertEqual([a.ask("read", "ledger", 0), b.ask("read", "ledger", 0)], ["0 1200", "0 0"])
            self.assertEqual(aim.worker, "a")
            b.ask("write", "ledger", 0, 1)
            self.assertEqual((aim.others, aim.over.is_set()), (1, False))
            a.ask("write", "ledger", 0, 1)
            self.assertEqual((aim.answer, aim.lost, aim.over.is_set()), ("ok", 1, True))

    def test_a_loss_that_is_told_writes_nothing(self):
        with self.two() as (ledger, a, _):
            aim = ledger.aim(1200)
            a.ask("read", "ledger", 0)
            a.ask("lost")
            self.assertEqual((aim.answer, aim.lost, ledger.writes(), ledger.figures["told"]), ("told", 0, 0, 1))

    def test_a_write_that_is_held_back_comes_after_others(self):
        with self.two() as (ledger, a, b):
            aim = ledger.aim(0, hold_back=True)
            a.ask("read", "ledger", 0)
            a.tell("write", "ledger", 0, 1)
            self.assertTrue(aim.arrived.wait(SECONDS))
            self.assertEqual(ledger.writes(), 0)
            b.ask("read", "ledger", 0)
            b.ask("write", "ledger", 0, 1)
            ledger.release(aim)
            self.assertTrue(aim.over.wait(SECONDS))
            self.assertEqual((aim.others, aim.lost), (1, 1))

    def test_an_update_that_is_lost_because_the_machine_stood_still_is_told_apart(self):
        for pauses, loses in ((False, True), (True, True), (False, False)):
            with self.two() as (ledger, a, b):
                ledger._overdue = 0.01
                aim = ledger.aim(0)
                a.ask("read", "ledger", 0)
                aim.pauses = pauses
                if loses:
                    b.ask("read", "ledger", 0)
                    b.ask("write", "ledger", 0, 1)
                time.sleep(0.02)
                a.ask("write", "ledger", 0, 1)
                self.assertEqual(ledger.overdue, int(loses and not pauses))

    def test_no_round_begins_beyond_what_is_allowed(self):
        with Ledger(3) as ledger, Worker(ledger, "a") as a:
            self.assertTrue(ledger.await_workers(1, SECONDS))
            told = []
            waiting = threading.Thread(target=lambda: told.append(a.ask("next")))
            waiting.start()
            waiting.join(0.05)
            self.assertEqual(told, [])
            ledger.allow(1)
            waiting.join(SECONDS)
            self.assertEqual(told, ["go"])
            ledger.end()
            self.assertEqual(a.ask("next"), "end")


class Runs(unittest.TestCase):
    def test_without_a_lock_updates_are_lost_and_the_run_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = others.play(setups.LIBRARIES["unlocked"], strikes.FAULTS["none"], 1000, 4, 60.0, folder)
        self.assertEqual((page.refused(figures), figures["strikes"]), ([], 0))
        self.assertGreaterEqual(figures["updates"], 1000)
        self.assertGreater(figures["lost"], 0)

    def test_a_worker_that_dies_is_told(self):
        library = setups.Library("none-such", "", "ours", "none", "")
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(others, "START_SECONDS", 0.5):
            figures = others.play(library, strikes.FAULTS["none"], 1000, 1, 60.0, folder)
        self.assertEqual(figures["updates"], 0)
        self.assertTrue(any("none-such-1 ended with status 1" in line and "KeyError" in line for line in page.refused(figures)))

    def test_a_cell_that_there_is_not_is_refused(self):
        done = subprocess.run([sys.executable, str(HERE.parent / "others.py"), "redlock5", "failover"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.strip()), (2, "there is no such cell: see others/README.md"))


class Figures(unittest.TestCase):
    def refused(self, **changes):
        return page.refused(GOOD | changes)

    def test_figures_below_a_floor_do_not_count(self):
        self.assertEqual(self.refused(), [])
        self.assertEqual(self.refused(strikes=4, hits=[HIT] * 4), ["the fault struck 4 times, at least 5 are asked for"])
        self.assertEqual(self.refused(updates=999), ["999 updates were written, at least 1000 are asked for"])
        self.assertIn("2 rounds lost updates because", *self.refused(overdue=2))
        self.assertEqual(self.refused(wrong=["a worker ended"]), ["a worker ended"])

    def test_a_library_that_gives_no_lock_is_said_to(self):
        none = {"strikes": 0, "harmed": 0, "lost": 0, "hits": [HIT | {"struck": False, "worker": None}] * 5}
        self.assertEqual(self.refused(**none), [])
        self.assertEqual(self.cell("redis-py", "restart", **none), "no lock")
        self.assertEqual(len(self.refused(**(none | {"hits": none["hits"][1:]}))), 1)
        self.assertEqual(len(self.refused(**(none | {"hits": none["hits"] + [HIT | {"struck": False}]}))), 1)

    def test_strikes_that_missed_are_none(self):
        self.assertEqual(self.refused(hits=[HIT] * 9 + [HIT | {"struck": False}]), ["the strikes are not those that are listed"])

    def cell(self, name, fault, **changes):
        found = {(GOOD["library"], GOOD["fault"]): GOOD | changes}
        return page.shown(setups.LIBRARIES[name], strikes.FAULTS[fault], found)

    def test_a_cell_says_what_was_lost_of_how_many_and_how_often_the_fault_struck(self):
        self.assertEqual(self.cell("redis-py", "restart"), "**9** (9/10)")
        self.assertEqual(self.cell("redis-py", "restart", updates=4000, lost=0, harmed=0), "0 of 4,000 (0/10)")
        self.assertEqual(self.cell("redis-py", "restart", strikes=4, hits=[HIT] * 4), "not shown")
        self.assertEqual(self.cell("redis-py", "hang"), "not shown")
        self.assertEqual([self.cell("redis-py", "late-fenced"), self.cell("redlock5", "failover")], ["no fences", "–"])

    def test_a_run_takes_the_place_of_an_earlier_one(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            for changes in ({}, {"fault": "none"}, {"lost": 3}):
                page.keep(GOOD | changes, results)
            found = page.kept(results)
        self.assertEqual([(fault, figures["lost"]) for (_, fault), figures in found.items()], [("none", 9), ("restart", 3)])

    def check(self, change=None, **changes):
        """What is wrong with a page of these figures, one of which is then changed, or the page."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            results, target = pathlib.Path(folder), pathlib.Path(folder) / "others.md"
            page.keep(GOOD, results)
            self.assertEqual((page.main(True, results, target), page.main(False, results, target)), (0, 0))
            if changes:
                page.keep(GOOD | changes, results)
            if change:
                target.write_text(target.read_text().replace(*change))
            status = page.main(False, results, target)
        self.assertEqual(status, int(bool(said.getvalue())))
        return said.getvalue()

    def test_a_page_that_says_something_else_is_found(self):
        self.assertIn("is not what the figures say", self.check(change=("**9** (9/10)", "0 (0/10)")))
        self.assertIn("is not what the figures say", self.check(lost=8))

    def test_kept_figures_that_do_not_count_are_found(self):
        self.assertIn("redis-py restart: 999 updates", self.check(updates=999))
        self.assertIn("redis-py restart: it ran 1.0, and", self.check(version="1.0"))
        self.assertIn("redis-py clocks: there is no such cell", self.check(fault="clocks"))

    def test_each_library_has_a_version_and_each_word_is_one(self):
        for library in setups.LIBRARIES.values():
            self.assertEqual(bool(library.version()), library.language != "ours", library.name)
        for name, fault in strikes.FAULTS.items():
            self.assertEqual(name, fault.name)
            self.assertLess(fault.think, fault.ttl, "a holder may think for so long")


if __name__ == "__main__":
    unittest.main()
