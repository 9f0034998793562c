//! The error that says why a lock was not acquired.

use std::time::Duration;

use crate::error::{Error, ErrorKind, NodeError, shown, within_wait};
use crate::protocol::claim::failure::{Answer, NoQuorum};
use crate::protocol::quorum::{self, Kind};
use crate::protocol::set::Set;

/// How a call waited that was not given the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// It was not to wait.
    Not,
    /// To the end of its time; forever, without one.
    For(Option<Duration>),
}

impl NoQuorum {
    /// The error about the lock of that name. Its kind is the [claim's](NoQuorum::error_kind).
    pub(crate) fn to_error(&self, set: &Set, name: &[u8], waited: WaitKind) -> Error {
        let kind = self.error_kind(waited != WaitKind::Not);
        let after = match waited {
            WaitKind::Not => String::new(),
            WaitKind::For(wait) => within_wait(wait),
        };
        let lock = shown(name);
        let message = match kind {
            ErrorKind::Contended => lock,
            ErrorKind::Timeout if self.kind() == Kind::Held => {
                format!("{lock} is held by another and was not free{after}")
            }
            ErrorKind::Timeout => {
                format!("{lock} was voted for by a quorum, but too late, and was not won{after}")
            }
            ErrorKind::Misconfigured => format!(
                "no quorum for the lock {lock}, for what its nodes say{}",
                set.origin
            ),
            _ => return self.unavailable(set, name, &after),
        };
        self.error(set, kind, name, message)
    }

    fn unavailable(&self, set: &Set, name: &[u8], after: &str) -> Error {
        let nodes = set.links.len();
        let quorum = quorum::quorum(nodes);
        let quarantine = self.quarantine(quorum);
        let what = match quarantine {
            Some(left) => format!(
                "they are new, or have restarted, and a quorum may vote in {left:?}: wait for that, \
                 or have a deployment declare the set first (`quorlock explain sets`)"
            ),
            None => "look at the nodes".into(),
        };
        let message = format!(
            "no quorum for the lock {}{after}: {quorum} of {nodes} nodes must vote for it; {what}{}",
            shown(name),
            set.origin
        );
        self.error(set, ErrorKind::QuorumUnavailable, name, message)
            .with_votes_in(quarantine)
    }

    /// How long it takes until a quorum may vote, if all that it lacks are nodes in
    /// quarantine.
    fn quarantine(&self, quorum: usize) -> Option<Duration> {
        let left = |answer: &Answer| match answer {
            Answer::Quarantined { left } => Some(*left),
            Answer::Granted | Answer::Refused { .. } | Answer::Taken | Answer::Forced => {
                Some(Duration::ZERO)
            }
            _ => None,
        };
        let mut left: Vec<_> = self.said.iter().filter_map(left).collect();
        left.sort_unstable();
        left.get(quorum - 1).copied().filter(|left| !left.is_zero())
    }

    /// What each node said last.
    pub(crate) fn nodes(&self, set: &Set) -> Vec<NodeError> {
        let nodes = set.links.iter().zip(&self.said);
        nodes
            .map(|(link, answer)| {
                let said = answer.with_cause(link.cause());
                NodeError::new(link.shown(), said).at_fault(answer.is_fault())
            })
            .collect()
    }

    /// An error about the lock of that name, with what each node said.
    pub(crate) fn error(&self, set: &Set, kind: ErrorKind, name: &[u8], message: String) -> Error {
        let nodes = self.nodes(set);
        let held = matches!(kind, ErrorKind::Contended | ErrorKind::Timeout);
        let holder = || self.said.iter().find_map(Answer::holder);
        Error::with_nodes(kind, message, nodes).about(name, held.then(holder).flatten())
    }
}
