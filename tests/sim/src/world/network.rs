//! The network: connections that keep their order, and what breaks them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use quorlock::sim::{Fault, FaultKind, Instant, Link, Op, Reply, Request, Sink, Ticket};

use super::{Event, Inner, Life, RECONNECT, Time, World};

/// The connections between one client and one node.
pub(super) struct Pair {
    pub(super) client: usize,
    pub(super) node: usize,
    /// The connection that new requests go over.
    pub(super) current: u64,
    /// The one in doubt; takes copies of releases.
    pub(super) old: Option<u64>,
    /// Requests that nobody has answered yet, by message.
    pub(super) open: BTreeMap<u64, Open>,
    /// Nothing passes before this time.
    pub(super) cut_until: Time,
    /// When the connection was replaced last.
    pub(super) replaced_at: Time,
}

pub(super) struct Open {
    pub(super) request: Request,
    pub(super) ticket: Ticket,
    /// Gone once it has been told.
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// A release is sent again until this true time.
    pub(super) give_up: Time,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Connection {
    pub(super) broken: bool,
    pub(super) requests_until: Time,
    pub(super) replies_until: Time,
}

impl Inner {
    /// One way through the network.
    pub(super) fn delay(&self) -> Time {
        let n = self.network;
        let mut delay = n.base + self.random.below(n.base + 1);
        if self.random.chance(n.slow) {
            // From a little to very long, evenly over the decades.
            delay += (n.tail as f64).powf(self.random.share()) as u64;
        }
        delay
    }

    /// Puts a request on a connection.
    pub(super) fn put(&mut self, pair: usize, connection: u64, message: u64, request: Request) {
        let mut at = self.time + self.delay();
        let cut = self.random.chance(self.network.cut);
        let cut_until = self.pairs[pair].cut_until;
        let wire = &mut self.connections[connection as usize];
        if cut || cut_until > self.time {
            // The bytes are gone, and all that come behind them.
            wire.broken = true;
            return;
        }
        at = at.max(wire.requests_until);
        wire.requests_until = at;
        if wire.broken {
            return;
        }
        let request = Box::new(request);
        self.push(
            at,
            Event::Request {
                pair,
                connection,
                message,
                request,
            },
        );
    }

    /// A request reaches its node.
    pub(super) fn arrive(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        request: Box<Request>,
    ) {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let now = self.time;
        if self.nodes[node].paused_until > now {
            // Waits in the node's socket.
            let waiting = Event::Request {
                pair,
                connection,
                message,
                request,
            };
            self.nodes[node].held_back.push(waiting);
            return;
        }
        if self.nodes[node].down_until > now {
            self.connections[connection as usize].broken = true;
            return;
        }
        let local = self.nodes[node].clock.local(now);
        let before = self.nodes[node]
            .state
            .get(&request.key, local)
            .map(|(value, end)| (value.clone(), end));
        let reply = self.nodes[node].state.execute(&request, local);
        self.note(|| {
            let token = String::from_utf8_lossy(&request.value.0[..6]).into_owned();
            format!(
                "n{node} m{message} c{client} {:?} {token} -> {reply:?}",
                request.op
            )
        });
        self.check_theft(node, &request, before, local);
        let delay = self.delay();
        let lost = self.random.chance(self.network.cut) || self.pairs[pair].cut_until > now;
        let wire = &mut self.connections[connection as usize];
        if wire.broken || lost {
            wire.broken = true;
            return;
        }
        let at = wire.replies_until.max(now + delay);
        wire.replies_until = at;
        self.push(
            at,
            Event::Reply {
                pair,
                message,
                reply,
            },
        );
    }

    /// Nothing more is awaited of a pair's connection: a new one is made. What
    /// was sent may still arrive.
    pub(super) fn replace_connection(&mut self, pair: usize, message: u64) {
        let Some(open) = self.pairs[pair].open.get(&message) else {
            return;
        };
        let young = self.pairs[pair].replaced_at + RECONNECT;
        if self.time < young {
            // It was replaced a moment ago; this message went along.
            if open.request.op == Op::Release {
                self.push(young, Event::Deadline { pair, message });
            }
            return;
        }
        self.pairs[pair].replaced_at = self.time;
        let fresh = self.connections.len() as u64;
        let start = self.time + 2 * self.delay();
        self.connections.push(Connection {
            broken: false,
            requests_until: start,
            replies_until: start,
        });
        let p = &mut self.pairs[pair];
        p.old = Some(p.current);
        p.current = fresh;
        // Releases are sent again on the new connection, and new ones behind.
        let (now, mut again) = (self.time, Vec::new());
        p.open.retain(|message, open| {
            let release = open.request.op == Op::Release;
            if release && open.give_up > now {
                again.push((*message, open.request.clone()));
            }
            !release || open.give_up > now
        });
        for (waiting, request) in again {
            self.put(pair, fresh, waiting, request);
            if waiting == message {
                let at = self.time + RECONNECT;
                self.push(at, Event::Deadline { pair, message });
            }
        }
    }

    /// Whom to tell that a request was not answered in time.
    pub(super) fn timed_out(
        &mut self,
        pair: usize,
        message: u64,
    ) -> Option<(Arc<dyn Sink>, Ticket)> {
        let client = self.pairs[pair].client;
        let open = self.pairs[pair].open.get_mut(&message)?;
        let (sink, ticket) = (open.sink.take(), open.ticket);
        if open.request.op != Op::Release {
            self.pairs[pair].open.remove(&message);
        }
        self.note(|| format!("c{client} m{message} timed out"));
        Some((sink?, ticket))
    }
}

pub(super) struct SimLink {
    pub(super) world: Weak<World>,
    pub(super) pair: usize,
    pub(super) name: Arc<str>,
}

impl Link for SimLink {
    fn send(&self, request: Request, ticket: Ticket, sink: Arc<dyn Sink>, give_up: Instant) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        if !sink.wanted() {
            let fault = Fault {
                kind: FaultKind::Refused,
                text: "given up".into(),
                sent: false,
            };
            return sink.on_reply(ticket, Reply::Failed(fault));
        }
        let mut inner = world.inner();
        let pair = self.pair;
        let client = inner.pairs[pair].client;
        if inner.clients[client].crashed {
            return;
        }
        inner.messages += 1;
        let message = inner.messages;
        inner.note(|| {
            let token = String::from_utf8_lossy(&request.value.0[..6]).into_owned();
            format!(
                "c{client} -> n{} m{message} {:?} {token}",
                ticket.node, request.op
            )
        });
        inner.check_extend(client, &request);
        if matches!(request.op, Op::Acquire { .. }) {
            let token = String::from_utf8_lossy(&request.value.0).into_owned();
            let life = Life {
                task: inner.polled,
                client,
                dead_since: None,
            };
            inner.tokens.insert(token, life);
        }
        let clock = inner.clients[client].clock;
        let open = Open {
            request: request.clone(),
            ticket,
            sink: Some(sink),
            give_up: clock.time(give_up),
        };
        inner.pairs[pair].open.insert(message, open);
        inner.push(
            clock.time(ticket.deadline),
            Event::Deadline { pair, message },
        );
        if let (Op::Release, Some(old)) = (request.op, inner.pairs[pair].old) {
            inner.put(pair, old, message, request.clone());
        }
        let current = inner.pairs[pair].current;
        inner.put(pair, current, message, request);
    }

    fn shown(&self) -> Arc<str> {
        self.name.clone()
    }

    fn close(&self) {}
}
