"""What a fault can touch, and which fault is next."""

import itertools
import re
import time

from history import NEVER
from kinds import CLOCK, NETWORK, SERVER, WORKER, Links

# Most of the time no more nodes are out of order than the set stands.
HARD_SHARE = 0.12
MAX_AT_ONCE = 4
MAX_GAP_SECONDS = 0.7
# Between two rounds of all kinds nothing is wrong, and no lock may stand still; not so often where there are few kinds.
CALM_SECONDS = 3.0
CALM_EVERY_SECONDS = 15.0
# These workers have a lock for themselves that is held nearly always, so that whatever happens meets a holder.
KEEPERS = ("rust-3", "cpp-2", "asyncio-2")
LONG_LOCK = "long"
# Workers that hold by a program: what hits a worker alone is not for them.
CLI = "cli-"
# What stands under the key of a lock that is held: as it is, or behind `end` in µs where a client waits for it.
HELD = re.compile(rb"(=(?P<end>\d+) )?(?P<value>[0-9a-f]{40}\..*)")


class World:
    """What a fault can touch."""

    def __init__(self, stage, proxy, workers, history, orders, rng):
        self.stage, self.proxy, self.history, self.orders, self.random = stage, proxy, history, orders, rng
        self.numbers = list(range(1, orders.nodes + 1))
        self.minority = (orders.nodes - 1) // 2
        # Servers that belong to no set: one to lead an address to, and both for a list that is none of the set's.
        self.spares = [orders.nodes + 1, orders.nodes + 2]
        # The set as workers that start now are told it.
        self.listed = self.numbers
        # A port of the proxy for each worker and node, so that one may be cut off and others not.
        self.ways = {way: number for number, way in enumerate(itertools.product(workers, self.numbers), 1)}
        self.workers = tuple(workers)
        self.keepers = [name for name in workers if name in KEEPERS]
        self.active = []
        self.crew = None

    def urls(self, worker):
        """Of the nodes, as the worker sees them."""
        return [f"redis://127.0.0.1:{self.proxy.ports[self.ways[worker, node] - 1]}" for node in self.listed]

    def full(self):
        """LOCK/WORKER of which every node has the vote; none while a server is out of order and could not answer."""
        if any(episode.kind.place == SERVER for episode in self.active):
            return []
        known = {**dict(self.orders.keys()), LONG_LOCK: f"lock:{{{LONG_LOCK}}}"}
        locks, keys = list(known), list(known.values())
        columns = zip(*(self._held(node, keys) for node in self.numbers))
        return [f"{lock}/{votes[0].decode().partition('.')[2]}" for lock, votes in zip(locks, columns)
                if votes[0] and len(set(votes)) == 1]

    def _held(self, node, keys):
        """The value that holds each of these on a node, whether or not a client waits for it there; `None` for none."""
        texts = self.stage.redis(node, "MGET", *keys)
        seconds, micros = map(int, self.stage.redis(node, "TIME"))
        forms = [HELD.fullmatch(text or b"") for text in texts]
        return [form and int(form["end"] or NEVER) >= seconds * 1_000_000 + micros and form["value"] or None for form in forms]


class Episode:
    """One fault, from its beginning to its end."""

    count = 0

    def __init__(self, world, kind, whom, seconds):
        Episode.count += 1
        self.number, self.kind, self.whom, self._world = Episode.count, kind, whom, world
        self._seconds, self._begun, self._since = seconds, False, None
        self._steps = kind.run(world, whom, seconds)
        self.due = 0.0

    def advance(self):
        """Goes on to its next wait; returns whether it is over."""
        # What comes before the fault is a part of it, and takes time: all workers are stopped before a set changes.
        self._since = self._since or time.monotonic_ns()
        try:
            wait = next(self._steps)
        except StopIteration:
            if self._begun:
                self._world.history.write("end", self.number, time.monotonic_ns())
            return True
        if wait is None:
            whom = ",".join(map(str, self.whom)) if isinstance(self.whom, list) else self.whom
            self._world.history.write("begin", self.number, self.kind.name, self._since, whom)
            self._begun, wait = True, self._seconds
        self.due = time.monotonic() + wait
        return False


