//! Votes, lease ends and verdicts. Pure: no I/O, no clock, no await.
//!
//! The algorithm is Redlock (Redis documentation, "Distributed Locks with
//! Redis"), with one lease end per node in place of one for all.

use std::time::Duration;

use crate::clock::Instant;
use crate::mutants::mutant;

/// The smallest number of `n` nodes that any two majorities share a node of.
pub fn quorum(n: usize) -> usize {
    mutant!("quorum-of-half", n / 2 + 1, n.div_ceil(2))
}

/// What one node has said in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Not asked, as yet.
    Unasked,
    /// No reply yet.
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
            Vote::Granted(end) => mutant!("no-validity-check", *end > needed, true),
            _ => false,
        }
    }
}

/// What a round has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
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
pub fn verdict(votes: &[Vote], needed: Instant) -> Verdict {
    let quorum = quorum(votes.len());
    let won = votes
        .iter()
        .filter(|v| match v {
            Vote::Granted(_) => v.lasts(needed),
            Vote::Refused | Vote::Failed | Vote::Awaited | Vote::Unasked => false,
        })
        .count();
    let open = votes
        .iter()
        .filter(|v| matches!(v, Vote::Awaited | Vote::Unasked))
        .count();
    if won >= quorum {
        Verdict::Won
    } else if mutant!(
        "tie-never-decided",
        won + open < quorum,
        2 * (won + open) < votes.len()
    ) {
        Verdict::Lost
    } else {
        Verdict::Open
    }
}

/// Whether refusals alone prevent a quorum: the lock is held by another, no
/// matter what the other nodes would have said.
pub fn refusals_decide(votes: &[Vote]) -> bool {
    let refused = votes.iter().filter(|v| **v == Vote::Refused).count();
    refused > votes.len() - quorum(votes.len())
}

/// Whether a quorum of nodes answered, whatever they said.
pub fn quorum_answered(votes: &[Vote]) -> bool {
    let answered = votes
        .iter()
        .filter(|v| matches!(v, Vote::Granted(_) | Vote::Refused))
        .count();
    answered >= quorum(votes.len())
}

/// The end of a lease whose votes end at `ends`: the quorum-th largest. Until
/// then at least a quorum of nodes holds our token for certain.
pub fn lease_end(ends: &[Instant]) -> Instant {
    // Counted instead of sorted: sets are small, and this runs at every reply.
    let quorum = quorum(ends.len());
    let at_least = |end: Instant| ends.iter().filter(|e| **e >= end).count();
    let rank = mutant!("largest-end", quorum, 1);
    let rank = mutant!("end-below-quorum", rank, rank.max(2) - 1);
    ends.iter()
        .copied()
        .filter(|end| at_least(*end) >= rank)
        .max()
        .unwrap_or(Instant::NEVER)
}

/// The part of a ttl that is not relied upon: clocks may run at rates that
/// differ by `drift`, and a node's clock ticks in milliseconds.
pub fn drift_allowance(ttl: Duration, drift: f64) -> Duration {
    mutant!(
        "no-drift",
        ttl.mul_f64(drift) + mutant!("no-tick", Duration::from_millis(2), Duration::ZERO),
        Duration::ZERO
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEEDED: Instant = Instant(100);

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
        assert_eq!(verdict(&[g, r, g, r], NEEDED), Verdict::Lost);
        assert_eq!(verdict(&[Vote::Awaited, r, g, r], NEEDED), Verdict::Lost);
        assert!(refusals_decide(&[g, r, g, r]));
    }

    proptest! {
        #[test]
        fn a_verdict_is_right_and_as_early_as_can_be(votes in votes()) {
            let all = outcomes(&votes);
            let expected = if all.iter().all(|w| *w) {
                Verdict::Won
            } else if all.iter().any(|w| *w) {
                Verdict::Open
            } else {
                Verdict::Lost
            };
            prop_assert_eq!(verdict(&votes, NEEDED), expected);
        }

        #[test]
        fn refusals_decide_iff_the_rest_is_no_quorum(votes in votes()) {
            let rest = votes.iter().filter(|v| **v != Vote::Refused).count();
            prop_assert_eq!(refusals_decide(&votes), 2 * rest <= votes.len());
        }

        #[test]
        fn a_lease_ends_when_fewer_than_a_quorum_of_votes_are_left(
            ends in proptest::collection::vec(0u64..50, 1..=9)
        ) {
            let end = lease_end(&ends.iter().map(|e| Instant(*e)).collect::<Vec<_>>()).0;
            let alive = |t: u64| ends.iter().filter(|e| **e > t).count();
            prop_assert!(end == 0 || 2 * alive(end - 1) > ends.len(), "a quorum lives just before");
            prop_assert!(2 * alive(end) <= ends.len(), "and none at the end");
        }
    }
}
