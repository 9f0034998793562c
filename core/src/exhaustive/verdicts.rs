//! The votes of one to five nodes, and the fences of three: one answer after the other, in every order.

use stateright::{Model, Property};

use super::specification::{self, agreed, least_written, quorum};
use super::{breaks, explore};
use crate::clock::Instant;
use crate::protocol::fence::{self, Fence, Mark};
use crate::protocol::quorum::{Kind, RoundVerdict, Vote, kind, lease_end, verdict};

/// What a vote must last beyond.
const NEEDED: Instant = Instant(100);

/// A round of so many nodes.
struct Round(usize);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Votes {
    votes: Vec<Vote>,
    wrong: Option<&'static str>,
}

/// The answers that a node may give: votes that are too short, just long enough, and longer.
const ANSWERS: [Vote; 5] = [
    Vote::Granted(NEEDED),
    Vote::Granted(Instant(101)),
    Vote::Granted(Instant(150)),
    Vote::Refused,
    Vote::Failed,
];

/// Each way in which the nodes may still answer, whose votes are open.
fn outcomes(votes: &[Vote]) -> Vec<Vec<Vote>> {
    let open = |vote: &Vote| matches!(vote, Vote::Awaited | Vote::Unasked);
    let Some(first) = votes.iter().position(open) else {
        return vec![votes.to_vec()];
    };
    let answered = [Vote::Granted(Instant(150)), Vote::Failed].into_iter();
    let answered = answered.flat_map(|answer| {
        let mut votes = votes.to_vec();
        votes[first] = answer;
        outcomes(&votes)
    });
    answered.collect()
}

/// The votes as the specification has them.
fn specified(votes: &[Vote]) -> Vec<specification::Vote> {
    let end = |vote: &Vote| match vote {
        Vote::Granted(end) => end.0,
        _ => 0,
    };
    let vote = |vote: &Vote| specification::Vote {
        end: end(vote),
        ..specification::Vote::default()
    };
    votes.iter().map(vote).collect()
}

impl Votes {
    fn verdict(&self) -> RoundVerdict {
        verdict(self.votes.iter().copied(), NEEDED)
    }

    /// What is wrong with the verdict on these votes.
    fn judge(&self) -> Option<&'static str> {
        let has = |votes: &[Vote]| {
            let good = specified(votes);
            let good = good.iter().filter(|vote| vote.end > NEEDED.0);
            good.count() >= quorum(votes.len())
        };
        let ends = outcomes(&self.votes);
        let expected = match ends.iter().filter(|votes| has(votes)).count() {
            0 => RoundVerdict::Lost,
            n if n == ends.len() => RoundVerdict::Won,
            _ => RoundVerdict::Open,
        };
        if self.verdict() != expected {
            return Some("the verdict is what every outcome has in common");
        }
        let all = specified(&self.votes);
        let own = lease_end(all.iter().map(|vote| Instant(vote.end)));
        if own.0 != specification::lease_end(&all) {
            return Some("a lease ends with the vote that the quorum counts last");
        }
        None
    }
}

impl Model for Round {
    type State = Votes;
    type Action = (usize, Vote);

    fn init_states(&self) -> Vec<Votes> {
        vec![Votes {
            votes: vec![Vote::Unasked; self.0],
            wrong: None,
        }]
    }

    fn actions(&self, state: &Votes, steps: &mut Vec<(usize, Vote)>) {
        for (node, vote) in state.votes.iter().enumerate() {
            match vote {
                Vote::Unasked => steps.push((node, Vote::Awaited)),
                Vote::Awaited => steps.extend(ANSWERS.map(|answer| (node, answer))),
                _ => {}
            }
        }
    }

