//! What is watched from outside: tokens, leases and keys, for the invariants.
//!
//! The oracle keeps books of its own: what each node has confirmed to each
//! token, and from when that counts. It judges what the faults of the schedule
//! leave promised:
//!
//! - S3, S4 (by the books), S5, L2, L5: always.
//! - L1: but for what `not_after` bounds. A request on a connection that broke
//!   may be carried out after its release was, within 1.1 node timeouts (and
//!   what is not known of the node's clock) of its sending; its key then
//!   stands for its ttl. Plain requests, without guard and fences, carry no
//!   `not_after`, and a step back of the clock lengthens it.
//! - S1, and that the votes a lease counts on are really there: a node is
//!   *excused* once its clock has stepped forward or it has lost data without
//!   a guard. With none excused, always. With fewer than a quorum of them, for
//!   a lease whose votes stand on all the others (the design's "with votes on
//!   all N nodes, q-1 of them may step"). With a quorum of them, never.
//!   A node that lost data with a guard is not excused: it votes for nobody.
//! - S2: whatever clocks do, while fewer nodes lost their counters, since the
//!   other hold's first vote, than any two quorums share. And on each node: its
//!   counter never goes back, stays near its clock, and what it says is so.
//!
//! Nothing here calls a hold in a way that changes it: a lease that nobody
//! looks at stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::{Hold, Instant, LossReason, MemoryNode, Op, Reply, Request, Ticket, Value};

use super::network::Open;
use super::{Inner, MS, Node, Time, World};
use crate::contender::KEYS;
use crate::plan::DRIFT;

/// Loss must be told within this time after the end of validity (S5).
const TOLD_WITHIN: Time = 10 * MS;
const MOST_NODES: usize = 7;

/// A step of a node's clock that is larger than this, in µs, is seen.
const STEP_SEEN: i64 = 2_100;

#[derive(Default)]
pub(super) struct Oracle {
    /// What each client was last told of each node's `TIME`: the most that it
    /// is ahead of the client's clock, in µs, and when.
    node_times: Vec<Option<(i64, Instant)>>,
    /// A node's clock has stepped.
    pub(super) steps_seen: bool,
    tokens: BTreeMap<u64, Life>,
    watches: Vec<Watch>,
    /// Those that may be valid.
    active: Vec<usize>,
    /// How far node clocks stepped back in all: keys live longer by it.
    pub(super) stepped_back: Time,
}

/// What is known of a token from outside.
struct Life {
    task: usize,
    client: usize,
    /// Since when its task has no use for it any more.
    dead_since: Option<Time>,
    /// When its first request was sent, by its client's clock.
    begun: Instant,
    /// When a node first voted for it.
    first_vote: Time,
    /// Until when each node has confirmed to hold it, by the client's clock.
    ends: [Instant; MOST_NODES],
    watch: Option<usize>,
    /// Its home has voted for it, and it has not been given up.
    at_home: bool,
    /// Requests on their way to each node, and releases that wait for their
    /// acknowledgement.
    under_way: [i32; MOST_NODES],
    /// A node carried out a request that came over a connection given up, or
    /// the release behind it was lost with that connection; within the
    /// request's `not_after`.
    late: [bool; MOST_NODES],
}

/// A lease that some contender holds or held.
struct Watch {
    name: u64,
    client: usize,
    hold: Arc<Hold>,
    /// Which of the token's leases it is.
    lease: u32,
    /// The contender gave it up.
    released: bool,
    /// It was passed on: the token lives.
    passed: bool,
    /// It was seen invalid.
    over: bool,
    /// Its end as it was seen last.
    last_end: Instant,
    /// When it was lost before its end.
    cut_short: Option<Time>,
    won_at: Time,
    fence: Option<u64>,
}

impl Watch {
    /// The end of this lease of the token.
    fn end(&self) -> Instant {
        if self.hold.lease() == self.lease {
            self.hold.end()
        } else {
            Instant::NEVER
        }
    }
}

/// A lease as it was before a reply.
pub(super) struct Before {
    watch: usize,
    end: Instant,
    now: Instant,
}

/// The hold's fencing token, if its lock counts them.
fn fence_of(hold: &Hold) -> Option<u64> {
    hold.terms().keys.counter.as_ref().map(|_| hold.fence())
}

/// A token's first 64 bits, as a name for it.
fn name_of(token: &[u8]) -> u64 {
    let digit = |name, byte: &u8| name << 4 | u64::from((byte & 15) + (byte >> 6) * 9);
    token.iter().take(16).fold(0, digit)
}

