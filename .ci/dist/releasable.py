#!/usr/bin/env python3
"""Whether this commit can be released as that tag: `.ci/dist/releasable.py v0.1.0`. Every version is the tag's, the changelog
has a section of it with what changed, and the manifests have the addresses of the project: npm refuses `--provenance` for a package that
does not name the repository of the workflow, when the other registries have the version already."""

import json
import os
import pathlib
import re
import sys
import tomllib

import addresses

ROOT = pathlib.Path(__file__).resolve().parents[2]


def versions(root):
    """Every place that has the version, and which it has."""
    cargo = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    header = (root / "include" / "quorlock.h").read_text()
    return {
        "Cargo.toml, package": cargo["package"]["version"],
        "Cargo.toml, dependency": cargo["dependencies"]["quorlock"]["version"],
        "node/package.json": json.loads((root / "node" / "package.json").read_text())["version"],
        "node/cli/package.json": json.loads((root / "node" / "cli" / "package.json").read_text())["version"],
        "include/quorlock.h": re.search(r'^#define QUORLOCK_VERSION "(.*)"$', header, re.M)[1],
    }


def notes(changelog, version):
    """What the changelog says of a version; None if it says nothing."""
    found = re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    return found and found[1].strip() or None


def wrong(root, tag):
    version = tag.removeprefix("v")
    found = [f"{place} has version {other}, the tag is {tag}" for place, other in versions(root).items() if other != version]
    changelog = (root / "CHANGELOG.md").read_text()
    if not notes(changelog, version):
        found.append(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)` that says what changed")
    if "\n## Unreleased\n" not in changelog:
        found.append("CHANGELOG.md has no section `## Unreleased` for what comes next")
    return found + unaddressed(root, os.environ.get("GITHUB_REPOSITORY"))


def unaddressed(root, repository):
    """What is wrong with the addresses; `repository`: of the workflow that publishes, as `owner/name`."""
    found = [f".ci/dist/addresses.toml has no {name}: decide it, and run .ci/dist/addresses.py" for name in addresses.undecided(root)]
    found += [f"{path} has other addresses than .ci/dist/addresses.toml: run .ci/dist/addresses.py" for path in addresses.differing(root)]
    named = addresses.decided(root).get("repository")
    if named and repository and named.lower() != f"https://github.com/{repository}".lower():
        found.append(f"the repository is {named}, and this workflow runs in https://github.com/{repository}: npm would refuse its provenance")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    reasons = wrong(ROOT, sys.argv[1])
    print("\n".join(reasons) or "can be released")
    sys.exit(bool(reasons))
