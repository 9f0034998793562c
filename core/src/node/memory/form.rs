//! What stands under a lock's key, and how long. A lock that nobody waits for is *quiet*:
//! a plain value, on which native requests bite. Whoever joins its queue makes it
//! *crowded*: then the end of the hold, or for whom the lock is reserved, stands in the
//! value, the key outlives that, and nothing but scripts changes it.

use std::time::Duration;

use super::times::left;
use crate::node::{Mode, Request, Value, Waiter};

/// What stands under a lock's key, by form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// A value alone, which holds the lock as long as the key is there: ours, or a
    /// foreign one, which is never changed.
    Uncontended(Value),
    /// Crowded, held: by this value until the node's `TIME` shows more than this many µs.
    Contended {
        /// See [`StoredValue::Contended`].
        until: u64,
        /// Of whom.
        value: Value,
    },
    /// Taken until then, by a value that was released and is to keep the lock: crowded as
    /// well, so that nothing but its end takes it away.
    Kept {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// By which value it was held.
        value: Value,
    },
    /// Crowded, free: reserved until then.
    Reserved {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// For whom.
        whom: ReservedFor,
    },
    /// Crowded, for [readers](super::Readers), as long as one of them lives; and reserved
    /// until then, as a free one is.
    Shared {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// No fence that was counted for one alone is beyond this one; 0: that is not known.
        base: u64,
        /// For whom it is reserved.
        whom: ReservedFor,
    },
}

/// For whom a lock is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservedFor {
    /// For nobody.
    Nobody,
    /// For one that wants it for itself.
    Waiter(Waiter),
    /// For readers: those that were called have tickets up to this one.
    Readers(u64),
}

impl ReservedFor {
    /// Whether it is that one that is asked for.
    fn is(&self, waiter: Option<&Waiter>, mode: Mode) -> bool {
        match self {
            ReservedFor::Nobody | ReservedFor::Readers(_) => false,
            ReservedFor::Waiter(whose) => mode.is_alone() && Some(whose) == waiter,
        }
    }
}

impl StoredValue {
    /// Whose value stands there, whether it still holds the lock or not.
    pub fn value(&self) -> Option<&Value> {
        match self {
            StoredValue::Uncontended(value)
            | StoredValue::Contended { value, .. }
            | StoredValue::Kept { value, .. } => Some(value),
            StoredValue::Reserved { .. } | StoredValue::Shared { .. } => None,
        }
    }

    /// Whose value holds or keeps the lock for itself at `time` of the node, in µs.
    pub fn holder(&self, time: u64) -> Option<&Value> {
        match self {
            StoredValue::Uncontended(value) => Some(value),
            StoredValue::Contended { until, value } | StoredValue::Kept { until, value }
                if time <= *until =>
            {
                Some(value)
            }
            StoredValue::Contended { .. }
            | StoredValue::Kept { .. }
            | StoredValue::Reserved { .. }
            | StoredValue::Shared { .. } => None,
        }
    }

    /// Whether a crowded form stands yet at `time` of the node.
    pub(super) fn stands(&self, time: u64) -> bool {
        match self {
            StoredValue::Uncontended(_) => true,
            StoredValue::Contended { until, .. }
            | StoredValue::Kept { until, .. }
            | StoredValue::Reserved { until, .. }
            | StoredValue::Shared { until, .. } => time <= *until,
        }
    }

    /// Whether it is taken by a value that was released, or was until it ended.
    pub fn is_kept(&self) -> bool {
        matches!(self, StoredValue::Kept { .. })
    }

    /// Whether it is there for readers.
    pub fn is_shared(&self) -> bool {
        matches!(self, StoredValue::Shared { .. })
    }

    /// For whom the lock is reserved at `time` of the node.
    pub fn reserved(&self, time: u64) -> Option<&ReservedFor> {
        let (StoredValue::Reserved { until, whom } | StoredValue::Shared { until, whom, .. }) =
            self
        else {
            return None;
        };
        let stands = time <= *until;
        (stands && *whom != ReservedFor::Nobody).then_some(whom)
    }

    /// How much longer a reservation stands, in whole milliseconds.
    pub(super) fn reservation_left(&self, time: u64) -> Duration {
        match self {
            StoredValue::Reserved { until, .. } | StoredValue::Shared { until, .. } => {
                left(*until, time)
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether the lock is reserved at `time` of the node for the one who asks.
    pub(super) fn is_for(&self, request: &Request, time: u64) -> bool {
        let reserved = self.reserved(time);
        reserved.is_some_and(|whom| whom.is(request.waiter.as_ref(), request.keys.mode))
    }
}
