//! Votes, lease ends and verdicts. Pure: no I/O, no clock, no await.
//!
//! The algorithm is Redlock (Redis documentation, "Distributed Locks with
//! Redis"), with one lease end per node in place of one for all.

use crate::clock::Instant;

/// The majority size of `n` nodes: any two majorities share a node.
pub fn quorum(n: usize) -> usize {
    n / 2 + 1
}

/// What one node has said in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// Not asked so far.
    Unasked,
    /// No reply so far.
    Awaited,
    /// Our token stands under the lock's key until at least this moment, by
    /// our clock.
    Granted(Instant),
    /// Another's token, or none, stands there.
    Refused,
    /// No vote: the node did not answer, or could not vote.
    Failed,
}

impl Vote {
    /// Whether it is a vote that lasts beyond `needed`.
    pub fn lasts(&self, needed: Instant) -> bool {
        match self {
            Vote::Granted(end) => *end > needed,
            _ => false,
        }
    }
}

/// What a round has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundVerdict {
    /// A quorum granted, with enough validity left.
    Won,
    /// No quorum can be reached any more.
    Lost,
    /// Still open.
    Open,
}

/// The verdict on `votes`, where a vote counts only if it lasts beyond
/// `needed`. Decided as early as possible in both directions, for even and
/// odd numbers of nodes.
pub fn verdict(
    votes: impl ExactSizeIterator<Item = Vote> + Clone,
    needed: Instant,
) -> RoundVerdict {
    let quorum = quorum(votes.len());
    let won = votes
        .clone()
        .filter(|v| match v {
            Vote::Granted(_) => v.lasts(needed),
            Vote::Refused | Vote::Failed | Vote::Awaited | Vote::Unasked => false,
        })
        .count();
    let open = votes
        .clone()
        .filter(|v| matches!(v, Vote::Awaited | Vote::Unasked))
        .count();
    if won >= quorum {
        RoundVerdict::Won
    } else if won + open < quorum {
        RoundVerdict::Lost
    } else {
        RoundVerdict::Open
    }
}

/// Why there is no quorum for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lock is held by another.
    Held,
    /// A quorum voted for it, but the votes came too late, or their fences did not agree in time:
    /// no other holds it, and the nodes do answer.
    Late,
    /// Too few nodes answer.
    Unanswered,
    /// That depends on answers which are still awaited.
    Undecided,
}

/// Why `votes` are no quorum. The lock is held by another where refusals alone prevent a quorum,
/// whatever the other nodes would say; or where a quorum answered, and one of them refused. A node
/// that was not asked, because another had refused, would say the same as the other. What is
/// decided here no later answer changes.
pub fn kind(votes: &[Vote]) -> Kind {
    let granted = votes.iter().filter(|v| matches!(v, Vote::Granted(_)));
    if is_held(votes, false) {
        Kind::Held
    } else if is_held(votes, true) {
        Kind::Undecided
    } else if granted.count() >= quorum(votes.len()) {
        Kind::Late
    } else {
        Kind::Unanswered
    }
}

/// Whether the lock is held by another, if all answers that are awaited were
/// refusals, or if none came.
fn is_held(votes: &[Vote], awaited_refuse: bool) -> bool {
    let count = |wanted: fn(&Vote) -> bool| votes.iter().filter(|v| wanted(v)).count();
    let awaited = if awaited_refuse {
        count(|v| matches!(v, Vote::Awaited))
    } else {
        0
    };
    let refused = count(|v| matches!(v, Vote::Refused)) + awaited;
    if refused == 0 {
        return false;
    }
    let refused = refused + count(|v| matches!(v, Vote::Unasked));
    let granted = count(|v| matches!(v, Vote::Granted(_)));
    let quorum = quorum(votes.len());
    refused > votes.len() - quorum || granted + refused >= quorum
}

