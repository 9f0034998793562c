"""The faults of a run, one table. Each kind is a generator: what comes before its `yield` begins the fault, the rest
ends it; what is yielded is the time until then in seconds, `None` for the one that was drawn. `KINDS` tells of each which
place it takes (a node has at most one fault of its server, of its network and of its clock at a time), how many nodes,
how long, and whether the promises under it rest on the guard against restarts without data.
"""

import contextlib
import functools
import os
import signal
import time
from dataclasses import dataclass

from crew import LANGUAGES
from history import NEVER, STRAY
from stage import Resp, RespError

SERVER, NETWORK, CLOCK, WORKER, SET = "server", "network", "clock", "worker", "set"
KINDS = {}
# No server listens there.
NO_PORT = 1
# No client of ours uses it.
SPARE_DATABASE = 1
# The keys of counters, as patterns.
COUNTERS = ("lock:#f:*", "lock:#pf*")
# The commands that delete a key by its value, of Valkey 9.0 and Redis 8.4.
BY_VALUE = ("delifeq", "delex")


@dataclass(frozen=True)
class Kind:
    name: str
    run: object
    place: str
    nodes: tuple = (1, 2)
    seconds: tuple = (0.1, 1.2)
    # Holds are double without the guard.
    guard: bool = False
    # Votes were lost: the node counts as out of order for the longest ttl after it.
    loses: bool = False
    # Begins only while no other fault is on.
    alone: bool = False
    # The language of the workers that it is for; of any but the program without one.
    of: str = ""


def kind(place, **more):
    def add(run):
        name = run.__name__.replace("_", "-")
        KINDS[name] = Kind(name, run, place, **more)
        return run

    return add


# ---- the network, by the proxy ----

@dataclass(frozen=True)
class Links:
    """The ways from some workers to some nodes. A worker cut off alone is the worst: the others go on."""

    workers: tuple
    nodes: tuple
    everyone: bool = True

    def ways(self):
        return {(worker, node) for worker in self.workers for node in self.nodes}

    def __str__(self):
        return ",".join(map(str, self.nodes)) + "@" + ("all" if self.everyone else ",".join(self.workers))


def proxied(world, links, *words):
    """Tells the proxy; a word that is a function is drawn for each way."""
    for way in sorted(links.ways()):
        world.proxy.tell(world.ways[way], *(word() if callable(word) else word for word in words))


@kind(NETWORK)
def delay(world, links, _seconds):
    proxied(world, links, "delay", *(lambda most=most: world.random.randint(0, most) for most in (60, 60, 30)))
    yield
    proxied(world, links, "heal")


def one_way(world, links, command):
    # For all of them the same: one half of a network is gone.
    proxied(world, links, command, world.random.choice(["requests", "replies", "both"]))
    yield
    proxied(world, links, "heal")


@kind(NETWORK)
def hold_back(world, links, _seconds):
    yield from one_way(world, links, "hold")


@kind(NETWORK)
def drop(world, links, _seconds):
    yield from one_way(world, links, "drop")


@kind(NETWORK, seconds=(0, 0))
def reset(world, links, _seconds):
    proxied(world, links, "reset")
    yield


@kind(NETWORK)
def half_open(world, links, _seconds):
    proxied(world, links, "half-open")
    yield
    proxied(world, links, "heal")


@kind(NETWORK, seconds=(0.05, 0.3))
def cut_at_byte(world, links, _seconds):
    proxied(world, links, "cut", world.random.choice(["requests", "replies"]), lambda: world.random.randint(0, 400))
    yield
    proxied(world, links, "heal")


# What came as one, the vote without its trailer or a fence without its life, is carried out in part, or answered in part.
@kind(NETWORK, seconds=(0.05, 0.3))
def cut_between_commands(world, links, _seconds):
    proxied(world, links, "split", world.random.choice(["requests", "replies"]))
    yield
    proxied(world, links, "heal")


# Shorter than the quarantine of the empty server behind it: one that votes, and is then left, has lost its data unseen.
@kind(NETWORK, nodes=(1, 1), seconds=(0.05, 0.35), guard=True)
def backend(world, links, _seconds):
    spare = world.spares[0]
    world.stage.restart(spare)
    proxied(world, links, "backend", world.stage.port(spare), *world.random.choice([[], ["move"]]))
    yield
    proxied(world, links, "backend", world.stage.port(links.nodes[0]), "move")


# ---- the servers' processes and data ----

@kind(SERVER)
def hang(world, nodes, _seconds):
    world.stage.stop(*nodes)
    yield
    world.stage.cont(*nodes)


@kind(SERVER, guard=True, loses=True)
def kill_empty(world, nodes, _seconds):
    world.stage.kill(*nodes)
    yield
    world.stage.start(*nodes)


