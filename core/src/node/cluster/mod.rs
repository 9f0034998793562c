//! A cluster as one node: the link sends each request to the server that serves the hash slot of
//! the lock's key (Redis cluster specification). All keys of one lock share a hash slot.
//!
//! | file | one idea |
//! |---|---|
//! | [`hash_slot`](crate::node::hash_slot) | which hash slot a key belongs to, and a short tag of each |
//! | [`map`](crate::node::redis::map) | which server serves which hash slots, by a server's account |
//! | [`routes`] | where a request goes, and what becomes of a request that was sent elsewhere |
//!
//! A shard is a primary and the hash slots that it serves. Each shard has a connection as any node
//! has, with all that a connection does about deadlines, doubt and releases; so this module routes,
//! and asks nothing itself. Shards are asked by scripts alone: plain commands tell too little of a
//! key whose hash slot is being moved.
//!
//! redis-rs's cluster client does not serve here: it repeats requests by itself, so a server could
//! carry out an acquire after the release of its token, and the client would not learn of it.

pub(crate) mod routes;

use std::future::Future;
use std::sync::Arc;

use super::redis::connect::Target;
use super::redis::outbox::Item;
use super::{Link, Request, RequestContext, Server, Sink, Subscriber};
use crate::clock::Instant;
use crate::hash::fnv1a;
use crate::runtime::drive::Driver;
use crate::runtime::lasting::lasting;
use crate::wakers::Wakers;
pub(crate) use routes::{Routes, Spawn};

/// The link to a cluster, as callers see it.
pub(crate) struct ClusterLink(Arc<Routes>);

impl ClusterLink {
    /// A link; what works for its shards is spawned by `spawn`. Connects to nothing yet.
    pub(crate) fn new(
        target: Target,
        driver: Option<&'static Driver>,
        spawn: Spawn,
    ) -> ClusterLink {
        ClusterLink(Routes::new(target, driver, spawn))
    }

    /// The task that keeps its map, which the maker of the link has to spawn.
    pub(crate) fn run(&self) -> impl Future<Output = ()> + Send + use<> {
        let keeps = MapKeeper(self.0.clone());
        async move { keeps.0.clone().run().await }
    }

    /// The task of [`run`](Self::run), which restarts after a panic.
    pub(crate) fn last(&self) -> impl Future<Output = ()> + Send + use<> {
        let keeps = MapKeeper(self.0.clone());
        async move {
            let Target { gate, address, .. } = &keeps.0.target;
            let what = format!("the map of the cluster {}", address.shown);
            let run = || keeps.0.clone().run();
            lasting(run, gate.clock.clone(), gate.warn, &what).await;
        }
    }
}

/// What keeps the map of a cluster.
struct MapKeeper(Arc<Routes>);

impl Drop for MapKeeper {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Link for ClusterLink {
    fn send(
        &self,
        mut request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        request.native = false;
        self.0.put(Item::new(request, ticket, sink, give_up))
    }

    fn ring(&self, owed: Wakers) {
        self.0.ring(owed);
    }

    fn shown(&self) -> Arc<str> {
        self.0.target.address.shown.clone()
    }

    fn id(&self) -> u64 {
        match self.0.id() {
            0 => fnv1a(self.shown().as_bytes()),
            id => id,
        }
    }

    fn is_met(&self) -> bool {
        self.0.id() != 0
    }

    fn is_ours(&self) -> bool {
        self.0.target.gate.survey.is_ours(self.0.target.node)
    }

    fn in_parts(&self) -> bool {
        self.0.is_mapped()
    }

    fn close(&self) {
        self.0.close();
    }

    fn connects(&self) -> u64 {
        self.0.sum(|shard| shard.connects())
    }

    fn server(&self) -> Server {
        self.0.fullest()
    }

    fn dropped(&self) -> u64 {
        self.0.sum(|shard| shard.dropped())
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        self.0.subscribe(subscriber);
    }

    fn stray(&self) -> u64 {
        self.0.sum(|shard| shard.stray())
    }
}
