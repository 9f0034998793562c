#!/usr/bin/env python3
"""Compares builds of Quorlock with each other: whether a change made it slower.

    turns.py OLD NEW [...] [--only W1,W2] [--peers '*:quorlock*'] [--rounds 5]

OLD and NEW are clones in which `make build` and `tests/bench/bench.py --quick` have run. In each round every clone has one
repetition of each run, and which is first changes, so that what changes in the machine changes for all of them. Prints, for each
run, the median of NEW / OLD over the rounds with the lowest and the highest, and beside it how far OLD's own figures lie apart:
a ratio within that says nothing. The figures of every run are kept in target/bench/turns, by clone and round.
"""

import argparse
import collections
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

from prepare import OUT

# The figure that a run is judged by.
JUDGED = ("cycles_per_s", "handoffs_per_s", "memory_kib")
KEPT = OUT / "turns"


def figures(clone, number, given):
    done = subprocess.run([sys.executable, "tests/bench/bench.py", "--no-build", "--repetitions", "1", "--only", given.only,
                           "--peers", given.peers], cwd=clone, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    runs = clone / "target" / "bench" / "runs-partial"
    shutil.copytree(runs, KEPT / f"{number + 1}-{clone.name}", dirs_exist_ok=True)
    if done.returncode:
        print(f"{clone}, round {number + 1}: {(done.stderr or done.stdout).strip()[-400:]}", flush=True)
    for file in sorted(runs.glob("*.jsonl")):
        for run in map(json.loads, file.read_text().splitlines()):
            if "rss_kib" in run:
                run["memory_kib"] = run["rss_kib"] - run["rss_before_kib"]
            for name in JUDGED:
                if run.get(name):
                    yield (run["workload"], run["nodes"], run["state"], run["peer"], name), run[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", nargs="+", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", default="W1,W2", metavar="WORKLOADS")
    parser.add_argument("--peers", default="*:quorlock*", metavar="PATTERNS")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    known = collections.defaultdict(lambda: collections.defaultdict(dict))
    for number in range(given.rounds):
        # What runs last was seen to be 5 % slower, whichever it was.
        first = number % len(given.clones)
        for clone in given.clones[first:] + given.clones[:first]:
            for what, figure in figures(clone, number, given):
                known[what][clone][number] = figure
        print(f"round {number + 1} of {given.rounds}", flush=True)
    first, *others = given.clones
    for what, by_clone in sorted(known.items()):
        old = by_clone[first]
        if not old:
            continue
        middle = statistics.median(old.values())
        cells = [f"{middle:.0f} ({min(old.values()) / middle:.2f} to {max(old.values()) / middle:.2f})"]
        for clone in others:
            ratios = sorted(by_clone[clone][number] / old[number] for number in old if number in by_clone[clone])
            if ratios:
                cells.append(f"{clone.name} {statistics.median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        print(" ".join(str(word) for word in what if word), "|", " | ".join(cells))


if __name__ == "__main__":
    sys.exit(main())
