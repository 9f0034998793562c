#!/usr/bin/env python3
"""Measures Quorlock in all its languages beside its peers. README.md says what and how.

    bench.py                      everything; writes RESULTS.md here and docs/explanation/results.md
    bench.py --only W1,W2         some workloads; RESULTS.md keeps the others' last figures
    bench.py --quick              one short repetition of each run, to see that all of it works
    bench.py --peers 'js:*'       some peers (patterns, with commas)
    bench.py --servers own        on the redis-server of the PATH alone
    bench.py --report             RESULTS.md again from the figures that are kept

The figures of every run are kept in target/bench/runs; --quick, --peers and --servers keep theirs apart and leave RESULTS.md alone.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import contest  # noqa: E402
import newer  # noqa: E402
import page  # noqa: E402
import relay  # noqa: E402
import report  # noqa: E402
from apart import Apart  # noqa: E402
from prepare import OUT, prepare  # noqa: E402
from runs import CORE, pinned, run, tell  # noqa: E402
from servers import Servers  # noqa: E402
from stage import Stage  # noqa: E402
from table import OVER_TLS, OWN, PEERS, REPLICATED, ROUND_TRIPS, SERVERS, WORKLOADS  # noqa: E402

QUICK_SECONDS = 0.3
OURS = {peer.name for peer in PEERS if peer.ours}
QUICK_LOCKS_SECONDS = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(WORKLOADS), metavar="WORKLOADS")
    parser.add_argument("--peers", default="*", metavar="PATTERNS")
    parser.add_argument("--servers", default=",".join(SERVERS), metavar="SERVERS")
    parser.add_argument("--repetitions", type=int, help="instead of each workload's own")
    parser.add_argument("--no-build", action="store_true", help="take the drivers as they are")
    parser.add_argument("--report", action="store_true")
    return parser.parse_args()


def wanted(workload, patterns):
    return [peer for peer in PEERS if any(peer.takes(workload, state) for state in workload.states)
            and any(fnmatch.fnmatchcase(peer.name, pattern) for pattern in patterns)]


def repetitions(workload, peer, given):
    if given.quick:
        return 1
    return given.repetitions or (workload.repetitions if peer.ours or peer.compared else workload.peer_repetitions)


def seconds(workload, given):
    if not given.quick:
        return workload.seconds
    return QUICK_LOCKS_SECONDS if "--hold" in workload.flags else QUICK_SECONDS


def kind(state):
    """What a stage has to have for it."""
    return "replicated" if state in REPLICATED else "tls" if state == OVER_TLS else "plain"


def begun(workload, nodes, kind):
    """A stage for these; replicas and sentinels would be on other machines, so that a core is for the master alone."""
    more = {"replicated": {"replicas": 2, "sentinels": 3}, "tls": {"tls": True}, "plain": {}}
    with pinned(workload.pinned and kind == "plain"):
        stage = Stage(nodes, **more[kind])
    if workload.pinned and kind == "replicated":
        for process in Servers(stage).processes:
            os.sched_setaffinity(process, {CORE})
    return stage


def measure(workload, nodes, server, peers, given, near, keep):
    """Peers take turns, so that what changes in the machine changes for all of them."""
    kinds = dict.fromkeys(kind(state) for state in workload.states)
    # The server is wanted until the end: a stage starts nodes again.
    with newer.serving(server), contextlib.ExitStack() as ends:
        stages = {kind: ends.enter_context(begun(workload, nodes, kind)) for kind in kinds}
        for repetition in range(max(repetitions(workload, peer, given) for peer in peers)):
            for state in workload.states:
                for peer in peers:
                    if not peer.takes(workload, state, server, nodes) or repetition >= repetitions(workload, peer, given):
                        continue
                    stage = stages[kind(state)]
                    of = (stage, workload, peer, state, seconds(workload, given))
                    if workload.contended:
                        figures = contest.run(*of)
                    else:
                        figures = near(lambda of=of: run(*of)) if workload.near else run(*of)
                    figures.setdefault("seconds", seconds(workload, given))
                    figures.update(workload=workload.name, nodes=nodes, server=server, state=state, peer=peer.name,
                                   repetition=repetition)
                    keep(figures)
                    where = f"{workload.name} {nodes}" + (f" {state}" if len(workload.states) > 1 else "") + (
                        f" {server}" if server != OWN else "")
                    print(f"{where} #{repetition + 1} {peer.name}: {tell(figures)}", flush=True)


def main():
    given = arguments()
    runs = OUT / "runs"
    if given.report:
        if not runs.exists():
            sys.exit(f"there are no figures in {runs}: run without --report first")
        report.write(*report.load(runs))
        return 0
    begun = time.monotonic()
    workloads = [WORKLOADS[name] for name in given.only.split(",")]
    patterns = given.peers.split(",")
    partial = given.quick or given.peers != "*" or given.servers != ",".join(SERVERS)
    if partial:
        runs = OUT / "runs-partial"
        shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True, exist_ok=True)
    languages = dict.fromkeys(language for workload in workloads for peer in wanted(workload, patterns)
                              for language in peer.languages)
    wrong = {} if given.no_build else prepare(languages)
    if any(state in ROUND_TRIPS for workload in workloads for state in workload.states):
        relay.build()
    for language, reason in wrong.items():
        print(f"without {language}: {reason}", flush=True)
    servers = given.servers.split(",")
    lacking = newer.prepare(servers)
    for server, reason in lacking.items():
        print(f"without {server}: {reason}", flush=True)
    servers = [server for server in servers if server not in lacking]
    report.note(runs)
    near = (lambda run: run()) if given.quick else Apart().near
    failed = bool(wrong)
    for workload in workloads:
        with open(runs / f"{workload.name}.jsonl", "w") as file:
            def keep(figures):
                nonlocal failed
                failed = failed or ("error" in figures and figures["peer"] in OURS)
                print(json.dumps(figures), file=file, flush=True)

            for nodes in workload.nodes:
                for server in servers:
                    peers = [peer for peer in wanted(workload, patterns) if not wrong.keys() & peer.languages
                             and any(peer.takes(workload, state, server, nodes) for state in workload.states)]
                    if peers:
                        measure(workload, nodes, server, peers, given, near, keep)
    found = report.load(runs)
    if partial:
        print(report.text(*found))
        print(f"the page for readers: {runs / 'page'}")
        page.write(*found, runs / "page")
    else:
        report.write(*found)
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
