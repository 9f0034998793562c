"""What holds in every state: the invariant, part by part, and what it is for (`PROMISES`). Each part is a statement about all of
some sorts (N node, T token, M request, Q quorum)."""

import z3

from model import ADOPT, COUNTED, KEEP, MARKED, NATIVE, RELEASE, SHARED


INVARIANT, PROMISES = {}, {}


def part(sorts, where=INVARIANT):
    def add(formula):
        where[formula.__name__] = (sorts, formula)
        return formula
    return add


def promise(sorts):
    return part(sorts, PROMISES)


def implies(*conditions):
    return z3.Implies(z3.And(list(conditions[:-1])), conditions[-1])


def lost(w, s, n):
    """Votes of this node may be forgotten: it has no record of its present memory, and gives no vote."""
    return s.record(n) != s.losses(n)


def is_vote(w, s, m):
    """The request brought a vote, for a token that lives."""
    return z3.And(s.granted(m), w.kind(m) != KEEP, z3.Not(s.dead(w.tok(m))))


def lasts(w, s, m):
    return z3.And(is_vote(w, s, m), s.clock(w.node(m)) <= s.vote_end(m))


def pends(w, s, m):
    """A native key that its client has not learnt of, and may."""
    n = w.node(m)
    return z3.And(s.placed(m), z3.Not(s.handled(m)), z3.Not(s.dead(w.tok(m))), s.placed_at(m) == s.losses(n), s.clock(n) <= w.key_end(m))


def is_marked(w, s, m):
    return z3.And(z3.Or(s.granted(m), s.placed(m)), w.is_kind(m, MARKED), w.counting(w.node(m)))


def alone(w, m):
    return z3.Not(w.is_kind(m, SHARED))


# Nodes.

@part("NTT")
def a_node_has_one_vote_or_readers(w, s, n, t, u):
    return implies(t != u, s.has(n, t), s.has(n, u), z3.And(s.reads(n, t), s.reads(n, u)))


@part("NT")
def readers_share(w, s, n, t):
    return implies(s.reads(n, t), s.shared(t))


@part("NT")
def what_is_kept_is_not_held(w, s, n, t):
    return implies(s.keeps(n), z3.Not(s.has(n, t)))


@part("NT")
def beside_readers_is_no_other(w, s, n, t):
    return implies(s.readers(n), s.has(n, t), s.reads(n, t))


@part("N")
def records_are_of_the_past(w, s, n):
    return z3.And(s.record_run(n) <= s.run(n), s.record(n) <= s.losses(n),
                  implies(s.record_run(n) == s.run(n), s.record(n) >= 0, s.record(n) == s.losses(n)))


@part("M")
def admitted_by_a_record(w, s, m):
    """The client's record is the node's only where the node has lost nothing since."""
    n = w.node(m)
    return implies(s.admitted(m), z3.And(
        w.run_seen(m) <= s.run(n),
        implies(w.guarded(n), z3.And(w.record_seen(m) <= s.losses(n), w.record_seen(m) >= 0)),
        implies(w.guarded(n), w.record_seen(m) == s.losses(n), s.record(n) == s.losses(n)),
        implies(w.guarded(n), w.run_seen(m) == s.run(n), w.record_seen(m) == s.record(n), s.record(n) == s.losses(n))))


@part("M")
def sent_by_the_rules(w, s, m):
    t = w.tok(m)
    return z3.And(z3.Implies(s.granted(m), s.handled(m)), z3.Implies(s.placed(m), w.kind(m) == NATIVE),
                  implies(z3.Or(s.handled(m), s.placed(m)), s.sent(m)),
                  implies(s.sent(m), w.kind(m) != RELEASE, s.admitted(m)),
                  implies(s.sent(m), w.kind(m) == ADOPT, s.exported(w.former(m))),
                  implies(s.sent(m), z3.Not(w.is_kind(m, (RELEASE, KEEP))), z3.And(
                      w.counts(m) <= w.ttl(m), w.ttl(m) <= w.max_ttl, w.asked(m) <= s.now(t),
                      z3.Implies(w.is_kind(m, SHARED), s.shared(t)))))


# Votes.

@part("M")
def a_client_counts_no_longer_than_the_node(w, s, m):
    t, n = w.tok(m), w.node(m)
    return implies(s.granted(m), w.kind(m) != KEEP, w.steady(n),
                   s.vote_end(m) - s.clock(n) >= w.asked(m) + w.counts(m) - s.now(t))


@part("M")
def no_vote_lasts_longer_than_max_ttl(w, s, m):
    n = w.node(m)
    return implies(s.granted(m), w.kind(m) != KEEP, w.sound(n), z3.And(
        s.vote_end(m) <= s.clock(n) + w.max_ttl, z3.Or(s.stored(n), s.vote_end(m) <= s.began(n) + w.max_ttl)))


