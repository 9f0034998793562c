//! A blocking call: what it has sent to the runtime, and how it waits for the answers.

use std::time::Duration;

use super::{Driver, MAY_DRIVE, OWED, USED};
use crate::runtime::parked::Parker;
use crate::runtime::wheel::{BREATH, TURN};
use crate::wakers::Wakers;

/// Whether this thread polls what a blocking call waits for.
pub(crate) fn waits_here() -> bool {
    MAY_DRIVE.get()
}

/// Carries out what waits for nothing and runs no foreign code. What it sends has left when this returns:
/// this thread writes it where it is alone, as in a call that waits.
pub(crate) fn sending<T>(act: impl FnOnce() -> T) -> T {
    sending_by(act, Driver::pass)
}

/// The same on the thread of an event loop. `drives`: the loop has no other call under way, and drives
/// what it sends itself.
pub(crate) fn sending_in_loop<T>(drives: bool, act: impl FnOnce() -> T) -> T {
    sending_by(act, |driver, owed| {
        match drives.then(|| driver.take()).flatten() {
            Some(turn) => turn.step(vec![Box::pin(async move { owed.wake() })]),
            None => driver.ring(owed, drives),
        }
    })
}

fn sending_by<T>(act: impl FnOnce() -> T, leave: impl FnOnce(&'static Driver, Wakers)) -> T {
    // A thread that ends has no place for what it owes.
    if OWED.try_with(|_| ()).is_err() {
        return act();
    }
    let mut sent = SentRequests::with_the_wait();
    let done = sent.by(act);
    if let (Some(driver), Some(owed)) = (sent.driver, &mut sent.owed) {
        // Also where it is empty: a task may have been woken, and is yet to be driven.
        leave(driver, owed.take());
    }
    done
}

/// What a blocking call has sent so far, and with it how to wait for more.
pub(crate) struct SentRequests {
    driver: Option<&'static Driver>,
    /// As [`OWED`].
    owed: Option<Wakers>,
}

impl SentRequests {
    /// For a call whose future may be anybody's: what it sends leaves at once, for its next step may
    /// wait for what another thread sends behind that.
    pub(crate) fn at_once() -> SentRequests {
        SentRequests {
            driver: None,
            owed: None,
        }
    }

    /// For a call of a binding, which runs no foreign code: what it sends leaves when it waits, and the
    /// runtime is entered once for both.
    pub(crate) fn with_the_wait() -> SentRequests {
        SentRequests {
            driver: None,
            owed: Some(Wakers::default()),
        }
    }

    /// Polls what the call waits for.
    pub(crate) fn by<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        /// What stood here before, and is put back.
        struct ContextGuard<'a> {
            sent: &'a mut SentRequests,
            may_drive: bool,
            used: Option<&'static Driver>,
            owed: Option<Wakers>,
        }
        impl Drop for ContextGuard<'_> {
            fn drop(&mut self) {
                MAY_DRIVE.set(self.may_drive);
                self.sent.driver = USED.replace(self.used);
                self.sent.owed = OWED.replace(self.owed.take());
            }
        }
        let _within = ContextGuard {
            may_drive: MAY_DRIVE.replace(true),
            used: USED.replace(self.driver),
            owed: OWED.replace(self.owed.take()),
            sent: self,
        };
        poll()
    }

    /// What was sent leaves, if it has not yet.
    pub(crate) fn leave(&mut self) {
        if let (Some(driver), Some(owed)) = (self.driver, &mut self.owed)
            && !owed.is_empty()
        {
            driver.pass(owed.take());
        }
    }

    /// Waits until `parked` is woken, at most for `limit`, or less: at the wheel
    /// if it can be had.
    pub(crate) fn wait(&mut self, parked: &Parker, limit: Option<Duration>) {
        let Some(driver) = self.driver else {
            return parked.park(limit);
        };
        // At the wheel there is no timer but the end of a turn.
        if limit.is_none_or(|limit| limit > BREATH * (TURN + 1))
            && let Some(turn) = driver.take()
        {
            let owed = self.owed.as_mut().map(Wakers::take);
            return turn.wait(parked, owed.unwrap_or_default());
        }
        self.leave();
        driver.wheel.park();
        parked.park(limit);
        driver.wheel.unpark();
    }
}

impl Drop for SentRequests {
    fn drop(&mut self) {
        self.leave();
    }
}
