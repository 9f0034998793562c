//! Which node may vote: its record, its identity, and what it says of itself.
//! The decisions are pure; [`connect`](crate::node::redis::connect) carries them out.
//!
//! Each node stores a [*record*](record) of the set that it belongs to, with the
//! `run_id` that it had when the record was written. A record that is missing
//! or of another run means that the node may have lost votes that it gave: it
//! gets a new record and a *quarantine*, a key that lives as long as any vote
//! may, and gives no new vote meanwhile. This is the "delayed restart" of the
//! Redlock specification, carried out by clients in place of an operator.
//!
//! | file | one idea |
//! |---|---|
//! | [`record`] | the record, and whether it is of the expected set |
//! | [`flavor`] | kinds of servers, and what depends on them |
//! | [`founding`] | what all nodes have shown, and what follows: founding a set, giving a record, refusing |
//! | [`survey`] | that, shared by the connections of a client, which wait for each other |
//! | [`info`] | what a server says of itself: whether it may serve, and whether it is new |
//! | [`server`] | the same for people: what it is, and how it stands |
//! | [`roster`] | no server votes in two places |
//! | [`steps`] | a clock that steps forward ends no quarantine |

pub mod cause;
pub(crate) mod flavor;
pub(crate) mod founding;
pub mod info;
pub mod record;
pub mod roster;
pub(crate) mod server;
pub mod steps;
pub mod survey;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Clock, drift_allowance};
use crate::event::LogEvent;
use crate::token::Rng;

pub use cause::QuarantineCause;
pub(crate) use flavor::DeleteByValue;
pub use flavor::UnsupportedServer;
pub use founding::{Admission, Observation, Refusal};
pub(crate) use info::PromotionHistory;
pub(crate) use info::Rejection;
pub use info::{Info, Newness, may_have_voted};
pub use record::Record;
pub(crate) use record::beginning;
pub use roster::Roster;
pub(crate) use server::ServerFacts;
pub use steps::StepWatch;
pub use survey::Survey;

/// What a client expects of every node of its set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// The set's name.
    pub set_name: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// The longest ttl of its locks, in ms.
    pub max_ttl: u64,
    /// Whether restarts are guarded.
    pub guard: bool,
    /// Whether the client may declare a wholly new set, without quarantine.
    pub declares: bool,
    /// How long a quarantine lasts: as long as any vote given before may.
    pub quarantine: Duration,
}

/// How much longer a replaced master may give votes to clients that have not heard of the failover:
/// until a sentinel reconfigures it as a replica. Sentinels took 10 s for a master that had been
/// stopped, and 6 s for one that ran.
pub const GRACE: Duration = Duration::from_secs(15);

impl Expectation {
    /// A set of that name, of this many nodes, where no vote is asked for longer
    /// than `max_ttl`. `drift` bounds the difference of clock rates.
    pub fn new(
        set_name: &str,
        nodes: usize,
        max_ttl: Duration,
        drift: f64,
        guard: bool,
    ) -> Expectation {
        let allowance = drift_allowance(max_ttl, drift);
        Expectation {
            set_name: set_name.to_owned(),
            nodes,
            max_ttl: max_ttl.as_millis() as u64,
            guard,
            declares: guard && nodes >= 2,
            quarantine: max_ttl + allowance,
        }
    }

    /// The same expectations where replicas take the places of masters that fail. A promoted
    /// replica has what was replicated, so it is never wholly new; and its quarantine begins when a
    /// client meets it, so it outlasts the votes of the replaced master, too.
    pub fn failing_over(self) -> Expectation {
        Expectation {
            declares: false,
            quarantine: self.quarantine + GRACE,
            ..self
        }
    }
}

/// What the connections of a client need to admit nodes.
pub(crate) struct Gate {
    /// Whether servers that drop keys when they are full are accepted.
    pub(crate) accept_eviction: bool,
    /// Bound on the difference of clock rates.
    pub(crate) drift: f64,
    /// How long one request to one node may take.
    pub(crate) node_timeout: Duration,
    /// How long a connection may take to be made, at the least.
    pub(crate) connect_timeout: Duration,
    /// How many replicas must have a vote before it counts.
    pub(crate) wait_replicas: u32,
    /// Whether the log has said that a node has fewer replicas.
    pub(crate) told_few: AtomicBool,
    pub(crate) record_key: Arc<[u8]>,
    pub(crate) quarantine_key: Arc<[u8]>,
    /// What a server calls the connections: the client's label, without what a name may not have.
    pub(crate) connection_name: Arc<[u8]>,
    /// A key to try permissions on.
    pub(crate) scratch_key: Arc<[u8]>,
    /// The name of the client's inbox.
    pub(crate) inbox: Arc<[u8]>,
    /// Whether the log has said that messages do not get through.
    pub(crate) told_deaf: AtomicBool,
    /// Whether the log has said that a node reports no run id, or (below) not its own address.
    pub(crate) told_runless: AtomicBool,
    pub(crate) told_placeless: AtomicBool,
    pub(crate) roster: Roster,
    pub(crate) survey: Survey,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) warn: fn(LogEvent),
    /// Where goes what is worth knowing: connections that come and go.
    pub(crate) note: fn(LogEvent),
}

impl Gate {
    /// What is expected of every node.
    pub(crate) fn expected(&self) -> &Expectation {
        self.survey.expected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_outlasts_every_vote_at_whatever_rate() {
        for (max_ttl, drift) in [(60_000, 0.01), (10, 0.001), (2_000, 0.5)] {
            let max_ttl = Duration::from_millis(max_ttl);
            let expected = Expectation::new("s", 3, max_ttl, drift, true);
            let least = max_ttl.mul_f64(1.0 + drift) + Duration::from_millis(2);
            assert!(expected.quarantine >= least, "{:?}", expected.quarantine);
            let failing_over = expected.clone().failing_over();
            assert_eq!(failing_over.quarantine, expected.quarantine + GRACE);
            assert!(expected.declares && !failing_over.declares);
        }
    }
}
