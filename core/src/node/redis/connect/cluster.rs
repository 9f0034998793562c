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

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use redis::Value as Resp;

use super::admit::{RecordKeys, admit, record_in, tell_quarantine, write_record};
use super::greet::{Greeting, greet};
use super::prepare::{namespace, permitted};
use super::talk::{elsewhere, exchange, exchange_long, good, login, not_ready, refused, within};
use super::target::{How, Target};
use super::trial::{TrialResult, trial};
use crate::node::address::{Endpoint, shown};
use crate::node::admission::{Gate, Newness, Observation, QuarantineCause, Record};
use crate::node::hash_slot;
use crate::node::redis::dial::DialError;
use crate::node::redis::map::{self, Range, at};
use crate::node::redis::outbox::Item;
use crate::node::redis::replies::{self, text};
use crate::node::redis::resp;
use crate::node::redis::router::Router;
use crate::node::redis::script::{Guard, mark, millis};
use crate::node::redis::server_error::{Redirect, clusterless, redirect};
use crate::node::redis::wire::Wire;
use crate::node::{Fault, FaultKind};

/// How long one server has to say what it knows of the cluster, at least.
const PATIENCE: Duration = Duration::from_millis(250);
/// This many times what a node has to answer, where that is longer.
const STEPS: u32 = 3;
/// How often a stamp may be found changed on the way to a connection.
const WRITES: u32 = 6;
/// This many marks are set at once.
const AT_ONCE: usize = 1024;
/// Of so many hash slots one has the stamp of its shard.
const STAMPS_EACH: u16 = 512;

/// A shard that may vote.
#[derive(Default)]
pub(super) struct ShardState {
    /// Keys that are for trying what its user may do.
    pub(super) scratch: Vec<Vec<u8>>,
    /// How much longer it is in quarantine.
    pub(super) quarantine: Duration,
}

/// Which server serves which hash slots: as the first says that answers, of the servers `known`
/// and those of the URL, beginning with the one of that place. One that takes the cluster for
/// down is asked last, for it may be the only one that does.
/// One that knows none of the servers of the map before, whose `ids` these were, is of another
/// cluster, or all have been made anew: it counts where no other answers.
pub(crate) async fn map_of(
    target: &Target,
    known: &[Endpoint],
    ids: &[String],
    first: usize,
) -> Result<View, Fault> {
    let Endpoint::Cluster(seeds) = &target.address.endpoint else {
        return Err(refused("it is no cluster".into()));
    };
    let new = |seed: &&Endpoint| !known.contains(seed);
    let servers: Vec<&Endpoint> = known.iter().chain(seeds.hosts.iter().filter(new)).collect();
    let most = patience(target);
    let (mut down, mut other, mut refusal, mut away) = (None, None, None, None);
    for place in 0..servers.len() {
        let server = servers[(first + place) % servers.len()];
        match within(&target.gate.clock, most, ask(target, server)).await {
            Ok(view) if !ids.is_empty() && !view.knows(ids) => other = Some(view),
            Ok(view) if view.up && !view.ranges.is_empty() => return Ok(view),
            Ok(view) => down = Some(view),
            Err(fault) => {
                let fault = of_server(server, fault);
                match fault.kind {
                    FaultKind::Misconfigured => refusal = Some(fault),
                    _ => away = Some(fault),
                }
            }
        }
    }
    match (down.or(other), refusal, away) {
        (Some(view), ..) if !view.ranges.is_empty() => Ok(view),
        (Some(_), ..) => Err(not_ready("no server of the cluster serves a hash slot")),
        (None, Some(fault), _) | (None, None, Some(fault)) => Err(fault),
        (None, None, None) => Err(refused("the cluster has no servers".into())),
    }
}

/// How long one server may take to be connected to and to say something.
fn patience(target: &Target) -> Duration {
    PATIENCE.max(target.gate.node_timeout * STEPS)
}

/// What one server knows of its cluster.
pub(crate) struct View {
    pub(crate) ranges: Vec<Range>,
    /// The servers' own names.
    pub(crate) ids: Vec<String>,
    /// It takes the cluster for up.
    up: bool,
}

