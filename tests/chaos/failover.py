"""Workers of all languages, a node that fails over, and every way to make it do so.

With `--guard off` a failover gives a lock to a second holder, sooner or later, and that run must fail.
"""

import argparse
import itertools
import os
import random
import re
import threading
import time
from collections import Counter

import servers
from check import agreement, exclusion, fences, updates
from crew import LANGUAGES, Crew, Orders
from history import NEVER, Live, read
from stage import Stage
from witness import Witness

KILLED, STOPPED, BY_HAND = KINDS = ("killed", "stopped", "by-hand")
# For which a promoted server gives no votes, beyond the longest ttl: what the core has (`GRACE` in its admission).
GRACE_SECONDS = 15
# What a client may need beyond that, to meet the promoted server and to win: a floor for sanity, for a busy machine too.
LATE_SECONDS = 15
# Of the failovers, this many must have met a holder, and a waiter, or there was nothing to see.
LIVE_SHARE = 0.5
REPLICAS, SENTINELS = 2, 3
# Longer than a failover takes, so that a lease outlives it; a lock is held for as long at most.
TTL_MS = 6000
# Where double holds must show: far longer than a failover takes on a busy machine, as are most holds.
UNGUARDED_TTL_MS, UNGUARDED_HOLD_MS = 2 * TTL_MS, 4 * TTL_MS
NODE_TIMEOUT_MS, WAIT_MS = 250, 4000
# There two hold and one waits: with more that wait, every second run showed none.
UNGUARDED = ("blocking", "asyncio", "rust")
# The longest wait for anything at all, beyond what the guard asks for.
PATIENCE_SECONDS = 40
# For a lock to be taken while the replicas are behind: where votes wait for them, none is.
BEHIND_SECONDS = 3
# How long after the failover what was the master comes back.
MOST_AWAY_SECONDS = 6
# Of those that must show double holds, this many runs at most.
TRIES = 4


class Lane:
    """One stage with its workers, on which one failover after another takes place."""

    count = itertools.count(1)

    def __init__(self, folder, history, number, wait_replicas, guard, seed):
        self.number, self._guard, self._random = number, guard, random.Random(f"{seed} {number}")
        self._folder = os.path.join(folder, f"stage{number}")
        os.mkdir(self._folder)
        self._history, self._live, self.kinds, self.wrong = history, Live(history.path), [], []
        ttl, hold = (UNGUARDED_TTL_MS, UNGUARDED_HOLD_MS) if guard == "off" else (TTL_MS, TTL_MS)
        self._orders = Orders(nodes=1, work=(f"lock:a{number}", f"lock:b{number}"), ttl=ttl, max_ttl=ttl, node_timeout=NODE_TIMEOUT_MS,
                            wait=WAIT_MS, hold=hold, guard=guard, wait_replicas=wait_replicas)
        self._locks = dict(self._orders.keys())
        languages = UNGUARDED if guard == "off" else LANGUAGES
        self._workers = [f"{language}-{number}.{place}" for place, language in enumerate(languages, 1)]
        self._stage = None

    def run(self):
        try:
            with Stage(1, replicas=REPLICAS, sentinels=SENTINELS, declare=False) as self._stage:
                self._stage.declare(max_ttl=self._orders.max_ttl, guard=self._guard != "off")
                with Crew(self._history, lambda _: self._stage.urls(), self._orders, self._workers, folder=self._folder) as crew:
                    self._play(crew)
                self.wrong += crew.wrong
        except Exception as error:  # the other stages go on
            self.wrong.append(f"stage {self.number} broke off: {type(error).__name__}: {error}")
        finally:
            self._live.close()

    def _play(self, crew):
        for place, kind in enumerate(self.kinds):
            # Of each kind the first meets replicas that have everything, the next some that are behind, and so on. Where
            # double holds must show, all are behind.
            odd = self.kinds[:place].count(kind) % 2 == 1
            self._fail(kind, behind=kind != BY_HAND and (odd or self._guard == "off"))
        self._await_take(time.monotonic_ns())
        crew.kill_all()

    def _await_take(self, since, seconds=None):
        """Waits until a worker of this stage has won a lock later than that; whether it has."""
        quarantine = 0 if self._guard == "off" else GRACE_SECONDS + TTL_MS / 1000

        def taken(history):
            return any(hold.acquired > since for lock in self._locks for hold in history.locks[lock][-9:])

        found = self._live.wait(taken, seconds or quarantine + PATIENCE_SECONDS)
        if not found and seconds is None:
            raise RuntimeError("nobody wins a lock")
        return found

    def _fail(self, kind, behind):
        """One failover, from a lock that is held to the return of what was the master."""
        stage = self._stage
        stage.await_order(1, PATIENCE_SECONDS)
        self._await_take(time.monotonic_ns())
        # Any moment of a hold, and of the wait for one.
        time.sleep(self._random.uniform(0, TTL_MS / 1000))
        if behind:
            stage.fall_behind(1)
            self._await_take(time.monotonic_ns(), PATIENCE_SECONDS if self._guard == "off" else BEHIND_SECONDS)
        number = next(self.count)
        self._history.write("begin", number, kind, time.monotonic_ns(), self.number)
        replicas = stage.places("1.replicas")
        {KILLED: stage.kill, STOPPED: stage.stop, BY_HAND: stage.failover}[kind](1)
        if behind:
            stage.cont(*replicas)
        stage.await_failover(1, PATIENCE_SECONDS)
        self._history.write("end", number, time.monotonic_ns())
        time.sleep(self._random.uniform(0, MOST_AWAY_SECONDS))
        stage.start(1)
        stage.cont(1)


