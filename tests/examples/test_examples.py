#!/usr/bin/env python3
"""The programs of examples/, each run by its line of the table there: what two requests at once, a busy order, clients that hang up, dead
lock servers and SIGTERM come to.

`quorlock dev` is left out, for the servers are a stage's. Programs listen on a free port, which they print.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import celery  # noqa: E402
import quorlock  # noqa: E402
from stage import Stage  # noqa: E402

EXAMPLES = ROOT / "examples"
TARGET = ROOT / "target"
PREFIX = TARGET / "c" / "prefix"
MODULES = ROOT / "tests" / "node" / "node_modules"
# Longer than anything takes on a machine that is busy: what is waited for comes, or the test fails.
LONG = 90
DEV = "quorlock dev -- "
LINES = dict(re.findall(r"^\| \[([\w.]+)\]\([^|]*\|[^|]*\|[^|]*\| `([^`]+)`[^|]*\|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE))


def until(holds, what):
    end = time.monotonic() + LONG
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what() if callable(what) else what}")
        time.sleep(0.01)
    return found


class Program:
    """An example that runs, and what it prints."""

    def __init__(self, command, **options):
        self._lines, self._said = [], threading.Condition()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                         start_new_session=True, **options)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._said:
                self._lines.append(line)
                self._said.notify_all()
        with self._said:
            self._lines.append(None)
            self._said.notify_all()

    def text(self):
        return "".join(line for line in self._lines if line)

    def said(self, pattern):
        """Waits until it has printed that."""
        with self._said:
            self._said.wait_for(lambda: re.search(pattern, self.text()) or self._lines[-1:] == [None], LONG)
        found = re.search(pattern, self.text())
        if not found:
            raise AssertionError(f"it did not say {pattern!r}:\n{self.text()}")
        return found

    def charges(self, order):
        """The fences of the charges of an order that were begun."""
        return [int(fence) for fence in re.findall(rf"charging order {order}, fence (\d+)", self.text())]

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def end(self):
        status = self._process.wait(LONG)
        self._reader.join()
        return status

    def close(self):
        """Ends what is left of it, and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.end()
        self._process.stdout.close()


