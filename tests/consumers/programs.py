"""The programs of README.md and of the pages, as they stand in the text, and how each language runs one."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]

import blocks as pages  # noqa: E402

# Where the first lock stands: in README.md in Python, and in the other languages on the page that it leads to.
TUTORIAL = "docs/tutorial/first-lock.md"
# What it prints, by the language.
HELD = {"python": r"^held for [0-9.]+ s more, and renewed; fence [1-9]\d*\n$",
        **dict.fromkeys(("js", "rust", "c"), r"^waiting\nheld, fence [1-9]\d*\nreleased\n$")}
# Dependencies are compiled once: those of the tests in Rust are the same.
TARGET = ROOT / "target"
RUST_PACKAGE = """[package]
name = "first-lock"
version = "0.0.0"
edition = "2024"
[dependencies]
quorlock = {{ path = "{core}" }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "time"] }}
[workspace]
"""


def text(path):
    return (ROOT / path).read_text()


def section(path, heading):
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text(path), re.MULTILINE | re.DOTALL)
    return found[1]


def blocks(words, language):
    return [re.sub(r"^  ", "", block, flags=re.MULTILINE) if indent else block
            for indent, block in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", words, re.MULTILINE | re.DOTALL)]


def first_locks():
    """The first lock in each language, with what a page leaves out around it."""
    [python] = blocks(section("README.md", "A first lock"), "python")
    found = {"python": python}
    for block in pages.blocks(TUTORIAL, section(TUTORIAL, "Hold a lock")):
        found.setdefault(block.language, block.whole())
    return found


def python(program):
    return [sys.executable, "-c", program]


def node(program):
    # To be run in the package's folder: within the package its own name leads to it.
    return ["node", "--input-type=module", "-e", program]


def rust(folder, **programs):
    """Compiles Rust programs; returns how each is run, by its name."""
    source = pathlib.Path(folder, "rust")
    shutil.rmtree(source, ignore_errors=True)
    (source / "src" / "bin").mkdir(parents=True)
    (source / "Cargo.toml").write_text(RUST_PACKAGE.format(core=ROOT / "core"))
    # The versions that everything else here is tested with.
    (source / "Cargo.lock").write_text(text("Cargo.lock"))
    for name, program in programs.items():
        (source / "src" / "bin" / f"{name}.rs").write_text(program)
    run(["cargo", "build", "--quiet", "--manifest-path", str(source / "Cargo.toml"), "--target-dir", str(TARGET)])
    return {name: [str(TARGET / "debug" / name)] for name in programs}


def c(folder, program):
    """Compiles a C program as the text says, by pkg-config; returns how it is run."""
    source, made, prefix = pathlib.Path(folder, "first.c"), str(pathlib.Path(folder, "first")), ROOT / "target/c/prefix"
    source.write_text(program)
    environment = dict(os.environ, PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig")
    flags = run(["pkg-config", "--cflags", "--libs", "quorlock"], env=environment).split()
    run(["cc", "-Wall", "-Wextra", "-Werror", str(source), "-o", made, *flags, f"-Wl,-rpath,{prefix}/lib"])
    return [made]


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    return done.stdout
