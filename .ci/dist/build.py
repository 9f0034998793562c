#!/usr/bin/env python3
"""Makes all that is released, from the last commit, and nothing of this machine is in it: `make dist`.

    .ci/dist/build.py --native
    .ci/dist/build.py [--out target/packages] [--triples x86_64-linux-gnu,…] [--only commands,c,node,python,crates,debs,boms]

Wheels, the sdist, npm's packages, C's tarballs, Debian's packages, the static command, crates, a bill of materials of each
and SHA256SUMS come into OUT/files. Everything is compiled with zig as the C compiler and the linker, so that it needs no
C library newer than glibc 2.17, or musl's. Two runs give the same bytes, in whatever folder. On 2 cores it takes
half an hour and 6 GB.

With --native it packs what `make build` has built for this machine, Linux or macOS, into target/dist-native.
"""

import argparse
import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tomllib

import debs
import materials

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1", "maturin==1.16.0"]
# The folder of the crate whose bill of materials is that of a package.
BOMS = {"cli": "core/cli", "c": "ffi-c", "node": "node", "python": "py", "rust": "core"}
BOM_TOOL = ["cargo-cyclonedx", "--version", "0.5.9"]
RECIPES = ("commands", "c", "node", "python", "crates", "debs", "boms")
# By our name: Rust's target with the oldest glibc, the tag of a wheel, the folder of a prebuild, Debian's word.
TRIPLES = {
    "x86_64-linux-gnu": ("x86_64-unknown-linux-gnu.2.17", "manylinux_2_17", "linux-x64-gnu", "amd64"),
    "aarch64-linux-gnu": ("aarch64-unknown-linux-gnu.2.17", "manylinux_2_17", "linux-arm64-gnu", "arm64"),
    "x86_64-linux-musl": ("x86_64-unknown-linux-musl", "musllinux_1_2", "linux-x64-musl", None),
    "aarch64-linux-musl": ("aarch64-unknown-linux-musl", "musllinux_1_2", "linux-arm64-musl", None),
}
NODES_WORD = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}
NATIVE = "native"


def native():
    """This machine, as another triple."""
    machine = os.uname().machine
    if sys.platform == "darwin":
        return "", "", f"darwin-{NODES_WORD[machine]}", None
    return "", "", f"linux-{NODES_WORD[machine]}-gnu", {"x86_64": "amd64", "aarch64": "arm64"}[machine]


def ending():
    return "dylib" if sys.platform == "darwin" else "so"


