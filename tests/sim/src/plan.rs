//! What a seed stands for: sizes, times, which kinds of faults, and when.

mod draw;
mod failover;
mod habit;

use std::ops::Range;
use std::time::Duration;

use quorlock::defaults;
use quorlock::sim::Waits;
use quorlock::sim::admission::Expectation;

use crate::contender::{KEYS, NAMES};
use crate::death;
use crate::neighbour::NEIGHBOURS;
use crate::program::Programs;
use crate::random::Random;
use crate::scene::Scene;
use crate::world::line::{Bounds, POLL_FAR};
use crate::world::{
    Admission, Breaks, FOREIGN, FaultEvent, MS, Memory, Network, Rate, Time, Ways, World,
};

pub use draw::waits;
pub use failover::Planned as PlannedFailover;
pub use habit::Habit;

/// Extensions ask for up to this many ttls.
pub const LONGEST: u32 = 2;

/// Clock rates differ by less than this: the drift that leases allow for.
pub const DRIFT: f64 = 0.01;

const HOUR: Time = 3_600_000 * MS;

/// Which kinds of faults a schedule has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swarm {
    /// Messages that break their connection.
    pub loss: bool,
    /// Messages that take long, and are carried out late.
    pub slow: bool,
    /// Messages that arrive just about when something is due.
    pub edge: bool,
    /// Requests that reach their node twice.
    pub twice: bool,
    /// Requests that are not sent, for want of a connection.
    pub refuse: bool,
    /// Nodes that hang.
    pub hang: bool,
    /// Nodes that are slow for a while.
    pub lag: bool,
    /// Nodes that are down for a while and keep their data.
    pub down: bool,
    /// Nodes that come back without their data, or with old data, or whose
    /// data is deleted.
    pub forget: bool,
    /// Partitions, also one-way.
    pub partition: bool,
    /// Connections that are reset.
    pub reset: bool,
    /// Clients that stand still.
    pub pause: bool,
    /// Clients that are suspended: their timers stand still, their clock does
    /// not.
    pub suspend: bool,
    /// Clients that are gone forever.
    pub crash: bool,
    /// Node clocks that step, forward or back.
    pub step: bool,
    /// Clocks that run at different rates.
    pub rates: bool,
    /// Owners that end without releasing.
    pub gone: bool,
    /// Messages that are lost though their connection stands.
    pub deaf: bool,
    /// Messages that no node sent.
    pub forged: bool,
}

/// What a seed stands for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes.
    pub nodes: usize,
    /// Clients, each with clock, watchdog and connections of its own.
    pub clients: usize,
    /// Contenders in each client.
    pub workers: usize,
    /// Locks; nearly always one.
    pub locks: usize,
    /// Whether users ask for several at once.
    pub several: bool,
    /// Whether users are candidates of elections.
    pub elects: bool,
    /// How often a contender tries.
    pub rounds: u64,
    /// Auto-release time.
    pub ttl: Duration,
    /// Time for one request to one node.
    pub node_timeout: Duration,
    /// Whether leases are renewed.
    pub renew: bool,
    /// How long counters of fences live; `None` without fences.
    pub fence_ttl: Option<Duration>,
    /// Whether restarts are guarded.
    pub guard: bool,
    /// Whether the nodes begin with records.
    pub declared: bool,
    /// The longest ttl that anybody asks for, in ttls.
    pub longest: u32,
    /// Whether workers of one client are one owner, who re-enters.
    pub owned: bool,
    /// For how long some holds keep their lock, released or not; zero: none does.
    pub keep: Duration,
    /// How nodes keep lines.
    pub waits: Waits,
    /// What the clients' users have chosen, where they differ.
    pub habits: Vec<Habit>,
    /// Whether users share locks.
    pub shares: bool,
    /// How many slots the semaphore has, where users want those.
    pub slots: Option<u32>,
    /// What users' programs are like, where they run any.
    pub programs: Option<Programs>,
    /// How often everybody waits for the lock in the calm tail.
    pub tail: u64,
    /// Percent of the locks asked for with a cap on their leases.
    pub capped: u64,
    /// How many of the clients hear no messages.
    pub mute: usize,
    /// A client that is not of one mind with the others about their set.
    pub stray: Option<usize>,
    /// Two places of the first client's list that are one server.
    pub listed_twice: Option<(usize, usize)>,
    /// How the network behaves.
    pub network: Network,
    /// When nodes fail over; nothing where none does.
    pub failovers: Vec<PlannedFailover>,
    /// How many replicas must have a vote before it counts, where clients have the real
    /// links.
    pub wait_replicas: u32,
    /// What a guard is for is judged though there is none.
    pub unexcused: bool,
    /// Things go wrong until then.
    pub troubled: Time,
    /// Which things.
    pub swarm: Swarm,
    /// What is played in place of a swarm's episodes.
    pub scene: Option<Scene>,
    /// How streams misbehave, where clients have the real links.
    pub breaks: Option<Breaks>,
}

