#!/usr/bin/env python3
"""Puts together what the machines of a release have made: `.ci/dist/gather.py ARTIFACTS OUT`.

ARTIFACTS has a folder of each. OUT gets `pypi`, `npm`, `crates` and `release`, for where each file goes, the notes, SHA256SUMS of what is
published, and SHA256SUMS.here of all files where they are, by which each job that publishes looks at what it was handed.
npm has one package for all systems: the prebuilds of the other machines are added to that of Linux.
"""

import gzip
import hashlib
import io
import pathlib
import re
import shutil
import sys
import tarfile

import releasable


def entries(file):
    with tarfile.open(file) as package:
        return {entry.name: (entry, package.extractfile(entry).read()) for entry in package if entry.isfile()}


def merged(files, out):
    """One package with all that these have. What two of them have must be the same."""
    together = {}
    for file in files:
        for name, (entry, content) in entries(file).items():
            if together.setdefault(name, (entry, content))[1] != content:
                raise SystemExit(f"{name} is not the same in all of {', '.join(map(str, files))}")
    raw = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, raw, 0) as packed, tarfile.open(fileobj=packed, mode="w") as package:
        for name, (entry, content) in sorted(together.items()):
            package.addfile(entry, io.BytesIO(content))
    out.write_bytes(raw.getvalue())


def gather(artifacts, out):
    for folder in ("pypi", "npm", "crates", "release"):
        (out / folder).mkdir(parents=True)
    files = sorted(file for file in artifacts.rglob("*") if file.is_file() and file.name != "SHA256SUMS")
    packages = {}
    for file in files:
        if file.name.endswith(".whl") or re.fullmatch(r"quorlock-[0-9.]+\.tar\.gz", file.name):
            shutil.copy(file, out / "pypi")
        elif file.name.endswith(".tgz"):
            packages.setdefault(file.name, []).append(file)
        else:
            shutil.copy(file, out / ("crates" if file.name.endswith(".crate") else "release"))
    for name, several in packages.items():
        merged(several, out / "npm" / name)
    all_of_them = sorted(file for folder in ("pypi", "npm", "release") for file in (out / folder).iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in all_of_them]
    (out / "SHA256SUMS").write_text("".join(lines))
    here = sorted(file for file in out.rglob("*") if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(out)}\n" for file in here]
    (out / "SHA256SUMS.here").write_text("".join(lines))
    version = releasable.versions(releasable.ROOT)["Cargo.toml, package"]
    (out / "NOTES.md").write_text(releasable.notes((releasable.ROOT / "CHANGELOG.md").read_text(), version) or "")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    gather(*map(pathlib.Path, sys.argv[1:]))
