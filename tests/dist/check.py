#!/usr/bin/env python3
"""Installs what `make dist` has made in empty places, runs one lock there on real servers, and looks at it with the registries'
own tools: `make dist-check`.

    tests/dist/check.py [--files target/packages/files] [--again target/packages-again/files] [CHECK...]

As root, for a tree of another Debian is entered by chroot. `--again`: a second build, which must be the same, byte by byte.
"""

import argparse
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from places import DEBIAN, KEPT, Debian, run, unpack  # noqa: E402
from stage import Stage, ensure_server  # noqa: E402

TOOLS = ROOT / "target" / "dist-tools"
MACHINE = os.uname().machine
NODE_ARCH = {"x86_64": "x64", "aarch64": "arm64"}
# Debians whose Python and Node are no older than ours must be: the oldest such, and the newest.
PYTHONS, NODES = ("bookworm", "sid"), ("sid",)
ANY = ("bullseye", "sid")
HELD = re.compile(r"^held with fence \d+$", re.M)
MOST_PACKED = 3_000_000
CHECKS = {}


def check(function):
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


class Files:
    def __init__(self, folder):
        self.folder = folder

    def one(self, pattern):
        [file] = self.folder.glob(pattern)
        return file

    def of_this_machine(self, pattern):
        return self.one(pattern.format("native" if self.is_native() else f"{MACHINE}-linux-gnu"))

    def is_native(self):
        return any(self.folder.glob("quorlock-c-*-native.tar.gz"))


def held(said):
    if not HELD.search(said):
        raise AssertionError(f"no lock was held: {said[-2000:]}")


def zig(triple, source, output, *flags):
    target = triple + (".2.17" if triple.endswith("gnu") else "")
    run(TOOLS / "bin" / "python", "-m", "ziglang", "cc", "-target", target, "-o", output, source, *flags)
    return output


# ---- on this machine, in empty folders ----

