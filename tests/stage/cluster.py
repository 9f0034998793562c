"""Stage: N independent redis-servers that a test may stop, thaw, kill and restart.

    with Stage(5) as stage:
        stage.urls()                 # ["redis://127.0.0.1:…", …]
        stage.stop(2); stage.cont(2); stage.kill(2); stage.start(2)
        stage.redis(1, "SET", "k", "v")
    with Stage(5, clocks=True) as stage:
        stage.clock(1).step(-2.5)
    with Stage(1, replicas=2, sentinels=3) as stage:
        stage.stop("1.replica1")     # the words before mean the server that is the master now; sentinel.py has the places
        stage.kill(1); stage.await_failover(1, 20)

Nodes are numbered from 1. Only processes that the stage itself started are ever signalled.
"""

import atexit
import hashlib
import os
import secrets
import re
import shutil
import tempfile
import threading
import time
from urllib.parse import urlencode

from . import certs, clock
from .install import ensure_server
from .node import UP, Node
from .sentinel import Replicated
from .shards import Clustered

# Every password of a stage begins so: whoever searches output for leaked secrets looks for this word.
SECRET_MARK = "qlsecret"
POLL_SECONDS = 0.01
# Containers often have only 64 MiB there, which files of servers may fill.
MEMORY, MEMORY_BYTES = "/dev/shm", 2**30
# After these a server is not the one that was started; `heal` replaces it.
LASTING = {"CONFIG", "ACL", "REPLICAOF", "SLAVEOF", "DEBUG", "CLIENT"}


def _secret():
    return SECRET_MARK + secrets.token_hex(8)


def _memory():
    """Where files are kept in memory, or None for the usual place.

    The servers of clusters and sentinels write what they know of each other through to the disk before they go on. A disk
    that takes 0.3 s for it makes a cluster pause for longer than leases are valid, and 0.7 s let it never come together.
    """
    if not os.access(MEMORY, os.W_OK):
        return None
    free = os.statvfs(MEMORY)
    return MEMORY if free.f_bavail * free.f_frsize >= MEMORY_BYTES else None


