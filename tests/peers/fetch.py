"""Fetches the peers from their registries, at the versions named here and in requirements.txt and package.json.

All of it goes below target/peers and is kept there; nothing of it is part of this repository.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "target" / "peers"
PYTHON = OUT / "venv" / "bin" / "python"
PIP = (PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check")


def call(*words, cwd=ROOT):
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(str(word) for word in words)}: {(done.stderr or done.stdout).strip()[-600:]}")


def once(folder, wanted, make):
    """Makes a folder anew unless it was made for the same wanted text; returns it."""
    stamp = folder / "made-for.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        stamp.write_text(wanted)
    return folder


def environment():
    """A Python environment with Quorlock and with what the suites import."""
    wanted = HERE / "requirements.txt"

    def make(folder):
        call(sys.executable, "-m", "venv", folder)
        call(*PIP, "install", "-r", wanted)

    once(OUT / "venv", wanted.read_text() + sys.version, make)
    wheels = sorted((ROOT / "target" / "wheels").glob("quorlock-*.whl"), key=os.path.getmtime)
    if not wheels:
        raise RuntimeError("there is no wheel in target/wheels: `make python` makes it")
    installed, wheel = OUT / "venv" / "wheel.txt", f"{wheels[-1]} {os.path.getmtime(wheels[-1])}"
    if not installed.exists() or installed.read_text() != wheel:
        call(*PIP, "install", "--force-reinstall", "--no-deps", wheels[-1])
        installed.write_text(wheel)
    return PYTHON


def sources(pinned):
    """The unpacked source archive of `NAME==VERSION`, where its tests are."""

    def make(folder):
        call(*PIP, "download", "--no-deps", "--no-binary", pinned.partition("==")[0], "--dest", folder, pinned)
        archive = next(folder.glob("*.tar.gz"))
        shutil.unpack_archive(archive, folder)
        archive.unlink()

    folder = once(OUT / "sources" / pinned, pinned, make)
    return next(path for path in folder.iterdir() if path.is_dir())


def modules():
    """A folder with the Node peers and with what the suites load."""
    wanted = HERE / "package.json"

    def make(folder):
        shutil.copy(wanted, folder)
        call("npm", "install", "--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--loglevel=error", cwd=folder)

    return once(OUT / "node", wanted.read_text(), make)
