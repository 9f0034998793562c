//! L7, order: no newcomer passes a live queue. Judged on each node, and where a lock is
//! won.
//!
//! On a node a place is *live* while it has not ended and its waiter's inbox is
//! subscribed. A vote for a lock that is free, or reserved for another, is for the first
//! of the live places; whoever stands behind it, or in no queue, is refused. That is
//! excused where a clock has stepped: then places, and what stands under the lock's key,
//! end by a time that was not foreseen.
//!
//! Other nodes than the home of a lock know of no queue. So nobody wins past a home that
//! has refused, or has yet to answer and was not waited for. A home that failed lately is
//! none, and the client alone knows for how long: then it may be either. One that a client
//! has waited for in vain it need not wait for until it has answered sooner.

use std::time::Duration;

use quorlock::sim::{
    ClaimCell, Instant, MemoryNode, Mode, Op, Reply, Request, ReservedFor, StoredValue, Waiter,
};

use super::{Inner, MOST_NODES, Oracle, Seen, name_of, of_one_token};
use crate::neighbour::place_of;
use crate::world::{MS, Time};

/// A node's last word to an attempt, as it reached its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Word {
    /// It was not asked.
    #[default]
    None,
    Awaited,
    Yes,
    No,
    /// It cannot vote.
    Out,
}

/// What an attempt has heard of the nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    said: [Word; MOST_NODES],
    /// It has refused plain commands, and has not voted since.
    taken: [bool; MOST_NODES],
    /// When each was asked last.
    asked: [Time; MOST_NODES],
    /// When a quorum had first voted for it.
    quorum_at: Option<Instant>,
    /// Until when a home that has not answered by then is waited for at least.
    due: Option<Instant>,
}

/// Native requests for a vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Natives {
    /// How many were carried out.
    pub tries: u64,
    /// And of them where somebody stood in the lock's queue.
    pub in_line: u64,
}

/// FNV-1a, as docs/reference/protocol.md has it.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finisher of SplitMix64.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

impl Inner {
    /// Whose live place is the first before whoever asks, in a node's queue for a lock.
    pub(super) fn first_before(
        &self,
        node: usize,
        request: &Request,
        local: Instant,
    ) -> Option<Waiter> {
        let (state, time) = (&self.nodes[node].state, MemoryNode::time(local));
        let line = state.line(request.keys.aux.queue(), local)?;
        let me = request.waiter.as_ref();
        let before = line.queue.iter().take_while(|p| Some(&p.waiter) != me);
        let shares = request.keys.mode == Mode::Shared;
        // Readers come before a writer that has not asked for three seconds, or longer over a slow
        // network.
        let micros = |d: Duration| d.as_millis() as u64 * 1000;
        let life = micros(request.keys.waits.place);
        let slow = 2_400_000 + 2 * micros(request.keys.waits.reservation);
        let lately = |end: u64| time.saturating_sub(end.saturating_sub(life)) < slow.max(3_000_000);
        let before = before.filter(|p| !shares || p.mode == Mode::Exclusive && lately(p.end));
        let mut live = before.filter(|p| time < p.end && state.listeners(&p.waiter) > 0);
        live.next().map(|place| place.waiter.clone())
    }

    /// Whether somebody stands in that queue.
    pub(super) fn is_in_line(&self, node: usize, request: &Request, who: &Waiter) -> bool {
        let (state, local) = (
            &self.nodes[node].state,
            self.nodes[node].clock.local(self.time),
        );
        let line = state.line(request.keys.aux.queue(), local);
        line.is_some_and(|line| line.queue.iter().any(|place| place.waiter == *who))
    }

    /// A native request for a vote was carried out.
    pub(super) fn count_native(&mut self, seen: &Seen) {
        let natives = &mut self.oracle.natives;
        natives.tries += 1;
        natives.in_line += u64::from(seen.first_before.is_some());
    }

    /// Whether it is about a slot that no waiter asks for: the tail waits for the first slot alone.
    fn is_unwanted(&self, request: &Request) -> bool {
        matches!(request.keys.mode, Mode::Slot(1..)) && self.oracle.one_slot
    }

    /// A node has voted by script: where somebody waits behind that, what stands there is
    /// crowded, so that nobody passes natively.
    pub(super) fn check_mark(&mut self, node: usize, request: &Request, seen: &Seen) {
        let (state, time) = (&self.nodes[node].state, MemoryNode::time(seen.local));
        let form = state.form(&request.keys.lock, seen.local);
        let quiet = form.is_some_and(|(form, _)| matches!(form, StoredValue::Uncontended(_)));
        // An adopted lease of such a slot passes no waiter. Where a foreign value has ended a native
        // vote may stand, as below, and be asked for again by script.
        let foreign = self.nodes[node].foreign[place_of(&request.keys)];
        if !quiet || foreign || self.is_unwanted(request) || self.oracle.steps_seen {
            return;
        }
        let line = state.line(request.keys.aux.queue(), seen.local);
        let mut queue = line.into_iter().flat_map(|line| &line.queue);
        let me = request.waiter.as_ref();
        let live = |w: &Waiter| Some(w) != me && state.listeners(w) > 0;
        if queue.any(|p| time < p.end && live(&p.waiter)) {
            self.violated(format!("L7 n{node} gives a quiet vote beside a live queue"));
        }
    }

