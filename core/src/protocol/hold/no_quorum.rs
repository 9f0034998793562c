//! A round that was not won: what each node said, why there was no quorum, and
//! the error that tells it.

use std::fmt;
use std::time::Duration;

use super::State;
use super::votes::{Node, Phase, Said, Votes};
use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeError, shown, within_wait};
use crate::node::FaultKind;
use crate::node::admission::QuarantineCause;
use crate::protocol::quorum::{self, Kind, Vote};
use crate::protocol::set::Set;

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::NotAsked => f.write_str("not asked: the lock is held where its waiters queue"),
            Said::Nothing => f.write_str("no answer yet"),
            Said::Granted => f.write_str("granted"),
            Said::Refused {
                left,
                holder,
                shared,
            } => {
                f.write_str(if *shared { "shared by others" } else { "held by another" })?;
                match holder {
                    Some(holder) if *shared => write!(f, ", {holder} among them")?,
                    Some(holder) => write!(f, ", {holder}")?,
                    None => {}
                }
                match left {
                    Some(left) => write!(f, ", for {left:?} unless renewed"),
                    None => Ok(()),
                }
            }
            Said::Taken => f.write_str("held by another"),
            Said::Forced => f.write_str("taken away by force"),
            Said::Quarantined { left } => write!(
                f,
                "in quarantine for another {left:?}: it is new, has restarted, or its clock has stepped"
            ),
            Said::Late => f.write_str(
                "asked too late: it, the network or this process stood still, or its clock has stepped",
            ),
            Said::Fault(fault) => f.write_str(&fault.text),
        }
    }
}

/// What a node said; `cause`: of its quarantine, if that is known.
fn told(said: &Said, cause: Option<QuarantineCause>) -> String {
    match (said, cause) {
        (Said::Quarantined { left }, Some(cause)) => {
            format!("in quarantine for another {left:?}: it {}", cause.told())
        }
        _ => said.to_string(),
    }
}

impl Said {
    /// Whether the node cannot vote, for reasons of its own.
    pub(super) fn is_fault(&self) -> bool {
        matches!(self, Said::Fault(_) | Said::Late)
    }

    /// The label of who holds the lock there.
    fn holder(&self) -> Option<&str> {
        match self {
            Said::Refused { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }
}

/// How a round that was not won ended.
#[derive(Debug)]
pub struct NoQuorum {
    /// Each node's last answer.
    answers: Vec<Vote>,
    /// Wrong settings alone prevent a quorum, or a node belongs to another set
    /// and no quorum is known to belong to this one.
    pub(crate) misconfigured: bool,
    /// Whether a node that belongs to another set counts as wrong settings
    /// depends on answers that are awaited.
    open: bool,
    pub(crate) said: Vec<Said>,
}

impl NoQuorum {
    /// Whether a node was asked too late.
    pub(crate) fn is_late(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Said::Late))
    }

    /// Why there was no quorum, as far as that is decided.
    pub(crate) fn kind(&self) -> Kind {
        if self.open {
            Kind::Undecided
        } else {
            quorum::kind(&self.answers)
        }
    }

    /// What is known after a round of which this is the last, where `before` it
    /// more nodes may have been asked.
    pub(crate) fn after(mut self, before: Option<&NoQuorum>) -> NoQuorum {
        let Some(before) = before else {
            return self;
        };
        for (said, before) in self.said.iter_mut().zip(&before.said) {
            if matches!(said, Said::NotAsked | Said::Nothing) {
                *said = before.clone();
            }
        }
        for (answer, before) in self.answers.iter_mut().zip(&before.answers) {
            let merged = match (*answer, before) {
                (Vote::Unasked | Vote::Awaited, Vote::Refused) => Vote::Refused,
                (Vote::Unasked, Vote::Awaited | Vote::Granted(_)) => *before,
                // One that failed then counts as it does now: it may have
                // answered since, or is about to.
                (answer, _) => answer,
            };
            *answer = merged;
        }
        self
    }

    /// The same, once nobody waits for answers any more. A node that voted, and has
    /// yet to store the fence, did answer.
    pub(crate) fn in_the_end(mut self) -> NoQuorum {
        for (answer, said) in self.answers.iter_mut().zip(&self.said) {
            *answer = match (*answer, said) {
                (Vote::Awaited, Said::Granted) => Vote::Granted(Instant::NEVER),
                (Vote::Awaited, _) => Vote::Failed,
                (answer, _) => answer,
            };
        }
        self
    }

    /// The same, once nobody takes the answers any more that are awaited.
    pub(crate) fn closed(mut self) -> NoQuorum {
        let awaited = |answer: &&mut Vote| **answer == Vote::Awaited;
        for answer in self.answers.iter_mut().filter(awaited) {
            *answer = Vote::Unasked;
        }
        self
    }
}

impl NoQuorum {
    /// The error of a try that was not to wait.
    pub(crate) fn refused(&self, set: &Set, name: &[u8]) -> Error {
        if self.kind() == Kind::Held {
            self.error(set, ErrorKind::Contended, name, shown(name))
        } else {
            self.unavailable(set, name, "")
        }
    }

