//! The link to a Redis or Valkey server, as callers see it: a queue to the
//! node's [connection](super::connection).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::admission::Gate;
use super::connect::Target;
use super::connection::Connection;
use super::{Fault, FaultKind, Link, Mail, Op, Reply, Request, Sink, Ticket, number};
use crate::clock::{Clock, Instant};
use crate::drive::Driver;
use crate::sync::{Wakers, lock};

/// Requests that may wait for one node. Beyond it the node is as good as
/// down: more would only time out.
const QUEUE_BOUND: usize = 100_000;

/// See the [module documentation](self).
pub(crate) struct RedisLink {
    shown: Arc<str>,
    /// Its place in the set, and what is known there of it.
    node: usize,
    gate: Arc<Gate>,
    outbox: Arc<Outbox>,
    /// Who drives the task's runtime; empty if that is the caller's.
    driver: Option<&'static Driver>,
}

/// What callers share with the node's connection.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) state: Mutex<OutboxState>,
    pub(crate) connects: AtomicU64,
    /// The number of the node's id; 0 before that is known.
    pub(crate) id: AtomicU64,
    /// Releases that were given up because too many waited.
    pub(crate) dropped: AtomicU64,
    /// Pushes that no node sends to the client's inbox.
    pub(crate) stray: AtomicU64,
}

#[derive(Default)]
pub(crate) struct OutboxState {
    pub(crate) items: Vec<Item>,
    /// Until the task has taken it.
    pub(crate) mail: Option<Arc<dyn Mail>>,
    /// The task that owns the connection.
    pub(crate) task: Wakers,
    pub(crate) closed: bool,
    /// The task is over: nobody takes items any more.
    pub(crate) ended: bool,
}

/// A request on its way.
pub(crate) struct Item {
    pub(crate) request: Request,
    pub(crate) ticket: Ticket,
    /// Gone once it has been told.
    pub(crate) sink: Option<Arc<dyn Sink>>,
    /// A release is sent again until then.
    pub(crate) give_up: Instant,
    /// The node has forgotten the script: send its text.
    pub(crate) with_text: bool,
    /// It met a record other than the one on connect, once.
    pub(crate) readmitted: bool,
    /// A release that already went out over the connection in doubt.
    pub(crate) on_old: bool,
}

impl Item {
    pub(crate) fn is_release(&self) -> bool {
        self.request.op == Op::Release
    }

    /// Tells the requester, once.
    pub(crate) fn tell(&mut self, reply: Reply, time: Option<u64>) {
        if let Some(sink) = self.sink.take() {
            sink.on_reply(self.ticket, reply, time);
        }
    }

    pub(crate) fn fail(&mut self, kind: FaultKind, text: &str, sent: bool) {
        if self.sink.is_some() {
            self.tell(Reply::Failed(Fault::new(kind, text, sent)), None);
        }
    }

    /// Whether to write it: a release always, other requests while their
    /// token lives.
    pub(crate) fn wanted(&self) -> bool {
        self.is_release() || self.sink.as_ref().is_some_and(|sink| sink.wanted())
    }

    /// When something has to be done about it at the latest.
    pub(crate) fn due(&self) -> Instant {
        match self.sink {
            Some(_) => self.ticket.deadline,
            None => self.give_up,
        }
    }
}

impl RedisLink {
    /// Starts the node's task on `runtime`. Connects to nothing yet.
    pub(crate) fn new(
        target: Target,
        clock: Arc<dyn Clock>,
        runtime: &tokio::runtime::Handle,
        driver: Option<&'static Driver>,
    ) -> RedisLink {
        let shown = target.address.shown.clone();
        let (node, gate) = (target.node, target.gate.clone());
        let outbox = Arc::new(Outbox::default());
        runtime.spawn(Connection::new(target, clock, outbox.clone()).run());
        RedisLink {
            shown,
            node,
            gate,
            outbox,
            driver,
        }
    }
}

impl Link for RedisLink {
    fn send(
        &self,
        request: Request,
        ticket: Ticket,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        let mut item = Item {
            request,
            ticket,
            sink: Some(sink),
            give_up,
            with_text: false,
            readmitted: false,
            on_old: false,
        };
        let mut state = lock(&self.outbox.state);
        let refused = if state.ended || (state.closed && !item.is_release()) {
            Some("the client is closed")
        } else if state.items.len() >= QUEUE_BOUND && !item.is_release() {
            Some("too many requests are waiting for this node")
        } else {
            None
        };
        if let Some(why) = refused {
            drop(state);
            item.fail(FaultKind::Refused, why, false);
            return None;
        }
        state.items.push(item);
        Some(state.task.take())
    }

    fn ring(&self, owed: Wakers) {
        match self.driver {
            Some(driver) => driver.wake(owed),
            None => owed.wake(),
        }
    }

    fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    fn id(&self) -> u64 {
        match self.outbox.id.load(Ordering::Relaxed) {
            0 => number(self.shown.as_bytes()),
            id => id,
        }
    }

    fn is_ours(&self) -> bool {
        self.gate.survey.is_ours(self.node)
    }

    fn close(&self) {
        let mut state = lock(&self.outbox.state);
        state.closed = true;
        let task = state.task.take();
        drop(state);
        self.ring(task);
    }

    fn connects(&self) -> u64 {
        self.outbox.connects.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> u64 {
        self.outbox.dropped.load(Ordering::Relaxed)
    }

    fn listen(&self, mail: Arc<dyn Mail>) {
        let mut state = lock(&self.outbox.state);
        if !state.ended {
            state.mail = Some(mail);
        }
    }

    fn stray(&self) -> u64 {
        self.outbox.stray.load(Ordering::Relaxed)
    }
}
