#!/usr/bin/env python3
"""The map of the code in CONTRIBUTING.md, made from the first sentence that each file says of itself.

    map.py              writes the map
    map.py --check      fails where the map is not what the files say

A file of Rust says it in its first `//!`, a file of Python in its docstring, a file of TypeScript in the comment at its head, and a
folder of tests in its README. A file without such a sentence fails with its name, in both forms.
"""

import ast
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from made import put  # noqa: E402

# Folder, and the ending of its files.
PLACES = [("core/src", ".rs"), ("core/cli/src", ".rs"), ("ffi-c/src", ".rs"), ("py/src", ".rs"), ("py/python/quorlock", ".py"),
          ("node/native", ".rs"), ("node/src", ".ts")]
BEGIN = "<!-- Made from what each file says of itself, by tests/docs/map.py. -->\n"
END = "<!-- The end of what is made. -->\n"
# Tests stand beside their file and are found from there; the exhaustive ones are told of in docs/proof.
TESTS = {"tests", "loom_tests", "explore", "exhaustive"}


def paragraph(lines):
    """The first paragraph of a comment, on one line."""
    words = []
    for line in map(str.strip, lines):
        if line:
            words.append(line)
        elif words:
            break
    return " ".join(words)


def said(path):
    """The first paragraph that a file says of itself; empty: it says nothing."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return paragraph((ast.get_docstring(ast.parse(text)) or "").splitlines())
    if path.suffix == ".ts":
        comment = re.match(r"(?:///[^\n]*\n|\s)*/\*\*(.*?)\*/", text, re.S)
        return paragraph(line.strip().removeprefix("*") for line in comment[1].splitlines()) if comment else ""
    if path.suffix == ".md":
        return paragraph(line for line in text.splitlines() if not line.startswith("#"))
    comment = re.match(r"(?:#!\[[^\n]*\n|//(?!!)[^\n]*\n|\s)*((?://![^\n]*\n)+)", text)
    return paragraph(line.strip()[3:] for line in comment[1].splitlines()) if comment else ""


def sentence(text):
    """The first sentence of a paragraph, for a cell of a table; empty: there is none."""
    found = re.match(r"(.+?[.:])(?=\s+[A-Z`*]|$)", text)
    if found and found[1].endswith(":"):
        # What stands before a colon says less than a sentence.
        found = re.match(r"(.+?[.])(?=\s+[A-Z`*]|$)", text) or found
    plain = re.sub(r"\[(`?[^\]]+?`?)\]\((?:[^()]|\(\))*\)", r"\1", found[1] if found else "")
    plain = re.sub(r"\[(`[^\]`]+`|[a-z_]+)\]", r"\1", plain)
    return plain.removesuffix(".").removesuffix(":").replace("|", r"\|")


def files(folder, ending):
    for path in sorted(folder.rglob(f"*{ending}"), key=order):
        if not TESTS & {*path.relative_to(folder).with_suffix("").parts} and not path.name.endswith(".d.ts"):
            yield path


def order(path):
    """A file stands before the folder of its parts, as it does before all else in its own folder if it is that one's root."""
    words = [part for part in path.with_suffix("").parts if part not in ("mod", "lib", "main", "index", "__init__")]
    return words


def table(root, folder, paths):
    """The rows of one folder, and the names of the files that say nothing."""
    rows, silent = [], []
    for path in paths:
        what = sentence(said(path))
        silent += [] if what else [str(path.relative_to(root))]
        name = path.parent.name + "/" if path.name == "README.md" else path.relative_to(folder)
        rows.append(f"| `{name}` | {what} |")
    return rows, silent


def made(root):
    """The text of the map, and the names of the files that say nothing of themselves."""
    places = [(folder, list(files(root / folder, ending))) for folder, ending in PLACES]
    places.append(("tests", sorted(path for path in (root / "tests").glob("*/README.md"))))
    parts, silent = [], []
    for folder, paths in places:
        rows, without = table(root, root / folder, paths)
        silent += without
        parts.append("\n".join([f"### `{folder}`", "", "| file | what it is |", "|---|---|", *rows, ""]))
    return "\n".join(parts), silent


def main():
    check = sys.argv[1:] == ["--check"]
    text, silent = made(ROOT)
    for name in silent:
        print(f"FAIL {name} does not say in a sentence at its head what it is")
    page = ROOT / "CONTRIBUTING.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{page.name} has no place for the map"
    status = put({page: f"{before}{begin}\n{text}\n{end}{after}"}, check, "python3 tests/docs/map.py")
    return 1 if silent else status


if __name__ == "__main__":
    sys.exit(main())
