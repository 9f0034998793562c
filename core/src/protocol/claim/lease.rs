//! A lease once it is won: how long it is valid, its renewal, its loss, and what else its user may do
//! with it.

use std::time::Duration;

use super::effects::{Effects, PerNode};
use super::env::{BoundThread, Env};
use super::votes::Answer;
use super::{Claim, Phase};
use crate::clock::Instant;
use crate::node::{Mode, Op, Repair};
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use std::sync::Arc;

/// How often in a row a token is passed on: then the lock goes over the nodes,
/// where others may wait too.
pub(crate) const IN_A_ROW: u32 = 16;

impl Claim {
    /// The end of the lease that the nodes' votes make.
    pub(super) fn end_by_votes(&self, env: &impl Env) -> Instant {
        let end = self.votes.lease_end();
        end.min(self.last_end(env))
    }

    /// The lease ends here at the latest, by `max_hold`.
    pub(crate) fn last_end(&self, env: &impl Env) -> Instant {
        let max_hold = env.terms().asked.max_hold;
        max_hold.map_or(Instant::FAR, |max_hold| self.begun + max_hold)
    }

    /// Ends a lease whose time is over. Loss is sticky from the first look
    /// that finds it so.
    pub(super) fn end_if_over(&mut self, now: Instant, env: &impl Env, fx: &mut Effects) -> bool {
        let over = self.phase == Phase::Held && now >= self.lease.end;
        if !over {
            return false;
        }
        let reason = if now >= self.last_end(env) {
            LossReason::MaxHold
        } else if env.thread() == BoundThread::EndsLease {
            LossReason::OwnerGone
        } else {
            LossReason::Expired
        };
        self.lose(reason, now, env, fx);
        true
    }

    /// The lease is lost: its user is to know, and what it has left is taken away.
    pub(super) fn lose(
        &mut self,
        reason: LossReason,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        self.phase = Phase::Dead;
        self.lease.loss = Some(reason);
        self.lease.end = Instant::NEVER;
        fx.over = Some(self.over(Some(reason), now));
        let residues = self.residues_in_the_end(None, now, env);
        fx.release = self.plan_release(residues, now, env);
        fx.release_adopted = self.plan_adopted(now, env);
    }

    /// Finds out until when the lease lasts, after one more reply; `before` it
    /// lasted until then.
    pub(super) fn measure(
        &mut self,
        before: Instant,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        let end = self.end_by_votes(env);
        self.lease.end = end;
        if now >= end {
            let reason = if self.lease.banned {
                LossReason::Forced
            } else {
                LossReason::Refused
            };
            return self.lose(reason, now, env, fx);
        }
        fx.release = self.leave_queues(now, env);
        self.tell_earlier_end(before, fx);
    }

    /// Shortens the votes of nodes whose clocks have stepped forward since.
    pub(super) fn settle_steps(&mut self, env: &impl Env) {
        let mut shortened = false;
        for (i, node) in self.votes.0.iter_mut().enumerate() {
            shortened |= node.step(env.stepped(i));
        }
        if shortened && self.phase == Phase::Held {
            self.lease.end = self.end_by_votes(env);
        }
    }

    /// Looks again after a step of a node's clock.
    pub(super) fn look_at_steps(&mut self, now: Instant, env: &impl Env, fx: &mut Effects) {
        let before = self.lease.end;
        self.settle_steps(env);
        if !self.end_if_over(now, env, fx) {
            self.tell_earlier_end(before, fx);
        }
    }

    fn tell_earlier_end(&self, before: Instant, fx: &mut Effects) {
        if self.lease.end < before {
            fx.look_by = Some(Instant::FAR);
        }
    }

    /// Renews what is due, ends what is over.
    pub(super) fn tick(&mut self, now: Instant, env: &impl Env, fx: &mut Effects) {
        if self.end_if_over(now, env, fx) || self.phase != Phase::Held {
            return;
        }
        let thread = env.thread();
        let mut look = self.lease.end;
        let mut due = PerNode::new();
        let gone = thread == BoundThread::EndsLease;
        if env.terms().asked.renew && !gone {
            for (i, node) in self.votes.0.iter_mut().enumerate() {
                let requests = &mut node.requests;
                let busy = requests.renewing.is_some_and(|deadline| now < deadline);
                if !busy && requests.renew_at <= now {
                    requests.renewing = Some(now + env.terms().timing.node_timeout);
                    requests.reached += 1;
                    due.push(i);
                }
                look = look.min(match requests.renewing {
                    Some(deadline) => deadline.max(now + Duration::from_millis(1)),
                    None => requests.renew_at,
                });
            }
        }
        fx.look_again = Some(look.min(self.warn_near_max_hold(now, env, fx)));
        fx.warnings.thread_ended = thread == BoundThread::Warns;
        if !due.is_empty() {
            let op = self.renewal(env.terms().timing.ttl);
            self.ask_each(due, op, now, env, fx);
        }
    }

