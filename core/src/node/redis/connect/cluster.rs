//! What a connection to a shard of a cluster takes beside what one to any node takes: the map,
//! the node's record, and whether the shard may have lost votes.
//!
//! A cluster's record is one key, so it is on one shard, and no script of another can compare
//! it. It is read whenever a connection is made, and says whose node the cluster is. Whether a
//! shard may have lost its memory, or some of it, shows by its *stamp*: a key in several of
//! its hash slots, with the run of the primary that wrote it. Where no
//! hash slot of the shard has one of its run, each is given a *mark*, which is the quarantine of
//! the locks there, and only then the shard is given its stamp. Marks go with their hash slots
//! wherever these are moved. Each connection gives the shard its stamp in the hash slots that it
//! has by then, so that it is known by some when others move.

mod map_of;
mod reach;
mod slots;
mod stamps;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::Value as Resp;

use super::admit::{RecordKeys, admit, record_in};
use super::greet::{Greeting, greet};
use super::prepare::permitted;
use super::talk::{elsewhere, exchange, not_ready, refused, within};
use super::target::{ConnectHints, Target};
use super::trial::{TrialResult, trial};
use crate::node::Fault;
use crate::node::address::Endpoint;
use crate::node::admission::{Newness, Observation};
use crate::node::hash_slot;
use crate::node::redis::map::{Range, at};
use crate::node::redis::outbox::Item;
use crate::node::redis::replies::{self};
use crate::node::redis::router::Router;
use crate::node::redis::script::{Guard, mark};
use crate::node::redis::server_error::{Redirect, redirect};
use crate::node::redis::wire::Wire;
pub(crate) use map_of::{View, look_for_strangers, map_of};
pub(super) use reach::announced;
pub(crate) use reach::not_there;
use reach::{of_server, patience, reach};
use slots::{AT_ONCE, slots_of};
pub(super) use stamps::stamp;

/// Admits the cluster as a node of the set, by its record. Returns that.
pub(super) async fn admit_node(target: &Target, routes: &dyn Router) -> Result<String, Fault> {
    let gate = &target.gate;
    let admitted = async {
        let (mut wire, stored, stays) = record_of(target, routes).await?;
        let shown = &target.address.shown;
        gate.roster
            .meet(target.node, shown, None, gate.clock.now())
            .map_err(refused)?;
        let mut look = Observation {
            stored,
            run: None,
            newness: Newness::Used,
            voted: false,
            stepped: false,
        };
        let keys = RecordKeys {
            record: &gate.record_key,
            quarantine: None,
            stays,
        };
        admit(target, &mut wire, &mut look, keys).await
    };
    let admitted = admitted.await;
    if admitted.is_err() {
        routes.doubt();
        gate.survey.absent(target.node);
    }
    admitted
}

/// The record of the cluster, a connection to the server that has it, and whether it stays there.
async fn record_of(
    target: &Target,
    routes: &dyn Router,
) -> Result<(Wire, Option<String>, bool), Fault> {
    let gate = &target.gate;
    let slot = hash_slot::of(&gate.record_key);
    let Some(server) = routes.served_at(slot) else {
        return Err(not_ready("nobody serves the hash slot of its record"));
    };
    let reached = reach(target, &server).await;
    let mut wire = reached.map_err(|fault| announced(&server, fault))?;
    let get = redis::cmd("GET").arg(&*gate.record_key).take();
    let reply = exchange(&mut wire, &[get]).await?.pop();
    let sent = match &reply {
        Some(Resp::ServerError(error)) => redirect(error),
        _ => None,
    };
    let (host, port, asks) = match sent {
        None => return Ok((wire, record_in(gate, reply)?, true)),
        Some(Redirect::Moved { host, port, .. }) => (host, port, None),
        Some(Redirect::Ask { host, port }) => (host, port, Some(redis::cmd("ASKING"))),
        Some(_) => return Err(not_ready("its hash slots are being moved")),
    };
    // The hash slot of the record is being moved, or was a moment ago, so the record is read
    // elsewhere.
    let server = at(&host, port, &target.address.endpoint).ok_or_else(replies::unexpected)?;
    let reached = reach(target, &server).await;
    let mut wire = reached.map_err(|fault| announced(&server, fault))?;
    let get = redis::cmd("GET").arg(&*gate.record_key).take();
    let stays = asks.is_none();
    let commands: Vec<_> = asks.into_iter().chain([get]).collect();
    let reply = exchange(&mut wire, &commands).await?.pop();
    Ok((wire, record_in(gate, reply)?, stays))
}

