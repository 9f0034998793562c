"""What checkers of types say of right and wrong calls: mypy and pyright, both strict, of the package as its sources have it."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "py" / "python"


def by_mypy():
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--config-file=", "right.py", "wrong.py"],
                          cwd=HERE, env={"MYPYPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    return {(file, int(line)) for file, line in re.findall(r"^(\w+\.py):(\d+): error:", done.stdout, re.MULTILINE)}, done.stdout + done.stderr


def by_pyright():
    settings = {"include": ["right.py", "wrong.py"], "typeCheckingMode": "strict", "extraPaths": [str(PACKAGE)], "reportUnusedExpression": False, "reportMissingModuleSource": False}
    file = HERE / "pyrightconfig.json"
    file.write_text(json.dumps(settings))
    try:
        done = subprocess.run([sys.executable, "-m", "pyright", "-p", file, "--pythonpath", sys.executable, "--outputjson"],
                              cwd=HERE, capture_output=True, text=True)
    finally:
        file.unlink()
    said = json.loads(done.stdout)["generalDiagnostics"]
    # It counts lines from 0.
    return {(pathlib.Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in said if one["severity"] == "error"}, done.stdout


def marked():
    lines = (HERE / "wrong.py").read_text().splitlines()
    return {("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


class Typed(unittest.TestCase):
    def check(self, checker):
        found, said = checker()
        self.assertEqual((sorted(found - marked()), sorted(marked() - found)), ([], []), said[-6000:])

    def test_mypy(self):
        self.check(by_mypy)

    def test_pyright(self):
        self.check(by_pyright)


if __name__ == "__main__":
    unittest.main()