impl Plan {
    /// The users of a client, by their numbers among all.
    pub fn users(&self, client: usize) -> Range<usize> {
        client * self.workers..(client + 1) * self.workers
    }

    /// The client in which a user works.
    pub fn client_of(&self, user: usize) -> usize {
        user / self.workers
    }

    /// The longest that anybody asks for.
    pub fn max_ttl(&self) -> Duration {
        self.ttl * self.longest
    }

    /// Whether nothing goes wrong, or has as yet, and each node answers long before anybody
    /// gives it up, to the first request of a client too.
    pub fn is_healthy(&self) -> bool {
        // A real connection takes more of them; and some ask for half of the ttl.
        let trips = if self.breaks.is_some() { 72 } else { 32 };
        self.swarm == Swarm::default()
            && self.scene.is_none()
            && !self.fails_over()
            && self.declared
            && self.listed_twice.is_none()
            && self.stray.is_none()
            && death::count() == 0
            && trips * self.network.base < self.network.patience
    }

    /// Whether that is so of all who hold a lock, too, so that no lock stands still at any time.
    pub fn is_untroubled(&self) -> bool {
        let strangers = self
            .programs
            .is_some_and(|programs| programs.has_strangers());
        self.is_healthy() && self.breaks.is_none() && !strangers
    }

    /// What L4 promises of a lock, once the network is calm.
    pub fn bounds(&self) -> Bounds {
        let nanos = |time: Duration| time.as_nanos() as Time;
        let turn = 2 * nanos(self.ttl) + nanos(self.waits.reservation) + POLL_FAR;
        Bounds {
            // Of all: a dead token's key on the home alone keeps waiters for its
            // ttl, which L2 allows.
            quorum: self.nodes,
            reservation: nanos(self.waits.reservation),
            // Twice the base at most, there and back.
            trip: 4 * self.network.calm().base,
            // Everybody else has a turn before, and holds it for long.
            longest: (self.clients * self.workers) as Time * turn,
            // As `is_healthy`, of the tail: nothing goes wrong there that is not told of.
            healthy: !self.fails_over()
                && self.listed_twice.is_none()
                && self.stray.is_none()
                && 32 * self.network.base < self.network.patience,
        }
    }

    /// The same without any fault, in a network whose ways take a time each that is
    /// always the same, and short enough for every request to be answered in time.
    pub fn undisturbed(self) -> Plan {
        let Network {
            base,
            reach,
            patience,
            ..
        } = self.network;
        Plan {
            declared: true,
            // What is exported is adopted by a script, which a real node is given first.
            programs: None,
            mute: 0,
            stray: None,
            listed_twice: None,
            failovers: Vec::new(),
            network: Network {
                base: base.min(patience / 100),
                reach,
                patience,
                even: true,
                ..Network::default()
            },
            swarm: Swarm::default(),
            ..self
        }
    }

