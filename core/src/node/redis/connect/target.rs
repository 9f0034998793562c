//! Which node a connection is made to, and how.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::Gate;
use crate::node::redis::dial::Dial;
use crate::node::redis::router::Router;

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) dial: Arc<dyn Dial>,
    /// The node's place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
    /// What is known of its sentinels.
    pub(crate) located: Location,
    /// The cluster that the node is a shard of; it takes the requests that the shard does not
    /// serve.
    pub(crate) routes: Option<Arc<dyn Router>>,
}

impl Target {
    /// This node at another address: a server of its cluster, if it is given `routes`.
    pub(crate) fn at(&self, address: Address, routes: Option<Arc<dyn Router>>) -> Target {
        Target {
            address,
            dial: self.dial.clone(),
            node: self.node,
            gate: self.gate.clone(),
            located: Location::default(),
            routes,
        }
    }
}

/// What is known of a node's sentinels.
#[derive(Debug, Default)]
pub(crate) struct Location {
    /// The place of the sentinel that is asked first.
    first: AtomicUsize,
    /// The log says that none of them is reached.
    pub(crate) told_away: AtomicBool,
    /// How far the last attempt has come.
    attempt: Mutex<ConnectAttempt>,
}

/// How far an attempt to connect has come, which tells a silent server from a way that leads
/// nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectAttempt {
    /// Where the server is that is connected to; nothing while sentinels are asked for it.
    pub(crate) endpoint: Option<Endpoint>,
    /// Whether there is a stream to the server.
    pub(crate) reached: bool,
}

impl ConnectAttempt {
    /// What is missing.
    pub(crate) fn lacks(&self) -> &'static str {
        match (&self.endpoint, self.reached) {
            (None, _) => "no sentinel has said where it is",
            (Some(_), false) => {
                "nothing has answered at its address, as where its host is down, or behind a firewall"
            }
            (Some(_), true) => {
                "it takes connections and has not answered, as where its process hangs"
            }
        }
    }
}

impl Location {
    /// An attempt has come so far.
    pub(crate) fn has_come(&self, endpoint: Option<&Endpoint>, reached: bool) {
        let endpoint = endpoint.cloned();
        *lock(&self.attempt) = ConnectAttempt { endpoint, reached };
    }

    /// How far the last attempt has come.
    pub(crate) fn attempt(&self) -> ConnectAttempt {
        lock(&self.attempt).clone()
    }

    /// The places of this many sentinels, in the order in which they are asked.
    pub(crate) fn order(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.first.load(Ordering::Relaxed);
        (0..count).map(move |i| (first + i) % count)
    }

    /// The sentinel at that place has answered.
    pub(crate) fn answered(&self, place: usize) {
        self.first.store(place, Ordering::Relaxed);
    }

    /// The sentinel at that place has not answered yet, or has named a server that is no
    /// master: the next is asked first, also where this attempt comes to no end.
    pub(crate) fn pass(&self, place: usize) {
        self.first.store(place + 1, Ordering::Relaxed);
    }
}

/// How a connection is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectHints {
    /// The node has been reached before.
    pub(crate) reached: bool,
    /// Subscribe the inbox, where the node permits it.
    pub(crate) subscribe: bool,
    /// See [`Observation::stepped`](crate::node::admission::Observation::stepped).
    pub(crate) stepped: bool,
    /// Where the connection before led.
    pub(crate) before: Option<Endpoint>,
}