def lanes_of(asked, folder, history, seed):
    """The stages of a run, each with its share of the failovers."""
    rng, lanes = random.Random(seed), []
    for wait_replicas in map(int, asked.wait_replicas):
        kinds = [kind for kind in asked.kinds for _ in range(asked.count)]
        rng.shuffle(kinds)
        some = [Lane(folder, history, len(lanes) + 1 + place, wait_replicas, asked.guard, seed)
                for place in range(min(asked.stages, len(kinds)))]
        for place, kind in enumerate(kinds):
            some[place % len(some)].kinds.append(kind)
        lanes += some
    return lanes


def several(words):
    """Words with commas, each one of these."""
    def some(text):
        found = text.split(",")
        if unknown := set(found) - set(words):
            raise argparse.ArgumentTypeError(f"no {sorted(unknown)[0]}; there are {' '.join(words)}")
        return found

    return some


def arguments(parser):
    parser.add_argument("--count", type=int, default=2, help="failovers of each kind, with each number of replicas")
    parser.add_argument("--kinds", type=several(KINDS), default=list(KINDS), help="only these, with commas")
    counts = [str(count) for count in range(REPLICAS + 1)]
    parser.add_argument("--wait-replicas", type=several(counts), default=[counts[0], counts[-1]], metavar="K",
                        help=f"what the workers ask for; several, with commas; 0,{REPLICAS} by default")
    parser.add_argument("--guard", choices=["auto", "on", "off"], default="auto", help="off: a run that must fail")
    parser.add_argument("--stages", type=int, default=3, help="this many side by side with each number of replicas")
    parser.add_argument("--server", choices=list(servers.SERVERS), help="another than the redis-server on the PATH")


def heading(asked):
    return (f"{len(asked.kinds)} kinds of failovers, {asked.count} of each with wait_replicas {','.join(asked.wait_replicas)}, guard "
            f"{asked.guard}, {asked.server or 'redis-server'}")


def tries(asked):
    return TRIES if asked.guard == "off" else 1


