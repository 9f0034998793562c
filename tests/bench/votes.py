#!/usr/bin/env python3
"""What a shared vote costs the server, beside one that is exclusive and asked for by script as well.

    votes.py      a table: how many readers there are already, the server's time for a vote, and the ratio of the two

Both run on one node with fences and the restart guard, in turns; each vote is taken back before the next. The time is what the
server itself counts for the script (`INFO commandstats`), without reading the command and writing the reply.
"""

import pathlib
import re
import secrets
import sys
from statistics import median

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "protocol")]

import client  # noqa: E402
from stage import Stage  # noqa: E402

READERS = (0, 1000, 9999)
REPETITIONS, VOTES, BATCH = 7, 5000, 500
TTL, FAR, COUNTER_LIFE = 600_000, 10**16, 750_000
RECORD = "bench"
SCRIPTS = {name: client.whole(name) for name in ("acquire", "share", "release")}


def keys(lock):
    return [f"lock:{mark}{{{lock}}}" for mark in ("", "#q:", "#s:", "#x:", "#f:")] + [client.RECORD, client.QUARANTINE]


def token():
    return f"{secrets.token_hex(20)}.bench"


class Server:
    def __init__(self, url):
        self.server = client.Connection(url)
        self.server.ask(["FLUSHALL"], ["SET", client.RECORD, RECORD])
        self.sha = dict(zip(SCRIPTS, self.server.ask(*(["SCRIPT", "LOAD", text] for text in SCRIPTS.values()))))

    def vote(self, script, lock, value):
        return ["EVALSHA", self.sha[script], 7, *keys(lock), value, TTL, "200 600000 10000", "", RECORD, FAR, 5, COUNTER_LIFE]

    def release(self, lock, value):
        """By EVAL, which the server counts apart."""
        lock, queue, shared, _, _, record, quarantine = keys(lock)
        return ["EVAL", SCRIPTS["release"], 5, lock, queue, shared, record, quarantine, value, "", "200 600000", RECORD]

    def read_by(self, lock, readers):
        for first in range(0, readers, BATCH):
            batch = range(first, min(first + BATCH, readers))
            self.granted(self.server.ask(*(self.vote("share", lock, token()) for _ in batch)))

    def granted(self, replies):
        refused = [reply for reply in replies if not isinstance(reply, list) or reply[0] != 1]
        if refused:
            raise RuntimeError(f"no vote: {refused[0]}")

    def microseconds(self, script, lock):
        """The server's time for one vote of that script."""
        self.server.ask(["CONFIG", "RESETSTAT"])
        for _ in range(VOTES // BATCH):
            values = [token() for _ in range(BATCH)]
            replies = self.server.ask(*(words for value in values for words in (self.vote(script, lock, value), self.release(lock, value))))
            self.granted(replies[::2])
        [told] = self.server.ask(["INFO", "commandstats"])
        return float(re.search(r"cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)", told)[1])


def main():
    with Stage(1) as stage:
        server = Server(stage.urls()[0])
        for readers in READERS:
            server.read_by(f"read by {readers}", readers)
        found = {readers: [] for readers in READERS}
        for _ in range(REPETITIONS):
            for readers in READERS:
                alone = server.microseconds("acquire", "alone")
                shared = server.microseconds("share", f"read by {readers}")
                found[readers].append((shared / alone, shared, alone))
    print("| readers there | a shared vote, µs | an exclusive one by script, µs | ratio (lowest to highest) |\n| --- | --- | --- | --- |")
    for readers, figures in found.items():
        ratios, shared, alone = zip(*figures)
        print(f"| {readers:,} | {median(shared):.1f} | {median(alone):.1f} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