@check
def here_a_wheel(files):
    """By pip, in an environment of this machine's Python, with nothing else to be had."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        run(f"{folder}/bin/pip", "install", "--quiet", "--no-index", files.one(f"*manylinux*_{MACHINE}.whl"))
        held(run(f"{folder}/bin/python", HERE / "lock/lock.py", cwd=folder))
        held(run(f"{folder}/bin/quorlock", "run", "dist", "--", "echo", "held with fence", "1"))
        for page in ("share/man/man1/quorlock.1", "share/bash-completion/completions/quorlock"):
            if not os.path.getsize(f"{folder}/{page}"):
                raise AssertionError(f"{page} is empty")


@check
def here_npm(files):
    with tempfile.TemporaryDirectory() as folder:
        packages = files.one("quorlock-[0-9]*.tgz"), files.one("quorlock-cli-*.tgz")
        run("npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", *packages, cwd=folder)
        shutil.copy(HERE / "lock/lock.mjs", folder)
        held(run("node", "lock.mjs", cwd=folder))
        held(run("node_modules/.bin/quorlock", "run", "dist", "--", "echo", "held with fence", "1", cwd=folder))
        failed = subprocess.run(["node_modules/.bin/quorlock", "run", "dist", "--", "false"], cwd=folder, capture_output=True)
        if failed.returncode != 1:
            raise AssertionError(f"false ended with {failed.returncode}: {failed.stderr}")


@check
def here_c(files):
    """pkg-config finds it wherever it was unpacked."""
    with tempfile.TemporaryDirectory() as folder:
        [tree] = unpack(files.of_this_machine("quorlock-c-*-{}.tar.gz"), pathlib.Path(folder)).iterdir()
        if b".llvmbc" in (tree / "lib" / "libquorlock.a").read_bytes():
            raise AssertionError("the archive has code of the compiler's own")
        flags = run("pkg-config", "--cflags", "--libs", "quorlock", env={**os.environ, "PKG_CONFIG_PATH": f"{tree}/lib/pkgconfig"})
        run("cc", "-o", f"{folder}/lock", HERE / "lock/lock.c", *flags.split(), f"-Wl,-rpath,{tree}/lib")
        held(run(f"{folder}/lock"))


@check
def here_debs(files):
    """Unpacked, and not installed: the command in one runs, and a program is linked to the libraries in the others."""
    word = {arch: word for word, arch in DEBIAN.items()}[MACHINE]
    with tempfile.TemporaryDirectory() as folder:
        for package in files.folder.glob(f"*_{word}.deb"):
            unpack(package, pathlib.Path(folder))
        held(run(f"{folder}/usr/bin/quorlock", "run", "dist", "--", "echo", "held with fence", "1"))
        libraries = f"{folder}/usr/lib/{MACHINE}-linux-gnu"
        run("cc", "-o", f"{folder}/lock", HERE / "lock/lock.c", f"-I{folder}/usr/include", f"-L{libraries}", "-lquorlock",
            f"-Wl,-rpath,{libraries}")
        held(run(f"{folder}/lock"))


# ---- in empty places ----

@check
def wheels(files):
    for word, arch in DEBIAN.items():
        for suite in PYTHONS:
            there = Debian(suite, word, ["python3"]).laid()
            folder = there.holding("wheel", files.one(f"*manylinux_2_17_{arch}*.whl"), HERE / "lock/lock.py")
            held(there.run("/usr/bin/python3", folder / "lock.py", env={"PYTHONPATH": folder}))


@check
def wheels_for_musl(files):
    """There is no Python of musl to be had from Debian: its loader loads the module, beside stand-ins of what Python has."""
    for word, arch in DEBIAN.items():
        there = Debian("sid", word, ["musl"]).laid()
        folder = there.holding("musl-wheel", files.one(f"*musllinux_1_2_{arch}*.whl"))
        module = folder / "quorlock" / "_native.abi3.so"
        names = run("readelf", "--wide", "--dyn-syms", module)
        wanted = sorted(set(re.findall(r" UND (_?Py\w+)", names)))
        stubs = folder / "python.c"
        stubs.write_text("".join(f"char {name}[64];\n" for name in wanted))
        zig(f"{arch}-linux-musl", stubs, folder / "libpython.so", "-shared")
        loads = folder / "loads.c"
        loads.write_text("""
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    if (count < 3 || !dlopen(words[1], RTLD_NOW | RTLD_GLOBAL)) return puts(dlerror()), 1;
    void *module = dlopen(words[2], RTLD_NOW);
    if (!module || !dlsym(module, "PyInit__native")) return puts(dlerror()), 1;
    return puts("held with fence 0"), 0;
}
""")
        program = zig(f"{arch}-linux-musl", loads, folder / "loads", "-dynamic")
        held(there.run(loader(there, arch), program, folder / "libpython.so", module))


def loader(there, arch):
    [found] = [path for place in ("lib", "usr/lib") for path in (there.place / place).glob(f"ld-musl-{arch}.so.1")][:1]
    return found if not there.native else f"/{found.relative_to(there.place)}"


@check
def sdist(files):
    """Everything is in it that it is built from: pip builds and installs it."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        run(f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", files.one("quorlock-[0-9]*.tar.gz"),
            env={**os.environ, "CARGO_TARGET_DIR": f"{folder}/target"})
        held(run(f"{folder}/bin/python", HERE / "lock/lock.py", cwd=folder))


@check
def crates(files):
    """The command is built from its crate, with the core's crate in place of the registry's, and holds a lock."""
    with tempfile.TemporaryDirectory() as folder:
        core, command = (unpack(files.one(f"{name}-[0-9]*.crate"), pathlib.Path(folder)) / files.one(f"{name}-[0-9]*.crate").stem
                         for name in ("quorlock", "quorlock-cli"))
        run("cargo", "install", "--quiet", "--path", command, "--root", folder, "--target-dir", f"{folder}/target",
            "--config", f'patch.crates-io.quorlock.path="{core}"')
        held(run(f"{folder}/bin/quorlock", "run", "dist", "--", "echo", "held with fence", "1"))


