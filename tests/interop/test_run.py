#!/usr/bin/env python3
"""Tests of the matrix itself: a check that passes what does not exclude would make the table worthless."""

import contextlib
import dataclasses
import io
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import checks  # noqa: E402
import libraries  # noqa: E402
import pages  # noqa: E402
import rows  # noqa: E402
import run  # noqa: E402
from stage import Stage  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Own(rows.Row):
    """A row with a command of its own."""

    words: tuple = ()

    def command(self):
        return [sys.executable, *self.words]


NOBODY = Own("nobody", "python", "nobody", "redis", words=(str(HERE / "python" / "theirs.py"), "nobody"))


def report(*words):
    """What `run.report` returns and prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        counts = run.report(*words)
    return counts, said.getvalue()

# It asks for the key, and takes whatever it is told.
CARELESS = """import socket
import urllib.parse

at = urllib.parse.urlsplit("redis://10.0.0.9")
server = socket.create_connection((at.hostname, at.port))
server.sendall(b"GET orders:42\\r\\n")
server.recv(100)
print("charged")
"""


class Pages(unittest.TestCase):
    def test_programs_that_lock_nothing_are_found_inside_together(self):
        pair = pages.Pair("careless", "", "python", "", "", 1, kind="here")
        with Stage(1) as stage, unittest.mock.patch.object(pages, "shown", lambda *_: CARELESS), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(pages.run(pair, stage), 2)
        self.assertIn("inside in this order: in old, in new, ", said.getvalue())
        self.assertIn("inside in this order: in new, in old, ", said.getvalue())

    def test_extend_adds_in_redis_py_and_is_from_now_in_quorlock(self):
        import quorlock
        import redis

        with Stage(1) as stage, redis.Redis.from_url(stage.urls()[0]) as server, quorlock.Client(stage.urls(), raw=True) as client:
            old = server.lock("old", timeout=20)
            old.acquire()
            old.extend(20)
            self.assertGreater(server.pttl("old"), 20_000)
            old.extend(5, replace_ttl=True)
            self.assertLessEqual(server.pttl("old"), 5_000)
            new = client.lock("new", ttl=20, renew=False).acquire()
            new.extend(20)
            self.assertLessEqual(new.remaining(), 20)
            new.extend(new.remaining() + 20)
            self.assertGreater(new.remaining(), 20)
            new.extend(5)
            self.assertGreater(new.remaining(), 5)


class Checks(unittest.TestCase):
    def ran(self, row):
        with tempfile.TemporaryDirectory() as folder, Stage(3) as stage:
            return checks.run(row, stage, folder)

    def test_what_excludes_nobody_fails_every_check_and_loses_updates(self):
        wrong, figures = self.ran(NOBODY)
        self.assertEqual(set(wrong), set(checks.checks(NOBODY)), "a check passes a lock that is none")
        self.assertRegex(wrong["both count"], r"^[1-9]\d* lost updates of 800, 800 written")
        self.assertEqual(wrong["version"], f"version 0, and {NOBODY.version()} is pinned")
        # Each by what it looks for: nobody is told `refused`, and nothing waits.
        extended = {f"extended, while {who}-1 holds the lock" for who in ("ours", "theirs")}
        said = {words.split(": ", 1)[1] for name, words in wrong.items() if name not in ("version", "both count")}
        self.assertLessEqual(said, {"held, and not refused", "held, and not waiting"} | extended)
        (passed, failed), said = report(NOBODY, wrong, figures)
        self.assertEqual((passed, failed), (0, len(checks.checks(NOBODY))))
        self.assertIn("FAIL nobody", said)

    def test_an_adapter_that_does_not_start_fails_every_check(self):
        row = Own("gone", "python", "gone", "redis", words=("-c", "import sys; sys.exit('no such library')"))
        wrong, _ = self.ran(row)
        self.assertEqual(set(wrong), set(checks.checks(row)))
        self.assertEqual({words.rpartition(": ")[2] for words in wrong.values()}, {"no such library"})

    def test_an_error_of_a_library_is_no_refusal(self):
        words = 'print("ready 8.1.0", flush=True)\nfor line in __import__("sys").stdin: print("failed: no route", flush=True)'
        row = Own("broken", "python", "broken", "redis", nodes=1, words=("-c", words))
        wrong, _ = self.ran(row)
        self.assertEqual(set(wrong), set(checks.checks(row)) - {"version"})
        self.assertEqual({words.partition(": ")[2] for words in wrong.values()}, {"no route"})


class Missing(unittest.TestCase):
    def test_a_library_that_cannot_be_had_has_failed_all_of_its_checks(self):
        row = rows.ROWS[0]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(run.run([row], {row.group: "the registry has none"}), (0, len(checks.checks(row)), {}))
        self.assertIn("all: the registry has none", said.getvalue())

    def test_what_fails_to_come_is_told_by_group(self):
        def fails():
            raise RuntimeError("pip install: no such version")

        before, libraries.python = libraries.python, fails
        try:
            self.assertEqual(libraries.get(["python"]), {"python": "pip install: no such version"})
        finally:
            libraries.python = before


class Counter(unittest.TestCase):
    def test_a_number_that_comes_twice_is_a_lost_update(self):
        with tempfile.NamedTemporaryFile("w", suffix=".counter") as file:
            file.write("1 ours-1\n2 theirs-1\n2 ours-2\n3 theirs-2\n")
            file.flush()
            self.assertEqual(checks.counted(file.name), ([1, 2, 2, 3], ["ours", "theirs", "ours", "theirs"]))


class Page(unittest.TestCase):
    """docs/migrate/side-by-side.md says which versions the matrix runs."""

    def setUp(self):
        self.page = rows.PAGE.read_text()

    def test_it_names_the_versions_that_are_pinned_and_what_each_showed(self):
        self.assertEqual(rows.wrong(self.page), [])
        for client, group, package in [("redis-py", "python", "redis"), ("ioredis", "node", "ioredis"),
                                       ("go-redis", "go", "github.com/redis/go-redis/v9")]:
            self.assertRegex(self.page, rf"on {client} {re.escape(rows.PINS[group](package))}[,.]")

    def test_a_version_that_differs_is_told(self):
        line = f"{rows.ROWS[0].name!r} says"
        wrong = rows.wrong(self.page.replace("| PyPI | 1.0.8 |", "| PyPI | 1.0.7 |"))
        self.assertEqual([words[:len(line)] for words in wrong], [line])

    def test_a_row_that_is_missing_or_too_many_is_told(self):
        lines = [line for line in self.page.splitlines() if not line.startswith("| redsync/v4 |")]
        self.assertEqual(rows.wrong("\n".join(lines)), ["no row 'redsync/v4'"])
        self.assertEqual(rows.wrong(self.page + "| other | Go | 1 | `NAME` | 3 | 2026-01-01 | 1 s | 1 s | 1 | 1 |\n"),
                         ["'other' is no row of the matrix"])

    def test_a_note_that_is_missing_is_told(self):
        noted = [row for row in rows.ROWS if row.note]
        self.assertGreater(len(noted), 3)
        for row in noted:
            wrong = rows.wrong(" ".join(self.page.split(" ")).replace(row.note.split()[-1], "…"))
            self.assertTrue([words for words in wrong if words.startswith(f"{row.name!r} has a note")], row.name)

    def test_a_row_that_never_ran_is_told(self):
        text = rows.rewrite(self.page, {"rslock": [""] * 5})
        self.assertEqual(len(rows.wrong(text)), 1)
        self.assertIn("'rslock' does not say when it ran", rows.wrong(text)[0])

    def test_what_ran_is_entered_and_the_rest_stays(self):
        ran = ["2030-01-02", "1 s", "2 s", "800 of 800", "7"]
        text = rows.rewrite(self.page, {"rslock": ran})
        self.assertEqual(rows.of_page(text).pop("rslock")[4:], ran)
        self.assertEqual(rows.wrong(text), [])
        before, after = self.page.splitlines(), text.splitlines()
        self.assertEqual([line for line in after if not line.startswith("| rslock")],
                         [line for line in before if not line.startswith("| rslock")])


if __name__ == "__main__":
    unittest.main()
