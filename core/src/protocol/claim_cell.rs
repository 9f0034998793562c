//! The shell of a claim: it locks the [claim](crate::protocol::claim), has it take a step, and
//! performs what that returns.
//!
//! All that happens to a token goes through [`act`](ClaimCell::act). Effects are performed with the claim
//! unlocked, for a link may answer at once: performing may take the next step. So the effects of two
//! threads may be performed in either order. Three things keep that right:
//!
//! - A request that is written after its token has died was not wanted, which the link asks at that
//!   moment: see [`Sink::wanted`].
//! - A release is made from what the claim has counted when it died, and the claim counts a request
//!   before that is sent.
//! - What is read without the lock, the end and the fence of the lease, is written with the claim
//!   locked.

mod extension;
#[cfg(all(test, quorlock_loom))]
mod loom_tests;
mod queries;
mod release;
mod slot;
#[cfg(test)]
pub(crate) mod tests;
mod view;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::clock::Instant;
use crate::event::event;
use crate::node::{
    AfterRelease, FaultKind, Keys, Nodes, Op, Reply, Request, RequestContext, Sink, TimeReading,
    Value, Waiter,
};
use crate::owner::ThreadBinding;
use crate::protocol::claim::effects::{Ask, Counts, Effects, LeaseEnd, Wake, Warnings};
use crate::protocol::claim::{Claim, ClaimInit, Event, LockParams, Phase};
use crate::protocol::counters::{Counters, count};
use crate::protocol::loss::LossReason;
use crate::protocol::set::{Outgoing, Set};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::token::Token;
use crate::wakers::{Wakers, Watchers};

pub use extension::ExtendResult;
pub(crate) use release::Release;
pub(crate) use slot::look_for_slot;
pub use watch::Watch;

/// One token's life, shared by those that ask, hold and watch. See the
/// [module documentation](self).
pub struct ClaimCell {
    /// Itself, to be the sink of what it sends.
    me: Weak<ClaimCell>,
    pub(crate) set: Arc<Set>,
    pub(crate) terms: LockParams,
    /// Names the hold to the watchdog.
    pub(crate) id: u64,
    /// What its token was drawn as.
    drawn: Value,
    /// The waiter that asks, if the attempt may wait.
    waiter: Option<Waiter>,
    /// The [lease's end](Claim::end) as of the last step, read without the lock.
    end: AtomicU64,
    /// Its [fence](Claim::fence), likewise.
    fence: AtomicU64,
    listeners: LeaseHooks,
    state: Mutex<CellState>,
}

/// The claim, and the tasks and callbacks that wait for it.
struct CellState {
    claim: Claim,
    /// The thread that the lease is bound to; none once its end was warned of.
    bound: Option<Arc<ThreadBinding>>,
    /// Those that wait for the verdict of the round.
    round: Wakers,
    /// Those that wait for the loss of the lease.
    watchers: Watchers,
    callbacks: Vec<LossCallback>,
}

type LossCallback = Box<dyn FnOnce(LossReason) + Send>;
type OverCallback = dyn Fn() + Send + Sync;

/// What is called when the lease changes, with the claim unlocked.
#[derive(Default)]
struct LeaseHooks {
    /// The lease is to be looked at by then.
    earlier_look: OnceLock<Box<dyn Fn(Instant) + Send + Sync>>,
    /// The token is dead that was won.
    over: OnceLock<Box<OverCallback>>,
}

/// What a step has awakened, to be woken with the claim unlocked.
#[derive(Default)]
struct WakeList {
    round: Wakers,
    watchers: Wakers,
    callbacks: Vec<LossCallback>,
}

/// What comes of an event for its caller.
struct StepResult {
    /// See [`Effects::done`].
    done: bool,
    /// See [`Effects::look_again`].
    look_again: Option<Instant>,
    /// The answers to come of what was released, if anything was.
    release: Option<Arc<Release>>,
}

