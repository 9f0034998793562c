#!/usr/bin/env python3
"""The programs of docs/migrate, the one before and the one after, on one key at once: pages.py [here|registry|NAME...]

Each program is run as its page shows it, with the servers of a stage in place of example addresses. First alone; then one of them holds the lock until the
other has asked for it, and that one may come in only behind it; both ways round. `here`: pairs whose library the tests have in any case, so that no
registry is needed; `registry`: those of which `libraries.py` gets the library. Of redsync, rslock, Redisson and aioredlock a page shows what is no whole program, or what
does not run here: their locks are in the matrix beside this, but for aioredlock.
"""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "docs")]

import libraries  # noqa: E402
from blocks import blocks  # noqa: E402
from stage import Stage, ensure_server  # noqa: E402

VENV = ROOT / ".venv" / "bin" / "python"
SECONDS = 60
# What a program that was refused, or should have been, is given to come in all the same.
MOMENT = 0.3
CHARGED = re.compile(r'^( *)(?:print|console\.log)\("charged"\);?$', re.M)
# What a lock that is not renewed is held for on the pages, and what it takes on a busy machine.
SHORT, LONG = re.compile(r"\b5_?000\b"), "30000"
KEY = b"orders:42"
EXAMPLE = re.compile(r"redis://10\.0\.0\.([1239])\b")
INSIDE = {
    "python": ("turn.py", """import os, pathlib, sys, time

def inside():
    with open("turns", "a") as turns:
        turns.write(f"in {sys.argv[1]}\\n")
    while not os.path.exists("go"):
        time.sleep(0.01)
    with open("turns", "a") as turns:
        turns.write(f"out {sys.argv[1]}\\n")
""", "import turn; turn.inside(); "),
    "js": ("turn.mjs", """import { appendFileSync, existsSync } from "node:fs";

export async function inside() {
  appendFileSync("turns", `in ${process.argv[2]}\\n`);
  while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 10));
  appendFileSync("turns", `out ${process.argv[2]}\\n`);
}
""", 'await (await import("./turn.mjs")).inside(); '),
}


@dataclass(frozen=True)
class Pair:
    name: str
    page: str
    language: str
    # What the program before has, and no other block of that language.
    old: str
    new: str
    servers: int
    # The folder of the library in target/interop/node, where that is not its name.
    package: str = ""
    registry: bool = True


PAIRS = [
    Pair("redis-py", "redis-py.md", "python", "r.lock(", "raw=True", 1, registry=False),
    Pair("redlock-5", "node-redlock.md", "js", "redlock.using(", "raw: true", 3, registry=False),
    Pair("redlock-4", "node-redlock.md", "js", "redlock.lock(", "raw: true", 3, package="redlock4"),
    Pair("redis-semaphore", "redis-semaphore.md", "js", "new RedlockMutex(", "raw: true", 3),
    Pair("python-redis-lock", "python-redis-lock.md", "python", "redis_lock.Lock(", "raw=True", 1),
    Pair("redlock-py", "redlock-py.md", "python", "dlm = Redlock(", 'lock("orders:42")', 3),
    Pair("pottery", "redlock-py.md", "python", "from pottery", '"redlock:orders:42", raw=True', 3),
]


class Wrong(Exception):
    """What a pair has done otherwise than its page says."""


def shown(page, language, word):
    """The one block of a page that shows the word, with what stands before it unseen."""
    found = [block for block in blocks(page, (ROOT / "docs" / "migrate" / page).read_text()) if block.language == language and word in block.text]
    if len(found) != 1:
        raise Wrong(f"{page} shows {len(found)} blocks of {language} with {word!r}")
    return found[0].whole()


class Asked:
    """Who has named the key on a server, by the addresses from which they did."""

    def __init__(self, url):
        at = urllib.parse.urlsplit(url)
        self._socket = socket.create_connection((at.hostname, at.port))
        self._socket.sendall(b"MONITOR\r\n")
        self._from, self._news = set(), threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                found = re.match(rb"\+[\d.]+ \[\d+ (\S+)\] ", line)
                # What a script does on a server is said of `lua`.
                if found and KEY in line and found[1] != b"lua":
                    with self._news:
                        self._from.add(found[1])
                        self._news.notify_all()

    def so_far(self):
        with self._news:
            return set(self._from)

    def other(self, known):
        """Waits until somebody else has."""
        with self._news:
            if not self._news.wait_for(lambda: self._from - known, SECONDS):
                raise Wrong("the second program has not asked for the key")

    def close(self):
        self._socket.close()


