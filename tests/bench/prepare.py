"""Builds the drivers and fetches the peers, all of it under target/."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = ROOT / "target"
OUT = TARGET / "bench"
# What is released is measured, and not what is quick to make.
DIST = TARGET / "dist"
PYTHON = OUT / "venv" / "bin" / "python"

# Quorlock as it was before it spoke in native commands: what is asked to cost no more than then runs beside it.
BEFORE_COMMIT = "1c181aa"
BEFORE = OUT / "before"

# By the language of a peer's name.
COMMANDS = {
    "rust": lambda: [str(OUT / "rust" / "release" / "quorlock-bench")],
    "c": lambda: [str(OUT / "c_peer")],
    "py": lambda: [str(PYTHON), str(HERE / "py_peers.py")],
    "aio": lambda: [str(PYTHON), str(HERE / "py_peers.py")],
    "go": lambda: [str(OUT / "go_peer")],
    "js": lambda: ["node", str(HERE / "node_peers.cjs")],
    "java": lambda: ["java", "-cp", f"{OUT / 'java' / 'classes'}:{OUT / 'java' / 'lib'}/*", "Peer"],
    "before": lambda: [str(BEFORE / "target" / "release" / "quorlock-bench")],
}


def call(*words, cwd=ROOT):
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(str(word) for word in words)}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout.strip()


def rust():
    call(os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "--quiet", "--manifest-path", HERE / "rust" / "Cargo.toml",
         "--target-dir", OUT / "rust")


def c():
    call(os.environ.get("CARGO", "cargo"), "packages", "--profile", "dist", "--quiet")
    # Linked as a user would: the shared library under its name and its soname.
    version = re.search(r"define QUORLOCK_ABI_VERSION (\d+)", (ROOT / "include" / "quorlock.h").read_text())[1]
    library = OUT / "lib"
    library.mkdir(exist_ok=True)
    for name in ("libquorlock.so", f"libquorlock.so.{version}"):
        (library / name).unlink(missing_ok=True)
        (library / name).symlink_to(DIST / "libquorlock.so")
    call(os.environ.get("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}",
         HERE / "c_peer.c", "-o", OUT / "c_peer", f"-L{library}", "-lquorlock", "-pthread", f"-Wl,-rpath,{library}")


def hop(name, *words):
    """The hand-written client that event loops call."""
    call(os.environ.get("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", HERE / "hop.c",
         "-o", OUT / name, "-pthread", *words)


def python():
    """The peers and the wheel in one environment: the same interpreter for all."""
    wanted = HERE / "peers" / "requirements.txt"
    have = OUT / "venv" / "requirements.txt"
    if not have.exists() or have.read_text() != wanted.read_text():
        call(sys.executable, "-m", "venv", "--clear", OUT / "venv")
        call(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted)
        shutil.copy(wanted, have)
    wheels = sorted((TARGET / "wheels").glob("quorlock-*.whl"), key=os.path.getmtime)
    if not wheels:
        raise RuntimeError("there is no wheel in target/wheels: `make bench` makes it")
    call(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheels[-1])
    hop("libhop.so")


def node():
    folder, wanted = OUT / "node", HERE / "peers" / "package.json"
    have = folder / "package.json"
    if not have.exists() or have.read_text() != wanted.read_text() or not (folder / "node_modules").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(wanted, have)
        try:
            call("npm", "install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", cwd=folder)
        except BaseException:
            have.unlink()
            raise
    call("node", "-e", f"require({str(ROOT / 'node')!r})")
    headers = pathlib.Path(call("node", "-p", "process.execPath")).parents[1] / "include" / "node"
    if (headers / "node_api.h").exists():
        hop("hop.node", "-DNODE", f"-I{headers}")
    else:
        print("without js:raw-native: Node came without its headers", flush=True)


def go():
    # What it downloads has to be what go.sum says.
    call("go", "build", "-mod=readonly", "-trimpath", "-o", OUT / "go_peer", ".", cwd=HERE / "go")


def java():
    call("mvn", "--batch-mode", "--quiet", "--file", HERE / "java" / "pom.xml", "compile", "dependency:copy-dependencies")


def before():
    """The Rust driver of then, built from then's sources in a folder of its own."""
    stamp = BEFORE / "commit.txt"
    if not stamp.exists() or stamp.read_text() != BEFORE_COMMIT:
        shutil.rmtree(BEFORE, ignore_errors=True)
        BEFORE.mkdir(parents=True)
        call("git", "archive", "--output", BEFORE / "sources.tar", BEFORE_COMMIT)
        call("tar", "-xf", "sources.tar", cwd=BEFORE)
        call(os.environ.get("CARGO", "cargo"), "build", "--release", "--quiet", "--locked", "-p", "quorlock-bench",
             "--target-dir", BEFORE / "target", cwd=BEFORE)
        stamp.write_text(BEFORE_COMMIT)


STEPS = {"rust": rust, "c": c, "py": python, "aio": python, "js": node, "go": go, "java": java, "before": before}


def prepare(languages):
    """Makes what is needed for these languages; returns what is wrong with those that cannot run."""
    OUT.mkdir(parents=True, exist_ok=True)
    wrong, done = {}, set()
    for language in languages:
        step = STEPS[language]
        if step in done:
            continue
        done.add(step)
        print(f"preparing {step.__name__}", flush=True)
        try:
            step()
        except (RuntimeError, OSError) as error:
            wrong.update({name: str(error) for name in STEPS if STEPS[name] is step})
    return wrong
