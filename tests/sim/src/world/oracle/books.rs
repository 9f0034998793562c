//! What the oracle writes down of each request: what was asked, what was confirmed, and what was there
//! before and after.

use quorlock::sim::{Instant, Op, Reply, Request, RequestContext, Value};

use super::order::Words;
use super::{Before, Life, MOST_NODES, Seen, counted, holds_until, name_of, shared, slot};
use crate::neighbour::{place_of, place_of_hold};
use crate::world::network::Open;
use crate::world::{Inner, Time};

impl Inner {
    /// A client is about to send a request. S3, S5: nothing is renewed or
    /// repaired but for a lease that is valid in that moment.
    pub(in crate::world) fn asked(&mut self, client: usize, request: &Request) {
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
                    first_voter: 0,
                    denied: false,
                    ends: [Instant::NEVER; MOST_NODES],
                    watch: None,
                    words: Words::default(),
                    at_home: false,
                    under_way: [0; MOST_NODES],
                    late: [false; MOST_NODES],
                    exported: None,
                    left: None,
                    taken_over: [false; MOST_NODES],
                    adopters: 0,
                    forced: false,
                    too_late: [false; MOST_NODES],
                };
                self.oracle.tokens.entry(name).or_insert(fresh);
                self.check_let_in(request, now);
            }
            Op::Extend { .. } => {
                let life = self.oracle.tokens.get(&name);
                let watch = life.and_then(|life| life.watch);
                let valid = match (watch, life) {
                    (Some(i), _) => {
                        let w = &self.oracle.watches[i];
                        now < w.hold.end() && (w.passed || !w.released)
                    }
                    // Won, and nobody's yet: others are waited for.
                    (None, Some(life)) if life.dead_since.is_none() => {
                        now < life.until(self.listed(client).1)
                    }
                    _ => false,
                };
                if !valid {
                    self.violated("S3 a vote was renewed for a lease that is not valid".into());
                }
            }
            Op::Release => {
                self.check_keeping(client, request);
                self.is_forced_out(request);
                let life = self.oracle.tokens.get_mut(&name);
                let lost = life.filter(|life| life.watch.is_none());
                if lost.is_some_and(|life| std::mem::take(&mut life.at_home)) {
                    self.backs_off(&request.keys.lock);
                }
            }
            Op::Confirm { .. } | Op::Inspect | Op::Reserve { .. } => {}
        }
    }

    /// A waiter asks with that token.
    pub(in crate::world) fn waits_with(&mut self, client: usize, waiter: u64, request: &Request) {
        let name = name_of(&request.value.0);
        self.clients[client].asked_with.insert(waiter, name);
    }

    /// Whether a waiter has won already: a request of its that came late has
    /// queued it once more.
    pub(in crate::world) fn has_won(&self, client: usize, waiter: u64) -> bool {
        let token = self.clients[client].asked_with.get(&waiter);
        let life = token.and_then(|token| self.oracle.tokens.get(token));
        life.is_some_and(|life| life.watch.is_some())
    }

    /// This many more requests are on their way to a node.
    pub(in crate::world) fn under_way(&mut self, node: usize, request: &Request, more: i32) {
        // One that reserves leaves nothing of the token, and may come before any that does.
        if matches!(request.op, Op::Reserve { .. }) {
            return;
        }
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            life.under_way[node] += more;
        }
    }

    /// Whether a token has been given up, or its lease is over.
    pub(in crate::world) fn is_dead(&self, value: &Value) -> bool {
        let life = self.oracle.tokens.get(&name_of(&value.0));
        life.is_some_and(|life| life.dead_since.is_some())
    }

    /// A node carried out a request that came over a connection given up, or
    /// the release behind it was lost with that connection.
    pub(in crate::world) fn came_late(&mut self, node: usize, request: &Request) {
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            life.late[node] = true;
        }
        self.queued_late(node, request);
    }

    /// A request is about to be carried out: what stands there before, for the judges.
    pub(in crate::world) fn look_before(
        &mut self,
        node: usize,
        request: &Request,
        guarded: bool,
    ) -> Seen {
        let local = self.nodes[node].clock.local(self.time);
        let counted = self.look_at_counter(node, request, local);
        let slots = slot::requests(request).into_iter();
        let slots = slots.map(|one| {
            let seen = self.look_before(node, &one, guarded);
            (one, seen)
        });
        let slots = slots.collect();
        let state = &self.nodes[node].state;
        let form = state.form(&request.keys.lock, local);
        Seen {
            apart: self.apart_from(node, request, local),
            slots,
            readers: if form.is_some_and(|(form, _)| form.is_shared()) {
                shared::readers_on(state, &request.keys.aux, local)
            } else {
                Vec::new()
            },
            form: form.map(|(form, end)| (form.clone(), end)),
            counted,
            quarantined: guarded && state.quarantine(local).is_some(),
            guarded,
            first_before: self.first_before(node, request, local),
            local,
        }
    }

    /// A request is about to be carried out: what its lock's counter of fences shows.
    fn look_at_counter(&mut self, node: usize, request: &Request, local: Instant) -> u64 {
        let lock = place_of(&request.keys);
        let counter = request.keys.counter();
        counter.map_or(0, |(counter, _)| self.look_at(node, lock, counter, local))
    }

    /// What a lock's counter shows; notes if it is gone.
    pub(in crate::world) fn look_at(
        &mut self,
        node: usize,
        lock: usize,
        counter: &[u8],
        local: Instant,
    ) -> u64 {
        let now = self.time;
        let node = &mut self.nodes[node];
        let counted = node.state.fence(counter, local);
        if node.counts[lock] && counted.is_none() {
            // Never earlier than was known.
            node.lost_at[lock] = now.max(node.lost_at[lock]);
            node.counts[lock] = false;
        }
        counted.unwrap_or(0)
    }

    /// A node has voted, at a moment of its clock, by what it did at a time.
    pub(in crate::world) fn granted(
        &mut self,
        node: usize,
        request: &Request,
        local: Instant,
        time: Time,
    ) {
        self.nodes[node].counts[place_of(&request.keys)] = true;
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            if time < life.first_vote {
                (life.first_vote, life.first_voter) = (time, node);
            }
            life.at_home |= matches!(request.op, Op::Acquire { home: true, .. });
        }
        // The key's end is a moment to aim at.
        if let Some((form, end)) = self.nodes[node].state.form(&request.keys.lock, local) {
            let at = self.nodes[node].clock.time(holds_until(form, end));
            self.due(at);
        }
    }

    /// A reply has reached its client: enters it into the books.
    pub(in crate::world) fn confirm(&mut self, open: &Open, reply: &Reply) {
        let RequestContext {
            node,
            sent,
            deadline,
            ..
        } = open.ticket;
        self.hears_word(node, &open.request, reply, sent.until(deadline));
        let Some(life) = self.oracle.tokens.get_mut(&name_of(&open.request.value.0)) else {
            return;
        };
        let drift = self.clients[life.client].drift;
        let confirm = matches!(open.request.op, Op::Confirm { .. });
        life.denied |= confirm && matches!(reply, Reply::NotMine | Reply::Banned);
        let voter = self.pairs[life.client * self.nodes.len() + node].node;
        let voted = life.first_vote != Time::MAX && life.first_voter == voter;
        life.denied |= voted && matches!(reply, Reply::Refused { .. } | Reply::Taken);
        let end = &mut life.ends[open.ticket.node];
        match (open.request.op, reply) {
            (Op::Acquire { ttl, .. }, Reply::Granted { lasts, .. }) => {
                let ttl = lasts.unwrap_or(ttl);
                *end = (*end).max(open.sent + counted(ttl, drift));
            }
            (Op::Extend { ttl, .. }, Reply::Extended { .. })
            | (Op::Confirm { ttl, .. }, Reply::Confirmed) => {
                *end = (*end).max(open.sent + counted(ttl, drift));
            }
            (_, Reply::NotMine | Reply::Refused { .. } | Reply::Taken | Reply::Banned) => {
                *end = Instant::NEVER
            }
            // Nobody else is given that vote meanwhile.
            (_, Reply::Quarantined { left }) => {
                *end = (*end).min(open.sent + counted(*left, drift))
            }
            _ => {}
        }
    }

    /// The lease that a reply is about.
    pub(in crate::world) fn before(&self, request: &Request) -> Option<Before> {
        let life = self.oracle.tokens.get(&name_of(&request.value.0))?;
        let watch = life.watch?;
        Some(Before {
            watch,
            end: self.oracle.watches[watch].end(),
            now: self.clients[life.client].now(self.time),
        })
    }

    /// The lease after the reply.
    pub(in crate::world) fn after(&mut self, before: Before) {
        let time = self.time;
        self.traces_standing(before.watch);
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
                let (lock, client) = (place_of_hold(&watch.hold), watch.client);
                self.holds(lock, client, before.watch, false);
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
}
