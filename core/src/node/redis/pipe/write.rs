//! What goes out over a connection: requests in the form that suits each, and what is owed behind
//! those of one write.

use std::io;
use std::task::{Context, Poll, Waker};

use super::{IDLE, InFlight, LOOKED_AT, PendingReply, counted_on};
use crate::clock::Instant;
use crate::hash::fnv1a;
use crate::node::admission::DeleteByValue;
use crate::node::native::key_end_of;
use crate::node::redis::native::{self, AcquireReplies, TrailerReplies};
use crate::node::redis::outbox::Item;
use crate::node::redis::script::{self, Guard, Script};
use crate::node::redis::{hashed, resp};
use crate::node::{Op, Request, names};

/// How many native releases a script carries out at most. Their requesters go on at once, so with more of them the server
/// would have nothing to do while the client hands the answers on.
const DELETES: usize = 16;

impl InFlight {
    /// Writes out what the system takes at once.
    pub(crate) fn write_out(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let _: Poll<io::Result<()>> = self.wire.poll_flush(&mut cx);
    }

    /// Writes a request, now.
    pub(crate) fn write(&mut self, mut item: Box<Item>, now: Instant) {
        let idle = now >= self.look_at + IDLE;
        if idle {
            self.look(now);
        }
        item.written = now;
        item.heard = self.replies;
        item.request.op = item.request.op.on(self.server);
        if item.ticket.server != self.server {
            item.request.not_after = 0;
        }
        item.ticket.server = self.server;
        item.cold = self.is_cold(&item, now);
        if let Some(replicas) = &mut self.replicas
            && !matches!(item.request.op, Op::Release | Op::Inspect)
        {
            replicas.wrote(item.ticket.deadline);
        }
        if self.must_follow_deletes(&item) {
            self.write_deletes();
        }
        // The server of a cluster refuses keys of several hash slots.
        let by_script = self.delete == DeleteByValue::ByScript;
        if item.request.native && item.is_release() && by_script && !self.in_cluster {
            self.deletes.push_back(item);
            if self.deletes.len() == DELETES {
                self.write_deletes();
            }
            return;
        }
        self.listen(&item);
        self.write_asking(&item);
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        let place = match (item.request.native, item.request.op) {
            (true, Op::Acquire { ttl, .. }) => {
                if native::needs_trailer(&item.request, guard) {
                    self.owes_trailer = true;
                    if item.request.not_after == 0 {
                        item.request.not_after = key_end_of(item.ticket.sent, self.time, ttl);
                    }
                }
                let replies = native::write_acquire(out, &item.request, guard, item.cold);
                PendingReply::Acquire(Some(item), replies, AcquireReplies::default())
            }
            (true, Op::Release) => {
                let with_text = std::mem::take(&mut self.lean_text);
                native::write_delete(out, &item.request, self.delete, with_text);
                if by_script {
                    self.places.push_back(PendingReply::Deletes(1));
                }
                PendingReply::Delete(Some(item))
            }
            _ => {
                if item.request.not_after == 0 && !item.is_release() {
                    // The deadline is the earliest that it may be, for the server must not carry
                    // out a request long after its time; a deadline that is too early costs one
                    // late reply, which brings the time.
                    let known = self.clock.bounds(now, 0.0);
                    let earliest = known.map_or(0, |(earliest, _)| earliest);
                    item.request.not_after = not_after(earliest, &item, now);
                }
                // The first request of a script carries its text: a node that lacks the script
                // would cost a round trip.
                let script = script_of(&item);
                if !self.taught.iter().any(|known| std::ptr::eq(*known, script)) {
                    self.taught.push(script);
                    item.with_text = true;
                }
                write_script(out, &item, (guard, self.in_cluster), item.cold, now);
                PendingReply::Script(Some(item))
            }
        };
        self.places.push_back(place);
    }

    /// Whether the server has to carry out this request behind the native releases that were written before it: it may be for
    /// one of their locks. A script may be for several.
    fn must_follow_deletes(&self, item: &Item) -> bool {
        let lock = &item.request.keys.lock;
        !self.deletes.is_empty()
            && (!item.request.native || self.deletes.iter().any(|d| d.request.keys.lock == *lock))
    }

    /// Writes the native releases that were held back.
    fn write_deletes(&mut self) {
        if self.deletes.is_empty() {
            return;
        }
        let with_text = std::mem::take(&mut self.lean_text);
        let requests = self.deletes.iter().map(|item| &item.request);
        native::write_deletes(&mut self.wire.out, requests, with_text);
        self.places
            .push_back(PendingReply::Deletes(self.deletes.len()));
        let deletes = self
            .deletes
            .drain(..)
            .map(|item| PendingReply::Delete(Some(item)));
        self.places.extend(deletes);
    }

    /// Subscribes the waiter of a lock in Redisson's layout to the lock's channel, from before it
    /// asks until it leaves.
    fn listen(&mut self, item: &Item) {
        let request = &item.request;
        let (Some(_), Some(waiter)) = (&request.keys.field, &request.waiter) else {
            return;
        };
        if let Some(channel) = hashed::channel(request).filter(|_| self.listens) {
            if self.wire.input.pushes.listen(&channel, waiter.number) {
                self.write_listening(b"SUBSCRIBE", &channel);
            }
        } else if item.is_release() {
            self.hush(request);
        }
    }