def play(asked, history, seed):
    if asked.server:
        servers.OUT.mkdir(parents=True, exist_ok=True)
        servers.fetch()
        os.environ["PATH"] = f"{servers.stand_in(asked.server)}{os.pathsep}{os.environ['PATH']}"
    history.write("note", "ttl-ms", TTL_MS)
    history.write("note", "guarded", int(asked.guard != "off"))
    lanes = lanes_of(asked, os.path.dirname(history.path), history, seed)
    threads = [threading.Thread(target=lane.run, daemon=True) for lane in lanes]
    with Witness(history):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [line for lane in lanes for line in lane.wrong]


def stage_of(lock):
    return re.search(r"\d+$", lock)[0]


class Failover:
    """One of them, with the holds of its stage."""

    def __init__(self, history, fault):
        holds = [hold for hold in history.holds if stage_of(hold.lock) == fault.whom]
        fails = [(invoked, returned) for _, lock, invoked, returned, _, _ in history.fails if stage_of(lock) == fault.whom]
        self.kind, self.done = fault.kind, fault.end < NEVER
        # Those that were held when it began, and those of them that were held beyond its end.
        self.held = [hold for hold in holds if hold.acquired < fault.begin < hold.until]
        self.survived = [hold for hold in self.held if hold.until > fault.end]
        waits = [(hold.invoked, hold.acquired) for hold in holds] + fails
        self.waited = sum(invoked < fault.begin < over for invoked, over in waits)
        later = [hold.acquired for hold in holds if hold.acquired > fault.end]
        first = min(later, default=NEVER)
        # From its begin to the first lock that is won behind it, less the time in which nothing could run.
        self.without = first if first == NEVER else first - fault.begin - history.stalled(fault.begin, first)
        self.took = fault.end - fault.begin


def seconds(values):
    """Their middle and their largest, as people read them."""
    values = sorted(values)
    if not values:
        return "none"
    return f"median {values[len(values) // 2] / 1e9:.1f} s, worst {values[-1] / 1e9:.1f} s"


def lateness(failovers, verdict, quarantine):
    """After each a lock is won again, no later than the guard asks for; `quarantine`: what that is, in ns."""
    limit = quarantine + LATE_SECONDS * 1e9
    for kind in KINDS:
        those = [one for one in failovers if one.kind == kind]
        if not those:
            continue
        late = [one for one in those if one.without > limit + one.took]
        without, took = seconds(one.without for one in those if one.without < NEVER), seconds(one.took for one in those)
        verdict.line(not late, f"{kind}: no lock was won for {without}, too long in {len(late)} of {len(those)}; "
                               f"the failover took {took}")
        held, survived = (sum(len(holds) for holds in some) for some in
                          ([one.held for one in those], [one.survived for one in those]))
        print(f"       {held} leases were held, {survived} of them beyond the failover; {sum(one.waited for one in those)} waited")


def judge(asked, path, verdict):
    history, wanted = read(path), asked.count * len(asked.wait_replicas)
    quarantine = history.notes["guarded"] * (GRACE_SECONDS * 1e9 + history.notes["ttl-ms"] * 1e6)
    exclusion(history, verdict)
    fences(history, verdict, asked=True)
    updates(history, verdict)
    failovers = [Failover(history, fault) for fault in history.faults.values()]
    undone = [one.kind for one in failovers if not one.done]
    verdict.line(not undone, f"{len(undone)} of {len(failovers)} failovers did not come about")
    lateness([one for one in failovers if one.done], verdict, quarantine)
    counts = Counter(one.kind for one in failovers if one.done)
    rare = [kind for kind in asked.kinds if counts[kind] < wanted]
    verdict.line(not rare, f"{sum(counts.values())} failovers, {dict(counts)}" + (f"; too few of {rare}" if rare else ""))
    live = sum(bool(one.held and one.waited) for one in failovers)
    verdict.line(live >= LIVE_SHARE * len(failovers), f"{live} of {len(failovers)} met a holder and a waiter")
    agreement(history, path, verdict)
