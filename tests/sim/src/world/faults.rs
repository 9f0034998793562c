//! What goes wrong, and nodes as it leaves them.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::{Instant, MemoryNode, StoredValue, Value};

use super::clocks::Rate;
use super::events::Event;
use super::failover::{Failover, Role, Standby};
use super::messages::Listener;
use super::network::Cut;
use super::{Inner, MS, Time, World};
use crate::history::Happened;
use crate::neighbour::{LOCKS, known};
use crate::trace::Step;

/// What a node has in memory when it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All it had.
    Kept,
    /// Nothing.
    Lost,
    /// What it had at its last snapshot; nothing without one.
    Old,
}

/// Which way a cut is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Neither requests nor replies pass.
    Both,
    /// Requests do not.
    Requests,
    /// Replies do not.
    Replies,
}

/// What goes wrong at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEvent {
    /// The node takes nothing in for so long.
    PauseNode(usize, Time),
    /// What comes and goes takes longer for so long.
    SlowNode(usize, Time),
    /// The node is down for so long, and comes back with this in memory. Its
    /// connections die.
    CrashNode(usize, Time, Memory),
    /// The node saves what it has.
    Snapshot(usize),
    /// All that the node holds is deleted; it runs on.
    Flush(usize),
    /// The node's clock steps by this many nanoseconds.
    StepNode(usize, i64),
    /// The same, right after the node has lost its memory, so that the step takes
    /// no vote that counts, and where every client sees it.
    SetRight(usize, i64),
    /// Nothing passes between client and node for so long.
    Cut {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// How long.
        long: Time,
        /// Which way.
        ways: Ways,
        /// Bytes are lost and the connection breaks; else they come later.
        lossy: bool,
    },
    /// The connection between client and node is reset, and the client sees
    /// it. What was sent may still be carried out.
    Reset(usize, usize),
    /// The node's address leads the client to another server for so long, which
    /// is empty; the node runs on.
    Astray(usize, usize, Time),
    /// The client does nothing for so long.
    PauseClient(usize, Time),
    /// The client's machine sleeps for so long: timers stand still too.
    SuspendClient(usize, Time),
    /// The client is gone forever.
    CrashClient(usize),
    /// The client gets a message that no node sent, as if from that node.
    Forge(usize, usize),
    /// What the node has from here on does not reach its replica in time.
    FallsBehind(usize),
    /// The node's replica takes its place.
    FailsOver(Failover),
    /// Another program stores a lock of its own under a lock's key, where nothing stands.
    Foreign {
        /// On which node.
        node: usize,
        /// Which of [the locks](known).
        lock: usize,
        /// Which of [`FOREIGN`]; behind those: a lock in Redisson's layout.
        text: usize,
        /// For how long.
        long: Time,
    },
}

/// Values of other programs: some begin as ours do.
pub const FOREIGN: [&str; 6] = ["worker-7", "x", "-7 worker", "=1 x", "@0 ", "&0 1 x"];

impl FaultEvent {
    /// The node that it is about, or its place in a client's list.
    fn node(self) -> Option<usize> {
        match self {
            FaultEvent::PauseNode(node, _)
            | FaultEvent::SlowNode(node, _)
            | FaultEvent::CrashNode(node, ..)
            | FaultEvent::Snapshot(node)
            | FaultEvent::Flush(node)
            | FaultEvent::StepNode(node, _)
            | FaultEvent::SetRight(node, _)
            | FaultEvent::Cut { node, .. }
            | FaultEvent::Reset(_, node)
            | FaultEvent::Astray(_, node, _)
            | FaultEvent::Forge(_, node)
            | FaultEvent::FallsBehind(node)
            | FaultEvent::FailsOver(Failover { node, .. })
            | FaultEvent::Foreign { node, .. } => Some(node),
            FaultEvent::PauseClient(..)
            | FaultEvent::SuspendClient(..)
            | FaultEvent::CrashClient(_) => None,
        }
    }

