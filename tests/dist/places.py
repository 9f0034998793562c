"""Empty places, in which nothing of this machine is: trees of Debian, and what runs a program in one.

Where the processor is this machine's a tree is a root of its own (chroot). Where it is not, qemu-user runs its programs and
looks for libraries there. Trees are kept in target/dist-places: only the first run fetches them.
"""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "dist-places"
DEBIAN = {"amd64": "x86_64", "arm64": "aarch64"}


def run(*command, status=0, **more):
    """What the command printed; it fails with that if it ends with another status."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="backslashreplace", timeout=900, **more)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


class Debian:
    """A tree of a Debian of this suite and processor, with these packages."""

    def __init__(self, suite, word, packages=()):
        self.place = KEPT / "-".join([suite, word, *sorted(packages)])
        self.suite, self.word, self.packages = suite, word, packages
        self.native = DEBIAN[word] == os.uname().machine

    def laid(self):
        if not (self.place / "laid").exists():
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
            include = [f"--include={','.join(self.packages)}"] if self.packages else []
            words = [f"--arch={self.word}", "--variant=minbase", *include]
            if self.native:
                run("debootstrap", *words, self.suite, self.place)
            else:
                # The packages' own programs cannot be run as if they were ours: it is enough to unpack them.
                run("debootstrap", *words, "--download-only", self.suite, self.place)
                for package in sorted((self.place / "var/cache/apt/archives").glob("*.deb")):
                    run("dpkg-deb", "--extract", package, self.place)
            (self.place / "laid").touch()
        return self

    def holding(self, name, *sources):
        """A new folder there with copies of these, or with what is in them if they are archives."""
        folder = self.place / "opt" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for source in sources:
            if source.name.endswith((".whl", ".tgz", ".tar.gz", ".deb")):
                unpack(source, folder)
            else:
                shutil.copy(source, folder)
        return folder

    def run(self, program, *words, env=(), **more):
        """Runs a program of the tree. Words that are paths in it are told as they are there."""
        words = [self.inside(word) for word in words]
        told = [f"{name}={self.inside(value)}" for name, value in dict(env).items()]
        if self.native:
            return run("chroot", self.place, "env", "-i", f"QUORLOCK_NODES={os.environ['QUORLOCK_NODES']}",
                       "PATH=/usr/bin:/bin:/usr/sbin", *told, self.inside(program), *words, **more)
        sets = [word for variable in told for word in ("-E", variable)]
        return run(f"qemu-{DEBIAN[self.word]}-static", "-L", self.place, *sets, self.place / str(program).lstrip("/")
                   if not isinstance(program, pathlib.Path) else program, *words, **more)

    def inside(self, word):
        if not isinstance(word, pathlib.Path):
            return word
        # qemu finds in the tree what is not to be found outside it.
        return f"/{word.relative_to(self.place)}" if self.native else str(word)


def unpack(archive, folder):
    if archive.suffix == ".whl":
        shutil.unpack_archive(archive, folder, "zip")
    elif archive.suffix == ".deb":
        run("dpkg-deb", "--extract", archive, folder)
    else:
        run("tar", "--extract", "--file", archive, "--directory", folder)
    return folder
