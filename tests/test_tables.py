#!/usr/bin/env python3
"""The tables of tests/FEATURES.md, tests/PAINS.md and tests/FAULTS.md name tests that exist, all pains and all 78 faults are
listed, no cell is empty, and every scenario runner of tests/run.py runs the same files. The core's wings keep apart.
"""

import collections
import pathlib
import re
import sys
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "scenarios")]

import house  # noqa: E402
import run  # noqa: E402
import scenario  # noqa: E402
from stage.node import ACL  # noqa: E402

PLACES = {
    "rust": ["rust/tests/*.rs"],
    "py": ["python/test_*.py"],
    "node": ["node/*.test.mjs", "node/runtimes/*.test.mjs", "consumers/*.test.mjs"],
    "c": ["c/test_*.c", "c/run.py"],
    "cpp": ["cpp/test.cpp"],
    "sim": ["sim/tests/*.rs"],
    "full": ["full.py"],
    "core": ["../core/src/**/*.rs"],
    "cli": ["../core/cli/tests/*.rs", "../core/cli/src/**/*.rs"],
    "restarts": ["faults/restarts.py"],
    "faults": ["faults/test_kinds.py"],
    "failover": ["failover/judge.py"],
    "tests": ["test_*.py", "consumers/test_*.py", "peers/test_*.py", "peers/suites/*.py", "interop/test_*.py"],
}
TEXT = {place: "\n".join(path.read_text() for glob in globs for path in TESTS.glob(glob)) for place, globs in PLACES.items()}
# Of which of these the tests of a column are, and how a test of that name begins.
COLUMNS = {"Rust": "rust", "Python": "py", "asyncio": "py", "Node": "node", "C": "c", "C++": "cpp"}
BEGINS = {"rust": "fn {}(", "py": "def {}(self", "node": 'test("{}"', "c": "TEST({})", "cpp": "TEST({})"}
# Which runner of scenario files stands for which column.
RUNNERS = {"Rust": "rust", "Python": "blocking", "asyncio": "asyncio", "Node": "node-esm", "C": "c", "C++": "cpp"}
SCENARIOS = {pathlib.Path(path).stem: scenario.load(path) for path in scenario.of_runner()}
TEXT["mutant"] = "".join(f'"{path.stem}"' for path in (TESTS / "sim" / "bugs").glob("*.bug"))


