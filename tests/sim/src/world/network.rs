//! The network: connections that keep their order, and what breaks them.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorlock::sim::admission::{Observation, StepWatch};
use quorlock::sim::{
    Cause, Fault, FaultKind, Instant, MemoryNode, Op, Reply, Request, RequestContext, Sink,
};

use super::events::{Answer, Event, Said};
use super::failover::News;
use super::messages::Subscription;
use super::natives::{Ballot, by_script, needs_trailer};
use super::{Inner, MS, Time};
use crate::history::{Asked, Happened};
use crate::trace::Served;

/// Nothing passes one way before a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) until: Time,
    /// Bytes are lost, and the connection breaks; else they come later.
    pub(super) lossy: bool,
}

/// What a request becomes that gets no answer. `sent`: it may have arrived.
pub(super) fn failed(sent: bool) -> Reply {
    Reply::Failed(Fault {
        kind: if sent {
            FaultKind::Timeout
        } else {
            FaultKind::Unreachable
        },
        text: "no answer".into(),
        sent,
        of_lock: false,
        cause: Cause::Other,
    })
}

/// Why a request was not sent.
pub(super) fn fault(kind: FaultKind, why: &str) -> Fault {
    Fault {
        kind,
        text: why.into(),
        sent: false,
        of_lock: false,
        cause: Cause::Other,
    }
}

/// The node answers, but cannot vote.
pub(super) fn not_ready(why: &str) -> Reply {
    Reply::Failed(Fault {
        kind: FaultKind::NotReady,
        text: why.into(),
        sent: true,
        of_lock: false,
        cause: Cause::Other,
    })
}

/// Whom to tell that a request failed, and how.
pub(super) type Told = (Arc<dyn Sink>, RequestContext, Reply);

/// Tells them; never while the world is borrowed.
pub(super) fn tell(told: impl IntoIterator<Item = Told>) {
    for (sink, ticket, reply) in told {
        sink.on_reply(ticket, reply, None);
    }
}

/// Stands for no connection: the request waits for one.
pub(super) const NOT_SENT: u64 = u64::MAX;

/// The connections between one client and one node.
pub(super) struct Pair {
    pub(super) client: usize,
    pub(super) node: usize,
    /// The connection that new requests go over, or will once it is ready.
    pub(super) current: Option<u64>,
    /// It is being made.
    pub(super) connecting: bool,
    /// The node left a request unanswered: until there is a new connection,
    /// requests fail at once.
    pub(super) silent: bool,
    /// The one in doubt; takes copies of releases.
    pub(super) old: Option<u64>,
    /// Requests that nobody has answered yet, by message.
    pub(super) open: BTreeMap<u64, Open>,
    pub(super) requests_cut: Cut,
    pub(super) replies_cut: Cut,
    /// When the connection was replaced last.
    pub(super) replaced_at: Time,
    /// When a request failed last, for want of an answer or a connection, or as
    /// the node cannot vote.
    pub(super) failed_at: Time,
    /// From when on its client may hold it for late: it had not answered by then an attempt
    /// that a quorum had voted for, and has not answered sooner since.
    pub(super) late_from: Option<Instant>,
    /// It will be looked at again.
    pub(super) retries: bool,
    /// New connections lead to another server until then.
    pub(super) astray_until: Time,
    /// The client's inbox, subscribed on the node.
    pub(super) subscription: Option<Subscription>,
    /// Why the last connection was not to be had.
    pub(super) fault: Option<Fault>,
    /// Of a node that fails over: which of its servers the client knows.
    pub(super) news: News,
    /// Whether the node's clock ends a quarantine too early, and has.
    pub(super) watch: StepWatch,
    pub(super) stepped: bool,
}

pub(super) struct Open {
    pub(super) request: Request,
    pub(super) ticket: RequestContext,
    /// Gone once it has been told.
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// A release is sent again until this true time.
    pub(super) give_up: Time,
    /// When it was sent, by the client's clock.
    pub(super) sent: Instant,
    /// The connection it went over last; a release is acknowledged on that
    /// one, behind all that it undoes.
    pub(super) connection: u64,
    /// It met another record than that of its connection, once.
    pub(super) readmitted: bool,
    /// A native acquire of it was carried out, to no effect that counts.
    pub(super) void: bool,
}

