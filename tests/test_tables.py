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
sys.path.append(str(TESTS / "docs"))

import house  # noqa: E402
import record  # noqa: E402
import run  # noqa: E402
import scenario  # noqa: E402
from stage.node import ACL  # noqa: E402

# Last, for its folder has a `run` of its own.
import map as sketch  # noqa: E402

PLACES = {
    "rust": ["rust/tests/*.rs", "rust/tests/*/*.rs"],
    "py": ["python/test_*.py"],
    "node": ["node/*.test.mjs", "node/runtimes/*.test.mjs", "consumers/*.test.mjs"],
    "c": ["c/test_*.c", "c/run.py", "c/installed.py"],
    "cpp": ["cpp/test_*.cpp"],
    "sim": ["sim/tests/*.rs", "sim/tests/native/*.rs"],
    "full": ["full.py"],
    "core": ["../core/src/**/*.rs"],
    "cli": ["../core/cli/tests/*.rs", "../core/cli/src/**/*.rs"],
    "restarts": ["chaos/restarts.py"],
    "faults": ["chaos/test_kinds.py"],
    "failover": ["chaos/failover.py"],
    "tests": ["test_*.py", "consumers/test_*.py", "peers/test_*.py", "peers/suites/*.py", "interop/test_*.py"],
}
TEXT = {place: "\n".join(path.read_text() for glob in globs for path in TESTS.glob(glob)) for place, globs in PLACES.items()}
# Of which of these the tests of a column are, and how a test of that name begins.
COLUMNS = {"Rust": "rust", "Python": "py", "asyncio": "py", "Node": "node", "C": "c", "C++": "cpp"}
BEGINS = {"rust": "fn {}(", "py": "def {}(self", "node": 'test("{}"', "c": "TEST({})", "cpp": "TEST({})"}
# Which runner of scenario files stands for which column.
RUNNERS = {"Rust": "rust", "Python": "blocking", "asyncio": "asyncio", "Node": "node-esm", "C": "c", "C++": "cpp"}
SCENARIOS = {pathlib.Path(path).stem: scenario.load(path) for path in scenario.of_runner()}
# The modules that tests stand in, by the names of their files and folders.
FILES = {part.removesuffix(path.suffix) for globs in PLACES.values() for glob in globs for path in TESTS.glob(glob) for part in path.parts}
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
                *before, last = re.split(r"::|\.|: ", name)
                last = last.strip("…* ")
                if not last and name.endswith("*"):
                    # All tests of a module or a class, which is there by that name.
                    gone = [each for each in before if each not in FILES and not re.search(rf"\b(class|mod) {each}\b", everything)]
                    self.assertTrue(before and not gone, f"{number}: no {gone} of {name!r}")
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


class OwnBugs(unittest.TestCase):
    """docs/explanation/own-bugs.md."""

    PAINS = len(rows(TESTS / "PAINS.md")) - 1

    def wrong(self, **cells):
        row = {"number": "–", "what": "A call hung.", "found": "report", "shown": "`make sim MUTANT=winner-stays-queued`", "since": "2026-11-22 `51dac260`"}
        return [said.partition(": ")[2] for said in record.wrong(list((row | cells).values()), self.PAINS)]

    def test_each_bug_has_a_command_that_is_there_and_a_commit_of_its_day(self):
        bugs = record.rows(record.PAGE.read_text())
        self.assertGreaterEqual(len(bugs), 60)
        self.assertEqual([said for row in bugs for said in record.wrong(row, self.PAINS)], [])
        commands = [row[3] for row in bugs]
        self.assertLess(len(commands) - len(set(commands)), 2, "one command for several bugs")

    def test_a_row_that_is_wrong_is_found(self):
        self.assertEqual(self.wrong(), [])
        for cells in [
            {"number": "37"}, {"number": str(self.PAINS + 1)}, {"number": "none"}, {"what": "No sentence"}, {"found": ""}, {"since": "not recorded"},
            {"since": "2026-11-23 `51dac260`"}, {"since": "2026-11-22 `00000000`"}, {"since": "2026-11-22 `51dac260`, `00000000`"},
        ]:
            self.assertEqual(len(self.wrong(**cells)), 1, cells)

    def test_a_command_that_runs_nothing_is_found(self):
        for command in [
            "cargo test -p quorlock --lib no_such_test", "cargo test -p quorlock-tests --test founding no_such_test", "cargo test -p quorlock-tests --test none a_set_that_grows_is_refused",
            "cargo test -p none --test founding a_set_that_grows_is_refused", "cargo test -p quorlock-sim --lib a_set_that_grows_is_refused", "make sim MUTANT=none",
            "make sim BYTES=1 MUTANT=winner-stays-queued", "make sim MUTANT=arriving-slots-unmarked", "make sim MUTANT=raw-has-readers", "make sim SEED=1 MUTANT=winner-stays-queued",
            "make sim MUTANT=adopted-though-lost", ".venv/bin/python tests/python/test_none.py", ".venv/bin/python tests/python/test_once.py",
            ".venv/bin/python tests/python/test_errors.py Secrets.test_none", "node --test tests/node/none.test.mjs", "tests/c/run.py test-none", "tests/fuzz/fuzz.py none",
            "target/release/quorlock-model none", "tests/scenarios/drive.py -k none target/release/scenario",
        ]:
            self.assertEqual(self.wrong(shown=f"`{command}`"), [f"nothing is there for {command!r}"])
        for command in ["true", "cargo test"]:
            self.assertEqual(self.wrong(shown=f"`{command}`"), [f"no command of this page: {command!r}"])
        for command in [".venv/bin/python tests/python/test_semaphore.py", "node --test tests/node/owners.test.mjs", "tests/c/run.py test-c", "tests/fuzz/fuzz.py maps"]:
            self.assertEqual(self.wrong(shown=f"`{command}` (`test_none`)"), [f"no test 'test_none' behind {command!r}"])


