//! Fences over a quorum. Pure: no I/O, no clock, no await.
//!
//! Each node that votes counts the fence up and returns it. A fence is good
//! once a quorum of nodes stores the same one *while it holds our token*; if
//! the votes differ, the largest is written back first, as in a multi-writer
//! register over a majority (Attiya, Bar-Noy, Dolev, "Sharing memory robustly
//! in message-passing systems"). Any two quorums share a node, and on that
//! node one hold's fence was stored before the other's vote: so the later one
//! is larger, whatever the clocks do.
//!
//! Where the counters are gone the clocks decide, but no single one of them: a node counts to what
//! it is proposed, which is the median of a quorum of clocks and never its own. A client that knows
//! too few clocks proposes nothing. The node then votes without a mark, and reports what others
//! have stored; a fence beyond that, and no less than the median of the clocks that the replies
//! have reported, is written back.

use crate::clock::Instant;
use crate::protocol::quorum::{Vote, quorum};

/// What one node has stored of the fence, in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Stored for our token; 0: it has no mark there.
    pub stored: u64,
    /// The fence that others have stored there; 0 for none.
    pub found: u64,
    /// The fence that was written back without an answer so far; 0 for none.
    pub asked: u64,
    /// A write-back failed: this one stays as it is.
    pub failed: bool,
    /// The node was asked without a proposal, so what it answers may have been
    /// stored by others.
    pub blind: bool,
}

impl Mark {
    /// The largest that the node has, or will have, for all that is known.
    fn known(self) -> u64 {
        self.stored.max(self.found).max(self.asked)
    }

