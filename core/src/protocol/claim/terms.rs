//! What a lock asks for with one token.

use std::sync::Arc;

use crate::node::{Keys, Mode};
use crate::owner::ThreadBinding;
use crate::protocol::asked::LeaseOptions;
use crate::protocol::group::Group;
use crate::protocol::timing::Timing;

/// What a lock asks for with one token.
#[derive(Clone, Debug)]
pub struct LockParams {
    /// Which lock.
    pub keys: Arc<Keys>,
    /// The label that goes with the token; empty for none.
    pub label: Arc<String>,
    /// Times that follow from the ttl.
    pub timing: Timing,
    /// Bound on the difference of clock rates.
    pub drift: f64,
    /// What another request for the lock is compared with.
    pub asked: LeaseOptions,
    /// The thread that the lease is bound to.
    pub bound: Option<Arc<ThreadBinding>>,
    /// By which metrics tell it from others.
    pub group: Group,
}

impl LockParams {
    /// Whether a lease on these terms is as good as one on those. All of them are taken apart
    /// here, so that a new one does not compile before it was thought of.
    pub(crate) fn serves(&self, other: &LockParams) -> bool {
        let LockParams {
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

    /// Whether the lock is a semaphore, of which any slot will do.
    pub(crate) fn is_of_any_slot(&self) -> bool {
        matches!(self.keys.mode, Mode::AnySlot(_))
    }
}
