#!/usr/bin/env python3
"""The choices of packages that the Makefile builds have the features of every dependency that the whole workspace has, so that
cargo compiles each of them once in a profile. Ends with `N passed, M failed`.

Compared is what `cargo tree` says of each choice. One package that is built by name alone may have others.

Workspaces beside this one, which build peers with Quorlock, have lock files of their own: each of them has all that the core
depends on, or `cargo build --locked` would refuse it there.
"""

import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
CARGO = os.environ.get("CARGO", "cargo")
ALIAS = tomllib.loads((ROOT / ".cargo" / "config.toml").read_text())["alias"]["packages"].split()
PACKAGES = [word for here, word in enumerate(ALIAS) if "-p" in (word, ALIAS[here - 1])]
# Each is a part of the workspace, which the tests build whole.
PARTS = {
    "the packages": PACKAGES,
    "the packages and the programs of the tests": [*PACKAGES, "-p", "quorlock-tests"],
    "the wheel, which maturin builds": ["-p", "quorlock-python"],
}


def compiled(*packages):
    """Each dependency with its version and features, as they are compiled for these packages."""
    words = [CARGO, "tree", "--locked", *packages, "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"]
    told = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line for line in told.splitlines() if line}


def lacking(lock_file):
    """What the core always depends on, and the lock file does not know of."""
    dependencies = tomllib.loads((ROOT / "core" / "Cargo.toml").read_text())["dependencies"]
    always = {name for name, how in dependencies.items() if not (isinstance(how, dict) and how.get("optional"))}
    packages = tomllib.loads(lock_file.read_text())["package"]
    # A workspace of other libraries alone has no core.
    cores = [package for package in packages if package["name"] == "quorlock"]
    return sorted({name for core in cores for name in always - {known.split()[0] for known in core["dependencies"]}})


def main():
    whole, failed = compiled("--workspace"), 0
    for part, packages in PARTS.items():
        others = sorted(compiled(*packages) - whole)
        failed += bool(others)
        for line in others:
            package, _, features = line.partition("|")
            print(f"{part}: {package} is compiled with the features {features or 'none'}, and with others in the workspace")
    locks = [path for path in sorted((ROOT / "tests").rglob("Cargo.lock")) if "target" not in path.parts]
    for path in locks:
        missing = lacking(path)
        failed += bool(missing)
        if missing:
            print(f"{path.relative_to(ROOT)}: it lacks {', '.join(missing)}, which the core depends on")
    print(f"{len(PARTS) + len(locks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
