"""A client of docs/reference/protocol.md on plain sockets, written from that page alone: no part of Quorlock is in it, and no Redis library.

It joins a guarded set that others have founded, on nodes that are all up, and does one thing at a time. It renews nothing, and
takes one fence at once.
"""

import hashlib
import pathlib
import random
import re
import secrets
import select
import socket
import time
import urllib.parse

LUA = pathlib.Path(__file__).parents[2] / "core/src/node/redis/lua"


def whole(name):
    """A script with the parts that it names, and with theirs."""
    return re.sub(r"--- (\w+)\.lua\n", lambda part: whole(part[1]), (LUA / f"{name}.lua").read_text())


SCRIPTS = {name: whole(name) for name in ("acquire", "extend", "release", "lean")}
SHA = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}
NODE_TIMEOUT, MIN_VALIDITY, COUNTER_LIFE, MOST = 0.25, 0.1, 750_000, 10_000
RECORD, QUARANTINE = "lock:#node", "lock:#quarantine"


class Connection:
    """Commands, written at once, and their replies, by RESP2."""

    def __init__(self, url):
        at = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((at.hostname, at.port), NODE_TIMEOUT)
        self.stream = self.socket.makefile("rb")
        if at.password:
            assert self.ask(["AUTH", at.username or "default", at.password]) == ["OK"]

    def send(self, *commands):
        commands = [[str(word).encode() for word in words] for words in commands]
        self.socket.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                                     for words in commands))

    def reply(self):
        kind, rest = (line := self.stream.readline())[:1], line[1:-2]
        if not line.endswith(b"\r\n"):
            raise ConnectionError("cut off")
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else RuntimeError(rest.decode()) if kind == b"-" else rest.decode()

    def ask(self, *commands):
        self.send(*commands)
        return [self.reply() for _ in commands]

    def close(self):
        self.stream.close()
        self.socket.close()


class Node(Connection):
    """A node of the set, by its record; how far its `TIME` is ahead of our clock, in µs."""

    def __init__(self, url, inbox, nodes):
        super().__init__(url)
        asked = time.monotonic()
        info, self.record, told = self.ask(["INFO", "server"], ["GET", RECORD], ["TIME"])
        protocol, set_name, epoch, size, max_ttl, self.name, run, guard = (self.record or "-").split(" ")
        assert (protocol, set_name, int(size), guard) == ("1", "default", nodes, "on") and epoch != "0", f"another set's: {self.record}"
        assert re.search(r"run_id:(\w{16})", info)[1] == run, "it has restarted, and nobody has written that down yet"
        self.observe(asked, told)
        self.max_ttl = int(max_ttl)
        self.waits = f"200 {max(self.max_ttl, 6000)}"
        self.ask(*(["SCRIPT", "LOAD", text] for text in SCRIPTS.values()))
        self.inbox = Connection(url)
        self.inbox.ask(["SUBSCRIBE", inbox])

    def observe(self, asked, told):
        self.ahead = int(told[0]) * 10**6 + int(told[1]) - int((asked + time.monotonic()) / 2 * 10**6)

    def time(self):
        return int(time.monotonic() * 10**6) + self.ahead

    def script(self, name, keys, *arguments):
        asked = time.monotonic()
        [reply] = self.ask(["EVALSHA", SHA[name], len(keys), *keys, *arguments])
        if isinstance(reply, list) and name != "lean":
            self.observe(asked, reply[-2:])
        return reply if isinstance(reply, list) else [reply]


