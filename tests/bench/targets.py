"""The targets that peers can be compared on: what is asked, and what was reached. `best` is the fastest peer of a language."""

from statistics import median

from table import BARE, BEHIND, BESIDE, COUNTED, CROWDS, DIRECT, MANY, ONE, OWN, PEERS, PROCESSES, READ, SERVERS, SHAPES, shapes

OURS = {peer.name for peer in PEERS if peer.ours}
LANGUAGES = {"rust:quorlock": "Rust, caller's runtime", "rust:quorlock-thread": "Rust, internal thread", "c:quorlock": "C",
             "py:quorlock": "Python blocking", "aio:quorlock": "Python asyncio", "js:quorlock": "Node"}
FAULTS = ("killed", "hung", "slow", "two hung")
# In one process, and in several of different languages.
SINGLE, MIXED = ("rust:quorlock", "py:quorlock", "aio:quorlock", "js:quorlock"), "mixed:quorlock"
# A peer is fair that serves nobody less than half as often as another.
FAIR_SHARE = 0.5

# Target, workload, nodes, what of ours, whose, which figure, at most or at least, the bound. First plain, then on defaults. Where our wire's floor
# itself misses what was asked first, which stands behind the row, 1 / 0.85 of the floor is asked.
RATIOS = [
    ("T1", "W1", 1, "rust:quorlock+plain", "rust:raw", "p50_us", "≤", 1.35),
    ("T1", "W1", 1, "rust:quorlock+plain", "rust:rslock", "p50_us", "≤", 0.95),
    ("T1", "W1", 1, "rust:quorlock-thread+plain", "rust:raw", "p50_us", "≤", 1.9),
    ("T2", "W1", 5, "rust:quorlock+plain", "rust:raw", "p50_us", "≤", 1.2),
    ("T2", "W1", 5, "rust:quorlock+plain", "rust:rslock", "p50_us", "≤", 1.0),  # 0.85
    ("T2", "W1", 5, "rust:quorlock+plain", "rust:rslock", "cpu_us", "≤", 0.94),  # 0.65
    ("T2", "W1", 5, "rust:quorlock-thread+plain", "rust:rslock", "p50_us", "≤", 1.0),
    ("T3", "W1", 1, "c:quorlock+plain", "py:redis-py", "p50_us", "≤", 0.47),  # 0.3
    ("T3", "W1", 1, "py:quorlock+plain", "py:redis-py", "p50_us", "≤", 0.47),  # 0.3
    ("T4", "W1", 5, "py:quorlock+plain", "py:redlock-py", "p50_us", "≤", 0.53),  # 0.37
    ("T5", "W1", 1, "aio:quorlock+plain", "aio:aioredlock", "p50_us", "≤", 0.45),  # 0.36
    ("T5", "W1", 5, "aio:quorlock+plain", "aio:aioredlock", "p50_us", "≤", 0.34),
    ("T6", "W1", 1, "js:quorlock+plain", "js:redlock5", "p50_us", "≤", 1.25),
    ("T6", "W1", 5, "js:quorlock+plain", "js:redlock5", "p50_us", "≤", 0.8),
    ("T7", "W2", 1, "rust:quorlock+plain", "rust:rslock", "cycles_per_s", "≥", 1.4),
    ("T7", "W2", 5, "rust:quorlock+plain", "rust:rslock", "cycles_per_s", "≥", 2.1),
    ("T7", "W2", 1, "rust:quorlock-thread+plain", "rust:rslock", "cycles_per_s", "≥", 1.4),
    ("T7", "W2", 5, "rust:quorlock-thread+plain", "rust:rslock", "cycles_per_s", "≥", 2.1),
    ("T8", "W2", 1, "py:quorlock+plain", "best", "cycles_per_s", "≥", 8),
    ("T8", "W2", 5, "py:quorlock+plain", "best", "cycles_per_s", "≥", 25),
    ("T9", "W2", 1, "aio:quorlock+plain", "best", "cycles_per_s", "≥", 7),
    ("T9", "W2", 5, "aio:quorlock+plain", "best", "cycles_per_s", "≥", 11),
    ("T10", "W2", 1, "js:quorlock+plain", "best", "cycles_per_s", "≥", 1.0),
    ("T10", "W2", 5, "js:quorlock+plain", "best", "cycles_per_s", "≥", 2.5),
    ("T1 default", "W1", 1, "rust:quorlock", "rust:quorlock+plain", "p50_us", "≤", 1.35),
    ("T1 default", "W1", 1, "rust:quorlock-thread", "rust:quorlock-thread+plain", "p50_us", "≤", 1.35),
    ("T2 default", "W1", 5, "rust:quorlock", "rust:rslock", "p50_us", "≤", 1.1),
    ("T2 default", "W1", 5, "rust:quorlock-thread", "rust:rslock", "p50_us", "≤", 1.1),
    ("T3 default", "W1", 1, "c:quorlock", "py:redis-py", "p50_us", "≤", 0.5),  # 0.4
    ("T3 default", "W1", 1, "py:quorlock", "py:redis-py", "p50_us", "≤", 0.5),  # 0.4
    ("T4 default", "W1", 5, "py:quorlock", "py:redlock-py", "p50_us", "≤", 0.59),  # 0.45
    ("T5 default", "W1", 1, "aio:quorlock", "aio:aioredlock", "p50_us", "≤", 0.45),
    ("T5 default", "W1", 5, "aio:quorlock", "aio:aioredlock", "p50_us", "≤", 0.42),
    ("T6 default", "W1", 1, "js:quorlock", "js:redlock5", "p50_us", "≤", 1.4),
    ("T6 default", "W1", 5, "js:quorlock", "js:redlock5", "p50_us", "≤", 0.95),
    ("T7 default", "W2", 1, "rust:quorlock", "rust:rslock", "cycles_per_s", "≥", 1.0),
    ("T7 default", "W2", 5, "rust:quorlock", "rust:rslock", "cycles_per_s", "≥", 1.5),
    ("T7 default", "W2", 1, "rust:quorlock-thread", "rust:rslock", "cycles_per_s", "≥", 1.0),
    ("T7 default", "W2", 5, "rust:quorlock-thread", "rust:rslock", "cycles_per_s", "≥", 1.5),
    ("T8 default", "W2", 1, "py:quorlock", "best", "cycles_per_s", "≥", 6),
    ("T8 default", "W2", 5, "py:quorlock", "best", "cycles_per_s", "≥", 20),
    ("T9 default", "W2", 1, "aio:quorlock", "best", "cycles_per_s", "≥", 5),
    ("T9 default", "W2", 5, "aio:quorlock", "best", "cycles_per_s", "≥", 9),
    ("T10 default", "W2", 1, "js:quorlock", "best", "cycles_per_s", "≥", 0.8),
    ("T10 default", "W2", 5, "js:quorlock", "best", "cycles_per_s", "≥", 2.0),
    ("T18", "W2", 1, "rust:quorlock", "rust:raw", "server_us", "≤", 2.0),
    # No target, but what the parts cost.
    ("cost of plain", "W2", 1, "rust:quorlock+plain", "rust:raw", "server_us", "≤", float("inf")),
    ("cost of fences", "W2", 1, "rust:quorlock+fence", "rust:quorlock+plain", "server_us", "≤", float("inf")),
    ("cost of the guard", "W2", 1, "rust:quorlock+guard", "rust:quorlock+plain", "server_us", "≤", float("inf")),
    ("cost of fences", "W2", 5, "rust:quorlock+fence", "rust:quorlock+plain", "server_us", "≤", float("inf")),
    ("cost of the guard", "W2", 5, "rust:quorlock+guard", "rust:quorlock+plain", "server_us", "≤", float("inf")),
    ("cost of both", "W2", 5, "rust:quorlock", "rust:quorlock+plain", "server_us", "≤", float("inf")),
    ("cost of fences", "W1", 5, "rust:quorlock+fence", "rust:quorlock+plain", "p50_us", "≤", float("inf")),
    ("cost of the guard", "W1", 5, "rust:quorlock+guard", "rust:quorlock+plain", "p50_us", "≤", float("inf")),
    ("cost of both", "W1", 5, "rust:quorlock", "rust:quorlock+plain", "p50_us", "≤", float("inf")),
]
WORDS = {"p50_us": "p50", "cpu_us": "client CPU", "cycles_per_s": "cycles/s", "server_us": "server CPU a cycle"}
CONTENDED = {"handoffs_per_s": "hand-offs/s", "gap_p50_us": "p50 of the gap in µs", "scripts_per_handoff": "scripts a hand-off",
             "share": "min/max", "longest_ms": "longest wait in ms", "longest_last_ms": "longest wait of the one beside in ms",
             "without": "contenders without a hold"}
