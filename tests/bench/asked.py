"""What is asked of a cycle in native commands: its rows, each with its servers, its target and the floor beside it.

Each figure is a ratio of two that took turns in the same repetitions, on the same server. The floor is the same ratio with a
hand-written client of our wire in our place, which decides nothing: nobody who sends this can be better.
"""

from dataclasses import dataclass
from statistics import median

from table import OWN, PROCESSES, REDIS8, VALKEY

NEWER = (VALKEY, REDIS8)
ALL = (OWN, *NEWER)
# What is asked to be no worse than before: two clients that are alike were seen to differ by so much, and by more in the slowest
# of a hundred.
NO_MORE, NO_MORE_P99 = 1.05, 1.15

WIRE, PLAIN, COLD = "rust:raw-native", "rust:raw-native+plain", "rust:raw-native+cold"
FIELDS = {"server_us": "server CPU a cycle", "cycles_per_s": "cycles/s", "p50_us": "p50", "p99_us": "p99", "gap_p50_us": "p50 of the gap",
          "scripts_per_handoff": "scripts a hand-off", "server_us_per_handoff": "server CPU a hand-off", "megabytes": "memory",
          "cpu_percent": "client CPU"}


@dataclass(frozen=True)
class Row:
    title: str
    servers: tuple
    workload: str
    nodes: int
    ours: str
    theirs: str
    field: str
    sign: str
    bound: float
    # What it was before, where that is known.
    before: str = "–"
    # Who stands in our place, and if it is not the same, who in theirs.
    floor: str = ""
    beside: str = ""
    state: str = "up"