/// The end of a lease whose votes end at `ends`: the quorum-th largest. Until
/// then at least a quorum of nodes holds our token for certain.
pub fn lease_end(ends: impl ExactSizeIterator<Item = Instant> + Clone) -> Instant {
    // Counted instead of sorted: sets are small, and this runs at every reply.
    let quorum = quorum(ends.len());
    let at_least = |end: Instant| ends.clone().filter(|e| *e >= end).count();
    let rank = quorum;
    ends.clone()
        .filter(|end| at_least(*end) >= rank)
        .max()
        .unwrap_or(Instant::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEEDED: Instant = Instant(100);

    fn verdict(votes: &[Vote]) -> RoundVerdict {
        super::verdict(votes.iter().copied(), NEEDED)
    }

    fn votes() -> impl Strategy<Value = Vec<Vote>> {
        let vote = prop_oneof![
            Just(Vote::Awaited),
            (50u64..150).prop_map(|e| Vote::Granted(Instant(e))),
            Just(Vote::Refused),
            Just(Vote::Failed),
        ];
        proptest::collection::vec(vote, 1..=9)
    }

    /// Every way in which the open votes may still fall, by brute force.
    fn outcomes(votes: &[Vote]) -> Vec<bool> {
        match votes.iter().position(|v| *v == Vote::Awaited) {
            None => {
                let good = votes
                    .iter()
                    .filter(|v| matches!(v, Vote::Granted(e) if *e > NEEDED))
                    .count();
                vec![2 * good > votes.len()]
            }
            Some(i) => [Vote::Granted(Instant(140)), Vote::Failed]
                .into_iter()
                .flat_map(|v| {
                    let mut next = votes.to_vec();
                    next[i] = v;
                    outcomes(&next)
                })
                .collect(),
        }
    }

    /// The kinds that it may still come to, by brute force.
    fn later_kinds(votes: &[Vote]) -> Vec<Kind> {
        match votes.iter().position(|v| *v == Vote::Awaited) {
            None => vec![kind(votes)],
            Some(i) => [Vote::Granted(Instant(140)), Vote::Refused, Vote::Failed]
                .into_iter()
                .flat_map(|v| {
                    let mut next = votes.to_vec();
                    next[i] = v;
                    later_kinds(&next)
                })
                .collect(),
        }
    }

    #[test]
    fn two_quorums_always_meet() {
        for n in 1..=9 {
            let q = quorum(n);
            assert!(2 * q > n, "two quorums of {n} share a node");
            assert!(2 * (q - 1) <= n, "no smaller number would do");
        }
    }

    #[test]
    fn a_tie_of_four_is_decided_at_once() {
        let (g, r) = (Vote::Granted(Instant(150)), Vote::Refused);
        assert_eq!(verdict(&[g, r, g, r]), RoundVerdict::Lost);
        assert_eq!(verdict(&[Vote::Awaited, r, g, r]), RoundVerdict::Lost);
    }

    #[test]
    fn the_kinds_of_what_was_not_won() {
        use Kind::{Held, Late, Unanswered, Undecided};
        for (votes, expected) in [
            // What the nodes have said: granted, refused, failed; `?` is awaited,
            // `-` was not asked.
            ("r", Held),
            ("f", Unanswered),
            ("?", Undecided),
            // Fences differed, or the votes came too late: no other holds it.
            ("ggg", Late),
            ("ggf", Late),
            ("gg-", Late),
            ("gg?", Undecided),
            // Refusals alone prevent a quorum.
            ("rr?", Held),
            ("rrf", Held),
            ("grgr", Held),
            // Of an even number fewer than a quorum do.
            ("rf", Held),
            ("rrff", Held),
            ("rfff", Unanswered),
            // A quorum answered.
            ("grf", Held),
            ("ggrrf", Held),
            ("ggfff", Unanswered),
            // The rest decides.
            ("rf?", Undecided),
            ("r??", Undecided),
            ("gf?", Undecided),
            ("f??", Undecided),
            ("rff", Unanswered),
            ("ff?", Unanswered),
            ("rff??", Undecided),
            ("rfff?", Unanswered),
            ("gffff", Unanswered),
            ("gfff?", Unanswered),
            // Others were not asked, for one had refused; or was to be asked.
            ("r--", Held),
            ("rf-", Held),
            ("rff--", Held),
            ("rfff-", Unanswered),
            ("?--", Undecided),
            ("f--", Unanswered),
            ("g--", Unanswered),
        ] {
            let vote = |said| match said {
                'g' => Vote::Granted(Instant(150)),
                'r' => Vote::Refused,
                'f' => Vote::Failed,
                '?' => Vote::Awaited,
                _ => Vote::Unasked,
            };
            let cast: Vec<Vote> = votes.chars().map(vote).collect();
            assert_eq!(kind(&cast), expected, "{votes}");
        }
    }

    proptest! {
        #[test]
        fn a_verdict_is_right_and_as_early_as_can_be(votes in votes()) {
            let all = outcomes(&votes);
            let expected = if all.iter().all(|w| *w) {
                RoundVerdict::Won
            } else if all.iter().any(|w| *w) {
                RoundVerdict::Open
            } else {
                RoundVerdict::Lost
            };
            prop_assert_eq!(verdict(&votes), expected);
        }

        /// A kind is known as early as can be, and stays.
        #[test]
        fn a_kind_is_undecided_iff_awaited_answers_may_change_it(
            votes in votes(), unasked in proptest::collection::vec(any::<bool>(), 9)
        ) {
            let spared = |(vote, unasked): (Vote, bool)| if unasked { Vote::Unasked } else { vote };
            let votes: Vec<Vote> = votes.into_iter().zip(unasked).map(spared).collect();
            let kinds = later_kinds(&votes);
            let expected = if kinds.iter().all(|later| *later == kinds[0]) { kinds[0] } else { Kind::Undecided };
            prop_assert_eq!(kind(&votes), expected);
            prop_assert!(votes.contains(&Vote::Awaited) || expected != Kind::Undecided);
        }

        #[test]
        fn a_lease_ends_when_fewer_than_a_quorum_of_votes_are_left(
            ends in proptest::collection::vec(0u64..50, 1..=9)
        ) {
            let end = lease_end(ends.iter().map(|e| Instant(*e))).0;
            let alive = |t: u64| ends.iter().filter(|e| **e > t).count();
            prop_assert!(end == 0 || 2 * alive(end - 1) > ends.len(), "a quorum lives just before");
            prop_assert!(2 * alive(end) <= ends.len(), "and none at the end");
        }
    }
}
