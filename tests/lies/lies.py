#!/usr/bin/env python3
"""All calls of the Python package, blocking and with asyncio, beside a server that lies (`lies serve`, tests/rust/src/bin/lies).

    lies.py [--seconds N] [--seed S]

Each call ends within its time, by its value or by an error of Quorlock's, which names a node where nodes are at fault and shows what they
said as text; nothing panics. The seed is printed, and repeats what is drawn.
"""

import argparse
import asyncio
import collections
import faulthandler
import pathlib
import random
import subprocess
import sys
import threading
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import quorlock  # noqa: E402
from quorlock import aio  # noqa: E402
from stage import Stage  # noqa: E402

LIES = ROOT / "target" / "release" / "lies"
WAIT = 0.3
# Beyond what a call is told to wait, on a busy machine.
PATIENCE = 8.0
# How many rounds are drawn at the least, for a round of silent nodes takes seconds.
FEWEST = 4
MOODS = ("lies", "lies", "lies", "always", "twice", "late", "silent", "floods")
FOUNDED = "founded:"
OPTIONS = {"ttl": 2, "max_ttl": 3, "node_timeout": 0.1, "set_name": "lies"}


class Liar:
    def __init__(self, seed, before=None):
        words = [LIES, "serve", "--seed", str(seed), *(["--before", before] if before else [])]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = "127.0.0.1:" + self.process.stdout.readline().split()[1]

    def be(self, mood):
        self.process.stdin.write(mood + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.communicate()


class Judge:
    def __init__(self):
        self.failed, self.ends = collections.Counter(), collections.Counter()

    def text(self, what, said):
        odd = [c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
        if odd:
            self.failed[f"{what}: a text with {odd[0]!r}"] += 1
        if len(said) > 2500:
            self.failed[f"{what}: a text of {len(said)} characters"] += 1

    def error(self, what, error):
        self.ends[f"{what} {type(error).__name__}"] += 1
        if not isinstance(error, quorlock.QuorlockError):
            self.failed[f"{what}: {error!r}"] += 1
            return
        self.text(what, str(error))
        if isinstance(error, (quorlock.QuorumUnavailableError, quorlock.MisconfiguredError)) and "127.0.0.1:" not in str(error):
            self.failed[f"{what}: it names no node: {error}"] += 1
        if "panic" in str(error):
            self.failed[f"{what}: {error}"] += 1

    def call(self, what, call):
        """The value of a call that ends within its time; None if it fails."""
        begun, value, error = time.monotonic(), None, None
        try:
            value = call()
            self.ends[f"{what} ok"] += 1
        except Exception as raised:  # noqa: BLE001
            error = raised
        self.took(what, begun)
        if error is not None:
            self.error(what, error)
        return value

    async def wait(self, what, call):
        begun, value, error = time.monotonic(), None, None
        try:
            value = await asyncio.wait_for(call, WAIT + PATIENCE)
            self.ends[f"{what} ok"] += 1
        except TimeoutError as raised:
            # Also one of Quorlock's.
            error = raised if isinstance(raised, quorlock.QuorlockError) else None
        except Exception as raised:  # noqa: BLE001
            error = raised
        self.took(what, begun)
        if error is not None:
            self.error(what, error)
        return value

    def took(self, what, begun):
        if time.monotonic() - begun > WAIT + PATIENCE:
            self.failed[f"{what}: it does not end within {WAIT + PATIENCE} s"] += 1


def blocking(judge, draw, nodes, options):
    client = quorlock.Client(nodes, **options)
    for _ in range(6):
        name = f"l{draw.randrange(4)}"
        match draw.randrange(8):
            case 0 | 1 | 2:
                lease = judge.call("acquire", lambda: client.lock(name).acquire(wait=WAIT))
                if lease is not None:
                    judge.call("extend", lease.extend)
                    judge.call("ensure", lambda: lease.ensure(0.5))
                    judge.call("release", lease.release)
            case 3:
                found = judge.call("inspect", lambda: client.inspect(name))
                if found is not None:
                    judge.text("inspect", str(found))
                    for node in found.nodes:
                        judge.text("inspect", f"{node.label} {node.error}")
            case 4:
                probe = judge.call("probe", client.probe)
                if probe is not None:
                    judge.text("probe", " ".join(str(finding.what) for node in probe.nodes for finding in node.findings)[:2000])
            case 5:
                text = judge.call("export", lambda: client.lock("e").acquire(wait=WAIT).export())
                if text is not None:
                    lease = judge.call("adopt", lambda: client.adopt(text))
                    if lease is not None:
                        judge.call("release", lease.release)
            case 6:
                lease = judge.call("several", lambda: client.lock_all(["a", "b"], wait=WAIT).acquire())
                if lease is not None:
                    judge.call("release", lease.release)
            case 7:
                lease = judge.call("slot", lambda: client.semaphore("s", 3).acquire(wait=WAIT))
                if lease is not None:
                    judge.call("release", lease.release)
    judge.call("close", client.close)


async def asynchronous(judge, draw, nodes, options):
    client = aio.Client(nodes, **options)
    for _ in range(6):
        name = f"l{draw.randrange(4)}"
        lease = await judge.wait("acquire", client.lock(name).acquire(wait=WAIT))
        if lease is not None:
            await judge.wait("extend", lease.extend())
            await judge.wait("release", lease.release())
        await judge.wait("inspect", client.inspect(name))
    await judge.wait("close", client.close())


def rounds(judge, seed, seconds, honest):
    end, number = time.monotonic() + seconds, 0
    while number < FEWEST or time.monotonic() < end:
        draw = random.Random(seed + number)
        alone, mood = draw.random() < 0.25, draw.choice(MOODS)
        liar = Liar(draw.randrange(1 << 32), None if alone else honest[2])
        scheme = draw.choice(["redis://{}", "redis+cluster://{}", "redis+sentinel://{}/m"]) if alone else "redis://{}"
        nodes = [scheme.format(liar.address)] + ([] if alone else [f"redis://{address}" for address in honest[:2]])
        # A set is founded by all its nodes together, which a liar holds up.
        options = OPTIONS | draw.choice([{"namespace": FOUNDED}, {"namespace": FOUNDED}, {"namespace": f"r{number}:", "restart_guard": "off"}])
        before = len(judge.failed)
        try:
            liar.be(mood)
            if draw.random() < 0.5:
                blocking(judge, draw, nodes, options)
            else:
                asyncio.run(asynchronous(judge, draw, nodes, options))
        finally:
            liar.close()
        if len(judge.failed) > before:
            print(f"in the round of seed {seed + number}", flush=True)
        number += 1
    return number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    args = parser.parse_args()
    # Where a call never ends.
    faulthandler.dump_traceback_later(args.seconds + 120, exit=True)
    print(f"seed {args.seed}", flush=True)
    judge, stage = Judge(), Stage(3)
    died = []
    threading.excepthook = lambda what: died.append(what.exc_value)
    try:
        honest = [f"127.0.0.1:{stage.port(number)}" for number in (1, 2, 3)]
        with quorlock.Client([f"redis://{address}" for address in honest], **OPTIONS, namespace=FOUNDED) as client:
            client.lock("a").acquire(wait=20).release()
        number = rounds(judge, args.seed, args.seconds, honest)
    finally:
        stage.close()
    if died:
        judge.failed[f"threads died: {died[0]!r}"] += len(died)
    for what, times in sorted(judge.ends.items()):
        print(f"{times:>6} {what}")
    for what, times in judge.failed.items():
        print(f"FAIL {what} ({times} times)")
    print(f"{number} rounds")
    print(f"{sum(judge.ends.values())} passed, {len(judge.failed)} failed")
    return 1 if judge.failed else 0


if __name__ == "__main__":
    sys.exit(main())
