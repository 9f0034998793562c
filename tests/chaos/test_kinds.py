"""Every kind of fault does what its name says, and is over when it ends: on real servers, behind the proxy."""

import itertools
import os
import signal
import socket
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from crew import Orders  # noqa: E402
from kinds import KINDS, NETWORK, RECORD, WORKER, Links, strays  # noqa: E402
from proxy import Proxy  # noqa: E402
from schedule import World  # noqa: E402
from stage import Resp, RespError, Stage  # noqa: E402

NODES = 3
# Of faults that end by themselves if they are not ended: so long that a machine which stands still sees them.
SECONDS = 5
# For an answer that must come, and for one that must not.
LONG, SHORT = 10.0, 0.2
WRITE = "return redis.call('SET', KEYS[1], ARGV[1])"


class Most:
    """Draws the largest of numbers and the first of others."""

    def uniform(self, _low, high):
        return high

    randint = uniform

    def random(self):
        return 0.0

    def choice(self, among):
        return among[0]


class Crew:
    def __init__(self):
        self.told, self.wrong, self.nodes, self.has_ended = [], [], None, False

    def names(self):
        return ["rust-1"]

    def over(self):
        return self.has_ended

    def signal(self, name, number):
        self.told.append((name, number))

    def kill(self, name):
        self.told.append((name, "kill"))

    def start(self, name, QUORLOCK_NODES=None, **_more):
        self.nodes = QUORLOCK_NODES
        self.told.append((name, "start"))

    def dismiss(self, name):
        self.told.append((name, "dismiss"))


class History:
    def __init__(self):
        self.steps = []

    def write(self, kind, *words):
        self.steps += [words] if kind == "step" else []

    def size(self):
        return 0

    def told(self, *_):
        return True


