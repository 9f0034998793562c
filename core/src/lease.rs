//! The lease: what `acquire` returns.

mod export;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::inner::Inner;
use crate::clock::Instant;
use crate::config::unconfirmed;
use crate::error::{Error, ErrorKind, shown};
use crate::event::event;
use crate::node::Mode;
use crate::node::names::{Naming, is_same};
use crate::protocol::acquire::local_queue::PassOutcome;
use crate::protocol::claim_cell::{ClaimCell, ExtendResult, Release, Watch};
use crate::protocol::loss::LossReason;
use crate::protocol::reentry::{HandleRelease, LeaseHandle};
use crate::runtime::drive::sending;
use crate::runtime::threads::Mask;

/// A hold on a lock.
///
/// It is valid until [released](Lease::release) or [lost](Lease::lost). It is
/// renewed in the background, unless its lock says otherwise; nothing renews
/// it once it is lost, and it never becomes valid again.
///
/// Dropping a lease releases it in the background. Where one owner has entered
/// a lock several times, each handle counts and the last one to go frees the
/// lock.
#[must_use = "a lease that is dropped releases its lock at once: bind it to a name, not to `_`"]
pub struct Lease {
    pub(crate) client: Arc<Inner>,
    pub(crate) share: LeaseHandle,
    pub(crate) name: Arc<[u8]>,
    naming: Naming,
    /// Whether its release waits for the nodes, unless the call says otherwise.
    confirm: bool,
    /// What an extension without a ttl of its own lengthens it to.
    ttl: Duration,
}

impl Lease {
    pub(crate) fn new(
        client: Arc<Inner>,
        share: LeaseHandle,
        name: Arc<[u8]>,
        naming: Naming,
        confirm: bool,
        ttl: Duration,
    ) -> Lease {
        Lease {
            client,
            share,
            name,
            naming,
            confirm,
            ttl,
        }
    }

    /// The lock's name, as given.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// That, and how it becomes the lock's key.
    pub(crate) fn naming(&self) -> (Naming, Arc<[u8]>) {
        (self.naming, self.name.clone())
    }

    /// Whether its lock has that name, too.
    pub(crate) fn is_of(&self, name: &[u8]) -> bool {
        is_same(self.naming, &self.name, name)
    }

    /// The key that the lock has on the nodes.
    pub(crate) fn key(&self) -> &Arc<[u8]> {
        &self.share.held.hold.terms.keys.lock
    }

    /// The token: 40 hex digits that name this hold. Keep it secret: a client that knows it can
    /// release the lock.
    pub fn token(&self) -> &str {
        self.share.held.hold.token()
    }

    /// The fencing token: grows with every hold of the same lock, from 1 to below
    /// 2^53; `None` if the lock has [none](crate::Lock::fencing). Give it to the
    /// resource that the lock protects, which then refuses what comes with a smaller one: so work that a holder
    /// began and that outlives its lease does no harm.
    pub fn fence(&self) -> Option<u64> {
        Some(self.share.held.fence).filter(|fence| *fence != 0)
    }

    /// Whether the lease is valid now. Exact at every call, read from a clock
    /// that goes on while the machine is suspended. False after release.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Validity left before the next renewal; zero when the lease is over.
    pub fn remaining(&self) -> Duration {
        self.kept().map_or(Duration::ZERO, |hold| hold.remaining())
    }

    /// What the lease stands on, as long as this handle has a share in it: a hold
    /// may go on after that, for another handle or for the next in the line.
    fn kept(&self) -> Option<&Arc<ClaimCell>> {
        let held = &self.share.held;
        let released = self.share.is_released();
        let ours = !released && self.client.is_here();
        ours.then_some(&held.hold)
    }

