"""The pages of Operate, by their own words: servers, clients and a stranger as hosts of a network of their own, the users, the unit, the
commands and the probe as the pages have them; and a runbook for each alert, each finding and each exit code.

It needs root, for network namespaces. Nothing here waits for a while: a server says when it is ready, and what is asked again until it is so
has an end."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import quorlock
import yaml

from programs import ROOT, pages, section, text

sys.path.insert(0, str(ROOT / "tests"))

from stage import Stage, ensure_server  # noqa: E402

BIN = pathlib.Path(sys.executable).parent
DEPLOY, ACCESS = "docs/operations/deploy.md", "docs/operations/acl-and-tls.md"
REPLACE, RESTART, KUBERNETES = (f"docs/operations/{page}.md" for page in ("replace", "restart", "kubernetes"))
RUNBOOKS = "docs/operations/runbooks"
# In place of the minute that a restarted server waits; and within so long everything has to come that is waited for.
MAX_TTL, SECONDS = "3s", 30
SERVERS, CLIENT, STRANGER = [f"10.0.0.{number}" for number in (1, 2, 3)], "10.0.0.10", "10.0.0.66"


def shown(page, heading, language):
    """The blocks of that language below a heading of a page, or on all of it."""
    words = section(page, re.escape(heading)) if heading else text(page)
    return [block.text for block in pages.blocks(page, words) if block.language == language]


class Network:
    """Three hosts: one that has all servers, each at an address of its own, one of clients, and a stranger's."""

    made = 0

    def __init__(self, folder):
        self.folder = folder
        Network.made += 1
        self._hosts = {name: f"quorlock-{os.getpid()}-{Network.made}-{name}" for name in ("servers", "client", "stranger")}

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self):
        for name, host in self._hosts.items():
            subprocess.run(["ip", "netns", "add", host], check=True)
            self.run(name, "ip", "link", "set", "lo", "up")
        # A test adds addresses of servers where it starts them.
        for name, address in (("client", CLIENT), ("stranger", STRANGER)):
            subprocess.run(["ip", "link", "add", name, "netns", self._hosts["servers"], "type", "veth", "peer", "name", "uplink",
                            "netns", self._hosts[name]], check=True)
            self.run("servers", "ip", "link", "set", name, "up")
            self.run("servers", "ip", "route", "add", address, "dev", name)
            self.run(name, "ip", "address", "add", f"{address}/24", "dev", "uplink")
            self.run(name, "ip", "link", "set", "uplink", "up")

    def __exit__(self, *_):
        for host in self._hosts.values():
            subprocess.run(["ip", "netns", "delete", host], capture_output=True)
            shutil.rmtree(f"/etc/netns/{host}", ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")

    def address(self, address):
        self.run("servers", "ip", "address", "replace", f"{address}/32", "dev", "lo")

    def named(self, names):
        """Has all hosts know servers by names, which `ip netns exec` puts into the place of /etc/hosts."""
        for host in self._hosts.values():
            os.makedirs(f"/etc/netns/{host}", exist_ok=True)
            lines = [f"{address} {name}\n" for name, address in names.items()]
            pathlib.Path(f"/etc/netns/{host}/hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))

    def words(self, host, *command):
        return ["ip", "netns", "exec", self._hosts[host], *command]

    def run(self, host, *command, code=0, **environment):
        """What the command prints on that host; it has to end with that code."""
        told = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "QUORLOCK_MAX_TTL": MAX_TTL, **environment}
        done = subprocess.run(self.words(host, *command), cwd=self.folder, env=told, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=SECONDS)
        if done.returncode != code:
            raise AssertionError(f"{command}: code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def types(self, host, block, code=0, **environment):
        """What a block of a page prints. A pause in it is left out."""
        return self.run(host, "bash", "-euo", "pipefail", "-c", re.sub(r"\bsleep \d+", ":", block), code=code, **environment)


class Server:
    """A server that is started with these arguments, on the host of servers."""

    def __init__(self, network, *arguments):
        self._process = subprocess.Popen(network.words("servers", "redis-server", *arguments), cwd=network.folder,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "eady to accept connections" in line:
                return
        raise AssertionError("the server has ended: " + "".join(said))

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Holder:
    """A command that runs under a lock until it is told to end."""

    def __init__(self, network, name, **environment):
        words = network.words("client", "quorlock", "run", "--label", "holder", name, "--", "sh", "-c", "echo held; cat")
        told = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "QUORLOCK_MAX_TTL": MAX_TTL, **environment}
        self._process = subprocess.Popen(words, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline() != "held\n":
            raise AssertionError("the lock was not won")

    def ends(self):
        """Whether it held the lock to its end: what has lost it ends with 76."""
        self._process.communicate(timeout=SECONDS)
        return self._process.returncode == 0

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def soon(what):
    """Asks until it is true."""
    end = time.monotonic() + SECONDS
    while not what():
        if time.monotonic() > end:
            raise AssertionError("it never came")


class Deployed(unittest.TestCase):
    """Three servers as `deploy` has them, and what is done to them later."""

    @classmethod
    def setUpClass(cls):
        ensure_server()
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory()))
        cls.network = cls.stack.enter_context(Network(cls.folder))
        [users] = shown(DEPLOY, "The users", "sh")
        cls.network.types("client", users)
        cls.users = (cls.folder / "users.acl").read_text()
        cls.password, cls.admin = (re.search(rf"^user {name} on >(\S+) ", cls.users, re.MULTILINE)[1] for name in ("locks", "admin"))
        cls.servers = {address: cls.start(address) for address in SERVERS}
        for block in shown(DEPLOY, "Found the set", "sh"):
            cls.founded = cls.types(block)

    @classmethod
    def start(cls, address, users="users.acl", *more):
        """Starts what the unit says, at that address."""
        [unit] = shown(DEPLOY, "systemd, one server on each of three hosts", "ini")
        _, *arguments = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1])
        theirs = {"10.0.0.1": address, "/etc/lock-server/users.acl": str(cls.folder / users)}
        if not set(theirs) <= set(arguments):
            raise AssertionError(f"the unit says {arguments}")
        cls.network.address(address)
        server = Server(cls.network, *[theirs.get(word, word) for word in arguments], *more)
        cls.stack.callback(server.kill)
        return server

    @classmethod
    def nodes(cls, password=None):
        """The URLs that the page gives to clients."""
        [block] = shown(DEPLOY, "The clients", "sh")
        urls = re.search(r"^export QUORLOCK_NODES=(\S+)$", block, re.MULTILINE)[1]
        return urls.replace(":secret@", f":{password or cls.password}@")

    @classmethod
    def types(cls, block, code=0, password=None, **environment):
        return cls.network.types("client", block, code, QUORLOCK_NODES=cls.nodes(password), **environment)

    def holder(self, name):
        holder = Holder(self.network, name, QUORLOCK_NODES=self.nodes())
        self.addCleanup(holder.kill)
        return holder

    def says(self, address, *words):
        """What a server says to its administrator."""
        return self.network.run("client", "redis-cli", "-h", address, "--user", "admin", *words, REDISCLI_AUTH=self.admin)

    def test_a_client_of_the_page_locks(self):
        self.assertEqual(self.founded.count("declared, votes\n"), 3, self.founded)
        [doctor, _] = shown(DEPLOY, "Check it", "sh")
        self.assertIn("one node may fail (3 of 3 vote)", self.types(doctor))
        self.assertEqual(self.types("quorlock run nightly -- echo locked"), "locked\n")

    def test_a_stranger_is_refused(self):
        [_, ping] = shown(DEPLOY, "Check it", "sh")
        [refused] = shown(DEPLOY, "Check it", "text")
        self.assertEqual(self.network.types("stranger", ping).strip(), refused.strip())
        for word in ("GET lock:#node", "CONFIG GET *", "ACL LIST", "EVAL 'return 1' 0", "PUBLISH lock:a b", "AUTH default x"):
            for address in SERVERS:
                said = self.network.run("stranger", "redis-cli", "-h", address, *shlex.split(word))
                self.assertRegex(said, r"^(NOAUTH|WRONGPASS)", word)
        self.network.types("stranger", "quorlock doctor", 69, QUORLOCK_NODES=self.nodes("wrong"))
        # The user of programs is no administrator.
        for word in ("CONFIG GET *", "ACL LIST", "FLUSHALL", "KEYS *", "GET other"):
            said = self.network.run("client", "redis-cli", "-h", SERVERS[0], "--user", "locks", *word.split(), REDISCLI_AUTH=self.password)
            self.assertRegex(said, r"^NOPERM", word)

    def test_without_the_first_line_it_is_as_the_page_says(self):
        (self.folder / "open.acl").write_text("".join(line for line in self.users.splitlines(True) if "user default" not in line))
        [_, ping] = shown(DEPLOY, "Check it", "sh")
        # Before Redis 7 a server that is told what to bind refuses no host.
        major = int(re.search(r"v=(\d+)", self.network.run("servers", "redis-server", "--version"))[1])
        refused = "DENIED" if major > 6 else "PONG"
        for address, more, said in (("10.0.0.4", (), refused), ("10.0.0.5", ("--protected-mode", "no"), "PONG")):
            self.start(address, "open.acl", *more)
            told = self.network.types("stranger", ping.replace("10.0.0.1", address) + "true\n")
            self.assertRegex(told, rf"^-?{said}")

    def test_a_password_is_rotated_under_a_lease(self):
        blocks = shown(ACCESS, "Rotate a password", "sh")
        [_, both, listed, forget] = blocks
        holder, new = self.holder("rotated"), "f" * 48
        told = {"REDISCLI_AUTH": self.admin, "OLD": self.password, "NEW": new}
        # Back, by the same way, for the other tests.
        back = {"REDISCLI_AUTH": self.admin, "OLD": new, "NEW": self.password}
        for block in (forget, both):
            self.addCleanup(self.types, block, **back)
        connections = self.connections()
        self.assertTrue(all(len(found) == 1 for found in connections), connections)
        self.assertEqual(self.types(both, **told), "OK\n" * 3)
        # Old and new are of one set.
        self.assertIn("holder", self.types("quorlock inspect rotated", password=new))
        self.assertIn("holder", self.types("quorlock inspect rotated"))
        self.assertEqual(len(re.findall(r"^ name=holder age=\d+$", self.types(listed, **told), re.MULTILINE)), 3)
        self.assertEqual(self.types(forget, **told), "OK\n" * 3)
        # A client with the old one is refused, and is told at once.
        self.types("quorlock run other -- echo locked", 78)
        # It is renewed, over the connections that it had.
        lives = [self.life("rotated")]
        soon(lambda: lives.append(self.life("rotated")) or lives[-1] > lives[-2])
        self.assertEqual(self.connections(), connections)
        self.assertIn("holder", self.types("quorlock inspect rotated", password=new))
        self.assertTrue(holder.ends())

    def life(self, name):
        return int(self.says(SERVERS[0], "PTTL", f"lock:{{{name}}}"))

    def connections(self):
        """Of each server the connections of the holder, by their numbers."""
        return [re.findall(r"^id=(\d+) .* name=holder ", self.says(address, "CLIENT", "LIST"), re.MULTILINE) for address in SERVERS]

    def test_a_machine_is_replaced(self):
        [block] = shown(REPLACE, None, "sh")
        holder = self.holder("kept")
        self.servers["10.0.0.2"].kill()
        self.assertEqual(self.types("quorlock run other -- echo locked"), "locked\n")
        self.assertIn("one more failure stops them (2 of 3 vote)", self.types("quorlock doctor", 1))
        self.servers["10.0.0.2"] = self.start("10.0.0.2")
        self.types("quorlock doctor --node redis://10.0.0.2", 69)
        self.assertEqual(self.types("quorlock run other -- echo locked"), "locked\n")
        self.assertRegex(self.types(block), r"one node may fail \(3 of 3 vote\)\n$")
        self.assertTrue(holder.ends())

    def test_qd31_a_disk_that_is_full(self):
        """Where its folder is gone a snapshot fails, as on a disk that is full."""
        folder = self.folder / "disk"
        folder.mkdir()
        self.start("10.0.0.6", "users.acl", "--dir", str(folder))
        alone = {"QUORLOCK_NODES": f"redis://locks:{self.password}@10.0.0.6"}
        self.network.types("client", "quorlock init", **alone)
        folder.rmdir()
        self.says("10.0.0.6", "CONFIG", "SET", "save", "3600 1")
        self.says("10.0.0.6", "BGSAVE")
        soon(lambda: "rdb_last_bgsave_status:err" in self.says("10.0.0.6", "INFO", "persistence"))
        self.assertIn("    QD31 ", self.network.types("client", "quorlock doctor", 69, **alone))
        self.assertEqual(self.says("10.0.0.6", *shlex.split(remedy("QD31", 'CONFIG SET save ""'))), "OK\n")
        self.network.types("client", "quorlock doctor", 0, **alone)

    def test_a_server_is_restarted(self):
        [_, block] = shown(RESTART, None, "sh")
        restart, _, wait = block.partition("\n")
        self.assertIn("systemctl restart", restart)
        self.servers["10.0.0.1"].kill()
        self.servers["10.0.0.1"] = self.start("10.0.0.1")
        self.types(wait)
        self.assertIn("one node may fail (3 of 3 vote)", self.types("quorlock doctor"))


