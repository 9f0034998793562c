//! Native requests: an acquire is two steps at its node, the vote and, at the end of the
//! write, the trailer by which it counts. What goes wrong may fall between: the trailer
//! comes later, or not at all. A release is one step.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::native::{LONGER, NativeReplies, Outcome, Trailer, key_end_of, outcome};
use quorlock::sim::{Instant, MemoryNode, Op, Reply, Request};

use super::events::{Answer, Event, Said};
use super::network::not_ready;
use super::{Inner, Time};
use crate::history::{Asked, Happened};
use crate::trace::Served;

/// A vote whose trailer has yet to come.
#[derive(Debug)]
pub(super) struct Ballot {
    request: Request,
    voted: NativeReplies,
    /// When it was given.
    at: Time,
    /// What the trailer showed, where a seeded bug reads it before the vote.
    read: Option<Trailer>,
}

/// Whether a request's vote counts only by what the trailer says, over a connection
/// that is guarded or is not.
pub(super) fn needs_trailer(request: &Request, guarded: bool) -> bool {
    let acquire = matches!(request.op, Op::Acquire { .. });
    request.native && acquire && (guarded || request.keys.fence_ttl.is_some())
}

impl Inner {
    /// As the real link does: when the key of a native acquire ends, where the core does
    /// not know the node's clock; 0 where the key has its ttl from when it is made.
    pub(super) fn key_ends(&self, connection: u64, asked: Instant, request: &Request) -> u64 {
        let wire = &self.connections[connection as usize];
        let Op::Acquire { ttl, .. } = request.op else {
            return 0;
        };
        if !needs_trailer(request, wire.record.is_some()) || request.not_after != 0 {
            return request.not_after;
        }
        wire.told.map_or(0, |told| key_end_of(asked, told, ttl))
    }

    /// The trailer of a write leaves behind a vote; if it is lost, the vote is not.
    pub(super) fn put_trailer(&mut self, pair: usize, connection: u64, message: u64) {
        match self.forth(pair, connection) {
            Some(at) => self.push(
                at,
                Event::Trailer {
                    pair,
                    connection,
                    message,
                },
            ),
            None => {
                let open = self.pairs[pair].open.get(&message);
                let lock = open.map(|open| open.request.keys.lock.clone());
                if let Some(lock) = lock {
                    self.in_vain(&lock);
                }
            }
        }
    }

    /// A node carries out a native request; `None`: nothing is answered yet.
    pub(super) fn carry_out_native(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        request: &Request,
    ) -> Option<Answer> {
        let node = self.pairs[pair].node;
        if self.nodes[node].loading_until > self.time {
            return Some(Answer::timeless(not_ready("LOADING")));
        }
        if request.op == Op::Release {
            let deleted = self.delete(pair, message, request);
            return Some(Answer {
                said: if deleted {
                    Said::Reply(Reply::Released { held: true })
                } else {
                    Said::AskByScript
                },
                time: None,
            });
        }
        let guarded = self.connections[connection as usize].record.is_some();
        let voted = self.vote(pair, message, request, needs_trailer(request, guarded));
        if !voted.stored || !needs_trailer(request, guarded) {
            let Outcome::Reply(reply) = outcome(request, voted, None) else {
                unreachable!("only a trailer voids a vote");
            };
            if voted.stored {
                self.granted_natively(node, connection, request, self.time);
            }
            return Some(Answer::timeless(reply));
        }
        let ballot = Ballot {
            request: request.clone(),
            voted,
            at: self.time,
            read: None,
        };
        let wire = &mut self.connections[connection as usize];
        wire.ballots.insert(message, ballot);
        None
    }

    /// The commands of a native acquire.
    pub(super) fn vote(
        &mut self,
        pair: usize,
        message: u64,
        request: &Request,
        counts: bool,
    ) -> NativeReplies {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let seen = self.look_before(node, request, false);
        let views = self.views(node, request, seen.local);
        let state = &mut self.nodes[node];
        state.used = true;
        let voted = state.state.vote(request, seen.local);
        if !self.lines.is_empty() {
            self.look_at_lines(node);
        }
        self.note(|| Happened::Voted {
            node,
            message,
            client,
            asked: Asked::of(request),
            voted,
        });
        let stood = (None, views, seen.local);
        let served = || Served::Stored(voted);
        self.traces_served((pair, message), request, stood, served);
        self.judge_vote(node, request, &seen, voted, counts);
        if voted.stored && self.fails_over(node) {
            // The trailer may be read after the server has become a replica, and has no more
            // than its master has: the vote was given before.
            self.promised(node, 0, request, seen.local);
        }
        if voted.stored && self.outlasts(pair, message, request) {
            self.came_late(node, request);
        }
        voted
    }

