//! The lock: a name with options. Holding nothing yet.

mod adopt;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::inner::Inner;
use crate::client::shared::Shared;
use crate::config::{Layout, LockOptions, MIN_TTL, Times, lock_option_setters};
use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::event::{LogEvent, event};
use crate::force::{Forced, force_release};
use crate::given;
use crate::inspect::{Holder, Inspection, Verdict};
use crate::lease::{self, Lease};
use crate::node::names::{self, MOST_SLOTS, Naming};
use crate::node::{Field, Keys, LockId, Mode};
use crate::owner::{Bound, Owner};
use crate::protocol::acquire::{self, Acquired, Wait};
use crate::protocol::group::Group;
use crate::protocol::hold::Terms;
use crate::protocol::inspect::{inspect, inspect_each};
use crate::protocol::loss::LossReason;
use crate::protocol::reentry::{Held, Share};
use crate::protocol::timed::Timed;

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
    client: Arc<Shared>,
    name: Arc<[u8]>,
    /// From the name; an error is told when the lock is used.
    keys: Result<Arc<Keys>, Error>,
    options: LockOptions,
}

lock_option_setters!(Lock);

impl Lock {
    pub(crate) fn new(client: Arc<Shared>, name: Vec<u8>) -> Lock {
        let options = client.settings.lock.clone();
        Lock::with(client, name, options)
    }

