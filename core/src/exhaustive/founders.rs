//! Two clients that found a set, in every order, and nodes that forget: which node may vote.

use std::sync::Arc;
use std::time::Duration;

use stateright::{Model, Property};

use super::{breaks, explore};
use crate::node::admission::founding::SetView;
use crate::node::admission::{Admission, Expectation, Newness, Observation, Record};

const CLIENTS: usize = 2;
/// So many times a tick a vote counts for, and a quarantine lasts.
const LONG: u8 = 1;

#[derive(Clone)]
struct Small {
    /// The sets that the clients want, each with its name, its longest ttl in seconds, and the nodes of
    /// the client's list.
    sets: [(&'static str, u64, &'static [usize]); CLIENTS],
    nodes: usize,
    guard: bool,
    /// Which nodes have stored something before.
    used: &'static [usize],
    forgets: &'static [Forgets],
    /// How often a node may forget, and time may go on.
    most: u8,
    ticks: u8,
    /// What a server with a pledge has stored is not looked at: what is wrong.
    trusts_pledges: bool,
}

/// How a node comes to lose what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgets {
    /// The server restarts empty.
    Restarts,
    /// All keys are deleted, and the server runs on.
    Flushed,
    /// The server restarts with its record, and without its votes.
    OldSnapshot,
}

/// A node, as it is in truth.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    record: Option<String>,
    run: u8,
    /// For how many ticks more it is in quarantine, is too young, has votes that count, and has lost such.
    quarantine: u8,
    young: u8,
    voted: u8,
    lost: u8,
    /// By which record those votes were given.
    by: Option<String>,
    /// How many strings it has stored in this run; no more than four are counted.
    stored: u8,
}

