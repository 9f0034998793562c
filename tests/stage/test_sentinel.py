"""Nodes with replicas and sentinels, on real servers: python3 tests/stage/test_sentinel.py"""

import os
import re
import socket
import ssl
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from stage import Resp, RespError, Stage  # noqa: E402
from stage.stage import options  # noqa: E402
from stage.words import StageError, Words  # noqa: E402
from test_stage import alive  # noqa: E402

SECONDS = 30
KEY = b"k"


class Case(unittest.TestCase):
    def pids(self, stage, *places):
        return [re.search(rb"process_id:(\d+)", stage.redis(place, "INFO", "server"))[1].decode() for place in places]

    def on(self, stage, place, key, value, seconds=SECONDS):
        """Waits until the server has it: replication is behind for a moment."""
        Words(stage).run(["await", str(place), value, str(seconds * 1000), "GET", key])


class Failovers(Case):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(1, replicas=2, sentinels=3)

    @classmethod
    def tearDownClass(cls):
        cls.stage.close()

    def setUp(self):
        self.stage.heal()
        self.first = self.stage.port(1)

    def test_a_replica_has_what_was_written_and_takes_over_when_the_master_dies(self):
        stage = self.stage
        stage.redis(1, "SET", "k", "v")
        self.on(stage, "1.replicas", "k", "v")
        [killed] = self.pids(stage, 1)
        stage.kill(1)
        self.assertFalse(alive(killed))
        self.assertEqual((stage.state(1), stage.running()), ("dead", []))
        stage.await_failover(1, SECONDS)
        self.assertNotEqual(stage.port(1), self.first)
        self.assertEqual((stage.state(1), stage.keys(1)), ("up", [KEY]))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.first), 1)
        stage.start(1)
        stage.await_order(1, SECONDS)
        # It comes back as a replica of the promoted one, on its port.
        self.assertEqual(stage.port("1.old"), self.first)
        self.assertEqual(stage.redis("1.old", "ROLE")[:3], [b"slave", b"127.0.0.1", stage.port(1)])

    def test_a_stopped_master_is_replaced_and_does_not_know_it_when_it_wakes(self):
        stage = self.stage
        stage.stop(1)
        with Resp(self.first, timeout=0.1) as client, self.assertRaises(TimeoutError):
            client.call("PING")
        stage.await_failover(1, SECONDS)
        stage.cont(1)
        self.assertEqual(stage.redis("1.old", "SET", "late", "v"), b"OK")
        self.assertEqual(stage.keys(1), [])

    def test_a_failover_by_hand(self):
        stage = self.stage
        pids = self.pids(stage, 1, "1.replica1", "1.replica2")
        stage.failover(1)
        stage.await_failover(1, SECONDS)
        self.assertNotEqual(stage.port(1), self.first)
        self.assertEqual(stage.state("1.old"), "up")
        self.assertTrue(all(map(alive, pids)))

    def test_what_is_written_while_the_replicas_are_behind_is_lost(self):
        stage = self.stage
        stage.redis(1, "SET", "before", "v")
        self.on(stage, "1.replicas", "before", "v")
        stage.fall_behind(1)
        stage.redis(1, "SET", "k", "v")
        stage.kill(1)
        stage.cont(1)
        stage.await_failover(1, SECONDS)
        self.assertEqual(stage.keys(1), [b"before"])

    def test_heal_brings_the_roles_back(self):
        stage = self.stage
        stage.redis(1, "SET", "k", "v")
        stage.kill(1, "1.sentinel2")
        stage.stop("1.sentinel3")
        stage.heal()
        self.assertEqual((stage.port(1), stage.keys(1), stage.keys("1.replica1")), (self.first, [], []))
        self.assertEqual(stage.redis("1.sentinel2", "SENTINEL", "CKQUORUM", "master1")[:2], b"OK")

    def test_who_is_master_is_still_known_when_no_sentinel_is_left(self):
        self.stage.kill(*self.stage.places("1.sentinels"))
        self.assertEqual(self.stage.redis(1, "SET", "k", "v"), b"OK")
        self.assertEqual(self.stage.port(1), self.first)

    def test_parts_are_stopped_and_killed_alone(self):
        stage, words = self.stage, Words(self.stage)
        words.run(["stop", "1.replica2"])
        words.run(["kill", "1.sentinel1"])
        self.assertEqual([stage.state(place) for place in (1, "1.replica1", "1.replica2", "1.sentinel1", "1.sentinel2")],
                         ["up", "up", "stopped", "dead", "up"])
        words.run(["cont", "1.replicas"])
        words.run(["start", "1.sentinel1"])
        words.run(["await-order", "1", "30000"])

    def test_places_that_are_not_there(self):
        words = Words(self.stage)
        for place in ("1.old", "1.replica3", "1.replica0", "1.sentinel4", "1.master", "1.", "2.replica1", "x.replica1"):
            with self.subTest(place), self.assertRaises(StageError):
                words.run(["stop", place])


