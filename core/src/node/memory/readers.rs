//! Whose votes share a lock, on a node in memory: the readers. Those count only as long as
//! the [form](super::StoredValue::Shared) of the lock's key says so.

use std::collections::BTreeMap;

use crate::clock::Instant;
use crate::node::Value;

/// The readers of one lock: each until the node's `TIME` shows more than this many µs.
#[derive(Clone, Debug, PartialEq)]
pub struct Readers {
    /// Their votes.
    pub votes: BTreeMap<Value, u64>,
    /// The last moment of the key's life.
    pub end: Instant,
}

/// How many may share a lock.
pub(super) const MOST: usize = 10_000;
impl Readers {
    /// The one whose vote ends last, if that lives at `time`.
    pub(super) fn last(&self, time: u64) -> Option<(&Value, u64)> {
        let by_end = self.votes.iter().map(|(value, until)| (*until, value));
        let (until, value) = by_end.max()?;
        (time <= until).then_some((value, until))
    }
}
