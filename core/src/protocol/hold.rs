//! One token on all nodes: the round that wins it, the votes that keep it, the
//! undo that ends it.
//!
//! A [`Hold`] is one token's life. It begins as an attempt; if a quorum votes
//! for it, it is a lease; in the end it is dead, and its release is on the way
//! to every node that may know it. It takes the nodes' replies where they
//! arrive and wakes its waiter once.

mod ask;
mod at_home;
mod downgrade;
mod drain;
mod export;
mod extension;
mod keep;
mod loss;
mod no_quorum;
mod pass;
mod progress;
mod release;
mod slot;
mod steps;
mod votes;
mod write_back;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::{FaultKind, Keys, Op, Reply, RequestContext, Sink, Value, Waiter};
use crate::owner::Bound;
use crate::protocol::asked::Asked;
use crate::protocol::counters::count;
use crate::protocol::fence::{self, Fence};
use crate::protocol::group::Group;
use crate::protocol::home::Word;
use crate::protocol::loss::LossReason;
use crate::protocol::quorum::{self, Kind, Verdict, Vote};
use crate::protocol::set::Set;
use crate::protocol::timing::Timing;
use crate::token::Token;
use crate::wakers::{Wakers, Watchers};

pub(crate) use ask::Means;
pub use extension::Extended;
pub use loss::Watch;
pub use no_quorum::NoQuorum;
pub(crate) use pass::IN_A_ROW;
pub(crate) use release::Release;
pub(crate) use slot::look_for_slot;

use votes::{Phase, Rules, Votes};

/// What a lock asks for with one token.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Which lock.
    pub keys: Arc<Keys>,
    /// The label that goes with the token; empty for none.
    pub label: Arc<String>,
    /// Times that follow from the ttl.
    pub timing: Timing,
    /// Bound on the difference of clock rates.
    pub drift: f64,
    /// What another request for the lock is compared with.
    pub asked: Asked,
    /// The thread that the lease is bound to.
    pub bound: Option<Arc<Bound>>,
    /// By which metrics tell it from others.
    pub group: Group,
}

/// One token's life. See the [module documentation](self).
pub struct Hold {
    /// Itself, to be the sink of what it sends.
    me: Weak<Hold>,
    pub(crate) set: Arc<Set>,
    pub(crate) terms: Terms,
    /// The keys that it is asked for by, where those are not its terms': of the slot that it
    /// is to have, or has; and since the lease is [shared](Hold::share) that was not.
    own_keys: OnceLock<Arc<Keys>>,
    /// Names the hold to the watchdog.
    pub(crate) id: u64,
    /// The token, and behind it the label that it was drawn with, if there is one.
    value: Value,
    /// The same with the label of a lease that it was passed on to, once that had another, and since
    /// when. Few have it, and many wait.
    relabelled: OnceBox<Mutex<(Value, Instant)>>,
    /// Who waits, if the attempt may.
    waiter: Option<Waiter>,
    /// The first request of the attempt was sent after this moment.
    begun: AtomicU64,
    renew_every: Duration,
    /// When the present lease was handed to its user; `NEVER` before.
    handed_over: AtomicU64,
    /// The lease's end while it is valid; `NEVER` before and after. Written
    /// under `state`, read without it.
    end: AtomicU64,
    fences: Fences,
    told: Told,
    state: Mutex<State>,
}

/// What a hold knows, under its lock.
struct State {
    /// The [candidate](Set::candidate) that is the time in the token, until one is proposed.
    drawn: u64,
    phase: Phase,
    votes: Votes,
    round: Round,
    /// Why the lease was lost, if it was.
    loss: Option<LossReason>,
    /// It was told that `max_hold` is near.
    warned: bool,
    /// A node has said that the token was forced out.
    banned: bool,
    lease: LeaseState,
}

