"""The checks of what is installed: the examples, and programs outside this tree that use the library."""

import os
import re
import shutil
import subprocess
import tempfile

from built import BIN, BUILT, PREFIX, ROOT, WARNINGS, Failure, check, on_stage, run


# ---- the examples ----

def example(source, *flags):
    """The program of ffi-c/examples, as the head of its file says that it is compiled."""
    name, language = os.path.splitext(source)
    program = os.path.join(BIN, f"example-{name}{language.replace('.', '-')}")
    compiler = ["g++", "-std=c++17"] if language == ".cpp" else ["gcc", "-std=gnu11"]
    run(*compiler, *WARNINGS, f"-I{PREFIX}/include", os.path.join(ROOT, "ffi-c", "examples", source), "-o", program,
        f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lquorlock", *flags)
    return program


@check
def example_epoll():
    text = on_stage(example("epoll.c"), "orders:1", "orders:2")
    if text.count(": held, fence ") != 2 or text.count(": released") != 2:
        raise Failure(text)


@check
def example_poll():
    text = on_stage(example("poll.cpp"), "orders:1", "orders:2")
    if text.count(": held, fence ") != 2 or text.count(": released") != 2:
        raise Failure(text)


@check
def example_libuv():
    program = example("libuv.c", *run("pkg-config", "--cflags", "--libs", "libuv").split())
    # Two for one lock, of which one waits on the same loop; and one that takes longer than it may.
    text = on_stage(program, "orders:1=50", "orders:1=50", "orders:2=1", "orders:3=600000")
    lines = text.splitlines()
    if text.count(": held, fence ") != 4 or text.count(": released") != 3 or lines[-1] != "orders:3: lost, max_hold":
        raise Failure(text)
    first, second = (int(fence) for fence in re.findall(r"^orders:1: held, fence (\d+)$", text, re.MULTILINE))
    if not first < second:
        raise Failure(text)
    # A mistake in one of them ends neither the loop nor the others.
    done = subprocess.run([program, "{{", "orders:2=1"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "QUORLOCK_NODES": "memory://libuv"})
    if done.returncode != 1 or not done.stderr.startswith("{{: ") or "orders:2: released" not in done.stdout:
        raise Failure(f"status {done.returncode}\n{done.stdout}{done.stderr}")


# ---- consumers outside the tree ----

def consumer(folder, name):
    """A copy of the consumer, far from our tree."""
    copy = os.path.join(folder, name)
    shutil.copytree(os.path.join(ROOT, "tests", "consumers", name), copy)
    return copy


def installed(folder):
    prefix = os.path.join(folder, "opt", "quorlock")
    run("ffi-c/install.sh", PREFIX=prefix, BUILT=BUILT)
    return prefix


def held(text):
    if "held with quorlock" not in text:
        raise Failure(text)


@check
def consumer_pkg_config():
    with tempfile.TemporaryDirectory() as folder:
        prefix, source = installed(folder), consumer(folder, "c-pkgconfig")
        # Moved after it was installed: its files hold no absolute path.
        prefix = shutil.move(prefix, os.path.join(folder, "elsewhere"))
        path = {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
        flags = run("pkg-config", "--cflags", "--libs", "quorlock >= 0.1", **path).split()
        run("cc", *WARNINGS, "main.c", "-o", "shared", *flags, f"-Wl,-rpath,{prefix}/lib", cwd=source)
        held(on_stage(os.path.join(source, "shared")))
        archive = run("pkg-config", "--variable=archive", "quorlock", **path).strip()
        private = run("pkg-config", "--static", "--libs-only-l", "quorlock", **path).split()
        cflags = run("pkg-config", "--cflags", "quorlock", **path).split()
        run("cc", *WARNINGS, "main.c", "-o", "static", *cflags, archive,
            *(flag for flag in private if flag != "-lquorlock"), cwd=source)
        flags = run("pkg-config", "--static", "--cflags", "--libs", "quorlock", **path).split()
        run("cc", *WARNINGS, "-static", "main.c", "-o", "wholly-static", *flags, cwd=source)
        held(on_stage(os.path.join(source, "wholly-static")))
        if "libquorlock" in run("ldd", os.path.join(source, "static")):
            raise Failure("it is not static")
        held(on_stage(os.path.join(source, "static")))


@check
def consumer_cmake():
    with tempfile.TemporaryDirectory() as folder:
        prefix, source = installed(folder), consumer(folder, "c-cmake")
        # Moved after it was installed: its files hold no absolute path.
        moved = os.path.join(folder, "elsewhere")
        os.rename(prefix, moved)
        run("cmake", "-S", source, "-B", f"{source}/build", f"-DCMAKE_PREFIX_PATH={moved}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", f"{source}/build")
        for kind in ("shared", "static"):
            program = os.path.join(source, "build", f"consumer-{kind}")
            if ("libquorlock.so.0" in run("ldd", program)) != (kind == "shared"):
                raise Failure(f"{kind} is not")
            held(on_stage(program))


@check
def consumer_destdir():
    with tempfile.TemporaryDirectory() as folder:
        run("ffi-c/install.sh", PREFIX="/usr", LIBDIR="/usr/lib64", DESTDIR=folder, BUILT=BUILT)
        files = sorted(os.path.relpath(os.path.join(where, name), folder)
                       for where, _, names in os.walk(folder) for name in names)
        version = run("pkg-config", "--modversion", "quorlock", PKG_CONFIG_PATH=f"{folder}/usr/lib64/pkgconfig").strip()
        lib = "usr/lib64"
        wanted = ["usr/include/quorlock.h", "usr/include/quorlock.hpp", f"{lib}/cmake/quorlock/quorlock-config-version.cmake",
                  f"{lib}/cmake/quorlock/quorlock-config.cmake", f"{lib}/libquorlock.a", f"{lib}/libquorlock.so",
                  f"{lib}/libquorlock.so.0", f"{lib}/libquorlock.so.{version}", f"{lib}/pkgconfig/quorlock.pc",
                  "usr/share/quorlock/tsan.supp", "usr/share/quorlock/valgrind.supp"]
        if files != wanted:
            raise Failure(f"installed {files}")
        where = {"PKG_CONFIG_PATH": f"{folder}/usr/lib64/pkgconfig", "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}
        for variable, leads_to in (("prefix", "usr"), ("libdir", lib), ("includedir", "usr/include"),
                                   ("suppressions", "usr/share/quorlock")):
            path = run("pkg-config", f"--variable={variable}", "quorlock", **where).strip()
            if not os.path.samefile(path, os.path.join(folder, leads_to)):
                raise Failure(f"{variable} is {path}")
        for name in files:
            if name.endswith((".pc", ".cmake")):
                text = open(os.path.join(folder, name)).read()
                if folder in text or "=/" in text or "@" in text:
                    raise Failure(f"{name}:\n{text}")