    fn long(self) -> Time {
        match self {
            FaultEvent::CrashNode(_, long, _) => long + long / 2,
            FaultEvent::PauseNode(_, long)
            | FaultEvent::SlowNode(_, long)
            | FaultEvent::Cut { long, .. }
            | FaultEvent::Astray(_, _, long)
            | FaultEvent::Foreign { long, .. }
            | FaultEvent::PauseClient(_, long)
            | FaultEvent::SuspendClient(_, long) => long,
            FaultEvent::FailsOver(failover) => failover.long(),
            FaultEvent::Snapshot(_)
            | FaultEvent::Flush(_)
            | FaultEvent::StepNode(..)
            | FaultEvent::SetRight(..)
            | FaultEvent::Reset(..)
            | FaultEvent::CrashClient(_)
            | FaultEvent::FallsBehind(_)
            | FaultEvent::Forge(..) => 0,
        }
    }
}

/// A node as the world sees it.
pub(super) struct Node {
    pub(super) state: MemoryNode,
    pub(super) clock: Rate,
    /// It takes nothing in before this time.
    pub(super) paused_until: Time,
    /// What came meanwhile.
    pub(super) held_back: Vec<Event>,
    /// Down until then: what arrives is lost.
    pub(super) down_until: Time,
    /// Loading its data until then: it answers, but does nothing.
    pub(super) loading_until: Time,
    /// Slow until then.
    pub(super) slow_until: Time,
    pub(super) saved: MemoryNode,
    /// The server to which its address led astray last, and that one's clock.
    pub(super) other: MemoryNode,
    pub(super) other_clock: Rate,
    /// Its other server, if it fails over; which of the two is in its place; what that is, and
    /// the history that it went on from when it was promoted last.
    pub(super) standby: Option<Box<Standby>>,
    pub(super) place: usize,
    pub(super) role: Role,
    pub(super) history: u64,
    /// How often that was, of either; and all that its replica has, once it falls behind.
    pub(super) promotions: u64,
    pub(super) behind: Option<MemoryNode>,
    /// Who listens.
    pub(super) listeners: Vec<Listener>,
    /// How often it was restarted.
    pub(super) run: u64,
    /// Its clock stepped forward, or it lost data without a guard: what it
    /// confirmed may not be true any more, and no promise rests on it.
    pub(super) excused: bool,
    /// It lost data.
    pub(super) forgot: bool,
    /// Under which of [the locks](known) another program has stored a lock of its own.
    pub(super) foreign: [bool; LOCKS],
    /// When its present run began, by its own clock, and whether it has stored
    /// anything in it.
    pub(super) started: Instant,
    pub(super) used: bool,
    /// How many strings it has stored in it for its records.
    pub(super) stored: u64,
    /// When each lock's counter of fences was lost last, and whether there is
    /// one to lose.
    pub(super) lost_at: [Time; LOCKS],
    pub(super) counts: [bool; LOCKS],
}

impl Node {
    pub(super) fn new(clock: Rate, record: Option<Arc<str>>, server: Option<(Time, bool)>) -> Node {
        let (uptime, used) = server.unwrap_or((0, true));
        let mut state = MemoryNode::default();
        if let Some(record) = record {
            state.init(None, record, Duration::ZERO, Instant(0));
        }
        Node {
            state,
            clock,
            other_clock: clock,
            paused_until: 0,
            held_back: Vec::new(),
            down_until: 0,
            loading_until: 0,
            slow_until: 0,
            saved: MemoryNode::default(),
            other: MemoryNode::default(),
            standby: None,
            place: 0,
            role: Role::Master,
            history: 0,
            promotions: 0,
            behind: None,
            listeners: Vec::new(),
            run: 0,
            excused: false,
            forgot: false,
            foreign: [false; LOCKS],
            started: Instant(clock.offset.saturating_sub(uptime)),
            used,
            stored: 0,
            lost_at: [0; LOCKS],
            counts: [false; LOCKS],
        }
    }

    /// Goes on with nothing, or with what was saved.
    fn forget(&mut self, now: Time, memory: Memory) {
        self.state = match memory {
            Memory::Kept => return,
            Memory::Lost => MemoryNode::default(),
            Memory::Old => std::mem::take(&mut self.saved),
        };
        self.keep_listeners();
        self.forgot = true;
        self.lost_at = [now; LOCKS];
        self.counts = [false; LOCKS];
    }
}

