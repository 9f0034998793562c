//! The keys of locks on a node in memory: what is read there, put there, and how long it lives.

use std::sync::Arc;
use std::time::Duration;

use super::times::tick;
use super::{MemoryNode, StoredValue};
use crate::clock::Instant;
use crate::node::Request;

impl MemoryNode {
    /// What stands under `key` and the moment the key's life ends, if it lives at
    /// `now`. A key lives up to and including its last millisecond, as on
    /// Redis; one without an end until [`Instant::FAR`].
    pub fn form(&self, key: &[u8], now: Instant) -> Option<(&StoredValue, Instant)> {
        let (form, end) = self.keys.get(key)?;
        (tick(now) <= *end).then_some((form, *end))
    }

    /// Every living key of a lock, with what stands there and the moment its life ends.
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = (&[u8], &StoredValue, Instant)> {
        self.keys
            .iter()
            .filter(move |(_, (_, end))| tick(now) <= *end)
            .map(|(key, (form, end))| (&**key, form, *end))
    }

    /// What others than our clients do to a lock's key: store a value there, with or
    /// without an end, or drop it.
    pub fn meddle(&mut self, key: &[u8], what: Option<(StoredValue, Instant)>) {
        match what {
            Some(what) => drop(self.keys.insert(key.into(), what)),
            None => drop(self.keys.remove(key)),
        }
    }

    /// Puts this under the request's lock, until then.
    pub(super) fn put(&mut self, request: &Request, form: StoredValue, end: Instant) {
        let key: Arc<[u8]> = request.keys.lock.clone();
        self.keys.insert(key, (form, end));
    }

    /// Crowded, held by the request's value for `ttl`; `end` is what the key had.
    pub(super) fn hold_crowded(
        &mut self,
        request: &Request,
        until: u64,
        end: Instant,
        now: Instant,
    ) {
        let value = request.value.clone();
        let end = end.max(outlives(until, now));
        self.put(request, StoredValue::Contended { until, value }, end);
    }

    /// The end of the lock's key is `end` at the earliest.
    pub(super) fn lengthen(&mut self, request: &Request, least: Instant) {
        if let Some((_, end)) = self.keys.get_mut(&request.keys.lock) {
            *end = least.max(*end);
        }
    }
}

/// The end of a key that is to stand at least until `TIME` shows `until`.
fn outlives(until: u64, now: Instant) -> Instant {
    let left = until.saturating_sub(MemoryNode::time(now));
    tick(now) + Duration::from_millis(left.div_ceil(1000))
}
