//! Nodes that fail over: each has two servers, a master and its replica.
//!
//! Which of them serves is known from when it is promoted. The replica has what its master
//! had a while before; the one whose place it takes goes on giving votes until it is told
//! that it is a replica, or has ended; and clients hear of all that late, each when its
//! sentinels say so, or from the server itself. A server that is told takes over what the
//! new master has, and may be promoted again.
//!
//! Everything else looks at a node as it is *now*: a connection to the other server has
//! that in its place for as long as something happens there (`Inner::at_server`).

use std::time::Duration;

use quorlock::sim::admission::{GRACE, Info};
use quorlock::sim::{Instant, MemoryNode, Op, Repair, Reply, Request};

use super::clocks::Rate;
use super::events::{Answer, Event, Said};
use super::faults::{FaultEvent, Node};
use super::messages::Listener;
use super::network::not_ready;
use super::{Inner, MS, Time, World};
use crate::history::{Asked, Happened};
use crate::neighbour::LOCKS;
use crate::random::Random;

/// The first run of the server that is a replica to begin with.
const STANDBY: u64 = 500_000;

/// This many bits of a server's number tell which promotion made it the master.
const PROMOTIONS: u32 = 20;

/// Which promotion of its node made the server of that number the master.
fn promotion_of(server: u64) -> u64 {
    (server >> 8) & ((1 << PROMOTIONS) - 1)
}

/// What a server of a node that fails over is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It gives votes.
    Master,
    /// It refuses writes.
    Replica,
    /// Its process has ended.
    Gone,
}

/// A master's place is taken by its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The node.
    pub node: usize,
    /// After so long the one before is a replica.
    pub told: Time,
    /// Its process has ended meanwhile.
    pub dies: bool,
    /// Every client has heard of it by then; `None`: some never do, but from the
    /// servers and when they connect anew.
    pub heard: Option<Time>,
    /// The longest that sentinels go on naming the one before.
    pub named: Time,
}

impl Failover {
    /// How long it takes until everything is as it was.
    pub(super) fn long(self) -> Time {
        self.told.max(self.named).max(self.heard.unwrap_or(0))
    }
}

/// The server of a node that is not the one in its place.
pub(super) struct Standby {
    state: MemoryNode,
    clock: Rate,
    run: u64,
    history: u64,
    role: Role,
    started: Instant,
    used: bool,
    stored: u64,
    listeners: Vec<Listener>,
}

/// What one client knows of the servers of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// From when on its sentinels name the server that is the master.
    named_from: Time,
    /// The server of the last connection: its place in the node, and its number.
    here: Option<(usize, u64)>,
    /// Its number, and until when another may give votes, by the client's clock: one that was
    /// never met, or the one before.
    former: Option<(u64, Instant, bool)>,
    /// The numbers of those that do not.
    succeeded: Vec<u64>,
}

impl Node {
    /// The node gets a replica, whose clock is so far ahead of its own.
    fn replicate(&mut self, ahead: i64) {
        let mut clock = self.clock;
        clock.offset = clock.offset.saturating_add_signed(ahead);
        // As far from the true rate, on the other side.
        clock.rate = 2.0 - clock.rate;
        self.standby = Some(Box::new(Standby {
            state: self.state.clone(),
            clock,
            run: STANDBY,
            history: 0,
            role: Role::Replica,
            started: Instant(clock.offset),
            used: true,
            stored: 0,
            listeners: Vec::new(),
        }));
    }

    /// The other server is in the node's place.
    pub(super) fn turn(&mut self) {
        let Some(standby) = &mut self.standby else {
            return;
        };
        self.place ^= 1;
        std::mem::swap(&mut self.state, &mut standby.state);
        std::mem::swap(&mut self.clock, &mut standby.clock);
        std::mem::swap(&mut self.run, &mut standby.run);
        std::mem::swap(&mut self.history, &mut standby.history);
        std::mem::swap(&mut self.role, &mut standby.role);
        std::mem::swap(&mut self.started, &mut standby.started);
        std::mem::swap(&mut self.used, &mut standby.used);
        std::mem::swap(&mut self.stored, &mut standby.stored);
        std::mem::swap(&mut self.listeners, &mut standby.listeners);
    }