@kind(SERVER, guard=True, loses=True)
def kill_old_dump(world, nodes, _seconds):
    world.stage.save(*nodes)
    # Votes come and go meanwhile.
    yield world.random.uniform(0, world.orders.ttl) / 1000
    world.stage.kill(*nodes)
    yield
    world.stage.start(*nodes, saved=True)


@kind(SERVER, nodes=(99, 99), seconds=(0, 0.1), guard=True, loses=True, alone=True)
def all_at_once(world, nodes, _seconds):
    world.stage.kill(*nodes)
    yield
    world.stage.start(*nodes)


@kind(SERVER, seconds=(0, 0), guard=True, loses=True)
def flushall(world, nodes, _seconds):
    for node in nodes:
        world.stage.redis(node, "FLUSHALL")
    yield


# An empty database takes the place of the one with the votes. It stays: to swap the old one in again would bring back a
# record that no client can tell from one that was there all the time.
@kind(SERVER, seconds=(0, 0), guard=True, loses=True)
def swapdb(world, nodes, _seconds):
    for node in nodes:
        world.stage.redis(node, "FLUSHDB", db=SPARE_DATABASE)
        world.stage.redis(node, "SWAPDB", 0, SPARE_DATABASE)
    yield


# Of one node: where a majority has lost its counters the order rests on the clocks.
@kind(SERVER, nodes=(1, 1), seconds=(0, 0))
def counter_deleted(world, nodes, _seconds):
    counters = [key for pattern in COUNTERS for key in world.stage.keys(nodes[0], pattern)]
    if counters:
        world.stage.redis(nodes[0], "DEL", *counters)
    yield


# ---- the servers' states ----

@kind(SERVER)
def client_pause(world, nodes, seconds):
    for node in nodes:
        world.stage.redis(node, "CLIENT", "PAUSE", int(seconds * 1000), world.random.choice(["ALL", "WRITE"]))
    yield
    # It ends by the server's own clock, a little earlier or later than ours.
    for node in nodes:
        world.stage.redis(node, "CLIENT", "UNPAUSE")


def configured(world, nodes, name, wrong, right):
    for node in nodes:
        world.stage.redis(node, "CONFIG", "SET", name, wrong)
    yield
    for node in nodes:
        world.stage.redis(node, "CONFIG", "SET", name, right)


@kind(SERVER)
def oom(world, nodes, _seconds):
    yield from configured(world, nodes, "maxmemory", "1", "0")


@kind(SERVER)
def no_replicas(world, nodes, _seconds):
    yield from configured(world, nodes, "min-replicas-to-write", "1", "0")


@kind(SERVER)
def misconf(world, nodes, _seconds):
    for node in nodes:
        # A folder of that name is what a background save fails on, for root too.
        with contextlib.suppress(FileNotFoundError):
            os.remove(world.stage.dump(node))
        os.mkdir(world.stage.dump(node))
        world.stage.redis(node, "CONFIG", "SET", "save", "3600 1")
        world.stage.redis(node, "BGSAVE")
    yield
    for node in nodes:
        world.stage.redis(node, "CONFIG", "SET", "save", "")
        os.rmdir(world.stage.dump(node))


def cut(call):
    """Closes all connections but the caller's; to the server a client that hears messages is of another kind."""
    for of in ("normal", "pubsub"):
        call("CLIENT", "KILL", "TYPE", of)


@kind(SERVER)
def max_clients(world, nodes, _seconds):
    # Connections stay that are there: without one that was made before, nothing could end this.
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Resp(world.stage.port(node))) for node in nodes]
        for connection in connections:
            connection.call("CONFIG", "SET", "maxclients", "1")
            cut(connection.call)
        yield
        for connection in connections:
            connection.call("CONFIG", "SET", "maxclients", "10000")


# One node, and briefly: it takes a processor.
@kind(SERVER, nodes=(1, 1), seconds=(0.05, 0.3))
def busy(world, nodes, _seconds):
    node = nodes[0]
    world.stage.redis(node, "CONFIG", "SET", "busy-reply-threshold", "10")
    with Resp(world.stage.port(node), timeout=0.02) as connection:
        with contextlib.suppress(TimeoutError):
            connection.call("EVAL", "while true do end", 0)
        yield
    world.stage.redis(node, "SCRIPT", "KILL")
    # It ends when the server comes to look; until then others are refused, the next fault's commands too.
    for _ in range(500):
        try:
            world.stage.redis(node, "PING")
            return
        except RespError as error:
            if "BUSY" not in str(error):
                raise
            yield 0.01
    raise TimeoutError(f"node {node} is busy forever")


@kind(SERVER)
def acl(world, nodes, _seconds):
    taken, given = world.random.choice([(["-@scripting"], ["+@all"]), (["resetkeys", "~none"], ["allkeys"])])
    for node in nodes:
        world.stage.redis(node, "ACL", "SETUSER", "default", *taken)
    yield
    for node in nodes:
        world.stage.redis(node, "ACL", "SETUSER", "default", *given)