    /// The error of a wait that has come to its end.
    pub(crate) fn timed_out(&self, set: &Set, name: &[u8], wait: Option<Duration>) -> Error {
        let after = within_wait(wait);
        let outcome = match self.kind() {
            Kind::Held => "is held by another and was not free",
            Kind::Late => "was voted for by a quorum, but too late, and was not won",
            Kind::Unanswered | Kind::Undecided => return self.unavailable(set, name, &after),
        };
        let message = format!("{} {outcome}{after}", shown(name));
        self.error(set, ErrorKind::Timeout, name, message)
    }

    /// The error where wrong settings alone prevent a quorum.
    pub(crate) fn set_up_wrong(&self, set: &Set, name: &[u8]) -> Error {
        let message = format!(
            "no quorum for the lock {}, for what its nodes say{}",
            shown(name),
            set.origin
        );
        self.error(set, ErrorKind::Misconfigured, name, message)
    }

    fn unavailable(&self, set: &Set, name: &[u8], after: &str) -> Error {
        let nodes = set.links.len();
        let quorum = quorum::quorum(nodes);
        let what = match self.quarantine(quorum) {
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
            .with_votes_in(self.quarantine(quorum))
    }

    /// How long it takes until a quorum may vote, if all that it lacks are nodes in
    /// quarantine.
    fn quarantine(&self, quorum: usize) -> Option<Duration> {
        let left = |said: &Said| match said {
            Said::Quarantined { left } => Some(*left),
            Said::Granted | Said::Refused { .. } | Said::Taken | Said::Forced => {
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
            .map(|(link, said)| {
                NodeError::new(link.shown(), told(said, link.cause())).at_fault(said.is_fault())
            })
            .collect()
    }

    /// An error about the lock of that name, with what each node said.
    pub(crate) fn error(&self, set: &Set, kind: ErrorKind, name: &[u8], message: String) -> Error {
        let nodes = self.nodes(set);
        let held = matches!(kind, ErrorKind::Contended | ErrorKind::Timeout);
        let holder = || self.said.iter().find_map(Said::holder);
        Error::with_nodes(kind, message, nodes).about(name, held.then(holder).flatten())
    }
}

/// Whether the nodes, by what they said, will never be a set as they are: all found it together, so one that is set
/// up wrong keeps the others from it for good.
fn cannot_be_founded<'a>(mut said: impl Iterator<Item = &'a Said>) -> bool {
    let mut wrong = false;
    let all = said.all(|said| match said {
        Said::Fault(fault) if fault.kind == FaultKind::Misconfigured => {
            wrong = true;
            true
        }
        Said::Fault(fault) => fault.kind == FaultKind::Unfounded,
        _ => false,
    });
    all && wrong
}

impl State {
    /// What the nodes have said so far, in a round for the lock of that key that is not won.
    pub(super) fn no_quorum(&self, set: &Set, key: &[u8]) -> NoQuorum {
        let Votes {
            cast: votes,
            marks,
            nodes,
            ..
        } = &self.votes;
        // A fence is being written back there, without which the vote is worth
        // nothing.
        let unmarked = |i: usize| {
            let mark = &marks[i];
            self.phase == Phase::Asking
                && !mark.failed
                && mark.asked != 0
                && mark.asked != mark.stored
        };
        let answer = |(i, vote): (usize, &Vote)| match vote {
            Vote::Unasked if set.has_failed(i, Some(key)) => Vote::Failed,
            Vote::Granted(_) if unmarked(i) => Vote::Awaited,
            vote => *vote,
        };
        let quorum = quorum::quorum(votes.len());
        let is = |n: &Node, kind| matches!(&n.said, Said::Fault(f) if f.kind == kind);
        let foreign = |n: &Node| is(n, FaultKind::Foreign);
        let wrong = |n: &&Node| is(n, FaultKind::Misconfigured) || foreign(n);
        let hopeless = nodes.iter().filter(wrong).count();
        let unfounded = cannot_be_founded(nodes.iter().map(|n| &n.said));
        // Which of two sets is meant nobody can say, unless a quorum of nodes is
        // known to belong to this one.
        let foreign = nodes.iter().any(foreign);
        let ours = |i: &usize| set.links[*i].is_ours();
        let may_be = |i: &usize| ours(i) || votes[*i] == Vote::Awaited;
        let known = (0..votes.len()).filter(ours).count() >= quorum;
        let open = (0..votes.len()).filter(may_be).count() >= quorum;
        NoQuorum {
            answers: votes.iter().enumerate().map(answer).collect(),
            misconfigured: foreign && !open || hopeless > votes.len() - quorum || unfounded,
            open: foreign && open && !known,
            said: nodes.iter().map(|n| n.said.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Fault;

    /// Of nodes that voted for it (`g`), refused (`r`), failed (`f`), have yet to
    /// answer (`?`) or to store the fence for which they voted (`w`), or were not
    /// asked (`-`).
    fn no_quorum(nodes: &str) -> NoQuorum {
        let refused = Said::Refused {
            left: None,
            holder: None,
            shared: false,
        };
        let fault = Fault::new(FaultKind::Timeout, "no answer in time", true);
        let (answers, said) = nodes
            .chars()
            .map(|node| match node {
                'g' => (Vote::Granted(Instant(5)), Said::Granted),
                'r' => (Vote::Refused, refused.clone()),
                'f' => (Vote::Failed, Said::Fault(fault.clone())),
                '?' => (Vote::Awaited, Said::Nothing),
                'w' => (Vote::Awaited, Said::Granted),
                _ => (Vote::Unasked, Said::NotAsked),
            })
            .unzip();
        NoQuorum {
            answers,
            misconfigured: false,
            open: false,
            said,
        }
    }

    /// The answers, and what the nodes said, in the same letters.
    fn shown(no_quorum: &NoQuorum) -> (String, String) {
        let answer = |vote: &Vote| match vote {
            Vote::Granted(_) => 'g',
            Vote::Refused => 'r',
            Vote::Failed => 'f',
            Vote::Awaited => '?',
            Vote::Unasked => '-',
        };
        let word = |said: &Said| match said {
            Said::Granted => 'g',
            Said::Refused { .. } => 'r',
            Said::Fault(_) => 'f',
            Said::Nothing => '?',
            _ => '-',
        };
        (
            no_quorum.answers.iter().map(answer).collect(),
            no_quorum.said.iter().map(word).collect(),
        )
    }

    fn letters(answers: &str, said: &str) -> (String, String) {
        (answers.into(), said.into())
    }

    #[test]
    fn who_has_not_answered_in_the_end_did_not_answer() {
        let ended = no_quorum("grf?w-").in_the_end();
        assert_eq!(shown(&ended), letters("grffg-", "grf?g-"));
        // A vote whose fence was still to be stored is no silence.
        for (nodes, before, after) in [
            ("gw?", Kind::Undecided, Kind::Late),
            ("g??", Kind::Undecided, Kind::Unanswered),
            ("ff?", Kind::Unanswered, Kind::Unanswered),
            ("r??", Kind::Undecided, Kind::Unanswered),
            ("rg?", Kind::Held, Kind::Held),
        ] {
            assert_eq!(no_quorum(nodes).kind(), before, "{nodes}");
            assert_eq!(no_quorum(nodes).in_the_end().kind(), after, "{nodes}");
        }
    }

    #[test]
    fn what_was_said_before_stands_where_nothing_was_said_since() {
        for (nodes, before, answers, said) in [
            // Nodes that are not asked any more.
            ("---", "grf", "gr-", "grf"),
            ("---", "?-r", "?-r", "?-r"),
            // Nodes that have yet to answer again: only a refusal tells of others.
            ("???", "grf", "?r?", "grf"),
            // An answer is newer than what was said before.
            ("grf", "rgr", "grf", "grf"),
            ("grf", "???", "grf", "grf"),
        ] {
            let merged = no_quorum(nodes).after(Some(&no_quorum(before)));
            assert_eq!(
                shown(&merged),
                letters(answers, said),
                "{nodes} after {before}"
            );
        }
        let first = no_quorum("gr?").after(None);
        assert_eq!(shown(&first), letters("gr?", "gr?"));
    }

    #[test]
    fn answers_that_nobody_takes_any_more_are_none() {
        let closed = no_quorum("grf?w-").closed();
        assert_eq!(shown(&closed), letters("grf---", "grf?g-"));
    }

    #[test]
    fn a_set_that_cannot_be_founded_is_not_waited_for() {
        let of = |kind| Said::Fault(Fault::new(kind, "", true));
        let wrong = || of(FaultKind::Misconfigured);
        let blank = || of(FaultKind::Unfounded);
        for (said, expected) in [
            (vec![wrong(), blank(), blank()], true),
            (vec![blank(), blank(), wrong()], true),
            (vec![wrong(), wrong(), blank()], true),
            // The node that is missing may come.
            (vec![blank(), blank(), of(FaultKind::Unreachable)], false),
            (vec![blank(), blank(), blank()], false),
            // The set may stand, by what this one has.
            (vec![wrong(), blank(), of(FaultKind::Unreachable)], false),
            (vec![wrong(), blank(), of(FaultKind::NotReady)], false),
            (vec![wrong(), blank(), Said::Nothing], false),
            (vec![wrong(), blank(), Said::Granted], false),
        ] {
            assert_eq!(cannot_be_founded(said.iter()), expected, "{said:?}");
        }
    }

    #[test]
    fn which_set_is_meant_may_be_undecided() {
        let open = NoQuorum {
            open: true,
            ..no_quorum("rrf")
        };
        assert_eq!(open.kind(), Kind::Undecided);
        assert_eq!(no_quorum("rrf").kind(), Kind::Held);
    }
}
