//! The queue of a lock, and how it is served: "Queue".

use quorlock::sim::{Mode, Waiter};

use super::lock::{Form, Key, Place, Whom, ms, named};
use super::node::Node;

/// So many places of readers are looked at.
const READERS: usize = 64;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No client waits.
    Nobodys,
    /// The asker's.
    Mine,
    /// Another's, which was called.
    Anothers,
    /// It is that of a waiter which wants the lock alone, and readers have it.
    AfterReaders,
}

impl Node<'_> {
    /// The request's waiter leaves the queue.
    pub(super) fn leave(&mut self) {
        let mode = self.request.keys.mode;
        if let Some(waiter) = &self.request.waiter {
            self.lock.queue.retain(|place| !place.is(waiter, mode));
        }
    }

    /// The waiter joins the queue, or has its place lengthened. How many wait before it; `None`: the queue is full.
    pub(super) fn join(&mut self) -> Option<u32> {
        let (request, waits) = (self.request, self.request.keys.waits);
        let waiter = request.waiter.as_ref()?;
        let end = self.time + ms(waits.place) * 1000;
        let queue = &mut self.lock.queue;
        let mode = request.keys.mode;
        let place = match queue.iter().position(|place| place.is(waiter, mode)) {
            Some(place) => place,
            None if queue.len() >= waits.most as usize => return None,
            None => {
                queue.push(Place {
                    waiter: named(waiter),
                    shares: mode == Mode::Shared,
                    ticket: queue.last().map_or(0, |last| last.ticket) + 1,
                    end,
                });
                queue.len() - 1
            }
        };
        queue[place].end = end;
        let key_end = self.time / 1000 + ms(waits.place);
        self.lock.queue_end = self.lock.queue_end.max(key_end);
        u32::try_from(place).ok()
    }

    /// Serves the line of a lock that is not reserved and that no client has alone; `last`: until when readers have it. `me`:
    /// the waiter that asks, which gets no message.
    pub(super) fn serve(&mut self, me: Option<&Waiter>, last: Option<u64>) -> Turn {
        while let Some(first) = self.lock.queue.first().cloned() {
            let turn = if first.shares {
                self.call_readers(me, last)
            } else {
                self.call_one(&first, me, last)
            };
            if let Some(turn) = turn {
                return turn;
            }
        }
        Turn::Nobodys
    }

    /// The turn of the first, which wants the lock alone; `None`: it was dead, and is taken out.
    fn call_one(&mut self, first: &Place, me: Option<&Waiter>, last: Option<u64>) -> Option<Turn> {
        let alone = self.request.keys.mode != Mode::Shared;
        if alone && me.map(named).as_ref() == Some(&first.waiter) {
            return Some(Turn::Mine);
        }
        let waits = self.request.keys.waits;
        let (number, inbox) = first.waiter.clone();
        let alive = self.time < first.end && self.listen(&inbox) > 0;
        if last.is_some() {
            // It may be stopped that has not asked for 3 s, or for 2.4 s and two reservations.
            let asked = first.end.saturating_sub(ms(waits.place) * 1000);
            let bound = 3_000_000.max(2_400_000 + 2 * ms(waits.reservation) * 1000);
            if alive && self.time.saturating_sub(asked) < bound {
                return Some(Turn::AfterReaders);
            }
            self.lock.queue.remove(0);
            return None;
        }
        self.lock.queue.remove(0);
        if !alive {
            return None;
        }
        let slot = self.request.keys.mode.slot();
        self.called.push((inbox.clone(), number, slot));
        self.reserve_now(false, Whom::Waiter(number, inbox));
        Some(Turn::Anothers)
    }

    /// The turn of the readers at the head; `None`: all were dead, and are taken out.
    fn call_readers(&mut self, me: Option<&Waiter>, last: Option<u64>) -> Option<Turn> {
        let me = me.filter(|_| self.request.keys.mode == Mode::Shared);
        let me = me.map(named);
        let time = self.time;
        let queue = std::mem::take(&mut self.lock.queue);
        let head = queue.iter().take(READERS);
        let head = head.take_while(|place| place.shares).count();
        let (mut stay, mut mine, mut calls, mut ticket) = (Vec::new(), false, false, None);
        for (i, mut place) in queue.into_iter().enumerate() {
            if i < head && me.as_ref() == Some(&place.waiter) {
                mine = true;
                ticket = Some(place.ticket);
            } else if i < head {
                let (number, inbox) = place.waiter.clone();
                if time >= place.end || self.listen(&inbox) == 0 {
                    continue;
                }
                self.called.push((inbox, number, None));
                calls = true;
                ticket = Some(place.ticket);
                place.end = time + ms(self.request.keys.waits.reservation) * 1000;
            }
            stay.push(place);
        }
        self.lock.queue = stay;
        let ticket = ticket?;
        if calls {
            self.reserve_now(last.is_some(), Whom::Readers(ticket));
        }
        Some(if mine { Turn::Mine } else { Turn::Anothers })
    }

    /// Reserves the lock from now on, for as long as a reservation lasts.
    pub(super) fn reserve_now(&mut self, shared: bool, whom: Whom) {
        let waits = self.request.keys.waits;
        let until = self.time + ms(waits.reservation) * 1000;
        let end = self.now() + ms(waits.reservation.max(waits.place));
        self.reserve_for(shared, whom, until, end);
    }

    /// Reserves the lock until that `TIME`; what is shared stays so.
    pub(super) fn reserve_for(&mut self, shared: bool, whom: Whom, until: u64, end: u64) {
        match self.lock.key.clone() {
            Some(Key {
                form: Form::Shared(_, base, _),
                end: before,
            }) if shared => {
                let end = before.map_or(end, |before| before.max(end));
                self.put(Form::Shared(until, base, whom), end);
            }
            _ => self.put(Form::Reserved(until, whom), end),
        }
    }
}
