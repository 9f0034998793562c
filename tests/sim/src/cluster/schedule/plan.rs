//! What goes wrong in a schedule of clusters, and when: drawn from its seed.

use std::time::Duration;

use quorlock::sim::admission::Expectation;

use super::{DRIFT, FIRST, LAST, NAMES};
use crate::cluster::commands::{NAMESPACE, slot_of};
use crate::cluster::servers::Fault;
use crate::cluster::world::{MS, Network, Time};
use crate::random::Random;

/// What a seed stands for.
#[derive(Debug)]
pub(in crate::cluster) struct Plan {
    pub(super) clusters: usize,
    pub(super) primaries: usize,
    pub(super) clients: usize,
    pub(super) workers: usize,
    pub(super) rounds: u64,
    pub(in crate::cluster) ttl: Duration,
    pub(super) node_timeout: Duration,
    pub(super) renew: bool,
    pub(super) guard: bool,
    pub(super) declared: bool,
    pub(in crate::cluster) network: Network,
    pub(super) faults: Vec<(Time, usize, Fault)>,
    /// Nothing goes wrong from then on.
    pub(super) calm: Time,
    /// Old data comes back.
    pub(super) lags: bool,
    /// Hand-offs are judged at the end.
    pub(super) tail: bool,
    /// How far the clocks of a cluster's servers differ.
    pub(super) skew: Time,
}

/// The hash slots of the record and of the locks, each with any server, and for each server one
/// below them, which may move, and one above them, which does not, so that it never is without
/// a place for its stamp.
pub(super) fn hash_slots(plan: &Plan, random: &Random) -> Vec<(u16, usize)> {
    let locks = NAMES.map(|name| format!("{NAMESPACE}{{{name}}}"));
    let keys = locks.iter().map(String::as_str).chain(["lock:#node"]);
    let any = |key: &str| {
        let server = random.below(plan.primaries as u64) as usize;
        (slot_of(key.as_bytes()), server)
    };
    let mut slots: Vec<_> = keys.map(any).collect();
    for server in 0..plan.primaries {
        slots.push((FIRST + server as u16, server));
        slots.push((LAST - server as u16, server));
    }
    slots
}

impl Plan {
    pub(super) fn draw(random: &Random, guard: bool) -> Plan {
        let ttl = *random.pick(&[500, 1500, 6000]);
        let node_timeout = *random.pick(&[50, 100, 150]);
        let clusters = if random.chance(65) { 1 } else { 3 };
        let primaries = random.between(2, 3) as usize;
        let mut plan = Plan {
            clusters,
            primaries,
            clients: random.between(2, 3) as usize,
            workers: random.between(1, 2) as usize,
            rounds: random.between(2, 4),
            ttl: Duration::from_millis(ttl),
            node_timeout: Duration::from_millis(node_timeout),
            renew: random.chance(60),
            guard,
            declared: random.chance(93),
            network: Network {
                base: MS / 20 * random.between(1, 20),
                slow: *random.pick(&[0, 2, 10]),
                tail: 2 * node_timeout * MS,
                cut: *random.pick(&[0, 0, 5, 20]),
            },
            faults: Vec::new(),
            calm: 0,
            lags: false,
            tail: false,
            skew: 0,
        };
        let span = ttl * MS * 3;
        for _ in 0..random.below(6) {
            plan.draw_fault(random, span);
        }
        let aside = random.aside();
        if aside.chance(10) {
            let cluster = aside.below(plan.clusters as u64) as usize;
            let long = aside.between(100, 1000) * MS;
            plan.faults
                .push((aside.below(span), cluster, Fault::Loops(long)));
        }
        if random.aside().chance(25) {
            plan.draw_moves_of_stamps(&Random::new(aside.aside().bits()), span);
        }
        // A client that knows dead servers alone does not come back; and by a record that was
        // lost clients come to have different homes (docs/operations/cluster.md).
        let count = |of: fn(&Fault) -> bool| {
            let faults = plan.faults.iter();
            faults.filter(|(.., fault)| of(fault)).count()
        };
        let knows = count(|f| matches!(f, Fault::FailsOver(..))) < plan.primaries;
        let lost = count(|f| matches!(f, Fault::Restart(..) | Fault::FallsBehind(_))) > 0;
        plan.tail = aside.chance(30) && knows && (plan.clusters == 1 || !lost);
        // A lock that is moved ends by another clock: a limit that is told in docs/operations/cluster.md.
        let most = if plan.moves() { 4 } else { 2_000 };
        plan.skew = *aside.pick(&[0, 0, 4, most]) * MS;
        plan.calm = span + ttl * MS;
        plan.faults.sort_by_key(|(at, ..)| *at);
        plan
    }

