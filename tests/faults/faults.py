#!/usr/bin/env python3
"""Workers of all languages, a few locks, five servers, and every fault that one machine can make. README.md says the rest."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from check import Floors, judge  # noqa: E402
from crew import LANGUAGES, Crew, Terms, missing  # noqa: E402
from history import STRAY, Writer  # noqa: E402
from kinds import CLOCK, KINDS, SET  # noqa: E402
from proxy import ROOT, Proxy  # noqa: E402
from schedule import KEEPERS, LONG_LOCK, Schedule, World  # noqa: E402
from stage import Stage, clock  # noqa: E402
from stage.resp import RespError  # noqa: E402
from witness import Witness  # noqa: E402

WORKERS = ("rust-1", "rust-2", "c-1", "blocking-1", "blocking-2", "asyncio-1", "node-1", "cli-1", *KEEPERS)
# Whose own wall clock is wrong from the first to the last moment, and by how much: it is to matter nowhere.
WRONG_CLOCKS = {"rust-2": -86_400, "blocking-2": 86_400, "node-1": 86_400}
LONG = {"FAULTS_LOCKS": LONG_LOCK, "FAULTS_HOLD": "1000", "FAULTS_HAND": "0"}
# Strays too want the lock that is held nearly always: if they get it, somebody else has it.
OWN = dict.fromkeys([*KEEPERS, *(f"{language}-{STRAY}" for language in LANGUAGES)], LONG)
# One of so many holds is handed on.
HAND = 8
# What may stay on a node: its record, and counters.
MAY_STAY = (b"lock:#node", b"lock:#f:", b"lock:#pf")
# The keys of queues and of readers, how the text of a crowded lock begins, and how long all of them last at most, in
# seconds: the life of a place. Readers, and the lock that they share, last for a second longer than the last of them.
SETS, CROWDED, PLACE = (b"lock:#q:", b"lock:#pq:", b"lock:#s:"), (b"=", b"@", b"&"), 6.0
KEEP = os.path.join(ROOT, "target", "faults")


def wrong_clocks(folder):
    """What makes the wall clocks of some workers wrong."""
    library, found = clock.build(folder), {}
    for name, seconds in WRONG_CLOCKS.items():
        os.mkdir(os.path.join(folder, name))
        wrong = clock.Clock(os.path.join(folder, name), library)
        wrong.step(seconds)
        found[name] = wrong.environment
        wrong.close()
    return found


def in_line(stage, number, key):
    """Whether a key lasts as long as a place: that of a queue, of readers, or of a lock that somebody waited for or shared.
    One that has ended since it was listed does not last too long, either."""
    if key.startswith(SETS):
        return True
    value = stage.redis(number, "GET", key)
    return value is None or value.startswith(CROWDED)


def leftovers(stage, numbers, max_ttl):
    """Keys that are still on a node so long after the end, records and counters excepted. The places of waiters that were
    killed last for three polls at least."""
    begun = time.monotonic()
    while True:
        past = time.monotonic() - begun
        left = [(number, key) for number in numbers for key in stage.keys(number) if not key.startswith(MAY_STAY)]
        late = [key for number, key in left
                if past > 1.1 * max_ttl and (past > 1.1 * max(max_ttl, PLACE) or not in_line(stage, number, key))]
        if not left or late:
            return left
        time.sleep(0.02)


def play(world, schedule, seconds):
    """Lets the workers and the faults run for so long; then everything is healed and everybody ends."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        schedule.step(more=True)
        time.sleep(0.002)
    while world.active:
        for episode in world.active:
            episode.due = 0.0
        schedule.step(more=False)
    world.crew.join(world.terms.wait / 1000 + 10)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 5))
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time; it is printed")
    parser.add_argument("--nodes", type=int, default=5, help="5 by default; one or two have no guard")
    parser.add_argument("--hold", type=int, default=Terms.hold, help="longest hold in ms, as a rule")
    parser.add_argument("--kinds", default="", help="only these, with commas")
    parser.add_argument("--without-guard", action="store_true", help="no kind under which the promise rests on the guard")
    parser.add_argument("--without-fences", action="store_true", help="holds need no fence, updates may be lost")
    parser.add_argument("--ignore-fences", action="store_true", help="the resource takes any fence: a run that must fail")
    parser.add_argument("--holds", type=float, default=50, help="floor: holds a second")
    parser.add_argument("--each", type=int, default=None, help="floor: faults of each kind; default: 20 in 30 min")
    parser.add_argument("--share", type=float, default=0.3, help="floor: part of the time with a fault on")
    parser.add_argument("--late", type=float, default=200, help="ceiling: ms that a wait may end past its deadline")
    parser.add_argument("--still", type=float, default=500, help="ceiling: ms that a lock may stand still which somebody waits for")
    return parser.parse_args()


