//! Scenes: some bugs need several things to go wrong in one order, which chance
//! alone brings about once in millions of schedules.
//!
//! A scene has two actors, the *holder* and the *rival*, of two clients (of one,
//! where the scene says so). Both first take the lock and give it up at once,
//! so that all connections stand and the clocks of the nodes are known. Then
//! the holder takes it again, what the scene is about goes wrong, and the rival
//! comes. What happens is fixed. When it happens is drawn, for the time that
//! matters depends on much else; so most plays miss it, each in its own way.
//!
//! The number of nodes is odd: one *critical* node, and two halves of the
//! others. The critical one makes a quorum with either half, so two leases
//! stand on it if it votes twice.

use std::time::Duration;

use quorlock::sim::admission::Expectation;

use crate::plan::{DRIFT, Plan, Swarm, waits};
use crate::random::Random;
use crate::world::{Admission, FaultEvent, MS, Memory, Network, Time, Ways, World};

/// The actors, and their clients.
const HOLDER: usize = 0;
const RIVAL: usize = 1;

/// One schedule in this many is a scene.
const ONE_IN: u64 = 150;

/// When the holder extends its lease where it does, in percent of a ttl from
/// its winning; before the first renewal.
const EXTENDS: Time = 20;

/// What goes wrong in a scene.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The critical node, where the holder never had a vote, loses the vote of
    /// the rival's pending attempt. The holder finds it in quarantine; the half
    /// on which its lease stands else falls to the rival at about that time.
    LostVote,
    /// As [`LostVote`](Kind::LostVote), but the holder was admitted before, and an
    /// extension of its vote is on its way when the node forgets everything.
    LostUnderway,
    /// As [`LostVote`](Kind::LostVote), but the holder had a vote of the critical
    /// node, which has ended.
    EndedVote,
    /// The critical node restarts without the holder's vote, and again when its
    /// quarantine is nearly over, with what it held early in the quarantine:
    /// without the vote that the holder has renewed since.
    TwoRestarts,
    /// The address of the critical node leads the holder to another server for a
    /// time, an empty one in quarantine; the rival goes on with the first.
    Astray,
    /// The address of the critical node leads the holder astray until its vote
    /// there, which is deleted meanwhile, has nearly ended; the holder extends
    /// its lease then, and the node is slow to take that in.
    BackLate,
    /// The critical node takes in the holder's request as late as may be, and
    /// its release not at all.
    LateVote,
    /// The record of the critical node changes, and again while a renewal that
    /// met the first change is on its way once more.
    TwoRecords,
    /// The clock of the critical node steps forward while an extension that it
    /// has confirmed waits for others; the rival, of the same client, finds out.
    StepUnderway,
    /// The clock of the critical node is hours ahead. The counters of fences expire
    /// between two holds, and the rival, which comes for the second, does not reach
    /// that node.
    CountersExpire,
    /// The critical node restarts empty while its vote counts for the holder; the
    /// rival takes the longest ttl of the set to be a fifth of what it is.
    OtherTerms,
    /// The critical node restarts empty, with its clock behind, while its vote
    /// counts for the holder. The rival is there when the clock is set right.
    StepAfterBoot,
    /// The holder's set is the critical node alone; the rival lists all nodes, of
    /// which the others are new, and may not reach the critical one at first.
    Grows,
}

/// What an actor does next.
#[derive(Clone, Copy, Debug)]
pub struct Cue {
    /// When it enters.
    pub at: Time,
    /// How long it waits for the lock.
    pub wait: Duration,
    /// How long it holds it.
    pub hold: Duration,
    /// How long it has held it when it extends the lease.
    pub extends: Option<Duration>,
}

/// A scene: what and where; who does what and when.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    kind: Kind,
    critical: usize,
    /// The actors' cues in the first round and the second.
    cues: [[Cue; 2]; 2],
}

