"""Sets: options that say what nodes may vote, declaring a set, and the command for that."""

import asyncio
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

import quorlock
import quorlock.aio
from quorlock import redlock
from quorlock._default import client as default_client
from support import LONG, Case, eventually, memory
from stage import Stage

NODES = memory("set")
# What each has to be refused for, and the words that the error must have.
REFUSED = (
    ({"restart_guard": "maybe"}, ["restart_guard", "maybe", "auto"]),
    ({"set_name": "two words"}, ["set_name", "set_name is text of 9 characters"]),
    ({"set_name": ""}, ["set_name"]),
    ({"fence_ttl": 119.5}, ["fence_ttl", "119.5", "max_ttl"]),
    ({"fence_ttl": -1}, ["fence_ttl", "-1"]),
    ({"fence_ttl": float("nan")}, ["fence_ttl", "NaN"]),
)
WRONG_TYPES = ({"fencing": "yes"}, {"fair": 1}, {"accept_eviction": "yes"}, {"restart_guard": 1}, {"restart_guard": None},
               {"set_name": 7}, {"fence_ttl": "600"})


class Options(unittest.TestCase):
    def makers(self, options):
        """Every way to give the options to a client."""
        return (lambda: quorlock.Client(NODES, **options), lambda: quorlock.aio.Client(NODES, **options),
                lambda: redlock("set-options", nodes=NODES, **options).__enter__())

    def test_are_refused_by_name_and_value(self):
        for options, words in REFUSED:
            for make in self.makers(options):
                with self.subTest(options), self.assertRaises(quorlock.InvalidArgumentError) as raised:
                    make()
                for word in words:
                    self.assertIn(word, str(raised.exception))

    def test_are_refused_by_type(self):
        for options in WRONG_TYPES:
            for make in self.makers(options):
                with self.subTest(options):
                    self.assertRaises(TypeError, make)
        with quorlock.Client(NODES) as client:
            self.assertRaises(TypeError, client.lock, "x", fencing="no")
            self.assertRaises(TypeError, client.lock, "x", restart_guard="on")

    def test_are_taken(self):
        for options in ({"restart_guard": "auto"}, {"restart_guard": "on"}, {"restart_guard": "off"},
                        {"restart_guard": True}, {"restart_guard": False}, {"set_name": "orders"}, {"fence_ttl": 120},
                        {"accept_eviction": True}):
            with self.subTest(options):
                with quorlock.Client(NODES, **options) as client, client.lock("set-taken") as lease:
                    self.assertTrue(lease.is_held())
                with redlock("set-taken", nodes=NODES, **options) as lease:
                    self.assertTrue(lease.is_held())

    def test_a_client_of_its_own_for_each(self):
        one = default_client(NODES, {})
        for options in ({"restart_guard": "off"}, {"set_name": "orders"}, {"fence_ttl": 300}, {"accept_eviction": True}):
            with self.subTest(options):
                self.assertIsNot(default_client(NODES, options), one)
                self.assertIs(default_client(NODES, options), default_client(NODES, options))
        self.assertIs(default_client(NODES, {"restart_guard": False}), default_client(NODES, {"restart_guard": "off"}))

    def test_a_client_that_is_given_has_its_own(self):
        with quorlock.Client(NODES) as client:
            for options in ({"restart_guard": "off"}, {"set_name": "x"}, {"fence_ttl": 300}, {"accept_eviction": False}):
                with self.assertRaisesRegex(quorlock.InvalidArgumentError, next(iter(options))):
                    redlock("x", client=client, **options)

    def test_stats_have_the_counts_of_the_core(self):
        with quorlock.Client(NODES) as client, client.lock("set-stats"):
            stats = client.stats()
        self.assertEqual(stats["acquired"], 1)
        self.assertLessEqual({"clock_steps", "write_backs", "releases_dropped"}, set(stats))
        # Each is explained.
        self.assertEqual([name for name in stats if f"`{name}`" not in quorlock.Client.stats.__doc__], [])
        self.assertEqual([name for name in stats if f"`{name}`" not in quorlock.aio.Client.stats.__doc__], [])