    /// Lengthens the lease to `ttl` from now, to its own ttl with `None`; never
    /// shortens it. A part of a millisecond is rounded up, so `remaining()` plus
    /// any other duration can be given.
    ///
    /// # Errors
    ///
    /// `LockLost` if it is lost; `QuorumUnavailable` if too few nodes answered
    /// within `node_timeout`: the lease is then valid as long as it was;
    /// `InvalidArgument` for a ttl above `max_ttl`; `NotOwner` after release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease valid; it may or may not have been
    /// lengthened.
    pub async fn extend(&self, ttl: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.client.check()?;
        let ttl = self.client.ttl(ttl.into().unwrap_or(self.ttl))?;
        if self.share.is_released() {
            return Err(self.not_owner());
        }
        let held = &self.share.held;
        let set = &self.client.set;
        let before = set.met().await;
        let mut extended = held.hold.extend(held.lease, ttl).await;
        if matches!(extended, ExtendResult::Unanswered(_)) && set.meets_again(&before).await {
            extended = held.hold.extend(held.lease, ttl).await;
        }
        self.extended(extended, "extend")
    }

    fn extended(&self, how: ExtendResult, to: &str) -> Result<(), Error> {
        match how {
            ExtendResult::Done => Ok(()),
            ExtendResult::Lost => Err(self.lost_error()),
            ExtendResult::Unanswered(lost) => Err(lost.error(
                &self.client.set,
                ErrorKind::QuorumUnavailable,
                &self.name,
                format!(
                    "too few nodes answered to {to} the lock {}; it is held for another {:?}",
                    shown(&self.name),
                    self.remaining()
                ),
            )),
        }
    }

    /// Makes sure that at least `min` of validity is left, extending the lease
    /// if it is not. Call it right before a step that takes `min`.
    ///
    /// # Errors
    ///
    /// As [`extend`](Lease::extend); `InvalidArgument` if so much is not left and the ttl cannot
    /// give it; `LockLost` if `max_hold` leaves less.
    ///
    /// # Cancel safety
    ///
    /// As [`extend`](Lease::extend).
    pub async fn ensure(&self, min: Duration) -> Result<(), Error> {
        self.client.check()?;
        let ample = self.remaining() >= min && self.is_held();
        if ample {
            return Ok(());
        }
        let counted = self.client.settings.timing(self.ttl).counted;
        if min >= counted {
            return Err(Error::invalid(format!(
                "ensure({min:?}) asks for more than a ttl of {:?} can give ({counted:?}): raise the ttl",
                self.ttl
            )));
        }
        self.extend(None).await?;
        if self.remaining() < min {
            return Err(Error::new(
                ErrorKind::LockLost,
                format!(
                    "the lock {} will be lost in {:?}: it reaches max_hold",
                    shown(&self.name),
                    self.remaining()
                ),
            )
            .about(&self.name, None));
        }
        Ok(())
    }

    /// Whether others may share the lock with this lease: it was asked for
    /// [so](crate::Lock::shared), or has been [downgraded](Lease::downgrade).
    pub fn is_shared(&self) -> bool {
        self.share.held.hold.mode() == Mode::Shared
    }

    /// Which slot of the [semaphore](crate::Client::semaphore) is held, counted from 0; `None`
    /// of a lock. No two leases that are held at one time have the same. The
    /// [fence](Lease::fence) grows with every hold of one slot; between slots it says nothing,
    /// so whatever checks it keeps one for each.
    pub fn slot(&self) -> Option<u32> {
        self.share.held.hold.mode().slot()
    }

    /// Shares the lease from now on with others that ask to share the lock, and calls those
    /// that wait for that first. It keeps its fence. Nothing changes
    /// for a lease that is shared already. Where it was entered more than once, all its handles
    /// are shared.
    ///
    /// The lease is shared at once. The call waits until a quorum of the nodes lets readers
    /// in; the others follow with the renewals.
    ///
    /// # Errors
    ///
    /// `LockLost` if it is lost; `NotOwner` after release; `QuorumUnavailable` if too few
    /// nodes answered within `node_timeout`: the lease is shared and valid all the same;
    /// `InvalidArgument` of a [raw](crate::Lock::raw) lock and of a slot, `Misconfigured` where nodes may
    /// evict keys: then it stays as it is.
    ///
    /// # Cancel safety
    ///
    /// Once polled the lease is shared; dropping the future only stops the wait.
    pub async fn downgrade(&self) -> Result<(), Error> {
        self.client.check()?;
        if self.share.is_released() {
            return Err(self.not_owner());
        }
        let (hold, lease) = (&self.share.held.hold, self.share.held.lease);
        self.client.settings.may_share(self.naming)?;
        if self.slot().is_some() {
            return Err(Error::invalid(
                "a slot of a semaphore is one holder's: it cannot be shared",
            ));
        }
        if !hold.share(lease) {
            return Err(self.lost_error());
        }
        self.client.lines.downgraded(hold);
        let ttl = hold.terms.timing.ttl;
        self.extended(hold.extend(lease, ttl).await, "share")
    }

