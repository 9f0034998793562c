//! The world around one claim, and the books that are kept beside it: the votes as the specification
//! has them, and what was asked for.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::exhaustive::specification::{Vote, agreed, lease_end, nanos, quorum};
use crate::node::names::{Naming, aux};
use crate::node::{Keys, Mode, Op, Reply, RequestContext, Value, Waits};
use crate::protocol::asked::LeaseOptions;
use crate::protocol::claim::effects::{Ask, Effects};
use crate::protocol::claim::env::{BoundThread, Env};
use crate::protocol::claim::{Claim, ClaimInit, Event, LockParams, Phase, home};
use crate::protocol::group::Group;
use crate::protocol::timing::Timing;

pub(in crate::exhaustive) const NODES: usize = 3;
pub(in crate::exhaustive) const NOW: Instant = Instant(1_000_000_000);
/// Bound on the difference of clock rates.
pub(in crate::exhaustive) const DRIFT: f64 = 0.01;
/// The median of the nodes' clocks, once they are known.
pub(super) const MEDIAN: u64 = 7;
/// By how much a node's clock steps.
const STEP: Duration = Duration::from_millis(300);

/// A world in which all nodes are there, with clocks that go alike.
#[derive(Clone)]
pub(in crate::exhaustive) struct World {
    pub(in crate::exhaustive) terms: LockParams,
    /// How far each node's clock has stepped, in µs.
    pub(super) stepped: [u64; NODES],
    /// A waiter, which knows of others that want the lock.
    pub(super) waits: bool,
    /// The fence that is drawn in the first moment, when clocks may not be known, and later.
    pub(in crate::exhaustive) drawn: [u64; 2],
}

impl World {
    pub(in crate::exhaustive) fn new(ttl: Duration, fences: bool) -> World {
        World {
            terms: LockParams {
                keys: Arc::new(Keys {
                    lock: b"lock:{k}"[..].into(),
                    aux: aux("lock:", b"lock:{k}", Naming::Tagged),
                    waits: Waits {
                        reservation: Duration::from_millis(200),
                        place: Duration::from_secs(60),
                        most: 10,
                    },
                    fence_ttl: fences.then_some(ttl),
                    mode: Mode::Exclusive,
                    adopts: None,
                    field: None,
                }),
                label: Arc::default(),
                timing: Timing::of(ttl, DRIFT, 0.1, Duration::from_millis(50)),
                drift: DRIFT,
                asked: LeaseOptions {
                    ttl,
                    renew: true,
                    ..Default::default()
                },
                bound: None,
                group: Group::default(),
            },
            stepped: [0; NODES],
            waits: false,
            drawn: [MEDIAN; 2],
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.terms.timing.ttl
    }

    /// A claim that has asked no node so far.
    pub(super) fn claim(&self, block: u32) -> Claim {
        let digits = [b'7'; 40];
        let beginning = ClaimInit {
            value: Value([&digits[..], b"."].concat().into()),
            drawn: self.drawn[0],
            block,
            waits: self.waits,
            queued: None,
            renew_every: self.ttl() / 3,
            nodes: NODES,
        };
        Claim::new(beginning, NOW, self)
    }

    /// The nodes in the order in which they are home of the lock.
    pub(super) fn order(&self) -> Vec<usize> {
        home::order(&self.terms.keys.lock, 0..NODES as u64)
    }

    /// The `TIME` of a server of the node, in µs; that of the second is behind.
    pub(super) fn time(&self, node: usize, server: u64, now: Instant) -> u64 {
        5_000_000_000 / server.max(1) + now.0 / 1000 + self.stepped[node]
    }

    /// The least validity with which a lease is won at `now` lasts until then.
    pub(super) fn needed(&self, now: Instant) -> u64 {
        (now + self.terms.timing.min_validity).0
    }

    /// A lease ends here at the latest.
    pub(super) fn cap(&self, begun: Instant) -> u64 {
        let most = self.terms.asked.max_hold;
        most.map_or(u64::MAX, |most| (begun + most).0)
    }
}

impl Env for World {
    fn terms(&self) -> &LockParams {
        &self.terms
    }

    fn id(&self, node: usize) -> u64 {
        node as u64
    }

    fn is_met(&self, _: usize) -> bool {
        true
    }

    fn is_ours(&self, _: usize) -> bool {
        true
    }

    fn is_out(&self, _: usize) -> bool {
        false
    }

    fn is_late(&self, _: usize) -> bool {
        false
    }

    fn has_failed(&self, _: usize) -> bool {
        false
    }

    fn is_contended(&self, _: Instant) -> bool {
        self.waits
    }

