"""Processes of all languages, one lock, one ledger, five servers of which two fail: a third of the way one is killed, two thirds of
the way another hangs. With `--lock off` the same workers go without the lock: they must lose updates.
"""

import os
import sys
import time
from collections import Counter

from check import agreement, disorder, double_holds, repeated
from crew import LANGUAGES, Crew, Orders
from history import Live, language, read
from stage import Stage

NODES = 5
KILLED, HUNG = 2, 4
TICK_SECONDS = 0.5
# On top of the run itself: start, the last wait for the lock, close.
GRACE_SECONDS = 30.0
# Of each language one more where two processes of it are to contend, too.
WORKERS = (*(f"{of}-1" for of in LANGUAGES), "rust-2", "asyncio-2", "node-2")
LEDGER = "ledger"
# Semaphores, for porcupine, which judges each run that has these.
SEMAPHORES = {}


def arguments(parser):
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("DEMO_SECONDS") or 12))
    parser.add_argument("--lock", choices=["on", "off"], default=os.environ.get("LOCK") or "on")


def heading(asked):
    return f"{NODES} servers, {len(WORKERS)} processes in {len(LANGUAGES)} languages for {asked.seconds:g} s, lock {asked.lock}"


class Progress:
    """One line, rewritten on a terminal, and printed anew elsewhere."""

    def __init__(self):
        self._rewritten = sys.stdout.isatty()
        self._before = 0

    def show(self, seconds, history, stage):
        counts = Counter(language(hold.worker) for hold in history.holds)
        states = " ".join(f"{number}:{ {'up': 'up', 'stopped': 'hung', 'dead': 'dead'}[stage.state(number)]}"
                          for number in range(1, NODES + 1))
        line = (f"{seconds:5.1f} s  {counts.total():6d} holds (+{counts.total() - self._before})  "
                + "  ".join(f"{of} {counts[of]}" for of in LANGUAGES) + f"  nodes {states}")
        self._before = counts.total()
        print(f"\r{line}\033[K" if self._rewritten else line, end="" if self._rewritten else "\n", flush=True)

    def say(self, line):
        print(("\n" if self._rewritten else "") + line, flush=True)


def disturb(stage, crew, history, seconds):
    """Follows the workers until they have ended, and lets two nodes fail on the way."""
    progress, live, begun = Progress(), Live(history.path), time.monotonic()
    faults = [(seconds / 3, stage.kill, "killed", KILLED), (seconds * 2 / 3, stage.stop, "hung", HUNG)]
    while crew.running() and time.monotonic() < begun + seconds + GRACE_SECONDS:
        passed = time.monotonic() - begun
        while faults and passed >= faults[0][0]:
            _, fail, kind, node = faults.pop(0)
            fail(node)
            history.write("begin", node, kind, time.monotonic_ns(), node)
            progress.say(f"{passed:5.1f} s  node {node} is {kind}")
        progress.show(passed, live.look(), stage)
        time.sleep(TICK_SECONDS)
    progress.say("")
    live.close()
    crew.join(0)


def play(asked, history, _seed):
    workload = "lock" if asked.lock == "on" else "unlocked"
    # The options are those that a client has by itself.
    orders = Orders(nodes=NODES, work=(f"{workload}:{LEDGER}",), ttl=10_000, max_ttl=60_000, node_timeout=250, wait=10_000, hold=2, long=0, steady=1)
    end = time.monotonic_ns() + int(asked.seconds * 1e9)
    with Stage(NODES) as stage, Crew(history, lambda _: stage.urls(), orders, WORKERS, end=end, honour=False) as crew:
        disturb(stage, crew, history, asked.seconds)
    return crew.wrong


def percentile(values, part):
    """The value below which `part` percent of the values are, nearest rank; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * part // 100) - 1)] if ordered else 0


def judge(asked, path, verdict, workers=WORKERS):
    history = read(path)
    print(f"{'process':<12}{'holds':>8}{'p50 ms':>10}{'p99 ms':>10}")
    for worker in workers:
        waits = [hold.acquired - hold.invoked for hold in history.holds if hold.worker == worker]
        print(f"{worker:<12}{len(waits):>8}{percentile(waits, 50) / 1e6:>10.2f}{percentile(waits, 99) / 1e6:>10.2f}")
    holds = history.locks[LEDGER]
    lost, late = int(history.notes["lost-updates"]), int(history.notes["stale"])
    overlapping, fenced = len(double_holds(holds)), sum(bool(hold.fence) for hold in holds)
    verdict.line(not (lost or overlapping or late or disorder(holds) or repeated(holds)),
                 f"{len(holds)} holds, {lost} lost updates, {overlapping} overlaps, {late} requests with one of {fenced} fences refused"
                 + (" (LOCK=off)" if asked.lock == "off" else f", {len(disorder(holds))} fences out of order"))
    idle = [worker for worker in workers if not any(hold.worker == worker for hold in holds)]
    verdict.line(not idle, f"each process had the lock{f', but not {idle}' if idle else ''}")
    verdict.line(not history.fails, f"{len(history.fails)} waits failed {sorted({kind for *_, kind in history.fails})}")
    failed = max((fault.begin for fault in history.faults.values()), default=0)
    verdict.line(any(hold.acquired > failed for hold in holds), "the lock was had after the last fault")
    verdict.line(asked.lock == "off" or fenced == len(holds), f"{fenced} holds had a fence")
    agreement(history, path, verdict)
