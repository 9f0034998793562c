"""docs/explanation/results.md, the page for a reader: the template page.md with tables and plots made from the runs that are kept."""

import pathlib
import re
from statistics import median

import plot
from plot import Bar, Column, Plot
from table import OVER_TLS, OWN, PEERS, PROCESSES, ROUND_TRIPS, SERVERS, WORKLOADS
from targets import FAULTS, LANGUAGES, slowdown

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = HERE / "page.md"
DOCS = HERE.parents[1] / "docs"
STATES = {"killed": "one killed", "hung": "one hung", "slow": "one slow by 200 ms", "two hung": "two hung"}

# Of a network that a plot shows.
SHOWN_TRIP = "round trips of 10 ms"

# Of each language what stands in the plots: label, kind, peer.
SPEED = (
    ("Rust", (("Quorlock, plain", "ours", "rust:quorlock+plain"), ("Quorlock, defaults", "ours", "rust:quorlock"),
              ("rslock", "other", "rust:rslock"), ("by hand", "floor", "rust:raw"))),
    ("C", (("Quorlock, defaults", "ours", "c:quorlock"),)),
    ("Python", (("Quorlock, defaults", "ours", "py:quorlock"), ("redis-py", "other", "py:redis-py"),
                ("redlock-py", "other", "py:redlock-py"), ("pottery", "other", "py:pottery"))),
    ("asyncio", (("Quorlock, defaults", "ours", "aio:quorlock"), ("redis-py", "other", "aio:redis-py"),
                 ("aioredlock", "other", "aio:aioredlock"))),
    ("Node", (("Quorlock, defaults", "ours", "js:quorlock"), ("redlock 5", "other", "js:redlock5"),
              ("redis-semaphore", "other", "js:redis-semaphore"), ("redis-semaphore, best", "other", "js:redis-semaphore+fast"))),
)
FAULTED = (
    ("Rust", (("Quorlock", "ours", "rust:quorlock"), ("rslock", "other", "rust:rslock"))),
    ("Python", (("Quorlock", "ours", "py:quorlock"), ("redlock-py", "other", "py:redlock-py"),
                ("redlock-py, best", "other", "py:redlock-py+safe"), ("pottery, best", "other", "py:pottery+safe"))),
    ("asyncio", (("Quorlock", "ours", "aio:quorlock"), ("aioredlock", "other", "aio:aioredlock"))),
    ("Node", (("Quorlock", "ours", "js:quorlock"), ("redlock 5", "other", "js:redlock5"),
              ("redis-semaphore, best", "other", "js:redis-semaphore+safe"))),
)
FAIR = (
    ("Rust", (("Quorlock", "ours", "rust:quorlock"), ("rslock", "other", "rust:rslock"))),
    ("Python", (("Quorlock", "ours", "py:quorlock"), ("redis-py", "other", "py:redis-py"),
                ("python-redis-lock", "other", "py:python-redis-lock"), ("pottery", "other", "py:pottery"))),
    ("asyncio", (("Quorlock", "ours", "aio:quorlock"),)),
    ("Node", (("Quorlock", "ours", "js:quorlock"), ("redlock 5", "other", "js:redlock5"),
              ("redis-semaphore", "other", "js:redis-semaphore"))),
)


def bars(groups, value, *columns):
    """Groups of bars, without the peers that have no figure in any column."""
    found = []
    for heading, peers in groups:
        rows = [Bar(label, kind, tuple(value(peer, column) for column in columns)) for label, kind, peer in peers]
        rows = [row for row in rows if any(figure is not None for figure in row.values)]
        if rows:
            found.append((heading, tuple(rows)))
    return tuple(found)