@check
def npm(files):
    package = files.one("quorlock-[0-9]*.tgz")
    for word, arch in DEBIAN.items():
        for suite in NODES:
            there = Debian(suite, word, ["nodejs"]).laid()
            folder = there.holding("node", HERE / "lock/lock.mjs")
            (folder / "node_modules").mkdir()
            unpack(package, folder / "node_modules").joinpath("package").rename(folder / "node_modules" / "quorlock")
            held(there.run("/usr/bin/node", folder / "lock.mjs"))


@check
def commands(files):
    for word, arch in DEBIAN.items():
        for suite in ANY:
            there = Debian(suite, word).laid()
            folder = there.holding("command", files.one(f"quorlock-[0-9]*-{arch}-linux"))
            [program] = folder.iterdir()
            program.chmod(0o755)
            if there.native:
                held(there.run(program, "run", "dist", "--", "echo", "held with fence", "1"))
            else:
                # Under qemu a program that starts others would start them without it. Status 3: the lock is free.
                said = there.run(program, "inspect", "dist", status=3)
                if said.count("free, 0 ms left") != 3:
                    raise AssertionError(said)


@check
def c(files):
    for word, arch in DEBIAN.items():
        for suite in ANY:
            there = Debian(suite, word).laid()
            folder = there.holding("c", files.one(f"quorlock-c-*-{arch}-linux-gnu.tar.gz"))
            [tree] = folder.iterdir()
            program = zig(f"{arch}-linux-gnu", HERE / "lock/lock.c", folder / "lock", f"-I{tree}/include", f"-L{tree}/lib", "-lquorlock")
            held(there.run(program, env={"LD_LIBRARY_PATH": tree / "lib"}))
        there = Debian("sid", word, ["musl"]).laid()
        folder = there.holding("c-musl", files.one(f"quorlock-c-*-{arch}-linux-musl.tar.gz"))
        [tree] = folder.iterdir()
        words = [f"-I{tree}/include", f"-L{tree}/lib"]
        shared = zig(f"{arch}-linux-musl", HERE / "lock/lock.c", folder / "shared", *words, "-dynamic", "-lquorlock")
        held(there.run(loader(there, arch), shared, env={"LD_LIBRARY_PATH": tree / "lib"}))
        static = zig(f"{arch}-linux-musl", HERE / "lock/lock.c", folder / "static", *words, "-static",
                     tree / "lib/libquorlock.a", "-lunwind")
        held(there.run(static))


@check
def debian_packages(files):
    """Installed by apt in the oldest and the newest Debian, with a program that is compiled there."""
    word = {arch: word for word, arch in DEBIAN.items()}[MACHINE]
    for suite in ANY:
        there = Debian(suite, word, ["gcc", "libc6-dev", "pkg-config"]).laid()
        folder = there.holding("debs", HERE / "lock/lock.c")
        packages = []
        for package in sorted(files.folder.glob(f"*_{word}.deb")):
            shutil.copy(package, folder)
            packages.append(folder / package.name)
        there.run("/usr/bin/dpkg", "--install", *packages)
        flags = there.run("/usr/bin/pkg-config", "--cflags", "--libs", "quorlock")
        there.run("/usr/bin/gcc", "-o", folder / "lock", folder / "lock.c", *flags.split())
        held(there.run(folder / "lock"))
        held(there.run("/usr/bin/quorlock", "run", "dist", "--", "echo", "held with fence", "1"))
        there.run("/usr/bin/dpkg", "--purge", "libquorlock-dev", "libquorlock0", "quorlock")


# ---- by the tools of the registries ----

