"""How far apart the two processors are while a run is measured: a host moves those of its guests.

A line of cache that two threads share takes 90 ns there and back on the machine of RESULTS.md, or 390 ns for some seconds, by where its host runs
the two processors. A client whose threads share its work makes 0.6 to 0.8 of its cycles then, and a client of one thread loses a few of a hundred.
A run of any peer counts where the processors are near before it and behind it; otherwise it is repeated, and the last try counts where none was near.
"""

import os
import subprocess
import time

from prepare import HERE, OUT, call

PROGRAM = OUT / "apart"
# Of the least that was seen so far: beyond it they are apart.
NEAR = 1.6
LOOKS = 20
LOOK_SECONDS = 0.25
# A run waits so long for near processors, and is repeated so often.
PATIENCE_SECONDS = 20
TRIES = 6


class Apart:
    def __init__(self):
        call(os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", HERE / "apart.c", "-o", PROGRAM)
        self._least = float("inf")
        for _ in range(LOOKS):
            self._look()
            time.sleep(LOOK_SECONDS)

    def _look(self):
        """The time of a line of cache there and back in ns; 0 on one processor."""
        apart = int(subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout or 0)
        self._least = min(self._least, apart)
        return apart

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
