//! The line of one lock on a node in memory: who waits there, in their order. For whom
//! the lock is reserved stands under the [lock's own key](super::Form).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Form, MemoryNode, micros, tick, whole};
use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::{Request, Waiter, Waits};

/// A message that a node has published: the inbox, and the waiter's number.
pub type Message = (Arc<[u8]>, u64);

/// One lock's queue. It exists as long as anybody stands in it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Who waits, by their tickets.
    pub queue: VecDeque<Place>,
    /// The last moment of the queue's key.
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

/// Whose turn it is to have a lock that is free and reserved for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody waits.
    Nobodys,
    /// It is the asker's own: the first of the queue.
    Mine,
    /// Another's, for whom it is reserved now, and who was told.
    Anothers,
    /// Nobody may be told, so that the dead cannot be told from the living: the
    /// queue stays, and whoever asks first is served.
    Untold,
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
    /// A line in which nobody stands, with a key that has yet to begin.
    fn new() -> Line {
        Line {
            queue: VecDeque::new(),
            end: Instant::NEVER,
        }
    }

    /// Takes a waiter's place away.
    fn leave(&mut self, waiter: &Waiter) {
        self.queue.retain(|place| place.waiter != *waiter);
    }

    /// Queues a waiter, or lengthens its place. Returns how many are before it;
    /// `None` if the queue is full.
    fn join(&mut self, waiter: &Waiter, now: Instant, waits: Waits) -> Option<u32> {
        let place = self.queue.iter().position(|p| p.waiter == *waiter);
        if place.is_none() && self.queue.len() >= waits.most as usize {
            return None;
        }
        let end = MemoryNode::time(now) + micros(waits.place);
        let place = place.unwrap_or_else(|| {
            self.queue.push_back(Place {
                waiter: waiter.clone(),
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

impl MemoryNode {
    /// The line with that queue, if it lives at `now`.
    #[cfg(feature = "sim")]
    pub fn line(&self, queue: &[u8], now: Instant) -> Option<&Line> {
        self.lines.get(queue).filter(|line| line.lives(now))
    }

    /// Whether anybody is queued for the request's lock.
    pub(super) fn is_queued(&self, request: &Request, now: Instant) -> bool {
        let line = self.lines.get(request.keys.companions.queue());
        line.is_some_and(|line| line.lives(now))
    }

    /// How many listen on that inbox.
    pub fn listeners(&self, waiter: &Waiter) -> u32 {
        self.listeners.of(&waiter.inbox)
    }

    /// Queues a waiter for the request's lock, or lengthens its place: see
    /// [`Line::join`].
    pub(super) fn join(&mut self, request: &Request, waiter: &Waiter, now: Instant) -> Option<u32> {
        let queue = request.keys.companions.queue();
        let mut fresh = Line::new();
        match self.lines.get_mut(queue).filter(|line| line.lives(now)) {
            Some(line) => line.join(waiter, now, request.keys.waits),
            None => {
                let place = fresh.join(waiter, now, request.keys.waits);
                if place.is_some() {
                    self.lines.insert(queue.into(), fresh);
                }
                place
            }
        }
    }

    /// The request's waiter, if it has one, leaves the queue.
    pub(super) fn leave(&mut self, request: &Request, now: Instant) {
        let queue = request.keys.companions.queue();
        if let (Some(waiter), Some(line)) = (&request.waiter, self.lines.get_mut(queue)) {
            line.leave(waiter);
            if !line.lives(now) {
                self.lines.remove(queue);
            }
        }
    }

    /// Whose turn it is, where the request's lock is free and reserved for nobody. If it
    /// is another's than `me`, it is reserved for that one, who is told.
    pub(super) fn turn(
        &mut self,
        request: &Request,
        me: Option<&Waiter>,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Turn {
        let queue = request.keys.companions.queue();
        let time = MemoryNode::time(now);
        let Some(line) = self.lines.get_mut(queue).filter(|line| line.lives(now)) else {
            return Turn::Nobodys;
        };
        let mut turn = Turn::Nobodys;
        while let Some(first) = line.queue.front() {
            if Some(&first.waiter) == me {
                turn = Turn::Mine;
                break;
            }
            if time < first.end {
                if self.listeners.forbidden {
                    turn = Turn::Untold;
                    break;
                }
                let Waiter { number, inbox } = &first.waiter;
                let alive = self.listeners.of(inbox) > 0;
                if alive {
                    messages.push((inbox.clone(), *number));
                }
                if mutant!("dead-waiter-not-skipped", alive, true) {
                    turn = Turn::Anothers;
                    break;
                }
            }
            line.queue.pop_front();
        }
        let first = match turn {
            Turn::Anothers => line.queue.pop_front(),
            _ => None,
        };
        if !line.lives(now) {
            self.lines.remove(queue);
        }
        if let Some(first) = first {
            let Waits {
                reservation, place, ..
            } = request.keys.waits;
            let free = Form::Free {
                until: time + micros(reservation),
                waiter: Some(first.waiter),
            };
            self.put(request, free, life(now, reservation.max(place)));
        }
        turn
    }

    /// Free, and crowded: reserved for nobody, but natives do not bite.
    pub(super) fn close_out(&mut self, request: &Request, now: Instant) {
        let free = Form::Free {
            until: 0,
            waiter: None,
        };
        self.put(request, free, life(now, request.keys.waits.place));
    }
}

/// The end of a key that is given so long a life at `now`.
pub(super) fn life(now: Instant, length: Duration) -> Instant {
    tick(now) + whole(length)
}