impl View {
    /// Whether it is of the cluster of those servers.
    fn knows(&self, ids: &[String]) -> bool {
        self.ids.iter().any(|id| ids.contains(id))
    }
}

fn of_server(server: &Endpoint, fault: Fault) -> Fault {
    let text = format!(
        "the server {} of the cluster: {}",
        shown(server),
        fault.text
    );
    fault.told_as(text)
}

/// Whether all servers of the URL that answer are of the cluster that has servers of these
/// `ids`: else its map would be now of the one, now of the other.
pub(crate) async fn look_for_strangers(target: &Target, ids: &[String]) -> Result<(), Fault> {
    let Endpoint::Cluster(seeds) = &target.address.endpoint else {
        return Ok(());
    };
    let most = patience(target);
    for server in &seeds.hosts {
        let view = within(&target.gate.clock, most, ask(target, server)).await;
        if view.is_ok_and(|view| !view.knows(ids)) {
            let why = "it belongs to another cluster than the others of its URL: name servers of one \
                       cluster in each URL";
            return Err(of_server(server, refused(why.into())));
        }
    }
    Ok(())
}

/// What the server at `server` says of the hash slots, and whether it takes the cluster for up.
async fn ask(target: &Target, server: &Endpoint) -> Result<View, Fault> {
    let mut wire = reach(target, server).await?;
    let commands = ["NODES", "SLOTS", "INFO"].map(|what| redis::cmd("CLUSTER").arg(what).take());
    let mut replies = exchange_long(&mut wire, &commands, resp::MAP).await?;
    let info = replies.pop().map(|reply| text(&reply)).unwrap_or_default();
    let slots = replies.pop().ok_or_else(replies::unexpected)?;
    let nodes = replies.pop().ok_or_else(replies::unexpected)?;
    if let Resp::ServerError(error) = &slots
        && clusterless(error)
    {
        return Err(refused(
            "it is not in cluster mode: write redis:// in place of redis+cluster://".into(),
        ));
    }
    let slots = permitted(&target.gate, "cluster|slots", slots)?;
    let nodes = permitted(&target.gate, "cluster|nodes", nodes)?;
    Ok(View {
        ranges: map::read(&slots, server).map_err(refused)?,
        ids: map::ids(&text(&nodes)),
        up: !info.contains("cluster_state:fail"),
    })
}

/// The fault of a server that was not reached where the cluster says that it is.
pub(super) fn announced(server: &Endpoint, fault: Fault) -> Fault {
    if !matches!(fault.kind, FaultKind::Unreachable | FaultKind::Timeout) {
        return fault;
    }
    let text = format!("{} {}", fault.text, not_there(server));
    fault.told_as(text)
}

/// Where a server was looked for in vain.
pub(crate) fn not_there(server: &Endpoint) -> String {
    format!(
        "at {}, which the cluster announces: if it has another address for clients, set \
         cluster-announce-ip",
        shown(server)
    )
}

/// A connection to a server of the cluster, and nothing more.
async fn reach(target: &Target, server: &Endpoint) -> Result<Wire, Fault> {
    let stream = target.dial.dial(server).await.map_err(|undialled| {
        let (DialError::Refused(fault) | DialError::Other(fault)) = undialled;
        fault
    })?;
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    for reply in exchange(&mut wire, &login(&target.address)).await? {
        good(reply)?;
    }
    Ok(wire)
}

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
    // The hash slot of the record is being moved, or was a moment ago.
    let server = at(&host, port, &target.address.endpoint).ok_or_else(replies::unexpected)?;
    let reached = reach(target, &server).await;
    let mut wire = reached.map_err(|fault| announced(&server, fault))?;
    let get = redis::cmd("GET").arg(&*gate.record_key).take();
    let stays = asks.is_none();
    let commands: Vec<_> = asks.into_iter().chain([get]).collect();
    let reply = exchange(&mut wire, &commands).await?.pop();
    Ok((wire, record_in(gate, reply)?, stays))
}

/// A map as it was read once: for who looks, and asks nothing for anybody.
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