/// Which of the locks a key is.
fn place_of(key: &[u8]) -> usize {
    usize::from(key == KEYS[1])
}

/// S4: how long a confirmed request counts, written out independently.
fn counted(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl.mul_f64(DRIFT) + Duration::from_millis(2))
}

impl World {
    /// The polled task has no use any more for its tokens, but for `kept`.
    pub fn done_with_tokens(&self, kept: Option<&str>) {
        let mut inner = self.inner();
        let (now, task) = (inner.time, inner.polled);
        let kept = kept.map(|token| name_of(token.as_bytes()));
        for (token, life) in &mut inner.oracle.tokens {
            if life.task == task && life.dead_since.is_none() && kept != Some(*token) {
                life.dead_since = Some(now);
            }
        }
    }

    /// L1: no key of a dead token on a node, unless something is still on its
    /// way that will delete it; with `at_rest`, unconditionally.
    pub fn check_leaks(&self, at_rest: bool) {
        let mut inner = self.inner();
        let mut leak = None;
        // A release is given up when no key can stand any more, but for clocks
        // that step back.
        let expected = &inner.admission.expected;
        let longest = expected.max_ttl * MS + 2 * inner.network.patience;
        let stepped_back = inner.oracle.stepped_back > 0 && !at_rest;
        for (i, node) in inner.nodes.iter().enumerate() {
            let now = node.clock.local_ms(inner.time);
            for (_, value) in node.state.keys(now) {
                let Some(life) = inner.oracle.tokens.get(&name_of(&value.0)) else {
                    continue;
                };
                let dead = life.dead_since.is_some_and(|since| since < inner.time);
                let since = life.dead_since.unwrap_or(inner.time);
                let given_up = stepped_back && since + longest < inner.time;
                // An old snapshot brings dead keys back.
                let lost = node.forgot || inner.clients[life.client].crashed;
                let excused = lost || life.late[i] || given_up;
                if dead && !excused && (at_rest || life.under_way[i] == 0) {
                    let token = String::from_utf8_lossy(&value.0[..6]).into_owned();
                    leak = Some(format!("L1 n{i} still holds a key of {token}"));
                }
            }
        }
        if let Some(leak) = leak {
            inner.violated(leak);
        }
    }

    /// Reports a broken invariant.
    pub fn violated(&self, what: String) {
        self.inner().violated(what);
    }

    /// A contender got this lease, in this moment. Returns its place.
    pub fn won(&self, client: usize, hold: &Arc<Hold>) -> usize {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let name = name_of(hold.token().as_str().as_bytes());
        let (time, now) = (inner.time, inner.clients[client].now(inner.time));
        let end = hold.end();
        inner.note(|| format!("c{client} won {}", &hold.token().as_str()[..6]));
        // The winner runs in the moment of the verdict.
        if now + hold.terms().timing.min_validity > end {
            inner.violated(format!("S4 c{client} won a lease with too little validity"));
        }
        let index = inner.oracle.watches.len();
        inner.oracle.watches.push(Watch {
            name,
            client,
            hold: hold.clone(),
            lease: hold.lease(),
            released: false,
            passed: false,
            over: false,
            last_end: end,
            cut_short: (end == Instant::NEVER).then_some(time),
            won_at: time,
            fence: fence_of(hold),
        });
        if let Some(life) = inner.oracle.tokens.get_mut(&name) {
            life.watch = Some(index);
            life.task = inner.polled;
        }
        inner.oracle.active.push(index);
        inner.due(inner.clients[client].clock.time(end));
        inner.check_honest(index);
        inner.check_fence(index);
        inner.check_holds();
        index
    }

    /// The contender is about to give its lease up.
    pub fn give_up(&self, index: usize) {
        self.inner().oracle.watches[index].released = true;
    }