class Schedule:
    """Which fault is next, on whom, for how long: all of it from the seed. The kinds take turns as cards of a deck do."""

    def __init__(self, world, kinds):
        self._world, self._random, self._kinds = world, world.random, kinds
        self._deck = []
        self._next_at = self._calm_at = 0.0
        # Clocks of more nodes than these are never wrong, so that the median of all stays right.
        self._clocks = self._random.sample(world.numbers, world.minority)
        self._recovering = {}

    def step(self, more):
        """Ends what is due and begins what there is room for."""
        world, now = self._world, time.monotonic()
        for episode in [episode for episode in world.active if episode.due <= now]:
            if episode.advance():
                world.active.remove(episode)
                if episode.kind.loses:
                    out = time.monotonic() + 2 * world.orders.max_ttl / 1000
                    self._recovering.update(dict.fromkeys(episode.whom, out))
        if more and now >= self._next_at and len(world.active) < MAX_AT_ONCE:
            if not self._deck and now < self._calm_at:
                self._deck = self._random.sample(self._kinds, len(self._kinds))
            if not self._deck:
                if world.active:
                    return
                self._deck = self._random.sample(self._kinds, len(self._kinds))
                self._next_at, self._calm_at = now + CALM_SECONDS, now + CALM_SECONDS + CALM_EVERY_SECONDS
                return
            if self._begin(self._deck[-1]):
                self._deck.pop()
                self._next_at = time.monotonic() + self._random.uniform(0, MAX_GAP_SECONDS)

    def _begin(self, kind):
        """Begins the fault unless something is in its way; then it is tried again soon."""
        active = self._world.active
        if any(episode.kind.alone for episode in active) or kind.alone and active:
            return False
        whom = self.draw(kind)
        if not whom:
            return False
        episode = Episode(self._world, kind, whom, self._random.uniform(*kind.seconds))
        episode.advance()
        active.append(episode)
        return True

    def draw(self, kind):
        """On whom the fault is to be: a worker, the ways from workers to nodes, or nodes; nothing if none is free."""
        return {WORKER: self._worker, NETWORK: self._links}.get(kind.place, self._nodes)(kind)

    def _on(self, place):
        return [episode for episode in self._world.active if episode.kind.place == place]

    def _worker(self, kind):
        taken = {episode.whom for episode in self._on(WORKER)}
        some = [name for name in self._world.workers if name.startswith(kind.of)] if kind.of else self._some()
        free = [name for name in some if name not in taken and (kind.of or not name.startswith(CLI))]
        return self._random.choice(free) if free else None

    def _some(self):
        """Workers to be hit alone: half of the time those that probably hold something."""
        return self._world.keepers if self._world.keepers and self._random.random() < 0.5 else self._world.workers

    def _links(self, kind):
        world, busy = self._world, self._on(NETWORK)
        if kind.name == "backend" and any(episode.kind is kind for episode in busy):
            # There is one server to spare.
            return None
        if self._random.random() < 0.5:
            nodes = self._minority(kind, {node for episode in busy for node in episode.whom.nodes})
            return Links(world.workers, tuple(nodes)) if nodes else None
        # One or two workers alone, and from any number of nodes: the others do not notice.
        workers = self._random.sample(self._some(), self._random.randint(1, 2))
        count = self._random.randint(1, len(world.numbers)) if kind.nodes[1] > 1 else 1
        chosen = Links(tuple(workers), tuple(self._random.sample(world.numbers, count)), everyone=False)
        return None if any(chosen.ways() & episode.whom.ways() for episode in busy) else chosen

    def _nodes(self, kind):
        taken = {node for episode in self._on(kind.place) for node in episode.whom}
        candidates = self._clocks if kind.place == CLOCK else self._world.numbers
        if kind.alone:
            return self._random.sample(candidates, min(self._random.randint(*kind.nodes), len(candidates)))
        return self._minority(kind, taken, candidates)

    def _minority(self, kind, taken, among=None):
        """Nodes for a fault that all workers notice, so that a quorum is left; now and then more of them."""
        nodes, minority, now = self._world.numbers, self._world.minority, time.monotonic()
        candidates = [node for node in among or nodes if node not in taken]
        count = min(self._random.randint(*kind.nodes), len(candidates))
        if self._random.random() < HARD_SHARE:
            count = self._random.randint(minority + 1, len(nodes)) if kind.nodes[1] > 1 else 1
            return self._random.sample(candidates, min(count, len(candidates)))
        out = {node for node, until in self._recovering.items() if until > now}
        out |= {node for place in (SERVER, CLOCK) for episode in self._on(place) for node in episode.whom}
        out |= {node for episode in self._on(NETWORK) if episode.whom.everyone for node in episode.whom.nodes}
        # Those that are out of order anyhow first: faults meet there.
        ours = [node for node in candidates if node in out]
        others = [node for node in candidates if node not in out]
        chosen = self._random.sample(ours, min(count, len(ours)))
        room = min(count - len(chosen), minority - len(out), len(others))
        return chosen + self._random.sample(others, max(0, room))
