"""What a node does with each request. A node handles one at a time, in one step; plain commands are two of them."""

import z3

from model import ACQUIRE, ADOPT, CONFIRM, EXTEND, KEEP, NATIVE, RELEASE, REPAIR, SHARE, SHARE_CONFIRM, SHARE_EXTEND, SHARE_REPAIR, put

TRUE, FALSE = z3.BoolVal(True), z3.BoolVal(False)


def stands(s, n, t):
    """The token has a vote there that is not over."""
    return z3.And(s.has(n, t), s.clock(n) <= s.end(n, t))


def kept(s, n):
    return z3.And(s.keeps(n), s.clock(n) <= s.keep_end(n))


def quarantined(w, s, n):
    return z3.And(w.guarded(n), s.clock(n) <= s.quarantine(n))


def largest(a, b):
    return z3.If(a < b, b, a)


def arrives(w, s, guard, m, kinds):
    n = w.node(m)
    guard("sent", z3.And(w.is_kind(m, kinds), s.sent(m), z3.Not(s.handled(m))))
    guard("connection_to_this_run", w.run_seen(m) == s.run(n))
    return n, w.tok(m)


def may_vote(w, s, guard, m, in_quarantine=()):
    n = w.node(m)
    guard("record", z3.Implies(w.guarded(n), w.record_seen(m) == s.record(n)))
    if CONFIRM not in in_quarantine:
        guard("quarantine", z3.Or(z3.Not(quarantined(w, s, n)), w.is_kind(m, in_quarantine)))


def for_one_alone(w, s, guard, n, t):
    """Where the lock is free, or the token's own, alone or as a reader."""
    guard("no_other_vote", w.every("T", lambda u: z3.Implies(stands(s, n, u), u == t)))
    guard("not_kept", z3.Not(kept(s, n)))


def for_a_reader(w, s, guard, n, t):
    """Beside readers, where the lock is free, or where the token has it alone, which becomes a reader's."""
    guard("no_vote_for_one_alone", w.every("T", lambda u: z3.Implies(z3.And(stands(s, n, u), u != t), s.reads(n, u))))
    guard("not_kept", z3.Not(kept(s, n)))


def store(w, s, guard, n, t, until, reader=False):
    """The vote is stored: a life is never shortened."""
    end = until
    if guard:
        end = z3.If(s.has(n, t), guard.value("never_shortened", largest(until, s.end(n, t)), until), until)
    others = lambda u: z3.And(s.has(n, u), s.reads(n, u)) if reader else FALSE
    return s.but(has=lambda k, u: z3.If(k == n, z3.If(u == t, TRUE, others(u)), s.has(k, u)), end=put(s.end, (n, t), end),
                 reads=put(s.reads, (n, t), z3.BoolVal(reader)), keeps=put(s.keeps, n, FALSE), stored=put(s.stored, n, TRUE),
                 readers=put(s.readers, n, z3.BoolVal(reader)))


def grant(w, s, m, until):
    """The answer is a vote from then on, if the token lives."""
    return cast(s, s.but(handled=put(s.handled, m, TRUE), granted=put(s.granted, m, z3.Not(s.dead(w.tok(m)))), vote_end=put(s.vote_end, m, until)), m)


def cast(s, new, m):
    """The vote is cast behind the wins that there were."""
    return new.but(behind=lambda x, t: z3.If(x == m, s.won(t), s.behind(x, t)))


def count(w, s, guard, m):
    """A fence is counted for one alone: all of its block is beyond what was."""
    n = w.node(m)
    guard("fence_beyond_the_counter", w.below(m) >= s.counter(n))
    guard("a_block", w.block(w.tok(m)) >= 1)
    return s.but(counter=put(s.counter, n, guard.value("counter_is_stored", w.mark(m), s.counter(n))))


def count_for_a_reader(w, s, guard, m, readers):
    """A fence for a reader is beyond the base, which is the counter as it was when the first reader came."""
    n = w.node(m)
    base = z3.If(readers, s.base(n), guard.value("base_is_the_counter", s.counter(n), s.base(n)))
    guard("fence_beyond_the_base", w.below(m) >= base)
    guard("a_block", w.block(w.tok(m)) >= 1)
    counter = guard.value("counter_is_raised", largest(w.mark(m), s.counter(n)), s.counter(n))
    return s.but(counter=put(s.counter, n, counter), base=put(s.base, n, base))


