//! The lease: what `acquire` returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::client::inner::Inner;
use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::event::event;
use crate::export::Exported;
use crate::node::Mode;
use crate::node::names::{Naming, is_same};
use crate::protocol::hold::{Extended, Hold, Release, Watch};
use crate::protocol::loss::LossReason;
use crate::protocol::reentry::{Left, Share};
use crate::protocol::waiting::Passed;
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
    client: Arc<Inner>,
    share: Share,
    name: Arc<[u8]>,
    naming: Naming,
    /// What an extension without one of its own lengthens it to.
    ttl: Duration,
}

impl Lease {
    pub(crate) fn new(
        client: Arc<Inner>,
        share: Share,
        name: Arc<[u8]>,
        naming: Naming,
        ttl: Duration,
    ) -> Lease {
        Lease {
            client,
            share,
            name,
            naming,
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

    /// The token: 40 hex digits that name this hold. Keep it secret: whoever
    /// knows it can release the lock.
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
    fn kept(&self) -> Option<&Arc<Hold>> {
        let held = &self.share.held;
        let released = self.share.is_released();
        let ours = !released && self.client.is_here();
        ours.then_some(&held.hold)
    }

    /// For bindings: whether this handle has been given back.
    #[doc(hidden)]
    pub fn is_released(&self) -> bool {
        self.share.is_released()
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
        if matches!(extended, Extended::Unanswered(_)) && set.meets_again(&before).await {
            extended = held.hold.extend(held.lease, ttl).await;
        }
        self.extended(extended, "extend")
    }

    fn extended(&self, how: Extended, to: &str) -> Result<(), Error> {
        match how {
            Extended::Done => Ok(()),
            Extended::Lost => Err(self.lost_error()),
            Extended::Unanswered(lost) => Err(lost.error(
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

    /// Ends the lease here without releasing the lock, and returns a text with which one other
    /// client of the same nodes [goes on with it](crate::Client::adopt): in another process, in
    /// another language, on another host.
    ///
    /// The lease is lengthened to its full ttl first. Then it is over for this client, and
    /// nobody renews it: another client has to adopt it within the ttl, or for as long as it was
    /// extended beyond that, else the lock is free then. Until then the lock is held by nobody
    /// who could know of a loss, so do not touch what it protects.
    ///
    /// **The text is a secret**: whoever has it can take the lock. Hand it on as you would a
    /// password.
    ///
    /// # Errors
    ///
    /// `LockLost` if it is lost; `NotOwner` after release, and where another call released it meanwhile; `QuorumUnavailable` if too few
    /// nodes answered to lengthen it: then it is held here as before, as it is where
    /// `InvalidArgument` says that others hold this lease too (re-entry: release the inner
    /// handles first), that it is [shared](crate::Lock::shared), or [kept](crate::Lock::keep).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease held here.
    pub async fn export(&self) -> Result<String, Error> {
        self.prepare_export().await?;
        self.export_now()
    }

    /// For bindings: what of an [`export`](Lease::export) has to be waited for. The lease is held
    /// as before, and may be exported.
    #[doc(hidden)]
    pub async fn prepare_export(&self) -> Result<(), Error> {
        self.may_export()?;
        match self.client.owners.handles(&self.share) {
            0 => return Err(self.not_owner()),
            1 => {}
            _ => return Err(self.entered_again()),
        }
        let (hold, lease) = (&self.share.held.hold, self.share.held.lease);
        let ttl = hold.terms.timing.ttl;
        self.extended(hold.extend(lease, ttl).await, "export")?;
        Ok(())
    }

    /// Whether the lease is one that may be exported.
    fn may_export(&self) -> Result<(), Error> {
        self.client.check()?;
        if self.share.is_released() {
            return Err(self.not_owner());
        }
        let terms = &self.share.held.hold.terms;
        Err(self.not_exported(if self.is_shared() {
            "it is shared, and others hold the lock beside it"
        } else if terms.keys.field.is_some() {
            "in Redisson's layout it is its owner's"
        } else if !terms.asked.keep.is_zero() {
            "its lock is kept beyond the release, by the client that won it"
        } else {
            return Ok(());
        }))
    }

    fn entered_again(&self) -> Error {
        self.not_exported("it was entered more than once: release the inner handles first")
    }

    fn not_exported(&self, why: &str) -> Error {
        Error::invalid(format!(
            "the lease of the lock {} cannot be exported: {why}",
            shown(&self.name)
        ))
    }

    /// For bindings: ends the lease here, and returns the text with which another client goes on.
    /// It waits for nothing, and a binding calls it where its caller goes on with the text: so a
    /// call that is given up ends no lease.
    #[doc(hidden)]
    pub fn export_now(&self) -> Result<String, Error> {
        // It may have been released, or downgraded, meanwhile.
        self.may_export()?;
        let (hold, lease) = (&self.share.held.hold, self.share.held.lease);
        // From here on no call enters the lease, gives it back, or passes it on.
        let _watched = match self.client.owners.leave_alone(&self.share) {
            Left::Last(watched) => watched,
            Left::Before => return Err(self.not_owner()),
            Left::Others => return Err(self.entered_again()),
        };
        let Some(max_hold) = hold.export(lease) else {
            return Err(self.lost_error());
        };
        let settings = &self.client.settings;
        let exported = Exported {
            set_name: settings.set_name.to_string(),
            nodes: settings.nodes.len() as u64,
            queue: hold.keys().aux.queue().to_vec(),
            name: self.name.to_vec(),
            raw: self.naming == Naming::Raw,
            slot: self.slot(),
            value: hold.value(),
            ttl: hold.terms.timing.ttl,
            renew: hold.terms.asked.renew,
            fence: hold.last_fence(),
            max_hold,
        };
        Ok(exported.to_text())
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
    /// a missing permission.
    ///
    /// # Errors
    ///
    /// `Forked` in a forked child. Never for a loss.
    ///
    /// # Cancel safety
    ///
    /// Once polled the release is on its way; dropping the future only stops
    /// the wait for it.
    pub async fn release(&self) -> Result<bool, Error> {
        self.client.check_process()?;
        Ok(release(&self.client, &self.share).await)
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

    /// For bindings: calls `ring` at the loss, where that is found out, as long
    /// as the result lives; now, if the loss has come.
    #[doc(hidden)]
    pub fn bell(&self, ring: impl Fn() + Send + Sync + 'static) -> Lost {
        let bell = Arc::new(Bell(ring));
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

    /// Why the lease was lost; `None` while it is held and after a release.
    pub fn loss(&self) -> Option<LossReason> {
        if !self.client.is_here() {
            return None;
        }
        self.share.held.hold.loss(self.share.held.lease)
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

    /// For bindings: the lease as it reaches its caller, if it is still held
    /// then. One that is lost is given back, and its error is what the caller
    /// gets.
    #[doc(hidden)]
    pub fn delivered(self) -> Result<Lease, Error> {
        if self.is_held() {
            Ok(self.handed_over())
        } else {
            Err(self.lost_error())
        }
    }

    /// For bindings: gives a handle back in the background that was delivered to nobody,
    /// after all. It keeps nothing.
    #[doc(hidden)]
    pub fn take_back(&self) {
        if !self.client.is_here() {
            return;
        }
        if let Left::Last(watched) = self.client.owners.leave(&self.share) {
            let hold = &self.share.held.hold;
            if self.share.is_first() {
                hold.take_back();
            }
            if let Passed::Not(_) = self.client.lines.pass(hold, watched) {
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

/// For the simulator, which looks from outside.
#[doc(hidden)]
impl Lease {
    /// What the lease stands on, whether this handle has a share in it or not.
    pub fn hold(&self) -> &Arc<Hold> {
        &self.share.held.hold
    }

    /// Which of its token's leases it is.
    pub fn number(&self) -> u32 {
        self.share.held.lease
    }

    /// Until when the handle says that it is held, as things stand. Looking
    /// changes nothing: one that is over stays as it is.
    pub fn says_until(&self) -> Instant {
        self.kept().map_or(Instant::NEVER, |hold| hold.end())
    }
}

/// Gives a handle back, and frees the lock with the last one.
pub(crate) async fn release(client: &Inner, share: &Share) -> bool {
    let hold = &share.held.hold;
    match client.owners.leave(share) {
        Left::Before => false,
        Left::Others => hold.is_held(),
        Left::Last(watched) => match client.lines.pass(hold, watched) {
            Passed::On => true,
            Passed::Not(watched) => {
                let (was_held, release) = hold.release();
                drop(watched);
                let done = release.acknowledged().await && was_held;
                if was_held && !done {
                    warn_of(client, hold, &release);
                }
                done
            }
        },
    }
}

/// Says of a lease that was held why its release is not done.
fn warn_of(client: &Inner, hold: &Hold, release: &Release) {
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
            && let Left::Last(watched) = self.client.owners.leave(&self.share)
            && let Passed::Not(_) = self.client.lines.pass(&self.share.held.hold, watched)
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
pub struct Lost(Watch);

impl Future for Lost {
    type Output = LossReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossReason> {
        Pin::new(&mut self.0).poll(cx)
    }
}

struct Bell<F>(F);

impl<F: Fn() + Send + Sync> Wake for Bell<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::wait;
    use crate::{Client, testing};
    use std::pin::pin;

    /// A lease that was released, and the one of the same token that followed it.
    fn passed_on() -> (Client, Lease, Lease) {
        let client = Client::builder().nodes(testing::nodes(3)).label("first");
        let client = client.build().unwrap();
        let lock = client
            .lock("k")
            .fencing(false)
            .wait(Duration::from_secs(60));
        let first = wait(lock.acquire()).unwrap();
        let lock = lock.label("second");
        let mut next = pin!(lock.acquire());
        // It stands in the line from here on.
        let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        assert!(wait(first.release()).unwrap());
        let second = wait(next).unwrap();
        assert_eq!(first.token(), second.token());
        (client, first, second)
    }

    #[test]
    fn an_export_that_nobody_gets_ends_nothing() {
        let nodes = testing::nodes(3);
        let (client, other) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
        let lease = wait(client.lock("k").acquire()).unwrap();
        wait(lease.prepare_export()).unwrap();
        assert!(lease.is_held() && wait(lease.extend(None)).is_ok());
        // It was entered meanwhile, or given back.
        let owned = client.lock("o").owner(crate::Owner::named("me"));
        let outer = wait(owned.acquire()).unwrap();
        wait(outer.prepare_export()).unwrap();
        let inner = wait(owned.acquire()).unwrap();
        let refused = outer.export_now().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(wait(inner.release()).unwrap() && outer.is_held());
        assert!(wait(outer.release()).unwrap());
        let refused = outer.export_now().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotOwner);
        // And who gets the text goes on.
        let text = lease.export_now().unwrap();
        assert!(!lease.is_held());
        assert!(wait(other.adopt(&text)).unwrap().is_held());
    }

    #[test]
    fn what_is_passed_on_has_the_label_of_who_has_it() {
        let (client, _first, second) = passed_on();
        // As its first renewal does.
        wait(second.extend(None)).unwrap();
        let lock = client.lock("k");
        let found = wait(lock.inspect()).unwrap();
        let holder = found.holder().expect("it is held");
        assert_eq!((holder.label(), holder.votes()), (Some("second"), 3));
        assert!(wait(second.release()).unwrap());
        assert!(!wait(lock.inspect()).unwrap().is_locked());
    }

    #[test]
    fn nodes_hear_at_once_who_has_what_was_passed_on() {
        let client = Client::builder().nodes(testing::nodes(3)).label("first");
        let client = client.build().unwrap();
        let minute = Duration::from_secs(60);
        let lock = client.lock("k").ttl(minute).fencing(false).wait(None);
        let first = wait(lock.acquire()).unwrap();
        let lock = lock.label("second");
        let mut next = pin!(lock.acquire());
        let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        assert!(wait(first.release()).unwrap());
        let second = wait(next).unwrap();
        // Its renewal would come when a third of the ttl is over.
        let begun = second.remaining();
        let told = || {
            let found = wait(client.lock("k").inspect()).unwrap();
            found
                .holder()
                .and_then(|holder| holder.label().map(str::to_owned))
        };
        while told().as_deref() != Some("second") {
            assert!(second.remaining() + minute / 6 > begun, "{:?}", told());
            std::thread::yield_now();
        }
        assert!(wait(second.release()).unwrap());
    }

    #[test]
    fn the_loss_of_what_was_passed_on_is_told_to_who_has_it_alone() {
        let nodes = testing::nodes(1);
        let client = Client::new(&nodes).unwrap();
        let name = "passed-on-and-lost";
        let lock = client.lock(name).fencing(false).wait(None);
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let tells = |which: &'static str| {
            let told = told.clone();
            move |reason| told.lock().unwrap().push((which, reason))
        };
        let first = wait(lock.acquire()).unwrap();
        first
            .share
            .held
            .hold
            .on_lost(first.number(), Box::new(tells("before")));
        let mut next = pin!(lock.acquire());
        let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        assert!(wait(first.release()).unwrap());
        let second = wait(next).unwrap();
        assert_eq!(first.token(), second.token());
        let (hold, lease) = (&first.share.held.hold, first.number());
        hold.on_lost(lease, Box::new(tells("late")));
        hold.on_lost(second.number(), Box::new(tells("second")));
        assert_eq!(testing::lose(name, LossReason::Refused), 1);
        hold.on_lost(lease, Box::new(tells("too late")));
        assert_eq!(*told.lock().unwrap(), [("second", LossReason::Refused)]);
        assert_eq!(
            (first.loss(), second.loss()),
            (None, Some(LossReason::Refused))
        );
    }

    /// It is asked for again behind it where a node has lost its counter, so that no lease that
    /// is passed on from here has a fence that was counted for another.
    #[test]
    fn a_lease_with_others_behind_it_has_a_block_of_fences_and_renews_all_of_it() {
        let client = Client::new(testing::nodes(3)).unwrap();
        let lock = client.lock("k").wait(None);
        let mut cx = Context::from_waker(Waker::noop());
        let held = wait(lock.acquire()).unwrap();
        let mut next = [pin!(lock.acquire()), pin!(lock.acquire())];
        for next in &mut next {
            assert!(next.as_mut().poll(&mut cx).is_pending());
        }
        // Alone it had no block, so this one is won anew, with one.
        assert!(wait(held.release()).unwrap());
        let [first, second] = next;
        let first = wait(first).unwrap();
        let (hold, fence) = (first.hold().clone(), first.fence().unwrap());
        assert_eq!(
            hold.last_fence(),
            fence + u64::from(crate::protocol::hold::IN_A_ROW)
        );
        assert!(hold.renews_fence() == hold.last_fence());
        assert!(wait(first.release()).unwrap());
        let second = wait(second).unwrap();
        assert_eq!(
            (second.token(), second.fence()),
            (first.token(), Some(fence + 1))
        );
        assert!(hold.renews_fence() == hold.last_fence());
    }

    #[test]
    fn what_cannot_be_exported_is_held_as_before() {
        let client = Client::new(testing::nodes(3)).unwrap();
        let lock = || client.lock("k").owner(crate::Owner::named("me"));
        for lock in [
            lock().shared(true),
            lock().keep(Duration::from_millis(1)),
            lock().layout(crate::Layout::Redisson),
        ] {
            let lease = wait(lock.acquire()).unwrap();
            let refused = wait(lease.export()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
            assert!(lease.is_held() && wait(lease.release()).unwrap());
        }
    }

    #[test]
    fn what_is_exported_lasts_for_its_ttl_from_then_on() {
        let client = Client::new(testing::nodes(3)).unwrap();
        let lock = client.lock("k").ttl(Duration::from_secs(60)).renew(false);
        let lease = wait(lock.acquire()).unwrap();
        let moment = Duration::from_millis(100);
        let begun = lease.remaining();
        while lease.remaining() + moment > begun {
            std::thread::yield_now();
        }
        let left = || {
            let found = wait(client.lock("k").inspect()).unwrap();
            found.holder().and_then(crate::Holder::left).unwrap()
        };
        let before = left();
        let text = wait(lease.export()).unwrap();
        // The text waits for its adopter.
        let after = left();
        assert!(after > before + moment / 2, "{after:?} behind {before:?}");
        assert!(wait(wait(client.adopt(&text)).unwrap().release()).unwrap());
    }

    #[test]
    fn a_slot_goes_on_as_that_slot() {
        let client = Client::new(testing::nodes(3)).unwrap();
        let slots = || client.semaphore("s", 2).wait(Duration::ZERO);
        let (first, second) = (
            wait(slots().acquire()).unwrap(),
            wait(slots().acquire()).unwrap(),
        );
        let slot = first.slot();
        let text = wait(first.export()).unwrap();
        let adopted = wait(client.adopt(&text)).unwrap();
        assert!(slot.is_some() && adopted.slot() == slot && second.slot() != slot);
        let full = wait(slots().acquire()).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Contended);
    }

    #[test]
    fn several_last_as_long_as_the_first_that_ends_and_its_loss_is_told_once() {
        let client = Client::new(testing::nodes(1)).unwrap();
        let all = client.lock_all(["s-a", "s-b"]).renew(false);
        let leases = wait(all.acquire()).unwrap();
        wait(leases.get("s-b").unwrap().extend(Duration::from_secs(50))).unwrap();
        assert!(leases.remaining() <= Duration::from_secs(10));
        let (told, hears) = std::sync::mpsc::channel();
        leases.on_lost(move |name, reason| told.send((name.to_vec(), reason)).unwrap());
        for name in ["s-b", "s-a"] {
            assert_eq!(testing::lose(name, LossReason::Refused), 1);
        }
        let first = hears.recv().unwrap();
        assert_eq!(first.1, LossReason::Refused);
        // A loss by then has no listener.
        assert_eq!(leases.delivered().unwrap_err().kind(), ErrorKind::LockLost);
        assert!(hears.recv().is_err());
    }

    #[test]
    fn of_a_lease_that_was_passed_on_nothing_can_be_done_any_more() {
        let (_client, first, second) = passed_on();
        let (hold, lease) = (&first.share.held.hold, first.share.held.lease);
        // As one does who asked before it was released, and comes to do it later.
        assert!(hold.export(lease).is_none());
        assert!(!hold.share(lease));
        let ttl = hold.terms.timing.ttl;
        assert!(matches!(wait(hold.extend(lease, ttl)), Extended::Lost));
        assert!(second.is_held() && !second.is_shared());
        assert_eq!(second.loss(), None);
        for gone in [
            wait(first.export()).map(drop),
            wait(first.downgrade()),
            wait(first.extend(None)),
            wait(first.ensure(Duration::from_millis(1))),
        ] {
            assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotOwner);
        }
        assert!(!wait(first.release()).unwrap() && !first.is_held());
        assert!(second.is_held() && wait(second.release()).unwrap());
    }
}