class Words(unittest.TestCase):
    def test_the_words_are_those_of_the_code(self):
        page = (ROOT / "docs" / "explanation" / "words.md").read_text()
        words = re.findall(r"^\| \*\*([a-z ]+)\*\* \| [A-Z].*\. \|$", page, re.M)
        self.assertEqual(len(words), len(re.findall(r"^\| \*\*", page, re.M)), "each has its sentence")
        self.assertGreater(len(words), 25)
        self.assertEqual(sorted(words), sorted(set(words)))
        core = "\n".join(path.read_text() for path in house.CORE.rglob("*.rs")).lower()
        gone = [word for word in words if not all(re.search(rf"\b{part}s?\b", core) for part in word.split())]
        self.assertEqual(gone, [], "words that the core does not use")


class Map(unittest.TestCase):
    """The map in CONTRIBUTING.md."""

    def test_a_file_that_does_not_say_what_it_is_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in [
                ("core/src/a.rs", "//! What a is: of\n//! two lines. And more.\n"), ("core/src/b.rs", "use crate::a;\n//! Late.\n"),
                ("core/src/a/tests.rs", "use super::*;\n"), ("py/python/quorlock/c.py", '"""What c is."""\n'),
                ("py/python/quorlock/d.py", "import c\n"), ("node/src/e.ts", "/// <reference />\n/**\n * What e is.\n */\n"),
                ("node/src/f.ts", "const f = 1;\n"), ("tests/g/README.md", "# G\n\nWhat g is. And more.\n"),
            ]:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            text, silent = sketch.made(root)
        self.assertEqual(silent, ["core/src/b.rs", "py/python/quorlock/d.py", "node/src/f.ts"])
        for row in ("| `a.rs` | What a is: of two lines |", "| `c.py` | What c is |", "| `e.ts` | What e is |", "| `g/` | What g is |"):
            self.assertIn(row, text)