# The longest is that of all repetitions.
WORST = ("longest_ms", "longest_last_ms", "without")


class Figures:
    """The runs of all workloads, by peer; on the server of the PATH, unless another is named."""

    def __init__(self, runs, versions=None):
        self.runs = runs
        # Of each server that was there, its own word for itself: `Redis 7.0.15`.
        self.versions = versions or {}

    def server(self, name):
        """A server's name for readers."""
        return ".".join(self.versions.get(name, SERVERS[name]).split(".")[:2])

    def of(self, workload, nodes, peer, state="up", server=OWN):
        found = [run for run in self.runs if (run["workload"], run["nodes"], run["peer"], run["state"], run["server"])
                 == (workload, nodes, peer, state, server)]
        return sorted(found, key=lambda run: run["repetition"])

    def values(self, workload, nodes, peer, field, state="up", server=OWN):
        """The figure by repetition, of the runs that have one."""
        return {run["repetition"]: run[field] for run in self.of(workload, nodes, peer, state, server)
                if run.get(field) is not None}

    def median(self, workload, nodes, peer, field, state="up", server=OWN):
        values = self.values(workload, nodes, peer, field, state, server)
        return median(values.values()) if values else None

    def ratios(self, workload, nodes, ours, theirs, field, state="up", server=OWN):
        """Ours to theirs in each repetition, in which they took turns."""
        ours, theirs = (self.values(workload, nodes, peer, field, state, server) for peer in (ours, theirs))
        return [ours[number] / theirs[number] for number in ours if theirs.get(number)]

    def best(self, workload, nodes, language, tuned):
        """The fastest peer of a language; with `tuned` those with their best settings are among them."""
        peers = [peer.name for peer in PEERS if peer.language == language and not peer.ours and not peer.raw and not peer.before
                 and (tuned or not peer.tuned)]
        speeds = {peer: self.median(workload, nodes, peer, "cycles_per_s") or 0 for peer in peers}
        name = max(speeds, key=speeds.get)
        return name if speeds[name] else None

    def best_fair(self, nodes, state, tuned):
        """The peer with most hand-offs, of those that are fair if there are any."""
        peers = [peer.name for peer in PEERS if not peer.ours and not peer.before and (tuned or not peer.tuned)
                 and state in peer.shapes]
        speeds = {peer: self.median("W3", nodes, peer, "handoffs_per_s", state) or 0 for peer in peers}
        fair = [peer for peer in peers if (self.median("W3", nodes, peer, "share", state) or 0) >= FAIR_SHARE]
        name = max(fair or peers, key=speeds.get)
        return name if speeds[name] else None


