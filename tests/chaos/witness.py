"""Notes when the machine that a run is on had no time for it: then a late wait, or a lock that stands still, says nothing of locks.

A processor may stand still beside one that goes on, so each has a thread that does nothing but wake up. And servers, or the proxy
before them, may wait for what a processor is not to blame for, so each node is asked again and again for nothing, on a way through
the proxy that no fault is ever on.
"""

import os
import threading
import time

from stage.resp import Resp, RespError

EVERY_SECONDS = 0.01
# A thread that wakes up, or a reply that comes, so much later than it should.
LATE_SECONDS = 0.05
# A way to a node that does not answer at all is made anew.
PATIENCE_SECONDS = 1.0


def watch_processor(number, history, over):
    """Writes `stall` for each time in which this processor stood still; ends with `over`."""
    # Of this thread alone.
    os.sched_setaffinity(0, {number})
    before = time.monotonic_ns()
    while not over.wait(EVERY_SECONDS):
        now = time.monotonic_ns()
        if now - before > LATE_SECONDS * 1e9:
            history.write("stall", before, now)
        before = now


def watch(history, over):
    """The same of all processors; ends with `over`."""
    processors = sorted(os.sched_getaffinity(0))
    threads = [threading.Thread(target=watch_processor, args=(number, history, over), daemon=True) for number in processors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def watch_node(number, port, history, over):
    """Writes `slow` for each time in which this node answered late, or not at all; ends with `over`."""
    way = None
    while not over.wait(EVERY_SECONDS):
        asked = time.monotonic_ns()
        try:
            way = way or Resp(port, timeout=PATIENCE_SECONDS)
            way.call("PING")
        except (OSError, RespError):
            # Whether it answers at all is found out by the next.
            if way:
                way.close()
            way = None
        answered = time.monotonic_ns()
        if answered - asked > LATE_SECONDS * 1e9:
            history.write("slow", number, asked, answered)
    if way:
        way.close()


class Witness:
    """Watches all processors of this machine, and the nodes behind these ports, from `with` to its end."""

    def __init__(self, history, ports=()):
        self._over = threading.Event()
        self._threads = [threading.Thread(target=watch, args=(history, self._over))]
        self._threads += [threading.Thread(target=watch_node, args=(number, port, history, self._over))
                          for number, port in enumerate(ports, 1)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