# Where the server has a command that deletes by value it is that alone which is refused, and scripts have to do.
@kind(SERVER)
def deletes_refused(world, nodes, _seconds):
    known = [word for word in BY_VALUE if world.stage.redis(nodes[0], "COMMAND", "INFO", word) != [None]] or ["del"]
    for node in nodes:
        world.stage.redis(node, "ACL", "SETUSER", "default", *(f"-{word}" for word in known))
    yield
    for node in nodes:
        world.stage.redis(node, "ACL", "SETUSER", "default", *(f"+{word}" for word in known))


# A replica whose master does not answer: it refuses writes, or everything.
@kind(SERVER)
def read_only(world, nodes, _seconds):
    for node in nodes:
        world.stage.redis(node, "CONFIG", "SET", "replica-serve-stale-data", world.random.choice(["yes", "no"]))
        world.stage.redis(node, "REPLICAOF", "127.0.0.1", NO_PORT)
    yield
    for node in nodes:
        world.stage.redis(node, "REPLICAOF", "NO", "ONE")


@kind(SERVER, seconds=(0, 0))
def script_flush(world, nodes, _seconds):
    for node in nodes:
        world.stage.redis(node, "SCRIPT", "FLUSH")
    yield


@kind(SERVER, seconds=(0, 0))
def client_kill(world, nodes, _seconds):
    for node in nodes:
        cut(functools.partial(world.stage.redis, node))
    yield


# ---- the servers' clocks ----

def forward(world, nodes, by):
    """Sets clocks forward. A lease stands this if all nodes have its vote, so the history must know of which that is so."""
    begin, full = time.monotonic_ns(), world.full()
    for node in nodes:
        world.stage.clock(node).step(by)
    world.history.write("step", begin, time.monotonic_ns(), ",".join(map(str, nodes)), int(by * 1000), ",".join(full) or "-")


def back(world, nodes, by):
    for node in nodes:
        world.stage.clock(node).step(-by)


def long_step(world):
    """More than any key has left, and not so much that fences would go back with a median of few nodes."""
    return world.random.uniform(1.02 * world.orders.ttl, 0.98 * world.orders.max_ttl) / 1000


@kind(CLOCK, seconds=(0.2, 0.8), alone=True)
def clock_forward(world, nodes, _seconds):
    by = long_step(world)
    forward(world, nodes, by)
    yield
    back(world, nodes, by)


@kind(CLOCK, seconds=(0.2, 0.8))
def clock_back(world, nodes, _seconds):
    by = long_step(world)
    back(world, nodes, by)
    yield
    forward(world, nodes, by)


@kind(CLOCK, seconds=(0.5, 2.0))
def clock_rate(world, nodes, _seconds):
    for node in nodes:
        # Within the drift of 1 % that clients allow for.
        world.stage.clock(node).run(world.random.uniform(-0.008, 0.008))
    yield
    for node in nodes:
        world.stage.clock(node).run(0)


# ---- the workers ----

@kind(WORKER, seconds=(0.1, 1.0))
def worker_pause(world, worker, _seconds):
    world.crew.signal(worker, signal.SIGSTOP)
    yield
    world.crew.signal(worker, signal.SIGCONT)


@kind(WORKER, seconds=(0, 0.5))
def worker_kill(world, worker, _seconds):
    world.crew.kill(worker)
    yield
    world.crew.start(worker)


# The program that holds a lock for a command is cut off from all nodes, or stands still, or both: its command has to end before
# another worker can have the lock.
@kind(WORKER, seconds=(0.3, 1.2), of="cli")
def cli_partition(world, worker, _seconds):
    what = world.random.choice(["both", "cut", "stop"])
    links = Links((worker,), tuple(world.numbers), everyone=False)
    if what != "stop":
        proxied(world, links, "drop", "both")
    if what != "cut":
        world.crew.signal(worker, signal.SIGUSR1)
    yield
    if what != "cut":
        world.crew.signal(worker, signal.SIGUSR2)
    if what != "stop":
        proxied(world, links, "heal")


# ---- the list of nodes ----

RECORD = "lock:#node"
LOOK_SECONDS = 0.05
# For what has to come, on a machine that stands still now and then.
PATIENCE_SECONDS = 15.0
# How often a node loses its memory while a stray client is there.
LOSSES = 6


def told(world, since, begins, word="", meanwhile=lambda: None):
    """Waits until a worker writes such a line into the history; that none does is wrong."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not world.history.told(since, begins, word):
        if time.monotonic() > end:
            world.crew.wrong.append(f"no line `{begins}… {word}` in {PATIENCE_SECONDS:g} s")
            return
        meanwhile()
        yield LOOK_SECONDS


def whole(world):
    """Waits until every node has a record: one that has just lost its memory is given it by the workers. False if they have
    ended before, so that none gives it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not all(world.stage.redis(node, "EXISTS", RECORD) for node in world.numbers):
        if world.crew.over():
            return False
        if time.monotonic() > end:
            raise TimeoutError("a node is left without a record")
        yield LOOK_SECONDS
    return True