/// An event, with what the claim does not know of it.
struct Act<'a> {
    event: Event<'a>,
    /// What takes the replies; the hold itself without it.
    sink: Option<&'a Arc<dyn Sink>>,
    /// To which thread the lease is bound that [follows](Event::PassesOn).
    bound: Option<&'a Arc<ThreadBinding>>,
}

impl<'a> From<Event<'a>> for Act<'a> {
    fn from(event: Event<'a>) -> Act<'a> {
        Act {
            event,
            sink: None,
            bound: None,
        }
    }
}

impl ClaimCell {
    /// Draws a token and asks all nodes for their votes, once: this round decides. `block`: how
    /// many fences are asked for; one, and one for each lease that may follow on the same token.
    /// `slot`: the slot of a semaphore; any without.
    pub fn begin(
        set: &Arc<Set>,
        terms: &LockParams,
        block: u32,
        slot: Option<u32>,
    ) -> Arc<ClaimCell> {
        let now = set.clock.now();
        let hold = ClaimCell::new(set, terms, block, None, None, now);
        match slot {
            Some(slot) => _ = hold.take_slot(slot),
            None => hold.take_any_slot(),
        }
        let path = hold.cheapest_path(now);
        hold.open(Nodes::all(set.links.len()), Nodes::NONE, path, now);
        hold
    }

    /// Draws a token for `waiter`, whose attempt may take many requests: each answer of a node is
    /// [progress](ClaimCell::poll_progress), and the attempt lasts until it is given up. `queued`: the
    /// node in whose queue the waiter stands already, or may.
    pub(crate) fn new(
        set: &Arc<Set>,
        terms: &LockParams,
        block: u32,
        waiter: Option<Waiter>,
        queued: Option<usize>,
        now: Instant,
    ) -> Arc<ClaimCell> {
        let counts = terms.keys.fence_ttl.is_some();
        // The time in the token is what is proposed, so that a reader of the token knows the fence of
        // a lease that was won by plain commands.
        let drawn = if counts {
            set.candidate(set.median(now))
        } else {
            0
        };
        let (token, jitter) = Token::with_jitter(&*set.rng, drawn);
        // The dot tells our tokens from those of others, which may be of as many digits.
        let value = [token.as_str().as_bytes(), b".", terms.label.as_bytes()].concat();
        let value = Value(value.into());
        let beginning = ClaimInit {
            value: value.clone(),
            drawn,
            block,
            waits: waiter.is_some(),
            queued,
            // Up to a fifth of jitter keeps leases that were won together apart.
            renew_every: terms.timing.ttl.mul_f64(0.3 + 0.06 * jitter),
            nodes: set.links.len(),
        };
        let bound = terms.bound.clone();
        let claim = Claim::new(beginning, now, &view::CellEnv::of(set, terms, &bound));
        static IDS: AtomicU64 = AtomicU64::new(0);
        Arc::new_cyclic(|me| ClaimCell {
            me: me.clone(),
            set: set.clone(),
            terms: terms.clone(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            drawn: value,
            waiter,
            end: AtomicU64::new(Instant::NEVER.0),
            fence: AtomicU64::new(0),
            listeners: LeaseHooks::default(),
            state: Mutex::new(CellState {
                claim,
                bound,
                round: Wakers::default(),
                watchers: Watchers::default(),
                callbacks: Vec::new(),
            }),
        })
    }

    /// Has the claim take one step, and performs what follows.
    fn act<'a>(&self, act: impl Into<Act<'a>>, now: Instant) -> StepResult {
        let Act { event, sink, bound } = act.into();
        let mut state = self.state();
        let CellState {
            claim, bound: of, ..
        } = &mut *state;
        let env = view::CellEnv::of(&self.set, &self.terms, of);
        let mut effects = Effects::default();
        claim.step_into(event, now, &env, &mut effects);
        self.end.store(claim.end().0, Ordering::Release);
        self.fence.store(claim.fence(), Ordering::Release);
        let changes =
            effects.wake.is_some() || effects.over.is_some() || effects.passed_on.is_some();
        let awakened = changes.then(|| state.awakened(&effects, bound));
        if effects.warnings.thread_ended {
            state.bound = None;
        }
        drop(state);
        self.perform(&effects, awakened, sink, now)
    }