class Line:
    """One target, or a part of one."""

    def __init__(self, name, asked, value, sign, bound, note=""):
        self.name, self.asked, self.value, self.sign, self.bound, self.note = name, asked, value, sign, bound, note

    def reached(self):
        return self.value <= self.bound if self.sign == "≤" else self.value >= self.bound

    def by(self):
        """How far off, as a part of the bound; 0 if it is reached, 1 where the bound is none at all."""
        if self.value is None or self.reached():
            return 0
        return abs(self.value / self.bound - 1) if self.bound else 1

    def verdict(self):
        if self.value is None:
            return "not measured"
        if self.reached():
            return "reached" if self.bound != float("inf") else ""
        return f"**missed** by {self.by() * 100:.1f} %" if self.bound else "**missed**"


def ratio_lines(figures):
    for name, workload, nodes, ours, theirs, field, sign, bound in RATIOS:
        kinds = ((False, theirs),) if theirs != "best" else ((False, ""), (True, ""))
        for tuned, peer in kinds:
            peer = peer or figures.best(workload, nodes, ours.partition(":")[0], tuned)
            found = figures.ratios(workload, nodes, ours, peer, field) if peer else []
            note = f"{min(found):.2f} to {max(found):.2f}" if found else ""
            # What a client is measured at that does nothing but write and read, what peers do and what we do, and behind an
            # event loop's hops: nobody can be better.
            wire = ":raw-native" + ("+plain" if ours.endswith("+plain") else "")
            language = ours.partition(":")[0]
            for raw, word in (("rust:raw", "raw"), ("rust" + wire, "our wire"), (language + wire, "behind the hops")):
                if word == "behind the hops" and language not in ("aio", "js"):
                    continue
                least = figures.ratios(workload, nodes, raw, peer, field) if peer and ":quorlock" not in peer else []
                if least and peer != raw:
                    note += f"; {word} {median(least):.2f}"
            title = name
            if theirs == "best" and tuned:
                title += ", peers at their best settings"
            asked = f"{workload}, {nodes} node{'s' * (nodes > 1)}: {WORDS[field]} of `{ours}` to `{peer or 'the best peer'}`"
            yield Line(title, asked, median(found) if found else None, sign, bound, note)


