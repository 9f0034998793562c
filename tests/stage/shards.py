"""A node that is a cluster: primaries that have the hash slots between them, each with replicas if there are any.

To its stage it is one node: what is done to the node is done to all its servers, and a command goes to the server that serves
its key. Its parts have places: `shard1`, `shard2`… (the server that serves what these served on the first day), `replica1`,
`replica2`… (those that are no primaries now, in the order of their making), `old` (the primary that was last stopped, killed or
failed over), `new` (the primary without hash slots that joined last); `shards`, `replicas` are all of them.
"""

import binascii
import contextlib
import itertools
import os
import re
import time

from .node import DEAD, UP, Node
from .resp import Resp, RespError

ORDER_SECONDS = 30.0
POLL_SECONDS = 0.02
LOOK_SECONDS = 1.0
SLOTS = 16_384
# How long a primary is silent before the others take it for dead. A busy machine is silent for a second.
NODE_TIMEOUT_MS = 2000
PLACE = re.compile(r"(shard|replica)(\d+)")
REDIRECT = re.compile(r"(MOVED|ASK) \d+ (?:\S*):(\d+)")
# What docs/operations/cluster.md adds to the line of what a user may do.
PERMIT = "+cluster|slots +cluster|info +cluster|myid +cluster|nodes +asking"
# What is asked of all servers, and what of it is told.
EVERYWHERE = {"FLUSHALL": all, "SCRIPT": all, "CONFIG": all, "KEYS": list, "DBSIZE": sum, "INFO": bytes}


def hash_slot(key):
    """The hash slot of a key: CRC-16 of its tag, if it has one."""
    key = key if isinstance(key, bytes) else str(key).encode()
    tag = re.search(rb"\{([^}]+)\}", key)
    whole = tag[1] if tag and key.index(b"{") == tag.start() else key
    return binascii.crc_hqx(whole, 0) % SLOTS


def tag(slot):
    """The first number that hashes to a hash slot."""
    return next(number for number in range(10**6) if hash_slot(str(number)) == slot)


class Server(Node):
    """One of the servers."""

    def __init__(self, group, number, folder, **more):
        super().__init__(number, folder, **more)
        self._group = group

    def stop(self):
        self._group.fails(self)
        super().stop()

    def kill(self):
        self._group.fails(self)
        super().kill()

    def _configuration(self):
        lines = [f"cluster-node-timeout {NODE_TIMEOUT_MS}", "cluster-config-file nodes.conf", "cluster-replica-validity-factor 0",
                 "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"]
        if self._secrets:
            lines += ["masteruser default", f"masterauth {self._secrets['default']}"]
        if self._tls:
            lines += ["tls-cluster yes", "tls-replication yes"]
        return super()._configuration() + "\n".join([*lines, ""])

    def launch(self, saved=False):
        self.fresh = not os.path.exists(os.path.join(self.folder, "nodes.conf"))
        super().launch(saved)

    @property
    def named_port(self):
        """That by which the others know it."""
        return self.tls_port or self.port

    def ask(self, *words):
        with self.connect(timeout=LOOK_SECONDS) as connection:
            return connection.call(*words)

    def role(self):
        """What the server says of itself, `master` or `slave`; nothing if it does not answer."""
        try:
            return self.ask("ROLE")[0].decode() if self.state == UP else None
        except (OSError, RespError):
            return None


