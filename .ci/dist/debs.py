"""Debian's packages: `libquorlock0`, `libquorlock-dev` and `quorlock`, by dpkg-deb."""

import gzip
import pathlib
import shutil
import subprocess
from email.utils import formatdate

MAINTAINER = "The Quorlock authors <quorlock@localhost>"
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: quorlock

Files: *
Copyright: 2026 The Quorlock authors
License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
"""
LIBRARY = """\
 A lock is won by the votes of a majority of independent Redis or Valkey servers
 (Redlock), renewed while it is held, and lost loudly. Waiters are served in the
 order of their coming, and each hold has a fence that grows.
"""
# What Debian's own tool would call an error, and why it is none.
OVERRIDES = """\
# The project has no host for mail.
{name}: bogus-mail-host *
{name}: bogus-mail-host-in-debian-changelog *
# It is not uploaded to Debian.
{name}: initial-upload-closes-no-bugs *
"""
STATIC = """\
# One file that runs on any Debian.
quorlock: statically-linked-binary *
"""
PACKAGES = {
    "libquorlock0": ("libs", "distributed lock over Redis or Valkey - shared library", LIBRARY +
                     " .\n This package has the library that programs in C and C++ are linked to.\n",
                     "Multi-Arch: same\nDepends: libc6 (>= 2.17), libgcc-s1 (>= 4.2)\n"),
    "libquorlock-dev": ("libdevel", "distributed lock over Redis or Valkey - development files", LIBRARY +
                        " .\n This package has the headers, the static library, and files for pkg-config\n and CMake.\n",
                        "Multi-Arch: same\nDepends: libquorlock0 (= @VERSION@), libc6-dev\n"),
    "quorlock": ("utils", "run a command under a distributed lock", LIBRARY +
                 " .\n This package has the command: it runs a program under such a lock, from a\n"
                 " shell or from cron, tells who holds one, and looks after the servers.\n",
                 ""),
}


TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


def make(dist, word, tree, share, command):
    """Packs `tree`, an installation of the C library in /usr, and the command with what is in `share`."""
    version = f"{dist.version}-1"
    for name, (section, summary, text, more) in PACKAGES.items():
        place = dist.out / "debs" / f"{name}-{word}"
        shutil.rmtree(place, ignore_errors=True)
        if name == "quorlock":
            copy(command, place / "usr" / "bin" / "quorlock", 0o755)
            for page in (share / "man" / "man1").iterdir():
                packed(place / "usr/share/man/man1" / f"{page.name}.gz", page.read_bytes())
            for folder in ("bash-completion", "zsh", "fish"):
                for file in (file for file in (share / folder).rglob("*") if file.is_file()):
                    where = file.relative_to(share)
                    # Debian's zsh looks elsewhere for what comes with the system.
                    where = pathlib.Path("zsh/vendor-completions/_quorlock") if folder == "zsh" else where
                    copy(file, place / "usr/share" / where)
        else:
            for file in (file for file in tree.rglob("*") if not file.is_dir() or file.is_symlink()):
                if (".so." in file.name) == (name == "libquorlock0"):
                    copy(file, place / file.relative_to(tree), 0o644)
        documents = place / "usr/share/doc" / name
        documents.mkdir(parents=True)
        (documents / "copyright").write_text(COPYRIGHT)
        told = f"quorlock ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n"
        packed(documents / "changelog.Debian.gz", f"{told} -- {MAINTAINER}  {formatdate(int(dist.epoch))}\n".encode())
        overrides = place / "usr/share/lintian/overrides" / name
        overrides.parent.mkdir(parents=True)
        overrides.write_text(OVERRIDES.format(name=name) + (STATIC if name == "quorlock" else ""))
        control = place / "DEBIAN"
        control.mkdir()
        if name == "libquorlock0":
            (control / "shlibs").write_text(f"libquorlock 0 libquorlock0 (>= {dist.version})\n")
            (control / "triggers").write_text("activate-noawait ldconfig\n")
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file() and not file.is_symlink()) // 1024
        (control / "control").write_text(
            f"Package: {name}\nSource: quorlock\nVersion: {version}\nArchitecture: {word}\nMaintainer: {MAINTAINER}\n"
            f"Installed-Size: {size}\nSection: {section}\nPriority: optional\n{more.replace('@VERSION@', version)}"
            f"Description: {summary}\n{text}")
        sums = sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink() and control not in file.parents)
        lines = subprocess.check_output(["md5sum", *(file.relative_to(place) for file in sums)], cwd=place, text=True)
        (control / "md5sums").write_text(lines)
        for path in [place, *place.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        dist.run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", place, dist.files / f"{name}_{version}_{word}.deb")


def copy(file, to, mode=0o644):
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to, follow_symlinks=False)
    if not to.is_symlink():
        to.chmod(mode)


def packed(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content, 9, mtime=0))