/// The round that is to win the token.
#[derive(Default)]
struct Round {
    /// Counts what whoever waits is woken for.
    progress: u64,
    /// See [`propose`](Hold::propose).
    candidate: u64,
    /// A quorum has voted, and the home is waited for until then.
    home_due: Option<Instant>,
    /// That alone keeps the round from being won.
    awaits_home: bool,
    /// The home that has refused plain commands, and is asked again by script.
    taken: Option<usize>,
    /// Which slot the home has chosen.
    chosen: Option<u32>,
    /// Who waits for the verdict.
    wakers: Wakers,
}

/// The present one of the leases that the token is passed through.
struct LeaseState {
    /// How often the token was passed on.
    passed: u32,
    /// By which metrics tell it from others.
    group: Group,
    /// When it was won.
    since: Instant,
    /// The thread that it is bound to; nothing once it has been told that this has ended.
    bound: Option<Arc<Bound>>,
    /// Who waits for the loss.
    watchers: Watchers,
    callbacks: Vec<Callback>,
}

/// The fences of the token's leases.
struct Fences {
    /// How many the acquire takes, for leases that follow on this token.
    block: u32,
    /// The present lease's, once it is won; 0 without fences.
    present: AtomicU64,
    /// The last of the block.
    last: AtomicU64,
}

/// Who is told of the lease; called with the state not locked.
#[derive(Default)]
struct Told {
    /// It is to be looked at by then: its end has come nearer, or its label has changed.
    earlier_look: OnceLock<Box<dyn Fn(Instant) + Send + Sync>>,
    /// It is over.
    over: OnceLock<Box<OnOver>>,
}

type OnOver = dyn Fn() + Send + Sync;
type Callback = Box<dyn FnOnce(LossReason) + Send>;

impl Hold {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The lease's fence; 0 without fences, and before it is won.
    pub fn fence(&self) -> u64 {
        self.fences.present.load(Ordering::Acquire)
    }

    /// The verdict of the round: won, or how it was lost. A lost token is dead
    /// and its undo sent; why it was lost may take answers that are still to
    /// come, each within its deadline.
    pub fn poll_verdict(&self, cx: &Context<'_>) -> Poll<Result<(), NoQuorum>> {
        let mut state = self.state();
        match state.phase {
            Phase::Asking => state.round.wakers.park(cx),
            Phase::Held => Poll::Ready(Ok(())),
            // A lease may be lost before its winner looks: it was won.
            Phase::Dead if state.loss.is_some() => Poll::Ready(Ok(())),
            Phase::Dead => {
                let lost = state.no_quorum(&self.set, &self.terms.keys.lock);
                match lost.kind() {
                    Kind::Undecided if !lost.misconfigured => state.round.wakers.park(cx),
                    _ => Poll::Ready(Err(lost)),
                }
            }
        }
    }

    /// What the nodes have said so far, for a round that is given up, or was.
    pub(crate) fn so_far(&self) -> NoQuorum {
        self.state().no_quorum(&self.set, &self.terms.keys.lock)
    }

