//! A stream to a node, and what was written to it and is not answered yet.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use super::connect::Connected;
use super::outbox::Item;
use super::script::{self, Guard};
use super::wire::{Incoming, Wire};
use crate::clock::Instant;
use crate::lean::trim;
use crate::mutants::mutant;
use crate::node::FaultKind;

/// See the [module documentation](self). A place in flight is empty where
/// nobody cares for the answer any more.
pub(crate) struct Pipe {
    wire: Wire,
    guard: Option<Guard>,
    /// See [`Ticket::server`](crate::node::Ticket::server).
    server: u64,
    /// The node's `TIME` on connect, in µs, and when that was.
    time: (u64, Instant),
    pub(crate) in_flight: VecDeque<Option<Item>>,
    /// It has answered since somebody [looked](Pipe::expire), and when that was that
    /// it had.
    heard: bool,
    quiet_since: Instant,
}

impl Pipe {
    pub(crate) fn new(connected: Connected) -> Pipe {
        Pipe {
            wire: connected.wire,
            guard: connected.guard,
            server: connected.server,
            time: (connected.time.time, connected.time.at),
            in_flight: VecDeque::new(),
            heard: false,
            quiet_since: Instant::NEVER,
        }
    }

    /// Moves bytes both ways; ready with what comes next.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        // Reads go on while a write waits for room: the node may be waiting
        // for us to read.
        if let Poll::Ready(Err(error)) = self.wire.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        self.wire.poll_next(cx)
    }

    /// Writes a request, now.
    pub(crate) fn write(&mut self, mut item: Item, now: Instant) {
        item.written = now;
        if item.request.not_after == 0 && !item.is_release() {
            item.request.not_after = self.not_after(&item);
        }
        item.request.op = item.request.op.on(self.server);
        item.ticket.server = self.server;
        self.put(&item);
        self.in_flight.push_back(Some(item));
    }

    /// Takes out the oldest request: it is answered.
    pub(crate) fn answered(&mut self) -> Option<Option<Item>> {
        self.heard = true;
        let oldest = self.in_flight.pop_front();
        trim(&mut self.in_flight);
        oldest
    }

    /// Whether nobody waits for an answer, and all is written: the copy of a release may
    /// be the last that is left, and must go out behind what it undoes.
    pub(crate) fn is_idle(&self) -> bool {
        let written = mutant!("closed-unwritten", self.wire.out.is_empty(), true);
        written && self.in_flight.iter().all(Option::is_none)
    }

    /// For a request that was made before the node's clock was known: it is,
    /// from the connection's set-up.
    fn not_after(&self, item: &Item) -> u64 {
        let (time, at) = self.time;
        let due =
            at.until(item.ticket.deadline) + item.ticket.sent.until(item.ticket.deadline) / 10;
        let due = mutant!("not-after-in-millis", due.as_micros(), due.as_millis());
        time + u64::try_from(due).unwrap_or(u64::MAX / 2)
    }

    /// Writes a request whose answer is awaited on another connection.
    pub(crate) fn write_copy(&mut self, item: &Item) {
        self.put(item);
        self.in_flight.push_back(None);
    }

    fn put(&mut self, item: &Item) {
        let guard = self.guard.as_ref();
        script::write_command(&mut self.wire.out, &item.request, guard, item.with_text);
    }

    /// Fails what is past its deadline; lowers `due` to what comes next.
    /// Returns whether somebody waited in vain: for half of the time at least that its
    /// requester had. One that was written with little of it left, over a connection
    /// that had yet to be made, says nothing of that connection. Nor does a release that
    /// was told already, while anything is answered: it may be the last of thousands
    /// that were kept for a node.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Instant) -> bool {
        let mut doubtful = false;
        let heard = std::mem::take(&mut self.heard);
        if mutant!("told-release-doubts", heard, false) {
            self.quiet_since = now;
        }
        for place in &mut self.in_flight {
            let Some(item) = place else { continue };
            let patience = item.patience();
            if item.due() <= now {
                doubtful |= item.sink.is_some()
                    && mutant!(
                        "late-write-doubts",
                        item.written.until(now) >= patience / 2,
                        true
                    );
                item.fail(FaultKind::Timeout, "no answer in time", true);
            }
            let told = item.sink.is_none();
            let over = told && mutant!("told-release-is-over", !item.is_release(), true);
            if item.due() <= now || over {
                *place = None;
            } else {
                let late = self.quiet_since.max(item.written) + patience;
                let next = match told {
                    true if late > now => late,
                    _ => item.due(),
                };
                doubtful |= mutant!("told-is-patient", told && late <= now, false);
                let next = mutant!("deadline-not-armed", next, Instant::FAR);
                *due = (*due).min(next);
            }
        }
        if mutant!("place-is-taken-out", false, true) {
            self.in_flight.retain(Option::is_some);
        }
        doubtful
    }
}
