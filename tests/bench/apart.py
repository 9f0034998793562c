"""How far apart the two processors are while a run is measured: a host moves those of its guests.

A line of cache that two threads share takes 90 ns there and back on the machine of RESULTS.md, or 390 ns for some seconds, by where its host runs
the two processors. A client whose threads share its work makes two thirds as many cycles then, and a client of one thread as many as before. A
run counts where the processors are near before it and behind it; if not, it is repeated, whoever is measured.
"""

import os
import subprocess
import time

from prepare import HERE, OUT, call

PROGRAM = OUT / "apart"
# Of the least that was seen: beyond it they are apart.
NEAR = 1.6
LOOKS = 20
LOOK_SECONDS = 0.25
# A run waits so long for near processors, and is repeated so often.
PATIENCE_SECONDS = 20
TRIES = 6


class Apart:
    def __init__(self):
        call(os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", HERE / "apart.c", "-o", PROGRAM)
        self._least = self._look()
        for _ in range(LOOKS if self._least else 0):
            time.sleep(LOOK_SECONDS)
            self._least = min(self._least, self._look())

    @staticmethod
    def _look():
        """The time of a line of cache there and back in ns; 0 on one processor."""
        return int(subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout or 0)

    def _is_near(self, apart):
        return apart <= NEAR * self._least

    def near(self, run):
        """The figures of the first run with near processors; of the last, where none had."""
        for left in reversed(range(TRIES)):
            end = time.monotonic() + PATIENCE_SECONDS
            while not self._is_near(before := self._look()) and time.monotonic() < end:
                time.sleep(LOOK_SECONDS)
            figures = run()
            figures["apart_ns"] = max(before, self._look())
            if self._is_near(figures["apart_ns"]) or not left:
                return figures
