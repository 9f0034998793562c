"""`python -m quorlock` is the program `quorlock`, which the package brings."""

import os
import sys
from importlib import metadata

_LACKING = """\
this installation of quorlock has no program `quorlock`, as one that was built from its sources: get it by
`cargo install quorlock-cli`
"""


def _program() -> str | None:
    """The program, where the package was installed with it."""
    try:
        files = metadata.files("quorlock") or []
    except metadata.PackageNotFoundError:
        return None
    paths = (str(file.locate()) for file in files if file.name == "quorlock" and file.suffix == "")
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), None)


def main() -> int:
    """Becomes the program; returns only where there is none."""
    path = _program()
    if path is None:
        print(_LACKING, end="", file=sys.stderr)
        return 127
    os.execv(path, ["quorlock", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
