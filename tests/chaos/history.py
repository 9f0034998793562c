"""The history of a run: one file to which every process appends whole lines. All times are CLOCK_MONOTONIC, ns.

    take WORKER LOCK INVOKED ACQUIRED UNTIL FENCE    acquire has returned; UNTIL: end of validity as then known
    share WORKER LOCK INVOKED …                      the same, of a lease that others may share the lock with
    give WORKER LOCK AT UNTIL                        release is called after AT; UNTIL: the latest end ever seen
    fail WORKER LOCKS INVOKED RETURNED WAIT-MS KIND  acquire has failed
    want WORKER LOCKS INVOKED                        several, with commas, are asked for together: a `take` for each
    keep WORKER LOCK FROM UNTIL                      the release of what was acquired at FROM returned true: UNTIL then none begins
    hand WORKER LOCK AT                              an export is called after AT, behind its `give`
    adopted WORKER LOCK NUMBER                       the last `take` of that lock goes on with the exported lease of this number
    ran WORKER JOB TICK                              a tick of a job has run
    dead WORKER AT                                   the worker was killed
    begin NUMBER FAULT AT WHOM                       a fault begins; WHOM: nodes, a worker, or WORKER/FENCE of the term that it meets
    end NUMBER AT                                    it is about to be undone, or is
    step FROM TO NODES MS FULL                       clocks were set forward; FULL: LOCK/WORKER with all votes
    stall FROM TO                                    a processor of the machine stood still
    slow NODE FROM TO                                a node answered late to what no fault was on the way of
    note NAME VALUE                                  figures of the run; what comes again is added

terms.py has the lines of an election.
"""

import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

NEVER = 1 << 62
# The name of a worker that lists other nodes than the set has ends so.
STRAY = "stray"


def language(worker):
    return worker.rpartition("-")[0]


def covered(spans, begin, end):
    """How much of that time is within any of the spans, in ns."""
    total, reached = 0, begin
    for since, to in sorted(spans):
        total += max(0, min(to, end) - max(since, reached))
        reached = max(reached, to)
    return total


class Writer:
    def __init__(self, path):
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def size(self):
        return os.fstat(self._file).st_size

    def told(self, since, begins, word=""):
        """Whether such a line has been written since the file was of that size."""
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


class History:
    # The lines there are, and the methods that take them, where these have another name.
    LINES = {kind: kind for kind in ("take", "share", "give", "fail", "want", "keep", "hand", "ran", "dead", "begin", "end", "note")}
    LINES |= {"adopted": "adopt", "slow": "be_slow", "step": "set_forward", "stall": "stand"}

    def __init__(self, path=""):
        self.lines, self._path = 0, path
        self.holds, self.faults, self.notes, self.ticks = [], {}, {}, Counter()
        self.fails = []  # worker, locks, invoked, returned, wait ms, kind
        self.steps = []  # from, to, set of (lock, worker)
        self.stalls = []  # from, to
        self.slow = []  # node, from, to
        self.wants = []  # worker, locks, invoked
        self.keeps = []  # worker, lock, from, until
        self.hands = []  # lock, at
        self.adopted = []  # number of the text
        self.locks = defaultdict(list)
        # Of each worker what it has not given back, by its lock.
        self.kept = defaultdict(dict)

    def add(self, line):
        self.lines += 1
        kind, *words = line.split()
        try:
            if kind not in self.LINES:
                raise ValueError("no such line")
            getattr(self, self.LINES[kind])(*words)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path}:{self.lines}: {line.strip()[:120]}: {type(error).__name__} {error}") from error

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

    def fail(self, worker, locks, invoked, returned, wait, kind):
        self.fails.append((worker, locks, int(invoked), int(returned), int(wait), kind))

    def want(self, worker, locks, invoked):
        self.wants.append((worker, locks.split(","), int(invoked)))

    def keep(self, worker, lock, begin, until):
        self.keeps.append((worker, lock, int(begin), int(until)))

    def hand(self, _worker, lock, at):
        self.hands.append((lock, int(at)))

    def adopt(self, _worker, _lock, number):
        self.adopted.append(int(number))

    def ran(self, _worker, job, tick):
        self.ticks[int(job), int(tick)] += 1

    def dead(self, worker, at):
        for hold in self.kept.pop(worker, {}).values():
            hold.until = min(hold.until, int(at))

    def begin(self, number, kind, at, whom):
        self.faults[number] = Fault(kind, int(at), whom)

    def end(self, number, at):
        self.faults[number].end = int(at)

    def set_forward(self, begin, end, _nodes, _ms, full):
        self.steps.append((int(begin), int(end), {tuple(one.split("/")) for one in full.split(",") if one != "-"}))

    def stand(self, begin, end):
        self.stalls.append((int(begin), int(end)))

    def be_slow(self, node, begin, end):
        self.slow.append((int(node), int(begin), int(end)))

    def note(self, name, value):
        self.notes[name] = self.notes.get(name, 0) + float(value)

    def stalled(self, begin, end):
        """For how long within that time a processor stood still."""
        return covered(self.stalls, begin, end)


def read(path, into=History):
    history = into(path)
    with open(path) as file:
        for line in file:
            history.add(line)
    return history


class Live:
    """A history as far as it has come."""

    def __init__(self, path, into=History):
        self.history, self._file, self._rest = into(path), open(path), ""

    def look(self):
        """Takes in the lines that have been added; returns the history."""
        *whole, self._rest = (self._rest + self._file.read()).split("\n")
        for line in whole:
            self.history.add(line)
        return self.history

    def wait(self, come, seconds, meanwhile=lambda: None):
        """Waits until the history has it. Returns what that was; nothing if it does not come."""
        end = time.monotonic() + seconds
        while not (found := come(self.look())) and time.monotonic() < end:
            meanwhile()
            time.sleep(0.002)
        return found

    def close(self):
        self._file.close()
