#!/usr/bin/env python3
"""Workers of all languages, a node that fails over, and every way to make it do so. README.md says the rest."""

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "faults"), os.path.join(TESTS, "scenarios"), TESTS]

import servers  # noqa: E402
from crew import LANGUAGES, Crew, Terms, missing  # noqa: E402
from witness import watch  # noqa: E402
from history import Writer  # noqa: E402
from judge import BY_HAND, GRACE_SECONDS, KILLED, KINDS, STOPPED, judge  # noqa: E402
from proxy import ROOT  # noqa: E402
from stage import Stage  # noqa: E402

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
KEEP = os.path.join(ROOT, "target", "failover")


class Tail:
    """The takes of the history as they come."""

    def __init__(self, path):
        self._file, self._rest = open(path), ""

    def takes(self):
        """Of the lines since the last call: the lock, and when it was won."""
        *whole, self._rest = (self._rest + self._file.read()).split("\n")
        return [(words[2], int(words[4])) for words in map(str.split, whole) if words[:1] == ["take"]]

    def close(self):
        self._file.close()


class Lane:
    """One stage with its workers, on which one failover after another takes place."""

    count = itertools.count(1)

    def __init__(self, folder, history, number, wait_replicas, guard, seed):
        self.number, self._guard, self._random = number, guard, random.Random(f"{seed} {number}")
        self._folder = os.path.join(folder, f"stage{number}")
        os.mkdir(self._folder)
        self._history, self._tail = history, Tail(history.path)
        self.kinds, self.wrong, self.figures = [], [], None
        ttl, hold = (UNGUARDED_TTL_MS, UNGUARDED_HOLD_MS) if guard == "off" else (TTL_MS, TTL_MS)
        self._terms = Terms(nodes=1, locks=(f"a{number}", f"b{number}"), ttl=ttl, max_ttl=ttl, node_timeout=NODE_TIMEOUT_MS,
                            wait=WAIT_MS, hold=hold, guard=guard, wait_replicas=wait_replicas)
        self._stage = self._crew = None

    def run(self):
        try:
            self._stage = Stage(1, replicas=REPLICAS, sentinels=SENTINELS, declare=False)
            self._stage.declare(max_ttl=self._terms.max_ttl, guard=self._guard != "off")
            end = time.monotonic_ns() + 3600 * 10**9
            self._crew = Crew(self._folder, lambda _name: self._stage.urls(), self._history, self._terms, end)
            for place, language in enumerate(UNGUARDED if self._guard == "off" else LANGUAGES):
                self._crew.start(f"{language}-{self.number}.{place + 1}")
            for place, kind in enumerate(self.kinds):
                # Of each kind the first meets replicas that have everything, the next some that are behind, and so on. Where
                # double holds must show, all are behind.
                odd = self.kinds[:place].count(kind) % 2 == 1
                self._fail(kind, behind=kind != BY_HAND and (odd or self._guard == "off"))
            self._await_take(time.monotonic_ns())
            for name in self._crew.names():
                self._crew.kill(name)
        except Exception as error:  # the other stages go on
            self.wrong.append(f"stage {self.number} broke off: {type(error).__name__}: {error}")
        finally:
            self.close()

    def _await_take(self, since, seconds=None):
        """Waits until a worker of this stage has won a lock later than that; whether it has."""
        quarantine = 0 if self._guard == "off" else GRACE_SECONDS + TTL_MS / 1000
        end = time.monotonic() + (seconds or quarantine + PATIENCE_SECONDS)
        while time.monotonic() < end:
            if any(lock in self._terms.locks and acquired > since for lock, acquired in self._tail.takes()):
                return True
            time.sleep(0.01)
        if seconds is None:
            raise RuntimeError("nobody wins a lock")
        return False

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

    def close(self):
        if self._crew and self.figures is None:
            self.figures = self._crew.close()
            self.wrong += self._crew.wrong
        if self._stage:
            self._stage.close()
        self._tail.close()


