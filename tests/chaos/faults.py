"""Workers of all languages, a few locks, five servers, and every fault that one machine can make."""

import os
import random
import time

import check
from crew import LANGUAGES, Crew, Orders
from history import STRAY, language
from kinds import CLOCK, KINDS, SET
from proxy import Proxy
from schedule import KEEPERS, LONG_LOCK, Schedule, World
from stage import Stage, clock
from witness import Witness

WORKERS = ("rust-1", "rust-2", "cpp-1", "blocking-1", "blocking-2", "asyncio-1", "node-1", "cli-1", *KEEPERS)
# Whose own wall clock is wrong from the first to the last moment, and by how much: it is to matter nowhere.
WRONG_CLOCKS = {"rust-2": -86_400, "blocking-2": 86_400, "node-1": 86_400}
LONG = {"CHAOS_WORK": f"lock:{LONG_LOCK}", "CHAOS_HOLD": "1000", "CHAOS_HAND": "0"}
# Strays too want the lock that is held nearly always: if they get it, another worker has it.
OWN = dict.fromkeys([*KEEPERS, *(f"{of}-{STRAY}" for of in LANGUAGES)], LONG)
# For porcupine, which judges each run that has these.
SEMAPHORES = Orders().semaphores()
# One of so many holds is handed on.
HAND = 8
# What may stay on a node: its record, and counters.
MAY_STAY = (b"lock:#node", b"lock:#f:", b"lock:#pf")
# The keys of queues and of readers, how the text of a crowded lock begins, and how long all of them last at most, in
# seconds: the life of a place. Readers, and the lock that they share, last for a second longer than the last of them.
SETS, CROWDED, PLACE = (b"lock:#q:", b"lock:#pq:", b"lock:#s:"), (b"=", b"@", b"&"), 6.0


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
    """Whether a key lasts as long as a place: that of a queue, of readers, or of a lock that a worker waited for or shared.
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


def disturb(world, schedule, seconds):
    """Lets the workers and the faults run for so long; then all faults end, and all workers."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        schedule.step(more=True)
        time.sleep(0.002)
    while world.active:
        for episode in world.active:
            episode.due = 0.0
        schedule.step(more=False)
    world.crew.join(world.orders.wait / 1000 + 10)


def arguments(parser):
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 5))
    parser.add_argument("--nodes", type=int, default=5, help="5 by default; one or two have no guard")
    parser.add_argument("--hold", type=int, default=Orders.hold, help="longest hold in ms, as a rule")
    parser.add_argument("--kinds", default="", help="only these, with commas")
    parser.add_argument("--without-guard", action="store_true", help="no kind under which the promise rests on the guard")
    parser.add_argument("--without-fences", action="store_true", help="holds need no fence, updates may be lost")
    parser.add_argument("--ignore-fences", action="store_true", help="the resource takes any fence: a run that must fail")
    parser.add_argument("--holds", type=float, default=50, help="floor: holds a second")
    parser.add_argument("--each", type=int, default=None, help="floor: faults of each kind; default: 20 in 30 min")
    parser.add_argument("--share", type=float, default=0.3, help="floor: part of the time with a fault on")
    parser.add_argument("--late", type=float, default=200, help="ceiling: ms that a wait may end past its deadline")
    parser.add_argument("--still", type=float, default=500, help="ceiling: ms that a lock may stand still which a worker waits for")


def languages(_asked):
    return {language(name) for name in WORKERS}


def heading(asked):
    return f"{asked.nodes} servers, {len(WORKERS)} workers, {len(chosen_kinds(asked))} kinds of faults, {asked.minutes * 60:.0f} s"


def chosen_kinds(asked):
    names = asked.kinds.split(",") if asked.kinds else list(KINDS)
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise SystemExit(f"no kind {unknown[0]}; there are {' '.join(KINDS)}")
    # Of one node or two no clock may be wrong, and no list has a part of the set that is not all of it.
    return [KINDS[name] for name in names if not (asked.without_guard and KINDS[name].guard)
            and not (asked.nodes < 3 and KINDS[name].place in (CLOCK, SET))]


def play(asked, history, seed):
    rng, orders = random.Random(seed), Orders(nodes=asked.nodes, hold=asked.hold, hand=HAND)
    seconds = asked.minutes * 60
    # The last way to each node is the witness's.
    ways = len(WORKERS) + 1
    with Stage(orders.nodes + 2, clocks=True, declare=False) as stage, \
            Proxy(seed, ways * [stage.port(number) for number in range(1, orders.nodes + 1)]) as proxy:
        world = World(stage, proxy, WORKERS, history, orders, rng)
        stage.declare(world.numbers, max_ttl=orders.max_ttl)
        end = time.monotonic_ns() + int(seconds * 1e9)
        own = wrong_clocks(os.path.dirname(history.path)) | OWN
        for name, value in {"begin": time.monotonic_ns(), "nodes": orders.nodes, "wait-ms": orders.wait, "ttl-ms": orders.ttl}.items():
            history.write("note", name, value)
        with Crew(history, world.urls, orders, WORKERS, end=end, honour=not asked.ignore_fences, own=own) as world.crew:
            with Witness(history, proxy.ports[-orders.nodes:]):
                disturb(world, Schedule(world, chosen_kinds(asked)), seconds)
            history.write("note", "end", end)
            left = leftovers(stage, [*world.numbers, *world.spares], orders.max_ttl / 1000)
            history.write("note", "left", len(left))
    for number, key in left[:5]:
        print(f"left behind on node {number}: {key.decode(errors='backslashreplace')}")
    return world.crew.wrong


def judge(asked, history, verdict):
    each = round(20 * asked.minutes / 30) if asked.each is None else asked.each
    floors = check.Floors(asked.holds, each, asked.share, asked.late, asked.still)
    check.judge(history, floors, [kind.name for kind in chosen_kinds(asked)], verdict, fenced=not asked.without_fences,
                guarded=not asked.without_fences or asked.ignore_fences)
