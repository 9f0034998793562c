"""What each row of the matrix has to show: we and they exclude each other, in both directions.

A check is given a `Bench`, and fails by an exception whose text says what came instead.
"""

import os
import time
from dataclasses import dataclass, field

from adapter import OURS, Adapter, AdapterError

# A hold that nothing ends in time; a hold that is left to end by itself. Whole seconds: python-redis-lock counts in those.
LONG_MS, SHORT_MS = 10_000, 2_000
# Our longest time between two looks at a key whose holder calls nobody (docs/explanation/waiting.md).
OUR_POLL = 0.6
# On top of a poll, on a machine that is busy. A waiter that only the end of `LONG_MS` wakes comes later.
SLACK = 3.0
# The clocks of a server and of this process differ by so much within a few seconds, and a server's counts whole ms.
CLOCKS = 0.02
# How long a hold stands before it is released under a waiter, which has looked more than once by then. Nothing depends on it but
# what the figures mean.
STAND_SECONDS = 0.7
CYCLES, WORKERS = 200, 2
LOOP_SECONDS = 120.0
# Of 800 cycles this many at least are ours after theirs or theirs after ours: else they did not meet.
LEAST_CHANGES = 20


class Failed(Exception):
    """What a check found wrong."""


def expect(adapter, wanted, *words):
    said = adapter.ask(*words)
    if said != wanted:
        raise Failed(f"{adapter.name} {words[0]}: {said}, and not {wanted}")


@dataclass
class Bench:
    """Two adapters of ours and two of theirs on one stage, and names that nobody else uses."""

    row: object
    stage: object
    folder: str
    figures: dict = field(default_factory=dict)
    adapters: dict = field(default_factory=dict)

    def adapter(self, side, number=1):
        """Started when it is first asked for, and again when it was killed."""
        if (side, number) not in self.adapters:
            command = OURS if side == "ours" else self.row.command()
            started = Adapter(f"{side}-{number}", command, self.stage.urls(), self.folder)
            self.adapters[side, number] = started
        return self.adapters[side, number]

    def kill(self, side):
        self.adapters.pop((side, 1)).kill()

    def forget(self):
        """What a failed check may have left."""
        for adapter in self.adapters.values():
            adapter.kill()
        self.adapters.clear()

    def close(self):
        for adapter in self.adapters.values():
            adapter.close()

    def name(self, check):
        return f"{self.row.prefix}interop-{self.row.word}-{check}"

    def settled(self, name, there):
        """Waits until the key is on all nodes, or on none: who has won or released with a majority may have the rest under way.
        If that does not come, what the other side is told next says so.
        """
        end = time.monotonic() + SLACK
        while time.monotonic() < end and any(self.stage.redis(number, "EXISTS", name) != there for number in self.nodes()):
            time.sleep(0.005)

    def lose(self, name, nodes=None):
        """The key is gone, as from a server that lost its memory."""
        self.settled(name, True)
        for number in nodes or self.nodes():
            self.stage.redis(number, "DEL", name)

    def nodes(self):
        return range(1, len(self.stage) + 1)

    def poll(self, side):
        return OUR_POLL if side == "ours" else self.row.longest(SHORT_MS / 1000)


def other(side):
    return "theirs" if side == "ours" else "ours"


def version(bench):
    """It is the library, at the version that is pinned."""
    said = bench.adapter("theirs").version
    if said != bench.row.version():
        raise Failed(f"version {said}, and {bench.row.version()} is pinned")


def refused(bench, holder):
    """Whoever asks once while the other side holds is refused; it gets the lock once that has released."""
    name, holds, asks = bench.name(f"{holder}-hold"), bench.adapter(holder), bench.adapter(other(holder))
    expect(holds, "held", "try", name, LONG_MS)
    bench.settled(name, True)
    expect(asks, "refused", "try", name, LONG_MS)
    expect(holds, "released", "release")
    # One node that refuses yet can refuse a try of ours (docs/reference/protocol.md: the home decides).
    bench.settled(name, False)
    expect(asks, "held", "try", name, LONG_MS)
    expect(asks, "released", "release")


def handed_over(bench, holder):
    """Whoever waits while the other side holds gets the lock within its poll after the release."""
    name, holds, waits = bench.name(f"{holder}-release"), bench.adapter(holder), bench.adapter(other(holder))
    expect(holds, "held", "try", name, LONG_MS)
    expect(waits, "waiting", "hold", name, SHORT_MS)
    time.sleep(STAND_SECONDS)
    expect(holds, "released", "release")
    released, said = holds.heard_at, waits.hear()
    took = waits.heard_at - released
    if said != "held" or took > bench.poll(other(holder)) + SLACK:
        raise Failed(f"{waits.name} {said} {took:.2f} s after the release, and its poll is {bench.poll(other(holder)):g} s")
    bench.figures[other(holder)] = max(took, 0.0)
    expect(waits, "released", "release")


