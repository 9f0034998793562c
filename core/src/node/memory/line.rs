//! How a waiter joins and leaves the [queue](super::NodeQueue) of a lock on a node in memory, and
//! which waiter is next. The reservation for that waiter stands under the [lock's own
//! key](super::StoredValue).

use super::queue::{Message, NodeQueue, QueueTurn};
use super::times::{life, micros};
use super::{MemoryNode, ReservedFor, StoredValue};
use crate::clock::Instant;
use crate::node::{Hint, Mode, Request, Waiter, Waits};

/// How many readers are called at once.
const CALLED: usize = 64;

/// A waiter that has not asked for so many µs may be stopped: a live one asks every 2.4 s, and over a
/// slow network later by what an answer takes.
fn stopped(waits: Waits) -> u64 {
    let slow = 2_400_000 + 2 * micros(waits.reservation);
    slow.max(3_000_000)
}

impl MemoryNode {
    /// The line with that queue, if it lives at `now`.
    pub fn line(&self, queue: &[u8], now: Instant) -> Option<&NodeQueue> {
        self.lines.get(queue).filter(|line| line.lives(now))
    }

    /// Whether a waiter is queued for the request's lock.
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

    /// Finds the next waiter of a lock that is not reserved, and that no holder has for itself. If
    /// that is another waiter than `me`, the node reserves the lock for it and notifies it. Readers
    /// are notified together, up to the first waiter that wants the lock for itself; they stay in
    /// the queue until they come. `last`: when the last of the readers' votes that still live ends.
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
            return QueueTurn::Free;
        };
        let turn = loop {
            let Some(first) = line.queue.front() else {
                break QueueTurn::Free;
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
            return Some(QueueTurn::Asker);
        }
        if MemoryNode::time(now) < first.end {
            let alive = self.listeners.of(&first.waiter.inbox) > 0;
            if last.is_some() {
                // The waiter is not notified yet, for the end of the readers is not known. A waiter
                // that has not asked for so long may have stopped: it is queued anew when it goes
                // on. A slower waiter has a place that lasts longer by as much.
                let waits = request.keys.waits;
                let asked = first.end.saturating_sub(micros(waits.place));
                let lately = MemoryNode::time(now).saturating_sub(asked) < stopped(waits);
                if alive && lately {
                    return Some(QueueTurn::AfterReaders);
                }
            } else if self.listeners.forbidden {
                return Some(QueueTurn::Unnotified);
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
                    return Some(QueueTurn::Other);
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
                    return Some(QueueTurn::Unnotified);
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
                // A reader that does not come while the lock is reserved for it loses its place.
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
                QueueTurn::Asker
            } else {
                QueueTurn::Other
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

    /// Reserves the lock until that `TIME`; the key's life ends at the earliest at that moment.
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

    /// Leaves the lock free and crowded, reserved for no waiter: a plain command cannot take it
    /// past the queue.
    pub(super) fn close_out(&mut self, request: &Request, now: Instant) {
        let free = StoredValue::Reserved {
            until: 0,
            whom: ReservedFor::NoWaiter,
        };
        self.put(request, free, life(now, request.keys.waits.place));
    }
}
