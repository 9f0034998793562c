//! How connections come and go: made anew when they are in doubt, admitted,
//! reset; and what becomes of the requests that went over them.

use std::sync::Arc;

use quorlock::sim::{Fault, Op, Reply, Value};

use super::admission::Hello;
use super::events::Event;
use super::messages::Subscription;
use super::network::{Connection, NOT_SENT, Open, Told, failed};
use super::oracle::of_one_token;
use super::{FaultEvent, Inner, Time};
use crate::history::Happened;
use crate::trace::Step;

impl Inner {
    /// How long it may take until a connection that breaks now is there again.
    pub(super) fn settles(&self, pair: usize) -> Time {
        self.network.settles() + self.left_alone(pair)
    }

    /// A request was not answered in time: its connection is in doubt, and a
    /// new one is made. What was sent may still arrive.
    pub(super) fn replace_connection(&mut self, pair: usize, message: u64) {
        let p = &mut self.pairs[pair];
        let Some(open) = p.open.get(&message) else {
            return;
        };
        // If it was replaced a moment ago, this message went along.
        let long_ago = self.time >= p.replaced_at + self.network.reconnect();
        if open.connection != NOT_SENT && !p.connecting && long_ago {
            p.silent = true;
            self.new_connection(pair);
        }
        self.retry_later(pair);
    }

    /// The node holds another record than its connection was admitted with.
    pub(super) fn readmit(&mut self, pair: usize) {
        if !self.pairs[pair].connecting {
            self.new_connection(pair);
        }
    }

    /// Looks at releases without acknowledgement again, after a while.
    pub(super) fn retry_later(&mut self, pair: usize) {
        let p = &mut self.pairs[pair];
        if !p.retries && p.open.values().any(|o| o.request.op == Op::Release) {
            p.retries = true;
            let at = self.time + self.network.reconnect();
            self.push(at, Event::Retry(pair));
        }
    }

    /// Looks at a pair again. `awaited`: a connection is wanted in any case.
    pub(super) fn retry(&mut self, pair: usize, awaited: bool) {
        let p = &mut self.pairs[pair];
        p.retries = false;
        let missed = p.current.is_none() && (awaited || !p.open.is_empty());
        let late = p.open.values().any(|o| o.sink.is_none()) || missed;
        let long_ago = self.time >= p.replaced_at + self.network.reconnect();
        if late && long_ago && !p.connecting {
            self.new_connection(pair);
        }
        if awaited {
            self.missed(pair);
        }
        self.retry_later(pair);
    }

    /// Looks again, after a while, whether messages are awaited for whose sake
    /// a connection is made.
    fn missed(&mut self, pair: usize) {
        let p = &mut self.pairs[pair];
        let lost = p.subscription.as_ref().is_some_and(Subscription::is_lost);
        if lost && p.current.is_none() && !p.retries {
            p.retries = true;
            let at = self.time + self.network.reconnect();
            self.push(at, Event::Retry(pair));
        }
    }

    /// Begins to make a new connection; the one before it is in doubt.
    pub(super) fn new_connection(&mut self, pair: usize) {
        let node = self.pairs[pair].node;
        let now = self.time;
        self.pairs[pair].replaced_at = now;
        let fresh = self.connections.len() as u64;
        let start = now + 2 * self.way(pair);
        let asked = self.clients[self.pairs[pair].client].now(now);
        let astray = now < self.pairs[pair].astray_until;
        let (place, server) = self.named(pair);
        self.connections.push(Connection {
            asked: Some(asked),
            requests_until: start,
            replies_until: start,
            astray,
            place,
            server: if astray { Time::MAX } else { server },
            ..Connection::default()
        });
        self.in_doubt(pair);
        let p = &mut self.pairs[pair];
        p.current = Some(fresh);
        p.connecting = true;
        let mut over = Vec::new();
        p.open.retain(|_, open| {
            let told = open.sink.is_none();
            let given_up = open.request.op == Op::Release && told && open.give_up <= now;
            if given_up {
                over.push(open.request.clone());
            }
            !given_up
        });
        for request in over {
            self.under_way(node, &request, -1);
        }
        self.say(pair, fresh, Hello::Ask);
        let vain = now + self.network.connect();
        self.push(
            vain,
            Event::Connecting {
                pair,
                connection: fresh,
            },
        );
    }

    /// The connection in use goes on as the one in doubt.
    fn in_doubt(&mut self, pair: usize) {
        let p = &mut self.pairs[pair];
        let (Some(before), false) = (p.current, p.connecting) else {
            return;
        };
        let deletes: Vec<_> = p
            .open
            .iter()
            .filter(|(_, o)| o.request.op == Op::Release && o.request.native)
            .filter(|(_, o)| o.connection == before)
            .map(|(message, o)| (*message, o.request.clone()))
            .collect();
        if let Some(old) = p.old.replace(before) {
            self.hang_up(pair, old);
        }
        self.traces_doubt(pair, before);
        for (message, mut copy) in deletes {
            copy.native = false;
            self.put(pair, before, message, copy);
        }
        self.hears(pair, false);
    }

    /// The node is admitted with this record: what waits goes out, and
    /// releases that the connection before did not acknowledge go out again.
    /// Returns whom to tell that their request is not wanted any more.
    pub(super) fn ready(&mut self, pair: usize, connection: u64, record: Arc<str>) -> Vec<Told> {
        let client = self.pairs[pair].client;
        let guard = self.surveys[client].expected().guard;
        let told = self.admitted(pair, connection, guard.then_some(record));
        let wire = &self.connections[connection as usize];
        let (server, asked) = (wire.server, wire.asked);
        let p = &mut self.pairs[pair];
        if let (Some((time, at)), Some(asked)) = (wire.told, asked)
            && p.watch.admitted(server, asked, at, time)
            && guard
        {
            p.stepped = true;
            self.readmit(pair);
        }
        told
    }

