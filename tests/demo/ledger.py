"""What the workers wrote: following their logs, and the checks on them.

A worker's log has two lines for each hold, written before and after its write to the ledger:

    enter T1 WAIT [FENCE]
    exit T2

T1 and T2 are CLOCK_MONOTONIC in ns, WAIT is how long the worker waited for the lock, in ns. FENCE is the fence of its
lease; left out without a lock. A write with a fence has to be larger than every fence before it (`refused`).
"""

import sqlite3
from dataclasses import dataclass, field


@dataclass
class Log:
    """One worker's log, read as it grows."""

    path: str
    holds: list = field(default_factory=list)  # (enter, exit), ns
    waits: list = field(default_factory=list)  # ns
    writes: list = field(default_factory=list)  # (exit, fence), of holds with a fence
    entered: int = None
    fence: int = None
    broken: str = None
    _offset: int = 0

    def follow(self):
        """Takes in the lines that have been added."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        complete = data[:data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            try:
                self._take(line.split())
            except ValueError:
                self.broken = self.broken or f"unexpected line: {line[:80]}"

    def _take(self, words):
        if words[:1] == ["enter"] and len(words) in (3, 4) and self.entered is None:
            entered, wait, *fence = map(int, words[1:])
            self.entered, self.fence = entered, fence[0] if fence else None
            self.waits.append(wait)
        elif words[:1] == ["exit"] and len(words) == 2 and self.entered is not None:
            left = int(words[1])
            self.holds.append((self.entered, left))
            if self.fence is not None:
                self.writes.append((left, self.fence))
            self.entered = None
        else:
            raise ValueError


def overlaps(logs):
    """How many holds began while another was not over, by a clock that all workers share."""
    holds = sorted(hold for log in logs for hold in log.holds)
    count, latest = 0, 0
    for entered, left in holds:
        count += entered < latest
        latest = max(latest, left)
    return count


class Resource:
    """What a lock protects, if it looks after itself: a row that takes no write with a fence that is not a new one."""

    def __init__(self):
        self._rows = sqlite3.connect(":memory:")
        self._rows.execute("CREATE TABLE resource (id INTEGER PRIMARY KEY, value INTEGER, fence INTEGER NOT NULL)")
        self._rows.execute("INSERT INTO resource VALUES (1, NULL, 0)")

    def write(self, value, fence):
        """Writes, unless a write with this fence or a larger one was before; whether it did."""
        update = "UPDATE resource SET value = ?, fence = ? WHERE id = 1 AND fence < ?"
        return self._rows.execute(update, (value, fence, fence)).rowcount == 1


def refused(logs):
    """How many of the writes with a fence such a resource refuses, in the order in which they were made."""
    resource = Resource()
    writes = sorted(write for log in logs for write in log.writes)
    return sum(not resource.write(at, fence) for at, fence in writes)


def percentile(values, part):
    """The value below which `part` percent of the values are, nearest rank; 0 without values."""
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * part // 100) - 1)]


def balance(path):
    with open(path) as file:
        return int(file.read())
