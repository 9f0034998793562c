"""What the tests of elections share: nodes, candidates, and logs that they look into."""

import asyncio
import contextlib
import logging
import queue
import threading
from unittest import mock

from inside import Inside
from quorlock import _native
from support import LONG, eventually, memory

NODES = memory("election")
# So that a renewal, which finds a loss, comes soon.
TTL = 0.5


async def soon(condition):
    """Waits until the condition holds, which may have to be awaited."""
    async with asyncio.timeout(LONG):
        while not (await value if asyncio.iscoroutine(value := condition()) else value):
            await asyncio.sleep(0)


class Patience:
    """In place of `Failures`: whoever's work has failed pauses for longer than any test."""

    def pause_after(self, led):
        return 1e6


def endless():
    return mock.patch.object(_native, "Failures", Patience)


class Failed(logging.Handler):
    """Waits for the log to tell of work that failed."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.records = queue.SimpleQueue()

    def emit(self, record):
        self.records.put(record)

    @contextlib.contextmanager
    def heard(self):
        logger = logging.getLogger("quorlock")
        logger.addHandler(self)
        propagates, logger.propagate = logger.propagate, False
        try:
            yield self.records
        finally:
            logger.removeHandler(self)
            logger.propagate = propagates


class Candidate:
    """A candidate on a thread of its own. Each of its terms is put into `terms`, and it leads until that is over."""

    def __init__(self, election, **options):
        self.election, self.inside = election, Inside()
        self.terms, self.ended = queue.SimpleQueue(), queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, kwargs=options, daemon=True)
        self.thread.start()

    def _run(self, **options):
        try:
            self.ended.put(self.election.run(self._lead, **options))
        except Exception as error:
            self.ended.put(error)

    def _lead(self, term):
        with self.inside:
            self.terms.put(term)
            eventually(lambda: not term.is_held(), 3 * LONG)
