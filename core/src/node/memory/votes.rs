//! The votes of readers on a node in memory: how each is stored, lengthened and taken away.

use std::collections::BTreeMap;

use super::lookup::KeyLookup;
use super::times::{life, micros, tick, whole};
use super::{MemoryNode, Readers, ReservedFor, StoredValue};
use crate::clock::Instant;
use crate::node::{Request, Value};

/// How many of those that have ended are removed at once.
const REMOVED: usize = 64;
/// By how much the lock's key outlives each of the readers' votes: two clocks tell its end and
/// theirs.
const LONGER: std::time::Duration = std::time::Duration::from_secs(1);

impl MemoryNode {
    /// The readers under that key, whether they count or not.
    pub fn readers(&self, key: &[u8], now: Instant) -> Option<&Readers> {
        let readers = self.readers.get(key)?;
        (tick(now) <= readers.end).then_some(readers)
    }

    /// Until when the vote of the request's value lasts that shares the lock, if it does.
    pub(super) fn shares(&self, request: &Request, found: &KeyLookup) -> Option<u64> {
        let readers = self.readers(&request.keys.aux.shared(), found.now)?;
        let until = *readers.votes.get(&request.value)?;
        (found.last.is_some() && found.time <= until).then_some(until)
    }

    /// Removes some of the readers whose votes have ended; returns how many are left.
    pub(super) fn sweep_readers(&mut self, request: &Request, time: u64) -> usize {
        let key = request.keys.aux.shared();
        let Some(readers) = self.readers.get_mut(&key[..]) else {
            return 0;
        };
        let mut over: Vec<_> = readers
            .votes
            .iter()
            .filter(|(_, until)| **until < time)
            .collect();
        over.sort_by_key(|(value, until)| (**until, (*value).clone()));
        let over: Vec<Value> = over
            .into_iter()
            .take(REMOVED)
            .map(|(v, _)| v.clone())
            .collect();
        for value in over {
            readers.votes.remove(&value);
        }
        readers.votes.len()
    }

    /// Takes the vote of the request's value away; returns whether there was one. No set
    /// outlives its last member.
    pub(super) fn end_share(&mut self, request: &Request, now: Instant) -> bool {
        let key = request.keys.aux.shared();
        let Some(readers) = self
            .readers
            .get_mut(&key[..])
            .filter(|r| tick(now) <= r.end)
        else {
            return false;
        };
        let was = readers.votes.remove(&request.value).is_some();
        if readers.votes.is_empty() {
            self.readers.remove(&key[..]);
        }
        was
    }

    /// A vote that shares the lock for `ttl`, and until `least` in any case. `base`: see
    /// [`StoredValue::Shared`]. Returns until when.
    pub(super) fn vote_shared(
        &mut self,
        request: &Request,
        ttl: std::time::Duration,
        least: u64,
        base: u64,
        now: Instant,
    ) -> u64 {
        let key = request.keys.aux.shared();
        let time = MemoryNode::time(now);
        let until = (time + micros(ttl)).max(least);
        let left = std::time::Duration::from_millis((until - time).div_ceil(1000));
        let outlives = (left + LONGER).max(whole(request.keys.waits.place));
        let end = life(now, outlives);
        match self
            .form(&request.keys.lock, now)
            .map(|(form, _)| form.clone())
        {
            Some(StoredValue::Shared { .. }) => self.lengthen(request, end),
            other => {
                // Votes that stood under the readers' key before the lock was shared count nothing.
                self.readers.remove(&key[..]);
                let (until, whom) = match other {
                    Some(StoredValue::Reserved { until, whom }) if time <= until => (until, whom),
                    _ => (0, ReservedFor::NoWaiter),
                };
                self.put(request, StoredValue::Shared { until, base, whom }, end);
            }
        }
        let lives = self
            .readers
            .get(&key[..])
            .is_some_and(|r| tick(now) <= r.end);
        if !lives {
            self.readers.remove(&key[..]);
        }
        let readers = self.readers.entry(key.into()).or_insert_with(|| Readers {
            votes: BTreeMap::new(),
            end,
        });
        let vote = readers.votes.entry(request.value.clone()).or_default();
        *vote = until.max(*vote);
        readers.end = readers.end.max(end);
        until
    }
}