/// A map that was read once: for a look, which sends no requests of locks.
struct FixedMap(Vec<Range>);

impl Router for FixedMap {
    fn redirected(&self, _: Box<Item>, _: Redirect, _: &Endpoint, _: bool) {}

    fn take_strays(&self, _: &Endpoint, items: VecDeque<Box<Item>>) -> VecDeque<Box<Item>> {
        items
    }

    fn doubt(&self) {}

    fn served_at(&self, slot: u16) -> Option<Endpoint> {
        let mut ranges = self.0.iter();
        let range = ranges.find(|range| (range.first..=range.last).contains(&slot))?;
        Some(range.primary.clone())
    }

    fn admitted(&self, _: u64) {}
}

/// How connections are made to all primaries of a cluster, and the map that names them.
async fn shards_of(target: &Target) -> Result<(Vec<Target>, Arc<dyn Router>), Fault> {
    let View { ranges, ids, .. } = map_of(target, &[], &[], 0).await?;
    look_for_strangers(target, &ids).await?;
    let mut primaries: Vec<Endpoint> = Vec::new();
    for range in &ranges {
        if !primaries.contains(&range.primary) {
            primaries.push(range.primary.clone());
        }
    }
    let routes: Arc<dyn Router> = Arc::new(FixedMap(ranges));
    let shard = |at| target.at(target.address.of_cluster(at), Some(routes.clone()));
    Ok((primaries.into_iter().map(shard).collect(), routes))
}

/// A primary of a cluster that is looked at.
pub(super) struct ShardProbe {
    target: Target,
    pub(super) greeted: Greeting,
}

impl ShardProbe {
    /// Votes there as a lock does. A shard without hash slots has no locks.
    pub(super) async fn vote(&mut self) -> Result<TrialResult, Fault> {
        let (target, wire) = (&self.target, &mut self.greeted.wire);
        let gate = &target.gate;
        let tried = async {
            let Some(slot) = slots_of(target, wire).await?.own.pop() else {
                return Ok(TrialResult::Votes);
            };
            let guard = Guard::shard_of(gate.quarantine_key.clone());
            let guard = gate.expected().guard.then_some(&guard);
            trial(target, wire, guard, Some(slot)).await
        };
        let tried = within(&gate.clock, patience(target), tried).await;
        tried.map_err(|fault| of_server(&target.address.endpoint, fault))
    }
}

/// Connections to all primaries of a cluster, for a look that changes nothing, and the record of
/// the cluster. Each connection has its own time: a primary that hangs is a fault.
pub(super) async fn see(target: &Target) -> Result<(Vec<ShardProbe>, Option<String>), Fault> {
    let (targets, routes) = shards_of(target).await?;
    let (clock, most) = (&target.gate.clock, patience(target));
    let mut shards = Vec::new();
    for target in targets {
        let how = ConnectHints::default();
        let at = &target.address.endpoint;
        let met = within(clock, most, greet(&target, &how)).await;
        let greeted = met.map_err(|fault| of_server(at, announced(at, fault)))?;
        shards.push(ShardProbe { target, greeted });
    }
    let (_, record, _) = within(clock, most, record_of(target, &*routes)).await?;
    Ok((shards, record))
}

/// Admits a cluster, and gives all its shards their stamps. Returns how long any of them is in
/// quarantine yet; with `force` the quarantines are lifted.
pub(super) async fn declare(target: &Target, force: bool) -> Result<Duration, Fault> {
    let (gate, mut left) = (&target.gate, Duration::ZERO);
    let (shards, routes) = shards_of(target).await?;
    for shard in shards {
        let how = ConnectHints::default();
        let record = admit_node(&shard, &*routes).await?;
        let mut greeted = greet(&shard, &how).await?;
        stamp(&shard, &mut greeted, &record, &how).await?;
        let wire = &mut greeted.wire;
        let slots = slots_of(&shard, wire).await?.own;
        let marks: Vec<_> = slots
            .iter()
            .map(|s| mark(&gate.quarantine_key, *s))
            .collect();
        let command = if force { "DEL" } else { "PTTL" };
        for marks in marks.chunks(AT_ONCE) {
            let commands: Vec<_> = marks
                .iter()
                .map(|m| redis::cmd(command).arg(m).take())
                .collect();
            for reply in exchange(wire, &commands).await? {
                match permitted(gate, command, elsewhere(Some(reply))?)? {
                    Resp::Int(ms) if !force => {
                        left = left.max(Duration::from_millis(ms.try_into().unwrap_or(0)));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(left)
}
