"""README.md can be read in a minute, and what it and the pages behind it tell a new user to type does what they say, as it stands."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import programs
from programs import ROOT, blocks, section, text

import pictures  # noqa: E402
from stage import Stage  # noqa: E402

SECTIONS = ["Why not the lock that you have", "Install", "A first lock", "What is promised", "What do you want to do?"]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:srcset|src)=\"([^\"]+)\"")
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


def targets(words):
    """The links and pictures of a text, each a path of this project and a place in that file, or nothing."""
    for found in LINK.finditer(words):
        path, _, place = (found[1] or found[2]).partition("#")
        yield path, place


def places(page):
    """The headings of a page as links name them."""
    for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


class Minute(unittest.TestCase):
    """What a reader gets who gives the page a minute."""

    def setUp(self):
        self.page = text("README.md")
        self.seen = re.sub(r"<!--.*?-->", "", self.page, flags=re.DOTALL)

    def test_it_is_short(self):
        self.assertLessEqual(len(self.page.split()), 1_100)

    def test_its_order_is_why_install_use(self):
        title, sentence, picture, *_ = re.split(r"\n\n+", self.page)
        self.assertEqual(title, "# Quorlock")
        self.assertEqual(sentence.count("."), 1, "one sentence says what it is")
        self.assertTrue(picture.startswith("<picture>"))
        self.assertEqual(re.findall(r"^## (.*)$", self.page, re.MULTILINE), SECTIONS)

    def test_the_picture_is_there_light_and_dark(self):
        for scheme in ("dark", "light"):
            self.assertIn(f'<source media="(prefers-color-scheme: {scheme})" srcset="docs/images/benefit-{scheme}.svg">', self.page)

    def test_it_says_once_at_install_that_it_is_not_released(self):
        self.assertEqual(len(re.findall(r"not\s+released", self.page)), 1)
        self.assertRegex(section("README.md", "Install"), r"not\s+released")

    def test_every_link_leads_somewhere(self):
        found = list(targets(self.page))
        self.assertGreater(len(found), 40)
        for path, place in found:
            self.assertNotIn(":", path, "what is linked is here")
            self.assertTrue((ROOT / path).is_file(), path)
            if place:
                self.assertIn(place, list(places(text(path))), path)

    def test_each_reason_has_a_number_or_a_test_and_every_number_stands_where_it_leads(self):
        reasons = re.split(r"^- ", section("README.md", "Why not the lock that you have"), flags=re.MULTILINE)[1:]
        self.assertEqual(len(reasons), 5)
        # Before them are the picture, in its words, and what was the same for all.
        for words in (self.seen.partition("</picture>")[2].partition("\n## ")[0], *reasons):
            found = {path for path, _ in targets(words)}
            self.assertTrue(found, words)
            led = "\n".join(text(path) for path in found)
            for number in NUMBER.findall(LINK.sub("]", words)):
                stands = re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", led)
                self.assertTrue(stands, f"{number} is on no page that is linked beside it: {words}")

    def test_the_figures_beside_the_picture_are_those_of_its_runs(self):
        found, words = pictures.contended(), " ".join(self.page.split())
        peers = [peer for rows in pictures.WAITED.values() for _, peer in rows]
        held = sorted(int(found[peer]["holds/s"]) for peer in peers)
        self.assertIn(f"the lock was held [{held[0]} to {held[-1]} times a second]", words)
        hands = [found[peer]["hand-offs/s"] for peer in ("py:redis-py", "js:redlock5", "py:quorlock", "js:quorlock")]
        self.assertIn("[{} and {} times a second, Quorlock's {} and {} times]".format(*hands), words)
        alt = re.search(r'alt="([^"]*)"', self.page)[1]
        self.assertIn("{} ms with Quorlock in Python, {} ms in Node".format(
            *(found[peer]["longest wait ms"] for peer in ("py:quorlock", "js:quorlock"))), alt)


class FirstLock(unittest.TestCase):
    """The first lock of README.md, and of the page that it leads to, by one server and by none."""

    @classmethod
    def setUpClass(cls):
        cls.first = programs.first_locks()
        cls.stage = cls.enterClassContext(Stage(1))
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def run_it(self, language, command, nodes):
        environment = dict(os.environ, QUORLOCK_NODES=nodes)
        done = subprocess.run(command, cwd=ROOT / "node", env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, programs.HELD[language])

    def with_a_server_and_without(self, language, command):
        for nodes in (self.stage.urls()[0], "memory://try"):
            self.run_it(language, command, nodes)

    def test_python(self):
        self.with_a_server_and_without("python", programs.python(self.first["python"]))

    def test_node(self):
        self.with_a_server_and_without("js", programs.node(self.first["js"]))

    def test_rust(self):
        self.with_a_server_and_without("rust", programs.rust(self.folder, readme=self.first["rust"])["readme"])

    def test_c(self):
        self.with_a_server_and_without("c", programs.c(self.folder, self.first["c"]))

    def test_nodes_given_where_the_text_says(self):
        given = {"python": self.first["python"].replace('redlock("orders:42")', 'redlock("orders:42", nodes=["memory://try"])'),
                 "js": self.first["js"].replace('redlock("tutorial", ', 'redlock("tutorial", { nodes: "memory://try" }, '),
                 "rust": self.first["rust"].replace("Client::from_env()", 'Client::new(["memory://try"])')}
        for language, program in given.items():
            self.assertNotEqual(program, self.first[language])
        commands = {"python": programs.python(given["python"]), "js": programs.node(given["js"]),
                    "rust": programs.rust(self.folder, given=given["rust"])["given"]}
        for language, command in commands.items():
            self.run_it(language, command, "redis://127.0.0.1:1")


class Signals(unittest.TestCase):
    def test_sigterm_releases_with_the_line_of_the_readme(self):
        [line] = [block for block in blocks(text("py/README.md"), "python") if "SIGTERM" in block]
        program = f"import signal, sys, time, quorlock\n{line}\n" + """
with quorlock.redlock("ends", ttl=60):
    print("held", flush=True)
    while True:
        time.sleep(0.1)
"""
        with Stage(1) as stage:
            environment = dict(os.environ, QUORLOCK_NODES=stage.urls()[0])
            child = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(child.stdout.close)
            self.addCleanup(child.kill)
            self.assertEqual(child.stdout.readline(), "held\n")
            child.send_signal(signal.SIGTERM)
            self.assertEqual(child.wait(30), 143)
            self.assertEqual(stage.await_holders(b"lock:{ends}", 0, 5), [])


if __name__ == "__main__":
    unittest.main()
