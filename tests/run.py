#!/usr/bin/env python3
"""The bodies of `make check`, `make test` and `make gate`: runs their steps one after the other, counts, and ends with
`N passed, M failed`.

    tests/run.py --tier TIER             the steps of check, test or gate
    tests/run.py [--list] [STEP...]      all steps, or those whose names begin so
    tests/run.py --total                 the count of the three tiers that ran last

What a step prints goes to target/test-logs/STEP.log; of a step that failed the end of it is shown. A step that ran fewer
tests than its floor has failed: tests that silently stopped running are no success. A step fails for what it finds and not
for the time that it takes: it is ended where it hangs alone, which is when it neither prints nor computes.
"""

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "scenarios"))

import scenario  # noqa: E402

LOGS = os.path.join(ROOT, "target", "test-logs")
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
TAIL_LINES = 60
# Lines before those that tell of a failure, in the words of the runners, and how many lines after each may say why.
TELLS = re.compile(r"FAIL|ERROR|panicked at|^error|Error: |^not ok|violation")
# Those among them that name a test come first: a test that passes may print a panic that it has asked for.
NAMES = re.compile(r"^(FAIL|ERROR)\b|FAILED$|\.\.\. (FAIL|ERROR)$|^\s*✖|^\s*not ok")
REASON_LINES = 2
TELLING_LINES = 40
# Of those, so many once more behind the last tier.
TOTAL_LINES = 12
# So many of the steps that took longest are named at the end.
SLOWEST = 40
# A step that has printed nothing for so many seconds hangs, if it has used less than a tenth of a processor for the first of
# them, or whatever it has used for the second.
IDLE, MUTE = 300, 2400
# The runner looks at a step every so many seconds.
LOOK_EVERY = 5
# A line of a test that passed, in the same words.
PASSED = re.compile(r"ok\b|.* \.\.\. ok$")


@dataclass
class Step:
    name: str
    command: list
    floor: int = 1
    env: dict = field(default_factory=dict)
    # For a step that must fail: what it has to say when it does, with status 1.
    must_say: str = None


# The runner of the scenario files of each language, in each of its flavours.
RUNNERS = {
    "rust": ["target/release/scenario"],
    "blocking": [PYTHON, "tests/python/scenario.py", "blocking"],
    "asyncio": [PYTHON, "tests/python/scenario.py", "asyncio"],
    "node-esm": ["node", "tests/node/scenario.mjs"],
    "node-cjs": ["node", "tests/node/scenario.cjs"],
    "c": ["target/c/bin/scenario-c"],
    "cpp": ["target/c/bin/scenario-cpp"],
}


def scenarios(name, *options):
    # A file that is skipped has failed: each says itself which runners it is for.
    command = [sys.executable, "tests/scenarios/drive.py", "-j", "8", *options, "--runner", name, *RUNNERS[name]]
    return Step(f"scenarios-{name}", command, floor=len(scenario.of_runner(name)))


def as_documented_user(name):
    return replace(scenarios(name, "--auth"), name="auth")


def handed_on():
    words = [word for name, command in RUNNERS.items() for word in (name, *command, "---")]
    return Step("handed-on", [sys.executable, "tests/scenarios/handed_on.py", *words[:-1]], floor=len(RUNNERS) ** 2)


def newcomers(name):
    command = [PYTHON, "tests/scenarios/newcomers.py", "--tries", "100", *RUNNERS[name]]
    return Step(f"newcomers-{name}", command, floor=600)


def chaos(name, *words, **more):
    """Workers of all languages on servers that are disturbed; tests/chaos/README.md has the words."""
    return Step(name, [PYTHON, "tests/chaos/chaos.py", *words], **more)


def chaos_tools(name, floor, *subjects):
    """The tests of what judges and disturbs such runs."""
    return Step(name, [PYTHON, "-m", "unittest", "-v", *(f"tests/chaos/test_{subject}.py" for subject in subjects)], floor=floor)


