#!/usr/bin/env python3
"""Tests the C and C++ bindings: tests/c/run.py [--part plain|watched|valgrind|drawn] [--instrumented] [--fuzz SECONDS] [CHECK...]
or tests/c/run.py --build [PROGRAM...]

Has the library built (ffi-c/build.sh), compiles the programs of the tests into target/c/bin, runs the checks, all or those
whose names begin so, and ends with `N passed, M failed`. The part `watched` is what runs under sanitizers; `valgrind` takes longest, and
belongs to `make full`; `drawn` is programs that are drawn. With --build it only compiles the programs, all or those whose
names begin so, against the library that stands in target/c/prefix. What is built goes to
$CARGO_TARGET_DIR, or target; `--fuzz` is how long the calls are fuzzed (3 s).
"""

import argparse
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile

from built import (BIN, BUILT, CHECKS, CPP20, HEADER, HERE, PREFIX, PROGRAMS, ROOT, SCENARIOS, SYMBOLS, VALGRIND, WARNINGS, Failure, build,
                   check, compiled, counted, instrumented, on_stage, run, sanitized)
from stage import ensure_server

# Newest version of the C library that may be asked for.
GLIBC = (2, 34)
# What of it a checker of memory watches, and what is drawn; all else is plain.
# In `valgrind` the same again, with what it alone sees: memory of the library that is read before it is written.
PARTS = {"valgrind": ("valgrind", "scenarios-valgrind", "handles-in-valgrind"),
         "watched": ("sanitizers", "scenarios", "fuzz", "instrumented"), "drawn": ("programs", "handles", "secrets")}
# How many programs are drawn, and on real servers, which take longer; and those of handles, which are watched.
DRAWN, DRAWN_ON_SERVERS = 20_000, 1_000
HANDLES, HANDLES_IN_VALGRIND = 1_000, 100
# The library is not instrumented: what it reads of freed memory is to be seen by what stands there.
FILLED = "max_free_fill_size=65536:free_fill_byte=229"
# Bugs of owners and scopes, as a change of quorlock.hpp. Programs that are drawn have to find each.
BUGS = {
    "threads-by-the-systems-id": ("quorlock_thread_number()", "std::hash<std::thread::id>{}(std::this_thread::get_id())"),
    "any-thread-is-the-owner": ("return h.thread == here;", "return h.thread == here || true;"),
    "a-mutex-lets-its-thread-in": ("options.reentrant = recursive;", "options.reentrant = true;"),
    "a-recursive-mutex-refuses": ("options.reentrant = recursive;", "options.reentrant = false;"),
    "readers-hold-nothing": ("is_held() const noexcept { return mine().is_held(); }",
                             "is_held() const noexcept { return mutex::is_held(); }"),
    "unlock-releases-nothing": ("Lease::calls::release(gone->get(), nullptr, nullptr);", "new auto(std::move(*gone));"),
    "by-hand-is-the-threads": ("if (options.owner_thread) quorlock", "if (!options.slots) quorlock_lock_options_set_owner_thread(o, true);\n"
                               "    if (options.owner_thread) quorlock"),
}


# ---- the header ----

def alone(compiler, language, standard):
    for name in ["quorlock.h"] + ["quorlock.hpp"] * (language == "c++"):
        run(compiler, "-x", language, f"-std={standard}", *WARNINGS, "-Wconversion", "-fsyntax-only", os.path.join(ROOT, "include", name))


@check
def header_alone_gcc_c11():
    alone("gcc", "c", "c11")


@check
def header_alone_gcc_cpp17():
    alone("g++", "c++", "c++17")


@check
def header_alone_clang_c11():
    alone("clang", "c", "c11")


@check
def header_alone_clang_cpp17():
    alone("clang++", "c++", "c++17")


@check
def header_alone_cpp20():
    alone("g++", "c++", "c++20")


@check
def header_alone_clang_cpp20():
    alone("clang++", "c++", "c++20")


@check
def header_alone_cpp23():
    alone("g++", "c++", "c++2b")


@check
def header_alone_clang_cpp23():
    alone("clang++", "c++", "c++2b")


@check
def header_refuses_older_cpp():
    """In one sentence, before all that does not compile either."""
    done = subprocess.run(["g++", "-x", "c++", "-std=c++14", "-fsyntax-only", os.path.join(ROOT, "include", "quorlock.hpp")],
                          capture_output=True, text=True, timeout=600)
    first = next((line for line in done.stderr.splitlines() if "error" in line), "")
    if not done.returncode or "quorlock.hpp needs C++17" not in first:
        raise Failure(done.stderr[:2000])


