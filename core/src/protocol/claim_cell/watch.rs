//! How to wait for the loss of a lease.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::ClaimCell;
use crate::protocol::loss::LossReason;

/// Waits for the loss of one [lease](ClaimCell::lease) of a token. A type with a name,
/// so that it needs no box: there may be one for each of thousands of leases.
#[derive(Debug)]
pub struct Watch {
    pub(super) hold: Arc<ClaimCell>,
    pub(super) lease: u32,
    /// Where it is registered.
    pub(super) place: Option<u64>,
}

impl Future for Watch {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossReason> {
        let Watch { hold, lease, place } = &mut *self;
        let mut state = hold.state();
        match state.claim.loss() {
            _ if state.claim.lease() != *lease => Poll::Pending,
            Some(reason) => Poll::Ready(reason),
            None => state.watchers.park(place, cx),
        }
    }
}

/// The place is given back: a lease may be watched again and again.
impl Drop for Watch {
    fn drop(&mut self) {
        self.hold.state().watchers.leave(self.place);
    }
}