def plots(figures):
    def at(workload, field):
        return lambda peer, nodes: figures.median(workload, nodes, peer, field)

    def away(peer, nodes):
        return figures.median("W8", nodes, peer, "p50_ms", SHOWN_TRIP)

    yield Plot("network", "One cycle where a round trip takes 10 ms: shorter is better",
               "Time of an acquire and a release by language and library, on one, three and five nodes that are 10 ms away.",
               tuple(Column(word, "{:.1f} ms") for word in ("one node", "three nodes", "five nodes")), bars(SPEED, away, 1, 3, 5))
    nodes = ("one node", "five nodes")
    yield Plot("latency", "One cycle, one at a time: shorter is better",
               "Time of an acquire and a release by language and library, on one node and on five.",
               tuple(Column(word, "{:.0f} µs") for word in nodes), bars(SPEED, at("W1", "p50_us"), 1, 5))
    yield Plot("throughput", "Cycles in a second, 64 in flight: longer is better",
               "How many locks are acquired and released in a second by language and library, on one node and on five.",
               tuple(Column(word, "{:,.0f}") for word in nodes), bars(SPEED, at("W2", "cycles_per_s"), 1, 5))
    costs = (("", (("Quorlock, plain", "ours", "rust:quorlock+plain"), ("Quorlock, defaults", "ours", "rust:quorlock"),
                   ("the same, other names", "ours", "rust:quorlock+cold"), ("rslock", "other", "rust:rslock"),
                   ("by hand", "floor", "rust:raw"))),)

    def spent(peer, server):
        return figures.median("W2", 1, peer, "server_us", server=server)

    spending = bars(costs, spent, *SERVERS)
    most = max((value for _, rows in spending for row in rows for value in row.values if value is not None), default=0)
    yield Plot("server", "The server's CPU time for one cycle, 64 in flight, one node: shorter is better",
               "CPU time of the server by library and by kind of server.",
               tuple(Column(figures.server(server), "{:.1f} µs", whole=most) for server in SERVERS), spending)

    def late(peer, state):
        runs = [run for run in figures.of("W4", 5, peer, state) if run.get("success")]
        return median(run["p99_ms"] for run in runs) if runs else None

    states = ("up", "killed", "hung", "slow")
    headings = ("all up", *(STATES[state] for state in states[1:]))
    yield Plot("faults", "The slowest of a hundred cycles, five nodes: further left is better",
               "With all nodes up, and with one of them killed, hung or slow, on a scale of powers of ten.",
               tuple(Column(heading, "{:,.0f} ms", small="{:.1f} ms") for heading in headings), bars(FAULTED, late, *states), log=True)

    def turns(peer, column):
        nodes, field = column
        return figures.median("W3", nodes, peer, field, f"{PROCESSES}, 5 ms")

    yield Plot("fairness", "Eight processes, one lock, holds of 5 ms",
               "The holds of the process that had fewest to those of the one that had most, and the longest wait of any, on one node and on "
               "five.",
               tuple(column for word in ("1 node", "5 nodes") for column in (
                   Column(f"{word}: fewest to most", "{:.2f}", whole=1), Column(f"{word}: longest wait", "{:,.0f} ms"))),
               bars(FAIR, turns, (1, "share"), (1, "longest_ms"), (5, "share"), (5, "longest_ms")))


