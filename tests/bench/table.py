"""What is measured: workloads and peers."""

from dataclasses import dataclass

from handoffs import Room


# The redis-server on the PATH, and newer ones that delete by value in one command (newer.py).
OWN, VALKEY, REDIS8 = "own", "valkey-9.1", "redis-8.6"
SERVERS = {OWN: "Redis", VALKEY: "Valkey 9.1", REDIS8: "Redis 8.6"}


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    seconds: float
    # Repetitions of a Quorlock peer, and of another's.
    repetitions: int
    peer_repetitions: int
    nodes: tuple = (1, 5)
    workers: int = 1
    pinned: bool = False
    # Its runs count while the processors are near each other: see apart.py.
    near: bool = False
    flags: tuple = ()
    # Names of what is done to the nodes between warm-up and measuring, see runs.py; of a contended one the shapes.
    states: tuple = ("up",)
    contended: bool = False
    # Those of its states that are run on the newer servers too.
    newer_states: tuple = ()
    # Its peers are those of another workload, as far as they are compared at all.
    like: str = ""


@dataclass(frozen=True)
class Shape:
    """Who contends: how many in each process, and how long a holder stays."""

    processes: tuple
    stay_ms: int
    # Of those in each process, the first this many share the lock.
    readers: int = 0
    # Of a semaphore: how many may hold it at once.
    slots: int = 1

    @property
    def room(self):
        return Room(self.slots, self.readers)


W1 = Workload("W1", "uncontended latency: one worker, client and servers on core 0", 0.8, 5, 5, pinned=True,
              newer_states=("up",))
W2 = Workload("W2", "throughput: 64 threads, tasks or calls in flight, each on a lock of its own", 1.0, 5, 5, workers=64,
              near=True, newer_states=("up",))
ONE, MANY, PROCESSES, BESIDE = "8 in one process", "32 in one process", "8 processes", "8 in one process, 1 beside"
SHAPES = {f"{who}, {stay} ms": Shape(processes, stay) for who, processes, stays in (
    (ONE, (8,), (0, 5)), (MANY, (32,), (0, 5)), (PROCESSES, (1,) * 8, (0, 5)), (BESIDE, (8, 1), (5,))) for stay in stays}
W3 = Workload("W3", "contention: one lock, and who has released it asks again at once", 3.0, 3, 1, states=tuple(SHAPES),
              contended=True, newer_states=(f"{PROCESSES}, 0 ms",))
READING, WRITING, SLOTS = "64 readers, 1 writer", "32 readers, 8 writers", "10 slots, 40 callers"
CROWDS = {**{f"{READING}, {stay} ms": Shape((65,), stay, readers=64) for stay in (0, 5)},
          **{f"{WRITING}, {stay} ms": Shape((40,), stay, readers=32) for stay in (0, 5)},
          **{f"{SLOTS}, {stay} ms": Shape((40,), stay, slots=10) for stay in (0, 5)}}
READ, COUNTED = (tuple(state for state in CROWDS if state.startswith(who)) for who in ((READING, WRITING), SLOTS))
W6 = Workload("W6", "a lock that readers share and a writer has alone; who has released it asks again at once", 3.0, 3, 3, states=READ,
              contended=True)
W7 = Workload("W7", "a semaphore: who has released a slot asks for one again at once", 3.0, 3, 3, states=COUNTED, contended=True)
# Of peers only an order of magnitude is wanted here: their latency is a timeout, or forever.
W4 = Workload("W4", "faults: five nodes, one worker, connected before the fault", 1.0, 5, 1, nodes=(5,),
              states=("up", "killed", "hung", "slow", "two hung"))
W5 = Workload("W5", "10,000 renewed locks of 10 s held for 20 s", 20, 2, 1, nodes=(1,), workers=10_000, flags=("--hold",))
# As people have it: the nodes are elsewhere. A relay before each node (relay.c) makes round trips so long, in ms.
ROUND_TRIPS = {f"round trips of {length} ms": float(length) for length in ("0.2", "1", "10", "50")}
# For ours alone: the same over TLS.
OVER_TLS = "round trips of 10 ms, TLS"
ROUND_TRIPS[OVER_TLS] = 10.0
W8 = Workload("W8", "a network: one worker", 1.0, 1, 1, nodes=(1, 3, 5), states=tuple(ROUND_TRIPS), like="W1")
W9 = Workload("W9", "a network: 64 threads, tasks or calls in flight, each on a lock of its own", 1.0, 1, 1, nodes=(1, 3, 5), workers=64,
              states=tuple(ROUND_TRIPS), like="W2")