    /// The waiter of the request waits no more.
    pub(super) fn hush(&mut self, request: &Request) {
        let (Some(_), Some(waiter)) = (&request.keys.field, &request.waiter) else {
            return;
        };
        let channel = names::redisson_channel(&request.keys.lock);
        if self.wire.input.pushes.hush(&channel, waiter.number) {
            self.write_listening(b"UNSUBSCRIBE", &channel);
        }
    }

    fn write_listening(&mut self, command: &[u8], channel: &[u8]) {
        resp::write_array(&mut self.wire.out, 2);
        resp::write_text(&mut self.wire.out, command);
        resp::write_text(&mut self.wire.out, channel);
        self.places.push_back(PendingReply::Listen);
    }

    /// What is carried out where its hash slot is being moved to says so first.
    fn write_asking(&mut self, item: &Item) {
        if item.asking {
            resp::write_array(&mut self.wire.out, 1);
            resp::write_text(&mut self.wire.out, b"ASKING");
            self.places.push_back(PendingReply::Script(None));
        }
    }

    /// Whether an acquire has to set its counter's expiry.
    fn is_cold(&self, item: &Item, now: Instant) -> bool {
        let until = counted_on(item).and_then(|(counter, _)| self.warm.get(&fnv1a(counter)));
        let warm = until.is_some_and(|until| now < *until);
        !warm
    }

    /// Writes what goes behind the requests of this write: native releases that were held back, the trailer of votes, and
    /// that these wait for replicas.
    pub(crate) fn end_write(&mut self, now: Instant) {
        self.write_deletes();
        if std::mem::take(&mut self.owes_trailer) {
            let replies = native::write_trailer(&mut self.wire.out, self.guard.as_ref());
            let reading = TrailerReplies::new(replies);
            self.places.push_back(PendingReply::Trailer(reading));
        }
        if let Some(replicas) = &mut self.replicas
            && replicas.end_write(&mut self.wire.out, now)
        {
            self.places.push_back(PendingReply::Wait);
        }
        // The question comes last, so that no request waits for it.
        if now >= self.look_at {
            self.look(now);
        }
    }

    /// Asks whether the server drops keys: that was seen on connect, but a policy can be set at any
    /// time.
    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOKED_AT;
        resp::write_array(&mut self.wire.out, 2);
        resp::write_text(&mut self.wire.out, b"INFO");
        resp::write_text(&mut self.wire.out, b"memory");
        self.places.push_back(PendingReply::Memory);
    }

    /// Writes a request whose answer is awaited on another connection.
    pub(crate) fn write_copy(&mut self, item: &Item, now: Instant) {
        self.write_asking(item);
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        write_script(out, item, (guard, self.in_cluster), true, now);
        self.places.push_back(PendingReply::Script(None));
    }

    /// Writes native deletes again by script, where they may stand behind a vote that is yet to be
    /// given: meanwhile a waiter may have joined, which a native delete overlooks, and the same
    /// delete over the next connection may have come before that vote.
    pub(crate) fn copy_deletes(&mut self) {
        let deletes = self.places.iter().filter_map(|place| match place {
            PendingReply::Delete(item) => item.as_deref(),
            _ => None,
        });
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        let mut copies = 0;
        for item in deletes {
            script::write_command(out, &item.request, guard, item.with_text, true);
            copies += 1;
        }
        self.places
            .extend((0..copies).map(|_| PendingReply::Script(None)));
    }
}

/// The script that carries a request out.
fn script_of(item: &Item) -> &'static Script {
    match item.request.op {
        Op::Extend { .. } if item.prolongs => &script::PROLONG,
        _ if hashed::is_meant(&item.request) => hashed::of(&item.request),
        _ => script::of(&item.request),
    }
}

/// Writes a request's script. The rest of its time is counted from now, however often it is
/// written.
fn write_script(
    out: &mut Vec<u8>,
    item: &Item,
    (guard, in_cluster): (Option<&Guard>, bool),
    cold: bool,
    now: Instant,
) {
    if let (true, Op::Extend { ttl, .. }) = (item.prolongs, item.request.op) {
        return script::write_prolong(out, &item.request, ttl, item.with_text);
    }
    let mark = guard.and_then(|guard| guard.of_shard(&item.request.keys.lock));
    let guard = mark.as_ref().or(guard);
    if hashed::is_meant(&item.request) {
        return hashed::write_command(out, &item.request, guard, in_cluster, item.with_text);
    }
    let leaving = item.request.leaving.at(now);
    if leaving == item.request.leaving {
        return script::write_command(out, &item.request, guard, item.with_text, cold);
    }
    let request = Request {
        leaving,
        ..item.request.clone()
    };
    script::write_command(out, &request, guard, item.with_text, cold);
}

/// Until when a request is worth carrying out that was made without knowing the server's
/// clock, which shows this now at the earliest.
fn not_after(earliest: u64, item: &Item, now: Instant) -> u64 {
    let (sent, deadline) = (item.ticket.sent, item.ticket.deadline);
    let due = now.until(deadline) + sent.until(deadline) / 10;
    let due = due.as_micros();
    earliest + u64::try_from(due).unwrap_or(u64::MAX / 2)
}
