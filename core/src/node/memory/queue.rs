//! The queue of one lock on a node in memory, and the listeners on the inboxes of those that
//! wait there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::times::{micros, server_time, tick, whole};
use crate::clock::Instant;
use crate::node::{Hint, Mode, Waiter, Waits};

/// A message that a node has published: the inbox, and the hint for it.
pub type Message = (Arc<[u8]>, Hint);

/// The queue of one lock. It exists as long as a waiter stands in it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeQueue {
    /// The places of the waiters, in the order of their tickets.
    pub queue: VecDeque<QueueEntry>,
    /// The last moment of the queue's key.
    pub end: Instant,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueEntry {
    /// The waiter in this place.
    pub waiter: Waiter,
    /// Whether it wants the lock for itself.
    pub mode: Mode,
    /// The place's number, larger than those before it.
    pub ticket: u64,
    /// The place ends when the node's `TIME` shows this many µs.
    pub end: u64,
}

/// The next waiter for a lock that is not reserved, and that no holder has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueTurn {
    /// No waiter is queued.
    Free,
    /// The asking waiter is next: first in the queue, or among the readers at its head.
    Asker,
    /// Another waiter is next, or several readers; the node has reserved the lock and notified
    /// them.
    Other,
    /// A waiter that wants the lock for itself is next, and waits until the last reader has gone.
    AfterReaders,
    /// The node may notify no waiter, so it cannot tell the dead from the living: the queue stays,
    /// and the first waiter that asks is served.
    Unnotified,
}

/// The subscribers of the messages that a node publishes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InboxListeners {
    /// How many listen on each inbox.
    inboxes: BTreeMap<Arc<[u8]>, u32>,
    /// Neither publishing nor counting listeners is permitted.
    pub(super) forbidden: bool,
}

impl InboxListeners {
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

    /// The number of subscribers of an inbox; 1 where the node may not say.
    pub(super) fn of(&self, inbox: &[u8]) -> u32 {
        if self.forbidden {
            return 1;
        }
        self.inboxes.get(inbox).copied().unwrap_or(0)
    }
}

impl QueueEntry {
    fn is(&self, waiter: &Waiter, mode: Mode) -> bool {
        self.waiter == *waiter && self.mode == mode.in_line()
    }
}

impl NodeQueue {
    /// An empty queue, with a key that has yet to begin.
    pub(super) fn new() -> NodeQueue {
        NodeQueue {
            queue: VecDeque::new(),
            end: Instant::NEVER,
        }
    }

    /// Takes a waiter's place away.
    pub(super) fn leave(&mut self, waiter: &Waiter, mode: Mode) {
        self.queue.retain(|place| !place.is(waiter, mode));
    }

    /// Queues a waiter, or lengthens its place. Returns how many are before it;
    /// `None` if the queue is full.
    pub(super) fn join(
        &mut self,
        waiter: &Waiter,
        mode: Mode,
        now: Instant,
        waits: Waits,
    ) -> Option<u32> {
        let place = self.queue.iter().position(|p| p.is(waiter, mode));
        if place.is_none() && self.queue.len() >= waits.most as usize {
            return None;
        }
        let end = server_time(now) + micros(waits.place);
        let place = place.unwrap_or_else(|| {
            self.queue.push_back(QueueEntry {
                waiter: waiter.clone(),
                mode: mode.in_line(),
                ticket: self.queue.back().map_or(0, |last| last.ticket) + 1,
                end,
            });
            self.queue.len() - 1
        });
        self.queue[place].end = end;
        self.end = self.end.max(tick(now) + whole(waits.place));
        u32::try_from(place).ok()
    }

    /// Whether a waiter stands in the queue at `now`.
    pub(super) fn lives(&self, now: Instant) -> bool {
        !self.queue.is_empty() && tick(now) <= self.end
    }
}