    /// Releases this handle; the last handle of a lease frees the lock. Returns
    /// whether the lock was still held. A second call returns false.
    ///
    /// The lease ends at once, before the first byte is sent. If others wait for
    /// the lock in this client, the first of them may be given it without any
    /// request. Else the call waits until a quorum of nodes has carried the release out, at most
    /// `node_timeout`; a node that does not answer is sent the release again
    /// in the background. Of a lock that is [kept](crate::Lock::keep) true means that a quorum
    /// keeps it taken. False with a warning in the log: too few do, or nodes refuse the release for
    /// a missing permission. Where the lock's [`confirm`](crate::Lock::confirm) is off the call waits
    /// for no answer, as [`release_unconfirmed`](Lease::release_unconfirmed).
    ///
    /// # Errors
    ///
    /// `Forked` in a forked child, unless `confirm` is off. Never for a loss.
    ///
    /// # Cancel safety
    ///
    /// Once polled the release is on its way; dropping the future only stops
    /// the wait for it.
    pub async fn release(&self) -> Result<bool, Error> {
        if self.is_confirmed() {
            self.release_confirmed().await
        } else {
            self.release_unconfirmed()
        }
    }

    /// As [`release`](Lease::release) where the lock's [`confirm`](crate::Lock::confirm) is on,
    /// whatever that is.
    ///
    /// # Errors
    ///
    /// `Forked` in a forked child. Never for a loss.
    ///
    /// # Cancel safety
    ///
    /// As [`release`](Lease::release).
    pub async fn release_confirmed(&self) -> Result<bool, Error> {
        self.client.check_process()?;
        Ok(release(&self.client, &self.share).await)
    }

    /// Releases this handle, and waits for no answer: for a lock of which nothing is decided by the answer. Returns
    /// whether the lease was valid here until now; false after a release and in a forked child.
    ///
    /// The lease ends at once, as by [`release`](Lease::release), and the requests are on their
    /// way when this returns: a node that does not answer is sent the release again in the
    /// background, and the end of the client or of the process waits for the answers. Nothing reports
    /// that nodes refuse it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` of a lock that is [kept](crate::Lock::keep), whose lease stays held. Nothing
    /// else.
    pub fn release_unconfirmed(&self) -> Result<bool, Error> {
        self.check_unconfirmed()?;
        Ok(sending(|| self.give_back()))
    }

    /// Waits for the loss of the lease and returns its reason. Stays pending
    /// if the lease is released.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn lost(&self) -> Lost {
        let held = &self.share.held;
        Lost(held.hold.lost(held.lease))
    }

    /// Why the lease was lost; `None` while it is held and after a release.
    pub fn loss(&self) -> Option<LossReason> {
        if !self.client.is_here() {
            return None;
        }
        self.share.held.hold.loss(self.share.held.lease)
    }

    /// Calls `callback` once when the lease is lost, on a thread that is there for
    /// such calls. It may block: that holds up no renewal and no callback of another lease,
    /// unless 64 of them block at one time. Callbacks begin in the order of their losses and
    /// may run at the same time, also those of one lease.
    ///
    /// It runs under the signal mask of the thread that calls this, and so does a program that
    /// it starts.
    pub fn on_lost(&self, callback: impl FnOnce(LossReason) + Send + 'static) {
        let (runtime, mask) = (self.client.runtime, Mask::here());
        let held = &self.share.held;
        held.hold.on_lost(
            held.lease,
            Box::new(move |reason| {
                let told = move || mask.over(|| callback(reason));
                runtime.dispatcher().call(Box::new(told));
            }),
        );
    }

    /// Whether [`release`](Lease::release) waits for the nodes.
    pub(crate) fn is_confirmed(&self) -> bool {
        // A lease that was entered with other options keeps those that it was won with.
        self.confirm || !self.keep().is_zero()
    }

    /// For how long the lock stays taken after the lease was won.
    fn keep(&self) -> Duration {
        self.share.held.hold.terms.asked.keep
    }

    /// Refuses a release that waits for no answer where one is needed.
    pub(crate) fn check_unconfirmed(&self) -> Result<(), Error> {
        let keep = self.keep();
        if keep.is_zero() {
            return Ok(());
        }
        Err(unconfirmed(keep).about(&self.name, None))
    }

    /// Gives the handle back, and waits for nothing. Returns whether the lease was valid until now.
    pub(crate) fn give_back(&self) -> bool {
        self.client.is_here() && give_back(&self.client, &self.share).0
    }

    fn not_owner(&self) -> Error {
        Error::new(
            ErrorKind::NotOwner,
            format!("the lease of {} has been released", shown(&self.name)),
        )
        .about(&self.name, None)
    }

    /// It is its caller's from now on.
    pub(crate) fn hand_over(&self) {
        self.share.held.hold.hand_over();
    }

    /// The same, once it is.
    pub(crate) fn handed_over(self) -> Lease {
        self.hand_over();
        self
    }
}