def table(head, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def number(value, form="{:.2f}"):
    return "–" if value is None else form.format(value)


def short(figures):
    """What is asked first. Rows that were not measured are left out."""
    found = []

    def compare(what, whom, ratios):
        if ratios:
            found.append([what, whom, f"{median(ratios):.2f}"])

    for nodes, language, ours, whom, theirs in ((1, "Python", "py:quorlock", "redis-py's `Lock`", "py:redis-py"),
                                                (5, "Python", "py:quorlock", "redlock-py", "py:redlock-py"),
                                                (5, "asyncio", "aio:quorlock", "aioredlock", "aio:aioredlock"),
                                                (1, "Node", "js:quorlock", "redlock 5", "js:redlock5"),
                                                (5, "Node", "js:quorlock", "redlock 5", "js:redlock5"),
                                                (5, "Rust", "rust:quorlock", "rslock", "rust:rslock")):
        compare(f"time of a cycle, {language}, {'one node' if nodes == 1 else 'five nodes'}", whom,
                figures.ratios("W1", nodes, ours, theirs, "p50_us"))
    for server in SERVERS:
        compare(f"the server's CPU for a cycle, {figures.server(server)}", "`SET` and a script, by hand",
                figures.ratios("W2", 1, "rust:quorlock", "rust:raw", "server_us", server=server))
    for state in ("killed", "hung"):
        compare(f"time of a cycle, Rust, five nodes, {STATES[state]}", "all five up", slowdown(figures, "rust:quorlock", "p50_us", state))
    compare("turns of the one that got fewest, of eight processes at one lock", "the one that got most",
            list(figures.values("W3", 5, "rust:quorlock", "share", f"{PROCESSES}, 5 ms").values()))
    return table(["In short: Quorlock on its defaults", "compared with", "ratio"], found)


# Why another library is faster where one is: by workload, language and nodes. From the CPU of client and servers in RESULTS.md, whose figures
# these are: look again where a row changes.
WHY = {
    ("W1", "Rust", 1): "The client's bookkeeping takes 1.3 µs more, and the server 1.5 µs: it counts a fence and tells its time. On Redis 8 and Valkey 9, which "
                       "delete by value without a script, both are as fast.",
    ("W1", "Rust", 5): "The client is as fast; the five servers, which share its core here, take 6 µs more each: they count a fence, tell their time and show the "
                       "record of the guard. Without both it is 173 µs. On Redis 8 and Valkey 9 Quorlock is faster.",
    ("W1", "Node", 1): "7 µs are the client's, which crosses between JavaScript and native code six times; 4 µs are the server's, for the fence. A client of the "
                       "same bytes that decides nothing takes 51 µs behind that way.",
    ("W1", "Node", 5): "8 µs are the client's. 55 µs are the five servers': they carry out 35 commands beside 20, and take 161 µs for what they do in 109 for a "
                       "native client of the same bytes: the same functions, each slower. Cold caches would do that, since V8, client and five servers share a core here; it was not proven.",
}


def behind(figures):
    """The cells in which a library of the same language is faster, defaults against defaults, and why."""
    rows = []
    for workload, word, field, form, worse in (("W1", "one at a time", "p50_us", "{:.0f} µs", 1), ("W2", "64 in flight", "cycles_per_s", "{:,.0f}/s", -1)):
        for language, peers in SPEED:
            ours = next(peer for label, _, peer in peers if label == "Quorlock, defaults")
            rivals = [peer.name for peer in PEERS if peer.language == ours.partition(":")[0] and not (peer.ours or peer.raw or peer.before or peer.tuned)]
            for nodes in (1, 5):
                mine = figures.median(workload, nodes, ours, field)
                theirs = [(figures.median(workload, nodes, peer, field), peer) for peer in rivals]
                faster = sorted((value * worse, peer) for value, peer in theirs if mine and value and value * worse < mine * worse)
                if faster:
                    best = faster[0][1]
                    ratio = median(figures.ratios(workload, nodes, ours, best, field))
                    cell = f"{language}, {word}, {'one node' if nodes == 1 else 'five nodes'}"
                    rows.append([cell, form.format(mine), f"{form.format(faster[0][0] * worse)} ({best.partition(':')[2]})", f"{ratio:.2f}",
                                 WHY.get((workload, language, nodes), "not looked into yet")])
    return table(["Where another is faster", "Quorlock, defaults", "the other", "ratio", "why"], rows) if rows else "In no cell is another faster."


def trips(figures):
    """How many round trips a cycle takes, at each length of these."""
    states = [state for state in ROUND_TRIPS if state != OVER_TLS]
    rows = []
    for language, peers in SPEED:
        for label, kind, peer in peers:
            cells = []
            for state in states:
                found = [figures.median("W8", nodes, peer, "round_trips", state) for nodes in (1, 3, 5)]
                cells.append(" / ".join(map(number, found)))
            if kind != "floor" and any(re.search(r"\d", cell) for cell in cells):
                rows.append([f"{label} ({language})", *cells])
    return table(["Round trips in a cycle; one / three / five nodes", *(state.removeprefix("round trips of ") for state in states)], rows)


def held(figures):
    rows = []
    for peer, language in LANGUAGES.items():
        middle = {field: figures.median("W5", 1, peer, field) for field in ("megabytes", "cpu_percent", "server_percent", "threads")}
        if middle["cpu_percent"] is not None:
            rows.append([language, number(middle["megabytes"], "{:.0f} MB"), number(middle["cpu_percent"], "{:.1f} %"),
                         number(middle["server_percent"], "{:.1f} %"), number(middle["threads"], "{:.0f}")])
    return table(["10,000 leases held by", "memory, beyond the empty process", "CPU of the client", "CPU of the server", "threads"], rows)


def faults(figures):
    rows = []
    for peer, language in LANGUAGES.items():
        cells = []
        for state in FAULTS:
            ratios = slowdown(figures, peer, "p50_us", state)
            runs = figures.of("W4", 5, peer, state)
            cycles, failed = (sum(run.get(field, 0) for run in runs) for field in ("cycles", "failures"))
            cells.append(f"{median(ratios):.2f}; {failed} of {cycles:,}" if ratios else "–")
        if any(cell != "–" for cell in cells):
            rows.append([language, *cells])
    return table(["Quorlock in", *(STATES[state] for state in FAULTS)], rows)


def handoffs(figures):
    state, rows = f"{PROCESSES}, 0 ms", []
    columns = (("handoffs_per_s", "{:,.0f}"), ("gap_p50_us", "{:,.0f} µs"), ("server_us_per_handoff", "{:,.0f} µs"))
    for heading, peers in FAIR:
        for label, _, peer in peers:
            if figures.median("W3", 1, peer, "handoffs_per_s", state) is None:
                continue
            cells = []
            for field, form in columns:
                # Of none at all there is nothing to tell.
                pair = [figures.median("W3", nodes, peer, field, state) if figures.median("W3", nodes, peer, "handoffs_per_s", state)
                        else None for nodes in (1, 5)]
                cells.append(" / ".join(number(value, form) for value in pair))
            rows.append([f"{label} ({heading})", *cells])
    return table(["Eight processes, one node / five nodes", "hand-offs a second", "gap (median)", "server CPU a hand-off"], rows)


def heading(workload, nodes, state, server=""):
    """Of a long table; `server` where it is not the one of the PATH."""
    return (f"{workload.name}: {workload.title}; {nodes} node{'s' * (nodes > 1)}" + (f"; {state}" if len(workload.states) > 1 else "") +
            (f"; {server}" if server else ""))


def picture(drawn):
    """For both schemes of the site, which shows the one that goes with it."""
    return "\n".join(f"![{drawn.title}. {drawn.description}](../results/{drawn.name}-{scheme}.svg#only-{scheme})" for scheme in plot.SCHEMES)


def missing(figures):
    absent = [figures.server(server) for server in SERVERS if not any(run["server"] == server for run in figures.runs)]
    return f"Not measured this time: {' and '.join(absent)}." if absent else ""


def text(figures, about):
    """The page, and its plots by the names of their files."""
    drawn = {one.name: one for one in plots(figures)}
    words = {"machine": about, "missing": missing(figures), "short": short(figures), "trips": trips(figures), "behind": behind(figures), "held": held(figures), "faults": faults(figures),
             "handoffs": handoffs(figures),
             "held_seconds": str(WORKLOADS["W5"].seconds), "contended_seconds": f"{WORKLOADS['W3'].seconds:.0f}"}

    def fill(found):
        kind, _, name = found[1].partition(":")
        return picture(drawn[name]) if kind == "plot" else words[kind]

    page = re.sub(r"\{\{([\w:]+)\}\}", fill, TEMPLATE.read_text())
    page = re.sub(r" +$", "", page, flags=re.MULTILINE)
    note = "<!-- Made by tests/bench/bench.py from tests/bench/page.md and the figures that it keeps; do not edit. -->\n"
    return note + page, {f"{name}-{scheme}.svg": plot.svg(one, scheme) for name, one in drawn.items() for scheme in plot.SCHEMES}


def write(figures, about, folder=DOCS):
    page, drawn = text(figures, about)
    (folder / "results").mkdir(parents=True, exist_ok=True)
    for name, content in drawn.items():
        (folder / "results" / name).write_text(content)
    (folder / "explanation").mkdir(exist_ok=True)
    (folder / "explanation" / "results.md").write_text(page)
