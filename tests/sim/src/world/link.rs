//! A client's link to a node: what its core asks, and what it is told.

use std::cell::RefMut;
use std::sync::Arc;

use quorlock::sim::{
    Fault, Instant, Link, Op, Reply, Request, RequestContext, Sink, Subscriber, TimeReading, Wakers,
};

use super::events::{Answer, Event, Said};
use super::messages::Subscription;
use super::network::{NOT_SENT, Open, failed, not_ready, tell};
use super::{Inner, World};
use crate::history::{Asked, Happened};
use crate::who::{Who, act};

/// No client needs to send more requests in one moment.
const AT_ONCE_BOUND: u32 = 5_000;

impl World {
    /// An answer has reached its client.
    pub(super) fn replied(
        &self,
        mut inner: RefMut<'_, Inner>,
        pair: usize,
        connection: u64,
        message: u64,
        answer: Answer,
    ) {
        let client = inner.pairs[pair].client;
        let open = &mut inner.pairs[pair].open;
        let counts =
            |open: &Open| open.request.op != Op::Release || (open.connection == connection);
        let Some(waiting) = open.get_mut(&message).filter(|open| counts(open)) else {
            return;
        };
        match answer.said {
            Said::OtherRecord if !waiting.readmitted => {
                // It is sent once more, behind what admits the node anew.
                waiting.readmitted = true;
                waiting.connection = NOT_SENT;
                waiting.by_script();
                return inner.readmit(pair);
            }
            // Unless its token is dead by now: its release has gone ahead of it.
            Said::AskByScript if waiting.request.native && waiting.is_wanted() => {
                waiting.by_script();
                return inner.ask_again(pair, message);
            }
            // Its release goes again, to whatever its address leads to now.
            Said::Demoted if waiting.request.op == Op::Release => {
                waiting.connection = NOT_SENT;
                waiting.by_script();
                inner.retry_later(pair);
                return inner.readmit_from(pair, connection);
            }
            _ => {}
        }
        let demoted = matches!(answer.said, Said::Demoted);
        let Some(mut open) = open.remove(&message) else {
            return;
        };
        let reply = match answer.said {
            Said::Reply(reply) => reply,
            Said::AskByScript if open.request.native => {
                open.by_script();
                open.fails(Reply::Failed(Fault::unwanted()))
            }
            Said::OtherRecord => not_ready("its record has changed twice"),
            Said::AskByScript => not_ready("asked by script already"),
            Said::Demoted => open.fails(not_ready("READONLY")),
        };
        if demoted {
            inner.readmit_from(pair, connection);
        }
        let reply = match answer.time {
            Some(time) => inner.watch_clock(pair, open.ticket, time, reply),
            None => reply,
        };
        let reply = inner.worth(pair, connection, &open.request, reply);
        if matches!(reply, Reply::Quarantined { .. } | Reply::Failed(_)) {
            inner.pairs[pair].failed_at = inner.time.max(1);
        }
        let node = inner.pairs[pair].node;
        if let Some(time) = answer.time {
            inner.told_time(client, open.ticket, time);
        }
        inner.note(|| Happened::Answered {
            client,
            node,
            message,
            token: Asked::of(&open.request).token,
            reply: reply.clone(),
        });
        if open.request.op == Op::Release {
            inner.under_way(node, &open.request, -1);
            inner.leaves_line(node, &open.request, false);
        }
        inner.traces_heard((pair, connection, message), &open, &reply, answer.time);
        inner.confirm(&open, &reply);
        let Some(sink) = open.sink.take() else { return };
        let before = inner.before(&open.request);
        let at = inner.clients[client].now(inner.time);
        drop(inner);
        let time = answer.time.map(|time| TimeReading { time, at });
        sink.on_reply(open.ticket, reply, time);
        if let Some(before) = before {
            self.inner().after(before);
        }
    }
}