    /// The request that renews a node's vote. The lease is valid at this moment,
    /// so it may repair.
    pub(crate) fn renewal(&self, ttl: Duration) -> Op {
        let last = self.lease.last_fence;
        Op::Extend {
            ttl,
            repair: Repair::Yes,
            // A node that lost its counter has to count on behind this lease's block.
            fence: last,
            behind: u32::try_from(last - self.lease.fence).unwrap_or(0),
        }
    }

    /// Warns once at four fifths of `max_hold`; returns when to look.
    fn warn_near_max_hold(&mut self, now: Instant, env: &impl Env, fx: &mut Effects) -> Instant {
        let Some(max_hold) = env.terms().asked.max_hold else {
            return Instant::FAR;
        };
        let at = self.begun + max_hold.mul_f64(0.8);
        if self.lease.warned {
            return Instant::FAR;
        }
        if now < at {
            return at;
        }
        self.lease.warned = true;
        fx.warnings.near_max_hold = true;
        Instant::FAR
    }

    /// When the lease is to be looked at first.
    pub(crate) fn first_look(&self, env: &impl Env) -> Instant {
        let mut look = self.lease.end;
        if env.terms().asked.renew {
            look = look.min(self.rules(env).coarse(self.begun + self.renew_every));
        }
        look
    }

    /// Asks all nodes to lengthen the lease.
    pub(super) fn extend(
        &mut self,
        lease: u32,
        ttl: Duration,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        if self.end_if_over(now, env, fx) || !self.is_of(lease) {
            return;
        }
        for node in &mut self.votes.0 {
            node.requests.reached += 1;
        }
        let op = self.renewal(ttl);
        self.ask_each(0..self.votes.0.len(), op, now, env, fx);
        fx.done = true;
    }

    /// Shares the lease from now on, which is no slot's. An extension tells the nodes, or
    /// the renewals that follow.
    ///
    /// The lease is shared from the moment in which it says so; each node's vote follows by the
    /// next extension that reaches it. No other is let in before, since a vote for one holder
    /// excludes no less than a shared vote. The lease keeps its fence, and what it was to
    /// [keep](crate::protocol::asked::LeaseOptions::keep) it keeps no more.
    pub(super) fn share(&mut self, lease: u32, now: Instant, env: &impl Env, fx: &mut Effects) {
        if self.end_if_over(now, env, fx) || !self.is_of(lease) {
            return;
        }
        if env.terms().keys.mode == Mode::Exclusive {
            let keys = &*env.terms().keys;
            let mode = Mode::Shared;
            let shared = || {
                Arc::new(crate::node::Keys {
                    mode,
                    ..keys.clone()
                })
            };
            self.own_keys.get_or_insert_with(shared);
        }
        fx.done = true;
    }

    /// Ends the lease here, and leaves its votes: they stand until they end, or until another client
    /// [takes them over](crate::protocol::adopt). What the lease has left behind else is given
    /// up: a place in a queue, for a node would call it and wait for it in vain; where no vote is known
    /// what the node was asked for, which may come when the other client is done; and the lease that it
    /// has adopted itself, where that still stands. An extension that is under way to a vote does
    /// nothing there: the other client bans what it takes over.
    pub(super) fn export(&mut self, lease: u32, now: Instant, env: &impl Env, fx: &mut Effects) {
        if self.end_if_over(now, env, fx) || !self.is_of(lease) {
            return;
        }
        // Dead before anybody knows what it takes to go on with it.
        self.phase = Phase::Dead;
        self.lease.end = Instant::NEVER;
        let asked = self.votes.not_granted();
        let residues = self
            .votes
            .residues(None)
            .enumerate()
            .map(|(node, mut left)| {
                let asked = asked.contains(node);
                left.token &= asked;
                left
            });
        fx.release = self.plan_release(residues, now, env);
        fx.release_adopted = self.plan_adopted(now, env);
        fx.over = Some(self.over(None, now));
        fx.done = true;
    }

