#!/usr/bin/env python3
"""Whether this tree can take the place of the last release, or of REV: `.ci/dist/compatible.py [REV]`.

C's symbols and numbers, which this compares itself; Rust's API, which cargo-semver-checks does.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYMBOLS, HEADER = "ffi-c/symbols.txt", "include/quorlock.h"
TOOL = ["cargo-semver-checks", "--version", "0.51.0"]


def numbers(header):
    """The ABI's number, and each constant of an enum or macro with its value."""
    abi = re.search(r"^#define QUORLOCK_ABI_VERSION (\d+)$", header, re.M)[1]
    constants = re.findall(r"^ *(?:#define )?(QUORLOCK_[A-Z_0-9]+)(?: = | )(-?\d+)\b", header, re.M)
    return abi, {name: value for name, value in constants if "_VERSION" not in name}


def broken(before, now):
    """What programs that were linked to the one would miss in the other. Each is symbols and header, as text."""
    (symbols, header), (new_symbols, new_header) = before, now
    (abi, constants), (new_abi, new_constants) = numbers(header), numbers(new_header)
    if abi != new_abi:
        return []
    gone = sorted(set(symbols.split()) - set(new_symbols.split()))
    other = sorted(name for name, value in constants.items() if new_constants.get(name) != value)
    return [f"{name} is gone, and the ABI's number is the same" for name in gone] + [
        f"{name} was {constants[name]} and is {new_constants.get(name)}, and the ABI's number is the same" for name in other]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main():
    tags = git("tag", "--list", "v*", "--sort=-version:refname").split()
    rev = sys.argv[1] if len(sys.argv) > 1 else tags[0] if tags else None
    if rev is None:
        print("There is no release yet, so there is nothing to compare with.")
        return 0
    before = [git("show", f"{rev}:{file}") for file in (SYMBOLS, HEADER)]
    found = broken(before, [(ROOT / file).read_text() for file in (SYMBOLS, HEADER)])
    print("\n".join(found) or f"C: nothing is missing of {rev}")
    tool = ROOT / "target" / "dist-tools" / "bin" / TOOL[0]
    if not tool.exists():
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", tool.parents[1], *TOOL], check=True)
    done = subprocess.run([tool, "semver-checks", "--package", "quorlock", "--baseline-rev", rev], cwd=ROOT)
    return 1 if found or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
