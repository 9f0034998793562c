//! How a plan is drawn from its seed. An order of draws is what a seed stands for: what
//! is new is drawn [aside](Random::aside).

use std::time::Duration;

use quorlock::sim::Waits;

use super::{LONGEST, Plan, Swarm};
use crate::contender::NAMES;
use crate::program::Programs;
use crate::random::Random;
use crate::world::{Breaks, MS, Network, Time};

/// Percent of schedules that end with everybody waiting.
const WAITING: u64 = 35;
/// Percent of schedules in which users ask for several locks at once.
const SEVERAL: u64 = 8;
/// Percent of schedules in which users are candidates of elections.
const ELECTS: u64 = 6;
/// Percent of schedules in which users share locks.
const SHARES: u64 = 25;
/// Percent of schedules in which users want slots of a semaphore.
const SLOTS: u64 = 20;
/// Percent of schedules in which nodes fail over.
const FAILS_OVER: u64 = 8;

impl Swarm {
    fn draw(random: &Random, aside: &Random) -> Swarm {
        if random.chance(12) {
            return Swarm::default();
        }
        let share = *random.pick(&[10, 25, 25, 50]);
        let on = || random.chance(share);
        Swarm {
            loss: on(),
            slow: on(),
            edge: random.chance(50),
            twice: on(),
            refuse: on(),
            hang: on(),
            lag: on(),
            down: on(),
            forget: random.chance(20),
            partition: on(),
            reset: on(),
            pause: random.chance(50),
            suspend: on(),
            crash: on(),
            step: random.chance(10),
            rates: random.chance(60),
            gone: random.chance(15),
            deaf: aside.chance(10),
            forged: aside.chance(10),
        }
    }
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &Random) -> Plan {
        Plan::draw_with(random, true)
    }

    /// The same of users who run no programs.
    pub fn draw_plain(random: &Random) -> Plan {
        Plan::draw_with(random, false)
    }

    fn draw_with(random: &Random, programs: bool) -> Plan {
        let aside = random.aside();
        let swarm = Swarm::draw(random, &aside);
        let nodes = *random.pick(&[1, 2, 3, 3, 3, 3, 4, 5, 5, 7]);
        let ttl = match random.below(20) {
            0 => 10_000,
            1 => random.over_decades(400.0, 2_000.0) as u64,
            _ => random.over_decades(10.0, 400.0) as u64,
        };
        let nanos = ttl * MS;
        // A round trip takes three times the base on average.
        let base = nanos as f64 / random.over_decades(4.0, 100_000.0) / 3.0;
        // A quarter of the ttl at most, 250 ms unless messages take longer.
        let node_timeout = (ttl / 4).clamp(1, 250.max(24 * base as Time / MS));
        let (clients, workers) = *random.pick(&[
            (2, 1),
            (2, 1),
            (2, 1),
            (2, 2),
            (3, 1),
            (3, 1),
            (3, 2),
            (4, 1),
            (6, 1),
            (1, 3),
        ]);
        let contenders = (clients * workers) as u64;
        let longest = *random.pick(&[1, 1, LONGEST]);
        let max_ttl = nanos * u64::from(longest);
        let place = random.below(nodes as u64) as usize;
        let other = (place + 1) % nodes;
        let listed_twice = (place != other && random.chance(2)).then_some((place, other));
        let guard = random.chance(if nodes > 2 { 90 } else { 20 });
        let declared = random.chance(95);
        let keeps = Random::new(aside.aside().bits());
        let several = Random::new(!aside.aside().bits()).chance(SEVERAL) && listed_twice.is_none();
        let wait = if guard && !declared { max_ttl } else { 0 };
        let plan = Plan {
            nodes,
            clients,
            workers,
            locks: match random.chance(5) {
                _ if several => NAMES.len(),
                true => 2,
                false => 1,
            },
            several,
            elects: Random::new(aside.aside().bits().rotate_left(7)).chance(ELECTS)
                && listed_twice.is_none()
                && !several,
            rounds: (random.between(3, 5) / contenders).max(1),
            ttl: Duration::from_millis(ttl),
            node_timeout: Duration::from_millis(node_timeout),
            renew: random.chance(60),
            fence_ttl: match random.below(20) {
                0 => None,
                1 | 2 => Some(Duration::from_nanos(2 * max_ttl)),
                _ => Some(Duration::from_secs(600)),
            },
            guard,
            declared,
            longest,
            owned: aside.aside().chance(20),
            keep: if keeps.chance(15) {
                Duration::from_nanos(max_ttl).mul_f64(keeps.share())
            } else {
                Duration::ZERO
            },
            shares: Random::new(aside.aside().bits().rotate_left(29)).chance(SHARES) && !several,
            slots: slots(Random::new(aside.aside().bits().rotate_left(41)))
                .filter(|_| !several && listed_twice.is_none()),
            programs: Programs::draw(&Random::new(aside.aside().bits().rotate_left(53)))
                .filter(|_| programs && listed_twice.is_none()),
            waits: waits(&aside, ttl, node_timeout, ttl * u64::from(longest)),
            tail: match listed_twice {
                None if aside.chance(WAITING) && !several => *aside.pick(&[1, 2, 3]),
                _ => 0,
            },
            capped: 20,
            habits: Vec::new(),
            mute: if aside.chance(10) {
                aside.between(1, clients as u64) as usize
            } else {
                0
            },
            stray: (clients > 1 && declared && listed_twice.is_none() && aside.chance(5))
                .then(|| aside.below(clients as u64) as usize),
            listed_twice,
            network: Network {
                base: (base as Time).max(200),
                slow: if swarm.slow {
                    *random.pick(&[2, 10, 30])
                } else {
                    0
                },
                // A slow message may take as long as a ttl.
                tail: (nanos as f64 * *random.pick(&[0.3, 1.0, 1.2])) as Time,
                cut: if swarm.loss {
                    *random.pick(&[1, 1, 5])
                } else {
                    0
                },
                edge: if swarm.edge {
                    *random.pick(&[1, 3, 10])
                } else {
                    0
                },
                twice: if swarm.twice { 5 } else { 0 },
                refuse: if swarm.refuse { 5 } else { 0 },
                deaf: if swarm.deaf {
                    *aside.pick(&[20, 50, 100])
                } else {
                    0
                },
                reach: nanos,
                patience: node_timeout * MS,
                even: false,
            },
            failovers: Vec::new(),
            wait_replicas: 0,
            unexcused: false,
            troubled: wait + nanos * random.between(2, 3),
            swarm,
            scene: None,
            breaks: None,
        };
        let plan = Plan {
            slots: plan.slots.filter(|_| !plan.shares),
            ..plan
        };
        let plan = match plan.programs {
            Some(programs) => programs.of(plan),
            None => plan,
        };
        let plan = match plan.tail > 0 && aside.chance(2) {
            true => plan.crowded(),
            false if aside.chance(33) => plan.with_habits(&aside),
            false => plan,
        };
        let plan = if plan.several && !plan.renew {
            // Whoever waits for one of several loses those that it has with their ttl, and its place:
            // where every call is lost it has to be that a turn ends before.
            plan.with_short_turns()
        } else {
            plan
        };
        let failovers = Random::new(aside.aside().bits().rotate_left(13));
        if failovers.chance(FAILS_OVER) {
            plan.failing_over(&failovers).without_neighbours()
        } else {
            plan
        }
    }

    /// The same over streams of bytes; how these misbehave is drawn from the seed.
    pub fn over_bytes(self, seed: u64) -> Plan {
        let random = Random::new(seed ^ 0x5eed);
        let breaks = Breaks::draw(&random);
        let harmless = self.swarm == Swarm::default();
        let restart = if self.fails_over() { 0 } else { breaks.restart };
        let breaks = Breaks { restart, ..breaks };
        let plan = Plan {
            breaks: Some(if harmless { breaks.calm() } else { breaks }),
            ..self
        };
        if plan.fails_over() && random.chance(40) {
            plan.waiting_for_replicas(&random)
        } else {
            plan
        }
    }
}

impl Plan {
    fn without_neighbours(self) -> Plan {
        Plan {
            programs: self.programs.map(Programs::without_neighbours),
            ..self
        }
    }

    fn with_short_turns(mut self) -> Plan {
        self.waits.reservation = self.waits.reservation.min(self.ttl / 2);
        self
    }
}

/// How many slots the semaphore has, where users want those.
fn slots(random: Random) -> Option<u32> {
    let slots = random.chance(SLOTS);
    slots.then(|| *random.pick(&[1, 2, 2, 3]))
}

/// How nodes keep lines, with ttls in ms. Reservations that outlive the votes
/// of an attempt show most.
pub fn waits(random: &Random, ttl: u64, node_timeout: u64, max_ttl: u64) -> Waits {
    let share = *random.pick(&[0.3, 1.3]);
    let reservation = ((ttl as f64 * share) as u64).clamp(1, node_timeout.max(200));
    Waits {
        reservation: Duration::from_millis(reservation),
        // Three of the longest polls.
        place: Duration::from_millis(max_ttl.max(7_200)),
        most: 10_000,
    }
}
