"""What is measured: workloads and peers."""

from dataclasses import dataclass


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
    flags: tuple = ()
    # Names of what is done to the nodes between warm-up and measuring, see runs.py.
    states: tuple = ("up",)


W1 = Workload("W1", "uncontended latency: one worker, client and servers on core 0", 0.8, 5, 5, pinned=True)
W2 = Workload("W2", "throughput: 64 threads, tasks or calls in flight, each on a lock of its own", 1.0, 5, 5, workers=64)
# Of peers only an order of magnitude is wanted here: their latency is a timeout, or for ever.
W4 = Workload("W4", "faults: five nodes, one worker, connected before the fault", 1.0, 5, 1, nodes=(5,),
              states=("up", "killed", "hung", "slow", "two hung"))
W5 = Workload("W5", "10,000 renewed locks of 10 s held for 20 s", 20, 2, 1, nodes=(1,), workers=10_000, flags=("--hold",))
# No peer does it, no figure is compared: it is the check that two holders never meet.
SHARED = Workload("shared", "8 workers on one lock, holders counted", 2.0, 1, 0, workers=8, flags=("--shared",),
                  states=("up",))

WORKLOADS = {workload.name: workload for workload in (W1, W2, W4, W5, SHARED)}


@dataclass(frozen=True)
class Peer:
    """`name` is the driver's word for it, its language before the colon, its settings after a plus.

    Quorlock runs on its defaults; `+plain` is without fences and restart guard, the work that peers do, `+fence` and
    `+guard` are one of the two alone.
    """

    name: str
    workloads: tuple
    nodes: tuple = (1, 5)

    @property
    def language(self):
        return self.name.partition(":")[0]

    @property
    def ours(self):
        return ":quorlock" in self.name

    @property
    def tuned(self):
        return "+" in self.name


ALL = ("W1", "W2", "W4", "W5", "shared")
CYCLES = ("W1", "W2")

PEERS = [
    Peer("rust:raw", CYCLES),
    Peer("rust:rslock", ("W1", "W2", "W4", "W5")),
    Peer("rust:quorlock", ("W1", "W2", "W4", "shared")),
    Peer("rust:quorlock+plain", CYCLES),
    Peer("rust:quorlock+fence", CYCLES),
    Peer("rust:quorlock+guard", CYCLES),
    Peer("rust:quorlock-thread", ALL),
    Peer("rust:quorlock-thread+plain", CYCLES),
    Peer("c:quorlock", ALL),
    Peer("c:quorlock+plain", CYCLES),
    Peer("py:quorlock", ALL),
    Peer("py:quorlock+plain", CYCLES),
    Peer("py:redis-py", CYCLES, (1,)),
    Peer("py:redis-py+fast", CYCLES, (1,)),
    Peer("py:hand", ("W1", "W2", "W4")),
    Peer("py:hand+fast", ("W1",)),
    Peer("py:hand+safe", ("W4",)),
    Peer("py:redlock-py", ("W1", "W2", "W4")),
    Peer("py:redlock-py+fast", ("W1",)),
    Peer("py:redlock-py+safe", ("W4",)),
    Peer("py:pottery", ("W1", "W2", "W4")),
    Peer("py:pottery+safe", ("W4",)),
    Peer("aio:quorlock", ALL),
    Peer("aio:quorlock+plain", CYCLES),
    Peer("aio:redis-py", CYCLES, (1,)),
    Peer("aio:redis-py+fast", ("W1",), (1,)),
    Peer("aio:hand", CYCLES),
    Peer("aio:pottery", ("W1", "W2", "W4")),
    Peer("aio:pottery+safe", ("W4",)),
    Peer("aio:aioredlock", ("W1", "W2", "W4", "W5")),
    Peer("aio:aioredlock+fast", CYCLES),
    Peer("js:quorlock", ALL),
    Peer("js:quorlock+plain", CYCLES),
    Peer("js:redlock5", ("W1", "W2", "W4", "W5")),
    Peer("js:redlock5+fast", ("W2",)),
    Peer("js:ioredis", CYCLES),
    Peer("js:ioredis+fast", ("W2",)),
    Peer("js:redis-semaphore", ("W1", "W2", "W4", "W5")),
    Peer("js:redis-semaphore+fast", CYCLES),
    Peer("js:redis-semaphore+safe", ("W4",)),
]
