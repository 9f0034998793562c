//! The servers of a cluster: who serves which hash slot, and what stands there.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quorlock::sim::names::{Naming, aux};
use quorlock::sim::{Instant, MemoryNode};

use super::commands::{NAMESPACE, SLOTS, slot_of};
use super::world::{Event, Inner, MS, Time};

/// What servers' clocks show at the start, in ns.
const START: u64 = 2_000_000_000_000;
/// No lock is in a hash slot below it.
pub const BELOW_LOCKS: u16 = 16;
/// The record that memory nodes hold: the scripts of a cluster compare none.
pub const ANY_RECORD: &str = "-";

/// A primary, or one that was.
#[derive(Debug)]
pub struct Server {
    /// The host by which it is dialled.
    pub name: String,
    /// Which run of its process, of all servers' runs.
    pub run: u64,
    /// It has died, and this one has its place.
    heir: Option<usize>,
    /// Whether it has become the primary in another's place.
    pub promoted: bool,
    /// It answers nothing before.
    pub paused_until: Time,
    /// Which scripts it has.
    pub loaded: u16,
    /// By how much its clock is ahead.
    ahead: Time,
    started: Time,
    down_until: Time,
    /// What waits in its socket.
    held_back: Vec<(usize, Vec<u8>)>,
    listeners: BTreeMap<Arc<[u8]>, u32>,
    /// A client has had a connection to it.
    met: bool,
}

/// A hash slot.
#[derive(Debug)]
pub struct Slot {
    /// Its server.
    pub at: usize,
    /// Where it is being moved to, and whether its keys are there yet.
    pub moving: Option<(usize, bool)>,
    /// Who has served it so far.
    pub served: Vec<usize>,
    /// What stands in it.
    pub data: Data,
    /// What the replica of its server has, where that lacks the last writes.
    behind: Option<Data>,
}

/// What stands in a hash slot.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// Locks and all that belongs to them; its quarantine is the mark of the hash slot.
    pub node: MemoryNode,
    /// Records and stamps.
    pub texts: BTreeMap<Vec<u8>, String>,
    /// The server where something of it was lost, while no client has marked it since.
    pub lost_at: Option<usize>,
    /// The tokens that were released,
    pub released: Vec<Arc<[u8]>>,
    /// and whether one of them was given a vote after that.
    pub too_late: bool,
    /// What is subscribed at the memory node.
    listening: BTreeMap<Arc<[u8]>, u32>,
}

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    /// All that ever were.
    pub servers: Vec<Server>,
    /// The hash slots that matter; the others are served by nobody.
    pub slots: BTreeMap<u16, Slot>,
    /// It takes itself for down before.
    pub down_until: Time,
    /// Each of its servers says before that another has every hash slot.
    pub loops_until: Time,
    /// For how long they say so,
    pub loops_for: Time,
    /// and to whose requests how often.
    pub looped: BTreeMap<Vec<u8>, u64>,
    /// Votes were lost, and nobody could know of it.
    pub excused: bool,
    /// By how much the clocks of its servers differ at the most.
    skew: Time,
    number: usize,
    runs: u64,
}

/// What goes wrong with a cluster, or is done to it.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A primary restarts without its data, after so long.
    Restart(usize, Time),
    /// A server's replica gets none of its writes from now on.
    FallsBehind(usize),
    /// A server dies, and its replica takes its place after so long.
    FailsOver(usize, Time),
    /// A server stands still for so long.
    Pause(usize, Time),
    /// It goes on.
    GoesOn(usize),
    /// All connections to a server break.
    Cuts(usize),
    /// The cluster takes itself for down for so long.
    Down(Time),
    /// Its servers send everybody from one to another for so long.
    Loops(Time),
    /// A hash slot begins to move to a server,
    BeginMove(u16, usize),
    /// its keys go there,
    MoveKeys(u16),
    /// and it is that server's.
    EndMove(u16),
}

