"""The steps of clients: what they ask nodes for, and when a lease begins, is passed on and ends."""

import z3

from model import ACQUIRE, ADOPT, CONFIRM, EXTEND, KEEP, MARKED, NATIVE, RELEASE, REPAIR, SHARE, SHARED, SHARE_CONFIRM, SHARE_EXTEND
from model import SHARE_REPAIR, put


def see(w, s, guard, m):
    """A client connects, and reads the run of the server and the record of the node."""
    n = w.node(m)
    guard("its_run", w.run_seen(m) == s.run(n))
    guard("its_record", z3.Implies(w.guarded(n), z3.And(w.record_seen(m) == s.record(n), s.record(n) >= 0)))
    guard("record_of_this_run", z3.Implies(w.guarded(n), s.record_run(n) == s.run(n)))
    return s.but(admitted=put(s.admitted, m, z3.BoolVal(True)))


def send(w, s, guard, m, kinds):
    """A request is written to a node. What it says of itself is what its client knows."""
    guard("kind", z3.And(w.is_kind(m, kinds), z3.Not(s.sent(m))))
    guard("admitted", s.admitted(m))
    guard("counts_from_before_it_is_sent", w.asked(m) <= s.now(w.tok(m)))
    guard("counts_no_longer_than_the_ttl", w.counts(m) <= w.ttl(m))
    guard("one_max_ttl", w.ttl(m) <= w.max_ttl)
    return s.but(sent=put(s.sent, m, z3.BoolVal(True)))


def ask(w, s, guard, m):
    return send(w, s, guard, m, (NATIVE, ACQUIRE))


def share(w, s, guard, m):
    guard("says_that_it_shares", s.shared(w.tok(m)))
    return send(w, s, guard, m, (SHARE,))


def renew(w, s, guard, m):
    """Modes 0 and 1 may be sent for any token. Mode 2 is for a vote that is counted."""
    guard("readers_share", z3.Implies(w.is_kind(m, SHARED), s.shared(w.tok(m))))
    for_a_counted_vote(w, s, guard, m, (REPAIR, SHARE_REPAIR))
    return send(w, s, guard, m, (EXTEND, REPAIR, SHARE_EXTEND, SHARE_REPAIR))


def write_back(w, s, guard, m):
    guard("readers_share", z3.Implies(w.is_kind(m, SHARED), s.shared(w.tok(m))))
    for_a_counted_vote(w, s, guard, m, (CONFIRM, SHARE_CONFIRM))
    return send(w, s, guard, m, (CONFIRM, SHARE_CONFIRM))


def for_a_counted_vote(w, s, guard, m, kinds):
    """Half of R11. The other half, that it is of this very server and not later than the end of that vote, is not needed where
    nodes compare records: see `no_vote_of_another_is_lost_beside_a_counted_one`."""
    c = w.counted(m)
    of = lambda condition: z3.Implies(w.is_kind(m, kinds), condition)
    guard("a_vote_of_this_token_and_node", of(z3.And(s.granted(c), w.tok(c) == w.tok(m), w.node(c) == w.node(m), w.kind(c) != KEEP)))
    guard("which_it_counts_now", of(z3.And(z3.Not(s.dead(w.tok(m))), s.now(w.tok(m)) <= w.asked(c) + w.counts(c))))


def adopt(w, s, guard, m):
    guard("exported", s.exported(w.former(m)))
    return send(w, s, guard, m, (ADOPT,))


def counts(w, s, m):
    """The client still counts the vote that this request brought."""
    t = w.tok(m)
    return z3.And(s.granted(m), w.kind(m) != KEEP, z3.Not(s.dead(t)), s.now(t) <= w.asked(m) + w.counts(m))


def win(w, s, guard, t):
    """A lease begins. Nothing is asked of how long the votes last: see `min_validity` in numbers.py."""
    q = w.won_by(t)
    each = lambda condition: w.every("N", lambda n: z3.Implies(w.member(q, n), condition(n, w.won_with(t, n))))
    guard("alive", z3.Not(s.dead(t)))
    guard("a_quorum_of_its_votes", each(lambda n, m: z3.And(s.granted(m), w.kind(m) != KEEP, w.tok(m) == t, w.node(m) == n)))
    guard("that_last", each(lambda n, m: s.now(t) <= w.asked(m) + w.counts(m)))
    guard("each_with_a_mark", each(lambda n, m: w.is_kind(m, MARKED)))
    guard("of_one_fence", each(lambda n, m: w.mark(m) == w.fence(t)))
    guard("a_block", w.block(t) >= 1)
    return s.but(won=put(s.won, t, z3.BoolVal(True)), nth=put(s.nth, t, s.wins()), wins=lambda: s.wins() + 1,
                 passed=put(s.passed, t, z3.IntVal(0)))


def pass_on(w, s, guard, t):
    """A lease ends, and another begins on its votes, with the next fence of the block."""
    guard("within_the_block", s.passed(t) + 1 < w.block(t))
    return s.but(passed=put(s.passed, t, s.passed(t) + 1))


def give_up(w, s, guard, t):
    """An attempt that is not won, or a lease: its token is dead from now on. So ends a lease that is lost, or whose client ends."""
    return s.but(dead=put(s.dead, t, z3.BoolVal(True)))


def release(w, s, guard, m):
    """A lease, or an attempt, ends, and its votes are taken back: each node is sent a release (R1: the token is dead before)."""
    t = w.tok(m)
    guard("kind", z3.And(w.is_kind(m, (RELEASE, KEEP)), z3.Not(s.sent(m))))
    guard("admitted", z3.Implies(w.kind(m) == KEEP, s.admitted(m)))
    dead = guard.value("token_is_dead", z3.BoolVal(True), s.dead(t))
    # What is left of the keep is counted by the client, and stretched by the drift.
    guard("no_longer_than_keep", z3.Implies(w.kind(m) == KEEP, z3.And(w.kept_until(t) <= s.now(t) + w.longest, w.asked(m) == s.now(t))))
    guard("no_less_than_is_left", z3.Implies(w.kind(m) == KEEP, w.ttl(m) >= w.kept_until(t) - s.now(t)))
    return s.but(dead=put(s.dead, t, dead), sent=put(s.sent, m, z3.BoolVal(True)))


def export(w, s, guard, t):
    """The client takes its lease for ended, and leaves the votes to who adopts it."""
    dead = guard.value("lease_is_over", z3.BoolVal(True), s.dead(t))
    return s.but(dead=put(s.dead, t, dead), exported=put(s.exported, t, z3.BoolVal(True)))


def downgrade(w, s, guard, t):
    """The holder says that the lock is shared from now on."""
    return s.but(shared=put(s.shared, t, z3.BoolVal(True)))
