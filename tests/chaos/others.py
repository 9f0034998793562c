#!/usr/bin/env python3
"""The same workload and the same faults over other lock libraries: how many updates of a ledger does each lose?

    others.py LIBRARY FAULT [--updates 10000] [--workers 8] [--keep]     one cell; or several with commas, and `all` for every one
    others.py --write          makes docs/explanation/others.md from the figures that were kept
    others.py --check          fails where that page is not what the figures say

`--keep` keeps the figures of a run that counts in others/results. A run ends with `N passed, M failed`: it fails where the fault struck too rarely, too few
updates were written, or a worker ended early. Lost updates are no failure: they are what is measured. others/README.md says the rest.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "others"), str(HERE), str(HERE.parent)]

import page  # noqa: E402
import setups  # noqa: E402
import strikes  # noqa: E402
from ledger import Ledger  # noqa: E402

UPDATES, WORKERS = 10_000, 8
# For workers to start on a busy machine, and to end.
START_SECONDS, END_SECONDS = 150.0, 20.0
# A fault that has missed is tried again, until there were so many times as many tries as strikes are asked for.
TRIES = 2
# The most that a run waits between two faults, the part of its time that is for these, and how often it looks for workers that have ended.
REST_SECONDS, FAULTS_SHARE, LOOK_SECONDS = 8.0, 0.8, 1.0


class World:
    """A run: the servers, the ledger and the workers, as faults need them."""

    def __init__(self, library, fault, ledger, servers, folder, workers):
        self.library, self.fault, self.ledger, self.servers, self.workers = library, fault, ledger, servers, workers
        self.ttl, self.held, self._processes, self._folder = fault.ttl, [], {}, folder
        self.aim = lambda hold_back=False: ledger.aim(fault.think, hold_back)

    def __getattr__(self, name):
        return getattr(self.servers, name)

    def start(self):
        environment = {**os.environ, **self.servers.environment(), "LEDGER": str(self.ledger.port), "TTL": str(self.ttl)}
        for number in range(1, self.workers + 1):
            name = f"{self.library.name}-{number}"
            with open(os.path.join(self._folder, f"{name}.log"), "wb") as log:
                self._processes[name] = subprocess.Popen(
                    self.library.command(self.fault.fenced), env={**environment, "NAME": name}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def signal(self, name, number):
        if self._processes[name].poll() is None:
            self._processes[name].send_signal(number)

    def ended(self):
        """The workers that have ended by themselves, and what they said last."""
        found = []
        for name, process in self._processes.items():
            if process.poll() is not None:
                words = pathlib.Path(self._folder, f"{name}.log").read_text(errors="replace")
                found.append(f"{name} ended with status {process.returncode}: {' '.join(words.split())[-300:]}")
        return found

    def close(self):
        """Ends the workers; those that do not end by themselves within a while are killed."""
        end = time.monotonic() + END_SECONDS
        killed = 0
        for process in self._processes.values():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                killed += 1
                process.kill()
                process.wait()
        return killed


def strike(world):
    """Lets the fault happen to one hold: whether it struck, and what came of the hold."""
    fault = world.fault
    began, world.held = world.ledger.writes(), []
    aim = None if fault.early else world.aim()
    done = fault.strike(world, aim)
    struck, aim = done if isinstance(done, tuple) else (done, aim)
    strikes.over(aim)
    return {"from": began, "held": len(world.held), "struck": bool(struck), "worker": aim.worker, "write": aim.answer, "lost": aim.lost, "others": aim.others}


def strike_all(world, end):
    """Lets the fault happen as often as it has to strike, or until that time; one that missed is tried again."""
    fault, ledger, hits = world.fault, world.ledger, []
    count = 0 if world.library.name == setups.UNLOCKED else fault.strikes
    share = ledger.updates // (count + 2)
    while sum(hit["struck"] for hit in hits) < count > len(hits) / TRIES and time.monotonic() < end and not world.ended():
        ledger.allow(share)
        hits.append(strike(world))
        # The rest of this share has no fault, and shows that the lock is had behind it.
        ledger.await_writes(min(ledger.updates, hits[-1]["from"] + share), max(0.0, min(REST_SECONDS, end - time.monotonic())))
    return hits


def play(library, fault, updates, workers, seconds, folder):
    """A run; returns its figures."""
    servers, wrong, hits = setups.servers(library, fault, folder), [], []
    try:
        with Ledger(updates, fault.fenced, (fault.think + fault.ttl) / 2000) as ledger:
            world = World(library, fault, ledger, servers, folder, workers)
            try:
                world.start()
                if not ledger.await_workers(workers, START_SECONDS):
                    wrong += ["workers do not start", *world.ended()]
                begun = time.monotonic()
                hits = strike_all(world, begun + seconds * FAULTS_SHARE) if not wrong else []
                ledger.allow(updates)
                while not wrong and ledger.writes() < updates and time.monotonic() < begun + seconds:
                    ledger.await_writes(updates, min(LOOK_SECONDS, begun + seconds - time.monotonic()))
                    wrong += world.ended() if ledger.writes() < updates else []
                took = time.monotonic() - begun
                ledger.end()
            finally:
                ledger.end()
                unended = world.close()
    finally:
        servers.close()
    figures = ledger.resource.figures
    return {
        "library": library.name, "fault": fault.name, "version": library.version(), "servers": servers.about, "ttl_ms": fault.ttl,
        "workers": workers, "updates": figures["writes"], "lost": figures["lost_updates"], "refused": figures["stale"], "told": ledger.figures["told"],
        "strikes": sum(hit["struck"] for hit in hits), "harmed": sum(hit["struck"] and hit["lost"] > 0 for hit in hits), "hits": hits,
        "failed": {name: count for name, count in sorted(ledger.figures.items()) if name != "told"}, "unended": unended, "overdue": ledger.overdue, "seconds": round(took, 1), "limit": seconds,
        "wrong": wrong, "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "machine": f"{os.cpu_count()} cores of {platform.machine()}",
    }


def commit():
    """Of this tree."""
    done = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip()


def cell(name, asked):
    """Runs one cell; returns its figures and why it does not count."""
    library, fault = setups.LIBRARIES[name[0]], strikes.FAULTS[name[1]]
    with tempfile.TemporaryDirectory(prefix="qlothers") as folder:
        try:
            figures = play(library, fault, asked.updates, asked.workers, asked.seconds or fault.seconds, folder)
        except Exception as error:  # the other cells go on
            return None, [f"the run broke off: {type(error).__name__}: {error}"]
    return figures, page.refused(figures)


def report(name, figures, why):
    print(f"{'FAIL' if why else 'ok  '} {name[0]} {name[1]}: " + (
        f"{figures['lost']} lost of {figures['updates']}, {figures['harmed']} of {figures['strikes']} strikes harmed, {figures['refused']} refused, "
        f"{figures['told']} told, {figures['seconds']} s" if figures else ""), flush=True)
    for line in why:
        print(f"       {line}", flush=True)


def apart(name, asked):
    """A cell in a process of its own: its ledger has threads."""
    words = [sys.executable, str(HERE / "others.py"), *name, "--updates", str(asked.updates), "--workers", str(asked.workers),
             *(["--seconds", str(asked.seconds)] if asked.seconds else []), *(["--keep"] if asked.keep else []), "--ready"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print("\n".join(line for line in (done.stdout + done.stderr).splitlines() if not line.endswith(" failed")), flush=True)
    return done.returncode == 0


def run(asked):
    cells = [(library, fault) for library, fault in page.cells()
             if {"all", library} & set(asked.library.split(",")) and {"all", fault} & set(asked.fault.split(","))]
    if not cells:
        print("there is no such cell: see others/README.md", file=sys.stderr)
        return 2
    if asked.missing:
        cells = [name for name in cells if name not in page.kept()]
    for language in sorted({setups.LIBRARIES[library].language for library, _ in cells} if not asked.ready else ()):
        setups.get(language)
    if len(cells) == 1:
        figures, why = cell(cells[0], asked)
        report(cells[0], figures, why)
        if asked.keep and not why:
            page.keep(figures)
        good = int(not why)
    else:
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            try:
                good = sum(pool.map(lambda name: apart(name, asked), cells))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    print(f"{good} passed, {len(cells) - good} failed")
    return int(good < len(cells))


def ended(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help=f"{', '.join(setups.LIBRARIES)}, all")
    parser.add_argument("fault", nargs="?", default="all", help=f"{', '.join(strikes.FAULTS)}, all")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--seconds", type=float, help="a library that is too slow for the updates has this long; as the fault has it, without")
    parser.add_argument("--jobs", type=int, default=1, help="of several cells, so many at once")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--missing", action="store_true", help="only cells of which no figures are kept")
    parser.add_argument("--ready", action="store_true", help="the libraries are there, as the last run left them")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    # An exception, so that servers and workers end with us; once, so that a second one does not break that off.
    signal.signal(signal.SIGTERM, ended)
    if asked.write or asked.check:
        return page.main(asked.write)
    if not asked.library:
        parser.print_usage(sys.stderr)
        return 2
    return run(asked)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
