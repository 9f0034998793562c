#!/usr/bin/env python3
"""Every block of code on every page runs: tests/docs/run.py [PAGE...]

A page's blocks run in order, in a folder of the page's own, on three real servers whose URLs are in QUORLOCK_NODES; BROKER is
one more, for queues. What else can be said of a block: `blocks.py`. A block that is not run says why, and is counted. Pages that are made
from the code have no blocks of their own: `reference.py`.
"""

import collections
import concurrent.futures
import configparser
import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests")]

from blocks import Wrong, agrees, blocks  # noqa: E402
from reference import MADE  # noqa: E402
from stage import Stage, ensure_server  # noqa: E402

PAGES = ["README.md", "core/README.md", "core/cli/README.md", "py/README.md", "node/README.md", "node/cli/README.md",
         "ffi-c/README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")
                                    if not path.read_text().startswith(MADE))]
PYTHON = ROOT / ".venv" / "bin" / "python"
PREFIX = ROOT / "target" / "c" / "prefix"
TARGET = ROOT / "target"
FRAMEWORKS = ROOT / "tests" / "node" / "node_modules"
SECONDS = 300
# Pages wait for locks most of the time, so two are read at once.
LANES = 2
# Nodes that pages name as a reader's own: three, and one that is alone.
EXAMPLE = re.compile(r"redis://(?:10\.0\.0\.([1239])|([abc]))\b(?![.\w])")
PACKAGE = """[package]
name = "pages"
version = "0.0.0"
edition = "2024"
[dependencies]
quorlock = {{ path = "{core}" }}
axum = "0.8"
# What examples/axum has besides, so that both are compiled once.
tokio = {{ version = "1", features = ["io-util", "macros", "net", "rt-multi-thread", "signal", "sync", "time"] }}
[workspace]
"""


class Failed(Exception):
    """A block that does not do what its page says."""


def theirs(text, urls, broker):
    """The text, with real nodes in place of those that it has for an example."""
    nodes = {**dict(zip("123", urls)), **dict(zip("abc", urls)), "9": broker}
    return EXAMPLE.sub(lambda found: nodes[found[1] or found[2]], text)


