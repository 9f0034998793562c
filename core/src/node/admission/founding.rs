//! What the nodes of a set have shown to one client, and what follows for each
//! of them. Pure.
//!
//! A set is *founded* once, by all its nodes: while any of them is not known,
//! or belongs elsewhere, nothing is written on the others. Two clients with
//! different lists may find the same servers empty at the same moment, so
//! founding takes two steps: each node is given a *pledge*, a record of epoch 0,
//! and only where all nodes hold the pledge of one set are they raised to epoch
//! 1 and may vote. A node has one record, so of two sets that share a node one
//! alone is founded.
//!
//! Later a node without a record has lost it, or is new in its place. It is
//! given one, with a quarantine, by a client that has seen this set's record on
//! another node and a foreign record on none.

use std::sync::Arc;
use std::time::Duration;

use super::record::{FIRST, of_set};
use super::{Expectation, Newness, Record};

/// What a client sees of a node on one connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The record that is stored there.
    pub stored: Option<String>,
    /// The server's run, as much of it as a record holds; `None` if it does not
    /// tell.
    pub run: Option<String>,
    /// What a node without a record, or with a pledge, may have lost.
    pub newness: Newness,
    /// The node holds a pledge, and [may have voted](super::may_have_voted) before that was
    /// written.
    pub voted: bool,
    /// The node's clock has, or may have, stepped forward while it was in quarantine: the
    /// quarantine may have ended too early.
    pub stepped: bool,
}

/// What a node has shown last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ShownRecord {
    /// The node has shown nothing so far.
    Unknown,
    /// The node could not be reached, or did not serve, when a connection tried it last.
    Absent,
    /// No record.
    Blank(Newness),
    /// The pledge of this set.
    Pledged(Newness),
    /// This set's record, of that epoch.
    Ours(u64),
    /// A record of another set, or of this one on other terms.
    Foreign,
    /// The node lives in this process and keeps no record.
    Apart,
}

/// What is to be done about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The node may vote: its record is good as it is.
    Admit,
    /// Replace its record by this one, with a quarantine unless that is zero;
    /// then look again.
    Write(Record, Duration),
    /// What follows depends on other nodes that have yet to be seen: look again
    /// when one has [changed](super::Survey::poll_change).
    Wait,
    /// The node may not vote, for this reason.
    Refuse(Refusal),
}

/// Why a node may not vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node's record is of another set, or on other terms.
    Foreign(String),
    /// The node has no record, and cannot be given one now.
    Unfounded(String),
}

/// What is known of the nodes of a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetView {
    expected: Expectation,
    /// The nodes as messages name them.
    names: Vec<Arc<str>>,
    shown: Vec<ShownRecord>,
    /// A node was given its record when its server was too young, and no more.
    young: bool,
}

impl SetView {
    /// Nothing is known. `names`: of the nodes, as messages have them, and
    /// whether each lives in this process.
    pub(crate) fn new(expected: Expectation, names: Vec<(Arc<str>, bool)>) -> SetView {
        let shown = |(_, apart): &(_, bool)| {
            if *apart {
                ShownRecord::Apart
            } else {
                ShownRecord::Unknown
            }
        };
        SetView {
            expected,
            shown: names.iter().map(shown).collect(),
            names: names.into_iter().map(|(name, _)| name).collect(),
            young: false,
        }
    }

    /// Notes what a node shows: whether that is new, and what follows. `fresh`
    /// names the node if it has no name yet.
    pub(crate) fn look(
        &mut self,
        node: usize,
        look: &Observation,
        fresh: &str,
    ) -> (bool, Admission) {
        let (shown, record) = self.shown(node, look);
        let changed = self.shown[node] != shown;
        self.shown[node] = shown;
        let next = match record {
            Err(why) => Admission::Refuse(Refusal::Foreign(why)),
            Ok(record) => self.next(node, look, record, fresh),
        };
        (changed, next)
    }

    /// Notes that a node could not be reached, or does not serve: whether that is
    /// new. What it has shown of a record stays known.
    pub(crate) fn absent(&mut self, node: usize) -> bool {
        let changed = matches!(
            self.shown[node],
            ShownRecord::Unknown | ShownRecord::Blank(_)
        );
        if changed {
            self.shown[node] = ShownRecord::Absent;
        }
        changed
    }

    /// Whether the node has shown this set's record.
    pub(super) fn is_ours(&self, node: usize) -> bool {
        matches!(self.shown[node], ShownRecord::Ours(_) | ShownRecord::Apart)
    }

    /// Whether the set was founded by this client, and wholly new but for servers
    /// that were too young.
    pub(super) fn is_young(&self) -> bool {
        self.young
    }

    /// What a node's record is to this set, and the record.
    fn shown(
        &self,
        node: usize,
        look: &Observation,
    ) -> (ShownRecord, Result<Option<Record>, String>) {
        let Some(text) = &look.stored else {
            return (ShownRecord::Blank(look.newness), Ok(None));
        };
        match of_set(&self.expected, text, self.epoch(node)) {
            Ok(record) if record.is_pledge() => {
                (ShownRecord::Pledged(look.newness), Ok(Some(record)))
            }
            Ok(record) => (ShownRecord::Ours(record.epoch()), Ok(Some(record))),
            Err(why) => (ShownRecord::Foreign, Err(why)),
        }
    }