    fn stepped(&self, node: usize) -> u64 {
        self.stepped.get(node).copied().unwrap_or(0)
    }

    fn node_time(&self, node: usize, now: Instant) -> Option<((u64, u64), u64)> {
        let time = self.time(node, 1, now);
        Some(((time, time), 1))
    }

    fn server_time(&self, node: usize, server: u64, now: Instant) -> Option<(u64, u64)> {
        let time = self.time(node, server, now);
        Some((time, time))
    }

    fn guess(&self, node: usize, now: Instant) -> Option<(u64, u64)> {
        Some((self.time(node, 1, now), 1))
    }

    fn draw_fence(&self, now: Instant) -> u64 {
        self.drawn[usize::from(now > NOW)]
    }

    fn max_ttl(&self) -> Duration {
        self.ttl()
    }

    fn thread(&self) -> BoundThread {
        BoundThread::Alive
    }
}

/// A request without an answer so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    pub(super) context: RequestContext,
    pub(super) native: bool,
}

/// What a node has said to the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Said {
    #[default]
    Unasked,
    Awaited,
    Granted,
    Refused,
    Failed,
}

/// What the home says to a quorum of votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Agrees,
    Refuses,
    Pending,
}

/// What is known of the claim without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Books {
    pub(super) votes: [Vote; NODES],
    pub(super) said: [Said; NODES],
    pub(super) open: Vec<Ticket>,
    /// A request was answered that may have left the token on the node.
    left: [bool; NODES],
    /// The node was asked for its vote by script, or a request to it failed.
    pub(super) scripted: [bool; NODES],
    /// The waiter may stand in the queue there.
    pub(super) queued: [bool; NODES],
    asked_again: [bool; NODES],
    /// How far each node's clock has stepped, in µs.
    pub(super) stepped: [u64; NODES],
    /// When the home is waited for no longer.
    home_due: Option<Instant>,
    /// The home that has refused plain commands, and was asked once more.
    taken: Option<usize>,
    pub(super) begun: Option<Instant>,
    pub(super) handed_over: Option<Instant>,
    /// A node has said that the token was forced out.
    pub(super) forced: bool,
    /// How often it was told that the lease is over.
    pub(super) told: u8,
}

impl Books {
    /// The clock of that node steps forward.
    pub(super) fn steps(&mut self, node: usize) {
        self.stepped[node] += STEP.as_micros() as u64;
        self.votes[node].step(nanos(STEP));
    }

    /// Whether the node may know the token.
    pub(super) fn may_know(&self, node: usize) -> bool {
        let stores = |ticket: &Ticket| {
            let op = ticket.context.op;
            ticket.context.node == node && matches!(op, Op::Acquire { .. } | Op::Extend { .. })
        };
        self.left[node] || self.open.iter().any(stores)
    }

    /// How many votes last beyond `needed`.
    pub(super) fn lasting(&self, needed: u64) -> usize {
        self.votes.iter().filter(|vote| vote.end > needed).count()
    }

    /// How many nodes have yet to answer.
    pub(super) fn awaited(&self) -> usize {
        let open = |said: &&Said| matches!(said, Said::Awaited | Said::Unasked);
        self.said.iter().filter(open).count()
    }

    /// The end of the lease that the votes make.
    pub(super) fn end(&self) -> u64 {
        lease_end(&self.votes)
    }

    /// "The home's word": that of the first node in the order that is not out.
    pub(super) fn word(&self, now: Instant, world: &World) -> Word {
        if self.said.iter().all(|said| *said == Said::Granted) {
            return Word::Agrees;
        }
        let order = world.order();
        let home = order.iter().find(|node| self.said[**node] != Said::Failed);
        let Some(home) = home else {
            return Word::Agrees;
        };
        match self.said[*home] {
            Said::Granted => Word::Agrees,
            Said::Refused => Word::Refuses,
            _ if self.home_due.is_none_or(|due| now < due) => Word::Pending,
            // Its refusal stands where it is not answered in time what stands there.
            _ if self.taken == Some(*home) => Word::Refuses,
            _ => Word::Agrees,
        }
    }

    /// Whether the attempt has all that it takes to be won.
    pub(super) fn wins(&self, now: Instant, world: &World) -> bool {
        let needed = world.needed(now);
        let begun = self.begun.unwrap_or(now);
        let fenced = world.terms.keys.fence_ttl.is_some();
        let marks = self.votes.iter().map(|vote| vote.mark);
        let mut marks = marks.filter(|mark| *mark != 0);
        self.lasting(needed) >= quorum(NODES)
            && needed <= world.cap(begun)
            && (!fenced || marks.any(|mark| agreed(&self.votes, mark, needed)))
            && self.word(now, world) == Word::Agrees
    }