def outlived(bench, holder):
    """A killed holder's lock goes to who waits when its ttl has passed: not before, and within the poll behind it."""
    name, holds, waits = bench.name(f"{holder}-killed"), bench.adapter(holder), bench.adapter(other(holder))
    asked = holds.tell("try", name, SHORT_MS)
    if (said := holds.hear()) != "held":
        raise Failed(f"{holds.name} try: {said}, and not held")
    held = holds.heard_at
    bench.kill(holder)
    expect(waits, "waiting", "hold", name, SHORT_MS)
    said = waits.hear()
    ttl = SHORT_MS / 1000
    if waits.heard_at - asked < ttl - CLOCKS:
        raise Failed(f"{waits.name} {said} {waits.heard_at - asked:.2f} s after a killed holder asked for {ttl:g} s")
    if said != "held" or waits.heard_at - held > ttl + bench.poll(other(holder)) + SLACK:
        raise Failed(f"{waits.name} {said} {waits.heard_at - held:.2f} s after a killed holder had {ttl:g} s")
    expect(waits, "released", "release")


def late_release(bench, holder):
    """A release that comes after the ttl takes nothing from who holds the lock by then."""
    name, late, now = bench.name(f"{holder}-late"), bench.adapter(holder), bench.adapter(other(holder))
    expect(late, "held", "try", name, SHORT_MS)
    expect(now, "waiting", "hold", name, LONG_MS)
    if (said := now.hear()) != "held":
        raise Failed(f"{now.name} hold: {said}, and not held")
    # Not every library tells that it came too late.
    late.ask("release")
    expect(bench.adapter(holder, 2), "refused", "try", name, LONG_MS)
    expect(now, "released", "release")


def late_extension(bench, holder):
    """Whoever lost its key to a server's loss of memory, and then the lock to the other side, extends nothing any more."""
    name, late, now = bench.name(f"{holder}-extend"), bench.adapter(holder), bench.adapter(other(holder))
    expect(late, "held", "try", name, LONG_MS)
    bench.lose(name)
    expect(now, "held", "try", name, LONG_MS)
    if (said := late.ask("extend", LONG_MS)) not in ("lost", "none"):
        raise Failed(f"{late.name} extend: {said}, while {now.name} holds the lock")
    expect(bench.adapter(holder, 2), "refused", "try", name, LONG_MS)
    expect(now, "released", "release")


def minority_lost(bench, holder):
    """One of three nodes forgets a hold: it is held all the same, whether or not its extension puts the key back there."""
    name, holds, asks = bench.name(f"{holder}-minority"), bench.adapter(holder), bench.adapter(other(holder))
    expect(holds, "held", "try", name, LONG_MS)
    bench.lose(name, [1])
    expect(asks, "refused", "try", name, LONG_MS)
    if holds.ask("extend", LONG_MS) == "lost":
        raise Failed(f"{holds.name} extend: lost, with its key on two of three nodes")
    expect(asks, "refused", "try", name, LONG_MS)
    expect(holds, "released", "release")
    bench.settled(name, False)
    expect(asks, "held", "try", name, LONG_MS)
    expect(asks, "released", "release")


def counted(path):
    """The lines of a counter: numbers, and who wrote them. Without a lost update they are 1, 2, 3 and so on."""
    with open(path) as file:
        lines = [line.split() for line in file]
    return [int(number) for number, _ in lines], [who.partition("-")[0] for _, who in lines]


def counter(bench):
    """Two processes of each side count together, 200 times each, one of each waiting and one asking again and again."""
    path, name = os.path.join(bench.folder, f"{bench.row.word}.counter"), bench.name("counter")
    open(path, "w").close()
    workers = [bench.adapter(side, number) for side in ("ours", "theirs") for number in range(1, WORKERS + 1)]
    begun = time.monotonic()
    for worker, how in zip(workers, ["waits", "tries"] * 2):
        worker.tell("loop", name, CYCLES, path, worker.name, how)
    ended = [worker.hear(LOOP_SECONDS) for worker in workers]
    numbers, sides = counted(path)
    total = CYCLES * len(workers)
    lost = total - max(numbers, default=0)
    bench.figures["counted"] = f"{max(numbers, default=0)} of {total}"
    bench.figures["changes"] = sum(one != two for one, two in zip(sides, sides[1:]))
    bench.figures["seconds"] = time.monotonic() - begun
    if lost or numbers != list(range(1, total + 1)) or set(ended) != {"done"}:
        raise Failed(f"{lost} lost updates of {total}, {len(numbers)} written; workers said {sorted(set(ended))}")
    if bench.figures["changes"] < LEAST_CHANGES:
        raise Failed(f"the sides took turns only {bench.figures['changes']} times: they did not meet")


def checks(row):
    """The checks of a row by name."""
    found = {"version": version}
    for words, check in [("hold, {} are refused", refused), ("release, {} get it", handed_over),
                         ("are killed, {} get it after the ttl", outlived), ("release late, {} keep it", late_release),
                         ("extend late, {} keep it", late_extension)]:
        for side in ("theirs", "ours"):
            who, whom = ("they", "we") if side == "theirs" else ("we", "they")
            found[f"{who} {words.format(whom)}"] = lambda bench, check=check, side=side: check(bench, side)
    if row.nodes >= 3:
        for side, who in (("theirs", "they"), ("ours", "we")):
            found[f"{who} hold with a node's memory lost"] = lambda bench, side=side: minority_lost(bench, side)
    found["both count"] = counter
    return found


def run(row, stage, folder):
    """Runs the row's checks; returns what went wrong by check, and the figures."""
    wrong, bench = {}, Bench(row, stage, folder)
    try:
        for name, check in checks(row).items():
            try:
                check(bench)
            except (Failed, AdapterError, OSError, ValueError) as error:
                wrong[name] = str(error) or type(error).__name__
                bench.forget()
    finally:
        bench.close()
    return wrong, bench.figures
