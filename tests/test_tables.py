#!/usr/bin/env python3
"""The tables of docs/FEATURES.md and tests/PAINS.md name tests that exist, all 37 pains are listed, no cell is empty, and
every scenario runner of tests/run.py runs the same files.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

import run  # noqa: E402

PLACES = {
    "rust": ["rust/tests/*.rs"],
    "py": ["python/test_*.py"],
    "node": ["node/*.test.mjs", "consumers/*.test.mjs"],
    "c": ["c/test.c", "c/run.py"],
    "cpp": ["cpp/test.cpp"],
}
TEXT = {place: "\n".join(path.read_text() for glob in globs for path in TESTS.glob(glob)) for place, globs in PLACES.items()}
SCENARIOS = {path.stem for path in (TESTS / "scenarios").glob("*.scenario")}


def rows(path):
    lines = path.read_text().splitlines()
    table = [line for line in lines if line.startswith("|") and not re.match(r"^\|[-|]+\|$", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


class Tables(unittest.TestCase):
    def test_every_feature_has_a_test_in_every_language(self):
        head, *features = rows(ROOT / "docs" / "FEATURES.md")
        self.assertGreater(len(features), 20)
        for feature, *cells in features:
            self.assertEqual(len(cells), len(head) - 1, feature)
            for language, cell in zip(head[1:], cells):
                place, dot, name = cell.partition(".")
                found = name in TEXT[place] if dot else cell in SCENARIOS
                self.assertTrue(cell and found, f"{feature}, {language}: no test {cell!r}")

    def test_all_pains_are_listed_with_a_test_that_exists(self):
        _, *pains = rows(TESTS / "PAINS.md")
        self.assertEqual([int(number) for number, *_ in pains], list(range(1, 38)))
        core = [path.read_text() for path in (ROOT / "core" / "src").rglob("*.rs")]
        everything = "\n".join([*TEXT.values(), *core])
        for number, pain, tests in pains:
            names = re.findall(r"`([^`]+)`", tests)
            self.assertTrue(names, f"{number}: {pain}")
            for name in names:
                if "/" in name and ": " not in name or name == "int32_t":
                    continue
                last = name.split(": ")[-1].split("::")[-1].split(".")[-1].strip("…* ")
                self.assertTrue(not last or last in everything or last in SCENARIOS, f"{number}: no test {name!r}")

    def test_all_runners_run_all_scenarios(self):
        runners = [step for step in run.STEPS if step.name.startswith("scenarios-")]
        self.assertEqual(len(runners), 7, [step.name for step in runners])
        for step in runners:
            self.assertIn("tests/scenarios/drive.py", step.command)
            self.assertNotIn("-k", step.command, "no runner may choose its files")
            self.assertEqual(step.floor, len(SCENARIOS), f"{step.name} must run every file")


if __name__ == "__main__":
    unittest.main()