# What it costs to have one node that fails over: the same client and options in each state, restart guard on.
BARE, DIRECT, BEHIND = "without replicas", "by the master's address", "behind Sentinel"
SENTINEL = Workload("sentinel", "one node and its replicas, one worker, client and master on core 0", 0.8, 5, 5, nodes=(1,), pinned=True,
                    states=(BARE, DIRECT, BEHIND))
# Of those, where the node is a master with two replicas and three sentinels.
REPLICATED = (DIRECT, BEHIND)
# No peer does it, no figure is compared: it is the check that two holders never meet.
SHARED = Workload("shared", "8 workers on one lock, holders counted", 2.0, 1, 0, workers=8, flags=("--shared",),
                  states=("up",))

WORKLOADS = {workload.name: workload for workload in (W1, W2, W3, W4, W5, W6, W7, W8, W9, SENTINEL, SHARED)}


def shapes(*whos):
    """Of these, with all stays."""
    return tuple(shape for shape in SHAPES if shape.rpartition(", ")[0] in whos)


@dataclass(frozen=True)
class Peer:
    """`name` is the driver's word for it, its language before the colon, its settings after a plus.

    Quorlock runs on its defaults; `+plain` is without fences and restart guard, the work that peers do, `+fence` and
    `+guard` are one of the two alone, `+both` has them where one is not the default, and for each cycle `+cold` takes a name that
    its client has not used lately.
    """

    name: str
    workloads: tuple
    nodes: tuple = (1, 5)
    # Those of W3 that it takes part in.
    shapes: tuple = ()
    # A target compares ours with it: measured as often as ours.
    compared: bool = False
    # On the newer servers too: nodes of each workload.
    newer: tuple = ()

    @property
    def language(self):
        return self.name.partition(":")[0]

    @property
    def languages(self):
        """Of its processes, in turns."""
        return MIXED if self.language == "mixed" else (self.language,)

    @property
    def ours(self):
        return ":quorlock" in self.name and not self.before

    @property
    def before(self):
        """Quorlock as it was, for what is asked to cost no more than then."""
        return self.language == "before"

    @property
    def raw(self):
        """Written by hand for a floor: no peer to be compared with."""
        return ":raw" in self.name

    @property
    def guard(self):
        """Whether its clients have the restart guard; `None`: as is the default."""
        return {"plain": False, "fence": False, "guard": True, "both": True}.get(self.name.partition("+")[2])

    @property
    def tuned(self):
        return "+" in self.name

    def driver(self, number):
        """The name by which its process of this number knows it."""
        return self.languages[number % len(self.languages)] + self.name.removeprefix(self.language)

    def takes(self, workload, state, server=OWN, nodes=None):
        if server != OWN and (state not in workload.newer_states or nodes not in (None, *self.newer)):
            return False
        if nodes is not None and nodes not in self.nodes and not (nodes == 3 and 5 in self.nodes):
            return False
        if workload.like:
            # A driver that writes by hand, and other settings than the defaults, say nothing of a network.
            kept = not self.raw and not self.before and not self.tuned and workload.like in self.workloads
            return kept and (self.ours or state != OVER_TLS)
        return state in self.shapes if workload.contended else workload.name in self.workloads


ALL = ("W1", "W2", "W4", "W5", "shared")
CYCLES = ("W1", "W2")
MIXED = ("py", "js")
EVERY = tuple(SHAPES)
# Of peers: those that a target may compare ours with, and those of which only an order of magnitude is wanted.
WIDE, NARROW = shapes(ONE, MANY, PROCESSES), shapes(ONE, PROCESSES)