def native_acquire(w, s, guard, m):
    """SET NX PXAT and ZADD: whatever record the node has. MGET and TIME come behind them, as a step of their own."""
    n, t = w.node(m), w.tok(m)
    guard("sent", z3.And(w.kind(m) == NATIVE, s.sent(m), z3.Not(s.handled(m))))
    guard("no_key", w.every("T", lambda u: z3.Not(stands(s, n, u))))
    guard("not_kept", z3.Not(kept(s, n)))
    new = store(w, count(w, s, guard, m), None, n, t, w.key_end(m))
    new = new.but(placed=put(s.placed, m, TRUE), placed_at=put(s.placed_at, m, s.losses(n)))
    return cast(s, new, m)


def trailer(w, s, guard, m):
    n, _ = arrives(w, s, guard, m, (NATIVE,))
    guard("key_was_stored", s.placed(m))
    may_vote(w, s, guard, m)
    guard("time_is_left", s.clock(n) <= w.key_end(m))
    guard("counts_no_longer_than_is_left", w.counts(m) <= w.key_end(m) - s.clock(n))
    until = s.clock(n) + w.ttl(m)
    return grant(w, s, m, z3.If(w.key_end(m) < until, w.key_end(m), until)).but(behind=s.behind)


def acquire(w, s, guard, m):
    n, t = arrives(w, s, guard, m, (ACQUIRE,))
    may_vote(w, s, guard, m)
    for_one_alone(w, s, guard, n, t)
    until = s.clock(n) + w.ttl(m)
    return grant(w, count(w, store(w, s, guard, n, t, until), guard, m), m, until)


def extend(w, s, guard, m):
    """Modes 0 to 2: the own vote is lengthened, or stored where the lock is free."""
    n, t = arrives(w, s, guard, m, (EXTEND, REPAIR))
    may_vote(w, s, guard, m, (REPAIR,))
    for_one_alone(w, s, guard, n, t)
    until = s.clock(n) + w.ttl(m)
    new = store(w, s, guard, n, t, until)
    # The counter is raised to the fence of the lease, and never lowered.
    raised = guard.value("never_lowered", largest(w.mark(m), s.counter(n)), w.mark(m))
    return grant(w, new.but(counter=put(s.counter, n, raised)), m, until)


def confirm(w, s, guard, m):
    """Mode 3: a fence is written back to a vote that stands, and the vote is lengthened, in quarantine too."""
    n, t = arrives(w, s, guard, m, (CONFIRM, SHARE_CONFIRM))
    reader = w.kind(m) == SHARE_CONFIRM
    may_vote(w, s, guard, m, (CONFIRM, SHARE_CONFIRM))
    guard("own_vote_stands", z3.And(stands(s, n, t), s.reads(n, t) == reader))
    until = s.clock(n) + w.ttl(m)
    new = s.but(end=put(s.end, (n, t), largest(until, s.end(n, t))), stored=put(s.stored, n, TRUE))
    guard("fence_beyond_what_is_counted", w.below(m) >= z3.If(z3.And(reader, s.readers(n)), s.base(n), s.counter(n)))
    guard("a_block", w.block(t) >= 1)
    counter = guard.value("counter_is_raised", largest(w.mark(m), s.counter(n)), s.counter(n))
    return grant(w, new.but(counter=put(s.counter, n, counter)), m, until)


def share(w, s, guard, m):
    n, t = arrives(w, s, guard, m, (SHARE,))
    may_vote(w, s, guard, m)
    for_a_reader(w, s, guard, n, t)
    until = s.clock(n) + w.ttl(m)
    return grant(w, count_for_a_reader(w, store(w, s, guard, n, t, until, True), guard, m, s.readers(n)), m, until)


def share_extend(w, s, guard, m):
    n, t = arrives(w, s, guard, m, (SHARE_EXTEND, SHARE_REPAIR))
    may_vote(w, s, guard, m, (SHARE_REPAIR,))
    for_a_reader(w, s, guard, n, t)
    until = s.clock(n) + w.ttl(m)
    raised = guard.value("never_lowered", largest(w.mark(m), s.counter(n)), w.mark(m))
    base = z3.If(s.readers(n), s.base(n), guard.value("base_is_the_counter", raised, s.base(n)))
    new = store(w, s, guard, n, t, until, True)
    return grant(w, new.but(counter=put(s.counter, n, raised), base=put(s.base, n, base)), m, until)