impl Fault {
    /// It is a step of a hash slot's way to another server.
    pub fn moves(&self) -> bool {
        use Fault::{BeginMove, EndMove, MoveKeys};
        matches!(self, BeginMove(..) | MoveKeys(_) | EndMove(_))
    }
}

impl Data {
    fn new() -> Data {
        let mut data = Data::default();
        let (record, now) = (ANY_RECORD.into(), Instant(START));
        data.node.init(None, record, Duration::ZERO, now);
        data
    }

    /// Its memory node hears of who listens at its server.
    pub fn listen(&mut self, listeners: &BTreeMap<Arc<[u8]>, u32>) {
        if self.listening == *listeners {
            return;
        }
        for (inbox, count) in &self.listening {
            (0..*count).for_each(|_| self.node.unsubscribe(inbox));
        }
        for (inbox, count) in listeners {
            (0..*count).for_each(|_| self.node.subscribe(inbox));
        }
        self.listening.clone_from(listeners);
    }
}

impl Cluster {
    /// Whether a vote for the lock of that name stands.
    pub fn has_vote(&self, name: &str, time: Time) -> bool {
        let lock = format!("{NAMESPACE}{{{name}}}").into_bytes();
        let slot = &self.slots[&slot_of(&lock)];
        let now = self.servers[slot.at].local(time);
        let time = MemoryNode::time(now);
        let form = slot.data.node.form(&lock, now);
        let alone = form.is_some_and(|(form, _)| form.holder(time).is_some());
        let readers = aux(NAMESPACE, &lock, Naming::Tagged).shared();
        let readers = slot.data.node.readers(&readers, now).into_iter();
        let mut votes = readers.flat_map(|readers| &readers.votes);
        alone || votes.any(|(_, until)| time <= *until)
    }
}

impl Server {
    /// Whether it takes connections at a time.
    pub fn is_up(&self, at: Time) -> bool {
        self.down_until <= at
    }

    /// Who listens there.
    pub fn listeners(&self) -> &BTreeMap<Arc<[u8]>, u32> {
        &self.listeners
    }

    /// One more listens.
    pub fn subscribe(&mut self, inbox: &Arc<[u8]>) {
        self.met = true;
        *self.listeners.entry(inbox.clone()).or_default() += 1;
    }

    /// One less.
    pub fn unsubscribe(&mut self, inbox: &Arc<[u8]>) {
        if let Some(count) = self.listeners.get_mut(inbox) {
            *count -= 1;
            if *count == 0 {
                self.listeners.remove(inbox);
            }
        }
    }

    /// For how long its process runs, in s.
    pub fn uptime(&self, now: Time) -> u64 {
        // The first has run for long.
        (now + 100_000 * 1000 * MS * u64::from(self.started == 0)).saturating_sub(self.started)
            / (1000 * MS)
    }

    /// The moment that its clock shows.
    pub fn local(&self, time: Time) -> Instant {
        Instant(START + time + self.ahead)
    }

    /// The id of its process. Clients look at the first half of it.
    pub fn run_id(&self) -> String {
        format!("{:016x}{:024}", self.run, 0)
    }

    /// The id by which the cluster knows it.
    pub fn id(&self) -> String {
        format!("{:0>40}", self.name)
    }
}

impl Cluster {
    /// This many primaries, which serve these hash slots, and how far their clocks differ.
    pub fn new(number: usize, primaries: usize, slots: &[(u16, usize)], skew: Time) -> Cluster {
        let mut cluster = Cluster {
            servers: Vec::new(),
            slots: BTreeMap::new(),
            down_until: 0,
            loops_until: 0,
            loops_for: 0,
            looped: BTreeMap::new(),
            excused: false,
            skew,
            number,
            runs: 0,
        };
        (0..primaries).for_each(|_| {
            cluster.starts(0);
        });
        for (slot, at) in slots {
            let slot_is = Slot {
                at: *at,
                moving: None,
                served: vec![*at],
                data: Data::new(),
                behind: None,
            };
            cluster.slots.insert(*slot, slot_is);
        }
        cluster
    }

