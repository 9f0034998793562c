#!/usr/bin/env python3
"""Runs the suites of comparable libraries against Quorlock: `run.py [--only PEER]...`; needs `make build`.

A test has passed if it ended as its peer's table in expected/ says. Ends with `N passed, M failed`; README.md says more.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import fetch  # noqa: E402
from stage import Stage  # noqa: E402

MINUTES = 5
SHOWN = 25


@dataclass
class Peer:
    name: str
    # Takes the stage; returns the command and the folder to run it in.
    prepare: Callable
    # This many tests at least: a suite that silently runs no more is no success.
    floor: int
    servers: int = 1
    # A suite that comes with the interpreter differs from one version to the next.
    varies: bool = False


def pytest(*words):
    return [fetch.environment(), "-m", "pytest", "-c", HERE / "pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider",
            "-p", "ports", "-q", *words]


def redis_py(stage):
    command = pytest("-p", "redis_py", "--redis-url", f"redis://127.0.0.1:{stage.port(1)}/0", "tests/test_lock.py",
                     "tests/test_asyncio/test_lock.py")
    return command, fetch.sources("redis==8.1.0")


def redis_lock(stage):
    # Their conftest would start servers of its own.
    command = pytest("--noconftest", "-p", "redis_lock_fixtures", "tests/test_redis_lock.py")
    return command, fetch.sources("python-redis-lock==4.0.1")


def pottery(stage):
    command = pytest("-p", "pottery_redlock", "tests/test_redlock.py", "tests/test_aioredlock.py")
    return command, fetch.sources("pottery==3.0.1")


def redlock_py(stage):
    return pytest("tests/test_redlock.py"), fetch.sources("redlock-py==1.0.8")


def ours(suite):
    """A suite that is here: written anew where the peer's archive has none, or a few lines around the peer's."""
    return lambda stage: (pytest(suite), HERE / "suites")


def mocha(name, *words):
    reports = ["--reporter", "json", "--reporter-option", f"output={fetch.OUT / (name + '.mocha.json')}", "--exit"]
    return ["node", fetch.modules() / "node_modules" / "mocha" / "bin" / "mocha.js", "--no-config", "--require",
            HERE / "node" / "nodes.cjs", *reports, *words]


def redlock(stage):
    """Their test beside a `redlock.js`, which it asks for, that is ours."""
    command = mocha("redlock", "test.js")
    folder = fetch.OUT / "node" / "redlock"
    folder.mkdir(exist_ok=True)
    shutil.copy(fetch.OUT / "node" / "node_modules" / "redlock" / "test.js", folder)
    (folder / "redlock.js").write_text(f"module.exports = require({json.dumps(str(HERE / 'node' / 'redlock.cjs'))});\n")
    return command, folder


def ours_of_node(name):
    return lambda stage: (mocha(name, "--timeout", "10000", HERE / "suites" / f"{name}.cjs"), HERE)


PEERS = [
    Peer("redis-py", redis_py, 90),
    Peer("python-redis-lock", redis_lock, 120),
    Peer("pottery", pottery, 60, servers=5),
    Peer("redlock-py", redlock_py, 6),
    Peer("aioredlock", ours("test_aioredlock.py"), 8, servers=2),
    Peer("cpython", ours("test_cpython.py"), 30, varies=True),
    Peer("redlock", redlock, 200, servers=3),
    Peer("redis-semaphore", ours_of_node("redis-semaphore"), 40, servers=3),
    Peer("async-mutex", ours_of_node("async-mutex"), 20),
]


def results(peer, stage):
    """Runs the peer's suite; returns by test whether it passed and what it said."""
    command, folder = peer.prepare(stage)
    found, of_mocha = fetch.OUT / f"{peer.name}.json", fetch.OUT / f"{peer.name}.mocha.json"
    found.unlink(missing_ok=True)
    of_mocha.unlink(missing_ok=True)
    environment = dict(os.environ, PEERS_RESULTS=str(found), PYTHONDONTWRITEBYTECODE="1",
                       PEERS_PORTS=",".join(str(stage.port(number)) for number in range(1, len(stage) + 1)),
                       PEERS_SOCKET=stage.urls([1], via="unix")[0].removeprefix("redis+unix://"),
                       PYTHONPATH=str(HERE / "python"), NODE_PATH=str(fetch.OUT / "node" / "node_modules"))
    with open(fetch.OUT / f"{peer.name}.log", "w") as log:
        # A group of its own, so that everything it started ends with it.
        process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(MINUTES * 60)
        except subprocess.TimeoutExpired:
            log.write(f"no end after {MINUTES} min\n")
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    if of_mocha.exists():
        # A test that mocha left out, for a hook failed, is there as pending.
        told = json.loads(of_mocha.read_text())
        good = {test["fullTitle"] for test in told["passes"]}
        return {test["fullTitle"]: (test["fullTitle"] in good, test["err"].get("message", "it did not run"))
                for test in told["tests"] + told["failures"]}
    if not found.exists():
        return {"the suite ran": (False, f"it told no results: see {fetch.OUT / peer.name}.log")}
    return json.loads(found.read_text())


