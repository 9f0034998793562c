#!/usr/bin/env python3
"""Seeded bugs: makes a copy of the project in target/mutants/tree that has all of them, each behind its name.

    bugs.py            makes the copy, and ends with `N passed, M failed`: a place that is not found exactly once fails with its name
    bugs.py NAME...    prints where those bugs are

A bug is a file of tests/sim/bugs, NAME.bug: for each of its places a line `--- PATH`, the place between ⟦ and ⟧ with as much around it as makes
it the only one of its file, a line `+++`, and what stands there with the bug.

- Statements that end with `;` are replaced by statements, and by none where nothing stands there.
- A pattern that ends with `=>` does not match with the bug.
- Anything else is an expression.
- Where the line is `+++ in the copy`, that stands in the copy whatever is chosen: what a bug needs there, and what does nothing without it.

What is around two places may overlap, and a place may lie within another: with the outer bug it is not there. In the copy `mutant!("NAME", right,
wrong)` is `wrong` on a thread that has chosen that name, so one build, and one process, serves all bugs.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUGS = ROOT / "tests" / "sim" / "bugs"
TARGET = ROOT / "target" / "mutants"
TREE = TARGET / "tree"
BEGIN, END = "⟦", "⟧"


def names():
    return sorted(path.stem for path in BUGS.glob("*.bug"))


def places(name, folder=BUGS):
    """The places of a bug: each its file, what is around it with the place marked, what stands there, and whether that is so without the bug, too."""
    text = (folder / f"{name}.bug").read_text(encoding="utf-8")
    for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
        path, rest = part.split("\n", 1)
        around, always, instead = re.split(r"\n\+\+\+( in the copy)?\n", rest, maxsplit=1)
        yield path, around, instead.rstrip("\n"), bool(always)


def cut(around):
    """What is before a place that is marked, the place, and what is behind it."""
    return re.split(f"[{BEGIN}{END}]", around)


def files():
    """The bugs of each file: name, beginning and end of the place, and what stands there with the bug; and what is wrong with others."""
    found, wrong = {}, []
    for name in names():
        for path, around, instead, always in places(name):
            text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
            before, place, after = cut(around)
            times = text.count(before + place + after)
            if times != 1:
                wrong.append(f"{name}: its place is there {times} times in {path}")
                continue
            begin = text.index(before + place + after) + len(before)
            found.setdefault(path, []).append((begin, begin + len(place), name, instead, always))
    for path, bugs in found.items():
        # The outer one first; of those with one place the one that comes first by its name.
        bugs.sort(key=lambda bug: (bug[0], -bug[1], bug[2]))
        for (begin, end, name, *_), (other, its_end, its, *_) in zip(bugs, bugs[1:]):
            if begin < other < end < its_end:
                wrong.append(f"{name}: its place in {path} overlaps that of {its}")
    return found, wrong


def seeded(text, bugs, begin=0, end=None):
    """The text between two places of a file, with bugs that are sorted by their place."""
    end, out, at = len(text) if end is None else end, [], begin
    while bugs:
        (first, last, name, instead, always), bugs = bugs[0], bugs[1:]
        inner = []
        while bugs and bugs[0][0] < last:
            inner, bugs = [*inner, bugs[0]], bugs[1:]
        right = seeded(text, inner, first, last)
        out += [text[at:first], instead if always else choice(name, text[first:last], right, instead)]
        at = last
    return "".join([*out, text[at:end]])


def choice(name, place, right, wrong):
    chosen = f'crate::mutants::on(const {{ crate::mutants::number("{name}") }})'
    if place.endswith("=>"):
        return f"{right.removesuffix('=>')}if !{chosen} =>"
    # A block is either, and an `if` may stand for both.
    if place.endswith((";", "}")):
        return f"if {chosen} {{ {wrong} }} else {{ {right} }}"
    return f'crate::mutants::mutant!("{name}", {right}, {wrong})'


# What the copy of the core has besides: which bug is chosen, and the way to choose.
CHOSEN = BUGS / "mutants.rs"


def in_copy(path, text, bugs):
    text = seeded(text, bugs.get(path, []))
    if path == "core/src/lib.rs":
        text = text.replace("pub mod sim {\n", "pub mod sim {\n    pub use crate::mutants::{choose, number, on};\n") + "\nmod mutants;\n"
    return text


def sources():
    """The files of the project. Where it is no clone, as in an archive, those of folders in which nothing is built."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if listed.returncode == 0:
        return [path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()]
    built = {"target", "node_modules", ".venv", "prebuilds", "__pycache__"}
    return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and not built & set(path.relative_to(ROOT).parts)]


def write(path, data):
    """Writes a file of the copy, unless it is so: cargo goes by times."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def mirror(tree, changed):
    """Makes a copy of the project. `changed`: the files that are others there, or are there besides, by their paths."""
    paths = {*sources(), *changed}
    for path in paths:
        write(tree / path, changed[path] if path in changed else (ROOT / path).read_bytes())
    # What is there no more, but for what was made in the copy.
    for path in tree.rglob("*.rs"):
        if str(path.relative_to(tree)) not in paths:
            path.unlink()


def copy():
    """Makes the copy. What is wrong with bugs is told, and ends the program."""
    bugs, wrong = files()
    if wrong:
        print(*(f"FAIL {one}" for one in wrong), f"{len(names()) - len(wrong)} passed, {len(wrong)} failed", sep="\n")
        sys.exit(1)
    changed = {path: in_copy(path, (ROOT / path).read_text(encoding="utf-8"), bugs).encode("utf-8") for path in {*bugs, "core/src/lib.rs"}}
    mirror(TREE, changed | {"core/src/mutants.rs": CHOSEN.read_bytes()})
    return TREE


def main():
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            for path, around, *_ in places(name):
                text = (ROOT / path).read_text(encoding="utf-8")
                before, place, after = cut(around)
                print(f"{path}:{text[:text.index(before + place + after) + len(before)].count(chr(10)) + 1} {name}")
        return 0
    copy()
    print(f"{len(names())} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
