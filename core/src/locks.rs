//! Several locks at once: all of them, or none.
//!
//! There is no request of its own for it. Each name is an ordinary lock, and the names
//! are taken in the order of their keys, which is the same for every client in every
//! language:
//!
//! 1. Every lock that is missing is asked for at once, each as a try.
//! 2. Of those that are won, all before the first that is missing are kept, and those behind it are
//!    given back.
//! 3. That first one is waited for, in its line. Then it goes on with 1.
//!
//! So a caller that waits holds only locks that come before the lock it waits for. In a ring of
//! callers that wait for each other, the lock that comes first of those waited for would have to be
//! held by a caller that waits for a lock before it: there is no such ring. Uncontended, all of it
//! takes one round trip.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::client::inner::Inner;
use crate::clock::Instant;
use crate::config::{LockOptions, lock_option_setters};
use crate::error::{Error, ErrorKind, shown};
use crate::lease::{Lease, Lost};
use crate::leases::{Leases, together};
use crate::lock::Lock;
use crate::lock::win::Win;
use crate::owner::Owner;

/// How many locks may be asked for at once.
const MOST: usize = 16;

/// Several names with the same options; made by
/// [`Client::lock_all`](crate::Client::lock_all). Cheap to clone.
///
/// ```no_run
/// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
/// let leases = client.lock_all(["account:1", "account:2"]).acquire().await?;
/// // … the work that needs both …
/// leases.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "it holds nothing until it is acquired"]
pub struct Locks(pub(crate) Vec<Lock>);

lock_option_setters!(Locks);

impl Locks {
    fn change(self, change: impl Fn(&mut LockOptions)) -> Locks {
        let locks = self.0.into_iter();
        Locks(locks.map(|lock| lock.change(&change)).collect())
    }

    // Made from core/options.toml: setters of several locks.
    /// Whether the lease is one of many that share the lock: readers, which a lease that is not shared
    /// keeps out, and which keep that out.
    ///
    /// A reader that asks while a writer waits is served after that writer. The fence of a shared lease
    /// is above that of each lease before it that was not shared, and below that of each such lease
    /// after it; among readers it says nothing. An owner that shares the lock and asks for it alone
    /// gets `WouldDeadlock` at once. Not with `raw`, `layout`, `keep`, `slots` nor `accept_eviction`.
    /// Default: `false`.
    pub fn shared(self, shared: bool) -> Locks {
        self.change(|options| options.shared = shared)
    }

    /// Makes it a semaphore of this many slots: no more of them are held at once.
    ///
    /// Every client of the semaphore asks for as many slots: the largest number in use is the limit. A
    /// lock of that name is another matter. 1 to 128. Not with `raw`, `shared`, `layout` nor `once`.
    pub fn slots(self, slots: impl Into<Option<u32>>) -> Locks {
        let slots = slots.into();
        self.change(|options| options.slots = slots)
    }

    /// The owner of leases, by a name that is valid within the client: it enters its lease again.
    ///
    /// An acquire that gives the same name, in any thread but with the same client, enters the lock
    /// again. What is acquired by hand without an owner is bound to no thread, and a second acquire
    /// waits for it as for a stranger's.
    pub fn owner(self, owner: impl Into<Option<Owner>>) -> Locks {
        let owner = owner.into();
        self.change(|options| options.owner = owner.clone())
    }

    /// Whether a release waits until a quorum of the nodes has carried it out.
    ///
    /// Without, it returns at once, and says whether the lease was valid here until then; the nodes
    /// hear of it all the same. A call of release may say otherwise. Off, not with `keep`. Default:
    /// `true`.
    pub fn confirm(self, confirm: bool) -> Locks {
        self.change(|options| options.confirm = confirm)
    }
    // End of what is made.

    /// Checks names and options without acquiring.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the value and what to give instead: also for no name, and
    /// for more than 16 that differ.
    pub fn check(&self) -> Result<(), Error> {
        self.in_order().map(drop)
    }

