#!/usr/bin/env python3
"""Redisson's locks and Quorlock's in its layout, as one: the real Redisson from Maven Central, a real server.

    run.py [-k WORD]       needs Java, Maven, `make build`

All checks run twice: with users that may do anything, and with those that docs/how-to/one-lock-with-java.md tells of.

Ends with `N passed, M failed`: without Java all have failed. README.md says what is shown.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import quorlock  # noqa: E402
from stage import Stage  # noqa: E402

MADE = ROOT / "target" / "interop" / "redisson"
SECONDS = 60
# Each of them counts so often in one file.
COUNTS = 100
ALTERNATING = 200
# What a user of Quorlock needs beside its line, as docs/how-to/one-lock-with-java.md says, and the names of the locks of these checks.
OURS = "&redisson_lock__channel:* ~redisson_lock_token:* +hgetall +hget +hset +hdel +hincrby +get +set +unsubscribe".split()
# What a user of Redisson's locks needs, as the same page says.
JAVAS = ("~redisson_lock_token:* ~redisson_lock__channel:* ~redisson_unlock_latch:* resetchannels &redisson_lock__channel:* &redisson_rwlock:* "
         "-@all +ping +client|setname +info|replication +eval +evalsha +script|load +exists +hexists +hget +hset +hincrby +hdel +hlen "
         "+hkeys +del +pexpire +pttl +get +set +incr +publish +subscribe +unsubscribe").split()
NAMES = ("turns", "woken", "ours-for-long", "javas-for-long", "forced", "owned", "string", "hash", "readers", "*readers*", "counted")
# No wait of either side takes longer than that, which no poll and no end of a ttl explains.
WOKEN = 1.0


class Java:
    """A thread of a JVM of its own."""

    def __init__(self, url):
        self.url = url
        path = f"{MADE / 'classes'}:{MADE / 'lib'}/*"
        self._process = subprocess.Popen(["java", "-cp", path, "Side", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self._said = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        while self._said.get(timeout=SECONDS) != "ready":
            pass

    def _listen(self):
        for line in self._process.stdout:
            self._said.put(line.strip())

    def begin(self, *words):
        self._process.stdin.write(" ".join(map(str, words)) + "\n")

    def end(self, seconds=SECONDS):
        return self._said.get(timeout=seconds)

    def __call__(self, *words):
        self.begin(*words)
        return self.end()

    def close(self):
        self._process.kill()
        self._process.wait()


def lock(client, name, **options):
    return client.lock(name, layout="redisson", **{"wait": 0, **options})


def refused(held):
    try:
        held.acquire()
    except quorlock.QuorlockError as error:
        return error.kind == "Contended"
    return False


def alternating(java, client, _):
    """Holds in turns, each keeps the other out, and fences of both grow in one order."""
    last = 0
    for round_ in range(ALTERNATING):
        if round_ % 2:
            fence = int(java("fenced", "turns"))
            assert refused(lock(client, "turns")), "we had a lock of Java's"
            assert java("unlock", "turns") == "ok"
        else:
            with lock(client, "turns") as lease:
                fence = lease.fence
                assert java("try", "turns", 0, 0) == "false", "Java had a lock of ours"
        assert fence > last, f"{fence} after {last}"
        last = fence


def wakes(java, client, _):
    """Whoever waits on one side is woken by the other's release, long before a ttl ends."""
    slowest = {"java": 0.0, "ours": 0.0}
    for _ in range(10):
        lease = lock(client, "woken", ttl=30).acquire()
        java.begin("lock", "woken", 0)
        time.sleep(0.3)
        begun = time.monotonic()
        lease.release()
        assert java.end(5) == "ok"
        slowest["java"] = max(slowest["java"], time.monotonic() - begun)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(lambda: lock(client, "woken", wait=20).acquire())
            time.sleep(0.3)
            assert not waiting.done(), "we had a lock of Java's"
            begun = time.monotonic()
            assert java("unlock", "woken") == "ok"
            lease = waiting.result(5)
            slowest["ours"] = max(slowest["ours"], time.monotonic() - begun)
        lease.release()
    assert max(slowest.values()) < WOKEN, slowest
    return ", ".join(f"{who} after {seconds * 1000:.0f} ms at most" for who, seconds in slowest.items())


def watchdogs(java, client, _):
    """Each side renews its own for three ttls, and neither the other's."""
    lease = lock(client, "ours-for-long", ttl=5).acquire()
    assert java("lock", "javas-for-long", 0) == "ok"
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert java("try", "ours-for-long", 0, 0) == "false" and refused(lock(client, "javas-for-long"))
        assert lease.is_held() and java("held", "javas-for-long") == "true"
        time.sleep(1)
    assert lease.release() and java("unlock", "javas-for-long") == "ok"


def forced(java, client, _):
    """What Java forces open is lost, is no more renewed, and Java's next hold is not touched."""
    lost = threading.Event()
    lease = lock(client, "forced", ttl=3).acquire()
    lease.on_lost(lambda *_: lost.set())
    assert java("force", "forced") == "true"
    assert java("lock", "forced", 0) == "ok"
    assert lost.wait(10), "nobody was told"
    assert not lease.release()
    assert java("holds", "forced") == "1" and java("held", "forced") == "true"
    assert java("unlock", "forced") == "ok"


