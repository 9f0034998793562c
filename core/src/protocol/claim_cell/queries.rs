//! What others ask of a hold, and have it do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use super::release::Release;
use super::view::CellEnv;
use super::watch::Watch;
use super::{Act, CellState, ClaimCell, LossCallback};
use crate::clock::Instant;
use crate::error::NodeError;
use crate::lean::push_exact;
use crate::node::{Keys, Mode, Nodes, Value};
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim::home::{HomeWait, NodeState};
use crate::protocol::claim::{Claim, Event, LockParams, Path, Phase};
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use crate::token::Token;

/// The attempt.
impl ClaimCell {
    /// Begins the attempt, or its next round: see [`Event::Begins`].
    pub(crate) fn open(&self, nodes: Nodes, homes: Nodes, path: Path, now: Instant) {
        self.act(Event::Begins { path, nodes, homes }, now);
    }

    /// Asks nodes for their votes by script: see [`Event::Asks`].
    pub(crate) fn ask(&self, nodes: Nodes, homes: Nodes) {
        self.act(Event::Asks { nodes, homes }, self.set.clock.now());
    }

    /// Reserves the lock for the waiter on all nodes but the `home`.
    pub(crate) fn reserve(&self, home: usize, now: Instant) {
        self.act(Event::Reserves { home }, now);
    }

    /// The token is to have any slot, if its lock is a semaphore.
    pub(crate) fn take_any_slot(&self) {
        if self.terms.is_of_any_slot() {
            let slot = self.ask_claim(|claim, env| claim.first_slot(env));
            self.take_slot(slot);
        }
    }

    /// The token is to have this slot. False where the semaphore has none of that number.
    pub(crate) fn take_slot(&self, slot: u32) -> bool {
        let now = self.set.clock.now();
        self.act(Event::TakesSlot { slot }, now).done
    }

    /// Whether the home still has to choose the slot that the token is to have.
    pub(crate) fn is_undecided(&self) -> bool {
        self.ask_claim(|claim, env| claim.is_undecided(env))
    }

    /// The slot that the home has chosen, of which nothing has come so far.
    pub(crate) fn chosen(&self) -> Option<u32> {
        self.ask_claim(|claim, env| claim.chosen(env))
    }

    /// The commands that ask for a lock for which this client has not waited so far.
    pub(crate) fn cheapest_path(&self, now: Instant) -> Path {
        self.ask_claim(|claim, env| claim.cheapest_path(now, env))
    }

    /// The verdict of the round: won, or how it was lost. See [`Claim::verdict`].
    pub fn poll_verdict(&self, cx: &Context<'_>) -> Poll<Result<(), NoQuorum>> {
        let mut state = self.state();
        match state.claim.verdict(&self.view(&state)) {
            Some(verdict) => Poll::Ready(verdict),
            None => state.round.park(cx),
        }
    }

    /// Ready when there is more to know than `seen` counts: the attempt is
    /// [won](ClaimCell::is_won), or a node said something other than yes, or the last
    /// one has answered.
    pub(crate) fn poll_progress(&self, seen: &mut u64, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let progress = state.claim.progress();
        if progress == *seen && state.claim.phase() == Phase::Asking {
            return state.round.park(cx);
        }
        *seen = progress;
        Poll::Ready(())
    }

    /// Has the task of `cx` woken at the next answer to a round that is over.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let _: Poll<()> = self.state().round.park(cx);
    }

    /// What the nodes have said so far, for a round that is given up, or was.
    pub(crate) fn so_far(&self) -> NoQuorum {
        self.ask_claim(|claim, env| claim.no_quorum(env))
    }

    /// Each node's state, for the decision how the attempt goes on.
    pub(crate) fn node_states(&self) -> Vec<NodeState> {
        self.ask_claim(|claim, env| claim.node_states(env))
    }

    /// Whether every node that was asked for its vote has answered, or failed to.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().claim.is_answered()
    }

    /// Whether a quorum voted for it.
    pub(crate) fn is_won(&self) -> bool {
        self.state().claim.is_won()
    }

    /// When the attempt was begun.
    pub fn begun(&self) -> Instant {
        self.state().claim.begun()
    }

    /// When an attempt that is still open is over.
    pub(crate) fn attempt_ends(&self) -> Instant {
        self.ask_claim(|claim, env| claim.attempt_ends(env))
    }
}

/// The lease.
impl ClaimCell {
    /// The token: 40 hex digits.
    pub fn token(&self) -> &str {
        let token = &self.drawn.0[..Token::LEN];
        std::str::from_utf8(token).expect("hex digits are ASCII")
    }

    /// What its lock asked for.
    pub fn terms(&self) -> &LockParams {
        &self.terms
    }

