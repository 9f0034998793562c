//! How long one caller takes to get a lock.

use crate::clock::Instant;
use crate::error::{Error, ErrorKind};
use crate::protocol::group::Group;
use crate::protocol::measures::Outcome;
use crate::protocol::set::Set;

/// Measures one call. Dropped before its end, it was given up by its caller.
pub(crate) struct Timed<'a> {
    set: &'a Set,
    group: Group,
    begun: Instant,
    outcome: Option<Outcome>,
}

impl<'a> Timed<'a> {
    /// A call begins.
    pub(crate) fn begin(set: &'a Set, group: Group) -> Timed<'a> {
        Timed {
            set,
            group,
            begun: set.clock.now(),
            outcome: Some(Outcome::Cancelled),
        }
    }

    /// The call ends; of one that has succeeded: whether it has only entered a lease once
    /// more. That took no time, and is counted elsewhere.
    pub(crate) fn end(mut self, outcome: Result<bool, &Error>) {
        self.outcome = match outcome {
            Ok(true) => None,
            Ok(false) => Some(Outcome::Won),
            Err(error) => Some(of(error.kind())),
        };
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            let took = self.begun.until(self.set.clock.now());
            let measures = &self.set.counters.measures;
            measures.acquired(self.group, outcome, took);
        }
    }
}

fn of(kind: ErrorKind) -> Outcome {
    match kind {
        ErrorKind::Contended => Outcome::Contended,
        ErrorKind::Timeout => Outcome::Timeout,
        ErrorKind::QuorumUnavailable => Outcome::NoQuorum,
        ErrorKind::TooManyWaiters => Outcome::Busy,
        _ => Outcome::Failed,
    }
}
