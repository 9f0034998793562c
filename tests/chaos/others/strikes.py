"""The faults, each aimed at one hold: it counts as a strike where the holder was still within its round when the fault was done, and where the lock
was on the servers that it met.
"""

import random
import signal
import time
from dataclasses import dataclass
from typing import Callable

# Beyond the ttl: for a hang, a pause, and a step of a clock.
BEYOND = 1.5
# For a round to come, and to end.
TAKEN_SECONDS, PATIENCE_SECONDS = 10.0, 20.0
FAILOVER_SECONDS = 40.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Fault:
    name: str
    # As the page has it.
    title: str
    text: str
    strike: Callable
    # ms. The holder thinks for so long where the fault is aimed at it: less than the ttl, so it may.
    ttl: int = 2000
    think: int = 1200
    strikes: int = 10
    # A library that is too slow for all updates has this long.
    seconds: float = 120.0
    # Which set of servers it takes: `one`, `five`, `replicas`, or any.
    on: tuple = ("one", "five", "etcd")
    fenced: bool = False
    clocks: bool = False
    # It aims by itself, for it begins before the round that it is aimed at.
    early: bool = False


FAULTS = {}


def fault(title, text, **more):
    def made(strike):
        name = strike.__name__.rstrip("_").replace("_", "-")
        FAULTS[name] = Fault(name, title, text, strike, **more)
        return strike
    return made


def inside(world, aim):
    """Waits for the round that is aimed at; whether the lock is on servers, which it leaves in `world.held`."""
    if not aim.taken.wait(TAKEN_SECONDS):
        return False
    world.held = world.holders()
    # Any of them may be the one that fails.
    random.shuffle(world.held)
    return bool(world.held)


def over(aim):
    """Waits until the round has ended that was aimed at, if one was."""
    return aim.worker is not None and aim.over.wait(PATIENCE_SECONDS)


def quorum(world):
    return len(world.numbers) // 2 + 1


@fault("no fault", "As many rounds are looked at, whose holder thinks for as long.", on=("one", "five", "etcd", "none"))
def none(world, aim):
    return inside(world, aim)


@fault("one hangs", "A server that has the lock is stopped for longer than the ttl, and goes on.")
def hang(world, aim):
    if not inside(world, aim):
        return False
    with world.stopped(world.held[0]):
        struck = not aim.over.is_set()
        time.sleep(BEYOND * world.ttl / 1000)
    return struck


@fault("one restarts", "A server that has the lock is killed, and starts again without its data (etcd: with its data, for it has a disk).")
def restart(world, aim):
    if not inside(world, aim):
        return False
    world.restart(world.held[0])
    return not aim.over.is_set()


@fault("one restarts, two were full", "Two of five servers have no memory left, and refuse writes, while the lock is won on the others. One of these restarts without its data, and "
       "the two take writes again.", on=("five",), early=True)
def restart_full(world, _aim):
    full = world.numbers[-2:]
    with world.full(*full):
        # What was won before is over, and this round's lock is not on the two.
        world.ledger.await_writes(world.ledger.writes() + 2, PATIENCE_SECONDS)
        aim = world.aim()
        struck = inside(world, aim) and not set(world.held) & set(full)
        if struck:
            world.restart(world.held[0])
            struck = not aim.over.is_set()
    over(aim)
    return struck, aim


@fault("most restart", "Three of five servers restart without their data, one after the other.", on=("five",))
def restarts(world, aim):
    if not inside(world, aim):
        return False
    for number in world.numbers[: quorum(world)]:
        world.restart(number)
    return not aim.over.is_set()


@fault("failover", "A master with two replicas, which are behind, is killed; sentinels promote one that lacks the lock.", on=("replicas",),
       ttl=15_000, think=12_000, strikes=5, seconds=400.0, early=True)
def failover(world, _aim):
    stage = world.stage
    # While no process has the lock: a replica that keeps it from a hold before would keep others out for a ttl.
    world.ledger.rest()
    end = time.monotonic() + PATIENCE_SECONDS
    while world.holders() and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    stage.await_order(1, FAILOVER_SECONDS)
    stage.fall_behind(1)
    aim = world.aim()
    world.ledger.go_on()
    struck = inside(world, aim)
    replicas = stage.places("1.replicas")
    if not struck:
        stage.cont(*replicas)
        over(aim)
        return False, aim
    stage.kill(1)
    stage.cont(*replicas)
    stage.await_failover(1, FAILOVER_SECONDS)
    struck = not aim.over.is_set()
    over(aim)
    stage.start(1)
    return struck, aim


def stepped(world, aim, choose):
    """Sets clocks forward for the rest of a hold."""
    if not inside(world, aim):
        return False
    numbers, by = choose(), 2 * world.ttl / 1000
    for number in numbers:
        world.stage.clock(number).step(by)
    struck = not aim.over.is_set()
    over(aim)
    for number in numbers:
        world.stage.clock(number).step(-by)
    return struck


@fault("one clock steps", "The wall clock of a server that has the lock is set forward by two ttl, and back when the hold is over.", on=("one", "five"), clocks=True)
def clock(world, aim):
    return stepped(world, aim, lambda: world.held[:1])


@fault("most clocks step", "The same of three of five servers.", on=("five",), clocks=True)
def clocks(world, aim):
    return stepped(world, aim, lambda: world.numbers[: quorum(world)])


def stopped_worker(world, aim):
    """Stops the worker until the ttl is over, and another has written, or might have."""
    begun, aim.pauses = time.monotonic(), True
    world.signal(aim.worker, signal.SIGSTOP)
    world.ledger.wait(lambda: aim.others > 0, 2 * BEYOND * world.ttl / 1000)
    time.sleep(max(0.0, begun + BEYOND * world.ttl / 1000 - time.monotonic()))


@fault("the holder pauses", "The holder is stopped within its round for longer than the ttl, and goes on. A library that tells a loss is asked before the write.",
       think=300)
def pause(world, aim):
    if not inside(world, aim):
        return False
    stopped_worker(world, aim)
    struck = not aim.over.is_set()
    world.signal(aim.worker, signal.SIGCONT)
    return struck


@fault("it pauses behind its last look", "The same, after the library was asked: the write is under way when the holder is stopped, and arrives late.", think=300, early=True)
def late(world, _aim):
    aim = world.aim(hold_back=True)
    struck = inside(world, aim) and aim.arrived.wait(PATIENCE_SECONDS)
    if struck:
        stopped_worker(world, aim)
        struck = not aim.over.is_set()
    world.ledger.release(aim)
    if aim.worker:
        world.signal(aim.worker, signal.SIGCONT)
    return struck, aim


@fault("the same, and fences", "The same, and the ledger refuses a write with a smaller fence than it has seen.", think=300, fenced=True,
       early=True)
def late_fenced(world, aim):
    return late(world, aim)
