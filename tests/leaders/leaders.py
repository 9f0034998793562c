#!/usr/bin/env python3
"""Candidates of all languages, one election, and whatever may happen to the one that leads. README.md says the rest."""

import argparse
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "faults"), TESTS]

import quorlock  # noqa: E402
from witness import watch  # noqa: E402
from history import Writer  # noqa: E402
from judge import KINDS, NEVER, History, judge, language  # noqa: E402
from proxy import RELEASE, ROOT, TARGET, Proxy  # noqa: E402
from stage import Stage  # noqa: E402

LANGUAGES = {
    "rust": [os.path.join(RELEASE, "leaders-worker")],
    "blocking": [sys.executable, os.path.join(TESTS, "python", "leaders-worker.py"), "blocking"],
    "asyncio": [sys.executable, os.path.join(TESTS, "python", "leaders-worker.py"), "asyncio"],
    "node": ["node", os.path.join(TESTS, "node", "leaders-worker.mjs")],
    "cpp": [os.path.join(TARGET, "c", "bin", "leaders-worker-cpp")],
}
ELECTION, NODES = "leaders", 3
TTL_MS, STEP_MS, LOOK_SECONDS = 1000, 10, 0.1
# For how long a careless worker goes on with a term, whatever becomes of that: beyond the begin of the next leader.
CARELESS_MS = 4 * TTL_MS
# How a network path is cut, as tests/rust/src/bin/faults-proxy.rs has it.
CUTS = (("drop", "both"), ("hold", "both"), ("drop", "replies"), ("half-open",))
# The longest wait for anything at all: what does not come by then is missing in the history, and judged.
PATIENCE_SECONDS = 20
KEEP = os.path.join(ROOT, "target", "leaders")


class Tracked(History):
    """The history as far as it has come."""

    def __init__(self, path):
        super().__init__()
        self._file, self._rest, self._lines = open(path), "", 0

    def close(self):
        self._file.close()

    def look(self):
        *whole, self._rest = (self._rest + self._file.read()).split("\n")
        for line in whole:
            self._lines += 1
            self.add(self._lines, line)

    def leader(self):
        """The term that there is, if its work does steps."""
        term = max(self.terms.values(), key=lambda term: term.fence, default=None)
        if term is None or term.worker in self.dead or not (term.held and term.steps and term.lost == term.ended == NEVER):
            return None
        return term

    def succeeded(self, fence):
        return any(term.held and term.fence > fence for term in self.terms.values())

    def is_told(self, worker, fence):
        """Whether the loss of a term has been told, and the end of its work."""
        term = self.terms[worker, fence]
        return NEVER not in (term.lost, term.ended) and self.at_work.get(worker) != fence