class Caller:
    """One request, which may be given up."""

    def __init__(self, port, order, http):
        self._socket = socket.create_connection(("127.0.0.1", port), LONG)
        request = f"POST /orders/{order}/charge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self._http = http
        self._socket.sendall((request if http else f"{order}\n").encode())

    def hang_up(self):
        self._socket.close()

    def answer(self):
        """The status, and the text."""
        with self._socket, self._socket.makefile("rb") as stream:
            text = (stream.read() if self._http else stream.readline()).decode()
        status = re.match(r"HTTP/1.1 (\d+)" if self._http else r"(\d+)", text)
        return int(status[1]) if status else None, text.partition("\r\n\r\n")[2] if self._http else text


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage, cls.queues = (cls.enterClassContext(each) for each in (Stage(3), Stage(1, declare=False)))
        cls.locks = cls.enterClassContext(quorlock.Client(cls.stage.urls(), label="the-test"))
        cls.environment = {
            **os.environ, "QUORLOCK_NODES": ",".join(cls.stage.urls()), "BROKER": cls.queues.urls()[0], "PYTHONUNBUFFERED": "1",
            "PORT": "0", "UVICORN_PORT": "0", "GUNICORN_CMD_ARGS": "--bind 127.0.0.1:0",
            "PATH": os.pathsep.join((str(pathlib.Path(sys.executable).parent), str(MODULES / ".bin"), os.environ["PATH"])),
            "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig"), "LD_LIBRARY_PATH": str(PREFIX / "lib"),
            "CARGO_TARGET_DIR": str(TARGET), "npm_config_update_notifier": "false"}
        # What a user has: the files, and Node's packages beside them.
        cls.place = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="examples", dir=TARGET)), "examples")
        shutil.copytree(EXAMPLES, cls.place)
        modules = cls.place / "node_modules"
        modules.mkdir()
        for package in (*MODULES.iterdir(), ROOT / "node"):
            (modules / (package.name if package.parent == MODULES else "quorlock")).symlink_to(package)
        # Compilers take their time, while others are tested.
        pool = cls.enterClassContext(concurrent.futures.ThreadPoolExecutor(1))
        cls.made = {file: pool.submit(cls.makes, line.split(" && ")[:-1]) for file, line in LINES.items()}

    @classmethod
    def makes(cls, commands):
        """Runs what a line has before its program."""
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=cls.place, env=cls.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.place.parent)))

    def started(self, file, more="", folder=None):
        """Runs what the table says."""
        self.made[file].result()
        command = LINES[file].split(" && ")[-1]
        self.assertTrue(command.startswith(DEV), command)
        program = Program(f"exec {command.removeprefix(DEV)}{more}", shell=True, cwd=folder or self.place,
                          env={**self.environment, "DATABASE": str(self.folder / "orders.db")})
        self.addCleanup(program.close)
        return program

    def nothing_is_held(self):
        until(lambda: not any(self.stage.locks(number) for number in range(1, 4)), "that no lock is left")

    # ---- what serves ----

    def serves(self, file, *, http=True, ends=0, folder=None, at_once=False):
        program = self.started(file, folder=folder)
        port = int(program.said(r"(?:http|tcp)://(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)")[1])

        def listens():
            # Some print where they will listen.
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), LONG):
                return True
            return False

        def asks(order):
            return Caller(port, order, http)

        def refused(order, status):
            found, text = asks(order).answer()
            self.assertEqual(found, status, program.text())
            self.assertNotRegex(text, r"redis|127\.0\.0\.1|order:")
            self.assertEqual(program.charges(order), [])

        until(listens, program.text)
        # Two at once are one charge.
        first = asks(1)
        program.said("charging order 1,")
        second = asks(1)
        answers = [first.answer(), second.answer()]
        [fence] = program.charges(1)
        self.assertEqual([status for status, _ in answers], [200, 200], answers)
        for _, text in answers:
            self.assertRegex(text, rf"\b{fence}\b")
        # A busy order is refused, and others are not.
        with self.locks.lock("order:2"):
            refused(2, 409)
        self.assertEqual(asks(2).answer()[0], 200, program.text())
        if not at_once:
            # A client that hangs up and asks again is charged once.
            gone = asks(3)
            program.said("charging order 3,")
            gone.hang_up()
            status, text = asks(3).answer()
            self.assertEqual(status, 200, text)
            self.assertRegex(text, rf"\b{program.charges(3)[0]}\b")
            self.assertEqual(len(program.charges(3)), 1)
        # A client that hangs up while it waits.
        with self.locks.lock("order:4"):
            gone = asks(4)
            until(lambda: self.locks.inspect("order:4").queued, "that it waits")
            # Callers with other orders do not wait for it.
            self.assertEqual(asks(5).answer()[0], 200, program.text())
            gone.hang_up()
            until(lambda: not self.locks.inspect("order:4").queued, "that it waits no more")
            self.assertEqual(program.charges(4), [])
        self.assertEqual(asks(4).answer()[0], 200, program.text())
        self.assertEqual(len(program.charges(4)), 1)
        # Lock servers that do not answer.
        self.stage.stop(1, 2)
        try:
            refused(6, 503)
        finally:
            self.stage.cont(1, 2)
        # The end.
        until(lambda: asks(7).answer()[0] == 200, "that it goes on")
        if at_once:
            program.terminate()
        else:
            last = asks(8)
            program.said("charging order 8,")
            program.terminate()
            status, text = last.answer()
            self.assertEqual(status, 200, text)
        self.assertEqual(program.end(), ends, program.text())
        self.nothing_is_held()
        return program

    def test_http_fastapi(self):
        self.serves("fastapi_app.py")

    def test_http_django(self):
        self.serves("django_app.py")

    def test_http_express(self):
        self.assertIn("order 4: its client has hung up", self.serves("express.mjs").text())

    def test_http_nest(self):
        # Nest ends by the signal that has told it to.
        self.serves("nest.mts", ends=-signal.SIGTERM)

    def test_http_axum(self):
        # In its place, so that cargo knows it again, with the versions that everything else here is tested with.
        ours, lock = ROOT / "Cargo.lock", EXAMPLES / "axum" / "Cargo.lock"
        if not lock.exists() or lock.stat().st_mtime < ours.stat().st_mtime:
            shutil.copyfile(ours, lock)
        self.serves("axum", folder=EXAMPLES)

    def test_tcp_asio(self):
        self.serves("asio.cpp", http=False)

    def test_tcp_epoll(self):
        self.assertIn("order 4: its client has hung up", self.serves("epoll.c", http=False, at_once=True).text())

    # ---- what works on a queue ----

    def test_queue_celery(self):
        program = self.started("celery_tasks.py")
        app = celery.Celery(broker=self.queues.urls()[0], backend=self.queues.urls()[0])
        self.addCleanup(app.close)

        def sends(order):
            return app.send_task("celery_tasks.charge", [order])

        def charged(order):
            return sends(order).get(timeout=LONG)

        # Sent twice, as a client does that has not seen the answer.
        for sent in [sends(1), sends(1), sends(1)]:
            self.assertEqual([sent.get(timeout=LONG)], program.charges(1))
        with self.locks.lock("order:2"):
            busy = sends(2)
            # Both processes are free for others meanwhile.
            charged(3)
            charged(4)
            self.assertEqual(program.charges(2), [])
        self.assertEqual([busy.get(timeout=LONG)], program.charges(2))
        sends(5)
        program.said("charging order 5,")
        program.terminate()
        self.assertEqual(program.end(), 0, program.text())
        self.nothing_is_held()

    def test_queue_bullmq(self):
        with self.locks.lock("order:2"):
            hosts = [self.started("bullmq.mjs", " 2") for _ in range(2)]
            # The line of the table charges 7 and 8, on each host.
            for host in hosts:
                host_said = [until(lambda order=order: any(f"order {order} is charged" in each.text() for each in hosts), "7, 8") for order in (7, 8)]
                self.assertTrue(all(host_said))
            self.assertEqual([each.charges(2) for each in hosts], [[], []])

        def done(order, count):
            return lambda: sum(each.text().count(f"order {order} is charged") for each in hosts) == count

        for order in (7, 8, 2):
            until(done(order, 2), f"two jobs of {order}")
            self.assertEqual(sum(len(each.charges(order)) for each in hosts), 1)
        for host in hosts:
            host.terminate()
        self.assertEqual([host.end() for host in hosts], [0, 0])
        self.nothing_is_held()

    # ---- cron ----

    def test_crontab(self):
        nodes, job, ran = self.folder / "nodes", self.folder / "charge-orders", self.folder / "ran"
        nodes.write_text("\n".join(self.stage.urls()) + "\n")
        job.write_text(f'#!/bin/sh\necho "fence $QUORLOCK_FENCE" >> {ran}\n')
        job.chmod(0o755)
        text = (EXAMPLES / "crontab").read_text().replace("/etc/quorlock/nodes", str(nodes)).replace("/usr/local/bin/charge-orders", str(job))
        [command] = re.findall(r"^(?:[\d*]+ ){5}(.*)$", text, re.MULTILINE)
        # Nothing of the environment that cron does not have.
        environment = {"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder)}
        hosts = [self.folder / name for name in ("one", "two")]
        for host in hosts:
            host.mkdir()
        running = [subprocess.Popen(command.replace("/var/lib/node_exporter", str(host)), shell=True, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for host in hosts]
        said = [host.communicate(timeout=LONG)[0] for host in running]
        # A timer that fires late finds the lock kept, though the job is over.
        late = subprocess.run(command.replace("/var/lib/node_exporter", str(hosts[1])), shell=True, env=environment, capture_output=True)
        self.assertEqual([*(host.returncode for host in running), late.returncode], [0, 0, 0], said)
        self.assertRegex(ran.read_text(), r"^fence [1-9]\d*\n$")
        metrics = [(host / "charge-orders.prom").read_text() for host in hosts]
        for text in metrics:
            self.assertIn("quorlock_run_", text)
        self.locks.force_release("charge-orders")

    def test_every_file_is_in_the_table(self):
        there = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith(("README", "nest.json", "__", "orders.db"))}
        self.assertEqual(set(LINES), there)
        tests = {name.split("_")[-1] for name in dir(self) if name.startswith("test_")}
        self.assertLessEqual({re.split(r"[._]", name)[0] for name in LINES}, tests)


if __name__ == "__main__":
    unittest.main()
