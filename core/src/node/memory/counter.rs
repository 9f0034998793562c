//! The counter of fences: a sorted set with one member, whose score only grows.

use super::MemoryNode;
use super::times::{tick, whole};
use crate::clock::Instant;
use crate::node::native::FURTHEST;
use crate::node::{Request, Value};

impl MemoryNode {
    /// The last fence counted under `key`, if the counter lives at `now`.
    pub fn fence(&self, key: &[u8], now: Instant) -> Option<u64> {
        let (fence, end) = self.counters.get(key)?;
        (tick(now) <= *end).then_some(*fence)
    }

    /// Every living counter with its fence and the moment its life ends.
    pub fn counters(&self, now: Instant) -> impl Iterator<Item = (&[u8], u64, Instant)> {
        self.counters
            .iter()
            .filter(move |(_, (_, end))| tick(now) <= *end)
            .map(|(key, (fence, end))| (&**key, *fence, *end))
    }

    /// Whose the last fence is that a lease has told, by the first 48 bits of its token, and that
    /// fence; as long as the counter lives.
    pub fn told(&self, counter: &[u8], now: Instant) -> Option<(u64, u64)> {
        self.fence(counter, now)?;
        self.told.get(counter).copied()
    }

    /// Notes that this fence is the request's.
    pub(super) fn tell(&mut self, request: &Request, fence: u64, now: Instant) {
        if let Some((counter, _)) = request.keys.counter()
            && self.fence(counter, now).is_some()
        {
            let told = (mark(&request.value), fence);
            self.told.insert(counter.into(), told);
        }
    }

    /// What is counted for the request's lock; `None` without a counter.
    pub(super) fn counted(&self, request: &Request, now: Instant) -> Option<u64> {
        let (counter, _) = request.keys.counter()?;
        self.fence(counter, now)
    }

    /// Counts a vote as `block` fences; returns the last of them. Where none
    /// is proposed it counts nothing, and returns what is stored: no clock of
    /// this node alone makes a fence.
    pub(super) fn count(
        &mut self,
        request: &Request,
        candidate: u64,
        block: u32,
        now: Instant,
    ) -> u64 {
        let (time, last) = (MemoryNode::time(now), self.counted(request, now));
        if candidate == 0 || request.keys.fence_ttl.is_none() {
            return last.unwrap_or(0);
        }
        let candidate = candidate.min(time + FURTHEST);
        let next = last.map_or(0, |last| last + u64::from(block));
        let fence = candidate.max(next);
        self.set_counter(request, fence, now);
        self.tell(request, (fence + 1).saturating_sub(block.into()), now);
        fence
    }

    /// Raises the counter to `fence`, if that is beyond what is stored, and lengthens
    /// its life. Returns whether it was.
    pub(super) fn raise(&mut self, request: &Request, fence: u64, now: Instant) -> bool {
        let last = self.counted(request, now);
        let beyond = last.is_none_or(|last| last < fence);
        let stored = fence.max(last.unwrap_or(0));
        self.set_counter(request, stored, now);
        beyond
    }

    /// Stores a fence. The counter lives a quarter longer than is promised, so that a
    /// client need not say so with each request: one that does not, says zero.
    pub(super) fn set_counter(&mut self, request: &Request, fence: u64, now: Instant) {
        let Some((counter, ttl)) = request.keys.counter() else {
            return;
        };
        let end = if ttl.is_zero() {
            self.counters
                .get(counter)
                .filter(|(_, end)| tick(now) <= *end)
                .map_or(Instant::FAR, |(_, end)| *end)
        } else {
            tick(now) + whole(ttl + ttl / 4)
        };
        if self.fence(counter, now).is_none() {
            self.told.remove(counter);
        }
        self.counters.insert(counter.into(), (fence, end));
    }
}

/// The first 48 bits of a token; 0 where it is none of ours.
pub(super) fn mark(value: &Value) -> u64 {
    let begin = value.0.get(..12).filter(|_| value.is_ours());
    let begin = begin.and_then(|digits| std::str::from_utf8(digits).ok());
    begin.map_or(0, |digits| u64::from_str_radix(digits, 16).unwrap_or(0))
}