class Reader:
    """Somebody who types what one page says."""

    def __init__(self, folder, urls, broker, rust):
        self.folder, self.urls, self.broker, self.rust = folder, urls, broker, rust
        self.before, self.printed = {}, None
        self.environment = {**os.environ, "QUORLOCK_NODES": ",".join(urls), "BROKER": broker,
                            "PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}
        modules = folder / "node_modules"
        modules.mkdir()
        (modules / "quorlock").symlink_to(ROOT / "node")
        # What a reader has beside it: frameworks, at the versions that the tests have.
        for package in FRAMEWORKS.glob("*") if FRAMEWORKS.exists() else ():
            (modules / package.name).symlink_to(package)

    def run(self, *command, fails=0):
        done = subprocess.run([str(word) for word in command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != fails:
            raise Failed(f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def reads(self, block):
        """Does with a block what is to be done; returns in a word what that was."""
        if "out" in block.words:
            if self.printed is None or not agrees(block.text, self.printed):
                raise Failed(f"printed was\n{self.printed}")
            return "compared"
        if block.language == "text":
            return "shown"
        text = theirs(block.whole(), self.urls, self.broker)
        if "file" in block.words:
            (self.folder / block.words["file"]).write_text(text)
            return self.check(block, text)
        if "continues" in block.words:
            text = self.before.get(block.language, "") + text
        if "check" in block.words:
            return self.check(block, text)
        self.before[block.language] = text
        ways = {"python": self.python, "js": self.js, "rust": self.runs_rust, "c": self.c, "cpp": self.c, "sh": self.sh, "sql": self.sql,
                "ini": self.parsed, "json": self.parsed, "toml": self.parsed, "yaml": self.parsed}
        if block.language not in ways:
            raise Failed(f"nobody knows how to run `{block.language}`: skip=why, or another language")
        self.printed = ways[block.language](block, text, int(block.words.get("fails") or 0))
        return "run"

    def check(self, block, text):
        if block.language == "python":
            compile(text, str(block), "exec", flags=__import__("ast").PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "js":
            self.run("node", "--check", self.written(text, "mjs"))
        elif block.language in ("c", "cpp"):
            self.compiled(block, text, "-fsyntax-only")
        elif block.language == "sh":
            self.run("bash", "-n", self.written(text, "sh"))
        elif block.language == "rust":
            if str(block) not in self.rust:
                raise Failed("it was not compiled")
        else:
            self.parsed(block, text, 0)
        return "checked"

    def written(self, text, ending):
        file = self.folder / f"block.{ending}"
        file.write_text(text)
        return file

    # ---- languages ----

    def python(self, _block, text, fails):
        return self.run(PYTHON, self.written(text, "py"), fails=fails)

    def js(self, _block, text, fails):
        return self.run("node", self.written(text, "mjs"), fails=fails)

    def sh(self, _block, text, fails):
        return self.run("bash", "-euo", "pipefail", self.written(text, "sh"), fails=fails)

    def runs_rust(self, block, _text, fails):
        return self.run(self.rust[str(block)], fails=fails)

    def compiled(self, block, text, *flags):
        compiler, standard = ("cc", "c11") if block.language == "c" else ("c++", "c++20")
        self.run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", f"-I{PREFIX}/include",
                 self.written(text, block.language), *flags)

    def c(self, block, text, fails):
        self.compiled(block, text, "-o", "block", f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lquorlock", "-pthread")
        return self.run("./block", fails=fails)

    def sql(self, _block, text, _fails):
        with sqlite3.connect(self.folder / "page.db") as database:
            database.executescript(text)
        return ""

    @staticmethod
    def parsed(block, text, _fails):
        try:
            {"ini": configparser.ConfigParser(strict=False, interpolation=None).read_string, "json": json.loads, "toml": tomllib.loads,
             "yaml": lambda text: list(yaml.safe_load_all(text))}[block.language](text)
        except (KeyError, ValueError, configparser.Error, yaml.YAMLError) as error:
            raise Failed(f"it cannot be parsed: {error!r}") from error
        return ""


def compile_rust(lanes):
    """Compiles the Rust of all pages as one package, for its dependencies are many. Where each program is, by its block."""
    programs = {str(block): theirs(block.whole(), lane.urls, lane.broker) for lane in lanes for found in lane.pages.values()
                for block in found if block.language == "rust" and "skip" not in block.words}
    if not programs:
        return {}
    source = TARGET / "pages"
    shutil.rmtree(source, ignore_errors=True)
    (source / "src" / "bin").mkdir(parents=True)
    (source / "Cargo.toml").write_text(PACKAGE.format(core=ROOT / "core"))
    # The versions that everything else here is tested with.
    shutil.copy(ROOT / "Cargo.lock", source)
    names = {block: "page-" + re.sub(r"\W+", "-", block).lower() for block in programs}
    for block, text in programs.items():
        (source / "src" / "bin" / f"{names[block]}.rs").write_text(text)
    done = subprocess.run(["cargo", "build", "--quiet", "--manifest-path", source / "Cargo.toml", "--target-dir", TARGET],
                          capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"the Rust of the pages does not compile\n{done.stderr[-6000:]}")
    return {block: TARGET / "debug" / name for block, name in names.items()}


class Lane:
    """Reads its pages one after the other, on servers of its own."""

    def __init__(self, pages, place):
        self.pages, self._place, self._stack = pages, place, contextlib.ExitStack()
        stage, queues = (self._stack.enter_context(each) for each in (Stage(3), Stage(1, declare=False)))
        self.urls, [self.broker] = stage.urls(), queues.urls()
        environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.urls)}
        subprocess.run([PYTHON, "-m", "quorlock", "init", "--force"], env=environment, check=True, capture_output=True)

    def close(self):
        self._stack.close()

    def read(self, rust):
        """What was done with each block: a word, and what went wrong."""
        done = []
        for page, found in self.pages.items():
            folder = self._place / re.sub(r"\W", "-", page)
            folder.mkdir()
            reader = Reader(folder, self.urls, self.broker, rust)
            for block in found:
                try:
                    done.append((block, "skipped" if "skip" in block.words else reader.reads(block), None))
                except (Failed, SyntaxError, sqlite3.Error, subprocess.TimeoutExpired) as wrong:
                    done.append((block, "failed", wrong))
        return done


def read_all(pages, place):
    """Has each lane read its share of the pages."""
    names = sorted(pages)
    lanes = [Lane({name: pages[name] for name in names[number::LANES]}, place) for number in range(min(LANES, len(names)))]
    try:
        rust = compile_rust(lanes)
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            return [each for done in [pool.submit(lane.read, rust) for lane in lanes] for each in done.result()]
    finally:
        for lane in lanes:
            lane.close()


def main():
    ensure_server()
    try:
        pages = {page: blocks(page, (ROOT / page).read_text()) for page in sys.argv[1:] or PAGES}
        with tempfile.TemporaryDirectory() as folder:
            done = read_all(pages, pathlib.Path(folder))
    except Wrong as wrong:
        sys.exit(str(wrong))
    for block, what, wrong in done:
        if what == "failed":
            print(f"FAIL {block}\n     " + "\n     ".join(str(wrong).splitlines()[-30:]))
        elif what == "skipped":
            print(f"skip {block}  {block.words['skip']}")
    counts = collections.Counter(what for _, what, _ in done)
    failed = counts.pop("failed", 0)
    passed = sum(counts.values()) - counts["skipped"]
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
