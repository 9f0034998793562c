//! The loss of a lease: why it came, and how to wait for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Hold;

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended before it was renewed: not renewed at all, or too
    /// few nodes could be reached.
    Expired,
    /// Nodes answered that the lock is another's: deleted, or lost in a
    /// restart, and taken since.
    Refused,
    /// It reached `max_hold`.
    MaxHold,
    /// The thread that owned it ended without releasing it.
    OwnerGone,
    /// Its client was closed.
    Closed,
    /// Somebody took the lock away by [force](crate::Client::force_release).
    Forced,
}

impl LossReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: &'static [LossReason] = &[
        LossReason::Expired,
        LossReason::Refused,
        LossReason::MaxHold,
        LossReason::OwnerGone,
        LossReason::Closed,
        LossReason::Forced,
    ];

    /// The reason's number, the same for ever.
    pub const fn number(self) -> i32 {
        match self {
            LossReason::Expired => 1,
            LossReason::Refused => 2,
            LossReason::MaxHold => 3,
            LossReason::OwnerGone => 4,
            LossReason::Closed => 5,
            LossReason::Forced => 6,
        }
    }

    /// The reason as a word: `expired`, `refused`, `max_hold`, `owner_gone`,
    /// `closed`, `forced`.
    pub const fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Refused => "refused",
            LossReason::MaxHold => "max_hold",
            LossReason::OwnerGone => "owner_gone",
            LossReason::Closed => "closed",
            LossReason::Forced => "forced",
        }
    }
}

/// Waits for the loss of one [lease](Hold::lease) of a token. A type with a name,
/// so that nobody has to box it: there may be one for each of thousands of leases.
#[derive(Debug)]
pub struct Watch {
    pub(super) hold: Arc<Hold>,
    pub(super) lease: u32,
    /// Where it is registered.
    pub(super) place: Option<u64>,
}

impl Future for Watch {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossReason> {
        let Watch { hold, lease, place } = &mut *self;
        let mut state = hold.state();
        match state.loss {
            _ if state.lease.passed != *lease => Poll::Pending,
            Some(reason) => Poll::Ready(reason),
            None => state.lease.watchers.park(place, cx),
        }
    }
}

/// The place is given back: a lease may be watched again and again.
impl Drop for Watch {
    fn drop(&mut self) {
        self.hold.state().lease.watchers.leave(self.place);
    }
}
