//! What the [trace](crate::trace) of a schedule is told by its world.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::admission::Admission;
use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{Instant, Message, Reply, Request, RequestContext};
use quorlock::{ErrorKind, Lease, LossReason};

use super::faults::Node;
use super::network::Open;
use super::oracle::Watch;
use super::{Inner, Time, World};
use crate::trace::{Between, Hold, Served, Shown, Step, Trace, Traced, View, Views};

impl World {
    /// From here on the trace is kept. `unseen`: see [`Step::Client`].
    pub fn keep_trace(&self, unseen: bool) {
        let mut inner = self.inner();
        inner.trace = Some(Trace::default());
        for client in 0..inner.clients.len() {
            let expected = inner.surveys[client].expected();
            let clock = inner.clients[client].clock;
            let step = Step::Client {
                client,
                nodes: expected.nodes,
                guard: expected.guard,
                max_ttl: Duration::from_millis(expected.max_ttl),
                failing_over: inner.nodes.iter().any(|node| node.standby.is_some()),
                unseen,
                offset: clock.offset,
                rate: clock.rate,
            };
            inner.traces(|_| step);
        }
    }

    /// The trace, if it was kept.
    pub fn trace(&self) -> Option<Trace> {
        let mut inner = self.inner();
        inner.traces(|_| Step::Ends);
        inner.trace.take()
    }

    /// What a user was told of an extension, or of what it wants to be left.
    pub fn traces_extended(
        &self,
        (index, lease): (usize, &Lease),
        asked: Instant,
        (ttl, ensures, gave_back): (Duration, bool, bool),
        outcome: Result<(), ErrorKind>,
    ) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        inner.traces(|inner| {
            let watch = &inner.oracle.watches[index];
            Step::Extended {
                hold: inner.hold_of(index),
                asked,
                now: inner.clients[watch.client].now(inner.time),
                ttl,
                says: lease.says_until(),
                ensures,
                gave_back,
                outcome,
            }
        });
    }

    /// What became of it that a user who shares the lock wants it alone.
    pub fn traces_upgrade(&self, lease: &Lease, refused: bool) {
        let held = lease.is_held();
        let step = |hold| Step::Upgrades {
            hold,
            refused,
            held,
        };
        self.inner().traces_of(lease, step);
    }

    /// A user waits for its release; `told`: it does so no more.
    pub fn traces_awaited(&self, index: usize, told: bool) {
        self.inner().traces(|inner| {
            let hold = inner.hold_of(index);
            if told {
                Step::Told { hold }
            } else {
                Step::Awaits { hold }
            }
        });
    }

    /// A client looks whether locks are to be had.
    pub fn traces_probing(&self, client: usize) {
        self.inner().traces(|_| Step::Probes { client });
    }

    /// A user wants a lock to be taken away.
    pub fn traces_forcing(&self, client: usize, lock: &[u8]) {
        let lock = lock.into();
        self.inner().traces(|_| Step::Forces { client, lock });
    }

    /// What a user was told of a lock that is to be taken away.
    pub fn traces_forced(&self, client: usize, lock: &[u8], done: bool) {
        let lock = lock.into();
        let step = Step::Forced { client, lock, done };
        self.inner().traces(|_| step);
    }

    /// A user was told that its release is done.
    pub fn traces_told(&self, lease: &Lease) {
        self.inner().traces_released(lease, true);
    }
}

impl Inner {
    /// Adds a step, where a trace is kept.
    pub(super) fn traces(&mut self, step: impl FnOnce(&Inner) -> Step) {
        if self.trace.is_none() {
            return;
        }
        let (at, step) = (self.time, step(self));
        if let Some(trace) = &mut self.trace {
            trace.0.push(Traced { at, step });
        }
    }

    /// The lease at that place.
    pub(super) fn hold_of(&self, index: usize) -> Hold {
        let watch: &Watch = &self.oracle.watches[index];
        Hold {
            client: watch.client,
            index,
            token: watch.hold.token().as_bytes().to_vec(),
            number: watch.lease,
        }
    }

    /// Between whom something goes over a connection.
    pub(super) fn between(&self, pair: usize, connection: u64) -> Between {
        let wire = &self.connections[connection as usize];
        let node = self.pairs[pair].node;
        let (which, run) = if wire.astray {
            (2, self.pairs[pair].astray_until)
        } else {
            (wire.place, self.nodes[node].promotions)
        };
        Between {
            client: self.pairs[pair].client,
            place: pair % self.nodes.len(),
            node,
            server: (which, run),
            known_as: wire.server,
            connection,
        }
    }