@check
def header_of_two_standards_in_one_program():
    """The object of C++17 comes first: of functions that are in both the linker takes its."""
    source, parts = os.path.join(ROOT, "tests", "cpp", "standards.cpp"), []
    for standard in ("17", "20"):
        parts.append(os.path.join(BIN, f"standards-{standard}.o"))
        run("g++", f"-std=c++{standard}", *WARNINGS, "-g", "-O0", f"-I{PREFIX}/include", "-c", source, "-o", parts[-1])
    program = os.path.join(BIN, "standards")
    run("g++", *parts, "-o", program, f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lquorlock", "-pthread")
    return counted(run(program), 1)


@check
def header_without_exceptions():
    """A call that fails ends the program with words, in the objects alone that are compiled so."""
    source = os.path.join(ROOT, "tests", "cpp", "without_exceptions.cpp")
    for compiler in ("g++", "clang++"):
        parts = []
        for flag in ("-fno-exceptions", "-fexceptions"):
            parts.append(os.path.join(BIN, f"without{flag}.o"))
            run(compiler, "-std=c++17", *WARNINGS, "-Wconversion", flag, "-g", "-O0", f"-I{PREFIX}/include", "-c", source, "-o", parts[-1])
        program = os.path.join(BIN, "without-exceptions")
        run(compiler, *parts, "-o", program, f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lquorlock", "-pthread")
        counted(run(program), 1)
        done = subprocess.run([program, "fails"], capture_output=True, text=True, timeout=600)
        if done.returncode != -signal.SIGABRT or not done.stderr.startswith("quorlock: InvalidArgument: "):
            raise Failure(f"{compiler}: status {done.returncode}\n{done.stderr}")


# ---- the library ----

def exported():
    lines = run("nm", "-D", "--defined-only", os.path.join(BUILT, "libquorlock.so")).splitlines()
    return sorted(line.split()[-1] for line in lines)


@check
def symbols_are_those_listed():
    with open(SYMBOLS) as file:
        listed = file.read().split()
    if exported() != listed:
        raise Failure(f"beside ffi-c/symbols.txt: {sorted(set(exported()) ^ set(listed))}")


@check
def symbols_are_in_the_header():
    with open(HEADER) as file:
        declared = set(re.findall(r"\b(quorlock_\w+)\(", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)))
    if declared != set(exported()):
        raise Failure(f"in the header or the library alone: {sorted(declared ^ set(exported()))}")


@check
def symbols_are_all_tried_with_null():
    with open(os.path.join(HERE, "test_arguments.c")) as file:
        called = set(re.findall(r"\b(quorlock_\w+)\(", file.read()))
    # What takes nothing that could be NULL.
    missing = set(exported()) - called - {"quorlock_shutdown", "quorlock_cancel_new"}
    if missing:
        raise Failure(f"tests/c/test_arguments.c does not call {sorted(missing)}")


def exports():
    """Each export of the library, and its text in the source."""
    for path in sorted(glob.glob(os.path.join(ROOT, "ffi-c", "src", "*.rs"))):
        with open(path) as file:
            for text in file.read().split("#[unsafe(no_mangle)]")[1:]:
                name = re.match(r'\s*pub extern "C" fn (\w+)\(', text)[1]
                # To the brace that ends it: what follows belongs to others.
                yield name, text[:text.index("\n}\n")]


@check
def symbols_that_wait_are_all_freed_under_it():
    """What keeps a share of its handle may be under way when that is freed: a test does so, here by the name of each."""
    texts = dict(exports())
    waits = {name for name, text in texts.items() if re.search(r"handle::share\(|\blent = ", text)}
    # Those that call another one alone.
    waits |= {name for name, text in texts.items() if set(re.findall(r"quorlock_\w+(?=\()", text)) - {name} & waits}
    if len(waits) < 34 or set(texts) != set(exported()):
        raise Failure(f"the sources are read wrongly: {len(texts)} exports, of which wait {sorted(waits)}")
    with open(os.path.join(HERE, "test_freed.c")) as file:
        called = set(re.findall(r"\b(quorlock_\w+)\b", file.read()))
    # Its callbacks free the queue in tests/c/test_async.c.
    missing = waits - called - {"quorlock_queue_dispatch"}
    if missing:
        raise Failure(f"tests/c/test_freed.c does not free the handle under {sorted(missing)}")


@check
def library_is_linked_as_it_should():
    dynamic = run("readelf", "-dW", os.path.join(BUILT, "libquorlock.so"))
    abi = re.search(r"^#define QUORLOCK_ABI_VERSION (\d+)$", open(HEADER).read(), re.MULTILINE)[1]
    for wanted in (rf"SONAME.*\[libquorlock\.so\.{abi}\]", "NODELETE"):
        if not re.search(wanted, dynamic):
            raise Failure(f"no {wanted} in:\n{dynamic}")
    if "STATIC_TLS" in dynamic or "RUNPATH" in dynamic or "TEXTREL" in dynamic:
        raise Failure(dynamic)


@check
def library_needs_no_newer_libc():
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", os.path.join(BUILT, "libquorlock.so")))
    newest = max((int(major), int(minor)) for major, minor in versions)
    if newest > GLIBC:
        raise Failure(f"needs GLIBC_{newest[0]}.{newest[1]}")


# ---- what the compiler says of mistakes ----

DISCARDED = {
    "c": ("quorlock.h", [
        "quorlock_lease_ensure(0, 1, 0);", "quorlock_lease_extend(0, 1, 0);", "quorlock_client_init_set(0, 0);",
        "quorlock_client_init_set_forced(0, 0);", "quorlock_try_lock(0, 0, 0);", "quorlock_lock_force_release(0, 0, 0, 0, 0);",
        "quorlock_client_probe(0, 0, 0);", "quorlock_lock_all(0, 0, 0, 0, 0);", "quorlock_try_lock_all(0, 0, 0);",
        "quorlock_leases_extend(0, 1, 0);", "quorlock_election_run(0, 0, 0, 0, 0, 0, 0, 0);"]),
    "c++": ("quorlock.hpp", [
        'quorlock::client().lock("x").acquire();', 'quorlock::client().lock("x").acquire(quorlock::forever);',
        'quorlock::client().lock("x").try_acquire();', 'quorlock::client().lock("x");',
        'quorlock::client().lock_all({"x"}).acquire();', 'quorlock::client().lock_all({"x"});',
        'quorlock::client().election("x").campaign();', 'quorlock::client().election("x");']),
}


@check
def discarded_results_are_warned_of():
    """Each line alone, for a compiler that takes it to be an error."""
    for language, (header, lines) in DISCARDED.items():
        for line in ["", *lines]:
            program = f"#include <{header}>\nint main(void) {{ {line} return 0; }}\n"
            command = ["cc", "-x", language, *(["-std=c++17"] if language == "c++" else []), "-Werror=unused-result",
                       "-c", "-o", "/dev/null", "-I", os.path.join(ROOT, "include"), "-"]
            done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=600)
            if (done.returncode == 0) != (not line):
                raise Failure(f"{line or 'nothing at all'}: {done.stderr or 'no warning'}")


