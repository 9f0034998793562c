//! How a connection becomes ready, as on the real link: the node is asked for
//! its run and record, the core decides, and what it decides is carried out.
//! Each step is a message of its own, so other clients come in between.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::MemoryNode;
use quorlock::sim::admission::{Decision, Expected, Record, decide};

use super::Inner;
use super::events::Event;
use super::network::Told;
use crate::mutants::mutant;
use crate::plan::DRIFT;

/// The run of a server to which a node's address leads astray.
const OTHER: u64 = 1_000_000;
/// Steps after which a node's record has changed too often.
const TRIES: u32 = 3;

/// On what terms nodes are admitted.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What the clients expect of each node.
    pub expected: Expected,
    /// How long a quarantine lasts.
    pub quarantine: Duration,
    /// Whether the set was declared, so that it begins without a quarantine.
    pub declared: bool,
}

impl Terms {
    /// The terms of a set of so many nodes, where nobody asks for a longer
    /// vote than `max_ttl`.
    pub fn new(nodes: usize, max_ttl: Duration, guard: bool, declared: bool) -> Terms {
        Terms {
            expected: Expected {
                set_name: "s".into(),
                nodes,
                max_ttl: max_ttl.as_millis() as u64,
                guard,
            },
            quarantine: max_ttl + max_ttl.mul_f64(DRIFT) + Duration::from_millis(2),
            declared,
        }
    }

    /// The record that a node of a declared set begins with.
    pub(super) fn declared(&self, node: usize) -> Option<Arc<str>> {
        let record = || Record::new(&self.expected, &format!("n{node}"), Some(&run_id(node, 0)));
        self.declared.then(|| record().to_string().into())
    }
}

/// A node's identity in its run of that number.
pub(super) fn run_id(node: usize, run: u64) -> String {
    format!("r{node}.{run}")
}

/// What passes between a client and a node before the first request.
pub(super) enum Hello {
    /// To the node: who are you?
    Ask,
    /// To the client: the run, the record, the node's `TIME` in µs.
    Told(String, Option<Arc<str>>, u64),
    /// To the node: replace this record by that, with such a quarantine.
    Write(Option<Arc<str>>, Arc<str>, Duration, u32),
    /// To the client: it is written, or this one stands there.
    Written(Result<Arc<str>, Option<Arc<str>>>, u32),
    /// To the node, whose record is good: tell this connection what comes to
    /// the client's inbox.
    Subscribe(Arc<str>),
    /// To the client: done.
    Subscribed(Arc<str>),
}

impl Hello {
    pub(super) fn at_node(&self) -> bool {
        matches!(self, Hello::Ask | Hello::Write(..) | Hello::Subscribe(_))
    }
}

impl Inner {
    /// A step reaches the node.
    pub(super) fn hello_at_node(&mut self, pair: usize, connection: u64, hello: Box<Hello>) {
        let at = self.pairs[pair].node;
        let now = self.time;
        let node = &mut self.nodes[at];
        if node.paused_until > now {
            return node.held_back.push(Event::Hello {
                pair,
                connection,
                hello,
            });
        }
        let wire = &mut self.connections[connection as usize];
        if node.down_until > now || node.loading_until > now || wire.dead {
            wire.broken = true;
            return;
        }
        let local = node.clock.local_ms(now);
        let answer = match *hello {
            Hello::Write(old, new, quarantine, tries) => {
                let written = node
                    .state
                    .init(old.as_deref(), new.clone(), quarantine, local);
                let found = node.state.record().cloned();
                self.note(|| format!("n{at} record {new}: {written}"));
                self.look_at_lines(at);
                Hello::Written(if written { Ok(new) } else { Err(found) }, tries)
            }
            Hello::Subscribe(record) => {
                self.subscribe(pair, connection);
                Hello::Subscribed(record)
            }
            _ => Hello::Told(
                run_id(at, if wire.astray { OTHER } else { node.run }),
                node.state.record().cloned(),
                MemoryNode::time(node.clock.local(now)),
            ),
        };
        if let Some(at) = self.back(pair, connection) {
            self.push(
                at,
                Event::Hello {
                    pair,
                    connection,
                    hello: Box::new(answer),
                },
            );
        }
    }