impl Scene {
    /// The plan of `seed`, if it is a scene. It draws from a generator of its
    /// own, so that other seeds stand for what they would without scenes.
    pub fn plan(seed: u64) -> Option<Plan> {
        let random = Random::new(!seed);
        if random.below(ONE_IN) > 0 {
            return None;
        }
        let nodes = *random.pick(&[3, 3, 3, 5, 7]);
        let ttl = random.over_decades(200.0, 1_000.0) as u64;
        let node_timeout = ttl / 4;
        let scene = Scene::draw(&random, nodes, ttl * MS);
        let one_client = matches!(scene.kind, Kind::StepUnderway);
        Some(Plan {
            nodes,
            clients: if one_client { 1 } else { 2 },
            workers: if one_client { 2 } else { 1 },
            locks: 1,
            rounds: 2,
            ttl: Duration::from_millis(ttl),
            node_timeout: Duration::from_millis(node_timeout),
            renew: true,
            fence_ttl: scene.fence_ttl(&random, ttl),
            shares: false,
            slots: None,
            guard: true,
            declared: true,
            longest: 1,
            owned: false,
            keep: Duration::ZERO,
            several: false,
            elects: false,
            waits: waits(&random, ttl, node_timeout, ttl),
            programs: None,
            tail: 0,
            capped: 20,
            habits: Vec::new(),
            mute: 0,
            stray: None,
            listed_twice: None,
            failovers: Vec::new(),
            wait_replicas: 0,
            unexcused: false,
            network: Network {
                base: ((ttl * MS) as f64 / random.over_decades(100.0, 1_000.0)) as Time,
                reach: ttl * MS,
                patience: node_timeout * MS,
                ..Network::default()
            },
            troubled: 4 * ttl * MS,
            swarm: Swarm::default(),
            scene: Some(scene),
            breaks: None,
        })
    }

    fn draw(random: &Random, nodes: usize, ttl: Time) -> Scene {
        let kind = *random.pick(&[
            Kind::LostVote,
            Kind::LostUnderway,
            Kind::EndedVote,
            Kind::TwoRestarts,
            Kind::Astray,
            Kind::LateVote,
            Kind::TwoRecords,
            Kind::StepUnderway,
        ]);
        let kind = match (random.aside().below(7), kind) {
            (0, _) => Kind::CountersExpire,
            (1 | 2, _) => *random.pick(&[Kind::OtherTerms, Kind::StepAfterBoot, Kind::Grows]),
            (_, Kind::Astray) if random.chance(50) => Kind::BackLate,
            (_, kind) => kind,
        };
        let about = |low, high| about(random, ttl, low, high);
        let (comes, stays) = match kind {
            Kind::LostVote | Kind::LostUnderway => (about(0.77, 0.87), about(1.1, 1.4)),
            Kind::EndedVote => (about(1.01, 1.1), about(1.4, 1.7)),
            Kind::TwoRestarts => (about(1.1, 1.5), about(1.6, 1.9)),
            Kind::Astray | Kind::BackLate => (about(1.1, 1.5), about(1.6, 1.9)),
            Kind::OtherTerms | Kind::StepAfterBoot => (about(1.2, 1.5), about(1.9, 2.2)),
            Kind::Grows => (about(0.0, 0.5), about(1.0, 2.0)),
            Kind::LateVote => (about(1.5, 2.0), about(0.0, 0.1)),
            Kind::TwoRecords => (about(0.5, 1.0), about(1.0, 1.5)),
            Kind::CountersExpire => (about(2.3, 2.8), about(0.0, 0.1)),
            Kind::StepUnderway => (EXTENDS * ttl / 100 + about(0.02, 0.12), about(0.5, 1.0)),
        };
        let enters = |at, hold| Cue {
            at,
            wait: Duration::from_nanos(ttl / 2),
            hold: Duration::from_nanos(hold),
            extends: None,
        };
        let mut holder = enters(curtain(ttl), stays);
        let mut rival = enters(curtain(ttl) + comes, ttl / 10);
        if let Kind::BackLate = kind {
            holder.extends = Some(Duration::from_nanos(about(0.94, 0.99)));
        }
        if let Kind::StepUnderway = kind {
            holder.extends = Some(Duration::from_nanos(EXTENDS * ttl / 100));
            // Once, and past the line of its client.
            rival.wait = Duration::ZERO;
        }
        Scene {
            kind,
            critical: random.below(nodes as u64) as usize,
            cues: [[enters(0, 0), enters(ttl / 10, 0)], [holder, rival]],
        }
    }

    /// What is played.
    pub fn title(&self) -> String {
        format!("the scene {:?} about n{}", self.kind, self.critical)
    }