def strays(world, victims, known):
    """What clients may list that are none of the set's, and the orders that they have for themselves. `victims` are in trouble;
    `known` keep their record, and each list has one of them: servers that have lost their memory do not say that they were a
    set, so that of these alone another may be founded.

    A list of other servers and of the set's own length is not among them: that is how a node is replaced.
    """
    members, spares, orders = world.numbers, world.spares, world.orders
    known = world.random.choice(known)
    both = sorted({known, victims[0]})
    fewer = both + [node for node in members if node not in both][: world.minority + 1 - len(both)]
    lists = [[known, *spares], [*both, *spares], fewer, [known], [*members, *spares]]
    found = [(nodes, {}) for nodes in lists if len(nodes) != len(members)]
    found += [(members, {"QUORLOCK_MAX_TTL": f"{ms}ms"}) for ms in (orders.ttl, 2 * orders.max_ttl)]
    return [*found, (members, {"QUORLOCK_RESTART_GUARD": "off"})]


@contextlib.contextmanager
def stray(world, victims, known):
    """A client that is none of the set's tries to use its nodes, and spares that are empty, until the end of the block."""
    world.stage.restart(*world.spares)
    nodes, orders = world.random.choice(strays(world, victims, known))
    name = f"{world.random.choice(sorted(LANGUAGES))}-{STRAY}"
    world.crew.start(name, QUORLOCK_NODES=",".join(world.stage.urls(nodes)), CHAOS_END=str(NEVER), **orders)
    yield name
    world.crew.dismiss(name)
    # A set is founded by all its nodes or by none, and one of these belongs to another.
    world.crew.wrong += [f"{name} with nodes {nodes} has written a record on {spare}" for spare in world.spares
                         if world.stage.redis(spare, "EXISTS", RECORD)]


def refused(world, name):
    """Waits until the stray client is told once more what is wrong with its list."""
    yield from told(world, world.history.size(), f"fail {name} ", "Misconfigured")


@kind(SET, nodes=(1, 1), seconds=(0.2, 0.6), alone=True)
def stray_client(world, nodes, _seconds):
    if not (yield from whole(world)):
        return
    with stray(world, nodes, nodes) as name:
        yield
        yield from refused(world, name)


@kind(SET, seconds=(0, 0.1), guard=True, loses=True, alone=True)
def stray_beside_loss(world, nodes, _seconds):
    def lose():
        node = world.random.choice(nodes)
        if world.random.random() < 0.5:
            world.stage.restart(node)
        else:
            world.stage.redis(node, "FLUSHALL")

    if not (yield from whole(world)):
        return
    with stray(world, nodes, [node for node in world.numbers if node not in nodes]) as name:
        yield
        # From its first look on nodes that have just lost everything are what it finds.
        yield from told(world, world.history.size(), f"fail {name} ", meanwhile=lose)
        for _ in range(LOSSES):
            lose()
            yield world.random.uniform(0, 0.15)
        yield from refused(world, name)


@kind(SET, seconds=(0.6, 1.5), guard=True, loses=True, alone=True)
def stray_beside_outage(world, nodes, _seconds):
    if not (yield from whole(world)):
        return
    hung = world.random.random() < 0.5
    (world.stage.stop if hung else world.stage.kill)(*nodes)
    # The one whose record would tell it may be the one that does not answer.
    known = nodes if hung else [node for node in world.numbers if node not in nodes]
    with stray(world, nodes, known) as name:
        yield
        (world.stage.cont if hung else world.stage.start)(*nodes)
        yield from refused(world, name)


def founded(world, nodes):
    """Makes these nodes the set, and no others: without clients for as long as a vote may live, without records, a new set,
    which the workers found themselves. Waits until one of them holds a lock there."""
    workers = world.crew.names()
    for name in workers:
        world.crew.kill(name)
    yield 1.02 * world.orders.max_ttl / 1000
    for node in world.numbers:
        world.stage.redis(node, "DEL", RECORD)
    begun, world.listed = world.history.size(), sorted(nodes)
    for name in workers:
        world.crew.start(name)
    if not world.crew.over():
        yield from told(world, begun, "take ")


# A quorum of the nodes goes on as the set, and later all of them again.
@kind(SET, nodes=(99, 99), seconds=(0.5, 1.5), alone=True)
def set_changes(world, nodes, _seconds):
    yield from founded(world, nodes[: world.minority + 1])
    yield
    yield from founded(world, world.numbers)