impl World {
    /// Lets something go wrong at `at`.
    pub fn plan(&self, at: Time, fault: FaultEvent) {
        let mut inner = self.inner();
        if !inner.may_go_wrong(at, fault) {
            return;
        }
        inner.mended_at = inner.mended_at.max(at + fault.long());
        inner.push(at, Event::Fault(fault));
    }

    /// Lets a client stand still for so long once its home votes for it.
    pub fn pause_at_vote(&self, client: usize, long: Time) {
        let mut inner = self.inner();
        if inner.may_go_wrong(inner.time, FaultEvent::PauseClient(client, long)) {
            inner.clients[client].pauses_at_vote = Some(long);
        }
    }
}

impl Inner {
    /// Whether the schedule still has this, and the node that it is about.
    fn may_go_wrong(&self, at: Time, fault: FaultEvent) -> bool {
        let script = self.random.script();
        script.is_none_or(|s| s.plans(at, fault)) && fault.node() < Some(self.nodes.len())
    }

    /// Without a guard nothing stands on a node that has lost its data.
    pub(super) fn excuse_the_forgetful(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let excuses = !self.admission.expected.guard && !self.admission.excuses_nothing;
        node.excused |= node.forgot && excuses;
    }

    /// Where a client lists a node: by its number where it does not.
    fn pair_of(&self, client: usize, node: usize) -> usize {
        let nodes = self.nodes.len();
        let own = &self.pairs[client * nodes..][..nodes];
        let place = own.iter().position(|pair| pair.node == node);
        client * nodes + place.unwrap_or(node)
    }

    /// A client's home has voted for it.
    pub(super) fn voted_at_home(&mut self, client: usize) {
        if let Some(long) = self.clients[client].pauses_at_vote.take() {
            self.mended_at = self.mended_at.max(self.time + long);
            self.go_wrong(FaultEvent::PauseClient(client, long));
        }
    }

