"""Gets the libraries of the matrix from their registries, at the versions that are pinned, into target/interop."""

import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Behind our own folder: both have a `run`.
sys.path.append(str(HERE.parent / "peers"))

from fetch import call, once  # noqa: E402

OUT = ROOT / "target" / "interop"
PYTHON = OUT / "python" / "bin" / "python"
GO = OUT / "go" / "interop"
JAVA = OUT / "redisson" / "lib"
RUST = ROOT / "target" / "interop" / "rust" / "release" / "quorlock-interop"


def python():
    wanted = HERE / "requirements.txt"

    def make(folder):
        call(sys.executable, "-m", "venv", folder)
        call(folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-r", wanted)

    once(OUT / "python", wanted.read_text() + sys.version, make)


def node():
    wanted = [HERE / "node" / name for name in ("package.json", "package-lock.json")]

    def make(folder):
        for path in wanted:
            shutil.copy(path, folder)
        call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)

    once(OUT / "node", "".join(path.read_text() for path in wanted), make)


def go():
    # What it downloads has to be what go.sum says.
    call("go", "build", "-mod=readonly", "-trimpath", "-o", GO, ".", cwd=HERE / "go")


def rust():
    call(os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "--quiet", "--manifest-path", HERE / "rust" / "Cargo.toml",
         "--target-dir", RUST.parents[1])


def java():
    """Redisson from Maven Central, and Java's side of tests/interop/redisson."""
    call("mvn", "--batch-mode", "--quiet", "--file", HERE / "redisson" / "pom.xml", "compile", "dependency:copy-dependencies")


def get(groups):
    """Gets what the groups need; returns for each that could not be had why not."""
    failed = {}
    for group in groups:
        try:
            {"python": python, "node": node, "go": go, "rust": rust, "java": java}[group]()
        except (RuntimeError, OSError) as error:
            failed[group] = str(error)
    return failed