class Stage:
    def __init__(self, n, *, tls=False, client_certs=False, auth=False, permit="", unix=False, options=(), clocks=False,
                 folder=None, cert_folder=None, declare=True, replicas=0, sentinels=0, shards=0):
        if (replicas or sentinels or shards) and (client_certs or unix or clocks):
            raise ValueError("a stage with replicas, sentinels or shards has no client certificates, Unix sockets and clocks of its own")
        ensure_server()
        self._own_folder = folder is None
        self.fails_over = sentinels > 0 or shards > 0
        self.folder = folder or tempfile.mkdtemp(prefix="qlstage", dir=_memory() if self.fails_over else None)
        self.shape = (n, tls or client_certs, client_certs, auth, unix)
        self.certs = None
        if tls or client_certs:
            self.certs = certs.make(cert_folder or os.path.join(self.folder, "certs"))
        self.secrets = {name: _secret() for name in ("default", "quorlock", "wrong", "sentinel")} if auth else None
        self.auth = auth
        library = clock.build(self.folder) if clocks else None
        self._lock = threading.RLock()
        self._touched = set()
        self._nodes = []
        atexit.register(self.close)
        try:
            for number in range(1, n + 1):
                place = os.path.join(self.folder, f"node{number}")
                same = {"tls": self.certs, "secrets": self.secrets, "permit": permit, "options": options}
                if shards:
                    self._nodes.append(Clustered(number, place, shards, replicas, **same))
                elif replicas or sentinels:
                    self._nodes.append(Replicated(number, place, replicas, sentinels, **same))
                else:
                    self._nodes.append(Node(number, place, client_certs=client_certs, unix=unix, clock=library,
                                            **same))
            self._begin(self._nodes, fresh=True)
            if declare:
                self.declare()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        return len(self._nodes)

    @staticmethod
    def _begin(nodes, fresh=False, saved=False):
        for node in nodes:
            node.launch(saved)
        for node in nodes:
            node.ready(fresh)

    def _node(self, number):
        """The node of a number, or the part of one at a place: `1.replica2`."""
        if isinstance(number, str):
            number, _, place = number.partition(".")
            return self._replicated(int(number)).part(place)
        if not 1 <= number <= len(self._nodes):
            raise ValueError(f"no node {number}: there are 1 to {len(self._nodes)}")
        return self._nodes[number - 1]

    def _replicated(self, number):
        node = self._node(number)
        if not isinstance(node, (Replicated, Clustered)):
            raise ValueError(f"node {number} has no replicas")
        return node

    def places(self, word):
        """The places that `1.replicas` or `1.sentinels` is; others are themselves."""
        number, _, place = word.partition(".")
        return [f"{number}.{one}" for one in self._replicated(int(number)).places(place)]

    def stop(self, *numbers):
        """SIGSTOP: the node hangs, its connections stay."""
        self._each(numbers, "stop")

    def cont(self, *numbers):
        self._each(numbers, "cont")

    def kill(self, *numbers):
        """SIGKILL: the node is gone with its data; connections to it are refused."""
        self._each(numbers, "kill")

    def _each(self, numbers, action):
        with self._lock:
            for number in numbers:
                getattr(self._node(number), action)()

    def save(self, *numbers):
        """Keeps what is on the nodes, for `start(…, saved=True)`."""
        self._each(numbers, "save")

    def failover(self, *numbers):
        """By hand: a sentinel is told to promote a replica of the node, though its master is alive."""
        self._each(numbers, "failover")

    def fall_behind(self, *numbers):
        """What is written from now on reaches no replica of the node, until `cont`."""
        self._each(numbers, "fall_behind")

    def await_failover(self, number, seconds):
        """Waits until another server is the node's master than when that was last stopped, killed or failed over."""
        self._replicated(number).await_failover(seconds)

    def join(self, number):
        """Another primary without hash slots joins a cluster."""
        self._replicated(number).join()

    def move(self, step, number, *words):
        """A step of the move of a hash slot of a cluster: `begin_move`, `move_keys`, `end_move`."""
        getattr(self._replicated(number), step)(*words)

    def reshard(self, number, *words):
        """So many hash slots of the server of a cluster that has a key go to another."""
        self._replicated(number).reshard(*words)

    def await_order(self, number, seconds):
        """Waits until all that runs of the node works together, so that it would fail over."""
        self._replicated(number).await_order(seconds)

    def start(self, *numbers, saved=False):
        """Starts dead nodes again on their old ports: empty, or with what was saved of them last."""
        with self._lock:
            dead = [node for node in map(self._node, numbers) if node.down]
            self._touched -= {node.number for node in dead}
            self._begin(dead, saved=saved)

    def restart(self, *numbers):
        self.kill(*numbers)
        self.start(*numbers)

    def clock(self, number):
        """The wall clock of a node of a stage with `clocks`: `step` it, let it `run` too fast."""
        return self._node(number).clock

    def ahead(self, number):
        """How far a node's clock is ahead of ours, by its own word: of several looks the one that nothing held up."""
        looks = []
        for _ in range(5):
            begun = time.time()
            seconds, micros = map(int, self.redis(number, "TIME"))
            ended = time.time()
            looks.append((ended - begun, seconds + micros / 1e6 - (begun + ended) / 2))
        return min(looks)[1]

    def dump(self, number):
        """Where the node saves its data."""
        return self._node(number).dump

    def heal(self):
        """As on the first day, clocks alone excepted: all nodes up and empty, counters at zero, nothing reconfigured."""
        with self._lock:
            everything = range(1, len(self._nodes) + 1)
            self.cont(*everything)
            for node in self._nodes:
                # The roles of servers last, too.
                if node.number in self._touched or isinstance(node, (Replicated, Clustered)) and node.signalled:
                    node.kill_all()
            self.start(*everything)
            for node in self._nodes:
                node.call("FLUSHALL")
                node.call("SCRIPT", "FLUSH")
                node.call("CONFIG", "RESETSTAT")

    def declare(self, numbers=None, *, set_name="default", max_ttl=60_000, namespace="lock:", db=0, guard=None):
        """Writes the record of a new set to its nodes, as `init_set` does (docs/reference/protocol.md, "Record").

        guard: as the clients of the set have it; None: on for three nodes and more, and where nodes fail over, their default.
        """
        numbers = list(numbers or self.running())
        if guard is None:
            guard = len(numbers) >= 3 or self.fails_over
        for number in numbers:
            node = self._node(number)
            whole = isinstance(node, Clustered)
            run = "-" if whole else self._run(node)
            vouched = f"{run} on" if guard else "- off"
            record = f"1 {set_name} 1 {len(numbers)} {max_ttl} node{number:012} {vouched}"
            if whole:
                node.declare(record, namespace, self._run)
                continue
            node.call("SET", namespace + "#node", record, db=db)
            # A client that is closed goes on sending its releases for a while: it may have met the node when that was
            # empty, and have begun a quarantine there.
            node.call("DEL", namespace + "#quarantine", db=db)

    def _run(self, server):
        """What names the server's run in a record: another one after each promotion."""
        said = server.call("INFO")
        run, before = (re.search(rb"^%s:(\w{40})" % name, said, re.MULTILINE)[1] for name in (b"run_id", b"master_replid2"))
        return (run.decode() if not before.strip(b"0") else hashlib.sha1(run + before).hexdigest())[:16]

    def state(self, number):
        return self._node(number).state

    def port(self, number):
        return self._node(number).port

    def running(self):
        """The numbers of the nodes that answer."""
        return [node.number for node in self._nodes if node.state == UP]

    def redis(self, number, *words, db=0):
        """One command on one node, by a client that may do everything."""
        if str(words[0]).upper() in LASTING:
            self._touched.add(int(str(number).partition(".")[0]))
        return self._node(number).call(*words, db=db)

    def keys(self, number, pattern="*", db=0):
        return sorted(self._node(number).call("KEYS", pattern, db=db))

    def locks(self, number, db=0):
        """Keys of locks that are held: neither records nor counters."""
        return [key for key in self.keys(number, db=db) if not key.startswith(b"lock:#")]

    def holders(self, key, db=0):
        """The numbers of the running nodes that have the key."""
        return [number for number in self.running() if self._node(number).call("EXISTS", key, db=db)]

    def await_holders(self, key, count, seconds, db=0):
        """Waits until exactly `count` running nodes have the key; returns who has it at the end."""
        end = time.monotonic() + seconds
        while True:
            holders = self.holders(key, db)
            if len(holders) == count or time.monotonic() >= end:
                return holders
            time.sleep(POLL_SECONDS)

    def counters(self, number):
        """The server's own count of each command, commands inside scripts included."""
        counts = {}
        for line in self._node(number).call("INFO", "commandstats").decode().split():
            name, _, fields = line.partition(":")
            if name.startswith("cmdstat_"):
                name = name[len("cmdstat_"):]
                counts[name] = counts.get(name, 0) + int(fields.split(",")[0].partition("=")[2])
        return counts

    def calls(self, command):
        """How often the running nodes together ran the command."""
        return sum(self.counters(number).get(command, 0) for number in self.running())

    def reset_counters(self):
        for number in self.running():
            self._node(number).call("CONFIG", "RESETSTAT")

    def urls(self, numbers=None, *, via="tcp", user="quorlock", password="right", db=None, master=None):
        """URLs of the nodes; via tcp, tls or unix; password right, wrong or none; another name of the master for sentinels."""
        nodes = self._nodes if numbers is None else [self._node(number) for number in numbers]
        login = self._login(user, password)
        return [node.url(via, login, db, master) if isinstance(node, (Replicated, Clustered)) else self._url(node, via, login, db)
                for node in nodes]

    def _login(self, user, password):
        """User and password for a URL; the default user goes without its name."""
        if not self.auth or password == "none":
            return None, None
        secret = self.secrets["wrong" if password == "wrong" else user]
        return None if user == "default" else user, secret

    @staticmethod
    def _url(node, via, login, db):
        user, password = login
        if via == "unix":
            query = {"user": user, "password": password, "db": db}
            query = urlencode({name: value for name, value in query.items() if value is not None})
            return f"redis+unix://{node.unix}" + ("?" + query if query else "")
        scheme, port = ("rediss", node.tls_port) if via == "tls" else ("redis", node.port)
        before = f"{user or ''}:{password}@" if password else ""
        path = "" if db is None else f"/{db}"
        return f"{scheme}://{before}127.0.0.1:{port}{path}"

    def close(self):
        """Ends every process of the stage and removes its files. May be called again."""
        with self._lock:
            for node in self._nodes:
                node.close()
            self._nodes = []
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)