# ---- tests of the interfaces ----

@check
def test_c():
    return counted(on_stage(compiled("test-c")), 70)


@check
def test_cpp():
    return counted(on_stage(compiled("test-cpp")), 45)


@check
def test_cpp20():
    return counted(on_stage(compiled("test-cpp", "-20", flags=CPP20)), 49)


@check
def test_cpp_clang():
    return counted(on_stage(compiled("test-cpp", "-clang", "clang++", CPP20)), 49)


@check
def sanitizers_c():
    return counted(on_stage(sanitized("test-c"), ASAN_OPTIONS=FILLED), 70)


@check
def sanitizers_cpp():
    return counted(on_stage(sanitized("test-cpp", "-asan-20", CPP20)), 49)


@check
def valgrind_c():
    return counted(on_stage(*VALGRIND, compiled("test-c")), 70)


@check
def valgrind_cpp():
    return counted(on_stage(*VALGRIND, compiled("test-cpp", "-20", flags=CPP20)), 49)


# Scenarios for the leak checkers: losses, cancelled waits, dead and hung nodes. Valgrind has less time, and no TLS: the
# assembly of its ciphers is beyond it.
SANITIZED = ("basic-three", "reentry", "cancel", "line-", "loss-", "drop", "minority", "several-", "force-", "election-",
             "tls-right")
VALGRINDED = ("basic-three", "reentry", "cancel-while-cont", "loss-minority", "minority-stopped")


def scenarios(words, least, *command):
    only = [word for name in words for word in ("-k", name)]
    return counted(run(sys.executable, os.path.join(SCENARIOS, "drive.py"), "-j", "2", *only, *command, timeout=3600), least)


@check
def scenarios_sanitized_c():
    return scenarios(SANITIZED, 30, sanitized("scenario-c"))


@check
def scenarios_sanitized_cpp():
    return scenarios(SANITIZED, 30, sanitized("scenario-cpp"))


@check
def scenarios_valgrind_c():
    return scenarios(VALGRINDED, 11, "--patient", *VALGRIND, compiled("scenario-c"))


@check
def scenarios_valgrind_cpp():
    return scenarios(VALGRINDED, 11, "--patient", *VALGRIND, compiled("scenario-cpp"))


def fuzzed(program):
    return run(program, str(FUZZ_SECONDS), timeout=FUZZ_SECONDS + 600).strip()


