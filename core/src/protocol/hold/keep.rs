//! A lease once it is won: how long it is valid, its renewal, its loss.

use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::loss::Watch;
use super::votes::{Phase, Said};
use super::{Callback, Hold, State};
use crate::clock::Instant;
use crate::error::NodeError;
use crate::event::event;
use crate::lean::push_exact;
use crate::node::{Op, Repair, Sink};
use crate::protocol::counters::count;
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use crate::protocol::quorum;

impl Hold {
    /// The end of the lease that the nodes' votes make.
    pub(super) fn end_of(&self, state: &State) -> Instant {
        let end = quorum::lease_end(&state.votes.ends);
        end.min(self.last_end())
    }

    /// Ends a lease whose time is over. Loss is sticky from the first look
    /// that finds it so.
    pub(super) fn end_if_over(&self, state: &mut State, now: Instant) -> bool {
        let over = state.phase == Phase::Held && now >= self.end();
        if !over {
            return false;
        }
        let reason = if now >= self.last_end() {
            LossReason::MaxHold
        } else if Hold::is_ended_by_its_thread(state) {
            LossReason::OwnerGone
        } else {
            LossReason::Expired
        };
        self.lose(state, reason);
        true
    }

    pub(super) fn lose(&self, state: &mut State, reason: LossReason) {
        state.phase = Phase::Dead;
        state.loss = Some(reason);
        self.end.store(Instant::NEVER.0, Ordering::Release);
        count(&self.set.counters.lost);
        let held = state.lease.since.until(self.set.clock.now());
        let measures = &self.set.counters.measures;
        measures.lost(state.lease.group, held, reason);
        if reason == LossReason::Closed {
            // Whoever has closed the client knows, and there may be thousands.
            return;
        }
        (self.set.warn)(event!(
            "lease_lost",
            "the lease of the lock `{lock}` is lost: {reason}",
            lock = self.set.lock_of(&self.terms.keys.lock),
            reason = reason.as_str(),
        ));
    }

    /// Tells a loss that has just been entered into `state`, and cleans up.
    pub(super) fn publish(&self, mut state: MutexGuard<'_, State>) {
        let Some(reason) = state.loss else { return };
        let wakers = state.lease.watchers.take();
        let callbacks = std::mem::take(&mut state.lease.callbacks);
        let now = self.set.clock.now();
        let traces = self.traces(&state.votes, None, now);
        let old = self.adopted(&state.votes);
        drop(state);
        wakers.wake();
        for callback in callbacks {
            callback(reason);
        }
        self.undo(&traces);
        self.release_old(old, now);
        self.tell_over();
    }

    /// Calls `act` when the token is dead that was won, behind the requests that
    /// free its keys.
    pub(crate) fn on_over(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.told.over.set(Box::new(act));
    }

    pub(super) fn tell_over(&self) {
        if let Some(act) = self.told.over.get() {
            act();
        }
    }

    /// Whether the token is dead: lost, undone or released.
    pub(crate) fn is_over(&self) -> bool {
        self.state().phase == Phase::Dead
    }

    /// The end of the lease as it stands; `NEVER` for a token that is none, or
    /// no more.
    pub fn end(&self) -> Instant {
        Instant(self.end.load(Ordering::Acquire))
    }

    /// Whether the lease is valid now. Exact: read from the clock, not from
    /// the watchdog.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Since when the lease is held, and of which group it is; nothing of one that is over. Tells
    /// nobody of a loss.
    pub(crate) fn age(&self, now: Instant) -> Option<(Group, Duration)> {
        let state = self.state();
        let held = state.phase == Phase::Held && now < self.end();
        held.then(|| (state.lease.group, state.lease.since.until(now)))
    }

    /// Whether the lease ends by `max_hold`, and no renewal lengthens it.
    pub(crate) fn is_at_its_cap(&self) -> bool {
        let end = self.end();
        end != Instant::NEVER && end >= self.last_end()
    }

    /// What each node said last of a lease, in the order of the node list: why it is not renewed,
    /// or was lost.
    pub(crate) fn answers(&self) -> Vec<NodeError> {
        let now = self.set.clock.now();
        let state = self.state();
        let nodes = state.votes.nodes.iter().zip(&state.votes.ends);
        let said = nodes.map(|(node, end)| match &node.said {
            Said::Granted if *end > now => ("it has the vote".into(), false),
            Said::Granted => ("its vote has ended, and was not renewed".into(), false),
            said => (said.to_string(), said.is_fault()),
        });
        let links = self.set.links.iter();
        links
            .zip(said)
            .map(|(link, (said, fault))| NodeError::new(link.shown(), said).at_fault(fault))
            .collect()
    }

