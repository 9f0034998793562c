//! Leases that were won together.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::Error;
use crate::lease::{Lease, Lost};
use crate::node::names::{Naming, is_same};
use crate::protocol::loss::LossReason;
use crate::runtime::drive::sending;

/// Holds on several locks that were acquired together: what
/// [`Locks::acquire`](crate::Locks::acquire) returns.
///
/// They are held while each of them is. The loss of any is the loss of all: the work that needs
/// them has to stop. Those that are not lost stay held until they are released, so that no other
/// client comes in while it stops. Dropping releases them all, in the background.
#[must_use = "leases that are dropped release their locks at once: bind them to a name, not to `_`"]
pub struct Leases(pub(crate) Vec<Arc<Lease>>);

/// See [`Leases::places`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Places(pub(crate) Vec<(Naming, Arc<[u8]>)>);

impl Places {
    /// The place of the lease on the lock of that name.
    pub fn of(&self, name: &[u8]) -> Option<usize> {
        let mut each = self.0.iter();
        each.position(|(naming, ours)| is_same(*naming, ours, name))
    }
}

impl Leases {
    pub(crate) fn new(leases: Vec<Arc<Lease>>) -> Leases {
        Leases(leases)
    }

    /// Each lease, in the order of the locks' keys; each name once.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Lease> {
        self.0.iter().map(|lease| &**lease)
    }

    /// The lease on the lock of that name, whether it is written with its hash tag or without:
    /// `x` and `{x}` are one lock.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Lease> {
        self.iter().find(|lease| lease.is_of(name.as_ref()))
    }

    /// Whether all of them are valid now: see [`Lease::is_held`].
    pub fn is_held(&self) -> bool {
        let mut held = self.iter().map(Lease::is_held);
        held.all(|held| held)
    }

    /// The least that any of them has left: see [`Lease::remaining`].
    pub fn remaining(&self) -> Duration {
        let left = self.iter().map(Lease::remaining);
        left.min().unwrap_or_default()
    }

    /// Lengthens all of them, at the same time: see [`Lease::extend`].
    ///
    /// # Errors
    ///
    /// That of the first lock whose lease could not be lengthened; the others may have been.
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::extend`].
    pub async fn extend(&self, ttl: impl Into<Option<Duration>>) -> Result<(), Error> {
        let ttl = ttl.into();
        let all = together(self.iter().map(|lease| lease.extend(ttl))).await;
        all.into_iter().collect()
    }

    /// Makes sure that each has at least `min` of validity left: see [`Lease::ensure`].
    ///
    /// # Errors
    ///
    /// As [`extend`](Leases::extend) and [`Lease::ensure`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::extend`].
    pub async fn ensure(&self, min: Duration) -> Result<(), Error> {
        let all = together(self.iter().map(|lease| lease.ensure(min))).await;
        all.into_iter().collect()
    }

    /// Releases all of them, at the same time, each as [`Lease::release`] does. Returns whether every
    /// one was still held. A second call returns false.
    ///
    /// # Errors
    ///
    /// `Forked` in a forked child. Never for a loss.
    ///
    /// # Cancel safety
    ///
    /// Once polled the releases are on their way; dropping the future only stops the wait
    /// for them.
    pub async fn release(&self) -> Result<bool, Error> {
        let most = self.0.len();
        let all = together(self.iter().take(most).map(Lease::release)).await;
        let all: Vec<bool> = all.into_iter().collect::<Result<_, _>>()?;
        Ok(all.into_iter().all(|held| held))
    }

    /// As [`release`](Leases::release), whatever the locks' [`confirm`](crate::Locks::confirm) is.
    ///
    /// # Errors
    ///
    /// `Forked` in a forked child. Never for a loss.
    ///
    /// # Cancel safety
    ///
    /// As [`release`](Leases::release).
    pub async fn release_confirmed(&self) -> Result<bool, Error> {
        let all = together(self.iter().map(Lease::release_confirmed)).await;
        let all: Vec<bool> = all.into_iter().collect::<Result<_, _>>()?;
        Ok(all.into_iter().all(|held| held))
    }

    /// Releases all of them, and waits for no answer: see [`Lease::release_unconfirmed`]. Returns whether every
    /// one was valid until now.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` of a lock that is [kept](crate::Lock::keep): then all stay held. Nothing else.
    pub fn release_unconfirmed(&self) -> Result<bool, Error> {
        self.check_unconfirmed()?;
        Ok(sending(|| self.give_back()))
    }

    /// Refuses a release that waits for no answer where one of them needs it.
    pub(crate) fn check_unconfirmed(&self) -> Result<(), Error> {
        self.iter().try_for_each(Lease::check_unconfirmed)
    }

    /// Gives all of them back, and waits for nothing. Returns whether each was valid until now.
    pub(crate) fn give_back(&self) -> bool {
        let mut held = true;
        for lease in self.iter() {
            held &= lease.give_back();
        }
        held
    }

    /// Waits for the first loss among them: of which lock, and why. Stays pending if they
    /// are released.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn lost(&self) -> LostOne<'_> {
        LostOne(
            self.iter()
                .map(|lease| (lease.name(), lease.lost()))
                .collect(),
        )
    }

    /// The first lock whose lease was lost, and why; `None` while all are held and after a
    /// release.
    pub fn loss(&self) -> Option<(&[u8], LossReason)> {
        let mut losses = self.iter().map(|lease| Some((lease.name(), lease.loss()?)));
        losses.find_map(|loss| loss)
    }

    /// Calls `callback` once when the first of them is lost, as [`Lease::on_lost`].
    pub fn on_lost(&self, callback: impl Fn(&[u8], LossReason) + Send + Sync + 'static) {
        let (told, callback) = (Arc::new(AtomicBool::new(false)), Arc::new(callback));
        for lease in self.iter() {
            let (told, callback) = (told.clone(), callback.clone());
            let name: Arc<[u8]> = lease.name().into();
            lease.on_lost(move |reason| {
                if !told.swap(true, Ordering::AcqRel) {
                    callback(&name, reason);
                }
            });
        }
    }

    /// They are their caller's from now on.
    pub(crate) fn handed_over(self) -> Leases {
        self.iter().for_each(Lease::hand_over);
        self
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The first loss among several leases, to wait for. See [`Leases::lost`].
#[derive(Debug)]
#[must_use = "it does nothing unless polled"]
pub struct LostOne<'a>(Vec<(&'a [u8], Lost)>);

impl<'a> Future for LostOne<'a> {
    type Output = (&'a [u8], LossReason);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for (name, lost) in &mut self.0 {
            if let Poll::Ready(reason) = Pin::new(lost).poll(cx) {
                return Poll::Ready((name, reason));
            }
        }
        Poll::Pending
    }
}

/// Carries all out at the same time: what they send in one turn leaves in one write to each
/// node.
pub(crate) async fn together<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    poll_fn(|cx| {
        for (one, done) in all.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = one.as_mut().poll(cx) {
                *done = Some(output);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}