class Kubernetes(unittest.TestCase):
    """The servers' arguments and the probe of the manifest: pods by their names, without Kubernetes."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.network = self.stack.enter_context(Network(self.folder))
        self.pods = {f"lock-{number}": f"10.0.1.{number + 1}" for number in range(3)}
        [manifest] = shown(KUBERNETES, "The servers", "yaml")
        found = {part["kind"]: part for part in yaml.safe_load_all(manifest)}
        self.spec, self.service = found["StatefulSet"]["spec"], found["Service"]
        [self.container] = self.spec["template"]["spec"]["containers"]
        self.network.named({f"{pod}.{self.spec['serviceName']}": address for pod, address in self.pods.items()})
        # Each pod has an address of its own, so its port is that of all.
        self.network.run("client", "ip", "route", "add", "10.0.1.0/24", "dev", "uplink")
        self.network.types("client", shown(DEPLOY, "The users", "sh")[0])
        password = re.search(r"^user locks on >(\S+) ", (self.folder / "users.acl").read_text(), re.MULTILINE)[1]
        secret = "".join(shown(KUBERNETES, "Secrets", "sh"))
        self.nodes = re.search(r"nodes=(\S+)$", secret, re.MULTILINE)[1].replace(":secret@", f":{password}@")

    def start(self, pod):
        arguments = ["./users.acl" if word == "/etc/lock-server/users.acl" else word for word in self.container["args"]]
        self.network.address(self.pods[pod])
        server = Server(self.network, *arguments, "--bind", self.pods[pod])
        self.stack.callback(server.kill)
        return server

    def probe(self, pod, code):
        """The probe, in a host of the pod's name."""
        words = self.container["readinessProbe"]["exec"]["command"]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {pod}; exec "$@"', "sh", *words]
        return self.network.run("servers", *named, code=code, QUORLOCK_NODES=self.nodes)

    def test_from_nothing_and_through_a_rollout(self):
        self.assertEqual((self.spec["podManagementPolicy"], self.service["spec"]["publishNotReadyAddresses"]), ("Parallel", True))
        # As long as no set has founded it a new pod is ready, and a rollout comes to its end; alone it is, too.
        servers = {"lock-0": self.start("lock-0")}
        self.probe("lock-0", 0)
        self.probe("lock-1", 69)
        servers.update({pod: self.start(pod) for pod in ("lock-1", "lock-2")})
        for pod in self.pods:
            self.probe(pod, 0)
        [init] = shown(KUBERNETES, "Found it", "sh")
        self.network.types("client", init, QUORLOCK_NODES=self.nodes)
        for pod in self.pods:
            self.probe(pod, 0)
        # One pod is another by now, which does not vote yet, though it would answer PING.
        holder = Holder(self.network, "kept", QUORLOCK_NODES=self.nodes)
        self.addCleanup(holder.kill)
        servers["lock-1"].kill()
        self.probe("lock-1", 69)
        self.start("lock-1")
        for pod, code in (("lock-0", 0), ("lock-1", 69), ("lock-2", 0)):
            self.probe(pod, code)
        self.network.types("client", f"{self.until()}; do :; done", QUORLOCK_NODES=self.nodes)
        self.probe("lock-1", 0)
        self.assertTrue(holder.ends())

    @staticmethod
    def until():
        return "until quorlock doctor --node redis://lock-1.lock:6379"