    fn perform(
        &self,
        effects: &Effects,
        mut awakened: Option<WakeList>,
        sink: Option<&Arc<dyn Sink>>,
        now: Instant,
    ) -> StepResult {
        self.count(effects);
        if effects.warnings != Warnings::default() {
            self.warn(effects.warnings);
        }
        if let Some(node) = effects.homes.prompt {
            self.set.was_prompt(node, &self.terms.keys.lock);
        }
        if let Some(home) = effects.homes.in_vain {
            self.set.waited_in_vain(home, &self.terms.keys.lock);
        }
        if let Some(awakened) = &mut awakened {
            if effects.wake == Some(Wake::BeforeSending) {
                awakened.round.take().wake();
            }
            if let Some(reason) = effects.over.and_then(|over| over.lost) {
                awakened.watchers.take().wake();
                for callback in std::mem::take(&mut awakened.callbacks) {
                    callback(reason);
                }
            }
        }
        if let Some(at) = effects.look_by
            && let Some(look) = self.listeners.earlier_look.get()
        {
            look(at);
        }
        if let Some(due) = effects.home_due {
            self.set.waits_for_home(due, self.id, self.me.clone());
        }
        if let Some((keys, value)) = &effects.asks_for {
            self.send(&effects.asks, keys, value, sink, now);
        }
        let release = effects.release.as_ref();
        let release = release.map(|plan| self.send_release(plan, now));
        if let Some(plan) = &effects.release_adopted {
            self.send_release(plan, now);
        }
        if let Some(awakened) = awakened {
            awakened.round.wake();
        }
        if effects.over.is_some()
            && let Some(over) = self.listeners.over.get()
        {
            over();
        }
        StepResult {
            done: effects.done,
            look_again: effects.look_again,
            release,
        }
    }

    fn count(&self, effects: &Effects) {
        let counters = &self.set.counters;
        if effects.counts != Counts::default() {
            add(effects.counts, counters);
        }
        if let Some((group, held_for)) = effects.passed_on {
            count(&counters.released);
            counters.measures.released(group, held_for);
            count(&counters.acquired);
            count(&counters.passed_on);
        }
        match effects.over {
            None => {}
            Some(LeaseEnd {
                lost: None,
                group,
                held_for,
            }) => {
                count(&counters.released);
                counters.measures.released(group, held_for);
            }
            Some(LeaseEnd {
                lost: Some(reason),
                group,
                held_for,
            }) => {
                count(&counters.lost);
                counters.measures.lost(group, held_for, reason);
                self.warn_of_loss(reason);
            }
        }
    }

    fn warn_of_loss(&self, reason: LossReason) {
        if reason == LossReason::Closed {
            // The user closed the client, and it may hold thousands of leases.
            return;
        }
        (self.set.warn)(event!(
            "lease_lost",
            "the lease of the lock `{lock}` is lost: {reason}",
            lock = self.set.lock_of(&self.terms.keys.lock),
            reason = reason.as_str(),
        ));
    }

    fn warn(&self, warnings: Warnings) {
        if warnings.near_max_hold {
            let max_hold = self.terms.asked.max_hold.unwrap_or_default();
            (self.set.warn)(event!(
                "max_hold_near",
                "the lock `{lock}` has been held for 80 % of max_hold ({max_hold}): it will be lost at \
                 the end of it",
                lock = self.set.lock_of(&self.terms.keys.lock),
                max_hold = format!("{max_hold:?}"),
            ));
        }
        if warnings.thread_ended {
            (self.set.warn)(event!(
                "thread_ended",
                "the thread that acquired the lock `{lock}` has ended, and its lease is still kept: it \
                 is renewed until it is released",
                lock = self.set.lock_of(&self.terms.keys.lock),
            ));
        }
    }

