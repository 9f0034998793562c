"""The stage itself, on real servers: python3 tests/stage/test_stage.py"""

import os
import socket
import ssl
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from stage import Resp, RespError, Stage  # noqa: E402
from stage.stage import command  # noqa: E402
from stage.words import StageError, Words  # noqa: E402

STAGE_PY = os.path.join(HERE, "stage.py")


def alive(pid):
    """Whether the process runs; one that ended and waits to be reaped does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")


class Life(unittest.TestCase):
    def test_nodes_are_separate_and_empty_after_a_restart(self):
        with Stage(3) as stage:
            stage.redis(1, "SET", "k", "v")
            self.assertEqual(stage.holders("k"), [1])
            stage.restart(1)
            self.assertEqual(stage.holders("k"), [])
            stage.redis(1, "SET", "k", "v")

    def test_a_stopped_node_is_silent_and_keeps_its_data(self):
        with Stage(2) as stage:
            stage.redis(1, "SET", "k", "v")
            stage.stop(1)
            self.assertEqual(stage.running(), [2])
            with Resp(stage.port(1), timeout=0.1) as client, self.assertRaises(TimeoutError):
                client.call("PING")
            stage.cont(1)
            self.assertEqual(stage.redis(1, "GET", "k"), b"v")

    def test_a_killed_node_refuses_and_keeps_its_port(self):
        with Stage(1) as stage:
            port = stage.port(1)
            stage.kill(1)
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 1)
            with self.assertRaises(OSError), socket.socket() as other:
                other.bind(("127.0.0.1", port))
            stage.start(1)
            self.assertEqual(stage.port(1), port)

    def test_nothing_is_left_behind(self):
        stage = Stage(3)
        pids = [stage.redis(number, "INFO", "server").decode().split("process_id:")[1].split()[0]
                for number in (1, 2, 3)]
        stage.stop(2)
        stage.close()
        stage.close()
        self.assertFalse(any(map(alive, pids)))
        self.assertFalse(os.path.exists(stage.folder))

    def test_a_stage_is_a_declared_set(self):
        with Stage(2) as stage:
            records = {stage.redis(number, "GET", "lock:#node").split()[5] for number in (1, 2)}
            self.assertEqual(len(records), 2)
            self.assertEqual((stage.locks(1), stage.keys(1)), ([], [b"lock:#node"]))
            stage.heal()
            self.assertEqual(stage.keys(1), [])

    def test_heal_undoes_everything(self):
        with Stage(4) as stage:
            stage.redis(1, "SET", "k", "v")
            stage.redis(2, "CONFIG", "SET", "maxmemory", "1")
            stage.stop(3)
            stage.kill(4)
            stage.heal()
            self.assertEqual(stage.running(), [1, 2, 3, 4])
            self.assertEqual(stage.holders("k"), [])
            self.assertEqual(stage.redis(2, "CONFIG", "GET", "maxmemory")[1], b"0")
            self.assertEqual(stage.calls("set"), 0)

    def test_counters(self):
        with Stage(2, declare=False) as stage:
            stage.redis(1, "EVAL", "return redis.call('set', 'k', 'v')", 0)
            stage.redis(2, "SET", "k", "v")
            self.assertEqual((stage.calls("eval"), stage.calls("set")), (1, 2))
            stage.reset_counters()
            self.assertEqual(stage.calls("set"), 0)


class Saved(unittest.TestCase):
    def test_a_node_starts_with_what_was_saved_and_then_empty_again(self):
        with Stage(1, declare=False) as stage:
            stage.redis(1, "SET", "old", "v")
            stage.save(1)
            stage.redis(1, "SET", "new", "v")
            stage.kill(1)
            stage.start(1, saved=True)
            self.assertEqual(stage.keys(1), [b"old"])
            stage.restart(1)
            self.assertEqual(stage.keys(1), [])


class Clocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(2, clocks=True)

    @classmethod
    def tearDownClass(cls):
        cls.stage.close()

    def test_a_step_moves_one_clock(self):
        before, other = self.stage.ahead(1), self.stage.ahead(2)
        self.stage.clock(1).step(3600)
        self.assertAlmostEqual(self.stage.ahead(1) - before, 3600, delta=1)
        self.assertAlmostEqual(self.stage.clock(1).offset() - before, 3600, delta=1)
        self.assertAlmostEqual(self.stage.ahead(2), other, delta=1)
        self.stage.restart(1)
        self.assertAlmostEqual(self.stage.ahead(1) - before, 3600, delta=1)
        self.stage.clock(1).step(-7200)
        self.assertAlmostEqual(self.stage.ahead(1) - before, -3600, delta=1)

    def test_a_step_ends_a_key_early_and_a_step_back_late(self):
        self.stage.redis(1, "SET", "short", "v", "PX", "60000")
        self.stage.redis(1, "SET", "long", "v", "PX", "60000")
        self.stage.clock(1).step(-100)
        self.assertGreater(self.stage.redis(1, "PTTL", "long"), 100_000)
        self.stage.clock(1).step(161)
        self.assertIsNone(self.stage.redis(1, "GET", "short"))

    def test_a_clock_stands_where_it_is_set(self):
        self.stage.clock(1).stand(1_800_000_000_000_999_000)
        self.stage.redis(1, "SET", "key", "v", "PX", "5")
        for _ in range(3):
            self.assertEqual(self.stage.redis(1, "TIME"), [b"1800000000", b"999"])
        for after, left in ((5_000_000, 0), (6_000_000, -2)):
            self.stage.clock(1).stand(1_800_000_000_000_000_000 + after)
            self.assertEqual(self.stage.redis(1, "PTTL", "key"), left)
        self.stage.clock(1).stand(0)
        self.assertAlmostEqual(self.stage.ahead(1), self.stage.clock(1).offset(), delta=1)

    def test_a_rate_is_followed_without_a_step(self):
        before, end = self.stage.ahead(2), time.monotonic() + 20
        self.stage.clock(2).run(1.0)
        self.assertLess(self.stage.ahead(2) - before, 0.5)
        while self.stage.ahead(2) - before < 1.0 and time.monotonic() < end:
            time.sleep(0.01)
        self.stage.clock(2).run(0)
        gained = self.stage.ahead(2) - before
        self.assertGreaterEqual(gained, 1.0)
        self.assertAlmostEqual(self.stage.clock(2).offset(), gained, delta=0.2)


class Doors(unittest.TestCase):
    def test_auth(self):
        with Stage(1, auth=True) as stage:
            port, right, wrong = stage.port(1), stage.secrets["quorlock"], stage.secrets["wrong"]
            with Resp(port, user="quorlock", password=right) as client:
                self.assertEqual(client.call("EVAL", "return redis.call('set', KEYS[1], 'v')", 1, "lock:k"), b"OK")
                with self.assertRaisesRegex(RespError, "NOPERM"):
                    client.call("SET", "other", "v")
            with self.assertRaisesRegex(RespError, "WRONGPASS"):
                Resp(port, user="quorlock", password=wrong)
            with Resp(port) as client, self.assertRaisesRegex(RespError, "NOAUTH"):
                client.call("PING")
            self.assertIn(right, stage.urls()[0])
            self.assertNotIn("@", stage.urls(password="none")[0])
            with open(f"/proc/{os.getpid()}/cmdline") if os.path.exists("/proc/self") else open(os.devnull) as file:
                self.assertNotIn(right, file.read())

    def handshake(self, stage, **files):
        context = ssl.create_default_context(cafile=os.path.join(stage.certs, files.pop("ca")))
        if files:
            context.load_cert_chain(*(os.path.join(stage.certs, files[name]) for name in ("cert", "key")))
        port = int(stage.urls(via="tls")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 2) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(99)

    def test_tls(self):
        with Stage(1, tls=True) as stage:
            self.assertEqual(self.handshake(stage, ca="ca.crt"), b"+PONG\r\n")
            with self.assertRaises(ssl.SSLCertVerificationError):
                self.handshake(stage, ca="wrong-ca.crt")

    def test_client_certificates(self):
        with Stage(1, client_certs=True) as stage:
            pair = {"cert": "client.crt", "key": "client.key"}
            self.assertEqual(self.handshake(stage, ca="ca.crt", **pair), b"+PONG\r\n")
            with self.assertRaises(OSError):
                self.assertEqual(self.handshake(stage, ca="ca.crt"), b"+PONG\r\n")
            pair = {"cert": "wrong-client.crt", "key": "wrong-client.key"}
            with self.assertRaises(OSError):
                self.assertEqual(self.handshake(stage, ca="ca.crt", **pair), b"+PONG\r\n")

    def test_unix_socket(self):
        with Stage(1, unix=True) as stage:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(stage.urls(via="unix")[0].removeprefix("redis+unix://"))
                client.sendall(b"PING\r\n")
                self.assertEqual(client.recv(99), b"+PONG\r\n")


class InWords(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = Stage(3)
        cls.words = Words(cls.stage)

    @classmethod
    def tearDownClass(cls):
        cls.stage.close()

    def setUp(self):
        self.stage.heal()

    def run_words(self, line):
        return self.words.run(line.split())

    def fails(self, line):
        with self.assertRaises(StageError):
            self.run_words(line)

    def test_votes(self):
        self.run_words("redis 1,2 SET lock:{a%20b} v PX 9000")
        self.assertEqual(self.stage.holders("lock:{a b}"), [1, 2])
        self.run_words("expect-votes lock:{a%20b} 2 0")
        self.run_words("expect-ttl 1,2 lock:{a%20b} 1 9000")
        self.fails("expect-votes lock:{a%20b} 3 20")
        self.fails("await-free lock:{a%20b} 20")
        self.fails("expect-ttl 1 lock:{a%20b} 9001 9999")
        self.fails("expect-ttl 3 lock:{a%20b} 0 9999")
        self.run_words("redis all DEL lock:{a%20b}")
        self.run_words("await-free lock:{a%20b} 0")
        self.run_words("redis 1,2 SET lock:{r} @1700000000000000%201%20inbox")
        self.run_words("redis 3 SET lock:{r} &0%200%20")
        self.run_words("await-reserved lock:{r} 2 0")
        self.fails("await-reserved lock:{r} 3 20")

    def test_patterns(self):
        self.run_words("redis all SET k 12345")
        for pattern in ("12345", "starts:12", "ends:45", "has:34", "lacks:9", "%312345"):
            self.run_words(f"expect all {pattern} GET k")
        for pattern in ("1234", "starts:2", "ends:4", "has:9", "lacks:34"):
            self.fails(f"expect all {pattern} GET k")
        self.run_words("expect 1 nil GET none")
        self.fails("await 1 12345 20 GET none")

    def test_databases_are_separate(self):
        self.run_words("-n 3 redis all SET k v")
        self.run_words("-n 3 expect-votes k 3 0")
        self.run_words("await-free k 0")

    def test_faults_and_counters(self):
        self.run_words("reset-counters")
        self.run_words("redis all SET k v")
        self.run_words("expect-calls set 3 3 0")
        self.fails("expect-calls set 4 9 20")
        self.run_words("stop 1")
        self.run_words("kill 2")
        self.run_words("expect-votes k 1 0")
        self.assertIn("1 stopped", self.run_words("show"))
        self.assertEqual(self.run_words("counters").split()[0], "3")
        self.run_words("heal")

    def test_nonsense_is_refused(self):
        for line in ("", "jump 1", "stop 4", "stop x", "redis 1 NOSUCH", "redis 1 GET", "expect-votes k", "-n 1"):
            self.fails(line)


class CommandLine(unittest.TestCase):
    def test_serve_and_tell(self):
        served = subprocess.Popen([sys.executable, STAGE_PY, "serve", "2", "unix"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        found = {}
        for line in served.stdout:
            if line == "ready\n":
                break
            name, _, value = line.strip().partition("=")
            found[name] = value
        self.assertEqual(len(found["QUORLOCK_NODES"].split(",")), 2)

        def shell(words):
            done = subprocess.run(found["QUORLOCK_STAGE"] + " " + words, shell=True, capture_output=True, text=True)
            return done.returncode, done.stdout.strip()

        self.assertEqual(shell("redis all SET lock:{a} v"), (0, "OK\nOK"))
        self.assertEqual(shell("expect-votes lock:{a} 2 0"), (0, ""))
        self.assertEqual(shell("await-free lock:{a} 10")[0], 1)
        self.assertEqual(shell("jump")[0], 1)
        pids = [line.split(":")[1] for number in (1, 2)
                for line in shell(f"redis {number} INFO server")[1].splitlines() if line.startswith("process_id:")]
        self.assertEqual(len(pids), 2)
        served.stdin.close()
        self.assertEqual(served.wait(10), 0)
        served.stdout.close()
        self.assertFalse(any(map(alive, pids)))
        self.assertEqual(shell("show")[0], 2)

    def test_sigterm_ends_the_servers(self):
        served = subprocess.Popen([sys.executable, STAGE_PY, "serve", "1"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.assertTrue(served.stdout.readline().startswith("QUORLOCK_STAGE"))
        port = int(served.stdout.readline().rpartition(":")[2])
        served.terminate()
        self.assertEqual(served.wait(10), 143)
        served.stdout.close()
        served.stdin.close()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)

    def test_no_stage(self):
        done = subprocess.run(command("/nonexistent") + " show", shell=True, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