/// Connections to all primaries of a cluster, for a look at them that changes nothing, and the
/// record of the cluster. Each of them has its time: one that hangs is a fault.
pub(super) async fn see(target: &Target) -> Result<(Vec<ShardProbe>, Option<String>), Fault> {
    let (targets, routes) = shards_of(target).await?;
    let (clock, most) = (&target.gate.clock, patience(target));
    let mut shards = Vec::new();
    for target in targets {
        let how = How::default();
        let at = &target.address.endpoint;
        let met = within(clock, most, greet(&target, &how)).await;
        let greeted = met.map_err(|fault| of_server(at, announced(at, fault)))?;
        shards.push(ShardProbe { target, greeted });
    }
    let (_, record, _) = within(clock, most, record_of(target, &*routes)).await?;
    Ok((shards, record))
}

/// Finds out which hash slots the shard serves, and gives it a stamp, if restarts are guarded.
pub(super) async fn stamp(
    target: &Target,
    greeted: &mut Greeting,
    record: &str,
    how: &How,
) -> Result<ShardState, Fault> {
    let gate = &target.gate;
    let Slots {
        own: slots,
        arriving,
        leaving,
    } = slots_of(target, &mut greeted.wire).await?;
    // What is on its way elsewhere answers to nothing in the middle of that.
    let stay = slots.iter().filter(|slot| !leaving.contains(slot));
    let stay: Vec<u16> = stay.copied().collect();
    let stay = if stay.is_empty() { &slots } else { &stay };
    let Some(lowest) = stay.first().copied() else {
        if gate.expected().guard && !arriving.is_empty() {
            // Nothing says whether it has lost keys of theirs. Once it serves one it has a stamp.
            return Err(not_ready("it is being given its first hash slots"));
        }
        // What is moved here later brings its marks along.
        return Ok(ShardState::default());
    };
    // A resharding takes the lowest first.
    let tag = hash_slot::tag(stay[stay.len() - 1]);
    let mut stamped = ShardState {
        scratch: vec![[&*gate.scratch_key, b":{", tag.as_bytes(), b"}"].concat()],
        quarantine: Duration::ZERO,
    };
    let (Some(run), true) = (&greeted.look.run, gate.expected().guard) else {
        return Ok(stamped);
    };
    let node = Record::parse(record).map_or_else(|| "-".into(), |r| r.node().to_owned());
    let own = format!("{node} {run}");
    let places = places(stay);
    let (wire, mut stepped) = (&mut greeted.wire, how.stepped);
    for _ in 0..WRITES {
        let found = stamps(target, wire, &places).await?;
        let lacking = places
            .iter()
            .zip(&found)
            .filter(|(_, found)| !is_of(found, &own));
        let lacking: Vec<u16> = lacking.map(|(place, _)| *place).collect();
        let known = match quarantine_of(&found, &own) {
            _ if stepped => None,
            None => look_everywhere(target, wire, &slots, &own).await?,
            known => known,
        };
        if let Some(quarantine) = known {
            // Another client may have stamped it a moment ago.
            stamped.quarantine = quarantine;
            set_stamps(target, wire, &lacking, &own).await?;
            return Ok(stamped);
        }
        let Some(Stamp { text: stored, .. }) = &found[0] else {
            return Err(not_ready("its hash slots are being moved"));
        };
        let quarantine = gate.expected().quarantine;
        let why = match (stored.is_empty(), stepped) {
            (_, true) => QuarantineCause::Clock,
            (true, false) => QuarantineCause::New,
            (false, false) => QuarantineCause::Promoted,
        };
        set_marks(target, wire, &slots, quarantine).await?;
        mark_arriving(target, wire, &arriving, quarantine).await?;
        let keys = [
            &*stamp_key(gate, lowest),
            &*mark(&gate.quarantine_key, lowest),
        ];
        if write_record(target, wire, keys, stored, &own, (quarantine, why))
            .await?
            .is_none()
        {
            tell_quarantine(target, quarantine, why);
            stamped.quarantine = quarantine;
            set_stamps(target, wire, &lacking, &own).await?;
            return Ok(stamped);
        }
        stepped = false;
    }
    Err(not_ready("its stamp changes again and again"))
}