    /// It was passed on to another contender of its client.
    pub fn passed_on(&self, index: usize) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let watch = &mut inner.oracle.watches[index];
        watch.passed = true;
        if let Some(life) = inner.oracle.tokens.get_mut(&watch.name) {
            // Nobody's, until that other takes it.
            life.task = usize::MAX;
        }
    }

    /// It has given it up: it is over, from before the first byte was sent.
    pub fn gave_up(&self, index: usize) {
        let mut inner = self.inner();
        let watch = &inner.oracle.watches[index];
        let (client, hold, end) = (watch.client, watch.hold.clone(), watch.end());
        inner.note(|| format!("c{client} released {}", &hold.token().as_str()[..6]));
        if end != Instant::NEVER {
            inner.violated(format!("S5 a released lease of c{client} is valid"));
        }
        inner.oracle.active.retain(|i| *i != index);
    }

    /// The leases at this moment: S1, S4, S5.
    pub fn check_holds(&self) {
        self.inner().check_holds();
    }

    /// S5: its holder looks at a lease that says this of itself, and was told
    /// that it is lost, or was not, having listened from `since` on.
    pub fn check_told(&self, index: usize, held: bool, since: Time, told: Option<LossReason>) {
        let mut inner = self.inner();
        let watch = &inner.oracle.watches[index];
        let client = &inner.clients[watch.client];
        let (time, c) = (inner.time, watch.client);
        let valid = client.now(time) < watch.end();
        let ended = watch
            .cut_short
            .unwrap_or_else(|| client.clock.time(watch.last_end));
        let awake = client.awake_since <= ended;
        let late = awake && time > ended.max(since) + TOLD_WITHIN;
        if let Some(reason) = told {
            inner.note(|| format!("c{c} lost {reason:?}"));
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
        let cap = watch.hold.terms().max_hold;
        let least =
            (asked + counted(ttl)).min(cap.map_or(Instant::FAR, |d| watch.hold.begun() + d));
        let end = watch.end();
        let c = watch.client;
        if end == Instant::NEVER {
            inner.violated(format!("S5 c{c} was told that a lost lease is extended"));
        } else if end + Duration::from_micros(1) < least {
            inner.violated(format!("S4 c{c} was told that its lease is extended"));
        }
    }

    /// When a lease ends, in true time, if nothing lengthens it.
    pub fn end_of(&self, index: usize) -> Time {
        let inner = self.inner();
        let watch = &inner.oracle.watches[index];
        inner.clients[watch.client].clock.time(watch.end())
    }

    /// Whether the client has been awake since a time: nothing held it up.
    pub fn awake_since(&self, client: usize, since: Time) -> bool {
        let inner = self.inner();
        inner.clients[client].awake_since <= since
    }

    /// Whether the client is gone.
    pub fn is_crashed(&self, client: usize) -> bool {
        self.inner().clients[client].crashed
    }

    /// How far node clocks stepped back in all.
    pub fn stepped_back(&self) -> Time {
        self.inner().oracle.stepped_back
    }

    /// How many keys live on all nodes.
    pub fn all_keys(&self) -> usize {
        let inner = self.inner();
        let living = |node: &Node| node.state.keys(node.clock.local_ms(inner.time)).count();
        inner.nodes.iter().map(living).sum()
    }
}

impl Inner {
    pub(super) fn violated(&mut self, what: String) {
        if self.violation.is_none() {
            self.note(|| format!("VIOLATION {what}"));
            self.violation = Some(what);
        }
    }

    fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// In how many places of its list a client has nodes that are excused.
    fn excused(&self, client: usize) -> usize {
        let n = self.nodes.len();
        let own = self.pairs[client * n..][..n].iter();
        own.filter(|p| self.nodes[p.node].excused).count()
    }

    /// A client is about to send a request. S3, S5: nothing is renewed or
    /// repaired but for a lease that is valid in that moment.
    pub(super) fn asked(&mut self, client: usize, request: &Request) {
        let name = name_of(&request.value.0);
        let now = self.clients[client].now(self.time);
        match request.op {
            Op::Acquire { .. } => {
                let fresh = Life {
                    task: self.polled,
                    client,
                    dead_since: None,
                    begun: now,
                    first_vote: Time::MAX,
                    ends: [Instant::NEVER; MOST_NODES],
                    watch: None,
                    at_home: false,
                    under_way: [0; MOST_NODES],
                    late: [false; MOST_NODES],
                };
                self.oracle.tokens.entry(name).or_insert(fresh);
            }
            Op::Extend { .. } => {
                let life = self.oracle.tokens.get(&name);
                let watch = life.and_then(|life| life.watch);
                let valid = watch.is_some_and(|i| {
                    let w = &self.oracle.watches[i];
                    now < w.hold.end() && (w.passed || !w.released)
                });
                if !valid {
                    self.violated("S3 a vote was renewed for a lease that is not valid".into());
                }
            }
            Op::Release => {
                let life = self.oracle.tokens.get_mut(&name);
                let lost = life.filter(|life| life.watch.is_none());
                if lost.is_some_and(|life| std::mem::take(&mut life.at_home)) {
                    self.backs_off(&request.keys.lock);
                }
            }
            Op::Confirm { .. } => {}
        }
    }

