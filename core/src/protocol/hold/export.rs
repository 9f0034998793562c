//! The end of a lease that goes on in another client: its votes stand until they end, or until
//! that client [takes them over](crate::protocol::adopt). What it has left behind else is given
//! up: a place in a queue, for a node would call it and wait for it in vain; where no vote is known
//! what it was asked for, which may come yet when the other client is done; and the lease that it has
//! adopted itself, where that stands yet. An extension that is under way to a vote does nothing there:
//! the other client bans what it takes over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Hold;
use super::votes::Phase;
use crate::clock::Instant;
use crate::protocol::counters::count;

impl Hold {
    /// Ends this [lease](Hold::lease) of the token here, and leaves its votes. Returns how much of
    /// `max_hold` is left, if that is bounded; `None`, and nothing has changed, unless the lease is
    /// valid. One that has been passed on meanwhile is another's.
    pub(crate) fn export(&self, lease: u32) -> Option<Option<Duration>> {
        let now = self.set.clock.now();
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
            return None;
        }
        let passed = state.is_passed(lease);
        if state.phase != Phase::Held || passed {
            return None;
        }
        // Before anybody knows what it takes to go on with it.
        state.phase = Phase::Dead;
        self.end.store(Instant::NEVER.0, Ordering::Release);
        let (group, since) = (state.lease.group, state.lease.since);
        let mut traces = state.votes.traces(None);
        let asked = state.votes.not_granted();
        let old = self.adopted(&state.votes);
        drop(state);
        for (node, traces) in traces.iter_mut().enumerate() {
            let asked = asked.contains(node);
            traces.token &= asked;
        }
        self.undo(&traces);
        self.release_old(old, now);
        count(&self.set.counters.released);
        self.set.counters.measures.released(group, since.until(now));
        self.tell_over();
        let left = |max_hold| {
            let left = now.until(self.last_end());
            left.min(max_hold)
        };
        let left = self.terms.asked.max_hold.map(left);
        Some(left)
    }

    /// The last fence that was counted for it, or for a lease that might have followed.
    pub(crate) fn last_fence(&self) -> u64 {
        self.block_end()
    }

    /// The fence that a node which has lost its counter is told by a renewal.
    #[cfg(test)]
    pub(crate) fn renews_fence(&self) -> u64 {
        match self.renewal(self.terms.timing.ttl) {
            crate::node::Op::Extend { fence, .. } => fence,
            _ => 0,
        }
    }
}