    /// Ends the lease and begins another on the same token, within one client: no request is sent.
    /// False, and nothing has changed, unless the lease is valid, will be for
    /// half of its ttl and for most of `max_hold`, has a fence left, is not kept, and
    /// has not been passed on too often.
    ///
    /// The votes stand as they did, so exclusion is that of the token. Where the new lease
    /// has another label, it is renewed at once, and each node stores that label with the token.
    /// The new lease has a fence of its own: an acquire takes a block of them where others
    /// wait behind it, and the nodes count to the end of the block.
    pub(super) fn pass_on(
        &mut self,
        label: &str,
        group: Group,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) -> bool {
        let ample = now + env.terms().timing.ttl / 2;
        let max_hold = env.terms().asked.max_hold;
        let young =
            max_hold.is_none_or(|max_hold| now + max_hold.mul_f64(0.8) <= self.last_end(env));
        let fence = self.lease.fence;
        let fenced = fence == 0 || fence < self.lease.last_fence;
        if self.phase != Phase::Held
            || (self.lease.end < ample)
            || !young
            || self.is_kept(now, env)
            || !fenced
            || (self.lease.passed >= IN_A_ROW)
            || self.mode(env) == Mode::Shared
        {
            return false;
        }
        self.lease.passed += 1;
        if fence != 0 {
            self.lease.fence = fence + 1;
        }
        self.lease.handed_over = Instant::NEVER;
        if self.relabel(label, now) {
            for node in &mut self.votes.0 {
                node.requests.renew_at = now;
            }
            fx.look_by = Some(now);
        }
        let before = std::mem::replace(&mut self.lease.group, group);
        let since = std::mem::replace(&mut self.lease.since, now);
        fx.passed_on = Some((before, since.until(now)));
        true
    }

    /// The lease has this label from now on. Returns whether it had another. The nodes hear of it by
    /// the next renewal.
    fn relabel(&mut self, label: &str, now: Instant) -> bool {
        if self.value.label() == Some(label.as_bytes()) {
            return false;
        }
        self.value = self.value.labelled(label);
        self.relabelled = now;
        true
    }

    /// The lease is its user's from now on: what is kept is kept from here. A lease that no user
    /// has got is taken back without a trace. Another handle on the lease changes nothing.
    pub(super) fn hand_over(&mut self, now: Instant) {
        if self.lease.handed_over == Instant::NEVER {
            self.lease.handed_over = now;
        }
    }

    /// Whether the token is a lease, of this number: after it was passed on, the lease is
    /// another's.
    fn is_of(&self, lease: u32) -> bool {
        self.phase == Phase::Held && self.lease.passed == lease
    }

    /// Which of the token's leases is the present one.
    pub(crate) fn lease(&self) -> u32 {
        self.lease.passed
    }

    /// The end of the lease as it stands; `NEVER` for a token that is none, or no more.
    pub(crate) fn end(&self) -> Instant {
        self.lease.end
    }

    /// The lease's fence; 0 without fences, and before it is won.
    pub(crate) fn fence(&self) -> u64 {
        self.lease.fence
    }

    /// The last fence that was counted for the token, or for a lease that might have followed.
    pub(crate) fn last_fence(&self) -> u64 {
        self.lease.last_fence
    }

    /// Why the token's last lease was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.lease.loss
    }

    /// Since when the lease is held, and of which group it is; `None` of a lease that is over, even
    /// before its user learns of the loss.
    pub(crate) fn age(&self, now: Instant) -> Option<(Group, Duration)> {
        let held = self.phase == Phase::Held && now < self.lease.end;
        held.then(|| (self.lease.group, self.lease.since.until(now)))
    }

    /// What each node said last of the lease, in the order of the node list: why it is not renewed,
    /// or was lost. With each whether the node is at fault.
    pub(crate) fn answers(&self, now: Instant) -> impl Iterator<Item = (String, bool)> {
        self.votes.0.iter().map(move |node| match &node.answer {
            Answer::Granted if node.end > now => ("it has the vote".into(), false),
            Answer::Granted => ("its vote has ended, and was not renewed".into(), false),
            answer => (answer.to_string(), answer.is_fault()),
        })
    }
}
