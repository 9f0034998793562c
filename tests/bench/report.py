"""Figures to text: the long tables of RESULTS.md, of which only the part between the markers is made here, and docs/explanation/results.md."""

import json
import os
import pathlib
import platform
import subprocess
from statistics import median

import newer
import page
from asked import answers
from runs import measured
from table import OWN, PEERS, ROUND_TRIPS, SERVERS, WORKLOADS
from targets import Figures, lines

RESULTS = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
BEGIN, END = "<!-- made by bench.py: begin -->", "<!-- made by bench.py: end -->"
# Beside the runs: on what they were made.
ABOUT = "about.json"
EMPTY = f"# Results\n\n{BEGIN}\n{END}\n"

# Heading, field, how to write it.
CYCLES = [("cycles/s", "cycles_per_s", "{:.0f}"), ("p50 µs", "p50_us", "{:.0f}"), ("p99 µs", "p99_us", "{:.0f}"),
          ("client CPU µs", "cpu_us", "{:.1f}"), ("server CPU µs", "server_us", "{:.1f}"),
          ("executed", "executed_per_cycle", "{:.1f}"), ("server reads", "reads_per_cycle", "{:.2f}")]
HELD = [("CPU %", "cpu_percent", "{:.2f}"), ("MB over empty", "megabytes", "{:.1f}"), ("threads", "threads", "{:.0f}"),
        ("acquired in s", "acquired_s", "{:.1f}"), ("renewals/s", "scripts_per_s", "{:.0f}"), ("reads/s", "reads_per_s", "{:.0f}"),
        ("server CPU %", "server_percent", "{:.2f}"), ("lost", "lost", "{:.0f}"), ("alive", "alive", "{:.0f}")]
FAULTED = [("cycles/s", "cycles_per_s", "{:.0f}"), ("p50 ms", "p50_ms", "{:.2f}"), ("p99 ms", "p99_ms", "{:.1f}"),
           ("max ms", "max_ms", "{:.0f}"), ("success", "success", "{:.3f}")]
NETWORK = [("round trips a cycle (p50)", "round_trips", "{:.2f}"), ("p50 ms", "p50_ms", "{:.2f}"), ("p99 ms", "p99_ms", "{:.1f}"),
           ("cycles/s", "cycles_per_s", "{:.0f}"), ("client CPU µs", "cpu_us", "{:.1f}"), ("relay late by µs (p99)", "relay_late_us", "{:.0f}")]
CONTENDED = [("hand-offs/s", "handoffs_per_s", "{:.0f}"), ("holds/s", "holds_per_s", "{:.0f}"), ("gap p50 µs", "gap_p50_us", "{:.0f}"),
             ("gap p99 µs", "gap_p99_us", "{:.0f}"), ("min/max", "share", "{:.2f}"), ("longest wait ms", "longest_ms", "{:.0f}"),
             ("scripts/hand-off", "scripts_per_handoff", "{:.1f}"), ("commands/hand-off", "executed_per_handoff", "{:.1f}"),
             ("client CPU µs/hand-off", "cpu_us_per_handoff", "{:.0f}"), ("server CPU µs/hand-off", "server_us_per_handoff", "{:.0f}"),
             ("double holds", "violations", "{:.0f}"), ("failures", "failures", "{:.0f}")]
READ = [("writer holds", "writer_holds", "{:.0f}"), ("writer p50 ms", "writer_p50_ms", "{:.1f}"), ("writer p99 ms", "writer_p99_ms", "{:.1f}"),
        ("reader p99 ms", "reader_p99_ms", "{:.1f}")]
# No middle of repetitions: one is one too many.
SUMMED = ("violations", "failures")


def load(folder):
    """All runs that are kept, with the figures that follow from others, and what they were made on."""
    runs = []
    for name in WORKLOADS:
        path = folder / f"{name}.jsonl"
        if path.exists():
            runs += [derived(json.loads(line)) for line in path.read_text().splitlines()]
    if not (folder / ABOUT).exists():
        note(folder)
    about = json.loads((folder / ABOUT).read_text())
    return Figures(runs, about["servers"]), about["machine"]


def note(folder):
    """Writes what runs that begin now are made on."""
    servers = {name: newer.version(name) for name in SERVERS}
    servers = {name: version for name, version in servers.items() if version}
    (folder / ABOUT).write_text(json.dumps({"machine": machine(servers), "servers": servers}) + "\n")


def derived(run):
    run.setdefault("server", OWN)
    if run.get("cycles"):
        cycles = run["cycles"]
        run["server_us"] = run["server_cpu_ns"] / 1e3 / cycles
        run["executed_per_cycle"] = run["executed"] / cycles
        run["reads_per_cycle"] = run["server_reads"] / cycles
        run["success"] = 1 - run["failures"] / cycles
        run.update({f"{name}_ms": run[f"{name}_us"] / 1e3 for name in ("p50", "p99", "max")})
        if run["state"] in ROUND_TRIPS:
            run["round_trips"] = run["p50_ms"] / ROUND_TRIPS[run["state"]]
            run["relay_late_us"] = run["relay"]["late_p99_us"]
    elif "handoffs" in run:
        for name, total in (("scripts", run["scripts"]), ("executed", run["executed"]), ("cpu_us", run["cpu_ns"] / 1e3),
                            ("server_us", run["server_cpu_ns"] / 1e3)):
            run[f"{name}_per_handoff"] = total / run["handoffs"] if run["handoffs"] else float("inf")
    elif "locks" in run:
        seconds = run["seconds"]
        run["megabytes"] = (run["rss_kib"] - run["rss_before_kib"]) / 1024
        run["scripts_per_s"] = run["scripts"] / seconds
        run["reads_per_s"] = run["server_reads"] / seconds
        run["server_percent"] = run["server_cpu_ns"] / 1e7 / seconds
    return run


