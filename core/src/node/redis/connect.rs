//! From an address to a connection that is ready for scripts: dial, authenticate
//! and [look](greet()) at the node, [admit](admit()) it, and [prepare](prepare()) the connection.

mod admit;
mod alike;
mod census;
mod cluster;
mod degraded;
mod former;
mod greet;
mod hello;
mod locate;
mod look;
mod nested;
mod prepare;
mod replicas;
mod scan;
mod talk;
mod target;
mod trial;
mod watch;

use std::time::Duration;

use super::script::Guard;
use super::wire::Wire;
use crate::hash::fnv1a;
use crate::node::address::Endpoint;
use crate::node::admission::{DeleteByValue, PromotionHistory, Record};
use crate::node::{Fault, Server};
use admit::{RecordKeys, admit};
pub(crate) use census::inboxes;
pub(crate) use cluster::{View, look_for_strangers, map_of, not_there};
pub(crate) use degraded::{PLACELESS, RUNLESS};
pub(crate) use former::is_over;
use former::is_over_now;
use greet::{Greeting, greet, quarantine_left};
pub(crate) use greet::{ServerTime, of_server};
#[cfg(test)]
pub(crate) use locate::locate;
pub(crate) use look::{Diagnosis, Obstacle, look};
use prepare::prepare;
use replicas::try_wait;
pub(crate) use scan::{Names, scan};
pub(crate) use talk::broken;
use talk::{exchange, good};
pub(crate) use target::{ConnectHints, Location, Target};
pub(crate) use watch::moved;

/// A connection to a node that may vote.
pub(crate) struct NewConnection {
    pub(crate) wire: Wire,
    /// What goes with each request that gives a vote, if restarts are guarded.
    pub(crate) guard: Option<Guard>,
    /// Whether the server is a shard of a cluster.
    pub(crate) in_cluster: bool,
    /// How votes are deleted by their value there.
    pub(crate) delete: DeleteByValue,
    /// The hash of the node's id.
    pub(crate) id: u64,
    /// See [`RequestContext::server`](crate::node::RequestContext::server).
    pub(crate) server: u64,
    /// Where the server is.
    pub(crate) endpoint: Endpoint,
    /// Where it stands in the order of masters.
    pub(crate) promotions: PromotionHistory,
    /// Whether the server is another than the one before, which is known to give no votes any more.
    pub(crate) succeeds: bool,
    /// How many replicas must have a vote before it counts.
    pub(crate) wait_replicas: u32,
    /// Whether the client accepts that the server may drop keys.
    pub(crate) accept_eviction: bool,
    /// How long one request may take.
    pub(crate) node_timeout: Duration,
    /// What the node's clock was.
    pub(crate) time: ServerTime,
    /// What the server says of itself.
    pub(crate) about: Server,
    /// How far clock rates may differ.
    pub(crate) drift: f64,
    /// Whether the quarantine has begun again, as it was [asked](ConnectHints::stepped).
    pub(crate) stepped: bool,
    /// The inbox is subscribed.
    pub(crate) subscribed: bool,
    /// How much longer it is in quarantine, of a shard.
    pub(crate) quarantine: Duration,
}

/// Connects to a node and admits it.
pub(crate) async fn connect(target: &Target, how: ConnectHints) -> Result<NewConnection, Fault> {
    let gate = &target.gate;
    let (mut greeted, record) = match &target.routes {
        None => {
            let mut greeted = greet(target, &how).await?;
            let (wire, look) = (&mut greeted.wire, &mut greeted.look);
            let record = admit(target, wire, look, RecordKeys::of(gate)).await?;
            (greeted, record)
        }
        Some(routes) => {
            let record = cluster::admit_node(target, &**routes).await?;
            let greeted = greet(target, &how).await;
            let here = &target.address.endpoint;
            (
                greeted.map_err(|fault| cluster::announced(here, fault))?,
                record,
            )
        }
    };
    let (mut shard, mut quarantine) = (None, Duration::ZERO);
    if target.routes.is_some() {
        let stamped = cluster::stamp(target, &mut greeted, &record, &how).await?;
        (shard, quarantine) = (Some(stamped.scratch), stamped.quarantine);
    }
    let succeeds = match &how.before {
        Some(before) if *before != greeted.endpoint => is_over_now(target, before).await,
        _ => false,
    };
    let Greeting {
        mut wire,
        server,
        endpoint,
        promotions,
        time,
        about,
        resp3,
        ..
    } = greeted;
    try_wait(target, &mut wire).await?;
    let prepared = prepare(target, &mut wire, shard, how.subscribe, resp3).await?;
    let id = Record::parse(&record).map_or(0, |record| fnv1a(record.node().as_bytes()));
    if let Some(routes) = &target.routes {
        routes.admitted(id);
    }
    let guarded = gate.expected().guard;
    let guard = guarded.then(|| match &target.routes {
        None => Guard {
            record: record.into(),
            record_key: gate.record_key.clone(),
            quarantine_key: gate.quarantine_key.clone(),
            shard: false,
        },
        Some(_) => Guard::shard_of(gate.quarantine_key.clone()),
    });
    Ok(NewConnection {
        wire,
        guard,
        in_cluster: target.routes.is_some(),
        delete: prepared.delete,
        id,
        server,
        endpoint,
        promotions,
        succeeds,
        wait_replicas: gate.wait_replicas,
        accept_eviction: gate.accept_eviction,
        about,
        drift: gate.drift,
        node_timeout: gate.node_timeout,
        time,
        stepped: how.stepped,
        subscribed: prepared.subscribed,
        quarantine,
    })
}

/// Admits a node as any client does, which founds a new set together with the
/// other nodes. Returns how much longer it is in quarantine; with `force` the
/// quarantine is lifted.
pub(crate) async fn declare(target: &Target, force: bool) -> Result<Duration, Fault> {
    if let Endpoint::Cluster(_) = &target.address.endpoint {
        return cluster::declare(target, force).await;
    }
    let mut greeted = greet(target, &ConnectHints::default()).await?;
    let (gate, wire) = (&target.gate, &mut greeted.wire);
    admit(target, wire, &mut greeted.look, RecordKeys::of(gate)).await?;
    if force {
        let lift = redis::cmd("DEL").arg(&*gate.quarantine_key).take();
        exchange(wire, &[lift])
            .await?
            .into_iter()
            .try_for_each(|reply| good(reply).map(drop))?;
    }
    quarantine_left(gate, wire).await
}
