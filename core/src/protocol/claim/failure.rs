//! Why an attempt was not won: what each node said, why there was no quorum, and the kind of error
//! that says so.

use std::fmt;

use super::env::Env;
pub(crate) use super::votes::Answer;
use super::votes::NodeVote;
use super::{Claim, Phase};
use crate::clock::Instant;
use crate::error::ErrorKind;
use crate::node::FaultKind;
use crate::node::admission::QuarantineCause;
use crate::protocol::quorum::{self, Kind, Vote};

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::NotAsked => f.write_str("not asked: the lock is held where its waiters queue"),
            Answer::Nothing => f.write_str("no answer yet"),
            Answer::Granted => f.write_str("granted"),
            Answer::Refused {
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
            Answer::Taken => f.write_str("held by another"),
            Answer::Forced => f.write_str("taken away by force"),
            Answer::Quarantined { left } => write!(
                f,
                "in quarantine for another {left:?}: it is new, has restarted, or its clock has stepped"
            ),
            Answer::Late => f.write_str(
                "asked too late: it, the network or this process stood still, or its clock has stepped",
            ),
            Answer::Fault(fault) => f.write_str(&fault.text),
        }
    }
}

impl Answer {
    /// Whether the node cannot vote, for reasons of its own.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Answer::Fault(_) | Answer::Late)
    }

    /// What the node said; `cause`: of its quarantine, if that is known.
    pub(crate) fn with_cause(&self, cause: Option<QuarantineCause>) -> String {
        match (self, cause) {
            (Answer::Quarantined { left }, Some(cause)) => {
                format!("in quarantine for another {left:?}: it {}", cause.text())
            }
            _ => self.to_string(),
        }
    }

    /// The label of the lock's holder there.
    pub(crate) fn holder(&self) -> Option<&str> {
        match self {
            Answer::Refused { holder, .. } => holder.as_deref(),
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
    pub(crate) said: Vec<Answer>,
}

impl NoQuorum {
    /// Whether a node was asked too late.
    pub(crate) fn is_late(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Answer::Late))
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
            if matches!(said, Answer::NotAsked | Answer::Nothing) {
                *said = before.clone();
            }
        }
        for (answer, before) in self.answers.iter_mut().zip(&before.answers) {
            let merged = match (*answer, before) {
                (Vote::Unasked | Vote::Awaited, Vote::Refused) => Vote::Refused,
                (Vote::Unasked, Vote::Awaited | Vote::Granted(_)) => *before,
                // A node that failed then counts as it does now: it may have answered since, or is
                // about to.
                (answer, _) => answer,
            };
            *answer = merged;
        }
        self
    }

    /// The same, once the attempt waits for no more answers. A node that voted, and has yet to
    /// store the fence, did answer.
    pub(crate) fn in_the_end(mut self) -> NoQuorum {
        for (answer, said) in self.answers.iter_mut().zip(&self.said) {
            *answer = match (*answer, said) {
                (Vote::Awaited, Answer::Granted) => Vote::Granted(Instant::NEVER),
                (Vote::Awaited, _) => Vote::Failed,
                (answer, _) => answer,
            };
        }
        self
    }

    /// The same, once a closed client takes no more of the awaited answers.
    pub(crate) fn closed(mut self) -> NoQuorum {
        let awaited = |answer: &&mut Vote| **answer == Vote::Awaited;
        for answer in self.answers.iter_mut().filter(awaited) {
            *answer = Vote::Unasked;
        }
        self
    }
}

impl NoQuorum {
    /// The kind of error with which a call ends that was not given the lock; `waited`: it was to
    /// wait, and its time is over.
    pub(crate) fn error_kind(&self, waited: bool) -> ErrorKind {
        match self.kind() {
            // Wrong settings alone prevent a quorum: no wait would end that.
            _ if self.misconfigured => ErrorKind::Misconfigured,
            // The lock is another's.
            Kind::Held if waited => ErrorKind::Timeout,
            Kind::Held => ErrorKind::Contended,
            // A quorum answered, and too late: the lock is not held, and might have been won.
            Kind::Late if waited => ErrorKind::Timeout,
            Kind::Late | Kind::Unanswered | Kind::Undecided => ErrorKind::QuorumUnavailable,
        }
    }
}