def redsync_lines(figures):
    """redsync is Go's, which ours has no binding for: it stands beside our Rust and C, its better settings of each cell."""
    def better(workload, nodes, field, sign, state="up"):
        speeds = {peer: figures.median(workload, nodes, peer, field, state) for peer in ("go:redsync", "go:redsync+fast")}
        measured = [peer for peer in speeds if speeds[peer]]
        best = min if sign == "≤" else max
        return best(measured, key=speeds.get, default="go:redsync")

    for workload, field, sign in (("W1", "p50_us", "≤"), ("W2", "cycles_per_s", "≥")):
        for nodes in (1, 5):
            peer = better(workload, nodes, field, sign)
            for ours in ("rust:quorlock+plain", "rust:quorlock", "c:quorlock+plain", "c:quorlock"):
                found = figures.ratios(workload, nodes, ours, peer, field)
                note = f"{min(found):.2f} to {max(found):.2f}" if found else ""
                asked = f"{workload}, {nodes} node{'s' * (nodes > 1)}: {WORDS[field]} of `{ours}` to `{peer}`"
                yield Line("redsync", asked, median(found) if found else None, sign, 1.0, note)
    for nodes in (1, 5):
        for state in shapes(ONE, PROCESSES):
            for field, sign in (("handoffs_per_s", "≥"), ("share", "≥"), ("longest_ms", "≤")):
                yield contended(figures, "redsync", nodes, "rust:quorlock", state, field, sign, 1.0,
                                better("W3", nodes, field, sign, state))


def sentinel_lines(figures):
    """What the sentinels cost, and what the replicas do, which are the server's."""
    ours, field = "rust:quorlock+both", "p50_us"
    for name, state, to, bound in (("Sentinel", BEHIND, DIRECT, 1.1), ("cost of replicas", DIRECT, BARE, float("inf")),
                                   ("cost of both", BEHIND, BARE, float("inf"))):
        mine, its = (figures.values("sentinel", 1, ours, field, which) for which in (state, to))
        found = [mine[number] / its[number] for number in mine if its.get(number)]
        note = f"{min(found):.2f} to {max(found):.2f}" if found else ""
        yield Line(name, f"one at a time, {state}: p50 of `{ours}` to {to}", median(found) if found else None, "≤", bound, note)


def slowdown(figures, peer, field, state):
    up, down = (figures.values("W4", 5, peer, field, which) for which in ("up", state))
    return [down[number] / up[number] for number in down if up.get(number)]


