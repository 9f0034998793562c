#!/usr/bin/env python3
"""Incidents on real servers, and the alerts of docs/operations/alerts.yml: of each fires what is meant, and no other.

    incidents.py [NAME...]

Each incident has servers and a process of its own; all are played at once. The process is scraped every quarter of a second, and
what it serves goes to `promtool test rules` as if half a minute had passed each time. So times are stretched, those that gauges
tell as well; histograms are not, so that the alerts on how long locks are waited for and held are not played.

Ends with `N passed, M failed`, and with 1 if one did.
"""

import functools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

RULES = ROOT / "docs" / "operations" / "alerts.yml"
# Between two scrapes, in seconds; and as Prometheus is told.
TICK, STEP = 0.25, 30
STRETCH = STEP / TICK
# Scrapes before it, in it and after it.
BEFORE, DURING, AFTER = 8, 36, 34
# How long a call waits, and a node may take: longer than a busy machine stands still now and then.
PATIENCE = 0.8
# For so long a process is not read: more than two beats.
UNREAD_SECONDS = 6
# They rest on histograms.
UNPLAYED = {"QuorlockSlow", "QuorlockHeldLong"}
INCIDENTS = []


@dataclass
class Incident:
    name: str
    play: object
    alerts: set
    nodes: int = 3
    # Of the stage, of its record and of the client.
    stage: dict = field(default_factory=dict)
    max_ttl: float = 2.0
    client: dict = field(default_factory=dict)
    # The process asks for locks all the time.
    busy: bool = True
    # What fires by its middle already.
    half: set = None
    # All is well before it, and behind it.
    begins: bool = True
    ends: bool = True
    during: int = DURING
    # In which of its scrapes the alerts fire, of those that do not as long as it lasts.
    at: int = None


def incident(*alerts, **more):
    def add(play):
        INCIDENTS.append(Incident(play.__name__.replace("_", "-"), play, set(alerts), **more))
        return play

    return add


# ---- what happens: before the first `yield`, before the second in its middle, and behind that it ends ----

@incident("QuorlockNodeDown", nodes=5)
def one_of_five_is_killed(world):
    world.stage.kill(1)
    yield
    yield
    world.stage.start(1)


@incident("QuorlockQuorumAtRisk")
def one_of_three_hangs(world):
    world.stage.stop(1)
    yield
    yield
    world.stage.cont(1)


# How it ends is another incident.
@incident("QuorlockNoQuorum", ends=False)
def two_are_killed(world):
    world.stage.kill(1, 2)
    yield
    yield


@incident("QuorlockNoQuorum", busy=False)
def two_hang_while_nobody_asks(world):
    world.stage.stop(1, 2)
    yield
    yield
    world.stage.cont(1, 2)


@incident("QuorlockQuorumAtRisk", busy=False, max_ttl=1.0)
def one_is_killed_and_comes_again_while_nobody_asks(world):
    world.stage.kill(3)
    yield
    yield
    world.stage.start(3)


@incident("QuorlockFailed", stage={"auth": True})
def the_password_is_wrong_everywhere(world):
    for node in world.numbers:
        world.stage.redis(node, "ACL", "SETUSER", "quorlock", "resetpass", ">" + world.stage.secrets["wrong"])
        cut(world, node)
    yield
    yield
    for node in world.numbers:
        world.stage.redis(node, "ACL", "SETUSER", "quorlock", "resetpass", ">" + world.stage.secrets["quorlock"])


@incident("QuorlockFailed", client={"set_name": "another"}, begins=False, ends=False)
def the_record_is_of_another_set(world):
    yield
    yield


@incident("QuorlockStuck")
def a_holder_hangs(world):
    world.tell("hold")
    yield
    yield
    world.tell("let go")


@incident("QuorlockLost", at=9)
def work_takes_longer_than_it_may(world):
    world.tell("overrun")
    yield
    yield


@incident(max_ttl=1.0)
def one_is_restarted(world):
    world.stage.restart(1)
    yield
    yield


@incident("QuorlockQuarantine", max_ttl=6.0, at=16)
def two_are_restarted(world):
    world.stage.restart(1, 2)
    yield
    yield