@part("M")
def a_vote_stands_or_its_node_waits(w, s, m):
    t, n = w.tok(m), w.node(m)
    there = z3.And(s.has(n, t), s.end(n, t) >= s.vote_end(m))
    waits = z3.And(w.guarded(n), z3.Or(lost(w, s, n), s.quarantine(n) >= s.vote_end(m)))
    return implies(lasts(w, s, m), w.sound(n), z3.Or(there, waits))


@part("MM")
def of_two_votes_of_a_node_one_is_over(w, s, m, o):
    t, u = w.tok(m), w.tok(o)
    return implies(lasts(w, s, m), lasts(w, s, o), w.node(m) == w.node(o), w.sound(w.node(m)), t != u,
                   z3.And(s.shared(t), s.shared(u)))


@part("M")
def a_native_key_stands_until_its_end(w, s, m):
    t, n = w.tok(m), w.node(m)
    there = z3.And(s.has(n, t), s.end(n, t) >= w.key_end(m))
    return implies(s.placed(m), z3.And(
        s.placed_at(m) <= s.losses(n), z3.Implies(w.lasting(n), s.placed_at(m) == s.losses(n)), z3.Implies(w.guarded(n), w.record_seen(m) <= s.placed_at(m)),
        implies(s.placed_at(m) == s.losses(n), s.stored(n)),
        implies(s.placed_at(m) == s.losses(n), z3.Not(s.handled(m)), z3.Not(s.dead(t)), w.steady(n), s.clock(n) <= w.key_end(m), there)))


def passes(w, s, m):
    """The request passes a quarantine, if it comes now."""
    n = w.node(m)
    return z3.And(s.sent(m), w.is_kind(m, COUNTED), w.run_seen(m) == s.run(n), z3.Implies(w.guarded(n), w.record_seen(m) == s.record(n)))


@part("MM")
def no_vote_of_another_is_lost_beside_a_counted_one(w, s, m, o):
    """When it was sent its own vote lasted, and so no other did; and what the node has voted for since it has not lost, for it has
    the same record."""
    t, u, n = w.tok(m), w.tok(o), w.node(m)
    return implies(passes(w, s, m), lasts(w, s, o), w.node(o) == n, w.sound(n), t != u, z3.Not(z3.And(s.shared(t), s.shared(u))),
                   z3.And(s.has(n, u), s.end(n, u) >= s.vote_end(o)))


@part("MM")
def no_keep_is_lost_beside_a_counted_vote(w, s, m, o):
    n, left = w.node(m), w.kept_until(w.tok(o)) - s.now(w.tok(o))
    return implies(passes(w, s, m), s.granted(o), w.kind(o) == KEEP, left >= 0, w.node(o) == n, w.sound(n), w.tok(m) != w.tok(o),
                   z3.And(s.keeps(n), s.keep_end(n) - s.clock(n) >= left))


@part("T")
def an_exported_lease_is_over(w, s, t):
    return implies(s.exported(t), s.dead(t))


@part("M")
def a_released_token_is_dead(w, s, m):
    return implies(s.sent(m), w.is_kind(m, (RELEASE, KEEP)), s.dead(w.tok(m)))


# Fences.

@part("M")
def a_mark_is_counted(w, s, m):
    n = w.node(m)
    return implies(is_marked(w, s, m), z3.And(
        w.mark(m) <= s.counter(n), w.block(w.tok(m)) >= 1, implies(alone(w, m), s.readers(n), w.mark(m) <= s.base(n))))


@part("MM")
def marks_of_a_node_differ(w, s, m, o):
    return implies(is_marked(w, s, m), is_marked(w, s, o), m != o, w.node(m) == w.node(o), z3.Or(alone(w, m), alone(w, o)),
                   z3.Or(w.mark(m) <= w.below(o), w.mark(o) <= w.below(m)))


@part("MM")
def of_two_marks_the_smaller_is_of_a_vote_that_is_over(w, s, m, o):
    n = w.node(m)
    return implies(is_marked(w, s, m), is_marked(w, s, o), s.granted(o), n == w.node(o), w.tok(m) != w.tok(o), w.mark(m) <= w.below(o), w.sound(n),
                   z3.Not(z3.And(s.shared(w.tok(m)), s.shared(w.tok(o)))), z3.Not(z3.Or(lasts(w, s, m), pends(w, s, m))))


@part("TN")
def a_lease_has_a_quorum_of_one_mark(w, s, t, n):
    m = w.won_with(t, n)
    return implies(s.won(t), w.member(w.won_by(t), n), z3.And(
        s.granted(m), w.is_kind(m, MARKED), w.tok(m) == t, w.node(m) == n, w.mark(m) == w.fence(t)))


@part("T")
def the_fence_is_one_of_the_block(w, s, t):
    return implies(s.won(t), z3.And(s.passed(t) >= 0, s.passed(t) < w.block(t), s.nth(t) < s.wins()))