    /// How long a real link may leave a node alone that has failed, and go on to wait
    /// for a connection: it knows nothing of the schedule's times.
    pub fn pauses(&self) -> Time {
        if self.network.even {
            return 0;
        }
        let connect = defaults::CONNECT_TIMEOUT.as_nanos() as Time;
        let connect = connect.max(4 * self.network.patience);
        let pauses = 2_000 * MS + 2 * connect + 200 * MS;
        self.breaks.map_or(0, |_| pauses)
    }

    /// On what terms the clients admit nodes.
    pub fn admission(&self, random: &Random) -> Admission {
        let mut terms = Admission::new(self.nodes, self.max_ttl(), self.guard, self.declared);
        terms.breaks = self.breaks;
        if self.fails_over() {
            terms = terms.failing_over();
        }
        (terms.wait_replicas, terms.excuses_nothing) = (self.wait_replicas, self.unexcused);
        if let Some(scene) = &self.scene {
            return scene.admission(terms, self.max_ttl());
        }
        // What the servers of a set that was not declared were before: new and old
        // enough, too young, or anything.
        let aside = random.aside();
        let old = 1_000 * MS * aside.below(8);
        let used = aside.chance(30);
        let server = |_| {
            if self.declared {
                (0, true)
            } else {
                (old + aside.below(1_000 * MS), used && aside.chance(50))
            }
        };
        Admission {
            servers: (0..self.nodes).map(server).collect(),
            strays: self.strays(&terms.expected, &aside),
            ..terms
        }
    }

    /// Clients that expect another longest ttl, or no guard where there is one.
    fn strays(&self, expected: &Expectation, random: &Random) -> Vec<(usize, Expectation)> {
        // One that is refused would end the waiting of the calm at the end.
        if self.stray.is_none() || self.tail > 0 || self.several || self.clients < 2 {
            return Vec::new();
        }
        let mut stray = expected.clone();
        if expected.guard && random.chance(50) {
            stray.guard = false;
        } else {
            let max_ttl = self.max_ttl().mul_f64(*random.pick(&[0.2, 0.5, 2.0]));
            stray = Expectation::new("s", self.nodes, max_ttl, DRIFT, expected.guard);
        }
        self.stray
            .map(|client| (client, stray))
            .into_iter()
            .collect()
    }

    /// Clocks of the nodes and of the clients (one more than contend). Any two
    /// rates differ by less than the drift bound; often they are at its edge.
    pub fn clocks(&self, random: &Random) -> (Vec<Rate>, Vec<Rate>) {
        let half = DRIFT * 0.4975;
        // Mostly far apart, so that nothing may rest on their agreeing; in a third
        // of the schedules and in scenes as on servers, where the first fences of
        // a round are mostly the same.
        let (from, apart) = (100_000 * MS, 9_900_000 * MS);
        let aside = random.aside();
        let near = self.scene.is_some() || aside.chance(33);
        let apart = if near { 50 * MS } else { apart };
        // One may be hours off from those that agree, and makes no fence; behind only
        // where it is no half of a bare quorum.
        let off = match &self.scene {
            Some(scene) => scene.ahead(),
            None if near && self.nodes > 2 && aside.chance(50) => {
                Some(aside.below(self.nodes as u64) as usize)
            }
            None => None,
        };
        let clock = |_| {
            let share = match (self.swarm.rates, random.below(3)) {
                (false, _) => 0.0,
                (true, 0) => random.either_way(),
                (true, n) => n as f64 * 2.0 - 3.0,
            };
            Rate {
                offset: random.between(from, from + apart),
                rate: 1.0 + share * half,
            }
        };
        let mut nodes: Vec<Rate> = (0..self.nodes).map(clock).collect();
        if let Some(node) = off {
            let behind = self.scene.is_none() && self.nodes > 3 && aside.chance(50);
            let by = aside.between(1, 10) * HOUR;
            let ahead = |(i, _): &(usize, &mut Rate)| (*i == node) != behind;
            let clocks = nodes.iter_mut().enumerate().filter(ahead);
            clocks.for_each(|(_, clock)| clock.offset += by);
        }
        (nodes, (0..=self.clients).map(clock).collect())
    }

