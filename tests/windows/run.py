#!/usr/bin/env python3
"""Everything but the command compiles for Windows, and core's and C's tests run there, as far as Wine is Windows: `make windows`.

    tests/windows/run.py [CHECK...]

Servers run beside it, on this machine. On 2 cores it takes ten minutes.
"""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent)]

from stage import Stage, ensure_server  # noqa: E402

TARGET = "x86_64-pc-windows-gnu"
TOOLS = "x86_64-w64-mingw32"
BUILT = ROOT / "target" / "windows"
PLACE = BUILT / "run"
PARTS = ("quorlock", "quorlock-c", "quorlock-node", "quorlock-python")
# Wine has no precise interrupt time, and resolves names of this kind itself: programs ask for another.
NAMES = b"api-ms-win-core-realtime-l1-1-1.dll", b"xpi-ms-win-core-realtime-l1-1-1.dll"
CHECKS = {}


def check(function):
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def run(*command, cwd=ROOT, **more):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT), "PYO3_CROSS_PYTHON_VERSION": "3.11", "RUST_BACKTRACE": "0",
                   "WINEPREFIX": str(BUILT / "wine"), "WINEDEBUG": "-all", "LIBNODE_PATH": str(PLACE), **more}
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="backslashreplace", env=environment, timeout=1800)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def placed(file, name):
    (PLACE / name).write_bytes(file.read_bytes().replace(*NAMES))
    return PLACE / name


def wine(program, *words, **more):
    found = shutil.which("wine64") or "/usr/lib/wine/wine64"
    return run(found, program, *words, cwd=PLACE, **more)


def stand_ins():
    """What Windows has and this Wine has not."""
    PLACE.mkdir(parents=True, exist_ok=True)
    exports = PLACE / "realtime.def"
    exports.write_text("EXPORTS\nQueryInterruptTimePrecise\n")
    compiler = f"{TOOLS}-gcc"
    run(compiler, "-shared", "-O2", "-o", PLACE / NAMES[1].decode(), HERE / "realtime.c", exports)
    run(compiler, "-shared", "-O2", "-o", PLACE / "bcryptprimitives.dll", HERE / "bcryptprimitives.c", "-ladvapi32")
    # napi's build script looks for Node's library, which a linker alone would read: the addon is checked and not linked.
    (PLACE / "libnode.dll").touch()


def counted(said, pattern, least):
    found = re.search(pattern, said)
    if not found or int(found[1]) < least:
        raise AssertionError(f"expected at least {least} passed\n{said[-3000:]}")
    return f"{found[1]} passed"


@check
def all_parts_compile():
    for part in PARTS:
        run("cargo", "check", "--locked", "--target", TARGET, "-p", part)


@check
def core():
    told = run("cargo", "test", "--no-run", "--locked", "--target", TARGET, "-p", "quorlock", "--lib",
               "--message-format", "json")
    messages = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    [program] = [message["executable"] for message in messages if message.get("executable")]
    return counted(wine(placed(pathlib.Path(program), "core.exe")), r"test result: ok\. (\d+) passed; 0 failed", 270)


@check
def c():
    run("cargo", "build", "--locked", "--target", TARGET, "-p", "quorlock-c")
    built = BUILT / TARGET / "debug"
    placed(built / "quorlock.dll", "quorlock.dll")
    sources = [source for source in sorted(glob.glob(str(ROOT / "tests/c/test*.c"))) if not source.endswith("_process.c")]
    run(f"{TOOLS}-gcc", "-std=gnu11", "-O1", "-g", "-D__USE_MINGW_ANSI_STDIO=1", f"-I{ROOT}/include", *sources,
        "-o", PLACE / "c.exe", f"-L{built}", "-l:libquorlock.dll.a", "-lws2_32", "-static-libgcc", "-Wl,-Bstatic", "-lpthread",
        "-Wl,-Bdynamic", "-lm")
    with Stage(3) as stage:
        said = wine(PLACE / "c.exe", QUORLOCK_NODES=",".join(stage.urls()))
    return counted(said, r"(?m)^(\d+) passed, 0 failed", 57)


def main():
    subprocess.run(["rustup", "target", "add", TARGET], check=True)
    ensure_server()
    stand_ins()
    passed = failed = 0
    for name, function in CHECKS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            said = function()
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"FAIL {name}\n     " + "\n     ".join(str(failure).splitlines()[-40:]), flush=True)
        else:
            passed += 1
            print(f"ok   {name}" + (f"  ({said})" if said else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
