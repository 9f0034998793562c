"""Workers of all languages on a cluster whose hash slots move all the time, and a primary now and then."""

import random
import time
from collections import Counter

from check import agreement, exclusion, fences, updates
from crew import LANGUAGES, Crew, Orders
from drive import await_no_votes
from history import language, read
from stage import Stage
from witness import Witness

SHARDS, REPLICAS = 3, 1
ORDERS = Orders(nodes=1, work=("lock:a", "lock:b", "lock:c", "shared:prices", "slots:pool:2"), ttl=2000, max_ttl=2000, node_timeout=250, wait=3000, hold=300)
# The hash slots of the locks, and that of the record of the node.
KEYS = ("lock:{a}", "lock:{b}", "lock:{c}", "lock:{prices}", "lock:{pool}", "lock:#node")
# A step of a move comes within this many seconds of the one before; leases outlive some moves, and some moves outlive them.
STEP_SECONDS = 1.5
# So often a replica is told to take a primary's place, between two moves.
FAILOVER_SECONDS = 90
PATIENCE_SECONDS = 60


def move(stage, rng):
    """Moves one hash slot, step by step."""
    key = rng.choice(KEYS)
    for step, more in (("begin_move", ("next",)), ("move_keys", ()), ("end_move", ())):
        stage.move(step, 1, key.encode(), *more)
        time.sleep(rng.uniform(0, STEP_SECONDS) * (step != "end_move"))


def disturb(stage, history, rng, end):
    """Moves hash slots until then."""
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
    print(f"{moves} moves of hash slots, {failovers} failovers", flush=True)


def arguments(parser):
    parser.add_argument("--minutes", type=float, default=20)


def heading(asked):
    return f"a cluster of {SHARDS} primaries, {len(LANGUAGES)} workers, {asked.minutes:g} min"


def play(asked, history, seed):
    workers = [f"{name}-{place}" for place, name in enumerate(LANGUAGES, 1)]
    with Stage(1, shards=SHARDS, replicas=REPLICAS, declare=False) as stage:
        stage.declare(max_ttl=ORDERS.max_ttl)
        with Crew(history, lambda _: stage.urls(), ORDERS, workers) as crew, Witness(history):
            disturb(stage, history, random.Random(seed), time.monotonic() + asked.minutes * 60)
            crew.kill_all()
        # What they held ends by itself.
        time.sleep(ORDERS.max_ttl / 1000)
        left = await_no_votes(stage)
    return crew.wrong + ([f"votes are left: {left}"] if left else [])


def judge(_asked, path, verdict):
    history = read(path)
    exclusion(history, verdict)
    fences(history, verdict, asked=True)
    updates(history, verdict)
    agreement(history, path, verdict)
    by = Counter(language(hold.worker) for hold in history.holds)
    verdict.line(all(by[name] for name in LANGUAGES), f"every language held a lock: {dict(by)}")
    crossed = sum(any(hold.acquired < fault.begin < hold.until for hold in history.holds) for fault in history.faults.values())
    verdict.line(crossed > len(history.faults) / 2, f"{crossed} of {len(history.faults)} moves and failovers met a hold")
