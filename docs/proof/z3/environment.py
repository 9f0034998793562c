"""What neither a client nor a node decides: time goes on, clocks step, nodes lose their memory, counters end."""

import z3

from model import put

# Each of these takes the world, a state, the collector of guards and its own parameters, and gives the next state.


def tick(w, s, guard):
    """Time goes on. A node's clock gains nothing on a client's stretched time, and none goes back."""
    clock, now = w.function(w.another("clock"), "N:R"), w.function(w.another("now"), "T:R")
    guard("forward", w.every("N", lambda n: clock(n) >= s.clock(n)))
    guard("rates_within_drift", w.every("NT", lambda n, t: clock(n) - s.clock(n) <= now(t) - s.now(t)))
    return s.but(clock=lambda n: clock(n), now=lambda t: now(t))


def step(w, s, guard, n, to):
    """The clock of a node steps: that of a steady one back alone, and not between the plain commands of one request."""
    back = to <= s.clock(n)
    guard("not_of_a_steady_node", z3.Or(z3.Not(w.steady(n)), back))
    within = lambda m: z3.And(w.node(m) == n, s.placed(m), z3.Not(s.handled(m)))
    guard("not_within_plain_commands", z3.Or(z3.Not(w.steady(n)), w.every("M", lambda m: z3.Not(within(m)))))
    # The moment at which a vote ends is told by the clock as it is now.
    by = z3.If(back, to - s.clock(n), 0)
    return s.but(clock=put(s.clock, n, to), vote_end=lambda m: z3.If(w.node(m) == n, s.vote_end(m) + by, s.vote_end(m)))


def forget(w, s, guard, n, restarts, other, to):
    """A node loses its memory: its keys are deleted, or its server restarts, with nothing or with what it had stored at some
    time before; or another server comes in its place, with a clock of its own."""
    old = {part: w.function(w.another(f"old_{part}"), shape) for part, shape in {
        "has": "T:B", "reads": "T:B", "end": "T:R", "keeps": ":B", "keep_end": ":R", "record": ":I", "record_run": ":I",
        "quarantine": ":R", "counter": ":I", "base": ":I", "readers": ":B", "run": ":I"}.items()}
    guard("not_of_a_lasting_node", z3.Not(w.lasting(n)))
    # What comes back is what stood there once.
    guard("an_old_state", z3.And(
        w.every("TT", lambda t, u: z3.Implies(z3.And(t != u, old["has"](t), old["has"](u)), z3.And(old["reads"](t), old["reads"](u)))),
        w.every("T", lambda t: z3.Implies(old["reads"](t), s.shared(t))),
        w.every("T", lambda t: z3.Implies(old["keeps"](), z3.Not(old["has"](t)))),
        old["record_run"]() <= s.run(n), old["record"]() <= s.losses(n),
        w.every("T", lambda t: z3.Implies(z3.And(old["readers"](), old["has"](t)), old["reads"](t))),
        z3.Implies(z3.Not(restarts), z3.And(old["record"]() == -1, z3.Not(other))),
        w.every("T", lambda t: z3.Implies(z3.Not(restarts), z3.Not(old["has"](t))))))
    guard("a_new_run", old["run"]() > s.run(n))
    gone_by = z3.If(other, to - s.clock(n), 0)
    counted = w.counting(n)
    new = s.but(
        run=put(s.run, n, z3.If(restarts, old["run"](), s.run(n))), losses=put(s.losses, n, s.losses(n) + 1),
        clock=put(s.clock, n, s.clock(n) + gone_by),
        # The moment at which a vote ends is told by the clock that now counts.
        vote_end=lambda m: z3.If(w.node(m) == n, s.vote_end(m) + gone_by, s.vote_end(m)),
        stored=put(s.stored, n, z3.And(s.stored(n), z3.Not(restarts))),
        record=put(s.record, n, old["record"]()), record_run=put(s.record_run, n, old["record_run"]()),
        quarantine=put(s.quarantine, n, old["quarantine"]()),
        has=lambda m, t: z3.If(m == n, old["has"](t), s.has(m, t)), end=lambda m, t: z3.If(m == n, old["end"](t), s.end(m, t)),
        reads=lambda m, t: z3.If(m == n, old["reads"](t), s.reads(m, t)),
        keeps=put(s.keeps, n, old["keeps"]()), keep_end=put(s.keep_end, n, old["keep_end"]()),
        counter=put(s.counter, n, z3.If(counted, s.counter(n), old["counter"]())),
        base=put(s.base, n, z3.If(counted, s.base(n), old["base"]())),
        readers=put(s.readers, n, z3.And(old["readers"](), z3.Implies(counted, s.readers(n)))))
    return new.but(began=put(s.began, n, z3.If(restarts, new.clock(n), s.began(n))))


def counter_lost(w, s, guard, n, value, base):
    """A counter of fences has expired, or was lost."""
    guard("not_of_a_counting_node", z3.Not(w.counting(n)))
    return s.but(counter=put(s.counter, n, value), base=put(s.base, n, base))
