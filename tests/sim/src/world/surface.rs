//! What a schedule, its users and its judges have of a world.

use std::sync::Arc;

use quorlock::sim::{Clock, Link};

use super::clocks::SimClock;
use super::link::SimLink;
use super::oracle::Oracle;
use super::{Time, World};
use crate::history::{Happened, History};
use crate::random::Random;

impl World {
    /// The links of one client to all nodes.
    pub fn links(self: &Arc<Self>, client: usize) -> Vec<Arc<dyn Link>> {
        if self.inner().bytes.is_some() {
            return self.real_links(client);
        }
        let nodes = self.inner().nodes.len();
        let listed = self.inner().listed(client).0;
        let inbox = self.inbox(client);
        (0..listed)
            .map(|place| -> Arc<dyn Link> {
                let pair = client * nodes + place;
                let node = self.inner().pairs[pair].node;
                Arc::new(SimLink {
                    world: self.clone(),
                    pair,
                    name: format!("n{node}").into(),
                    inbox: inbox.clone(),
                })
            })
            .collect()
    }

    /// The client lists one server twice, in two places.
    pub fn list_twice(&self, client: usize, place: usize, other: usize) {
        let mut inner = self.inner();
        let nodes = inner.nodes.len();
        inner.listed_twice = true;
        let first = client * nodes;
        inner.pairs[first + other].node = inner.pairs[first + place].node;
    }

    /// The client lists the nodes in another order.
    pub fn shuffle(&self, client: usize, random: &Random) {
        let mut inner = self.inner();
        let nodes = inner.nodes.len();
        let own = &mut inner.pairs[client * nodes..][..nodes];
        for place in (1..nodes).rev() {
            let other = random.below(place as u64 + 1) as usize;
            let node = own[place].node;
            own[place].node = own[other].node;
            own[other].node = node;
        }
    }

    /// The client lists this node first.
    pub fn list_first(&self, client: usize, node: usize) {
        let mut inner = self.inner();
        let nodes = inner.nodes.len();
        let own = &mut inner.pairs[client * nodes..][..nodes];
        (own[0].node, own[node].node) = (node, 0);
    }

    /// The drift that a client allows for.
    pub fn allow_for(&self, client: usize, drift: f64) {
        self.inner().clients[client].drift = drift;
    }

    /// The clock of one client.
    pub fn clock(self: &Arc<Self>, client: usize) -> Arc<dyn Clock> {
        Arc::new(SimClock {
            world: self.clone(),
            client,
        })
    }

    /// A moment at which, or nearly, something is due to a rival.
    pub fn aim(&self) -> Option<Time> {
        self.inner().aim()
    }

    /// From here on the network is fast and loses nothing, but for messages
    /// that something drops.
    pub fn calm(&self) {
        let mut inner = self.inner();
        inner.network = inner.network.calm();
        if let Some(bytes) = &mut inner.bytes {
            bytes.calm();
        }
        let clients = inner.clients.iter_mut();
        clients.for_each(|client| client.pauses_at_vote = None);
    }

    /// When everything planned that goes wrong is right again.
    pub fn mended_at(&self) -> Time {
        self.inner().mended_at
    }

    /// The present true time.
    pub fn time(&self) -> Time {
        self.inner().time
    }

    /// Whether a client that is of another mind about the set has founded its own.
    pub fn has_strayed(&self) -> bool {
        self.inner().strayed
    }

    /// Events so far, and faults among them.
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.inner();
        (inner.events, inner.faults)
    }

    /// A crowd of so many comes, each of whom asks all nodes, again and again where they fail.
    pub fn expects(&self, crowd: u64) {
        let mut inner = self.inner();
        inner.crowded += crowd * 100 * inner.nodes.len() as u64;
    }

    /// The broken invariant, if one is.
    pub fn violation(&self) -> Option<String> {
        self.inner().violation.clone()
    }

    /// What happened, if it was recorded.
    pub fn history(&self) -> Option<History> {
        self.inner().history.clone()
    }

    /// From here on it is kept what users see; what they draw of the world comes
    /// from a generator of its own, which the network does not touch.
    pub fn keep_seen(&self, seed: u64) {
        self.inner().seen = Some((Vec::new(), Random::new(seed)));
    }

    /// What users saw, one line each, if that was kept.
    pub fn seen(&self) -> Vec<String> {
        let mut inner = self.inner();
        inner
            .seen
            .as_mut()
            .map(|seen| std::mem::take(&mut seen.0))
            .unwrap_or_default()
    }

    /// A user has seen something.
    pub fn saw(&self, what: impl FnOnce() -> String) {
        self.inner().saw(what);
    }

    /// Adds an event to the history.
    pub fn note<H: Into<Happened>>(&self, what: impl FnOnce() -> H) {
        self.inner().note(what);
    }

    /// Drops all tasks, so that the world can be dropped.
    pub fn end(&self) {
        let subscribers = {
            let mut inner = self.inner();
            let links = inner.bytes.as_mut().map(|bytes| bytes.end());
            inner.clients.iter_mut().for_each(|c| c.crashed = true);
            inner.oracle = Oracle::default();
            inner.heap.clear();
            let open = inner
                .pairs
                .iter_mut()
                .map(|pair| std::mem::take(&mut pair.open));
            let open: Vec<_> = open.collect();
            let pairs = inner.pairs.iter_mut();
            let subscriptions: Vec<_> = pairs.filter_map(|p| p.subscription.take()).collect();
            let events = std::mem::take(&mut inner.slots);
            (
                (subscriptions, std::mem::take(&mut inner.subscribed)),
                (links, events, open),
            )
        };
        drop(subscribers);
        let tasks = std::mem::take(&mut *self.tasks.get());
        drop(tasks);
    }
}