    /// What the earliest and the latest of its servers' clocks show.
    pub(super) fn clocks(&self, time: Time) -> (u64, u64) {
        let own = self.clock.local(time).0;
        let other = self.standby.as_ref();
        let other = other.map_or(own, |standby| standby.clock.local(time).0);
        (own.min(other), own.max(other))
    }

    /// Whether there is a server that may take its place.
    fn has_replica(&self) -> bool {
        let standby = self.standby.as_ref();
        standby.is_some_and(|standby| standby.role == Role::Replica)
    }

    /// Its data, as it goes to a replica.
    fn data(&self) -> MemoryNode {
        let mut data = self.state.clone();
        for listener in &self.listeners {
            data.unsubscribe(&listener.inbox);
        }
        data
    }

    /// The run of the server that is there now, as clients read it from `INFO`.
    pub(super) fn shown_run(&self, run_id: String) -> String {
        if self.history == 0 {
            return run_id;
        }
        // What is told of a run is of letters and digits.
        let id = run_id.replace('.', "x");
        let history = format!("{:040x}", self.history);
        let info = format!("run_id:{id}\nmaster_replid2:{history}\n");
        match Info::parse(&info).run {
            Some(run) if run != id => run[..16].into(),
            _ => run_id,
        }
    }
}

impl World {
    /// Every node has a replica from here on.
    pub fn replicate(&self, random: &Random) {
        let mut inner = self.inner();
        let reach = inner.network.reach;
        for node in &mut inner.nodes {
            // Mostly as far apart as clocks are that are kept right.
            let apart = *random.pick(&[MS, 20 * MS, reach]) as f64;
            node.replicate((apart * random.either_way()) as i64);
        }
    }
}

impl Inner {
    /// Whether a node has another server, which may take its place.
    pub(super) fn fails_over(&self, node: usize) -> bool {
        self.nodes[node].standby.is_some()
    }

    /// Which server of its node a client is led to: the place of that, and its number.
    pub(super) fn named(&self, pair: usize) -> (usize, u64) {
        let p = &self.pairs[pair];
        let late = self.fails_over(p.node) && self.time < p.news.named_from;
        let place = self.nodes[p.node].place ^ usize::from(late);
        (place, self.server_at(p.node, place))
    }

    /// The number of a node's server.
    pub(super) fn server_at(&self, node: usize, place: usize) -> u64 {
        let state = &self.nodes[node];
        let of = |run: u64, history| 1 + node as u64 + ((run << PROMOTIONS | history) << 8);
        match &state.standby {
            // Its own, in whatever run.
            None => of(0, 0),
            Some(other) if place != state.place => of(other.run, other.history),
            Some(_) => of(state.run, state.history),
        }
    }

    /// What a node's server is.
    fn role_at(&self, node: usize, place: usize) -> Role {
        let state = &self.nodes[node];
        match &state.standby {
            Some(other) if place != state.place => other.role,
            _ => state.role,
        }
    }

    /// How many replicas have all that the server in a node's place has.
    pub(super) fn replicas(&self, node: usize) -> u32 {
        let state = &self.nodes[node];
        u32::from(state.role == Role::Master && state.has_replica() && state.behind.is_none())
    }

    /// Whether nobody listens at the address of a node's server.
    pub(super) fn is_gone(&self, node: usize, place: usize) -> bool {
        self.role_at(node, place) == Role::Gone
    }

    /// A node has two servers that take writes, for the one whose place was taken is not told yet: what is
    /// kept taken at the one may be free at the other.
    pub(super) fn has_two_masters(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        let masters = |other: &Standby| (state.role, other.role) == (Role::Master, Role::Master);
        state.standby.as_ref().is_some_and(|other| masters(other))
    }

    /// The server in a node's place does not take writes.
    pub(super) fn demoted(&self, node: usize) -> bool {
        self.nodes[node].role != Role::Master
    }

