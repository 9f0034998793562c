"""Restarts without data, and clocks that jump, while a lock is held by one of several that want it.

    restarts cycles       single nodes, a quorum of them one after another, while one lease stands on all
    restarts all-at-once  all nodes together
    restarts clock        clocks of 1 and of 2 of the nodes forward, while all nodes have the holder's vote
    restarts clock-quorum the same with a quorum: beyond the promise, and must show (status 1)

With `--guard off` restarts must show double holds, and that is then status 1. Needs no proxy: the network is in order.
"""

import random
import time

from check import disorder, double_holds, exclusion
from crew import Crew, Orders
from history import read
from kinds import back, forward, long_step
from schedule import World
from stage import Stage

WORKERS = ("rust-1", "cpp-1", "blocking-1")
# Of the faults, this many must have met a holder, or there was nothing to see.
LIVE_SHARE = 0.5
FULL_SECONDS = 3.0
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
    """Waits until a lease stands on all nodes; not forever, since it need not come."""
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
        time.sleep(world.orders.ttl / 1000)
        back(world, nodes, by)
        faults.end()
        # What was stored while the clock was ahead lives longer by the step.
        time.sleep(world.orders.max_ttl / 1000)


EXPERIMENTS = {
    "cycles": (1000, cycles),
    "all-at-once": (100, all_at_once),
    "clock": (200, lambda world, count: steps(world, count, [1, 2])),
    "clock-quorum": (20, lambda world, count: steps(world, count, [world.minority + 1])),
}


def arguments(parser):
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--guard", choices=["on", "off"], default="on")
    parser.add_argument("--count", type=int, default=None, help="faults; default 1,000 cycles, 100 of all nodes, 200 steps")
    parser.add_argument("--nodes", type=int, default=5)


def heading(asked):
    return f"{asked.experiment}, {asked.nodes} nodes, guard {asked.guard}"


def tries(asked):
    return TRIES if asked.guard == "off" or asked.experiment == "clock-quorum" else 1


def play(asked, history, seed):
    count, experiment = EXPERIMENTS[asked.experiment]
    orders = Orders(nodes=asked.nodes, work=("lock:a",), hold=900, guard=asked.guard)
    with Stage(asked.nodes, clocks=True, declare=False) as stage:
        world = World(stage, None, (), history, orders, random.Random(seed))
        stage.declare(max_ttl=orders.max_ttl, guard=asked.guard == "on")
        with Crew(history, lambda _: stage.urls(), orders, WORKERS) as crew:
            experiment(world, asked.count or count)
            crew.kill_all()
    return crew.wrong


def judge(_asked, path, verdict):
    history = read(path)
    exclusion(history, verdict)
    doubles = sum(len(double_holds(holds)) for holds in history.locks.values())
    wrong = sum(len(disorder(holds)) for holds in history.locks.values())
    fenced = sum(bool(hold.fence) for hold in history.holds)
    verdict.line(not wrong, f"S2: {wrong} of {fenced} fences out of order")
    faults = list(history.faults.values())
    live = sum(any(hold.acquired < fault.begin < hold.until for hold in history.holds) for fault in faults)
    verdict.line(live >= LIVE_SHARE * len(faults),
                 f"{len(faults)} faults, {live} of them met a holder; {len(history.holds)} holds, {doubles} doubles in all")
