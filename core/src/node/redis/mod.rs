//! The link to a Redis or Valkey server, as callers see it: a queue to the
//! node's [connection].

mod backlog;
pub(crate) mod connect;
mod connection;
pub(crate) mod declare;
pub(crate) mod dial;
pub(crate) mod hashed;
pub(crate) mod map;
pub(crate) mod native;
pub(crate) mod outbox;
mod pipe;
pub(crate) mod pushes;
mod quiet;
mod race;
pub(crate) mod replies;
pub(crate) mod resp;
pub(crate) mod router;
pub(crate) mod script;
pub(crate) mod server_error;
pub(crate) mod subscription;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
pub(crate) mod tls;
pub(crate) mod wire;
#[cfg(feature = "tls")]
mod words;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::admission::{Gate, QuarantineCause};
use super::{Fault, FaultKind, Link, Reply, Request, RequestContext, Server, Sink, Subscriber};
use crate::clock::{Clock, Instant};
use crate::hash::fnv1a;
use crate::mutex::lock;
use crate::node::redis::connect::Target;
use crate::node::redis::connection::Connection;
use crate::node::redis::outbox::{HAS_ENDED, Item, Outbox};
use crate::runtime::drive::Driver;
use crate::runtime::lasting::lasting;
use crate::wakers::Wakers;

/// Requests that may wait for one node. Beyond it the node is as good as
/// down: more would only time out.
pub(crate) const QUEUE_BOUND: usize = 100_000;

/// The fault of a request beyond that bound.
pub(crate) const TOO_MANY: &str = "too many requests are waiting for this node";

/// A failed request: its sink, and why it has failed.
pub(crate) type FailedRequest = (Option<Arc<dyn Sink>>, RequestContext, Fault);

/// See the [module documentation](self).
pub(crate) struct RedisLink {
    shown: Arc<str>,
    /// The node's place in the set, and what is known there of it.
    node: usize,
    gate: Arc<Gate>,
    outbox: Arc<Outbox>,
    /// The driver of the task's runtime; empty if the caller drives it.
    driver: Option<&'static Driver>,
}

impl RedisLink {
    /// Makes a link, and its worker, which the caller has to spawn. Connects to nothing yet.
    pub(crate) fn new(
        target: Target,
        clock: Arc<dyn Clock>,
        driver: Option<&'static Driver>,
    ) -> (RedisLink, Worker) {
        let worker = Worker {
            target: Arc::new(target),
            clock,
            outbox: Arc::default(),
        };
        let link = RedisLink {
            shown: worker.target.address.shown.clone(),
            node: worker.target.node,
            gate: worker.target.gate.clone(),
            outbox: worker.outbox.clone(),
            driver,
        };
        (link, worker)
    }

    /// Queues an item; returns the wake-up that it owes, or the failure that the requester is to be
    /// given at once: a release may have been queued all the same.
    #[inline]
    pub(crate) fn put(&self, mut item: Box<Item>) -> Result<Wakers, FailedRequest> {
        let mut state = lock(&self.outbox.state);
        let refused = if state.ended || (state.closed && !item.is_release()) {
            Some((FaultKind::Refused, "the client is closed"))
        // A full queue still takes releases, or held locks would outlive their holders.
        } else if state.items.len() >= QUEUE_BOUND && !item.is_release() {
            Some((FaultKind::Refused, TOO_MANY))
        } else if state.rests {
            Some((FaultKind::Unreachable, HAS_ENDED))
        } else {
            None
        };
        if let Some((kind, why)) = refused {
            let answer = (item.sink.take(), item.ticket, Fault::new(kind, why, false));
            // A refused release is kept for the next task: its requester has its answer, and the
            // lock must become free all the same.
            if !state.ended && item.is_release() {
                state.items.push_back(item);
            }
            return Err(answer);
        }
        state.items.push_back(item);
        Ok(state.task.take())
    }
}

/// What works for a link.
pub(crate) struct Worker {
    target: Arc<Target>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Outbox>,
}

impl Worker {
    /// The task of the node's connection.
    pub(crate) async fn run(self) {
        self.begin().await;
    }

    fn begin(&self) -> impl Future<Output = ()> + Send + use<> {
        let (target, clock) = (self.target.clone(), self.clock.clone());
        Connection::new(target, clock, self.outbox.clone()).run()
    }

    /// Runs the task, and restarts it after a panic.
    pub(crate) async fn last(self) {
        let what = format!("the connection of the node {}", self.target.address.shown);
        let warn = self.target.gate.warn;
        lasting(|| self.begin(), self.clock.clone(), warn, &what).await;
    }
}

impl Drop for Worker {
    /// Behind the last of its tasks, none of which may ever have begun.
    fn drop(&mut self) {
        self.outbox.end();
    }
}

impl Link for RedisLink {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        match self.put(Item::new(request, ticket, sink, give_up)) {
            Ok(owed) => Some(owed),
            Err((sink, ticket, fault)) => {
                if let Some(sink) = sink {
                    sink.on_reply(ticket, Reply::Failed(fault), None);
                }
                None
            }
        }
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
            0 => fnv1a(self.shown.as_bytes()),
            id => id,
        }
    }

    fn is_met(&self) -> bool {
        self.outbox.id.load(Ordering::Relaxed) != 0
    }

    fn poll_met(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.outbox.state);
        if let Some(met) = state.met {
            return Poll::Ready(met);
        }
        let pending = state.hailing.park(cx);
        if !std::mem::replace(&mut state.hailed, true) {
            let task = state.task.take();
            drop(state);
            self.ring(task);
        }
        pending
    }

    fn is_ours(&self) -> bool {
        self.gate.survey.is_ours(self.node)
    }

    fn cause(&self) -> Option<QuarantineCause> {
        self.gate.survey.cause(self.node)
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

    fn server(&self) -> Server {
        *lock(&self.outbox.server)
    }

    fn dropped(&self) -> u64 {
        self.outbox.dropped.load(Ordering::Relaxed)
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let mut state = lock(&self.outbox.state);
        if !state.ended {
            state.subscriber = Some(subscriber);
        }
    }

    fn stray(&self) -> u64 {
        self.outbox.stray.load(Ordering::Relaxed)
    }
}