    /// A lock with these options.
    pub(crate) fn with(client: Arc<Shared>, name: Vec<u8>, options: LockOptions) -> Lock {
        Lock {
            keys: keys(&client, &name, &options),
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
            self.keys = keys(&self.client, &self.name, &self.options);
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
    // End of what is made.

    /// For a job that every host starts by its own clock, once in each `every`, and that is to
    /// run once: does not wait, [keeps](Lock::keep) the lock for half of `every`, at most
    /// `max_ttl`, and has a ttl as long, so that a host which dies at its work does not
    /// leave it to one that comes a moment later. Options that are given behind it win.
    ///
    /// Of those who try in the same moment each may get some of the votes, and none a quorum.
    /// They try again, at most for twice `node_timeout` and half of `keep`, until the nodes
    /// say that one of them has it.
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

    /// For bindings: what the lock of an [election](crate::Election) is asked for with:
    /// without end, in the line on the nodes, for as long as it lasts. Options that are given
    /// behind it win, but [`check`](Lock::check) and every acquire refuse those by which
    /// several would lead.
    #[doc(hidden)]
    pub fn for_election(self) -> Lock {
        let lock = self.change(|options| options.election = true);
        lock.wait(None).max_hold(None).fair(true).renew(true)
    }

    /// For bindings: gives the lock an owner, unless it has one.
    #[doc(hidden)]
    pub fn owner_or(mut self, owner: impl FnOnce() -> Owner) -> Lock {
        self.options.owner.get_or_insert_with(owner);
        self
    }

    /// For bindings: that each thread which acquires it is an owner of its own: see
    /// [`of_this_thread`](Lock::of_this_thread).
    #[doc(hidden)]
    pub fn owned_by_threads(mut self, owned: bool) -> Lock {
        self.options.owned_by_threads = owned;
        self
    }

    /// For bindings: the lock as the calling thread acquires it. Where threads own it the owner
    /// is this one, but of a semaphore, whose slots anybody may give back. Without an owner the
    /// log tells of a lease that is still kept when this thread has ended.
    #[doc(hidden)]
    pub fn of_this_thread(mut self) -> Lock {
        if self.options.owner.is_some() {
            return self;
        }
        if self.options.owned_by_threads && !self.has_slots() {
            self.owner(Owner::current_thread())
        } else {
            self.options.acquirer = Bound::told_at_the_end_of_this_thread();
            self
        }
    }

    /// For bindings: what is one and the same for all objects of this client that mean
    /// this lock, as long as the client lives. Fails as [`check`](Lock::check).
    #[doc(hidden)]
    pub fn place(&self) -> Result<(usize, Vec<u8>), Error> {
        let keys = self.keys.clone()?;
        Ok((
            Arc::as_ptr(&self.client) as usize,
            keys.id().bytes().to_vec(),
        ))
    }

    /// By which metrics tell it from others.
    fn measured_group(&self) -> Result<Group, Error> {
        Ok(self.options.group.clone()?.of_mode(self.options.mode()))
    }

    /// For bindings: the name of its [group](Lock::group), empty for none.
    #[doc(hidden)]
    pub fn group_name(&self) -> &'static str {
        let group = self.options.group.as_ref();
        group.copied().unwrap_or_default().name()
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

    /// For bindings: whether this process may use it, as its client.
    #[doc(hidden)]
    pub fn is_ours(&self) -> bool {
        self.client.is_ours()
    }

    /// For bindings: whether the lease that the lock's owner has is held; `None`
    /// where that owner has none.
    #[doc(hidden)]
    pub fn is_held_by_owner(&self) -> Option<bool> {
        // First, for a forked child must not touch locks of its parent.
        let client = self.client.started()?;
        client.check().ok()?;
        let keys = self.keys.as_ref().ok()?;
        let owner = self.options.owner.as_ref()?;
        let share = client.owners.newest(keys.id(), owner)?;
        Some(!share.held.hold.remaining().is_zero())
    }

    /// For bindings: whether it is a semaphore.
    #[doc(hidden)]
    pub fn has_slots(&self) -> bool {
        self.options.slots.is_some()
    }

    /// For bindings: whether it is asked for so that it is [shared](Lock::shared).
    #[doc(hidden)]
    pub fn is_shared(&self) -> bool {
        self.options.shared
    }

    /// For bindings: whether the lock's owner has a lease that is shared.
    #[doc(hidden)]
    pub fn is_shared_by_owner(&self) -> bool {
        let mode = || {
            let client = self.client.started()?;
            client.check().ok()?;
            let owner = self.options.owner.as_ref()?;
            client.owners.mode_of(self.keys.as_ref().ok()?.id(), owner)
        };
        mode() == Some(Mode::Shared)
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
    /// A lease that nobody keeps is released at once. The compiler warns of it:
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

    /// For bindings: as [`acquire`](Lock::acquire), but the lease is nobody's before it is
    /// [delivered](Lease::delivered).
    #[doc(hidden)]
    pub async fn win(&self) -> Result<Lease, Error> {
        let timed = self.timed()?;
        let outcome = self.win_untimed().await;
        timed.end(outcome.as_ref().map(|(_, entered)| *entered));
        Ok(outcome?.0)
    }

    /// Measures one call.
    pub(crate) fn timed(&self) -> Result<Timed<'_>, Error> {
        let group = self.measured_group()?;
        let set = &self.client.running()?.set;
        // A candidate waits for as long as another leads, which nobody has to be told.
        let waits = !self.options.election;
        Ok(Timed::begin(set, group, &self.name, waits))
    }

    /// Wins, as a part of a call that is measured as a whole. Whether it was entered once
    /// more is told.
    pub(crate) async fn win_untimed(&self) -> Result<(Lease, bool), Error> {
        match self.win_or_wait().await {
            Err(refused)
                if refused.kind() == ErrorKind::Contended && self.options.once.is_some() =>
            {
                // In a box, for a call that waits would have its size, too.
                Box::pin(self.settle(refused)).await
            }
            outcome => outcome,
        }
    }

    /// Tries again as long as nobody has the lock: see [`once`](Lock::once).
    async fn settle(&self, mut refused: Error) -> Result<(Lease, bool), Error> {
        let set = &self.client.running()?.set;
        let (node, keep) = (self.client.settings.node_timeout, self.options.keep);
        let end = set.clock.now() + (2 * node).min(keep / 2);
        loop {
            if self.inspect().await?.is_locked() {
                return Err(refused);
            }
            // Short beside `keep`, so that nobody misses one who has had it meanwhile.
            let pause = set.rng.between(Duration::ZERO, (node / 8).min(keep / 8));
            let at = set.clock.now() + pause;
            if at >= end {
                return Err(refused);
            }
            set.clock.sleep_until(at).await;
            match self.win_or_wait().await {
                Err(again) if again.kind() == ErrorKind::Contended => refused = again,
                outcome => return outcome,
            }
        }
    }

    async fn win_or_wait(&self) -> Result<(Lease, bool), Error> {
        // Counted first: then this sees the client closed, or its `close` waits
        // for us.
        let client = self.client.running()?;
        let _call = client.set.counters.call();
        client.check()?;
        self.check()?;
        let mut terms = self.terms(client)?;
        let clock = &*client.set.clock;
        let deadline = self.options.wait.map(|wait| clock.now() + wait);
        let mut wait = self.options.wait;
        loop {
            let (lease, entered) = self.acquired(client, &terms, wait).await?;
            // Looked at in the poll that hands it over. One that is lost is
            // given back, and asked for again while there is time.
            if entered || lease.is_held() {
                return Ok((lease, entered));
            }
            let left = deadline.map(|deadline| clock.now().until(deadline));
            wait = left;
            let over = left == Some(Duration::ZERO);
            if over {
                return Err(lease.lost_error());
            }
            terms = self.terms(client)?;
        }
    }

    /// What is asked of the nodes.
    fn terms(&self, client: &Inner) -> Result<Terms, Error> {
        let times = self.times();
        Ok(Terms {
            keys: self.asked_for(client)?,
            label: match self.options.naming() {
                Naming::Tagged => {
                    let label = self.options.label.as_ref();
                    label.unwrap_or(&client.process_label).clone()
                }
                Naming::Raw => Arc::default(),
            },
            timing: client.settings.timing(times.ttl),
            drift: client.settings.drift,
            asked: self.options.asked(times),
            bound: match &self.options.owner {
                Some(owner) => owner.bound(),
                None => self.options.acquirer.clone(),
            },
            group: self.measured_group()?,
        })
    }

    /// The keys, and in Redisson's layout by which owner they are asked for.
    fn asked_for(&self, client: &Inner) -> Result<Arc<Keys>, Error> {
        let keys = self.keys.clone()?;
        Ok(match self.options.layout {
            Layout::Plain => keys,
            Layout::Redisson => Arc::new(Keys {
                field: Some(match self.options.owner.as_ref().and_then(Owner::name) {
                    Some(name) => Field {
                        name: name.into(),
                        shared: true,
                    },
                    None => Field {
                        name: client.inbox.owner().into(),
                        shared: false,
                    },
                }),
                ..Keys::clone(&keys)
            }),
        })
    }

    /// One lease, won or passed on; or entered once more, which is told.
    async fn acquired(
        &self,
        client: &Arc<Inner>,
        terms: &Terms,
        wait: Option<Duration>,
    ) -> Result<(Lease, bool), Error> {
        let keys = &terms.keys;
        let owner = self.options.owner.as_ref();
        let mut looks = 0_u32;
        let reenter = || -> Option<Result<Share, Error>> {
            looks = looks.saturating_add(1);
            // Looked at above the first time.
            if looks > 1
                && let Err(closed) = client.check()
            {
                return Some(Err(closed));
            }
            // Whoever looks again waits.
            if looks == 2
                && wait != Some(Duration::ZERO)
                && let Some(owner) = owner
            {
                for held in client.owners.held_by(owner) {
                    client.tell_order(&held, &keys.lock);
                }
            }
            let held = client.owners.mode_of(keys.id(), owner?)?;
            let upgrades = (held, keys.mode) == (Mode::Shared, Mode::Exclusive);
            if upgrades {
                return Some(Err(self.would_deadlock()));
            }
            let owner = owner?;
            if self.options.reentrant {
                return client.owners.reenter(keys.id(), owner).map(Ok);
            }
            let held = client.owners.newest(keys.id(), owner)?;
            // An owner by name may have other threads, one of which may release the lease.
            let slot = matches!(keys.mode, Mode::AnySlot(_));
            let itself = owner.is_thread() && !slot;
            itself.then(|| Err(self.held_by_the_thread_itself(&held.held)))
        };
        let set = &client.set;
        let wait = Wait {
            limit: wait,
            lines: &client.lines,
            inbox: &client.inbox,
            max_waiters: self.options.max_waiters,
        };
        let (hold, watched) = match acquire::acquire(set, terms, &self.name, wait, reenter).await? {
            Acquired::Hold(hold) => (hold.clone(), client.watchdog.watch(hold)),
            Acquired::Given(hold, watched) => (hold, watched),
            Acquired::Reentered(share) => return Ok((self.reentered(client, share?)?, true)),
        };
        // Whoever closes the client releases what is watched over then.
        if let Err(closed) = client.check() {
            hold.release();
            return Err(closed);
        }
        let (share, spare) = client.owners.enter(hold, watched, owner);
        if let Some((hold, _watched)) = spare {
            hold.release();
        }
        if owner.is_some_and(Owner::may_be_shared) {
            client.lines.look_again(keys.id());
            client.inbox.look_again(Some(keys.id()));
        }
        Ok((self.lease(client, share), false))
    }

    fn reentered(&self, client: &Arc<Inner>, share: Share) -> Result<Lease, Error> {
        let told = self.overruled(client, &share.held);
        let lease = self.lease(client, share);
        if !lease.is_held() {
            let lost = lease.loss().map(|reason| self.lost_before(reason));
            return Err(lost.unwrap_or_else(|| lease.lost_error()));
        }
        crate::protocol::counters::count(&client.set.counters.reentered);
        told.map(client.set.warn);
        Ok(lease)
    }

    /// What the lock was given and a lease that it enters does not have, told once
    /// for each lease. What is the client's own was not given.
    fn overruled(&self, client: &Inner, held: &Held) -> Option<LogEvent> {
        let (has, usual) = (&held.hold.terms.asked, &client.settings.lock);
        let differ = self.options.overruled(self.times(), has, usual);
        if differ.is_empty() || held.overruled.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(event!(
            "options_overruled",
            "the lock `{lock}` is entered again with other options: its lease keeps those that it \
             was won with, {options}",
            lock = self.name.escape_ascii(),
            options = differ.join(", "),
        ))
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

    /// For bindings: as [`try_acquire_for`](Lock::try_acquire_for) the lock's own
    /// [`wait`](Lock::wait), but the lease is nobody's before it is
    /// [delivered](Lease::delivered).
    #[doc(hidden)]
    pub async fn try_win(&self) -> Result<Option<Lease>, Error> {
        self.win().await.map(Some).or_else(unless_others)
    }

    /// Reports who holds the lock, without acquiring it: one request to each node, at most
    /// `node_timeout`, which waits for the first connections as
    /// [`connect_timeout`](crate::ClientBuilder::connect_timeout) says. Of a lock that is free
    /// another tells whether a semaphore of its name is in use. Of a
    /// [semaphore](crate::Client::semaphore) one request for each slot tells all of them.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, `Closed`, `Forked`. That nodes do not answer is no error, but part
    /// of the result.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        let found = self.look().await?;
        if found.verdict() != Verdict::Free || !found.slots().is_empty() {
            return Ok(found);
        }
        let client = self.client.running()?;
        let mut options = self.options.clone();
        options.slots = Some(MOST_SLOTS);
        match options.naming() {
            Naming::Tagged => {
                let keys = keys(&self.client, &self.name, &options)?;
                let said = inspect(&client.set, &keys, client.settings.node_timeout).await;
                Ok(found.beside(&said))
            }
            Naming::Raw => Ok(found),
        }
    }

    /// As [`inspect`](Lock::inspect), but for a semaphore of its name.
    pub(crate) async fn look(&self) -> Result<Inspection, Error> {
        let client = self.client.running()?;
        let _call = client.set.counters.call();
        client.check()?;
        let keys = self.keys.clone()?;
        let (set, node_timeout) = (&client.set, client.settings.node_timeout);
        let Mode::AnySlot(slots) = keys.mode else {
            let said = inspect(set, &keys, node_timeout).await;
            return Ok(Inspection::of(set, &self.name, &said));
        };
        let of_slots: Vec<_> = (0..slots)
            .map(|slot| Arc::new(keys.of_slot(slot)))
            .collect();
        let said = inspect_each(set, &of_slots, node_timeout).await;
        let slots = (0..slots).zip(&said);
        let slots = slots.map(|(slot, said)| Inspection::of_slot(set, &self.name, slot, said));
        Ok(Inspection::of_slots(&self.name, slots.collect()))
    }

    /// For the command: what each node said to the last attempt of this client at the lock that
    /// did not win, in the order of the node list. Nothing where none was made, or the client
    /// has held the lock since.
    #[doc(hidden)]
    pub fn answers(&self) -> Vec<NodeError> {
        let (Some(client), Ok(keys)) = (self.client.started(), &self.keys) else {
            return Vec::new();
        };
        let said = client.lines.said(keys.id());
        said.map_or_else(Vec::new, |said| said.nodes(&client.set))
    }

    /// Waits until the lock is free, or a slot of a semaphore is, and takes nothing: whether it was so
    /// before the wait was over, which may be without end. Somebody else may have it a moment
    /// later: whoever wants it acquires it. It is looked at again and again, every 50 to 500 ms.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Lock::inspect), and `QuorumUnavailable` where too few nodes answered at the end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn wait_until_free(&self, wait: impl Into<Option<Duration>>) -> Result<bool, Error> {
        let set = self.client.running()?.set.clone();
        let end = wait.into().map(|wait| set.clock.now() + wait);
        let mut pause = LEAST_PAUSE;
        loop {
            let found = self.look().await?;
            let now = set.clock.now();
            if found.verdict() == Verdict::Free {
                return Ok(true);
            }
            if end.is_some_and(|end| end <= now) {
                return match found.verdict() {
                    Verdict::Unknown => Err(found.unknown()),
                    _ => Ok(false),
                };
            }
            let next = now + set.rng.between(pause * 4 / 5, pause);
            set.clock
                .sleep_until(end.map_or(next, |end| end.min(next)))
                .await;
            pause = (pause * 3 / 2).min(MOST_PAUSE);
        }
    }

    /// Takes the lock away from whoever holds it: see
    /// [`Client::force_release`](crate::Client::force_release), also for errors and cancel
    /// safety. Of a [semaphore](crate::Client::semaphore) all slots are taken away: then a fence is refused, for
    /// each slot has its own.
    ///
    /// # Errors
    ///
    /// As [`Client::force_release`](crate::Client::force_release).
    pub async fn force_release(&self, fence: Option<u64>) -> Result<Forced, Error> {
        let client = self.client.running()?;
        let _call = client.set.counters.call();
        client.check()?;
        let keys = self.keys.clone()?;
        let Mode::AnySlot(_) = keys.mode else {
            return force_release(client, &keys, &self.name, fence).await;
        };
        if fence.is_some() {
            let message =
                "fence is given for all slots of a semaphore: give the slot whose fence it is, too";
            return Err(Error::invalid(message).about(&self.name, None));
        }
        let found = self.look().await?;
        let mut freed = 0;
        for slot in found.slots().iter().filter(|slot| slot.may_be_held()) {
            let keys = Arc::new(keys.of_slot(slot.slot().unwrap_or(0)));
            freed += force_release(client, &keys, &self.name, None)
                .await?
                .freed();
        }
        Ok(Forced::of(found, freed))
    }

    /// Takes one slot of a semaphore away from whoever holds it, as
    /// [`force_release`](Lock::force_release) does a lock; with a fence only from the hold that has it.
    ///
    /// # Errors
    ///
    /// As [`Client::force_release`](crate::Client::force_release); `InvalidArgument` where it is no semaphore,
    /// or has no such slot.
    pub async fn force_release_slot(&self, slot: u32, fence: Option<u64>) -> Result<Forced, Error> {
        let client = self.client.running()?;
        let _call = client.set.counters.call();
        client.check()?;
        let keys = self.keys.clone()?;
        let Mode::AnySlot(slots) = keys.mode else {
            let message = "slot is of a semaphore, and this is a lock: leave it out";
            return Err(Error::invalid(message).about(&self.name, None));
        };
        if slot >= slots {
            let message = format!(
                "slot is {slot}: give 0 to {}, for it has {slots}",
                slots - 1
            );
            return Err(Error::invalid(message).about(&self.name, None));
        }
        let keys = Arc::new(keys.of_slot(slot));
        force_release(client, &keys, &self.name, fence).await
    }

    /// Whether somebody holds the lock, or keeps it, or is about to; not whether this
    /// process does; of a semaphore whether all slots are held. One request to each node, as of
    /// [`inspect`](Lock::inspect).
    ///
    /// # Errors
    ///
    /// As [`inspect`](Lock::inspect), and `QuorumUnavailable` where too few nodes answered.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        let found = self.decided().await?;
        Ok(found.verdict() != Verdict::Free)
    }