    /// The locks in the order in which they are taken, each name once.
    pub(crate) fn in_order(&self) -> Result<Vec<Lock>, Error> {
        let mut keyed = Vec::with_capacity(self.0.len());
        for lock in &self.0 {
            lock.check()?;
            keyed.push((lock.key()?, lock));
        }
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        keyed.dedup_by(|a, b| a.0 == b.0);
        match keyed.len() {
            0 => Err(Error::invalid(
                "no name was given: give the names of the locks to be held together",
            )),
            1..=MOST => Ok(keyed.into_iter().map(|(_, lock)| lock.clone()).collect()),
            many => Err(Error::invalid(format!(
                "{many} locks were asked for at once: give {MOST} at most, or use one lock for \
                 all of what they protect"
            ))),
        }
    }

    /// Acquires all of the locks, waiting as long as [`wait`](Locks::wait) says for all of
    /// them together. Calls that ask for the same names in any order, in whatever language,
    /// do not wait for each other in a ring.
    ///
    /// A name that is given twice is held once. While the call waits it holds those that come
    /// before the lock it waits for, and any client can have the others.
    ///
    /// An owner that holds one of them already enters it again. An owner that holds a lock of
    /// another call, and waits here, can be in a ring with an owner that does the same the other
    /// way round: that ends with `wait`, and a warning in the log names both.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`], of the first lock that could not be had; nothing is held then.
    /// `InvalidArgument` for no name, or for more than 16 that differ.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back what was won and undoes what is under way: no key
    /// stays behind.
    pub async fn acquire(&self) -> Result<Leases, Error> {
        Ok(self.win().await?.handed_over())
    }

    pub(crate) async fn gather(locks: Vec<Lock>) -> Result<Leases, Error> {
        let client = locks[0].running()?.clone();
        let wait = locks[0].waits();
        let deadline = wait.map(|wait| client.set.clock.now() + wait);
        let mut gathering = Acquisition {
            won: locks.iter().map(|_| None).collect(),
            entered: vec![false; locks.len()],
            refused: locks.iter().map(|_| None).collect(),
            has_waited: false,
            locks,
            wait,
            client,
        };
        loop {
            gathering.refresh().await?;
            gathering.try_missing().await?;
            gathering.let_go()?;
            let Some(first) = gathering.first_missing() else {
                let won = gathering.won.into_iter().flatten();
                return Ok(Leases::new(won.map(Arc::new).collect()));
            };
            gathering.wait_for(first, deadline).await?;
        }
    }