class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(NODES + 2, clocks=True, declare=False)
        cls.addClassCleanup(cls.stage.close)
        cls.proxy = Proxy(1, [cls.stage.port(number) for number in range(1, NODES + 1)])
        cls.addClassCleanup(cls.proxy.close)

    def setUp(self):
        self.world = World(self.stage, self.proxy, ["rust-1"], History(), Orders(nodes=NODES), Most())
        self.world.crew = Crew()
        self.stage.redis(1, "SET", "before", "v")
        self.connection = self.connect()
        # Through, and not only as far as the proxy.
        self.write(self.connection)

    def connect(self, timeout=LONG):
        connection = Resp(self.proxy.ports[0], timeout=timeout)
        self.addCleanup(connection.close)
        return connection

    def write(self, connection, value="v"):
        return connection.call("EVAL", WRITE, 1, "k", value)

    def run_kind(self, name, look):
        """Begins the fault, looks, ends it; then all is well again on a new connection."""
        kind = KINDS[name]
        everywhere = kind.nodes[0] > NODES
        whom = {WORKER: "rust-1", NETWORK: Links(("rust-1",), (1,))}.get(kind.place, [1, 2, 3] if everywhere else [1])
        steps = kind.run(self.world, whom, SECONDS)
        while next(steps) is not None:
            # It prepares something; what is stored from now on is newer than that.
            self.stage.redis(1, "SET", "after", "v")
        look()
        for wait in steps:
            time.sleep(wait)
        self.assertEqual(self.write(self.connect()), b"OK")

    def refused(self, word):
        def look():
            with self.assertRaisesRegex(RespError, word):
                self.write(self.connection)

        return look

    def silent(self):
        self.connection.patience(SHORT)
        with self.assertRaises(TimeoutError):
            self.write(self.connection)

    def gone(self, value="v"):
        with self.assertRaises((ConnectionError, BrokenPipeError)):
            self.write(self.connection, value)

    def test_delay(self):
        def look():
            begun = time.monotonic()
            self.write(self.connection)
            self.assertGreaterEqual(time.monotonic() - begun, 0.12)

        self.run_kind("delay", look)

    def test_hold_back(self):
        self.run_kind("hold-back", self.silent)

    def test_drop(self):
        self.run_kind("drop", self.silent)

    def test_half_open(self):
        self.run_kind("half-open", self.silent)

    def test_reset(self):
        self.run_kind("reset", self.gone)

    def test_cut_at_byte(self):
        self.run_kind("cut-at-byte", lambda: self.gone("x" * 1000))

    def test_cut_between_commands(self):
        raw, count = socket.create_connection(("127.0.0.1", self.proxy.ports[0]), LONG), b"*2\r\n$4\r\nINCR\r\n$5\r\nsplit\r\n"
        self.addCleanup(raw.close)
        raw.sendall(count)
        self.assertEqual(raw.recv(99), b":1\r\n")

        def look():
            # Alone it is let through.
            raw.sendall(count)
            self.assertEqual(raw.recv(99), b":2\r\n")
            raw.sendall(count + count)
            self.assertIn(raw.recv(99), (b"", b":3\r\n"))
            self.assertEqual(self.stage.redis(1, "GET", "split"), b"3")

        self.run_kind("cut-between-commands", look)

    def test_backend(self):
        def run_id():
            return self.connect().call("INFO", "server").partition(b"run_id:")[2][:40]

        own = run_id()
        self.run_kind("backend", lambda: self.assertNotEqual(run_id(), own))
        self.assertEqual(run_id(), own)

    def test_hang(self):
        self.run_kind("hang", self.silent)

    def test_kill_empty(self):
        self.run_kind("kill-empty", self.gone)
        self.assertEqual(self.stage.keys(1), [b"k"])

    def test_kill_old_dump(self):
        self.run_kind("kill-old-dump", self.gone)
        self.assertEqual(self.stage.keys(1), [b"before", b"k"])

    def test_all_at_once(self):
        self.stage.redis(3, "SET", "before", "v")
        self.run_kind("all-at-once", lambda: self.assertEqual(self.stage.running(), self.world.spares))
        self.assertEqual(self.stage.keys(3), [])

    def test_flushall(self):
        self.run_kind("flushall", lambda: self.assertEqual(self.stage.keys(1), []))

    def test_swapdb(self):
        for _ in range(2):
            self.stage.redis(1, "SET", "before", "v")
            self.run_kind("swapdb", lambda: self.assertEqual(self.stage.keys(1), []))

    def test_counter_deleted(self):
        for key in ("lock:#f:{a}", "lock:#f:{b}"):
            self.stage.redis(1, "ZADD", key, 7, "f")
        self.run_kind("counter-deleted", lambda: self.assertEqual(self.stage.keys(1, "lock:#f:*"), []))
        self.assertIn(b"before", self.stage.keys(1))

    def test_client_pause(self):
        self.run_kind("client-pause", self.silent)

    def test_oom(self):
        self.run_kind("oom", self.refused("OOM"))

    def test_no_replicas(self):
        self.run_kind("no-replicas", self.refused("NOREPLICAS"))

    def test_misconf(self):
        def look():
            end = time.monotonic() + 10
            while b"rdb_last_bgsave_status:ok" in self.stage.redis(1, "INFO", "persistence") and time.monotonic() < end:
                time.sleep(0.01)
            self.refused("MISCONF")()

        self.run_kind("misconf", look)

    def test_max_clients(self):
        def look():
            self.gone()
            with self.assertRaises((RespError, OSError)):
                self.write(self.connect())

        self.run_kind("max-clients", look)

    def test_busy(self):
        def look():
            # Until it counts as busy it says nothing.
            end, said = time.monotonic() + 10, ""
            while "BUSY" not in said and time.monotonic() < end:
                try:
                    self.write(self.connect(SHORT))
                except (RespError, TimeoutError) as error:
                    said = str(error)
            self.assertIn("BUSY", said)

        self.run_kind("busy", look)

    def test_acl(self):
        self.run_kind("acl", self.refused("NOPERM"))

    def test_deletes_refused(self):
        by_value = [words for words in (("DELIFEQ", "before", "x"), ("DELEX", "before", "IFEQ", "x"))
                    if self.stage.redis(1, "COMMAND", "INFO", words[0]) != [None]]

        def look():
            for words in by_value or [("DEL", "other")]:
                with self.assertRaisesRegex(RespError, "NOPERM"):
                    self.connection.call(*words)
            if by_value:
                self.connection.call("DEL", "other")

        self.run_kind("deletes-refused", look)
        self.connection.call(*(by_value or [("DEL", "other")])[0])

    def test_read_only(self):
        self.run_kind("read-only", self.refused("READONLY"))

    def test_script_flush(self):
        digest = self.connection.call("SCRIPT", "LOAD", WRITE)

        def look():
            with self.assertRaisesRegex(RespError, "NOSCRIPT"):
                self.connection.call("EVALSHA", digest, 1, "k", "v")

        self.run_kind("script-flush", look)

    def test_client_kill(self):
        self.run_kind("client-kill", self.gone)

    def test_clocks_forward_and_back(self):
        for name, sign in (("clock-forward", 1), ("clock-back", -1)):
            before = self.stage.ahead(1)
            self.run_kind(name, lambda: self.assertAlmostEqual(self.stage.ahead(1) - before, sign * 0.49, delta=0.05))
            self.assertAlmostEqual(self.stage.ahead(1), before, delta=0.05)

    def test_a_step_forward_tells_which_votes_are_on_all_nodes(self):
        for number in range(1, NODES + 1):
            token, far = "ab" * 20, 10**18
            self.stage.redis(number, "MSET", "lock:{a}", f"{token}.rust-1", "lock:{b}", f"{str(number) * 40}.c-1",
                             # At one node somebody waits for it.
                             "lock:{c}", f"={far} {token}.c-1" if number == 2 else f"{token}.c-1",
                             "lock:{d}", f"=1 {token}.c-1" if number == 2 else f"{token}.c-1",
                             "lock:{e}", f"@{far} 7 lock:#in:x" if number == 2 else f"{token}.c-1")
        self.run_kind("clock-forward", lambda: None)
        self.assertEqual(self.world.history.steps[0][4], "a/rust-1,c/c-1")

    def test_clock_rate(self):
        self.run_kind("clock-rate", lambda: self.assertNotEqual(self.stage.clock(1).offset(), self.stage.clock(1).offset()))
        self.assertEqual(self.stage.clock(1).offset(), self.stage.clock(1).offset())

    def test_workers(self):
        self.run_kind("worker-pause", lambda: None)
        self.run_kind("worker-kill", lambda: None)
        self.assertEqual(self.world.crew.told, [("rust-1", signal.SIGSTOP), ("rust-1", signal.SIGCONT), ("rust-1", "kill"),
                                                ("rust-1", "start")])


    def test_cli_partition(self):
        self.run_kind("cli-partition", self.silent)
        self.assertEqual(self.world.crew.told, [("rust-1", signal.SIGUSR1), ("rust-1", signal.SIGUSR2)])

    def declare(self):
        self.stage.declare(self.world.numbers)
        self.addCleanup(lambda: [self.stage.redis(node, "DEL", RECORD) for node in self.world.numbers])

    def stray_runs(self, kind, look):
        """Runs a kind with a stray client, which has less than the set in its list."""
        self.declare()
        self.run_kind(kind, look)
        self.assertEqual(self.world.crew.told, [("asyncio-stray", "start"), ("asyncio-stray", "dismiss")])
        self.assertEqual(self.world.crew.wrong, [])
        listed = self.world.crew.nodes.split(",")
        self.assertEqual((len(listed), listed[0]), (2 if kind != "stray-beside-loss" else 4, self.stage.urls()[0]))

    def test_stray_client(self):
        self.stray_runs("stray-client", lambda: self.assertEqual(self.world.crew.told, [("asyncio-stray", "start")]))

    def test_stray_beside_loss(self):
        self.stray_runs("stray-beside-loss", lambda: None)
        self.assertEqual(self.stage.keys(1), [b"k"])
        self.assertIn(RECORD.encode(), self.stage.keys(2))

    def test_stray_beside_outage(self):
        self.stray_runs("stray-beside-outage", self.silent)
        self.assertIn(b"before", self.stage.keys(1))

    def test_a_stray_that_founds_a_set_is_wrong(self):
        self.declare()
        steps = KINDS["stray-client"].run(self.world, [1], SECONDS)
        next(steps)
        self.stage.redis(self.world.spares[0], "SET", RECORD, "v")
        self.assertEqual(list(steps), [])
        self.assertRegex(self.world.crew.wrong[0], r"asyncio-stray .* on 4$")

    def test_nobody_waits_for_a_record_once_the_workers_have_ended(self):
        self.world.crew.has_ended = True
        self.assertEqual(list(KINDS["stray-client"].run(self.world, [1], SECONDS)), [])
        self.assertEqual(self.world.crew.told, [])

    def test_no_stray_lists_the_set_or_only_nodes_that_have_lost_their_memory(self):
        for count, victims, known in itertools.product((3, 5), ([1], [3, 2]), ([1], [2, 3], [4])):
            if count < 4 in known:
                continue
            world = World(None, None, ["rust-1"], None, Orders(nodes=count), Most())
            found = strays(world, victims, known)
            self.assertGreaterEqual(len(found), 6)
            for nodes, orders in found:
                self.assertIn(known[0], nodes)
                self.assertNotEqual(len(nodes) == count, not orders, (nodes, orders))
                self.assertEqual(len(set(nodes)), len(nodes))
            # With a victim that has lost its record they have a quorum that knows of nothing.
            blank = {victims[0], *world.spares} - {known[0]}
            self.assertEqual(any(2 * len(blank & set(nodes)) > len(nodes) for nodes, _ in found), count == 5 or len(blank) == 3)

    def test_set_changes(self):
        self.declare()

        def look():
            self.assertEqual(self.world.listed, [1, 2])
            self.assertEqual([self.stage.redis(node, "EXISTS", RECORD) for node in self.world.numbers], [0, 0, 0])

        self.run_kind("set-changes", look)
        self.assertEqual(self.world.listed, self.world.numbers)
        self.assertEqual(self.world.crew.told, 2 * [("rust-1", "kill"), ("rust-1", "start")])

    def test_every_kind_is_tried_here(self):
        with open(__file__) as file:
            text = file.read()
        self.assertEqual([name for name in KINDS if f'"{name}"' not in text], [])


if __name__ == "__main__":
    unittest.main()