class Clustered:
    """A cluster of this many primaries, each with this many replicas, as one node of a stage."""

    clock = unix = None

    def __init__(self, number, folder, shards, replicas, *, tls=None, secrets=None, permit="", options=()):
        self.number = number
        os.makedirs(folder, mode=0o700)
        self._folder = folder
        self._more = {"tls": tls, "secrets": secrets, "permit": f"{permit} {PERMIT}", "options": (*options, "cluster-enabled yes")}
        self._shards, self._replicas = shards, replicas
        self._founders = shards * (replicas + 1)
        self.servers = [self._server(place) for place in range(1, self._founders + 1)]
        self._old = self._new = None
        # From where to where hash slots are on their way.
        self._moves = {}

    def _server(self, place):
        return Server(self, self.number, os.path.join(self._folder, f"server{place}"), **self._more)

    # ---- who is who ----

    def first(self, shard):
        """The lowest hash slot that a shard had on the first day; shards count from 1."""
        return (shard - 1) * SLOTS // self._shards

    def serving(self, slot):
        """The server that serves a hash slot, as the first says that takes the cluster for up."""
        for server in self.servers:
            try:
                if server.state == UP and b"cluster_state:ok" in server.ask("CLUSTER", "INFO"):
                    for first, last, (_, port, *_), *_ in server.ask("CLUSTER", "SLOTS"):
                        if first <= slot <= last:
                            return self.at(port)
            except (OSError, RespError):
                pass
        raise RuntimeError(f"node {self.number}: no server knows who serves the hash slot {slot}")

    def at(self, port):
        # Whoever asks without TLS is told the ports without it.
        return next(server for server in self.servers if port in (server.port, server.tls_port))

    def part(self, place):
        """The server of a place."""
        [found] = self.parts(place)
        return found

    def parts(self, place):
        """The servers of a place; several for `shards` and `replicas`."""
        if place == "old" and self._old:
            return [self._old]
        if place == "new" and self._new:
            return [self._new]
        kind, count = PLACE.fullmatch(place).groups() if PLACE.fullmatch(place) else (place.removesuffix("s"), None)
        if kind == "shard":
            wanted = [int(count)] if count else range(1, self._shards + 1)
            return [self.serving(self.first(shard)) for shard in wanted]
        if kind != "replica":
            raise ValueError(f"node {self.number} has no {place}")
        found = [server for server in self.servers if server.role() == "slave"]
        return [found[int(count) - 1]] if count else found

    def places(self, place):
        """The place, or the places of all that it is."""
        if place not in ("shards", "replicas"):
            return [place]
        return [f"{place[:-1]}{count}" for count in range(1, len(self.parts(place)) + 1)]

    # ---- as a node ----

    @property
    def state(self):
        return UP if all(server.state == UP for server in self.servers) else self.servers[0].state

    @property
    def down(self):
        return any(server.down for server in self.servers)

    @property
    def signalled(self):
        return self._old is not None or any(server.signalled for server in self.servers)

    @property
    def port(self):
        return self.servers[0].port

    def connect(self, db=0, timeout=5.0):
        return self.servers[0].connect(db, timeout)

    def call(self, *words, db=0):
        """A command, on the server that serves its key; on all primaries, if it has none."""
        if str(words[0]).upper() == "ACL":
            # Of each server alone.
            return [server.call(*words) for server in self.servers if server.state == UP][0]
        told = EVERYWHERE.get(str(words[0]).upper())
        if told:
            answers = [server.call(*words) for server in self.servers if server.role() == "master"]
            return {list: lambda: sum(answers, []), sum: lambda: sum(answers), bytes: lambda: b"\r\n".join(answers),
                    all: lambda: answers[0]}[told]()
        server, asking = next(server for server in self.servers if server.state == UP), False
        for _ in range(5):
            with server.connect() as connection:
                try:
                    if asking:
                        connection.call("ASKING")
                    return connection.call(*words)
                except RespError as error:
                    redirect = REDIRECT.match(str(error))
                    if not redirect:
                        raise
            asking = redirect[1] == "ASK"
            server = self.at(int(redirect[2]))
        raise RuntimeError(f"node {self.number}: {words[0]} is sent from server to server")

    def launch(self, saved=False):
        """Starts what is dead: all of it as on the first day; a single server as a part of the cluster."""
        if saved:
            raise ValueError("a cluster starts without data")
        if all(server.state == DEAD for server in self.servers):
            self._old = self._new = None
            for server in self.servers[self._founders:]:
                server.close()
            del self.servers[self._founders:]
            for server in self.servers:
                path = os.path.join(server.folder, "nodes.conf")
                if os.path.exists(path):
                    os.remove(path)
        for server in self.servers:
            if server.down:
                server.launch()

    def ready(self, fresh=False):
        new = [server for server in self.servers if server.down]
        for server in new:
            server.ready(fresh)
        if all(server.fresh for server in self.servers) and len(new) == len(self.servers):
            for server in new:
                server.signalled = False
            self._found()

    def _found(self):
        """The servers meet, and are given their hash slots and replicas."""
        for place, server in enumerate(self.servers[:self._shards], 1):
            last = SLOTS if place == self._shards else self.first(place + 1)
            server.call("CLUSTER", "ADDSLOTS", *range(self.first(place), last))
            # Only while it knows no other.
            server.call("CLUSTER", "SET-CONFIG-EPOCH", place)
        self._meet(self.servers[1:])
        for place, server in enumerate(self.servers[self._shards:]):
            followed = self.servers[place % self._shards].call("CLUSTER", "MYID")
            self._await(lambda: server.ask("CLUSTER", "REPLICATE", followed) == b"OK", ORDER_SECONDS, "no replica")
        self.await_order(ORDER_SECONDS)

    def _meet(self, others):
        for other in others:
            self.servers[0].call("CLUSTER", "MEET", "127.0.0.1", other.named_port)
        self._await(lambda: all(len(server.ask("CLUSTER", "NODES").splitlines()) == len(self.servers)
                                for server in self.servers), ORDER_SECONDS, "not all have met")

    def join(self):
        """Another primary joins, which has no hash slots yet."""
        self._new = self._server(len(self.servers) + 1)
        self.servers.append(self._new)
        self._new.launch()
        self._new.ready()
        self._meet([self._new])
        self._await(lambda: b"cluster_state:ok" in self._new.ask("CLUSTER", "INFO"), ORDER_SECONDS, "the new server is not up")
        # Not as on the first day any more.
        self._old = self._old or self._new

    def stop(self):
        for server in self.servers:
            server.stop()

    def cont(self):
        for server in self.servers:
            server.cont()

    def kill(self):
        for server in self.servers:
            server.kill()

    kill_all = kill

    def close(self):
        self.cont()
        for server in self.servers:
            server.close()

    def url(self, via, login, db, master):
        """Of the first two servers, for any knows the others."""
        user, password = login
        before = f"{user or ''}:{password}@" if password else ""
        scheme, port = ("rediss", "tls_port") if via == "tls" else ("redis", "port")
        hosts = ";".join(f"127.0.0.1:{getattr(server, port)}" for server in self.servers[:2])
        return f"{scheme}+cluster://{before}{hosts}" + ("" if db is None else f"/{db}")

    def declare(self, record, namespace, run_of):
        """The record of the set, and the stamps of all shards."""
        node = record.split()[5]
        self.call("SET", namespace + "#node", record)
        for server in self.servers:
            if server.role() == "master":
                id = server.call("CLUSTER", "MYID")
                own = [first for first, _, primary, *_ in server.call("CLUSTER", "SLOTS") if primary[2] == id]
                server.call("SET", f"{namespace}#shard:{{{tag(min(own))}}}", f"{node} {run_of(server)}")
        for mark in self.call("KEYS", namespace + "#quarantine*"):
            self.call("DEL", mark)

    # ---- failovers, and hash slots that move ----

    def failover(self, shard=1):
        """Tells a replica of a shard to take its primary's place, though that is alive."""
        self._old = self.serving(self.first(shard))
        id = self._old.call("CLUSTER", "MYID").decode()
        follows = re.compile(f"myself,slave {id} ")
        said = ((server, server.ask("CLUSTER", "NODES").decode()) for server in self.servers if server.state == UP)
        next(server for server, nodes in said if follows.search(nodes)).call("CLUSTER", "FAILOVER")

    def fall_behind(self):
        """From now on the replicas hear nothing of their primaries, until they are thawed (see `sentinel.py`)."""
        for server in self.servers:
            if server.role() == "slave":
                server.stop()
        primaries = [server for server in self.servers if server.role() == "master"]
        for primary in primaries:
            primary.call("CLIENT", "KILL", "TYPE", "replica")
        self._await(lambda: all(b"connected_slaves:0\r" in primary.call("INFO", "replication") for primary in primaries),
                    ORDER_SECONDS, "replicas are linked")

    def fails(self, server):
        """That server is about to be killed or stopped."""
        self._old = server

    def await_failover(self, seconds):
        """Waits until all that run take the cluster for up, and another server for the primary than the old one."""
        old = self._old

        def done():
            running = [server for server in self.servers if server.state == UP and server is not old]
            slots = [server.ask("CLUSTER", "SLOTS") for server in running]
            return all(b"cluster_state:ok" in server.ask("CLUSTER", "INFO") for server in running) and all(
                self.at(primary[1]) is not old for ranges in slots for _, _, primary, *_ in ranges)

        self._await(done, seconds, "no other primary")

    def await_order(self, seconds):
        """Waits until every server that runs takes the cluster for up, and replicas follow."""
        def done():
            running = [server for server in self.servers if server.state == UP]
            replicas = [server for server in running if server.role() == "slave"]
            up = all(b"cluster_state:ok" in server.ask("CLUSTER", "INFO") for server in running)
            linked = all(b"master_link_status:up" in server.ask("INFO", "replication") for server in replicas)
            return up and linked and len(replicas) >= len(running) - self._shards

        self._await(done, seconds, "not in order")

    def begin_move(self, key, place):
        """The hash slot of a key begins to move to the server of a place, or to the `next` shard."""
        slot = hash_slot(key)
        source = self.serving(slot)
        shards = self.parts("shards")
        to = shards[(shards.index(source) + 1) % len(shards)] if place == "next" else self.part(place)
        ids = [server.call("CLUSTER", "MYID") for server in (source, to)]
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        self._moves[slot] = (source, to)

    def move_keys(self, key):
        """The keys of the hash slot of a key go where it moves to."""
        slot = hash_slot(key)
        source, to = self._moves[slot]
        login = ["AUTH", self.servers[0]._secrets["default"]] if self.servers[0]._secrets else []
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.call("MIGRATE", "127.0.0.1", to.named_port, "", 0, 5000, *login, "KEYS", *keys)

    def end_move(self, key):
        """The hash slot of a key is the other's."""
        slot = hash_slot(key)
        source, to = self._moves.pop(slot)
        # Not as on the first day any more.
        self._old = source
        id = to.call("CLUSTER", "MYID")
        for server in (to, source, *self.servers):
            if server.role() == "master":
                server.call("CLUSTER", "SETSLOT", slot, "NODE", id)

    def reshard(self, key, count, place):
        """So many hash slots of the server that has a key, the lowest first, go to that place one by one, as by `redis-cli`."""
        source, to = self.serving(hash_slot(key)), self.part(place)
        others = [server for server in self.servers if server not in (source, to) and server.role() == "master"]
        login = ["AUTH", self.servers[0]._secrets["default"]] if self.servers[0]._secrets else []
        with contextlib.ExitStack() as stack:
            source_, to_, *others_ = (stack.enter_context(server.connect()).call for server in (source, to, *others))
            ids = [ask("CLUSTER", "MYID") for ask in (source_, to_)]
            own = [range(first, last + 1) for first, last, primary, *_ in source_("CLUSTER", "SLOTS") if primary[2] == ids[0]]
            for slot in sorted(itertools.chain(*own))[:count]:
                to_("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
                source_("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
                while keys := source_("CLUSTER", "GETKEYSINSLOT", slot, 100):
                    source_("MIGRATE", "127.0.0.1", to.named_port, "", 0, 5000, *login, "KEYS", *keys)
                for ask in (to_, source_, *others_):
                    ask("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
        # Not as on the first day any more.
        self._old = source

    def _await(self, done, seconds, what):
        end = time.monotonic() + seconds
        while True:
            try:
                if done():
                    return
            except (OSError, RespError):
                pass
            if time.monotonic() >= end:
                raise RuntimeError(f"node {self.number}: {what} after {seconds:g} s")
            time.sleep(POLL_SECONDS)