    fn run(&mut self) -> u64 {
        self.runs += 1;
        // No two servers of any cluster share one.
        (self.number as u64) << 32 | self.runs
    }

    /// Another server starts.
    fn starts(&mut self, now: Time) -> usize {
        let server = Server {
            name: format!("c{}s{}", self.number, self.servers.len()),
            run: self.run(),
            heir: None,
            promoted: now > 0,
            paused_until: 0,
            loaded: 0,
            ahead: self.skew * (self.servers.len() as Time * 37 % 100) / 100,
            started: now,
            down_until: 0,
            held_back: Vec::new(),
            listeners: BTreeMap::new(),
            met: false,
        };
        self.servers.push(server);
        self.servers.len() - 1
    }

    /// Whether a server serves a hash slot, or is to.
    fn is_moving(&self, server: usize) -> bool {
        let touches = |slot: &Slot| slot.at == server || slot.moving.is_some_and(|m| m.0 == server);
        let mut slots = self.slots.values();
        slots.any(|slot| slot.moving.is_some() && touches(slot))
    }

    /// Who serves hash slots.
    pub fn primaries(&self) -> Vec<usize> {
        let mut found: Vec<usize> = self.slots.values().map(|slot| slot.at).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A client has given a server its stamp, and so marked what was lost there.
    pub fn was_stamped(&mut self, server: usize) {
        for slot in self.slots.values_mut() {
            slot.data.lost_at.take_if(|at| *at == server);
        }
    }

    /// The names of those that serve: a client is told of them.
    pub fn living(&self) -> Vec<String> {
        let names = self.primaries().into_iter();
        names
            .map(|place| self.servers[place].name.clone())
            .collect()
    }

    /// The server that has taken that one's place, if one has.
    fn heir(&self, mut server: usize) -> usize {
        while let Some(heir) = self.servers[server].heir {
            server = heir;
        }
        server
    }
}

impl Inner {
    /// Bytes have reached a server.
    pub fn arrives(&mut self, wire: usize, bytes: Vec<u8>) {
        let w = &self.wires[wire];
        if w.dead {
            return;
        }
        let (cluster, place, now) = (w.cluster, w.server, self.time);
        let server = &mut self.clusters[cluster].servers[place];
        if !server.is_up(now) {
            return self.breaks(wire);
        }
        if server.paused_until > now {
            server.held_back.push((wire, bytes));
            return;
        }
        self.serve(wire, &bytes);
    }

