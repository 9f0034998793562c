"""Every command of `quorlock` that speaks with nodes, while one or two of three nodes are in each state that a server can be in: it
ends, with the exit code of its page, and tells what it knows."""

import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

from programs import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage  # noqa: E402

PROGRAM = os.path.join(ROOT, "target", "release", "quorlock")
TIMES = ("--node-timeout", "200ms", "--connect-timeout", "500ms")
# Far beyond what the help of any command names, with these times: a command that has not ended by then hangs.
HANGS = 60
AT_ONCE = 6


class Fake:
    """A port before a server, or before none: `speak` has the connection of a client."""

    def __init__(self, speak):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._speak, self._open = speak, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError):
            self._speak(client)

    def close(self):
        for one in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def silent(client):
    while client.recv(4096):
        pass


def closing(words):
    def speak(client):
        client.sendall(words)
        client.close()

    return speak


def between(port, change):
    """Passes on what the server says by `change`, which is given each piece and says what comes of it, or ends it."""

    def speak(client):
        with socket.create_connection(("127.0.0.1", port)) as server:
            def there():
                with contextlib.suppress(OSError):
                    while data := client.recv(65536):
                        server.sendall(data)
                    server.shutdown(socket.SHUT_RDWR)

            threading.Thread(target=there, daemon=True).start()
            count = 0
            while data := server.recv(65536):
                client.sendall(change(data, count))
                count += 1

    return speak


def slowly(data, _count):
    time.sleep(0.02)
    return data


def half(data, count):
    # The first words whole, then one reply of which the second half never comes.
    return data if count < 1 else data[:len(data) // 2] if count == 1 else b""


# What a state makes of a node: `votes`; `away`: it does not answer, or not in time; `refuses`: it answers, and gives no vote; `wrong`:
# it will not, until somebody changes something.
STATES = {
    "slow": "votes", "dead": "away", "stopped": "away", "silent": "away", "half": "away", "full": "away", "loading": "away",
    "protected": "wrong", "no memory": "refuses", "no replicas": "refuses", "forbidden": "wrong", "another set": "wrong",
}


class States(unittest.TestCase):
    def setUp(self):
        self.stage = self.enterContext(Stage(3))
        self.urls = self.stage.urls()

    def fake(self, number, speak):
        made = Fake(speak)
        self.addCleanup(made.close)
        self.urls[number - 1] = f"redis://127.0.0.1:{made.port}"

    def put(self, number, state):
        stage, port = self.stage, self.stage.port(number)
        match state:
            case "slow":
                self.fake(number, between(port, slowly))
            case "dead":
                stage.kill(number)
            case "stopped":
                stage.stop(number)
                self.addCleanup(stage.cont, number)
            case "silent":
                self.fake(number, silent)
            case "half":
                self.fake(number, between(port, half))
            case "full":
                self.fake(number, closing(b"-ERR max number of clients reached\r\n"))
            case "loading":
                self.fake(number, closing(b"-LOADING Redis is loading the dataset in memory\r\n"))
            case "protected":
                self.fake(number, closing(b"-DENIED Redis is running in protected mode\r\n"))
            case "no memory":
                stage.redis(number, "CONFIG", "SET", "maxmemory", "1")
            case "no replicas":
                stage.redis(number, "CONFIG", "SET", "min-replicas-to-write", "1")
            case "forbidden":
                stage.redis(number, "ACL", "SETUSER", "nobody", "on", ">right", "-@all")
                self.urls[number - 1] = f"redis://nobody:right@127.0.0.1:{port}"
            case "another set":
                stage.redis(number, "SET", "lock:#node", stage.redis(number, "GET", "lock:#node").replace(b"default", b"other"))

    def run_it(self, *words):
        """The exit code of a command and what it printed."""
        command, *rest = words
        line = [PROGRAM, command, *TIMES, *rest]
        # Variables are read by the program, and a URL is never an argument.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUORLOCK_")}
        done = subprocess.run(line, env={**environment, "QUORLOCK_NODES": ",".join(self.urls)}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=HANGS)
        return done.returncode, done.stdout, done.stderr

    def check(self, expected, *words):
        code, out, error = self.run_it(*words)
        self.assertIn(code, expected, f"{words}: {out} {error}")
        self.assertFalse(out == error == "" and code not in (0, 3), f"{words} says nothing")
        return out

    def objects(self, expected, *words):
        """The same, and what was printed for programs: always an object, whatever came of it."""
        out = self.check(expected, *words)
        found = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(found, words)
        return found

    def all_commands(self, state, nodes):
        kind, works = STATES[state], STATES[state] == "votes" or nodes == 1
        # Too few nodes: by what they are.
        lacks = {0} if works else {78} if kind == "wrong" else {69}
        self.check(lacks, "run", "-n", "job", "--", "true")
        self.check(lacks, "run", "-w", "300ms", "job", "--", "true")
        # Some of these are read all the same.
        reads = works or kind == "refuses"
        [seen] = self.objects({3} if reads else {3, 69}, "inspect", "--json", "job")
        self.assertEqual(len(seen["nodes"]), 3)
        if not reads:
            self.assertEqual(seen["verdict"], "unknown")
        # The keys of locks are there for a set of any name.
        [listed] = self.objects({0} if reads or state == "another set" else {69, 78}, "list", "--json")
        self.assertEqual(len(listed["unread"]), nodes if kind == "away" or state in ("forbidden", "protected") else 0)
        health = 0 if kind == "votes" else 1 if works else 69
        [found] = self.objects({health}, "doctor", "--json", "job")
        self.assertEqual(found["votes"], 3 if kind == "votes" else 3 - nodes, found)
        self.assertEqual(found["lock"]["name"], "job")
        for place, node in enumerate(found["nodes"]):
            well = place >= nodes or kind == "votes"
            self.assertEqual(node["votes"], well, node)
            self.assertEqual(bool(node["findings"]), not well, node)
        [one] = self.objects({0 if kind == "votes" else 69}, "doctor", "--json", "--node", self.bare(1))
        self.assertEqual(one["ready"], kind == "votes")
        self.objects({0}, "doctor", "--json", "--node", self.bare(3))
        # A set that stands needs a quorum that votes; what is set up wrong is to be mended all the same.
        declares = 78 if kind == "wrong" else 0 if works else 74 if kind == "refuses" else 69
        self.objects({declares}, "init", "--json")
        self.objects({3} if reads else {3, 69, 78}, "release", "--force", "--json", "job")
        self.check({0} if reads else {0, 75}, "watch", "--until-free", "--wait", "500ms", "--every", "200ms", "--json", "job")

    def bare(self, number):
        return "redis://" + self.urls[number - 1].rpartition("@")[2].removeprefix("redis://")


def case(state, nodes):
    def test(self):
        for number in range(1, nodes + 1):
            self.put(number, state)
        self.all_commands(state, nodes)

    return test


for state in STATES:
    for nodes in (1, 2):
        setattr(States, f"test_{nodes}_of_3_{state.replace(' ', '_')}", case(state, nodes))


def run(name):
    """Runs one test, on servers of its own; what went wrong, and how it is called."""
    result = unittest.TestResult()
    States(name).run(result)
    return name, "".join(text for _, text in result.errors + result.failures)


def main():
    names = sys.argv[1:] or unittest.TestLoader().getTestCaseNames(States)
    failed = 0
    # They wait for servers more than they compute.
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, wrong in pool.map(run, names):
            failed += bool(wrong)
            print(f"FAIL {name}\n{wrong}" if wrong else f"ok   {name}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