class Shapes(Case):
    def test_records_and_urls(self):
        with Stage(1, replicas=1, sentinels=1, auth=True) as stage:
            self.assertEqual(stage.redis(1, "GET", "lock:#node").split()[-1], b"on")
            [url] = stage.urls(db=2)
            login, hosts, path = re.fullmatch(r"redis\+sentinel://(.*)@([^/]*)/(.*)", url).groups()
            self.assertEqual(login, f"quorlock:{stage.secrets['quorlock']}")
            self.assertEqual(hosts, f"127.0.0.1:{stage.port('1.sentinel1')}")
            self.assertEqual(path, f"master1/2?sentinel_password={stage.secrets['sentinel']}")
            self.assertIn("/other?", stage.urls(master="other")[0])
            with Resp(stage.port("1.sentinel1")) as client, self.assertRaisesRegex(RespError, "NOAUTH"):
                client.call("SENTINEL", "MASTER", "master1")
            # The replica has the password of its master, and the users of the tests.
            self.on(stage, "1.replica1", "lock:#node", "starts:1 default 1 1 60000 ")
            with Resp(stage.port("1.replica1"), user="quorlock", password=stage.secrets["quorlock"]) as client:
                self.assertIn(b"role:slave", client.call("INFO"))

    def test_the_run_of_a_record_is_another_after_a_promotion(self):
        with Stage(1, replicas=1, sentinels=1) as stage:
            before = stage.redis(1, "GET", "lock:#node").split()[6]
            self.assertEqual(before, re.search(rb"run_id:(\w{16})", stage.redis(1, "INFO", "server"))[1])
            stage.kill(1)
            stage.await_failover(1, SECONDS)
            stage.declare()
            run = stage.redis(1, "GET", "lock:#node").split()[6]
            self.assertRegex(run, rb"^[0-9a-f]{16}$")
            self.assertNotIn(run, (before, re.search(rb"run_id:(\w{16})", stage.redis(1, "INFO", "server"))[1]))

    def test_replicas_without_sentinels(self):
        with Stage(2, replicas=1) as stage:
            self.assertEqual(stage.urls(), [f"redis://127.0.0.1:{stage.port(number)}" for number in (1, 2)])
            for number in (1, 2):
                stage.redis(number, "SET", f"k{number}", "v")
                self.on(stage, f"{number}.replica1", f"k{number}", "v")
                self.assertEqual(sorted(stage.keys(f"{number}.replica1")), [b"k%d" % number, b"lock:#node"])

    def test_tls(self):
        with Stage(1, replicas=1, sentinels=1, tls=True) as stage:
            [url] = stage.urls(via="tls")
            port = int(re.fullmatch(r"rediss\+sentinel://127\.0\.0\.1:(\d+)/master1", url)[1])
            context = ssl.create_default_context(cafile=os.path.join(stage.certs, "ca.crt"))
            with socket.create_connection(("127.0.0.1", port), 2) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                    connection.sendall(b"SENTINEL GET-MASTER-ADDR-BY-NAME master1\r\n")
                    self.assertNotIn(str(stage.port(1)).encode(), connection.recv(99))
            stage.kill(1)
            stage.await_failover(1, SECONDS)

    def test_nothing_is_left_behind(self):
        stage = Stage(1, replicas=1, sentinels=1)
        pids = self.pids(stage, 1, "1.replica1", "1.sentinel1")
        stage.stop(1, "1.replica1")
        stage.close()
        self.assertFalse(any(map(alive, pids)))
        self.assertFalse(os.path.exists(stage.folder))

    def test_words_of_the_command_line(self):
        self.assertEqual(options(["1", "replicas=2", "sentinels=3", "auth"]),
                         {"n": 1, "replicas": 2, "sentinels": 3, "auth": True})
        for word in ("replicas=", "replicas=x", "sentinel=3", "replicas=12"):
            with self.assertRaises(ValueError):
                options([word])
        with self.assertRaises(ValueError):
            Stage(1, replicas=1, unix=True)

    def test_serve(self):
        command = [sys.executable, os.path.join(HERE, "stage.py"), "serve", "1", "replicas=1", "sentinels=1"]
        served = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        found = dict(line.strip().split("=", 1) for line in iter(served.stdout.readline, "ready\n"))
        self.assertRegex(found["QUORLOCK_NODES"], r"^redis\+sentinel://127\.0\.0\.1:\d+/master1$")
        port = int(found["QUORLOCK_NODES"].split(":")[2].partition("/")[0])
        tell = f"{found['QUORLOCK_STAGE']} failover 1 && {found['QUORLOCK_STAGE']} await-failover 1 30000"
        self.assertEqual(subprocess.run(tell, shell=True).returncode, 0)
        served.stdin.close()
        self.assertEqual(served.wait(10), 0)
        served.stdout.close()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)


if __name__ == "__main__":
    unittest.main()