def fault_lines(figures):
    """T16: each repetition to the same one with all nodes up. The slowest of a hundred beside a slow node: 1.2 was asked, and the wire takes 1.64."""
    for ours in LANGUAGES:
        for state in FAULTS:
            for field, name, bound in (("p50_us", "p50", 1.2), ("p99_us", "p99", 1.9 if state == "slow" else 1.2)):
                found = slowdown(figures, ours, field, state)
                note = f"{min(found):.2f} to {max(found):.2f}" if found else ""
                # What the stage itself does to a client that only writes and reads.
                if least := slowdown(figures, "rust:raw-native", field, state):
                    note += f"; our wire {median(least):.2f} ({min(least):.2f} to {max(least):.2f})"
                yield Line("T16", f"W4 {state}: {name} of `{ours}` to all up", median(found) if found else None, "≤", bound, note)
            runs = figures.of("W4", 5, ours, state)
            cycles = sum(run.get("cycles", 0) for run in runs)
            failures = sum(run.get("failures", 0) for run in runs)
            success = None if not runs else (cycles - failures) / cycles if cycles else 0
            if any("stuck" in run for run in runs):
                success = 0
            yield Line("T16", f"W4 {state}: success of `{ours}`", success, "≥", 1.0, f"{failures} of {cycles} failed")


def contended(figures, name, nodes, ours, state, field, sign, bound, theirs=None, workload="W3"):
    """A line of a contended workload: a figure of ours, or with `theirs` its ratio to a peer's."""
    what = f"{workload}, {nodes} node{'s' * (nodes > 1)}, {state}: {CONTENDED[field]} of `{ours}`"
    if theirs:
        what += f" to `{theirs}`"
        found = figures.ratios(workload, nodes, ours, theirs, field, state)
    else:
        found = list(figures.values(workload, nodes, ours, field, state).values())
    note = f"{min(found):.2f} to {max(found):.2f}" if found else ""
    total = max if field in WORST else median
    return Line(name, what, total(found) if found else None, sign, bound, note)


def contended_lines(figures):
    """T11 to T15."""
    for name, nodes, scripts in (("T11", 1, 0.5), ("T12", 5, 2)):
        for state in shapes(ONE, MANY):
            for ours in SINGLE:
                yield contended(figures, name, nodes, ours, state, "scripts_per_handoff", "≤", scripts)
                yield contended(figures, name, nodes, ours, state, "share", "≥", 0.9)
    # With a stay it is the stay that bounds hand-offs.
    for who in (ONE, MANY):
        state = f"{who}, 0 ms"
        for ours, bound in (("rust:quorlock", 20), ("py:quorlock", 5), ("aio:quorlock", 5)):
            yield contended(figures, "T11", 1, ours, state, "handoffs_per_s", "≥", bound, "py:python-redis-lock")
        yield contended(figures, "T11", 1, "rust:quorlock", state, "gap_p50_us", "≤", 20)
        for ours in SINGLE:
            for tuned, title in ((False, "T12"), (True, "T12, peers at their best settings")):
                best = figures.best_fair(5, state, tuned) or "the best fair peer"
                yield contended(figures, title, 5, ours, state, "handoffs_per_s", "≥", 20, best)
    for state in shapes(BESIDE):
        for ours in ("rust:quorlock", "py:quorlock"):
            yield contended(figures, "T11", 1, ours, state, "longest_last_ms", "≤", longest_allowed(state))
    for state in shapes(PROCESSES):
        for ours in SINGLE:
            yield contended(figures, "T13", 1, ours, state, "gap_p50_us", "≤", 2, "rust:raw-queue")
        for ours in (*SINGLE, MIXED):
            least = 0.6 if ours == MIXED else 0.9
            yield contended(figures, "T13", 1, ours, state, "gap_p50_us", "≤", 0.5, "py:python-redis-lock")
            yield contended(figures, "T13", 1, ours, state, "scripts_per_handoff", "≤", 4)
            yield contended(figures, "T13", 1, ours, state, "share", "≥", least)
            yield contended(figures, "T14", 5, ours, state, "scripts_per_handoff", "≤", 12)
            yield contended(figures, "T14", 5, ours, state, "share", "≥", least)
            yield contended(figures, "T14", 5, ours, state, "without", "≤", 0)
            if not SHAPES[state].stay_ms:
                yield contended(figures, "T14", 5, ours, state, "handoffs_per_s", "≥", 10, "js:redis-semaphore")
    for nodes in (1, 5):
        for peer in PEERS:
            for state in peer.shapes if peer.ours else ():
                if state in SHAPES and SHAPES[state].stay_ms:
                    yield contended(figures, "T15", nodes, peer.name, state, "longest_ms", "≤", longest_allowed(state))


