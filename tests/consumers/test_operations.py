"""docs/operations: the page, the dashboard and the alerts name what a process serves, no more and no less; its programs serve it."""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

from programs import ROOT, blocks, text

sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402

PAGE = text("docs/operations/metrics.md")
# Labels that Prometheus adds, or that are of its own making.
ADDED = {"job", "le"}
# A process that does all that is measured.
ALL = """
import quorlock

one, two = (quorlock.Client({nodes!r}, group="orders", ca={ca!r}) for _ in range(2))
lease = one.lock("a").acquire()
assert two.lock("a").try_acquire() is None
lease.release()
lost = one.lock("b").acquire()
one.close()
# By which it hears of the nodes' clocks.
two.inspect("a")
print(quorlock.metrics_text(), end="")
"""


def served(stage):
    """What such a process serves: the families by their names."""
    program = ALL.format(nodes=stage.urls(via="tls"), ca=f"{stage.certs}/ca.crt")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    return {family.name: family for family in text_string_to_metric_families(done.stdout)}


def table():
    """The table of the page: of each name its type and its labels. Those that `quorlock run` leaves in a file have their own test."""
    served = re.sub(r"^## Of `quorlock run`$.*?^## ", "## ", PAGE, flags=re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `(quorlock_\w+)` \| (\w+) \| ([^|]*)\|", served, re.MULTILINE)
    return {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels in rows}


def selectors(expression):
    """The vectors that an expression selects, wherever in it they stand."""
    tree, found = promql_parser.parse(expression), []

    def walk(node):
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        for part in ("expr", "lhs", "rhs", "param", "vector_selector"):
            if isinstance(inner := getattr(node, part, None), promql_parser.Expr):
                walk(inner)
        for argument in getattr(node, "args", None) or []:
            walk(argument)

    walk(tree)
    return found


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Stage(3, tls=True, options=("maxmemory 100mb",)) as stage:
            cls.families = served(stage)
        # As samples have them.
        cls.samples = {}
        for family in cls.families.values():
            for sample in family.samples:
                cls.samples.setdefault(sample.name, set()).update(sample.labels)

    def test_the_page_has_each_name_with_its_type_and_labels(self):
        found = {}
        for name, family in self.families.items():
            name += "_total" * (family.type == "counter")
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            found[name] = (family.type, labels)
        self.assertEqual(table(), found)

    def test_the_page_has_the_buckets_and_the_words(self):
        family = self.families["quorlock_acquire_duration_seconds"]
        bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels} - {"+Inf"}
        said = re.search(r"Histograms have the buckets ([0-9., \nand]+)\.\n", PAGE)[1]
        self.assertEqual(set(map(float, re.findall(r"[0-9.]+", said.replace(" and ", ", ")))), set(map(float, bounds)))
        for outcome in ("won", "contended"):
            self.assertIn(outcome, {sample.labels["outcome"] for sample in family.samples})

    def test_what_was_counted_is_served(self):
        values = {(sample.name, sample.labels.get("outcome"), sample.labels.get("reason")): sample.value
                  for family in self.families.values() for sample in family.samples if sample.name.endswith(("count", "total"))}
        self.assertEqual(values["quorlock_acquire_duration_seconds_count", "won", None], 2)
        self.assertEqual(values["quorlock_acquire_duration_seconds_count", "contended", None], 1)
        self.assertEqual(values["quorlock_lost_total", None, "closed"], 1)

    def test_the_first_of_each_outcome_and_reason_is_seen_to_come(self):
        """A process that has used no lock serves all counters that alerts name, as 0."""
        done = subprocess.run([sys.executable, "-c", "import quorlock; print(quorlock.metrics_text(), end='')"], capture_output=True,
                              text=True, timeout=300, check=True)
        found = {family.name: family.samples for family in text_string_to_metric_families(done.stdout)}
        outcomes = {sample.labels["outcome"]: sample.value for sample in found["quorlock_acquires"]}
        said = re.search(r"`outcome` of an acquire: (.*?)\. Entering", PAGE, re.DOTALL)[1]
        self.assertEqual(outcomes, dict.fromkeys(re.findall(r"`([a-z_]+)`[,;]", said), 0))
        reasons = {sample.labels["reason"] for sample in self.families["quorlock_lost"].samples}
        self.assertEqual({sample.labels["reason"]: sample.value for sample in found["quorlock_lost"]}, dict.fromkeys(reasons, 0))
        for name in ("quorlock_oldest_hold_seconds", "quorlock_oldest_wait_seconds"):
            self.assertEqual([(sample.labels, sample.value) for sample in found[name]], [({"group": "", "mode": "exclusive"}, 0)])

    def known(self, expression):
        """Every vector of an expression is served, with the labels by which it is chosen and summed."""
        found = selectors(expression)
        self.assertTrue(found, expression)
        for selector in found:
            self.assertIn(selector.name, self.samples, expression)
            asked = {matcher.name for matcher in selector.matchers.matchers} - ADDED
            self.assertLessEqual(asked, self.samples[selector.name], expression)
        summed = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", labels)}
        self.assertLessEqual(summed - ADDED, set().union(*(self.samples[selector.name] for selector in found)), expression)

    def test_the_dashboard_asks_for_what_is_served(self):
        dashboard = json.loads(text("docs/operations/grafana.json"))
        panels = dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        self.assertGreaterEqual(len(panels), 9)
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
        self.assertEqual(len(places), len(panels))
        for panel in panels:
            self.assertTrue(panel["title"] and panel["description"])
            for target in panel["targets"]:
                self.known(target["expr"].replace("$__rate_interval", "5m"))
                for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                    self.assertRegex(target["expr"], rf"by \([^)]*\b{label}\b")
        [jobs] = [variable for variable in dashboard["templating"]["list"] if variable["name"] == "job"]
        self.assertIn(re.search(r"label_values\((\w+),", jobs["query"]["query"])[1], self.samples)

    def test_the_alerts_ask_for_what_is_served(self):
        [group] = yaml.safe_load(text("docs/operations/alerts.yml"))["groups"]
        for rule in group["rules"]:
            self.known(rule["expr"])
            self.assertEqual({"summary", "description", "runbook_url"}, rule["annotations"].keys())
            page = rule["annotations"]["runbook_url"]
            self.assertEqual(page, f"https://quorlock.example/operations/runbooks/{rule['alert']}/")
            for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
                self.assertRegex(rule["expr"], rf"by \([^)]*\b{label}\b")
        # The page lists all of them.
        self.assertEqual(re.findall(r"^\| `(Quorlock\w+)` \|", PAGE, re.MULTILINE), [rule["alert"] for rule in group["rules"]])