class Dist:
    def __init__(self, out, triples):
        self.out, self.triples = out, triples
        self.native = triples == [NATIVE]
        # What `make build` has made is packed as it is, in the profile that it was made in.
        self.profile = os.environ.get("PROFILE", "release") if self.native else "dist"
        self.source, self.files, self.target = out / "src", out / "files", out / "target"
        if self.native:
            self.source, self.target = ROOT, pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
        self.version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        self.epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()
        tools = ROOT / ".venv" if self.native else ROOT / "target" / "dist-tools"
        self.path = f"{tools / 'bin'}:{os.environ['PATH']}"

    def run(self, *command, cwd=None, flags="", **more):
        home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
        # No path of this machine is in what is made.
        rustflags = f"--remap-path-prefix={self.out}=/quorlock --remap-path-prefix={home}=/cargo {flags}"
        cflags = f"-ffile-prefix-map={home}=/cargo -ffile-prefix-map={ROOT / 'target' / 'dist-tools'}=/tools"
        told = {"PATH": self.path}
        # What is built here is not built anew, as it would be if any of that were another.
        if not self.native:
            told |= {"SOURCE_DATE_EPOCH": self.epoch, "LC_ALL": "C.UTF-8", "CARGO_TARGET_DIR": str(self.target),
                     "RUSTFLAGS": rustflags.strip(), "CFLAGS": cflags,
                     "CARGO_INCREMENTAL": "0", "CARGO_ZIGBUILD_CACHE_DIR": str(self.out / "zig")}
        told |= more
        print("+", *command, flush=True)
        # Of each other kind of machine maturin finds out about Python by itself.
        kept = {name: value for name, value in os.environ.items() if self.native or not name.startswith("PYO3_")}
        subprocess.run([str(word) for word in command], cwd=cwd or self.source, check=True, stdin=subprocess.DEVNULL,
                       env=kept | told)

    def export(self):
        """The sources of the last commit, alone in a folder."""
        # Also what another commit was built into: cargo goes by times, and those of an archive are its commit's.
        for folder in (self.files,) if self.native else (self.source, self.files, self.target):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        if self.native:
            return
        archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=ROOT)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(self.source, filter="data")

    def compiled(self, triple, dynamic=True):
        """Where cargo has put what was built for that triple."""
        return self.folder(triple, dynamic) / TRIPLES[triple][0].removesuffix(".2.17") / self.profile

    def folder(self, triple, dynamic):
        if triple == NATIVE:
            return self.target
        # Of musl's there are two kinds of code, which cargo would build over one another.
        return self.target / ("static" if "musl" in triple and not dynamic else "dynamic")

    def build(self, triple, *packages, dynamic=True):
        if self.native:
            return
        packages = [word for package in packages for word in ("-p", package)]
        flags = "-C target-feature=-crt-static" if "musl" in triple and dynamic else ""
        self.run("cargo", "zigbuild", "--target", TRIPLES[triple][0], "--profile", self.profile, "--locked", *packages, flags=flags,
                 CARGO_TARGET_DIR=str(self.folder(triple, dynamic)))

    # ---- what is made ----

    @staticmethod
    def commands_triple(triple):
        """The static command of a kind of processor runs on any Linux, and so it goes into each package of that kind."""
        return triple if triple == NATIVE else f"{triple.split('-')[0]}-linux-musl"

    def command(self, triple):
        return self.compiled(self.commands_triple(triple), dynamic=False) / "quorlock"

    def commands(self):
        for triple in sorted({self.commands_triple(triple) for triple in self.triples}):
            self.build(triple, "quorlock-cli", dynamic=False)
            system = f"{os.uname().machine}-{sys.platform}" if triple == NATIVE else f"{triple.split('-')[0]}-linux"
            shutil.copy(self.command(triple), self.files / f"quorlock-{self.version}-{system}")
            self.stripped(self.files / f"quorlock-{self.version}-{system}")

    def c(self):
        for triple in self.triples:
            self.build(triple, "quorlock-c")
            name = f"quorlock-c-{self.version}-{triple}"
            place = self.installed(triple, self.out / "c" / name, "/", LIBDIR="/lib", INCLUDEDIR="/include")
            documents = place / "share" / "doc" / "quorlock"
            documents.mkdir(parents=True)
            for document in ("ffi-c/README.md", "LICENSE"):
                shutil.copy(self.source / document, documents)
            self.tar(place, self.files / f"{name}.tar.gz")

    def installed(self, triple, place, prefix, **folders):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        self.run("ffi-c/install.sh", PREFIX=prefix, DESTDIR=str(place), BUILT=str(self.compiled(triple)), **folders)
        for library in place.rglob(f"libquorlock*.{ending()}*"):
            if not library.is_symlink():
                self.stripped(library)
        if sys.platform == "linux":
            self.lightened(place.rglob("libquorlock.a"))
        return place

    @staticmethod
    def lightened(archives):
        """Without the code of the compiler's own, which Rust's library brings along, and without lines of sources: a linker takes neither."""
        root = pathlib.Path(subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip())
        [tool] = root.glob("lib/rustlib/*/bin/rust-objcopy")
        for archive in archives:
            subprocess.run([tool, "--strip-debug", "--remove-section=.llvmbc", "--remove-section=.llvmcmd", archive], check=True,
                           env={**os.environ, "LD_LIBRARY_PATH": str(root / "lib")})

    def stripped(self, file):
        """Without names that nobody needs at run time. The linker has done that where it was told to."""
        if self.native:
            subprocess.run(["strip", "-x", file], check=True)
        return file

    def tar(self, folder, file):
        def plain(entry):
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = int(self.epoch)
            return entry

        with open(file, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            for path in [folder, *sorted(folder.rglob("*"))]:
                tar.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)

    def node(self):
        package = self.source / "node"
        if not self.native:
            self.run("npm", "ci", "--loglevel", "error", cwd=package)
        for triple in self.triples:
            self.build(triple, "quorlock-node")
            prebuild = package / "prebuilds" / TRIPLES[triple][2]
            prebuild.mkdir(parents=True, exist_ok=True)
            # Not over the old file: a process that has it mapped would crash.
            shutil.copy(self.compiled(triple) / f"libquorlock_node.{ending()}", prebuild / "new")
            self.stripped(prebuild / "new").rename(prebuild / "quorlock.node")
        # The list of what an ES module exports is asked of the package itself, so its native part is there first.
        self.run("npm", "run", "--silent", "build:js", cwd=package)
        self.run("npm", "pack", "--silent", "--pack-destination", self.files, cwd=package)
        tool = package / "cli"
        for triple in self.triples:
            system, arch = TRIPLES[triple][2].split("-")[:2]
            shutil.copy(self.command(triple), tool / f"quorlock-{system}-{arch}")
            self.stripped(tool / f"quorlock-{system}-{arch}")
        shutil.copy(self.source / "LICENSE", tool)
        self.run("npm", "pack", "--silent", "--pack-destination", self.files, cwd=tool)

    def python(self):
        if not self.native:
            # First: it is made of what was committed, and not of what is put there for wheels.
            self.run("maturin", "sdist", "--manifest-path", "py/Cargo.toml", "--out", self.files)
        self.share()
        for triple in self.triples:
            target, tag, _, _ = TRIPLES[triple]
            shutil.copy(self.command(triple), self.source / "py" / "quorlock.data" / "scripts" / "quorlock")
            flags = "-C target-feature=-crt-static" if "musl" in triple else ""
            words = ["--zig", "--target", target.removesuffix(".2.17"), "--compatibility", tag] if triple != NATIVE else []
            if not self.native:
                words += ["--sbom-include", self.bom("python")]
            self.run("maturin", "build", "--profile", self.profile, "--locked", *words, "--manifest-path", "py/Cargo.toml", "--out", self.files,
                     flags=flags, CARGO_TARGET_DIR=str(self.folder(triple, True)))

    def share(self):
        """The command's pages and completions, as this machine's own kind of it tells them."""
        data = self.source / "py" / "quorlock.data"
        share = data / "data" / "share"
        (data / "scripts").mkdir(parents=True, exist_ok=True)
        native = self.command(NATIVE if NATIVE in self.triples else f"{os.uname().machine}-")
        self.run(native, "man", "--dir", self.folder_of(share / "man" / "man1"))
        for shell, file in (("bash", "bash-completion/completions/quorlock"), ("zsh", "zsh/site-functions/_quorlock"),
                            ("fish", "fish/vendor_completions.d/quorlock.fish")):
            place = self.folder_of((share / file).parent) / (share / file).name
            place.write_bytes(subprocess.check_output([native, "completions", shell]))
        return share

    @staticmethod
    def folder_of(path):
        path.mkdir(parents=True, exist_ok=True)
        return path

    def crates(self):
        # One that users build is compiled by them with what they have: it is only packed.
        self.run("cargo", "package", "--locked", "--no-verify", "-p", "quorlock", "-p", "quorlock-cli")
        for crate in (self.target / "package").glob("*.crate"):
            shutil.copy(crate, self.files)

    def debs(self):
        share = self.share()
        for triple in self.triples:
            word = TRIPLES[triple][3]
            if word is None:
                continue
            place = self.installed(triple, self.out / "debs" / f"tree-{word}", "/usr", LIBDIR=f"/usr/lib/{debs.TRIPLES[word]}")
            debs.make(self, word, place, share, self.command(triple))

    def boms(self):
        for package in BOMS:
            shutil.copy(self.bom(package), self.files)

    def bom(self, package):
        """The bill of materials, as CycloneDX has it, of what a package is linked from."""
        name = f"quorlock-{package}-{self.version}.cdx"
        file = self.source / BOMS[package] / f"{name}.json"
        if not file.exists():
            self.run("cargo", "cyclonedx", "--format", "json", "--manifest-path", file.parent / "Cargo.toml",
                     "--override-filename", name)
            # It names each crate of ours by where that is on this machine.
            file.write_text(file.read_text().replace(str(self.source), "/quorlock"))
            # It leaves one in the folder of each crate of ours that this one needs, too, where crates would be packed with it.
            for other in self.source.rglob(file.name):
                if other != file:
                    other.unlink()
            reasons = materials.wrong(json.loads(file.read_text()), tomllib.loads((self.source / "Cargo.lock").read_text()), self.linked(file.parent))
            if reasons:
                raise SystemExit(f"{file.name}: " + ", ".join(reasons))
        return file

    def linked(self, folder):
        """The crates that are linked into that of a folder, names with versions."""
        tree = ["cargo", "tree", "--locked", "--manifest-path", folder / "Cargo.toml", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
        told = subprocess.check_output(tree, text=True, env=os.environ | {"PATH": self.path})
        return {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, filter(None, told.splitlines()))}

    def sums(self):
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
                for file in sorted(self.files.iterdir()) if file.name != "SHA256SUMS"]
        (self.files / "SHA256SUMS").write_text("".join(sums))