impl Open {
    /// Whether it may be written: a release always, anything else while its token lives.
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = |sink: &Arc<dyn Sink>| sink.wanted();
        self.request.op == Op::Release || self.sink.as_ref().is_some_and(wanted)
    }

    /// Has it asked by script from here on.
    pub(super) fn by_script(&mut self) {
        self.void |= by_script(&mut self.request);
    }

    /// What becomes of it without an answer: something of it may stand all the same.
    pub(super) fn fails(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Failed(fault) if self.void => Reply::Failed(Fault {
                sent: true,
                ..fault
            }),
            reply => reply,
        }
    }
}

#[derive(Default)]
pub(super) struct Connection {
    /// Takes no bytes any more, in either direction.
    pub(super) broken: bool,
    /// The client knows, and reads nothing from it.
    pub(super) reset: bool,
    /// So does the node.
    pub(super) dead: bool,
    pub(super) requests_until: Time,
    pub(super) replies_until: Time,
    /// What the node said: its `TIME` in µs at a moment of the client's clock, and
    /// when it was asked.
    pub(super) told: Option<(u64, Instant)>,
    pub(super) asked: Option<Instant>,
    /// What it shows of its set, and how often that was written.
    pub(super) look: Option<Observation>,
    pub(super) writes: u32,
    /// It waits for what other nodes show.
    pub(super) waits: bool,
    /// It leads to another server.
    pub(super) astray: bool,
    /// The node has subscribed the client's inbox for it.
    pub(super) subscribed: bool,
    /// Its node sees its end later, or has seen it.
    pub(super) hung_up: bool,
    /// The record that goes with each request, if restarts are guarded.
    pub(super) record: Option<Arc<str>>,
    /// Which server it leads to; and of a node that fails over, which of its two.
    pub(super) server: u64,
    pub(super) place: usize,
    /// Native votes whose trailers have yet to come, by message.
    pub(super) ballots: BTreeMap<u64, Ballot>,
}

impl Inner {
    /// One way between a client and its node.
    pub(super) fn way(&self, pair: usize) -> Time {
        if self.network.even {
            self.network.base * (101 + (37 * pair as u64) % 97) / 100
        } else {
            self.delay(self.pairs[pair].node)
        }
    }

    /// One way through the network.
    pub(super) fn delay(&self, node: usize) -> Time {
        let n = self.network;
        let mut delay = n.base + self.random.below(n.base + 1);
        if self.random.chance(n.slow) {
            // From a little to very long, evenly over the decades.
            delay += (n.tail as f64).powf(self.random.share()) as u64;
        }
        if self.nodes[node].slow_until > self.time {
            delay += self.random.below(n.tail / 4 + 1);
        }
        delay
    }

    /// When a message that leaves now arrives.
    fn arrival(&self, pair: usize) -> Time {
        let soon = self.time + self.way(pair);
        if self.random.chance(self.network.edge)
            && let Some(at) = self.aim()
        {
            return soon.max(at);
        }
        soon
    }

    /// When a message gets through that leaves now; `None` if it is lost.
    fn through(&mut self, pair: usize, cut: Cut) -> Option<Time> {
        let at = self.arrival(pair);
        if self.random.chance(self.network.cut) || cut.until > self.time && cut.lossy {
            return None;
        }
        Some(if cut.until > self.time {
            cut.until + self.way(pair)
        } else {
            at
        })
    }

    /// When what goes over a connection now reaches the node; `None` if it
    /// does not, nor what comes behind it.
    pub(super) fn forth(&mut self, pair: usize, connection: u64) -> Option<Time> {
        let at = self.through(pair, self.pairs[pair].requests_cut);
        let wire = &mut self.connections[connection as usize];
        let Some(at) = at else {
            wire.broken = true;
            return None;
        };
        let at = at.max(wire.requests_until);
        wire.requests_until = at;
        (!wire.broken).then_some(at)
    }

    /// The way back.
    pub(super) fn back(&mut self, pair: usize, connection: u64) -> Option<Time> {
        let at = self.through(pair, self.pairs[pair].replies_cut);
        let wire = &mut self.connections[connection as usize];
        let (Some(at), false) = (at, wire.broken) else {
            wire.broken = true;
            return None;
        };
        let at = wire.replies_until.max(at);
        wire.replies_until = at;
        Some(at)
    }