    /// An answer reaches the client. Returns whom to tell that there is no
    /// connection.
    pub(super) fn hello_at_client(
        &mut self,
        pair: usize,
        connection: u64,
        hello: Hello,
    ) -> Vec<Told> {
        let p = &self.pairs[pair];
        if p.current != Some(connection) || !p.connecting {
            return Vec::new();
        }
        let place = pair % self.nodes.len();
        let client = p.client;
        let (stored, tries) = match hello {
            Hello::Told(run, record, time) => {
                // Else every server has one place, and there is nothing to find.
                let now = self.clients[client].now(self.time);
                let met = || self.rosters[client].meet(place, "n", Some(&run), now);
                let twice = self.listed_twice && met().is_err();
                if mutant!("same-server-twice", twice, false) {
                    return self.connecting_in_vain(pair, connection);
                }
                let wire = &mut self.connections[connection as usize];
                (wire.run, wire.told) = (run, Some((time, now)));
                (record, 0)
            }
            Hello::Written(Ok(record), tries) if tries > TRIES => {
                // The quarantine comes after the record.
                let long = self.admission.quarantine;
                let write = Hello::Write(Some(record.clone()), record, long, 0);
                self.say(pair, connection, write);
                return Vec::new();
            }
            Hello::Written(Ok(record), _) => return self.welcome(pair, connection, record),
            Hello::Written(Err(record), tries) => (record, tries),
            Hello::Subscribed(record) => {
                self.hears(pair, true);
                return self.ready(pair, connection, record);
            }
            Hello::Ask | Hello::Write(..) | Hello::Subscribe(_) => return Vec::new(),
        };
        let terms = &self.admission;
        let run = &self.connections[connection as usize].run;
        let run = mutant!("runs-not-compared", Some(&**run), None);
        let fresh = format!("{:x}", self.random.bits());
        match decide(&terms.expected, stored.as_deref(), run, None, &fresh) {
            Decision::Admit => self.welcome(pair, connection, stored.unwrap_or_default()),
            Decision::Write { record, quarantine } if tries < TRIES => {
                let long = match quarantine {
                    true => mutant!("half-quarantine", terms.quarantine, terms.quarantine / 2),
                    false => Duration::ZERO,
                };
                let long = mutant!("record-without-quarantine", long, Duration::ZERO);
                let (long, tries) = mutant!(
                    "record-before-quarantine",
                    (long, tries),
                    (Duration::ZERO, tries + if quarantine { TRIES } else { 0 })
                );
                let write = Hello::Write(stored, record.to_string().into(), long, tries + 1);
                self.say(pair, connection, write);
                Vec::new()
            }
            Decision::Write { .. } | Decision::Refuse(_) => {
                self.connecting_in_vain(pair, connection)
            }
        }
    }

    /// The node's record is good.
    fn welcome(&mut self, pair: usize, connection: u64, record: Arc<str>) -> Vec<Told> {
        let place = pair % self.nodes.len();
        let client = self.pairs[pair].client;
        let now = self.clients[client].now(self.time);
        let known = || self.rosters[client].admit(place, &record, now);
        if self.listed_twice && known().is_err() {
            return self.connecting_in_vain(pair, connection);
        }
        let hears = !self.clients[client].mute && !self.connections[connection as usize].astray;
        if self.pairs[pair].ear.is_some() && hears {
            self.say(pair, connection, Hello::Subscribe(record));
            return Vec::new();
        }
        self.ready(pair, connection, record)
    }

    /// Sends a step to the node.
    pub(super) fn say(&mut self, pair: usize, connection: u64, hello: Hello) {
        if let Some(at) = self.forth(pair, connection) {
            self.push(
                at,
                Event::Hello {
                    pair,
                    connection,
                    hello: Box::new(hello),
                },
            );
        }
    }
}
