"""The rows of the matrix: which libraries, from where, at which versions, and how their keys are named."""

import json
import re
import sys
from dataclasses import dataclass

import libraries
from libraries import HERE, OUT, ROOT

PAGE = ROOT / "docs" / "migrate/side-by-side.md"


@dataclass(frozen=True)
class Row:
    # As users know it, and as the page names it.
    name: str
    # `python`, `node`, `go` or `rust`.
    group: str
    # The adapter's word for it.
    word: str
    # As its registry has it, where that is not the name.
    package: str
    # What it puts before a name to make the key.
    prefix: str = ""
    nodes: int = 3
    # Its longest time between two looks, in seconds, as it waits by itself; `ttl`: it looks again when that is over.
    poll: float | str = 0.2
    # In what it misleads or stops its callers by itself, Quorlock there or not. The page has the same words.
    note: str = ""

    def command(self):
        return COMMANDS[self.group] + [self.word]

    def version(self):
        """The version that is pinned."""
        return PINS[self.group](self.package)

    def longest(self, ttl):
        return ttl if self.poll == "ttl" else self.poll


def _of_requirements(package):
    return re.search(rf"^{re.escape(package)}==(\S+)$", (HERE / "requirements.txt").read_text(), re.M)[1]


def _of_npm(package):
    return json.loads((HERE / "node" / "package-lock.json").read_text())["packages"][f"node_modules/{package}"]["version"]


def _of_go(module):
    return re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", (HERE / "go" / "go.mod").read_text(), re.M)[1]


def _of_cargo(package):
    return re.search(rf'^name = "{re.escape(package)}"\nversion = "(.*)"$', (HERE / "rust" / "Cargo.lock").read_text(), re.M)[1]


PINS = {"python": _of_requirements, "node": _of_npm, "go": _of_go, "rust": _of_cargo}
COMMANDS = {
    "python": [libraries.PYTHON, HERE / "python" / "theirs.py"],
    "node": ["node", HERE / "node" / "theirs.cjs", OUT / "node"],
    "go": [libraries.GO],
    "rust": [libraries.RUST],
}

STALLS = ("A caller that waits leaves the votes of a failed try where they are until it gives up, and does not know them in its next try: when it "
          "has gathered a majority so, no client gets the lock for its ttl. It does so among its own kind alone, too.")
MAJORITY = "`acquire` and `release` return when a majority has answered; the other nodes follow."

ROWS = [
    Row("redlock-py", "python", "redlock-py", "redlock-py"),
    Row("redis-py `Lock`", "python", "redis-py", "redis", nodes=1, poll=0.1),
    Row("redis-py `asyncio` `Lock`", "python", "redis-py-asyncio", "redis", nodes=1, poll=0.1),
    Row("valkey-py `Lock`", "python", "valkey-py", "valkey", nodes=1, poll=0.1),
    Row("valkey-py `asyncio` `Lock`", "python", "valkey-py-asyncio", "valkey", nodes=1, poll=0.1),
    Row("pottery `Redlock`", "python", "pottery", "pottery", prefix="redlock:", note=MAJORITY),
    Row("pottery `AIORedlock`", "python", "pottery-asyncio", "pottery", prefix="redlock:"),
    Row("python-redis-lock", "python", "python-redis-lock", "python-redis-lock", prefix="lock:", nodes=1, poll="ttl",
        note="A list of its own wakes its waiters; after a release of Quorlock they look again when `expire` is over."),
    Row("redlock 4", "node", "redlock4", "redlock4", poll=0.3),
    Row("redlock 5", "node", "redlock5", "redlock5", poll=0.3, note=STALLS),
    Row("@sesamecare-oss/redlock", "node", "sesamecare", "@sesamecare-oss/redlock", poll=0.3, note=STALLS),
    Row("redlock-universal `createRedlock`", "node", "redlock-universal", "redlock-universal", poll=0.3),
    Row("redis-semaphore `Mutex`", "node", "redis-semaphore", "redis-semaphore", prefix="mutex:", nodes=1, poll=0.01),
    Row("redis-semaphore `RedlockMutex`", "node", "redis-semaphore-redlock", "redis-semaphore", prefix="mutex:", poll=0.01,
        note="As it renews, it sets its key anew on nodes that have lost it, as long as a majority has it: the same hold goes on."),
    Row("redsync/v4", "go", "redsync", "github.com/go-redsync/redsync/v4", poll=0.25),
    Row("bsm/redislock", "go", "redislock", "github.com/bsm/redislock", nodes=1, poll=0.1),
    Row("rslock", "rust", "rslock", "rslock"),
]
GROUPS = ("python", "node", "go", "rust")


def facts(row):
    """The cells of the page's table that do not come from a run."""
    registry = {"python": "PyPI", "node": "npm", "go": "Go", "rust": "Rust"}[row.group]
    key = f"`{row.prefix}NAME`" if row.prefix else "`NAME`"
    return [row.name, registry, row.version(), key, str(row.nodes)]


def table(found):
    """The page's table: the facts, and of each row that is in `found` when it ran and what it showed."""
    head = ["library", "registry", "version", "its key, and our raw name", "nodes", "run on", "they after us", "we after them",
            "counted", "changes of hands"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(facts(row) + found.get(row.name, ["", "", "", "", ""])) + " |" for row in ROWS]
    return lines


def of_page(text):
    """The rows of the table that is in a page: by the library's name all other cells."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells if len(row) == 10 and row[0] != "library"}


def wrong(text):
    """In what a page differs from the rows and their pins, a line each."""
    listed, found = of_page(text), []
    for row in ROWS:
        cells = listed.pop(row.name, None)
        if cells is None:
            found.append(f"no row {row.name!r}")
        elif cells[:4] != facts(row)[1:]:
            found.append(f"{row.name!r} says {cells[:4]} and not {facts(row)[1:]}")
        elif not re.fullmatch(r"\d{4}-\d\d-\d\d", cells[4]) or not all(cells[5:]):
            found.append(f"{row.name!r} does not say when it ran and what it showed: tests/interop/run.py --write")
    said = " ".join(text.split())
    found += [f"{row.name!r} has a note that is not there: {row.note}" for row in ROWS if row.note not in said]
    return found + [f"{name!r} is no row of the matrix" for name in listed]


def rewrite(text, found):
    """The page with what has run entered into its table, which stands in one piece."""
    kept = {name: cells[4:] for name, cells in of_page(text).items()}
    lines = text.splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("|")]
    if not at or at != list(range(at[0], at[-1] + 1)):
        sys.exit(f"the table of {PAGE.name} does not stand in one piece")
    lines[at[0]:at[-1] + 1] = table(kept | found)
    return "\n".join(lines) + "\n"
