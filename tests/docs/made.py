"""Files of docs that are made: written, or compared with what they would be."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def put(files, check, remedy):
    """Writes the texts to their paths, or with `check` only says which file differs and how to correct that; returns a status."""
    wrong = 0
    for path, text in files.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong += 1
            print(f"FAIL {path.relative_to(ROOT)} is not what it is made from: {remedy}")
    print(f"{len(files) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0