/// Where a shard with these hash slots has its stamp: in the lowest, in the highest, and in each
/// of some numbers, so that hash slots which move away, whichever they are, leave it one.
fn places(slots: &[u16]) -> Vec<u16> {
    let is_one = |slot: &u16| {
        let more = slot.is_multiple_of(STAMPS_EACH) || Some(slot) == slots.last();
        Some(slot) == slots.first() || more
    };
    slots.iter().copied().filter(is_one).collect()
}

fn stamp_key(gate: &Gate, slot: u16) -> Vec<u8> {
    let tag = hash_slot::tag(slot);
    [namespace(gate), b"#shard:{", tag.as_bytes(), b"}"].concat()
}

/// What stands in a hash slot.
struct Stamp {
    /// The stamp, or nothing.
    text: String,
    /// How much longer its mark does.
    left: Duration,
}

/// The stamps in these hash slots; nothing of one that is being moved.
async fn stamps(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
) -> Result<Vec<Option<Stamp>>, Fault> {
    let gate = &target.gate;
    let mut commands = Vec::new();
    for slot in slots {
        commands.push(redis::cmd("GET").arg(stamp_key(gate, *slot)).take());
        let mark = mark(&gate.quarantine_key, *slot);
        commands.push(redis::cmd("PTTL").arg(mark).take());
    }
    let replies = exchange(wire, &commands).await?;
    let moves = |reply: &Resp| matches!(reply, Resp::ServerError(e) if redirect(e).is_some());
    let mut found = Vec::with_capacity(slots.len());
    for pair in replies.chunks(2) {
        if pair.iter().any(moves) {
            found.push(None);
            continue;
        }
        let stamp = match permitted(gate, "get", pair[0].clone())? {
            Resp::Nil => String::new(),
            stamp => text(&stamp),
        };
        let left = match permitted(gate, "pttl", pair[1].clone())? {
            Resp::Int(left) => left.try_into().unwrap_or(0),
            _ => 0,
        };
        let left = Duration::from_millis(left);
        found.push(Some(Stamp { text: stamp, left }));
    }
    Ok(found)
}

fn is_of(stamp: &Option<Stamp>, own: &str) -> bool {
    stamp.as_ref().is_some_and(|stamp| stamp.text == own)
}

/// How much longer the shard is in quarantine that has its stamp among these, if it has.
fn quarantine_of(found: &[Option<Stamp>], own: &str) -> Option<Duration> {
    let own = found.iter().filter(|stamp| is_of(stamp, own)).flatten();
    own.map(|stamp| stamp.left).max()
}

/// The same where it may stand in any of its hash slots. The run says that it has lost nothing
/// since; and what has come from another has brought its marks along.
async fn look_everywhere(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    own: &str,
) -> Result<Option<Duration>, Fault> {
    for slots in slots.chunks(AT_ONCE) {
        let found = stamps(target, wire, slots).await?;
        if let Some(quarantine) = quarantine_of(&found, own) {
            return Ok(Some(quarantine));
        }
    }
    Ok(None)
}

/// Gives the shard its stamp in these hash slots, too; not in those that are being moved.
async fn set_stamps(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    own: &str,
) -> Result<(), Fault> {
    let gate = &target.gate;
    let set = |slot: &u16| {
        redis::cmd("SET")
            .arg(stamp_key(gate, *slot))
            .arg(own)
            .take()
    };
    let commands: Vec<_> = slots.iter().map(set).collect();
    for reply in exchange(wire, &commands).await? {
        let sent = match &reply {
            Resp::ServerError(error) => redirect(error),
            _ => None,
        };
        match sent {
            None => drop(permitted(gate, "set", reply)?),
            Some(Redirect::Moved { .. } | Redirect::Ask { .. }) => {}
            // The others may move away before the next connection, and no stamp would be left.
            Some(_) => elsewhere(Some(reply)).map(drop)?,
        }
    }
    Ok(())
}