    /// Plans the episodes.
    pub fn faults(&self, random: &Random, world: &World) {
        if let Some(scene) = &self.scene {
            return scene.faults(self, random, world);
        }
        if self.swarm.forged {
            let aside = random.aside();
            for _ in 0..aside.between(1, 6) {
                let client = aside.below(self.clients as u64) as usize;
                let node = aside.below(self.nodes as u64) as usize;
                world.plan(aside.below(self.troubled), FaultEvent::Forge(client, node));
            }
        }
        let astray = self.breaks.is_some_and(|breaks| breaks.other > 0);
        if astray && self.guard && !self.fails_over() {
            // Within the quarantine of the other.
            let aside = random.aside().aside();
            if aside.chance(8) {
                let client = aside.below(self.clients as u64) as usize;
                let node = aside.below(self.nodes as u64) as usize;
                let long = self.ttl.mul_f64(0.1 + 0.8 * aside.share()).as_nanos() as Time;
                let at = aside.below(self.troubled);
                world.plan(at, FaultEvent::Astray(client, node, long));
            }
        }
        if let Some(programs) = self.programs.filter(|_| !self.fails_over()) {
            let aside = random.aside().aside();
            for _ in 0..programs.foreign {
                self.plan_foreign(&aside, world);
            }
        }
        self.plan_failovers(world);
        let kinds = self.kinds();
        if kinds.is_empty() {
            return;
        }
        for _ in 0..random.between(1, 4) {
            let at = random.below(self.troubled);
            self.episode(random, world, at, *random.pick(&kinds));
        }
    }

    /// Another program has a lock of its own for a while, until nothing goes wrong any more.
    fn plan_foreign(&self, random: &Random, world: &World) {
        let at = random.below(self.troubled);
        let ttl = self.ttl.as_nanos() as Time;
        let neighbours = self
            .programs
            .is_some_and(|programs| programs.has_neighbours());
        // Those of a queue are found on strings alone.
        let hashes = neighbours && self.tail == 0 && self.breaks.is_none();
        let foreign = FaultEvent::Foreign {
            node: random.below(self.nodes as u64) as usize,
            lock: if neighbours && random.chance(60) {
                KEYS.len() + random.below(NEIGHBOURS.len() as u64) as usize
            } else {
                *random.pick(&[0, 0, NAMES.len()])
            },
            // The last of them is a lock of Java's.
            text: random.below(FOREIGN.len() as u64 + u64::from(hashes)) as usize,
            long: random.between(1, ttl).min(self.troubled - at),
        };
        world.plan(at, foreign);
    }

    fn kinds(&self) -> Vec<Kind> {
        let s = &self.swarm;
        [
            (s.hang, Kind::Hang),
            (s.lag, Kind::Lag),
            (s.down, Kind::Down),
            (s.forget, Kind::Forget),
            (s.partition, Kind::Partition),
            (s.reset, Kind::Reset),
            (s.pause, Kind::Pause),
            (s.pause, Kind::Pause),
            (s.suspend, Kind::Suspend),
            (s.crash, Kind::Crash),
            (s.step, Kind::Step),
        ]
        .into_iter()
        .filter_map(|(on, kind)| on.then_some(kind))
        .collect()
    }

    /// How long an episode lasts: over the decades, and often just about a
    /// ttl.
    fn long(&self, random: &Random) -> Time {
        let ttl = self.ttl.as_nanos() as f64;
        let share = if random.chance(40) {
            1.0 + 0.03 * random.either_way()
        } else {
            random.over_decades(1e-3, 1.5)
        };
        (ttl * share) as Time
    }

