"""What the Python drivers share: their words, the gate, times and their summary."""

import argparse
import array
import json
import os
import sys
import time

TTL = 30
HELD_TTL = 10
WARM_CYCLES = 200
# After its time a contended run waits so long for contenders that have not come back.
DRAIN_SECONDS = 1
# In shared mode a holder stays inside for so long: without it two holders could hardly meet.
INSIDE_SECONDS = 0.001

now = time.perf_counter_ns


def words():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gate", action="store_true", help="print `ready`, wait for a line, and at the end for more")
    parser.add_argument("--shared", action="store_true", help="all workers on one lock, holders counted")
    parser.add_argument("--hold", action="store_true", help="hold WORKERS locks for SECONDS instead of cycles")
    parser.add_argument("--contend", metavar="FILE", help="all workers at one lock; their holds are written here")
    parser.add_argument("--stay", type=float, default=0, metavar="MS", help="how long a contender holds")
    parser.add_argument("peer")
    parser.add_argument("workers", type=int)
    parser.add_argument("seconds", type=float)
    found = parser.parse_args()
    found.nodes = os.environ["QUORLOCK_NODES"].split(",")
    return found


def quorlock_options(words):
    return {"fencing": False, "restart_guard": "off"} if "plain" in words.settings else {}


def ready():
    print("ready", flush=True)


def wait_line():
    sys.stdin.readline()


class Meter:
    def __init__(self):
        self.times, self.failures, self.violations, self.error = [], 0, 0, None
        self._inside = 0

    def start(self, seconds):
        self._wall, self._cpu = now(), time.process_time_ns()
        return self._wall + int(seconds * 1e9)

    def stop(self):
        self._wall, self._cpu = now() - self._wall, time.process_time_ns() - self._cpu

    def failed(self, error):
        self.failures += 1
        self.error = self.error or f"{type(error).__name__}: {error}"[:200]

    def enter(self):
        self._inside += 1
        self.violations += self._inside != 1

    def leave(self):
        self._inside -= 1

    def tell(self, peer):
        times, cycles = sorted(self.times), max(1, len(self.times))

        def at(share):
            return round(times[int((len(times) - 1) * share)] / 1e3, 2) if times else 0

        figures = {"peer": peer, "cycles": len(times), "seconds": round(self._wall / 1e9, 3),
                   "cycles_per_s": round(len(times) / (self._wall / 1e9)), "p50_us": at(0.5), "p99_us": at(0.99),
                   "max_us": at(1), "cpu_us": round(self._cpu / 1e3 / cycles, 2), "failures": self.failures,
                   "violations": self.violations}
        if self.error:
            figures["error"] = self.error
        print(json.dumps(figures), flush=True)


def process():
    """Memory and threads of this process."""
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["VmRSS"].split()[0]), int(fields["Threads"])


class Contest:
    """The holds of this process's contenders, as handoffs.py reads them, and what a run adds to them."""

    def __init__(self, words):
        self._words = words
        self.stay = words.stay / 1e3
        self.failures, self.error = 0, None
        # Numbers and no objects: millions of those would keep the collector busy.
        self.histories = [array.array("q") for _ in range(words.workers)]

    @staticmethod
    def warm_name(number):
        """Of a lock for warming up, on which nobody else is."""
        return f"warm-{os.getpid()}-{number}"

    def start(self):
        self._cpu, self._began = time.process_time_ns(), time.monotonic_ns()
        self.end = self._began + int(self._words.seconds * 1e9)

    def stop(self):
        self._cpu = time.process_time_ns() - self._cpu

    def failed(self, error):
        self.failures += 1
        self.error = self.error or f"{type(error).__name__}: {error}"[:200]

    def tell(self, late):
        """`late`: how many contenders have not come back."""
        with open(self._words.contend, "wb") as file:
            for history in self.histories:
                file.write(history.tobytes())
        print(json.dumps({"peer": self._words.peer, "began": self._began, "ended": self.end, "cpu_ns": self._cpu,
                          "failures": self.failures, "late": late, "error": self.error}), flush=True)


class Held:
    """Figures of a run that holds many locks."""

    def __init__(self):
        self._before = process()
        self._begun = now()

    def acquired(self):
        self._acquired = now() - self._begun

    def watch(self):
        self._cpu, self._wall = time.process_time_ns(), now()

    def tell(self, peer, locks, lost):
        cpu = 100 * (time.process_time_ns() - self._cpu) / (now() - self._wall)
        memory, threads = process()
        print(json.dumps({"peer": peer, "locks": locks, "lost": lost, "acquired_s": round(self._acquired / 1e9, 2),
                          "cpu_percent": round(cpu, 2), "rss_kib": memory, "rss_before_kib": self._before[0],
                          "threads": threads, "threads_before": self._before[1]}), flush=True)