    /// The node whose clock is hours ahead.
    pub fn ahead(&self) -> Option<usize> {
        matches!(self.kind, Kind::CountersExpire).then_some(self.critical)
    }

    /// How long counters of fences live.
    fn fence_ttl(&self, random: &Random, ttl: u64) -> Option<Duration> {
        match self.kind {
            Kind::CountersExpire => Some(Duration::from_millis(2 * ttl)),
            _ => random.chance(75).then_some(Duration::from_secs(600)),
        }
    }

    /// On what terms the clients admit nodes, where these differ.
    pub fn admission(&self, terms: Admission, max_ttl: Duration) -> Admission {
        let of = |nodes, max_ttl| Expectation::new("s", nodes, max_ttl, DRIFT, true);
        let nodes = terms.expected.nodes;
        match self.kind {
            Kind::OtherTerms => Admission {
                strays: vec![(RIVAL, of(nodes, max_ttl / 5))],
                ..terms
            },
            Kind::Grows => Admission {
                strays: vec![(HOLDER, of(1, max_ttl))],
                elsewhere: Some((self.critical, of(1, max_ttl))),
                // Old enough, and never used.
                servers: vec![(3_600_000 * MS, false); nodes],
                ..terms
            },
            _ => terms,
        }
    }

    /// Has the clients list the nodes as the scene wants it.
    pub fn lists(&self, world: &World) {
        if let Kind::Grows = self.kind {
            world.list_first(HOLDER, self.critical);
        }
    }

    /// What an actor does in a round.
    pub fn cue(&self, actor: usize, round: u64) -> Cue {
        self.cues[round as usize][actor]
    }