    /// Of a node that is asked now, perhaps not for the first time. It stays blind:
    /// an answer that was lost may have been a vote, which stands.
    pub fn asked(self, candidate: u64) -> Mark {
        Mark {
            blind: self.blind || candidate == 0,
            ..Mark::default()
        }
    }
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
/// `needed`, for a lock that counts fences, `block` of them at once. `median`:
/// see [`candidate`]; 0 while too few clocks are known.
pub fn verdict(
    nodes: impl ExactSizeIterator<Item = (Vote, Mark)> + Clone,
    needed: Instant,
    block: u32,
    median: u64,
) -> Fence {
    let quorum = quorum(nodes.len());
    let good = || {
        let nodes = nodes.clone();
        nodes.filter_map(move |(vote, mark)| vote.lasts(needed).then_some(mark))
    };
    let storing = |fence: u64| good().filter(|m| m.stored == fence).count();
    if let Some(agreed) = good()
        .map(|m| m.stored)
        .filter(|f| *f != 0 && storing(*f) >= quorum)
        .max()
    {
        return Fence::Agreed(agreed);
    }
    // All of the block is beyond what was found, for its first is a fence too.
    let beyond = |found: u64| match found {
        0 => 0,
        _ => found + u64::from(block),
    };
    // What is under way is not raised by answers that come meanwhile: else each round of
    // them would begin another.
    let asked = |m: Mark| {
        if m.failed { 0 } else { m.asked }
    };
    let largest = good().map(|m| m.stored.max(beyond(m.found)).max(asked(m)));
    let mut largest = largest.max().unwrap_or(0);
    if good().any(|m| m.stored == 0) {
        if median == 0 {
            return Fence::Lost;
        }
        largest = largest.max(median);
    }
    // A node stores what is written back only if all of the block is beyond what it has.
    let takes = |m: Mark| {
        let settled = m.stored == largest || m.asked == largest || m.failed;
        settled || beyond(m.known()) <= largest
    };
    if !good().all(takes) {
        largest = beyond(good().map(Mark::known).max().unwrap_or(0));
    }
    let open = nodes
        .clone()
        .filter(|(vote, _)| *vote == Vote::Awaited)
        .count();
    let able = good().filter(|m| m.stored == largest || !m.failed).count();
    if able + open < quorum {
        Fence::Lost
    } else {
        Fence::WriteBack(largest)
    }
}

/// The fence to propose: the median of what is known of the nodes' `TIME`, the
/// lower of the two where there are two, so that no single clock makes it. 0,
/// for none, where less than a quorum is known. Of the clocks that are known up
/// to half may be far ahead without harm, and fewer than half far behind.
pub fn candidate(known: &mut [u64], nodes: usize) -> u64 {
    let enough = quorum(nodes);
    if known.len() < enough {
        return 0;
    }
    known.sort_unstable();
    known[known.len().div_ceil(2) - 1]
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

    /// The verdict with a block of one, where the median is 100.
    fn verdict(votes: &[Vote], marks: &[Mark]) -> Fence {
        of_block(votes, marks, 1, 100)
    }

    fn of_block(votes: &[Vote], marks: &[Mark], block: u32, median: u64) -> Fence {
        let nodes = votes.iter().copied().zip(marks.iter().copied());
        super::verdict(nodes, NEEDED, block, median)
    }

    fn found(found: u64) -> Mark {
        Mark {
            found,
            blind: true,
            ..Mark::default()
        }
    }

    #[test]
    fn equal_fences_of_a_quorum_need_no_second_round() {
        assert_eq!(verdict(&[GOOD; 3], &marks(&[7, 9, 7])), Fence::Agreed(7));
    }

    #[test]
    fn what_is_written_back_is_not_raised_by_a_late_vote() {
        let mark = |stored, asked| Mark {
            stored,
            asked,
            ..Mark::default()
        };
        // The third was asked for a fence that the second may take; the fourth voted late.
        let marks = [mark(30, 47), mark(15, 47), mark(7, 47), mark(9, 0)];
        let verdict = |marks: &[Mark]| of_block(&[GOOD; 4], marks, 17, 100);
        assert_eq!(verdict(&marks), Fence::WriteBack(47));
        // Another node has more by now: all are asked for what is beyond that.
        let more = Mark {
            found: 50,
            ..mark(15, 0)
        };
        assert_eq!(
            verdict(&[marks[0], more, marks[2], marks[3]]),
            Fence::WriteBack(67)
        );
    }

    #[test]
    fn votes_without_a_mark_agree_on_nothing() {
        // Found, or nothing stored at all: the median, or beyond what was found.
        for (marks, block, written) in [
            ([found(0); 3], 1, 100),
            // Nothing was found, of which a block would be beyond.
            ([found(0); 3], 117, 100),
            ([found(70); 3], 1, 100),
            ([found(100), found(0), found(0)], 1, 101),
            ([found(130), found(0), found(130)], 17, 147),
            ([found(90), found(0), found(0)], 17, 107),
        ] {
            let verdict = of_block(&[GOOD; 3], &marks, block, 100);
            assert_eq!(verdict, Fence::WriteBack(written), "{marks:?}");
        }
        let mut mixed = marks(&[120, 0, 40]);
        assert_eq!(verdict(&[GOOD; 3], &mixed), Fence::WriteBack(120));
        mixed[0].stored = 80;
        assert_eq!(verdict(&[GOOD; 3], &mixed), Fence::WriteBack(100));
        // A quorum stores the same, whatever was found elsewhere.
        let agreed = [found(130), marks(&[131])[0], marks(&[131])[0]];
        assert_eq!(verdict(&[GOOD; 3], &agreed), Fence::Agreed(131));
    }

    #[test]
    fn without_a_quorum_of_clocks_only_marks_make_a_fence() {
        let verdict = |marks: &[Mark]| of_block(&[GOOD; 3], marks, 1, 0);
        assert_eq!(verdict(&[found(7); 3]), Fence::Lost);
        assert_eq!(verdict(&marks(&[7, 7, 0])), Fence::Agreed(7));
        assert_eq!(verdict(&marks(&[7, 9, 8])), Fence::WriteBack(9));
    }

    #[test]
    fn the_largest_is_written_back() {
        assert_eq!(verdict(&[GOOD; 3], &marks(&[7, 9, 8])), Fence::WriteBack(9));
        let mut marks = marks(&[7, 9, 8]);
        marks[0].found = 11;
        assert_eq!(verdict(&[GOOD; 3], &marks), Fence::WriteBack(12));
        // What is under way counts too, and a block has to be beyond all of it.
        marks[0].asked = 12;
        assert_eq!(verdict(&[GOOD; 3], &marks), Fence::WriteBack(12));
        marks[1].asked = 14;
        assert_eq!(verdict(&[GOOD; 3], &marks), Fence::WriteBack(14));
        let in_blocks = of_block(&[GOOD; 3], &super::tests::marks(&[7, 9, 8]), 17, 0);
        assert_eq!(in_blocks, Fence::WriteBack(26));
        marks[1].failed = true;
        marks[2].failed = true;
        assert_eq!(verdict(&[GOOD; 3], &marks), Fence::Lost);
    }

    #[test]
    fn what_was_asked_blindly_once_makes_no_mark() {
        let asked = |candidates: &[u64]| {
            let all = candidates.iter();
            all.fold(Mark::default(), |mark, c| mark.asked(*c)).blind
        };
        for (candidates, blind) in [
            (&[7][..], false),
            (&[7, 9], false),
            (&[0], true),
            (&[0, 9], true),
            (&[7, 0, 9], true),
        ] {
            assert_eq!(asked(candidates), blind, "{candidates:?}");
        }
    }

    #[test]
    fn votes_that_have_run_out_do_not_count() {
        let old = Vote::Granted(Instant(50));
        let votes = [GOOD, old, GOOD];
        assert_eq!(verdict(&votes, &marks(&[7, 7, 8])), Fence::WriteBack(8));
    }

    #[test]
    fn one_wrong_clock_moves_no_candidate() {
        assert_eq!(candidate(&mut [9_000, 5, 6], 3), 6);
        assert_eq!(candidate(&mut [5, 6, 0, 7, 6], 5), 6);
        assert_eq!(candidate(&mut [5, 9_000], 3), 5);
        assert_eq!(candidate(&mut [5, 9_000, 6], 5), 6);
        assert_eq!(candidate(&mut [0, 5, 6], 5), 5);
        assert_eq!(candidate(&mut [5], 3), 0);
    }

    proptest! {
        #[test]
        fn an_agreed_fence_is_stored_by_a_quorum_of_good_votes(
            nodes in proptest::collection::vec((0u64..4, 0u64..4, any::<bool>(), 0u8..4), 1..=7),
            block in 1u32..3,
            median in 0u64..4,
        ) {
            let votes: Vec<Vote> = nodes.iter().map(|n| match n.3 {
                0 => Vote::Awaited,
                1 => Vote::Refused,
                2 => Vote::Granted(Instant(50)),
                _ => GOOD,
            }).collect();
            let marks: Vec<Mark> = nodes.iter().map(|n| Mark {
                stored: n.0, found: n.1, failed: n.2, ..Mark::default()
            }).collect();
            let good = |i: &usize| votes[*i] == GOOD;
            let all = || (0..nodes.len()).filter(good);
            let unmarked = all().any(|i| marks[i].stored == 0);
            match of_block(&votes, &marks, block, median) {
                Fence::Agreed(f) => {
                    prop_assert!(f > 0);
                    prop_assert!(2 * all().filter(|i| marks[*i].stored == f).count() > nodes.len());
                }
                Fence::WriteBack(f) => {
                    prop_assert!(all().all(|i| marks[i].stored <= f));
                    let beyond = |found| found == 0 || found + u64::from(block) <= f;
                    prop_assert!(all().all(|i| beyond(marks[i].found)));
                    prop_assert!(!unmarked || 0 < median && median <= f);
                }
                Fence::Lost if unmarked && median == 0 => {}
                Fence::Lost => {
                    let open = votes.iter().filter(|v| **v == Vote::Awaited).count();
                    let willing = all().filter(|i| !marks[*i].failed).count();
                    prop_assert!(2 * (willing + open) <= nodes.len());
                }
            }
        }
    }
}