    /// A client asks.
    pub(super) fn traces_asked(
        &mut self,
        (pair, message): (usize, u64),
        request: &Request,
        ticket: RequestContext,
    ) {
        self.traces(|inner| {
            let p = &inner.pairs[pair];
            let watch = inner.oracle.watch_of(request);
            Step::Asks {
                client: p.client,
                place: pair % inner.nodes.len(),
                node: p.node,
                message,
                now: inner.clients[p.client].now(inner.time),
                request: Box::new(request.clone()),
                ticket,
                drift: inner.clients[p.client].drift,
                lease: watch.map(Watch::end),
            }
        });
    }

    /// A link writes a request to a connection.
    pub(super) fn traces_put(&mut self, pair: usize, connection: u64, message: u64, native: bool) {
        self.traces(|inner| Step::Puts {
            client: inner.pairs[pair].client,
            place: pair % inner.nodes.len(),
            connection,
            message,
            native,
        });
    }

    /// The connection in use is in doubt.
    pub(super) fn traces_doubt(&mut self, pair: usize, connection: u64) {
        self.traces(|inner| Step::Doubts {
            client: inner.pairs[pair].client,
            place: pair % inner.nodes.len(),
            connection,
        });
    }

    /// A message reaches a client.
    pub(super) fn traces_called(&mut self, pair: usize, number: u64) {
        self.traces(|inner| Step::Calls {
            client: inner.pairs[pair].client,
            place: pair % inner.nodes.len(),
            number,
        });
    }

    /// An inbox is subscribed on a node.
    pub(super) fn traces_subscribed(&mut self, pair: usize) {
        self.traces(|inner| Step::Subscribes {
            client: inner.pairs[pair].client,
            place: pair % inner.nodes.len(),
        });
    }

    /// What a request is about, before it is carried out.
    pub(super) fn views(&self, node: usize, request: &Request, now: Instant) -> Option<Views> {
        self.trace.as_ref()?;
        Some(Views::of(&self.nodes[node].state, request, now))
    }

    /// A node has carried a request out: by that record, and at that moment of its clock.
    pub(super) fn traces_served(
        &mut self,
        (pair, message): (usize, u64),
        request: &Request,
        (record, views, now): (Option<&Arc<str>>, Option<Views>, Instant),
        served: impl FnOnce() -> Served,
    ) {
        let Some(views) = views else { return };
        self.traces(|inner| {
            let between = inner.between(pair, inner.serving);
            Step::Serves {
                message,
                record: record.cloned(),
                request: Box::new(request.clone()),
                views: Box::new(views.done(&inner.nodes[between.node].state, now)),
                served: served(),
                between,
            }
        });
    }

    /// A trailer was read.
    pub(super) fn traces_counted(
        &mut self,
        (pair, message): (usize, u64),
        request: &Request,
        (record, now): (Option<&Arc<str>>, Instant),
        voted: NativeReplies,
        outcome: &Outcome,
    ) {
        self.traces(|inner| {
            let between = inner.between(pair, inner.serving);
            let state = &inner.nodes[between.node].state;
            Step::Counts {
                message,
                record: record.cloned(),
                view: Box::new(View::of(state, &request.keys, now)),
                request: Box::new(request.clone()),
                voted,
                outcome: outcome.clone(),
                between,
            }
        });
    }

    /// A reply reaches its client.
    pub(super) fn traces_heard(
        &mut self,
        (pair, connection, message): (usize, u64, u64),
        open: &Open,
        reply: &Reply,
        time: Option<u64>,
    ) {
        self.traces(|inner| {
            let client = inner.pairs[pair].client;
            Step::Hears {
                client,
                place: pair % inner.nodes.len(),
                connection,
                message,
                now: inner.clients[client].now(inner.time),
                request: Box::new(open.request.clone()),
                ticket: open.ticket,
                reply: reply.clone(),
                time,
            }
        });
    }

    /// A lease as it is now.
    pub(super) fn traces_standing(&mut self, index: usize) {
        self.traces(|inner| {
            let watch = &inner.oracle.watches[index];
            let (says, gave_back) = watch.says();
            Step::Stands {
                hold: inner.hold_of(index),
                now: inner.clients[watch.client].now(inner.time),
                end: watch.end(),
                says,
                gave_back,
            }
        });
    }