@part("MT")
def a_vote_behind_a_win_has_a_larger_mark(w, s, m, t):
    n, both = w.node(m), z3.And(s.shared(t), s.shared(w.tok(m)))
    return implies(is_marked(w, s, m), s.behind(m, t), w.member(w.won_by(t), n), z3.Not(both),
                   z3.And(s.won(t), w.fence(t) <= w.below(m)))


@part("TT")
def who_wins_later_has_the_larger_block(w, s, t, u):
    n = w.shared_node(w.won_by(t), w.won_by(u))
    return implies(w.quorums_share(w.won_by(t), w.won_by(u)), w.sound(n), w.counting(n), s.won(t), s.won(u), t != u, s.nth(t) <= s.nth(u),
                   z3.Not(z3.And(s.shared(t), s.shared(u))), w.fence(t) <= w.fence(u) - w.block(u))


# Keep.

@part("M")
def a_keep_stands_or_its_node_waits(w, s, m):
    n, left = w.node(m), w.kept_until(w.tok(m)) - s.now(w.tok(m))
    there = z3.And(s.keeps(n), s.keep_end(n) - s.clock(n) >= left)
    waits = z3.And(w.guarded(n), z3.Or(lost(w, s, n), s.quarantine(n) - s.clock(n) >= left))
    return implies(z3.Or(s.sent(m), s.granted(m)), w.kind(m) == KEEP, z3.And(
        left <= w.longest, w.ttl(m) >= left, implies(s.granted(m), w.sound(n), left >= 0, z3.And(
            z3.Or(there, waits), z3.Or(s.stored(n), s.clock(n) - s.began(n) <= w.longest - left)))))


@part("MM")
def no_vote_lasts_where_the_lock_is_kept(w, s, m, o):
    t = w.tok(m)
    return implies(s.granted(m), w.kind(m) == KEEP, s.now(t) <= w.kept_until(t), lasts(w, s, o), w.node(m) == w.node(o),
                   w.sound(w.node(m)), z3.BoolVal(False))


# What it is for. A lease is valid while a quorum of its votes lasts, as its client counts.

def counted(w, s, t, q, n, m):
    """Request m brought the vote of node n that the client of t counts on."""
    return z3.Implies(w.member(q, n), z3.And(
        s.granted(m), w.kind(m) != KEEP, w.tok(m) == t, w.node(m) == n, s.now(t) <= w.asked(m) + w.counts(m)))


def valid(w, s, t, q, n, m):
    return z3.And(s.won(t), z3.Not(s.dead(t)), counted(w, s, t, q, n, m))


@promise("TTQQMM")
def exclusion(w, s, t, u, p, q, m, o):
    n = w.shared_node(p, q)
    return implies(w.quorums_share(p, q), w.sound(n), t != u, valid(w, s, t, p, n, m), valid(w, s, u, q, n, o),
                   z3.And(s.shared(t), s.shared(u)))


def first(w, s, t):
    return w.fence(t) - w.block(t) + 1


@promise("TT")
def order(w, s, t, u):
    """The votes of u were cast after t was won."""
    n = w.shared_node(w.won_by(t), w.won_by(u))
    return implies(w.quorums_share(w.won_by(t), w.won_by(u)), w.counting(n), s.won(t), s.won(u), t != u,
                   z3.Not(z3.And(s.shared(t), s.shared(u))), s.behind(w.won_with(u, n), t), 
                   first(w, s, t) + s.passed(t) < first(w, s, u) + s.passed(u))


@promise("TT")
def no_two_have_one_fence(w, s, t, u):
    n = w.shared_node(w.won_by(t), w.won_by(u))
    return implies(w.quorums_share(w.won_by(t), w.won_by(u)), w.counting(n), s.won(t), s.won(u), t != u,
                   z3.Not(z3.And(s.shared(t), s.shared(u))), first(w, s, t) + s.passed(t) != first(w, s, u) + s.passed(u))


@promise("TT")
def what_is_won_later_has_the_larger_fence(w, s, t, u):
    n = w.shared_node(w.won_by(t), w.won_by(u))
    return implies(w.quorums_share(w.won_by(t), w.won_by(u)), w.sound(n), w.counting(n), s.won(t), s.won(u), t != u, s.nth(t) < s.nth(u),
                   z3.Not(z3.And(s.shared(t), s.shared(u))), first(w, s, t) + s.passed(t) < first(w, s, u) + s.passed(u))


@promise("TTQM")
def keep(w, s, t, u, q, o):
    """t's release said that a quorum keeps the lock: until then no lease is won, and none is valid."""
    n = w.shared_node(w.kept_by(t), q)
    m = w.kept_with(t, n)
    return implies(w.quorums_share(w.kept_by(t), q), w.sound(n), s.granted(m), w.kind(m) == KEEP, w.tok(m) == t, w.node(m) == n,
                   s.now(t) <= w.kept_until(t), z3.Not(valid(w, s, u, q, n, o)))