def chosen_kinds(asked):
    names = asked.kinds.split(",") if asked.kinds else list(KINDS)
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise SystemExit(f"no kind {unknown[0]}; there are {' '.join(KINDS)}")
    # Of one node or two no clock may be wrong, and no list has a part of the set that is not all of it.
    return [KINDS[name] for name in names if not (asked.without_guard and KINDS[name].guard)
            and not (asked.nodes < 3 and KINDS[name].place in (CLOCK, SET))]


def run(asked, folder, kinds, seed):
    rng, terms = random.Random(seed), Terms(nodes=asked.nodes, hold=asked.hold, hand=HAND)
    seconds = asked.minutes * 60
    history = Writer(os.path.join(folder, "history"))
    # The last way to each node is the witness's.
    ways = len(WORKERS) + 1
    with Stage(terms.nodes + 2, clocks=True, declare=False) as stage, \
            Proxy(seed, ways * [stage.port(number) for number in range(1, terms.nodes + 1)]) as proxy:
        world = World(stage, proxy, WORKERS, history, terms, rng)
        stage.declare(world.numbers, max_ttl=terms.max_ttl)
        end = time.monotonic_ns() + int(seconds * 1e9)
        crew = world.crew = Crew(folder, world.urls, history, terms, end, honour=not asked.ignore_fences,
                                 own=wrong_clocks(folder) | OWN)
        try:
            history.write("note", "begin", time.monotonic_ns())
            history.write("note", "nodes", terms.nodes)
            history.write("note", "wait-ms", terms.wait)
            history.write("note", "ttl-ms", terms.ttl)
            for name in WORKERS:
                crew.start(name)
            with Witness(history, proxy.ports[-terms.nodes:]):
                play(world, Schedule(world, kinds), seconds)
            history.write("note", "end", end)
            left = leftovers(stage, [*world.numbers, *world.spares], terms.max_ttl / 1000)
            history.write("note", "left", len(left))
        finally:
            figures = crew.close()
        history.write("note", "lost-updates", figures["lost_updates"])
        history.write("note", "stale", figures["stale"])
    for number, key in left[:5]:
        print(f"left behind on node {number}: {key.decode(errors='backslashreplace')}")
    print(f"{figures['writes']} writes, {figures['lost_updates']} lost updates, {figures['stale']} refused for their fence")
    return crew.wrong


def main():
    asked = arguments()
    kinds = chosen_kinds(asked)
    lacking = missing({name.rpartition("-")[0] for name in WORKERS})
    if lacking:
        print(f"there is no {lacking}: run `make build` first", file=sys.stderr)
        return 2
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    print(f"{asked.nodes} servers, {len(WORKERS)} workers, {len(kinds)} kinds of faults, {asked.minutes * 60:.0f} s, "
          f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="qlfaults") as folder:
        try:
            wrong = run(asked, folder, kinds, seed)
        except (RespError, OSError, RuntimeError) as error:
            wrong = [f"the run broke off: {type(error).__name__}: {error}"]
        history = os.path.join(folder, "history")
        shutil.rmtree(KEEP, ignore_errors=True)
        shutil.copytree(folder, KEEP, ignore=lambda *_: ["resource"])
        each = round(20 * asked.minutes / 30) if asked.each is None else asked.each
        floors = Floors(asked.holds, each, asked.share, asked.late, asked.still)
        if not any(line.startswith("the run broke off") for line in wrong):
            wrong += judge(history, floors, [kind.name for kind in kinds], fenced=not asked.without_fences,
                           guarded=not asked.without_fences or asked.ignore_fences)
    for line in wrong:
        print(f"wrong: {line}")
    print(f"the history: {os.path.relpath(os.path.join(KEEP, 'history'), ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