    /// Who holds the lock, or keeps it; `None` where a quorum agrees on nobody. Of a semaphore who has had a slot
    /// for longest.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        let found = self.decided().await?;
        let slots = found.slots().iter().filter_map(Inspection::holder);
        let longest = slots.min_by_key(|holder| (holder.since().is_none(), holder.since()));
        Ok(found.holder().or(longest).cloned())
    }

    async fn decided(&self) -> Result<Inspection, Error> {
        let found = self.look().await?;
        match found.verdict() {
            Verdict::Unknown => Err(found.unknown()),
            _ => Ok(found),
        }
    }

    /// Releases by lock: gives back the newest handle of the lease that the
    /// lock's owner holds. Returns whether the lock was still held.
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
        Ok(lease::release(client, &share).await)
    }

    /// The thread that asks has the lock, or had it and has not given it back.
    fn held_by_the_thread_itself(&self, held: &Held) -> Error {
        if let Some(reason) = held.hold.loss(held.lease) {
            return self.lost_before(reason);
        }
        let message = format!(
            "the calling thread holds the lock {} and would wait for itself: release the lease first, or let the \
             owner enter again (reentrant)",
            shown(&self.name)
        );
        Error::new(ErrorKind::WouldDeadlock, message).about(&self.name, None)
    }

    /// An earlier lease of the owner is lost, and not yet given back.
    fn lost_before(&self, reason: LossReason) -> Error {
        let message = format!(
            "an earlier lease of this owner on the lock {} is lost ({}), and it has not been released: stop the work \
             it protects and release it, then acquire again",
            shown(&self.name),
            reason.as_str()
        );
        Error::new(ErrorKind::LockLost, message).about(&self.name, None)
    }

    fn would_deadlock(&self) -> Error {
        let message = format!(
            "the owner shares the lock {} and wants it for itself: two who did would wait for each \
             other forever; release the shared lease first, and look again at what it protected",
            shown(&self.name)
        );
        Error::new(ErrorKind::WouldDeadlock, message).about(&self.name, None)
    }

    fn lease(&self, client: &Arc<Inner>, share: Share) -> Lease {
        Lease::new(
            client.clone(),
            share,
            self.name.clone(),
            self.options.naming(),
            self.times().ttl,
        )
    }
}

