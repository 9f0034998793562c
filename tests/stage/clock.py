"""A node's wall clock, set by the test while the server runs: the file that clock.c reads in the server."""

import mmap
import os
import struct
import subprocess
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock.c")
SETTING_SIZE = 5 * 8  # version, offset, rate, since, still
SECOND = 1_000_000_000


def build(folder):
    """Compiles the library for LD_PRELOAD into the folder; returns its path."""
    path = os.path.join(folder, "clock.so")
    if not os.path.exists(path):
        command = [os.environ.get("CC") or "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", SOURCE, "-o"]
        done = subprocess.run([*command, path + ".new"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{SOURCE}: {done.stderr.strip()}")
        os.rename(path + ".new", path)
    return path


class Clock:
    """What one node takes for the time. The offset outlives restarts of the server, as a host's wrong clock does."""

    def __init__(self, folder, library):
        path = os.path.join(folder, "clock")
        with open(path, "w+b") as file:
            file.write(bytes(SETTING_SIZE))
            file.flush()
            self._map = mmap.mmap(file.fileno(), SETTING_SIZE)
        # Whoever sets it from another process writes the same numbers in the same order (tests/model/src/clock.rs).
        self.path = path
        self.environment = {"LD_PRELOAD": library, "QUORLOCK_CLOCK": path}
        self._version = self._offset = self._rate = self._since = self._still = 0

    def offset(self):
        """How far the clock is ahead now, in seconds."""
        return self._now_ahead(time.time_ns()) / SECOND

    def _now_ahead(self, now):
        return self._offset + (now - self._since) * self._rate // SECOND

    def step(self, seconds):
        """Sets the clock forward, or back."""
        self._set(round(seconds * SECOND), self._rate)

    def run(self, rate):
        """From now on the clock gains `rate` seconds a second (0: none; negative: it loses), without a step."""
        self._set(0, round(rate * SECOND))

    def stand(self, nanoseconds):
        """From now on the clock stands at this time since 1970; 0: it goes on as it did."""
        self._still = nanoseconds
        self._set(0, self._rate)

    def _set(self, step, rate):
        now = time.time_ns()
        self._offset, self._rate, self._since = self._now_ahead(now) + step, rate, now
        # Odd while the rest does not fit together: readers wait.
        self._map[:8] = struct.pack("=q", self._version + 1)
        self._map[8:] = struct.pack("=qqqq", self._offset, self._rate, self._since, self._still)
        self._version += 2
        self._map[:8] = struct.pack("=q", self._version)

    def close(self):
        self._map.close()
