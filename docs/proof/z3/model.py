"""The state of the protocol: what stands on the nodes, what clients count, which requests are under way.

A request is an element of the sort Request, and what it says never changes: so a request that is sent, handled late, or never, needs no
network, only the two marks `sent` and `handled`. What a node answers is known to the client at once, which lets the client do
more than a real one, and so costs the proof nothing. A token stands for its attempt, for its lease and for its client's clock.

Clocks. A client's time is stated in units that are stretched by the drift (numbers.py, `drift_allowance_is_enough`): in these a
node's clock never gains on a client's, and no number for the drift is left in the rules.
"""

import z3

# Kinds of requests. One fence is asked for by those of MARKED; SHARED are those of readers.
NATIVE, ACQUIRE, EXTEND, REPAIR, CONFIRM, ADOPT, SHARE, SHARE_EXTEND, SHARE_REPAIR, SHARE_CONFIRM, RELEASE, KEEP = range(12)
KINDS = ["native acquire", "acquire", "extend, mode 1", "extend, mode 2", "extend, mode 3", "adopt", "share", "share_extend, mode 1",
         "share_extend, mode 2", "share_extend, mode 3", "release", "release with keep"]
MARKED = (NATIVE, ACQUIRE, CONFIRM, ADOPT, SHARE, SHARE_CONFIRM)
SHARED = (SHARE, SHARE_EXTEND, SHARE_REPAIR, SHARE_CONFIRM)
COUNTED = (REPAIR, CONFIRM, SHARE_REPAIR, SHARE_CONFIRM)   # sent for a vote that the client counts, and let through in quarantine

R, I, B = z3.RealSort, z3.IntSort, z3.BoolSort

# What never changes: of nodes, of requests, of tokens, of the set.
RIGID = {
    # The node's clock does not step; its restarts are guarded; it never forgets; it keeps its counters of fences.
    "steady": "N:B", "guarded": "N:B", "lasting": "N:B", "counting": "N:B",
    # A request: which, for which token, to which node, how it was admitted (the run and the record that its client has seen).
    "kind": "M:I", "tok": "M:T", "node": "M:N", "run_seen": "M:I", "record_seen": "M:I",
    # From when the client counts, for how long it does, the ttl that is asked for, the end of a native key.
    "asked": "M:R", "counts": "M:R", "ttl": "M:R", "key_end": "M:R",
    # The vote that a request lengthens; the token that is adopted; the fence that the answer tells (the last of its block).
    "counted": "M:M", "former": "M:T", "mark": "M:I",
    # A token: the block of fences, the fence that it wins with, and by which quorum and requests; until when it is kept, and by which.
    "block": "T:I", "fence": "T:I", "won_by": "T:Q", "won_with": "TN:M", "kept_until": "T:R", "kept_by": "T:Q", "kept_with": "TN:M",
    # Quorums: who belongs to one, and the node that two of them share.
    "member": "QN:B", "shared_node": "QQ:N",
}

# What changes.
STATE = {
    # A node: its clock, the run of its server and when that began, how often it has lost its memory.
    "clock": "N:R", "run": "N:I", "began": "N:R", "losses": "N:I",
    # Its record: after how many losses it was written (-1: none), and the run that it names. The end of the quarantine. Whether
    # this run has stored anything.
    "record": "N:I", "record_run": "N:I", "quarantine": "N:R", "stored": "N:B",
    # The lock there: who has a vote, until when, and whether as a reader; whether it is kept, and until when.
    "has": "NT:B", "end": "NT:R", "reads": "NT:B", "keeps": "N:B", "keep_end": "N:R",
    # The counter of fences, and the base that readers' fences are beyond, while the key is one of readers.
    "counter": "N:I", "base": "N:I", "readers": "N:B",
    # A token: its client's clock, whether it is dead, shared, exported, won, and as which in order; how often its lease was passed on.
    "now": "T:R", "dead": "T:B", "shared": "T:B", "exported": "T:B", "won": "T:B", "nth": "T:I", "passed": "T:I",
    # A request: its client has been admitted for it, it was sent, handled, what it brought is a vote (or a keep), and that vote's
    # end by the node's clock. A native key was stored, after how many losses.
    "admitted": "M:B", "sent": "M:B", "handled": "M:B", "granted": "M:B", "vote_end": "M:R",
    "placed": "M:B", "placed_at": "M:I",
    # When a request was granted, this token had won already.
    "behind": "MT:B",
    # How many were won.
    "wins": ":I",
}


