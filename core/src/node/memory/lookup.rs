//! What a script finds on a node in memory before it decides anything.

use std::time::Duration;

use super::StoredValue;
use super::times::{left, tick};
use crate::clock::Instant;
use crate::node::Value;

/// What a request finds on the node.
pub(super) struct KeyLookup {
    /// What stands under the lock's key, and the moment the key's life ends.
    pub(super) form: Option<StoredValue>,
    pub(super) end: Instant,
    /// Its value holds the lock.
    pub(super) own: bool,
    /// Nobody's does, reserved or not, and no reader's vote lives.
    pub(super) free: bool,
    /// The reader whose vote ends last, and when, if it lives.
    pub(super) last: Option<(Value, u64)>,
    /// How much longer the node is in quarantine, where that is minded.
    pub(super) quarantine: Option<Duration>,
    pub(super) now: Instant,
    /// The node's `TIME` then.
    pub(super) time: u64,
}

impl KeyLookup {
    /// Crowded: scripts alone change it.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(
            self.form,
            Some(
                StoredValue::Contended { .. }
                    | StoredValue::Kept { .. }
                    | StoredValue::Reserved { .. }
                    | StoredValue::Shared { .. }
            )
        )
    }

    /// Nobody has it alone.
    pub(super) fn alone_free(&self) -> bool {
        self.free || self.last.is_some()
    }

    /// Until when the last reader's vote lives.
    pub(super) fn ends_last(&self) -> Option<u64> {
        self.last.as_ref().map(|(_, until)| *until)
    }

    /// How long yet, in whole milliseconds: what stands there, or its hold or
    /// reservation. `None`: without end.
    pub(super) fn left(&self) -> Option<Duration> {
        if let Some(last) = self.ends_last() {
            return Some(left(last, self.time));
        }
        match self.form {
            Some(
                StoredValue::Contended { until, .. }
                | StoredValue::Kept { until, .. }
                | StoredValue::Reserved { until, .. }
                | StoredValue::Shared { until, .. },
            ) => Some(left(until, self.time)),
            _ if self.end == Instant::FAR => None,
            _ => Some(tick(self.now).until(self.end)),
        }
    }
}
