"""One run of one driver against a stage."""

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from urllib.parse import urlsplit

from prepare import COMMANDS
from relay import Relay
from servers import Servers
from slow import DELAY_SECONDS, SlowNode
from table import BARE, BEHIND, DIRECT, OVER_TLS, ROUND_TRIPS

CORE = 0
START_SECONDS = 30
# A peer that has not come back so long after its time is stuck.
GRACE_SECONDS = 2.5
SETTLE_SECONDS = 0.15
# A node that comes back has to be found again by the client: so long at most until keys count as left.
BACK_SECONDS = 1.5


class Stuck(Exception):
    """A driver said nothing in time."""


@contextlib.contextmanager
def pinned(wanted):
    """What is started inside inherits the one core."""
    before = os.sched_getaffinity(0)
    if wanted:
        os.sched_setaffinity(0, {CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Fault:
    """What happens to the nodes between warm-up and measuring, and its undoing."""

    DOWN = {"up": (), BARE: (), DIRECT: (), BEHIND: (), "killed": (5,), "hung": (5,), "slow": (), "two hung": (4, 5),
            **dict.fromkeys(ROUND_TRIPS, ())}

    def __init__(self, stage, state):
        self._stage, self._state, self._proxy, self._relay = stage, state, None, None

    def nodes(self):
        if self._state == DIRECT:
            return [f"redis://127.0.0.1:{self._stage.port(1)}"]
        urls = self._stage.urls()
        if self._state == "slow":
            self._proxy = SlowNode(self._stage.port(5))
            urls[4] = f"redis://127.0.0.1:{self._proxy.port}"
        if self._state in ROUND_TRIPS:
            urls = [urlsplit(url) for url in self._stage.urls(via="tls" if self._state == OVER_TLS else "tcp")]
            self._relay = Relay(ROUND_TRIPS[self._state], [url.port for url in urls])
            urls = [f"{url.scheme}://127.0.0.1:{port}" for url, port in zip(urls, self._relay.ports, strict=True)]
        return urls

    def environment(self):
        """What drivers need besides the nodes."""
        return {"QUORLOCK_CA": f"{self._stage.certs}/ca.crt"} if self._state == OVER_TLS else {}

    def relayed(self):
        """How late the relay was, if there was one."""
        return {"relay": self._relay.close()} if self._relay else {}

    def begin(self):
        down = self.DOWN[self._state]
        if self._proxy:
            self._proxy.slow = True
        elif self._state == "killed":
            self._stage.kill(*down)
        else:
            self._stage.stop(*down)

    def end(self):
        """All nodes are back; what was on its way has arrived. How long it may take until no key is left."""
        down = self.DOWN[self._state]
        self._stage.cont(*down)
        self._stage.start(*down)
        if self._proxy:
            time.sleep(3 * DELAY_SECONDS)
        return BACK_SECONDS if down else 0

    def close(self):
        if self._proxy:
            self._proxy.close()
        if self._relay:
            self._relay.close()


class Driver:
    def __init__(self, nodes, peer, workers, seconds, flags=(), pinned=False, environment=()):
        language, _, name = peer.partition(":")
        command = COMMANDS[language]()
        # The driver of then knows its peers by the same names.
        peer = f"rust:{name}" if language == "before" else peer
        if pinned:
            command = ["taskset", "-c", str(CORE), *command]
        command += ["--gate", *flags, peer, str(workers), str(seconds)]
        # A file and not a pipe: some peers log every failure, and must not block on it.
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                                         env=dict(os.environ, QUORLOCK_NODES=",".join(nodes), **dict(environment)))
        self._read = b""

    def line(self, seconds):
        """The next line; raises Stuck, or RuntimeError if the driver has ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self._read:
            if not select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Stuck
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise RuntimeError(self._last_words())
            self._read += data
        line, self._read = self._read.split(b"\n", 1)
        return line.decode()

    def _last_words(self):
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-400:] or "it said nothing"

    def go(self):
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def close(self, wait):
        """Ends it; returns whether it ended by itself. May be called again."""
        if self._process.returncode is not None:
            return self._process.returncode == 0
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            return self._process.wait(wait) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        finally:
            self._process.stdout.close()
            self._said.close()


def run(stage, workload, peer, state, seconds):
    """The figures of one run; with `error` or `stuck` among them when there are none."""
    # Nodes of another guard would refuse it, and empty ones would be in quarantine.
    stage.declare(guard=peer.guard)
    fault = Fault(stage, state)
    driver = Driver(fault.nodes(), peer.name, workload.workers, seconds, workload.flags, workload.pinned, fault.environment())
    servers = Servers(stage)
    figures, wait = {}, 5
    try:
        driver.line(START_SECONDS)
        fault.begin()
        servers.begin()
        driver.go()
        figures = json.loads(driver.line(seconds + GRACE_SECONDS))
        figures.update(servers.end())
        if "--hold" in workload.flags:
            figures["alive"] = servers.keys()
            # Other peers have nothing that releases all.
            if driver.close(wait) and peer.ours:
                time.sleep(SETTLE_SECONDS)
                figures["keys_left"] = servers.keys()
        else:
            patience = time.monotonic() + fault.end()
            time.sleep(SETTLE_SECONDS)
            while (left := servers.keys()) and time.monotonic() < patience:
                time.sleep(SETTLE_SECONDS)
            figures["keys_left"] = left
        driver.close(wait)
        figures.update(fault.relayed())
    except Stuck:
        figures, wait = {"stuck": True}, 0
    except (RuntimeError, OSError, ValueError) as error:
        figures, wait = {"error": str(error)}, 0
    finally:
        driver.close(wait)
        fault.close()
        stage.heal()
    return figures


def measured(figures):
    """Whether there are any; with an error among them it is that of a single acquire or release."""
    return any(name in figures for name in ("cycles", "locks", "holds"))


def tell(figures):
    """A run in one line, for the one who watches."""
    if "error" in figures and not measured(figures):
        return "FAILED: " + (figures["error"].splitlines() or [""])[-1]
    if "stuck" in figures:
        return "stuck"
    if "locks" in figures:
        return (f"{figures['cpu_percent']} % CPU, {(figures['rss_kib'] - figures['rss_before_kib']) / 1024:.1f} MB, "
                f"{figures['threads']} threads, {figures['lost']} lost, {figures['alive']} alive")
    if "holds" in figures:
        return (f"{figures['handoffs_per_s']} hand-offs/s, {figures['holds_per_s']} holds/s, gap p50 {figures.get('gap_p50_us')} us, "
                f"min/max {figures['share']}, longest wait {figures['longest_ms']} ms, {figures['violations']} double holds, "
                f"{figures['failures']} failures, {figures['keys_left']} keys left")
    return (f"{figures['cycles_per_s']} cycles/s, p50 {figures['p50_us']} us, p99 {figures['p99_us']} us, "
            f"{figures['failures']} failures, {figures['keys_left']} keys left")
