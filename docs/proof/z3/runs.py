"""Runs of a small set: three nodes, two clients, and a list of steps. Z3 finds the times, or says that there is no such run."""

import z3

from actions import ACTIONS
from model import KEEP, STATE, Guards, State, World
from prove import initial
from told import tell

TTL = 10


class Run:
    """The steps are given by name; what is dropped are guards, by name, and attributes of nodes, as `steady:1`."""

    def __init__(self, steps, requests, dropped=(), quorums=((0, 1), (0, 2), (1, 2)), nodes=3, tokens=2, begin="set", longest=TTL, also=None):
        self.w = w = World({"N": nodes, "T": tokens, "M": len(requests), "Q": len(quorums)})
        self.n, self.t, self.m, self.q = (w.terms[s] for s in "NTMQ")
        self.dropped, self.steps, self.requests = dropped, [], requests
        self.solver = z3.Solver()
        self.solver.set("timeout", 20_000)
        self.solver.add(*self.set_up(quorums, longest))
        s = State.fresh(w, "0")
        self.solver.add(initial(w, s), *self.begun(s, begin))
        self.states = [s]
        for name, *given in steps:
            self.take(name, given)
        if also:
            self.solver.add(also(self))

    def set_up(self, quorums, longest):
        """What each request is, who belongs to a quorum, and that nothing is odd about the nodes."""
        w = self.w
        for i, q in enumerate(self.q):
            yield from (w.member(q, n) == (k in quorums[i]) for k, n in enumerate(self.n))
        for attribute, usual in {"steady": True, "guarded": True, "lasting": False, "counting": True}.items():
            for k, n in enumerate(self.n):
                yield getattr(w, attribute)(n) == (usual != (f"{attribute}:{k}" in self.dropped))
        for i, request in enumerate(self.requests):
            kind, token, node, *more = request
            m, more = self.m[i], more[0] if more else {}
            yield from (w.kind(m) == kind, w.tok(m) == self.t[token], w.node(m) == self.n[node])
            if kind != KEEP:
                yield from (w.ttl(m) == more.get("ttl", TTL), w.counts(m) == w.ttl(m))
            if "counted" in more:
                yield w.counted(m) == self.m[more["counted"]]
            if "former" in more:
                yield w.former(m) == self.t[more["former"]]
            if "mark" in more:
                yield w.mark(m) == more["mark"]
        yield from (w.max_ttl == TTL, w.longest == longest)
        yield from (w.block(t) == 2 for t in self.t)

    def begun(self, s, begin):
        yield from (s.now(t) == 0 for t in self.t)
        yield from (z3.And(s.clock(n) == 0, s.counter(n) == 0, s.run(n) == 0) for n in self.n)
        founded = 0 if begin == "set" else -1   # The set was founded long ago, or it has no records.
        yield from (z3.And(s.record(n) == founded, s.quarantine(n) == -1, s.began(n) == -100) for n in self.n)

    def take(self, name, given):
        """One more step, behind which each part of the state has a name of its own."""
        w, before = self.w, self.states[-1]
        step, sorts = ACTIONS[name]
        terms = [self.term(sort, x) for sort, x in zip(sorts, given)]
        terms += [w.const(w.another(f"{name}.{sort}"), sort) for sort in sorts[len(given):]]
        guard = Guards(name)
        after = step(w, before, guard, *terms)
        self.solver.add(guard.conditions)
        self.solver.add([switch == (full not in self.dropped) for full, switch in guard.switches.items()])
        s = State.fresh(w, str(len(self.states)))
        for part, shape in STATE.items():
            old, new = getattr(before, part), getattr(after, part)
            if new is old:
                setattr(s, part, old)
            else:
                self.solver.add([getattr(s, part)(*x) == new(*x) for x in w.tuples(shape.split(":")[0])])
        self.states.append(s)
        self.steps.append((name, terms))

    def term(self, sort, x):
        if sort in self.w.terms:
            return self.w.terms[sort][x]
        return z3.BoolVal(x) if isinstance(x, bool) else z3.RealVal(x) if sort == "R" else z3.IntVal(x)

    # What a run may come to.

    def is_valid(self, t):
        """The client of t counts on the votes of a quorum, now."""
        w, s, token = self.w, self.states[-1], self.t[t]
        vote = lambda n: z3.Or([z3.And(s.granted(m), w.kind(m) != KEEP, w.tok(m) == token, w.node(m) == n,
                                       s.now(token) <= w.asked(m) + w.counts(m)) for m in self.m])
        quorum = z3.Or([z3.And([z3.Implies(w.member(q, n), vote(n)) for n in self.n]) for q in self.q])
        return z3.And(s.won(token), z3.Not(s.dead(token)), quorum)

    def overlap(self):
        s = self.states[-1]
        return z3.And(self.is_valid(0), self.is_valid(1), z3.Not(z3.And(s.shared(self.t[0]), s.shared(self.t[1]))))

    def out_of_order(self):
        """B was won later, and its fence is no larger."""
        w, s, (a, b) = self.w, self.states[-1], self.t[:2]
        return z3.And(s.won(a), s.won(b), s.nth(a) < s.nth(b), w.fence(b) - w.block(b) < w.fence(a))

    def kept_in_vain(self):
        """A quorum keeps the lock for A, and B is won meanwhile."""
        w, s, a = self.w, self.states[-1], self.t[0]
        keeps = lambda n: z3.Or([z3.And(s.granted(m), w.kind(m) == KEEP, w.tok(m) == a, w.node(m) == n) for m in self.m])
        quorum = z3.Or([z3.And([z3.Implies(w.member(q, n), keeps(n)) for n in self.n]) for q in self.q])
        return z3.And(quorum, s.now(a) <= w.kept_until(a), self.is_valid(1))

    def check(self, *goals):
        self.goals = goals
        return self.solver.check(*goals)

    def text(self):
        """Tells a run with round figures, in which time goes on, and clients count from when they ask; or one that is there."""
        round_figures, from_now = [], []
        for k, (name, given) in enumerate(self.steps):
            before, after = self.states[k], self.states[k + 1]
            clocks = [(before.clock(n), after.clock(n)) for n in self.n] + [(before.now(t), after.now(t)) for t in self.t]
            if name == "Tick":
                round_figures += [z3.And(z3.IsInt(new), new >= old + 1) for old, new in clocks]
            elif name in ("Step", "NodeInit"):
                figure = after.quarantine(given[0]) if name == "NodeInit" else after.clock(given[0])
                start = before.clock(given[0])
                round_figures += [z3.IsInt(figure), figure >= start + 1, figure <= start + 2 * TTL]
            elif name in ("ClientAsk", "ClientAdopt", "ClientRenew"):
                from_now.append(self.w.asked(given[0]) == before.now(self.w.tok(given[0])))
        for wished in (round_figures + from_now, round_figures, []):
            if self.solver.check(*self.goals, *wished) == z3.sat:
                return tell(self, self.solver.model())
        return ""