class Place:
    """A folder with both programs, and the libraries that they import."""

    def __init__(self, pair, folder, urls):
        self.pair, self.folder, self.urls = pair, folder, urls
        self.programs = {"old": shown(pair.page, pair.language, pair.old), "new": shown(pair.page, pair.language, pair.new)}
        file, text, call = INSIDE[pair.language]
        (folder / file).write_text(text)
        for name, program in self.programs.items():
            program, found = CHARGED.subn(lambda line: f"{line[1]}{call}{line[0].strip()}", program)
            if not found:
                raise Wrong(f"the {name} program does not say where it has the lock: \"charged\"")
            (folder / self.file(name)).write_text(EXAMPLE.sub(lambda at: urls[(int(at[1]) - 1) % len(urls)], SHORT.sub(LONG, program)))
        if pair.language == "js":
            modules = folder / "node_modules"
            modules.mkdir()
            theirs = libraries.OUT / "node" / "node_modules" if pair.registry else ROOT / "tests" / "node" / "node_modules"
            for package in theirs.iterdir():
                (modules / package.name).symlink_to(package)
            if pair.package:
                (modules / "redlock").unlink(missing_ok=True)
                (modules / "redlock").symlink_to(theirs / pair.package)
            (modules / "quorlock").unlink(missing_ok=True)
            (modules / "quorlock").symlink_to(ROOT / "node")

    def file(self, name):
        return f"{name}.py" if self.pair.language == "python" else f"{name}.mjs"

    def start(self, name):
        python = libraries.PYTHON if self.pair.registry and name == "old" else VENV
        command = [python, self.file(name), name] if self.pair.language == "python" else ["node", "--no-warnings", self.file(name), name]
        return subprocess.Popen(command, cwd=self.folder, env={**os.environ, "QUORLOCK_NODES": ",".join(self.urls)}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ends(self, name, process):
        printed = process.communicate(timeout=SECONDS)[0]
        if process.returncode or printed.splitlines()[-1:] != ["charged"]:
            raise Wrong(f"the {name} program ended with status {process.returncode} and printed\n{printed}")

    def turns(self):
        path = self.folder / "turns"
        return path.read_text().splitlines() if path.exists() else []

    def begin(self):
        for name in ("turns", "go"):
            (self.folder / name).unlink(missing_ok=True)

    def go(self):
        (self.folder / "go").touch()

    def alone(self, name):
        self.begin()
        self.go()
        self.ends(name, self.start(name))

    def behind(self, first, second):
        """One holds until the other has asked, which may come in only then."""
        self.begin()
        asked, processes = Asked(self.urls[0]), {}
        try:
            processes[first] = self.start(first)
            until = time.monotonic() + SECONDS
            while not self.turns():
                if processes[first].poll() is not None or time.monotonic() > until:
                    processes[first].kill()
                    self.ends(first, processes[first])
                time.sleep(0.01)
            known = asked.so_far()
            processes[second] = self.start(second)
            asked.other(known)
            time.sleep(MOMENT)
            self.go()
            for name, process in processes.items():
                self.ends(name, process)
        finally:
            asked.close()
            for process in processes.values():
                process.kill()
        wanted = [f"in {first}", f"out {first}", f"in {second}", f"out {second}"]
        if self.turns() != wanted:
            raise Wrong(f"they were inside in this order: {', '.join(self.turns())}")

    def checks(self):
        return {"the old one alone": lambda: self.alone("old"), "the new one alone": lambda: self.alone("new"),
                "the new one behind the old one": lambda: self.behind("old", "new"),
                "the old one behind the new one": lambda: self.behind("new", "old")}


CHECKS = 4


def run(pair, stage):
    """How many checks of a pair have passed; says which have not."""
    passed = 0
    with tempfile.TemporaryDirectory(prefix="qlpages") as folder:
        try:
            place = Place(pair, pathlib.Path(folder), stage.urls())
        except (Wrong, OSError) as wrong:
            print(f"FAIL {pair.name}: {wrong}", flush=True)
            return 0
        for name, check in place.checks().items():
            try:
                check()
            except (Wrong, subprocess.TimeoutExpired) as wrong:
                print(f"FAIL {pair.name}: {name}\n     " + "\n     ".join(str(wrong).splitlines()[-20:]), flush=True)
            else:
                passed += 1
                print(f"ok   {pair.name}: {name}", flush=True)
    return passed


def main():
    words = set(sys.argv[1:])
    kinds = {pair.name: "registry" if pair.registry else "here" for pair in PAIRS}
    if unknown := words - {*kinds, *kinds.values()}:
        sys.exit(f"no {unknown}; there are here, registry, {', '.join(kinds)}")
    chosen = [pair for pair in PAIRS if not words or words & {pair.name, kinds[pair.name]}]
    ensure_server()
    missing = libraries.get(dict.fromkeys({"python": "python", "js": "node"}[pair.language] for pair in chosen if pair.registry))
    for group, why in missing.items():
        print(f"FAIL the libraries of {group} cannot be had: {why}")
    with Stage(1) as one, Stage(3) as three:
        passed = sum(run(pair, one if pair.servers == 1 else three) for pair in chosen)
    failed = CHECKS * len(chosen) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