    /// Takes a reply to anything but a release into account.
    fn take(&self, ticket: RequestContext, reply: &Reply, time: Option<u64>) {
        let now = self.set.clock.now();
        if let Some(time) = time {
            self.set.observe(ticket, now, time);
        }
        self.note_health(ticket.node, reply);
        if !matches!(reply, Reply::Failed(_)) {
            let node = &self.set.counters.measures.nodes[ticket.node];
            node.round_trips.add(ticket.sent.until(now));
        }
        if matches!(ticket.op, Op::Reserve { .. }) {
            return;
        }
        if matches!(reply, Reply::Refused { .. } | Reply::Taken) {
            self.set.contention.note(&self.terms.keys.lock, now);
        }
        let mut state = self.state();
        self.note_promptness(&state, ticket, reply, now);
        let before = self.end();
        self.settle_steps(&mut state);
        // A lease that has ended stays ended, even if this reply would have
        // saved it a moment ago.
        if self.end_if_over(&mut state, now) {
            return self.publish(state);
        }
        let phase = state.phase;
        // An answer to a round that is over says yet why it was not won.
        if phase == Phase::Dead && !state.votes.is_awaited(&ticket) {
            return;
        }
        let again = state.votes.apply(ticket, reply, now, phase, &self.rules());
        let unlabelled = self.had_another_label(ticket.sent);
        if matches!(ticket.op, Op::Extend { .. }) && unlabelled {
            state.votes.nodes[ticket.node].requests.renew_at = now;
        }
        if again {
            drop(state);
            if let Some(hold) = self.me.upgrade() {
                let sink: Arc<dyn Sink> = hold;
                self.send([(ticket.node, ticket.op)], now, &sink);
            }
            return;
        }
        if self.is_undecided() {
            return self.take_choice(state, reply);
        }
        state.banned |= *reply == Reply::Banned;
        if let Reply::Extended { repaired } = reply {
            count(&self.set.counters.renewals);
            if *repaired {
                count(&self.set.counters.repairs);
            }
        }
        match phase {
            Phase::Asking => {
                if *reply == Reply::Taken {
                    drop(state);
                    if self.asks_home_again(ticket.node) {
                        return;
                    }
                    state = self.state();
                    if state.phase != Phase::Asking {
                        return;
                    }
                }
                if matches!(reply, Reply::Failed(_) | Reply::Late) {
                    state.refusal_stands(ticket.node);
                }
                self.note_awaited_timeout(&state, now, reply, ticket.node);
                let told = state.count_progress(reply);
                self.decide(state, now, told);
            }
            Phase::Held => self.measure(state, now, before),
            Phase::Dead => {
                let wakers = state.round.wakers.take();
                drop(state);
                wakers.wake();
            }
        }
    }

    /// Notes what a reply tells of its node, whatever becomes of the token.
    fn note_health(&self, node: usize, reply: &Reply) {
        let pause = 2 * self.terms.timing.node_timeout;
        let key = &self.terms.keys.lock;
        self.set.heard(node, reply);
        match reply {
            Reply::Quarantined { left } => {
                self.set.quarantined(node, *left);
                self.set.shut(node, key, false, pause);
            }
            // A node in quarantine refuses too.
            Reply::Refused { place: None, .. } | Reply::Taken => {
                self.set.answered(node, Some(key), false);
            }
            Reply::Failed(fault) => match fault.kind {
                FaultKind::Refused => {}
                FaultKind::Timeout | FaultKind::Unreachable => self.set.silent(node, key, pause),
                FaultKind::NotReady
                | FaultKind::Misconfigured
                | FaultKind::Foreign
                | FaultKind::Unfounded => {
                    self.set.shut(node, key, fault.of_lock, pause);
                }
            },
            _ => self.set.answered(node, Some(key), true),
        }
    }

    /// Finds out until when the lease lasts, after one more reply; `before` it
    /// lasted until then.
    fn measure(&self, mut state: MutexGuard<'_, State>, now: Instant, before: Instant) {
        let end = self.end_of(&state);
        self.end.store(end.0, Ordering::Release);
        if now >= end {
            let reason = if state.banned {
                LossReason::Forced
            } else {
                LossReason::Refused
            };
            self.lose(&mut state, reason);
            return self.publish(state);
        }
        let traces = state.votes.left_behind();
        drop(state);
        self.tell_earlier_end(before);
        if !traces.is_empty() {
            self.undo(&traces);
        }
    }

    /// Counts a timeout without which the round would be open yet.
    fn note_awaited_timeout(&self, state: &State, now: Instant, reply: &Reply, node: usize) {
        if matches!(reply, Reply::Failed(f) if f.kind == FaultKind::Timeout) {
            let needed = now + self.terms.timing.min_validity;
            let mut before = state.votes.cast.clone();
            before[node] = Vote::Awaited;
            if quorum::verdict(&state.votes.cast, needed) == Verdict::Lost
                && quorum::verdict(&before, needed) != Verdict::Lost
            {
                count(&self.set.counters.timeouts_awaited);
            }
        }
    }

