#!/usr/bin/env python3
"""What is made of figures: the rows that are asked for, the page for readers and its plots. On runs made by hand, without a server."""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import newer  # noqa: E402
import page  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
from asked import Answer, Row, answers, rows  # noqa: E402
from table import OWN, PEERS, REDIS8, VALKEY, WORKLOADS  # noqa: E402
from targets import Figures  # noqa: E402

ABOUT = {"machine": "2 cores, Redis 7.0.15.", "servers": {OWN: "Redis 7.0.15", VALKEY: "Valkey 9.1.2"}}
ROW = Row("a row", (OWN,), "W2", 1, "rust:quorlock", "rust:raw", "server_us", "≤", 1.4, "3.3", "rust:raw-native")


def cycles(peer, server_us, repetition=0, **more):
    """A run of W2."""
    return {"workload": "W2", "nodes": 1, "state": "up", "server": OWN, "peer": peer, "repetition": repetition, "seconds": 1.0,
            "cycles": 1000, "cycles_per_s": 1000, "p50_us": 10.0, "p99_us": 20.0, "max_us": 30.0, "cpu_us": 3.0, "failures": 0,
            "keys_left": 0, "server_cpu_ns": server_us * 1_000_000, "executed": 4000, "server_reads": 100, "scripts": 1000, **more}


def hold(peer):
    return {"workload": "W5", "nodes": 1, "state": "up", "peer": peer, "repetition": 0, "seconds": 20, "locks": 10_000, "lost": 0,
            "alive": 10_000, "cpu_percent": 1.5, "rss_kib": 20_480, "rss_before_kib": 0, "threads": 3, "threads_before": 1,
            "acquired_s": 1.0, "scripts": 40_000, "server_reads": 1000, "server_cpu_ns": 400_000_000, "keys_left": 0}


def contest(peer, nodes, state):
    return {"workload": "W3", "nodes": nodes, "state": state, "peer": peer, "repetition": 0, "seconds": 3.0, "holds": 100,
            "holds_per_s": 33.0, "handoffs": 100, "handoffs_per_s": 33.0, "gap_p50_us": 120.0, "gap_p99_us": 500.0, "share": 0.9,
            "without": 0, "longest_ms": 48.0, "violations": 0, "failures": 0, "late": 0, "scripts": 300, "executed": 3000,
            "cpu_ns": 1000, "server_cpu_ns": 1000, "keys_left": 0}


