//! Native requests on a node in memory, command by command: other requests may come
//! between the vote and the trailer, as on a server.

use std::time::Duration;

use super::times::{life, tick};
use super::{MemoryNode, StoredValue};
use crate::clock::Instant;
use crate::node::native::{NativeReplies, Trailer};
use crate::node::{Op, Request};

impl MemoryNode {
    /// The commands of a native acquire: the value, if nothing stands under the key, and
    /// the fence that is proposed, whether it does or not.
    pub fn vote(&mut self, request: &Request, now: Instant) -> NativeReplies {
        let Op::Acquire { ttl, candidate, .. } = request.op else {
            return NativeReplies::default();
        };
        let plain = request.not_after == 0;
        let end = if plain {
            life(now, ttl)
        } else {
            tick(Instant(0) + Duration::from_micros(request.not_after))
        };
        let stored =
            self.form(&request.keys.lock, now).is_none() && self.lock_of(request, now).is_none();
        // A server does not make a key whose end has passed.
        if stored && end > tick(now) {
            self.put(
                request,
                StoredValue::Uncontended(request.value.clone()),
                end,
            );
        }
        let counts = !plain && candidate != 0 && request.keys.fence_ttl.is_some();
        let counter = request.keys.counter().filter(|_| counts);
        let counted = counter.is_some_and(|(counter, life)| {
            let counted = self.propose(counter, candidate, now);
            self.keep_counter(counter, life + life / 4, now);
            counted
        });
        NativeReplies { stored, counted }
    }

    /// `ZADD … GT CH`: proposes a fence; whether it is beyond what was counted. A counter
    /// that is new has no end.
    pub fn propose(&mut self, counter: &[u8], fence: u64, now: Instant) -> bool {
        let known = self.counters.get(counter);
        let known = known.filter(|(_, end)| tick(now) <= *end).copied();
        let (last, end) = known.map_or((None, Instant::FAR), |(last, end)| (Some(last), end));
        let counted = last.is_none_or(|last| last < fence);
        if known.is_none() {
            self.told.remove(counter);
        }
        if counted {
            self.counters.insert(counter.into(), (fence, end));
        }
        counted
    }

    /// `PEXPIRE`: the counter lives for so long from now on.
    pub fn keep_counter(&mut self, counter: &[u8], life: Duration, now: Instant) {
        if let Some((_, end)) = self.counters.get_mut(counter)
            && tick(now) <= *end
        {
            *end = super::times::life(now, life);
        }
    }

    /// The answer to the trailer at the end of a write with native acquires: what the node holds at
    /// this moment. `record`: the record that the client expects; `None`: the client minds neither
    /// the record nor a quarantine.
    pub fn trailer(&self, record: Option<&str>, now: Instant) -> Trailer {
        let guarded = record.is_some();
        Trailer {
            admitted: !guarded || self.record.as_deref() == record,
            quarantined: guarded && self.quarantine(now).is_some(),
            time: MemoryNode::time(now),
        }
    }

    /// A native release: deletes what is exactly the value. Returns whether it was there.
    /// Where it was not, the lock may be crowded, which is for the script.
    pub fn delete(&mut self, request: &Request, now: Instant) -> bool {
        let quiet = self.form(&request.keys.lock, now);
        let quiet =
            quiet.is_some_and(|(form, _)| *form == StoredValue::Uncontended(request.value.clone()));
        if quiet {
            self.keys.remove(&request.keys.lock);
        }
        quiet
    }
}