    fn next_state(&self, last: &Votes, (node, answer): (usize, Vote)) -> Option<Votes> {
        let mut next = last.clone();
        next.votes[node] = answer;
        let (before, after) = (last.verdict(), next.verdict());
        let decided = before != RoundVerdict::Open;
        let known = kind(&last.votes);
        next.wrong = if decided && after != before {
            Some("a verdict is final")
        } else if answer != Vote::Awaited && known != Kind::Undecided && kind(&next.votes) != known
        {
            Some("a reason that is known stays")
        } else {
            next.judge()
        };
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Round>> {
        vec![
            Property::always("the verdict is the specification's", |_, votes: &Votes| {
                votes.wrong.is_none()
            }),
            Property::sometimes("won", |_, votes: &Votes| {
                votes.verdict() == RoundVerdict::Won
            }),
            Property::sometimes("lost", |_, votes: &Votes| {
                votes.verdict() == RoundVerdict::Lost
            }),
            Property::sometimes("held by another", |_, votes: &Votes| {
                kind(&votes.votes) == Kind::Held
            }),
        ]
    }
}

#[test]
fn votes_of_one_to_five_nodes() {
    for nodes in 1..=5 {
        let states = 7_usize.pow(nodes as u32);
        explore(&format!("votes of {nodes}"), Round(nodes), states);
    }
}

const NODES: usize = 3;

/// An attempt for a block of fences, beside others that count on.
struct Counting {
    /// What each node may have counted before.
    before: &'static [u64],
    /// What is proposed; 0: nothing.
    candidates: &'static [u64],
    block: u32,
    /// The median of the clocks that the answers have told.
    median: u64,
    /// What a node has is taken for a mark where nothing was proposed: what is wrong.
    marks_all: bool,
}

/// One node, as it is and as the attempt knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counter {
    count: u64,
    vote: Vote,
    mark: Mark,
    /// What is being written back, and is not answered.
    writes: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counters {
    wrong: Option<&'static str>,
    /// In an order of no meaning: what they have tells them apart.
    nodes: [Counter; NODES],
    /// The largest fence that may have been won before.
    floor: u64,
    candidate: u64,
    /// Another has counted on meanwhile.
    raised: bool,
    greater: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Count {
    Answers(usize, Vote),
    /// Another asks in vain, and counts.
    Others(usize),
    Writes(usize, u64),
    /// A write-back is not answered; whether the node has stored it.
    Fails(usize, u64, bool),
}

impl Counter {
    fn order(&self) -> impl Ord + use<> {
        let Mark {
            stored,
            found,
            asked,
            failed,
            blind: _,
        } = self.mark;
        let vote = match self.vote {
            Vote::Granted(end) => end.0,
            Vote::Refused => 1,
            _ => 0,
        };
        (
            self.count,
            vote,
            stored,
            found,
            asked,
            failed,
            self.writes.clone(),
        )
    }

    /// The node stores a fence that is written back, or says what it has.
    fn write(&mut self, model: &Counting, fence: u64) -> Result<(), u64> {
        if self.count + u64::from(model.block) > fence {
            return Err(self.count);
        }
        self.count = fence;
        Ok(())
    }
}

impl Counters {
    fn votes(&self) -> [Vote; NODES] {
        self.nodes.each_ref().map(|node| node.vote)
    }

    fn verdict(&self, model: &Counting) -> Fence {
        let nodes = self.nodes.iter().map(|node| (node.vote, node.mark));
        fence::verdict(nodes, NEEDED, model.block, model.median)
    }

    /// Whether a quorum has voted: only then fences are looked at.
    fn is_voted(&self) -> bool {
        verdict(self.votes().into_iter(), NEEDED) == RoundVerdict::Won
    }

    fn specified(&self) -> Vec<specification::Vote> {
        let mut all = specified(&self.votes());
        for (vote, node) in all.iter_mut().zip(&self.nodes) {
            (vote.mark, vote.found) = (node.mark.stored, node.mark.found);
        }
        all
    }

    /// Looks at the fences after one more answer, and writes back.
    fn look(&mut self, model: &Counting) {
        if !self.is_voted() {
            return;
        }
        let votes = self.specified();
        let mut marks = votes.iter().map(|vote| vote.mark);
        let bears = marks.any(|mark| mark != 0 && agreed(&votes, mark, NEEDED.0));
        let verdict = self.verdict(model);
        let good = self.nodes.iter_mut().filter(|node| node.vote.lasts(NEEDED));
        self.wrong = match verdict {
            Fence::Agreed(fence) => {
                let first = fence + 1 - u64::from(model.block);
                let kept = self.nodes.iter().filter(|node| node.count >= fence);
                if !agreed(&votes, fence, NEEDED.0) {
                    Some("a fence is borne by a quorum of votes")
                } else if kept.count() < quorum(NODES) || first <= self.floor {
                    Some("a fence is beyond all that were won before")
                } else {
                    None
                }
            }
            _ if bears => Some("a fence that a quorum bears is good"),
            Fence::WriteBack(fence) => {
                for node in good {
                    let mark = &mut node.mark;
                    if !mark.failed && mark.stored != fence && mark.asked != fence {
                        mark.asked = fence;
                        node.writes.push(fence);
                    }
                }
                let least = least_written(&votes, NEEDED.0, model.block, model.median);
                (fence < least).then_some("what is written back is the largest")
            }
            Fence::Lost => {
                let marks: Vec<Mark> = good.map(|node| node.mark).collect();
                let able = marks.iter().filter(|mark| !mark.failed).count();
                let known = model.median != 0 || marks.iter().all(|mark| mark.stored != 0);
                let open = self.nodes.iter().filter(|node| node.vote == Vote::Awaited);
                let may = known && able + open.count() >= quorum(NODES);
                may.then_some("an attempt is not lost while a quorum can store one fence")
            }
        };
    }
}

impl Model for Counting {
    type State = Counters;
    type Action = Count;

    fn init_states(&self) -> Vec<Counters> {
        let mut all = Vec::new();
        for candidate in self.candidates {
            let node = |count| Counter {
                count,
                vote: Vote::Awaited,
                mark: Mark::default().asked((*candidate).max(self.marks_all.into())),
                writes: Vec::new(),
            };
            for a in self.before {
                for b in self.before.iter().filter(|b| a <= *b) {
                    for c in self.before.iter().filter(|c| b <= *c) {
                        all.push(Counters {
                            wrong: None,
                            nodes: [*a, *b, *c].map(node),
                            // A quorum has counted that far.
                            floor: *b,
                            candidate: *candidate,
                            raised: false,
                            greater: false,
                        });
                    }
                }
            }
        }
        all
    }

    fn actions(&self, state: &Counters, steps: &mut Vec<Count>) {
        let agreed = || matches!(state.verdict(self), Fence::Agreed(_));
        if state.wrong.is_some() || state.is_voted() && agreed() {
            return;
        }
        for (node, counter) in state.nodes.iter().enumerate() {
            if counter.vote == Vote::Awaited {
                let answers = [Vote::Granted(Instant(150)), Vote::Refused];
                steps.extend(answers.map(|answer| Count::Answers(node, answer)));
            }
            if !state.raised {
                steps.push(Count::Others(node));
            }
            // Answers come in the order of the requests.
            if let Some(fence) = counter.writes.first().copied() {
                let fails = |stored| Count::Fails(node, fence, stored);
                steps.extend([Count::Writes(node, fence), fails(true), fails(false)]);
            }
        }
    }

    fn next_state(&self, last: &Counters, step: Count) -> Option<Counters> {
        let mut next = last.clone();
        match step {
            Count::Others(node) => {
                next.raised = true;
                next.nodes[node].count += 1;
            }
            Count::Answers(node, answer) => {
                let node = &mut next.nodes[node];
                node.vote = answer;
                if answer != Vote::Refused {
                    if next.candidate != 0 {
                        node.count = next.candidate.max(node.count + u64::from(self.block));
                    }
                    if node.mark.blind {
                        node.mark.found = node.count;
                    } else {
                        node.mark.stored = node.count;
                    }
                }
                next.look(self);
            }
            Count::Writes(node, fence) => {
                let node = &mut next.nodes[node];
                node.writes.retain(|write| *write != fence);
                match node.write(self, fence) {
                    Ok(()) => node.mark.stored = fence,
                    Err(stored) => {
                        node.mark.found = node.mark.found.max(stored);
                        if node.mark.asked == fence {
                            node.mark.asked = 0;
                        }
                        next.greater = true;
                    }
                }
                next.look(self);
            }
            Count::Fails(node, fence, stored) => {
                let node = &mut next.nodes[node];
                node.writes.retain(|write| *write != fence);
                if stored {
                    let _ = node.write(self, fence);
                }
                node.mark.failed = true;
                next.look(self);
            }
        }
        next.nodes.sort_by_key(Counter::order);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Counting>> {
        fn is(model: &Counting, all: &Counters, wanted: fn(Fence) -> bool) -> bool {
            all.is_voted() && wanted(all.verdict(model))
        }
        vec![
            Property::always("fences are the specification's", |_, all: &Counters| {
                all.wrong.is_none()
            }),
            Property::sometimes(
                "agreed behind a write-back that came too late",
                |model, all: &Counters| {
                    all.greater && is(model, all, |fence| matches!(fence, Fence::Agreed(_)))
                },
            ),
            Property::sometimes("lost", |model, all: &Counters| {
                is(model, all, |fence| fence == Fence::Lost)
            }),
        ]
    }
}

const COUNTING: Counting = Counting {
    before: &[0, 5],
    candidates: &[0, 6],
    block: 1,
    median: 6,
    marks_all: false,
};

#[test]
fn fences_of_three_nodes() {
    explore("fences", COUNTING, 5_000);
    explore(
        "blocks of fences",
        Counting {
            block: 2,
            ..COUNTING
        },
        10_000,
    );
}

#[test]
fn an_attempt_that_takes_any_fence_for_its_mark_is_told() {
    let model = Counting {
        marks_all: true,
        ..COUNTING
    };
    breaks(model, "fences are the specification's");
}

/// The median of a quorum of clocks, of all that may be known of up to five.
#[test]
fn the_median_of_clocks() {
    for nodes in 1..=5_usize {
        for i in 0..4_usize.pow(nodes as u32) {
            let clocks = (0..nodes).map(|place| i / 4_usize.pow(place as u32) % 4);
            // The last stands for a clock that is not known.
            let mut known: Vec<u64> = clocks.filter(|c| *c < 3).map(|c| 5 + c as u64).collect();
            let all = known.clone();
            let candidate = fence::candidate(&mut known, nodes);
            if all.len() < quorum(nodes) {
                assert_eq!(candidate, 0);
                continue;
            }
            let below = all.iter().filter(|clock| **clock < candidate).count();
            let above = all.iter().filter(|clock| **clock > candidate).count();
            assert!(all.contains(&candidate) && 2 * below < all.len() && 2 * above <= all.len());
        }
    }
}