def rows(path):
    lines = path.read_text().splitlines()
    # The head of a table behind the first is none of its rows.
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = [line for number, line in enumerate(lines) if line.startswith("|") and not re.match(r"^\|[-|]+\|$", line)
             and (number == first or not line.startswith("| | "))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


class Tables(unittest.TestCase):
    def test_every_feature_has_a_test_in_every_language(self):
        (_, *languages), *features = rows(TESTS / "FEATURES.md")
        self.assertGreater(len(features), 20)
        self.assertEqual(languages, list(COLUMNS))
        named = collections.Counter()
        for feature, *cells in features:
            self.assertEqual(len(cells), len(languages), feature)
            for language, cell in zip(languages, cells):
                if cell == "core":
                    runners = SCENARIOS[cells[0]].runners
                    self.assertNotIn(RUNNERS[language], runners, f"{feature}, {language}: {cells[0]} runs there, so name it")
                    continue
                place, dot, name = cell.partition(".")
                if dot:
                    self.assertEqual(place, COLUMNS[language], f"{feature}, {language}: {cell!r} shows it elsewhere")
                    self.assertTrue(BEGINS[place].format(name) in TEXT[place], f"{feature}, {language}: no test {cell!r}")
                else:
                    self.assertIn(cell, SCENARIOS, f"{feature}, {language}: no scenario {cell!r}")
                    self.assertIn(RUNNERS[language], SCENARIOS[cell].runners, f"{feature}, {language}: {cell} does not run there")
                named[language, cell] += 1
        # Else one of the two is only the nearest there is.
        self.assertEqual([each for each, times in named.items() if times > 1], [], "one test for two features")

    def test_all_pains_are_listed_with_a_test_that_exists(self):
        _, *pains = rows(TESTS / "PAINS.md")
        self.assertEqual([int(number) for number, *_ in pains], list(range(1, max(88, len(pains)) + 1)))
        everything = "\n".join(TEXT.values())
        for number, pain, tests in pains:
            names = re.findall(r"`([^`]+)`", tests)
            self.assertTrue(names, f"{number}: {pain}")
            for name in names:
                if "/" in name and ": " not in name or name == "int32_t":
                    continue
                last = name.split(": ")[-1].split("::")[-1].split(".")[-1].strip("…* ")
                self.assertTrue(not last or last in everything or last in SCENARIOS, f"{number}: no test {name!r}")

    def test_each_that_may_attack_has_a_test_that_exists(self):
        (*_, shown), *threats = rows(ROOT / "SECURITY.md")
        self.assertEqual(shown, "shown by")
        self.assertGreaterEqual(len(threats), 9)
        everything = "\n".join(TEXT.values())
        for who, can, stops, tests in threats:
            self.assertTrue(can and stops, who)
            names = re.findall(r"`([^`]+)`", tests)
            self.assertTrue(names, who)
            for name in names:
                there = (ROOT / name).is_file() if "/" in name else name in SCENARIOS or re.search(rf"\b{name}\(", everything)
                self.assertTrue(there, f"{who}: no test {name!r}")

    def test_all_faults_are_listed_with_a_test_that_exists_or_a_reason(self):
        _, *faults = rows(TESTS / "FAULTS.md")
        self.assertEqual([int(number) for number, *_ in faults], list(range(1, 79)))
        for number, fault, tests in faults:
            # Options, constants and files are no tests.
            names = [name for name in re.findall(r"`([^`]+)`", tests) if not re.fullmatch(r"--.*|[A-Z_]+|.*\.py", name)]
            self.assertTrue(names or tests.startswith(("With ", "Not: ")), f"{number}: {fault}")
            for name in names:
                place, dot, test = name.partition(".")
                # A kind of fault, an experiment or a seeded bug stands in quotes there: no part of a word will do.
                wanted = f'"{test}"' if place in ("faults", "restarts", "failover", "mutant") else test
                found = wanted in TEXT.get(place, "") if dot else name in SCENARIOS
                self.assertTrue(found, f"{number}: no test {name!r}")

    def test_all_runners_run_all_scenarios_that_are_for_them(self):
        runners = [step for step in run.STEPS if step.name.startswith("scenarios-")]
        self.assertEqual({step.name.removeprefix("scenarios-") for step in runners}, set(scenario.RUNNERS))
        for step in runners:
            name = step.name.removeprefix("scenarios-")
            self.assertIn("tests/scenarios/drive.py", step.command)
            self.assertEqual(step.command[step.command.index("--runner") + 1], name)
            self.assertNotIn("-k", step.command, "no runner may choose its files")
            self.assertEqual(step.floor, sum(name in each.runners for each in SCENARIOS.values()), f"{name} must run every file")

    def test_only_what_is_about_servers_is_for_some_runners(self):
        few = {name for name, each in SCENARIOS.items() if each.runners != scenario.RUNNERS}
        self.assertGreater(len(few), 5)
        self.assertEqual([name for name in few if not name.startswith(("set-", "tls-", "sentinel-", "cluster-"))], [])
        self.assertEqual([name for name in few if "rust" not in SCENARIOS[name].runners], [])

    def test_each_step_stands_in_one_tier(self):
        names = [step.name for step in run.STEPS]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_all_scenarios_run_as_the_documented_user(self):
        [step] = [step for step in run.STEPS if step.name == "auth"]
        self.assertIn("--auth", step.command)
        self.assertNotIn("-k", step.command)
        self.assertEqual(step.floor, len(SCENARIOS))
        page = (ROOT / "docs" / "reference/protocol.md").read_text()
        self.assertIn(f"\nACL SETUSER quorlock on >PASSWORD {ACL}\n", page)


def named(text):
    """The files of docs that a text names."""
    return re.findall(r"(?<![\w./-])(?:\.\./)*(docs/[\w./-]+\.(?:md|yml|json|svg|css|txt))", text)


class Pages(unittest.TestCase):
    def test_every_file_of_docs_that_is_named_anywhere_is_there(self):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
        gone = []
        for name in set(listed) - {"tests/test_tables.py"}:
            try:
                text = (ROOT / name).read_text()
            except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
                continue
            # PAGE stands for any.
            pages = [page for page in named(text) if pathlib.Path(page).stem != "PAGE"]
            gone += [f"{name}: {page}" for page in pages if not (ROOT / page).exists()]
        self.assertEqual(gone, [])

    def test_a_name_of_no_page_is_found(self):
        pages = ["docs/none.md", "docs/how-to/none.md"]
        self.assertEqual(named(f"see {pages[0]}, `{pages[1]}` and [this](../../{pages[0]}#place)"), [*pages, pages[0]])

    def test_names_of_pages_are_plain(self):
        for page in (ROOT / "docs").rglob("*.md"):
            # The page of an alert has its name.
            self.assertRegex(page.stem, r"^([a-z0-9]+(-[a-z0-9]+)*|Quorlock[A-Za-z]+)$")


class House(unittest.TestCase):
    """The rules of CONTRIBUTING.md about who imports whom, in the core."""

    def test_no_file_imports_from_a_wing_above_its_own(self):
        arrows = house.imports()
        self.assertGreater(sum(map(len, arrows.values())), 300)
        self.assertEqual({house.wing(here) for here in arrows} - set(house.WINGS), set())
        self.assertEqual(list(house.upward(arrows)), [])

    def test_no_files_import_each_other_in_a_ring(self):
        self.assertEqual(house.circles(house.imports()), [])

    def planted(self, file, line):
        """What the two rules say once the line stands in the file."""
        with tempfile.TemporaryDirectory() as folder:
            core = pathlib.Path(folder) / "src"
            shutil.copytree(house.CORE, core)
            path = core / file
            text = path.read_text()
            path.write_text(text.replace("\nuse ", f"\n{line}\nuse ", 1))
            arrows = house.imports(core)
            return list(house.upward(arrows)), house.circles(arrows)

    def test_no_two_types_of_the_core_have_one_name(self):
        """Beside those that are listed in house.py, a list that gets shorter only."""
        self.assertEqual(house.twice() - house.NAMED_TWICE, set())

    def test_an_import_that_is_planted_is_found(self):
        for file, line, found in [
            ("protocol/quorum.rs", "use crate::client::Client;", "protocol::quorum imports client"),
            ("protocol/hold.rs", "use crate::node::redis::wire::Wire;", "protocol::hold imports node::redis::wire"),
            ("protocol/set.rs", "use crate::{config::Settings, token::Token};", "protocol::set imports config"),
            ("runtime/mod.rs", "use crate::node::memory;", "runtime imports node::memory"),
            ("node/time.rs", "use crate::protocol::quorum::Vote;", "node::time imports protocol::quorum"),
            ("clock.rs", "use crate::node::Fault;", "clock imports node::fault"),
        ]:
            self.assertIn(found, self.planted(file, line)[0])

    def test_no_static_can_be_copied_half_made(self):
        self.assertEqual(list(house.half_made()), [])

    def test_a_static_that_can_is_found(self):
        for line in ("static A: Lazy<String> = Lazy::new(String::new);", "    pub static A: std::sync::OnceLock<u8> = OnceLock::new();",
                     "pub(crate) static A: Mutex<Vec<u8>> = Mutex::new(Vec::new());", "static A: Once = Once::new();"):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "core" / "src" / "a.rs"
                path.parent.mkdir(parents=True)
                path.write_text(line + "\nstatic B: Made<Mutex<u8>> = Made::new(Mutex::default);\nstatic C: OnceBox<u8> = OnceBox::new();\n")
                self.assertEqual(list(house.half_made(pathlib.Path(folder))), ["core/src/a.rs: A"])

    def test_a_ring_that_is_planted_is_found(self):
        _, ring = self.planted("protocol/quorum.rs", "use super::fence::Fence;")
        self.assertTrue({"protocol::quorum", "protocol::fence"} <= set(ring), ring)


if __name__ == "__main__":
    unittest.main()