def expected(peer):
    """The lines of the peer's table as (pattern, line): `design` or `missing N`, the test, the reason."""
    found = []
    for line in (HERE / "expected" / f"{peer.name}.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts) or not re.fullmatch(r"design|missing \d+", parts[0]):
            raise ValueError(f"expected/{peer.name}.txt: {line!r} is not `design or missing ISSUE | test | reason`")
        pattern = ".*".join(re.escape(piece) for piece in parts[1].split("*"))
        found.append((re.compile(pattern), parts[1]))
    return found


def judge(peer, ended):
    """Compares how tests ended with the table; returns how many fail as listed and what is wrong, a line each."""
    listed, wrong, as_listed, used = expected(peer), [], 0, set()
    for test, (good, said) in sorted(ended.items()):
        lines = [line for pattern, line in listed if pattern.fullmatch(test)]
        used.update(lines)
        as_listed += bool(lines) and not good
        if good and lines:
            wrong.append(f"{test} passes, and expected/{peer.name}.txt says that it fails: take it out")
        elif not good and not lines:
            last = (said.strip().splitlines() or [""])[-1]
            wrong.append(f"{test} fails, which is not listed: {last[:200]}")
    unused = [] if peer.varies else [line for _, line in listed if line not in used]
    wrong += [f"expected/{peer.name}.txt names {line}, and there is no such test" for line in unused]
    if len(ended) < peer.floor:
        wrong.append(f"only {len(ended)} tests ran, at least {peer.floor} must")
    return as_listed, wrong


def run(peer):
    try:
        fetch.OUT.mkdir(parents=True, exist_ok=True)
        with Stage(peer.servers, unix=True, declare=False) as stage:
            ended = results(peer, stage)
        as_listed, wrong = judge(peer, ended)
    except (RuntimeError, OSError, ValueError) as error:
        ended, as_listed, wrong = {}, 0, [str(error)]
    good = sum(1 for passes, _ in ended.values() if passes)
    verdict = "FAIL" if wrong else "ok  "
    print(f"{verdict} {peer.name:<20} {good:4d} of {len(ended)} pass, {as_listed} fail as listed", flush=True)
    for line in wrong[:SHOWN]:
        print(f"    {line}", flush=True)
    # Each test counts once, and so does all else that is wrong.
    return max(len(ended) - len(wrong), 0), len(wrong)


def main():
    # An exception, so that servers and suites end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PEER", action="append", choices=[peer.name for peer in PEERS],
                        help="one of " + ", ".join(peer.name for peer in PEERS))
    asked = parser.parse_args()
    counts = [run(peer) for peer in PEERS if not asked.only or peer.name in asked.only]
    passed, failed = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
