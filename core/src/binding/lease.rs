//! What bindings need of a lease.

use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::lease::{Lease, Lost};
use crate::protocol::acquire::local_queue::PassOutcome;
use crate::protocol::loss::LossReason;
use crate::protocol::reentry::HandleRelease;
use crate::runtime::drive::sending_in_loop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

impl Lease {
    /// For bindings: whether this handle has been given back.
    #[doc(hidden)]
    pub fn is_released(&self) -> bool {
        self.share.is_released()
    }

    /// For bindings: whether a release waits for the nodes, where the call says `confirm`, or nothing.
    /// Fails where it has to wait, and is not to.
    #[doc(hidden)]
    pub fn waits(&self, confirm: Option<bool>) -> Result<bool, Error> {
        let waits = confirm.unwrap_or_else(|| self.is_confirmed());
        if !waits {
            self.check_unconfirmed()?;
        }
        Ok(waits)
    }

    /// For event loops: as [`release_unconfirmed`](Lease::release_unconfirmed) of a lease that may be
    /// released so. `drives`: the loop has no other call under way, and drives what it sends itself.
    #[doc(hidden)]
    pub fn release_in_loop(&self, drives: bool) -> bool {
        sending_in_loop(drives, || self.give_back())
    }

    /// For bindings: calls `ring` at the loss, where that is found out, as long
    /// as the result lives; now, if the loss has come.
    #[doc(hidden)]
    pub fn bell(&self, ring: impl Fn() + Send + Sync + 'static) -> Lost {
        let bell = Arc::new(LossSignal(ring));
        let mut lost = self.lost();
        let waker = Waker::from(bell.clone());
        if Pin::new(&mut lost)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            bell.wake();
        }
        lost
    }

    /// For the command: what will end the lease, unless the nodes answer again: `max_hold`, which
    /// no renewal moves, or that it expires.
    #[doc(hidden)]
    pub fn ending(&self) -> LossReason {
        if self.share.held.hold.is_at_its_cap() {
            LossReason::MaxHold
        } else {
            LossReason::Expired
        }
    }

    /// For the command: what each node said last of the lease, in the order of the node list: why
    /// it is not renewed, or was lost.
    #[doc(hidden)]
    pub fn answers(&self) -> Vec<NodeError> {
        self.share.held.hold.answers()
    }

    /// For bindings: the lease as it reaches its caller, if it is still held then. A lease that is
    /// lost is given back, and its error is what the caller gets.
    #[doc(hidden)]
    pub fn delivered(self) -> Result<Lease, Error> {
        if self.is_held() {
            Ok(self.handed_over())
        } else {
            Err(self.lost_error())
        }
    }

    /// For bindings: gives a handle back in the background that reached no caller after all. It
    /// keeps nothing.
    #[doc(hidden)]
    pub fn take_back(&self) {
        if !self.client.is_here() {
            return;
        }
        if let HandleRelease::Last(watched) = self.client.owners.leave(&self.share) {
            let hold = &self.share.held.hold;
            if self.share.is_first() {
                hold.take_back();
            }
            if let PassOutcome::Not(_) = self.client.lines.pass(hold, watched) {
                hold.release();
            }
        }
    }

    /// For bindings: what a scoped form raises when its body ends after a loss.
    #[doc(hidden)]
    pub fn lost_error(&self) -> Error {
        let reason = self.loss().map_or("released", LossReason::as_str);
        Error::new(
            ErrorKind::LockLost,
            format!(
                "the lock {} is held no longer ({reason}): stop the work it protects",
                shown(&self.name)
            ),
        )
        .about(&self.name, None)
    }
}

/// Rings at the loss that it waits for.
struct LossSignal<F>(F);

impl<F: Fn() + Send + Sync> Wake for LossSignal<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}
