#!/usr/bin/env python3
"""What `mutation.py` makes of the changes that survive, and the crate that it has them made in."""

import collections
import pathlib
import tempfile
import unittest
import unittest.mock

import house
import mutation

SURVIVES = "src/protocol/quorum.rs:7:9: replace > with >= in kind"
SEEN = ["src/protocol/quorum.rs:7:20: replace == with != in kind"] * 3


class Mutation(unittest.TestCase):
    def judged(self, missed, alive="", floor=1):
        return mutation.judge(missed, SEEN, mutation.listed(alive), floor)

    def test_all_that_is_seen_passes(self):
        self.assertEqual(self.judged([]), ([], 3))

    def test_what_survives_fails_until_it_has_a_reason(self):
        self.assertEqual(self.judged([SURVIVES]), ([f"survives: {SURVIVES}"], 3))
        reason = "# Why.\n\nprotocol/quorum.rs: replace > with >= in kind | It is never equal.\n"
        self.assertEqual(self.judged([SURVIVES], reason), ([], 4))
        # Another of that name, elsewhere in the function.
        self.assertEqual(len(self.judged([SURVIVES, SURVIVES.replace(":7:", ":8:")], reason)[0]), 2)
        self.assertEqual(self.judged([SURVIVES, SURVIVES.replace(":7:", ":8:")], 2 * reason), ([], 5))
        with self.assertRaisesRegex(ValueError, "no reason for: protocol/quorum.rs"):
            self.judged([SURVIVES], reason.split(" | ")[0])

    def test_a_reason_without_its_change_fails(self):
        wrong, _ = self.judged([], "protocol/quorum.rs: replace > with >= in kind | It is never equal.")
        self.assertEqual(wrong, ["mutation-alive.txt has what does not survive: protocol/quorum.rs: replace > with >= in kind"])

    def test_too_few_changes_fail(self):
        self.assertEqual(self.judged([], floor=4)[0], ["only 3 changes, at least 4 there must be"])

    def test_each_reason_is_of_a_file_that_is_changed(self):
        alive = mutation.listed(mutation.ALIVE.read_text())
        self.assertEqual({line.split(": ")[0] for line in alive} - set(mutation.FILES), set())

    def test_the_crate_has_what_decides_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(mutation, "CRATE", pathlib.Path(folder)):
            mutation.make()
            mutation.make()
            made = {path.relative_to(folder).parts[1:] for path in pathlib.Path(folder).rglob("*.rs")}
            for name in mutation.FILES:
                self.assertEqual((pathlib.Path(folder) / "src" / name).read_text(), (house.CORE / name).read_text())
        tops = collections.Counter(words[0].removesuffix(".rs") for words in made)
        self.assertEqual(set(tops), house.GROUND | {"lib", "node", "protocol"})
        self.assertFalse([words for words in made if words[:2] in {("node", "redis"), ("node", "cluster")}])


if __name__ == "__main__":
    unittest.main()
