//! Which node may vote, and on what record: "Record", "Quarantine", "A wholly new set".
//!
//! A client is judged by what nodes have shown it, and by what is true of their servers whatever they have shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::admission::Admission;
use quorlock_sim::trace::{Between, Step};

use super::Refused;
use crate::spec::Action;
use crate::spec::claim::{drift_of, nanos};

/// A replaced master may give votes for so long ("Quarantine").
const GRACE: u64 = 15_000_000_000;
/// The drift by which quarantines are longer than the longest ttl.
const DRIFT: f64 = 0.01;

/// What a client expects.
#[derive(Clone, Debug)]
struct Terms {
    nodes: usize,
    guard: bool,
    max_ttl: Duration,
    grace: u64,
}

impl Terms {
    /// How long a quarantine is at the least.
    fn quarantine(&self) -> u64 {
        nanos(self.max_ttl) + drift_of(self.max_ttl, DRIFT) + self.grace
    }
}

/// Which server it is in truth: its node, and the number of its run and of its promotion.
type Server = (usize, bool, (u64, u64));

/// What a connection has been shown.
#[derive(Clone, Debug)]
struct Seen {
    record: Option<Arc<str>>,
    server: Server,
    /// How long it has run, in ns, where it has stored nothing in that run.
    unused_for: Option<u64>,
    /// It has a quarantine, or has lost none of what it stored before.
    stored: u64,
    quarantined: bool,
}

/// The words of a record.
struct Record<'a>(Vec<&'a str>);

impl<'a> Record<'a> {
    fn of(text: &'a str) -> Record<'a> {
        Record(text.split(' ').collect())
    }

    fn word(&self, place: usize) -> &'a str {
        self.0.get(place).copied().unwrap_or("")
    }

    fn is_pledge(&self) -> bool {
        self.word(2) == "0"
    }

    fn run(&self) -> &'a str {
        self.word(6)
    }

    /// Whether it is of the set that a client expects: protocol, name, nodes, longest ttl, guard.
    fn is_of(&self, terms: &Terms) -> bool {
        let max_ttl = terms.max_ttl.as_millis().to_string();
        self.0.len() == 8
            && self.word(0) == "1"
            && self.word(1) == "s"
            && self.word(3) == terms.nodes.to_string()
            && self.word(4) == max_ttl
            && (terms.guard || self.word(7) == "off")
    }
}

/// What is known of records.
#[derive(Debug, Default)]
pub struct Founding {
    terms: BTreeMap<usize, Terms>,
    seen: BTreeMap<u64, Seen>,
    /// What the node at each place of a client's list has shown that last.
    shown: BTreeMap<(usize, usize), Option<Seen>>,
    /// The same of all places, as each connection's client had it when it decided last.
    basis: BTreeMap<u64, BTreeMap<usize, Option<Seen>>>,
    /// Which server each run in a record stands for.
    runs: BTreeMap<String, Server>,
    /// Which server the client uses at a place, and since when.
    uses: BTreeMap<(usize, usize), (Server, u64)>,
}

fn server(between: &Between, run: (u64, u64)) -> Server {
    let astray = between.server.0 == 2;
    (between.node, astray, if astray { (0, 0) } else { run })
}

fn refuse(action: Action, why: String) -> Result<Action, Refused> {
    Err(Refused::new(action, || why))
}

impl Founding {
    /// A step that is about records; `None`: it is none.
    pub fn step(&mut self, at: u64, step: &Step) -> Option<Result<Action, Refused>> {
        Some(match step {
            Step::Client {
                client,
                nodes,
                guard,
                max_ttl,
                failing_over,
                ..
            } => {
                let terms = Terms {
                    nodes: *nodes,
                    guard: *guard,
                    max_ttl: *max_ttl,
                    grace: if *failing_over { GRACE } else { 0 },
                };
                self.terms.insert(*client, terms);
                return None;
            }
            Step::Shows {
                between,
                local,
                run,
                record,
                quarantine,
                started,
                used,
                stored,
            } => {
                let up = local.0.saturating_sub(started.0);
                let seen = Seen {
                    record: record.clone(),
                    server: server(between, *run),
                    unused_for: (!used).then_some(up),
                    stored: *stored,
                    quarantined: quarantine.is_some(),
                };
                self.seen.insert(between.connection, seen);
                Ok(Action::ClientSee)
            }
            Step::Decides {
                client,
                place,
                connection,
                stepped,
                decision,
            } => {
                let seen = self.seen.get(connection).cloned();
                self.shown.insert((*client, *place), seen);
                // By this it decides, whatever comes until the node has carried it out.
                let own = self.shown.range((*client, 0)..(*client + 1, 0));
                let own = own.map(|((_, place), seen)| (*place, seen.clone()));
                self.basis.insert(*connection, own.collect());
                let guard = self.terms.get(client)?.guard;
                // guard: a clock that has stepped ends no quarantine
                if guard && *stepped && **decision == Admission::Admit {
                    let why = format!("client {client} admits a node whose clock has stepped");
                    return Some(refuse(Action::ClientCorrect, why));
                }
                Ok(Action::ClientSee)
            }
            Step::Writes { .. } => self.writes(step)?,
            Step::Ready { between, record } => self.ready(at, between, record.as_ref())?,
            _ => return None,
        })
    }