/// Admits a cluster, and gives all its shards their stamps. Returns how long any of them is in
/// quarantine yet; with `force` the quarantines are lifted.
pub(super) async fn declare(target: &Target, force: bool) -> Result<Duration, Fault> {
    let (gate, mut left) = (&target.gate, Duration::ZERO);
    let (shards, routes) = shards_of(target).await?;
    for shard in shards {
        let how = How::default();
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

/// The hash slots of a server, in order.
struct Slots {
    /// It serves these.
    own: Vec<u16>,
    /// These are being moved to it,
    arriving: Vec<u16>,
    /// and these of its own elsewhere.
    leaving: Vec<u16>,
}

/// The hash slots of the server. Those that are being moved are asked for first: a move to it
/// that ends in between is seen twice, not never.
async fn slots_of(target: &Target, wire: &mut Wire) -> Result<Slots, Fault> {
    let commands = ["NODES", "SLOTS", "MYID"].map(|what| redis::cmd("CLUSTER").arg(what).take());
    let mut replies = exchange_long(wire, &commands, resp::MAP).await?;
    let mut reply = |what: &str| {
        let reply = replies.pop().ok_or_else(replies::unexpected)?;
        permitted(&target.gate, what, reply)
    };
    let id = text(&reply("cluster|myid")?);
    let slots = reply("cluster|slots")?;
    let nodes = text(&reply("cluster|nodes")?);
    Ok(Slots {
        own: map::own(&slots, &id).map_err(refused)?,
        arriving: map::arriving(&nodes),
        leaving: map::leaving(&nodes),
    })
}

/// Sets the marks of the hash slots that are being moved to this server, for so long: keys of
/// theirs that were here already may be lost as well.
async fn mark_arriving(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    long: Duration,
) -> Result<(), Fault> {
    let mut commands = Vec::new();
    for slot in slots {
        commands.push(redis::cmd("ASKING"));
        commands.push(set_mark(target, *slot, long));
    }
    for reply in exchange(wire, &commands).await? {
        match &reply {
            // Its move was called off meanwhile.
            Resp::ServerError(error) if redirect(error).is_some() => {}
            _ => drop(permitted(&target.gate, "set", reply)?),
        }
    }
    Ok(())
}

fn set_mark(target: &Target, slot: u16, long: Duration) -> redis::Cmd {
    let mark = mark(&target.gate.quarantine_key, slot);
    let mut set = redis::cmd("SET");
    set.arg(mark).arg("1").arg("PX").arg(millis(long));
    set
}

/// Sets the marks of these hash slots, for so long; those of hash slots that are being moved
/// where these are moved to.
async fn set_marks(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    long: Duration,
) -> Result<(), Fault> {
    let gate = &target.gate;
    let set = |slot| set_mark(target, slot, long);
    let mut moved: BTreeMap<(String, u16, bool), Vec<u16>> = BTreeMap::new();
    for slots in slots.chunks(AT_ONCE) {
        let commands: Vec<_> = slots.iter().map(|slot| set(*slot)).collect();
        for (slot, reply) in slots.iter().zip(exchange(wire, &commands).await?) {
            let sent = match &reply {
                Resp::ServerError(error) => redirect(error),
                _ => None,
            };
            let (host, port, asking) = match sent {
                None => {
                    permitted(gate, "set", reply)?;
                    continue;
                }
                Some(Redirect::Moved { host, port, .. }) => (host, port, false),
                Some(Redirect::Ask { host, port }) => (host, port, true),
                Some(_) => return Err(not_ready("its hash slots are being moved")),
            };
            let server = (host, port, asking);
            moved.entry(server).or_default().push(*slot);
        }
    }
    for ((host, port, asking), slots) in moved {
        let server = at(&host, port, &target.address.endpoint);
        let server = server.ok_or_else(replies::unexpected)?;
        let mut wire = reach(target, &server).await?;
        for slot in slots {
            let asks = asking.then(|| redis::cmd("ASKING"));
            let commands: Vec<_> = asks.into_iter().chain([set(slot)]).collect();
            for reply in exchange(&mut wire, &commands).await? {
                permitted(gate, "set", elsewhere(Some(reply))?)?;
            }
        }
    }
    Ok(())
}
