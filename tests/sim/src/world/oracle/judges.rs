//! The verdicts on what the [oracle](super)'s books show.

use std::time::Duration;

use quorlock::sim::native::NativeReplies;
use quorlock::sim::{
    ClaimCell, Instant, LossReason, MemoryNode, Mode, Op, Reply, Request, ReservedFor, Value,
};

use super::{Seen, Watch, counted, holds_until, name_of, of_one_token, say, shared};
use crate::death;
use crate::history::Happened;
use crate::world::{Inner, MS, Node, Time, World};

/// Loss must be told within this time after the end of validity (S5).
const TOLD_WITHIN: Time = 10 * MS;

impl World {
    /// L1: no key of a dead token on a node, unless something is still on its
    /// way that will delete it; with `at_rest`, unconditionally.
    pub fn check_leaks(&self, at_rest: bool) {
        self.look_for_leaks(at_rest, false);
    }

    /// L1, when all ttls are over: of what was exported nothing is left either.
    pub fn check_leaks_of_all(&self) {
        self.look_for_leaks(true, true);
    }

    fn look_for_leaks(&self, at_rest: bool, over: bool) {
        let mut inner = self.inner();
        let mut leak = None;
        // A release is given up when no key can stand any more, but for clocks
        // that step back.
        let expected = &inner.admission.expected;
        let longest = expected.max_ttl * MS + 2 * inner.network.patience;
        let stepped_back = inner.oracle.stepped_back > 0 && !at_rest;
        for (i, node) in inner.nodes.iter().enumerate() {
            // A crowded key outlives the hold.
            for value in shared::all_votes(node, node.clock.local(inner.time)) {
                let Some(life) = inner.oracle.tokens.get(&name_of(&value.0)) else {
                    continue;
                };
                let dead = life.dead_since.is_some_and(|since| since < inner.time);
                let since = life.dead_since.unwrap_or(inner.time);
                let given_up = stepped_back && since + longest < inner.time;
                // An old snapshot brings dead keys back.
                let lost = node.forgot || inner.clients[life.client].crashed;
                // Its votes stand until they end, or another takes them over.
                let exported = !over && life.exported.is_some_and(|on| on[i]);
                let excused = lost || life.late[i] || given_up || exported;
                let under_way = life.under_way[i] != 0 || inner.found_no_room(life.client, i);
                if dead && !excused && (at_rest || !under_way) {
                    let token = String::from_utf8_lossy(&value.0[..6]).into_owned();
                    leak = Some(format!("L1 n{i} still holds a key of {token}"));
                }
            }
        }
        if at_rest {
            leak = leak.or_else(|| inner.left_in_line());
        }
        if over {
            leak = leak.or_else(|| inner.belongs_to_nobody());
        }
        if let Some(leak) = leak {
            inner.violated(leak);
        }
    }

    /// The leases at this moment: S1, S4, S5.
    pub fn check_holds(&self) {
        self.inner().check_holds();
    }

    /// S5: its holder looks at a lease that says this of itself, and was told
    /// that it is lost, or was not, having listened from `since` on.
    pub fn check_told(&self, index: usize, held: bool, since: Time, told: Option<LossReason>) {
        let mut inner = self.inner();
        inner.traces_looked(index, held, since, told);
        let watch = &inner.oracle.watches[index];
        let client = &inner.clients[watch.client];
        let (time, c) = (inner.time, watch.client);
        let valid = client.now(time) < watch.end();
        let ended = watch
            .cut_short
            .unwrap_or_else(|| client.clock.time(watch.last_end));
        let awake = client.awake_since <= ended;
        let late = awake && time > ended.max(since) + TOLD_WITHIN + death::rested();
        if let Some(reason) = told {
            inner.note(|| Happened::Lost { client: c, reason });
            inner.saw(|| format!("c{c} lost {reason:?}"));
        }
        if valid != held {
            inner.violated(format!("S5 c{c}: a lease says it is held: {held}"));
        } else if told.is_some() && held {
            inner.violated(format!("S5 c{c} holds a lease after its loss"));
        } else if told.is_some() && late {
            inner.violated(format!("S5 c{c} was told of its loss too late"));
        } else if told.is_none() && late && !held {
            inner.violated(format!("S5 c{c} was not told of its loss"));
        }
    }