    /// A node is to replace its record.
    fn writes(&mut self, step: &Step) -> Option<Result<Action, Refused>> {
        let Step::Writes {
            between,
            old,
            new,
            quarantine,
            before,
            after,
            stored,
            ..
        } = step
        else {
            return None;
        };
        let (terms, words) = (self.terms.get(&between.client)?, Record::of(new));
        // The node: "init".
        let written = before.0 == *old;
        let longer = Some(whole(*quarantine)).filter(|long| *long > before.1.unwrap_or_default());
        let expected = if written {
            (Some(new.clone()), longer.or(before.1))
        } else {
            before.clone()
        };
        if *after != expected {
            let why = format!("leaves {after:?}, where {expected:?} is allowed");
            return Some(refuse(Action::NodeInit, why));
        }
        // What was stored since it was shown is minded where that is replaced.
        let mut seen = self.seen.get(&between.connection)?.clone();
        if written {
            seen.stored = *stored;
        }
        let full = terms.quarantine();
        let own = nanos(*quarantine);
        let is_raised = old
            .as_deref()
            .is_some_and(|old| Record::of(old).is_pledge());
        let verdict = if words.is_pledge() {
            self.pledges(between, &seen, own)
        } else if is_raised {
            self.raises(between, &seen, own, old.as_deref()?)
        } else if old.is_some() {
            // guard: a record is corrected with a whole quarantine
            (!terms.guard || own >= full)
                .then_some(Action::ClientCorrect)
                .ok_or_else(|| "corrects a record without a whole quarantine".to_owned())
        } else {
            self.gives(between, own)
        };
        let action = match verdict {
            Ok(action) => action,
            Err(why) => {
                let why = format!("client {} {why}: {old:?}, {new}", between.client);
                return Some(refuse(Action::ClientPledge, why));
            }
        };
        if written {
            // guard: the run is that of this server, and of no other
            if words.run() != "-" {
                let known = self.runs.entry(words.run().to_owned());
                let known = *known.or_insert(seen.server);
                if known != seen.server {
                    let why = format!("the run {} stands for two servers", words.run());
                    return Some(refuse(Action::ClientCorrect, why));
                }
            }
        }
        let seen = self.seen.get_mut(&between.connection)?;
        seen.record = after.0.clone();
        seen.stored += if written {
            1 + u64::from(!quarantine.is_zero())
        } else {
            0
        };
        Some(Ok(action))
    }

    /// What the other places of a client have shown; `None` of one that has shown nothing.
    fn others(&self, between: &Between) -> Vec<Option<&Seen>> {
        let nodes = self.terms.get(&between.client).map_or(0, |t| t.nodes);
        let others = (0..nodes).filter(|place| *place != between.place);
        others
            .map(|place| {
                let basis = self.basis.get(&between.connection)?;
                basis.get(&place)?.as_ref()
            })
            .collect()
    }

    /// Whether another node belongs elsewhere.
    fn beside_a_foreign(&self, between: &Between) -> bool {
        let Some(terms) = self.terms.get(&between.client) else {
            return false;
        };
        let foreign = |seen: &Seen| {
            let record = seen.record.as_deref();
            record.is_some_and(|record| !Record::of(record).is_of(terms))
        };
        self.others(between).into_iter().flatten().any(foreign)
    }

    /// Whether another node has shown this set's record.
    fn stands(&self, between: &Between) -> bool {
        let others = self.others(between);
        let record = |seen: &Seen| {
            let record = seen.record.as_deref().map(Record::of);
            record.is_some_and(|record| !record.is_pledge())
        };
        others.into_iter().flatten().any(record)
    }