class Guarded(Case):
    def test_true_and_false_are_on_and_off(self):
        """One node restarts without its data: guarded, it gives no vote for max_ttl."""
        self.stage.redis(1, "FLUSHALL")
        times = {"ttl": 2, "max_ttl": 2}
        with quorlock.Client(self.nodes[:1], restart_guard=True, namespace="on:", **times) as client:
            with self.assertRaisesRegex(quorlock.QuorumUnavailableError, "quarantine"):
                client.lock("guarded").acquire(wait=0)
        # Elsewhere: all clients of a set have the same guard.
        with quorlock.Client(self.nodes[:1], restart_guard=False, namespace="off:", **times) as client:
            with client.lock("guarded") as lease:
                self.assertTrue(lease.is_held())

    def test_an_undeclared_set_waits_and_says_why(self):
        self.stage.heal()
        times = {"ttl": 1, "max_ttl": 1, "namespace": "undeclared:"}
        with quorlock.Client(self.nodes, **times) as client:
            with self.assertRaises(quorlock.QuorumUnavailableError) as raised:
                client.lock("waits").acquire(wait=0)
            self.assertEqual(len(raised.exception.nodes), 3)
            with client.lock("waits", wait=LONG) as lease:
                self.assertTrue(lease.is_held())

    def test_a_set_has_one_name(self):
        with Stage(1) as stage, quorlock.Client(stage.urls(), set_name="other") as client:
            with self.assertRaises(quorlock.MisconfiguredError) as raised:
                client.lock("name").acquire()
            (node, said), = raised.exception.nodes
            self.assertEqual(node, f"127.0.0.1:{stage.port(1)}")
            self.assertIn("default", said)
            self.assertIn("other", said)


def shown(stage, *numbers):
    """The nodes as messages name them."""
    return [f"127.0.0.1:{stage.port(number)}" for number in numbers or range(1, len(stage) + 1)]


def may_have_lost(stage):
    """Makes the servers ones that may have lost something: they were told to delete."""
    for number in stage.running():
        stage.redis(number, "DEL", "something")


class Declared(unittest.TestCase):
    BRIEF = {"ttl": 1, "max_ttl": 1}

    def assert_all_name(self, error, node):
        """The node says what is wrong; the others, that they are no set without it."""
        self.assertEqual(len(error.nodes), 3)
        for each in error.nodes:
            self.assertIn(node, ": ".join(each))

    def records(self, stage):
        return [stage.redis(number, "GET", "lock:#node") for number in stage.running()]

    def test_a_wholly_new_set_votes(self):
        with Stage(3, declare=False) as stage, quorlock.Client(stage.urls(), **self.BRIEF) as client:
            left = client.init_set()
            self.assertEqual((type(left), left), (float, 0.0))
            with client.lock("declared", wait=0) as lease:
                self.assertTrue(lease.is_held())
            # As at every deploy: nothing is changed.
            records = self.records(stage)
            self.assertEqual(client.init_set(), 0.0)
            self.assertEqual(self.records(stage), records)

    def test_one_that_may_have_lost_something_says_how_long_it_gives_no_vote(self):
        with Stage(3, declare=False) as stage, quorlock.Client(stage.urls()) as client:
            may_have_lost(stage)
            left = client.init_set()
            self.assertTrue(30 < left < 62, left)
            records = self.records(stage)
            with self.assertRaisesRegex(quorlock.QuorumUnavailableError, "quarantine"):
                client.lock("declared").acquire(wait=0)
            still = client.init_set(force=False)
            self.assertTrue(0 < still <= left, (still, left))
            self.assertEqual(client.init_set(force=True), 0.0)
            with client.lock("declared", wait=0) as lease:
                self.assertTrue(lease.is_held())
            self.assertEqual(client.init_set(), 0.0)
            self.assertEqual(self.records(stage), records)

    def test_all_or_none(self):
        with Stage(3, declare=False) as stage, quorlock.Client(stage.urls()) as client:
            stage.declare([2])
            for force in (False, True):
                with self.assertRaises(quorlock.MisconfiguredError) as raised:
                    client.init_set(force=force)
                self.assert_all_name(raised.exception, *shown(stage, 2))
            stage.kill(2)
            for force in (False, True):
                with self.assertRaises(quorlock.QuorumUnavailableError) as raised:
                    client.init_set(force=force)
                self.assert_all_name(raised.exception, *shown(stage, 2))
            self.assertEqual((stage.keys(1), stage.keys(3)), ([], []))

    def test_force_is_a_word_of_its_own(self):
        with quorlock.Client(NODES) as client:
            self.assertRaises(TypeError, client.init_set, True)
            with self.assertRaises(TypeError):
                client.init_set(force=1)

    def test_in_asyncio(self):
        async def main(stage):
            async with quorlock.aio.Client(stage.urls(), set_name="orders", max_ttl=20) as client:
                may_have_lost(stage)
                self.assertGreater(await client.init_set(), 10.0)
                self.assertEqual(await client.init_set(force=True), 0.0)
                async with client.lock("declared", wait=0) as lease:
                    self.assertTrue(lease.is_held())
                self.assertEqual(await client.init_set(), 0.0)
            async with quorlock.aio.Client(stage.urls(), max_ttl=20) as client:
                with self.assertRaises(quorlock.MisconfiguredError) as raised:
                    await client.init_set()
                self.assertEqual(len(raised.exception.nodes), 3)

        with Stage(3, declare=False) as stage:
            asyncio.run(main(stage))
            self.assertIn(b"1 orders 1 3 20000 ", stage.redis(1, "GET", "lock:#node"))

    def test_given_up_it_goes_on(self):
        async def main(nodes):
            async with quorlock.aio.Client(nodes) as client:
                task = asyncio.create_task(client.init_set(force=True))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(await asyncio.to_thread(eventually, declared))

        with Stage(1, declare=False) as stage:
            declared = lambda: stage.keys(1) == [b"lock:#node"]  # noqa: E731
            asyncio.run(main(stage.urls()))

    def test_after_close(self):
        client = quorlock.Client(NODES)
        client.init_set()
        client.close()
        self.assertRaises(quorlock.ClientClosedError, client.init_set)