/// How long it is waited at first until it is looked again whether a lock is free, and at most.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_millis(500);

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

fn keys(client: &Shared, name: &[u8], options: &LockOptions) -> Result<Arc<Keys>, Error> {
    let namespace = &client.settings.namespace;
    let naming = options.naming();
    let key = names::lock_key(namespace, name, naming)?;
    if naming == Naming::Raw && client.settings.has_cluster() && !names::shares_hash_slot(&key) {
        return Err(Error::invalid(format!(
            "the lock name is {}, a key as it stands, and has braces that form no hash tag, so in a \
             cluster what goes with it would be on several servers: leave the braces out, or write \
             `{{tag}}`",
            given::shown("name", &String::from_utf8_lossy(name))
        )));
    }
    let (lock, aux) = match options.mode() {
        _ if options.layout == Layout::Redisson => {
            let aux = names::redisson(namespace, &key);
            (key, aux)
        }
        Mode::AnySlot(_) if naming == Naming::Tagged => names::semaphore(namespace, &key),
        _ => {
            let aux = names::aux(namespace, &key, naming);
            (key, aux)
        }
    };
    Ok(Arc::new(Keys {
        aux,
        lock: lock.into(),
        waits: client.waits,
        fence_ttl: options.fencing.then_some(client.settings.fence_ttl()),
        mode: options.mode(),
        adopts: None,
        field: None,
    }))
}