    /// What follows for a node that holds this `record` of the set, or none.
    fn next(
        &mut self,
        node: usize,
        look: &Observation,
        record: Option<Record>,
        fresh: &str,
    ) -> Admission {
        let run = look.run.as_deref();
        let pledge = match record {
            Some(record) if !record.is_pledge() => return self.keep(record, look),
            pledge => pledge,
        };
        let others = || self.others(node);
        if let Some(foreign) = others().find(|other| *other.1 == ShownRecord::Foreign) {
            return Admission::Refuse(Refusal::Unfounded(format!(
                "it has no record, and is given none, for the node {} belongs to another set",
                self.names[foreign.0]
            )));
        }
        // The set stands, so this node has lost its record, or is new in its place.
        if let Some(epoch) = self.epoch(node) {
            return match pledge {
                Some(pledge) => self.raise(pledge, epoch, look),
                None => {
                    let record = Record::new(&self.expected, epoch, fresh, run);
                    Admission::Write(record, self.quarantine(true))
                }
            };
        }
        let missing =
            |shown: &ShownRecord| matches!(shown, ShownRecord::Unknown | ShownRecord::Absent);
        if others().any(|other| missing(other.1)) {
            // The client names a node as missing only after a connection has tried it.
            return if others().any(|other| *other.1 == ShownRecord::Unknown) {
                Admission::Wait
            } else {
                Admission::Refuse(Refusal::Unfounded(self.missing()))
            };
        }
        let Some(pledge) = pledge else {
            return self.pledge(node, fresh, run);
        };
        let open = others().any(|other| matches!(other.1, ShownRecord::Blank(_)));
        if open {
            return Admission::Wait;
        }
        self.raise(pledge, FIRST, look)
    }

    /// A node of the set has its record. It keeps it, unless votes may have been
    /// lost since that was written.
    fn keep(&self, record: Record, look: &Observation) -> Admission {
        let run = look.run.as_deref();
        let lost = record.is_of_before(run) || look.stepped;
        if !(self.expected.guard && lost) {
            return Admission::Admit;
        }
        let epoch = record.epoch();
        let record = record.renewed(&self.expected, epoch, run);
        Admission::Write(record, self.quarantine(true))
    }

    /// A node without a record takes the pledge of the set.
    fn pledge(&mut self, node: usize, fresh: &str, run: Option<&str>) -> Admission {
        let newness = self.newness(node);
        self.young |= matches!(newness, Newness::Young(_));
        let quarantine = match newness {
            Newness::New => Duration::ZERO,
            Newness::Young(left) => self.quarantine(true).min(left),
            Newness::Used => self.quarantine(true),
        };
        Admission::Write(Record::pledge(&self.expected, fresh, run), quarantine)
    }

    /// A node that has pledged is raised to that epoch.
    fn raise(&self, pledge: Record, epoch: u64, look: &Observation) -> Admission {
        let run = look.run.as_deref();
        let lost = pledge.is_of_before(run) || look.voted;
        let record = pledge.renewed(&self.expected, epoch, run);
        Admission::Write(record, self.quarantine(lost))
    }

    /// For how long a node that may have `lost` votes gives none.
    fn quarantine(&self, lost: bool) -> Duration {
        if self.expected.guard && lost {
            self.expected.quarantine
        } else {
            Duration::ZERO
        }
    }

    /// Why the set cannot be founded now.
    pub(super) fn missing(&self) -> String {
        let names = |wanted: fn(&ShownRecord) -> bool| {
            let all = self.shown.iter().zip(&self.names);
            let of = all.filter(|(shown, _)| wanted(shown));
            of.map(|(_, name)| &**name).collect::<Vec<_>>().join(", ")
        };
        let missing = names(|shown| matches!(shown, ShownRecord::Unknown | ShownRecord::Absent));
        if missing.is_empty() {
            let blank = names(|shown| matches!(shown, ShownRecord::Blank(_)));
            return format!("the set is being founded: {blank} has yet to take its record");
        }
        format!(
            "it has no record yet: a set is founded once, by all its nodes together, and this \
             client has no answer of {missing}"
        )
    }

    fn others(&self, node: usize) -> impl Iterator<Item = (usize, &ShownRecord)> {
        self.shown
            .iter()
            .enumerate()
            .filter(move |(i, _)| *i != node)
    }

    /// The epoch that nodes other than this are of.
    fn epoch(&self, node: usize) -> Option<u64> {
        self.others(node).find_map(|(_, shown)| match shown {
            ShownRecord::Ours(epoch) => Some(*epoch),
            _ => None,
        })
    }

    /// What a node without a record may have lost, as one of a new set.
    fn newness(&self, node: usize) -> Newness {
        let lost_nothing = |shown: &ShownRecord| match shown {
            ShownRecord::Blank(newness) | ShownRecord::Pledged(newness) => {
                *newness != Newness::Used
            }
            _ => *shown == ShownRecord::Apart,
        };
        let mut shown = self.shown.iter();
        let wholly_new = shown.all(lost_nothing);
        match self.shown[node] {
            ShownRecord::Blank(newness) | ShownRecord::Pledged(newness)
                if self.expected.declares && wholly_new =>
            {
                newness
            }
            _ => Newness::Used,
        }
    }
}