# ---- programs that are drawn ----

def freed_under_calls(text, programs):
    """They free what is in use, or they show nothing."""
    freed = int(re.search(r"^(\d+) handles were freed under calls$", text, re.MULTILINE)[1])
    if freed < programs / 4:
        raise Failure(f"only {freed} handles were freed under calls")
    return counted(text, programs)


@check
def handles_sanitized():
    return freed_under_calls(run(sanitized("handles"), "--programs", str(HANDLES), ASAN_OPTIONS=FILLED), HANDLES)


@check
def handles_in_valgrind():
    command = [*VALGRIND, compiled("handles"), "--programs", str(HANDLES_IN_VALGRIND), "--from", "1000000"]
    return freed_under_calls(run(*command), HANDLES_IN_VALGRIND)


@check
def secrets_are_not_shown():
    return counted(run(compiled("secrets")), 10_000)


@check
def secrets_are_seen():
    """The judge of the above, where each draw shows its marker."""
    done = subprocess.run([compiled("secrets"), "--draws", "100", "--broken"], stdout=subprocess.PIPE, text=True)
    if "\n0 passed, 100 failed\n" not in done.stdout:
        raise Failure(done.stdout[-1000:])


@check
def programs_are_right():
    program = compiled("programs")
    on_stage(program, "--programs", str(DRAWN_ON_SERVERS), "--from", "1000000000", nodes=1, timeout=None)
    counted(run(program, "--programs", str(DRAWN), timeout=None), DRAWN)
    return f"{DRAWN + DRAWN_ON_SERVERS} programs"


@check
def programs_find_bugs():
    found = []
    for bug, (right, wrong) in BUGS.items():
        with tempfile.TemporaryDirectory() as folder:
            for path in glob.glob(os.path.join(ROOT, "include", "*")):
                with open(path) as file:
                    text = file.read()
                if path.endswith(".hpp"):
                    if right not in text:
                        raise Failure(f"{bug}: the header has no {right!r}")
                    text = text.replace(right, wrong)
                with open(os.path.join(folder, os.path.basename(path)), "w") as file:
                    file.write(text)
            program = os.path.join(folder, "programs")
            run("g++", "-std=c++17", "-w", f"-I{folder}", os.path.join(ROOT, PROGRAMS["programs"]), "-o", program,
                f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lquorlock", "-pthread")
            done = subprocess.run([program, "--programs", "1000"], capture_output=True, text=True)
        first = re.match(r"FAIL seed (\d+): ", done.stdout)
        if not first:
            raise Failure(f"{bug} is not found: {done.stdout[-400:]}")
        found.append(f"{bug} {first[1]}")
    return "; ".join(found)


@check
def fuzz():
    return fuzzed(sanitized("fuzz"))


# ---- with --instrumented: the Rust code is watched by the sanitizer too, and not only its allocations ----

def instrumented_c():
    return counted(on_stage(instrumented("test-c")), 70)


def instrumented_cpp():
    return counted(on_stage(instrumented("test-cpp")), 45)


def instrumented_fuzz():
    return fuzzed(instrumented("fuzz"))


# The last of the checks.
import installed  # noqa: E402, F401

FUZZ_SECONDS = 3.0


def main():
    global FUZZ_SECONDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only compile the programs, against the library that is there")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", choices=("plain", *PARTS), help="without: all")
    parser.add_argument("--instrumented", action="store_true", help="also what takes a library built with the sanitizer")
    parser.add_argument("--fuzz", type=float, default=FUZZ_SECONDS, metavar="SECONDS")
    parser.add_argument("checks", nargs="*", metavar="CHECK or PROGRAM")
    asked = parser.parse_args()
    FUZZ_SECONDS = asked.fuzz
    if asked.instrumented:
        for function in (instrumented_c, instrumented_cpp, instrumented_fuzz):
            check(function)
    if asked.list:
        print(*CHECKS, sep="\n")
        return 0
    try:
        if asked.build:
            build(asked.checks)
            return 0
        run("ffi-c/build.sh", timeout=None)
        build([])
    except Failure as failure:
        print(failure)
        return 1
    ensure_server()
    passed = failed = 0
    for name, function in CHECKS.items():
        if asked.checks and not any(name.startswith(word) for word in asked.checks):
            continue
        if asked.part and asked.part != next((part for part in PARTS if name.startswith(PARTS[part])), "plain"):
            continue
        try:
            said = function()
        except (Failure, OSError, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"FAIL {name}\n     " + "\n     ".join(str(failure).splitlines()), flush=True)
        else:
            passed += 1
            print(f"ok   {name}" + (f"  ({said})" if said else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
