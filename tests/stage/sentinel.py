"""A node that is a master with replicas, and the sentinels that promote one of these when the master fails.

To its stage it is one node: what is done to the node is done to the server that is the master now, as the sentinels name it.
Its parts have places: `replica1`, `replica2`… (the servers that are not the master now, in the order of their making), `old`
(what was the master when that was last stopped, killed or failed over), `sentinel1`…; `replicas`, `sentinels` are all of them.
With TLS it is the TLS ports that they tell each other, and clients.
"""

import os
import re
import secrets
import time
from urllib.parse import urlencode

from .node import DEAD, UP, Node
from .resp import RespError

ORDER_SECONDS = 30.0
POLL_SECONDS = 0.02
# Of an answer of a sentinel or server that may hang.
LOOK_SECONDS = 1.0
# How long a master is silent before a sentinel takes it for dead; after twice the second a failed failover is tried again.
# A server is not taken for dead because the machine is busy for a second.
DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS = 2000, 3000
# Else the first replica of a master would wait 5 s for company, and a failover be over before it has followed.
REPLICATION = ("repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
PLACE = re.compile(r"(replica|sentinel)(\d+)")


def fields(flat):
    """The names and values of a reply that has them in turn."""
    words = [word.decode(errors="replace") for word in flat]
    return dict(zip(words[::2], words[1::2]))


class Server(Node):
    """One of the servers. It starts as a replica of the master, unless it is that itself."""

    def __init__(self, group, number, folder, **more):
        super().__init__(number, folder, **more)
        self._group = group

    def _configuration(self):
        lines = [*REPLICATION, *(["tls-replication yes"] if self._tls else [])]
        if self._secrets:
            lines += ["masteruser default", f"masterauth {self._secrets['default']}"]
        lead = self._group.lead()
        if lead is not self:
            lines.append(f"replicaof 127.0.0.1 {lead.named_port}")
        return super()._configuration() + "\n".join([*lines, ""])

    @property
    def named_port(self):
        """That by which the others know it."""
        return self.tls_port or self.port

    def role(self):
        """What the server says of itself, `master` or `slave`; nothing if it does not answer."""
        if self.state != UP:
            return None
        try:
            with self.connect(timeout=LOOK_SECONDS) as connection:
                return connection.call("ROLE")[0].decode()
        except (OSError, RespError):
            return None

    def followers(self):
        """How many replicas have all that was written so far, but for what is under way."""
        return len(re.findall(rb"^slave\d+:.*state=online", self.call("INFO", "replication"), re.MULTILINE))


class Sentinel(Node):
    """One of the sentinels. It knows the others and the replicas from the beginning, so that nobody waits until it finds them."""

    def __init__(self, group, number, folder, password, tls):
        super().__init__(number, folder, secrets={"default": password} if password else None, tls=tls)
        self._group = group
        self.id = secrets.token_hex(20)

    def _command(self, path):
        return [*super()._command(path), "--sentinel"]

    def _configuration(self):
        group, lead = self._group, self._group.lead()
        of = lambda words, *values: " ".join(["sentinel", words, group.name, *map(str, values)])  # noqa: E731
        lines = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", "daemonize no", f"logfile {self.folder}/log",
                 *self._tls_lines(), *(["tls-replication yes"] if self._tls else []),
                 f"sentinel myid {self.id}", of("monitor", "127.0.0.1", lead.named_port, len(group.sentinels) // 2 + 1),
                 of("down-after-milliseconds", DOWN_AFTER_MS), of("failover-timeout", FAILOVER_TIMEOUT_MS),
                 of("parallel-syncs", len(group.servers))]
        if self._secrets:
            lines += [f"requirepass {self._secrets['default']}", f"sentinel sentinel-pass {self._secrets['default']}"]
        if group.password:
            lines += [of("auth-user", "default"), of("auth-pass", group.password)]
        lines += [of("known-replica", "127.0.0.1", server.named_port) for server in group.servers if server is not lead]
        lines += [of("known-sentinel", "127.0.0.1", other.tls_port or other.port, other.id)
                  for other in group.sentinels if other is not self]
        return "\n".join([*lines, ""])

    def ask(self, word, *more):
        with self.connect(timeout=LOOK_SECONDS) as connection:
            return connection.call("SENTINEL", word, self._group.name, *more)

    def named(self):
        """The port of the master, as this sentinel names it; nothing if it does not answer."""
        try:
            found = self.ask("GET-MASTER-ADDR-BY-NAME") if self.state == UP else None
        except (OSError, RespError):
            return None
        return int(found[1]) if found else None

    def content(self, replicas, others):
        """Whether to this sentinel's knowledge all is well, with this many replicas and other sentinels."""
        if fields(self.ask("MASTER"))["flags"] != "master" or not self.ask("CKQUORUM").startswith(b"OK"):
            return False
        well = [one for one in map(fields, self.ask("REPLICAS")) if one["flags"] == "slave" and one["master-link-status"] == "ok"]
        # Valkey's keep the word that they found the last master down.
        seen = [one for one in map(fields, self.ask("SENTINELS")) if not re.search("s_down|disconnected", one["flags"])]
        return len(well) >= replicas and len(seen) >= others


class Replicated:
    """A master with replicas, watched by sentinels if there are any, as one node of a stage."""

    clock = unix = None

    def __init__(self, number, folder, replicas, sentinels, *, tls=None, secrets=None, permit="", options=()):
        self.number, self.name = number, f"master{number}"
        self.password = secrets["default"] if secrets else None
        self._sentinel_password = secrets["sentinel"] if secrets else None
        os.makedirs(folder, mode=0o700)
        more = {"tls": tls, "secrets": secrets, "permit": permit, "options": options}
        self.servers = [Server(self, number, os.path.join(folder, f"server{place}"), **more) for place in range(1, replicas + 2)]
        self.sentinels = [Sentinel(self, number, os.path.join(folder, f"sentinel{place}"), self._sentinel_password, tls)
                          for place in range(1, sentinels + 1)]
        # Named last, where there is no sentinel to ask; and the one before a failover.
        self._last, self._old = self.servers[0], None
        self._fresh = True

    # ---- who is who ----

    @property
    def _parts(self):
        return [*self.servers, *self.sentinels]

    def lead(self):
        """Whom servers follow that start now: the master, or the first of them if all are dead."""
        return self.servers[0] if all(part.state == DEAD for part in self._parts) else self.master()

    def master(self):
        """The server that the first sentinel which answers names."""
        for sentinel in self.sentinels:
            port = sentinel.named()
            if port:
                self._last = self._at(port)
                break
        return self._last

    def _at(self, port):
        return next(server for server in self.servers if server.named_port == port)

    def part(self, place):
        """The server or sentinel of a place."""
        [found] = self.parts(place)
        return found

    def parts(self, place):
        """The servers or sentinels of a place; several for `replicas` and `sentinels`."""
        if place == "old" and self._old:
            return [self._old]
        kind, count = PLACE.fullmatch(place).groups() if PLACE.fullmatch(place) else (place.removesuffix("s"), None)
        if kind not in ("replica", "sentinel"):
            raise ValueError(f"node {self.number} has no {place}")
        if kind == "replica":
            master = self.master()
            found = [server for server in self.servers if server is not master]
        else:
            found = self.sentinels
        if count and not 1 <= int(count) <= len(found):
            raise ValueError(f"node {self.number} has no {place}: there are {len(found)}")
        return [found[int(count) - 1]] if count else found

    def places(self, place):
        """The place, or the places of all that it is."""
        if place not in ("replicas", "sentinels"):
            return [place]
        return [f"{place[:-1]}{count}" for count in range(1, len(self.parts(place)) + 1)]

    # ---- as a node ----

    @property
    def state(self):
        return self.master().state

    @property
    def down(self):
        return any(part.down for part in self._parts)

    @property
    def signalled(self):
        return self._old is not None or any(part.signalled for part in self._parts)

    @property
    def port(self):
        return self.master().port

    @property
    def dump(self):
        return self.master().dump

    def connect(self, db=0, timeout=5.0):
        return self.master().connect(db, timeout)

    def call(self, *words, db=0):
        return self.master().call(*words, db=db)

    def launch(self, saved=False):
        """Starts what is dead: all of it as on the first day, single servers as replicas of the master."""
        if saved:
            raise ValueError("a node with replicas starts without data")
        self._fresh = all(part.state == DEAD for part in self._parts)
        if self._fresh:
            self._last, self._old = self.servers[0], None
        for part in self._parts:
            if part.down:
                part.launch()
                part.signalled = part.signalled and not self._fresh

    def ready(self, fresh=False):
        for part in self._parts:
            if part.down:
                part.ready()
        if self._fresh:
            self.await_order(ORDER_SECONDS)

    def stop(self):
        self._old = self.master()
        self._old.stop()

    def cont(self):
        for part in self._parts:
            part.cont()

    def kill(self):
        self._old = self.master()
        self._old.kill()

    def kill_all(self):
        for part in self._parts:
            part.kill()

    def close(self):
        # Woken, so that they end like any others.
        self.cont()
        for part in self._parts:
            part.close()

    def url(self, via, login, db, master):
        """Of the sentinels, or of the master where there are none; `master`: its name, if not the right one."""
        user, password = login
        before = f"{user or ''}:{password}@" if password else ""
        path = "" if db is None else f"/{db}"
        scheme, port = ("rediss", "tls_port") if via == "tls" else ("redis", "port")
        hosts = ";".join(f"127.0.0.1:{getattr(one, port)}" for one in self.sentinels or [self.master()])
        if not self.sentinels:
            return f"{scheme}://{before}{hosts}{path}"
        query = "?" + urlencode({"sentinel_password": self._sentinel_password}) if self._sentinel_password else ""
        return f"{scheme}+sentinel://{before}{hosts}/{master or self.name}{path}{query}"

    # ---- failovers ----

    def failover(self):
        """Tells a sentinel to promote a replica, though the master is alive."""
        self._old = self.master()
        next(sentinel for sentinel in self.sentinels if sentinel.state == UP).ask("FAILOVER")

    def await_failover(self, seconds):
        """Waits until all sentinels that run name another master than the old one, and it says that it is one."""
        def done():
            ports = {sentinel.named() for sentinel in self.sentinels if sentinel.state == UP}
            if len(ports) != 1 or None in ports:
                return False
            now = self._at(ports.pop())
            return now is not self._old and now.role() == "master"

        self._await(done, seconds, "no other master")

    def await_order(self, seconds):
        """Waits until every replica that runs follows the master, and the sentinels know it and would fail over."""
        def done():
            master = self.master()
            replicas = sum(server.state == UP for server in self.servers if server is not master)
            others = sum(sentinel.state == UP for sentinel in self.sentinels) - 1
            return master.role() == "master" and master.followers() >= replicas and all(
                sentinel.named() == master.named_port and sentinel.content(replicas, others)
                for sentinel in self.sentinels if sentinel.state == UP)

        self._await(done, seconds, "not in order")

    def _await(self, done, seconds, what):
        end = time.monotonic() + seconds
        while True:
            try:
                if done():
                    return
            except (OSError, RespError):
                # A part that changes its role refuses, and closes connections.
                pass
            if time.monotonic() >= end:
                raise RuntimeError(f"node {self.number}: {what} after {seconds:g} s")
            time.sleep(POLL_SECONDS)

    def fall_behind(self):
        """From now on the replicas hear nothing of the master, until they are thawed: they hang, and their links are cut.

        A replica that only hangs would read what waits in its socket when it is thawed, even if the master is dead.
        """
        master = self.master()
        for server in self.servers:
            if server is not master:
                server.stop()
        master.call("CLIENT", "KILL", "TYPE", "replica")
        self._await(lambda: b"connected_slaves:0\r" in master.call("INFO", "replication"), ORDER_SECONDS, "replicas are linked")
