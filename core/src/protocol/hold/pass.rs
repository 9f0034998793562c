//! A lease that ends and another that begins on the same token, within one
//! client: no request is sent.
//!
//! The votes stand as they did, so exclusion is that of the token. Where the new lease
//! has another label, it is renewed at once, and each node stores that label with the token.
//! The new lease has a fence of its own: an acquire takes a block of them where others
//! wait behind it, and the nodes count to the end of the block.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::votes::Phase;
use super::{Hold, State, Terms};
use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::{Keys, Mode, Value};
use crate::protocol::counters::count;
use crate::protocol::timing::Timing;

/// How often in a row a token is passed on: then the lock goes over the nodes,
/// where others may wait too.
pub(crate) const IN_A_ROW: u32 = 16;

impl Terms {
    /// Whether a lease on these terms is as good as one on those. All of them are taken apart
    /// here, so that a new one does not compile before it was thought of.
    fn serves(&self, other: &Terms) -> bool {
        let Terms {
            keys,
            timing,
            // The client's own.
            drift: _,
            asked,
            // The lease that follows has its own.
            label: _,
            bound: _,
            group: _,
        } = self;
        let Keys {
            // What tells the lock from all others tells these too.
            lock: _,
            aux: _,
            waits,
            fence_ttl,
            mode,
            adopts: _,
            field: _,
        } = &**keys;
        let Timing {
            ttl,
            counted,
            min_validity,
            node_timeout,
        } = *timing;
        keys.id() == other.keys.id()
            && *mode == other.keys.mode
            && mode.is_alone()
            && !self.is_owners()
            && !other.is_owners()
            && *fence_ttl == other.keys.fence_ttl
            && *waits == other.keys.waits
            && ttl == other.timing.ttl
            && counted == other.timing.counted
            && min_validity == other.timing.min_validity
            && node_timeout == other.timing.node_timeout
            && *asked == other.asked
            && asked.renew
            && !asked.fair
    }

    /// Whether the nodes know the owner, and others may be that too.
    fn is_owners(&self) -> bool {
        self.keys.field.as_ref().is_some_and(|field| field.shared)
    }
}

impl State {
    /// Whether this lease of the token is over, for the token was passed on.
    pub(super) fn is_passed(&self, lease: u32) -> bool {
        self.lease.passed != lease
    }
}

impl Hold {
    /// Ends the lease and begins another, for someone who asks for `terms`.
    /// False, and nothing has changed, unless the lease is valid, will be for
    /// half of its ttl and for most of `max_hold`, has a fence left, is not kept, and
    /// has not been passed on too often.
    pub(crate) fn pass_on(&self, terms: &Terms) -> bool {
        let now = self.set.clock.now();
        let mut state = self.state();
        let ample = now + self.terms.timing.ttl / 2;
        let young = self
            .terms
            .asked
            .max_hold
            .is_none_or(|max_hold| now + max_hold.mul_f64(0.8) <= self.last_end());
        let fence = self.fence();
        let fenced = fence == 0 || fence < self.block_end();
        if state.phase != Phase::Held
            || (self.end() < ample)
            || !young
            || self.is_kept(now)
            || !fenced
            || (state.lease.passed >= IN_A_ROW)
            || self.mode() == Mode::Shared
            || !self.terms.serves(terms)
        {
            return false;
        }
        state.lease.passed += 1;
        if fence != 0 {
            let next = fence + 1;
            self.fences.present.store(next, Ordering::Release);
        }
        self.handed_over.store(Instant::NEVER.0, Ordering::Release);
        let relabelled = self.relabel(&terms.label, now);
        if relabelled {
            for node in &mut state.votes.nodes {
                node.requests.renew_at = now;
            }
        }
        state.lease.bound = terms.bound.clone();
        let group = std::mem::replace(&mut state.lease.group, terms.group);
        let since = std::mem::replace(&mut state.lease.since, now);
        // Whoever watched the lease that was has released it.
        let watchers = state.lease.watchers.take();
        let callbacks = std::mem::take(&mut state.lease.callbacks);
        drop(state);
        drop((watchers, callbacks));
        if relabelled {
            self.tell_look_by(now);
        }
        count(&self.set.counters.released);
        self.set.counters.measures.released(group, since.until(now));
        count(&self.set.counters.acquired);
        count(&self.set.counters.passed_on);
        true
    }

    /// The lease has this label from now on; whether it had another. The nodes hear of it by the
    /// next renewal.
    fn relabel(&self, label: &str, now: Instant) -> bool {
        let value = self.value();
        if value.label() == Some(label.as_bytes()) {
            return false;
        }
        let new = value.labelled(label);
        let first = || Box::new(Mutex::new((value, Instant::NEVER)));
        *lock(self.relabelled.get_or_init(first)) = (new, now);
        true
    }

    /// What stands for the lease on the nodes, or will by the next renewal.
    pub(crate) fn value(&self) -> Value {
        match self.relabelled.get() {
            Some(relabelled) => lock(relabelled).0.clone(),
            None => self.value.clone(),
        }
    }

    /// Whether what was sent then told a node another label.
    pub(super) fn had_another_label(&self, sent: Instant) -> bool {
        let relabelled = self.relabelled.get();
        relabelled.is_some_and(|relabelled| {
            let since = lock(relabelled).1;
            sent < since
        })
    }

    /// Which of the token's leases is the present one.
    pub fn lease(&self) -> u32 {
        self.state().lease.passed
    }

    /// Whether this lease of the token is valid now, and not one that followed it.
    pub(super) fn holds(&self, lease: u32) -> bool {
        self.is_held() && self.lease() == lease
    }

    /// The last fence that was taken for the token.
    pub(super) fn block_end(&self) -> u64 {
        self.fences.last.load(Ordering::Acquire)
    }
}