    /// A waiter asks with that token.
    pub(super) fn waits_with(&mut self, client: usize, waiter: u64, request: &Request) {
        let name = name_of(&request.value.0);
        self.clients[client].asked_with.insert(waiter, name);
    }

    /// Whether a waiter has won already: a request of its that came late has
    /// queued it once more.
    pub(super) fn has_won(&self, client: usize, waiter: u64) -> bool {
        let token = self.clients[client].asked_with.get(&waiter);
        let life = token.and_then(|token| self.oracle.tokens.get(token));
        life.is_some_and(|life| life.watch.is_some())
    }

    /// So many more requests are on their way to a node.
    pub(super) fn under_way(&mut self, node: usize, request: &Request, more: i32) {
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            life.under_way[node] += more;
        }
    }

    /// A node carried out a request that came over a connection given up, or
    /// the release behind it was lost with that connection.
    pub(super) fn came_late(&mut self, node: usize, request: &Request) {
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            life.late[node] = true;
        }
    }

    /// A request is about to be carried out: notes if the lock's counter of
    /// fences is gone.
    pub(super) fn look_at_counter(
        &mut self,
        node: usize,
        request: &Request,
        local: Instant,
    ) -> u64 {
        let Some(counter) = &request.keys.counter else {
            return 0;
        };
        let (now, lock) = (self.time, place_of(&request.keys.lock));
        let node = &mut self.nodes[node];
        let counted = node.state.fence(&counter.key, local);
        if node.counts[lock] && counted.is_none() {
            node.lost_at[lock] = now;
            node.counts[lock] = false;
        }
        counted.unwrap_or(0)
    }

    /// A node's `TIME` has reached a client. If that cannot be but for a step
    /// forward, what stood on the node is worth less by it.
    pub(super) fn told_time(&mut self, client: usize, ticket: Ticket, time: u64) {
        let now = self.clients[client].now(self.time);
        let micros = |at: Instant| (at.0 / 1000) as i64;
        let (low, high) = (time as i64 - micros(now), time as i64 - micros(ticket.sent));
        let place = client * self.nodes.len() + ticket.node;
        let known = &mut self.oracle.node_times;
        if known.len() <= place {
            known.resize(place + 1, None);
        }
        // It was told at the earliest then; clocks have drifted since.
        let before = known[place].replace((high, ticket.sent));
        let Some((before, at)) = before else { return };
        let drifted = (at.until(now) + ticket.sent.until(now)).mul_f64(DRIFT);
        let step = low - before - drifted.as_micros() as i64;
        if step <= STEP_SEEN {
            return;
        }
        let step = Duration::from_micros(step as u64);
        for life in self.oracle.tokens.values_mut() {
            if life.client == client {
                let end = &mut life.ends[ticket.node];
                *end = Instant(end.0.saturating_sub(step.as_nanos() as u64));
            }
        }
    }

    /// A node has voted, at a moment of its clock.
    pub(super) fn granted(
        &mut self,
        node: usize,
        request: &Request,
        local: Instant,
        counted: u64,
        fence: u64,
    ) {
        let time = self.time;
        // S2: no clock but the node's own moves its counter, beyond 10 s.
        let clock = MemoryNode::time(local);
        let block = match request.op {
            Op::Acquire { block, .. } => u64::from(block),
            _ => 1,
        };
        let far = fence > (counted + block).max(clock + 10_000_000);
        // A vote that stands is confirmed with the fence that is stored.
        let behind = fence + 1_000_000 < clock && fence != counted;
        if request.keys.counter.is_some() && (far || behind) {
            self.violated(format!("S2 n{node} counted {fence} at {clock}"));
        }
        self.nodes[node].counts[place_of(&request.keys.lock)] = true;
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            life.first_vote = life.first_vote.min(time);
            life.at_home |= matches!(request.op, Op::Acquire { home: true, .. });
        }
        // The key's end is a moment to aim at.
        if let Some((_, end)) = self.nodes[node].state.get(&request.keys.lock, local) {
            let at = self.nodes[node].clock.time(end);
            self.due(at);
        }
    }

    /// A reply has reached its client: enters it into the books.
    pub(super) fn confirm(&mut self, open: &Open, reply: &Reply) {
        let Some(life) = self.oracle.tokens.get_mut(&name_of(&open.request.value.0)) else {
            return;
        };
        let end = &mut life.ends[open.ticket.node];
        match (open.request.op, reply) {
            (Op::Acquire { ttl, .. }, Reply::Granted { .. })
            | (Op::Extend { ttl, .. }, Reply::Extended { .. })
            | (Op::Confirm { ttl, .. }, Reply::Confirmed) => {
                *end = (*end).max(open.sent + counted(ttl));
            }
            (_, Reply::NotMine | Reply::Refused { .. } | Reply::Quarantined { .. }) => {
                *end = Instant::NEVER
            }
            _ => {}
        }
    }

    /// The lease that a reply is about.
    pub(super) fn before(&self, request: &Request) -> Option<Before> {
        let life = self.oracle.tokens.get(&name_of(&request.value.0))?;
        let watch = life.watch?;
        Some(Before {
            watch,
            end: self.oracle.watches[watch].end(),
            now: self.clients[life.client].now(self.time),
        })
    }

    /// The lease after the reply.
    pub(super) fn after(&mut self, before: Before) {
        let time = self.time;
        let Some(watch) = self.oracle.watches.get_mut(before.watch) else {
            return;
        };
        let end = watch.end();
        let was_valid = before.now < before.end;
        if !was_valid && before.now < end {
            let what = format!("S5 a lease of c{} became valid again", watch.client);
            return self.violated(what);
        }
        if end == Instant::NEVER {
            if was_valid && !watch.released && watch.hold.lease() == watch.lease {
                watch.cut_short = Some(time);
                self.check_cut_short(before.watch, before.now);
            }
            return;
        }
        if end != watch.last_end {
            watch.last_end = end;
            let at = self.clients[watch.client].clock.time(end);
            self.due(at);
        }
        self.check_honest(before.watch);
    }

    /// S4: a lease ends with the quorum-th of its confirmed votes, and with
    /// its cap.
    fn check_honest(&mut self, index: usize) {
        let quorum = self.quorum();
        let watch = &self.oracle.watches[index];
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return;
        };
        let mut ends = life.ends;
        let ends = &mut ends[..self.nodes.len()];
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let cap = watch.hold.terms().max_hold;
        let begun = watch.hold.begun();
        let cap = cap.map_or(Instant::FAR, |d| begun + d);
        let end = watch.end();
        let c = watch.client;
        // It counts from the attempt that won: not before the first request,
        // and not behind the first vote.
        let first = self.clients[c].now(life.first_vote);
        let counted = life.begun <= begun && begun <= first + Duration::from_micros(1);
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
    fn check_cut_short(&mut self, index: usize, now: Instant) {
        let watch = &self.oracle.watches[index];
        let c = watch.client;
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return;
        };
        let standing = life.ends[..self.nodes.len()].iter();
        let standing = standing.filter(|end| **end > now).count();
        if standing >= self.quorum() && !self.oracle.steps_seen {
            self.violated(format!("S4 c{c}'s lease is lost although its votes stand"));
        }
    }

    /// S2: the fence is larger than that of every lease which was won before
    /// a node first voted for this one, and like none; as long as any two
    /// quorums shared a node that kept its counter meanwhile.
    fn check_fence(&mut self, index: usize) {
        let watches = &self.oracle.watches;
        let watch = &watches[index];
        let Some(fence) = watch.fence else { return };
        let key = &watch.hold.terms().keys.lock;
        let spare = 2 * self.quorum() - self.nodes.len();
        let lock = place_of(key);
        let first_vote = |w: &Watch| self.oracle.tokens.get(&w.name).map(|l| l.first_vote);
        let wrong = watches[..index].iter().any(|other| {
            let since = first_vote(other).unwrap_or(0);
            let lost = self.nodes.iter().filter(|n| n.lost_at[lock] > since);
            let after = first_vote(watch).is_some_and(|first| other.won_at < first);
            let same_token = other.name == watch.name;
            &other.hold.terms().keys.lock == key
                && (lost.count() < spare || same_token)
                && other
                    .fence
                    .is_some_and(|f| f == fence || ((after || same_token) && f > fence))
        });
        if wrong || fence == 0 {
            let c = watch.client;
            self.violated(format!(
                "S2 c{c} won with the fence {fence}, which is not larger"
            ));
        }
    }

    fn check_holds(&mut self) {
        let (time, quorum) = (self.time, self.quorum());
        let gone = |node: &Node| node.excused || node.forgot;
        let gone_any = self.nodes.iter().any(gone);
        let mut active = std::mem::take(&mut self.oracle.active);
        active.retain(|i| {
            let w = &self.oracle.watches[*i];
            !self.clients[w.client].crashed && (!w.over || w.end() != Instant::NEVER)
        });
        let mut valid = Vec::new();
        let mut wrong = None;
        for i in &active {
            let w = &self.oracle.watches[*i];
            if self.clients[w.client].now(time) >= w.end() {
                self.oracle.watches[*i].over = true;
                continue;
            }
            let c = w.client;
            if w.over || w.released {
                wrong = Some(format!("S5 a lease of c{c} is valid that was over"));
            }
            let n = self.nodes.len();
            let mut votes = self.votes(&w.hold);
            if gone_any {
                // A server that is listed twice is gone twice: nothing tells it
                // from two until both are connected to it anew.
                let own = &self.pairs[c * n..][..n];
                votes += own.iter().filter(|p| gone(&self.nodes[p.node])).count();
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
                let same = a.hold.terms().keys.lock == b.hold.terms().keys.lock;
                if same && (self.stands(a, b) || self.stands(b, a)) {
                    wrong = Some(format!(
                        "S1 c{} and c{} hold valid leases at once",
                        a.client, b.client
                    ));
                }
            }
        }
        self.oracle.active = active;
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }

    /// Whether S1 is promised for a valid lease, as against `other`: see the
    /// module.
    fn stands(&self, watch: &Watch, other: &Watch) -> bool {
        if self.nodes.iter().all(|node| !node.excused) {
            return true;
        }
        // As the other lists them: a server listed twice gives it two votes.
        let excused = self.excused(other.client);
        let now = self.clients[watch.client].now(self.time);
        let Some(life) = self.oracle.tokens.get(&watch.name) else {
            return false;
        };
        let on_all_others = self
            .nodes
            .iter()
            .zip(&life.ends)
            .all(|(node, end)| node.excused || now < *end);
        // One that lists a server twice has no vote on all nodes.
        let n = self.nodes.len();
        let own = &self.pairs[watch.client * n..][..n];
        let on_all_others = on_all_others && own.iter().enumerate().all(|(i, p)| p.node == i);
        excused < self.quorum() && on_all_others
    }

    /// How many nodes that are not excused, and kept their data, hold the lease's vote.
    fn votes(&self, hold: &Hold) -> usize {
        let token = hold.token().as_str().as_bytes();
        let holds = |node: &&Node| {
            let now = node.clock.local_ms(self.time);
            let value = node.state.get(&hold.terms().keys.lock, now);
            !(node.excused || node.forgot)
                && value.is_some_and(|(value, _)| value.0.starts_with(token))
        };
        self.nodes.iter().filter(holds).count()
    }

    /// S2, on one node: its counter never goes back, a vote that stands is not
    /// counted again, and what it says of a fence is so.
    pub(super) fn check_counter(
        &mut self,
        node: usize,
        request: &Request,
        (before, mine): (u64, bool),
        reply: Option<&Reply>,
        local: Instant,
    ) {
        let Some(counter) = &request.keys.counter else {
            return;
        };
        let after = self.nodes[node].state.fence(&counter.key, local);
        let after = after.unwrap_or(0);
        let wrong = match (request.op, reply) {
            (Op::Acquire { .. }, Some(Reply::Granted { .. })) => mine && after != before,
            (Op::Confirm { fence, .. }, Some(Reply::Confirmed)) => after != fence,
            (Op::Extend { fence, .. }, Some(Reply::Extended { .. })) => after < fence,
            _ => false,
        };
        if wrong || after < before {
            let op = request.op;
            self.violated(format!(
                "S2 n{node}'s counter went from {before} to {after}: {op:?}"
            ));
        }
    }

    /// S3: only the token that owns a key extends or deletes it.
    pub(super) fn check_theft(
        &mut self,
        node: usize,
        request: &Request,
        before: Option<(Value, Instant)>,
        local: Instant,
    ) {
        let Some((value, end)) = before else { return };
        if value == request.value {
            return;
        }
        let after = self.nodes[node].state.get(&request.keys.lock, local);
        let same = after.is_some_and(|(v, e)| *v == value && e == end);
        if !same {
            self.violated(format!(
                "S3 a stranger's {:?} changed a key on n{node}",
                request.op
            ));
        }
    }
}
