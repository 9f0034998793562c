#!/usr/bin/env python3
"""Many cycles of many locks in each language: nothing grows, nothing hangs.

    tests/endurance.py [--leak] [--share PART] [KIND...]

A program of each kind does the cycles in five parts, and is looked at from outside after each: its resident memory, threads
and file descriptors, the keys and connections of the servers; and what the language itself says is in use. The first part
is for warming up; every name has been used in it. What the last look has more than the first must keep within the bounds of
the kind. With --leak the programs keep something of every cycle, and each of them must be found out. Ends with `N passed, M
failed`.
"""

import argparse
import os
import pathlib
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402

CYCLES, NAMES = 200_000, 20_000
# For children and workers, which do a few cycles each.
FEW_NAMES = 50
PARTS = 5
# What runs abreast.
TASKS = 16
# Two thousand cycles a second are a tenth of what a quiet machine does.
PART_SECONDS = 600
# After a part, until what was on its way has arrived and what was closed is gone.
SETTLE_SECONDS = 10
NODE = ["node", "--expose-gc", "tests/node/endurance.cjs"]
PYTHON = [sys.executable, "tests/python/endurance.py"]


@dataclass
class Kind:
    command: list
    # By how much resident memory may grow after the first part, in MiB. An allocator keeps what it needed when a server was
    # slow, which on a busy machine is some MiB, once; V8 has a mind of its own. 8 MiB are 50 bytes for each cycle.
    mib: float
    # Cycles, forks or workers.
    amount: int = CYCLES
    names: int = NAMES
    # And what the language has in use: Python tells blocks, Node KiB of its heap.
    live: int = 1000


KINDS = {
    "python": Kind([*PYTHON, "blocking"], 8),
    "asyncio": Kind([*PYTHON, "asyncio"], 24),
    "python-forks": Kind([*PYTHON, "forks"], 8, 40, FEW_NAMES),
    "node": Kind([*NODE, "cycles"], 64),
    "node-faked": Kind([*NODE, "faked"], 64),
    "node-workers": Kind([*NODE, "workers"], 48, 250, FEW_NAMES),
    "rust": Kind(["target/release/endurance", "blocking"], 8),
    "rust-async": Kind(["target/release/endurance", "async"], 8),
    "c": Kind(["target/c/bin/endurance-c"], 8),
}


@dataclass
class Look:
    """What a program has, and what it has left on the servers."""

    live: int
    mib: float
    threads: int
    files: int
    keys: int
    locks: int
    connections: int

    @classmethod
    def at(cls, pid, stage, live):
        def of(number):
            return (stage.redis(number, "DBSIZE"), len(stage.locks(number)),
                    len(stage.redis(number, "CLIENT", "LIST").splitlines()))

        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        kib, threads = (int(re.search(rf"^{word}:\s*(\d+)", status, re.MULTILINE)[1]) for word in ("VmRSS", "Threads"))
        servers = map(sum, zip(*(of(number) for number in stage.running())))
        return cls(live, kib / 1024, threads, len(os.listdir(f"/proc/{pid}/fd")), *servers)

    def grown(self, first, kind):
        """What there is more of than at the first look, beyond the bounds; and locks, of which there may be none."""
        # The thread for logs starts with the first of them, when a server is slow.
        most = {"live": kind.live, "mib": kind.mib, "threads": 1, "files": 0, "keys": 0, "connections": 0}
        grown = [name for name, more in most.items() if getattr(self, name) - getattr(first, name) > more]
        return grown + ["locks"] * (self.locks > 0)


class Hangs(Exception):
    """A part did not come to its end."""


def part(process, amount):
    process.stdin.write(f"{amount}\n".encode())
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], PART_SECONDS)
    said = process.stdout.readline() if ready else b""
    words = said.split()
    if words[:1] != [b"done"]:
        raise Hangs(f"no end after {PART_SECONDS} s" if not ready else f"it ended: status {process.wait(10)}")
    return int(words[1]) if len(words) > 1 else 0


def settled(process, stage, first, live, kind):
    """A look that finds nothing grown, or the last one."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        look = Look.at(process.pid, stage, live)
        if time.monotonic() > end or first and not look.grown(first, kind):
            return look
        if not first and time.monotonic() > end - SETTLE_SECONDS / 2:
            return look
        time.sleep(0.1)


def endures(kind, leak, share):
    """What has grown, if anything, and the figures."""
    with Stage(3) as stage:
        env = dict(os.environ, QUORLOCK_NODES=",".join(stage.urls()), QUORLOCK_LEAK="1" if leak else "")
        amount, begun, looks = max(int(kind.amount * share) // PARTS, 1), time.monotonic(), []
        with subprocess.Popen([*kind.command, str(max(int(kind.names * share), TASKS))], cwd=ROOT, env=env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            try:
                for _ in range(PARTS):
                    live = part(process, amount)
                    looks.append(settled(process, stage, looks and looks[0], live, kind))
                process.stdin.close()
                status = process.wait(60)
            except Hangs as hangs:
                return [str(hangs)], looks
            finally:
                process.kill()
        grown = looks[-1].grown(looks[0], kind) + [f"status {status}"] * bool(status)
        first, last = looks[0], looks[-1]
        figures = (f"{amount * PARTS} in {time.monotonic() - begun:.0f} s; MiB " +
                   " ".join(f"{look.mib:.1f}" for look in looks) +
                   f"; in use {first.live} {last.live}; threads {first.threads} {last.threads}; files {first.files} {last.files}; keys {first.keys} "
                   f"{last.keys}; connections {first.connections} {last.connections}")
        return grown, figures


def run(names, leak, share, report):
    """Runs the kinds; reports of each whether it is as it must be, and the figures. Returns how many are not."""
    bad = 0
    for name in names:
        grown, figures = endures(KINDS[name], leak, share)
        # Found out, and not by a hang.
        good = bool({"live", "mib"} & set(grown)) if leak else not grown
        bad += not good
        report(name, good, f"{figures}{'; grown: ' + ', '.join(grown) if grown else ''}")
    return bad


def show(name, good, figures):
    print(f"{'ok  ' if good else 'FAIL'} {name}: {figures}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leak", action="store_true", help="something is kept of every cycle")
    parser.add_argument("--share", type=float, default=1.0, help="this part of the cycles")
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[[], *KINDS])
    asked = parser.parse_args()
    names = asked.kinds or list(KINDS)
    bad = run(names, asked.leak, asked.share, show)
    print(f"{len(names) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