    /// As [`acquire`](Locks::acquire) with a wait of zero, and `None` where another client holds
    /// any of them.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Locks::acquire), but never `Contended`.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Locks::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Leases>, Error> {
        self.try_acquire_for(Duration::ZERO).await
    }

    /// The same after a wait: as [`acquire`](Locks::acquire), and `None` where others hold any of
    /// them all the time.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Locks::acquire), but never `Contended` or `Timeout`.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Locks::acquire).
    pub async fn try_acquire_for(
        &self,
        wait: impl Into<Option<Duration>>,
    ) -> Result<Option<Leases>, Error> {
        let leases = self.clone().wait(wait).try_win().await?;
        Ok(leases.map(Leases::handed_over))
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

/// A call on its way. Dropped, what was won is given back.
struct Acquisition {
    client: Arc<Inner>,
    /// In their order.
    locks: Vec<Lock>,
    won: Vec<Option<Lease>>,
    /// Which of those are leases that their owner had before. They are kept throughout: else the
    /// call that won them could let them go meanwhile, this one would win them anew, and other
    /// calls of that owner would enter them.
    entered: Vec<bool>,
    /// What the last try of each said that did not win.
    refused: Vec<Option<Error>>,
    wait: Option<Duration>,
    /// Some were won before others were waited for.
    has_waited: bool,
}

impl Acquisition {
    fn missing(&self) -> Vec<usize> {
        let missing = |i: &usize| self.won[*i].is_none();
        (0..self.locks.len()).filter(missing).collect()
    }

    fn first_missing(&self) -> Option<usize> {
        self.won.iter().position(Option::is_none)
    }

    /// Asks for all that are missing, each once.
    async fn try_missing(&mut self) -> Result<(), Error> {
        let missing = self.missing();
        let tries = missing.iter().map(|i| {
            let once = self.locks[*i].clone().wait(Duration::ZERO);
            async move { once.win_untimed().await }
        });
        for (i, outcome) in missing.iter().zip(together(tries).await) {
            match outcome {
                Ok(won) => self.keep(*i, won),
                Err(error) if may_pass(&error) => self.refused[*i] = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep(&mut self, i: usize, win: Win) {
        (self.won[i], self.entered[i]) = (Some(win.lease), win.reentered);
    }

    /// What was won before a wait and is not renewed is lengthened; what was lost meanwhile, or
    /// will be too soon, is missing: it is asked for with the others while the lock that was waited
    /// for is held. Else two callers could take that from each other for good.
    async fn refresh(&mut self) -> Result<(), Error> {
        if self.has_waited && !self.locks[0].is_renewed() {
            let held = self.won.iter().flatten();
            // A lease that could not be lengthened is held for as long as it was.
            drop(together(held.map(|lease| lease.extend(None))).await);
        }
        self.let_go()
    }

    /// What was lost, or will be too soon, is missing. Of what was entered a loss ends the call.
    fn let_go(&mut self) -> Result<(), Error> {
        let least = self.locks[0].min_validity();
        let lasts = |lease: &Lease| lease.is_held() && lease.remaining() >= least;
        for (won, entered) in self.won.iter_mut().zip(&self.entered) {
            match won {
                Some(lease) if (*entered && !lease.is_held()) => {
                    return Err(lease.lost_error());
                }
                Some(_) if *entered => {}
                _ => drop(won.take_if(|lease| !lasts(lease))),
            }
        }
        Ok(())
    }

    /// Gives back what is behind the first that is missing, and waits for that. Ends without it
    /// where a lease that is held is lost.
    async fn wait_for(&mut self, first: usize, deadline: Option<Instant>) -> Result<(), Error> {
        let behind = self.won.iter_mut().zip(&self.entered).skip(first + 1);
        for (won, _) in behind.filter(|(_, entered)| !**entered) {
            drop(won.take());
        }
        let refused = self.refused[first].take();
        let lock = &self.locks[first];
        let left = deadline.map(|deadline| self.client.set.clock.now().until(deadline));
        if left == Some(Duration::ZERO) {
            // Without a word of the nodes it was won, and lost again.
            let refused = refused.unwrap_or_else(|| lock.lost_again());
            return Err(match self.wait {
                Some(wait) if !wait.is_zero() => refused.timed_out(wait),
                _ => refused,
            });
        }
        let held = self.won.iter().flatten();
        let mut losses: Vec<Lost> = held.clone().map(Lease::lost).collect();
        for lease in held {
            self.client.tell_order(lease.key(), &lock.key()?);
        }
        let patient = lock.clone().wait(left);
        let mut winning = pin!(patient.win_untimed());
        let won = poll_fn(|cx| {
            if let Poll::Ready(won) = winning.as_mut().poll(cx) {
                return Poll::Ready(Some(won));
            }
            let lost = |lost: &mut Lost| Pin::new(lost).poll(cx).is_ready();
            if losses.iter_mut().any(lost) {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        });
        self.has_waited = true;
        match won.await {
            Some(Ok(won)) => self.keep(first, won),
            Some(Err(error)) => {
                // It says how long it was waited for at the end.
                let whole = self.wait.filter(|_| left != self.wait);
                return Err(match whole {
                    Some(wait) => error.timed_out(wait),
                    None => error,
                });
            }
            None => {}
        }
        Ok(())
    }
}

/// Whether a lock may be had later that could not be had now.
fn may_pass(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Contended | ErrorKind::QuorumUnavailable
    )
}

impl Lock {
    fn lost_again(&self) -> Error {
        let message = format!(
            "the lock {} was won and lost again, for others were waited for: raise the ttl, or \
             have it renewed",
            shown(self.name())
        );
        Error::new(ErrorKind::LockLost, message).about(self.name(), None)
    }
}
