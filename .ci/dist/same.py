#!/usr/bin/env python3
"""Whether what would be published is what was tested: `.ci/dist/same.py TESTED PACKED`, two folders of crates.

The same crates, each with the same files to the byte, but for the one in which cargo notes the commit where there is one.
"""

import pathlib
import sys

import gather

NOTE = ".cargo_vcs_info.json"


def content(file):
    return {name: bytes for name, (_, bytes) in gather.entries(file).items() if pathlib.PurePath(name).name != NOTE}


def different(tested, packed):
    both = [{file.name: content(file) for file in sorted(folder.glob("*.crate"))} for folder in (tested, packed)]
    if not both[0]:
        return [f"{tested} has no crate"]
    found = [f"{crate} is in one of both alone" for crate in sorted(both[0].keys() ^ both[1].keys())]
    for crate in sorted(both[0].keys() & both[1].keys()):
        ours, theirs = both[0][crate], both[1][crate]
        found += [f"{name} differs" for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    reasons = different(*map(pathlib.Path, sys.argv[1:]))
    print("\n".join(reasons) or "the same")
    sys.exit(bool(reasons))
