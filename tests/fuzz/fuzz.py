#!/usr/bin/env python3
"""The coverage-guided fuzzer: tests/fuzz/fuzz.py [--seconds S] [--build] [TARGET...]

Builds the targets (src/lib.rs) with libFuzzer, with the compiler's coverage and AddressSanitizer, and feeds each for S
seconds (5), at once as many as there are cores. What it learns is kept in target/fuzz/corpus/TARGET and is where the next
run begins; an input that breaks a target is shown and kept in target/fuzz. Ends with `N passed, M failed`.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "target" / "fuzz"
TARGETS = ["names", "replies", "pushes", "admission", "maps", "address"]
TRIPLE = "x86_64-unknown-linux-gnu"
# Inputs a second that a target must at least be fed with: far below what one core does.
FLOOR = 200
LONGEST = {"names": 2200, "replies": 4096, "pushes": 4096, "admission": 2048, "maps": 2048, "address": 256}
# Sanitizers and coverage are not counted as stable; the compiler is the same.
FLAGS = ["-Zsanitizer=address", "-Cforce-frame-pointers=yes", "-Cpasses=sancov-module", "-Cdebug-assertions=yes",
         "-Coverflow-checks=yes", "-Ccodegen-units=1"]
COVERAGE = ["-sanitizer-coverage-level=4", "-sanitizer-coverage-inline-8bit-counters", "-sanitizer-coverage-pc-table",
            "-sanitizer-coverage-trace-compares"]


def build():
    flags = " ".join(FLAGS + [f"-Cllvm-args={word}" for word in COVERAGE])
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=flags, CARGO_TARGET_DIR=str(OUT / "build"))
    subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "quorlock-fuzz", "--features", "guided",
                    "--target", TRIPLE], cwd=ROOT, env=environment, check=True)
    return OUT / "build" / TRIPLE / "release" / "quorlock-fuzz"


def fuzz(binary, target, seconds):
    """Feeds one target; returns whether it held, and figures or what broke it."""
    corpus, seeds = OUT / "corpus" / target, OUT / "seeds" / target
    for folder in (corpus, seeds):
        folder.mkdir(parents=True, exist_ok=True)
    words = [binary, f"-max_total_time={seconds}", f"-max_len={LONGEST[target]}", "-print_final_stats=1", "-timeout=10",
             "-rss_limit_mb=2048", f"-artifact_prefix={OUT}/{target}-", corpus, seeds]
    environment = dict(os.environ, QUORLOCK_FUZZ=target, QUORLOCK_FUZZ_SEEDS=str(seeds))
    try:
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=seconds + 600)
    except subprocess.TimeoutExpired:
        return False, f"no end after {seconds + 600} s"
    said = done.stderr.decode(errors="backslashreplace")
    (OUT / f"{target}.log").write_text(said)
    executed = re.search(r"^stat::number_of_executed_units:\s*(\d+)", said, re.MULTILINE)
    coverage = re.findall(r" cov: (\d+) ft: (\d+) corp: (\d+)", said)
    if done.returncode or not executed or not coverage:
        # What it says itself; the stack is in the log.
        said = [line for line in said.splitlines() if not line.lstrip().startswith("#")]
        return False, "\n".join(said[-25:])
    count = int(executed[1])
    figures = f"{count} inputs in {seconds} s, {coverage[-1][0]} edges, {coverage[-1][1]} features, corpus {coverage[-1][2]}"
    if int(coverage[-1][0]) < 50:
        return False, f"{figures}: it is not guided"
    return count >= FLOOR * seconds, figures + f"; floor {FLOOR * seconds}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5, metavar="S", help="for each target")
    parser.add_argument("--build", action="store_true", help="only build")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    asked = parser.parse_args()
    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {unknown.pop()}")
    binary = build()
    if asked.build:
        return 0
    targets, failed = asked.targets or TARGETS, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {target: pool.submit(fuzz, binary, target, asked.seconds) for target in targets}
        for target, run in runs.items():
            good, said = run.result()
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {target}: {said}", flush=True)
    print(f"{len(targets) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
