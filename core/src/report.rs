//! The state of a set and of its nodes, for operators and monitors.

use std::fmt;
use std::time::Duration;

/// The state of a client's set: see [`Client::probe`](crate::Client::probe).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// The name of the set.
    pub set_name: String,
    /// How many nodes must vote for a lock.
    pub quorum: usize,
    /// The longest ttl of its locks, as this client has it.
    pub max_ttl: Duration,
    /// Whether this client guards restarts.
    pub guard: bool,
    /// How many nodes would give a vote now.
    pub votes: usize,
    /// What follows from all of that.
    pub health: Health,
    /// What is to be said of the set as a whole.
    pub findings: Vec<Finding>,
    /// The nodes, in the order of the node list.
    pub nodes: Vec<NodeReport>,
}

/// Whether locks can be won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// A quorum votes, and there is nothing to fix.
    Works,
    /// A quorum votes, but something needs to be fixed or waited for.
    WorksBut,
    /// Fewer nodes than a quorum would vote: no lock can be won now.
    Cannot,
}

impl Health {
    /// The health's number, the same forever: 1, 2 and 3.
    pub const fn number(self) -> i32 {
        match self {
            Health::Works => 1,
            Health::WorksBut => 2,
            Health::Cannot => 3,
        }
    }

    /// The health as a word: `works`, `works_but`, `cannot`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Health::Works => "works",
            Health::WorksBut => "works_but",
            Health::Cannot => "cannot",
        }
    }
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// To be fixed, or waited for.
    Warning,
    /// It costs a vote, or breaks what is promised.
    Error,
}

impl Severity {
    /// The severity as a word: `note`, `warning`, `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One thing that a probe has found. `docs/operations/doctor.md` lists all that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Which one it is, such as `QD01`: the same forever.
    pub id: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// What is wrong, in words, without secrets.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// One line for a person.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            id,
            severity,
            what,
            remedy,
        } = self;
        write!(f, "{id} {}: {what}; do: {remedy}", severity.as_str())
    }
}

/// The state of a node. What is not known of a node that cannot be used is `None`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node, as in errors; never with credentials.
    pub node: String,
    /// Whether it has answered.
    pub answers: bool,
    /// Whether it would give a vote now.
    pub votes: bool,
    /// The shortest of a few round trips, and their median.
    pub round_trip: Option<(Duration, Duration)>,
    /// What it is: `redis`, `valkey`, or `memory` for a node within the process.
    pub server: Option<&'static str>,
    /// The version of that.
    pub version: Option<String>,
    /// `master` or `replica`.
    pub role: Option<&'static str>,
    /// For how long it has run.
    pub uptime: Option<Duration>,
    /// How its clock stands against the median of the set's.
    pub clock: Option<ClockOffset>,
    /// Its eviction policy.
    pub eviction: Option<String>,
    /// How much memory it uses, in bytes.
    pub memory_used: Option<u64>,
    /// How much it may use, in bytes; `None` also where it has no limit.
    pub memory_limit: Option<u64>,
    /// Its record: `expected`, `none`, `other`, or `unknown` where it was not read. A node
    /// within the process needs none: `expected`.
    pub record: &'static str,
    /// What of its record is not as this client expects it, field by field.
    pub differences: Vec<String>,
    /// How much longer it gives no vote, for it may have lost its memory.
    pub quarantine: Duration,
    /// How votes are given back there: `delifeq`, `delex`, or `script`; `None` where that was
    /// not tried.
    pub release: Option<&'static str>,
    /// What is to be said of it, the gravest first.
    pub findings: Vec<Finding>,
}

/// Whether one node may be counted on: see [`Client::probe_node`](crate::Client::probe_node).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Readiness {
    /// The state of the node.
    pub node: NodeReport,
    /// Whether a node of the list shows a record of this set.
    pub founded: bool,
    /// Whether the node votes. Or it could, and has no record: no set was founded, or the server
    /// has run for longer than votes last, so that it has none to lose, and waits for a client that
    /// gives it a record.
    ///
    /// It is for what starts and stops servers, so that the next is not stopped before this one is ready. Clients
    /// decide by themselves which nodes vote.
    pub ready: bool,
}

/// How a node's clock stands against the median of its set's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockOffset {
    /// How far it is ahead, in microseconds; negative: it is behind.
    pub micros: i64,
    /// By how many microseconds that may be wrong.
    pub error_micros: u64,
}

impl Probe {
    /// All findings, those of the set first, with the node that each is about.
    pub fn all(&self) -> impl Iterator<Item = (Option<&NodeReport>, &Finding)> {
        let of_nodes = self
            .nodes
            .iter()
            .flat_map(|node| node.findings.iter().map(move |found| (Some(node), found)));
        self.findings
            .iter()
            .map(|found| (None, found))
            .chain(of_nodes)
    }
}

/// One line for a person.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the set {}: {} of {} nodes vote, {} are needed",
            self.set_name,
            self.votes,
            self.nodes.len(),
            self.quorum
        )
    }
}
