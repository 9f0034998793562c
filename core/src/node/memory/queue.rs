//! The queue of one lock on a node in memory, and the listeners on the inboxes of those that
//! wait there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::times::{micros, server_time, tick, whole};
use crate::clock::Instant;
use crate::node::{Hint, Mode, Waiter, Waits};

/// A message that a node has published: the inbox, and what it is told.
pub type Message = (Arc<[u8]>, Hint);

/// One lock's queue. It exists as long as anybody stands in it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeQueue {
    /// Who waits, by their tickets.
    pub queue: VecDeque<QueueEntry>,
    /// The last moment of the queue's key.
    pub end: Instant,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueEntry {
    /// Whose it is.
    pub waiter: Waiter,
    /// Whether it wants the lock for itself.
    pub mode: Mode,
    /// Its number, larger than those before it.
    pub ticket: u64,
    /// It ends when the node's `TIME` shows this many µs.
    pub end: u64,
}

/// Whose turn it is to have a lock that nobody has for itself, and that is reserved for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueTurn {
    /// Nobody waits.
    Nobodys,
    /// It is the asker's own: the first of the queue, or among readers at its head.
    Mine,
    /// Another's, for whom it is reserved now, and who was told; or of several that share.
    Anothers,
    /// It is of one that wants the lock for itself, and waits until the last reader has gone.
    AfterReaders,
    /// Nobody may be told, so that the dead cannot be told from the living: the
    /// queue stays, and whoever asks first is served.
    Untold,
}

/// Who listens to the messages that a node publishes.
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

    /// How many listen on an inbox; 1 where that is not told.
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
    /// A line in which nobody stands, with a key that has yet to begin.
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

    /// Whether anybody stands there at `now`.
    pub(super) fn lives(&self, now: Instant) -> bool {
        !self.queue.is_empty() && tick(now) <= self.end
    }
}
