//! How a connection becomes ready, as on the real link: the node is asked for
//! its run and record, the core decides, and what it decides is carried out.
//! Each step is a message of its own, so other clients come in between.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::admission::{
    Admission, Expectation, Info, Newness, Observation, Record, Refusal, StepWatch, may_have_voted,
};
use quorlock::sim::{FaultKind, MemoryNode, Reply, RequestContext};

use super::bytes::{self, Breaks};
use super::events::Event;
use super::failover::Role;
use super::network::{Told, fault};
use super::{Inner, Node, Time};
use crate::history::Happened;
use crate::plan::DRIFT;
use crate::trace::Step;

/// The run of a server to which a node's address leads astray.
pub(super) const OTHER: u64 = 1_000_000;
/// Steps after which a node's record has changed too often.
const WRITES: u32 = 6;

/// On what terms nodes are admitted.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What the clients expect of each node.
    pub expected: Expectation,
    /// Clients that expect something else.
    pub strays: Vec<(usize, Expectation)>,
    /// A node that begins with the record of another set, and that set.
    pub elsewhere: Option<(usize, Expectation)>,
    /// Whether the set was declared, so that it begins with its records.
    pub declared: bool,
    /// How long the servers of a set that was not declared have run, and whether
    /// each has stored anything.
    pub servers: Vec<(Time, bool)>,
    /// How streams misbehave, where clients have the real links.
    pub breaks: Option<Breaks>,
    /// How many replicas must have a vote before it counts, where clients have the real
    /// links.
    pub wait_replicas: u32,
    /// What is not promised without a guard is judged all the same.
    pub excuses_nothing: bool,
}

impl Terms {
    /// The terms of a set of this many nodes, where nobody asks for a longer vote
    /// than `max_ttl`.
    pub fn new(nodes: usize, max_ttl: Duration, guard: bool, declared: bool) -> Terms {
        Terms {
            expected: Expectation::new("s", nodes, max_ttl, DRIFT, guard),
            strays: Vec::new(),
            elsewhere: None,
            declared,
            servers: Vec::new(),
            breaks: None,
            wait_replicas: 0,
            excuses_nothing: false,
        }
    }

    /// The same of nodes that fail over.
    pub fn failing_over(self) -> Terms {
        Terms {
            expected: self.expected.failing_over(),
            ..self
        }
    }

    /// A node's identity in its run of that number.
    pub(super) fn run_id(&self, node: usize, run: u64) -> String {
        match self.breaks {
            Some(_) => bytes::run_id(node, run),
            None => run_id(node, run),
        }
    }

    /// What this client expects.
    pub fn of(&self, client: usize) -> &Expectation {
        let stray = self.strays.iter().find(|(stray, _)| *stray == client);
        stray.map_or(&self.expected, |(_, expected)| expected)
    }

    /// The record that a node of a declared set begins with.
    pub(super) fn declared(&self, node: usize) -> Option<Arc<str>> {
        let run = self.run_id(node, 0);
        let record = |of| Record::new(of, 1, &format!("n{node}"), Some(&run)).to_string();
        match &self.elsewhere {
            Some((elsewhere, of)) => (*elsewhere == node).then(|| record(of).into()),
            None => self.declared.then(|| record(&self.expected).into()),
        }
    }
}

/// A node's identity in its run of that number, as links tell it.
fn run_id(node: usize, run: u64) -> String {
    format!("r{node}.{run}")
}