    /// Validity left; zero if the lease is over.
    pub fn remaining(&self) -> Duration {
        let end = self.end();
        if end == Instant::NEVER {
            return Duration::ZERO;
        }
        let now = self.set.clock.now();
        if now < end {
            return now.until(end);
        }
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
        }
        Duration::ZERO
    }

    /// Why this [lease](Hold::lease) of the token was lost, if it was.
    pub fn loss(&self, lease: u32) -> Option<LossReason> {
        self.remaining();
        let state = self.state();
        state.loss.filter(|_| state.lease.passed == lease)
    }

    /// Ends when this [lease](Hold::lease) of the token is lost; never, if it
    /// is released first.
    pub fn lost(self: &Arc<Self>, lease: u32) -> Watch {
        Watch {
            hold: self.clone(),
            lease,
            place: None,
        }
    }

    /// Calls `callback` at the loss of this [lease](Hold::lease) of the token,
    /// or now if it has come.
    pub(crate) fn on_lost(&self, lease: u32, callback: Callback) {
        let mut state = self.state();
        match state.loss {
            _ if (state.lease.passed != lease) => {}
            None => push_exact(&mut state.lease.callbacks, callback),
            Some(reason) => {
                drop(state);
                callback(reason);
            }
        }
    }

    /// Ends a valid lease with a loss: its client closes.
    pub(crate) fn forfeit(&self, reason: LossReason) {
        let mut state = self.state();
        if state.phase == Phase::Held {
            self.lose(&mut state, reason);
            self.publish(state);
        }
    }

    /// Renews what is due, ends what is over. Returns when to look again;
    /// `None` once the token is dead.
    pub fn tend(self: &Arc<Self>) -> Option<Instant> {
        let now = self.set.clock.now();
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
            return None;
        }
        if state.phase != Phase::Held {
            return None;
        }
        let mut look = self.end();
        let mut due = Vec::new();
        let gone = Hold::is_ended_by_its_thread(&state);
        if self.terms.asked.renew && !gone {
            for (i, node) in state.votes.nodes.iter_mut().enumerate() {
                let requests = &mut node.requests;
                let busy = requests.renewing.is_some_and(|deadline| now < deadline);
                if !busy && requests.renew_at <= now {
                    requests.renewing = Some(now + self.terms.timing.node_timeout);
                    requests.reached += 1;
                    due.push(i);
                }
                look = look.min(match requests.renewing {
                    Some(deadline) => deadline.max(now + Duration::from_millis(1)),
                    None => requests.renew_at,
                });
            }
        }
        look = look.min(self.warn_near_the_cap(&mut state, now));
        self.tell_of_its_thread(&mut state);
        drop(state);
        let sink: Arc<dyn Sink> = self.clone();
        let op = self.renewal(self.terms.timing.ttl);
        self.send(due.into_iter().map(|node| (node, op)), now, &sink);
        Some(look)
    }

    /// The request that renews a node's vote. The lease is valid at this moment,
    /// so it may repair.
    pub(super) fn renewal(&self, ttl: Duration) -> Op {
        Op::Extend {
            ttl,
            repair: Repair::Yes,
            // So that a node which lost its counter counts on behind the block.
            fence: self.block_end(),
            behind: u32::try_from(self.block_end() - self.fence()).unwrap_or(0),
        }
    }

    /// Until when the node held our token for certain, and which server that was.
    pub(super) fn had(&self, node: usize) -> (Instant, u64) {
        let had = self.state().votes.nodes[node].had;
        (had.until, had.server)
    }

    /// Whether the thread has ended that owns the lease.
    fn is_ended_by_its_thread(state: &State) -> bool {
        state
            .lease
            .bound
            .as_ref()
            .is_some_and(|bound| bound.ends_lease())
    }

    /// Warns once of a lease that lives on though the thread that acquired it by hand has ended:
    /// it may have been handed on, or forgotten.
    fn tell_of_its_thread(&self, state: &mut State) {
        if state
            .lease
            .bound
            .take_if(|bound| bound.is_to_tell())
            .is_none()
        {
            return;
        }
        (self.set.warn)(event!(
            "thread_ended",
            "the thread that acquired the lock `{lock}` has ended, and its lease is still kept: it \
             is renewed until it is released",
            lock = self.set.lock_of(&self.terms.keys.lock),
        ));
    }

    /// Warns once at four fifths of `max_hold`; returns when to look.
    fn warn_near_the_cap(&self, state: &mut State, now: Instant) -> Instant {
        let Some(max_hold) = self.terms.asked.max_hold else {
            return Instant::FAR;
        };
        let at = self.begun() + max_hold.mul_f64(0.8);
        if state.warned {
            return Instant::FAR;
        }
        if now < at {
            return at;
        }
        state.warned = true;
        (self.set.warn)(event!(
            "max_hold_near",
            "the lock `{lock}` has been held for 80 % of max_hold ({max_hold}): it will be lost at \
             the end of it",
            lock = self.set.lock_of(&self.terms.keys.lock),
            max_hold = format!("{max_hold:?}"),
        ));
        Instant::FAR
    }

    /// When the watchdog has to look first.
    pub(crate) fn first_look(&self) -> Instant {
        let mut look = self.end();
        if self.terms.asked.renew {
            look = look.min(self.rules().coarse(self.begun() + self.renew_every));
        }
        look
    }
}
