//! The line of one lock on a node in memory: who waits there, in their order. For whom
//! the lock is reserved stands under the [lock's own key](super::StoredValue).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{MemoryNode, ReservedFor, StoredValue, micros, tick, whole};
use crate::clock::Instant;
use crate::node::{Hint, Mode, Request, Waiter, Waits};

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

/// How many readers are called at once.
const CALLED: usize = 64;

/// A waiter that has not asked for so many µs may be stopped: a live one asks every 2.4 s, and over a
/// slow network later by what an answer takes.
fn stopped(waits: Waits) -> u64 {
    let slow = 2_400_000 + 2 * micros(waits.reservation);
    slow.max(3_000_000)
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

impl QueueEntry {
    fn is(&self, waiter: &Waiter, mode: Mode) -> bool {
        self.waiter == *waiter && self.mode == mode.in_line()
    }
}

impl NodeQueue {
    /// A line in which nobody stands, with a key that has yet to begin.
    fn new() -> NodeQueue {
        NodeQueue {
            queue: VecDeque::new(),
            end: Instant::NEVER,
        }
    }

    /// Takes a waiter's place away.
    fn leave(&mut self, waiter: &Waiter, mode: Mode) {
        self.queue.retain(|place| !place.is(waiter, mode));
    }

    /// Queues a waiter, or lengthens its place. Returns how many are before it;
    /// `None` if the queue is full.
    fn join(&mut self, waiter: &Waiter, mode: Mode, now: Instant, waits: Waits) -> Option<u32> {
        let place = self.queue.iter().position(|p| p.is(waiter, mode));
        if place.is_none() && self.queue.len() >= waits.most as usize {
            return None;
        }
        let end = MemoryNode::time(now) + micros(waits.place);
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

impl MemoryNode {
    /// The line with that queue, if it lives at `now`.
    pub fn line(&self, queue: &[u8], now: Instant) -> Option<&NodeQueue> {
        self.lines.get(queue).filter(|line| line.lives(now))
    }

    /// Whether anybody is queued for the request's lock.
    pub(super) fn is_queued(&self, request: &Request, now: Instant) -> bool {
        let line = self.lines.get(request.keys.aux.queue());
        line.is_some_and(|line| line.lives(now))
    }

    /// How many listen on that inbox.
    pub fn listeners(&self, waiter: &Waiter) -> u32 {
        self.listeners.of(&waiter.inbox)
    }

    /// Queues a waiter for the request's lock, or lengthens its place: see
    /// [`NodeQueue::join`].
    pub(super) fn join(&mut self, request: &Request, waiter: &Waiter, now: Instant) -> Option<u32> {
        let queue = request.keys.aux.queue();
        let mut fresh = NodeQueue::new();
        match self.lines.get_mut(queue).filter(|line| line.lives(now)) {
            Some(line) => line.join(waiter, request.keys.mode, now, request.keys.waits),
            None => {
                let place = fresh.join(waiter, request.keys.mode, now, request.keys.waits);
                if place.is_some() {
                    self.lines.insert(queue.into(), fresh);
                }
                place
            }
        }
    }

    /// The request's waiter, if it has one, leaves the queue.
    pub(super) fn leave(&mut self, request: &Request, now: Instant) {
        let queue = request.keys.aux.queue();
        if let (Some(waiter), Some(line)) = (&request.waiter, self.lines.get_mut(queue)) {
            line.leave(waiter, request.keys.mode);
            if !line.lives(now) {
                self.lines.remove(queue);
            }
        }
    }

    /// Whose turn it is, where nobody has the request's lock for itself, and it is reserved
    /// for nobody. If it is another's than `me`, it is reserved for that one, who is told. Of
    /// readers all up to the first that wants it for itself are called at once; they stay in
    /// the queue until they come. `last`: until when the last of those lives that have it.
    pub(super) fn turn(
        &mut self,
        request: &Request,
        me: Option<&Waiter>,
        last: Option<u64>,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> QueueTurn {
        let queue = request.keys.aux.queue();
        let Some(mut line) = self.lines.remove(queue).filter(|line| line.lives(now)) else {
            return QueueTurn::Nobodys;
        };
        let turn = loop {
            let Some(first) = line.queue.front() else {
                break QueueTurn::Nobodys;
            };
            let turn = match first.mode {
                Mode::Shared => self.call_readers(request, me, last, &mut line, now, messages),
                _ => self.call_one(request, me, last, &mut line, now, messages),
            };
            if let Some(turn) = turn {
                break turn;
            }
        };
        if line.lives(now) {
            self.lines.insert(queue.into(), line);
        }
        turn
    }

    /// The turn of the first, which wants the lock for itself; `None` where it was dead, and
    /// is gone.
    fn call_one(
        &mut self,
        request: &Request,
        me: Option<&Waiter>,
        last: Option<u64>,
        line: &mut NodeQueue,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Option<QueueTurn> {
        let first = line.queue.front()?;
        if request.keys.mode.is_alone() && Some(&first.waiter) == me {
            return Some(QueueTurn::Mine);
        }
        if MemoryNode::time(now) < first.end {
            let alive = self.listeners.of(&first.waiter.inbox) > 0;
            if last.is_some() {
                // It is told nothing yet: what it waits for has no end that is known. One that has
                // not asked for so long may be stopped: it is queued anew when it goes on. Its own
                // place is longer by as much as it is slower.
                let waits = request.keys.waits;
                let asked = first.end.saturating_sub(micros(waits.place));
                let lately = MemoryNode::time(now).saturating_sub(asked) < stopped(waits);
                if alive && lately {
                    return Some(QueueTurn::AfterReaders);
                }
            } else if self.listeners.forbidden {
                return Some(QueueTurn::Untold);
            } else {
                if alive {
                    let call = Hint {
                        number: first.waiter.number,
                        slot: request.keys.mode.slot(),
                    };
                    messages.push((first.waiter.inbox.clone(), call));
                }
                if alive {
                    let first = line.queue.pop_front()?;
                    self.reserve_for(request, last, ReservedFor::Waiter(first.waiter), now);
                    return Some(QueueTurn::Anothers);
                }
            }
        }
        line.queue.pop_front();
        None
    }

    /// The turn of the readers at the head; `None` where all were dead, and are gone.
    fn call_readers(
        &mut self,
        request: &Request,
        me: Option<&Waiter>,
        last: Option<u64>,
        line: &mut NodeQueue,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Option<QueueTurn> {
        let me = me.filter(|_| request.keys.mode == Mode::Shared);
        let time = MemoryNode::time(now);
        let readers = line.queue.iter().take(CALLED);
        let readers = readers
            .take_while(|place| place.mode == Mode::Shared)
            .count();
        let (mut called, mut mine, mut ticket) = (false, false, None);
        let mut at = 0;
        for _ in 0..readers {
            let place = &line.queue[at];
            if Some(&place.waiter) == me {
                mine = true;
            } else {
                let in_time = time < place.end;
                if in_time && self.listeners.forbidden {
                    return Some(QueueTurn::Untold);
                }
                if !in_time || self.listeners.of(&place.waiter.inbox) == 0 {
                    line.queue.remove(at);
                    continue;
                }
                let call = Hint {
                    number: place.waiter.number,
                    slot: None,
                };
                messages.push((place.waiter.inbox.clone(), call));
                called = true;
                // Whoever does not come while it is reserved for it has no place any more.
                let end = time + micros(request.keys.waits.reservation);
                line.queue[at].end = end;
            }
            ticket = Some(line.queue[at].ticket);
            at += 1;
        }
        if called {
            self.reserve_for(request, last, ReservedFor::Readers(ticket?), now);
        }
        ticket.map(|_| {
            if mine {
                QueueTurn::Mine
            } else {
                QueueTurn::Anothers
            }
        })
    }

    /// Reserves the request's lock.
    fn reserve_for(
        &mut self,
        request: &Request,
        last: Option<u64>,
        whom: ReservedFor,
        now: Instant,
    ) {
        let Waits {
            reservation, place, ..
        } = request.keys.waits;
        let until = MemoryNode::time(now) + micros(reservation);
        let end = life(now, reservation.max(place));
        self.reserve_until(request, last, whom, (until, end), now);
    }

    /// The same until then of `TIME`; the key's life ends at the earliest at that moment.
    pub(super) fn reserve_until(
        &mut self,
        request: &Request,
        last: Option<u64>,
        whom: ReservedFor,
        (until, end): (u64, Instant),
        now: Instant,
    ) {
        match (last, self.form(&request.keys.lock, now)) {
            (Some(_), Some((StoredValue::Shared { base, .. }, before))) => {
                let base = *base;
                let end = end.max(before);
                self.put(request, StoredValue::Shared { until, base, whom }, end);
            }
            _ => self.put(request, StoredValue::Reserved { until, whom }, end),
        }
    }

    /// Free, and crowded: reserved for nobody, but natives do not bite.
    pub(super) fn close_out(&mut self, request: &Request, now: Instant) {
        let free = StoredValue::Reserved {
            until: 0,
            whom: ReservedFor::Nobody,
        };
        self.put(request, free, life(now, request.keys.waits.place));
    }
}

/// The end of a key that is given so long a life at `now`.
pub(super) fn life(now: Instant, length: Duration) -> Instant {
    tick(now) + whole(length)
}