def shared_owner(java, client, url):
    """An owner enters from Java and from processes of two languages; the last one out frees the lock."""
    owner = java("owner")
    assert java("lock", "owned", 0) == "ok"
    lease = lock(client, "owned", owner=owner).acquire()
    script = ("const { Client } = require('../../node/dist/index.js'); (async () => { const [url, owner] = process.argv.slice(1);"
              "const client = new Client({ nodes: url, layout: 'redisson', wait: 0 });"
              "const lease = await client.lock('owned', { owner }).acquire(); console.log('in');"
              "process.stdin.once('data', async () => { await lease.release(); await client.close(); process.exit(); }); })()")
    node = subprocess.Popen(["node", "-e", script, url, owner], cwd=ROOT / "tests" / "node", stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    assert node.stdout.readline().strip() == "in"
    assert java("holds", "owned") == "3"
    assert java("unlock", "owned") == "ok"
    assert lease.release()
    assert refused(lock(client, "owned", owner="another")) and java("holds", "owned") == "1"
    node.communicate("out\n", timeout=SECONDS)
    with lock(client, "owned", owner="another"):
        pass


def other_kinds(java, client, url):
    """A lock of another layout is refused by both sides, and told."""
    with client.lock("string", raw=True):
        assert "WRONGTYPE" in java("try", "string", 0, 0)
        # Another client: in one, they would wait for each other.
        with quorlock.Client(nodes=url) as other:
            try:
                lock(other, "string").acquire()
                raise AssertionError("it was had")
            except quorlock.MisconfiguredError as error:
                assert "layout" in str(error), error
    assert java("lock", "hash", 0) == "ok"
    try:
        client.lock("hash", raw=True, wait=0).acquire()
        raise AssertionError("it was had")
    except quorlock.MisconfiguredError as error:
        assert "layout" in str(error) and "delete" not in str(error), error
    assert java("unlock", "hash") == "ok"
    assert java("read", "readers") == "ok"
    try:
        lock(client, "readers").acquire()
        raise AssertionError("it was had")
    except quorlock.MisconfiguredError as error:
        assert "RReadWriteLock" in str(error), error
    assert java("unread", "readers") == "ok"


def counted(java, _, url):
    """Three JVMs, and programs of three languages, count in one file; no update is lost."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
        file = pathlib.Path(folder) / "count"
        file.write_text("0\n")
        compiled = pathlib.Path(folder) / "count-cpp"
        subprocess.run(["g++", "-std=c++17", "-O1", "-I", ROOT / "include", HERE / "count.cpp", "-o", compiled,
                        ROOT / "target" / "release" / "libquorlock.a", "-lpthread", "-ldl", "-lm"], check=True)
        jvms = [Java(java.url) for _ in range(3)]
        for jvm in jvms:
            closing.callback(jvm.close)
        given = (url, "counted", str(file), str(COUNTS))
        programs = ([sys.executable, HERE / "count.py"], ["node", HERE / "count.mjs"], [compiled])
        begun = time.monotonic()
        ours = [subprocess.Popen([*program, *given]) for program in programs]
        for jvm in jvms:
            jvm.begin("count", "counted", file, COUNTS)
        for jvm in jvms:
            said = jvm.end(180)
            assert said == "ok", said
        for one in ours:
            assert one.wait(180) == 0
        count = int(file.read_text())
        assert count == 6 * COUNTS, f"{count} of {6 * COUNTS}"
        return f"{count} of {6 * COUNTS} in {time.monotonic() - begun:.1f} s"


CHECKS = (alternating, wakes, watchdogs, forced, shared_owner, other_kinds, counted)


def build():
    """Redisson from Maven Central, and Java's side; what went wrong, or nothing."""
    try:
        done = subprocess.run(["mvn", "--batch-mode", "--quiet", "--file", HERE / "pom.xml", "compile", "dependency:copy-dependencies"],
                              capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        return "there is no Maven: make setup installs it"
    return done.returncode and (done.stdout + done.stderr).strip()[-400:] or None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="WORD", help="only the checks whose names contain it")
    chosen = [check for check in CHECKS if parser.parse_args().k in check.__name__]
    missing, failed = build(), 0
    if missing:
        print(f"FAIL all: {missing}")
        failed = 2 * len(chosen)
    else:
        for restricted in (False, True):
            print("as restricted users" if restricted else "as users that may do anything", flush=True)
            with Stage(1, auth=restricted) as stage:
                (url,) = stage.urls()
                for check in chosen:
                    failed += not held_true(check, url, restrict(stage) if restricted else url)
    print(f"{2 * len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def restrict(stage):
    """Java's user, and no more than the pages say for ours; the URL for Java."""
    keys = [f"~{name}" for name in NAMES]
    stage.redis(1, "ACL", "SETUSER", "quorlock", *keys, *OURS)
    stage.redis(1, "ACL", "SETUSER", "java", "on", ">java", *keys, *JAVAS)
    (url,) = stage.urls(user="default", password="none")
    return url.replace("redis://", "redis://java:java@")


def held_true(check, url, javas):
    begun = time.monotonic()
    java = client = None
    try:
        java, client = Java(javas), quorlock.Client(nodes=url)
        said = check(java, client, url)
    except Exception as error:  # noqa: BLE001
        print(f"FAIL {check.__name__}: {type(error).__name__} {error}", flush=True)
        return False
    finally:
        for one in (java, client):
            if one:
                one.close()
    print(f"ok   {check.__name__:<14} {time.monotonic() - begun:5.1f} s  {said or ''}".rstrip(), flush=True)
    return True


if __name__ == "__main__":
    os.environ.pop("QUORLOCK_NODES", None)
    sys.exit(main())
