//! From an acquire to its lease: entered again by its owner, or won.

use super::Lock;
use crate::client::inner::Inner;
use crate::error::{Error, ErrorKind, shown};
use crate::event::{LogEvent, event};
use crate::lease::Lease;
use crate::node::{Keys, Mode};
use crate::owner::Owner;
use crate::protocol::acquire::{self, AcquireResult, Wait};
use crate::protocol::claim::LockParams;
use crate::protocol::loss::LossReason;
use crate::protocol::reentry::{LeaseHandle, SharedLease};
use crate::protocol::timed::CallTimer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A lease that an acquire has brought.
pub(crate) struct Win {
    pub(crate) lease: Lease,
    /// It is the owner's from before, entered once more.
    pub(crate) reentered: bool,
}

/// What the owner of a lock may do without the nodes: enter a lease of its own once more.
struct Reentry<'a> {
    lock: &'a Lock,
    client: &'a Arc<Inner>,
    keys: &'a Keys,
    /// The call waits.
    waits: bool,
    /// How often it was looked, at the beginning and whenever something has changed in the client.
    looks: u32,
}

impl Lock {
    /// Measures one call.
    pub(crate) fn timed(&self) -> Result<CallTimer<'_>, Error> {
        let group = self.measured_group()?;
        let set = &self.client.running()?.set;
        // A candidate waits for as long as another leads, which is no news to its user.
        let waits = !self.options.election;
        Ok(CallTimer::begin(set, group, &self.name, waits))
    }

    /// Wins, as a part of a call that is measured as a whole.
    pub(crate) async fn win_untimed(&self) -> Result<Win, Error> {
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

    /// Tries again as long as the lock is free: see [`once`](Lock::once).
    async fn settle(&self, mut refused: Error) -> Result<Win, Error> {
        let set = &self.client.running()?.set;
        let (node, keep) = (self.client.settings.node_timeout, self.options.keep);
        let end = set.clock.now() + (2 * node).min(keep / 2);
        loop {
            if self.inspect().await?.is_locked() {
                return Err(refused);
            }
            // Short beside `keep`, so that a holder that comes and goes meanwhile is not missed.
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

    async fn win_or_wait(&self) -> Result<Win, Error> {
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
            let Win { lease, reentered } = self.win_once(client, &terms, wait).await?;
            // Looked at in the poll that hands it over. A lease that is lost is
            // given back, and asked for again while there is time.
            if reentered || lease.is_held() {
                return Ok(Win { lease, reentered });
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

    /// One lease, won or passed on; or entered once more.
    async fn win_once(
        &self,
        client: &Arc<Inner>,
        terms: &LockParams,
        wait: Option<Duration>,
    ) -> Result<Win, Error> {
        let keys = &terms.keys;
        let owner = self.options.owner.as_ref();
        let mut reentry = Reentry {
            lock: self,
            client,
            keys,
            waits: wait != Some(Duration::ZERO),
            looks: 0,
        };
        let reenter = || reentry.look();
        let set = &client.set;
        let wait = Wait {
            limit: wait,
            lines: &client.lines,
            inbox: &client.inbox,
            max_waiters: self.options.max_waiters,
        };
        let (hold, watched) = match acquire::acquire(set, terms, &self.name, wait, reenter).await? {
            AcquireResult::Won(hold) => (hold.clone(), client.watchdog.watch(hold)),
            AcquireResult::Given(hold, watched) => (hold, watched),
            AcquireResult::Reentered(share) => return self.reentered(client, share?),
        };
        // The close of a client releases what is watched over by then, and no later lease.
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
        Ok(Win {
            lease: self.lease(client, share),
            reentered: false,
        })
    }

    fn reentered(&self, client: &Arc<Inner>, share: LeaseHandle) -> Result<Win, Error> {
        let overruled = self.overruled(client, &share.held);
        let lease = self.lease(client, share);
        if !lease.is_held() {
            let lost = lease.loss().map(|reason| self.lost_before(reason));
            return Err(lost.unwrap_or_else(|| lease.lost_error()));
        }
        crate::protocol::counters::count(&client.set.counters.reentered);
        overruled.map(client.set.warn);
        Ok(Win {
            lease,
            reentered: true,
        })
    }

    /// What the lock was given and a lease that it enters does not have, reported once for each
    /// lease. What is the client's own was not given.
    fn overruled(&self, client: &Inner, held: &SharedLease) -> Option<LogEvent> {
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

    /// The thread that asks has the lock, or had it and has not given it back.
    fn held_by_the_thread_itself(&self, held: &SharedLease) -> Error {
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

    /// An earlier lease of the owner is lost, and not given back so far.
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

    pub(super) fn lease(&self, client: &Arc<Inner>, share: LeaseHandle) -> Lease {
        Lease::new(
            client.clone(),
            share,
            self.name.clone(),
            self.options.naming(),
            self.options.confirm,
            self.times().ttl,
        )
    }
}

impl Reentry<'_> {
    fn look(&mut self) -> Option<Result<LeaseHandle, Error>> {
        self.looks = self.looks.saturating_add(1);
        // The call has looked for itself before the first time.
        if self.looks > 1
            && let Err(closed) = self.client.check()
        {
            return Some(Err(closed));
        }
        let owner = self.lock.options.owner.as_ref();
        // The second look is the first of a wait.
        if self.looks == 2
            && self.waits
            && let Some(owner) = owner
        {
            for held in self.client.owners.held_by(owner) {
                self.client.tell_order(&held, &self.keys.lock);
            }
        }
        self.enter(owner?)
    }

    fn enter(&self, owner: &Owner) -> Option<Result<LeaseHandle, Error>> {
        let (lock, keys, owners) = (self.lock, self.keys, &self.client.owners);
        let held = owners.mode_of(keys.id(), owner)?;
        let upgrades = (held, keys.mode) == (Mode::Shared, Mode::Exclusive);
        if upgrades {
            return Some(Err(lock.would_deadlock()));
        }
        if lock.options.reentrant {
            return owners.reenter(keys.id(), owner).map(Ok);
        }
        let held = owners.newest(keys.id(), owner)?;
        // A named owner may have other threads, any of which may release the lease.
        let slot = matches!(keys.mode, Mode::AnySlot(_));
        let itself = owner.is_thread() && !slot;
        itself.then(|| Err(lock.held_by_the_thread_itself(&held.held)))
    }
}