class World:
    """The sorts, what never changes, and the terms over which a statement about all is spelt out."""

    def __init__(self, sizes=None):
        if sizes is None:
            self.sorts = {s: z3.DeclareSort(n) for s, n in zip("NTMQ", ("Node", "Token", "Request", "Quorum"))}
            self.terms = {s: [] for s in "NTMQ"}
        else:
            World.made = getattr(World, "made", 0) + 1
            self.sorts, self.terms = {}, {}
            for s in "NTMQ":
                names = [f"{s.lower()}{i}_{World.made}" for i in range(sizes[s])]
                self.sorts[s], self.terms[s] = z3.EnumSort(f"{s}_{World.made}", names)
        self.sorts |= {"R": R(), "I": I(), "B": B()}
        for name, shape in RIGID.items():
            setattr(self, name, self.function(name, shape))
        self.max_ttl, self.longest = z3.Real("max_ttl"), z3.Real("longest")

    def function(self, name, shape):
        args, result = shape.split(":")
        if not args:
            constant = z3.Const(name, self.sorts[result])
            return lambda: constant
        return z3.Function(name, *(self.sorts[a] for a in args), self.sorts[result])

    def another(self, name):
        """A name that nothing in this world has yet."""
        self.names = getattr(self, "names", 0) + 1
        return f"{name}+{self.names}"

    def const(self, name, sort):
        return z3.Const(name, self.sorts[sort])

    def tuples(self, sorts):
        """All tuples of the known terms of these sorts."""
        found = [()]
        for s in sorts:
            found = [t + (x,) for t in found for x in self.terms[s]]
        return found

    def every(self, sorts, formula):
        """A statement about all, spelt out for the known terms. As a hypothesis it is weaker than what it stands for."""
        return z3.And([z3.BoolVal(True)] + [formula(*t) for t in self.tuples(sorts)])

    # What follows from these.

    def sound(self, n):
        """A node on which exclusion may rest: its clock is steady, and it is guarded or never forgets."""
        return z3.And(self.steady(n), z3.Or(self.guarded(n), self.lasting(n)))

    def is_kind(self, m, kinds):
        return z3.Or([self.kind(m) == k for k in kinds])

    def below(self, m):
        """The fence before the first of the block that the request took."""
        return self.mark(m) - self.block(self.tok(m))

    def quorums_share(self, p, q):
        n = self.shared_node(p, q)
        return z3.And(self.member(p, n), self.member(q, n))


class State:
    """One state: each part is a function from terms to terms. `but` makes the next one."""

    def __init__(self, parts):
        self.__dict__.update(parts)

    @staticmethod
    def fresh(world, name):
        return State({part: world.function(f"{part}.{name}", shape) for part, shape in STATE.items()})

    def but(self, **changed):
        assert all(name in STATE for name in changed), changed
        return State(self.__dict__ | changed)


def put(old, at, value):
    """The function `old`, but for what it is at this place."""
    at = at if isinstance(at, tuple) else (at,)
    return lambda *x: z3.If(z3.And([a == b for a, b in zip(x, at)]), value, old(*x))


class Guards:
    """Collects the conditions under which a step is taken, by name. Each can be left out: `switches` has one for each."""

    def __init__(self, action):
        self.action, self.switches, self.conditions = action, {}, []

    def switch(self, name):
        full = f"{self.action}.{name}"
        return self.switches.setdefault(full, z3.Bool(f"guard:{full}"))

    def __call__(self, name, condition):
        self.conditions.append(z3.Implies(self.switch(name), condition))

    def value(self, name, right, wrong):
        """What a step stores, which is a guard too: without it the step stores something else."""
        return z3.If(self.switch(name), right, wrong)

    def on(self, dropped=()):
        return [switch for name, switch in self.switches.items() if name not in dropped]
