#!/usr/bin/env python3
"""The body of `make full`: what runs too long for CI. Prints figures, keeps them in target/full, and ends with
`N passed, M failed`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import endurance  # noqa: E402
import run  # noqa: E402
from stage import Stage  # noqa: E402

OUT = ROOT / "target" / "full"
RELEASE = ROOT / "target" / "release"
LEASES, SECONDS = 10_000, 60
SCHEDULES = 10_000_000
# The simulator's pace that this proof asks for, in schedules a minute: a third of them end with everybody waiting, which
# makes each half as long again.
PACE = 600_000
# Over bytes, where all of the real link runs.
BYTES, BYTES_PACE = 2_000_000, 40_000
CLUSTERS, CLUSTERS_PACE = 400_000, 5_000

# Each of the fuzzer's targets.
FUZZ_SECONDS = 600
# Of several locks at once.
NAMES_SECONDS = 60
# On the memory node and on a real server.
CALLS = 2_000_000
# Of each kind of fault, as they meet a leader.
FAULTS_OF_LEADERS = 50
# Of each kind, on each of these servers and without and with votes that wait for replicas.
FAILOVERS, FAILOVER_SERVERS = 20, ([], ["--server", "valkey-9.1"])
# Of each kind, each while one client has a dozen leases.
LEASES_OVER = 34
MOVING_MINUTES = 20
# Of calls and bodies, beyond those of `make gate`.
PROGRAMS = 200_000
# Of each of two runners, on 1, 3 and 5 nodes, beside a queue.
TRIES = 2_000

passed = failed = 0


def report(name, good, figures):
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok  ' if good else 'FAIL'} {name}: {figures}", flush=True)


def many_leases(nodes):
    with Stage(nodes) as stage:
        env = dict(os.environ, QUORLOCK_NODES=",".join(stage.urls()))
        done = subprocess.run([RELEASE / "many-leases", str(LEASES), str(SECONDS)], env=env, capture_output=True, text=True)
    (OUT / f"many-leases-{nodes}.json").write_text(done.stdout)
    try:
        figures = json.loads(done.stdout)
    except json.JSONDecodeError:
        figures = {"error": done.stderr.strip()[-300:]}
    report(f"{LEASES} leases of 10 s for {SECONDS} s on {nodes} node(s)", done.returncode == 0, figures)


def cycles():
    """Many cycles in each language, and a leak in each, which has to be seen in a quarter of them."""
    for leak, share in ((True, 0.25), (False, 1)):
        def judged(name, good, figures, leak=leak):
            report(f"{name}, many cycles" + " with a leak that must be seen" * leak, good, figures)

        endurance.run(endurance.KINDS, leak, share, judged)


def simulator(name, layer, schedules, least):
    words = [RELEASE / "quorlock-sim", "run", *layer, "--schedules", str(schedules)]
    done = subprocess.run(words, capture_output=True, text=True)
    (OUT / f"{name}.txt").write_text(done.stdout)
    pace = re.search(r"(\d+) a minute", done.stdout)
    good = done.returncode == 0 and pace is not None and int(pace[1]) >= least
    report(name, good, " ".join(done.stdout.split()))


def mutants():
    done = subprocess.run([sys.executable, ROOT / "tests" / "sim" / "mutants.py", "--remember"], capture_output=True, text=True)
    (OUT / "mutants.txt").write_text(done.stdout)
    print(done.stdout, end="")
    report("seeded bugs", done.returncode == 0, done.stdout.strip().splitlines()[-1])


def mutation():
    """Every change that cargo-mutants draws in what decides."""
    done = subprocess.run([sys.executable, ROOT / "tests" / "mutation.py"], capture_output=True, text=True)
    (OUT / "mutation.txt").write_text(done.stdout + done.stderr)
    report("changes of what decides", done.returncode == 0, " ".join(done.stdout.splitlines()[-2:]))


def fuzz_of_the_c_abi():
    words = ["--instrumented", "--fuzz", "300", "instrumented"]
    done = subprocess.run([sys.executable, ROOT / "tests" / "c" / "run.py", *words], capture_output=True, text=True)
    (OUT / "c-abi.txt").write_text(done.stdout)
    report("C ABI fuzzed for 5 minutes, all under AddressSanitizer", done.returncode == 0, " ".join(done.stdout.split())[-300:])


def valgrind():
    done = subprocess.run([sys.executable, ROOT / "tests" / "c" / "run.py", "--part", "valgrind"], capture_output=True, text=True)
    (OUT / "valgrind.txt").write_text(done.stdout)
    report("C and C++ in valgrind", done.returncode == 0, " ".join(done.stdout.split())[-300:])


def steps():
    """Those of `make gate` that it has no time for."""
    os.makedirs(run.LOGS, exist_ok=True)
    for step in run.FULL:
        well, wrong, _ = run.run(step)
        report(step.name, not wrong, f"{well} passed")


def fuzz():
    words = ["--seconds", str(FUZZ_SECONDS)]
    done = subprocess.run([sys.executable, ROOT / "tests" / "fuzz" / "fuzz.py", *words], capture_output=True, text=True)
    (OUT / "fuzz.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report(f"names, replies, pushes, admission, addresses fuzzed for {FUZZ_SECONDS} s each", done.returncode == 0,
           " ".join(done.stdout.split())[-30:])


def model():
    words = [RELEASE / "quorlock-model", "run", "--calls", str(CALLS), "--from", "1000000"]
    done = subprocess.run(words, capture_output=True, text=True)
    (OUT / "model.txt").write_text(done.stdout + done.stderr)
    report("memory node against the server", done.returncode == 0, " ".join(done.stdout.splitlines()[-2:]))


def newcomers():
    for name, runner in run.RUNNERS.items():
        words = [run.PYTHON, "tests/scenarios/newcomers.py", "--tries", str(TRIES), *runner]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        (OUT / f"newcomers-{name}.txt").write_text(done.stdout + done.stderr)
        report(f"newcomers beside a queue, {name}", done.returncode == 0, " ".join((done.stdout + done.stderr).split()))


def programs():
    words = ["node", "--expose-gc", "--no-warnings", "tests/node/programs/run.mjs", "--programs", str(PROGRAMS), "--seed", "1000000"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    (OUT / "programs-node.txt").write_text(done.stdout + done.stderr)
    report(f"{PROGRAMS} programs of Node that are drawn", done.returncode == 0, " ".join(done.stdout.splitlines()[-2:]))


def names():
    words = [run.PYTHON, ROOT / "tests" / "chaos" / "chaos.py", "names", "--seconds", str(NAMES_SECONDS)]
    done = subprocess.run(words, capture_output=True, text=True)
    (OUT / "names.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report(f"several locks at once for {NAMES_SECONDS} s", done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])


def leaders():
    words = [run.PYTHON, "tests/chaos/chaos.py", "leaders", "--times", str(FAULTS_OF_LEADERS)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    (OUT / "leaders.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report(f"leaders stopped, killed and cut off, {FAULTS_OF_LEADERS} times each", done.returncode == 0,
           (done.stdout + done.stderr).strip().splitlines()[-1])


def failovers():
    for number, server in enumerate(FAILOVER_SERVERS):
        words = [run.PYTHON, "tests/chaos/chaos.py", "failover", "--count", str(FAILOVERS), "--stages", "4", *server]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        (OUT / f"failover-{number}.txt").write_text(done.stdout + done.stderr)
        print(done.stdout, end="")
        report(f"{FAILOVERS} failovers of each kind {' '.join(server)}".rstrip(), done.returncode == 0,
               (done.stdout + done.stderr).strip().splitlines()[-1])


def leases_over_failovers():
    """Many leases of one client, over failovers of each kind."""
    words = ["cargo", "test", "-p", "quorlock-tests", "--test", "failover", "--locked"]
    done = subprocess.run(words, cwd=ROOT, env=dict(os.environ, FAILOVERS=str(LEASES_OVER)), capture_output=True, text=True)
    (OUT / "leases-over-failovers.txt").write_text(done.stdout + done.stderr)
    report(f"leases of one client over {LEASES_OVER} failovers of each kind", done.returncode == 0,
           " ".join(re.findall("^test .*", done.stdout, re.MULTILINE)))


def moving():
    """A cluster whose hash slots move all the time."""
    words = [run.PYTHON, "tests/chaos/chaos.py", "moving", "--minutes", str(MOVING_MINUTES)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    (OUT / "moving.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report(f"hash slots that move for {MOVING_MINUTES} min", done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])


def peers():
    done = subprocess.run([sys.executable, ROOT / "tests" / "peers" / "run.py"], capture_output=True, text=True)
    (OUT / "peers.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report("suites of comparable libraries", done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])


def static():
    """The command as one file without dependencies, as far as it goes without servers of its own."""
    words = ["make", "static"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    program = ROOT / "target" / "static" / "quorlock"
    if done.returncode == 0:
        linked = subprocess.run(["ldd", program], capture_output=True, text=True)
        words = [program, "dev", "1", "--", program, "run", "a", "--", "echo", "held"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        good = done.returncode == 0 and done.stdout == "held\n" and "=>" not in linked.stdout
        return report("the command as one file", good, f"{program.stat().st_size} bytes, {linked.stdout.strip() or linked.stderr.strip()}")
    return report("the command as one file", False, done.stderr.strip()[-300:])


def interop():
    done = subprocess.run([run.PYTHON, "tests/interop/run.py", "go", "rust"], cwd=ROOT, capture_output=True, text=True)
    (OUT / "interop.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report("libraries of Go and Rust on one key with us", done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])
    done = subprocess.run([run.PYTHON, "tests/interop/pages.py", "compiled"], cwd=ROOT, capture_output=True, text=True)
    (OUT / "pages.txt").write_text(done.stdout + done.stderr)
    report("programs of Go, Rust and Java and those after them on one key", done.returncode == 0,
           (done.stdout + done.stderr).strip().splitlines()[-1])


def redisson():
    done = subprocess.run([run.PYTHON, "tests/interop/redisson/run.py"], cwd=ROOT, capture_output=True, text=True)
    (OUT / "redisson.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, end="")
    report("Redisson and Quorlock as one lock", done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])


def other_systems():
    """What only compiles elsewhere, or runs there as far as Wine is Windows."""
    for name, what in (("oldest-rust", "the oldest Rust compiles it"), ("windows", "Windows, by Wine")):
        done = subprocess.run(["make", name], cwd=ROOT, capture_output=True, text=True)
        (OUT / f"{name}.txt").write_text(done.stdout + done.stderr)
        report(what, done.returncode == 0, (done.stdout + done.stderr).strip().splitlines()[-1])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    simulator("simulator", [], SCHEDULES, PACE)
    simulator("simulator-bytes", ["--bytes"], BYTES, BYTES_PACE)
    simulator("simulator-clusters", ["--clusters"], CLUSTERS, CLUSTERS_PACE)
    mutants()
    mutation()
    for nodes in (1, 5):
        many_leases(nodes)
    cycles()
    model()
    newcomers()
    programs()
    names()
    leaders()
    failovers()
    leases_over_failovers()
    moving()
    peers()
    interop()
    redisson()
    static()
    other_systems()
    fuzz()
    fuzz_of_the_c_abi()
    valgrind()
    steps()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