    /// Plans what goes wrong.
    pub fn faults(&self, plan: &Plan, random: &Random, world: &World) {
        let (ttl, base) = (plan.ttl.as_nanos() as Time, plan.network.base);
        let about = |low, high| about(random, ttl, low, high);
        let start = curtain(ttl);
        // Votes asked for at the start are there by then.
        let voted = start + 6 * base;
        let comes = self.cues[1][RIVAL].at;
        let node = self.critical;
        let others: Vec<usize> = (1..plan.nodes).map(|n| (node + n) % plan.nodes).collect();
        let (half, other_half) = others.split_at(others.len() / 2);
        let cut = |client, nodes: &[usize], (from, until): (Time, Time), ways, lossy| {
            for &node in nodes {
                let long = until.saturating_sub(from);
                let cut = FaultEvent::Cut {
                    client,
                    node,
                    long,
                    ways,
                    lossy,
                };
                world.plan(from, cut);
            }
        };
        let gone = |nodes, from| {
            cut(HOLDER, nodes, (from, start + 3 * ttl), Ways::Both, true);
        };
        let restart = |at, memory| {
            let fault = if memory == Memory::Lost && random.chance(50) {
                FaultEvent::Flush(node)
            } else {
                FaultEvent::CrashNode(node, ttl / 100, memory)
            };
            world.plan(at, fault);
        };
        match self.kind {
            Kind::LostVote => {
                gone(half, voted);
                let lost = comes + 6 * base + about(0.0, 0.03);
                let found = lost + about(0.0, 0.03);
                cut(HOLDER, &[node], (start - base, found), Ways::Both, false);
                restart(lost, Memory::Lost);
                let falls = start + ttl + about(0.002, 0.02);
                cut(RIVAL, half, (comes - base, falls), Ways::Requests, false);
            }
            Kind::LostUnderway => {
                gone(half, voted);
                let found = comes + 6 * base + about(0.0, 0.03);
                cut(HOLDER, &[node], (start - base, found), Ways::Both, false);
                let lost = found + base * random.between(1, 10);
                world.plan(lost, FaultEvent::Flush(node));
                let falls = start + ttl + about(0.002, 0.02);
                cut(RIVAL, half, (comes - base, falls), Ways::Requests, false);
            }
            Kind::EndedVote => {
                let lost = comes + 6 * base + about(0.0, 0.03);
                let found = lost + about(0.0, 0.03);
                cut(HOLDER, &[node], (voted, found), Ways::Both, false);
                world.plan(comes, FaultEvent::Snapshot(node));
                restart(lost, Memory::Old);
                // Renewed for the last time up to a third of a ttl before.
                gone(half, comes - about(0.65, 0.8));
                let falls = comes + about(0.15, 0.26);
                cut(RIVAL, half, (comes - base, falls), Ways::Requests, false);
            }
            Kind::TwoRestarts => {
                gone(half, voted);
                world.plan(start - base, FaultEvent::Snapshot(node));
                let first = voted + about(0.0, 0.1);
                restart(first, Memory::Old);
                let found = first + ttl / 50 + about(0.0, 0.1);
                world.plan(found, FaultEvent::Reset(HOLDER, node));
                let saved = found + 12 * base + about(0.0, 0.3);
                world.plan(saved, FaultEvent::Snapshot(node));
                let left = start + about(0.75, 1.0);
                gone(&[node], left);
                let second = left + about(0.0, 0.1);
                restart(second, Memory::Old);
                world.plan(second + ttl / 50, FaultEvent::Reset(RIVAL, node));
            }
            Kind::Astray => {
                gone(half, voted);
                let leads = start + about(0.2, 0.6);
                // Within the quarantine of the other.
                let long = about(0.6, 0.95);
                world.plan(leads, FaultEvent::Astray(HOLDER, node, long));
            }
            Kind::BackLate => {
                // Before the first renewal, and until just before the extension.
                let leads = voted + about(0.0, 0.2);
                let back = start + about(0.88, 0.96);
                let astray = FaultEvent::Astray(HOLDER, node, back - leads);
                world.plan(leads, astray);
                world.plan(back - about(0.0, 0.1), FaultEvent::Flush(node));
                let slow = start + about(0.95, 0.99);
                let until = start + about(1.0, 1.05);
                world.plan(slow, FaultEvent::PauseNode(node, until - slow));
            }
            Kind::LateVote => {
                let long = about(0.15, 0.27);
                world.plan(start - base, FaultEvent::PauseNode(node, long));
                let until = start + 2 * ttl;
                cut(HOLDER, &[node], (start + base, until), Ways::Requests, true);
            }
            Kind::TwoRecords => {
                gone(half, voted);
                let mut at = start + about(0.5, 0.65);
                for _ in 0..random.between(4, 16) {
                    world.plan(at, FaultEvent::Flush(node));
                    at += base * random.between(3, 8);
                }
            }
            Kind::CountersExpire => {
                // From before it knows that clock, or later.
                let from = *random.pick(&[0, start]);
                let until = comes + ttl / 2;
                cut(RIVAL, &[node], (from, until), Ways::Both, true);
            }
            Kind::OtherTerms => {
                gone(half, voted);
                let left = comes - about(0.05, 0.15);
                gone(&[node], left);
                restart(left + base, Memory::Lost);
            }
            Kind::StepAfterBoot => {
                gone(half, voted);
                let left = comes - about(0.05, 0.15);
                gone(&[node], left);
                let behind = about(0.5, 3.0) as i64;
                world.plan(left, FaultEvent::CrashNode(node, ttl / 100, Memory::Lost));
                world.plan(left, FaultEvent::StepNode(node, -behind));
                // The rival has connected by then.
                let right = comes + 24 * base + about(0.0, 0.1);
                world.plan(right, FaultEvent::SetRight(node, behind));
            }
            Kind::Grows => {
                if random.chance(50) {
                    let ways = *random.pick(&[Ways::Both, Ways::Requests]);
                    let until = comes + about(0.0, 1.5);
                    cut(RIVAL, &[node], (0, until), ways, random.chance(50));
                }
            }
            Kind::StepUnderway => {
                gone(half, voted);
                let asked = start + EXTENDS * ttl / 100;
                let until = asked + about(0.05, 0.2);
                cut(HOLDER, other_half, (asked, until), Ways::Replies, false);
                let by = about(0.1, 0.6) as i64;
                let at = asked + 6 * base + about(0.0, 0.05);
                world.plan(at, FaultEvent::StepNode(node, by));
            }
        }
    }
}

/// When the holder takes the lock for the second time.
fn curtain(ttl: Time) -> Time {
    ttl / 2
}

/// A part of the ttl between two shares of it.
fn about(random: &Random, ttl: Time, low: f64, high: f64) -> Time {
    (ttl as f64 * (low + (high - low) * random.share())) as Time
}