    /// A server in a node's place refuses a request, as a replica does.
    pub(super) fn refuses(&mut self, pair: usize, message: u64, request: &Request) -> Answer {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        self.note(|| Happened::CarriedOut {
            node,
            message,
            client,
            asked: Asked::of(request),
            reply: Some(not_ready("READONLY")),
        });
        Answer {
            said: Said::Demoted,
            time: None,
        }
    }

    /// A server has said that it is a replica: if it is the one in use, its connection is in
    /// doubt, and the node is asked for anew.
    pub(super) fn readmit_from(&mut self, pair: usize, connection: u64) {
        if self.pairs[pair].current == Some(connection) {
            self.readmit(pair);
        }
    }

    /// What a node has from here on does not reach its replica in time.
    pub(super) fn falls_behind(&mut self, node: usize) {
        if self.fails_over(node) {
            self.nodes[node].behind = Some(self.nodes[node].data());
        }
    }

    /// A node's replica takes its place.
    pub(super) fn fail_over(&mut self, failover: Failover) {
        let (node, now) = (failover.node, self.time);
        let state = &mut self.nodes[node];
        if !state.has_replica() {
            return;
        }
        let data = state.behind.take().unwrap_or_else(|| state.data());
        if failover.dies {
            state.role = Role::Gone;
            state.run += 1;
            state.history = 0;
            state.drop_listeners();
        }
        state.promotions += 1;
        let promotions = state.promotions;
        let before = state.place;
        state.turn();
        state.state = data;
        (state.role, state.history, state.used) = (Role::Master, promotions, true);
        // It closes its connections, as sentinels see to.
        state.listeners.clear();
        // Two servers count apart, until the one before has what this one has.
        state.lost_at = [Time::MAX; LOCKS];
        state.counts = [false; LOCKS];
        state.forgot = true;
        self.excuse_the_forgetful(node);
        self.closes(node, before ^ 1);
        if failover.dies {
            self.closes(node, before);
        }
        self.push(
            now + failover.told,
            Event::Demoted {
                node,
                place: before,
                promotions,
            },
        );
        for pair in self.pairs_of(node) {
            self.hears_late(pair, failover);
        }
    }

    /// A client hears of a failover, each in its own time.
    fn hears_late(&mut self, pair: usize, failover: Failover) {
        let (now, random) = (self.time, &self.random);
        let within = |most: Time| (most as f64 * random.over_decades(1e-3, 1.0)) as Time;
        let named = within(failover.named);
        let told = match failover.heard {
            Some(heard) => Some(within(heard)),
            None if random.chance(50) => Some(within(failover.named)),
            None => None,
        };
        self.pairs[pair].news.named_from = now + told.map_or(named, |told| named.min(told));
        if let Some(told) = told {
            self.push(now + told, Event::Switched(pair));
        }
    }

    /// The sentinels of a client say that a node has failed over.
    pub(super) fn switched(&mut self, pair: usize) {
        if self.bytes.is_some() {
            return self.sentinels_say(pair);
        }
        let p = &self.pairs[pair];
        let (place, connecting) = (self.nodes[p.node].place, p.connecting);
        let Some(current) = p.current else { return };
        if self.connections[current as usize].place == place {
            return;
        }
        if connecting {
            // It is heard once that is there.
            let later = self.time + self.network.reconnect();
            return self.push(later, Event::Switched(pair));
        }
        self.readmit(pair);
    }

    /// The server whose place was taken is told: it is a replica, and has what the other has.
    pub(super) fn told_of_its_place(&mut self, node: usize, place: usize, promotions: u64) {
        let now = self.time;
        let state = &mut self.nodes[node];
        if state.promotions != promotions || state.place == place {
            return;
        }
        let data = state.data();
        state.turn();
        state.role = Role::Replica;
        state.state = data;
        state.keep_listeners();
        state.turn();
        state.lost_at = [now; LOCKS];
        // Sentinels close its connections, but for those that come again first.
        if self.random.chance(50) {
            self.closes(node, place);
        }
    }

    /// The pairs of a client and this node.
    fn pairs_of(&self, node: usize) -> Vec<usize> {
        let pairs = 0..self.pairs.len();
        pairs
            .filter(|pair| self.pairs[*pair].node == node)
            .collect()
    }