    /// Something goes wrong.
    pub fn fails(&mut self, number: usize, fault: Fault) {
        let now = self.time;
        self.says(|| format!("cluster {number}: {fault:?}"));
        let cluster = &mut self.clusters[number];
        match fault {
            Fault::Restart(server, down) => {
                let server = cluster.heir(server);
                let run = cluster.run();
                let gone = &mut cluster.servers[server];
                (gone.run, gone.loaded) = (run, 0);
                (gone.down_until, gone.started) = (now + down, now + down);
                gone.held_back.clear();
                for slot in cluster.slots.values_mut() {
                    // What has been moved is elsewhere, and what is on its way here is here.
                    let here = match slot.moving {
                        Some((to, true)) => to == server,
                        _ => slot.at == server,
                    };
                    if here {
                        slot.data = Data::new();
                        slot.data.lost_at = Some(server);
                        slot.behind = None;
                    }
                }
                self.cuts(number, server);
            }
            Fault::FallsBehind(server) => {
                let server = cluster.heir(server);
                for slot in cluster.slots.values_mut() {
                    if slot.at == server && slot.moving.is_none() {
                        slot.behind = Some(slot.data.clone());
                    }
                }
            }
            Fault::FailsOver(server, told) => {
                let server = cluster.heir(server);
                let serves = cluster.primaries().contains(&server);
                // What a move in progress comes to then is not Quorlock's.
                if cluster.is_moving(server) || !serves {
                    return;
                }
                cluster.servers[server].down_until = Time::MAX;
                let next = cluster.starts(now);
                cluster.servers[next].down_until = now + told;
                cluster.servers[server].heir = Some(next);
                for slot in cluster.slots.values_mut() {
                    if slot.at == server {
                        slot.at = next;
                        slot.served.push(next);
                        let lost = slot.data.lost_at.is_some() || slot.behind.is_some();
                        slot.data = slot.behind.take().unwrap_or(std::mem::take(&mut slot.data));
                        slot.data.lost_at = lost.then_some(next);
                    }
                }
                self.cuts(number, server);
            }
            Fault::Pause(server, long) => {
                let server = cluster.heir(server);
                cluster.servers[server].paused_until = now + long;
                self.push(now + long, Event::Fault(number, Fault::GoesOn(server)));
            }
            Fault::GoesOn(server) => {
                let waiting = std::mem::take(&mut cluster.servers[server].held_back);
                for (wire, bytes) in waiting {
                    self.arrives(wire, bytes);
                }
            }
            Fault::Cuts(server) => {
                let server = cluster.heir(server);
                self.cuts(number, server);
            }
            Fault::Down(long) => cluster.down_until = now + long,
            Fault::Loops(long) => {
                (cluster.loops_until, cluster.loops_for) = (now + long, long);
            }
            Fault::BeginMove(slot, to) => {
                let to = cluster.heir(to);
                // Of a server that no client has met nothing else has the stamp.
                let only = |at: usize| slot < BELOW_LOCKS && !cluster.servers[at].met;
                let only = cluster.slots.get(&slot).is_some_and(|slot| only(slot.at));
                if let Some(slot) = cluster.slots.get_mut(&slot)
                    && slot.at != to
                    && slot.moving.is_none()
                    && !only
                {
                    slot.moving = Some((to, false));
                    slot.behind = None;
                }
            }
            Fault::MoveKeys(slot) => {
                let slot = cluster.slots.get_mut(&slot).expect("it is one");
                if let Some((_, keys)) = &mut slot.moving {
                    *keys = true;
                }
            }
            Fault::EndMove(slot) => {
                let slot = cluster.slots.get_mut(&slot).expect("it is one");
                if let Some((to, _)) = slot.moving.take() {
                    // What the former server lost shows nowhere any more: a limit that is told
                    // in docs/operations/cluster.md.
                    cluster.excused |= slot.data.lost_at == Some(slot.at);
                    slot.at = to;
                    slot.served.push(to);
                }
            }
        }
    }

    /// All connections to a server break.
    fn cuts(&mut self, cluster: usize, server: usize) {
        for wire in 0..self.wires.len() {
            let w = &self.wires[wire];
            if w.cluster == cluster && w.server == server {
                self.breaks(wire);
            }
        }
    }
}

impl Cluster {
    /// Every server has its stamp in its lowest hash slot, as one has that no client of today
    /// has met.
    pub fn stamp(&mut self, node: &str) {
        for server in self.primaries() {
            let own = format!("{node} {}", &self.servers[server].run_id()[..16]);
            let mut slots = self.slots.iter_mut();
            let lowest = slots.find(|(_, slot)| slot.at == server);
            let (number, slot) = lowest.expect("it serves one");
            let key = format!("lock:#shard:{{{}}}", tag_of(*number));
            slot.data.texts.insert(key.into_bytes(), own);
        }
    }
}

/// The smallest number whose decimal text hashes to a hash slot: the tag of its stamp.
fn tag_of(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<Option<u32>>> = LazyLock::new(|| {
        let (mut tags, mut missing) = (vec![None; usize::from(SLOTS)], SLOTS);
        for tag in 0_u32.. {
            let own = &mut tags[usize::from(slot_of(tag.to_string().as_bytes()))];
            if own.is_none() {
                (*own, missing) = (Some(tag), missing - 1);
            }
            if missing == 0 {
                break;
            }
        }
        tags
    });
    TAGS[usize::from(slot)].expect("each has one")
}
