//! Schedules whose nodes fail over: sizes and times that fit to that, when it happens, and
//! when users come for whom it matters.

use std::time::Duration;

use quorlock::sim::admission::GRACE;

use super::{DRIFT, Plan, Swarm};
use crate::contender::NAMES;
use crate::random::Random;
use crate::world::{Failover, FaultEvent, Network, Time, World, settled};

/// The shortest and the longest ttl, in ms: the grace is always the same, and shall neither
/// be nothing beside the ttl nor take most of the time.
const TTLS: (u64, u64) = (500, 3_000);

/// How often each client's users come, all together.
const ROUNDS: u64 = 8;

/// A node fails over at a time. What its master had from so long before is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When.
    pub at: Time,
    /// From so long before.
    pub lag: Time,
    /// And then this happens.
    pub failover: Failover,
}

impl Plan {
    /// Whether the nodes of this schedule fail over.
    pub fn fails_over(&self) -> bool {
        !self.failovers.is_empty()
    }

    /// The same of nodes that fail over.
    pub(super) fn failing_over(self, random: &Random) -> Plan {
        let ttl = self.ttl.as_millis() as u64;
        let wanted = random.over_decades(TTLS.0 as f64, TTLS.1 as f64) as u64;
        let plan = self.slower(wanted.div_ceil(ttl.max(1)) as u32);
        let swarm = Swarm {
            hang: false,
            down: false,
            forget: false,
            step: false,
            ..plan.swarm
        };
        // A client has leases of several locks then, each of which goes on by itself.
        let locks = if plan.workers > 1 && random.aside().chance(70) {
            NAMES.len()
        } else {
            plan.locks
        };
        let nodes = *random.pick(&[1, 1, 1, 3]);
        let contenders = plan.workers as u64;
        let mut plan = Plan {
            nodes,
            guard: random.chance(90),
            declared: true,
            locks,
            several: false,
            elects: false,
            tail: 0,
            stray: None,
            listed_twice: None,
            rounds: ROUNDS.div_ceil(contenders),
            swarm,
            ..plan
        };
        plan.failovers = plan.draw_failovers(random);
        let over = plan.failovers.last().map_or(0, |planned| planned.at);
        let settled = settled(plan.max_ttl()).as_nanos() as Time;
        plan.troubled = over + settled + 2 * plan.ttl.as_nanos() as Time;
        plan
    }

    /// The same where a vote counts once the replica has it. Then a master may be cut off from
    /// everybody who could tell it, and its clients from everybody who could tell them.
    pub(super) fn waiting_for_replicas(self, random: &Random) -> Plan {
        let mut failovers = self.failovers;
        if let Some(last) = failovers.last_mut().filter(|_| random.chance(50)) {
            let failover = &mut last.failover;
            (failover.told, failover.heard) = (2 * GRACE.as_nanos() as Time, None);
            (failover.dies, failover.named) = (false, failover.told);
        }
        Plan {
            failovers,
            wait_replicas: 1,
            ..self
        }
    }

    /// The same, with all times this many times as long.
    fn slower(self, times: u32) -> Plan {
        let long = Time::from(times);
        let mut waits = self.waits;
        (waits.reservation, waits.place) = (waits.reservation * times, waits.place * times);
        let Network {
            base,
            tail,
            reach,
            patience,
            ..
        } = self.network;
        let mut habits = self.habits;
        habits.iter_mut().for_each(|habit| habit.ttl *= times);
        Plan {
            ttl: self.ttl * times,
            node_timeout: self.node_timeout * times,
            fence_ttl: self.fence_ttl.map(|life| life * times),
            keep: self.keep * times,
            waits,
            habits,
            network: Network {
                base: base * long,
                tail: tail * long,
                reach: reach * long,
                patience: patience * long,
                ..self.network
            },
            ..self
        }
    }

    fn draw_failovers(&self, random: &Random) -> Vec<Planned> {
        let (ttl, node) = (
            self.ttl.as_nanos() as Time,
            random.below(self.nodes as u64) as usize,
        );
        // By the fastest clock: a quarantine is over as early as that says.
        let grace = GRACE.mul_f64(1.0 - DRIFT).as_nanos() as Time;
        let share = |of: Time, share: f64| (of as f64 * share) as Time;
        let mut at = share(ttl, 0.5 + 1.5 * random.share());
        // Before that there is no replica that could fall behind.
        let mut since = 0;
        let mut planned = Vec::new();
        for _ in 0..*random.pick(&[1, 1, 2]) {
            // Often it falls behind for so long that votes are lost which count.
            let lag = match random.below(3) {
                0 => 0,
                _ => share(ttl, random.over_decades(1e-3, 0.9)),
            };
            // A master that is cut off from its sentinels, and not from its clients. One that
            // sleeps does not hear of that.
            let awake = !self.swarm.pause && !self.swarm.suspend;
            let cut_off = awake && random.chance(20);
            let told = match (cut_off, random.below(3)) {
                (true, _) => 2 * grace,
                (false, 0) => share(ttl, random.over_decades(1e-2, 1.0)),
                (false, 1) => share(grace, random.share()),
                (false, _) => grace,
            };
            let failover = Failover {
                node,
                told,
                dies: !cut_off && random.chance(20),
                // It hears of it while its connection is made, or a little later.
                heard: cut_off.then_some(share(grace, 0.9)),
                named: share(grace, random.over_decades(1e-3, 1.0)),
            };
            let lag = lag.min(at - since);
            planned.push(Planned { at, lag, failover });
            // Soon after that the server before may be in its place again.
            since = at + failover.told;
            at = since + share(ttl, random.over_decades(1e-2, 2.0));
        }
        planned
    }

    /// Plans them.
    pub(super) fn plan_failovers(&self, world: &World) {
        for Planned { at, lag, failover } in &self.failovers {
            if *lag > 0 {
                let behind = FaultEvent::FallsBehind(failover.node);
                world.plan(at.saturating_sub(*lag), behind);
            }
            world.plan(*at, FaultEvent::FailsOver(*failover));
        }
    }

    /// When a user comes next who means to be there when it matters: before a failover, while
    /// two servers vote, and when the one that was promoted begins to.
    pub fn comes(&self, random: &Random, now: Time) -> Time {
        let ttl = self.ttl.as_nanos() as Time;
        let settled = (self.max_ttl() + GRACE).as_nanos() as Time;
        let moments = self.failovers.iter().flat_map(|planned| {
            let (at, told) = (planned.at, planned.failover.told);
            let both = [told / 8, told / 4, told / 2, told].map(|part| at + part);
            let least = self.max_ttl().as_nanos() as Time;
            [at.saturating_sub(ttl / 2), at, at + least, at + settled]
                .into_iter()
                .chain(both)
        });
        let mut moments: Vec<Time> = moments.filter(|at| *at > now).collect();
        moments.sort_unstable();
        let next = match moments.len() {
            0 => return now,
            _ if random.chance(30) => return now,
            len if random.chance(40) => moments[random.below(len as u64) as usize],
            _ => moments[0],
        };
        let off = ttl as f64 / 4.0 * random.either_way();
        ((next as f64 + off) as Time).max(now)
    }

    /// How much longer it may take until a lock is to be had, for a node that fails over: the
    /// promoted server calls everybody who stood in the queue as that was copied, though
    /// they have left it.
    pub fn grace(&self) -> Duration {
        let stood = (self.clients * self.workers) as u32;
        if self.fails_over() {
            GRACE.mul_f64(1.1) + self.waits.reservation * stood
        } else {
            Duration::ZERO
        }
    }
}