class Kept(unittest.TestCase):
    """Runs in a folder, as bench.py leaves them."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def keep(self, *runs):
        for name in WORKLOADS:
            lines = [json.dumps(run) + "\n" for run in runs if run["workload"] == name]
            (self.folder / f"{name}.jsonl").write_text("".join(lines))
        (self.folder / report.ABOUT).write_text(json.dumps(ABOUT))
        return report.load(self.folder)


class Asked(Kept):
    def test_every_row_compares_peers_that_are_run_there(self):
        by_name = {peer.name: peer for peer in PEERS}
        for row in rows():
            for server in row.servers:
                for name in filter(None, (row.ours, row.theirs, row.floor, row.beside)):
                    with self.subTest(row=row.title, server=server, peer=name):
                        self.assertTrue(by_name[name].takes(WORKLOADS[row.workload], row.state, server, row.nodes))
                        self.assertIn(row.state, WORKLOADS[row.workload].states)

    def test_both_sides_of_a_row_are_measured_equally_often(self):
        # Otherwise a ratio of most repetitions would lack its other half.
        by_name = {peer.name: peer for peer in PEERS}
        for row in rows():
            workload = WORKLOADS[row.workload]
            for name in (row.ours, row.theirs):
                peer = by_name[name]
                often = workload.repetitions if peer.ours or peer.compared else workload.peer_repetitions
                with self.subTest(row=row.title, peer=name):
                    self.assertEqual(often, workload.repetitions)

    def test_a_row_is_the_median_of_ratios_within_repetitions(self):
        figures, _ = self.keep(*(cycles(peer, cost, repetition) for peer, costs in (
            ("rust:quorlock", (2.8, 5.0, 3.0)), ("rust:raw", (2.0, 5.0, 2.0)), ("rust:raw-native", (2.4, 5.0, 2.4)))
            for repetition, cost in enumerate(costs)))
        [answer] = [answer for answer in answers(figures) if answer.server == OWN and answer.row.ours == "rust:quorlock"
                    and answer.row.field == "server_us"]
        self.assertEqual([round(ratio, 3) for ratio in answer.found], [1.4, 1.0, 1.5])
        self.assertEqual([round(ratio, 3) for ratio in answer.floor], [1.2, 1.0, 1.2])
        self.assertAlmostEqual(answer.value, 1.4)

    def test_the_floor_of_defaults_to_plain_stands_in_both_places(self):
        figures, _ = self.keep(*(cycles(peer, 1.0, workload="W1", p50_us=time) for peer, time in (
            ("rust:quorlock", 12.0), ("rust:quorlock+plain", 10.0), ("rust:raw-native", 9.0), ("rust:raw-native+plain", 6.0))))
        [answer] = [answer for answer in answers(figures) if answer.row.theirs == "rust:quorlock+plain" and answer.row.nodes == 1]
        self.assertEqual((answer.found, answer.floor), ((1.2,), (1.5,)))

    def test_servers_are_not_mixed(self):
        figures, _ = self.keep(cycles("rust:quorlock", 2.0), cycles("rust:raw", 2.0), cycles("rust:quorlock", 1.0, server=VALKEY),
                               cycles("rust:raw", 4.0, server=VALKEY))
        found = {answer.server: answer.value for answer in answers(figures) if answer.row.field == "server_us"
                 and answer.row.ours == "rust:quorlock"}
        self.assertEqual(found, {OWN: 1.0, VALKEY: 0.25, REDIS8: None})

    def test_runs_of_before_there_were_servers_are_those_of_the_path(self):
        run = cycles("rust:raw", 2.0)
        del run["server"]
        figures, _ = self.keep(run)
        self.assertEqual(figures.median("W2", 1, "rust:raw", "server_us"), 2.0)

    def test_verdicts(self):
        self.assertEqual(Answer(ROW, OWN, (1.4,), (1.3,)).verdict(), "reached")
        self.assertEqual(Answer(ROW, OWN, (2.8,), (1.3,)).verdict(), "**missed** by 100.0 %")
        self.assertEqual(Answer(ROW, OWN, (2.8,), ()).verdict(), "**missed** by 100.0 %")
        self.assertEqual(Answer(ROW, OWN, (2.8,), (1.5,)).verdict(), "**missed** by 100.0 %; so is it by the floor")
        self.assertEqual(Answer(ROW, OWN, (), ()).verdict(), "not measured")

    def test_what_was_before_is_no_peer_and_not_ours(self):
        before = [peer for peer in PEERS if peer.before]
        self.assertTrue(before)
        self.assertFalse([peer for peer in before if peer.ours])
        figures, _ = self.keep(contest("before:quorlock", 5, "8 processes, 0 ms"), contest("js:redis-semaphore", 5, "8 processes, 0 ms"))
        self.assertEqual(figures.best_fair(5, "8 processes, 0 ms", True), "js:redis-semaphore")


class Servers(unittest.TestCase):
    def test_a_newer_server_stands_first_in_the_path_and_only_inside(self):
        before = os.environ["PATH"]
        with newer.serving(VALKEY):
            self.assertEqual(os.environ["PATH"], f"{newer.PLACE / VALKEY}{os.pathsep}{before}")
        self.assertEqual(os.environ["PATH"], before)
        with newer.serving(OWN):
            self.assertEqual(os.environ["PATH"], before)

    def test_the_stand_in_becomes_the_server_and_passes_its_arguments_on(self):
        with tempfile.TemporaryDirectory(prefix="ql bench") as folder:
            folder = pathlib.Path(folder)
            (folder / "server").write_text('#!/bin/sh\nprintf "%s\\n" "$$" "$@"\n')
            (folder / "server").chmod(0o755)
            newer.stand_in(VALKEY, folder)
            said = newer.call("sh", "-c", 'echo "$$"; exec "$0" one "two  three"', folder / "redis-server")
        number, *words = said.split("\n")
        self.assertEqual(words, [number, "one", "two  three"])

    def test_every_server_and_library_is_pinned_by_its_hash(self):
        for line in newer.WHEELS.read_text().splitlines()[1:]:
            self.assertRegex(line, r"^[a-z]+==[\w.]+ --hash=sha256:[0-9a-f]{64}$")
        for line in newer.LIBRARIES.read_text().splitlines()[1:]:
            self.assertRegex(line, r"^[\w+-]+ [\w.+-]+ [0-9a-f]{64}$")

    def test_a_server_that_cannot_be_had_is_named_with_the_reason(self):
        make = newer.make
        self.addCleanup(setattr, newer, "make", make)

        def fail(name):
            raise RuntimeError(f"no {name}")
        newer.make = fail
        self.assertEqual(newer.prepare((OWN, VALKEY)), {VALKEY: f"no {VALKEY}"})


class Plots(unittest.TestCase):
    def plot(self, *values, log=False, whole=0):
        column = plot.Column("here", "{:.0f} µs", whole)
        bars = tuple(plot.Bar(f"<{number}>", "ours", (value,)) for number, value in enumerate(values))
        return plot.Plot("name", "A & B", "what is seen", (column,), (("group", bars),), log)

    def test_bars_are_as_long_as_their_values(self):
        drawn = self.plot(10, 5, 0)
        self.assertEqual([plot.share(drawn, 0, value) for value in (10, 5, 0)], [1, 0.5, 0])
        self.assertEqual(plot.share(self.plot(0.5, whole=1), 0, 0.5), 0.5)

    def test_dots_are_as_far_apart_as_their_powers(self):
        drawn = self.plot(1, 10, 100, log=True)
        near, middle, far = (plot.share(drawn, 0, value) for value in (1, 10, 100))
        self.assertAlmostEqual(middle - near, far - middle)
        self.assertEqual(far, 1)

    def test_both_schemes_are_good_xml_with_a_title_and_all_figures(self):
        for scheme in plot.SCHEMES:
            tree = xml.fromstring(plot.svg(self.plot(12, 5, None), scheme))
            self.assertEqual(tree.find("{*}title").text, "A & B")
            words = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
            for word in ("<0>", "12 µs", "5 µs", "–"):
                self.assertIn(word, words)

    def test_nothing_leaves_the_drawing(self):
        for log in (False, True):
            tree = xml.fromstring(plot.svg(self.plot(123_456, 1, log=log), "dark"))
            for element in tree.iter("{http://www.w3.org/2000/svg}text"):
                if element.get("text-anchor") != "end":
                    self.assertLessEqual(float(element.get("x")) + plot.LETTER * len(element.text), plot.WIDTH + plot.RIGHT)

    def test_plots_of_no_values_can_be_drawn(self):
        xml.fromstring(plot.svg(self.plot(None), "light"))
        xml.fromstring(plot.svg(plot.Plot("name", "title", "words", (plot.Column("here", "{}"),), ()), "light"))


class Page(Kept):
    def runs(self):
        processes = "8 processes, 0 ms", "8 processes, 5 ms"
        faulted = [cycles(peer, 1.0, workload="W4", nodes=5, state=state) for peer in ("rust:quorlock", "rust:rslock")
                   for state in ("up", "killed", "hung")]
        return [*(cycles(peer, 2.0, workload=workload, nodes=nodes) for peer in ("rust:quorlock", "rust:rslock", "rust:raw", "py:quorlock")
                  for workload in ("W1", "W2") for nodes in (1, 5)), *faulted, hold("c:quorlock"),
                *(contest("rust:quorlock", nodes, state) for nodes in (1, 5) for state in processes),
                cycles("rust:rslock", 1.0, workload="W4", nodes=5, state="slow", failures=1000)]

    def test_a_page_has_no_gaps_and_all_its_plots(self):
        words, drawn = page.text(*self.keep(*self.runs()))
        self.assertNotIn("{{", words)
        for name in re.findall(r"\]\(\.\./results/([^)#]+)#only-", words):
            xml.fromstring(drawn.pop(name))
        self.assertEqual(drawn, {})

    def test_it_says_what_was_not_measured(self):
        words, _ = page.text(*self.keep(*self.runs()))
        self.assertIn("Not measured this time: Valkey 9.1 and Redis 8.6.", words)
        self.assertIn("Redis 7.0", words)

    def test_it_says_where_another_is_faster_and_why(self):
        runs = [cycles("rust:quorlock", 1.0, workload="W1"), cycles("rust:rslock", 1.0, workload="W1", p50_us=8.0),
                cycles("py:quorlock", 1.0), cycles("py:redis-py", 1.0, cycles_per_s=1250), cycles("py:redis-py+fast", 1.0, cycles_per_s=2000)]
        words, _ = page.text(*self.keep(*runs))
        rows = [line for line in words.splitlines() if "one at a time, " in line or "64 in flight, " in line]
        self.assertEqual(len([row for row in rows if row.startswith("|")]), 2, rows)
        self.assertIn("| Rust, one at a time, one node | 10 µs | 8 µs (rslock) | 1.25 | " + page.WHY["W1", "Rust", 1], words)
        self.assertIn("| Python, 64 in flight, one node | 1,000/s | 1,250/s (redis-py) | 0.80 | not looked into yet |", words)

    def test_it_does_not_say_so_where_none_is(self):
        words, _ = page.text(*self.keep(cycles("rust:quorlock", 1.0, workload="W1"), cycles("rust:rslock", 1.0, workload="W1", p50_us=10.5)))
        self.assertIn("In no cell is another faster.", words)

    def test_a_page_of_nothing_can_be_made(self):
        words, _ = page.text(*self.keep())
        self.assertNotIn("{{", words)

    def test_a_peer_that_never_succeeds_has_no_time(self):
        figures, _ = self.keep(*self.runs())
        [faults] = [drawn for drawn in page.plots(figures) if drawn.name == "faults"]
        [rslock] = [bar for _, bars in faults.groups for bar in bars if bar.label == "rslock"]
        self.assertEqual(rslock.values[1:], (0.02, 0.02, None))

    def test_what_it_says_of_the_long_tables_is_there(self):
        figures, about = self.keep(*self.runs(), contest("rust:quorlock", 1, "8 in one process, 0 ms"))
        words, _ = page.text(figures, about)
        tables = report.text(figures, about)
        found = re.findall(r"[Tt]he long table(?:, | is )(W\d) in `tests/bench/RESULTS\.md`", words)
        self.assertEqual(len(found), 5)
        for name in found:
            self.assertIn(f"\n## {name}: ", tables)

    def test_the_same_figures_make_the_same_page_and_what_stood_there_is_gone(self):
        found = self.keep(*self.runs())
        for _ in range(2):
            page.write(*found, self.folder / "docs")
        words, drawn = page.text(*found)
        self.assertEqual((self.folder / "docs" / "explanation" / "results.md").read_text(), words)
        self.assertEqual({path.name for path in (self.folder / "docs" / "results").iterdir()}, set(drawn))

    def test_long_tables_have_a_row_for_each_server(self):
        figures, about = self.keep(cycles("rust:raw", 2.0), cycles("rust:raw", 3.0, server=VALKEY))
        tables = report.text(figures, about)
        title = "## W2: throughput: 64 threads, tasks or calls in flight, each on a lock of its own; 1 node"
        self.assertIn(title + "\n", tables)
        self.assertIn(title + "; Valkey 9.1\n", tables)


class Kinds(unittest.TestCase):
    def test_a_table_has_as_many_cells_in_each_row(self):
        for words in (report.text(Figures([]), "here"), page.text(Figures([]), "here")[0]):
            for block in re.findall(r"(?:^\|.*\n?)+", words, re.MULTILINE):
                self.assertEqual(len({line.count("|") for line in block.splitlines()}), 1, block[:300])


if __name__ == "__main__":
    unittest.main()
