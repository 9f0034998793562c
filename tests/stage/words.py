"""What a stage can be told in words: the commands of stage.py and of `stage` lines in scenarios.

A command either holds (its output is returned) or raises StageError; every wait is bounded. In each word `%20` stands
for a blank, and so on, so that words need no quoting in a shell.
"""

import re
import time
from urllib.parse import unquote_to_bytes

from .cluster import POLL_SECONDS
from .resp import RespError, text

HELP = """\
NODES is one number, several with commas, or `all`. KEY and other words may hold %XX for any byte. MS: at most so long.
Where a node has replicas its number means the server that is the master now, with `cont` and `start` all of the node. Parts
of it: `1.replica1`…, `1.replicas`, `1.sentinel1`…, `1.sentinels`, and `1.old`, what was the master when that was last stopped,
killed or failed over. A node that is a cluster has `1.shard1`…, `1.shards`, and the same of replicas and the old one.
-n DB before a command: look at that database.

  stop NODES                       hang (SIGSTOP)
  cont NODES                       thaw
  kill NODES                       SIGKILL; the data is gone, connections are refused
  start NODES                      start dead nodes again, empty
  failover NODES                   a sentinel is told to promote a replica, though the master is alive
  await-failover NODES MS          another server is the master than the old one, and all sentinels name it
  await-order NODES MS             all that runs of the nodes works together
  move NODES KEY PLACE             the hash slot of KEY goes to the server of that place; or step by step:
  begin-move NODES KEY PLACE, move-keys NODES KEY, end-move NODES KEY
  reshard NODES KEY COUNT PLACE    so many hash slots of the server that has KEY, the lowest first, go there one by one
  join NODES                       another primary, which has no hash slots yet, joins clusters: its place is `new`
  behind NODES                     what is written from now on reaches no replica, until `cont`
  heal                             all up and empty, counters zero
  redis NODES COMMAND WORD...      run a command and print the reply; fails if one node answers with an error
  expect NODES PATTERN COMMAND WORD...
                                   the reply is PATTERN: a text, or starts:TEXT, ends:TEXT, has:TEXT, lacks:TEXT
  await NODES PATTERN MS COMMAND WORD...
                                   the same, as soon as it holds
  await-free KEY MS                KEY is on no running node
  await-reserved KEY COUNT MS      the lock KEY is reserved for a waiter on at least COUNT running nodes
  await-no-locks MS                no lock is held: what is left are records and counters
  declare                          write the record of a new set to all nodes
  expect-votes KEY COUNT MS        KEY is on exactly COUNT running nodes
  expect-ttl NODES KEY LOW HIGH    PTTL of KEY is from LOW to HIGH, as soon as KEY is there, within 5 s: a lease is won
                                   before every node has carried everything out
  reset-counters                   the running nodes count their commands from zero
  expect-calls COMMAND LOW HIGH MS together the running nodes ran COMMAND from LOW to HIGH times
  counters                         print the commands that each running node ran
  show                             print state and port of each node"""


# The text of a lock's key that is reserved until then (docs/reference/protocol.md, "Keys and values").
RESERVED = re.compile(rb"[@&][1-9]\d* ")


class StageError(Exception):
    """A command does not make sense, or what it expects is not so."""


def poll(milliseconds, look, what):
    """Looks until `look` returns true; what was seen last is in the error."""
    end = time.monotonic() + milliseconds / 1000
    while True:
        good, seen = look()
        if good:
            return
        if time.monotonic() >= end:
            raise StageError(f"expected {what}, got {seen}")
        time.sleep(POLL_SECONDS)


def matches(pattern, value):
    kind, colon, rest = pattern.partition(":")
    tests = {"starts": value.startswith, "ends": value.endswith, "has": lambda part: part in value,
             "lacks": lambda part: part not in value}
    return tests[kind](rest) if colon and kind in tests else value == pattern