    /// A server closes its connections.
    fn closes(&mut self, node: usize, place: usize) {
        let turn = self.nodes[node].place != place;
        if turn {
            self.nodes[node].turn();
        }
        self.nodes[node].drop_listeners();
        if turn {
            self.nodes[node].turn();
        }
        self.server_dies(node, place);
        for pair in self.pairs_of(node) {
            let p = &self.pairs[pair];
            let (client, current) = (p.client, p.current);
            for connection in p.old.into_iter().chain(current) {
                let wire = &mut self.connections[connection as usize];
                if wire.place != place {
                    continue;
                }
                (wire.broken, wire.dead) = (true, true);
                // Some clients see it at once.
                if Some(connection) == current && self.random.chance(50) {
                    let reset = FaultEvent::Reset(client, pair % self.nodes.len());
                    self.push(self.time, Event::Fault(reset));
                }
            }
        }
    }

    /// As the real link does: a client has a connection to a server of its node.
    pub(super) fn arrives_at(&mut self, pair: usize, connection: u64) {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        if !self.fails_over(node) {
            return;
        }
        let wire = &self.connections[connection as usize];
        let here = (wire.place, wire.server);
        let now = self.clients[client].now(self.time);
        let grace = GRACE.mul_f64(1.0 + self.clients[client].drift);
        let guard = self.surveys[client].expected().guard;
        let news = &mut self.pairs[pair].news;
        let before = news.here.replace(here);
        news.succeeded.retain(|number| *number != here.1);
        if let Some((_, number)) = before
            && number != here.1
            && guard
        {
            let unmet = promotion_of(here.1) != promotion_of(number) + 1;
            news.former = Some((number, now + grace, unmet));
        }
        self.look_at_former(pair);
    }

    /// The server before that of the last connection may be known to be over.
    fn look_at_former(&mut self, pair: usize) {
        let p = &self.pairs[pair];
        let (Some((number, until, unmet)), Some((here, _))) = (p.news.former, p.news.here) else {
            return;
        };
        let over = !unmet && self.role_at(p.node, here ^ 1) != Role::Master;
        if over || until <= self.clients[p.client].now(self.time) {
            let news = &mut self.pairs[pair].news;
            news.former = None;
            news.succeeded.push(number);
        }
    }

    /// As the real link does: what is asked of the server of the last connection takes back
    /// the vote of one that is over.
    pub(super) fn succeeds(&mut self, pair: usize, op: Op) -> Op {
        self.look_at_former(pair);
        let news = &self.pairs[pair].news;
        match (op, news.here) {
            (
                Op::Extend {
                    ttl,
                    repair: Repair::InQuarantine { server },
                    fence,
                    behind,
                },
                Some((_, here)),
            ) if news.succeeded.contains(&server) => Op::Extend {
                ttl,
                repair: Repair::InQuarantine { server: here },
                fence,
                behind,
            },
            (op, _) => op,
        }
    }

    /// As the real link does: what a reply is worth of a server that was promoted while the
    /// one before may give votes.
    pub(super) fn worth(
        &mut self,
        pair: usize,
        connection: u64,
        request: &Request,
        reply: Reply,
    ) -> Reply {
        self.look_at_former(pair);
        let News {
            here,
            former,
            succeeded,
            ..
        } = &self.pairs[pair].news;
        let server = self.connections[connection as usize].server;
        let is_here = here.is_some_and(|(_, here)| here == server);
        let lengthens = match reply {
            Reply::Extended { .. } | Reply::Confirmed => true,
            Reply::Released { .. } | Reply::Kept => request.leaving.keeps(),
            _ => false,
        };
        let early = matches!(reply, Reply::Quarantined { .. })
            && matches!(request.op, Op::Extend { .. })
            && (former.is_some() || !succeeded.is_empty());
        if is_here && (early || former.is_some() && lengthens) {
            not_ready("the server before may give votes yet")
        } else {
            reply
        }
    }
}

/// How long it takes at most from a failover until a server gives new votes for which no
/// other has to be reckoned with, of votes that last so long.
pub fn settled(max_ttl: Duration) -> Duration {
    (max_ttl + GRACE).mul_f64(1.05)
}