PEERS = [
    Peer("rust:raw", CYCLES, newer=(1, 5)),
    # A hand-written client of what Quorlock sends while nobody contends.
    Peer("rust:raw-native", ("W1", "W2", "W4"), compared=True, newer=(1, 5)),
    Peer("rust:raw-native+plain", CYCLES, newer=(1, 5)),
    Peer("rust:raw-native+cold", ("W2",), (1,), newer=(1,)),
    # And one of a queue that waiters stand in.
    Peer("rust:raw-queue", (), (1,), shapes(PROCESSES), compared=True, newer=(1,)),
    Peer("before:quorlock", ("W4",), shapes=shapes(PROCESSES), compared=True, newer=(1,)),
    Peer("before:quorlock-thread", ("W5",), (1,), compared=True),
    Peer("rust:rslock", ("W1", "W2", "W4", "W5"), shapes=NARROW, newer=(1, 5)),
    Peer("rust:rslock+fast", (), shapes=WIDE),
    Peer("rust:quorlock", ("W1", "W2", "W4", "shared"), shapes=(*EVERY, *READ, *COUNTED), newer=(1, 5)),
    Peer("rust:quorlock+plain", CYCLES, newer=(1, 5)),
    Peer("rust:quorlock+cold", ("W2",), (1,), newer=(1,)),
    Peer("rust:quorlock+fence", CYCLES),
    Peer("rust:quorlock+guard", CYCLES),
    Peer("rust:quorlock+both", ("sentinel",), (1,)),
    Peer("rust:quorlock-thread", ALL),
    Peer("rust:quorlock-thread+plain", CYCLES),
    Peer("c:quorlock", ALL),
    Peer("c:quorlock+plain", CYCLES),
    Peer("py:quorlock", ALL, shapes=EVERY),
    Peer("py:quorlock+plain", CYCLES),
    Peer("py:redis-py", CYCLES, (1,), NARROW),
    Peer("py:redis-py+fast", CYCLES, (1,), NARROW),
    Peer("py:python-redis-lock", (), (1,), WIDE, compared=True),
    Peer("py:hand", ("W1", "W2", "W4")),
    Peer("py:hand+fast", ("W1",)),
    Peer("py:hand+safe", ("W4",)),
    Peer("py:redlock-py", ("W1", "W2", "W4")),
    Peer("py:redlock-py+fast", ("W1",)),
    Peer("py:redlock-py+safe", ("W4",)),
    Peer("py:pottery", ("W1", "W2", "W4"), shapes=NARROW),
    Peer("py:pottery+safe", ("W4",)),
    Peer("aio:quorlock", ALL, shapes=WIDE),
    Peer("aio:quorlock+plain", CYCLES),
    # The same behind the two hops that an event loop needs.
    Peer("aio:raw-native", ("W1",)),
    Peer("aio:raw-native+plain", ("W1",)),
    Peer("aio:redis-py", CYCLES, (1,)),
    Peer("aio:redis-py+fast", ("W1",), (1,)),
    Peer("aio:hand", CYCLES),
    Peer("aio:pottery", ("W1", "W2", "W4")),
    Peer("aio:pottery+safe", ("W4",)),
    Peer("aio:aioredlock", ("W1", "W2", "W4", "W5")),
    Peer("aio:aioredlock+fast", CYCLES),
    Peer("js:quorlock", ALL, shapes=(*WIDE, *READ, *COUNTED)),
    Peer("js:quorlock+plain", CYCLES),
    Peer("js:raw-native", CYCLES),
    Peer("js:raw-native+plain", CYCLES),
    Peer("js:redlock5", ("W1", "W2", "W4", "W5"), shapes=NARROW),
    Peer("js:redlock5+fast", ("W2",), shapes=NARROW),
    Peer("js:redlock4", (), shapes=NARROW),
    Peer("js:ioredis", CYCLES),
    Peer("js:ioredis+fast", ("W2",)),
    Peer("js:redis-semaphore", ("W1", "W2", "W4", "W5"), shapes=(*WIDE, *COUNTED), compared=True),
    Peer("js:redis-semaphore+fast", CYCLES),
    Peer("js:redis-semaphore+safe", ("W4",)),
    Peer("go:redsync", CYCLES, shapes=NARROW, compared=True),
    Peer("go:redsync+fast", CYCLES, shapes=NARROW, compared=True),
    Peer("java:redisson", CYCLES, (1,), (*WIDE, *READ, *COUNTED), compared=True),
    Peer("java:redisson+fair", CYCLES, (1,), WIDE, compared=True),
    Peer("mixed:quorlock", (), shapes=shapes(PROCESSES)),
]
