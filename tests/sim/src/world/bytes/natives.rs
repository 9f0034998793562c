//! Native requests as a node gets them, command by command, and what the client makes of
//! the answers: written from docs/reference/protocol.md, beside the real link.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::native::{NativeReplies, Outcome, Trailer, outcome};
use quorlock::sim::{AfterRelease, Keys, Mode, Op, Reply, Request, Value, Waits};

use super::serve::Serving;
use super::{Answered, Mark};
use crate::history::{Asked, Happened};
use crate::neighbour::{Known, known, place_of_key};
use crate::server::resp::number;
use crate::server::{Life, Told};
use crate::world::{Inner, Time};

/// A vote whose trailer has yet to come.
#[derive(Debug)]
pub(super) struct Ballot {
    message: u64,
    request: Request,
    voted: NativeReplies,
    at: Time,
    copy: bool,
    /// Other commands than its own have come since.
    over: bool,
}

/// The counters of fences that were counted on over a connection: the life of each has to
/// be told with the first such command, for it may be new.
#[derive(Debug, Default)]
pub(super) struct Lives {
    told: Vec<Box<[u8]>>,
    /// A fence was proposed for it, and no life has been told.
    owed: Option<Box<[u8]>>,
    /// A command was not carried out, which may have been to tell one.
    refused: bool,
}

impl Lives {
    /// A fence is proposed.
    fn counts(&mut self, counter: &[u8]) {
        if !self.told.iter().any(|told| **told == *counter) {
            self.owed.get_or_insert_with(|| counter.into());
        }
    }

    /// A life is told.
    pub(super) fn lasts(&mut self, counter: &[u8]) {
        self.owed.take_if(|owed| **owed == *counter);
        self.told.push(counter.into());
    }

    /// A command is not carried out.
    pub(super) fn refuses(&mut self) {
        self.refused = true;
    }

    /// Whether a life should have been told by now.
    fn is_owed(&self) -> bool {
        self.owed.is_some() && !self.refused
    }
}

/// What is known of a write's trailer.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The record that the client knows of the node: what it read last before.
    known: Option<Arc<str>>,
    /// What the trailer shows of the record, and of a quarantine.
    record: Option<(Option<Arc<str>>, bool)>,
}

impl Inner {
    /// A client has read what a node holds, over a connection: in its set-up, or behind
    /// votes, which count by it or do not.
    pub(super) fn reads_trailer(&mut self, wire: usize, told: Told<'_>) {
        let w = self.open_wire(wire);
        let pair = w.pair;
        if w.lives.is_owed() {
            let client = self.pairs[pair].client;
            return self.violated(format!(
                "L6 c{client} counts on without telling how long a counter lives"
            ));
        }
        let w = self.open_wire(wire);
        let time = match told {
            Told::Record(record, quarantined) => {
                w.trailer.record = Some((record.map(Arc::from), quarantined));
                return;
            }
            Told::Known(record) => {
                w.trailer.known = record.map(Arc::from);
                return;
            }
            Told::Time(time) => time,
        };
        let read = w.trailer.record.take();
        let trailer = Trailer {
            admitted: read
                .as_ref()
                .is_none_or(|(record, _)| *record == w.trailer.known),
            quarantined: read.is_some_and(|(_, quarantined)| quarantined),
            time,
        };
        for ballot in std::mem::take(&mut w.ballots) {
            let said = outcome(&ballot.request, ballot.voted, Some(trailer));
            self.counts(wire, ballot, said);
        }
    }

    /// What a vote is worth.
    fn counts(&mut self, wire: usize, ballot: Ballot, said: Outcome) {
        let pair = self.open_wire(wire).pair;
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let (message, request) = (ballot.message, &ballot.request);
        self.note(|| Happened::Counted {
            node,
            message,
            client,
            asked: Asked::of(request),
            outcome: said.clone(),
        });
        if matches!(said, Outcome::Reply(Reply::Granted { .. })) {
            self.granted_natively(node, wire as u64, request, ballot.at);
        }
        let reply = match said {
            Outcome::Reply(reply) => Some(reply),
            Outcome::OtherRecord => None,
            // Asked by script at once; nobody is told of this.
            Outcome::Quarantined => return,
        };
        self.bytes().settled.push(Answered {
            end: 0,
            message,
            mark: Mark::of(request),
            reply,
            release: false,
            copy: ballot.copy,
        });
    }
}