    /// Whether a native vote ends later than its requester undoes it. Its end is a `TIME`
    /// that was guessed, by a clock that may have drifted apart since it was told. If the
    /// release does not come through until then, it ends by itself.
    fn outlasts(&self, pair: usize, message: u64, request: &Request) -> bool {
        let p = &self.pairs[pair];
        let Some(open) = p.open.get(&message).filter(|_| request.not_after != 0) else {
            return false;
        };
        let end = self.nodes[p.node]
            .clock
            .time(Instant(request.not_after * 1000));
        let undone = Duration::from_millis(self.admission.expected.max_ttl) + LONGER;
        let undone = undone + 2 * Duration::from_nanos(self.network.patience);
        end > self.clients[p.client].clock.time(open.ticket.sent + undone)
    }

    /// The command of a native release; whether there was anything to delete.
    pub(super) fn delete(&mut self, pair: usize, message: u64, request: &Request) -> bool {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let seen = self.look_before(node, request, false);
        let views = self.views(node, request, seen.local);
        let deleted = self.nodes[node].state.delete(request, seen.local);
        if !self.lines.is_empty() {
            self.look_at_lines(node);
        }
        let reply = Reply::Released { held: deleted };
        self.note(|| Happened::CarriedOut {
            node,
            message,
            client,
            asked: Asked::of(request),
            reply: Some(reply.clone()),
        });
        let stood = (None, views, seen.local);
        let served = || Served::Deleted(deleted);
        self.traces_served((pair, message), request, stood, served);
        self.judge_after(node, 0, request, &seen, Some(&reply));
        deleted
    }

    /// The end of a write reaches its node.
    pub(super) fn arrive_trailer(&mut self, pair: usize, connection: u64, message: u64) {
        let (node, now) = (self.pairs[pair].node, self.time);
        if self.nodes[node].paused_until > now {
            let waiting = Event::Trailer {
                pair,
                connection,
                message,
            };
            self.nodes[node].held_back.push(waiting);
            return;
        }
        let wire = &mut self.connections[connection as usize];
        let Some(ballot) = wire.ballots.remove(&message) else {
            return;
        };
        if self.nodes[node].down_until > now || wire.dead {
            wire.broken = true;
            return self.in_vain(&ballot.request.keys.lock);
        }
        let record = wire.record.clone();
        let answer = self.count_vote(pair, connection, message, &ballot, record);
        self.reply(pair, connection, message, answer, &ballot.request);
    }

    /// What the trailer makes of a vote.
    fn count_vote(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        ballot: &Ballot,
        record: Option<Arc<str>>,
    ) -> Answer {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let local = self.nodes[node].clock.local(self.time);
        if self.nodes[node].loading_until > self.time {
            return Answer::timeless(not_ready("LOADING"));
        }
        let trailer = self.nodes[node].state.trailer(record.as_deref(), local);
        let request = &ballot.request;
        let (voted, trailer) = match ballot.read {
            Some(early) => (self.vote(pair, message, request, true), early),
            None => (ballot.voted, trailer),
        };
        let came = outcome(request, voted, Some(trailer));
        self.note(|| Happened::Counted {
            node,
            message,
            client,
            asked: Asked::of(request),
            outcome: came.clone(),
        });
        let stood = (record.as_ref(), local);
        self.traces_counted((pair, message), request, stood, voted, &came);
        if matches!(came, Outcome::Reply(Reply::Granted { .. })) {
            self.granted_natively(node, connection, request, ballot.at);
        }
        Answer {
            said: match came {
                Outcome::Reply(reply) => Said::Reply(reply),
                Outcome::OtherRecord => Said::OtherRecord,
                Outcome::Quarantined => Said::AskByScript,
            },
            time: Some(MemoryNode::time(local)),
        }
    }

    /// A vote counts that a node gave at a time.
    pub(super) fn granted_natively(
        &mut self,
        node: usize,
        connection: u64,
        request: &Request,
        at: Time,
    ) {
        let local = self.nodes[node].clock.local(self.time);
        self.granted(node, request, local, at);
        let server = self.connections[connection as usize].server;
        self.promised(node, server, request, local);
    }
}

impl Answer {
    /// A reply that does not tell the node's `TIME`.
    pub(super) fn timeless(reply: Reply) -> Answer {
        Answer {
            said: Said::Reply(reply),
            time: None,
        }
    }
}

/// Has a request asked by script, if it was not: plain commands are never sent twice.
/// Returns whether something of it may stand, to no effect that counts.
pub(super) fn by_script(request: &mut Request) -> bool {
    let acquire = std::mem::take(&mut request.native) && request.op != Op::Release;
    if acquire {
        request.not_after = 0;
    }
    acquire
}