    /// A node without a record takes a pledge.
    fn pledges(&self, between: &Between, seen: &Seen, own: u64) -> Result<Action, String> {
        let terms = &self.terms[&between.client];
        // guard: all nodes have been seen, and none is foreign
        if self.others(between).iter().any(Option::is_none) {
            return Err("founds a set before it has seen all nodes".into());
        }
        if self.beside_a_foreign(between) {
            return Err("founds a set beside a node of another".into());
        }
        if !terms.guard {
            return Ok(Action::ClientPledge);
        }
        // guard: with its quarantine, unless every server has lost nothing
        let unused =
            |seen: &&Seen| seen.unused_for.is_some() || seen.record.is_some() && !seen.quarantined;
        let others = self.others(between);
        let new = others.iter().flatten().all(unused) && unused(&seen);
        let lived = seen.unused_for.filter(|_| new).unwrap_or(0);
        if own.saturating_add(lived) < terms.quarantine() {
            return Err(format!(
                "pledges a node with a quarantine of {own} ns: it may have voted within {} ns",
                terms.quarantine() - lived
            ));
        }
        Ok(Action::ClientPledge)
    }

    /// A pledge is raised.
    fn raises(
        &self,
        between: &Between,
        seen: &Seen,
        own: u64,
        old: &str,
    ) -> Result<Action, String> {
        let terms = &self.terms[&between.client];
        if !self.stands(between) {
            // guard: all nodes hold the pledge
            let pledged = |seen: &Option<&Seen>| seen.is_some_and(|seen| seen.record.is_some());
            if !self.others(between).iter().all(pledged) {
                return Err("raises a pledge before all nodes hold it".into());
            }
        }
        if self.beside_a_foreign(between) {
            return Err("raises a pledge beside a node of another set".into());
        }
        // guard: it has not voted and lost that since
        let run = self.runs.get(Record::of(old).run());
        let lost = seen.stored > 2 || run != Some(&seen.server);
        if terms.guard && lost && own < terms.quarantine() {
            return Err("raises a pledge of a node that may have voted".into());
        }
        Ok(Action::ClientRaise)
    }

    /// A node that has lost its record is given one.
    fn gives(&self, between: &Between, own: u64) -> Result<Action, String> {
        let terms = &self.terms[&between.client];
        // guard: another node has shown this set's record, and none a foreign one
        if !self.stands(between) || self.beside_a_foreign(between) {
            return Err("gives a record that no other node has shown".into());
        }
        if terms.guard && own < terms.quarantine() {
            return Err("gives a record without a whole quarantine".into());
        }
        Ok(Action::ClientCorrect)
    }

    /// Requests go over a connection from here on.
    fn ready(
        &mut self,
        at: u64,
        between: &Between,
        record: Option<&Arc<str>>,
    ) -> Option<Result<Action, Refused>> {
        let terms = self.terms.get(&between.client)?;
        let refused = |why: &str| {
            let (c, n) = (between.client, between.node);
            let why = format!("client {c} admits node {n} {why}");
            Some(refuse(Action::ClientSee, why))
        };
        let seen = self.seen.get(&between.connection).cloned();
        // guard: it has shown this set's record
        let shown = seen.as_ref().and_then(|seen| seen.record.clone());
        let Some((shown, seen)) = shown.zip(seen) else {
            return refused("without a record");
        };
        if terms.guard && record != Some(&shown) {
            return refused("by another record than it has shown");
        }
        let words = Record::of(&shown);
        if !words.is_of(terms) || words.is_pledge() {
            return refused(&format!("by the record {shown}"));
        }
        // guard: of its present run, and guarded
        if terms.guard {
            let declared = (seen.server.0, false, (0, 0));
            let run = *self.runs.entry(words.run().to_owned()).or_insert(declared);
            if run != seen.server || words.word(7) != "on" {
                return refused(&format!("of another run: {run:?} and {:?}", seen.server));
            }
        }
        // guard: no server votes in two places
        let lately = |since: &u64| at < since.saturating_add(nanos(terms.max_ttl));
        let own = (between.client, between.place);
        let twice = self.uses.iter().any(|(place, (server, since))| {
            place.0 == own.0 && *place != own && *server == seen.server && lately(since)
        });
        if twice {
            return refused("in two places");
        }
        self.uses.insert(own, (seen.server, at));
        Some(Ok(Action::ClientSee))
    }
}

fn whole(length: Duration) -> Duration {
    Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}