class Programs(unittest.TestCase):
    """The programs of the page serve the text, each on a port of its own."""

    def serves(self, command, port):
        process = subprocess.Popen(command, cwd=ROOT / "node", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            for _ in range(500):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4")
                        found = [family.name for family in text_string_to_metric_families(answer.read().decode())]
                    self.assertIn("quorlock_held", found)
                    return
                except OSError:
                    self.assertIsNone(process.poll(), "it has ended")
                    time.sleep(0.02)
            self.fail("it serves nothing")
        finally:
            process.kill()
            process.communicate()

    def program(self, language):
        [body] = (block for block in blocks(PAGE, language) if "9464" in block and "first = " not in block)
        with Stage(1) as stage:
            port = stage.port(1)
        # A port that was free a moment ago.
        return body.replace("9464", str(port)), port

    def test_python(self):
        body, port = self.program("python")
        self.serves([sys.executable, "-c", body + "\ninput()"], port)

    def test_node(self):
        body, port = self.program("js")
        self.serves(["node", "--input-type=module", "-e", body], port)


class Traces(unittest.TestCase):
    """docs/operations/tracing.md: its programs make spans. Its names: tests/options/vocabulary.py."""

    page = text("docs/operations/tracing.md")

    def makes_a_span(self, command, folder):
        environment = {**os.environ, "QUORLOCK_NODES": "memory://traces"}
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("acquire orders", "quorlock.fence", "won"):
            self.assertIn(word, done.stdout)

    def test_python(self):
        [body] = blocks(self.page, "python")
        self.makes_a_span([sys.executable, "-c", body], ROOT)

    def test_node(self):
        [body] = blocks(self.page, "js")
        with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
            modules = pathlib.Path(folder) / "node_modules"
            modules.mkdir()
            (modules / "quorlock").symlink_to(ROOT / "node")
            (modules / "@opentelemetry").symlink_to(ROOT / "tests" / "node" / "node_modules" / "@opentelemetry")
            self.makes_a_span(["node", "--input-type=module", "-e", body], folder)


class Workers(unittest.TestCase):
    """The recipes for several workers: each port has the counters of one, which add up, and a worker that is killed is replaced there."""

    APP = """
import os

from quorlock import redlock


def app(environ, start_response):
    with redlock("page"):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(os.getpid()).encode()]
"""
    SERVICE = """
import { createServer } from "node:http";
import { redlock } from "quorlock";

createServer((_request, response) => redlock("page", () => response.end(String(process.pid)))).listen(PORT, "127.0.0.1");
"""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=ROOT / "target")))
        self.stage = self.enterContext(Stage(1))

    @staticmethod
    def free(count):
        """The first of so many ports in a row that nobody has."""
        for first in range(21_000 + os.getpid() % 5_000, 32_000, count):
            with contextlib.ExitStack() as stack:
                with contextlib.suppress(OSError):
                    for port in range(first, first + count):
                        stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                    return first
        raise AssertionError("no port is free")

    def put(self, file, first):
        [body] = re.findall(rf"<!-- block: file={re.escape(file)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
        (self.folder / file).write_text(body.replace("first = 9464", f"first = {first}"))

    @staticmethod
    def get(port):
        """What is served there, once something is."""
        limit = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as reply:
                    return reply.read().decode()
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.05)

    def won(self, first):
        """How many locks were won, by the port of the worker."""
        texts = [self.get(first + place) for place in range(3)]
        return [int(float(re.search(r'quorlock_acquires_total\{outcome="won"\} (\S+)', text)[1])) for text in texts]

    def serves(self, first, *command):
        environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.stage.urls())}
        running = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            self.won(first)
            pids = [self.get(first + 3) for _ in range(20)]
            before = self.won(first)
            served = collections.Counter(pids)
            self.assertEqual(sorted(filter(None, before)), sorted(served.values()))
            gone, lost = served.most_common(1)[0]
            os.kill(int(gone), signal.SIGKILL)
            limit = time.monotonic() + 60
            while sum(after := self.won(first)) != 20 - lost:
                self.assertLess(time.monotonic(), limit, (before, after))
            self.assertEqual(after.count(0), before.count(0) + 1)
        finally:
            running.terminate()
            running.wait()

    def test_gunicorn(self):
        first = self.free(4)
        self.put("gunicorn.conf.py", first)
        (self.folder / "app.py").write_text(self.APP)
        self.serves(first, sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{first + 3}", "app:app")

    def test_cluster(self):
        first = self.free(4)
        self.put("cluster.mjs", first)
        (self.folder / "service.mjs").write_text(self.SERVICE.replace("PORT", str(first + 3)))
        (self.folder / "node_modules").mkdir()
        (self.folder / "node_modules" / "quorlock").symlink_to(ROOT / "node")
        self.serves(first, "node", "cluster.mjs")


if __name__ == "__main__":
    unittest.main()