impl Inner {
    /// A client asks a node: enters that into the books. Returns the number of the
    /// request; `None`: nothing leaves that client any more.
    pub(super) fn asks(&mut self, pair: usize, request: &Request) -> Option<u64> {
        let (client, node) = (self.pairs[pair].client, self.pairs[pair].node);
        // What goes round in circles without a pause stops once that was seen.
        if self.clients[client].crashed || self.violation.is_some() {
            return None;
        }
        self.messages += 1;
        self.at_once += 1;
        if self.at_once > AT_ONCE_BOUND {
            self.violated(format!("L5 c{client} asks without a pause"));
        }
        let message = self.messages;
        self.note(|| Happened::Asks {
            client,
            node,
            message,
            asked: Asked::of(request),
        });
        self.asked(client, request);
        self.asks_for_word(pair, request);
        if let Some(waiter) = &request.waiter {
            self.clients[client].waiter = waiter.number;
            if !self.lines.is_empty() && request.op != Op::Release {
                self.waits_with(client, waiter.number, request);
            }
        }
        if request.op == Op::Release {
            self.under_way(node, request, 1);
            self.leaves_line(node, request, true);
        }
        Some(message)
    }
}

pub(super) struct SimLink {
    pub(super) world: Arc<World>,
    pub(super) pair: usize,
    pub(super) name: Arc<str>,
    pub(super) inbox: Arc<[u8]>,
}

impl Link for SimLink {
    // Nobody is to be woken for it: the world goes on by itself.
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        if !sink.wanted() {
            sink.on_reply(ticket, Reply::Failed(Fault::unwanted()), None);
            return None;
        }
        let mut inner = self.world.inner();
        let pair = self.pair;
        let client = inner.pairs[pair].client;
        let message = inner.asks(pair, &request)?;
        inner.traces_asked((pair, message), &request, ticket);
        let _acting = act(Who::AtClient(inner.wire(pair)));
        let release = request.op == Op::Release;
        let refused = inner.random.chance(inner.network.refuse);
        let node = &inner.nodes[inner.pairs[pair].node];
        let down = node.down_until > inner.time && inner.random.chance(50);
        let p = &inner.pairs[pair];
        // A node that could not be reached is left alone for a while.
        let pause = inner.network.reconnect();
        let alone = p.current.is_none() && p.replaced_at > 0 && inner.time < p.replaced_at + pause;
        if !release && (down || refused || alone || p.connecting && p.silent) {
            // There is no connection, and the client knows.
            inner.pairs[pair].failed_at = inner.time.max(1);
            let why = inner.pairs[pair].fault.clone().filter(|_| alone);
            drop(inner);
            let reply = why.map_or_else(|| failed(false), Reply::Failed);
            tell([(sink, ticket, reply)]);
            return None;
        }
        if p.current.is_none() && !alone {
            inner.new_connection(pair);
        }
        let clock = inner.clients[client].clock;
        let p = &inner.pairs[pair];
        let up = p.current.filter(|_| !p.connecting);
        let old = p.old;
        let open = Open {
            request: request.clone(),
            ticket,
            sink: Some(sink),
            give_up: clock.time(give_up),
            sent: inner.clients[client].now(inner.time),
            connection: up.unwrap_or(NOT_SENT),
            readmitted: false,
            void: false,
        };
        inner.pairs[pair].open.insert(message, open);
        let deadline = clock.time(ticket.deadline);
        inner.due(deadline);
        inner.push(deadline, Event::Deadline { pair, message });
        if let (true, Some(old)) = (release, old) {
            let mut copy = request.clone();
            copy.native = false;
            inner.put(pair, old, message, copy);
        }
        if let Some(up) = up {
            inner.put(pair, up, message, request);
        } else if release {
            inner.retry_later(pair);
        }
        None
    }

    fn shown(&self) -> Arc<str> {
        self.name.clone()
    }

    fn is_ours(&self) -> bool {
        let inner = self.world.inner();
        let nodes = inner.nodes.len();
        inner.surveys[self.pair / nodes].is_ours(self.pair % nodes)
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let mut inner = self.world.inner();
        inner.pairs[self.pair].subscription =
            Some(Subscription::new(self.inbox.clone(), subscriber));
    }

    fn close(&self) {}
}
