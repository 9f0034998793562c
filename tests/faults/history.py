"""The history of a fault run: one file to which every process appends whole lines. All times are CLOCK_MONOTONIC, ns.

    take WORKER LOCK INVOKED ACQUIRED UNTIL FENCE    acquire has returned; UNTIL: end of validity as then known
    share WORKER LOCK INVOKED …                      the same, of one that shares the lock with others who do
    give WORKER LOCK AT UNTIL                        release is called after AT; UNTIL: the latest end ever seen
    fail WORKER LOCK INVOKED RETURNED WAIT-MS KIND   acquire has failed
    want WORKER LOCKS INVOKED                        several, with commas, are asked for together: a `take` for each
    keep WORKER LOCK FROM UNTIL                      the release of what was acquired at FROM returned true: UNTIL then none begins
    hand WORKER LOCK AT                              an export is called after AT, behind its `give`
    adopted WORKER LOCK NUMBER                       the last `take` of that lock goes on with the exported lease of this number
    dead WORKER AT                                   the worker was killed
    begin NUMBER FAULT AT WHOM                       a fault begins; WHOM: nodes or a worker
    end NUMBER AT
    step FROM TO NODES MS FULL                       clocks were set forward; FULL: LOCK/WORKER with all votes
    stall FROM TO                                    a processor of the machine ran nobody
    slow NODE FROM TO                                a node answered late to what no fault was on the way of
    note NAME VALUE                                  figures of the run
"""

import os
from collections import defaultdict
from dataclasses import dataclass, field

NEVER = 1 << 62
# The name of a worker that lists other nodes than the set has ends so.
STRAY = "stray"


class Writer:
    def __init__(self, path):
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def size(self):
        return os.fstat(self._file).st_size

    def told(self, since, begins, word=""):
        """Whether anybody has written such a line since the file was of that size."""
        with open(self.path) as file:
            file.seek(since)
            return any(line.startswith(begins) and word in line for line in file)

    def close(self):
        os.close(self._file)


@dataclass
class Hold:
    worker: str
    lock: str
    invoked: int
    acquired: int
    until: int
    fence: int
    # From here on the promise does not cover it: a clock was set forward while not all nodes had its vote.
    weak: int = NEVER
    # Others that share the lock may hold it beside this one.
    shared: bool = False

    @property
    def believed(self):
        """Whether there was a time in which the worker had reason to believe that it holds the lock."""
        return self.acquired < self.until


@dataclass
class Fault:
    kind: str
    begin: int
    whom: str
    end: int = NEVER


@dataclass
class History:
    holds: list = field(default_factory=list)
    fails: list = field(default_factory=list)  # worker, lock, invoked, returned, wait ms, kind
    faults: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)  # from, to, set of (lock, worker)
    stalls: list = field(default_factory=list)  # from, to
    slow: list = field(default_factory=list)  # node, from, to
    notes: dict = field(default_factory=dict)
    wants: list = field(default_factory=list)  # worker, locks, invoked
    keeps: list = field(default_factory=list)  # worker, lock, from, until
    hands: list = field(default_factory=list)  # lock, at
    adopted: list = field(default_factory=list)  # number of the text
    locks: dict = field(default_factory=lambda: defaultdict(list))
    kept: dict = field(default_factory=lambda: defaultdict(dict))  # of each worker what it has not given back, by its lock

    def share(self, *words):
        self.take(*words)
        self.holds[-1].shared = True

    def take(self, worker, lock, invoked, acquired, until, fence):
        hold = Hold(worker, lock, int(invoked), int(acquired), int(until), int(fence))
        self.kept[worker][lock] = hold
        self.holds.append(hold)
        self.locks[lock].append(hold)

    def give(self, worker, lock, at, until):
        hold = self.kept[worker].pop(lock, None)
        if not hold:
            raise ValueError(f"{worker} gives {lock} and has {sorted(self.kept[worker])}")
        hold.until = min(int(at), int(until))

    def fail(self, worker, lock, invoked, returned, wait, kind):
        self.fails.append((worker, lock, int(invoked), int(returned), int(wait), kind))

    def want(self, worker, locks, invoked):
        self.wants.append((worker, locks.split(","), int(invoked)))

    def keep(self, worker, lock, begin, until):
        self.keeps.append((worker, lock, int(begin), int(until)))

    def hand(self, _worker, lock, at):
        self.hands.append((lock, int(at)))

    def adopted_by(self, _worker, _lock, number):
        self.adopted.append(int(number))

    def dead(self, worker, at):
        for hold in self.kept.pop(worker, {}).values():
            hold.until = min(hold.until, int(at))

    def begin(self, number, kind, at, whom):
        self.faults[number] = Fault(kind, int(at), whom)

    def end(self, number, at):
        self.faults[number].end = int(at)

    def step(self, begin, end, _nodes, _ms, full):
        self.steps.append((int(begin), int(end), {tuple(one.split("/")) for one in full.split(",") if one != "-"}))

    def stall(self, begin, end):
        self.stalls.append((int(begin), int(end)))

    def node_slow(self, node, begin, end):
        self.slow.append((int(node), int(begin), int(end)))

    def note(self, name, value):
        self.notes[name] = float(value)


KINDS = {kind: kind for kind in ("take", "share", "give", "fail", "want", "keep", "hand", "dead", "begin", "end", "step", "stall", "note")}
KINDS |= {"adopted": "adopted_by", "slow": "node_slow"}


def read(path):
    history = History()
    with open(path) as file:
        for number, line in enumerate(file, 1):
            kind, *words = line.split()
            try:
                if kind not in KINDS:
                    raise ValueError("no such line")
                getattr(history, KINDS[kind])(*words)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{number}: {line.strip()[:120]}: {error}") from error
    return history