# First of all, before anything else is worth its time.
CHECK = [
    Step("fmt", ["cargo", "fmt", "--all", "--check"]),
    Step("clippy", ["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    Step("unit", ["cargo", "test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins"], floor=340),
    # A dependency that is compiled twice, with other features, doubles what a build takes.
    Step("features", [sys.executable, "tests/features.py"], floor=5),
    scenarios("rust"),
    Step("tables", [sys.executable, "tests/test_tables.py"], floor=4),
    # What is made from core/options.toml is as that says.
    Step("options", [sys.executable, "tests/options/definition.py"], floor=55),
    # What else is said by name in each language is that of core/vocabulary.toml, and a name that is misspelt anywhere is told.
    Step("vocabulary", [sys.executable, "tests/options/vocabulary.py"], floor=320),
    # What CONTRIBUTING.md says of each file is what the file says.
    Step("map", [sys.executable, "tests/docs/map.py", "--check"]),
    Step("run", [sys.executable, "tests/run.py", "--self-check"], floor=10),
    Step("format", [sys.executable, "tests/scenarios/test_format.py"], floor=9),
]

# What shows that each language does what it promises.
TEST = [
    # Most of them wait for servers, so more of them run at a time than there are processors.
    Step("rust", ["cargo", "test", "--workspace", "--locked", "--no-fail-fast", "--test", "*"], floor=250,
         env={"RUST_TEST_THREADS": "6"}),
    Step("rust-doc", ["cargo", "test", "--workspace", "--locked", "--doc"], floor=11),
    Step("sim", ["target/release/quorlock-sim", "run", "--schedules", "20000"]),
    *(scenarios(name) for name in RUNNERS if name != "rust"),
    # Tries beside a queue, of each language.
    *(newcomers(name) for name in RUNNERS if name != "node-cjs"),
    handed_on(),
    Step("node", ["node", "tests/node/run.mjs"], floor=225),
    Step("c", [sys.executable, "tests/c/run.py", "--part", "plain"], floor=23),
    Step("python", [PYTHON, "-m", "unittest", "discover", "-v", "-s", "tests/python", "-t", "tests/python"], floor=300),
    # A client written from docs/reference/protocol.md alone, beside Quorlock.
    Step("protocol", [PYTHON, "tests/protocol/test_protocol.py", "-v"], floor=32),
    Step("mypy", [PYTHON, "-m", "mypy", "--config-file", "py/pyproject.toml", "py/python/quorlock"]),
    Step("pyright", [PYTHON, "-m", "pyright", "-p", "py", "--pythonpath", PYTHON]),
    # What both say of calls that are right, and of calls that are wrong.
    Step("typed", [PYTHON, "tests/python/typed/test_typed.py"], floor=2),
    # The stub of the compiled module says what is in it, and no more.
    Step("stubtest", [PYTHON, "-m", "mypy.stubtest", "quorlock._native"]),
    Step("readme", [PYTHON, "tests/consumers/test_readme.py", "-v"], floor=13),
    # The first lock of README and of the tutorial, typed as it stands: three old servers, three new ones, none.
    Step("first-lock", [PYTHON, "tests/consumers/test_first_lock.py", "-v"], floor=3),
    # Every option in every place of every language.
    Step("everywhere", [PYTHON, "tests/options/test_everywhere.py"], floor=1600),
    # The program of the wheel: its page, and what it prints for programs.
    Step("cli", [PYTHON, "tests/consumers/test_cli.py", "-v"], floor=12),
]

# The rest of what a change must pass: what looks for faults longer or elsewhere, and whether the tests find any.
GATE = [
    Step("sim-more", ["target/release/quorlock-sim", "run", "--schedules", "80000", "--from", "20000"]),
    Step("sim-bytes", ["target/release/quorlock-sim", "run", "--bytes", "--schedules", "40000"]),
    Step("rust-drawn", [sys.executable, "tests/rust/programs.py"], floor=20_000),
    Step("c-drawn", [sys.executable, "tests/c/run.py", "--part", "drawn"], floor=5),
    # Wrong arguments, with a marker where a secret stands: of each language (C's are part of the step before), and the command.
    Step("secrets", ["target/release/secrets"], floor=10_000),
    Step("secrets-python", [PYTHON, "tests/secrets/drawn.py"], floor=10_000),
    Step("secrets-node", ["node", "tests/secrets/drawn.mjs"], floor=10_000),
    Step("secrets-command", [sys.executable, "tests/secrets/commands.py"], floor=10_000),
    Step("secrets-seen", [PYTHON, "tests/secrets/test_seen.py", "-v"], floor=4),
    Step("header", ["ffi-c/header.sh", "--verify"]),
    # What is told to the crate of that name, which is nobody's unless it is asked for.
    Step("tracing", ["cargo", "test", "-p", "quorlock", "--features", "tracing", "--locked", "--lib", "--", "timed", "dispatch"]),
    # Options as data, which are nobody's unless they are asked for.
    Step("serde", ["cargo", "test", "-p", "quorlock-tests", "--features", "serde", "--locked", "--test", "options"]),
    # What asks for TLS is refused where the crate is compiled without.
    Step("without-tls", ["cargo", "test", "-p", "quorlock", "--no-default-features", "--locked", "--lib", "what_asks_for_tls"]),
    Step("doc", ["cargo", "doc", "--workspace", "--no-deps", "--locked"], env={"RUSTDOCFLAGS": "-D warnings"}),
    Step("sim-clusters", ["target/release/quorlock-sim", "run", "--clusters", "--schedules", "3000"]),
    # Tasks of clients end where they wait.
    Step("sim-deaths", ["target/release/quorlock-sim", "run", "--bytes", "--deaths", "--schedules", "8000"]),
    Step("sim-deaths-clusters", ["target/release/quorlock-sim", "run", "--clusters", "--deaths", "--schedules", "1000"]),
    Step("mutants", [sys.executable, "tests/sim/mutants.py"], floor=41),
    # Behind the step before, which builds what it needs.
    Step("shrink", [sys.executable, "tests/sim/test_shrink.py"], floor=5),
    # Of what threads share: every order of their steps, and bugs that are seen in some.
    Step("loom", [sys.executable, "tests/loom.py"], floor=12),
    # The rules by Z3 and by TLC, and the code beside them.
    Step("prove", [sys.executable, "docs/proof/prove.py"], floor=10_000),
    # Instructions and allocations of what users do most, and that the step sees a change.
    Step("counts", [sys.executable, "tests/counts/run.py"], floor=4),
    Step("counts-tools", [sys.executable, "tests/counts/test_run.py", "-v"], floor=8),
    Step("mutation-tools", [sys.executable, "tests/test_mutation.py"], floor=6),
    Step("model", ["target/release/quorlock-model", "run", "--calls", "40000"]),
    Step("model-changes", ["target/release/quorlock-model", "changes"], floor=250),
    Step("model-directed", ["target/release/quorlock-model", "directed"], floor=64),
    Step("model-refused", ["target/release/quorlock-model", "refused"], floor=20),
    # Who has not the holder's token changes nothing of the holder's; nor does a text that nobody exported. One that has it is seen.
    Step("model-strangers", ["target/release/quorlock-model", "strangers"], floor=11),
    Step("model-exported", ["target/release/quorlock-model", "exported"]),
    Step("model-exported-seen", ["target/release/quorlock-model", "exported", "--random", "400", "--mutated", "400", "--bearer"],
         must_say=r"[1-9]\d* changes of what they had no token of"),
    Step("fuzz", [sys.executable, "tests/fuzz/fuzz.py", "--seconds", "10"], floor=6),
    # Servers that lie, and all calls beside them; for longer by hand: `--seconds 1800`.
    Step("lies", ["target/release/lies", "--seconds", "8"], floor=30),
    Step("lies-judges", ["target/release/lies", "judges"], floor=10),
    Step("lies-python", [PYTHON, "tests/lies/lies.py", "--seconds", "14"], floor=20),
    Step("lies-node", ["node", "tests/lies/lies.mjs", "--seconds", "14"], floor=8),
    Step("stage", [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tests/stage", "-t", "tests/stage"], floor=39),
    Step("setup", [sys.executable, "tests/test_setup.py"], floor=11),
    # The same files as a user who may do what the documented line permits, and nothing else.
    as_documented_user("rust"),
    # Redis 6.2 and 8, Valkey: all files but those about TLS, on each; with and without the right to delete by value.
    Step("servers", [PYTHON, "tests/scenarios/servers.py", *RUNNERS["rust"]], floor=560),
    # The programs of docs/how-to/jobs.md, as two hosts at once.
    Step("jobs-page", [PYTHON, "tests/consumers/test_jobs.py", "-v"], floor=6),
    # The programs of examples/, as users run them: busy orders, callers that hang up, dead lock servers, SIGTERM.
    Step("examples", [PYTHON, "tests/examples/test_examples.py", "-v"], floor=11),
    # The tests that docs/how-to/test-your-code.md shows, as they stand there.
    Step("testing-page", [PYTHON, "tests/consumers/test_testing.py", "-v"], floor=6),
    # The site: every block of code on every page, what pages have from the code, and how it looks when it is built.
    Step("docs-tools", [sys.executable, "tests/docs/test_blocks.py", "-v"], floor=5),
    Step("docs", [PYTHON, "tests/docs/run.py"], floor=186),
    Step("docs-reference", [PYTHON, "tests/docs/reference.py", "--check"], floor=11),
    Step("docs-pictures", [sys.executable, "tests/docs/pictures.py", "--check"], floor=8),
    Step("docs-build-tools", [sys.executable, "tests/docs/test_build.py", "-v"], floor=8),
    Step("docs-build", [sys.executable, "tests/docs/build.py", "--check"], floor=6),
    # What somebody does who has the site alone.
    Step("docs-tasks", [PYTHON, "tests/docs/tasks.py"], floor=6),
    # The programs of docs/migrate, the one before and the one after at once; those whose library the tests have in any case.
    Step("migrate-here", [PYTHON, "tests/interop/pages.py", "here"], floor=8),
    # What a process serves to Prometheus, and the page, the dashboard and the alerts that name it.
    Step("operations", [PYTHON, "tests/consumers/test_operations.py", "-v"], floor=12),
    # The pages of Operate by their own words, on hosts of a network of their own; as root.
    Step("operate", [PYTHON, "tests/consumers/test_operate.py", "-v"], floor=20),
    # Every command that speaks with nodes, while these are in every state: it ends, and tells what it knows.
    Step("states", [PYTHON, "tests/consumers/test_states.py"], floor=24),
    Step("registries", [PYTHON, "tests/consumers/test_registries.py", "-v"], floor=3),
    # What is released: whether it can be, and this machine's packages in empty folders; all of them: `make dist-check`.
    # What others have made: checksums, sources, licences, and that the jobs which may publish build nothing.
    Step("supply", [sys.executable, "tests/test_supply.py", "-v"], floor=12),
    Step("dist-tools", [sys.executable, "tests/dist/test_tools.py", "-v"], floor=14),
    chaos_tools("ledger", 5, "demo"),
    # Other lock libraries under the same faults: the ledger, the floors, and the page of the figures that are kept. They run by hand.
    Step("others-page", [PYTHON, "tests/chaos/others.py", "--check"]),
    Step("others-tools", [PYTHON, "tests/chaos/others/test_others.py", "-v"], floor=17),
    Step("bench-tools", [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tests/bench", "-t", "tests/bench"], floor=43),
    Step("peers-tools", [sys.executable, "tests/peers/test_run.py"], floor=8),
    Step("interop-tools", [PYTHON, "tests/interop/test_run.py", "-v"], floor=14),
    # Other libraries of Python and Node on one key with Quorlock. Those that take a build of their own: tests/full.py.
    Step("interop", [PYTHON, "tests/interop/run.py", "python", "node"], floor=184),
    chaos_tools("faults-tools", 90, "faults", "kinds", "proxy", "workers"),
    # The judge that others wrote takes good histories, and refuses by name what was put into them.
    chaos_tools("porcupine", 16, "check3"),
    # A short run with small floors, on a machine that may be busy; `make faults MINUTES=30` is the long one.
    chaos("faults", "faults", "--minutes", "0.9", "--holds", "15", "--each", "1", "--late", "1000"),
    # Incidents, and the alerts of docs/operations: what is meant fires, and nothing else.
    Step("alerts", [PYTHON, "tests/chaos/incidents.py"], floor=19),
    chaos("restarts-unguarded", "restarts", "all-at-once", "--count", "12", "--guard", "off", must_say=r"S1: [1-9]\d* double holds"),
    chaos("restarts", "restarts", "all-at-once", "--count", "12"),
    chaos("restarts-clock", "restarts", "clock", "--count", "12"),
    # A job that five hosts start by clocks that differ.
    chaos("jobs", "jobs", "--ticks", "8", floor=160),
    # Programs that are drawn: scopes that are entered and left in every way that Python has.
    Step("programs", [PYTHON, "tests/python/programs.py", "--programs", "2000", "--real", "200"], floor=2200),
    # Several locks at once, asked for in any order by processes of all languages.
    chaos_tools("names-tools", 11, "names"),
    chaos("names", "names", "--seconds", "8", floor=10),
    # Programs that are drawn: who is inside of what, whatever the calls, branches, contexts and losses.
    Step("programs-node", ["node", "--expose-gc", "--no-warnings", "tests/node/programs/run.mjs", "--programs", "2000"], floor=2000),
    # Bun, Deno and other releases of Node: locks end with their processes and workers, and Node's scenarios.
    Step("node-runtimes", ["node", "tests/node/run.mjs", "tests/node/runtimes/runtimes.test.mjs"], floor=42),
    chaos_tools("leaders-tools", 22, "terms"),
    # An election while its leader is stopped, killed or cut off.
    chaos("leaders", "leaders", "--times", "3"),
    chaos_tools("failover-tools", 11, "failover"),
    # A node with replicas and sentinels whose master is killed, stopped or told to give way.
    chaos("failover", "failover"),
    chaos("demo", "demo", "--lock", "on"),
    chaos("demo-lock-off", "demo", "--lock", "off", "--seconds", "3", must_say=r"(?s)[1-9]\d* lost updates.*ledger, as a lock: .*two hold it at once"),
]

# What `make gate` has no time for, and `make full` runs beside its own: that judges fail where they have to, and the programs of
# docs/migrate whose library comes from a registry.
FULL = [
    # The same as `failover` without the guard.
    chaos("failover-unguarded", "failover", "--guard", "off", "--wait-replicas", "0", must_say=r"S1: [1-9]\d* double holds"),
    Step("programs-bugs", [PYTHON, "tests/python/programs.py", "--bugs"], floor=9),
    chaos("faults-fences-ignored", "faults", "--minutes", "0.3", "--kinds", "worker-pause", "--hold", "100", "--holds", "5", "--late", "1000",
          "--ignore-fences", must_say=r"[1-9]\d* lost updates"),
    chaos("jobs-too-short", "jobs", "--ticks", "8", "--every", "0.4", must_say=r"[1-9]\d* ticks did not run once"),
    chaos("leaders-careless", "leaders", "--times", "1", "--careless", must_say=r"[1-9]\d* of \d+ steps of an old leader that believed to lead"),
    chaos("names-unsorted", "names", "--seconds", "8", "--unsorted", must_say=r"[1-9]\d* waits were used up"),
    # C under sanitizers; in valgrind: tests/full.py.
    Step("c-watched", [sys.executable, "tests/c/run.py", "--part", "watched"], floor=5),
    # The specification in its large models, and without each of its guards in turn.
    Step("tla-large", [sys.executable, "docs/proof/tla/check.py", "--large"], floor=5),
    Step("tla-guards", [sys.executable, "docs/proof/tla/check.py", "--guards"], floor=50),
    # Undefined behaviour in what decides, parses and hands over, looked for by Miri.
    Step("miri", [sys.executable, "tests/miri.py"], floor=50),
    # This machine's packages in empty folders; all of them: `make dist-check`.
    Step("dist-native", ["sh", "-c", "python3 .ci/dist/build.py --native && python3 tests/dist/check.py --files target/dist-native/files here"],
         floor=4),
    # Those whose library comes from a registry.
    Step("migrate", [PYTHON, "tests/interop/pages.py", "registry"], floor=20),
]

TIERS = {"check": CHECK, "test": TEST, "gate": GATE}
STEPS = [step for tier in (*TIERS.values(), FULL) for step in tier]

# What must never be printed: passwords of stages, passwords in the URLs of tests, tokens (40 hex digits).
SECRETS = [re.compile(rb"qlsecret[0-9a-f]{4,}"), re.compile(rb"hunter2"),
           # The compiler's own commit, in backtraces, is none.
           re.compile(rb"(?<![0-9a-f])(?<!/rustc/)[0-9a-f]{40}(?![0-9a-f])")]


def counted(text):
    """Passed and failed as the output tells: cargo's lines, unittest's, and our own; None where there are none."""
    passed = failed = lines = 0
    for ok, bad in re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", text, re.MULTILINE):
        passed, failed, lines = passed + int(ok), failed + int(bad), lines + 1
    for ran, verdict in re.findall(r"^Ran (\d+) tests? in .*\n\n(.*)$", text, re.MULTILINE):
        # A skipped test is a failed one. `expected failures` have no place here either.
        bad = sum(int(number) for number in re.findall(r"=(\d+)", verdict))
        passed, failed, lines = passed + int(ran) - bad, failed + bad, lines + 1
    for ok, bad in re.findall(r"^(\d+) passed, (\d+) failed\s*$", text, re.MULTILINE):
        passed, failed, lines = passed + int(ok), failed + int(bad), lines + 1
    return (passed, failed) if lines else None


def verdict(step, status, text):
    """Passed, failed, and a word on the latter."""
    if step.must_say:
        good = status == 1 and re.search(step.must_say, text)
        return (1, 0, "") if good else (0, 1, f"must end with status 1 and say {step.must_say!r}; status {status}")
    passed, failed = counted(text) or ((1, 0) if status == 0 else (0, 1))
    if status is None:
        return passed, max(failed, 1), f"hangs: it said nothing for {IDLE} s and did nothing, or for {MUTE} s"
    if status and not failed:
        return passed, 1, f"status {status}"
    if passed + failed < step.floor:
        return passed, failed + 1, f"only {passed + failed} ran, at least {step.floor} must"
    return passed, failed, ""


def execute(step, log):
    """Runs the step's command; returns its status, or nothing if it hangs."""
    environment = dict(os.environ, CARGO_TERM_COLOR="never", PYTHONUNBUFFERED="1", **step.env)
    try:
        # A group of its own, so that everything it started ends with it.
        process = subprocess.Popen(step.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        log.write(f"{error}\n".encode())
        return 127
    try:
        return ended(process, log)
    finally:
        if process.poll() is None:
            end_group(process)


def ended(process, log):
    """Waits for the process; returns its status, or nothing if it hangs."""
    size, since, used = -1, time.monotonic(), 0.0
    while True:
        try:
            return process.wait(LOOK_EVERY)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if os.fstat(log.fileno()).st_size != size:
            size, since, used = os.fstat(log.fileno()).st_size, now, computed(process.pid)
            continue
        quiet = now - since
        # What processes have used that have ended in between is not counted: a new one alone shows that it goes on.
        if quiet > MUTE or quiet > IDLE and abs(computed(process.pid) - used) < quiet / 10:
            return None


def computed(root):
    """Seconds of processor that the process and those below it have used so far. Elsewhere than on Linux: the time."""
    if not os.path.isdir("/proc/self"):
        return time.monotonic()
    children, used, total = {}, {}, 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                # Behind the name, which may have blanks and brackets.
                words = file.read().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        children.setdefault(int(words[1]), []).append(int(entry))
        # With what its children used whom it has waited for.
        used[int(entry)] = sum(map(int, words[11:15]))
    todo = [root]
    while todo:
        process = todo.pop()
        total += used.get(process, 0)
        todo += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


def end_group(process):
    """Asks the group to end, which lets its members end their servers, and then makes it. Returns when it is empty."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            process.poll()
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                return
            number = 0
            time.sleep(0.05)


def run(step):
    path = os.path.join(LOGS, f"{step.name}.log")
    begun = time.monotonic()
    with open(path, "wb") as log:
        status = execute(step, log)
    with open(path, errors="replace") as log:
        text = log.read()
    passed, failed, why = verdict(step, status, text)
    seconds = time.monotonic() - begun
    show(step.name, passed, failed, seconds, why)
    told = telling(text) if failed else []
    if failed:
        print("    " + "\n    ".join(told), flush=True)
        print(f"    all of it: {os.path.relpath(path, ROOT)}", flush=True)
    return passed, failed, told[:TELLING_LINES], seconds


def telling(text):
    """The lines of a failed step that say why: those with the words of a failure, and the last ones. Tests that passed
    are left out."""
    lines = [line for line in text.splitlines() if not PASSED.match(line)]
    # What failed may stand far before the end.
    early = max(len(lines) - TAIL_LINES, 0)
    names = [number for number in range(len(lines)) if NAMES.search(lines[number])]
    tells = [number for number in range(early) if TELLS.search(lines[number])]
    shown = {after: None for number in names + tells for after in range(number, min(number + 1 + REASON_LINES, len(lines)))}
    first = list(shown)[:TELLING_LINES]
    return [lines[number] for number in first + sorted(set(range(early, len(lines))) - set(first))]


def show(name, passed, failed, seconds, why=""):
    print(f"{'FAIL' if failed else 'ok  '} {name:<20} {passed:5d} passed {failed:3d} failed {seconds:7.1f} s  {why}".rstrip(),
          flush=True)


def search(names):
    """Looks for secrets in what the steps have printed: one test for each log."""
    begun, passed, found = time.monotonic(), 0, []
    for name in names:
        with open(os.path.join(LOGS, f"{name}.log"), "rb") as log:
            # Neither the secret nor the line is shown: this output is public too.
            places = [f"{name}.log:{number}" for number, line in enumerate(log, 1)
                      if any(secret.search(line) for secret in SECRETS)]
        passed += not places
        found += places[:1]
    show("secrets", passed, len(found), time.monotonic() - begun, "in " + ", ".join(found) if found else "")
    return passed, len(found)


def self_check():
    """Tests of the counting: a runner that miscounts would make everything else worthless."""
    step, must = Step("x", [], floor=2), Step("x", [], must_say=r"[1-9]\d* lost updates")
    cargo = "test result: {}. {} passed; {} failed; 0 ignored; 0 measured\n"
    cases = [
        (step, 0, cargo.format("ok", 3, 0) + cargo.format("ok", 2, 0), (5, 0)),
        (step, 101, cargo.format("FAILED", 3, 1), (3, 1)),
        (step, 101, cargo.format("ok", 3, 0), (3, 1)),
        (step, 0, "Ran 4 tests in 1.0s\n\nOK\n", (4, 0)),
        (step, 1, "Ran 4 tests in 1.0s\n\nFAILED (failures=1, errors=2)\n", (1, 3)),
        (step, 0, "Ran 4 tests in 1.0s\n\nOK (skipped=1)\n", (3, 1)),
        (step, 0, "7 passed, 0 failed\n", (7, 0)),
        (step, 1, "6 passed, 1 failed\n", (6, 1)),
        (step, 0, "1 passed, 0 failed\n", (1, 1)),
        (step, None, "7 passed, 0 failed\n", (7, 1)),
        (Step("x", []), 0, "fine\n", (1, 0)),
        (Step("x", []), 2, "", (0, 1)),
        (must, 1, "9 holds, 3 lost updates, 0 overlaps", (1, 0)),
        (must, 1, "9 holds, 0 lost updates, 0 overlaps", (0, 1)),
        (must, 0, "9 holds, 3 lost updates, 0 overlaps", (0, 1)),
    ]
    wrong = [case for case in cases if verdict(*case[:3])[:2] != case[3]]
    planted = [b"redis://:qlsecret0123abcd@h", b"hunter" + b"2", b"token " + b"ab" * 20 + b".label"]
    missed = [line for line in planted if not any(secret.search(line) for secret in SECRETS)]
    harmless = [b"at /rustc/" + b"5" * 40 + b"/library", b"0" * 64, b"sha256 " + b"a" * 41, b"qlsecret"]
    taken = [line for line in harmless if any(secret.search(line) for secret in SECRETS)]
    noise = "test a ... ok\nok   a  0.1 s\ntest_a (x.Y) ... ok\n" * 50
    told = telling(f"{noise}FAIL b  0.2 s\n     why\n{noise}last\n")
    if told != ["FAIL b  0.2 s", "     why", "last"]:
        wrong.append(told)
    far = telling("thread 'a' panicked at a.rs:1:2:\nwhy\nnote\n" + "other\n" * 100)
    if far != ["thread 'a' panicked at a.rs:1:2:", "why", "note"] + ["other"] * TAIL_LINES:
        wrong.append(far)
    asked_for = telling("thread 'a' panicked at a.rs:1:2:\nwhy\n" * 30 + "FAIL: b (x.Y)\n---\nTraceback\n" + "other\n" * 100)
    if asked_for[:2] != ["FAIL: b (x.Y)", "---"]:
        wrong.append(asked_for)
    hanging = hangs()
    for case in wrong + missed + taken + hanging:
        print("wrong:", case)
    failed = len(wrong) + len(missed) + len(taken) + len(hanging)
    print(f"{len(cases) + 3 + len(planted) + len(harmless) + 3 - failed} passed, {failed} failed")
    return 1 if failed else 0


def hangs():
    """Which of three programs is ended though it goes on, or is not though it hangs."""
    global IDLE, LOOK_EVERY
    kept, wrong = (IDLE, LOOK_EVERY), []
    IDLE, LOOK_EVERY = 1, 0.1
    for code, expected in [("import time; time.sleep(600)", None),
                           ("import time\nwhile time.process_time() < 3: pass", 0),
                           ("import time\nfor _ in range(30): print(flush=True); time.sleep(0.1)", 0)]:
        with tempfile.TemporaryFile() as log:
            if execute(Step("x", [sys.executable, "-c", code]), log) != expected:
                wrong.append(code)
    IDLE, LOOK_EVERY = kept
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of the steps")
    parser.add_argument("--self-check", action="store_true", help="test the counting")
    parser.add_argument("--tier", choices=TIERS, help="the steps of one tier")
    parser.add_argument("--total", action="store_true", help="the count of the tiers, each as it ran last")
    parser.add_argument("steps", nargs="*", metavar="STEP")
    asked = parser.parse_args()
    if asked.self_check:
        return self_check()
    if asked.total:
        return total()
    steps = TIERS[asked.tier] if asked.tier else STEPS
    if asked.list:
        print(*[step.name for step in steps], sep="\n")
        return 0
    unknown = [word for word in asked.steps if not any(step.name.startswith(word) for step in steps)]
    if unknown:
        parser.error(f"no step {unknown[0]}; --list shows them")
    chosen = [step for step in steps if not asked.steps or any(step.name.startswith(word) for word in asked.steps)]
    # An exception, so that the step under way ends with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Where a shell has put us into the background, Ctrl-C is ignored, and would be in every test that we start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.makedirs(LOGS, exist_ok=True)
    if asked.tier and not asked.steps and os.path.exists(os.path.join(LOGS, f"{asked.tier}.json")):
        os.remove(os.path.join(LOGS, f"{asked.tier}.json"))
    results = [run(step) for step in chosen]
    counts = [result[:2] for result in results] + [search([step.name for step in chosen])]
    # Once more, for whoever is shown only the end of a long output.
    for step, (_, failed, told, _) in zip(chosen, results):
        if failed:
            print(f"failed: {step.name}", *told, sep="\n    ")
    passed, failed = map(sum, zip(*counts))
    if asked.tier and not asked.steps:
        with open(os.path.join(LOGS, f"{asked.tier}.json"), "w") as file:
            why = {step.name: told for step, (_, failed, told, _) in zip(chosen, results) if failed}
            seconds = {step.name: round(result[3]) for step, result in zip(chosen, results)}
            json.dump({"passed": passed, "failed": failed, "why": why, "seconds": seconds}, file)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def total():
    """Adds up what each tier has counted, and says once more what failed and what took long: the end of a long output is what
    is kept of it. A tier that has not ended has failed."""
    passed, failed, why, seconds = 0, 0, {}, {}
    for tier in TIERS:
        try:
            with open(os.path.join(LOGS, f"{tier}.json")) as file:
                count = json.load(file)
        except FileNotFoundError:
            count = {"passed": 0, "failed": 1}
        why |= count.get("why", {})
        seconds |= count.get("seconds", {})
        print(f"{tier}: {count['passed']} passed, {count['failed']} failed")
        passed, failed = passed + count["passed"], failed + count["failed"]
    slowest = sorted(seconds, key=seconds.get, reverse=True)[:SLOWEST]
    print(f"seconds: {sum(seconds.values())} in all;", ", ".join(f"{step} {seconds[step]}" for step in slowest))
    for step, told in why.items():
        print(f"failed: {step}", *told[:TOTAL_LINES], sep="\n    ")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