    fn episode(&self, random: &Random, world: &World, at: Time, kind: Kind) {
        let node = random.below(self.nodes as u64) as usize;
        let client = random.below(self.clients as u64) as usize;
        let long = self.long(random);
        let ttl = self.ttl.as_nanos() as i64;
        match kind {
            Kind::Hang => world.plan(at, FaultEvent::PauseNode(node, long)),
            Kind::Lag => world.plan(at, FaultEvent::SlowNode(node, long)),
            Kind::Down => world.plan(at, FaultEvent::CrashNode(node, long, Memory::Kept)),
            Kind::Forget => {
                let memory = *random.pick(&[Memory::Lost, Memory::Old]);
                world.plan(random.below(at + 1), FaultEvent::Snapshot(node));
                // Quick restarts are the dangerous ones.
                // Several at once, sometimes; or all.
                let most = *random.pick(&[1, 1, 1, 2, self.nodes]);
                for node in (node..self.nodes).chain(0..node).take(most) {
                    let at = at + random.below(long / 4 + 1);
                    let fault = match random.below(4) {
                        0 => FaultEvent::Flush(node),
                        _ => FaultEvent::CrashNode(node, long / 20, memory),
                    };
                    world.plan(at, fault);
                }
            }
            Kind::Partition => {
                // One client or all, from any of the nodes.
                let all = random.chance(30);
                let mask = random.between(1, (1 << self.nodes) - 1);
                let ways = *random.pick(&[Ways::Both, Ways::Both, Ways::Requests, Ways::Replies]);
                let lossy = random.chance(60);
                for node in (0..self.nodes).filter(|n| mask >> n & 1 == 1) {
                    for client in (0..self.clients).filter(|c| all || *c == client) {
                        world.plan(
                            at,
                            FaultEvent::Cut {
                                client,
                                node,
                                long,
                                ways,
                                lossy,
                            },
                        );
                    }
                }
            }
            Kind::Reset => world.plan(at, FaultEvent::Reset(client, node)),
            Kind::Pause => world.plan(at, FaultEvent::PauseClient(client, long)),
            Kind::Suspend => world.plan(at, FaultEvent::SuspendClient(client, long)),
            Kind::Crash => world.plan(at, FaultEvent::CrashClient(client)),
            Kind::Step => {
                let by = (ttl as f64 * (1.6 * random.share() - 0.6)) as i64;
                // A minority, mostly: then something is still promised.
                let most = if random.chance(80) { 1 } else { self.nodes };
                for node in (node..self.nodes).take(most) {
                    world.plan(at, FaultEvent::StepNode(node, by));
                }
            }
        }
    }

    /// An episode that aims at a lease which `client` has just won and which
    /// ends at `end`: the client stands still until just about then.
    pub fn aimed(&self, random: &Random, world: &World, client: usize, end: Time) {
        let now = world.time();
        let at = now + random.below(end.saturating_sub(now).max(1));
        let until = end as f64 + 0.02 * self.ttl.as_nanos() as f64 * random.either_way();
        let long = (until as Time).saturating_sub(at).max(1);
        if self.swarm.suspend && random.chance(50) {
            world.plan(at, FaultEvent::SuspendClient(client, long));
        } else if self.swarm.pause {
            world.plan(at, FaultEvent::PauseClient(client, long));
        }
    }

    /// An episode that aims at an attempt which `client` begins now: the client
    /// stands still once its home has voted for it, for about as long as that
    /// vote lasts.
    pub fn interrupted(&self, random: &Random, world: &World, client: usize) {
        if self.swarm.pause {
            let long = self.ttl.mul_f64(1.0 + 0.1 * random.either_way());
            world.pause_at_vote(client, long.as_nanos() as Time);
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Hang,
    Lag,
    Down,
    Forget,
    Partition,
    Reset,
    Pause,
    Suspend,
    Crash,
    Step,
}