    /// What all requests for the token have in common.
    pub fn keys(&self) -> Arc<Keys> {
        let state = self.state();
        state.claim.keys(&self.view(&state)).clone()
    }

    /// The key under which its votes stand: of a semaphore that of its slot.
    pub fn lock_key(&self) -> Arc<[u8]> {
        self.keys().lock.clone()
    }

    /// In which mode the lease is held.
    pub fn mode(&self) -> Mode {
        self.ask_claim(|claim, env| claim.mode(env))
    }

    /// What stands for the lease on the nodes, or will by the next renewal.
    pub(crate) fn value(&self) -> Value {
        self.state().claim.value().clone()
    }

    /// The lease's fence; 0 without fences, and before it is won.
    pub fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
    }

    /// The last fence that was counted for it, or for a lease that might have followed.
    pub(crate) fn last_fence(&self) -> u64 {
        self.state().claim.last_fence()
    }

    /// Which of the token's leases is the present one.
    pub fn lease(&self) -> u32 {
        self.state().claim.lease()
    }

    /// Whether this lease of the token is valid now, and not a lease that followed it.
    pub(super) fn holds(&self, lease: u32) -> bool {
        self.is_held() && self.lease() == lease
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
        self.act(Event::LookedAt, now);
        Duration::ZERO
    }

    /// Since when the lease is held, and of which group it is; nothing of a lease that is over. Its
    /// user learns of no loss by this.
    pub(crate) fn age(&self, now: Instant) -> Option<(Group, Duration)> {
        self.state().claim.age(now)
    }

    /// Whether the lease ends by `max_hold`, and no renewal lengthens it.
    pub(crate) fn is_at_its_cap(&self) -> bool {
        let end = self.end();
        end != Instant::NEVER && end >= self.last_end()
    }

    /// The lease ends here at the latest.
    pub(super) fn last_end(&self) -> Instant {
        self.ask_claim(|claim, env| claim.last_end(env))
    }

    /// What each node said last of a lease, in the order of the node list: why it is not renewed,
    /// or was lost.
    pub(crate) fn answers(&self) -> Vec<NodeError> {
        let now = self.set.clock.now();
        let state = self.state();
        let links = self.set.links.iter();
        links
            .zip(state.claim.answers(now))
            .map(|(link, (said, fault))| NodeError::new(link.shown(), said).at_fault(fault))
            .collect()
    }

    /// The lease is its user's from now on: what is kept is kept from here. A lease that no user
    /// has got is taken back without a trace.
    pub(crate) fn hand_over(&self) {
        if !self.terms.asked.keep.is_zero() {
            self.act(Event::HandedOver, self.set.clock.now());
        }
    }

    /// It was its user's for nothing.
    pub(crate) fn take_back(&self) {
        self.act(Event::TakenBack, self.set.clock.now());
    }

    /// Ends the lease and begins another, for a request with these `terms`. False, and nothing has
    /// changed, unless the lease is good enough for that.
    pub(crate) fn pass_on(&self, terms: &LockParams) -> bool {
        let event = Event::PassesOn {
            label: &terms.label,
            group: terms.group,
            serves: self.terms.serves(terms),
        };
        let act = Act {
            bound: terms.bound.as_ref(),
            ..event.into()
        };
        self.act(act, self.set.clock.now()).done
    }

    /// Shares this [lease](ClaimCell::lease) of the token from now on, which is no slot's. False, and
    /// nothing has changed, if it is not held, or was passed on.
    pub(crate) fn share(&self, lease: u32) -> bool {
        let now = self.set.clock.now();
        self.act(Event::Shares { lease }, now).done
    }

    /// Ends this [lease](ClaimCell::lease) of the token here, and leaves its votes. Returns how much of
    /// `max_hold` is left, if that is bounded; `None`, and nothing has changed, unless the lease is
    /// valid. A lease that has been passed on meanwhile is another's.
    pub(crate) fn export(&self, lease: u32) -> Option<Option<Duration>> {
        let now = self.set.clock.now();
        let exported = self.act(Event::Exports { lease }, now).done;
        exported.then(|| {
            let left = |max_hold| now.until(self.last_end()).min(max_hold);
            self.terms.asked.max_hold.map(left)
        })
    }
}

impl HomeWait for ClaimCell {
    fn home_is_due(&self) -> Option<Instant> {
        self.state().claim.home_due()
    }

    fn look_for_home(&self, now: Instant) {
        self.act(Event::HomeDue, now);
    }
}

/// Its end.
impl ClaimCell {
    /// Ends the token's life and sends its release to every node that may
    /// know it. Returns whether the lease was valid, and the nodes' answers to
    /// come. Also the end of an attempt that is given up: its waiter leaves
    /// every queue.
    pub fn release(&self) -> (bool, Arc<Release>) {
        self.give_up(None)
    }