def rows():
    """Where the floor itself misses what was asked first, which stands behind the row, 1 / 0.85 of the floor is asked."""
    cpu = ("W2", 1)
    for title, ours, floor, own, newer, before in (
            ("defaults, name used lately", "rust:quorlock", WIRE, 1.4, 0.98, "3.3"),  # 0.75
            ("defaults, other names", "rust:quorlock+cold", COLD, 1.55, 1.1, "3.3"),  # 0.9
            ("plain", "rust:quorlock+plain", PLAIN, 1.05, 0.75, "2.35")):  # 0.5
        title = f"server CPU a cycle, 64 in flight, {title}, to raw"
        yield Row(title, (OWN,), *cpu, ours, "rust:raw", "server_us", "≤", own, before, floor)
        yield Row(title, NEWER, *cpu, ours, "rust:raw", "server_us", "≤", newer, "–", floor)
    for nodes, title, ours, floor, own, newer, before in (
            (1, "plain", "rust:quorlock+plain", PLAIN, 1.05, 1.25, "0.59"), (1, "defaults", "rust:quorlock", WIRE, 0.8, 1.05, "0.45"),
            (5, "plain", "rust:quorlock+plain", PLAIN, 1.8, 2.0, "1.07"), (5, "defaults", "rust:quorlock", WIRE, 1.35, 1.6, "0.66")):
        title = f"cycles/s, Rust, 64 in flight, {title}, to rslock"
        yield Row(title, (OWN,), "W2", nodes, ours, "rust:rslock", "cycles_per_s", "≥", own, before, floor)
        yield Row(title, NEWER, "W2", nodes, ours, "rust:rslock", "cycles_per_s", "≥", newer, "–", floor)
    # On the newer servers no worse is asked: the same.
    for nodes, title, ours, floor, bound, before in (
            (1, "plain", "rust:quorlock+plain", PLAIN, 1.0, "1.07"), (5, "plain", "rust:quorlock+plain", PLAIN, 1.0, "1.06"),  # 0.92
            (5, "defaults", "rust:quorlock", WIRE, 1.2, "1.29")):  # 1.0
        title = f"one at a time, Rust, {title}, to rslock"
        yield Row(title, (OWN,), "W1", nodes, ours, "rust:rslock", "p50_us", "≤", bound, before, floor)
        yield Row(title, NEWER, "W1", nodes, ours, "rust:rslock", "p50_us", "≤", bound, "–", floor)
    for title, nodes, ours, theirs, bound, before, floor in (
            ("Python to redis-py", 1, "py:quorlock", "py:redis-py", 0.5, "0.59", WIRE),
            ("Python to redlock-py", 5, "py:quorlock", "py:redlock-py", 0.59, "0.69", WIRE),  # 0.5
            ("asyncio to aioredlock", 1, "aio:quorlock", "aio:aioredlock", 0.46, "0.51", "aio:raw-native"),
            ("asyncio to aioredlock", 5, "aio:quorlock", "aio:aioredlock", 0.44, "0.54", "aio:raw-native"),
            ("Node to redlock 5", 1, "js:quorlock", "js:redlock5", 1.45, "1.66", "js:raw-native"),
            ("Node to redlock 5", 5, "js:quorlock", "js:redlock5", 1.15, "1.41", "js:raw-native")):
        yield Row(f"one at a time, {title}, defaults", (OWN,), "W1", nodes, ours, theirs, "p50_us", "≤", bound, before, floor)
    yield Row("cycles/s, Node, 64 in flight, defaults, to redis-semaphore at its best", (OWN,), "W2", 5, "js:quorlock",
              "js:redis-semaphore+fast", "cycles_per_s", "≥", 1.5, "0.98", "js:raw-native")
    for nodes, bound, before in ((1, 1.1, "1.08"), (5, 1.2, "1.22")):  # 1.1
        yield Row("one at a time, Rust, defaults to plain", (OWN,), "W1", nodes, "rust:quorlock", "rust:quorlock+plain", "p50_us", "≤",
                  bound, before, WIRE, PLAIN)
    handed = f"{PROCESSES}, 0 ms"
    for nodes, servers in ((1, ALL), (5, (OWN,))):
        for field, word in (("scripts_per_handoff", "scripts"), ("server_us_per_handoff", "server CPU")):
            yield Row(f"hand-off between processes: {word}, to before", servers, "W3", nodes, "rust:quorlock", "before:quorlock", field,
                      "≤", NO_MORE, "1", state=handed)
    for stay, before in ((0, "1.27"), (5, "1.75")):
        yield Row(f"hand-off between processes, holds of {stay} ms: gap (median), to the raw queue client", (OWN,), "W3", 1, "rust:quorlock", "rust:raw-queue",
                  "gap_p50_us", "≤", 1.3, before, state=f"{PROCESSES}, {stay} ms")
    for field, word in (("megabytes", "memory"), ("cpu_percent", "client CPU"), ("server_percent", "server CPU")):
        yield Row(f"10,000 leases: {word}, to before", (OWN,), "W5", 1, "rust:quorlock-thread", "before:quorlock-thread", field, "≤",
                  NO_MORE, "1")
    for state in ("hung", "slow"):
        for field in ("p50_us", "p99_us"):
            yield Row(f"one at a time, a node {state}: {FIELDS[field]}, to before", (OWN,), "W4", 5, "rust:quorlock", "before:quorlock",
                      field, "≤", NO_MORE_P99 if field == "p99_us" else NO_MORE, "1", state=state)


@dataclass(frozen=True)
class Answer:
    """A row on one server, with what was measured."""

    row: Row
    server: str
    found: tuple
    floor: tuple

    @property
    def value(self):
        return median(self.found) if self.found else None

    @property
    def reached(self):
        """None: not measured."""
        if self.value is None:
            return None
        return self.value <= self.row.bound if self.row.sign == "≤" else self.value >= self.row.bound

    @property
    def floor_reaches(self):
        """Whether a client that decides nothing would reach it; None: not measured, or there is none."""
        return Answer(self.row, self.server, self.floor, ()).reached

    def verdict(self):
        if self.reached is None:
            return "not measured"
        if self.reached:
            return "reached"
        by = f"**missed** by {abs(self.value / self.row.bound - 1) * 100:.1f} %"
        return by + "; so is it by the floor" * (self.floor_reaches is False)


def answers(figures):
    for row in rows():
        for server in row.servers:
            found = figures.ratios(row.workload, row.nodes, row.ours, row.theirs, row.field, row.state, server)
            floor = figures.ratios(row.workload, row.nodes, row.floor, row.beside or row.theirs, row.field, row.state,
                                   server) if row.floor else []
            yield Answer(row, server, tuple(found), tuple(floor))
