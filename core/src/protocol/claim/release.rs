//! The end of a token: what it may have left on the nodes, and what is sent to which node so that
//! nothing of it is left there.

use std::time::Duration;

use super::effects::{Effects, LeaseEnd, NodeRelease, PerNode, ReleasePlan, Wake};
use super::env::Env;
use super::votes::Votes;
use super::{Claim, Phase};
use crate::clock::{self, Instant};
use crate::node::{AfterRelease, Mode, Nodes, Value, native};
use crate::protocol::quorum::Vote;

/// What of an attempt may be left on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Residue {
    /// The token, under the lock's key.
    pub(super) token: bool,
    /// The waiter, in the queue.
    pub(super) waiter: bool,
    /// The node was asked for the token by script, or it is not known what it made of
    /// plain commands.
    pub(super) scripted: bool,
}

impl Residue {
    fn any(self) -> bool {
        self.token || self.waiter
    }
}

impl Claim {
    /// Ends the token's life. Also the end of an attempt that is given up: its waiter leaves every
    /// queue but the queue at `stay`.
    pub(super) fn release(
        &mut self,
        stay: Option<usize>,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        if self.end_if_over(now, env, fx) {
            return;
        }
        let was = self.phase;
        // Dead first, then the first byte: nothing is renewed, repaired or
        // won for this token from here on.
        self.phase = Phase::Dead;
        self.lease.end = Instant::NEVER;
        fx.wake = Some(Wake::BeforeSending);
        if was == Phase::Dead {
            return;
        }
        let residues = self.residues_in_the_end(stay, now, env);
        fx.release = self.plan_release(residues, now, env);
        if was == Phase::Held {
            fx.release_adopted = self.plan_adopted(now, env);
            fx.over = Some(self.over(None, now));
            fx.done = true;
        }
    }

    pub(super) fn over(
        &self,
        lost: Option<crate::protocol::loss::LossReason>,
        now: Instant,
    ) -> LeaseEnd {
        LeaseEnd {
            lost,
            group: self.lease.group,
            held_for: self.lease.since.until(now),
        }
    }

    /// What is sent to the nodes on which something may be left; `None` if there are none.
    pub(super) fn plan_release(
        &self,
        residues: impl Iterator<Item = Residue>,
        now: Instant,
        env: &impl Env,
    ) -> Option<ReleasePlan> {
        let after = self.after_release(now, env);
        // A line may stand there, which a script alone serves.
        let lined = env.is_contended(now);
        let keeps = after != AfterRelease::Free;
        let plain = !lined && self.mode(env).is_alone() && !self.is_undecided(env);
        let plain = plain && env.terms().keys.field.is_none() && !keeps;
        let of = |(node, left): (usize, Residue)| NodeRelease {
            node: node as u8,
            token: left.token,
            waiter: left.waiter,
            native: plain && left.token && !left.scripted && !left.waiter,
        };
        let left = residues.enumerate().filter(|(_, left)| left.any());
        let nodes: PerNode<NodeRelease> = left.map(of).collect();
        (!nodes.is_empty()).then(|| ReleasePlan {
            keeps: after.keeps(),
            ..self.plan(self.value.clone(), after, nodes, now, env)
        })
    }

    /// Of a lease that is over: what it has adopted may still stand on nodes whose votes were not
    /// taken over. No other client can win with that any more, and none takes it away.
    pub(super) fn plan_adopted(&self, now: Instant, env: &impl Env) -> Option<Box<ReleasePlan>> {
        let adopted = env.terms().keys.adopts.as_ref()?;
        let release = |node: usize| NodeRelease {
            node: node as u8,
            token: true,
            waiter: false,
            native: false,
        };
        let nodes = self.votes.not_granted().iter().map(release).collect();
        let after = self.after_release(now, env);
        Some(Box::new(self.plan(
            adopted.value.clone(),
            after,
            nodes,
            now,
            env,
        )))
    }