    /// Whether what has come is looked at as an answer to the round: a node that is asked the same
    /// once more has yet to answer.
    pub(super) fn counts(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Replied { ticket, .. } => self.said[ticket.node] != Said::Awaited,
            Event::HomeDue => true,
            _ => false,
        }
    }

    /// A quorum has voted, and the home has not: from here it is waited for as long again, and for a
    /// tenth of `node_timeout` at the least.
    pub(super) fn due(&mut self, before: &Claim, event: &Event<'_>, now: Instant, world: &World) {
        let asking = before.phase() == Phase::Asking && self.counts(event);
        let voted = self.lasting(world.needed(now)) >= quorum(NODES);
        if asking && voted && self.home_due.is_none() && self.word(now, world) == Word::Pending {
            let took = self.begun.unwrap_or(now).until(now);
            self.home_due = Some(now + took.max(world.terms.timing.node_timeout / 10));
        }
    }

    /// A node has answered.
    pub(super) fn answer(
        &mut self,
        claim: &Claim,
        open: &Ticket,
        ticket: &RequestContext,
        reply: &Reply,
        drift: f64,
        (now, world): (Instant, &World),
    ) {
        let node = ticket.node;
        let acquires = matches!(ticket.op, Op::Acquire { .. });
        let asking = claim.phase() == Phase::Asking;
        self.votes[node].take(ticket, reply, drift);
        let nothing = match reply {
            Reply::Taken => true,
            Reply::Failed(fault) => !fault.sent,
            _ => false,
        };
        self.left[node] |= !nothing && !matches!(ticket.op, Op::Confirm { .. });
        let failed = matches!(
            reply,
            Reply::Failed(_) | Reply::Late | Reply::Quarantined { .. }
        );
        self.scripted[node] |= failed;
        self.forced |= *reply == Reply::Banned;
        // A vote ends the waiter's place there.
        self.queued[node] &= !matches!(reply, Reply::Granted { .. });
        let again = *reply == Reply::Late && asking && !self.asked_again[node];
        if again && now < ticket.deadline {
            self.asked_again[node] = true;
            return;
        }
        self.said[node] = match reply {
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed => Said::Granted,
            Reply::Taken if open.native && world.order()[0] == node && asking && !world.waits => {
                self.taken = Some(node);
                Said::Awaited
            }
            Reply::Refused { .. } | Reply::Taken | Reply::NotMine | Reply::Banned => Said::Refused,
            Reply::Quarantined { .. } => Said::Failed,
            Reply::Failed(_) | Reply::Late if acquires && self.taken == Some(node) => Said::Refused,
            Reply::Failed(_) | Reply::Late if acquires => Said::Failed,
            _ => self.said[node],
        };
    }

    /// The claim has taken an event, and does what is in the effects.
    pub(super) fn note(
        &mut self,
        claim: &Claim,
        event: &Event<'_>,
        did: &Effects,
        now: Instant,
        world: &World,
    ) {
        match event {
            Event::Begins { .. } => self.begun = Some(now),
            Event::HandedOver if claim.phase() == Phase::Held => {
                self.handed_over = self.handed_over.or(Some(now));
            }
            Event::TakenBack => self.handed_over = None,
            Event::PassesOn { .. } if did.done => self.handed_over = None,
            _ => {}
        }
        self.told += u8::from(did.over.is_some());
        let left = did.release.iter().flat_map(|plan| &plan.nodes);
        for of in left.filter(|of| of.waiter) {
            self.queued[usize::from(of.node)] = false;
        }
        for ask in &did.asks {
            self.asks(ask, now, world);
        }
    }

    fn asks(&mut self, ask: &Ask, now: Instant, world: &World) {
        if let Op::Acquire {
            candidate, home, ..
        } = ask.op
        {
            self.queued[ask.node] |= home && world.waits;
            let again = std::mem::take(&mut self.asked_again[ask.node]);
            if again {
                // The same request once more.
                self.asked_again[ask.node] = true;
            } else {
                self.votes[ask.node].ask(candidate);
            }
            self.said[ask.node] = Said::Awaited;
            self.scripted[ask.node] |= !ask.native;
        }
        self.open.push(Ticket {
            context: RequestContext {
                node: ask.node,
                sent: now,
                deadline: ask.deadline,
                op: ask.op,
                server: 1,
            },
            native: ask.native,
        });
        // Of requests to several nodes no order is known.
        self.open.sort_by_key(|ticket| ticket.context.node);
    }
}
