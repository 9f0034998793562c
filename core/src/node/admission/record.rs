//! The record that a node keeps of itself, and whose it is. Pure.

use std::fmt;

use super::Expectation;
use crate::foreign;

/// The protocol of docs/reference/protocol.md.
pub const PROTOCOL: u32 = 1;
/// Stands for a run that is not known.
const NO_RUN: &str = "-";
/// The epoch of a record that is a pledge: its set is being founded.
const PLEDGED: u64 = 0;
/// The epoch of a set that was just founded.
pub(super) const FIRST: u64 = 1;
/// What every refusal of a foreign record ends with.
const REMEDY: &str = "to change a set, stop all of its clients for its max_ttl, remove the record \
                      of every node, and declare the set anew (`quorlock explain sets`, \"Any other change\")";

/// A node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    set_name: String,
    epoch: u64,
    nodes: usize,
    max_ttl: u64,
    node: String,
    run: String,
    guard: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{PROTOCOL} {} {} {} {} {} {} {}",
            self.set_name,
            self.epoch,
            self.nodes,
            self.max_ttl,
            self.node,
            self.run,
            word(self.guard)
        )
    }
}

/// The guard as the record has it.
fn word(guard: bool) -> &'static str {
    if guard { "on" } else { "off" }
}

impl Record {
    /// Reads a record; `None` for any other text.
    pub fn parse(text: &str) -> Option<Record> {
        let mut words = text.split(' ');
        if words.next()? != PROTOCOL.to_string() {
            return None;
        }
        let record = Record {
            set_name: words.next()?.to_owned(),
            epoch: words.next()?.parse().ok()?,
            nodes: words.next()?.parse().ok()?,
            max_ttl: words.next()?.parse().ok()?,
            node: words.next()?.to_owned(),
            run: words.next()?.to_owned(),
            guard: match words.next()? {
                "on" => true,
                "off" => false,
                _ => return None,
            },
        };
        words.next().is_none().then_some(record)
    }

    /// The record of a node of that name in a set of that epoch.
    pub fn new(expected: &Expectation, epoch: u64, node: &str, run: Option<&str>) -> Record {
        Record {
            set_name: expected.set_name.clone(),
            epoch,
            nodes: expected.nodes,
            max_ttl: expected.max_ttl,
            node: node.to_owned(),
            run: vouched(expected, run),
            guard: expected.guard,
        }
    }

    /// The pledge of a node without a record to a set that is being founded.
    pub(super) fn pledge(expected: &Expectation, node: &str, run: Option<&str>) -> Record {
        Record::new(expected, PLEDGED, node, run)
    }

    /// The record of the same node in a set of that epoch, in its present run.
    pub(super) fn renewed(self, expected: &Expectation, epoch: u64, run: Option<&str>) -> Record {
        Record {
            epoch,
            run: vouched(expected, run),
            guard: expected.guard,
            ..self
        }
    }

    /// The node's name.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it is a pledge: its set is being founded.
    pub fn is_pledge(&self) -> bool {
        self.epoch == PLEDGED
    }

    /// Whether the node may have lost votes since the record was written: it
    /// runs anew, or nothing was guarded then. A server that does not tell its
    /// run is known by its record alone.
    pub(crate) fn is_of_before(&self, run: Option<&str>) -> bool {
        let same = run.is_none_or(|run| run == self.run);
        !same || !self.guard
    }

    /// What of the record is not as the expected set has it, field by field; nothing
    /// where it is of that set. `epoch` is that of the set's other nodes, as far as it
    /// is known.
    pub(crate) fn differences(&self, expected: &Expectation, epoch: Option<u64>) -> Vec<String> {
        let mut found = Vec::new();
        if self.set_name != expected.set_name {
            found.push(format!(
                "it belongs to the set `{}`, this client's is `{}`",
                foreign::excerpt(&self.set_name),
                expected.set_name
            ));
        }
        if self.nodes != expected.nodes {
            found.push(format!(
                "it belongs to a set of {} nodes, this client lists {}",
                self.nodes, expected.nodes
            ));
        }
        if let Some(epoch) = epoch.filter(|epoch| *epoch != self.epoch && !self.is_pledge()) {
            found.push(format!(
                "its record is of epoch {}, those of other nodes of epoch {epoch}",
                self.epoch
            ));
        }
        if self.max_ttl != expected.max_ttl {
            found.push(format!(
                "its set has a max_ttl of {} ms, this client's is {} ms: give every client of the \
                 set the same",
                self.max_ttl, expected.max_ttl
            ));
        }
        // The other way round is no fault: a client with a guard raises the record to one.
        if self.guard && !expected.guard {
            found.push(
                "its set has the restart guard on, this client has it off: give every client of \
                 the set the same restart_guard"
                    .into(),
            );
        }
        found
    }
}

fn vouched(expected: &Expectation, run: Option<&str>) -> String {
    // A record written without a guard vouches for no run: to a client with a guard the node counts
    // as restarted.
    run.filter(|_| expected.guard).unwrap_or(NO_RUN).to_owned()
}

/// Reads a node's record, or says why it is not one of the expected set.
pub(super) fn of_set(
    expected: &Expectation,
    text: &str,
    epoch: Option<u64>,
) -> Result<Record, String> {
    let record = Record::parse(text);
    let why = match &record {
        Some(record) => record.differences(expected, epoch).into_iter().next(),
        None => Some(format!(
            "it is not one of protocol {PROTOCOL}, which this client speaks"
        )),
    };
    match (record, why) {
        (Some(record), None) => Ok(record),
        (_, why) => Err(format!(
            "its record is `{}`, and this client's set has `{PROTOCOL} {} {} {} {} * * {}`: {}; \
             {REMEDY}",
            foreign::excerpt(text),
            expected.set_name,
            epoch.unwrap_or(FIRST),
            expected.nodes,
            expected.max_ttl,
            word(expected.guard),
            why.unwrap_or_default(),
        )),
    }
}

/// As much of a `run_id` as a record holds.
pub(crate) fn beginning(run: &str) -> &str {
    run.get(..16).unwrap_or(run)
}