    pub(super) fn go_wrong(&mut self, fault: FaultEvent) {
        self.faults += 1;
        self.note(|| Happened::Fault(fault));
        self.traces(|_| Step::Fault(fault));
        let now = self.time;
        match fault {
            FaultEvent::PauseNode(node, long) => {
                let state = &mut self.nodes[node];
                if state.paused_until <= now {
                    state.paused_until = now + long;
                    self.push(now + long, Event::ResumeNode(node));
                }
            }
            FaultEvent::SlowNode(node, long) => self.nodes[node].slow_until = now + long,
            FaultEvent::CrashNode(node, long, memory) => {
                self.nodes[node].down_until = now + long;
                if self.random.chance(30) {
                    self.nodes[node].loading_until = now + long + long / 2;
                }
                let state = &mut self.nodes[node];
                state.run += 1;
                (state.started, state.used) = (state.clock.local(now + long), false);
                state.stored = 0;
                self.nodes[node].drop_listeners();
                self.nodes[node].forget(now, memory);
                if memory == Memory::Old {
                    self.haunted(node);
                }
                self.excuse_the_forgetful(node);
                self.node_dies(node);
                for at in 0..self.pairs.len() {
                    if self.pairs[at].node == node {
                        let p = &self.pairs[at];
                        for connection in p.old.into_iter().chain(p.current) {
                            if self.bytes.is_some() {
                                continue;
                            }
                            let wire = &mut self.connections[connection as usize];
                            (wire.broken, wire.dead) = (true, true);
                        }
                        // Some clients see it at once.
                        if self.random.chance(50) {
                            let client = self.pairs[at].client;
                            let place = at % self.nodes.len();
                            self.push(now, Event::Fault(FaultEvent::Reset(client, place)));
                        }
                    }
                }
            }
            FaultEvent::Snapshot(node) => self.nodes[node].save(),
            FaultEvent::Flush(node) => {
                self.nodes[node].used = true;
                self.nodes[node].forget(now, Memory::Lost);
                self.excuse_the_forgetful(node);
                // Its record goes too. Without a guard nobody looks at that over a
                // connection that stands: clients differ in their homes, and take turns
                // by chance, which no bound of the line allows for.
                let unseen = self.bytes.is_some() && !self.admission.expected.guard;
                if unseen && !self.lines.is_empty() {
                    let to_it = |pair: &usize| self.pairs[*pair].node == node;
                    for pair in (0..self.pairs.len()).filter(to_it).collect::<Vec<_>>() {
                        let client = self.pairs[pair].client;
                        let reset = FaultEvent::Reset(client, pair % self.nodes.len());
                        self.push(now, Event::Fault(reset));
                    }
                }
            }
            FaultEvent::StepNode(node, by) | FaultEvent::SetRight(node, by) => {
                let seen = matches!(fault, FaultEvent::SetRight(..));
                let node = &mut self.nodes[node];
                // What has expired does not come back.
                node.state.expire(node.clock.local_ms(now));
                node.clock.offset = node.clock.offset.saturating_add_signed(by);
                node.excused |= by > 0 && !seen;
                self.oracle.steps_seen = true;
                self.oracle.stepped_back += by.min(0).unsigned_abs();
            }
            FaultEvent::Cut {
                client,
                node,
                long,
                ways,
                lossy,
            } => {
                let pair = self.pair_of(client, node);
                let pair = &mut self.pairs[pair];
                let cut = Cut {
                    until: now + long,
                    lossy,
                };
                if ways != Ways::Replies {
                    pair.requests_cut = cut;
                }
                if ways != Ways::Requests {
                    pair.replies_cut = cut;
                }
            }
            FaultEvent::Astray(client, node, long) => {
                self.oracle.led_astray = true;
                // Servers do not tell the same time.
                let ahead = self.random.below(2 * self.network.reach);
                let at = &mut self.nodes[node];
                at.other = MemoryNode::default();
                at.other_clock = at.clock;
                at.other_clock.offset =
                    (at.clock.offset + ahead).saturating_sub(self.network.reach);
                let pair = client * self.nodes.len() + node;
                self.pairs[pair].astray_until = now + long;
                for at in [now, now + long] {
                    self.push(at, Event::Fault(FaultEvent::Reset(client, node)));
                }
            }
            FaultEvent::PauseClient(client, long) | FaultEvent::SuspendClient(client, long) => {
                let suspend = matches!(fault, FaultEvent::SuspendClient(..));
                if self.clients[client].pause(now, long, suspend) {
                    self.push(now + long, Event::ResumeClient(client));
                    self.vanishes(client, now + long);
                    if suspend {
                        self.falls_silent(client, now + long);
                    }
                }
            }
            FaultEvent::CrashClient(client) => {
                self.clients[client].crashed = true;
                self.vanishes(client, Time::MAX);
                self.falls_silent(client, Time::MAX);
            }
            FaultEvent::Forge(client, node) => self.forge(client, node),
            FaultEvent::FallsBehind(node) => self.falls_behind(node),
            FaultEvent::FailsOver(failover) => self.fail_over(failover),
            FaultEvent::Foreign {
                node,
                lock,
                text,
                long,
            } => {
                let (key, node) = (&known()[lock].lock, &mut self.nodes[node]);
                // Servers count whole milliseconds.
                let local = node.clock.local_ms(now);
                let long = Duration::from_millis((long / MS).max(1));
                let hashed = node.state.hashes(local).any(|(other, ..)| *other == **key);
                if node.state.form(key, local).is_none() && !hashed {
                    match FOREIGN.get(text) {
                        Some(text) => {
                            let value = Value(text.as_bytes().into());
                            let form = StoredValue::Uncontended(value);
                            node.state.meddle(key, Some((form, local + long)));
                        }
                        None => node.state.java_locks(key, b"java:1", long, local),
                    }
                    let same = known().iter().zip(&mut node.foreign);
                    let same = same.filter(|(other, _)| other.lock == *key);
                    same.for_each(|(_, foreign)| *foreign = true);
                }
            }
            FaultEvent::Reset(..) => unreachable!("the world tells the client"),
        }
    }
}
