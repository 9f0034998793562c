"""Workers of all languages, a node that fails over, and every way to make it do so.

With `--guard off` a failover gives a lock to a second holder, sooner or later, and that run must fail.
"""

import argparse
import itertools
import os
import random
import threading
import time

import failovers
import servers
from crew import LANGUAGES, Crew, Terms
from failovers import BY_HAND, GRACE_SECONDS, KILLED, KINDS, STOPPED
from history import Live, Writer
from stage import Stage
from witness import watch

REPLICAS, SENTINELS = 2, 3
# Longer than a failover takes, so that a lease outlives it; a lock is held for as long at most.
TTL_MS = 6000
# Where double holds must show: far longer than a failover takes on a busy machine, as are most holds.
UNGUARDED_TTL_MS, UNGUARDED_HOLD_MS = 2 * TTL_MS, 4 * TTL_MS
NODE_TIMEOUT_MS, WAIT_MS = 250, 4000
# Those that can be told to leave the guard off.
UNGUARDED = ("blocking", "asyncio", "blocking")
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
        self._terms = Terms(nodes=1, work=(f"lock:a{number}", f"lock:b{number}"), ttl=ttl, max_ttl=ttl, node_timeout=NODE_TIMEOUT_MS,
                            wait=WAIT_MS, hold=hold, guard=guard, wait_replicas=wait_replicas)
        self._locks = dict(self._terms.keys())
        self._stage = None

    def run(self):
        try:
            with Stage(1, replicas=REPLICAS, sentinels=SENTINELS, declare=False) as self._stage:
                self._stage.declare(max_ttl=self._terms.max_ttl, guard=self._guard != "off")
                with Crew(self._folder, lambda _: self._stage.urls(), self._history, self._terms) as crew:
                    self._play(crew)
                self.wrong += crew.wrong
        except Exception as error:  # the other stages go on
            self.wrong.append(f"stage {self.number} broke off: {type(error).__name__}: {error}")
        finally:
            self._live.close()

    def _play(self, crew):
        for place, language in enumerate(UNGUARDED if self._guard == "off" else LANGUAGES):
            crew.start(f"{language}-{self.number}.{place + 1}")
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


def languages(asked):
    return UNGUARDED if asked.guard == "off" else LANGUAGES


def heading(asked):
    return (f"{len(asked.kinds)} kinds of failovers, {asked.count} of each with wait_replicas {','.join(asked.wait_replicas)}, guard "
            f"{asked.guard}, {asked.server or 'redis-server'}")


def tries(asked):
    return TRIES if asked.guard == "off" else 1


def play(asked, folder, seed):
    if asked.server:
        servers.OUT.mkdir(parents=True, exist_ok=True)
        servers.fetch()
        os.environ["PATH"] = f"{servers.stand_in(asked.server)}{os.pathsep}{os.environ['PATH']}"
    history, over = Writer(os.path.join(folder, "history")), threading.Event()
    history.write("note", "ttl-ms", TTL_MS)
    history.write("note", "guarded", int(asked.guard != "off"))
    lanes = lanes_of(asked, folder, history, seed)
    threads = [threading.Thread(target=lane.run, daemon=True) for lane in lanes]
    watcher = threading.Thread(target=watch, args=(history, over), daemon=True)
    for thread in [watcher, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    watcher.join()
    return [line for lane in lanes for line in lane.wrong]


def judge(asked, history, verdict):
    failovers.judge(history, dict.fromkeys(asked.kinds, asked.count * len(asked.wait_replicas)), verdict)
