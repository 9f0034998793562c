"""Candidates of all languages, one election, and whatever may happen to the one that leads.

With `--careless` workers do not ask whether they lead: that run must fail.
"""

import random
import signal
import threading
import time
from collections import Counter

import quorlock

import terms
from crew import LANGUAGES, Crew, Orders
from history import Live, language
from proxy import Proxy
from stage import Stage
from terms import KINDS, History
from witness import Witness

ELECTION, NODES = "leaders", 3
TTL_MS, STEP_MS, LOOK_SECONDS = 1000, 10, 0.1
# For how long a careless worker goes on with a term, whatever becomes of that: beyond the begin of the next leader.
CARELESS_MS = 4 * TTL_MS
# How a network path is cut, as tests/rust/src/bin/faults-proxy.rs has it.
CUTS = (("drop", "both"), ("hold", "both"), ("drop", "replies"), ("half-open",))
# The longest wait for anything at all: what does not come by then is missing in the history, and judged.
PATIENCE_SECONDS = 20


class Run:
    """What is done to the candidates of a run."""

    def __init__(self, crew, proxy, history, rng):
        self._crew, self._proxy, self._history, self.random = crew, proxy, history, rng
        self._live = Live(history.path, History)
        self._started, self._faults = Counter(), 0

    def start(self, of):
        """Starts a worker of a language; also again, after `killed`. Each process has a name of its own."""
        self._started[of] += 1
        self._crew.start(f"{of}-{self._started[of]}")

    def wait(self, come):
        """Waits until the history has it. Returns what that was; nothing if it does not come."""

        def look():
            if any([self._crew.ended_before(name) for name in self._crew.names()]):
                raise RuntimeError(self._crew.wrong[-1])

        return self._live.wait(come, PATIENCE_SECONDS, look)

    def fault(self, left):
        """One of these kinds meets the leader, until another leads. Takes it off, unless there was no leader to meet."""
        found = self.wait(History.leader)
        if not found:
            raise RuntimeError("nobody leads")
        # Any moment of a term: renewed once, thrice, not at all.
        time.sleep(self.random.uniform(0, TTL_MS / 1000))
        worker, fence = found.worker, found.fence
        # That which leaders of its language have met least.
        met = Counter(fault.kind for fault in self._live.history.faults.values() if language(fault.worker) == language(worker))
        kind = min(self.random.sample(left, len(left)), key=lambda kind: met[kind])
        self._faults += 1
        number = self._faults

        def begin():
            self._history.write("begin", number, kind, time.monotonic_ns(), f"{worker}/{fence}")

        def over():
            self._history.write("end", number, time.monotonic_ns())

        getattr(self, f"_{kind}")(worker, fence, begin, over)
        if self._live.look().faults[str(number)].met:
            left.remove(kind)

    def _await_next(self, fence):
        self.wait(lambda history: history.succeeded(fence))

    def _await_end(self, worker, fence):
        self.wait(lambda history: history.is_told(worker, fence))

    def _stopped(self, worker, fence, begin, over):
        self._crew.stop(worker)
        begin()
        self._await_next(fence)
        over()
        self._crew.signal(worker, signal.SIGCONT)
        self._await_end(worker, fence)

    def _killed(self, worker, fence, begin, over):
        begin()
        self._crew.dismiss(worker)
        self.start(language(worker))
        self._await_next(fence)
        over()

    def _cut(self, worker, fence, begin, over):
        words = self.random.choice(CUTS)
        begin()
        for way in ways(worker):
            self._proxy.tell(way, *words)
        self._await_next(fence)
        # Without a word of any node.
        self._await_end(worker, fence)
        over()
        for way in ways(worker):
            self._proxy.tell(way, "heal")

    def play(self, times):
        """Each kind of fault this many times, in random order; one that met no leader is none."""
        for of in LANGUAGES:
            self.start(of)
        left = [kind for kind in KINDS for _ in range(times)]
        while left:
            self.fault(left)
        self._live.close()


def ways(worker):
    """The numbers of a worker's own ports at the proxy."""
    place = list(LANGUAGES).index(language(worker))
    return range(place * NODES + 1, (place + 1) * NODES + 1)


def observe(election, history):
    """Writes which candidate leads, as often as that changes, until the client is closed."""
    try:
        for now in election.observe(every=LOOK_SECONDS):
            worker, fence = ("?", 0) if not now.known else ("-", 0)
            if now.leader:
                worker, fence = now.leader.label, now.leader.fence
            history.write("seen", worker, fence, time.monotonic_ns())
    except quorlock.ClientClosedError:
        pass


def arguments(parser):
    parser.add_argument("--times", type=int, default=3, help="how often each kind of fault is to meet a leader")
    parser.add_argument("--careless", action="store_true", help="workers do not ask whether they lead: a run that must fail")


def heading(asked):
    return f"{NODES} servers, {len(LANGUAGES)} candidates, {len(KINDS)} kinds of faults, {asked.times} of each"


def play(asked, history, seed):
    orders = Orders(nodes=NODES, work=(f"election:{ELECTION}",), ttl=TTL_MS, max_ttl=60_000, node_timeout=250, wait=10_000, step=STEP_MS,
                 careless=CARELESS_MS if asked.careless else 0)
    history.write("note", "ttl-ns", TTL_MS * 10**6)
    wrong = []
    with Stage(NODES) as stage, Proxy(seed, len(LANGUAGES) * [stage.port(number) for number in range(1, NODES + 1)]) as proxy:
        def urls(worker):
            return [f"redis://127.0.0.1:{proxy.ports[way - 1]}" for way in ways(worker)]

        client = quorlock.Client(stage.urls())
        observer = threading.Thread(target=observe, args=(client.election(ELECTION), history))
        with Crew(history, urls, orders) as crew, Witness(history):
            observer.start()
            try:
                Run(crew, proxy, history, random.Random(seed)).play(asked.times)
            except RuntimeError as error:
                wrong.append(f"the run broke off: {error}")
            finally:
                client.close()
                observer.join()
            history.write("note", "end", time.monotonic_ns())
            crew.kill_all()
    return wrong + crew.wrong


def judge(asked, history, verdict):
    terms.judge(history, asked.times, verdict)