class Attempt:
    """One token: until when each node's vote for it lasts, and its mark; which nodes may know it, and were asked by script."""

    def __init__(self, client, name, ttl, waiter=""):
        tag = name if re.search(r"\{[^}]+\}", name) else "{" + name + "}"
        self.lock, self.queue, self.readers, self.counter, self.bans = (
            f"lock:{mark}{tag}" for mark in ("", "#q:", "#s:", "#f:", "#x:"))
        self.client, self.nodes, self.ttl, self.waiter = client, client.nodes, ttl, waiter
        assert ttl <= min(n.max_ttl for n in self.nodes), "no ttl is longer than the set's"
        self.value = f"{secrets.token_hex(20)}.{client.label}"
        self.home, *self.others = sorted(self.nodes, key=lambda n: mix(fnv(self.lock) ^ fnv(n.name)), reverse=True)
        self.ends, self.marks, self.known, self.scripted, self.fence = {}, {}, set(), set(), None

    def count(self, node, sent, lasts, mark):
        self.ends[node], self.marks[node] = sent + lasts * 0.99 - 0.002, mark

    def ask_natively(self):
        self.candidate, sent = self.client.propose(), time.monotonic()
        ends = {n: -(-(n.time() + self.ttl * 1000 + 5000) // 1000) for n in self.nodes}
        for n in self.nodes:
            n.send(["SET", self.lock, self.value, "NX", "PXAT", ends[n]], ["ZADD", self.counter, "GT", "CH", self.candidate, "f"],
                   ["PEXPIRE", self.counter, COUNTER_LIFE], ["MGET", RECORD, QUARANTINE], ["TIME"])
        for n in self.nodes:
            stored, counted, _, kept, told = (n.reply() for _ in range(5))
            now = int(told[0]) * 10**6 + int(told[1])
            if stored is None:
                continue
            self.known.add(n)
            if stored == "OK" and kept == [n.record, None] and now < ends[n] * 1000:
                marked = counted == 1 and self.candidate <= now + 10**7
                self.count(n, sent, min(self.ttl * 1000, ends[n] * 1000 - now) / 10**6, self.candidate if marked else 0)
            else:
                self.scripted.add(n)  # Void or unknown: what undoes it is the script.

    def ask_by_script(self, node):
        """Nothing if it votes, else what it answers."""
        self.known.add(node)
        self.scripted.add(node)
        waits, sent = f"{node.waits} {MOST}" if node is self.home else node.waits, time.monotonic()
        reply = node.script("acquire", [self.lock, self.queue, self.readers, self.bans, self.counter, RECORD, QUARANTINE], self.value,
                            self.ttl, waits, self.waiter, node.record, not_after(node), max(self.candidate, *self.marks.values(), 0), COUNTER_LIFE)
        return self.count(node, sent, self.ttl / 1000, int(reply[1])) if reply[0] == 1 else reply

    def is_won(self):
        """Whether the home is in a quorum of votes that last, and that agree on a fence, once it is written back."""
        while True:
            needed = time.monotonic() + MIN_VALIDITY * self.ttl / 1000
            good = {n: self.marks[n] for n, end in self.ends.items() if end > needed}
            if len(good) <= len(self.nodes) // 2 or self.home not in good:
                return False
            self.fence = max(*good.values(), self.candidate if 0 in good.values() else 0)
            if list(good.values()).count(self.fence) > len(self.nodes) // 2:
                return True
            for n in [n for n in good if good[n] != self.fence]:
                sent = time.monotonic()
                reply = n.script("extend", [self.lock, self.bans, self.readers, self.counter, RECORD, QUARANTINE], self.value, self.ttl, 3, n.record,
                                 not_after(n), self.fence, COUNTER_LIFE)
                if reply[0] == 1:
                    self.count(n, sent, self.ttl / 1000, self.fence)
                elif reply[0] == 6:
                    self.marks[n], self.candidate = 0, max(self.candidate, int(reply[1]) + 1)
                else:
                    del self.ends[n], self.marks[n]

    def wait(self, end, queued):
        """Queues at the home until that votes, then asks the others. Whether it has won."""
        while True:
            self.candidate = self.client.propose()
            refused = self.ask_by_script(self.home)
            if not refused:
                break
            if (left := end - time.monotonic()) <= 0:
                return False
            if refused[0] == 0 and refused[3] >= 0:
                queued()
                poll = random.uniform(0.4, 0.6) if refused[3] < 2 else random.uniform(1.6, 2.4)
                self.client.listen(self.waiter.split()[0], min(left, poll, refused[1] / 1000 + 0.002 if refused[1] >= 0 else poll))
            else:
                time.sleep(0.1)
        over, pause = time.monotonic() + 2 * NODE_TIMEOUT, 0.001
        while time.monotonic() < over:
            for node in self.others:
                if node not in self.ends:
                    self.ask_by_script(node)
            if self.is_won():
                return True
            time.sleep(pause)
            pause = min(2 * pause, 0.064)
        return False

    def remaining(self):
        return sorted(self.ends.values())[-(len(self.nodes) // 2 + 1)] - time.monotonic()

    def release(self):
        """Ends the token on every node that may know it, and its waiter's wait. Whether a quorum had the value."""
        held = 0
        for n in self.known:
            reply = [0] if n in self.scripted else n.script("lean", [self.lock], self.value)
            if reply[0] != 1:
                reply = n.script("release", [self.lock, self.queue, self.readers, RECORD, QUARANTINE], self.value, self.waiter, n.waits, n.record)
            held += reply[0] == 1
        return held > len(self.nodes) // 2


class Client:
    def __init__(self, urls, label="stranger"):
        self.label, self.inbox, self.waiters, self.proposed = label, f"lock:#in:{secrets.token_hex(16)}", 0, 0
        self.nodes = [Node(url, self.inbox, len(urls)) for url in urls]

    def acquire(self, name, ttl=10_000, wait=10.0, queued=lambda: None):
        """The attempt that has won, or nothing if none has in this many seconds. Calls `queued` whenever it waits in the queue."""
        end = time.monotonic() + wait
        attempt = Attempt(self, name, ttl)
        attempt.ask_natively()
        won = attempt.is_won()
        while not won:
            attempt.release()
            if time.monotonic() >= end:
                return None
            self.waiters += 1
            attempt = Attempt(self, name, ttl, f"{self.waiters} {self.inbox}")
            won = attempt.wait(end, queued)
        return attempt

    def close(self):
        for node in self.nodes:
            node.close()
            node.inbox.close()

    def propose(self):
        """A fence: the lower median of the nodes' clocks, and larger than the last."""
        self.proposed = max(sorted(n.time() for n in self.nodes)[(len(self.nodes) - 1) // 2], self.proposed + 1)
        return self.proposed

    def listen(self, number, seconds):
        """Until a node calls the waiter of this number, and no longer than that."""
        end = time.monotonic() + seconds
        inboxes = {n.inbox.socket: n.inbox for n in self.nodes}
        while (left := end - time.monotonic()) > 0:
            for ready in select.select(list(inboxes), [], [], left)[0]:
                if inboxes[ready].reply() == ["message", self.inbox, number]:
                    return


def not_after(node):
    return node.time() + int(1.1 * NODE_TIMEOUT * 10**6)


def fnv(text):
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % 2**64
    return number


def mix(n):
    n = (n ^ n >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    n = (n ^ n >> 27) * 0x94D049BB133111EB % 2**64
    return n ^ n >> 31
