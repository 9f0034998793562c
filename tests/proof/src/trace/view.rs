//! What a trace shows of a node, as the specification has it.

use std::collections::BTreeMap;

use quorlock::sim::{Instant, Mode, ReservedFor, StoredValue};
use quorlock_sim::trace::View;

use crate::spec::lock::{End, Form, Key, Lock, Place, Whom, named};

/// A node's `TIME`, in µs.
pub fn time(now: Instant) -> u64 {
    now.0 / 1000
}

/// The end of a key, in ms.
fn end(at: Instant) -> End {
    (at.0 != u64::MAX).then_some(at.0 / 1_000_000)
}

fn whom(whom: &ReservedFor) -> Whom {
    match whom {
        ReservedFor::NoWaiter => Whom::Nobody,
        ReservedFor::Readers(ticket) => Whom::Readers(*ticket),
        ReservedFor::Waiter(waiter) => {
            let (number, inbox) = named(waiter);
            Whom::Waiter(number, inbox)
        }
    }
}

fn form(stored: &StoredValue) -> Form {
    match stored {
        StoredValue::Uncontended(value) => Form::Quiet(value.clone()),
        StoredValue::Contended { until, value } => Form::Held(*until, value.clone()),
        StoredValue::Kept { until, value } => Form::Kept(*until, value.clone()),
        StoredValue::Reserved { until, whom: who } => Form::Reserved(*until, whom(who)),
        StoredValue::Shared {
            until,
            base,
            whom: who,
        } => Form::Shared(*until, *base, whom(who)),
    }
}

/// The lock that a view shows.
pub fn lock(view: &View) -> Lock {
    let readers = view.readers.iter().flat_map(|readers| &readers.votes);
    let queue = view.queue.iter().flat_map(|line| &line.queue);
    Lock {
        key: view.key.as_ref().map(|(stored, at)| Key {
            form: form(stored),
            end: end(*at),
        }),
        // They count as long as the lock's key says that it is shared.
        readers: readers
            .filter(|_| matches!(view.key, Some((StoredValue::Shared { .. }, _))))
            .map(|(value, until)| (value.clone(), *until))
            .collect(),
        bans: view.bans.iter().cloned().collect(),
        counter: view.counter.map(|(fence, at)| (fence, end(at))),
        queue: queue
            .map(|place| Place {
                waiter: named(&place.waiter),
                shares: place.mode == Mode::Shared,
                ticket: place.ticket,
                end: place.end,
            })
            .collect(),
        queue_end: view.queue.as_ref().map_or(0, |line| line.end.0 / 1_000_000),
    }
}

/// How many connections listen on each inbox that views tell of.
pub fn listeners<'a>(views: impl Iterator<Item = &'a View>) -> BTreeMap<Vec<u8>, u32> {
    let mut counts = BTreeMap::new();
    for view in views {
        let places = view.queue.iter().flat_map(|line| &line.queue);
        for (place, count) in places.zip(&view.listeners) {
            counts.insert(place.waiter.inbox.to_vec(), *count);
        }
    }
    counts
}