    /// The verdict of the round, after one more reply, or when the home has been waited
    /// for long enough. `told`: whoever waits is to know, if it is still open.
    fn decide(&self, mut state: MutexGuard<'_, State>, now: Instant, told: bool) {
        let least = self.terms.timing.min_validity;
        let needed = now + least;
        let verdict = quorum::verdict(&state.votes.cast, needed);
        state.round.awaits_home = false;
        let home = match verdict {
            Verdict::Won => self.word_of_home(&mut state, now),
            Verdict::Open | Verdict::Lost => Word::Yes,
        };
        let fence = match verdict {
            Verdict::Open if !self.is_patient() => return,
            Verdict::Open | Verdict::Lost => None,
            // A queue may stand there.
            Verdict::Won if home == Word::No => None,
            // Votes of a request sent late outlast what `max_hold` leaves.
            Verdict::Won if (needed > self.last_end()) => None,
            Verdict::Won if self.terms.keys.fence_ttl.is_none() => Some(0),
            Verdict::Won => {
                let median = self.propose(&mut state, Means::Script, now);
                let Votes { cast, marks, .. } = &state.votes;
                match fence::verdict(cast, marks, needed, self.fences.block, median) {
                    Fence::Agreed(fence) => Some(fence),
                    // Whoever stores a larger one has it written back again; the
                    // end of the attempt bounds how often.
                    Fence::WriteBack(fence) if now < self.attempt_ends() => {
                        return self.write_back(state, fence, now, needed);
                    }
                    Fence::WriteBack(_) | Fence::Lost => None,
                }
            }
        };
        match fence {
            // Whoever waits sets a timer.
            Some(_) if matches!(home, Word::Awaited(_)) => {
                state.round.awaits_home = true;
                state.round.progress += 1;
                let wakers = state.round.wakers.take();
                drop(state);
                wakers.wake();
                return;
            }
            Some(fence) => self.win(&mut state, fence, now),
            // Whoever waits decides how it goes on.
            None if self.is_patient() => {
                if told {
                    let wakers = state.round.wakers.take();
                    drop(state);
                    wakers.wake();
                }
                return;
            }
            None => {
                state.phase = Phase::Dead;
                count(&self.set.counters.attempts_lost);
            }
        }
        let wakers = state.round.wakers.take();
        let traces = match state.phase {
            Phase::Dead => state.votes.traces(None),
            _ => state.votes.left_behind(),
        };
        drop(state);
        if !traces.is_empty() {
            self.undo(&traces);
        }
        wakers.wake();
    }

    /// Whether whoever waits decides how an attempt goes on that is not won.
    fn is_patient(&self) -> bool {
        self.waiter.is_some() || self.terms.keys.adopts.is_some()
    }

    /// A quorum has voted for the token, and stores its fence.
    fn win(&self, state: &mut State, fence: u64, now: Instant) {
        state.phase = Phase::Held;
        state.lease.since = now;
        self.fences.last.store(fence, Ordering::Release);
        let first = fence.saturating_sub(u64::from(self.fences.block - 1));
        self.fences.present.store(first, Ordering::Release);
        self.end.store(self.end_of(state).0, Ordering::Release);
        count(&self.set.counters.acquired);
    }

    /// The token: 40 hex digits.
    pub fn token(&self) -> &str {
        let token = &self.value.0[..Token::LEN];
        std::str::from_utf8(token).expect("hex digits are ASCII")
    }

    fn rules(&self) -> Rules {
        Rules {
            timing: self.terms.timing,
            drift: self.terms.drift,
            renew_every: self.renew_every,
        }
    }

    /// The key under which its votes stand: of a semaphore that of its slot.
    pub fn lock_key(&self) -> &[u8] {
        &self.keys().lock
    }

    /// What its lock asked for.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

impl Sink for Hold {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<u64>) {
        self.take(ticket, &reply, time);
    }

    fn wanted(&self) -> bool {
        self.state().phase != Phase::Dead
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold")
            .field("key", &crate::error::shown(&self.terms.keys.lock))
            .finish_non_exhaustive()
    }
}
