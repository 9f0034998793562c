//! "choose": which slot of a semaphore is free, or a place in the queue that all of its slots have.
//!
//! Each slot is a lock of its own; the queue is one, and goes from slot to slot as they are looked at.

use std::time::Duration;

use quorlock::sim::{Op, Reply};

use super::line::Turn;
use super::lock::{Form, Whom, named};
use super::node::{Answer, Node};

/// Carries out what is asked of all slots, which are in the order of their numbers.
pub fn choose(slots: &mut [Node<'_>]) -> Answer {
    let request = slots[0].request;
    if request.op != Op::Release {
        if !slots[0].admitted {
            return Answer::OtherRecord;
        }
        if request.not_after != 0 && slots[0].time > request.not_after {
            return Answer::Says(Reply::Late);
        }
    }
    Answer::Says(match request.op {
        Op::Release => give_way(slots),
        _ => choose_one(slots),
    })
}

/// What is done at one slot, with the queue of all.
fn at<R>(slots: &mut [Node<'_>], slot: usize, act: impl FnOnce(&mut Node<'_>) -> R) -> R {
    let done = act(&mut slots[slot]);
    let (queue, end) = (slots[slot].lock.queue.clone(), slots[slot].lock.queue_end);
    for other in slots {
        (other.lock.queue, other.lock.queue_end) = (queue.clone(), end);
    }
    done
}

fn choose_one(slots: &mut [Node<'_>]) -> Reply {
    if let Some(left) = slots[0].quarantine {
        return Reply::Quarantined { left };
    }
    let request = slots[0].request;
    let first = match request.op {
        Op::Acquire { candidate, .. } => candidate as usize,
        _ => 0,
    };
    let order: Vec<usize> = (0..slots.len())
        .map(|i| (first + i) % slots.len())
        .collect();
    // What they were as the request came.
    let seen: Vec<_> = slots
        .iter()
        .map(|slot| (slot.free(), slot.reserved().is_some()))
        .collect();
    let chosen = |slot: usize| Reply::Chosen { slot: slot as u32 };
    if let Some(mine) = order.iter().find(|slot| slots[**slot].is_mine()) {
        return chosen(*mine);
    }
    for slot in &order {
        // guard: free, and reserved for no waiter
        if seen[*slot] != (true, false) {
            continue;
        }
        let me = request.waiter.clone();
        let turn = at(slots, *slot, |node| node.serve(me.as_ref(), None));
        if turn == Turn::Anothers {
            continue;
        }
        if let Some(waiter) = &request.waiter {
            let (number, inbox) = named(waiter);
            at(slots, *slot, |node| {
                node.leave();
                node.reserve_now(false, Whom::Waiter(number, inbox));
            });
        }
        return chosen(*slot);
    }
    let joins = slots[0].joins();
    let place = if joins {
        at(slots, order[0], |node| node.join())
    } else {
        None
    };
    let mut left: Option<u64> = None;
    for slot in &order {
        let node = &mut slots[*slot];
        let keeps_out = match &node.lock.key {
            None => Some(0),
            Some(_) => node.keeps_out(),
        };
        if let Some(rest) = keeps_out {
            left = Some(left.map_or(rest, |left| left.min(rest)));
        }
        if place.is_some() {
            node.mark();
        }
    }
    let inbox = request.waiter.as_ref().map(|waiter| &waiter.inbox);
    let inbox = inbox.filter(|_| place.is_some());
    Reply::Refused {
        left: left.map(Duration::from_millis),
        holder: None,
        place,
        subscribers: inbox.map_or(1, |inbox| slots[0].listen(inbox)),
        shared: false,
    }
}

/// A waiter goes: each slot that is free, or reserved for it, is served.
fn give_way(slots: &mut [Node<'_>]) -> Reply {
    at(slots, 0, |node| node.leave());
    for slot in 0..slots.len() {
        at(slots, slot, |node| {
            let key = node.lock.key.as_ref().map(|key| &key.form);
            if !matches!(key, Some(Form::Reserved(..))) {
                return;
            }
            if node.reserved().is_some() && !node.is_mine() {
                return;
            }
            if !node.admitted || node.quarantine.is_some() {
                if node.lock.queue.is_empty() {
                    node.lock.key = None;
                } else {
                    node.close_out();
                }
            } else if node.serve(None, None) != Turn::Anothers {
                node.lock.key = None;
            }
        });
    }
    Reply::Released { held: false }
}