    /// A user has a lease; `again`: another handle on one that it has.
    pub(super) fn traces_won(&mut self, index: usize, lease: &Lease, at_once: bool, again: bool) {
        self.traces(|inner| {
            let (cell, terms) = (lease.hold(), lease.hold().terms());
            let hold = inner.hold_of(index);
            Step::Won {
                now: inner.clients[hold.client].now(inner.time),
                hold,
                end: cell.end(),
                at_once,
                again,
                fence: terms.keys.fence_ttl.map(|_| lease.fence().unwrap_or(0)),
                mode: cell.mode(),
                lock: cell.lock_key(),
                ttl: terms.timing.ttl,
                min_validity: terms.timing.min_validity,
                max_hold: terms.asked.max_hold,
                keep: terms.asked.keep,
                begun: cell.begun(),
            }
        });
    }

    /// A user is about to give a handle up.
    pub(super) fn traces_giving_up(&mut self, index: usize, last: bool) {
        self.traces(|inner| {
            let hold = inner.hold_of(index);
            let now = inner.clients[hold.client].now(inner.time);
            Step::GivesUp { hold, now, last }
        });
    }

    /// It has.
    pub(super) fn traces_given_up(&mut self, index: usize, last: bool) {
        self.traces(|inner| {
            let watch = &inner.oracle.watches[index];
            Step::GaveUp {
                now: inner.clients[watch.client].now(inner.time),
                hold: inner.hold_of(index),
                last,
                end: watch.end(),
                goes_on: watch.passed,
            }
        });
    }

    /// A user exports the lease.
    pub(super) fn traces_exported(&mut self, index: usize) {
        self.traces(|inner| {
            let hold = inner.hold_of(index);
            let now = inner.clients[hold.client].now(inner.time);
            Step::Exports { hold, now }
        });
    }

    /// A user was told that its release is done.
    pub(super) fn traces_released(&mut self, lease: &Lease, again: bool) {
        self.traces_of(lease, |hold| Step::Released { hold, again });
    }

    /// A user shares its lease from here on.
    pub(super) fn traces_shared(&mut self, lease: &Lease) {
        self.traces_of(lease, |hold| Step::Shares { hold });
    }

    fn traces_of(&mut self, lease: &Lease, step: impl FnOnce(Hold) -> Step) {
        let token = lease.hold().token().as_bytes();
        let same =
            |watch: &Watch| watch.lease == lease.number() && watch.hold.token().as_bytes() == token;
        if let Some(index) = self.oracle.watches.iter().rposition(same) {
            self.traces(|inner| step(inner.hold_of(index)));
        }
    }

    /// A user looks at its lease.
    pub(super) fn traces_looked(
        &mut self,
        index: usize,
        held: bool,
        since: Time,
        reason: Option<LossReason>,
    ) {
        self.traces(|inner| {
            let hold = inner.hold_of(index);
            let client = &inner.clients[hold.client];
            Step::Looks {
                now: client.now(inner.time),
                awake_since: client.awake_since,
                hold,
                since,
                held,
                reason,
            }
        });
    }

    /// A node shows a connection what it is.
    pub(super) fn traces_shown(&mut self, pair: usize, connection: u64) {
        self.traces(|inner| {
            let between = inner.between(pair, connection);
            let node = &inner.nodes[between.node];
            let local = node.clock.local(inner.time);
            let (record, quarantine) = node.shows(local);
            Step::Shows {
                local,
                // Where its address leads astray, another one's.
                run: (node.run, node.history),
                record,
                quarantine,
                started: node.started,
                used: node.used,
                stored: node.stored,
                between,
            }
        });
    }

    /// A client has decided what comes of what a node shows.
    pub(super) fn traces_decided(
        &mut self,
        (pair, connection): (usize, u64),
        stepped: bool,
        decision: &Admission,
    ) {
        self.traces(|inner| Step::Decides {
            client: inner.pairs[pair].client,
            place: pair % inner.nodes.len(),
            connection,
            stepped,
            decision: Box::new(decision.clone()),
        });
    }

    /// The waiters that a node calls, for the trace alone.
    pub(super) fn traced_calls(&self, messages: &[Message]) -> Vec<Message> {
        if self.trace.is_some() {
            messages.to_vec()
        } else {
            Vec::new()
        }
    }
}

impl Node {
    /// Its record, and how much longer its quarantine lasts.
    pub(super) fn shows(&self, local: Instant) -> Shown {
        (self.state.record().cloned(), self.state.quarantine(local))
    }
}