class Words:
    def __init__(self, stage):
        self._stage = stage

    def run(self, words):
        """Runs one command; returns what it prints."""
        words = list(words)
        db = 0
        if words[:1] == ["-n"]:
            db, words = int(words[1]), words[2:]
        if not words:
            raise StageError("no command")
        method = getattr(type(self), "do_" + words[0].replace("-", "_"), None)
        if method is None:
            raise StageError(f"no command {words[0]}")
        try:
            return method(self, db, *words[1:]) or ""
        except (RespError, OSError, ValueError, TypeError, RuntimeError) as error:
            raise StageError(f"{words[0]}: {error}") from error

    def _numbers(self, word):
        if word == "all":
            return range(1, len(self._stage) + 1)
        return [place for part in word.split(",") for place in (self._stage.places(part) if "." in part else [int(part)])]

    def do_stop(self, db, nodes):
        self._stage.stop(*self._numbers(nodes))

    def do_cont(self, db, nodes):
        self._stage.cont(*self._numbers(nodes))

    def do_kill(self, db, nodes):
        self._stage.kill(*self._numbers(nodes))

    def do_start(self, db, nodes):
        self._stage.start(*self._numbers(nodes))

    def do_failover(self, db, nodes):
        self._stage.failover(*self._numbers(nodes))

    def do_await_failover(self, db, nodes, milliseconds):
        for number in self._numbers(nodes):
            self._stage.await_failover(number, int(milliseconds) / 1000)

    def do_await_order(self, db, nodes, milliseconds):
        for number in self._numbers(nodes):
            self._stage.await_order(number, int(milliseconds) / 1000)

    def do_join(self, db, nodes):
        for number in self._numbers(nodes):
            self._stage.join(number)

    def do_begin_move(self, db, nodes, key, place):
        self._move("begin_move", nodes, key, place)

    def do_move_keys(self, db, nodes, key):
        self._move("move_keys", nodes, key)

    def do_end_move(self, db, nodes, key):
        self._move("end_move", nodes, key)

    def do_move(self, db, nodes, key, place):
        self._move("begin_move", nodes, key, place)
        self._move("move_keys", nodes, key)
        self._move("end_move", nodes, key)

    def _move(self, step, nodes, key, *place):
        for number in self._numbers(nodes):
            self._stage.move(step, number, unquote_to_bytes(key), *place)

    def do_reshard(self, db, nodes, key, count, place):
        for number in self._numbers(nodes):
            self._stage.reshard(number, unquote_to_bytes(key), int(count), place)

    def do_behind(self, db, nodes):
        self._stage.fall_behind(*self._numbers(nodes))

    def do_heal(self, db):
        self._stage.heal()

    def do_redis(self, db, nodes, *words):
        return "\n".join(self._one(db, number, words) for number in self._numbers(nodes))

    def _one(self, db, number, words):
        words = [unquote_to_bytes(word) if "%" in word else word for word in words]
        return text(self._stage.redis(number, *words, db=db))

    def _differing(self, db, nodes, pattern, words):
        pattern = unquote_to_bytes(pattern).decode(errors="backslashreplace")
        for number in self._numbers(nodes):
            seen = self._one(db, number, words)
            if not matches(pattern, seen):
                return False, f"{seen!r} on node {number}"
        return True, None

    def do_expect(self, db, nodes, pattern, *words):
        self.do_await(db, nodes, pattern, "0", *words)

    def do_await(self, db, nodes, pattern, milliseconds, *words):
        def look():
            try:
                return self._differing(db, nodes, pattern, words)
            # A server that is made a replica resets its connections.
            except ConnectionResetError as error:
                return False, str(error)

        poll(int(milliseconds), look, pattern)

    def do_await_free(self, db, key, milliseconds):
        self.do_expect_votes(db, key, "0", milliseconds)

    def do_await_reserved(self, db, key, count, milliseconds):
        def look():
            texts = [self._stage.redis(number, "GET", unquote_to_bytes(key), db=db) for number in self._stage.running()]
            return sum(bool(text and RESERVED.match(text)) for text in texts) >= int(count), texts

        poll(int(milliseconds), look, f"{key} reserved on {count} nodes")

    def do_await_no_locks(self, db, milliseconds):
        def look():
            left = {key for number in self._stage.running() for key in self._stage.locks(number, db)}
            return not left, sorted(left)

        poll(int(milliseconds), look, "no locks")

    def do_declare(self, db):
        self._stage.declare(db=db)

    def do_expect_votes(self, db, key, count, milliseconds):
        holders = self._stage.await_holders(unquote_to_bytes(key), int(count), int(milliseconds) / 1000, db)
        if len(holders) != int(count):
            raise StageError(f"expected {key} on {count} nodes, it is on {holders}")

    def do_expect_ttl(self, db, nodes, key, low, high):
        for number in self._numbers(nodes):
            left = self._pttl(number, key, db)
            if not int(low) <= left <= int(high):
                raise StageError(f"expected a PTTL of {key} from {low} to {high}, got {left} on node {number}")

    def _pttl(self, number, key, db):
        """The PTTL of a key, which may be under way to the node: one that answered too late gets it by the next renewal."""
        end = time.monotonic() + 5
        while True:
            left = self._stage.redis(number, "PTTL", unquote_to_bytes(key), db=db)
            if left != -2 or time.monotonic() >= end:
                return left
            time.sleep(POLL_SECONDS)

    def do_reset_counters(self, db):
        self._stage.reset_counters()

    def do_expect_calls(self, db, command, low, high, milliseconds):
        def look():
            calls = self._stage.calls(command)
            return int(low) <= calls <= int(high), calls

        poll(int(milliseconds), look, f"{low} to {high} calls of {command}")

    def do_counters(self, db):
        lines = []
        for number in self._stage.running():
            counts = sorted(self._stage.counters(number).items())
            lines.append(f"{number} " + " ".join(f"{name}={count}" for name, count in counts))
        return "\n".join(lines)

    def do_show(self, db):
        numbers = self._numbers("all")
        return "\n".join(f"{number} {self._stage.state(number)} {self._stage.port(number)}" for number in numbers)
