//! The forms of the text under a lock's key, and how long each counts. Without waiters a lock is
//! *quiet*: a plain value, which native requests compare. A waiter that joins the queue makes it
//! *crowded*: then the text holds the end of the hold, or the waiter that the lock is reserved for;
//! the key outlives that end, and scripts alone change it.

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
        /// The holder's value.
        value: Value,
    },
    /// Taken until then, by a value that was released and is to keep the lock: crowded as
    /// well, so that nothing but its end takes it away.
    Kept {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// The value that was released.
        value: Value,
    },
    /// Crowded, free: reserved until then.
    Reserved {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// The waiters that it is reserved for.
        whom: ReservedFor,
    },
    /// Crowded, for [readers](super::Readers), as long as one of them lives; and reserved
    /// until then, as a free one is.
    Shared {
        /// As in [`StoredValue::Contended`].
        until: u64,
        /// No fence that was counted for one alone is beyond this one; 0: that is not known.
        base: u64,
        /// The waiters that it is reserved for.
        whom: ReservedFor,
    },
}

/// The waiters that a lock is reserved for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservedFor {
    /// The lock is reserved for no waiter.
    NoWaiter,
    /// A waiter that wants the lock for itself.
    Waiter(Waiter),
    /// For readers: those that were called have tickets up to this one.
    Readers(u64),
}

impl ReservedFor {
    /// Whether the reservation is for this waiter, in this mode.
    fn is(&self, waiter: Option<&Waiter>, mode: Mode) -> bool {
        match self {
            ReservedFor::NoWaiter | ReservedFor::Readers(_) => false,
            ReservedFor::Waiter(whose) => mode.is_alone() && Some(whose) == waiter,
        }
    }
}

impl StoredValue {
    /// The value in the text, whether it still holds the lock or not.
    pub fn value(&self) -> Option<&Value> {
        match self {
            StoredValue::Uncontended(value)
            | StoredValue::Contended { value, .. }
            | StoredValue::Kept { value, .. } => Some(value),
            StoredValue::Reserved { .. } | StoredValue::Shared { .. } => None,
        }
    }

    /// The value that holds or keeps the lock for itself at `time` of the node, in µs.
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

    /// Whether a crowded form still counts at `time` of the node.
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

    /// The waiters that the lock is reserved for at `time` of the node, if any.
    pub fn reserved(&self, time: u64) -> Option<&ReservedFor> {
        let (StoredValue::Reserved { until, whom } | StoredValue::Shared { until, whom, .. }) =
            self
        else {
            return None;
        };
        let stands = time <= *until;
        (stands && *whom != ReservedFor::NoWaiter).then_some(whom)
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

    /// Whether the lock is reserved at `time` of the node for the request's waiter.
    pub(super) fn is_for(&self, request: &Request, time: u64) -> bool {
        let reserved = self.reserved(time);
        reserved.is_some_and(|whom| whom.is(request.waiter.as_ref(), request.keys.mode))
    }
}