    /// Puts a request on a connection.
    pub(super) fn put(&mut self, pair: usize, connection: u64, message: u64, mut request: Request) {
        let server = self.connections[connection as usize].server;
        request.op = self.succeeds(pair, request.op).on(server);
        let client = &self.clients[self.pairs[pair].client];
        request.leaving = request.leaving.at(client.now(self.time));
        let open = self.pairs[pair].open.get_mut(&message);
        let (asked, deadline) = open.map_or((Instant::NEVER, Instant::NEVER), |open| {
            let ticket = &mut open.ticket;
            // As the real link does: it was told by the clock of another.
            if std::mem::replace(&mut ticket.server, server) != server {
                request.not_after = 0;
            }
            (ticket.sent, ticket.deadline)
        });
        self.traces_put(pair, connection, message, request.native);
        let Some(at) = self.forth(pair, connection) else {
            return self.in_vain(&request.keys.lock);
        };
        let wire = &self.connections[connection as usize];
        let plain = wire.record.is_none() && request.keys.fence_ttl.is_none();
        let trailer = needs_trailer(&request, wire.record.is_some());
        if plain {
            request.not_after = 0;
        } else if trailer {
            request.not_after = self.key_ends(connection, asked, &request);
        } else if request.not_after == 0 && request.op != Op::Release {
            // As the real link does: from the connection's set-up.
            let known = wire.told.map_or(0, |(time, then)| {
                let due = then.until(deadline) + asked.until(deadline) / 10;
                time + due.as_micros() as u64
            });
            request.not_after = known;
        }
        let sent = self.time;
        let node = self.pairs[pair].node;
        // Plain commands are never written twice.
        let twice = !request.native;
        if self.random.chance(self.network.twice) && twice {
            self.under_way(node, &request, 1);
            let request = Box::new(request.clone());
            self.push(
                at,
                Event::Request {
                    pair,
                    connection,
                    message: 0,
                    request,
                    sent,
                },
            );
        }
        self.under_way(node, &request, 1);
        let request = Box::new(request);
        self.push(
            at,
            Event::Request {
                pair,
                connection,
                message,
                request,
                sent,
            },
        );
        if trailer {
            self.put_trailer(pair, connection, message);
        }
    }

    /// Asks by script at once what plain commands have not decided.
    pub(super) fn ask_again(&mut self, pair: usize, message: u64) {
        let p = &mut self.pairs[pair];
        let up = p.current.filter(|_| !p.connecting);
        let Some(open) = p.open.get_mut(&message) else {
            return;
        };
        open.connection = up.unwrap_or(NOT_SENT);
        let request = open.request.clone();
        match up {
            Some(up) => self.put(pair, up, message, request),
            None if request.op == Op::Release => self.retry_later(pair),
            None => {}
        }
    }

    /// A request reaches its node.
    pub(super) fn arrive(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        request: Box<Request>,
        sent: Time,
    ) {
        let (node, now) = (self.pairs[pair].node, self.time);
        if self.nodes[node].paused_until > now {
            // Waits in the node's socket.
            let waiting = Event::Request {
                pair,
                connection,
                message,
                request,
                sent,
            };
            self.nodes[node].held_back.push(waiting);
            return;
        }
        self.under_way(node, &request, -1);
        if self.nodes[node].down_until > now || self.connections[connection as usize].dead {
            self.connections[connection as usize].broken = true;
            self.in_vain(&request.keys.lock);
            // The copy of a release behind a late request is lost: see below.
            if request.op == Op::Release && Some(connection) != self.pairs[pair].current {
                self.came_late(node, &request);
            }
            return;
        }
        let record = self.connections[connection as usize].record.clone();
        let answer = match request.native {
            _ if self.demoted(node) => Some(self.refuses(pair, message, &request)),
            true => self.carry_out_native(pair, connection, message, &request),
            false => Some(self.carry_out(pair, connection, message, &request, record)),
        };
        let pair_now = &self.pairs[pair];
        let wire = &self.connections[connection as usize];
        let given_up = Some(connection) != pair_now.old || wire.broken;
        let in_doubt = Some(connection) != pair_now.current && given_up;
        self.look_if_late(pair, connection, message, (&request, sent), in_doubt);
        if let Some(answer) = answer.filter(|_| message != 0) {
            self.reply(pair, connection, message, answer, &request);
        }
    }

    /// A node's answer to a request is on its way.
    pub(super) fn reply(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        answer: Answer,
        request: &Request,
    ) {
        if let Some(at) = self.back(pair, connection) {
            self.push(
                at,
                Event::Reply {
                    pair,
                    connection,
                    message,
                    answer,
                },
            );
        } else {
            self.in_vain(&request.keys.lock);
        }
    }

