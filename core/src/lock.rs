//! The lock: a name with options. Holding nothing so far.

mod adopt;
mod keys;
mod look;
mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod win;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::inner::Inner;
use crate::client::shared::ClientCore;
use crate::config::{LockOptions, MIN_TTL, Times, lock_option_setters};
use crate::error::{Error, ErrorKind, shown};
use crate::lease::Lease;
use crate::node::{Keys, LockId};
use crate::owner::Owner;

/// A name with options; made by [`Client::lock`](crate::Client::lock). Cheap
/// to clone.
///
/// ```no_run
/// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
/// use std::time::Duration;
///
/// let lock = client.lock("orders:42").ttl(Duration::from_secs(5));
/// let lease = lock.acquire().await?;
/// // … the protected work …
/// lease.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a lock holds nothing until it is acquired"]
pub struct Lock {
    pub(crate) client: Arc<ClientCore>,
    pub(crate) name: Arc<[u8]>,
    /// From the name; its error is reported when the lock is used.
    pub(crate) keys: Result<Arc<Keys>, Error>,
    pub(crate) options: LockOptions,
}

lock_option_setters!(Lock);

impl Lock {
    pub(crate) fn new(client: Arc<ClientCore>, name: Vec<u8>) -> Lock {
        let options = client.settings.lock.clone();
        Lock::with(client, name, options)
    }