    /// A node has voted for whoever asks.
    pub(super) fn check_order(&mut self, node: usize, request: &Request, seen: &Seen) {
        let time = MemoryNode::time(seen.local);
        let called = |form: &StoredValue| match form {
            StoredValue::Reserved { until, whom } | StoredValue::Shared { until, whom, .. } => {
                let waiter = request.waiter.clone().map(ReservedFor::Waiter);
                waiter.as_ref() == Some(whom) && time <= *until
            }
            // A lease that goes on elsewhere stays before those who wait.
            form => form.holder(time).is_some_and(|holder| {
                let adopted = request.keys.adopts.iter().map(|old| &old.value);
                let mut own = adopted.chain([&request.value]);
                own.any(|own| of_one_token(own, holder))
            }),
        };
        let called = seen.form.as_ref().is_some_and(|(form, _)| called(form));
        // A foreign value is let alone: where it ends nothing tells of the queue behind it.
        let foreign = request.native && self.nodes[node].foreign[place_of(&request.keys)];
        let other = foreign || self.is_unwanted(request);
        if seen.first_before.is_some() && !called && !self.oracle.steps_seen && !other {
            let how = if request.native { " natively" } else { "" };
            self.violated(format!("L7 n{node} votes{how} past a live queue"));
        }
    }

    /// A node is asked for a vote.
    pub(in crate::world) fn asks_for_word(&mut self, pair: usize, request: &Request) {
        let (place, now) = (pair % self.nodes.len(), self.time);
        if let (Op::Acquire { .. }, Some(life)) = (
            request.op,
            self.oracle.tokens.get_mut(&name_of(&request.value.0)),
        ) {
            life.words.said[place] = Word::Awaited;
            life.words.asked[place] = now;
            let from = self.pairs[pair].late_from;
            self.pairs[pair].late_from = from.into_iter().chain(life.words.due).min();
        }
    }

    /// It has answered, within the time that a node has.
    pub(super) fn hears_word(
        &mut self,
        place: usize,
        request: &Request,
        reply: &Reply,
        node_timeout: Duration,
    ) {
        let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) else {
            return;
        };
        let Op::Acquire { .. } = request.op else {
            return;
        };
        life.words.said[place] = match reply {
            Reply::Granted { .. } => Word::Yes,
            Reply::Refused { .. } | Reply::Taken => Word::No,
            // It is asked for that slot yet.
            Reply::Chosen { .. } => Word::None,
            _ => Word::Out,
        };
        match reply {
            Reply::Taken => life.words.taken[place] = true,
            Reply::Granted { .. } => life.words.taken[place] = false,
            _ => {}
        }
        let client = life.client;
        let votes = life.words.said.iter().filter(|word| **word == Word::Yes);
        let now = self.clients[client].now(self.time);
        if votes.count() > self.surveys[client].expected().nodes / 2 {
            life.words.quorum_at.get_or_insert(now);
            life.words.due.get_or_insert(now + node_timeout / 10);
        }
        let Words { said, due, .. } = life.words;
        let first = client * self.nodes.len();
        let own = &mut self.pairs[first..][..self.nodes.len()];
        if said[place] != Word::Out && due.is_none_or(|due| now <= due) {
            let lives = self.oracle.tokens.values();
            let ours = lives.filter(|life| life.client == client);
            let wait = ours.filter(|life| life.words.said[place] == Word::Awaited);
            own[place].late_from = wait.filter_map(|life| life.words.due).min();
        }
        // Those that have yet to answer are late once they are due.
        let awaited = own.iter_mut().zip(said);
        for (own, _) in awaited.filter(|(_, said)| *said == Word::Awaited) {
            own.late_from = own.late_from.into_iter().chain(due).min();
        }
    }

    /// A client has won a lock by asking the nodes for it: the home of the lock has not
    /// refused, and was waited for. Over bytes the numbers of nodes are their own.
    pub(super) fn check_home(&mut self, client: usize, hold: &ClaimCell) {
        let Oracle { tokens, .. } = &self.oracle;
        let Some(life) = tokens.get(&name_of(hold.token().as_bytes())) else {
            return;
        };
        if self.bytes.is_some() || self.listed_twice {
            return;
        }
        let n = self.nodes.len();
        let own = &self.pairs[client * n..][..self.listed(client).0];
        let key = fnv(&hold.terms().keys.lock);
        let weight = |place: &usize| mix(key ^ fnv(format!("n{}", own[*place].node).as_bytes()));
        let mut order: Vec<usize> = (0..own.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(weight(place)));
        // By clocks as slow as they may be.
        let doubted = self.network.patience * 2 + self.network.patience / 5 + MS;
        let doubtful = |place: usize| {
            let failed: Time = own[place].failed_at;
            let unanswered = life.words.said[place] == Word::Awaited;
            let since = unanswered && failed >= life.words.asked[place];
            failed != 0 && (since || self.time <= failed + doubted)
        };
        let now = self.clients[client].now(self.time);
        let least = hold.terms().timing.node_timeout / 10;
        let waited = life.words.quorum_at.is_none_or(|at| now >= at + least);
        let late = |place: usize| own[place].late_from.is_some_and(|from| now >= from);
        for place in order {
            let node = own[place].node;
            // What it was asked again, in vain, changes nothing.
            let said = if life.words.taken[place] {
                Word::No
            } else {
                life.words.said[place]
            };
            let wrong = match said {
                Word::Yes => return,
                Word::Awaited | Word::None if waited || late(place) => return,
                Word::Out => continue,
                _ if doubtful(place) => continue,
                Word::No => format!("L7 c{client} wins past n{node}, its home, which refused"),
                Word::Awaited | Word::None => {
                    format!("L7 c{client} does not wait for n{node}, its home")
                }
            };
            return self.violated(wrong);
        }
    }
}
