//! What stands under the keys of a lock in Redisson's layout, on a node in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::Instant;
use crate::node::{Fault, FaultKind, Reply, Value};

/// A lock that is held.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RedissonLock {
    /// The owner's field.
    pub(super) owner: Arc<[u8]>,
    /// How often that has entered.
    pub(super) count: u32,
    pub(super) end: Instant,
}

/// The tokens that the counts belong to, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tokens {
    pub(super) tokens: BTreeSet<Value>,
    /// The fence that was taken for the hold.
    pub(super) fence: Option<u64>,
    pub(super) end: Instant,
}

/// The waiters that are notified when such a lock is free, by the lock's key: each by its inbox and
/// number.
pub(super) type ReleaseListeners = BTreeMap<Arc<[u8]>, BTreeSet<(Arc<[u8]>, u64)>>;

/// What stands under the key is a lock in another layout.
pub(super) fn of_another_layout() -> Reply {
    let text = "WRONGTYPE the key is that of a lock in another layout";
    let fault = Fault::new(FaultKind::Misconfigured, text, true);
    Reply::Failed(fault.of_lock(true))
}
