//! Looking at a lock without acquiring it, and taking it away by force.

use super::Lock;
use super::keys::keys;
use crate::error::Error;
use crate::force::{Forced, force_release};
use crate::inspect::{Holder, Inspection, Verdict};
use crate::node::Mode;
use crate::node::names::{MOST_SLOTS, Naming};
use crate::protocol::inspect::{inspect, inspect_each};
use std::sync::Arc;
use std::time::Duration;

/// How long it is waited at first until it is looked again whether a lock is free, and at most.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_millis(500);

impl Lock {
    /// Reports the holder of the lock, without acquiring it: one request to each node, at most
    /// `node_timeout`, which waits for the first connections as
    /// [`connect_timeout`](crate::ClientBuilder::connect_timeout) says. Of a lock that is free
    /// another request asks whether a semaphore of its name is in use. Of a
    /// [semaphore](crate::Client::semaphore) one request for each slot reports all of them.
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

    /// Waits until the lock is free, or a slot of a semaphore is, and takes nothing: whether it was
    /// so before the wait was over, which may be without end. Another client may have it a moment
    /// later: a program that wants it acquires it. It is looked at again and again, every 50 to 500
    /// ms.
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

    /// Takes the lock away from its holder: see
    /// [`Client::force_release`](crate::Client::force_release), also for errors and cancel safety.
    /// Of a [semaphore](crate::Client::semaphore) all slots are taken away: then a fence is
    /// refused, for each slot has its own.
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

    /// Takes one slot of a semaphore away from its holder, as
    /// [`force_release`](Lock::force_release) does a lock; with a fence only from the hold that has
    /// it.
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

    /// Whether a client holds the lock, or keeps it, or is about to; not whether this process does;
    /// of a semaphore whether all slots are held. One request to each node, as of
    /// [`inspect`](Lock::inspect).
    ///
    /// # Errors
    ///
    /// As [`inspect`](Lock::inspect), and `QuorumUnavailable` where too few nodes answered.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        let found = self.decided().await?;
        Ok(found.verdict() != Verdict::Free)
    }

    /// The client that holds the lock, or keeps it; `None` where a quorum agrees on no holder. Of a
    /// semaphore the client that has had a slot for longest.
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
}