    fn admitted(&mut self, pair: usize, connection: u64, record: Option<Arc<str>>) -> Vec<Told> {
        self.arrives_at(pair, connection);
        self.traces(|inner| Step::Ready {
            between: inner.between(pair, connection),
            record: record.clone(),
        });
        self.connections[connection as usize].record = record;
        if let Some(old) = self.pairs[pair].old {
            self.hang_up(pair, old);
        }
        let p = &mut self.pairs[pair];
        (p.connecting, p.silent, p.fault) = (false, false, None);
        let mut told = Vec::new();
        let mut out = Vec::new();
        // As the real link does, which schedules with faults have yet to learn: what
        // its release waits behind is written, though nobody wants it.
        let waits = |open: &&Open| open.request.op == Op::Release && open.connection == NOT_SENT;
        let undone: Vec<_> = if self.network.even {
            p.open
                .values()
                .filter(waits)
                .map(|o| o.request.value.clone())
                .collect()
        } else {
            Vec::new()
        };
        let is_undone = |value: &Value| undone.iter().any(|one| of_one_token(one, value));
        p.open.retain(|message, open| {
            if open.request.op == Op::Release {
                let waited = open.connection == NOT_SENT;
                open.connection = connection;
                if !waited {
                    open.by_script();
                }
                out.push((*message, open.request.clone()));
                return true;
            }
            if open.connection != NOT_SENT {
                return true;
            }
            match open.sink.take() {
                Some(sink) if !sink.wanted() && !is_undone(&open.request.value) => {
                    let reply = open.fails(Reply::Failed(Fault::unwanted()));
                    told.push((sink, open.ticket, reply));
                    return false;
                }
                sink => open.sink = sink,
            }
            open.connection = connection;
            out.push((*message, open.request.clone()));
            true
        });
        for (message, request) in out {
            self.put(pair, connection, message, request);
        }
        told
    }

    /// The connection is not to be had.
    pub(super) fn connecting_in_vain(&mut self, pair: usize, connection: u64) -> Vec<Told> {
        let p = &mut self.pairs[pair];
        if p.current != Some(connection) || !p.connecting {
            return Vec::new();
        }
        (p.current, p.connecting) = (None, false);
        p.replaced_at = self.time;
        let client = p.client;
        let wire = &mut self.connections[connection as usize];
        (wire.reset, wire.waits) = (true, false);
        let unseen = wire.look.is_none();
        self.hang_up(pair, connection);
        let mut told = self.fail_open(pair, false);
        if unseen {
            let place = pair % self.nodes.len();
            self.surveys[client].absent(place);
            self.pairs[pair].fault = None;
            told.extend(self.look_again(client));
        }
        self.retry_later(pair);
        self.missed(pair);
        told
    }

    /// Requests that were sent, or those that wait, fail; releases stay.
    fn fail_open(&mut self, pair: usize, sent: bool) -> Vec<Told> {
        let mut told = Vec::new();
        let why = self.pairs[pair].fault.clone().filter(|_| !sent);
        self.pairs[pair].open.retain(|_, open| {
            let release = open.request.op == Op::Release;
            let fails = !release && (open.connection != NOT_SENT) == sent;
            if fails && let Some(sink) = open.sink.take() {
                let reply = why.clone().map_or_else(|| failed(sent), Reply::Failed);
                told.push((sink, open.ticket, open.fails(reply)));
            }
            !fails
        });
        if !told.is_empty() {
            self.pairs[pair].failed_at = self.time;
        }
        told
    }

    /// The connection breaks, and the client sees it; `awaited`: and wants
    /// another in any case. Returns whom to tell.
    pub(super) fn reset(&mut self, client: usize, node: usize, awaited: bool) -> Vec<Told> {
        let (nodes, now) = (self.nodes.len(), self.time);
        self.faults += 1;
        let server = self.pairs[client * nodes + node].node;
        self.note(|| Happened::Reset {
            client,
            place: node,
            node: server,
        });
        let state = &mut self.clients[client];
        if state.crashed {
            return Vec::new();
        }
        if state.paused_until > now {
            let again = Event::Fault(FaultEvent::Reset(client, node));
            state.held_back.push(again);
            return Vec::new();
        }
        let pair = client * nodes + node;
        let Some(current) = self.pairs[pair].current else {
            return Vec::new();
        };
        let settled = now + self.settles(pair);
        for line in &mut self.lines {
            line.breaks(settled, now);
        }
        let wire = &mut self.connections[current as usize];
        (wire.broken, wire.reset) = (true, true);
        if self.pairs[pair].connecting {
            return self.connecting_in_vain(pair, current);
        }
        let told = self.fail_open(pair, true);
        if awaited || !self.pairs[pair].open.is_empty() {
            self.new_connection(pair);
        } else {
            self.in_doubt(pair);
            self.pairs[pair].current = None;
            self.hang_up(pair, current);
        }
        self.retry_later(pair);
        told
    }

    /// Whom to tell that a request was not answered in time.
    pub(super) fn timed_out(&mut self, pair: usize, message: u64) -> Option<Told> {
        let client = self.pairs[pair].client;
        let open = self.pairs[pair].open.get_mut(&message)?;
        let (sink, ticket) = (open.sink.take(), open.ticket);
        let release = open.request.op == Op::Release;
        let sent = release || open.connection != NOT_SENT;
        let reply = open.fails(failed(sent));
        if !release {
            self.pairs[pair].open.remove(&message);
            self.pairs[pair].failed_at = self.time;
        }
        self.note(|| Happened::TimedOut { client, message });
        Some((sink?, ticket, reply))
    }
}
