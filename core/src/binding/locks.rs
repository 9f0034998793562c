//! What bindings need of several locks.

use crate::error::Error;
use crate::leases::Leases;
use crate::lock::{Lock, unless_others};
use crate::locks::Locks;

impl Locks {
    /// For bindings: locks of one client with the same options, each of which may have an
    /// owner of its own.
    #[doc(hidden)]
    pub fn of(locks: Vec<Lock>) -> Locks {
        Locks(locks)
    }

    /// For bindings: as [`acquire`](Locks::acquire), but the leases have no user before they are
    /// [delivered](Leases::delivered).
    #[doc(hidden)]
    pub async fn win(&self) -> Result<Leases, Error> {
        let locks = self.in_order()?;
        let first = locks[0].clone();
        let timed = first.timed()?;
        let outcome = Locks::gather(locks).await;
        timed.end(outcome.as_ref().map(|_| false));
        outcome
    }

    /// For bindings: as [`try_acquire_for`](Locks::try_acquire_for) with the wait of its own, but
    /// the leases have no user before they are [delivered](Leases::delivered).
    #[doc(hidden)]
    pub async fn try_win(&self) -> Result<Option<Leases>, Error> {
        self.win().await.map(Some).or_else(unless_others)
    }
}
