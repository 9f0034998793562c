"""What the Python runners share: every verb, and going through a scenario. They differ in what an actor is.

All is written as coroutines. With the blocking API nothing in them ever suspends, so `run_now` can run them to their
end in any thread; with asyncio they are awaited.
"""

import asyncio
import functools
import pathlib
import inspect
import os
import subprocess
import time

import quorlock
from quorlock import QuorlockError
from scenarios import scenario

LONGEST = 60.0


async def now(value):
    """The value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


def run_now(coroutine):
    """Runs a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the blocking API gave something to await")


def _seconds(word):
    return None if word == "none" else int(word) / 1000


# By what an option takes.
CONVERTED = {
    "urls": lambda word: [url for url in word.split(",") if url],
    "flag": lambda word: word == "on",
    "count": int,
    "slots": int,
    "fraction": float,
    "time": _seconds,
    "limit": _seconds,
}


def arguments(options):
    """Options of a line as keyword arguments."""
    return {name: CONVERTED.get(scenario.TAKES.get(name), scenario.text)(word) for name, word in options.items()}


class Verbs:
    """The verbs. A subclass gives the API: `make_client`, `wait_lost`, `outside`, `pause`."""

    def __init__(self):
        self.clients, self.locks, self.leases, self.elections = {}, {}, {}, {}
        self.objects = {}
        self.error = None

    async def answer(self, step):
        """Does one line; returns its answer in words. What is no error of Quorlock goes through."""
        try:
            result = await getattr(self, "do_" + step.verb.replace("-", "_"))(step, *step.words, **arguments(step.options))
        except QuorlockError as error:
            self.error = error
            return error.kind
        except (KeyboardInterrupt, asyncio.CancelledError):
            return "Cancelled"
        if isinstance(result, bool):
            return "true" if result else "false"
        return "ok" if result is None else str(result)

    def error_text(self):
        """The last error's message and every node's answer."""
        return "\n".join([str(self.error), *(f"{node}: {message}" for node, message in self.error.nodes)])

    async def do_client(self, step, name, **options):
        self.clients[name] = self.make_client(**options)

    async def do_lock(self, step, name, client, lock_name, **options):
        # Some languages check here and some at acquire: the scenario sees it at acquire.
        self.locks[name] = functools.partial(self.clients[client].lock, scenario.text(lock_name), **options)

    async def do_locks(self, step, name, client, names, **options):
        names = [scenario.text(word) for word in names.split(",")]
        self.locks[name] = functools.partial(self.clients[client].lock_all, names, **options)

    async def do_election(self, step, name, client, lock_name, **options):
        make = functools.partial(self.clients[client].election, scenario.text(lock_name), **options)
        self.elections[name] = make()
        # One with a wait of its own is another candidate.
        self.locks[name] = make

    async def do_leader(self, step, name):
        leader = await now(self.elections[name].leader())
        return (leader and leader.label) or "none"

    async def do_resign(self, step, name):
        return await now(self.elections[name].resign())

    def _lock(self, name):
        # One object, for what is acquired by hand is released by the object that it was acquired through.
        if name not in self.objects:
            self.objects[name] = self.locks[name]()
        return self.objects[name]

    async def do_acquire(self, step, name, lock, **options):
        if lock in self.elections:
            candidate = self.locks[lock](**options) if options else self.elections[lock]
            self.leases[name] = await now(candidate.campaign())
        else:
            self.leases[name] = await now(self._lock(lock).acquire(**options))

    async def do_try(self, step, name, lock):
        lease = await now(self._lock(lock).try_acquire())
        if lease is None:
            return "none"
        self.leases[name] = lease

    async def do_release(self, step, name, **options):
        return await now(self.leases[name].release(**options))

    async def do_unlock(self, step, lock):
        return await now(self._lock(lock).release())

    async def do_drop(self, step, name):
        del self.leases[name]
        # They keep what was acquired through them.
        self.objects.clear()

    async def do_extend(self, step, name, **options):
        await now(self.leases[name].extend(**options))

    async def do_ensure(self, step, name, milliseconds):
        await now(self.leases[name].ensure(_seconds(milliseconds)))

    async def do_downgrade(self, step, name):
        await now(self.leases[name].downgrade())

    async def do_export(self, step, name, file):
        text = await now(self.leases[name].export())
        pathlib.Path(file).write_text(text)

    async def do_adopt(self, step, name, client, file):
        self.leases[name] = await now(self.clients[client].adopt(pathlib.Path(file).read_text()))

    async def do_held(self, step, name):
        return self.leases[name].is_held()

    async def do_remaining(self, step, name):
        return int(self.leases[name].remaining() * 1000)

    async def do_fence(self, step, name):
        return self.leases[name].fence or 0

    async def do_fence_of(self, step, name, lock_name):
        return self.leases[name][scenario.text(lock_name)].fence or 0

    async def do_lost_name(self, step, name):
        return self.leases[name].lost.name or "none"

    async def do_newer(self, step, one, other):
        return self.leases[one].fence > self.leases[other].fence

    async def do_same_slot(self, step, one, other):
        return self.leases[one].slot == self.leases[other].slot

    async def do_force(self, step, client, name, fence=None):
        if fence is not None:
            fence = int(fence) if fence.isdigit() else self.leases[fence].fence
        forced = await now(self.clients[client].force_release(scenario.text(name), fence))
        return forced.freed

    async def do_init(self, step, client):
        await now(self.clients[client].init_set())

    async def do_lost(self, step, name, milliseconds):
        lost = self.leases[name].lost
        if not lost.is_set():
            await now(self.wait_lost(lost, _seconds(milliseconds)))
        return lost.reason if lost.is_set() else "none"

    async def do_stats(self, step, client, field, milliseconds):
        end = time.monotonic() + _seconds(milliseconds)
        while True:
            value = self.clients[client].stats()[field]
            if scenario.holds(step.expected, str(value)) or time.monotonic() >= end:
                return value
            await now(self.pause(0.005))

    async def do_close(self, step, client):
        await now(self.clients.pop(client).close())

    async def do_message(self, step, what, word):
        text = self.error_text()
        found = scenario.text(word).lower() in text.lower()
        return None if found == (what == "has") else text

    async def do_metric(self, step, sample):
        lines = (line.rpartition(" ") for line in quorlock.metrics_text().splitlines())
        return next((value for name, _, value in lines if name == sample), "none")

    async def do_causes(self, step):
        return len(self.error.nodes)

    async def do_inspect(self, step, lock, what):
        if what == "locked":
            return await now(self._lock(lock).locked())
        found = await now(self._lock(lock).inspect())
        if what == "holder":
            # Asked for by itself where that is answered.
            holder = await now(self._lock(lock).holder())
            return holder.label or "none" if holder else "none"
        return getattr(found, what)

    async def do_error(self, step, what):
        return getattr(self.error, what) or "none"

    async def do_stage(self, step, *words):
        command = os.environ["QUORLOCK_STAGE"] + " " + " ".join(words)
        done = await now(self.outside(lambda: subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)))
        return done.stdout.strip() or f"status {done.returncode}" if done.returncode else None

    async def close_all(self):
        self.leases.clear()
        for client in list(self.clients.values()):
            await now(client.close())


class Failure(Exception):
    """A line did not hold."""


async def play(steps, verbs, actors):
    """Goes through the steps. `actors` has `begin(step)`, `result(begun, seconds)` and `cancel(actor)`."""
    begun = {}
    try:
        for step in steps:
            if step.started:
                begun[step.actor] = actors.begin(step)
                continue
            if step.verb == "finish":
                got = await now(actors.result(begun[step.words[0]], _seconds(step.words[1])))
            elif step.verb == "cancel":
                got = actors.cancel(step.words[0]) or "ok"
            else:
                got = await now(actors.result(actors.begin(step), LONGEST))
            if not scenario.holds(step.expected, got):
                why = f": {verbs.error_text()}" if got in scenario.KINDS and verbs.error else ""
                raise Failure(f"line {step.line}: expected {step.expected}, got {got}{why}")
    finally:
        await verbs.close_all()


def main(run):
    """A runner's main: reads the scenario, has `run` play it, and tells how it went."""
    with open(os.environ["QUORLOCK_SCENARIO"], encoding="utf-8") as file:
        steps = scenario.parse(file.read().splitlines())
    try:
        run(steps)
    except (Failure, scenario.FormatError) as failure:
        print(failure, flush=True)
        return 1
    return 0
