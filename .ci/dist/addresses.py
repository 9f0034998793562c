#!/usr/bin/env python3
"""The addresses of the project in the manifests of its packages.

    addresses.py            writes those of addresses.toml into them
    addresses.py --check    fails where a manifest has others
"""

import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ("repository", "homepage", "bugs")
# Each package of npm, and its folder in the repository.
NODE = {"node/package.json": "node", "node/cli/package.json": "node/cli"}


def decided(root):
    """The addresses that are known, by their names."""
    known = tomllib.loads((root / ".ci/dist/addresses.toml").read_text())
    return {name: known[name] for name in NAMES if known[name]}


def undecided(root):
    return [name for name in NAMES if name not in decided(root)]


def cargo(text, known):
    """Of the workspace; each published crate takes them from there."""
    text = re.sub(r"^(?:repository|homepage) = .*\n", "", text, flags=re.MULTILINE)
    lines = "".join(f'{name} = "{known[name]}"\n' for name in ("homepage", "repository") if name in known)
    return re.sub(r'(?<=^license = "Apache-2.0"\n)', lines, text, count=1, flags=re.MULTILINE)


def crate(text, known):
    text = re.sub(r"^(?:repository|homepage)\.workspace = true\n", "", text, flags=re.MULTILINE)
    lines = "".join(f"{name}.workspace = true\n" for name in ("homepage", "repository") if name in known)
    return re.sub(r"(?<=^license.workspace = true\n)", lines, text, count=1, flags=re.MULTILINE)


def python(text, known):
    text = re.sub(r"^\[project\.urls\]\n(?:.+\n)*\n?", "", text, flags=re.MULTILINE)
    words = {"homepage": "Homepage", "repository": "Repository", "bugs": "Issues"}
    lines = "".join(f'{word} = "{known[name]}"\n' for name, word in words.items() if name in known)
    return text.replace("[tool.maturin]\n", f"[project.urls]\n{lines}\n[tool.maturin]\n", 1) if lines else text


def node(text, known, folder):
    text = re.sub(r'^  "(?:homepage|bugs)": .*,\n|^  "repository": \{\n(?:    .*\n)*  \},\n', "", text, flags=re.MULTILINE)
    lines = ""
    if "homepage" in known:
        lines += f'  "homepage": {json.dumps(known["homepage"])},\n'
    if "repository" in known:
        lines += (f'  "repository": {{\n    "type": "git",\n    "url": {json.dumps("git+" + known["repository"] + ".git")},\n'
                  f'    "directory": "{folder}"\n  }},\n')
    if "bugs" in known:
        lines += f'  "bugs": {json.dumps(known["bugs"])},\n'
    return re.sub(r'^(?=  "license": )', lambda _: lines, text, count=1, flags=re.MULTILINE)


def manifests(root):
    """Each manifest, and what it is to be."""
    known = decided(root)
    makers = {"Cargo.toml": cargo, "core/Cargo.toml": crate, "core/cli/Cargo.toml": crate, "py/pyproject.toml": python}
    for path, folder in NODE.items():
        makers[path] = lambda text, known, folder=folder: node(text, known, folder)
    return {path: make((root / path).read_text(), known) for path, make in makers.items()}


def differing(root):
    return [path for path, text in manifests(root).items() if (root / path).read_text() != text]


def main(root):
    if "--check" in sys.argv[1:]:
        found = [f"FAIL {path} has other addresses than addresses.toml: run .ci/dist/addresses.py" for path in differing(root)]
        print(*found, f"{len(manifests(root)) - len(found)} passed, {len(found)} failed", sep="\n")
        return 1 if found else 0
    for path, text in manifests(root).items():
        (root / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(ROOT))
