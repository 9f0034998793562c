#!/usr/bin/env python3
"""Every seeded bug must be caught: by an invariant of the simulator, or, where that cannot see it, by a unit test.

The bugs are files of tests/sim/bugs, of the core and of the simulator's network and clock, which stand for the connection and the system's; bugs.py
makes a copy of the project that has them. Those of the real link (`core/src/node/redis`) fall in schedules of bytes, the others in
schedules of links; `bytes:` stands before the seed of the former, `clusters:` before that of one over the links to clusters, and
`deaths:` before that of one over bytes in which tasks end. One build of the copy carries all of them. `caught.txt` remembers for each the
seed that caught it last, and the invariant: that schedule is run first, and the first SCHEDULES where it catches the bug no
more, for every change shifts what seeds stand for. In place of a seed there may be a unit test of the core, with the word
`test` behind it: it has to fail with the bug and to pass without. With the word `loom` it is one of tests/loom.py, which sees to
that; with `directed` one of tests/sim/tests/native, which plays its schedule with the bug and without. Prints a line for each bug, then `N passed, M failed`.

`--remember` searches further where a seed is out of date, and writes the file anew.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import bugs

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOOR = 95
SCHEDULES = 10_000
# With `--remember`.
SEARCHED = 1_000_000
CAUGHT = ROOT / "tests" / "sim" / "caught.txt"
TARGET, TREE = bugs.TARGET, bugs.TREE
# The numbers of the list of mutations that the protocol's analysis asks for.
NUMBERS = {
    "quorum-of-half": 1,
    "fence-without-write-back": 7,
    "fence-of-one-vote": 8,
    "confirm-unowned": 9,
    "pure-counters": 10,
    "no-quarantine": 11,
    "half-quarantine": 12,
    "repair-without-fence": 23,
    "repairs-in-quarantine": 25,
    "same-server-twice": 28,
    "record-ignored": 29,
    "not-ready-is-a-refusal": 46,
    "no-clamp": 48,
    "confirm-lowers": 51,
    "release-unowned": 2,
    "end-from-reply": 3,
    "no-validity-check": 4,
    "start-taken-late": 5,
    "drift-added": 6,
    "loss-not-sticky": 13,
    "any-answer-renews": 14,
    "token-per-client": 15,
    "extend-unowned": 16,
    "late-vote-revives": 17,
    "largest-end": 18,
    "no-drift": 19,
    "rates-beyond-drift": 20,
    "undo-what-granted": 21,
    "no-undo-unless-granted": 22,
    "repair-after-loss": 24,
    "renewal-shortens": 26,
    "tie-never-decided": 32,
    "renews-after-release": 38,
    "cancel-leaks": 39,
    "clock-stops-in-suspend": 40,
    "failure-is-a-vote": 45,
}


def names():
    found = bugs.names()
    unknown = (set(NUMBERS) | set(remembered())) - set(found)
    if unknown:
        sys.exit(f"no such bugs: {unknown}")
    return found


def within(*beginnings):
    """The bugs that have a place in a file whose path begins so."""
    return {name for name in bugs.names() if any(path.startswith(beginnings) for path, *_ in bugs.places(name))}


def of_the_wire():
    """Those that only the real link has: looked for over bytes."""
    return within("core/src/node/redis/")


def of_clusters():
    """Those that only the links to clusters have."""
    # And what a connection does for them alone.
    more = {"moved-resends-after-release", "asks-without-asking", "moved-in-set-up-is-misconfigured"}
    return within("core/src/node/cluster/", "core/src/node/redis/connect/cluster", "tests/sim/src/cluster/") | more


# Those that tasks which end bring to light: looked for over bytes, with deaths.
OF_DEATHS = {"ends-for-good", "knowledge-ends-with-its-task", "releases-end-with-their-task", "rests-without-a-word"}


def remembered():
    lines = CAUGHT.read_text().splitlines() if CAUGHT.exists() else []
    return {name: (by, what) for name, by, what in (line.split() for line in lines)}


def cargo(*words, **options):
    env = dict(os.environ, RUSTFLAGS="--cfg mutants", CARGO_TARGET_DIR=str(TARGET), **options.pop("env", {}))
    return subprocess.run(["cargo", *words], cwd=TREE, env=env, **options)


def test_program(target, *words):
    """The program of these tests, built with all bugs: cargo takes longer to start it than it runs."""
    done = cargo("test", "-q", "--no-run", "--message-format", "json", *words, check=True, stdout=subprocess.PIPE, text=True)
    built = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next(one["executable"] for one in built if one.get("executable") and one["target"]["name"] == target)


def outcomes(program, tests, bug=""):
    """Of each of these tests whether it passed; those that did not run are missing."""
    done = subprocess.run([program, "--exact", *tests], cwd=TREE / "core", env=dict(os.environ, QUORLOCK_MUTANT=bug),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return {name: word == "ok" for name, word in re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)$", done.stdout, re.MULTILINE)}


def main():
    remember = "--remember" in sys.argv[1:]
    schedules = SEARCHED if remember else SCHEDULES
    bugs.copy()
    cargo("build", "--release", "-q", "--workspace", "--bin", "quorlock-sim", check=True)
    binary = TARGET / "release" / "quorlock-sim"
    passed = failed = 0

    def report(name, good, text):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {NUMBERS.get(name, ''):>3} {name:24} {text}", flush=True)

    for layer in ([], ["--bytes"], ["--clusters"]):
        seeds = "2000" if layer == ["--clusters"] else "20000"
        plain = subprocess.run([binary, "run", *layer, "--schedules", seeds], stdout=subprocess.PIPE, text=True, timeout=900)
        over = {"": "", "--bytes": " of bytes", "--clusters": " of clusters"}["".join(layer)]
        report("(none)", plain.returncode == 0, f"the same build and seeds without a bug violate nothing in {seeds} schedules{over}")
    judged, known = names(), remembered()
    by_test = {name: test for name, (test, what) in known.items() if what == "test"}
    by_loom = {name for name, (_, what) in known.items() if what == "loom"}
    by_schedule = {name: test for name, (test, what) in known.items() if what == "directed"}
    caught, seen = {}, set(by_test) | by_loom | set(by_schedule)
    unseen = [name for name in judged if name not in seen]

    def verdicts(layer, names):
        """Runs the bugs of one layer, from the schedules that caught them."""
        words = [f"{name}={known[name][0].split(':')[-1]}" if name in known else name for name in names]
        command = [binary, "mutants", *layer, "--schedules", str(schedules), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            yield from run.stdout

    clusters = of_clusters()
    wire = of_the_wire() - clusters - OF_DEATHS
    over_links = [bug for bug in unseen if bug not in wire | clusters | OF_DEATHS]
    for prefix, layer, over in [("", [], over_links), ("bytes:", ["--bytes"], [b for b in unseen if b in wire]),
                                ("clusters:", ["--clusters"], [b for b in unseen if b in clusters]),
                                ("deaths:", ["--bytes", "--deaths"], [b for b in unseen if b in OF_DEATHS])]:
        for line in verdicts(layer, over):
            name, seed, text = line.strip().split(" ", 2)
            seen.add(name)
            invariant = re.match(r"(?:ML|EL|RW|SE|AD|FR|HL|[SLK])\d(?= )", text)
            # Every bug has an entry, so that nobody has to search for it.
            good = invariant is not None and (remember or name in known)
            report(name, good, f"schedule {seed}: {text}" if invariant else text)
            if invariant:
                caught[name] = (prefix + seed, invariant[0])
            if invariant and not good:
                print(f"     {name} is not in {CAUGHT.name}: mutants.py --remember")
    for name in sorted(set(judged) - seen):
        report(name, False, "no verdict")
    program = test_program("quorlock", "-p", "quorlock", "--lib")
    right = outcomes(program, set(by_test.values()))
    for name, test in sorted(by_test.items()):
        good = right.get(test) is True and outcomes(program, [test], name) == {test: False}
        report(name, good, f"the test {test}" if good else f"the test {test} does not tell")
        caught[name] = (test, "test")
    # In this build these play with the bug too, and ask that it shows.
    program = test_program("native", "--release", "--workspace", "--test", "native")
    right = outcomes(program, set(by_schedule.values()))
    for name, test in sorted(by_schedule.items()):
        good = right.get(test) is True
        report(name, good, f"the schedule {test}" if good else f"the schedule {test} does not tell")
        caught[name] = (test, "directed")
    if remember:
        lost = {name: known[name] for name in set(known) - set(caught)}
        lines = [f"{name} {by} {what}\n" for name, (by, what) in sorted((lost | caught).items())]
        CAUGHT.write_text("".join(lines))
    if passed <= FLOOR:
        print(f"fewer than {FLOOR} mutants")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
