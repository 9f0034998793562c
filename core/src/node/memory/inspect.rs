//! The script `inspect` on a node in memory: what is there.

use std::time::Duration;

use super::counter::mark;
use super::lookup::KeyLookup;
use super::{MemoryNode, StoredValue};
use crate::clock::Instant;
use crate::node::{LockState, Mode, Reply, Request, SHARERS, SHOWN_BYTES, Standing, Value};

impl MemoryNode {
    pub(super) fn inspect(&self, request: &Request, found: &KeyLookup) -> Reply {
        let (form, time) = (found.form.as_ref(), found.time);
        let standing = match form {
            _ if found.last.is_some() => Standing::Shared,
            Some(form @ (StoredValue::Reserved { .. } | StoredValue::Shared { .. }))
                if form.stands(time) =>
            {
                Standing::Reserved
            }
            None | Some(StoredValue::Reserved { .. } | StoredValue::Shared { .. }) => {
                Standing::Free
            }
            Some(form) if form.holder(time).is_none() => Standing::Free,
            Some(StoredValue::Kept { .. }) => Standing::Kept,
            // No client of ours stores a value without an end.
            Some(StoredValue::Uncontended(value))
                if !value.is_ours() || found.end == Instant::FAR =>
            {
                Standing::Foreign
            }
            Some(_) => Standing::Held,
        };
        let value = form.and_then(|form| form.holder(time));
        let value = value
            .or(found.last.as_ref().map(|(reader, _)| reader))
            .cloned();
        let readers = self.readers(&request.keys.aux.shared(), found.now);
        let readers = readers.filter(|_| standing == Standing::Shared);
        let votes = readers.into_iter().flat_map(|readers| &readers.votes);
        let living = votes.filter(|(_, end)| time <= **end);
        let mut readers: Vec<_> = living.map(|(value, end)| (end, value)).collect();
        readers.sort();
        // The list is cut at its begin: the last end says when the lock is free.
        let last = &readers[readers.len().saturating_sub(SHARERS)..];
        let line = self.lines.get(request.keys.aux.queue());
        let line = line.filter(|line| line.lives(found.now));
        let queued = line.map_or(0, |line| line.queue.len());
        let counter = request.keys.aux.counter();
        Reply::Seen(Box::new(LockState {
            standing,
            left: match standing {
                Standing::Free => Some(Duration::ZERO),
                _ => found.left(),
            },
            // A fence counts as the value's own only if the counter was marked by the same token.
            own: value
                .as_ref()
                .filter(|_| found.last.is_none())
                .and_then(|value| {
                    let (whose, fence) = self.told(counter, found.now)?;
                    (value.is_ours() && whose == mark(value)).then_some(fence)
                })
                .unwrap_or(0),
            value: value.map(|value| told(&value)),
            fence: self.fence(counter, found.now).unwrap_or(0),
            queued: u32::try_from(queued).unwrap_or(u32::MAX),
            slots: self.slots_held(request, found),
            readers: u32::try_from(readers.len()).unwrap_or(u32::MAX),
            sharers: last.iter().map(|(_, value)| told(value)).collect(),
            quarantine: found.quarantine.unwrap_or_default(),
        }))
    }
}

impl MemoryNode {
    /// How many slots of the semaphore that the request is of are held.
    fn slots_held(&self, request: &Request, found: &KeyLookup) -> u32 {
        let Mode::AnySlot(slots) = request.keys.mode else {
            return 0;
        };
        let held = |slot: &u32| {
            let lock = request.keys.of_slot(*slot).lock;
            let form = self.form(&lock, found.now);
            form.is_some_and(|(form, _)| form.holder(found.time).is_some())
        };
        let held = (0..slots).filter(held).count();
        u32::try_from(held).unwrap_or(u32::MAX)
    }
}

/// As much of a value as a node tells.
fn told(value: &Value) -> Value {
    match value.0.get(..SHOWN_BYTES) {
        Some(begin) => Value(begin.into()),
        None => value.clone(),
    }
}
