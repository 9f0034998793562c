//! Asking the nodes for their votes, and all that is sent for one token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use once_cell::race::OnceBox;

use super::votes::{Phase, Votes};
use super::{Fences, Hold, LeaseState, Round, State, Terms, Told};
use crate::clock::{self, Instant};
use crate::node::{
    AfterRelease, Nodes, Op, Repair, Request, RequestContext, Sink, Value, Waiter, native,
};
use crate::protocol::set::{Outgoing, Set};
use crate::token::Token;
use crate::wakers::Watchers;

impl Hold {
    /// Draws a token and asks all nodes for their votes, once: the round that
    /// this is decides. `block`: how many fences are asked for; one, and one
    /// for each lease that may follow on the same token. `slot`: which one of a
    /// semaphore; any without.
    pub fn begin(set: &Arc<Set>, terms: &Terms, block: u32, slot: Option<u32>) -> Arc<Hold> {
        let now = set.clock.now();
        let hold = Hold::new(set, terms, block, None, None, now);
        hold.take_slot(slot.unwrap_or(hold.first_slot()));
        let means = hold.cheapest_means(now);
        hold.open(Nodes::all(set.links.len()), Nodes::NONE, means, now);
        hold
    }

    /// Draws a token for `waiter`, whose attempt may take many requests: what
    /// the nodes say is told as [progress](Hold::poll_progress), and the
    /// attempt lasts until it is given up. `queued`: the node in whose queue
    /// the waiter stands already, or may.
    pub(crate) fn new(
        set: &Arc<Set>,
        terms: &Terms,
        block: u32,
        waiter: Option<Waiter>,
        queued: Option<usize>,
        now: Instant,
    ) -> Arc<Hold> {
        let counts = terms.keys.fence_ttl.is_some();
        // The time in the token is what is proposed, so that who looks knows the fence of a hold that
        // was won by plain commands, which others raise the counter beyond in vain.
        let candidate = if counts {
            set.candidate(set.median(now))
        } else {
            0
        };
        let (token, jitter) = Token::with_jitter(&*set.rng, candidate);
        // The dot tells our tokens from those of others, which may be of as many digits.
        let value = [token.as_str().as_bytes(), b".", terms.label.as_bytes()].concat();
        // Up to a fifth of jitter keeps leases that were won together apart.
        let renew_every = terms.timing.ttl.mul_f64(0.3 + 0.06 * jitter);
        let stepped = (0..set.links.len()).map(|node| set.stepped(node));
        static IDS: AtomicU64 = AtomicU64::new(0);
        Arc::new_cyclic(|me| Hold {
            me: me.clone(),
            set: set.clone(),
            terms: terms.clone(),
            own_keys: OnceLock::new(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            value: Value(value.into()),
            relabelled: OnceBox::new(),
            waiter,
            begun: AtomicU64::new(Instant::NEVER.0),
            renew_every,
            handed_over: AtomicU64::new(Instant::NEVER.0),
            end: AtomicU64::new(Instant::NEVER.0),
            fences: Fences {
                block,
                present: AtomicU64::new(0),
                last: AtomicU64::new(0),
            },
            told: Told::default(),
            state: Mutex::new(State {
                drawn: candidate,
                phase: Phase::Asking,
                votes: Votes::new(stepped, queued),
                round: Round::default(),
                loss: None,
                warned: false,
                banned: false,
                lease: LeaseState {
                    passed: 0,
                    group: terms.group,
                    since: now,
                    bound: terms.bound.clone(),
                    watchers: Watchers::default(),
                    callbacks: Vec::new(),
                },
            }),
        })
    }

    /// Begins the attempt, and asks by these means as [`ask`](Hold::ask) does: from
    /// here on `max_hold` counts, and the time until it [ends](Hold::attempt_ends).
    pub(crate) fn open(&self, nodes: Nodes, homes: Nodes, means: Means, now: Instant) {
        // Votes that are taken over are asked for in rounds of one attempt.
        let goes_on = self.terms.keys.adopts.is_some() && self.begun() != Instant::NEVER;
        if !goes_on {
            self.begun.store(now.0, Ordering::Release);
        }
        let mut state = self.state();
        state.round.candidate = 0;
        state.round.home_due = None;
        drop(state);
        self.ask_by(means, nodes, homes, now);
    }

    /// By which means a lock is asked for that was not waited for yet. Plain commands
    /// know of no line and no readers, and take one fence at once. A lock in Redisson's layout
    /// is asked for by its script all the same; but nobody listens there yet.
    pub(crate) fn cheapest_means(&self, now: Instant) -> Means {
        let contended = || self.set.contention.is_seen(&self.terms.keys.lock, now);
        let alone = self.terms.keys.mode.is_alone();
        if alone && self.fences.block == 1 && !contended() {
            Means::Native
        } else {
            Means::Script
        }
    }

    /// Asks nodes for their votes, those that refused once more; none that
    /// has yet to answer, and none that has granted. `homes`: those that queue
    /// the waiter if they refuse.
    pub(crate) fn ask(&self, nodes: Nodes, homes: Nodes) {
        self.ask_by(Means::Script, nodes, homes, self.set.clock.now());
    }

    fn ask_by(&self, means: Means, nodes: Nodes, homes: Nodes, now: Instant) {
        let mut state = self.state();
        if state.phase != Phase::Asking {
            return;
        }
        // Where the home has voted, the others are to store the same fence; but no
        // less than the median, for the home's clock alone bounds what it stores.
        let proposed = self.propose(&mut state, means, now);
        let voted = state.votes.marks.iter().map(|mark| mark.stored).max();
        let voted = voted.unwrap_or(0);
        let candidate = voted.max(proposed);
        let candidate = if self.is_undecided() {
            self.first_slot().into()
        } else {
            candidate
        };
        // A node that may be in quarantine is asked so that it says so.
        let native = |i: usize| means == Means::Native && !self.is_out(i);
        let native: Nodes = nodes.iter().filter(|i| native(*i)).collect();
        let let_in = self.is_let_in(&state, now);
        for i in nodes.iter() {
            let queues = self.waiter.is_some() && homes.contains(i) && !native.contains(i);
            let renew_at = now + self.renew_every;
            // In Redisson's layout a node never tells what others have stored: what it has
            // is the hold's.
            let told = candidate.max(self.terms.keys.field.is_some().into());
            let node = state.votes.ask(i, told, queues, renew_at);
            node.scripted |= !native.contains(i);
        }
        drop(state);
        let Some(hold) = self.me.upgrade() else {
            return;
        };
        let sink: Arc<dyn Sink> = hold;
        let ask = |node| {
            let op = Op::Acquire {
                ttl: self.terms.timing.ttl,
                candidate,
                home: homes.contains(node) && !native.contains(node),
                let_in,
                block: self.fences.block,
            };
            if native.contains(node) && self.terms.keys.field.is_none() {
                self.native_question(node, op, now)
            } else {
                self.question(node, op, now)
            }
        };
        self.set.send(nodes.iter().map(ask), &sink);
    }

    /// An acquire by plain commands. Its key ends at a `TIME` of its own by the best
    /// guess, whenever it is carried out: so that one which is stuck in a dead
    /// connection takes no lock that nobody wants.
    fn native_question(&self, node: usize, op: Op, now: Instant) -> Outgoing {
        let deadline = now + self.terms.timing.node_timeout;
        let ends = |(time, server)| (native::key_end(time, self.terms.timing.ttl), server);
        let (not_after, server) = self.set.guess(node, now).map_or((0, 0), ends);
        let request = Request {
            native: true,
            not_after,
            ..self.request(op)
        };
        let mut asked = self.outgoing(node, request, now, deadline, deadline);
        asked.ticket.server = server;
        asked
    }

    /// The fence to propose, once it can be told: 0 before, and without fences.
    /// It is drawn once for each attempt, so that what is written back does not
    /// move with the time.
    pub(super) fn propose(&self, state: &mut State, means: Means, now: Instant) -> u64 {
        let round = &mut state.round;
        if round.candidate == 0 && self.terms.keys.fence_ttl.is_some() {
            // Plain commands are sent as soon as the token is drawn, and propose the time in it. A
            // script may be sent after a wait, when the clocks tell another time.
            let drawn = std::mem::take(&mut state.drawn);
            round.candidate = match drawn {
                drawn if drawn != 0 && (means == Means::Native) => drawn,
                _ => self.set.candidate(self.set.median(now)),
            };
        }
        round.candidate
    }

    /// Sends what is asked of each of those nodes; never with the state locked,
    /// for a link may answer at once.
    pub(super) fn send(
        &self,
        asked: impl IntoIterator<Item = (usize, Op)>,
        now: Instant,
        sink: &Arc<dyn Sink>,
    ) {
        let asked = asked.into_iter();
        let asked = asked.map(|(node, op)| self.question(node, op, now));
        self.set.send(asked, sink);
    }

    fn question(&self, node: usize, op: Op, now: Instant) -> Outgoing {
        let deadline = now + self.terms.timing.node_timeout;
        let deadline = match op {
            // A round is over after twice the time of one request.
            Op::Confirm { .. } => deadline.min(self.attempt_ends()),
            Op::Acquire { .. } if self.waiter.is_none() => deadline.min(self.attempt_ends()),
            _ => deadline,
        };
        let (op, not_after, server) = self.bounded(node, op, now);
        let request = Request {
            not_after,
            ..self.request(op)
        };
        let mut asked = self.outgoing(node, request, now, deadline, deadline);
        asked.ticket.server = server;
        asked
    }

    /// The release that takes the vote back, if the token may stand on the node,
    /// and takes the waiter out of its queue, if it may stand there.
    /// `lined`: a line may stand there, which a script alone serves.
    pub(super) fn release_of(
        &self,
        node: usize,
        traces: Traces,
        lined: bool,
        now: Instant,
    ) -> Outgoing {
        let mut request = self.request(Op::Release);
        // The waiter stands in the queue as it came.
        request.keys = self.asked_by().clone();
        if !traces.token {
            request.value = Value(Arc::default());
        }
        if !traces.waiter {
            request.waiter = None;
        }
        request.leaving = self.leaving(now);
        let keeps = request.leaving != AfterRelease::Free;
        let plain = !traces.scripted && !lined && self.mode().is_alone() && !self.is_undecided();
        let plain = plain && self.terms.keys.field.is_none();
        request.native = traces.token && plain && !traces.waiter && !keeps;
        let deadline = now + self.terms.timing.node_timeout;
        self.outgoing(node, request, now, deadline, now + self.longest_life())
    }

    fn request(&self, op: Op) -> Request {
        Request {
            op,
            native: false,
            keys: self.keys().clone(),
            value: self.value(),
            waiter: self.waiter.clone(),
            leaving: AfterRelease::Free,
            not_after: 0,
        }
    }

    fn outgoing(
        &self,
        node: usize,
        request: Request,
        now: Instant,
        deadline: Instant,
        give_up: Instant,
    ) -> Outgoing {
        let ticket = RequestContext {
            node,
            sent: now,
            deadline,
            op: request.op,
            server: 0,
        };
        Outgoing {
            request,
            ticket,
            give_up,
        }
    }

    /// How long a key may stand that a request stores which was sent by now.
    fn longest_life(&self) -> Duration {
        let max_ttl = self.set.max_ttl;
        let drift = clock::drift_allowance(max_ttl, self.terms.drift);
        // It may be carried out late: see `bounded`.
        let late = 2 * self.terms.timing.node_timeout + native::LONGER;
        max_ttl + drift + late
    }

    /// When the attempt was begun.
    pub fn begun(&self) -> Instant {
        Instant(self.begun.load(Ordering::Acquire))
    }

    /// When an attempt that is still open is over.
    pub(crate) fn attempt_ends(&self) -> Instant {
        let long = 2 * self.terms.timing.node_timeout;
        let long = match self.waiter {
            // Votes from its beginning are to be worth something at its end.
            Some(_) => long.max(
                self.terms
                    .keys
                    .waits
                    .reservation
                    .min(self.terms.timing.ttl / 2),
            ),
            None if self.terms.keys.adopts.is_some() => long.max(self.terms.timing.ttl),
            None => long,
        };
        self.begun() + long
    }

    /// The lease ends here at the latest.
    pub(super) fn last_end(&self) -> Instant {
        let max_hold = self.terms.asked.max_hold;
        max_hold.map_or(Instant::FAR, |max_hold| self.begun() + max_hold)
    }

    /// What is asked of the node at `now`, and the `TIME` after which it must do
    /// nothing: so that a request which is stuck in a dead connection takes no
    /// lock that nobody wants. 0: no such time is known. By the clock of that server.
    ///
    /// Here is rule R11 (`extend` in docs/reference/protocol.md): in quarantine a vote that
    /// is gone is stored anew only on the very server that gave it, and only while
    /// its end is still ahead by that server's own clock.
    fn bounded(&self, node: usize, op: Op, now: Instant) -> (Op, u64, u64) {
        let Some(((_, high), server)) = self.set.node_time(node, now) else {
            return (op, 0, 0);
        };
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX / 2);
        let timeout = self.terms.timing.node_timeout;
        let late = micros(timeout + timeout / 10);
        let Op::Extend {
            ttl,
            repair: Repair::Yes,
            fence,
            behind,
        } = op
        else {
            return (op, high + late, server);
        };
        let (had, its) = self.had(node);
        // Another server may have answered since, to another lease of this client.
        let clock = its;
        let known = self.set.server_time(node, clock, now);
        let Some((low, high)) = known.filter(|_| now < had) else {
            return (op, high + late, server);
        };
        let repair = Repair::InQuarantine { server: its };
        let (usual, end) = (high + late, low + micros(now.until(had)));
        (
            Op::Extend {
                ttl,
                repair,
                fence,
                behind,
            },
            usual.min(end),
            its,
        )
    }
}

/// What of an attempt may be left on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traces {
    /// The token, under the lock's key.
    pub(super) token: bool,
    /// The waiter, in the queue.
    pub(super) waiter: bool,
    /// The node was asked for the token by script, or it is not known what it made of
    /// plain commands.
    pub(super) scripted: bool,
}

/// By which means nodes are asked for their votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// Plain commands, by whoever knows of no other who wants the lock.
    Native,
    /// The script.
    Script,
}

impl Traces {
    pub(super) fn any(self) -> bool {
        self.token || self.waiter
    }
}

#[cfg(test)]
mod tests;
