"""A run as text, a line for each step: what Z3 has found, with its figures."""

import z3

from model import KEEP, KINDS, NATIVE

NAMES = "ABCD"


class Figures:
    def __init__(self, run, model):
        self.run, self.model = run, model

    def __call__(self, term):
        value = self.model.eval(term, model_completion=True)
        if z3.is_true(value) or z3.is_false(value):
            return z3.is_true(value)
        if z3.is_rational_value(value) and not value.is_int_value():
            return f"{float(value.as_fraction()):.4g}"
        if z3.is_int_value(value) or z3.is_rational_value(value):
            return str(value.as_long()) if z3.is_int_value(value) else str(value.numerator_as_long())
        return value

    def node(self, n):
        return f"node {self.index(self.run.n, n)}"

    def token(self, t):
        return NAMES[self.index(self.run.t, t)]

    def index(self, terms, x):
        return [str(t) for t in terms].index(str(self.model.eval(x, model_completion=True)))


def tell(run, model):
    """Steps that say nothing (a client reads a record, and finds it as it was) are left out."""
    at, lines = Figures(run, model), []
    for k, (name, given) in enumerate(run.steps):
        text = line(run, at, name, given, run.states[k], run.states[k + 1])
        if text:
            lines.append(f"{len(lines) + 1:>2}  {name:<18} {text}")
    return "\n".join(lines)


def line(run, at, name, given, s, after):
    w = run.w
    m = given[0] if given else None
    if name == "Tick":
        clients = ", ".join(f"{at.token(t)} {at(after.now(t))}" for t in run.t)
        nodes = ", ".join(f"{k}: {at(after.clock(n))}" for k, n in enumerate(run.n))
        return f"time goes on: clients' clocks {clients}; nodes' {nodes}"
    if name == "Step":
        return f"the clock of {at.node(m)} steps from {at(s.clock(m))} to {at(after.clock(m))}"
    if name == "Forget":
        how = "restarts" if at(given[1]) else "loses its keys"
        how = "is another server now, and" if at(given[2]) else how
        what = f"its record of run {at(after.record_run(m))} is back" if at(given[1]) and at(after.record(m)) != "-1" else "its votes and its record are gone"
        return f"{at.node(m)} {how}: {what}"
    if name == "CounterLost":
        return f"the counter of {at.node(m)} is lost: {at(s.counter(m))} becomes {at(after.counter(m))}"
    if name == "NodeInit":
        return f"{at.node(m)} is given a record, and a quarantine until {at(after.quarantine(m))} by its clock ({at(s.clock(m))})"
    if name == "ClientRaise":
        return f"{at.node(m)} is given its first record, without a quarantine"
    if name == "ClientWin":
        fence = int(at(w.fence(m))) - int(at(w.block(m))) + 1
        return f"{at.token(m)} holds the lock, with the fence {fence}"
    if name == "ClientPassOn":
        fence = int(at(w.fence(m))) - int(at(w.block(m))) + 1 + int(at(after.passed(m)))
        return f"{at.token(m)}'s lease is passed on to the next caller of its client, with the fence {fence}"
    if name in ("ClientGiveUp", "ClientExport", "ClientDowngrade"):
        what = {"ClientGiveUp": "holds the lock no longer" if at(s.won(m)) else "gives its token up", "ClientExport": "exports its lease",
                "ClientDowngrade": "says that it shares the lock"}[name]
        return f"{at.token(m)} {what}"
    if name == "NodeServe":
        return f"{at.node(m)} hands the free lock to the first of its queue"
    if name == "NodeJoin":
        return f"the lock's key on {at.node(m)} becomes a crowded one, until {at(after.end(m, given[1]))}"
    n, t, kind = w.node(m), w.tok(m), int(at(w.kind(m)))
    if name == "ClientSee":
        return None
    if name == "ClientRelease":
        return f"{at.token(t)} sends {at.node(n)} a {KINDS[kind]}" + (f", until {at(w.kept_until(t))} by its clock" if kind == KEEP else "")
    if name.startswith("Client"):
            return f"{at.token(t)} asks {at.node(n)} ({KINDS[kind]}, ttl {at(w.ttl(m))}), and counts from {at(w.asked(m))}"
    if name == "NodeNativeAcquire":
        return f"{at.node(n)} stores {at.token(t)}'s key until {at(w.key_end(m))} by its clock ({at(s.clock(n))})"
    if name == "NodeRelease":
        return f"{at.node(n)} deletes the vote of {at.token(t)}"
    if name == "NodeKeep":
        counts = "" if at(after.granted(m)) else ", which counts for nothing"
        return f"{at.node(n)} keeps the lock until {at(after.keep_end(n))} by its clock ({at(s.clock(n))}){counts}"
    ends = at(after.end(n, t)) if kind != NATIVE else at(w.key_end(m))
    counted = sum_of(at(w.asked(m)), at(w.counts(m)))
    return f"{at.node(n)} votes for {at.token(t)} until {ends} by its clock ({at(s.clock(n))}), mark {at(w.mark(m))}; {at.token(t)} counts until {counted}"


def sum_of(a, b):
    total = float(a) + float(b)
    return f"{total:.4g}"
