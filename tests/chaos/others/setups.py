"""The libraries, where they come from and at which versions, how they are set up, and the servers that they are given."""

import base64
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass

from stage import Stage

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
INTEROP = ROOT / "tests" / "interop"
OUT = ROOT / "target" / "others"
GO, ETCD = OUT / "go" / "worker", OUT / "go" / "etcd"
RUST = OUT / "rust" / "release" / "quorlock-others"
ETCD_MEMBERS = 3
ETCD_SECONDS = 30.0
START_POLL_SECONDS = 0.05


def _interop():
    """The pins of tests/interop and what gets them; as a module of another name, for there are several `libraries`."""
    path = INTEROP / "libraries.py"
    spec = importlib.util.spec_from_file_location("interop_libraries", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


interop = _interop()

UNLOCKED = "unlocked"


@dataclass(frozen=True)
class Library:
    # Its word, here and for its worker.
    name: str
    title: str
    language: str
    # `one` server, or `five`, or `etcd`.
    servers: str
    # The lock on a server; of etcd what its keys begin with.
    key: str
    # Where its version is pinned.
    package: str = ""
    # How it is set up, and which of its README's ways is taken, in the page's words.
    setup: str = ""
    # What its library tells before the write; empty: nothing.
    look: str = ""
    fence: str = ""
    # The word for the worker where fences are compared, if it is another lock then.
    fenced: str = ""

    def version(self):
        return PINS[self.language](self.package) if self.package else ""

    def command(self, fenced=False):
        word = self.fenced if fenced and self.fenced else self.name
        return [str(part) for part in COMMANDS[self.language]] + [word]


LIBRARIES = {library.name: library for library in (
    Library(UNLOCKED, "no lock at all", "ours", "none", ""),
    Library("quorlock", "**Quorlock**", "ours", "five", "lock:{ledger}", setup="`Client(nodes, ttl, max_ttl)`, `acquire`, `release`",
            look="`is_held()`", fence="`fence`"),
    Library("quorlock-unasked", "**Quorlock**, not asked before the write", "ours", "five", "lock:{ledger}", setup="the same", fence="`fence`"),
    Library("quorlock-one", "**Quorlock**, one server", "ours", "one", "lock:{ledger}", setup="the same", look="`is_held()`", fence="`fence`"),
    Library("redis-py", "redis-py `Lock`", "python", "one", "ledger", "redis", "`lock(name, timeout)`"),
    Library("python-redis-lock", "python-redis-lock", "python", "one", "lock:ledger", "python-redis-lock", "`expire`, `auto_renewal=True`"),
    Library("redis-semaphore", "redis-semaphore `Mutex`", "node", "one", "mutex:ledger", "redis-semaphore", "`lockTimeout`", "`isAcquired`"),
    Library("rueidislock", "rueidislock", "go", "one", "rueidislock:0:ledger", "github.com/redis/rueidis",
            "`KeyMajority: 1`, `NoLoopTracking`, `KeyValidity`", "its `ctx`"),
    Library("redisson", "Redisson `RLock`", "java", "one", "ledger", "redisson", "`lock()`, `lockWatchdogTimeout`",
            fence="`RFencedLock`", fenced="redisson-fenced"),
    Library("redlock-py", "redlock-py", "python", "five", "ledger", "redlock-py", "`lock(name, ttl)`, again while it is `False`"),
    Library("pottery", "pottery `Redlock`", "python", "five", "redlock:ledger", "pottery", "`Redlock(key, masters, auto_release_time)` anew each time"),
    Library("redlock5", "node-redlock 5", "node", "five", "ledger", "redlock5", "`using`, with the settings of its README", "`signal.aborted`"),
    Library("redis-semaphore-redlock", "redis-semaphore `RedlockMutex`", "node", "five", "mutex:ledger", "redis-semaphore", "`lockTimeout`", "`isAcquired`"),
    Library("redsync", "redsync", "go", "five", "ledger", "github.com/go-redsync/redsync/v4", "`WithExpiry`, `Lock`, `Unlock`"),
    Library("rslock", "rslock", "rust", "five", "ledger", "rslock", "`acquire`, `release`"),
    Library("etcd", "etcd, `concurrency.Mutex`", "go", "etcd", "/ledger/", "go.etcd.io/etcd/client/v3", "`NewSession(WithTTL)`, three members on a disk",
            "`Done()` of the session", "the revision"),
)}

COMMANDS = {
    "ours": [sys.executable, HERE / "worker.py"],
    "python": [interop.PYTHON, HERE / "worker.py"],
    "node": ["node", HERE / "worker.cjs", interop.OUT / "node"],
    "go": [GO],
    "rust": [RUST],
    "java": ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{OUT / 'java' / 'classes'}:{OUT / 'java' / 'lib'}/*", "Worker"],
}
PINS = {
    "python": lambda name: re.search(rf"^{re.escape(name)}==(\S+)$", (INTEROP / "requirements.txt").read_text(), re.M)[1],
    "node": lambda name: json.loads((INTEROP / "node" / "package-lock.json").read_text())["packages"][f"node_modules/{name}"]["version"],
    "go": lambda name: re.search(rf"^\s*{re.escape(name)} v(\S+)", (HERE / "go" / "go.mod").read_text(), re.M)[1],
    "rust": lambda name: re.search(rf'^name = "{re.escape(name)}"\nversion = "(.*)"$', (HERE / "rust" / "Cargo.lock").read_text(), re.M)[1],
    "java": lambda name: re.search(rf"<artifactId>{re.escape(name)}</artifactId>\s*<version>(.*)</version>", (HERE / "java" / "pom.xml").read_text())[1],
}


def get(language):
    """Gets a language's libraries from their registries, and builds the worker."""
    if language in ("python", "node"):
        {"python": interop.python, "node": interop.node}[language]()
    elif language == "go":
        for out, what in ((GO, "."), (ETCD, "go.etcd.io/etcd/server/v3")):
            interop.call("go", "build", "-mod=readonly", "-trimpath", "-o", out, what, cwd=HERE / "go")
    elif language == "rust":
        interop.call(os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "--quiet", "--manifest-path", HERE / "rust" / "Cargo.toml",
                     "--target-dir", RUST.parents[1])
    elif language == "java":
        interop.call("mvn", "--batch-mode", "--quiet", "--file", HERE / "java" / "pom.xml", "compile", "dependency:copy-dependencies")


class Servers:
    """The servers of the stage that a library is given, as faults see them."""

    def __init__(self, library, fault):
        self._library = library
        self.replicated = "replicas" in fault.on
        more = {"replicas": 2, "sentinels": 3} if self.replicated else {"clocks": fault.clocks}
        self.stage = Stage(5 if library.servers == "five" else 1, declare=False, **more)
        self.numbers = list(range(1, len(self.stage) + 1))
        if library.name.startswith("quorlock"):
            self.stage.declare(max_ttl=fault.ttl)
        self.about = "redis-server " + re.search(rb"redis_version:(\S+)", self.stage.redis(1, "INFO", "server"))[1].decode()

    def environment(self):
        [url, *_] = urls = self.stage.urls()
        if not self.replicated:
            return {"NODES": ",".join(urls)}
        hosts, master = re.fullmatch(r"redis\+sentinel://(.*)/(\w+)", url).groups()
        return {"NODES": url, "SENTINELS": hosts.replace(";", ","), "MASTER": master}

    def holders(self):
        """The numbers of the servers that have the lock."""
        return [number for number in self.stage.running() if self.stage.redis(number, "EXISTS", self._library.key)]

    @contextlib.contextmanager
    def stopped(self, *numbers):
        self.stage.stop(*numbers)
        try:
            yield
        finally:
            self.stage.cont(*numbers)

    @contextlib.contextmanager
    def full(self, *numbers):
        """These have no memory left: they refuse what needs some, at once, and keep what they have."""
        for number in numbers:
            self.stage.redis(number, "CONFIG", "SET", "maxmemory", "1")
        try:
            yield
        finally:
            for number in numbers:
                self.stage.redis(number, "CONFIG", "SET", "maxmemory", "0")

    def restart(self, number):
        self.stage.restart(number)

    def close(self):
        self.stage.close()


class NoServers:
    """What no lock at all needs."""

    numbers, about = [], ""

    def environment(self):
        return {"NODES": ""}

    def close(self):
        pass


class Etcd:
    """Three members on this machine, each with a folder of its own, which a restart keeps."""

    def __init__(self, folder):
        self._folder, self._processes = folder, {}
        # Held until all are known, so that no port is named twice.
        self.numbers = list(range(1, ETCD_MEMBERS + 1))
        self._ports = self._free(2 * ETCD_MEMBERS)
        self.about = "etcd " + re.search(r"etcd Version: (\S+)", subprocess.check_output([ETCD, "--version"], text=True))[1]
        try:
            for number in self.numbers:
                self._start(number)
            self._leader()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _free(count):
        import socket

        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            return [one.getsockname()[1] for one in sockets]

    def _client(self, number):
        return f"http://127.0.0.1:{self._ports[number - 1]}"

    def _peer(self, number):
        return f"http://127.0.0.1:{self._ports[ETCD_MEMBERS + number - 1]}"

    def _start(self, number):
        words = ["--name", f"m{number}", "--data-dir", os.path.join(self._folder, f"etcd{number}"), "--listen-client-urls", self._client(number),
                 "--advertise-client-urls", self._client(number), "--listen-peer-urls", self._peer(number),
                 "--initial-advertise-peer-urls", self._peer(number), "--initial-cluster",
                 ",".join(f"m{one}={self._peer(one)}" for one in self.numbers)]
        with open(os.path.join(self._folder, f"etcd{number}.log"), "ab") as log:
            self._processes[number] = subprocess.Popen([ETCD, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _ask(self, number, path, **words):
        request = urllib.request.Request(self._client(number) + path, json.dumps(words).encode())
        with urllib.request.urlopen(request, timeout=1) as said:
            return json.load(said)

    def _leader(self):
        """The number of the member that leads, by the word of one that answers."""
        end = time.monotonic() + ETCD_SECONDS
        while time.monotonic() < end:
            for number in self.numbers:
                with contextlib.suppress(OSError, ValueError, KeyError):
                    said = self._ask(number, "/v3/maintenance/status")
                    if said["leader"] == said["header"]["member_id"]:
                        return number
            time.sleep(START_POLL_SECONDS)
        raise RuntimeError("no member of etcd leads")

    def environment(self):
        return {"NODES": ",".join(self._client(number) for number in self.numbers)}

    def holders(self):
        """The member that leads, if a key of the lock is there."""
        leader, key = self._leader(), b"/ledger/"
        end = key[:-1] + bytes([key[-1] + 1])
        said = self._ask(leader, "/v3/kv/range", key=base64.b64encode(key).decode(), range_end=base64.b64encode(end).decode())
        return [leader] if int(said.get("count", 0)) else []

    @contextlib.contextmanager
    def stopped(self, *numbers):
        for number in numbers:
            self._processes[number].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for number in numbers:
                self._processes[number].send_signal(signal.SIGCONT)

    def restart(self, number):
        self._processes[number].kill()
        self._processes[number].wait()
        self._start(number)

    def close(self):
        for process in self._processes.values():
            process.kill()
            process.wait()


def servers(library, fault, folder):
    if library.servers == "none":
        return NoServers()
    return Etcd(folder) if library.servers == "etcd" else Servers(library, fault)
