#!/usr/bin/env python3
"""How what Quorlock costs grows with clients, lock names, held leases and waiters. Prints curves with their laws, as GROWTH.md has them.

    grow.py [KIND...] [--most N]     all of KINDS, or these; no count above N
    grow.py --report                 GROWTH.md again, from the figures that are kept in target/bench/growth

Three nodes, all on this machine; each count in a process and on servers of its own. `rust/src/bin/grow.rs` is the client.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from prepare import OUT, rust  # noqa: E402
from stage import Stage  # noqa: E402

DRIVER, HOLDER = (OUT / "rust" / "release" / name for name in ("grow", "quorlock-bench"))
KEPT, PAGE = OUT / "growth", HERE / "GROWTH.md"
NODES = 3
# For all of a run, and how long a look at a server's pace lasts and how often it is taken.
PATIENCE, LOOK_SECONDS, PACE_SECONDS = 300, 4.0, 0.05
HELD_SECONDS = 20
# Open files of the client, as many as there may be.
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


class Driver:
    """The client of a run; each line that it prints is one of JSON."""

    def __init__(self, stage, *words, files=FILES):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self._said = open(KEPT / "said.txt", "w+")
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
                                        preexec_fn=limit, env=dict(os.environ, QUORLOCK_NODES=",".join(stage.urls())))

    def line(self):
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(self.said()[-400:] or "the client said nothing")
        return json.loads(line)

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def said(self):
        self._said.flush()
        return pathlib.Path(self._said.name).read_text().strip()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._said.close()


def info(stage, number=1):
    lines = stage.redis(number, "INFO").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def server(stage):
    """What a node has: connections, memory in KiB."""
    found = info(stage)
    return {"connections": int(found["connected_clients"]) - 1, "server_kib": int(found["used_memory"]) // 1024}


class Pace(threading.Thread):
    """The most that a node is asked in a second, by looks of 50 ms."""

    def __init__(self, stage, number):
        super().__init__()
        self._stage, self._number, self.commands, self.connections = stage, number, 0.0, 0.0

    def run(self):
        end, before = time.monotonic() + LOOK_SECONDS, None
        while time.monotonic() < end:
            with contextlib.suppress(OSError, KeyError):
                found, at = info(self._stage, self._number), time.monotonic()
                now = (at, int(found["total_commands_processed"]), int(found["total_connections_received"]))
                if before:
                    took = now[0] - before[0]
                    self.commands = max(self.commands, (now[1] - before[1]) / took)
                    self.connections = max(self.connections, (now[2] - before[2]) / took)
                before = now
            time.sleep(PACE_SECONDS)


def clients(stage, count):
    driver = Driver(stage, DRIVER, "clients", count)
    try:
        first = driver.line()
        idle = server(stage)
        settled = driver.go()
        # A node comes back empty: all connect to it, and none votes there for max_ttl.
        stage.kill(1)
        stage.start(1)
        pace = Pace(stage, 1)
        pace.start()
        at_once = driver.go()
        pace.join()
    finally:
        driver.close()
    return {"first_max_ms": first["max_us"] / 1e3, "all_ms": settled["seconds"] * 1e3, "restart_max_ms": at_once["max_us"] / 1e3,
            "failures": first["failures"] + settled["failures"] + at_once["failures"], "peak_commands": pace.commands,
            "peak_connections": pace.connections, "client_kib": settled["rss_kib"], "files": settled["files"], "threads": settled["threads"], **idle}


def names(stage, count):
    driver = Driver(stage, DRIVER, "names", count)
    try:
        before = driver.line()
        empty = server(stage)
        all_of_them = driver.go()
        again = driver.go()
        full = server(stage)
    finally:
        driver.close()
    return {"us": all_of_them["seconds"] * 1e6 / count, "again_us": again["seconds"] * 1e6 / count, "failures": again["failures"],
            "client_kib": again["rss_kib"] - before["rss_kib"], "server_kib": full["server_kib"] - empty["server_kib"]}


def held(stage, count):
    driver = Driver(stage, HOLDER, "--gate", "--hold", "quorlock-thread", count, HELD_SECONDS)
    try:
        assert driver.process.stdout.readline().strip() == "ready", driver.said()
        before = info(stage)
        found = driver.go()
        after = info(stage)
    finally:
        driver.close()
    reads = int(after["total_reads_processed"]) - int(before["total_reads_processed"])
    calls = int(after["total_commands_processed"]) - int(before["total_commands_processed"])
    return {"client_kib": found["rss_kib"] - found["rss_before_kib"], "cpu_percent": found["cpu_percent"], "lost": found["lost"],
            "acquired_s": found["acquired_s"], "commands_a_read": calls / max(reads, 1)}


def await_queue(stage, count):
    """Waits until so many stand in the queue of the lock, at the node that is its home."""
    def queued(number):
        keys = [key for key in stage.keys(number) if not key.startswith(b"lock:#f") and stage.redis(number, "TYPE", key) == b"zset"]
        return max((stage.redis(number, "ZCARD", key) for key in keys), default=0)

    end = time.monotonic() + PATIENCE
    while max(map(queued, stage.running())) < count:
        if time.monotonic() > end:
            raise RuntimeError(f"{count} clients do not come to stand in the queue")
        time.sleep(PACE_SECONDS)


def waiting(kind):
    def play(stage, count):
        driver = Driver(stage, DRIVER, kind, count)
        try:
            driver.line()
            # Of one client the first alone stands in the queue of a node.
            await_queue(stage, count if kind == "queue" else 1)
            there = server(stage)
            found = driver.go()
        finally:
            driver.close()
        return {"handoff_us": found["seconds"] * 1e6 / count, "longest_s": found["max_us"] / 1e6, "failures": found["failures"],
                "client_kib": found["rss_kib"], **there}
    return play


# Counts, the run, and what is shown: heading, field, how it is written.
KINDS = {
    "clients": ("clients of one process, each with a lock of its own", (1, 10, 100, 500, 1_000, 2_000), clients, (
        ("connections to a node", "connections", "{:,.0f}"), ("memory of a node, KiB", "server_kib", "{:,.0f}"),
        ("memory of the clients, KiB", "client_kib", "{:,.0f}"), ("threads", "threads", "{:.0f}"), ("the last has connected and has its lock, ms", "first_max_ms", "{:,.0f}"),
        ("all have their locks, ms", "all_ms", "{:,.1f}"), ("the same as a node has restarted: the last, ms", "restart_max_ms", "{:,.0f}"),
        ("that node's peak, commands/s", "peak_commands", "{:,.0f}"), ("and connections/s", "peak_connections", "{:,.0f}"), ("failures", "failures", "{:.0f}"))),
    "names": ("names that one client uses in turns, 64 in flight", (10, 100, 1_000, 10_000, 100_000, 1_000_000), names, (
        ("a cycle, µs", "us", "{:.1f}"), ("the second time, µs", "again_us", "{:.1f}"), ("memory of the client, KiB", "client_kib", "{:,.0f}"),
        ("memory of a node, KiB", "server_kib", "{:,.0f}"), ("failures", "failures", "{:.0f}"))),
    "held": ("leases that one client holds, ttl of 10 s", (100, 1_000, 10_000, 50_000, 100_000, 150_000), held, (
        ("memory of the client, KiB", "client_kib", "{:,.0f}"), ("CPU of the client, %", "cpu_percent", "{:.2f}"),
        ("commands in a read", "commands_a_read", "{:.1f}"), ("acquired in s", "acquired_s", "{:.2f}"), ("lost", "lost", "{:.0f}"))),
    "queue": ("clients that wait for one lock", (1, 10, 100, 500, 1_000, 2_000), waiting("queue"), (
        ("a hand-off, µs", "handoff_us", "{:,.0f}"), ("the last waits, s", "longest_s", "{:.2f}"), ("memory of a node, KiB", "server_kib", "{:,.0f}"),
        ("failures", "failures", "{:.0f}"))),
    # One more than may wait in a line, besides the call that asks: it is refused.
    "local": ("calls of one client that wait for one lock", (1, 10, 100, 1_000, 10_001, 10_002), waiting("local"), (
        ("a hand-off, µs", "handoff_us", "{:,.1f}"), ("the last waits, s", "longest_s", "{:.2f}"), ("memory of the client, KiB", "client_kib", "{:,.0f}"),
        ("failures", "failures", "{:.0f}"))),
}


def law(points):
    """How values grow with counts: the power of the count that fits those from 100 on, or a word where that is near."""
    points = [(math.log(count), math.log(value)) for count, value in points if count >= 100 and value > 0]
    if len(points) < 3:
        return "–"
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points))
    power = sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, y in points)
    word = "constant" if abs(power) < 0.15 else "linear" if 0.85 < power < 1.15 else f"n^{power:.2f}"
    return word


def text():
    yield "# How it grows\n"
    yield "Made by `tests/bench/grow.py`. Three nodes and the clients share one machine. The law is the power of the count that fits the rows from 100 on.\n"
    for kind, (title, counts, _, columns) in KINDS.items():
        path = KEPT / f"{kind}.jsonl"
        runs = {run["count"]: run for run in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
        if not runs:
            continue
        yield f"## {title[0].upper()}{title[1:]}\n"
        yield "| " + " | ".join(["count", *(heading for heading, *_ in columns)]) + " |"
        yield "|" + " --- |" * (len(columns) + 1)
        for count in counts:
            if count in runs:
                yield f"| {count:,} | " + " | ".join(form.format(runs[count][field]) for _, field, form in columns) + " |"
        yield "| law | " + " | ".join(law([(count, run[field]) for count, run in runs.items()]) for _, field, _ in columns) + " |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=list(KINDS))
    parser.add_argument("--most", type=int, default=1 << 40)
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if not (given.report or given.no_build):
        rust()
    for kind in given.kinds if not given.report else ():
        _, counts, play, _ = KINDS[kind]
        with open(KEPT / f"{kind}.jsonl", "w") as file:
            for count in (count for count in counts if count <= given.most):
                with Stage(NODES) as stage:
                    stage.declare()
                    run = {"count": count, **play(stage, count)}
                print(json.dumps(run), file=file, flush=True)
                print(kind, run, flush=True)
    PAGE.write_text("\n".join(text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