    /// A node carries a request out, and all that comes of it is judged. `record`:
    /// what the node must hold.
    pub(super) fn carry_out(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        request: &Request,
        record: Option<Arc<str>>,
    ) -> Answer {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let now = self.time;
        // Plain requests and releases are not told it.
        let told =
            request.op != Op::Release && (record.is_some() || request.keys.fence_ttl.is_some());
        let time = told.then(|| MemoryNode::time(self.nodes[node].clock.local(now)));
        let seen = self.look_before(node, request, record.is_some());
        let views = self.views(node, request, seen.local);
        // Another server, to which the address leads, has nothing to load.
        let astray = self.connections[connection as usize].astray;
        let loading = !astray && self.nodes[node].loading_until > now;
        let mut calls = Vec::new();
        let reply = if loading {
            Some(not_ready("LOADING"))
        } else {
            self.nodes[node].used = true;
            let state = &mut self.nodes[node].state;
            let (reply, messages) = state.execute(request, record.as_deref(), seen.local);
            if !self.lines.is_empty() {
                self.look_at_lines(node);
            }
            // In Redisson's layout nothing is reserved: all who wait hear of a release, and ask again.
            let turn = request.keys.field.is_none() && record.is_some();
            calls = self.traced_calls(&messages);
            self.publish(node, &request.keys.lock, messages, turn);
            reply.ok()
        };
        self.note(|| Happened::CarriedOut {
            node,
            message,
            client,
            asked: Asked::of(request),
            reply: reply.clone(),
        });
        let served = || Served::Script(reply.clone(), calls);
        let stood = (record.as_ref(), views, seen.local);
        self.traces_served((pair, message), request, stood, served);
        let server = self.connections[connection as usize].server;
        self.judge_after(node, server, request, &seen, reply.as_ref());
        if let Some(Reply::Granted { .. }) = reply {
            self.granted(node, request, seen.local, now);
            if matches!(request.op, Op::Acquire { home: true, .. }) {
                self.voted_at_home(client);
            }
        }
        let said = reply.map_or(Said::OtherRecord, Said::Reply);
        Answer { said, time }
    }

    /// A node has carried a request out that was sent at a time, over a connection
    /// that is `in_doubt` or is not: notes what that excuses.
    pub(super) fn look_if_late(
        &mut self,
        pair: usize,
        connection: u64,
        message: u64,
        (request, sent): (&Request, Time),
        in_doubt: bool,
    ) {
        let (node, now) = (self.pairs[pair].node, self.time);
        // See the oracle on L1: the node timeout, a tenth of it, and what is
        // not known of the node's clock.
        let client = self.pairs[pair].client;
        let unknown = MS + self.unknown_of_clock(client, node);
        let in_time = now <= sent + 3 * self.network.patience + unknown;
        // A client that was held up has read what told the clock late: it takes that to be
        // behind by as much.
        let awake_since = self.clients[client].awake_since;
        let may_misread = self.bytes.is_some() || self.fails_over(node);
        let misread = may_misread && sent < awake_since + 20 * self.network.patience;
        // What a native acquire makes ends by itself, whenever it is carried out.
        let native = request.native && request.op != Op::Release;
        let unknown = request.not_after == 0 || native || self.oracle.stepped_back > 0;
        let excused = in_time || misread && awake_since > 0 || unknown;
        // Without fences and guard nothing bounds when it is carried out: its
        // release may have been given up by then, and its key ends by itself.
        let release = request.op == Op::Release;
        let unbounded = !in_time && request.not_after == 0 && !release;
        // What the node itself holds is not released then.
        let astray = self.connections[connection as usize].astray && release;
        if unbounded || astray || in_doubt && excused {
            self.came_late(node, request);
        }
        if !release && !self.pairs[pair].open.contains_key(&message) {
            self.queued_late(node, request);
        }
    }

    /// What reaches a node over a connection; the server to which that leads
    /// takes the node's place meanwhile.
    pub(super) fn at_server(&mut self, pair: usize, connection: u64, act: impl FnOnce(&mut Inner)) {
        let node = self.pairs[pair].node;
        let astray = self.connections[connection as usize].astray;
        let place = self.connections[connection as usize].place;
        let other = place != self.nodes[node].place;
        let turn = |inner: &mut Inner| {
            let node = &mut inner.nodes[node];
            if other {
                node.turn();
            }
            if astray {
                std::mem::swap(&mut node.state, &mut node.other);
                std::mem::swap(&mut node.clock, &mut node.other_clock);
            }
        };
        turn(self);
        self.serving = connection;
        act(self);
        turn(self);
    }
}
