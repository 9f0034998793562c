//! The script `reserve` on a node in memory: no reader comes any more, for a waiter.

use std::time::Duration;

use super::lookup::KeyLookup;
use super::times::{life, micros};
use super::{MemoryNode, ReservedFor, StoredValue};
use crate::node::{Reply, Request};

impl MemoryNode {
    /// Reserves the lock for the request's waiter, unless somebody has it alone or it
    /// is reserved for another.
    pub(super) fn reserve(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        long: Duration,
    ) -> Reply {
        let form = found.form.as_ref();
        let anothers = form.is_some_and(|form| form.reserved(found.time).is_some())
            && !form.is_some_and(|form| form.is_for(request, found.time));
        let done = found.quarantine.is_none() && found.alone_free() && !anothers;
        if let (true, Some(waiter)) = (done, &request.waiter) {
            let now = found.now;
            let until = found.time + micros(long);
            let end = life(now, long.max(request.keys.waits.place));
            // Also where the last reader has ended: what stands there says so.
            let shared = form.is_some_and(StoredValue::is_shared).then_some(until);
            let whom = ReservedFor::Waiter(waiter.clone());
            self.reserve_until(request, shared, whom, (until, end), now);
        }
        Reply::Reserved { done }
    }
}
