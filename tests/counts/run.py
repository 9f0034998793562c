#!/usr/bin/env python3
"""Counts the instructions and allocations of what users do most, by callgrind, and compares them with those of kept.json.

    run.py [SCENE...]         compares; ends with `N passed, M failed`
    run.py --keep             counts, and keeps that in kept.json
    run.py --runs 10          counts each scene so often, and prints by how much the runs differ

A scene fails where it takes 2 % more instructions, and names the function that grew most; or where it takes another allocation. With
another compiler, C library or kind of processor counts are printed, and compared with nothing.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = pathlib.Path(__file__).resolve().parent / "kept.json"
SCENES = ["cycle-1-node", "cycle-5-nodes", "in-flight-64", "hand-off"]
# A count may grow by so much.
LIMIT = 0.02
# Allocations of a round that is one of many may differ by so much: maps grow at some rounds and not at others.
SPARE = 0.1
# Kept are functions with at least so much of their scene.
SHARE = 0.01
# The C library has a `memcpy` for each kind of processor; the oldest is the one that all have.
OLDEST = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL,-ERMS,-FSRM"
# The core is compiled as one unit, as it is where it is released: cut into many, what is in which depends on how large the others are, and
# by that what the compiler puts inline.
WHOLE = "profile.release.package.quorlock.codegen-units=1"


@dataclass
class Count:
    """What one round of a scene takes. `functions`: the instructions of each function itself."""
    instructions: int
    allocations: float
    functions: dict


def built(root=ROOT):
    """The program that plays scenes, of the sources below `root`."""
    command = ["cargo", "build", "--release", "--locked", "--workspace", "--bin", "quorlock-counts", "--config", WHOLE,
               "--message-format", "json-render-diagnostics"]
    # A copy of the sources finds what it depends on compiled.
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    done = subprocess.run(command, cwd=root, env=dict(os.environ, CARGO_TARGET_DIR=target), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return next(line["executable"] for line in lines if line.get("executable") and line["target"]["name"] == "quorlock-counts")


def count(program, scene):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        # What a process has in its environment, and where its memory begins, moves what it copies and hashes.
        done = subprocess.run(["setarch", "--addr-no-randomize", "valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted_part",
                               "--toggle-collect=uncounted_part", f"--callgrind-out-file={out}", program, scene],
                              env={"PATH": os.environ["PATH"], "GLIBC_TUNABLES": OLDEST}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, check=True)
        rounds, allocations = map(int, done.stdout.split())
        total, functions = profile(out.read_text(errors="replace"), pathlib.Path(program).name)
    return Count(round(total / rounds), round(allocations / rounds, 2),
                 {name: round(cost / rounds) for name, cost in functions.items() if round(cost / rounds)})


def profile(text, program="quorlock-counts"):
    """All instructions of a file of callgrind's, and those of each function itself. What is not the program's goes by the name of its
    library: which functions of that have a name depends on what else is installed."""
    names, functions, place, function, inclusive = {}, {}, None, None, False
    for line in text.splitlines():
        if named := re.match(r"(c?(?:ob|fn))=(\(\d+\)) ?(.*)", line):
            kind, number, name = named.groups()
            # A name is given once, and then its number alone.
            name = names.setdefault((kind[-2:], number), name)
            if kind == "ob":
                place = pathlib.PurePath(name).name
            elif kind == "fn":
                function = plain(name) if place == program else place
        elif line.startswith("calls="):
            inclusive = True
        elif re.match(r"[+\-*\d]", line):
            # The line behind `calls=` has what was called, which counts where it stands.
            if not inclusive:
                functions[function] = functions.get(function, 0) + int(line.split()[1])
            inclusive = False
    return sum(functions.values()), functions


def plain(name):
    """The name of a function without what differs from build to build."""
    return re.sub(r"(?:::h[0-9a-f]{16})?(?:\.llvm\.\d+)?(?:'\d+)?$", "", name)


def growth(kept, now):
    """The functions that have grown, by how much, the most first. One that is not kept had less than its share of the scene."""
    less = kept.instructions * SHARE
    grown = {name: cost - kept.functions.get(name, less) for name, cost in now.functions.items()}
    return sorted(((by, name) for name, by in grown.items() if by > 0), reverse=True)


def wrong(kept, now):
    """What is wrong with a count; empty: nothing."""
    said = []
    if now.instructions > kept.instructions * (1 + LIMIT):
        most = "; ".join(f"{name} by {by:.0f}" for by, name in growth(kept, now)[:3]) or "no function of those that are kept"
        said.append(f"{now.instructions / kept.instructions - 1:+.1%} instructions, most in {most}")
    if now.allocations > kept.allocations + SPARE:
        said.append(f"{now.allocations - kept.allocations:+.2f} allocations")
    return "; ".join(said)


def here():
    """What counts depend on beside the sources: the C library has the allocator, and copies memory."""
    rustc = subprocess.run(["rustc", "-V"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return {"rustc": rustc, "libc": " ".join(platform.libc_ver()), "machine": platform.machine()}


def keep(counts):
    def small(now):
        most = sorted(now.functions.items(), key=lambda one: (-one[1], one[0]))
        functions = {name: cost for name, cost in most if cost >= now.instructions * SHARE}
        return {"instructions": now.instructions, "allocations": now.allocations, "functions": functions}

    KEPT.write_text(json.dumps(here() | {"scenes": {scene: small(now) for scene, now in counts.items()}}, indent=1) + "\n")


def spread(program, scene, runs):
    """Counts a scene again and again; returns by how much the runs differ."""
    counts = [count(program, scene) for _ in range(runs)]
    seen = [one.instructions for one in counts]
    differ = max(seen) / min(seen) - 1
    allocations = sorted({one.allocations for one in counts})
    print(f"{scene:<14} {min(seen)} to {max(seen)} instructions, {differ:.3%}; allocations {', '.join(map(str, allocations))}", flush=True)
    return differ


def compare(program, scenes):
    kept = json.loads(KEPT.read_text())
    tools = here()
    same = tools.items() <= kept.items()
    if not same:
        was = ", ".join(kept[tool] for tool in tools)
        print(f"kept: {was}; here: {', '.join(tools.values())}. So nothing is compared; --keep keeps what is counted here.")
    failed = 0
    for scene in scenes:
        now, before = count(program, scene), Count(**kept["scenes"][scene])
        said = wrong(before, now) if same else ""
        failed += bool(said)
        less = same and (now.instructions < before.instructions * (1 - LIMIT) or now.allocations < before.allocations - SPARE)
        print(f"{'FAIL' if said else 'ok  '} {scene:<14} {now.instructions} instructions, {now.allocations} allocations a round, "
              f"kept {before.instructions}, {before.allocations} {said or ('less than is kept: --keep' if less else '')}".rstrip(), flush=True)
    print(f"{len(scenes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep what is counted")
    parser.add_argument("--runs", type=int, metavar="N", help="print by how much so many runs differ")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=", ".join(SCENES))
    asked = parser.parse_args()
    unknown = set(asked.scenes) - set(SCENES)
    if unknown or asked.keep and asked.scenes:
        parser.error(f"no scene {unknown.pop()}" if unknown else "all scenes are kept together")
    scenes, program = asked.scenes or SCENES, built()
    if asked.runs:
        return 1 if max([spread(program, scene, asked.runs) for scene in scenes]) > LIMIT / 10 else 0
    if asked.keep:
        keep({scene: count(program, scene) for scene in scenes})
        return 0
    return compare(program, scenes)


if __name__ == "__main__":
    sys.exit(main())