class Run:
    """The candidates of a run, and what is done to them."""

    def __init__(self, folder, proxy, seed, careless):
        self._folder, self._proxy, self.random = folder, proxy, random.Random(seed)
        self.history = Writer(os.path.join(folder, "history"))
        self.tracked = Tracked(self.history.path)
        self._environment = {**os.environ, "LEADERS_HISTORY": self.history.path, "LEADERS_ELECTION": ELECTION,
                             "LEADERS_TTL": str(TTL_MS), "LEADERS_STEP": str(STEP_MS),
                             "LEADERS_CARELESS": str(CARELESS_MS if careless else 0)}
        self._workers, self._started, self._faults, self.wrong = {}, Counter(), 0, []
        self.history.write("note", "ttl-ns", TTL_MS * 10**6)

    def start(self, kind):
        """Starts a worker of a language; also again, after `kill`. Each process has a name of its own."""
        self._started[kind] += 1
        name = f"{kind}-{self._started[kind]}"
        urls = [f"redis://127.0.0.1:{self._proxy.ports[way - 1]}" for way in self._ways(name)]
        environment = {**self._environment, "LEADERS_NAME": name, "QUORLOCK_NODES": ",".join(urls)}
        with open(os.path.join(self._folder, f"{name}.log"), "ab") as log:
            self._workers[name] = subprocess.Popen(LANGUAGES[kind], env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log)

    def _ways(self, worker):
        """The numbers of a worker's own ports at the proxy."""
        place = list(LANGUAGES).index(language(worker))
        return range(place * NODES + 1, (place + 1) * NODES + 1)

    def wait(self, come, seconds=PATIENCE_SECONDS):
        """Waits until the history has it. Returns what that was; nothing if it does not come."""
        end = time.monotonic() + seconds
        while True:
            self.tracked.look()
            found = come()
            if found or time.monotonic() > end:
                return found
            for name, worker in self._workers.items():
                if worker.poll() is not None:
                    raise RuntimeError(f"{name} ended with status {worker.returncode}: {self._told(name)}")
            time.sleep(0.002)

    def _told(self, name):
        with open(os.path.join(self._folder, f"{name}.log"), errors="replace") as log:
            return log.read()[-1500:].strip()

    def fault(self, left):
        """One of these kinds meets the leader, until another leads. Takes it off, unless there was no leader to meet."""
        found = self.wait(self.tracked.leader)
        if not found:
            raise RuntimeError("nobody leads")
        # Any moment of a term: renewed once, thrice, not at all.
        time.sleep(self.random.uniform(0, TTL_MS / 1000))
        worker, fence = found.worker, found.fence
        # That which leaders of its language have met least.
        met = Counter(fault.kind for fault in self.tracked.faults.values() if language(fault.worker) == language(worker))
        kind = min(self.random.sample(left, len(left)), key=lambda kind: met[kind])
        self._faults += 1
        number = self._faults
        begin = functools.partial(self.history.write, "fault", number, kind, worker, fence)

        def over():
            self.history.write("over", number, time.monotonic_ns())

        getattr(self, f"_{kind}")(worker, fence, begin, over)
        self.tracked.look()
        if self.tracked.faults[number].met:
            left.remove(kind)

    def _await_next(self, fence):
        self.wait(lambda: self.tracked.succeeded(fence))

    def _await_end(self, worker, fence):
        self.wait(lambda: self.tracked.is_told(worker, fence))

    def _stopped(self, worker, fence, begin, over):
        process = self._workers[worker]
        process.send_signal(signal.SIGSTOP)
        # Not reaped, should it have ended: that is for `poll` to find.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        begin(time.monotonic_ns())
        self._await_next(fence)
        over()
        process.send_signal(signal.SIGCONT)
        self._await_end(worker, fence)

    def _killed(self, worker, fence, begin, over):
        begin(time.monotonic_ns())
        self._kill(worker)
        self.start(language(worker))
        self._await_next(fence)
        over()

    def _kill(self, worker):
        process = self._workers.pop(worker)
        at = time.monotonic_ns()
        process.kill()
        process.wait()
        self.history.write("dead", worker, at)

    def _cut(self, worker, fence, begin, over):
        words = self.random.choice(CUTS)
        begin(time.monotonic_ns())
        for way in self._ways(worker):
            self._proxy.tell(way, *words)
        self._await_next(fence)
        # Without a word of any node.
        self._await_end(worker, fence)
        over()
        for way in self._ways(worker):
            self._proxy.tell(way, "heal")

    def close(self):
        for name in list(self._workers):
            if (status := self._workers[name].poll()) is not None:
                self.wrong.append(f"{name} ended with status {status}: {self._told(name)}")
            self._kill(name)
        self.tracked.close()
        self.history.close()


def observe(election, history):
    """Writes who leads, as often as that changes, until the client is closed."""
    try:
        for now in election.observe(every=LOOK_SECONDS):
            worker, fence = ("?", 0) if not now.known else ("-", 0)
            if now.leader:
                worker, fence = now.leader.label, now.leader.fence
            history.write("seen", worker, fence, time.monotonic_ns())
    except quorlock.ClientClosedError:
        pass


def play(run, times):
    """Each kind of fault this many times, in random order; one that met no leader is none."""
    for kind in LANGUAGES:
        run.start(kind)
    left = [kind for kind in KINDS for _ in range(times)]
    while left:
        run.fault(left)


def carry_out(asked, folder, seed):
    """The run; returns what went wrong in it that is not in its history."""
    with Stage(NODES) as stage, \
            Proxy(seed, len(LANGUAGES) * [stage.port(number) for number in range(1, NODES + 1)]) as proxy:
        run, over = Run(folder, proxy, seed, asked.careless), threading.Event()
        client = quorlock.Client(stage.urls())
        threads = [threading.Thread(target=watch, args=(run.history, over)),
                   threading.Thread(target=observe, args=(client.election(ELECTION), run.history))]
        for thread in threads:
            thread.start()
        try:
            play(run, asked.times)
        except (OSError, RuntimeError) as error:
            run.wrong.append(f"the run broke off: {type(error).__name__}: {error}")
        finally:
            over.set()
            client.close()
            for thread in threads:
                thread.join()
            run.history.write("note", "end", time.monotonic_ns())
            run.close()
    return run.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="how often each kind of fault is to meet a leader")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time; it is printed")
    parser.add_argument("--careless", action="store_true", help="workers do not ask whether they lead: a run that must fail")
    asked = parser.parse_args()
    lacking = [word for command in LANGUAGES.values() for word in command if os.sep in word and not os.path.exists(word)]
    if lacking:
        print(f"there is no {lacking[0]}: run `make build` first", file=sys.stderr)
        return 2
    # An exception, so that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    print(f"{NODES} servers, {len(LANGUAGES)} candidates, {len(KINDS)} kinds of faults, {asked.times} of each, seed {seed}",
          flush=True)
    with tempfile.TemporaryDirectory(prefix="qlleaders") as folder:
        wrong = carry_out(asked, folder, seed)
        shutil.rmtree(KEEP, ignore_errors=True)
        shutil.copytree(folder, KEEP)
        with open(os.path.join(folder, "history")) as history:
            wrong += judge(history, asked.times)
    for line in wrong:
        print(f"wrong: {line}")
    print(f"the history: {os.path.relpath(os.path.join(KEEP, 'history'), ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