def remedy(name, command):
    """The command, if the runbook of that finding says to give it."""
    told = re.search(rf"^## {name}\n.*?^- \*\*Do:\*\* (.*?)$", text(f"{RUNBOOKS}/findings.md"), re.MULTILINE | re.DOTALL)[1]
    if f"`{command}`" not in told:
        raise AssertionError(f"the runbook of {name} does not say {command}")
    return command


class Findings(unittest.TestCase):
    """What goes wrong on a real server is found by its id, and what the runbook says to do mends it at once, without a restart."""

    def setUp(self):
        self.stage = self.enterContext(Stage(3))
        self.doctor(0)

    def doctor(self, code):
        told = {**os.environ, "QUORLOCK_NODES": ",".join(self.stage.urls())}
        done = subprocess.run([BIN / "quorlock", "doctor"], env=told, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def connected(self):
        """A connection of the administrator's, from before: a server that is full takes no other."""
        operator = self.enterContext(socket.create_connection(("127.0.0.1", self.stage.port(1)), SECONDS))

        def tell(words):
            operator.sendall(f"{words}\r\n".encode())
            return operator.recv(1000)
        return tell

    def found(self, name, cause, remedy_of_it, code=1):
        tell = self.connected()
        for command in cause:
            self.assertEqual(tell(command), b"+OK\r\n", command)
        self.assertIn(f"    {name} ", self.doctor(code))
        self.assertEqual(tell(remedy(name, remedy_of_it)), b"+OK\r\n")
        self.doctor(0)

    def test_qd07_evicts(self):
        self.found("QD07", ["CONFIG SET maxmemory 1gb", "CONFIG SET maxmemory-policy allkeys-lru"], "CONFIG SET maxmemory-policy noeviction")

    def test_qd30_full(self):
        self.found("QD30", ["CONFIG SET maxmemory 1"], "CONFIG SET maxmemory 256mb")

    def test_qd32_replicas(self):
        self.found("QD32", ["CONFIG SET min-replicas-to-write 1"], "CONFIG SET min-replicas-to-write 0")

    def test_qd33_script(self):
        self.stage.redis(1, "CONFIG", "SET", "lua-time-limit", "50")
        endless, tell = self.connected(), self.connected()
        loop = threading.Thread(target=endless, args=('EVAL "while true do end" 0',))
        loop.start()
        self.addCleanup(loop.join)
        self.addCleanup(tell, "SCRIPT KILL")
        soon(lambda: tell("PING").startswith(b"-BUSY"))
        self.found("QD33", [], "SCRIPT KILL")

    def test_qd34_clients(self):
        self.found("QD34", ["CONFIG SET maxclients 1"], "CONFIG SET maxclients 10000")

    def test_qd40_nearly_all_clients(self):
        connections = [self.connected() for _ in range(20)]
        most = len(connections) + 4
        self.found("QD40", [f"CONFIG SET maxclients {most}"], "CONFIG SET maxclients 10000")


class Certificates(unittest.TestCase):
    def test_qd41_a_renewed_one_is_read_without_a_restart(self):
        page = text(f"{RUNBOOKS}/QuorlockCertificateEnds.md")
        self.assertIn("`CONFIG SET tls-cert-file PATH` with the same path", page)
        with Stage(1, tls=True) as stage:
            path, told = f"{stage.certs}/server.crt", {"QUORLOCK_NODES": stage.urls(via="tls")[0], "QUORLOCK_CA": f"{stage.certs}/ca.crt"}
            for days, code in ((5, 1), (60, 0)):
                subprocess.run(["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                                str(days), "-extfile", "server.ext", "-out", path], cwd=stage.certs, check=True, capture_output=True)
                stage.redis(1, "CONFIG", "SET", "tls-cert-file", path)
                done = subprocess.run([BIN / "quorlock", "doctor"], env={**os.environ, **told}, capture_output=True, text=True, timeout=SECONDS)
                self.assertEqual((done.returncode, "QD41" in done.stdout), (code, bool(code)), done.stdout + done.stderr)


class Sizes(unittest.TestCase):
    """The bounds that the page's formula has hold."""

    NAMES, CLIENTS = 3000, 100

    def test_a_name_and_a_client_take_no_more_than_the_page_says(self):
        formula = shown("docs/operations/sizes.md", "Memory", "text")[0]
        base, counter, held, twice, client = map(int, re.search(
            r"= (\d+) MB .*× \((\d+) \+ L\).*× \((\d+) \+ (\d+) L\).*× (\d+) KB", formula, re.DOTALL).groups())
        with Stage(1) as stage:
            used = lambda: int(re.search(rb"used_memory:(\d+)", stage.redis(1, "INFO", "memory"))[1])
            self.assertLess(used(), base * 1024 * 1024)
            for form in ("job:%06d", "billing/invoices/of-a-customer-with-a-long-name/2026/11/29/%06d"):
                length = len("lock:" + form % 0)
                with quorlock.Client(stage.urls(), ttl=60) as ours:
                    ours.lock("first").acquire().release()
                    before = used()
                    leases = [ours.lock(form % number).acquire() for number in range(self.NAMES)]
                    self.assertLess((used() - before) / self.NAMES, held + twice * length)
                    for lease in leases:
                        lease.release()
                    self.assertLess((used() - before) / self.NAMES, counter + length)
            before, begun = used(), int(re.search(rb"connected_clients:(\d+)", stage.redis(1, "INFO", "clients"))[1])
            clients = [quorlock.Client(stage.urls()) for _ in range(self.CLIENTS)]
            for each in clients:
                self.addCleanup(each.close)
                each.lock("one").acquire().release()
            self.assertLess((used() - before) / self.CLIENTS, client * 1024)
            connected = int(re.search(rb"connected_clients:(\d+)", stage.redis(1, "INFO", "clients"))[1])
            self.assertEqual(connected - begun, self.CLIENTS)


def parts(page):
    """The parts of a runbook, in order."""
    return re.findall(r"^\*\*(Users feel|Look|Do not|Do)\b", page, re.MULTILINE)


class Runbooks(unittest.TestCase):
    def test_each_alert_has_one_that_fits_a_screen(self):
        [group] = yaml.safe_load(text("docs/operations/alerts.yml"))["groups"]
        there = {path.stem for path in (ROOT / RUNBOOKS).glob("Quorlock*.md")}
        self.assertEqual({rule["alert"] for rule in group["rules"]}, there)
        index = text(f"{RUNBOOKS}/index.md")
        for name in sorted(there):
            page = text(f"{RUNBOOKS}/{name}.md")
            self.assertTrue(page.startswith(f"# {name}\n"), name)
            self.assertIn(f"| [`{name}`]({name}.md) |", index)
            self.assertLessEqual(len(page.splitlines()), 50, name)
            found = parts(page)
            self.assertEqual(list(dict.fromkeys(found)), ["Users feel", "Look", "Do", "Do not"], name)
            looks = next(block for block in pages.blocks(name, page) if block.language == "sh")
            self.assertLessEqual(len(looks.text.splitlines()), 3, name)

    def test_each_finding_has_one(self):
        page = text(f"{RUNBOOKS}/findings.md")
        told = re.findall(r"^## (QD\d\d)\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        # That each is there: tests/options/vocabulary.py.
        self.assertGreater(len(told), 40)
        for name, words in told:
            self.assertIn("- **Users feel:** ", words, name)
            found = re.findall(r"^- \*\*(Users feel|Look, do, do not|Look|Do not|Do)\b", words, re.MULTILINE)
            self.assertIn(found, [["Users feel", "Look", "Do", "Do not"], ["Users feel", "Look, do, do not"]], name)
            looks = re.search(r"^- \*\*Look:\*\* (.*)$", words, re.MULTILINE)
            self.assertLessEqual(len(re.findall("`(?:redis-cli|quorlock|[A-Z]+ [A-Z])", looks[1] if looks else "")), 3, name)

    def test_each_exit_code_has_a_row(self):
        code = set(re.findall(r"^pub const \w+: i32 = (\d+);", text("core/cli/src/exit.rs"), re.MULTILINE))
        page = text(f"{RUNBOOKS}/exit-codes.md")
        self.assertEqual({number.replace(" + N", "") for number in re.findall(r"^\| (\d+(?: \+ N)?) \|", page, re.MULTILINE)}, code | {"0"})

    def test_they_name_commands_and_options_that_are_there(self):
        known = subprocess.run([BIN / "quorlock", "--help"], capture_output=True, text=True, check=True, timeout=SECONDS).stdout
        commands = set(re.findall(r"^  (\w+) ", known, re.MULTILINE))
        for path in (ROOT / "docs/operations").rglob("*.md"):
            spans = re.findall(r"`quorlock ([a-z]+)\b([^`\n]*)`", path.read_text())
            lines = re.findall(r"^(?:.* )?quorlock ([a-z]+)\b(.*)$", "".join(
                block.text for block in pages.blocks(path.name, path.read_text()) if block.language == "sh"), re.MULTILINE)
            for command, rest in spans + lines:
                self.assertIn(command, commands, path.name)
                told = subprocess.run([BIN / "quorlock", command, "--help"], capture_output=True, text=True, check=True, timeout=SECONDS).stdout
                for option in re.findall(r" (--[a-z][\w-]*)", re.split(r" -- |[;|&]", rest)[0]):
                    self.assertIn(option, told, f"{path.name}: {command}")


if __name__ == "__main__":
    unittest.main()
