#!/usr/bin/env python3
"""Leases that go from one language to another: handed_on.py NAME COMMAND... [--- NAME COMMAND...]...

For each pair of runners of the scenario files the first one acquires a lock on real servers, exports the lease and ends; the
other adopts it, extends it and releases it; and the first finds the lock free, with a larger fence. The last line is
`N passed, M failed`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

import scenario  # noqa: E402
from stage import Stage  # noqa: E402

SECONDS = 300
EXPORTS = ("client c ttl=30000", "lock a c a", "acquire x a", "export x <text>", "held x -> false")
ADOPTS = ("client c ttl=30000", "adopt y c <text>", "held y -> true", "extend y", "adopt z c <text> -> LockLost",
          "release y -> true", "lock a c a wait=0", "acquire v a", "newer v y -> true", "release v -> true")


def carried_out(stage, folder, command, lines):
    """Has a runner carry out the lines; returns what went wrong, or nothing."""
    path = os.path.join(folder, "handed-on.scenario")
    Path(path).write_text("\n".join(["nodes 3", *scenario.rewrite(lines, stage), ""]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
    environment |= {"QUORLOCK_SCENARIO": path, "QUORLOCK_STAGE": "false", "QUORLOCK_NODES": ",".join(stage.urls())}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode and (done.stdout + done.stderr).strip()[-400:] or None


def runners(words):
    found, command = {}, None
    for word in [*words, "---"]:
        if word == "---":
            command = None
        elif command is None:
            command = found[word] = []
        else:
            command.append(word)
    return found


def main():
    passed = failed = 0
    known = runners(sys.argv[1:])
    with Stage(3) as stage, tempfile.TemporaryDirectory(prefix="qlhanded") as folder:
        for one, exports in known.items():
            for other, adopts in known.items():
                wrong = carried_out(stage, folder, exports, EXPORTS) or carried_out(stage, folder, adopts, ADOPTS)
                if not wrong and (left := [key for number in stage.running() for key in stage.locks(number)]):
                    wrong = f"left behind: {left}"
                passed, failed = passed + (not wrong), failed + bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} from {one} to {other}" + (f"\n     {wrong}" if wrong else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
