"""Builds the programs of the tests of C and C++, and what the checks of tests/c/run.py share."""

import glob
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))

from stage import Stage  # noqa: E402

TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"))
BUILT = os.path.join(TARGET, "release")
OUT = os.path.join(TARGET, "c")
PREFIX = os.path.join(OUT, "prefix")
BIN = os.path.join(OUT, "bin")
HEADER = os.path.join(ROOT, "include", "quorlock.h")
SYMBOLS = os.path.join(ROOT, "ffi-c", "symbols.txt")
SCENARIOS = os.path.join(ROOT, "tests", "scenarios")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
VALGRIND = ["valgrind", "--quiet", f"--suppressions={ROOT}/ffi-c/install/valgrind.supp", "--leak-check=full", "--fair-sched=yes",
            "--show-leak-kinds=definite,indirect,possible", "--errors-for-leak-kinds=definite,indirect,possible",
            "--error-exitcode=9"]
PROGRAMS = {"scenario-c": "tests/c/scenario.c", "scenario-cpp": "tests/cpp/scenario.cpp",
            "chaos-worker-cpp": "tests/cpp/chaos-worker.cpp",
            "endurance-c": "tests/c/endurance.c", "programs": "tests/cpp/programs.cpp", "handles": "tests/c/handles.c",
            "secrets": "tests/c/secrets.c",
            "test-c": "tests/c/test*.c", "test-cpp": "tests/cpp/test*.cpp", "fuzz": "tests/c/fuzz.c"}
CHECKS = {}


class Failure(Exception):
    """A check that does not hold, and what was seen."""


def check(function):
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def run(*command, **more):
    """Runs a command and returns what it printed; fails if that had another status than 0."""
    done = subprocess.run(command, cwd=more.pop("cwd", ROOT), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
                          timeout=more.pop("timeout", 600), env={**os.environ, "RUST_BACKTRACE": "0", **more})
    if done.returncode:
        raise Failure(f"{os.path.basename(command[0])}: status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def newer(target, *sources):
    return os.path.exists(target) and all(os.path.getmtime(target) > os.path.getmtime(source) for source in sources)


def compiled(name, kind="", compiler=None, flags=(), prefix=PREFIX):
    """The program, built against the installed library if it is not up to date."""
    source = os.path.join(ROOT, PROGRAMS[name])
    program = os.path.join(BIN, name + kind)
    cpp = PROGRAMS[name].endswith(".cpp")
    # The parts of a program stand in a folder of its name.
    parts = os.path.splitext(source)[0]
    sources = sorted(glob.glob(source) + glob.glob(f"{parts}/*.c") + glob.glob(f"{parts}/*.cpp"))
    headers = [header for folder in (HERE, os.path.dirname(source), parts, f"{prefix}/include")
               for header in glob.glob(f"{folder}/*.h") + glob.glob(f"{folder}/*.hpp")]
    library = glob.glob(f"{prefix}/lib/libquorlock.so.*.*.*")
    if newer(program, *sources, *headers, *library):
        return program
    command = [compiler or ("g++" if cpp else "gcc"), "-std=c++17" if cpp else "-std=c11", *WARNINGS, "-g", "-O1", *flags]
    objects = os.path.join(BIN, "objects", name + kind)
    os.makedirs(objects, exist_ok=True)

    def compiled_alone(part):
        made = os.path.join(objects, f"{os.path.basename(part)}.o")
        if not newer(made, part, *headers):
            run(*command, f"-I{prefix}/include", "-c", part, "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compiled_alone, sources))
    run(*command, *made, "-o", program, f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lquorlock", "-pthread", "-lm")
    return program


# What the header has for C++20 alone is tested in a program of that standard; the last flag wins.
CPP20 = ["-std=c++20"]


def sanitized(name, kind="-asan", flags=()):
    compiler = "clang++" if PROGRAMS[name].endswith(".cpp") else "clang"
    return compiled(name, kind, compiler if shutil.which(compiler) else None, [*SANITIZERS, *flags])


def build(programs):
    for name in PROGRAMS:
        if not programs or any(name.startswith(word) for word in programs):
            compiled(name)


def on_stage(*command, nodes=3, **more):
    with Stage(nodes) as stage:
        return run(*command, QUORLOCK_NODES=",".join(stage.urls()), **more)


def counted(text, least):
    """What a test program says of itself."""
    found = re.search(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE)
    if not found or found[2] != "0" or int(found[1]) < least:
        raise Failure(f"expected at least {least} passed\n{text[-4000:]}")
    return f"{found[1]} passed"


# ---- with the Rust code watched by the sanitizer too, and not only its allocations ----

def instrumented(name):
    """The program, against a library that was built with the sanitizer. The compiler counts that as unstable."""
    target, folder = "x86_64-unknown-linux-gnu", os.path.join(OUT, "instrumented")
    run("cargo", "build", "--release", "--locked", "-p", "quorlock-c", "--target", target, "--target-dir", folder,
        RUSTC_BOOTSTRAP="1", RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes", timeout=3600)
    prefix, built = os.path.join(folder, "prefix"), os.path.join(folder, target, "release")
    run("ffi-c/install.sh", PREFIX=prefix, BUILT=built)
    return compiled(name, "-instrumented", "clang++" if name.endswith("cpp") else "clang", SANITIZERS, prefix)
