//! Fences over a quorum. Pure: no I/O, no clock, no await.
//!
//! Each node that votes counts the fence up and returns it. A fence is good
//! once a quorum of nodes stores the same one *while it holds our token*; if
//! the votes differ, the largest is written back first, as in a multi-writer
//! register over a majority (Attiya, Bar-Noy, Dolev, "Sharing memory robustly
//! in message-passing systems"). Any two quorums share a node, and on that
//! node one hold's fence was stored before the other's vote: so the later one
//! is larger, whatever the clocks do.

use crate::clock::Instant;
use crate::mutants::mutant;
use crate::quorum::{Vote, quorum};

/// What one node has stored of the fence, in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Stored while the node held our token; 0 without fences.
    pub stored: u64,
    /// A larger one that was found there; 0 for none.
    pub found: u64,
    /// Written back, and not answered yet; 0 for none.
    pub asked: u64,
    /// A write-back failed: this one stays as it is.
    pub failed: bool,
}

/// What the votes have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// A quorum stores this fence.
    Agreed(u64),
    /// It has to be written to the voters that store less.
    WriteBack(u64),
    /// No quorum can come to store the same one.
    Lost,
}

/// The verdict on the fence of a round that has a quorum of votes beyond
/// `needed`.
pub fn verdict(votes: &[Vote], marks: &[Mark], needed: Instant) -> Fence {
    let quorum = quorum(votes.len());
    let good = || {
        votes
            .iter()
            .zip(marks)
            .filter_map(move |(vote, mark)| vote.lasts(needed).then_some(mark))
    };
    let storing = |fence: u64| good().filter(|m| m.stored == fence).count();
    let enough = mutant!("fence-of-one-vote", quorum, 1);
    if let Some(agreed) = good()
        .map(|m| m.stored)
        .filter(|f| storing(*f) >= enough)
        .max()
    {
        return Fence::Agreed(agreed);
    }
    let largest = good().map(|m| m.stored.max(m.found)).max().unwrap_or(0);
    if mutant!("fence-without-write-back", false, true) {
        return Fence::Agreed(largest);
    }
    let open = votes.iter().filter(|v| **v == Vote::Awaited).count();
    let able = good().filter(|m| m.stored == largest || !m.failed).count();
    if able + open < quorum {
        Fence::Lost
    } else {
        Fence::WriteBack(largest)
    }
}

/// The fence to propose: the median of what is known of the nodes' `TIME`, so
/// that one wrong clock in a minority moves nothing. 0, for each node's own,
/// where less than a quorum is known.
pub fn candidate(known: &mut [u64], nodes: usize) -> u64 {
    if known.len() < quorum(nodes) {
        return 0;
    }
    known.sort_unstable();
    known[(known.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEEDED: Instant = Instant(100);
    const GOOD: Vote = Vote::Granted(Instant(200));

    fn marks(stored: &[u64]) -> Vec<Mark> {
        let mark = |s: &u64| Mark {
            stored: *s,
            ..Mark::default()
        };
        stored.iter().map(mark).collect()
    }

    #[test]
    fn equal_fences_of_a_quorum_need_no_second_round() {
        assert_eq!(
            verdict(&[GOOD; 3], &marks(&[7, 9, 7]), NEEDED),
            Fence::Agreed(7)
        );
        assert_eq!(verdict(&[GOOD], &marks(&[0]), NEEDED), Fence::Agreed(0));
    }

    #[test]
    fn the_largest_is_written_back() {
        assert_eq!(
            verdict(&[GOOD; 3], &marks(&[7, 9, 8]), NEEDED),
            Fence::WriteBack(9)
        );
        let mut marks = marks(&[7, 9, 8]);
        marks[0].found = 11;
        assert_eq!(verdict(&[GOOD; 3], &marks, NEEDED), Fence::WriteBack(11));
        marks[1].failed = true;
        marks[2].failed = true;
        assert_eq!(verdict(&[GOOD; 3], &marks, NEEDED), Fence::Lost);
    }

    #[test]
    fn votes_that_have_run_out_do_not_count() {
        let old = Vote::Granted(Instant(50));
        let votes = [GOOD, old, GOOD];
        assert_eq!(
            verdict(&votes, &marks(&[7, 7, 8]), NEEDED),
            Fence::WriteBack(8)
        );
    }

    #[test]
    fn one_wrong_clock_moves_no_candidate() {
        assert_eq!(candidate(&mut [9_000, 5, 6], 3), 6);
        assert_eq!(candidate(&mut [5, 6, 0, 7, 6], 5), 6);
        assert_eq!(candidate(&mut [5, 9_000], 3), 5);
        assert_eq!(candidate(&mut [5], 3), 0);
    }

    proptest! {
        #[test]
        fn an_agreed_fence_is_stored_by_a_quorum_of_good_votes(
            nodes in proptest::collection::vec((0u64..4, 0u64..4, any::<bool>(), 0u8..4), 1..=7)
        ) {
            let votes: Vec<Vote> = nodes.iter().map(|n| match n.3 {
                0 => Vote::Awaited,
                1 => Vote::Refused,
                2 => Vote::Granted(Instant(50)),
                _ => GOOD,
            }).collect();
            let marks: Vec<Mark> = nodes.iter().map(|n| Mark {
                stored: n.0, found: n.1, failed: n.2, asked: 0,
            }).collect();
            let good = |i: &usize| votes[*i] == GOOD;
            let all = || (0..nodes.len()).filter(good);
            match verdict(&votes, &marks, NEEDED) {
                Fence::Agreed(f) => {
                    prop_assert!(2 * all().filter(|i| marks[*i].stored == f).count() > nodes.len());
                }
                Fence::WriteBack(f) => {
                    prop_assert!(all().all(|i| marks[i].stored <= f && marks[i].found <= f));
                }
                Fence::Lost => {
                    let open = votes.iter().filter(|v| **v == Vote::Awaited).count();
                    let willing = all().filter(|i| !marks[*i].failed).count();
                    prop_assert!(2 * (willing + open) <= nodes.len());
                }
            }
        }
    }
}
