"""One contended run: contenders in one or more processes, all at one lock, and what their histories come to."""

import itertools
import json
import pathlib
import tempfile
import time

import handoffs
from runs import SETTLE_SECONDS, START_SECONDS, Driver, Stuck
from servers import Servers
from table import CROWDS, SHAPES

# Drivers speak a second after their time, whoever starves: one that has not by then hangs.
HUNG_SECONDS = 10


def run(stage, workload, peer, state, seconds):
    """The figures of one run; with `error` or `stuck` among them when there are none. Starvation is no error."""
    # Nodes of another guard would refuse it, and empty ones would be in quarantine.
    stage.declare(guard=peer.guard)
    shape, servers, drivers, wait = {**SHAPES, **CROWDS}[state], Servers(stage), [], 5
    # Contenders have numbers over all processes; these are the first of each.
    firsts = [0, *itertools.accumulate(shape.processes)]
    with tempfile.TemporaryDirectory(prefix="qlbench") as folder:
        histories = [pathlib.Path(folder, str(number)) for number in range(len(shape.processes))]
        try:
            for number, (workers, history) in enumerate(zip(shape.processes, histories)):
                flags = [f"--contend={history}", f"--stay={shape.stay_ms}"]
                flags += [f"--readers={shape.readers}"] if shape.readers else []
                flags += [f"--slots={shape.slots}"] if shape.slots > 1 else []
                drivers.append(Driver(stage.urls(), peer.driver(number), workers, seconds, flags))
            for driver in drivers:
                driver.line(START_SECONDS)
            servers.begin()
            for driver in drivers:
                driver.go()
            time.sleep(seconds)
            # Not after what drivers say: by then their last waiters have come to an end too.
            cost = servers.end()
            patience = time.monotonic() + HUNG_SECONDS
            told = [json.loads(driver.line(patience - time.monotonic())) for driver in drivers]
            time.sleep(SETTLE_SECONDS)
            figures = {**together(told, histories, firsts, shape.room), **cost, "keys_left": servers.keys()}
        except Stuck:
            figures, wait = {"stuck": True}, 0
        except (RuntimeError, OSError, ValueError) as error:
            figures, wait = {"error": str(error)}, 0
        finally:
            for driver in drivers:
                driver.close(wait)
            stage.heal()
    return figures


def together(told, histories, firsts, room=handoffs.ALONE):
    """Figures of all processes, in the time in which all of them were at it."""
    begin, end = max(one["began"] for one in told), min(one["ended"] for one in told)
    if begin >= end:
        raise RuntimeError("the processes were never at it together")
    holds = [hold for history, first in zip(histories, firsts) for hold in handoffs.read(history, first)]
    found = handoffs.figures(holds, firsts[-1], begin, end, room)
    found.update({name: sum(one[name] for one in told) for name in ("cpu_ns", "failures", "late")})
    if len(told) > 1:
        waits = handoffs.longest_waits(sorted(holds), firsts[-1], begin, end)
        found["longest_last_ms"] = round(max(waits[firsts[-2]:]) / 1e6, 2)
    errors = [one["error"] for one in told if one.get("error")]
    return {**found, "error": errors[0]} if errors else found
