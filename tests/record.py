"""What docs/explanation/own-bugs.md says of each bug: whether its command runs a test that exists, and whether its commits are of its day."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "explanation" / "own-bugs.md"
# The folder of the tests of a package.
PACKAGES = {"quorlock-tests": "tests/rust/tests", "quorlock-cli": "core/cli/tests", "quorlock-sim": "tests/sim/tests"}
# What `make sim` is told of a layer, as tests/sim/caught.txt names it; and how many schedules it runs, of clusters and of others.
LAYERS = {"": set(), "bytes": {"BYTES"}, "clusters": {"CLUSTERS"}, "deaths": {"BYTES", "DEATHS"}}
SCHEDULES = [int(re.search(rf"{word}--schedules (\d+)", (ROOT / "Makefile").read_text())[1]) for word in (r"\d,", "--clusters ")]


def rows(text):
    """The rows of all tables: what could happen, what found it, what shows that it is gone, since when; before these its row of PAINS.md."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| row |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def text_of(*globs):
    return "\n".join(path.read_text() for each in globs for path in sorted(ROOT.glob(each)))


def of_cargo(package, target, name):
    if not target:
        return re.search(rf"fn \w*{name}\w*\(", text_of("core/src/**/*.rs")) if package == "quorlock" else None
    folder = PACKAGES.get(package, "none")
    return re.search(rf"fn {name}\(", text_of(f"{folder}/{target}.rs", f"{folder}/{target}/*.rs"))


def of_sim(words):
    """Whether the seeded bug is there, and `make sim` comes to the schedule that catches it."""
    said = dict(word.split("=") for word in words.split())
    bug, seed = said.pop("MUTANT", None), said.pop("SEED", None)
    caught = dict(line.split()[:2] for line in (TESTS / "sim" / "caught.txt").read_text().splitlines())
    layer, _, number = caught.get(bug, "test").rpartition(":")
    if not (TESTS / "sim" / "bugs" / f"{bug}.bug").exists() or set(said) != LAYERS.get(layer) or not number.isdecimal():
        return False
    return int(number) < SCHEDULES[layer == "clusters"] if seed is None else seed == number


def of_python(file, place):
    path = ROOT / file
    text = path.read_text() if path.exists() else ""
    kind, _, name = (place or "").partition(".")
    return "unittest.main()" in text and (not place or re.search(rf"^class {kind}\b.*?^    (async )?def {name}\(", text, re.M | re.S))


# A command, and whether what it names exists.
COMMANDS = {
    r"cargo test -p (\S+) (?:--lib|--test (\S+)) (\w+)": of_cargo,
    r"make sim ([A-Z]+=.*)": of_sim,
    r"\.venv/bin/python (tests/python/\S+\.py)(?: ([\w.]+))?": of_python,
    r"node --test (tests/node/\S+\.test\.mjs)": lambda file: (ROOT / file).exists(),
    r"tests/c/run\.py (\S+)": lambda check: f"def {check.replace('-', '_')}(" in text_of("tests/c/run.py", "tests/c/installed.py"),
    r"tests/fuzz/fuzz\.py (\S+)": lambda target: re.search(rf'^TARGETS = .*"{target}"', text_of("tests/fuzz/fuzz.py"), re.M),
    r"target/release/quorlock-model (\w+)": lambda word: f'Some("{word}") =>' in text_of("tests/model/src/main.rs"),
    r"tests/scenarios/drive\.py -k (\S+) target/release/scenario": lambda name: (TESTS / "scenarios" / f"{name}.scenario").exists(),
}
# Where the tests stand whose names come behind a command that has none, and how one begins.
BEHIND = {
    ".venv/bin/python ": (lambda command: [command.split()[1]], "def {}(self"),
    "node ": (lambda command: [command.split()[2]], 'test("{}"'),
    "tests/c/run.py ": (lambda command: ["tests/c/test_*.c", "tests/cpp/test_*.cpp"], "TEST({})"),
}


def wrong_of_command(shown):
    """What is wrong with the command of a row and the names behind it."""
    command, *names = re.findall(r"`([^`]+)`", shown) or [""]
    for form, exists in COMMANDS.items():
        if found := re.fullmatch(form, command):
            if not exists(*found.groups()):
                yield f"nothing is there for {command!r}"
            break
    else:
        yield f"no command of this page: {command!r}"
    for name in names:
        where, begins = next((each for start, each in BEHIND.items() if command.startswith(start)), (None, ""))
        if not where or begins.format(name) not in text_of(*where(command)):
            yield f"no test {name!r} behind {command!r}"


def day(commit):
    """The day of a commit; nothing where the repository has no such commit."""
    return subprocess.run(["git", "show", "-s", "--format=%as", commit], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def wrong(row, pains):
    """What is wrong with a row."""
    if len(row) != 5 or not all(row):
        yield f"{row}: it has five cells"
        return
    number, what, found, shown, since = row
    if not what.endswith("."):
        yield f"{what}: it is one sentence"
    if number != "–" and not (number.isdecimal() and 38 <= int(number) <= pains):
        yield f"{what}: PAINS.md has no row {number} of ours"
    yield from (f"{what}: {said}" for said in wrong_of_command(shown))
    date, *commits = re.findall(r"\d{4}-\d\d-\d\d|(?<=`)[0-9a-f]{8}(?=`)", since) or [""]
    if not commits or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        yield f"{what}: {since!r} is no day with its commits"
    elif date != day(commits[0]) or not all(map(day, commits)):
        yield f"{what}: {since!r} is not the day of these commits"