def install_tools(triples, boms):
    tools = ROOT / "target" / "dist-tools"
    if not (tools / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    subprocess.run([tools / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS], check=True)
    targets = [TRIPLES[triple][0].removesuffix(".2.17") for triple in triples]
    subprocess.run(["rustup", "target", "add", *targets], check=True)
    if boms and not (tools / "bin" / "cargo-cyclonedx").exists():
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", tools, *BOM_TOOL], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "packages")
    parser.add_argument("--triples", default=",".join(TRIPLES), help="for these alone")
    parser.add_argument("--only", default=",".join(RECIPES), help="these recipes alone, in this order")
    parser.add_argument("--native", action="store_true", help="for this machine alone, by its own compiler")
    asked = parser.parse_args()
    if asked.native:
        TRIPLES[NATIVE] = native()
        asked.triples, asked.out = NATIVE, ROOT / "target" / "dist-native"
        asked.only = "commands,c,node,python" + (",debs" if sys.platform == "linux" else "")
    triples, recipes = asked.triples.split(","), asked.only.split(",")
    for words, known in ((triples, TRIPLES), (recipes, RECIPES)):
        for word in words:
            if word not in known:
                parser.error(f"{word}: there are {' '.join(known)}")
    if not asked.native:
        (ROOT / "target").mkdir(exist_ok=True)
        # Two builds may be made at once, of which one installs.
        with open(ROOT / "target" / "dist-tools.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            install_tools(triples, {"boms", "python"} & set(recipes))
    dist = Dist(asked.out.resolve(), triples)
    dist.export()
    for recipe in recipes:
        getattr(dist, recipe)()
    dist.sums()
    for file in sorted(dist.files.iterdir()):
        print(f"{file.stat().st_size:>10}  {file.name}")


if __name__ == "__main__":
    main()
