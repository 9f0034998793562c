"""Each step keeps the invariant, and the invariant gives the promises, for any number of nodes, clients and requests.

A lemma is refuted if Z3 finds values with which the invariant holds before, the step is taken, and a part of it fails behind. Its
hypotheses are spelt out for the terms that the lemma speaks of and those that follow from these, and no others. So no quantifier
is left, and Z3 decides each lemma; a lemma that is proven from fewer hypotheses is proven.
"""

import functools

import z3

from actions import ACTIONS
from invariant import INVARIANT, PROMISES
from model import Guards, State, World

SECONDS = 20
# Parts that speak of what a token has won with need more terms than the others.
OF_WINS = {name for name, (sorts, _) in INVARIANT.items() if sorts in ("TN", "MT", "TT")}


def unique(terms):
    return list({t.get_id(): t for t in terms}.values())


def spread(w):
    """Adds, to the requests that are spoken of, the tokens and nodes that they lead to."""
    for m in w.terms["M"]:
        w.terms["T"].append(w.tok(m))
        w.terms["N"].append(w.node(m))
    for sort in "NTM":
        w.terms[sort] = unique(w.terms[sort])


def holds(w, s, names=INVARIANT):
    return [w.every(INVARIANT[name][0], lambda *x: INVARIANT[name][1](w, s, *x)) for name in names]


def base(w):
    return [w.max_ttl > 0, w.longest >= w.max_ttl]


def initial(w, s):
    """No request was sent, and no vote was given; a node has no record, or one of its present run."""
    no = z3.Not
    return z3.And(
        w.every("M", lambda m: z3.And(no(s.admitted(m)), no(s.sent(m)), no(s.handled(m)), no(s.granted(m)), no(s.placed(m)))),
        w.every("T", lambda t: z3.And(no(s.dead(t)), no(s.shared(t)), no(s.exported(t)), no(s.won(t)))),
        w.every("MT", lambda m, t: no(s.behind(m, t))), s.wins() == 0,
        w.every("N", lambda n: z3.And(s.run(n) >= 0, s.losses(n) == 0, s.record_run(n) == z3.If(s.record(n) == 0, s.run(n), -1),
                                      z3.Or(s.record(n) == -1, s.record(n) == 0), no(s.keeps(n)), no(s.stored(n)),
                                      no(s.readers(n)), s.began(n) <= s.clock(n))),
        w.every("NT", lambda n, t: z3.And(no(s.has(n, t)), no(s.reads(n, t)))))


@functools.cache
def lemmas(action, of_wins):
    return Lemmas(action, of_wins)


class Lemmas:
    """That one step keeps some parts of the invariant. The names for which each is refuted are shared by all of them."""

    def __init__(self, action, of_wins=False):
        self.names = [name for name in INVARIANT if (name in OF_WINS) == of_wins]
        w = self.w = World()
        self.about = {"N": [w.const("n", "N")], "T": [w.const("t", "T"), w.const("u", "T")],
                      "M": [w.const("m", "M"), w.const("o", "M")], "Q": []}
        step, params = ACTIONS[action] if action else (None, "")
        given = [w.const(f"the_{s}{i}", s) for i, s in enumerate(params)]
        w.terms["N"] += self.about["N"]
        w.terms["T"] += self.about["T"]
        w.terms["M"] += self.about["M"][:1] if of_wins else self.about["M"]
        for sort, term in zip(params, given):
            if sort in w.terms:
                w.terms[sort].append(term)
        requests = [x for x, s in zip(given, params) if s == "M"]
        if of_wins:
            t, u = self.about["T"]
            both, of_request = w.shared_node(w.won_by(t), w.won_by(u)), w.node(self.about["M"][0])
            w.terms["N"] += [both, of_request]
            w.terms["M"] += [w.won_with(t, both), w.won_with(u, both), w.won_with(t, of_request), w.won_with(t, self.about["N"][0])]
        else:
            w.terms["M"] += [w.counted(m) for m in unique(requests + self.about["M"][:1])]
            w.terms["T"] += [w.former(m) for m in requests]
        spread(w)
        s = self.before = State.fresh(w, "s")
        self.guards = Guards(action)
        if action:
            self.after = step(w, s, self.guards, *given)
        else:
            self.after = s
        self.solver = z3.Solver()
        self.solver.set("timeout", SECONDS * 1000)
        self.parts = {name: z3.Bool(f"part:{name}") for name in (INVARIANT if of_wins else self.names)}
        if action:
            self.solver.add(base(w) + self.guards.conditions)
            self.solver.add([z3.Implies(switch, holds(w, s, [name])[0]) for name, switch in self.parts.items()])
        else:
            self.solver.add(base(w) + [initial(w, s)])

    def on(self, dropped=(), without=()):
        return self.guards.on(dropped) + [switch for name, switch in self.parts.items() if name not in without]

    def can_be_taken(self):
        return self.solver.check(*self.on())

    def refuted(self, name, dropped=(), without=()):
        """`unsat`: the step keeps this part. `sat`: it does not. Some guards of the step, or parts of the invariant, may be left out."""
        sorts, formula = INVARIANT[name]
        seen = {s: iter(terms) for s, terms in self.about.items()}
        about = [next(seen[s]) for s in sorts]
        wrong = z3.Not(formula(self.w, self.after, *about))
        if self.after is not self.before and formula(self.w, self.before, *about).eq(formula(self.w, self.after, *about)):
            return z3.unsat   # The step changes nothing that this part speaks of.
        self.solver.push()
        self.solver.add(wrong)
        answer = self.solver.check(*self.on(dropped, without))
        self.solver.pop()
        return answer


def promised(name, without=()):
    """`unsat`: the invariant alone gives this promise."""
    sorts, formula = PROMISES[name]
    w = World()
    about = [w.const(f"{s}{i}", s) for i, s in enumerate(sorts)]
    for sort, term in zip(sorts, about):
        w.terms[sort].append(term)
    tokens, quorums = w.terms["T"][:], w.terms["Q"][:]
    if name == "keep":
        nodes = [w.shared_node(w.kept_by(tokens[0]), quorums[0])]
        w.terms["M"].append(w.kept_with(tokens[0], nodes[0]))
    elif quorums:
        nodes = [w.shared_node(*quorums)]
    else:
        nodes = [w.shared_node(w.won_by(tokens[0]), w.won_by(tokens[1]))]
        w.terms["M"] += [w.won_with(t, nodes[0]) for t in tokens]
    w.terms["N"] += nodes
    spread(w)
    s = State.fresh(w, "s")
    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(base(w) + holds(w, s, [part for part in INVARIANT if part not in without]) + [z3.Not(formula(w, s, *about))])
    return solver.check()