    /// A lock with these options.
    pub(crate) fn with(client: Arc<ClientCore>, name: Vec<u8>, options: LockOptions) -> Lock {
        Lock {
            keys: keys::keys(&client, &name, &options),
            client,
            name: name.into(),
            options,
        }
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut LockOptions)) -> Lock {
        let keyed = |options: &LockOptions| {
            (
                options.naming(),
                options.layout,
                options.fencing,
                options.mode(),
            )
        };
        let before = keyed(&self.options);
        change(&mut self.options);
        if keyed(&self.options) != before {
            self.keys = keys::keys(&self.client, &self.name, &self.options);
        }
        self
    }

    // Made from core/options.toml: setters of a lock.
    /// Whether the lease is one of many that share the lock: readers, which a lease that is not shared
    /// keeps out, and which keep that out.
    ///
    /// A reader that asks while a writer waits is served after that writer. The fence of a shared lease
    /// is above that of each lease before it that was not shared, and below that of each such lease
    /// after it; among readers it says nothing. An owner that shares the lock and asks for it alone
    /// gets `WouldDeadlock` at once. Not with `raw`, `layout`, `keep`, `slots` nor `accept_eviction`.
    /// Default: `false`.
    pub fn shared(self, shared: bool) -> Lock {
        self.change(|options| options.shared = shared)
    }

    /// Makes it a semaphore of this many slots: no more of them are held at once.
    ///
    /// Every client of the semaphore asks for as many slots: the largest number in use is the limit. A
    /// lock of that name is another matter. 1 to 128. Not with `raw`, `shared`, `layout` nor `once`.
    pub fn slots(self, slots: impl Into<Option<u32>>) -> Lock {
        let slots = slots.into();
        self.change(|options| options.slots = slots)
    }

    /// The owner of leases, by a name that is valid within the client: it enters its lease again.
    ///
    /// An acquire that gives the same name, in any thread but with the same client, enters the lock
    /// again. What is acquired by hand without an owner is bound to no thread, and a second acquire
    /// waits for it as for a stranger's.
    pub fn owner(self, owner: impl Into<Option<Owner>>) -> Lock {
        let owner = owner.into();
        self.change(|options| options.owner = owner.clone())
    }

    /// Whether a release waits until a quorum of the nodes has carried it out.
    ///
    /// Without, it returns at once, and says whether the lease was valid here until then; the nodes
    /// hear of it all the same. A call of release may say otherwise. Off, not with `keep`. Default:
    /// `true`.
    pub fn confirm(self, confirm: bool) -> Lock {
        self.change(|options| options.confirm = confirm)
    }
    // End of what is made.

    /// For a job that every host starts by its own clock, once in each `every`, and that is to run
    /// once: does not wait, [keeps](Lock::keep) the lock for half of `every`, at most `max_ttl`,
    /// and has a ttl as long, so that a host which dies at its work does not leave it to another
    /// that comes a moment later. Options that are given behind it win.
    ///
    /// Of hosts that try in the same moment each may get some of the votes, and none a quorum. They
    /// try again, at most for twice `node_timeout` and half of `keep`, until the nodes say that one
    /// of them has it.
    ///
    /// Hosts whose clocks differ by more than `keep` may each run the job. `every` is 20 ms
    /// at least, and more than `keep`, which would leave out the next run.
    pub fn once(mut self, every: Duration) -> Lock {
        let keep = (every / 2).min(self.client.settings.max_ttl());
        if keep < MIN_TTL {
            self.keys = Err(Error::invalid(format!(
                "every is {every:?}: give {:?} at least",
                2 * MIN_TTL
            )));
        }
        self.options.once = Some(every);
        self.wait(Duration::ZERO).keep(keep).ttl(keep)
    }

    /// The key that it has on the nodes.
    pub(crate) fn key(&self) -> Result<Arc<[u8]>, Error> {
        Ok(self.keys.as_ref().map_err(Error::clone)?.lock.clone())
    }

    /// Which lock it is.
    pub(crate) fn id(&self) -> Result<LockId, Error> {
        Ok(self.keys.as_ref().map_err(Error::clone)?.id().clone())
    }

    /// What runs for its client, started if need be.
    pub(crate) fn running(&self) -> Result<&Arc<Inner>, Error> {
        self.client.running()
    }

    /// Its times, where some follow others.
    fn times(&self) -> Times {
        self.client.settings.times(&self.options)
    }

    /// How long an acquire waits.
    pub(crate) fn waits(&self) -> Option<Duration> {
        self.options.wait
    }

    /// Whether its leases are renewed.
    pub(crate) fn is_renewed(&self) -> bool {
        self.options.renew
    }

    /// How much of its ttl has to be left when a lease is won.
    pub(crate) fn min_validity(&self) -> Duration {
        let ttl = self.times().ttl;
        self.client.settings.timing(ttl).min_validity
    }

    /// The lock's name, as given.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Checks name and options without acquiring.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the value and what to give instead.
    pub fn check(&self) -> Result<(), Error> {
        self.keys.clone()?;
        self.options.check(&self.client.settings)
    }

    /// Acquires the lock, waiting as long as [`wait`](Lock::wait) says.
    ///
    /// Those that wait for one lock in one client are served in the order in
    /// which they came; a wait of zero tries without a place in that line.
    ///
    /// If the lock's owner holds it already, the result is another handle on
    /// the same lease, without any request.
    ///
    /// # Errors
    ///
    /// `Timeout` if it was held by others all the time, `Contended` likewise
    /// with a wait of zero; `QuorumUnavailable` if too few nodes answered;
    /// `Misconfigured` at once if credentials or addresses leave no quorum;
    /// `TooManyWaiters` at once if as many wait already as
    /// [`max_waiters`](Lock::max_waiters) allows; `WouldDeadlock` at once if the owner would wait for itself;
    /// `LockLost` on re-entry into a lease that was lost, and if a lease
    /// was won and lost again, since the future was not polled for longer than that lasts, and no time is left for
    /// another try; `InvalidArgument`, `Closed`, `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes the attempt under way: no key stays behind.
    ///
    /// # Keep the lease
    ///
    /// A lease that the program does not keep is released at once. The compiler warns of it:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
    /// client.lock("orders:42").acquire().await?; // held no longer here
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Lease, Error> {
        Ok(self.win().await?.handed_over())
    }

    /// As [`acquire`](Lock::acquire) with a wait of zero, and `None` where the
    /// lock is held by another.
    ///
    /// Bind the lease: `if let Some(lease) = …` holds it to the end of the block,
    /// `if ….is_some()` gives it back before the block begins.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire), but never `Contended`.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Lock::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        self.try_acquire_for(Duration::ZERO).await
    }

    /// As [`acquire`](Lock::acquire) with this wait, and `None` where the lock is held by
    /// others all the time: for work that is left out then. `None` for a wait without end.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
    /// if let Some(lease) = client.lock("report").try_acquire_for(Duration::from_secs(3)).await? {
    ///     // held to the end of the block
    /// #   drop(lease);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Lock::acquire), but neither `Contended` nor `Timeout`.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Lock::acquire).
    pub async fn try_acquire_for(
        &self,
        wait: impl Into<Option<Duration>>,
    ) -> Result<Option<Lease>, Error> {
        let lock = self.clone().wait(wait);
        Ok(lock.try_win().await?.map(Lease::handed_over))
    }

    /// Releases by lock: gives back the newest handle of the lease that the
    /// lock's owner holds. Returns whether the lock was still held. Waits for the nodes as that
    /// handle's [`Lease::release`] would, by the [`confirm`](Lock::confirm) of this lock.
    ///
    /// # Errors
    ///
    /// `NotOwner` if that owner holds nothing, or the lock has no owner.
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::release`].
    pub async fn release(&self) -> Result<bool, Error> {
        let owner = self.options.owner.as_ref();
        let mut found = None;
        if let Some(client) = self.client.started() {
            client.check_process()?;
            if let Some(owner) = owner {
                let share = client.owners.newest(self.keys.clone()?.id(), owner);
                found = share.map(|share| (client, share));
            }
        }
        let Some((client, share)) = found else {
            let name = shown(&self.name);
            let message = match owner {
                Some(owner) => format!("{} does not hold the lock {name}", owner.words()),
                None => {
                    format!("the lock {name} has no owner to release it for: release its lease")
                }
            };
            return Err(Error::new(ErrorKind::NotOwner, message).about(&self.name, None));
        };
        self.lease(client, share).release().await
    }
}

/// Nothing, where an error says that others hold the lock.
pub(crate) fn unless_others<T>(error: Error) -> Result<Option<T>, Error> {
    if error.is_busy() {
        Ok(None)
    } else {
        Err(error)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.times();
        f.debug_struct("Lock")
            .field("name", &format_args!("{}", shown(&self.name)))
            .field("ttl", &times.ttl)
            .field("wait", &self.options.wait)
            .field("renew", &self.options.renew)
            .field("owner", &self.options.owner)
            .finish_non_exhaustive()
    }
}