def machine(servers):
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()

    def version(*words):
        try:
            return subprocess.run(words, capture_output=True, text=True).stdout.strip().splitlines()[0]
        except (OSError, IndexError):
            return "unknown"

    commit = version("git", "-C", str(RESULTS.parent), "describe", "--always")
    # What is written into RESULTS.md is no change of what was measured.
    changed = subprocess.run(["git", "-C", RESULTS.parent, "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)tests/bench/RESULTS.md",
                              ":(top,exclude)docs/explanation/results.md", ":(top,exclude)docs/results"], capture_output=True)
    if changed.returncode:
        commit += "-dirty"
    kernel = ".".join(platform.release().split(".")[:2])
    return (f"{os.cpu_count()} cores ({model}), {platform.system()} {kernel}, {', '.join(servers.values())}, "
            f"Python {platform.python_version()}, "
            f"Node {version('node', '--version')}, Quorlock at {commit}.")


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def head(*cells):
    return [row(*cells), row(*("---" for _ in cells))]


def table(figures, workload, nodes, state, server, columns):
    found = []
    for peer in PEERS:
        runs = figures.of(workload, nodes, peer.name, state, server)
        if not runs:
            continue
        good = [run for run in runs if measured(run)]
        bad = f"{sum('stuck' in run for run in runs)} stuck" if any("stuck" in run for run in runs) else ""
        failed = sum("error" in run and not measured(run) for run in runs)
        if failed:
            bad = f"{failed} failed"
        cells = []
        for _, field, form in columns:
            values = [run[field] for run in good if field in run]
            total = sum if field in SUMMED else median
            cells.append(form.format(total(values)) if values else "–")
        keys = sum(run.get("keys_left", 0) for run in good)
        name = f"**{peer.name}**" if peer.ours else peer.name
        found.append(row(name, *cells, str(keys) if good else "–", f"{len(good)}" + (f", {bad}" if bad else "")))
    return [*head("peer", *(title for title, _, _ in columns), "keys left", "runs"), *found, ""] if found else []


def columns(workload):
    if workload.contended:
        return CONTENDED + READ * (workload.name == "W6")
    if workload.like:
        return NETWORK
    return HELD if "--hold" in workload.flags else FAULTED if workload.name == "W4" else CYCLES


def target_part(figures):
    found = lines(figures)
    reached = sum(line.value is not None and line.reached() for line in found)
    measured = sum(line.value is not None for line in found)
    yield f"{reached} of {measured} parts reached; {len(found) - measured} not measured."
    yield ""
    yield from head("target", "parts reached", "worst")
    for name in dict.fromkeys(line.name for line in found):
        own = [line for line in found if line.name == name and line.value is not None]
        worst = max(own, key=lambda line: line.by(), default=None)
        yield row(name, f"{sum(line.reached() for line in own)} of {len(own)}",
                  f"{worst.asked}: {worst.verdict()}" if worst and not worst.reached() else "–" if own else "not measured")
    yield ""
    yield from head("target", "what", "asked", "got", "lowest to highest; a raw client in our place, with `SET` as peers and with our wire",
                    "verdict")
    for line in found:
        got = "–" if line.value is None else f"{line.value:.2f}" if isinstance(line.value, float) else str(line.value)
        yield row(line.name, line.asked, f"{line.sign} {line.bound}", got, line.note or "–", line.verdict())
    yield ""


def asked_part(figures):
    """Each row is of two clients that took turns; a row that the floor misses nobody can reach so."""
    rows = []
    for answer in answers(figures):
        asked = answer.row
        got = f"{answer.value:.2f} ({min(answer.found):.2f} to {max(answer.found):.2f})" if answer.found else "–"
        rows.append([asked.title, figures.server(answer.server), str(asked.nodes), f"{asked.sign} {asked.bound}", asked.before, got,
                     f"{median(answer.floor):.2f}" if answer.floor else "–", answer.verdict()])
    yield from head("what", "server", "nodes", "asked", "before", "got", "floor", "verdict")
    yield from (row(*cells) for cells in rows)
    yield ""


def parts(figures, about):
    yield about
    yield ""
    yield "## Asked of a cycle in native commands"
    yield ""
    yield "Ratios of two clients that took turns on the same server: the median, the lowest and the highest. *Before* is the core that"
    yield "sent scripts alone: its figure of then, or 1 where it runs beside. The *floor* is a client that sends what we send, by hand,"
    yield "in our place."
    yield ""
    yield from asked_part(figures)
    yield "## Targets (plain: fences and restart guard off, the work that peers do)"
    yield ""
    yield from target_part(figures)
    for workload in WORKLOADS.values():
        for nodes in workload.nodes:
            for server in SERVERS:
                for state in workload.states:
                    found = table(figures, workload.name, nodes, state, server, columns(workload))
                    if found:
                        yield "## " + page.heading(workload, nodes, state, figures.server(server) if server != OWN else "")
                        yield ""
                        yield from found


def text(figures, about):
    return "\n".join(parts(figures, about))


def write(figures, about):
    old = RESULTS.read_text() if RESULTS.exists() else EMPTY
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    RESULTS.write_text(f"{before}{BEGIN}\n{text(figures, about)}\n{END}{after}")
    page.write(figures, about)
    print("written: tests/bench/RESULTS.md, docs/explanation/results.md and its plots")