def crowd_lines(figures):
    """Readers and a writer, and semaphores: with a stay it is the stay that bounds hand-offs."""
    for workload, states in (("W6", READ), ("W7", COUNTED)):
        for nodes in (1, 5):
            for state in states:
                for ours in ("rust:quorlock", "js:quorlock"):
                    peers = [peer.name for peer in PEERS if state in peer.shapes and nodes in peer.nodes and not peer.ours]
                    if peers and not CROWDS[state].stay_ms:
                        best = max(peers, key=lambda peer: figures.median(workload, nodes, peer, "handoffs_per_s", state) or 0)
                        yield contended(figures, workload, nodes, ours, state, "handoffs_per_s", "≥", 3, best, workload)
                    yield contended(figures, workload, nodes, ours, state, "scripts_per_handoff", "≤", 2 * nodes + 1, None, workload)


def longest_allowed(state):
    """Twice what a fair lock without any gap would need for one turn of all, in ms."""
    return 2 * sum(SHAPES[state].processes) * SHAPES[state].stay_ms


def hold_lines(figures):
    for ours, language in LANGUAGES.items():
        runs = [run for run in figures.of("W5", 1, ours) if "locks" in run]
        if not runs:
            continue
        middle = {field: median(run[field] for run in runs) for field in ("cpu_percent", "rss_kib", "rss_before_kib", "lost")}
        cpu = 2 if ours.startswith(("rust", "c:")) else 4
        yield Line("T17", f"W5 {language}: CPU %", middle["cpu_percent"], "≤", cpu)
        yield Line("T17", f"W5 {language}: MB over the empty process", (middle["rss_kib"] - middle["rss_before_kib"]) / 1024,
                   "≤", 30)
        yield Line("T17", f"W5 {language}: threads more than before", max(run["threads"] - run["threads_before"] for run in runs),
                   "≤", 4)
        # A renewal of its own for each lock would be a read of its own, at least while none are due together.
        yield Line("T17", f"W5 {language}: renewals for each read of the server", median(
            run["scripts"] / max(1, run["server_reads"]) for run in runs), "≥", 2)
        yield Line("T17", f"W5 {language}: locks lost", max(max(run["lost"], run["locks"] - run["alive"]) for run in runs), "≤", 0)


def clean_lines(figures):
    ours = [run for run in figures.runs if run["peer"] in OURS]
    counted = [run for run in ours if "keys_left" in run]
    shared = [run for run in ours if run["workload"] in ("shared", "W3", "W6", "W7") and "violations" in run]
    yield Line("T19", f"keys left, summed over {len(counted)} runs of Quorlock", sum(run["keys_left"] for run in counted)
               if counted else None, "≤", 0)
    yield Line("T19", f"violations in {sum(run.get('cycles') or run.get('holds', 0) for run in shared)} contended holds",
               sum(run["violations"] for run in shared) if shared else None, "≤", 0)
    odd = [run for run in ours if "stuck" in run or "error" in run or run.get("failures") or run.get("late")]
    yield Line("T19", f"runs of Quorlock, of {len(ours)}, that got stuck or had a failure", len(odd) if ours else None, "≤", 0)


def lines(figures):
    return [*ratio_lines(figures), *contended_lines(figures), *crowd_lines(figures), *fault_lines(figures), *hold_lines(figures),
            *redsync_lines(figures), *sentinel_lines(figures), *clean_lines(figures)]