    fn send(
        &self,
        asks: &[Ask],
        keys: &Arc<Keys>,
        value: &Value,
        sink: Option<&Arc<dyn Sink>>,
        now: Instant,
    ) {
        let sink = match sink {
            Some(sink) => sink.clone(),
            None => match self.me.upgrade() {
                Some(hold) => {
                    // Its replies come to the cell, which says that they have.
                    let renewals = asks.iter().filter(|ask| is_renewal(ask.op));
                    renewals.for_each(|ask| self.set.renewal_begins(ask.node));
                    hold
                }
                None => return,
            },
        };
        let outgoing = asks.iter().map(|ask| Outgoing {
            request: Request {
                op: ask.op,
                native: ask.native,
                keys: keys.clone(),
                value: value.clone(),
                waiter: self.waiter.clone(),
                leaving: AfterRelease::Free,
                not_after: ask.not_after,
            },
            ticket: RequestContext {
                node: ask.node,
                sent: now,
                deadline: ask.deadline,
                op: ask.op,
                server: ask.server,
            },
            give_up: ask.deadline,
        });
        self.set.send(outgoing, &sink);
    }

    /// Takes a reply to anything but a release into account.
    fn take(&self, ticket: RequestContext, reply: &Reply, time: Option<TimeReading>) {
        let now = time.map_or_else(|| self.set.clock.now(), |time| time.at);
        if let Some(time) = time {
            self.set.observe(ticket, time);
        }
        self.note_health(ticket.node, reply, now);
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
        self.act(Event::Replied { ticket, reply }, now);
    }

    /// Notes what a reply tells of its node, whatever becomes of the token.
    fn note_health(&self, node: usize, reply: &Reply, now: Instant) {
        let pause = 2 * self.terms.timing.node_timeout;
        let key = &self.terms.keys.lock;
        self.set.heard(node, reply, now);
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

    fn state(&self) -> MutexGuard<'_, CellState> {
        lock(&self.state)
    }
}

fn is_renewal(op: Op) -> bool {
    matches!(op, Op::Extend { .. })
}

fn add(counts: Counts, counters: &Counters) {
    for (counted, counter) in [
        (counts.acquired, &counters.acquired),
        (counts.attempt_lost, &counters.attempts_lost),
        (counts.renewed, &counters.renewals),
        (counts.repaired, &counters.repairs),
        (counts.awaited_timeout, &counters.timeouts_awaited),
    ] {
        if counted {
            count(counter);
        }
    }
    for _ in 0..counts.write_backs {
        count(&counters.write_backs);
    }
}

impl CellState {
    /// Takes out what the effects awaken. `bound`: to which thread a lease is bound that follows.
    fn awakened(&mut self, effects: &Effects, bound: Option<&Arc<ThreadBinding>>) -> WakeList {
        let mut awakened = WakeList::default();
        if effects.wake.is_some() {
            awakened.round = self.round.take();
        }
        let is_lost = effects.over.is_some_and(|over| over.lost.is_some());
        // The watchers of a lease that was passed on have released it: they are not woken.
        if is_lost || effects.passed_on.is_some() {
            let watchers = self.watchers.take();
            if is_lost {
                awakened.watchers = watchers;
            }
            awakened.callbacks = std::mem::take(&mut self.callbacks);
        }
        if effects.passed_on.is_some() {
            self.bound = bound.cloned();
        }
        awakened
    }
}

impl Sink for ClaimCell {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>) {
        if is_renewal(ticket.op) {
            self.set.renewal_ended(ticket.node);
        }
        self.take(ticket, &reply, time);
    }

    fn wanted(&self) -> bool {
        self.state().claim.phase() != Phase::Dead
    }
}

impl std::fmt::Debug for ClaimCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimCell")
            .field("key", &crate::error::shown(&self.terms.keys.lock))
            .finish_non_exhaustive()
    }
}