def lanes_of(asked, folder, history, seed):
    """The stages of a run, each with its share of the failovers."""
    rng, lanes = random.Random(seed), []
    for wait_replicas in asked.wait_replicas:
        kinds = [kind for kind in asked.kinds for _ in range(asked.count)]
        rng.shuffle(kinds)
        some = [Lane(folder, history, len(lanes) + 1 + place, wait_replicas, asked.guard, seed)
                for place in range(min(asked.stages, len(kinds)))]
        for place, kind in enumerate(kinds):
            some[place % len(some)].kinds.append(kind)
        lanes += some
    return lanes


def carry_out(asked, folder, seed):
    """The run; returns what went wrong in it that is not in its history."""
    history, over = Writer(os.path.join(folder, "history")), threading.Event()
    history.write("note", "ttl-ms", TTL_MS)
    history.write("note", "guarded", int(asked.guard != "off"))
    lanes = lanes_of(asked, folder, history, seed)
    threads = [threading.Thread(target=lane.run, daemon=True) for lane in lanes]
    watcher = threading.Thread(target=watch, args=(history, over), daemon=True)
    try:
        for thread in [watcher, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        over.set()
        for lane in lanes:
            lane.close()
    watcher.join()
    history.write("note", "lost-updates", sum(lane.figures["lost_updates"] for lane in lanes if lane.figures))
    history.close()
    return [line for lane in lanes for line in lane.wrong]


def several(words):
    """Words with commas, each one of these."""
    def some(text):
        found = text.split(",")
        if unknown := set(found) - set(words):
            raise argparse.ArgumentTypeError(f"no {sorted(unknown)[0]}; there are {' '.join(words)}")
        return found

    return some


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2, help="failovers of each kind, with each number of replicas")
    parser.add_argument("--kinds", type=several(KINDS), default=list(KINDS), help="only these, with commas")
    counts = [str(count) for count in range(REPLICAS + 1)]
    parser.add_argument("--wait-replicas", type=several(counts), default=[counts[0], counts[-1]], metavar="K",
                        help=f"what the workers ask for; several, with commas; 0,{REPLICAS} by default")
    parser.add_argument("--guard", choices=["auto", "on", "off"], default="auto", help="off: a run that must fail")
    parser.add_argument("--stages", type=int, default=3, help="this many side by side with each number of replicas")
    parser.add_argument("--server", choices=list(servers.SERVERS), help="another than the redis-server on the PATH")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time; it is printed")
    asked = parser.parse_args()
    asked.wait_replicas = [int(count) for count in asked.wait_replicas]
    return asked


def run(asked, seed):
    """Carries out a run and judges it; returns what is wrong."""
    print(f"{len(asked.kinds)} kinds of failovers, {asked.count} of each with wait_replicas {asked.wait_replicas}, guard "
          f"{asked.guard}, {asked.server or 'redis-server'}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="qlfailover") as folder:
        wrong = carry_out(asked, folder, seed)
        shutil.rmtree(KEEP, ignore_errors=True)
        shutil.copytree(folder, KEEP, ignore=lambda *_: ["resource"])
        floor = asked.count * len(asked.wait_replicas)
        wrong += judge(os.path.join(folder, "history"), dict.fromkeys(asked.kinds, floor))
    return wrong


def main():
    asked = arguments()
    lacking = missing(UNGUARDED if asked.guard == "off" else LANGUAGES)
    if lacking:
        print(f"there is no {lacking}: run `make build` first", file=sys.stderr)
        return 2
    if asked.server:
        servers.OUT.mkdir(parents=True, exist_ok=True)
        servers.fetch()
        os.environ["PATH"] = f"{servers.stand_in(asked.server)}{os.pathsep}{os.environ['PATH']}"
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    for number in range(TRIES if asked.guard == "off" else 1):
        wrong = run(asked, seed + number)
        for line in wrong:
            print(f"wrong: {line}", flush=True)
        if any(line.startswith("S1") for line in wrong):
            break
    print(f"the history: {os.path.relpath(os.path.join(KEEP, 'history'), ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