/// Whether the nodes, by what they said, will never be a set as they are: all found it together, so
/// a node that is set up wrong keeps the others from it for good.
fn cannot_be_founded<'a>(mut said: impl Iterator<Item = &'a Answer>) -> bool {
    let mut wrong = false;
    let all = said.all(|said| match said {
        Answer::Fault(fault) if fault.kind == FaultKind::Misconfigured => {
            wrong = true;
            true
        }
        Answer::Fault(fault) => fault.kind == FaultKind::Unfounded,
        _ => false,
    });
    all && wrong
}

impl Claim {
    /// What has become of the round; `None` while answers that are to come decide. A lost token is
    /// dead and its undo sent; why it was lost may take answers that are still to come, each within
    /// its deadline.
    pub(crate) fn verdict(&self, env: &impl Env) -> Option<Result<(), NoQuorum>> {
        match self.phase {
            Phase::Asking => None,
            Phase::Held => Some(Ok(())),
            // A lease may be lost before its winner looks: it was won.
            Phase::Dead if self.lease.loss.is_some() => Some(Ok(())),
            Phase::Dead => {
                let lost = self.no_quorum(env);
                match lost.kind() {
                    Kind::Undecided if !lost.misconfigured => None,
                    _ => Some(Err(lost)),
                }
            }
        }
    }

    /// What the nodes have said so far, in a round that is not won.
    pub(crate) fn no_quorum(&self, env: &impl Env) -> NoQuorum {
        let nodes = &self.votes.0;
        // A fence is being written back there, without which the vote is worth
        // nothing.
        let unmarked = |i: usize| {
            let mark = &nodes[i].mark;
            self.phase == Phase::Asking
                && !mark.failed
                && mark.asked != 0
                && mark.asked != mark.stored
        };
        let answer = |(i, vote): (usize, Vote)| match vote {
            Vote::Unasked if env.has_failed(i) => Vote::Failed,
            Vote::Granted(_) if unmarked(i) => Vote::Awaited,
            vote => vote,
        };
        let quorum = quorum::quorum(nodes.len());
        let is = |n: &NodeVote, kind| matches!(&n.answer, Answer::Fault(f) if f.kind == kind);
        let foreign = |n: &NodeVote| is(n, FaultKind::Foreign);
        let wrong = |n: &&NodeVote| is(n, FaultKind::Misconfigured) || foreign(n);
        let hopeless = nodes.iter().filter(wrong).count();
        let unfounded = cannot_be_founded(nodes.iter().map(|n| &n.answer));
        // Which of two sets is meant cannot be said, unless a quorum of nodes is
        // known to belong to this one.
        let foreign = nodes.iter().any(foreign);
        let ours = |i: &usize| env.is_ours(*i);
        let may_be = |i: &usize| ours(i) || nodes[*i].vote == Vote::Awaited;
        let known = (0..nodes.len()).filter(ours).count() >= quorum;
        let open = (0..nodes.len()).filter(may_be).count() >= quorum;
        NoQuorum {
            answers: self.votes.cast().enumerate().map(answer).collect(),
            misconfigured: foreign && !open || hopeless > nodes.len() - quorum || unfounded,
            open: foreign && open && !known,
            said: nodes.iter().map(|n| n.answer.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Fault;

    /// Of nodes that voted for it (`g`), refused (`r`), failed (`f`), have yet to answer (`?`) or
    /// to store the fence for which they voted (`w`), or were not asked (`-`).
    fn no_quorum(nodes: &str) -> NoQuorum {
        let refused = Answer::Refused {
            left: None,
            holder: None,
            shared: false,
        };
        let fault = Fault::new(FaultKind::Timeout, "no answer in time", true);
        let (answers, said) = nodes
            .chars()
            .map(|node| match node {
                'g' => (Vote::Granted(Instant(5)), Answer::Granted),
                'r' => (Vote::Refused, refused.clone()),
                'f' => (Vote::Failed, Answer::Fault(fault.clone())),
                '?' => (Vote::Awaited, Answer::Nothing),
                'w' => (Vote::Awaited, Answer::Granted),
                _ => (Vote::Unasked, Answer::NotAsked),
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
        let word = |said: &Answer| match said {
            Answer::Granted => 'g',
            Answer::Refused { .. } => 'r',
            Answer::Fault(_) => 'f',
            Answer::Nothing => '?',
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
            // Nodes that have yet to answer again: only a refusal says that there are others.
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
        let of = |kind| Answer::Fault(Fault::new(kind, "", true));
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
            (vec![wrong(), blank(), Answer::Nothing], false),
            (vec![wrong(), blank(), Answer::Granted], false),
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
