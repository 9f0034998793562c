"""The processes of a fault run that are not servers: workers of all languages, and the resource that they change."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from proxy import RELEASE, ROOT, TARGET

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
LANGUAGES = {
    "rust": [os.path.join(RELEASE, "faults-worker")],
    "c": [os.path.join(TARGET, "c", "bin", "faults-worker-c")],
    "blocking": [sys.executable, os.path.join(TESTS, "python", "faults-worker.py"), "blocking"],
    "asyncio": [sys.executable, os.path.join(TESTS, "python", "faults-worker.py"), "asyncio"],
    "node": ["node", os.path.join(TESTS, "node", "faults-worker.mjs")],
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
class Terms:
    """How many nodes there are, and what all workers of a run are told; times in ms."""

    nodes: int = 5
    # `NAME*SLOTS` is a semaphore, `NAME&` a lock that three of four share, `NAME%KEEP` one that is tried and then kept for so many
    # ms, `NAME+NAME` both together.
    locks: tuple = ("a", "b", "c", "prices&", "pool*2", "job%100", "a+b")
    ttl: int = 400
    max_ttl: int = 500
    node_timeout: int = 100
    wait: int = 1500
    hold: int = 8
    guard: str = ""
    wait_replicas: int = 0
    # One of so many holds ends with an export, for whichever worker asks next; 0: none does.
    hand: int = 0

    def keys(self):
        """Of each lock, and each slot of a semaphore, what the history calls it and its key."""
        for word in self.locks:
            name, _, slots = word.rstrip("&").partition("%")[0].partition("*")
            if "+" in name:
                continue
            if slots:
                yield from ((f"{name}.{slot}", f"lock:#p{slot}:{{{name}}}") for slot in range(int(slots)))
            else:
                yield name, f"lock:{{{name}}}"

    def environment(self, end):
        return {"FAULTS_LOCKS": ",".join(self.locks), "FAULTS_TTL": str(self.ttl), "FAULTS_MAX_TTL": str(self.max_ttl),
                "FAULTS_NODE_TIMEOUT": str(self.node_timeout), "FAULTS_WAIT": str(self.wait),
                "FAULTS_HOLD": str(self.hold), "FAULTS_GUARD": self.guard,
                "FAULTS_WAIT_REPLICAS": str(self.wait_replicas), "FAULTS_HAND": str(self.hand), "FAULTS_END": str(end)}


class Crew:
    def __init__(self, folder, urls, history, terms, end, *, honour=True, own=None):
        """`urls`: of the nodes, for the worker of a name; `own`: what a worker of a name finds in its environment, too."""
        self.history, self.terms, self._folder, self._urls, self._own = history, terms, folder, urls, own or {}
        self._end = end
        self._path = os.path.join(folder, "resource")
        self._environment = {**os.environ, **terms.environment(end), "FAULTS_HISTORY": history.path,
                             "FAULTS_RESOURCE": self._path}
        self._resource = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "protected.py"), self._path, "honour" if honour else "ignore"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._resource.stdout.readline()
        self._workers, self.wrong = {}, []

    def __len__(self):
        return len(self._workers)

    def names(self):
        return sorted(self._workers)

    def over(self):
        """Whether the time of the run is over, so that workers end by themselves."""
        return time.monotonic_ns() >= self._end

    def start(self, name, **more):
        """Starts LANGUAGE-NUMBER; also again, after `kill`. `more`: what it finds in its environment this time."""
        environment = {**self._environment, "FAULTS_NAME": name, **self._own.get(name, {}), **more}
        if "QUORLOCK_NODES" not in more:
            environment["QUORLOCK_NODES"] = ",".join(self._urls(name))
        with open(os.path.join(self._folder, f"{name}.log"), "ab") as log:
            self._workers[name] = subprocess.Popen(COMMANDS[name.rpartition("-")[0]], env=environment, stdout=log,
                                                   stdin=subprocess.DEVNULL, stderr=log)

    def signal(self, name, number):
        if self._workers[name].poll() is None:
            self._workers[name].send_signal(number)

    def kill(self, name):
        """SIGKILL; the history learns when."""
        worker = self._workers[name]
        self._ended_before(name)
        at = time.monotonic_ns()
        worker.kill()
        worker.wait()
        self.history.write("dead", name, at)

    def dismiss(self, name):
        """As `kill`, for good."""
        self.kill(name)
        del self._workers[name]

    def _ended_before(self, name):
        status = self._workers[name].poll()
        if status:
            with open(os.path.join(self._folder, f"{name}.log"), errors="replace") as log:
                self.wrong.append(f"{name} ended with status {status}: {log.read()[-1500:].strip()}")

    def join(self, seconds):
        """Waits until all workers have ended by themselves; whoever has not is killed, and wrong."""
        end = time.monotonic() + seconds
        for name, worker in self._workers.items():
            try:
                worker.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.wrong.append(f"{name} does not end")
                self.kill(name)
            else:
                self._ended_before(name)

    def close(self):
        """Ends everything; returns the resource's figures."""
        for name, worker in self._workers.items():
            if worker.poll() is None:
                self.signal(name, signal.SIGKILL)
                worker.wait()
        figures, _ = self._resource.communicate()
        return json.loads(figures)