def command(*words, nodes=None, **more):
    """Runs `python -m quorlock`; returns status, output and complaints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
    if nodes is not None:
        environment["QUORLOCK_NODES"] = nodes
    done = subprocess.run([sys.executable, "-m", "quorlock", *words], env={**environment, **more}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=2 * LONG)
    return done.returncode, done.stdout, done.stderr


class Command(unittest.TestCase):
    """`python -m quorlock` is the program, whose own tests are in core/cli and tests/consumers; here is what a package must do for it."""

    def assert_silent(self, stage, said):
        for secret in stage.secrets.values():
            self.assertNotIn(secret, "".join(map(str, said)))

    def assert_declared(self, stage, said, rest, status=0):
        """Says so of every node, with `rest` behind; a pattern."""
        lines = "".join(f"{re.escape(node)}: {rest}\n" for node in shown(stage))
        self.assertEqual(said[0], status, said)
        self.assertRegex(said[1], rf"\A{lines}")

    def test_it_is_the_program(self):
        program = os.path.join(os.path.dirname(sys.executable), "quorlock")
        for words in (["--help"], ["init", "--help"], ["run", "--help"], ["--version"]):
            done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
            self.assertEqual(command(*words)[:2], (0, done.stdout))
        self.assertEqual(command()[0], 64)

    def test_nodes_of_the_environment_and_no_password(self):
        with Stage(3, auth=True, declare=False) as stage:
            nodes = ",".join(stage.urls())
            may_have_lost(stage)
            said = command("init", nodes=",".join(stage.urls(password="wrong")))
            self.assert_silent(stage, said)
            self.assertEqual((said[0], said[1]), (78, ""))
            # Twice: at every deploy. No node votes yet, which has a code of its own.
            for _ in range(2):
                said = command("init", nodes=nodes)
                self.assert_silent(stage, said)
                self.assert_declared(stage, said, r"declared, gives no vote for another (1 min \d s|[3-5]\d\.\d s)", status=74)
            said = command("init", "--force", nodes=nodes)
            self.assert_silent(stage, said)
            self.assert_declared(stage, said, "declared, votes")
            # First, what that risks.
            self.assertTrue(said[2].startswith("quorlock: --force: "), said[2])
            self.assert_declared(stage, command("init", nodes=nodes), "declared, votes")
            with quorlock.Client(stage.urls()) as client, client.lock("declared", wait=0) as lease:
                self.assertTrue(lease.is_held())
            said = command("init", "--set-name", "other", nodes=nodes)
            self.assert_silent(stage, said)
            self.assertEqual((said[0], said[1]), (78, ""))
            for node in shown(stage):
                self.assertIn(node, said[2])

    def test_a_set_that_stands_needs_a_quorum(self):
        with Stage(3) as stage:
            stage.kill(3)
            status, said, _ = command("init", nodes=",".join(stage.urls()))
            self.assertEqual(status, 0, said)
            self.assertIn("2 of 3 nodes vote", said)
            stage.kill(2)
            status, said, complaints = command("init", nodes=",".join(stage.urls()))
            self.assertEqual((status, said), (69, ""), complaints)

    def test_a_set_that_is_not_founded_needs_all_its_nodes(self):
        with Stage(2, declare=False) as stage:
            stage.kill(2)
            status, said, complaints = command("init", nodes=",".join(stage.urls()))
            self.assertEqual((status, said), (69, ""))
            for node in shown(stage):
                self.assertIn(node, complaints)
            self.assertEqual(stage.keys(1), [])

    def test_it_waits_for_votes(self):
        with Stage(3, declare=False) as stage:
            may_have_lost(stage)
            terms = {"nodes": ",".join(stage.urls()), "QUORLOCK_MAX_TTL": "2s"}
            self.assertEqual(command("init", **terms)[0], 74)
            said = command("init", "--wait", "60s", **terms)
            self.assert_declared(stage, said, "declared, votes")

    def test_what_the_record_depends_on(self):
        with Stage(3, declare=False) as stage:
            said = command("init", "--set-name", "orders", "--max-ttl", "2h", "--namespace", "own:", "--force", nodes=",".join(stage.urls()))
            self.assertEqual(said[0], 0, said)
            for number in (1, 2, 3):
                self.assertEqual([key for key in stage.keys(number) if key == b"own:#node"], [b"own:#node"])
                self.assertTrue(stage.redis(number, "GET", "own:#node").startswith(b"1 orders 1 3 7200000 "))
            # The same variables count in a program, and what it gives counts more.
            variables = {"QUORLOCK_SET_NAME": "orders", "QUORLOCK_MAX_TTL": "7200", "QUORLOCK_NAMESPACE": "own:"}
            with unittest.mock.patch.dict(os.environ, variables):
                with quorlock.Client(stage.urls()) as client, client.lock("a", wait=0):
                    pass
                with quorlock.Client(stage.urls(), set_name="other") as client:
                    self.assertRaises(quorlock.MisconfiguredError, client.lock("a", wait=0).acquire)

    def test_tls_and_eviction(self):
        with Stage(1, client_certs=True, declare=False) as stage:
            files = {name: os.path.join(stage.certs, file) for name, file in
                     (("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key"))}
            stage.redis(1, "CONFIG", "SET", "maxmemory", "100mb")
            stage.redis(1, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            nodes = ",".join(stage.urls(via="tls"))
            status, _, said = command("init", *(f"--{name}={path}" for name, path in files.items()), nodes=nodes)
            self.assertEqual(status, 78)
            self.assertIn("allkeys-lru", said)
            variables = {f"QUORLOCK_{name.upper()}": path for name, path in files.items()}
            self.assertEqual(command("init", "--accept-eviction", nodes=nodes, **variables)[0], 0)
            with unittest.mock.patch.dict(os.environ, {**variables, "QUORLOCK_ACCEPT_EVICTION": "true"}):
                with quorlock.Client(stage.urls(via="tls")) as client, client.lock("a", wait=0):
                    pass

    def test_no_usage_error_repeats_a_key(self):
        bare = "MHcCAQEEIBMs0hUYjnWUE1BHSO" + "yBdufupjL3oAGGEvFb4lZWh9QoAoGCCqGSM49"
        framed = f"-----BEGIN EC PRIVATE KEY-----\n{bare}\n-----END EC PRIVATE KEY-----"
        for key in (bare, framed, framed.replace(" ", "")):
            for words in (("init", "--key", key), ("init", "--kee", key), ("init", f"--other={key}"), ("init", "--max-ttl", key),
                          ("init", "--restart-guard", key), ("list", "--key", key), ("list", "a", key), (key,)):
                with self.subTest(words):
                    self.assertNotIn("MHcC", "".join(map(str, command(*words))))


if __name__ == "__main__":
    unittest.main()
