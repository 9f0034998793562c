"""The processes of a run that are not servers: workers of all languages, and the resource that their locks protect."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from history import NEVER, language
from proxy import RELEASE, TARGET

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
PYTHON = [sys.executable, os.path.join(TESTS, "python", "chaos-worker.py")]
LANGUAGES = {
    "rust": [os.path.join(RELEASE, "chaos-worker")],
    "cpp": [os.path.join(TARGET, "c", "bin", "chaos-worker-cpp")],
    "blocking": [*PYTHON, "blocking"],
    "asyncio": [*PYTHON, "asyncio"],
    "node": ["node", os.path.join(TESTS, "node", "chaos-worker.mjs")],
}
# The program that holds a lock while a command runs, and the worker that has it do so.
CLI = [os.path.join(RELEASE, "quorlock")]
# A signal may come before it has said what that means to it.
COMMANDS = {**LANGUAGES, "cli": ["env", "--ignore-signal=USR1", "--ignore-signal=USR2", sys.executable, os.path.join(HERE, "cli-worker.py"), *CLI]}


def missing(languages):
    """The first file that a worker of these languages needs and that is not built."""
    return next((word for language in languages for word in COMMANDS[language]
                 if os.sep in word and not os.path.exists(word)), None)


@dataclass
class Orders:
    """How many nodes there are, and what the workers of a run have to do; times in ms. README.md says what each of them is."""

    nodes: int = 5
    # One of these is drawn each time: a workload, and its words behind colons.
    work: tuple = ("lock:a", "lock:b", "lock:c", "shared:prices", "slots:pool:2", "keep:job:100", "several:a:b")
    ttl: int = 400
    max_ttl: int = 500
    node_timeout: int = 100
    wait: int = 1500
    hold: int = 8
    guard: str = "auto"
    wait_replicas: int = 0
    # One of so many holds ends with an export, for whichever worker asks next; 0: none does.
    hand: int = 0
    # One of so many holds lasts for one to two ttl; 0: none does.
    long: int = 200
    # A lease that is lost ends its worker.
    steady: int = 0
    # Of an election: between two steps; for how long its work goes on without a look at the term, 0: it looks.
    step: int = 10
    careless: int = 0

    def keys(self):
        """Of each lock, and each slot of a semaphore, what the history calls it and its key."""
        for workload, name, *words in (work.split(":") for work in self.work):
            if workload == "slots":
                yield from ((f"{name}.{slot}", f"lock:#p{slot}:{{{name}}}") for slot in range(int(words[0])))
            elif workload != "several":
                yield name, f"lock:{{{name}}}"

    def semaphores(self):
        """How many slots each semaphore has, by its name."""
        return {name: int(words[0]) for workload, name, *words in (work.split(":") for work in self.work) if workload == "slots"}

    def environment(self):
        told = {"CHAOS_WORK": " ".join(self.work), "QUORLOCK_MAX_TTL": f"{self.max_ttl}ms", "QUORLOCK_NODE_TIMEOUT": f"{self.node_timeout}ms",
                "QUORLOCK_WAIT_REPLICAS": str(self.wait_replicas), "QUORLOCK_RESTART_GUARD": self.guard}
        return told | {f"CHAOS_{name.upper()}": str(getattr(self, name))
                       for name in ("ttl", "wait", "hold", "hand", "long", "steady", "step", "careless")}


class Crew:
    """The workers of a run and their resource, from the begin of `with` to its end. Then the history is told the resource's figures."""

    def __init__(self, history, urls, orders, workers=(), *, end=NEVER, honour=True, own=None, folder=None):
        """`urls`: of the nodes, for the worker of a name; `own`: what a worker of a name finds in its environment, too."""
        self.history, self.orders, self.wrong = history, orders, []
        self._urls, self._first, self._own, self._end = urls, workers, own or {}, end
        self._folder = folder or os.path.dirname(history.path)
        resource = os.path.join(self._folder, "resource")
        self._environment = {**os.environ, **orders.environment(), "CHAOS_END": str(end), "CHAOS_HISTORY": history.path, "CHAOS_RESOURCE": resource}
        self._resource = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "protected.py"), resource, "honour" if honour else "ignore"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._resource.stdout.readline()
        self._workers = {}

    def __enter__(self):
        for name in self._first:
            self.start(name)
        return self

    def __exit__(self, *_):
        for name, worker in self._workers.items():
            if worker.poll() is None:
                self.signal(name, signal.SIGKILL)
                worker.wait()
        for name, value in json.loads(self._resource.communicate()[0]).items():
            self.history.write("note", name.replace("_", "-"), value)

    def __len__(self):
        return len(self._workers)

    def names(self):
        return sorted(self._workers)

    def over(self):
        """Whether the time of the run is over, so that workers end by themselves."""
        return time.monotonic_ns() >= self._end

    def running(self):
        return any(worker.poll() is None for worker in self._workers.values())

    def start(self, name, **more):
        """Starts LANGUAGE-NUMBER; also again, after `kill`. `more`: what it finds in its environment this time."""
        environment = {**self._environment, "CHAOS_NAME": name, **self._own.get(name, {}), **more}
        if "QUORLOCK_NODES" not in more:
            environment["QUORLOCK_NODES"] = ",".join(self._urls(name))
        with open(os.path.join(self._folder, f"{name}.log"), "ab") as log:
            self._workers[name] = subprocess.Popen(COMMANDS[language(name)], env=environment, stdout=log,
                                                   stdin=subprocess.DEVNULL, stderr=log)

    def signal(self, name, number):
        if self._workers[name].poll() is None:
            self._workers[name].send_signal(number)

    def stop(self, name):
        """SIGSTOP; returns when it is stopped, or has ended."""
        self.signal(name, signal.SIGSTOP)
        # Not reaped, should it have ended: that is for `poll` to find.
        os.waitid(os.P_PID, self._workers[name].pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self, name):
        """SIGKILL; the history learns when."""
        worker = self._workers[name]
        self.ended_before(name)
        at = time.monotonic_ns()
        worker.kill()
        worker.wait()
        self.history.write("dead", name, at)

    def dismiss(self, name):
        """As `kill`, for good."""
        self.kill(name)
        del self._workers[name]

    def kill_all(self):
        for name in self.names():
            self.kill(name)

    def ended_before(self, name):
        """Remembers what a worker said that has failed. Whether it has."""
        status = self._workers[name].poll()
        if status:
            with open(os.path.join(self._folder, f"{name}.log"), errors="replace") as log:
                self.wrong.append(f"{name} ended with status {status}: {log.read()[-1500:].strip()}")
        return bool(status)

    def join(self, seconds):
        """Waits until all workers have ended by themselves; one that has not is killed, and wrong."""
        end = time.monotonic() + seconds
        for name, worker in self._workers.items():
            try:
                worker.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.wrong.append(f"{name} does not end")
                self.kill(name)
            else:
                self.ended_before(name)