    /// S4: an extension was confirmed that was asked for at `asked`.
    pub fn check_extended(&self, index: usize, asked: Instant, ttl: Duration) {
        let mut inner = self.inner();
        let watch = &inner.oracle.watches[index];
        let cap = watch.hold.terms().asked.max_hold;
        let least = (asked + counted(ttl, watch.hold.terms().drift))
            .min(cap.map_or(Instant::FAR, |d| watch.hold.begun() + d));
        let end = watch.end();
        let c = watch.client;
        if end == Instant::NEVER {
            inner.violated(format!("S5 c{c} was told that a lost lease is extended"));
        } else if end + Duration::from_micros(1) < least {
            inner.violated(format!("S4 c{c} was told that its lease is extended"));
        }
    }
}

impl Inner {
    /// S4: a lease ends with the quorum-th of its confirmed votes, and with
    /// its cap.
    pub(super) fn check_honest(&mut self, index: usize) {
        let watch = &self.oracle.watches[index];
        let (listed, quorum) = self.listed(watch.client);
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return;
        };
        let mut ends = life.ends;
        let ends = &mut ends[..listed];
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let cap = watch.hold.terms().asked.max_hold;
        let begun = watch.hold.begun();
        let cap = cap.map_or(Instant::FAR, |d| begun + d);
        let end = watch.end();
        let c = watch.client;
        // It counts from the attempt that won: not before the first request, and not
        // behind the first vote, but for one that was lost, or came over a connection given up.
        let first = self.clients[c].now(life.first_vote) + Duration::from_micros(1);
        let counted =
            life.begun <= begun && (begun <= first || life.denied || life.late[life.first_voter]);
        let seen = self.oracle.steps_seen;
        if end + Duration::from_micros(1) < ends[quorum - 1].min(cap) && !seen {
            self.violated(format!("S4 c{c}'s lease ends before its votes do"));
        } else if end > ends[quorum - 1] + Duration::from_micros(1) {
            self.violated(format!("S4 c{c} counts on votes that were not confirmed"));
        } else if end > cap + Duration::from_micros(1) || !counted {
            self.violated(format!("S4 c{c} holds a lease beyond its max_hold"));
        }
    }

    /// S4: a lease that is lost before its end has lost its votes.
    pub(super) fn check_cut_short(&mut self, index: usize, now: Instant) {
        let watch = &self.oracle.watches[index];
        let c = watch.client;
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return;
        };
        let (listed, quorum) = self.listed(c);
        let standing = life.ends[..listed].iter();
        let standing = standing.filter(|end| **end > now).count();
        if standing >= quorum && !self.oracle.steps_seen {
            self.violated(format!("S4 c{c}'s lease is lost although its votes stand"));
        }
    }

    pub(super) fn check_holds(&mut self) {
        let time = self.time;
        let gone = |node: &Node| node.excused || node.forgot;
        let gone_any = self.nodes.iter().any(gone);
        let mut active = std::mem::take(&mut self.oracle.active);
        active.retain(|i| {
            let w = &self.oracle.watches[*i];
            let kept = w.given_back.iter().any(|handle| handle.strong_count() > 0);
            let done = (w.over || w.released) && !kept;
            !self.clients[w.client].crashed && (!done || w.end() != Instant::NEVER)
        });
        for i in &active {
            self.traces_standing(*i);
        }
        let mut valid = Vec::new();
        let mut wrong = None;
        for i in &active {
            let w = &self.oracle.watches[*i];
            let (c, now) = (w.client, self.clients[w.client].now(time));
            if now < say(&w.given_back) {
                wrong = Some(format!("S5 a released handle of c{c} says that it is held"));
            }
            // What users see is judged, not what the votes come to.
            if now >= say(&w.handles) {
                self.oracle.watches[*i].over |= now >= w.end();
                continue;
            }
            if w.over || w.released {
                wrong = Some(format!("S5 a lease of c{c} is valid that was over"));
            }
            let (n, quorum) = self.listed(c);
            let mut votes = self.votes(&w.hold);
            if gone_any {
                // A server that is listed twice is gone twice: nothing tells it
                // from two until both are connected to it anew.
                let own = &self.pairs[c * self.nodes.len()..][..n];
                votes += own.iter().filter(|p| gone(&self.nodes[p.node])).count();
            }
            // Who was forced out learns it with its next renewal: until then it is no judge.
            if self.is_forced(&w.name) {
                continue;
            }
            if votes < quorum {
                wrong = Some(format!(
                    "S4 c{c} believes in a lease that {votes} of {n} nodes hold"
                ));
            }
            valid.push(*i);
        }
        for (n, a) in valid.iter().enumerate() {
            for b in &valid[..n] {
                let (a, b) = (&self.oracle.watches[*a], &self.oracle.watches[*b]);
                let same = a.hold.lock_key() == b.hold.lock_key();
                let both = (a.hold.mode(), b.hold.mode()) == (Mode::Shared, Mode::Shared);
                if same && !both && (self.stands(a, b) || self.stands(b, a)) {
                    wrong = Some(format!(
                        "S1 c{} and c{} hold valid leases at once",
                        a.client, b.client
                    ));
                }
            }
        }
        wrong = wrong.or_else(|| self.too_many(&valid));
        self.oracle.active = active;
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }

    /// Whether S1 is promised for a valid lease, as against `other`: see the
    /// module.
    pub(super) fn stands(&self, watch: &Watch, other: &Watch) -> bool {
        if self.nodes.iter().all(|node| !node.excused) {
            return true;
        }
        // As the other lists them: a server listed twice gives it two votes.
        let excused = self.excused(other.client);
        let now = self.clients[watch.client].now(self.time);
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return false;
        };
        let n = self.nodes.len();
        let own = &self.pairs[watch.client * n..][..n];
        let on_all_others = own
            .iter()
            .zip(&life.ends)
            .all(|(pair, end)| self.nodes[pair.node].excused || now < *end);
        // One that lists a server twice has no vote on all nodes.
        let all = (0..n).all(|node| own.iter().any(|pair| pair.node == node));
        let on_all_others = on_all_others && all;
        excused < self.listed(other.client).1 && on_all_others
    }

    /// How many nodes that are not excused, and kept their data, hold the lease's vote.
    fn votes(&self, hold: &ClaimCell) -> usize {
        let holds = |node: &&Node| !(node.excused || node.forgot) && self.has_vote(node, hold);
        self.nodes.iter().filter(holds).count()
    }

    /// A node has carried out what one request asks: S2, S3, L4 by what has changed on it.
    pub(in crate::world) fn judge_after(
        &mut self,
        node: usize,
        server: u64,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) {
        if matches!(request.keys.mode, Mode::AnySlot(_)) {
            return self.judge_choice(node, request, seen, reply);
        }
        self.check_apart(node, request, seen);
        self.check_counter(node, request, seen, reply);
        self.check_theft(node, request, seen);
        self.judge_readers(node, request, seen, reply);
        self.check_quarantined(node, server, request, seen, reply);
        self.note_kept(node, request, reply);
        self.note_taken_over(node, request, reply);
        let granted = matches!(reply, Some(Reply::Granted { .. }));
        if granted && request.keys.mode.slot().is_some() && self.voted_twice(node, request) {
            self.violated(format!("SE2 n{node} votes for two slots of one token"));
        }
        if granted && request.keys.mode.is_alone() {
            self.check_order(node, request, seen);
            self.check_mark(node, request, seen);
        }
        let reserved = seen.form.as_ref();
        let reserved = reserved.and_then(|(form, _)| form.reserved(MemoryNode::time(seen.local)));
        let let_in = matches!(request.op, Op::Acquire { let_in: true, .. });
        let another = match (reserved, request.keys.mode) {
            (None, _) | (Some(ReservedFor::NoWaiter), _) => false,
            (Some(ReservedFor::Waiter(_)), Mode::Shared) if let_in => false,
            (Some(ReservedFor::Waiter(waiter)), mode) if mode.is_alone() => {
                Some(waiter) != request.waiter.as_ref()
            }
            (Some(ReservedFor::Readers(_)), Mode::Shared) => false,
            (Some(_), _) => true,
        };
        let own = seen
            .readers
            .iter()
            .any(|(value, _)| *value == request.value);
        if granted && another && !own {
            self.violated(format!("L4 n{node} votes past a reservation"));
        }
    }

    /// A node has carried out the commands of a native acquire. `counts`: a trailer says what
    /// they are worth, and they may propose a fence.
    pub(in crate::world) fn judge_vote(
        &mut self,
        node: usize,
        request: &Request,
        seen: &Seen,
        voted: NativeReplies,
        counts: bool,
    ) {
        self.count_native(seen);
        self.check_apart(node, request, seen);
        if voted.stored {
            self.notes_too_late(node, request);
        }
        // In quarantine nobody stands in line: the trailer says so, and the vote counts for nothing.
        let quarantined = self.nodes[node].state.quarantine(seen.local).is_some();
        if voted.stored && !(counts && quarantined) {
            self.check_order(node, request, seen);
        }
        if voted.stored && seen.form.is_some() {
            self.violated(format!("S3 n{node} votes natively over what stands there"));
        }
        self.check_theft(node, request, seen);
        let Op::Acquire { candidate, .. } = request.op else {
            return;
        };
        let Some((counter, _)) = request.keys.counter().filter(|_| counts) else {
            return;
        };
        let (before, state) = (seen.counted, &self.nodes[node].state);
        let after = state.fence(counter, seen.local).unwrap_or(0);
        if after != before.max(candidate) || voted.counted && candidate <= before {
            self.violated(format!(
                "S2 n{node}'s counter went from {before} to {after} for {candidate}"
            ));
        }
    }

    /// S3: only the token that holds the lock lengthens its hold, or ends it. To make it
    /// crowded changes no more than what is rounded.
    pub(super) fn check_theft(&mut self, node: usize, request: &Request, seen: &Seen) {
        let time = MemoryNode::time(seen.local);
        let Some((form, end)) = &seen.form else {
            return;
        };
        let strange = |holder: &&Value| !of_one_token(holder, &request.value);
        let Some(holder) = form.holder(time).filter(strange) else {
            return;
        };
        // Of a lease that goes on elsewhere the votes are taken over.
        let adopted = request.keys.adopts.as_ref();
        if adopted.is_some_and(|adopted| of_one_token(&adopted.value, holder)) {
            return;
        }
        let until = holds_until(form, *end);
        let after = self.nodes[node].state.form(&request.keys.lock, seen.local);
        let same = after.is_some_and(|(after, end)| {
            let kept = if holder.is_ours() {
                after.holder(time) == Some(holder)
            } else {
                after == form
            };
            let now = holds_until(after, end);
            kept && until <= now && now <= until + 2 * ROUNDED
        });
        if !same {
            self.violated(format!(
                "S3 a stranger's {:?} changed a key on n{node}",
                request.op
            ));
        }
    }

    /// S3, rules R11 and Q: in quarantine a vote is stored anew, or confirmed, only on a
    /// server that gave it, while its end is still ahead by that server's clock.
    /// A client does not know of a step of that clock before it is told.
    fn check_quarantined(
        &mut self,
        node: usize,
        server: u64,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) {
        let fails_over = self.fails_over(node);
        let vote = self.vote_of(node, server, request);
        let promises = match reply {
            Some(Reply::Granted { .. } | Reply::Confirmed) => "confirms a vote",
            Some(Reply::Extended { repaired: false }) => "keeps a vote",
            Some(Reply::Extended { repaired: true }) => "takes a vote back",
            _ => return,
        };
        if seen.quarantined && !self.oracle.steps_seen {
            let end = self.oracle.votes.get(&vote);
            // The one that succeeds another has a clock of its own.
            if end.is_none_or(|end| !fails_over && *end < seen.local) {
                let what = match end {
                    Some(_) => "that has ended",
                    None => "that it never gave",
                };
                self.violated(format!("S3 n{node} {promises} {what}"));
            }
        }
        if seen.guarded {
            self.promised(node, server, request, seen.local);
        }
    }

    /// Whose vote it is: of two servers of one node each may give what the other gave, as S1
    /// permits.
    fn vote_of(&self, node: usize, server: u64, request: &Request) -> (u64, u64) {
        let server = if self.fails_over(node) {
            1 + node as u64
        } else {
            server
        };
        (server, name_of(&request.value.0))
    }

    /// A server has promised to keep what stands there for the request's token.
    pub(in crate::world) fn promised(
        &mut self,
        node: usize,
        server: u64,
        request: &Request,
        local: Instant,
    ) {
        let vote = self.vote_of(node, server, request);
        let votes = self.votes_for(node, request, local);
        if let Some((_, end)) = votes.iter().find(|(value, _)| *value == request.value) {
            // Servers count whole milliseconds.
            let end = *end + ROUNDED;
            let kept = self.oracle.votes.entry(vote).or_insert(end);
            *kept = end.max(*kept);
        }
    }
}

/// What times may be rounded by on a node.
const ROUNDED: Duration = Duration::from_millis(1);
