"""The ledger of a run, within the driver: what workers read and write under their lock, one round after the other.

A worker says `hello NAME`, and then asks line by line: `next` (`go` or `end`), `read LOCK FENCE` (`NUMBER THINK`, or `stale`), and
`write LOCK FENCE NUMBER` (`ok` or `stale`), or `lost` where its library has told the loss; `failed WHY` and `unreleased WHY` count. THINK is how long it
has to think before it writes, in ms. A fault is aimed at one round: its reader is told to think for longer.
"""

import socketserver
import threading
import time
from collections import Counter

from protected import Resource

# Of every round at which no fault is aimed.
THINK_MS = 0
# How soon its server ends.
POLL_SECONDS = 0.02


class Aim:
    """One round at which a fault is aimed: `taken` when a worker has read, `arrived` when its write is there, `over` when that has been done."""

    def __init__(self, think_ms, hold_back):
        self.think_ms, self.worker, self.answer = think_ms, None, None
        self.lost = self.others = 0
        # Whether the fault itself stops the holder.
        self.pauses = hold_back
        self.taken, self.arrived, self.over, self.free = (threading.Event() for _ in range(4))
        if not hold_back:
            self.free.set()


class Ledger:
    """`overdue`: a round that lasts for longer than this many seconds, for which the machine is the cause and no fault, is counted if it loses an update."""

    def __init__(self, updates, honour=False, overdue=60.0):
        self.resource, self.updates, self._limit = Resource(honour), updates, 0
        self.figures, self.ended, self._greeted = Counter(), False, set()
        self._lock, self._aim, self._inside = threading.Lock(), None, {}
        self._changed = threading.Condition(self._lock)
        self._resting = False
        self._overdue, self._began, self.overdue = overdue, {}, 0

    def __enter__(self):
        ledger = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                ledger._serve(self.rfile, self.wfile)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, lines, out):
        name = ""
        try:
            for line in lines:
                words = line.decode().split()
                if words[0] == "hello":
                    name = words[1]
                out.write((self._answer(name, words) + "\n").encode())
        except ConnectionError:
            # The driver has ended the worker.
            pass

    def _answer(self, name, words):
        with self._lock:
            took = time.monotonic() - self._began.pop(name) if words[0] in ("write", "lost") else 0
            late = took > self._overdue and not (name in self._inside and self._inside[name].pauses)
            before = self.resource.figures["lost_updates"]
            if words[0] == "write" and name in self._inside:
                aim = self._inside[name]
                aim.arrived.set()
                # Others go on meanwhile: the lock is let go.
                self._changed.wait_for(aim.free.is_set)
            said = getattr(self, "_" + words[0])(name, words)
            self.overdue += late and self.resource.figures["lost_updates"] > before
            self._changed.notify_all()
            return said

    def _hello(self, name, _words):
        self._greeted.add(name)
        return "ok"

    def _next(self, _name, _words):
        self._changed.wait_for(lambda: self._over() or not self._resting and self.writes() < self._limit)
        return "end" if self._over() else "go"

    def _over(self):
        return self.ended or self.writes() >= self.updates

    def _read(self, name, words):
        number = self.resource.answer(" ".join(words))
        if number == "stale":
            return number
        think = THINK_MS
        if self._aim:
            aim, self._aim = self._aim, None
            self._inside[name] = aim
            aim.worker, think = name, aim.think_ms
            aim.taken.set()
        self._began[name] = time.monotonic()
        return f"{number} {think}"

    def _write(self, name, words):
        before = self.resource.figures["lost_updates"]
        said = self.resource.answer(" ".join(words))
        self._done(name, said, self.resource.figures["lost_updates"] - before)
        return said

    def _lost(self, name, _words):
        self.figures["told"] += 1
        self._done(name, "told", 0)
        return "ok"

    def _failed(self, _name, words):
        self.figures[f"failed {' '.join(words[1:])}"] += 1
        return "ok"

    def _unreleased(self, _name, words):
        self.figures[f"unreleased {' '.join(words[1:])}"] += 1
        return "ok"

    def _done(self, name, said, lost):
        for aim in self._inside.values():
            if aim.worker != name and said == "ok":
                aim.others += 1
        aim = self._inside.pop(name, None)
        if aim:
            aim.answer, aim.lost = said, lost
            aim.over.set()

    # ---- for the driver ----

    def writes(self):
        return self.resource.figures["writes"]

    def rest(self):
        """No round begins until `go_on`; those that are under way end."""
        with self._lock:
            self._resting = True

    def go_on(self):
        with self._lock:
            self._resting = False
            self._changed.notify_all()

    def await_workers(self, count, seconds):
        """Waits until so many have said hello; none begins a round before more are allowed."""
        return self.wait(lambda: len(self._greeted) >= count, seconds)

    def allow(self, more):
        """No round begins when so many more updates have been written, until more are allowed: workers that are fast would be done before the last fault."""
        with self._lock:
            self._limit = min(self.updates, self.writes() + more)
            self._changed.notify_all()

    def aim(self, think_ms, hold_back=False):
        """Aims at the next round that reads; with `hold_back` its write waits until `release`."""
        with self._lock:
            self._aim = Aim(think_ms, hold_back)
            return self._aim

    def release(self, aim):
        with self._lock:
            aim.free.set()
            self._changed.notify_all()

    def wait(self, done, seconds):
        """Waits for what a request changes; whether it came."""
        with self._lock:
            return self._changed.wait_for(done, seconds)

    def await_writes(self, count, seconds):
        return self.wait(lambda: self.writes() >= count, seconds)

    def end(self):
        """No round begins any more."""
        with self._lock:
            self.ended = True
            self._aim = None
            self._changed.notify_all()
