//! The script `choose` on a node in memory: which slot of a semaphore is free, or a place in
//! the queue that all of its slots have.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::joins;
use super::lookup::KeyLookup;
use super::queue::{Message, QueueTurn};
use super::times::{life, micros};
use super::{MemoryNode, ReservedFor, StoredValue};
use crate::clock::Instant;
use crate::node::{Op, Reply, Request, Waits};

impl MemoryNode {
    /// Finds a free slot, and reserves it for the request's waiter; or queues that.
    pub(super) fn choose(
        &mut self,
        request: &Request,
        slots: u32,
        guarded: bool,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Reply {
        let quarantine = self.quarantine(now).filter(|_| guarded);
        if let Some(left) = quarantine {
            return Reply::Quarantined { left };
        }
        let first = match request.op {
            Op::Acquire { candidate, .. } => candidate,
            _ => 0,
        };
        let me = request.waiter.as_ref();
        let slots = u64::from(slots);
        let in_order = (0..slots).map(|i| ((first % slots + i) % slots) as u32);
        // The candidate of a semaphore is the slot to begin with: clients that began with one slot
        // would meet there.
        let asked: Vec<Request> = in_order.map(|slot| of_slot(request, slot)).collect();
        let seen: Vec<KeyLookup> = asked.iter().map(|one| self.found(one, None, now)).collect();
        let is_mine = |found: &KeyLookup, one: &Request| {
            let form = found.form.as_ref();
            me.is_some() && form.is_some_and(|form| form.is_for(one, found.time))
        };
        // A slot that is reserved for this waiter comes first: a repeated request must not take a
        // second one.
        let mut both = seen.iter().zip(&asked);
        if let Some((_, one)) = both.find(|(found, one)| is_mine(found, one)) {
            return chosen(one);
        }
        for (found, one) in seen.iter().zip(&asked) {
            let reserved = found.form.as_ref();
            let reserved = reserved.is_some_and(|form| form.reserved(found.time).is_some());
            if !found.free || reserved {
                continue;
            }
            // A free slot belongs to the first waiter in the queue, which need not be the one that
            // asks.
            let turn = self.turn(one, me, None, now, messages);
            if turn == QueueTurn::Other {
                continue;
            }
            if let Some(waiter) = me {
                // The waiter gives up its place, for it needs one slot alone.
                self.leave(one, now);
                let Waits {
                    reservation, place, ..
                } = request.keys.waits;
                let until = found.time + micros(reservation);
                let end = life(now, reservation.max(place));
                let whom = ReservedFor::Waiter(waiter.clone());
                self.reserve_until(one, None, whom, (until, end), now);
            }
            return chosen(one);
        }
        self.queue_for_slots(request, &asked, now)
    }

    /// Refuses the request, for no slot is free. At its home the waiter is queued, and all slots
    /// are crowded from then on, so that each release notifies a waiter.
    fn queue_for_slots(&mut self, request: &Request, asked: &[Request], now: Instant) -> Reply {
        let waiter = request.waiter.as_ref().filter(|_| joins(request));
        let place = waiter.and_then(|waiter| self.join(request, waiter, now));
        let mut left: Option<Duration> = None;
        let marked = asked.len();
        for (i, one) in asked.iter().enumerate() {
            if let Some(rest) = self.found(one, None, now).left() {
                left = Some(left.map_or(rest, |left| left.min(rest)));
            }
            if place.is_some() && i < marked {
                self.mark(one, now);
            }
        }
        let waiter = waiter.filter(|_| place.is_some());
        Reply::Refused {
            left,
            holder: None,
            place,
            subscribers: waiter.map_or(1, |waiter| self.listeners(waiter)),
            shared: false,
        }
    }

    /// Takes the waiter out of the queue: the slots that were reserved for it go to the next
    /// waiter.
    pub(super) fn give_way(
        &mut self,
        request: &Request,
        slots: u32,
        votes: bool,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Reply {
        self.leave(request, now);
        let answer = Reply::Released { held: false };
        for slot in 0..slots {
            let one = of_slot(request, slot);
            let found = self.found(&one, None, now);
            let Some(form @ StoredValue::Reserved { .. }) = &found.form else {
                continue;
            };
            // Another waiter's reservation stands, but an ended one goes on like this waiter's own.
            let anothers = form.reserved(found.time).is_some() && !form.is_for(&one, found.time);
            if anothers {
                continue;
            }
            let kept = match votes {
                true => self.turn(&one, None, None, now, messages) == QueueTurn::Other,
                // A node that may not vote reserves nothing; it keeps the slot from plain commands
                // while waiters are queued.
                false if self.is_queued(&one, now) => {
                    self.close_out(&one, now);
                    true
                }
                false => false,
            };
            if !kept {
                self.keys.remove(&one.keys.lock);
            }
        }
        answer
    }
}

/// The request for one of the slots.
fn of_slot(request: &Request, slot: u32) -> Request {
    Request {
        keys: Arc::new(request.keys.of_slot(slot)),
        ..request.clone()
    }
}

fn chosen(request: &Request) -> Reply {
    let slot = request.keys.mode.slot().unwrap_or_default();
    Reply::Chosen { slot }
}
