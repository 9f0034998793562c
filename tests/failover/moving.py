#!/usr/bin/env python3
"""Workers of all languages on a cluster whose hash slots move all the time, and a primary now and then. README.md says the rest."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "faults"), os.path.join(TESTS, "scenarios"), TESTS]

import check2  # noqa: E402
from check import Verdict, exclusion, fences, figures  # noqa: E402
from crew import LANGUAGES, Crew, Terms, missing  # noqa: E402
from drive import await_no_votes  # noqa: E402
from witness import watch  # noqa: E402
from history import Writer, read  # noqa: E402
from proxy import ROOT  # noqa: E402
from stage import Stage  # noqa: E402

SHARDS, REPLICAS = 3, 1
TERMS = Terms(nodes=1, locks=("a", "b", "c", "prices&", "pool*2"), ttl=2000, max_ttl=2000, node_timeout=250, wait=3000, hold=300)
# The hash slots of the locks, and that of the record of the node.
KEYS = ("lock:{a}", "lock:{b}", "lock:{c}", "lock:{prices}", "lock:{pool}", "lock:#node")
# A step of a move comes within this many seconds of the one before; leases outlive some moves, and some moves outlive them.
STEP_SECONDS = 1.5
# So often a replica is told to take a primary's place, between two moves.
FAILOVER_SECONDS = 90
PATIENCE_SECONDS = 60
KEEP = os.path.join(ROOT, "target", "moving")


def move(stage, rng):
    """Moves one hash slot, step by step."""
    key = rng.choice(KEYS)
    for step, more in (("begin_move", ("next",)), ("move_keys", ()), ("end_move", ())):
        stage.move(step, 1, key.encode(), *more)
        time.sleep(rng.uniform(0, STEP_SECONDS) * (step != "end_move"))


def disturb(stage, history, rng, end):
    """Moves hash slots until then; returns how often, and how often a replica took over."""
    moves = failovers = 0
    next_failover = time.monotonic() + FAILOVER_SECONDS / 2
    while time.monotonic() < end:
        number = moves + failovers
        if time.monotonic() > next_failover:
            history.write("begin", number, "by-hand", time.monotonic_ns(), 1)
            stage.failover(1)
            stage.await_failover(1, PATIENCE_SECONDS)
            stage.await_order(1, PATIENCE_SECONDS)
            failovers, next_failover = failovers + 1, time.monotonic() + FAILOVER_SECONDS
        else:
            history.write("begin", number, "moves", time.monotonic_ns(), 1)
            move(stage, rng)
            moves += 1
        history.write("end", number, time.monotonic_ns())
    return moves, failovers


def judge(path, wrong):
    """Prints the verdict; returns what is wrong."""
    history, verdict = read(path), Verdict()
    exclusion(history, verdict)
    fences(history, verdict, asked=True)
    ours, theirs = figures(history), check2.judge(path)
    verdict.line(ours == theirs, f"two checkers count {ours} and {theirs} (holds, doubles, disorder, repeated fences)")
    by = Counter(hold.worker.split("-")[0] for hold in history.holds)
    verdict.line(all(by[language] for language in LANGUAGES), f"every language held a lock: {dict(by)}")
    crossed = sum(any(hold.acquired < fault.begin < hold.until for hold in history.holds) for fault in history.faults.values())
    verdict.line(crossed > len(history.faults) / 2, f"{crossed} of {len(history.faults)} moves and failovers met a hold")
    return verdict.failed + wrong


def run(minutes, folder, seed):
    rng, over = random.Random(seed), threading.Event()
    history = Writer(os.path.join(folder, "history"))
    watcher = threading.Thread(target=watch, args=(history, over), daemon=True)
    wrong = []
    with Stage(1, shards=SHARDS, replicas=REPLICAS, declare=False) as stage:
        stage.declare(max_ttl=TERMS.max_ttl)
        end = time.monotonic() + minutes * 60
        crew = Crew(folder, lambda _name: stage.urls(), history, TERMS, time.monotonic_ns() + 24 * 3600 * 10**9)
        watcher.start()
        try:
            for place, language in enumerate(LANGUAGES):
                crew.start(f"{language}-{place + 1}")
            moves, failovers = disturb(stage, history, rng, end)
            for name in crew.names():
                crew.kill(name)
        finally:
            over.set()
            numbers = crew.close()
        wrong += crew.wrong
        if numbers["lost_updates"]:
            wrong.append(f"{numbers['lost_updates']} lost updates behind the fence")
        # What they held ends by itself.
        time.sleep(TERMS.max_ttl / 1000)
        if left := await_no_votes(stage):
            wrong.append(f"votes are left: {left}")
        print(f"{moves} moves of hash slots, {failovers} failovers", flush=True)
    watcher.join()
    history.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time; it is printed")
    asked = parser.parse_args()
    if lacking := missing(LANGUAGES):
        print(f"there is no {lacking}: run `make build` first", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    print(f"a cluster of {SHARDS} primaries, {len(LANGUAGES)} workers, {asked.minutes:g} min, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="qlmoving") as folder:
        wrong = run(asked.minutes, folder, seed)
        shutil.rmtree(KEEP, ignore_errors=True)
        shutil.copytree(folder, KEEP, ignore=lambda *_: ["resource"])
    wrong = judge(os.path.join(KEEP, "history"), wrong)
    for line in wrong:
        print(f"wrong: {line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
