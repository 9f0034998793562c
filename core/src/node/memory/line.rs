//! The line of one lock on a node in memory: who waits there, and for whom the
//! lock is reserved. What the scripts keep in two keys.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{tick, whole};
use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::{Waiter, Waits};

/// A message that a node has published: the inbox, and the waiter's number.
pub type Message = (Arc<[u8]>, u64);

/// One lock's line. It exists as long as its reservation's key, which is there
/// as long as anybody is queued.
#[derive(Clone, Debug)]
pub struct Line {
    /// Who waits, by their tickets.
    pub queue: VecDeque<Place>,
    /// The last moment of the queue's key.
    pub queue_end: Instant,
    /// For whom the lock is reserved, until the node's `TIME` shows so many µs.
    pub reserved: Option<(u64, Waiter)>,
    /// The last moment of the reservation's key.
    pub end: Instant,
}

/// A place in the queue.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose it is.
    pub waiter: Waiter,
    /// Its number, larger than those before it.
    pub ticket: u64,
    /// It ends when the node's `TIME` shows so many µs.
    pub end: u64,
}

/// Who listens to the messages that a node publishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Listeners {
    /// How many listen on each inbox.
    inboxes: BTreeMap<Arc<[u8]>, u32>,
    /// Neither publishing nor counting listeners is permitted.
    pub(super) forbidden: bool,
}

impl Listeners {
    pub(super) fn subscribe(&mut self, inbox: &Arc<[u8]>) {
        *self.inboxes.entry(inbox.clone()).or_default() += 1;
    }

    pub(super) fn unsubscribe(&mut self, inbox: &[u8]) {
        if let Some(count) = self.inboxes.get_mut(inbox) {
            *count -= 1;
            if *count == 0 {
                self.inboxes.remove(inbox);
            }
        }
    }

    /// How many listen on an inbox; 1 where that is not told.
    pub(super) fn of(&self, inbox: &[u8]) -> u32 {
        if self.forbidden {
            return 1;
        }
        self.inboxes.get(inbox).copied().unwrap_or(0)
    }
}

impl Line {
    /// A line in which nobody stands, with keys that have yet to begin.
    pub(super) fn new() -> Line {
        Line {
            queue: VecDeque::new(),
            queue_end: Instant::NEVER,
            reserved: None,
            end: Instant::NEVER,
        }
    }

    /// For whom the lock is reserved at `time` of the node, and how many µs yet.
    pub(super) fn standing(&self, time: u64) -> Option<(&Waiter, u64)> {
        let (until, waiter) = self.reserved.as_ref()?;
        let stands = mutant!("reservation-never-ends", time < *until, true);
        stands.then(|| (waiter, until.saturating_sub(time)))
    }

    /// Whether the lock, free and not reserved, is for `me`. If not it is
    /// reserved for whose turn it is, who is told.
    pub(super) fn turn(
        &mut self,
        me: Option<&Waiter>,
        time: u64,
        length: Duration,
        listeners: &Listeners,
        messages: &mut Vec<Message>,
    ) -> bool {
        while let Some(first) = self.queue.front() {
            if Some(&first.waiter) == me {
                return true;
            }
            if time < first.end {
                if listeners.forbidden {
                    return true;
                }
                let Waiter { number, inbox } = &first.waiter;
                let alive = listeners.of(inbox) > 0;
                if alive {
                    messages.push((inbox.clone(), *number));
                }
                if mutant!("dead-waiter-not-skipped", alive, true) {
                    let until = time + micros(length);
                    self.reserved = self.queue.pop_front().map(|first| (until, first.waiter));
                    return false;
                }
            }
            self.queue.pop_front();
        }
        true
    }

    /// Takes a waiter's place away.
    pub(super) fn leave(&mut self, waiter: &Waiter) {
        self.queue.retain(|place| place.waiter != *waiter);
    }

    /// Queues a waiter, or lengthens its place. Returns how many are before it;
    /// `None` if the queue is full.
    pub(super) fn join(&mut self, waiter: &Waiter, now: Instant, waits: Waits) -> Option<u32> {
        let place = self.queue.iter().position(|p| p.waiter == *waiter);
        if place.is_none() && self.queue.len() >= waits.most as usize {
            return None;
        }
        let end = super::MemoryNode::time(now) + micros(waits.place);
        let place = place.unwrap_or_else(|| {
            if self.queue.is_empty() {
                self.queue_end = Instant::NEVER;
            }
            self.queue.push_back(Place {
                waiter: waiter.clone(),
                ticket: self.queue.back().map_or(0, |last| last.ticket) + 1,
                end,
            });
            self.queue.len() - 1
        });
        self.queue[place].end = end;
        let last = tick(now) + whole(waits.place);
        self.queue_end = self.queue_end.max(last);
        self.end = self.end.max(last);
        u32::try_from(place).ok()
    }

    /// Drops what is dead at `now`; returns whether anything is left.
    pub(super) fn lives(&mut self, now: Instant) -> bool {
        if tick(now) > self.queue_end {
            self.queue.clear();
        }
        tick(now) <= self.end
    }
}

/// A length as it goes over the wire, in µs.
pub(super) fn micros(length: Duration) -> u64 {
    u64::try_from(whole(length).as_micros()).unwrap_or(u64::MAX / 2)
}