    fn plan(
        &self,
        value: Value,
        after: AfterRelease,
        nodes: PerNode<NodeRelease>,
        now: Instant,
        env: &impl Env,
    ) -> ReleasePlan {
        ReleasePlan {
            // The waiter stands in the queue as it came.
            keys: self.asked_by(env).clone(),
            value,
            after,
            keeps: false,
            deadline: now + env.terms().timing.node_timeout,
            give_up: now + longest_life(env),
            nodes,
        }
    }

    /// What may be left of a token that was a lease, or may be one. Where the lock is to stay taken
    /// all nodes are to know that, for another would win by those that gave the token no vote.
    pub(super) fn residues_in_the_end(
        &self,
        stay: Option<usize>,
        now: Instant,
        env: &impl Env,
    ) -> impl Iterator<Item = Residue> {
        let keeps = self.after_release(now, env).keeps();
        self.votes.residues(stay).map(move |left| Residue {
            token: left.token || keeps,
            scripted: left.scripted || keeps,
            ..left
        })
    }

    /// Takes a waiter that has what it waited for out of the queues of nodes that have answered, or
    /// failed to.
    pub(super) fn leave_queues(&mut self, now: Instant, env: &impl Env) -> Option<ReleasePlan> {
        if !self.votes.0.iter().any(|node| node.queued) {
            return None;
        }
        let leave = |node: &mut super::votes::NodeVote| {
            let waiter = node.queued && node.vote != Vote::Awaited;
            node.queued &= !waiter;
            Residue {
                waiter,
                ..Residue::default()
            }
        };
        let left: PerNode<Residue> = self.votes.0.iter_mut().map(leave).collect();
        self.plan_release(left.into_iter(), now, env)
    }

    /// How the release of this token leaves the lock: taken to the end of its
    /// [`keep`](crate::protocol::asked::LeaseOptions::keep), at whatever rate the nodes' clocks go.
    fn after_release(&self, now: Instant, env: &impl Env) -> AfterRelease {
        let keep = env.terms().asked.keep;
        if self.mode(env) == Mode::Shared {
            return AfterRelease::Free;
        }
        let Some(won) = self.handed_over() else {
            return AfterRelease::Free;
        };
        if keep.is_zero() {
            return AfterRelease::Free;
        }
        let full = keep + clock::drift_allowance(keep, env.terms().drift);
        let end = won + full;
        if now < end {
            AfterRelease::TakenUntil(end)
        } else {
            AfterRelease::Free
        }
    }

    /// Whether the lock stays taken though the present lease is given up at `now`.
    pub(super) fn is_kept(&self, now: Instant, env: &impl Env) -> bool {
        self.handed_over()
            .is_some_and(|won| now < won + env.terms().asked.keep)
    }

    /// When the present lease became its user's.
    fn handed_over(&self) -> Option<Instant> {
        let at = self.lease.handed_over;
        (at != Instant::NEVER).then_some(at)
    }
}

impl Votes {
    /// What may be left on each node. The waiter is left alone at `stay`.
    pub(super) fn residues(&self, stay: Option<usize>) -> impl Iterator<Item = Residue> {
        let nodes = self.0.iter().enumerate();
        nodes.map(move |(i, node)| Residue {
            token: node.requests.reached > 0,
            waiter: node.queued && stay != Some(i),
            scripted: node.scripted,
        })
    }

    /// The nodes that have given no vote.
    pub(super) fn not_granted(&self) -> Nodes {
        let none = |i: &usize| !matches!(self.0[*i].vote, Vote::Granted(_));
        (0..self.0.len()).filter(none).collect()
    }
}

/// How long a key may stand that a request stores which was sent by now.
fn longest_life(env: &impl Env) -> Duration {
    let max_ttl = env.max_ttl();
    let drift = clock::drift_allowance(max_ttl, env.terms().drift);
    // It may be carried out late: see `bounded`.
    let late = 2 * env.terms().timing.node_timeout + native::LONGER;
    max_ttl + drift + late
}
