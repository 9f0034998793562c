//! What comes back over a connection: each reply is that of the oldest request, and may be one of
//! several that this has.

use std::collections::VecDeque;

use redis::Value as Resp;

use super::{InFlight, PendingReply, REMEMBERED, counted_on};
use crate::clock::Instant;
use crate::hash::{HashMap, fnv1a};
use crate::lean::trim;
use crate::node::admission::Info;
use crate::node::native::outcome;
use crate::node::redis::native;
use crate::node::redis::outbox::Item;
use crate::node::redis::replies::{self, RequestOutcome};
use crate::node::{Op, Reply, TimeReading};

impl InFlight {
    /// A push has said that a channel is heard, or is no more.
    pub(super) fn take_listening(&mut self) {
        if let Some(PendingReply::Listen) = self.places.front() {
            self.places.pop_front();
        }
    }

    /// Takes the server's `TIME` from the reply to a request.
    pub(crate) fn told(&mut self, item: &Item, reading: TimeReading) {
        if item.ticket.server == self.server {
            let TimeReading { time, at } = reading;
            self.clock.observe(item.written, at, time, self.drift);
        }
    }

    /// Takes a reply to the oldest request; appends its outcomes to `done`. Returns false if no
    /// request awaits a reply.
    pub(crate) fn take_reply(
        &mut self,
        reply: Resp,
        done: &mut VecDeque<(Box<Item>, RequestOutcome)>,
    ) -> bool {
        let before = done.len();
        let waited = matches!(self.places.front(), Some(PendingReply::Wait));
        let asked = self.read(reply, done);
        if self.evicts {
            // A server that drops keys gives no votes from here on: the client asks for them again
            // where the server is admitted anew, or refused.
            let votes = |item: &Item| !matches!(item.request.op, Op::Release | Op::Inspect);
            let since = done.range_mut(before..).filter(|(item, _)| votes(item));
            since.for_each(|(_, outcome)| *outcome = RequestOutcome::OtherRecord);
        }
        if let Some(replicas) = self.replicas.as_mut().filter(|_| !waited) {
            replicas.park(done, before);
        }
        asked
    }

    /// Takes the reply, whatever replicas have.
    fn read(&mut self, reply: Resp, done: &mut VecDeque<(Box<Item>, RequestOutcome)>) -> bool {
        self.heard = true;
        self.replies += 1;
        let Some(place) = self.places.front_mut() else {
            return false;
        };
        match place {
            PendingReply::Script(item) => {
                if let Some(item) = item.take() {
                    let said = replies::outcome(item.request.op, &reply);
                    let granted = matches!(said, RequestOutcome::Reply(Reply::Granted { .. }, _));
                    if granted {
                        warm_up(&mut self.warm, &item);
                    }
                    if granted {
                        self.hush(&item.request);
                    }
                    done.push_back((item, said));
                }
            }
            PendingReply::Delete(item) => {
                done.extend(item.take().map(|item| (item, deleted(Some(&reply)))));
            }
            &mut PendingReply::Deletes(many) => {
                self.lean_text |= replies::is_forgotten(&reply);
                let parts = match &reply {
                    Resp::Array(parts) => &parts[..],
                    _ => &[],
                };
                let items = self.places.drain(1..=many).enumerate();
                done.extend(items.filter_map(|(at, place)| match place {
                    PendingReply::Delete(item) => Some((item?, deleted(parts.get(at)))),
                    _ => None,
                }));
            }
            PendingReply::Acquire(item, left, replies) => {
                replies.take(reply);
                *left -= 1;
                if *left > 0 {
                    return true;
                }
                let (item, replies) = (item.take(), std::mem::take(replies));
                if let Some(item) = item.as_ref().filter(|_| replies.told) {
                    warm_up(&mut self.warm, item);
                }
                if let Some(failed) = &replies.failed {
                    done.extend(item.map(|item| {
                        let said = replies::outcome(item.request.op, failed);
                        (item, said)
                    }));
                } else if replies.voted.stored
                    && item
                        .as_ref()
                        .is_none_or(|i| native::needs_trailer(&i.request, self.guard.as_ref()))
                {
                    self.voted.push_back((item, replies));
                } else {
                    done.extend(item.map(|item| {
                        let said = outcome(&item.request, replies.voted, None);
                        (item, replies::of_native(said, None))
                    }));
                }
            }
            PendingReply::Trailer(reading) => {
                reading.take(&reply, self.guard.as_ref());
                if reading.left > 0 {
                    return true;
                }
                for (item, replies) in self.voted.drain(..) {
                    let Some(item) = item else { continue };
                    let said = match &reading.failed {
                        Some(fault) => RequestOutcome::Reply(Reply::Failed(fault.clone()), None),
                        None => {
                            let said = outcome(&item.request, replies.voted, Some(reading.trailer));
                            replies::of_native(said, Some(reading.trailer.time))
                        }
                    };
                    done.push_back((item, said));
                }
                trim(&mut self.voted);
            }
            PendingReply::Memory => match &reply {
                // The log has reported on connect that the user may not ask.
                Resp::ServerError(_) => self.look_at = Instant::FAR,
                said => {
                    let info = Info::parse(&replies::text(said));
                    self.evicts = info.evicts();
                    self.memory = Some(info.memory);
                }
            },
            PendingReply::Listen => {
                // A client that may not subscribe asks from time to time.
                self.listens = false;
                self.places.pop_front();
                // A push would have come before this reply: see `take_listening`.
                return matches!(reply, Resp::ServerError(_));
            }
            PendingReply::Wait => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.take(&reply, done);
                }
            }
        }
        self.places.pop_front();
        trim(&mut self.places);
        true
    }
}

/// What is said of a native release.
fn deleted(reply: Option<&Resp>) -> RequestOutcome {
    match reply {
        Some(Resp::Int(1)) => RequestOutcome::Reply(Reply::Released { held: true }, None),
        _ => RequestOutcome::AskByScript,
    }
}

/// Remembers that the expiry of the counter was set with `item`, where it was.
fn warm_up(warm: &mut HashMap<u64, Instant>, item: &Item) {
    let Some((counter, life)) = counted_on(item).filter(|_| item.cold) else {
        return;
    };
    if warm.len() >= REMEMBERED {
        warm.clear();
    }
    warm.insert(fnv1a(counter), item.written + life / 4);
}
