"""One redis-server process: its ports, its configuration, its life."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from .clock import Clock
from .resp import Resp, RespError

UP, STOPPED, DEAD = "up", "stopped", "dead"
START_SECONDS = 15.0
SAVED = "saved.rdb"
# What the user of the tests may do, wherever a stage has `auth`: the line of docs/reference/protocol.md ("Permissions"). That it
# is enough and no more than that is tested (tests/rust/tests/permissions.rs), and that it is the same (test_tables.py).
ACL = ("~lock:* resetchannels &lock:* -@all +select +info +client|info +client|setname +script|load +eval +evalsha +time +get +mget +set +del "
       "+pttl +pexpire +zadd +zincrby +zrem +zcard +zrank +zscore +zrange +publish +subscribe +pubsub|numsub")


class Port:
    """A free loopback port that stays ours also while the server that uses it is dead.

    A bound socket that does not listen keeps everybody else off the port, yet a server with SO_REUSEADDR (Redis
    sets it) may listen there. Linux allows that; elsewhere the port is only known to have been free.
    """

    def __init__(self, number=0):
        self._guard = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._guard.bind(("127.0.0.1", number))
        self.number = self._guard.getsockname()[1]
        if sys.platform == "linux":
            # After the bind, so that the bind itself never shares a port with another guard.
            self._guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            self._guard.close()

    def close(self):
        self._guard.close()


def ports_of_a_cluster():
    """A port, and that of the cluster's bus, which is 10,000 above it."""
    for _ in range(100):
        port = Port()
        try:
            return [port, Port(port.number + 10_000)]
        except (OSError, OverflowError):
            port.close()
    raise RuntimeError("no two free ports that are 10,000 apart")


class Node:
    def __init__(self, number, folder, *, tls=None, client_certs=False, secrets=None, permit="", unix=False, options=(),
                 clock=None):
        self.number = number
        self.folder = folder
        self.state = DEAD
        # Whether it was ever stopped or killed since its node began.
        self.signalled = False
        self._tls, self._client_certs, self._secrets, self._options = tls, client_certs, secrets, options
        self._permit = permit
        self.unix = os.path.join(folder, "redis.sock") if unix else None
        self._clustered = "cluster-enabled yes" in options
        self._process = None
        self._ports = []
        os.makedirs(folder, mode=0o700)
        self.clock = Clock(folder, clock) if clock else None
        self.dump = os.path.join(folder, "dump.rdb")
        self._take_ports()

    def _take_ports(self):
        for port in self._ports:
            port.close()
        self._ports = [*([Port()] if self._tls else []), *(ports_of_a_cluster() if self._clustered else [Port()])]
        self.port = self._ports[0].number
        self.tls_port = self._ports[1].number if self._tls else None

    def _configuration(self):
        lines = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", "daemonize no",
                 'save ""', "appendonly no", f"logfile {self.folder}/log", "databases 16"]
        if self.unix:
            lines += [f"unixsocket {self.unix}", "unixsocketperm 700"]
        lines += self._tls_lines()
        if self._secrets:
            lines += [f"user default on >{self._secrets['default']} ~* &* +@all",
                      f"user quorlock on >{self._secrets['quorlock']} {ACL} {self._permit}"]
        return "\n".join([*lines, *self._options, ""])

    def _tls_lines(self):
        return self._tls and [f"tls-port {self.tls_port}", f"tls-cert-file {self._tls}/server.crt",
                              f"tls-key-file {self._tls}/server.key", f"tls-ca-cert-file {self._tls}/ca.crt",
                              "tls-auth-clients " + ("yes" if self._client_certs else "no")] or []

    def _command(self, path):
        return ["redis-server", path]

    def launch(self, saved=False):
        """Starts the process, empty, or with what was last `save`d. `ready` tells when it serves."""
        if saved:
            shutil.copyfile(os.path.join(self.folder, SAVED), self.dump)
        elif os.path.exists(self.dump):
            os.remove(self.dump)
        path = os.path.join(self.folder, "redis.conf")
        # In a file and not in the arguments: passwords have no place in a list of processes.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self._configuration())
        with open(os.path.join(self.folder, "output"), "ab") as output:
            environment = {**os.environ, **self.clock.environment} if self.clock else None
            self._process = subprocess.Popen(self._command(path), cwd=self.folder, stdin=subprocess.DEVNULL,
                                             stdout=output, stderr=output, env=environment)

    def ready(self, fresh=False):
        """Waits until our own process answers. A port lost to somebody else is replaced while `fresh`."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                if not fresh or not self._port_was_taken():
                    break
                self._take_ports()
                self.launch()
            if self._answers():
                self.state = UP
                return
            time.sleep(0.005)
        self._end()
        raise RuntimeError(f"node {self.number} does not start: {self._last_words()}")

    def _answers(self):
        try:
            with self.connect() as connection:
                return f"process_id:{self._process.pid}\r\n".encode() in connection.call("INFO", "server")
        except (OSError, RespError):
            return False

    def _log(self):
        words = ""
        for name in ("log", "output"):
            try:
                with open(os.path.join(self.folder, name), errors="replace") as file:
                    words += file.read()
            except OSError:
                pass
        return words

    def _port_was_taken(self):
        return "in use" in self._log() or "Failed listening" in self._log()

    def _last_words(self):
        return " / ".join(self._log().strip().splitlines()[-3:]) or "it said nothing"

    @property
    def down(self):
        return self.state == DEAD

    def connect(self, db=0, timeout=5.0):
        """A connection that may do everything, whatever the clients under test may."""
        password = self._secrets["default"] if self._secrets else None
        return Resp(self.port, password=password, db=db, timeout=timeout)

    def call(self, *words, db=0):
        with self.connect(db) as connection:
            return connection.call(*words)

    def save(self):
        """Keeps the data as they are now, for a start with them later."""
        self.call("SAVE")
        os.replace(self.dump, os.path.join(self.folder, SAVED))

    def stop(self):
        self.signalled = True
        if self.state == UP:
            self._process.send_signal(signal.SIGSTOP)
            # Until the signal has arrived the server may answer once more; a scenario needs it silent from here on.
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self.state = STOPPED

    def cont(self):
        if self.state == STOPPED:
            self._process.send_signal(signal.SIGCONT)
            self.state = UP

    def kill(self):
        self.signalled = True
        if self.state != DEAD:
            self._end()
            self.state = DEAD

    # All of a node with replicas, which this is not.
    kill_all = kill

    def _end(self):
        # Only our own child, not yet reaped: its number cannot have gone to another process.
        # SIGKILL ends a stopped process too; thawed first, it would still run what waits in its sockets.
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self):
        self.kill()
        self._end()
        if self.clock:
            self.clock.close()
        for port in self._ports:
            port.close()