def adopt(w, s, guard, m):
    """The vote of an exported lease becomes that of the token that adopts it."""
    n, t = arrives(w, s, guard, m, (ADOPT,))
    a = w.former(m)
    may_vote(w, s, guard, m)
    holds = lambda x: z3.And(stands(s, n, x), z3.Not(s.reads(n, x)))
    guard("former_or_own_vote_stands", z3.Or(holds(a), holds(t)))
    until = s.clock(n) + w.ttl(m)
    end = largest(until, z3.If(holds(a), s.end(n, a), s.end(n, t)))
    new = store(w, s, None, n, t, end)
    return grant(w, count(w, new, guard, m), m, until)


def release(w, s, guard, m):
    """However late, however often, over whichever connection: the vote of a dead token goes."""
    n, t = w.node(m), w.tok(m)
    guard("sent", z3.And(w.kind(m) == RELEASE, s.sent(m)))
    return s.but(has=lambda k, u: z3.If(z3.And(k == n, guard.value("own_vote_alone", u == t, TRUE)), FALSE, s.has(k, u)),
                 handled=put(s.handled, m, TRUE))


def keep(w, s, guard, m):
    """The lock stays taken. What a node in quarantine keeps counts for nothing."""
    n, t = arrives(w, s, guard, m, (KEEP,))
    guard("no_other_vote", w.every("T", lambda u: z3.Implies(stands(s, n, u), u == t)))
    guard("not_kept", z3.Not(kept(s, n)))
    counts = z3.And(z3.Implies(w.guarded(n), w.record_seen(m) == s.record(n)), z3.Not(quarantined(w, s, n)))
    counts = guard.value("counts_where_votes_do", counts, TRUE)
    new = s.but(has=lambda k, u: z3.If(k == n, FALSE, s.has(k, u)), keeps=put(s.keeps, n, TRUE), stored=put(s.stored, n, TRUE),
                keep_end=put(s.keep_end, n, s.clock(n) + w.ttl(m)), readers=put(s.readers, n, FALSE), handled=put(s.handled, m, TRUE))
    return new.but(granted=put(s.granted, m, counts))


def join(w, s, guard, n, t, until):
    """A waiter joins the queue: the key becomes a crowded one, which is over no sooner than the quiet one was."""
    guard("over_no_sooner", until >= s.end(n, t))
    return s.but(end=put(s.end, (n, t), until))


def serve(w, s, guard, n):
    """A free lock is handed to the first of the queue: it is reserved, and no vote is given by that."""
    guard("free", w.every("T", lambda u: z3.Not(stands(s, n, u))))
    guard("not_kept", z3.Not(kept(s, n)))
    return s.but(has=lambda k, u: z3.If(k == n, FALSE, s.has(k, u)), keeps=put(s.keeps, n, FALSE), readers=put(s.readers, n, FALSE))


def init(w, s, guard, n, seen, lasts):
    """A record of the present run is written, with a quarantine from now on, however late the request comes."""
    guard("connection_to_this_run", seen == s.run(n))
    guard("as_long_as_any_vote", lasts >= w.max_ttl)
    guard("as_long_as_any_keep", z3.Implies(lasts >= w.max_ttl, lasts >= w.longest))
    quarantine = guard.value("quarantine", largest(s.clock(n) + lasts, s.quarantine(n)), s.quarantine(n))
    return s.but(record=put(s.record, n, s.losses(n)), record_run=put(s.record_run, n, seen), quarantine=put(s.quarantine, n, quarantine))


def found(w, s, guard, n):
    """A wholly new set: a node that can have lost nothing is given its record without a quarantine."""
    guard("nothing_stored", z3.Not(s.stored(n)))
    guard("older_than_any_vote", s.clock(n) > s.began(n) + w.longest)
    return s.but(record=put(s.record, n, s.losses(n)), record_run=put(s.record_run, n, s.run(n)))