    /// As [`release`](ClaimCell::release), but the waiter stays in the queue of the
    /// node `stay`.
    pub(crate) fn give_up(&self, stay: Option<usize>) -> (bool, Arc<Release>) {
        let outcome = self.act(Event::Released { stay }, self.set.clock.now());
        let release = outcome.release.filter(|_| !self.is_lost());
        (
            outcome.done,
            release.unwrap_or_else(|| Release::new(&self.set, false, 0)),
        )
    }

    fn is_lost(&self) -> bool {
        self.state().claim.loss().is_some()
    }

    /// Ends a valid lease with a loss: its client closes, or its lock is taken away.
    pub(crate) fn forfeit(&self, reason: LossReason) {
        self.act(Event::Forfeited(reason), self.set.clock.now());
    }

    /// Renews what is due, ends what is over. Returns when to look again;
    /// `None` once the token is dead.
    pub fn tend(&self) -> Option<Instant> {
        self.act(Event::Tick, self.set.clock.now()).look_again
    }

    /// Whether to [tend](ClaimCell::tend) the lease later, and when: enough renewals are under way,
    /// and more than a quarter of its ttl is left.
    pub(crate) fn may_wait(&self) -> Option<Instant> {
        if !self.set.is_renewing_enough() {
            return None;
        }
        let now = self.set.clock.now();
        let ttl = self.terms.timing.ttl;
        // Leases that wait together come back one after the other.
        let later = ttl / 64 + ttl / 64 * (self.id % 64) as u32 / 64;
        (now + ttl / 4 + later < self.end()).then_some(now + later)
    }

    /// When the watchdog has to look first.
    pub(crate) fn first_look(&self) -> Instant {
        self.ask_claim(|claim, env| claim.first_look(env))
    }

    /// Looks again after a step of a node's clock.
    pub(crate) fn stepped(&self) {
        self.act(Event::ClockStepped, self.set.clock.now());
    }

    /// Calls `act` whenever the lease is to be looked at earlier than was said, with the moment;
    /// at its end in any case.
    pub(crate) fn on_earlier_look(&self, act: impl Fn(Instant) + Send + Sync + 'static) {
        let _ = self.listeners.earlier_look.set(Box::new(act));
    }

    /// Calls `act` when the token is dead that was won, behind the requests that
    /// free its keys.
    pub(crate) fn on_over(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.listeners.over.set(Box::new(act));
    }

    /// Whether the token is dead: lost, undone or released.
    pub(crate) fn is_over(&self) -> bool {
        self.state().claim.phase() == Phase::Dead
    }

    /// Why this [lease](ClaimCell::lease) of the token was lost, if it was.
    pub fn loss(&self, lease: u32) -> Option<LossReason> {
        self.remaining();
        let state = self.state();
        let loss = state.claim.loss();
        loss.filter(|_| state.claim.lease() == lease)
    }

    /// Ends when this [lease](ClaimCell::lease) of the token is lost; never, if it
    /// is released first.
    pub fn lost(self: &Arc<Self>, lease: u32) -> Watch {
        Watch {
            hold: self.clone(),
            lease,
            place: None,
        }
    }

    /// Calls `callback` at the loss of this [lease](ClaimCell::lease) of the token,
    /// or now if it has come.
    pub(crate) fn on_lost(&self, lease: u32, callback: LossCallback) {
        let mut state = self.state();
        match state.claim.loss() {
            _ if (state.claim.lease() != lease) => {}
            None => push_exact(&mut state.callbacks, callback),
            Some(reason) => {
                drop(state);
                callback(reason);
            }
        }
    }
}

impl ClaimCell {
    /// What the claim says to a question about it.
    fn ask_claim<T>(&self, question: impl FnOnce(&Claim, &CellEnv<'_>) -> T) -> T {
        let state = self.state();
        question(&state.claim, &self.view(&state))
    }

    fn view<'a>(&'a self, state: &'a CellState) -> CellEnv<'a> {
        CellEnv::of(&self.set, &self.terms, &state.bound)
    }

    /// The fence that a renewal carries for a node which has lost its counter.
    #[cfg(test)]
    pub(crate) fn renews_fence(&self) -> u64 {
        match self.state().claim.renewal(self.terms.timing.ttl) {
            crate::node::Op::Extend { fence, .. } => fence,
            _ => 0,
        }
    }

    /// With what a node is renewed at `now`, its bound, and by which server's clock that is.
    #[cfg(test)]
    pub(super) fn renewal_of(&self, node: usize, now: Instant) -> (crate::node::Op, u64, u64) {
        let ttl = self.terms.timing.ttl;
        self.ask_claim(|claim, env| claim.bounded(node, claim.renewal(ttl), now, env))
    }
}
