#!/usr/bin/env python3
"""The server's CPU for a cycle as a service meets it: 17 cycles at a time, asyncio, client and server on one core.

    server_cpu.py                 prints the table that SERVER.md has, and writes that
    server_cpu.py --servers own   on the redis-server of the PATH alone

By hand: `SET NX PX`, and a script that compares and deletes, 17 of each in one write. Quorlock: a client of its own, with the defaults and
plain, without fences and restart guard. They take turns, batch by batch, on the same server.

*warm*: the server works for a loop that does nothing else, so that code and data of the server stay in the caches. *cold*: the process
of the client does work of its own before each batch, as a service does, and the server finds its caches used by that. The client's
library is such work, too: so a library beside a hand-written loop looks dearer for the server than it is.
"""

import argparse
import asyncio
import hashlib
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import newer  # noqa: E402
from runs import CORE  # noqa: E402
from servers import Servers  # noqa: E402
from stage import Stage  # noqa: E402
from table import SERVERS  # noqa: E402

PAGE = HERE / "SERVER.md"
AT_ONCE, ROUNDS, BATCHES = 17, 9, 250
DELETE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
NAMES = [f"orders:{number}" for number in range(AT_ONCE)]


def command(*words):
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words))])


class Hand:
    """A client as people write it, which sends a batch in one write."""

    async def connect(self, url):
        host, _, port = url.removeprefix("redis://").partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._writer.write(command("SCRIPT", "LOAD", DELETE))
        await self._replies(2)

    async def _replies(self, lines):
        for _ in range(lines):
            await self._reader.readline()

    async def _ask(self, commands):
        self._writer.write(b"".join(commands))
        await self._replies(AT_ONCE)

    async def batch(self):
        values = [os.urandom(10).hex() for _ in NAMES]
        pairs = list(zip(NAMES, values, strict=True))
        await self._ask(command("SET", f"lock:{name}", value, "NX", "PX", 10_000) for name, value in pairs)
        sha = hashlib.sha1(DELETE.encode()).hexdigest()
        await self._ask(command("EVALSHA", sha, 1, f"lock:{name}", value) for name, value in pairs)

    async def close(self):
        self._writer.close()
        await self._writer.wait_closed()


class Ours:
    def __init__(self, plain):
        self._plain = plain

    async def connect(self, url):
        from quorlock import aio
        client = {"restart_guard": False, "namespace": "plain:"} if self._plain else {}
        lock = {"fencing": False} if self._plain else {}
        self._client = aio.Client([url], **client)
        self._locks = [self._client.lock(name, **lock) for name in NAMES]

    async def batch(self):
        async def cycle(lock):
            async with lock:
                pass
        await asyncio.gather(*map(cycle, self._locks))

    async def close(self):
        await self._client.close()


async def work():
    """What a service does besides: tasks, texts and tables of its own."""
    async def some(number):
        for step in range(3):
            await asyncio.sleep(0)
            repr({name: step for name in NAMES}).encode()
        return number
    await asyncio.gather(*(some(number) for number in range(AT_ONCE)))


async def measure(url, servers):
    """Of each client, warm and cold: medians of µs a cycle, and of their ratios to those by hand."""
    clients = {"by hand": Hand(), "defaults": Ours(False), "plain": Ours(True)}
    for client in clients.values():
        await client.connect(url)
        await client.batch()
    figures = {}
    for kind in ("warm", "cold"):
        times = {name: [] for name in clients}
        for _ in range(ROUNDS):
            for name, client in clients.items():
                spent = 0
                for _ in range(BATCHES):
                    if kind == "cold":
                        await work()
                    before = servers.cpu_ns()
                    await client.batch()
                    spent += servers.cpu_ns() - before
                times[name].append(spent / BATCHES / AT_ONCE / 1000)
        hand = times["by hand"]
        figures[kind] = {name: (statistics.median(found), statistics.median(one / other for one, other in zip(found, hand, strict=True)))
                         for name, found in times.items()}
    for client in clients.values():
        await client.close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=",".join(SERVERS))
    names = parser.parse_args().servers.split(",")
    wrong = newer.prepare(names)
    lines = ["| server | caches | by hand, µs a cycle | defaults | ratio | plain | ratio |", "| --- | --- | --- | --- | --- | --- | --- |"]
    os.sched_setaffinity(0, {CORE})
    for name in names:
        if name in wrong:
            sys.exit(f"{name}: {wrong[name]}")
        with newer.serving(name), Stage(1) as stage:
            figures = asyncio.run(measure(stage.urls()[0], Servers(stage)))
        for kind, found in figures.items():
            cells = [f"{found['by hand'][0]:.2f}"]
            for ours in ("defaults", "plain"):
                cells += [f"{found[ours][0]:.2f}", f"**{found[ours][1]:.2f}**"]
            lines.append(f"| {newer.version(name)} | {kind} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    print(table)
    if names == list(SERVERS):
        said = " ".join(__doc__.partition("\n\n")[2].partition("\n\n")[2].split("\n")).replace("  ", "\n\n")
        PAGE.write_text(f"# The server's CPU for a cycle\n\nMade by `server_cpu.py` on {time.strftime('%Y-%m-%d')}.\n\n{said.strip()}\n\n{table}\n")


if __name__ == "__main__":
    main()