class House(unittest.TestCase):
    """The rules of CONTRIBUTING.md about which file imports which."""

    def test_no_file_imports_from_a_wing_above_its_own(self):
        arrows = house.imports()
        self.assertGreater(sum(map(len, arrows.values())), 300)
        self.assertEqual({house.wing(here) for here in arrows} - set(house.WINGS), set())
        self.assertEqual(list(house.upward(arrows)), [])

    def test_no_files_import_each_other_in_a_circle(self):
        for folder, imports in house.TREES.items():
            with self.subTest(folder):
                arrows = imports(ROOT / folder)
                self.assertGreater(sum(map(len, arrows.values())), 20)
                self.assertEqual(house.circles(arrows), [])

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
            ("protocol/claim_cell.rs", "use crate::node::redis::wire::Wire;", "protocol::claim_cell imports node::redis::wire"),
            ("protocol/set.rs", "use crate::{config::Settings, token::Token};", "protocol::set imports config"),
            ("runtime/mod.rs", "use crate::node::memory;", "runtime imports node::memory"),
            ("node/time.rs", "use crate::protocol::quorum::Vote;", "node::time imports protocol::quorum"),
            ("clock.rs", "use crate::node::Fault;", "clock imports node::fault"),
        ]:
            self.assertIn(found, self.planted(file, line)[0])

    def test_a_claim_is_pure(self):
        self.assertEqual(list(house.impure()), [])
        for line, found in [("use std::sync::Mutex;", "Mutex"), ("use crate::protocol::set::Set;", "Set"), ("use crate::clock::Clock;", "Clock")]:
            with tempfile.TemporaryDirectory() as folder:
                core = pathlib.Path(folder)
                (core / "protocol" / "claim").mkdir(parents=True)
                (core / "protocol" / "claim" / "decide.rs").write_text(f"//! A file.\n\n{line}\n")
                self.assertTrue(any(found in told for told in house.impure(core)), line)

    def test_a_type_has_a_name_of_its_own(self):
        self.assertEqual(list(house.homonyms()), [])
        self.assertEqual(sorted(set(house.no_nouns()) ^ house.STILL_NAMED), [])

    def test_a_name_that_two_types_have_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            core = root / "core" / "src"
            core.mkdir(parents=True)
            (core / "a.rs").write_text("pub(crate) struct Line;\n\nfn f() {\n    struct Said;\n}\n")
            (core / "b.rs").write_text("enum Line {\n    Said,\n}\n")
            self.assertEqual(list(house.homonyms(root)), ["core/src: Line is core/src/a.rs, core/src/b.rs"])
            self.assertEqual(list(house.no_nouns(root)), ["core/src: Said"])

    def test_no_static_can_be_copied_half_made(self):
        self.assertEqual(list(house.half_made()), [])

    def test_a_static_that_can_is_found(self):
        for line in ("static A: Lazy<String> = Lazy::new(String::new);", "    pub static A: std::sync::OnceLock<u8> = OnceLock::new();",
                     "pub(crate) static A: Mutex<Vec<u8>> = Mutex::new(Vec::new());", "static A: Once = Once::new();"):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "core" / "src" / "a.rs"
                path.parent.mkdir(parents=True)
                path.write_text(line + "\nstatic B: LazyValue<Mutex<u8>> = LazyValue::new(Mutex::default);\nstatic C: OnceBox<u8> = OnceBox::new();\n")
                self.assertEqual(list(house.half_made(pathlib.Path(folder))), ["core/src/a.rs: A"])

    def test_no_source_is_too_long(self):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
        self.assertEqual(list(house.too_long(listed)), [], "cut each of these by what its parts are about")

    def test_a_source_that_is_too_long_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.rs").write_text("\n" * 600)
            (root / "b.py").write_text("\n" * 599)
            (root / "c.md").write_text("\n" * 600)
            made = "# Made from core/options.toml: options of all.\n" + "\n" * 9 + "# End of what is made.\n"
            (root / "d.py").write_text(made + "\n" * 598)
            (root / "e.py").write_text(made + "\n" * 599 + made)
            self.assertEqual(list(house.too_long(["a.rs", "b.py", "c.md", "d.py", "e.py", "gone.c"], root)), ["a.rs", "e.py"])

    def test_a_circle_that_is_planted_is_found(self):
        _, found = self.planted("protocol/quorum.rs", "use super::fence::Fence;")
        self.assertTrue(any({"protocol::quorum", "protocol::fence"} <= set(circle) for circle in found), found)
        for folder, file, line, circle in [
            ("ffi-c/src", "queue.rs", "use crate::lease::quorlock_lease_t;", {"queue", "lease"}),
            ("py/src", "log.rs", "use crate::lease::Lease;", {"log", "lease"}),
            ("node/native", "log.rs", "fn late() { crate::sink::listen(); }", {"log", "sink"}),
            ("py/python/quorlock", "_options.py", "def late():\n    from ._owner import Hold\n", {"_options", "_owner"}),
            ("py/python/quorlock", "errors.py", "if TYPE_CHECKING:\n    from quorlock import _lease\n", {"errors", "_lease"}),
            ("node/src", "loss.ts", 'import type { Lease } from "./lease.js";', {"loss", "lease"}),
            ("node/src", "errors.ts", 'export { shown } from "./log.js";', {"errors", "log"}),
        ]:
            with self.subTest(line), tempfile.TemporaryDirectory() as made:
                copy = pathlib.Path(made) / pathlib.Path(folder).name
                shutil.copytree(ROOT / folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
                with (copy / file).open("a", encoding="utf-8") as text:
                    text.write(f"\n{line}\n")
                found = house.circles(house.TREES[folder](copy))
                self.assertTrue(len(found) == 1 and circle <= set(found[0]), found)


if __name__ == "__main__":
    unittest.main()
