"""One adapter: a process that has one library's locks, asked by a line and answering by a line (README.md)."""

import contextlib
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
OURS = [sys.executable, str(HERE / "python" / "ours.py")]
# Longer than any wait of a library (20 s), on a machine that is busy.
ANSWER_SECONDS = 40.0


class AdapterError(Exception):
    """An adapter that does not start, does not answer, or tells of an error."""


class Adapter:
    def __init__(self, name, command, nodes, folder):
        self.name, self._log = name, os.path.join(folder, f"{name}-{time.monotonic_ns()}.txt")
        environment = dict(os.environ, QUORLOCK_NODES=",".join(nodes), PYTHONDONTWRITEBYTECODE="1")
        self._said = queue.Queue()
        with open(self._log, "wb") as log:
            try:
                self._process = subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.PIPE,
                                                 stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
            except OSError as error:
                raise AdapterError(f"{name} does not start: {error}") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            word, _, self.version = self.hear().partition(" ")
            if word != "ready":
                raise AdapterError(f"{name} begins with {word!r} and not with `ready VERSION`")
        except AdapterError:
            self.kill()
            raise

    def _read(self):
        with self._process.stdout as lines:
            for line in lines:
                self._said.put((time.monotonic(), line.rstrip("\n")))
        self._said.put((time.monotonic(), None))

    def tell(self, *words):
        """Writes a line; returns when, on the clock of `heard_at`."""
        now = time.monotonic()
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
        except OSError:
            raise AdapterError(f"{self.name} has ended: {self._last_words()}") from None
        return now

    def hear(self, seconds=ANSWER_SECONDS):
        """The next line, which must come within that time. `heard_at` is when it came."""
        try:
            self.heard_at, said = self._said.get(timeout=seconds)
        except queue.Empty:
            raise AdapterError(f"{self.name} does not answer within {seconds:g} s") from None
        if said is None:
            self._said.put((self.heard_at, None))
            raise AdapterError(f"{self.name} has ended: {self._last_words()}")
        if said.startswith("failed: "):
            raise AdapterError(f"{self.name}: {said.removeprefix('failed: ')}")
        return said

    def ask(self, *words):
        self.tell(*words)
        return self.hear()

    def _last_words(self):
        self._process.wait()
        with open(self._log, errors="replace") as log:
            lines = log.read().strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:])[-400:] or "it said nothing"

    def kill(self):
        """SIGKILL, whatever it holds."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self):
        """Its input ends, and so does it; killed if it does not."""
        try:
            self._process.stdin.close()
            self._process.wait(5)
            self._reader.join()
        except (OSError, subprocess.TimeoutExpired):
            self.kill()
