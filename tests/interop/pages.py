#!/usr/bin/env python3
"""The programs of docs/migrate, the one before and the one after, on one key at once: pages.py [here|registry|compiled|NAME...]

Each program is run as its page shows it, with the servers of a stage in place of example addresses. First alone; then one of them holds the lock until the
other has asked for it, and that one may come in only behind it; both ways round. `here`: pairs whose library the tests have in any case, so that no
registry is needed; `registry`: those of which `libraries.py` gets the library; `compiled`: those of Go, Rust and Java. aioredlock does not run here.
"""

import contextlib
import os
import pathlib
import re
import shutil
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
from fetch import call  # noqa: E402
from stage import Stage, ensure_server  # noqa: E402

VENV = ROOT / ".venv" / "bin" / "python"
SECONDS = 60
# What a program that was refused, or should have been, is given to come in all the same.
MOMENT = 0.3
CHARGED = re.compile(r'^([ \t]*)(?:print|println!|console\.log|fmt\.Println|System\.out\.println)\("charged"\);?$', re.M)
# What a lock that is not renewed is held for on the pages, and what it takes on a busy machine.
SHORT = {r"\b5_?000\b": "30000", r"from_secs\(10\)": "from_secs(30)", r"\b8\*time\.Second": "30*time.Second"}
KEY = b"orders:42"
EXAMPLE = re.compile(r"(redis://)?10\.0\.0\.([1239])\b(?::6379)?")
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
# The same in a language that is compiled: what stands behind the program, and the call of it.
BEHIND = {
    "go": ("""
func turn(word string) {
	turns, err := os.OpenFile("turns", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer turns.Close()
	fmt.Fprintln(turns, word, os.Getenv("WHO"))
}

func inside() {
	turn("in")
	for _, err := os.Stat("go"); err != nil; _, err = os.Stat("go") {
		time.Sleep(10 * time.Millisecond)
	}
	turn("out")
}
""", "inside(); "),
    "rust": ("""
fn inside() {
    let turn = |word: &str| {
        let mut turns = std::fs::OpenOptions::new().create(true).append(true).open("turns").unwrap();
        std::io::Write::write_all(&mut turns, format!("{word} {}\\n", std::env::var("WHO").unwrap()).as_bytes()).unwrap();
    };
    turn("in");
    while !std::path::Path::new("go").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    turn("out");
}
""", "inside(); "),
    "java": ("""
class Turn {
    static void say(String word) {
        try (var turns = new java.io.FileWriter("turns", true)) {
            turns.write(word + " " + System.getenv("WHO") + "\\n");
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    static void inside() {
        say("in");
        while (!new java.io.File("go").exists()) {
            java.util.concurrent.locks.LockSupport.parkNanos(10_000_000);
        }
        say("out");
    }
}
""", "Turn.inside(); "),
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
    kind: str = "registry"
    # The language of the program after, where that is another.
    other: str = ""

    def language_of(self, name):
        return self.other if self.other and name == "new" else self.language


PAIRS = [
    Pair("redis-py", "redis-py.md", "python", "r.lock(", "raw=True", 1, kind="here"),
    Pair("redlock-5", "node-redlock.md", "js", "redlock.using(", "raw: true", 3, kind="here"),
    Pair("redlock-4", "node-redlock.md", "js", "redlock.lock(", "raw: true", 3, package="redlock4"),
    Pair("redis-semaphore", "redis-semaphore.md", "js", "new RedlockMutex(", "raw: true", 3),
    Pair("python-redis-lock", "python-redis-lock.md", "python", "redis_lock.Lock(", "raw=True", 1),
    Pair("redlock-py", "redlock-py.md", "python", "dlm = Redlock(", 'lock("orders:42")', 3),
    Pair("pottery", "redlock-py.md", "python", "from pottery", '"redlock:orders:42", raw=True', 3),
    Pair("redsync", "redsync.md", "go", "redsync.New(", "raw=True", 3, kind="compiled", other="python"),
    Pair("rslock", "rslock.md", "rust", "rslock::LockManager", "raw(true)", 3, kind="compiled"),
    Pair("redisson", "redisson.md", "java", "redisson.getLock(", 'layout="redisson"', 1, kind="compiled", other="python"),
]
GROUPS = {"python": "python", "js": "node", "java": "java"}


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
        for name, word in (("old", pair.old), ("new", pair.new)):
            self.write(name, shown(pair.page, pair.language_of(name), word))
        for name in ("old", "new"):
            if pair.language_of(name) in BEHIND:
                self.compile(name)
        if pair.language == "js":
            modules = folder / "node_modules"
            modules.mkdir()
            theirs = libraries.OUT / "node" / "node_modules" if pair.kind == "registry" else ROOT / "tests" / "node" / "node_modules"
            for package in theirs.iterdir():
                (modules / package.name).symlink_to(package)
            if pair.package:
                (modules / "redlock").unlink(missing_ok=True)
                (modules / "redlock").symlink_to(theirs / pair.package)
            (modules / "quorlock").unlink(missing_ok=True)
            (modules / "quorlock").symlink_to(ROOT / "node")

    def write(self, name, program):
        """Writes a program of the page, which says when it is inside, and stays there until it may go."""
        language, behind = self.pair.language_of(name), ""
        if language in INSIDE:
            file, text, call_it = INSIDE[language]
            (self.folder / file).write_text(text)
        else:
            behind, call_it = BEHIND[language]
        program, found = CHARGED.subn(lambda line: f"{line[1]}{call_it}{line[0].strip()}", program)
        if not found:
            raise Wrong(f"the {name} program does not say where it has the lock: \"charged\"")
        if language == "go":
            program = program.replace('\t"log"\n', '\t"log"\n\t"os"\n', 1)
        for short, long in SHORT.items():
            program = re.sub(short, long, program)
        (self.folder / self.file(name)).write_text(EXAMPLE.sub(self.node, program) + behind)

    def node(self, found):
        url = self.urls[(int(found[2]) - 1) % len(self.urls)]
        return url if found[1] else urllib.parse.urlsplit(url).netloc

    def file(self, name):
        return {"python": f"{name}.py", "js": f"{name}.mjs", "go": "main.go", "rust": f"{name}.rs", "java": "Charge.java"}[self.pair.language_of(name)]

    def compile(self, name):
        """Makes the program that `start` starts, with the pins of the matrix."""
        language = self.pair.language_of(name)
        try:
            if language == "go":
                for file in ("go.mod", "go.sum"):
                    shutil.copy(HERE / "go" / file, self.folder)
                call("go", "build", "-mod=readonly", "-o", name, ".", cwd=self.folder)
            elif language == "rust":
                # As deep as the folder of that Cargo.toml, which names the core by a path.
                package, made = libraries.OUT / "rust-pages", libraries.RUST.parents[1]
                (package / "src" / "bin").mkdir(parents=True, exist_ok=True)
                for file in ("Cargo.toml", "Cargo.lock"):
                    shutil.copy(HERE / "rust" / file, package)
                shutil.copy(self.folder / f"{name}.rs", package / "src" / "bin")
                call(os.environ.get("CARGO", "cargo"), "build", "--locked", "--quiet", "--bin", name, "--manifest-path", package / "Cargo.toml",
                     "--target-dir", made)
                shutil.copy(made / "debug" / name, self.folder)
            else:
                call("javac", "-cp", f"{libraries.JAVA}/*", "-d", self.folder, self.folder / "Charge.java")
        except RuntimeError as error:
            raise Wrong(f"the {name} program does not compile\n{error}") from error

    def start(self, name):
        python = libraries.PYTHON if self.pair.kind == "registry" and name == "old" else VENV
        command = {"python": [python, self.file(name), name], "js": ["node", "--no-warnings", self.file(name), name],
                   "java": ["java", "-cp", f".:{libraries.JAVA}/*", "Charge"]}.get(self.pair.language_of(name), [self.folder / name])
        return subprocess.Popen(command, cwd=self.folder, env={**os.environ, "QUORLOCK_NODES": ",".join(self.urls), "WHO": name},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

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
    kinds = {pair.name: pair.kind for pair in PAIRS}
    if unknown := words - {*kinds, *kinds.values()}:
        sys.exit(f"no {unknown}; there are here, registry, compiled, {', '.join(kinds)}")
    chosen = [pair for pair in PAIRS if not words or words & {pair.name, kinds[pair.name]}]
    ensure_server()
    missing = libraries.get(dict.fromkeys(GROUPS[pair.language] for pair in chosen if pair.kind != "here" and pair.language in GROUPS))
    for group, why in missing.items():
        print(f"FAIL the libraries of {group} cannot be had: {why}")
    with Stage(1) as one, Stage(3) as three:
        passed = sum(run(pair, one if pair.servers == 1 else three) for pair in chosen)
    failed = CHECKS * len(chosen) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