/// What passes between a client and a node before the first request.
pub(super) enum Hello {
    /// To the node: who are you?
    Ask,
    /// To the client: the run, the record, what it may have lost, what it has counted,
    /// the node's `TIME` in µs.
    Told(String, Option<Arc<str>>, Newness, String, u64),
    /// To the node: replace this record by that, with such a quarantine. Later:
    /// the quarantine comes behind the record, in a seeded bug.
    Write(Option<Arc<str>>, Arc<str>, Duration, Option<Duration>),
    /// To the client: it is written, or this one stands there; and what the node has
    /// counted.
    Written(Result<Arc<str>, Option<Arc<str>>>, String, Option<Duration>),
    /// To the node, whose record is good: tell this connection what comes to
    /// the client's inbox.
    Subscribe(Arc<str>),
    /// To the client: done.
    Subscribed(Arc<str>),
    /// To the client: this server is a replica.
    Replica,
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
        let gone = node.role == Role::Gone;
        if node.down_until > now || node.loading_until > now || gone || wire.dead {
            wire.broken = true;
            return;
        }
        let answer = match *hello {
            _ if self.demoted(at) => Hello::Replica,
            Hello::Write(old, new, quarantine, later) => {
                let written = self.write_record(pair, old.as_deref(), &new, quarantine);
                let node = &self.nodes[at];
                let (found, stats) = (node.state.record().cloned(), node.commandstats());
                Hello::Written(if written { Ok(new) } else { Err(found) }, stats, later)
            }
            Hello::Subscribe(record) => {
                self.subscribe(pair, connection);
                Hello::Subscribed(record)
            }
            _ => {
                self.traces_shown(pair, connection);
                let client = self.pairs[pair].client;
                let expected = self.surveys[client].expected();
                let astray = self.connections[connection as usize].astray;
                let node = &self.nodes[at];
                let run = run_id(at, if astray { OTHER } else { node.run });
                Hello::Told(
                    node.shown_run(run),
                    node.state.record().cloned(),
                    node.newness(now, expected),
                    node.commandstats(),
                    MemoryNode::time(node.clock.local(now)),
                )
            }
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

    /// A client replaces the record of its node, if that is `old`.
    pub(super) fn write_record(
        &mut self,
        pair: usize,
        old: Option<&str>,
        new: &Arc<str>,
        quarantine: Duration,
    ) -> bool {
        let at = self.pairs[pair].node;
        let node = &mut self.nodes[at];
        let local = node.clock.local_ms(self.time);
        node.used = true;
        let before = node.shows(local);
        let written = node.state.init(old, new.clone(), quarantine, local);
        let (after, stored) = (node.shows(local), node.stored);
        if written {
            node.stored += 1 + u64::from(!quarantine.is_zero());
        }
        self.traces(|inner| Step::Writes {
            between: inner.between(pair, inner.serving),
            local,
            old: old.map(Arc::from),
            new: new.clone(),
            quarantine,
            before,
            after,
            stored,
        });
        self.note(|| Happened::Record {
            node: at,
            record: new.clone(),
            written,
        });
        let pledge = Record::parse(new).is_some_and(|record| record.is_pledge());
        let strays = &self.admission.strays;
        let stray = strays.iter().any(|s| s.0 == self.pairs[pair].client);
        if written && pledge && stray {
            self.strayed();
        }
        self.look_at_lines(at);
        written
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
        let (client, stepped) = (p.client, p.stepped);
        let place = pair % self.nodes.len();
        match hello {
            Hello::Told(run, record, newness, stats, time) => {
                // Else every server has one place, and there is nothing to find.
                let now = self.clients[client].now(self.time);
                let met = || self.rosters[client].meet(place, "n", Some(&run), now);
                let twice = self.listed_twice && met().is_err();
                if twice {
                    return self.connecting_in_vain(pair, connection);
                }
                let wire = &mut self.connections[connection as usize];
                wire.told = Some((time, now));
                wire.look = Some(Observation {
                    voted: has_voted(record.as_deref(), &stats),
                    stored: record.map(|record| record.to_string()),
                    run: Some(run),
                    newness,
                    stepped,
                });
            }
            Hello::Written(Ok(record), _, Some(later)) => {
                let write = Hello::Write(Some(record.clone()), record, later, None);
                self.say(pair, connection, write);
                return Vec::new();
            }
            Hello::Written(outcome, stats, _) => {
                let Some(look) = &mut self.connections[connection as usize].look else {
                    return Vec::new();
                };
                if outcome.is_ok() {
                    look.stepped = false;
                }
                let stands = outcome.map_or_else(|other| other, Some);
                look.voted = has_voted(stands.as_deref(), &stats);
                look.stored = stands.map(|record| record.to_string());
            }
            Hello::Subscribed(record) => {
                self.hears(pair, true);
                return self.ready(pair, connection, record);
            }
            Hello::Replica => {
                let why = "it is a replica, and sentinels still name it";
                return self.refused(pair, connection, FaultKind::NotReady, why);
            }
            Hello::Ask | Hello::Write(..) | Hello::Subscribe(_) => return Vec::new(),
        }
        self.look(pair, connection)
    }

    /// Looks at what the node shows, beside what others have shown.
    fn look(&mut self, pair: usize, connection: u64) -> Vec<Told> {
        let place = pair % self.nodes.len();
        let client = self.pairs[pair].client;
        let wire = &mut self.connections[connection as usize];
        let Some(look) = &wire.look else {
            return Vec::new();
        };
        let survey = &self.surveys[client];
        let before = survey.changes();
        let fresh = format!("{:x}", self.random.bits());
        let next = survey.look(place, look, &fresh);
        let changed = survey.changes() != before;
        let stepped = look.stepped;
        wire.waits = next == Admission::Wait;
        let look = look.clone();
        self.traces_decided((pair, connection), stepped, &next);
        let wire = &mut self.connections[connection as usize];
        if next != Admission::Admit {
            // It votes for nobody yet, although it is free: a set may be founded
            // as late as this, or anew after all of it was emptied.
            let settled = self.time + self.network.settles();
            for line in &mut self.lines {
                line.breaks(settled, self.time);
            }
        }
        let mut told = match next {
            Admission::Wait => Vec::new(),
            Admission::Admit => {
                let record = look.stored.as_deref().unwrap_or_default().into();
                self.welcome(pair, connection, record)
            }
            Admission::Write(record, quarantine) if wire.writes < WRITES => {
                wire.writes += 1;
                let old = look.stored.as_deref().map(Arc::from);
                let long = quarantine;
                let (long, later) = (long, None);
                let write = Hello::Write(old, record.to_string().into(), long, later);
                self.say(pair, connection, write);
                Vec::new()
            }
            Admission::Write(..) => self.connecting_in_vain(pair, connection),
            Admission::Refuse(Refusal::Foreign(why)) => {
                self.refused(pair, connection, FaultKind::Foreign, &why)
            }
            Admission::Refuse(Refusal::Unfounded(why)) => {
                self.lines
                    .iter_mut()
                    .for_each(|line| line.unfounded(self.time));
                self.refused(pair, connection, FaultKind::NotReady, &why)
            }
        };
        if changed {
            told.extend(self.look_again(client));
        }
        told
    }

    /// A node has shown something new: what waits for that looks again.
    pub(super) fn look_again(&mut self, client: usize) -> Vec<Told> {
        let n = self.nodes.len();
        let mut told = Vec::new();
        for pair in client * n..(client + 1) * n {
            let Some(connection) = self.pairs[pair].current else {
                continue;
            };
            let waits = &mut self.connections[connection as usize].waits;
            if std::mem::take(waits) && self.pairs[pair].connecting {
                told.extend(self.look(pair, connection));
            }
        }
        told
    }

    /// The node may not vote.
    fn refused(&mut self, pair: usize, connection: u64, kind: FaultKind, why: &str) -> Vec<Told> {
        let (client, node) = (self.pairs[pair].client, self.pairs[pair].node);
        self.note(|| Happened::Unfit {
            client,
            node,
            pair,
            why: why.into(),
        });
        self.pairs[pair].fault = Some(fault(kind, why));
        self.connecting_in_vain(pair, connection)
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
        self.pairs[pair].stepped = false;
        let hears = !self.clients[client].mute && !self.connections[connection as usize].astray;
        if self.pairs[pair].subscription.is_some() && hears {
            self.say(pair, connection, Hello::Subscribe(record));
            return Vec::new();
        }
        self.ready(pair, connection, record)
    }

    /// Every node has lost its record, and a client founds a set of its own: nothing
    /// is left that knows on what terms votes were given before.
    fn strayed(&mut self) {
        self.strayed = true;
        self.nodes.iter_mut().for_each(|node| node.excused = true);
    }

    /// A node has told its `TIME`: if that has stepped forward, and a quarantine
    /// may stand there, the node is admitted anew.
    pub(super) fn watch_clock(
        &mut self,
        pair: usize,
        ticket: RequestContext,
        time: u64,
        reply: Reply,
    ) -> Reply {
        let quarantined = matches!(reply, Reply::Quarantined { .. });
        let p = &mut self.pairs[pair];
        let client = p.client;
        let now = self.clients[client].now(self.time);
        let guard = self.surveys[client].expected().guard;
        if !(guard
            && p.watch
                .told(ticket.server, ticket.sent, now, time, quarantined))
        {
            return reply;
        }
        p.stepped = true;
        self.readmit(pair);
        StepWatch::worth(reply)
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

impl Node {
    /// What the server may have lost, as `INFO` tells it.
    fn newness(&self, now: Time, expected: &Expectation) -> Newness {
        match self.state.record() {
            None => {}
            Some(record) => {
                let pledge = Record::parse(record).is_some_and(|record| record.is_pledge());
                let local = self.clock.local_ms(now);
                return if pledge && self.state.quarantine(local).is_none() {
                    Newness::New
                } else {
                    Newness::Used
                };
            }
        }
        let uptime = self.started.until(self.clock.local(now)).as_secs();
        let info = format!(
            "role:master\nuptime_in_seconds:{uptime}\nevicted_keys:0\nmaster_replid2:0000\n"
        );
        Info::parse(&info).newness(&self.commandstats(), expected.quarantine)
    }

    /// How often its server has carried out which commands in this run, as far as that
    /// matters.
    pub(super) fn commandstats(&self) -> String {
        let mut stats = "cmdstat_info:calls=1\r\n".to_owned();
        if self.used {
            stats.push_str("cmdstat_evalsha:calls=1\r\n");
        }
        if self.stored > 0 {
            stats.push_str(&format!("cmdstat_set:calls={}\r\n", self.stored));
        }
        stats
    }
}

/// Whether a node that shows this record, and has counted that, may have voted before it
/// pledged.
fn has_voted(record: Option<&str>, commandstats: &str) -> bool {
    let record = record.and_then(Record::parse);
    record.is_some_and(|record| record.is_pledge()) && may_have_voted(commandstats)
}