/// For the simulator, which looks from outside.
#[doc(hidden)]
impl Lease {
    /// What the lease stands on, whether this handle has a share in it or not.
    pub fn hold(&self) -> &Arc<ClaimCell> {
        &self.share.held.hold
    }

    /// Which of its token's leases it is.
    pub fn number(&self) -> u32 {
        self.share.held.lease
    }

    /// Until when the handle says that it is held, as things stand. Looking changes nothing: a
    /// lease that is over stays as it is.
    pub fn says_until(&self) -> Instant {
        self.kept().map_or(Instant::NEVER, |hold| hold.end())
    }
}

/// Gives a handle back, and frees the lock with the last one, which waits for the nodes.
async fn release(client: &Inner, share: &LeaseHandle) -> bool {
    let (was_held, release) = give_back(client, share);
    let Some(release) = release else {
        return was_held;
    };
    let done = release.acknowledged().await && was_held;
    if was_held && !done {
        warn_of(client, &share.held.hold, &release);
    }
    done
}

/// Gives a handle back. Returns whether the lease was valid until now, and of the last handle the nodes'
/// answers to come, unless the lease was passed on.
fn give_back(client: &Inner, share: &LeaseHandle) -> (bool, Option<Arc<Release>>) {
    let hold = &share.held.hold;
    match client.owners.leave(share) {
        HandleRelease::Before => (false, None),
        HandleRelease::Others => (hold.is_held(), None),
        HandleRelease::Last(watched) => match client.lines.pass(hold, watched) {
            PassOutcome::On => (true, None),
            PassOutcome::Not(_watched) => {
                let (was_held, release) = hold.release();
                (was_held, Some(release))
            }
        },
    }
}

/// Says of a lease that was held why its release is not done.
fn warn_of(client: &Inner, hold: &ClaimCell, release: &Release) {
    let lock = client.set.lock_of(&hold.keys().lock);
    if let Some(why) = release.refused() {
        (client.set.warn)(event!(
            "release_refused",
            "the lock `{lock}` was released, and stays taken until its ttl is over, for nodes \
             refuse the release: {reason}",
            lock = lock,
            reason = why,
        ));
    } else if release.keeps_too_little() {
        (client.set.warn)(event!(
            "keep_too_little",
            "the lock `{lock}` was released and is to stay taken, and too few nodes have stored so: \
             another may get it as soon as it is free",
            lock = lock,
        ));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // In a forked child the lease is the parent's: leave it alone.
        if !self.share.is_released()
            && self.client.is_here()
            && let HandleRelease::Last(watched) = self.client.owners.leave(&self.share)
            && let PassOutcome::Not(_) = self.client.lines.pass(&self.share.held.hold, watched)
        {
            self.share.held.hold.release();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &format_args!("{}", shown(&self.name)))
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// The loss of a lease, to wait for. See [`Lease::lost`].
#[must_use = "it does nothing unless polled"]
pub struct Lost(pub(crate) Watch);

impl Future for Lost {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossReason> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lost")
    }
}

#[cfg(test)]
mod tests;