/// A client's connection to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Connection {
    None,
    /// What the node has shown, and what follows depends on others.
    Waits(Observation),
    /// A record is on the way.
    Writes(Observation, String, Duration),
    /// The node votes, by that record.
    Ready(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct All {
    nodes: Vec<Server>,
    views: Vec<SetView>,
    connections: Vec<Vec<Connection>>,
    forgot: u8,
    ticks: u8,
    /// Of which sets a node has voted.
    sets: Vec<(&'static str, u64)>,
    /// Nodes that have voted after they forgot.
    healed: bool,
    /// A node was given a quarantine; and has voted without any.
    delayed: bool,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Connects(usize, usize),
    Fails(usize, usize),
    LooksAgain(usize, usize),
    Writes(usize, usize),
    Votes(usize, usize),
    Forgets(usize, Forgets),
    TimeGoesOn,
}

fn run(number: u8) -> String {
    format!("r{number}")
}

fn is_pledge(record: Option<&str>) -> bool {
    let record = record.and_then(Record::parse);
    record.is_some_and(|record| record.is_pledge())
}

impl Server {
    /// What a connection sees of it, by `INFO`, `PTTL` and `INFO commandstats`.
    fn shows(&self, model: &Small, quarantine: Duration) -> Observation {
        let record = self.record.as_deref();
        let newness = match record {
            Some(_) if is_pledge(record) && self.quarantine == 0 => Newness::New,
            Some(_) => Newness::Used,
            None if self.stored > 0 => Newness::Used,
            None if self.young > 0 => Newness::Young(quarantine),
            None => Newness::New,
        };
        Observation {
            stored: self.record.clone(),
            run: Some(run(self.run)),
            newness,
            voted: self.has_voted(model),
            stepped: false,
        }
    }

    fn has_voted(&self, model: &Small) -> bool {
        is_pledge(self.record.as_deref()) && !model.trusts_pledges && self.stored > 2
    }

    fn stores(&mut self, strings: u8) {
        self.stored = (self.stored + strings).min(4);
    }
}

impl Small {
    fn expected(&self, client: usize) -> Expectation {
        let (name, max_ttl, nodes) = self.sets[client];
        let max_ttl = Duration::from_secs(max_ttl);
        Expectation::new(name, nodes.len(), max_ttl, 0.01, self.guard)
    }

    fn node(&self, client: usize, place: usize) -> usize {
        self.sets[client].2[place]
    }
}

impl All {
    /// The client decides on what a node has shown.
    fn decide(&mut self, model: &Small, client: usize, place: usize, look: Observation) {
        let node = &self.nodes[model.node(client, place)];
        let fresh = format!("c{client}n{place}{}", run(node.run));
        let (_, next) = self.views[client].look(place, &look, &fresh);
        self.connections[client][place] = match next {
            Admission::Admit => Connection::Ready(look.stored.unwrap_or_default()),
            Admission::Wait => Connection::Waits(look),
            Admission::Refuse(_) => Connection::None,
            Admission::Write(record, long) => Connection::Writes(look, record.to_string(), long),
        };
    }

    /// The node replaces its record, if it is the one that the client has seen.
    fn write(&mut self, model: &Small, client: usize, place: usize) {
        let connection = &mut self.connections[client][place];
        let Connection::Writes(mut look, new, long) =
            std::mem::replace(connection, Connection::None)
        else {
            return;
        };
        let node = &mut self.nodes[model.node(client, place)];
        if node.record == look.stored {
            node.record = Some(new);
            if !long.is_zero() {
                node.quarantine = LONG;
                self.delayed = true;
            }
            node.stores(1 + u8::from(!long.is_zero()));
        }
        look.stored = node.record.clone();
        look.voted = node.has_voted(model);
        self.decide(model, client, place, look);
    }

    /// The node votes for a client that it was admitted by with that record.
    fn vote(&mut self, model: &Small, client: usize, node: usize, record: String) {
        let (name, max_ttl, _) = model.sets[client];
        let set = (name, max_ttl);
        let server = &mut self.nodes[node];
        if server.lost > 0 {
            self.wrong = Some("a node votes that has lost votes which count");
        } else if server.voted > 0 && server.by.as_ref() != Some(&record) {
            self.wrong = Some("a node votes by two records at once");
        } else if is_pledge(Some(&record)) {
            self.wrong = Some("a node votes by a pledge");
        }
        server.voted = LONG;
        server.by = Some(record);
        server.stores(1);
        self.healed |= self.forgot > 0;
        if !self.sets.contains(&set) {
            self.sets.push(set);
            self.sets.sort_unstable();
        }
    }

    fn forget(&mut self, model: &Small, node: usize, how: Forgets) {
        let server = &mut self.nodes[node];
        server.lost = server.lost.max(server.voted);
        (server.voted, server.by, server.quarantine) = (0, None, 0);
        if how != Forgets::OldSnapshot {
            server.record = None;
        }
        if how == Forgets::Flushed {
            return;
        }
        (server.stored, server.young) = (0, LONG);
        server.run += 1;
        for client in 0..CLIENTS {
            for place in 0..model.sets[client].2.len() {
                if model.node(client, place) == node {
                    self.connections[client][place] = Connection::None;
                }
            }
        }
    }
}

impl Model for Small {
    type State = All;
    type Action = Step;

    fn init_states(&self) -> Vec<All> {
        let server = |node| Server {
            record: None,
            run: 0,
            quarantine: 0,
            young: 0,
            voted: 0,
            lost: 0,
            by: None,
            stored: u8::from(self.used.contains(&node)),
        };
        let view = |client: usize| {
            let names = self.sets[client].2.iter();
            let names = names.map(|node| (Arc::from(format!("node{node}")), false));
            SetView::new(self.expected(client), names.collect())
        };
        let connections = |client: usize| vec![Connection::None; self.sets[client].2.len()];
        vec![All {
            nodes: (0..self.nodes).map(server).collect(),
            views: (0..CLIENTS).map(view).collect(),
            connections: (0..CLIENTS).map(connections).collect(),
            forgot: 0,
            ticks: 0,
            sets: Vec::new(),
            healed: false,
            delayed: false,
            wrong: None,
        }]
    }

    fn actions(&self, state: &All, steps: &mut Vec<Step>) {
        if state.wrong.is_some() {
            return;
        }
        for client in 0..CLIENTS {
            for (place, connection) in state.connections[client].iter().enumerate() {
                let server = &state.nodes[self.node(client, place)];
                match connection {
                    Connection::None => {
                        steps.push(Step::Connects(client, place));
                        // One client cannot reach one of the nodes, for as long as it may be.
                        if (client, place) == (0, 1) {
                            steps.push(Step::Fails(client, place));
                        }
                    }
                    Connection::Waits(_) => steps.push(Step::LooksAgain(client, place)),
                    Connection::Writes(..) => steps.push(Step::Writes(client, place)),
                    Connection::Ready(record) => {
                        let same = !self.guard || server.record.as_ref() == Some(record);
                        if !same {
                            // The node says that it has another record, and is admitted anew.
                            steps.push(Step::Connects(client, place));
                        } else if server.quarantine == 0 || !self.guard {
                            steps.push(Step::Votes(client, place));
                        }
                    }
                }
            }
        }
        if state.forgot < self.most {
            // Nodes of one list differ in nothing.
            steps.extend(self.forgets.iter().map(|how| Step::Forgets(0, *how)));
        }
        if state.ticks < self.ticks {
            steps.push(Step::TimeGoesOn);
        }
    }

    fn next_state(&self, last: &All, step: Step) -> Option<All> {
        let mut all = last.clone();
        match step {
            Step::Connects(client, place) => {
                let expected = self.expected(client);
                let look = all.nodes[self.node(client, place)].shows(self, expected.quarantine);
                all.decide(self, client, place, look);
            }
            Step::Fails(client, place) => {
                all.views[client].absent(place);
            }
            Step::LooksAgain(client, place) => {
                if let Connection::Waits(look) = all.connections[client][place].clone() {
                    all.decide(self, client, place, look);
                }
            }
            Step::Writes(client, place) => all.write(self, client, place),
            Step::Votes(client, place) => {
                if let Connection::Ready(record) = all.connections[client][place].clone() {
                    all.vote(self, client, self.node(client, place), record);
                }
            }
            Step::Forgets(node, how) => {
                all.forgot += 1;
                all.forget(self, node, how);
            }
            Step::TimeGoesOn => {
                all.ticks += 1;
                for node in &mut all.nodes {
                    for left in [
                        &mut node.quarantine,
                        &mut node.young,
                        &mut node.voted,
                        &mut node.lost,
                    ] {
                        *left = left.saturating_sub(1);
                    }
                    node.by = node.by.take().filter(|_| node.voted > 0);
                }
            }
        }
        (all != *last).then_some(all)
    }

    fn properties(&self) -> Vec<Property<Small>> {
        let mut all = vec![
            Property::always("a node votes only where it may", |_, all: &All| {
                all.wrong.is_none()
            }),
            Property::always(
                "of sets that share a node one comes to be",
                |_, all: &All| all.sets.len() <= 1,
            ),
            Property::sometimes("a set comes to be", |_, all: &All| {
                let ready =
                    |of: &&Vec<Connection>| of.iter().all(|c| matches!(c, Connection::Ready(_)));
                all.connections.iter().any(|of| ready(&of)) && all.sets.len() == 1
            }),
        ];
        if !self.used.is_empty() {
            // A node that has stored something may be of a set that has lost its memory.
            all.push(Property::always(
                "a set of used nodes begins with a quarantine",
                |_, all: &All| all.ticks > 0 || all.sets.is_empty(),
            ));
        }
        if self.most > 0 {
            all.push(Property::sometimes(
                "a node votes that has forgotten",
                |_, all: &All| all.healed && all.delayed,
            ));
        }
        all
    }
}

const BOTH: &[usize] = &[0, 1];

fn small() -> Small {
    Small {
        sets: [("s", 60, BOTH); CLIENTS],
        nodes: 2,
        guard: true,
        used: &[],
        forgets: &[Forgets::Restarts, Forgets::Flushed, Forgets::OldSnapshot],
        most: 1,
        ticks: 1,
        trusts_pledges: false,
    }
}

#[test]
#[ignore = "`make prove` runs it"]
fn two_clients_found_a_set() {
    explore("a set of two", small(), 200_000);
    let used = Small {
        used: &[1],
        ..small()
    };
    explore("a set of two, one of them used", used, 100_000);
}

#[test]
fn two_clients_found_sets_that_share_a_node() {
    let sets = [("s", 60, BOTH), ("t", 60, &[1, 2][..])];
    let model = Small {
        sets,
        nodes: 3,
        most: 0,
        ticks: 0,
        ..small()
    };
    explore("two sets that share a node", model.clone(), 900);
    // Of one set on other terms it is the same.
    let sets = [("s", 60, BOTH), ("s", 30, BOTH)];
    explore("a set on two terms", Small { sets, ..model }, 1_000);
}

#[test]
fn without_guard_or_counts_a_node_votes_too_early() {
    let unguarded = Small {
        guard: false,
        ..small()
    };
    breaks(unguarded, "a node votes only where it may");
    let trusting = Small {
        trusts_pledges: true,
        ..small()
    };
    breaks(trusting, "a node votes only where it may");
}