@incident("QuorlockNodeMemory", "QuorlockQuorumAtRisk", half={"QuorlockNodeMemory"}, during=2 * DURING)
def one_runs_out_of_memory(world):
    used = int(re.search(rb"used_memory:(\d+)", world.stage.redis(1, "INFO", "memory"))[1])
    # With room for what it needs to answer.
    world.stage.redis(1, "CONFIG", "SET", "maxmemory", int(used * 1.12) + 50_000)
    yield
    world.stage.redis(1, "CONFIG", "SET", "maxmemory", used // 2)
    yield
    world.stage.redis(1, "CONFIG", "SET", "maxmemory", 0)


def as_kind(name, nodes):
    """A fault of the table of faults."""
    from kinds import KINDS

    def play(world):
        fault = KINDS[name].run(world, nodes, 0)
        next(fault)
        yield
        yield
        next(fault, None)

    play.__name__ = name.replace("-", "_")
    return play


incident("QuorlockQuorumAtRisk")(as_kind("misconf", [1]))
incident("QuorlockNoQuorum")(as_kind("no-replicas", [1, 2]))
incident("QuorlockQuorumAtRisk")(as_kind("max-clients", [2]))


@incident("QuorlockClockOff", stage={"clocks": True}, max_ttl=1.0)
def a_clock_is_wrong(world):
    world.stage.clock(1).step(-5)
    yield
    yield
    world.stage.clock(1).step(5)


@incident("QuorlockCertificateEnds", stage={"tls": True}, begins=False, ends=False)
def a_certificate_ends_soon(world):
    yield
    yield


def cut(world, node):
    from kinds import cut as cut_all

    cut_all(functools.partial(world.stage.redis, node))


# ---- how it is played ----

class World:
    def __init__(self, incident, folder):
        from stage import Stage, certs

        self.random = random.Random(incident.name)
        self.numbers = list(range(1, incident.nodes + 1))
        more, client = dict(incident.stage), dict(incident.client)
        via = "tcp"
        if "tls" in more:
            via = "tls"
            more["cert_folder"] = certs.make(os.path.join(folder, "certs"), days=10)
            client["ca"] = os.path.join(more["cert_folder"], "ca.crt")
        self.stage = Stage(incident.nodes, declare=False, **more)
        self.stage.declare(max_ttl=int(incident.max_ttl * 1000))
        client |= {"nodes": self.stage.urls(via=via), "max_ttl": incident.max_ttl, "ttl": min(2.0, incident.max_ttl),
                   "node_timeout": PATIENCE, "wait": PATIENCE}
        self.process = subprocess.Popen([sys.executable, __file__, "--process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell({"client": client, "busy": incident.busy})

    def tell(self, word):
        """Has the process do something; returns what it says."""
        self.process.stdin.write(json.dumps(word) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process has ended at {word}")
        return json.loads(line)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.stage.close()


def played(incident, folder):
    """What the process serves, scrape by scrape."""
    world = World(incident, folder)
    try:
        scrapes, play, begun = [], incident.play(world), time.monotonic()
        steps = {BEFORE, BEFORE + incident.during // 2, BEFORE + incident.during}
        for tick in range(BEFORE + incident.during + AFTER):
            time.sleep(max(0.0, begun + tick * TICK - time.monotonic()))
            if tick in steps:
                next(play, None)
            scrapes.append(world.tell("scrape"))
        return scrapes
    finally:
        world.close()


def unread():
    """What is wrong where nobody reads: a process that asks for no lock asks its nodes nothing, until it is read."""
    incident = Incident("unread", None, set(), nodes=3, busy=False)
    world = World(incident, "")
    try:
        def votes():
            return sum(world.stage.counters(number).get("set", 0) for number in world.numbers)

        def grows(seconds):
            before, end = votes(), time.monotonic() + seconds
            while votes() == before and time.monotonic() < end:
                time.sleep(TICK)
            return votes() - before

        # It has its one lock first.
        grows(UNREAD_SECONDS)
        time.sleep(PATIENCE)
        if more := grows(UNREAD_SECONDS):
            return f"it has asked for {more} votes"
        world.tell("scrape")
        return "" if grows(UNREAD_SECONDS) else "once it is read it asks for none either"
    finally:
        world.close()


def stretched(name, value, begun):
    """A value as it would be if time had passed as Prometheus is told."""
    if name.endswith("_timestamp_seconds"):
        # There time begins at 0.
        return value - begun
    if name.startswith("quorlock_oldest_") or name == "quorlock_node_quarantine_seconds":
        return value * STRETCH
    return value


def series(scrapes, begun):
    """All series that the alerts name, as promtool wants them."""
    named = set(re.findall(r"quorlock_\w+", RULES.read_text()))
    found = {}
    for tick, text in enumerate(scrapes):
        for line in text.splitlines():
            sample = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if not sample or sample[1] not in named:
                continue
            labels = ",".join(filter(None, [sample[2], 'job="played"']))
            values = found.setdefault(f"{sample[1]}{{{labels}}}", [])
            values += ["_"] * (tick - len(values))
            values.append(f"{stretched(sample[1], float(sample[3]), begun):.6f}")
    return [{"series": name, "values": " ".join(values + ["_"] * (len(scrapes) - len(values)))} for name, values in found.items()]


def expects(tick, expression, alerts):
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    return {"expr": f"group by (alertname) ({expression})", "eval_time": f"{tick * STEP}s", "exp_samples": samples}


def as_test(incident, scrapes, begun):
    firing, last = 'ALERTS{alertstate="firing"}', len(scrapes) - 1
    end = BEFORE + incident.during
    checks = [expects(end - 1 if incident.at is None else BEFORE + incident.at, firing, incident.alerts),
              # At no other moment another.
              expects(last, f"max_over_time({firing}[{len(scrapes) * STEP}s])", incident.alerts)]
    if incident.begins:
        checks.append(expects(BEFORE - 1, firing, set()))
    if incident.half is not None:
        checks.append(expects(BEFORE + incident.during // 2 - 1, firing, incident.half))
    if incident.ends:
        checks.append(expects(last, firing, set()))
    return {"name": incident.name, "interval": f"{STEP}s", "input_series": series(scrapes, begun), "promql_expr_test": checks}


def judged(incident, scrapes, begun, folder):
    """What promtool finds wrong, if anything."""
    path = os.path.join(folder, incident.name + ".json")
    tests = {"rule_files": [str(RULES)], "evaluation_interval": f"{STEP}s", "tests": [as_test(incident, scrapes, begun)]}
    pathlib.Path(path).write_text(json.dumps(tests, indent=1))
    done = subprocess.run(["promtool", "test", "rules", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main(names):
    wanted = [incident for incident in INCIDENTS if not names or incident.name in names]
    found, begun = {}, time.time()
    folder = tempfile.mkdtemp(prefix="qlincidents")

    def run(incident):
        try:
            found[incident.name] = judged(incident, played(incident, os.path.join(folder, incident.name)), begun, folder)
        except Exception as error:
            found[incident.name] = f"{type(error).__name__}: {error}"

    def run_unread():
        try:
            found["unread"] = unread()
        except Exception as error:
            found["unread"] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=(incident,)) for incident in wanted]
    if not names:
        threads.append(threading.Thread(target=run_unread))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = 0
    for incident in wanted:
        wrong = found[incident.name]
        failed += bool(wrong)
        print(f"{incident.name}: {', '.join(sorted(incident.alerts)) or 'no alert'} ... {'FAIL' if wrong else 'ok'}")
        if wrong:
            print(wrong)
    if not names:
        known = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
        unplayed = known - UNPLAYED - set().union(*(incident.alerts for incident in INCIDENTS))
        failed += bool(unplayed)
        failed += bool(found["unread"])
        print(f"a process that is not read asks nothing ... {'FAIL ' + found['unread'] if found['unread'] else 'ok'}")
        print(f"alerts that no incident fires: {sorted(unplayed) or 'none'} ... {'FAIL' if unplayed else 'ok'}")
    if failed:
        print(f"what promtool was given: {folder}")
    else:
        shutil.rmtree(folder)
    total = len(wanted) + 2 * (not names)
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed else 0


# ---- the process that is measured ----

def process():
    """Does what it is told, line by line, and says when it is done."""
    import quorlock

    setup = json.loads(sys.stdin.readline())
    client = quorlock.Client(group="orders", **setup["client"])
    other = quorlock.Client(group="orders", **setup["client"])
    lock, held = client.lock("orders:1"), []

    def work():
        while True:
            try:
                lock.acquire().release()
            except quorlock.QuorlockError:
                pass
            time.sleep(0.03)
            if not setup["busy"]:
                return

    def hold(**options):
        while True:
            try:
                held.append(other.lock("orders:1", wait=5, **options).acquire())
                return
            except quorlock.LockTimeoutError:
                pass

    threading.Thread(target=work, daemon=True).start()
    print(json.dumps("begun"), flush=True)
    for line in sys.stdin:
        word, said = json.loads(line), "done"
        if word == "scrape":
            said = quorlock.metrics_text()
        elif word == "hold":
            hold()
        elif word == "let go":
            held.pop().release()
        elif word == "overrun":
            hold(max_hold=2.0)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--process"]:
        process()
    else:
        sys.exit(main(sys.argv[1:]))
