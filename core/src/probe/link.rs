//! The link to a server over streams that the simulator makes: all of it from its
//! outbox down to RESP, in virtual time and on the simulator's own executor.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::defaults;
use crate::event::LogEvent;
use crate::hash::fnv1a;
use crate::node::address::{Address, Endpoint, Origin, Seeds, Sentinels, shown};
use crate::node::admission::{Expectation, Gate, Roster, Survey};
use crate::node::cluster::ClusterLink;
use crate::node::redis::connect::{Location, Target};
use crate::node::redis::dial::{Dial, Stream, StreamFuture, unreachable};
use crate::node::redis::{RedisLink, Worker};
use crate::node::{Link, names};
use crate::token::Rng;

pub use crate::node::redis::dial::Bytes;

/// The host at which sentinels are dialled.
pub const SENTINEL: &str = "sentinel";

/// A stream, once it is there.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<Box<dyn Bytes>>> + Send>>;
/// The task of a link, which has to be spawned.
pub type LinkTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What dials for one link.
struct SimulatedDial(Box<dyn Fn(&str) -> DialFuture + Send + Sync>);

impl Dial for SimulatedDial {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> StreamFuture<'a> {
        let dialled = (self.0)(&shown(endpoint));
        Box::pin(async move {
            let stream = dialled.await.map_err(|e| unreachable(&e))?;
            Ok(Stream::Simulated(stream))
        })
    }
}

/// What the links of one client share: by what rules its nodes are admitted.
pub struct Door {
    gate: Arc<Gate>,
    names: Vec<Arc<str>>,
    lasting: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door")
    }
}

impl Door {
    /// Of a client that expects this of its nodes, whose names these are, takes clocks
    /// to differ by `drift`, and listens on `inbox`. A request may take `node_timeout`, and
    /// this many replicas must have a vote before it counts. Logs go nowhere.
    pub fn new(
        expected: Expectation,
        nodes: Vec<Arc<str>>,
        namespace: &str,
        inbox: Arc<[u8]>,
        drift: f64,
        (node_timeout, wait_replicas): (Duration, u32),
        (clock, rng): (Arc<dyn Clock>, Arc<dyn Rng>),
    ) -> Door {
        let names = nodes.iter().map(|name| (name.clone(), false)).collect();
        let gate = Arc::new(Gate {
            accept_eviction: false,
            drift,
            wait_replicas,
            told_few: AtomicBool::new(false),
            node_timeout,
            connect_timeout: defaults::CONNECT_TIMEOUT,
            record_key: names::record_key(namespace).into(),
            quarantine_key: names::quarantine_key(namespace).into(),
            scratch_key: format!("{namespace}#try").into_bytes().into(),
            connection_name: b"simulated"[..].into(),
            inbox,
            told_deaf: AtomicBool::new(false),
            told_runless: AtomicBool::new(false),
            told_placeless: AtomicBool::new(false),
            roster: Roster::new(&expected),
            survey: Survey::new(expected, names),
            clock,
            rng,
            warn: drop,
            note: drop,
        });
        Door {
            gate,
            names: nodes,
            lasting: false,
        }
    }

    /// The same, but tasks that a panic ends are begun anew, and `warn` reports that.
    ///
    /// # Panics
    ///
    /// If it has made a link.
    pub fn lasting(mut self, warn: fn(LogEvent)) -> Door {
        let gate = Arc::get_mut(&mut self.gate);
        gate.expect("no link has it").warn = warn;
        self.lasting = true;
        self
    }

    /// The link to the node of that place in the client's list, over streams that
    /// `dial` makes, to an address; and the task of that link. `password` and `db`: what its
    /// URL says. `fails_over`: the node is found by sentinels, whose address is [`SENTINEL`],
    /// as the master of that name.
    pub fn link(
        &self,
        node: usize,
        (password, db): (Option<&str>, i64),
        fails_over: Option<&str>,
        dial: impl Fn(&str) -> DialFuture + Send + Sync + 'static,
    ) -> (Arc<dyn Link>, LinkTask) {
        let at = |host: &str| Endpoint::Tcp {
            host: host.into(),
            port: 6379,
            tls: false,
        };
        let sentinels = |master: &str| Sentinels {
            master: master.into(),
            hosts: vec![at(SENTINEL)],
            tls: false,
            user: None,
            password: None,
        };
        let endpoint = match fails_over {
            Some(master) => Endpoint::Sentinel(Arc::new(sentinels(master))),
            None => at("simulated"),
        };
        let target = Target {
            address: Address {
                endpoint,
                user: None,
                password: password.map(str::to_owned),
                db,
                origin: Origin::Caller,
                shown: self.names[node].clone(),
            },
            dial: Arc::new(SimulatedDial(Box::new(dial))),
            node,
            gate: self.gate.clone(),
            located: Location::default(),
            routes: None,
        };
        let (link, worker) = RedisLink::new(target, self.gate.clock.clone(), None);
        (Arc::new(link), task_of(worker, self.lasting))
    }

    /// The link to a node that is a cluster, one server of which is at each of the `seeds`, and
    /// the task of that link; those of its shards are spawned by `spawn`.
    pub fn cluster(
        &self,
        node: usize,
        seeds: &[&str],
        dial: impl Fn(&str) -> DialFuture + Send + Sync + 'static,
        spawn: impl Fn(LinkTask) + Send + Sync + 'static,
    ) -> (Arc<dyn Link>, LinkTask) {
        let at = |host: &&str| Endpoint::Tcp {
            host: (*host).to_owned(),
            port: 6379,
            tls: false,
        };
        let seeds = Seeds {
            hosts: seeds.iter().map(at).collect(),
        };
        let target = Target {
            address: Address {
                endpoint: Endpoint::Cluster(Arc::new(seeds)),
                user: None,
                password: None,
                db: 0,
                origin: Origin::Caller,
                shown: self.names[node].clone(),
            },
            dial: Arc::new(SimulatedDial(Box::new(dial))),
            node,
            gate: self.gate.clone(),
            located: Location::default(),
            routes: None,
        };
        let lasting = self.lasting;
        let spawn = move |worker| spawn(task_of(worker, lasting));
        let link = ClusterLink::new(target, None, Box::new(spawn));
        let task: LinkTask = if lasting {
            Box::pin(link.last())
        } else {
            Box::pin(link.run())
        };
        (Arc::new(link), task)
    }
}

fn task_of(worker: Worker, lasting: bool) -> LinkTask {
    if lasting {
        Box::pin(worker.last())
    } else {
        Box::pin(worker.run())
    }
}

/// The number of a server whose own address is this: [`RequestContext::server`](crate::node::RequestContext::server).
pub fn server(address: &str) -> u64 {
    fnv1a(address.as_bytes())
}