def tools(*packages):
    run(TOOLS / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


@check
def twine(files):
    tools("twine==7.0.0")
    told = run(TOOLS / "bin" / "twine", "check", "--strict", *files.folder.glob("*.whl"), files.one("quorlock-[0-9]*.tar.gz"))
    if told.count("PASSED") != 5:
        raise AssertionError(told)


@check
def abi3audit(files):
    tools("abi3audit==0.0.26")
    run(TOOLS / "bin" / "abi3audit", "--strict", *files.folder.glob("*.whl"))


@check
def publint(files):
    run("npx", "--yes", "publint@0.3.21", "--strict", files.one("quorlock-[0-9]*.tgz"))


@check
def types(files):
    # As TypeScript resolves since Node has `exports`: what came before knows no subpaths.
    run("npx", "--yes", "@arethetypeswrong/cli@0.18.5", "--profile", "node16", files.one("quorlock-[0-9]*.tgz"))


@check
def packed(files):
    """What is in the npm packages, and nothing else; and how large an addon is, packed."""
    with tarfile.open(files.one("quorlock-[0-9]*.tgz")) as package:
        names = package.getnames()
        addons = [entry for entry in package if entry.name.endswith(".node")]
        sizes = []
        for addon in addons:
            with tempfile.NamedTemporaryFile() as copy:
                copy.write(package.extractfile(addon).read())
                copy.flush()
                sizes.append(len(subprocess.check_output(["gzip", "-9", "-c", copy.name])))
    odd = [name for name in names if not re.match(r"package/(dist/|prebuilds/|README.md$|LICENSE$|package.json$)", name)]
    if odd or len(addons) != 4:
        raise AssertionError(f"in the package: {odd}, {[addon.name for addon in addons]}")
    if max(sizes) > MOST_PACKED:
        raise AssertionError(f"an addon has {sizes} bytes, packed")
    return f"addons of {', '.join(f'{size / 1e6:.2f}' for size in sizes)} MB, packed"


@check
def lintian(files):
    told = run("lintian", "--fail-on", "error", "--tag-display-limit", "0", "--allow-root", *files.folder.glob("*.deb"))
    return f"{told.count(chr(10))} lines"


@check
def workflows(_files):
    binary = TOOLS / "bin" / "actionlint"
    if not binary.exists():
        run("go", "install", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.9", env={**os.environ, "GOBIN": str(binary.parent)})
    run(binary, *(ROOT / ".github" / "workflows").glob("*.yml"))


@check
def sums(files):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=files.folder)


@check
def no_path_of_this_machine(files):
    """What was built where is nobody's business, and would make two builds differ."""
    ours = [str(place).encode() for place in (ROOT, os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")]
    found = [name for name, content in contents(files) if any(place in content for place in ours)]
    if found:
        raise AssertionError(f"paths of this machine are in {', '.join(found)}")


def contents(files):
    """What is in all files that are released, with the name of each."""
    for file in sorted(files.folder.iterdir()):
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as wheel:
                yield from ((f"{file.name}: {name}", wheel.read(name)) for name in wheel.namelist())
        elif file.suffix in (".gz", ".tgz", ".crate", ".deb"):
            packed = subprocess.check_output(["dpkg-deb", "--fsys-tarfile", file]) if file.suffix == ".deb" else file.read_bytes()
            with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
                yield from ((f"{file.name}: {entry.name}", tar.extractfile(entry).read()) for entry in tar if entry.isfile())
        else:
            yield file.name, file.read_bytes()


def same(files, again):
    ours, theirs = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in (files.folder, again))
    differ = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if differ:
        raise AssertionError(f"two builds differ in {differ}")
    return f"{len(ours)} files"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=pathlib.Path, default=ROOT / "target" / "packages" / "files")
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    asked = parser.parse_args()
    files = Files(asked.files.resolve())
    checks = dict(CHECKS)
    if asked.again:
        checks = {"two-builds-are-the-same": lambda files: same(files, asked.again.resolve()), **checks}
    KEPT.mkdir(parents=True, exist_ok=True)
    ensure_server()
    passed = failed = 0
    with Stage(3) as stage:
        os.environ["QUORLOCK_NODES"] = ",".join(stage.urls())
        run(files.one(f"quorlock-[0-9]*-{MACHINE}-linux"), "init", "--force")
        for name, function in checks.items():
            if asked.checks and not any(name.startswith(word) for word in asked.checks):
                continue
            try:
                said = function(files)
            except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as failure:
                failed += 1
                print(f"FAIL {name}\n     " + "\n     ".join(str(failure).splitlines()[-40:]), flush=True)
            else:
                passed += 1
                print(f"ok   {name}" + (f"  ({said})" if said else ""), flush=True)
    for file in sorted(files.folder.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