impl Serving<'_> {
    /// What this command is of: the client's request, as far as it is known.
    fn request(&self, key: &[u8], value: &[u8], op: Op) -> (u64, Request, bool) {
        let sent = self.inner.bytes.as_ref();
        let sent = sent.and_then(|bytes| bytes.wires[self.wire].sent.front());
        let same = sent.filter(|sent| *sent.request.value.0 == *value);
        match same {
            Some(sent) => (sent.message, sent.request.clone(), sent.copy),
            None => (0, native(key, value, op), true),
        }
    }

    /// The first command of a native acquire.
    pub(super) fn vote(&mut self, key: &[u8], value: &[u8], life: Life) -> bool {
        let (pair, wire) = (self.pair(), self.wire);
        let (message, mut request, copy) = self.request(key, value, acquire(life));
        request.not_after = match life {
            Life::Until(ms) => ms * 1000,
            Life::For(_) => 0,
        };
        // The fence comes with a command of its own.
        let mut keys = (*request.keys).clone();
        keys.fence_ttl = None;
        let alone = Request {
            keys: Arc::new(keys),
            ..request.clone()
        };
        let inner = &mut *self.inner;
        for ballot in &mut inner.open_wire(wire).ballots {
            ballot.over = true;
        }
        let voted = inner.vote(pair, message, &alone, false);
        let node = inner.pairs[pair].node;
        let replaced = inner.pairs[pair].current != Some(wire as u64);
        if voted.stored && replaced && inner.is_given_up(wire) {
            // It ends by itself; what was to undo it has come over another connection.
            inner.came_late(node, &alone);
        }
        match life {
            Life::Until(_) if voted.stored => {
                let at = inner.time;
                inner.open_wire(wire).ballots.push(Ballot {
                    message,
                    request,
                    voted,
                    at,
                    copy,
                    over: false,
                });
                inner.bytes().deferred = true;
            }
            _ => {
                let Outcome::Reply(reply) = outcome(&request, voted, None) else {
                    unreachable!("only a trailer voids a vote");
                };
                if voted.stored {
                    let at = inner.time;
                    inner.granted_natively(node, wire as u64, &request, at);
                }
                inner.bytes().served = Some(reply);
            }
        }
        voted.stored
    }

    /// The second.
    pub(super) fn count(&mut self, node: usize, now: Time, counter: &[u8], fence: u64) -> bool {
        let inner = &mut *self.inner;
        inner.open_wire(self.wire).lives.counts(counter);
        let local = inner.nodes[node].clock.local(now);
        let of = |lock: &Known| lock.aux.counter() == counter;
        let lock = known().iter().position(of).unwrap_or(0);
        let before = inner.look_at(node, lock, counter, local);
        let state = &mut inner.nodes[node];
        let counted = state.state.propose(counter, fence, local);
        let after = state.state.fence(counter, local).unwrap_or(0);
        if after != before.max(fence) || counted != (fence > before) {
            inner.violated(format!(
                "S2 n{node}'s counter went from {before} to {after} for {fence}"
            ));
        }
        if let Some(ballot) = inner.open_wire(self.wire).ballots.last_mut()
            && ballot.request.keys.aux.counter() == counter
            && !ballot.over
        {
            ballot.voted.counted |= counted;
        }
        counted
    }

    /// A native release.
    pub(super) fn delete_natively(&mut self, key: &[u8], value: &[u8]) -> bool {
        if value.is_empty() {
            // A client finds out what its server knows.
            return false;
        }
        let pair = self.pair();
        let (message, request, _) = self.request(key, value, Op::Release);
        let deleted = self.inner.delete(pair, message, &request);
        if deleted {
            let reply = Reply::Released { held: true };
            self.inner.bytes().served = Some(reply);
        } else {
            self.inner.bytes().deferred = true;
        }
        deleted
    }
}

/// An acquire of a value that stands for as long.
fn acquire(life: Life) -> Op {
    Op::Acquire {
        ttl: match life {
            Life::Until(_) => Duration::ZERO,
            Life::For(ttl) => ttl,
        },
        candidate: 0,
        home: false,
        let_in: false,
        block: 1,
    }
}

/// A native request of which no more is known.
fn native(key: &[u8], value: &[u8], op: Op) -> Request {
    Request {
        op,
        native: true,
        keys: Arc::new(Keys {
            lock: key.into(),
            aux: known()[place_of_key(key)].aux.clone(),
            waits: Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        }),
        value: Value(value.into()),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: 0,
    }
}

/// The request that a native command begins, as its client wrote it; `None`: it is none.
pub(super) fn begun(words: &[&[u8]]) -> Option<Request> {
    Some(match words {
        [b"SET", key, value, b"NX", b"PX", ttl] => {
            let ttl = Duration::from_millis(number(ttl)?);
            native(key, value, acquire(Life::For(ttl)))
        }
        [b"SET", key, value, b"NX", b"PXAT", end] => Request {
            not_after: number(end)? * 1000,
            ..native(key, value, acquire(Life::Until(0)))
        },
        [b"DELIFEQ", key, value] | [b"DELEX", key, b"IFEQ", value] if !value.is_empty() => {
            native(key, value, Op::Release)
        }
        _ => return None,
    })
}
