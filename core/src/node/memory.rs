//! A node in memory: what it stores, on a map, and for how long. What each request
//! does there is in the files of its name.
//!
//! The types that the node stores are in files that know nothing of [`MemoryNode`], so that
//! the files of requests import those, and none is imported by them.
//!
//! `memory://NAME` serves a user's own tests; the simulator drives the same
//! [`MemoryNode`] in virtual time.

mod acquire;
mod bans;
mod choose;
mod counter;
mod extend;
mod form;
mod hashed;
mod inspect;
mod keys;
mod line;
mod link;
mod lookup;
mod native;
mod queue;
mod readers;
mod redisson;
mod release;
mod reserve;
mod scripts;
mod share;
#[cfg(test)]
mod tests;
mod times;
mod votes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Keys, Reply};
use crate::clock::Instant;
use queue::InboxListeners;
use times::{server_time, tick, whole};

pub use form::{ReservedFor, StoredValue};
pub(crate) use link::{MemoryLink, forget};
pub use queue::{Message, NodeQueue, QueueEntry};
pub use readers::Readers;

/// The state of one node. Time is an argument, as everything else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryNode {
    keys: BTreeMap<Arc<[u8]>, (StoredValue, Instant)>,
    /// Counters of fences, and the ends of their lives.
    counters: BTreeMap<Arc<[u8]>, (u64, Instant)>,
    /// The last fence that a lease has reported, by the keys of counters: the first 48 bits of the
    /// lease's token, and that fence.
    told: BTreeMap<Arc<[u8]>, (u64, u64)>,
    /// The waiters, by the keys of their queues.
    lines: BTreeMap<Arc<[u8]>, NodeQueue>,
    /// The readers that share a lock, by the keys of the sets.
    readers: BTreeMap<Arc<[u8]>, Readers>,
    /// The locks in Redisson's layout that are held.
    hashes: BTreeMap<Arc<[u8]>, redisson::RedissonLock>,
    /// The tokens that those locks' counts belong to, by the keys of the tokens.
    tokens: BTreeMap<Arc<[u8]>, redisson::Tokens>,
    /// The waiters that are notified when such a lock is free.
    listening: redisson::ReleaseListeners,
    /// Which values were forced out.
    bans: bans::Bans,
    listeners: InboxListeners,
    /// The node's record.
    record: Option<Arc<str>>,
    /// The end of its quarantine.
    quarantine: Option<Instant>,
    /// Dead keys are dropped when there are this many in all.
    sweep_at: usize,
}

/// What a node answers: a reply, or that it holds another record than the one
/// expected.
pub type ScriptAnswer = Result<Reply, OtherRecord>;

/// The node holds another record: see [`admission`](super::admission).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherRecord;

impl MemoryNode {
    /// The node's `TIME` in µs when its own clock shows `now`.
    pub fn time(now: Instant) -> u64 {
        server_time(now)
    }

    /// The node's record.
    pub fn record(&self) -> Option<&Arc<str>> {
        self.record.as_ref()
    }

    /// How much longer the quarantine lasts.
    pub fn quarantine(&self, now: Instant) -> Option<Duration> {
        let end = self.quarantine.filter(|end| tick(now) <= *end)?;
        Some(tick(now).until(end))
    }

    /// The init script: replaces the record, if it is still `old`, and begins
    /// a quarantine. Returns whether it did.
    pub fn init(
        &mut self,
        old: Option<&str>,
        new: Arc<str>,
        quarantine: Duration,
        now: Instant,
    ) -> bool {
        if self.record.as_deref() != old {
            return false;
        }
        self.record = Some(new);
        let (quarantine, rest) = (whole(quarantine), self.quarantine(now).unwrap_or_default());
        if quarantine > rest {
            self.quarantine = Some(tick(now) + quarantine);
        }
        true
    }

    /// Counts another subscriber of an inbox.
    pub fn subscribe(&mut self, inbox: &Arc<[u8]>) {
        self.listeners.subscribe(inbox);
    }

    /// Counts one subscriber of an inbox less.
    pub fn unsubscribe(&mut self, inbox: &[u8]) {
        self.listeners.unsubscribe(inbox);
    }

    /// Permits or forbids clients to publish messages and to ask for the number of subscribers. A
    /// new node permits it.
    pub fn permit_messages(&mut self, permitted: bool) {
        self.listeners.forbidden = !permitted;
    }

    /// Drops what is dead at `now`, as a server does at any time after: from
    /// then on it does not live again where the clock is set back.
    pub fn expire(&mut self, now: Instant) {
        self.keys.retain(|_, (_, end)| tick(now) <= *end);
        self.counters.retain(|_, (_, end)| tick(now) <= *end);
        self.told.retain(|key, _| self.counters.contains_key(key));
        self.quarantine = self.quarantine.filter(|end| tick(now) <= *end);
        self.lines.retain(|_, line| line.lives(now));
        self.readers.retain(|_, readers| tick(now) <= readers.end);
        self.hashes.retain(|_, lock| tick(now) <= lock.end);
        self.tokens.retain(|_, tokens| tick(now) <= tokens.end);
        self.bans.expire(now);
    }

    /// Whether a lock is held, kept or shared here.
    fn has_locks(&mut self, now: Instant) -> bool {
        self.expire(now);
        !(self.keys.is_empty() && self.hashes.is_empty())
    }

    /// The banned values with their ends, by living key of bans, and the moment that the key's life
    /// ends.
    pub fn bans(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&[u8], impl Iterator<Item = (&[u8], u64)>, Instant)> {
        self.bans.living(now)
    }

    /// Drops all that goes by the lock of these keys, in its layout: what is left is other locks'.
    pub fn forget(&mut self, keys: &Keys) {
        self.counters.remove(keys.aux.counter());
        self.told.remove(keys.aux.counter());
        if keys.field.is_some() {
            self.hashes.remove(&keys.lock);
            self.tokens.remove(keys.aux.queue());
            self.listening.remove(&keys.lock);
            return;
        }
        self.keys.remove(&keys.lock);
        self.lines.remove(keys.aux.queue());
        self.readers.remove(&keys.aux.shared()[..]);
        self.bans.forget(keys);
    }

    /// Whether nothing stands on it but its record and a quarantine.
    pub fn is_bare(&self) -> bool {
        let held = self.keys.len() + self.lines.len() + self.readers.len() + self.bans.len();
        held + self.hashes.len() + self.tokens.len() + self.counters.len() == 0
    }

    fn sweep(&mut self, now: Instant) {
        let held = self.keys.len() + self.lines.len() + self.readers.len() + self.bans.len();
        let held = held + self.hashes.len() + self.tokens.len();
        if held >= self.sweep_at {
            self.expire(now);
            self.sweep_at = 64.max(2 * held);
        }
    }
}
