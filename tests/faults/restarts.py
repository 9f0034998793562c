#!/usr/bin/env python3
"""Restarts without data, and clocks that jump, while a lock is held by one of several that want it.

    restarts.py cycles       single nodes, a quorum of them one after another, while one lease stands on all
    restarts.py all-at-once  all nodes together
    restarts.py clock        clocks of 1 and of 2 of the nodes forward, while all nodes have the holder's vote
    restarts.py clock-quorum the same with a quorum: beyond the promise, and must show (status 1)

With `--guard off` restarts must show double holds, and that is then status 1. What must show may fail to by chance, and is
then tried again a few times. Needs no proxy: the network is in order.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import quorlock  # noqa: E402
from check import Verdict, disorder, double_holds, exclusion  # noqa: E402
from crew import Crew, Terms  # noqa: E402
from history import Writer, read  # noqa: E402
from kinds import back, forward, long_step  # noqa: E402
from schedule import World  # noqa: E402
from stage import Stage  # noqa: E402

# All in the language that can be told to leave the guard off.
WORKERS = ("blocking-1", "blocking-2", "blocking-3")
# Of the faults, this many must have met a holder, or there was nothing to see.
LIVE_SHARE = 0.5
FULL_SECONDS = 3.0
MAX_SECONDS = 3600
# Of those that must show double holds, this many runs at most.
TRIES = 5


class Faults:
    def __init__(self, world, kind):
        self._world, self._kind, self.count = world, kind, 0

    def begin(self, nodes):
        self.count += 1
        self._world.history.write("begin", self.count, self._kind, time.monotonic_ns(), ",".join(map(str, nodes)))

    def end(self):
        self._world.history.write("end", self.count, time.monotonic_ns())


def await_full(world):
    """Waits until a lease stands on all nodes; not forever, since nobody says that it will."""
    end = time.monotonic() + FULL_SECONDS
    while not world.full() and time.monotonic() < end:
        time.sleep(0.001)


def cycles(world, count):
    faults = Faults(world, "kill-empty")
    while faults.count < count:
        await_full(world)
        for node in world.random.sample(world.numbers, world.minority + 1):
            faults.begin([node])
            world.stage.restart(node)
            faults.end()


def all_at_once(world, count):
    faults = Faults(world, "all-at-once")
    while faults.count < count:
        await_full(world)
        faults.begin(world.numbers)
        world.stage.restart(*world.numbers)
        faults.end()


def steps(world, count, sizes):
    faults = Faults(world, "clock-forward")
    while faults.count < count:
        nodes, by = world.random.sample(world.numbers, sizes[faults.count % len(sizes)]), long_step(world)
        await_full(world)
        faults.begin(nodes)
        forward(world, nodes, by)
        # Long enough for a renewal, which repairs the votes that are gone, and for the others to try.
        time.sleep(world.terms.ttl / 1000)
        back(world, nodes, by)
        faults.end()
        # What was stored while the clock was ahead lives longer by the step.
        time.sleep(world.terms.max_ttl / 1000)


EXPERIMENTS = {
    "cycles": (1000, cycles),
    "all-at-once": (100, all_at_once),
    "clock": (200, lambda world, count: steps(world, count, [1, 2])),
    "clock-quorum": (20, lambda world, count: steps(world, count, [world.minority + 1])),
}


def report(path):
    history, verdict = read(path), Verdict()
    exclusion(history, verdict)
    doubles = sum(len(double_holds(holds)) for holds in history.locks.values())
    wrong = sum(len(disorder(holds)) for holds in history.locks.values())
    fenced = sum(bool(hold.fence) for hold in history.holds)
    verdict.line(not wrong, f"S2: {wrong} of {fenced} fences out of order")
    faults = list(history.faults.values())
    live = sum(any(hold.acquired < fault.begin < hold.until for hold in history.holds) for fault in faults)
    verdict.line(live >= LIVE_SHARE * len(faults),
                 f"{len(faults)} faults, {live} of them met a holder; {len(history.holds)} holds, {doubles} doubles in all")
    return verdict.failed


def run(asked, seed):
    """Carries out the experiment once; returns what is wrong."""
    count, experiment = EXPERIMENTS[asked.experiment]
    terms = Terms(nodes=asked.nodes, locks=("a",), hold=900, guard=asked.guard)
    with tempfile.TemporaryDirectory(prefix="qlfaults") as folder, Stage(asked.nodes, clocks=True, declare=False) as stage:
        history = Writer(os.path.join(folder, "history"))
        world = World(stage, None, (), history, terms, random.Random(seed))
        stage.declare(max_ttl=terms.max_ttl, guard=asked.guard == "on")
        end = time.monotonic_ns() + MAX_SECONDS * 10**9
        crew = Crew(folder, lambda _name: stage.urls(), history, terms, end)
        try:
            for name in WORKERS:
                crew.start(name)
            experiment(world, asked.count or count)
            for name in crew.names():
                crew.kill(name)
        finally:
            crew.close()
        print(f"{asked.experiment}, {asked.nodes} nodes, guard {asked.guard}")
        return crew.wrong + report(history.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--guard", choices=["on", "off"], default="on")
    parser.add_argument("--count", type=int, default=None, help="faults; default 1,000 cycles, 100 of all nodes, 200 steps")
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    must_show = asked.guard == "off" or asked.experiment == "clock-quorum"
    for number in range(TRIES if must_show else 1):
        wrong = run(asked, asked.seed + number)
        for line in wrong:
            print(f"wrong: {line}", flush=True)
        if any(line.startswith("S1") for line in wrong):
            break
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