    fn draw_fault(&mut self, random: &Random, span: Time) {
        let cluster = random.below(self.clusters as u64) as usize;
        let server = random.below(self.primaries as u64) as usize;
        let at = random.below(span);
        let ttl = self.ttl.as_nanos() as Time;
        let long = random.between(1, ttl / 2);
        let mut plan = |at, fault| self.faults.push((at, cluster, fault));
        match random.below(100) {
            0..45 => {
                let key = random.pick(&["lock:{k}", "lock:{k}", "lock:{l}", "lock:#node"]);
                let slot = slot_of(key.as_bytes());
                let keys = at + long;
                plan(at, Fault::BeginMove(slot, server));
                plan(keys, Fault::MoveKeys(slot));
                plan(keys + random.below(ttl / 2), Fault::EndMove(slot));
            }
            45..60 => plan(at, Fault::Restart(server, random.below(ttl / 4))),
            60..75 => {
                let lags = random.chance(60);
                if lags {
                    let since = random.below(ttl / 2);
                    plan(at.saturating_sub(since), Fault::FallsBehind(server));
                }
                plan(at, Fault::FailsOver(server, random.below(ttl / 2)));
                self.lags |= lags;
            }
            75..85 => plan(at, Fault::Pause(server, long)),
            85..94 => plan(at, Fault::Cuts(server)),
            _ => plan(at, Fault::Down(random.below(ttl / 4))),
        }
    }

    /// Hash slots below all locks, in which servers have their stamps, go to other servers.
    fn draw_moves_of_stamps(&mut self, random: &Random, span: Time) {
        let cluster = random.below(self.clusters as u64) as usize;
        let long = self.ttl.as_nanos() as Time / 8;
        for server in 0..self.primaries {
            let mut at = random.below(span);
            for _ in 0..random.below(3) {
                let (slot, to) = (FIRST + server as u16, random.below(self.primaries as u64));
                let mut plan = |at, fault| self.faults.push((at, cluster, fault));
                plan(at, Fault::BeginMove(slot, to as usize));
                at += random.below(long);
                plan(at, Fault::MoveKeys(slot));
                at += random.below(long);
                plan(at, Fault::EndMove(slot));
                at += random.below(long);
            }
        }
    }

    /// Whether nothing that a server has may be lost.
    pub(super) fn keeps(&self) -> bool {
        let loses = |fault: &Fault| matches!(fault, Fault::Restart(..) | Fault::FailsOver(..));
        self.guard && self.declared && !self.faults.iter().any(|(.., fault)| loses(fault))
    }

    /// Whether hash slots move.
    pub(super) fn moves(&self) -> bool {
        self.faults.iter().any(|(.., fault)| fault.moves())
    }

    /// Whether nothing holds up requests but hash slots that move.
    pub(super) fn is_swift(&self) -> bool {
        let Network { slow, cut, .. } = self.network;
        slow == 0 && cut == 0 && self.faults.iter().all(|(.., fault)| fault.moves())
    }

    /// What clients expect of their nodes.
    pub(in crate::cluster) fn expected(&self) -> Expectation {
        Expectation::new("s", self.clusters, self.ttl, DRIFT, self.guard).failing_over()
    }
}
