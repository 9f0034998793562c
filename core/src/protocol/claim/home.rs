//! The node at which waiters queue, and its say in an attempt.
//!
//! The *home* of an attempt is the first node, in an order that is the same for
//! all clients, that answers in it. A client with the home's vote goes on and
//! asks the others again; a client that the home has refused gives its votes back at
//! once, and waits in the home's queue. So contenders do not split the votes,
//! and there is one line for all. Nothing here carries safety: votes do.
//!
//! The other nodes know of no queue, so in the moment of a release a newcomer may have their votes
//! before it hears that the home has refused. The home's refusal decides; and where the home has
//! not answered so far it is waited for: as long again as the quorum took, at least for a tenth of
//! `node_timeout`, and no longer. A home that was waited for in vain is *late*, and not waited for
//! again until it has answered sooner. So a home that hangs or is slow costs a client one such
//! wait, and a home that is known to be out costs nothing.

use std::time::Duration;

use super::effects::Effects;
use super::env::Env;
use super::votes::{Answer, NodeVote};
use super::{Claim, Path, Phase};
use crate::clock::Instant;
use crate::hash::fnv1a;
use crate::node::{Nodes, Op, QueueInfo, Reply, RequestContext};
use crate::protocol::quorum::Vote;

/// An attempt that may wait for its home.
pub(crate) trait HomeWait: Send + Sync {
    /// Until when the home is waited for, where that alone keeps the attempt from being
    /// won.
    fn home_is_due(&self) -> Option<Instant>;

    /// Wins the attempt, if a quorum has voted and the home has been waited for long
    /// enough.
    fn look_for_home(&self, now: Instant);
}

/// The nodes of a set in the order in which they are home of the lock with this
/// key: by rendezvous hashing (Thaler and Ravishankar, "Using name-based
/// mappings to increase hit rates"), so that each node is home of about as many
/// locks as any other. `ids` are the hashes by which the nodes are known.
pub(crate) fn order(key: &[u8], ids: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = weights(key, ids).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    order.into_iter().map(|(_, node)| node).collect()
}

/// Each node with its weight for this key: the largest comes first.
fn weights(key: &[u8], ids: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, usize)> {
    let key = fnv1a(key);
    ids.map(move |id| mix(key ^ id)).zip(0..)
}

/// Spreads a number over all bits (the finisher of SplitMix64).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// What a node has said to the present token last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It was not asked.
    Unasked,
    /// It has yet to answer.
    Awaited,
    /// It has voted for the token.
    Granted,
    /// The lock is another's there, or reserved for another, for so long unless
    /// that is renewed.
    Refused {
        /// `None`: it has no end.
        left: Option<Duration>,
        /// What it said of the line; `None` if the vote was lost later.
        line: Option<QueueInfo>,
    },
    /// It did not answer, or cannot vote.
    Out,
}

/// How an attempt that is not won goes on, once all nodes were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// More answers are to come.
    Await,
    /// The home has voted for us, and too few others: these are asked again.
    Retry(Nodes),
    /// This home has refused: the attempt is over, and we wait there.
    Yield(usize),
    /// No node can vote.
    Pause,
}

/// What to do where the nodes are in these states. `order`: see [`order`].
pub(crate) fn next(order: &[usize], states: &[NodeState]) -> NextStep {
    let here = || order.iter().copied();
    let answers = |node: &usize| states[*node] != NodeState::Out;
    let Some(home) = here().find(answers) else {
        return NextStep::Pause;
    };
    let goes_on = match states[home] {
        NodeState::Refused { .. } => false,
        NodeState::Granted => true,
        NodeState::Awaited | NodeState::Unasked | NodeState::Out => return NextStep::Await,
    };
    if !goes_on {
        return NextStep::Yield(home);
    }
    if states.contains(&NodeState::Awaited) {
        return NextStep::Await;
    }
    NextStep::Retry(
        here()
            .filter(|node| states[*node] != NodeState::Granted)
            .collect(),
    )
}

/// What the home says to an attempt for which a quorum has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HomeVote {
    /// It has voted too; or no node is worth waiting for.
    Agrees,
    /// It has refused.
    Refuses,
    /// This node, the home, has yet to answer.
    Pending(usize),
}

/// What the home says, which is the first node, in the [`order`] for `key`, that is not
/// out; it agrees if all are. A node that `is_out` is not waited for.
fn vote(
    key: &[u8],
    ids: impl Iterator<Item = u64>,
    state: impl Fn(usize) -> NodeState,
    is_out: impl Fn(usize) -> bool,
) -> HomeVote {
    let vote = |node: usize| match state(node) {
        NodeState::Out => None,
        NodeState::Granted => Some(HomeVote::Agrees),
        NodeState::Refused { .. } => Some(HomeVote::Refuses),
        NodeState::Awaited | NodeState::Unasked if is_out(node) => None,
        NodeState::Awaited | NodeState::Unasked => Some(HomeVote::Pending(node)),
    };
    let votes = weights(key, ids).filter_map(|(weight, node)| Some((weight, node, vote(node)?)));
    let home = votes.max_by_key(|(weight, node, _)| (*weight, *node));
    home.map_or(HomeVote::Agrees, |(_, _, vote)| vote)
}

impl Claim {
    /// What the home says at `now`, where a quorum has voted.
    pub(super) fn vote_of_home(&mut self, now: Instant, env: &impl Env) -> HomeVote {
        let granted = |vote: Vote| matches!(vote, Vote::Granted(_));
        if env.terms().keys.adopts.is_some() || self.votes.cast().all(granted) {
            return HomeVote::Agrees;
        }
        let vote = match self.awaited_unmet(env) {
            Some(node) => HomeVote::Pending(node),
            None => self.known_vote_of_home(env),
        };
        let HomeVote::Pending(node) = vote else {
            return vote;
        };
        let least = env.terms().timing.node_timeout / 10;
        let begun = self.begun;
        let due = &mut self.round.home_due;
        let due = *due.get_or_insert_with(|| now + begun.until(now).max(least));
        let late = env.is_late(node);
        if now < due && !late {
            return vote;
        }
        match self.round.taken {
            Some(home) if self.votes.0[home].vote == Vote::Awaited => {
                self.refusal_stands(home);
                HomeVote::Refuses
            }
            _ => HomeVote::Agrees,
        }
    }

    fn known_vote_of_home(&self, env: &impl Env) -> HomeVote {
        let state = |i| self.node_state(i, env);
        vote(self.key(env), self.ids(env), state, |i| env.is_out(i))
    }

    /// A node that has yet to answer and was not connected to before: then it is not known which
    /// node is the home, for that follows from the nodes' ids.
    fn awaited_unmet(&self, env: &impl Env) -> Option<usize> {
        let unmet = |i: usize| !env.is_met(i) && !env.is_out(i);
        let mut nodes = 0..self.votes.0.len();
        nodes.find(|i| self.votes.0[*i].vote == Vote::Awaited && unmet(*i))
    }

    /// The first node, in the order of homes, that is not out.
    pub(super) fn home(&self, env: &impl Env) -> Option<usize> {
        let order = order(self.key(env), self.ids(env));
        order.into_iter().find(|i| !env.is_out(*i))
    }

    fn key<'a>(&self, env: &'a impl Env) -> &'a [u8] {
        &env.terms().keys.lock
    }

    fn ids(&self, env: &impl Env) -> impl Iterator<Item = u64> {
        (0..self.votes.0.len()).map(|node| env.id(node))
    }

    /// Asks the home by script, where `node` has refused plain commands, is the home, and no waiter
    /// will ask again: the key may only say that there are waiters, and the script says whether the
    /// lock is held. Returns whether it asks.
    pub(super) fn ask_home_again(
        &mut self,
        node: usize,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) -> bool {
        let again = !self.waits && self.home(env) == Some(node);
        if again {
            self.round.taken = Some(node);
            self.ask(Path::Script, Nodes::one(node), Nodes::NONE, now, env, fx);
            return true;
        }
        false
    }

    /// Until when the home is waited for, where that alone keeps the attempt from being
    /// won.
    pub(crate) fn home_due(&self) -> Option<Instant> {
        let awaits = self.phase == Phase::Asking && self.round.awaits_home;
        self.round.home_due.filter(|_| awaits)
    }

    /// Wins the attempt, if a quorum has voted and the home has been waited for long
    /// enough.
    pub(super) fn look_for_home(&mut self, now: Instant, env: &impl Env, fx: &mut Effects) {
        let due = self.round.home_due.is_some_and(|due| due <= now);
        if self.phase == Phase::Asking && self.round.awaits_home && due {
            // Which one is the home is not known while others were never met.
            if let (HomeVote::Pending(home), None) =
                (self.known_vote_of_home(env), self.awaited_unmet(env))
            {
                fx.homes.in_vain = Some(home);
            }
            // A waiter decides how a round goes on that is not won even so.
            self.round.progress += 1;
            self.conclude(true, now, env, fx);
        }
    }

    /// Notes whether a node that was asked for its vote has answered while it would be
    /// waited for as a home.
    pub(super) fn note_promptness(
        &self,
        ticket: &RequestContext,
        reply: &Reply,
        now: Instant,
        fx: &mut Effects,
    ) {
        let asked = matches!(ticket.op, Op::Acquire { .. });
        let answered = !matches!(reply, Reply::Failed(_) | Reply::Late);
        if asked && answered && self.round.home_due.is_none_or(|due| now <= due) {
            fx.homes.prompt = Some(ticket.node);
        }
    }

    /// What the home said to plain commands is its vote, where it has not said another
    /// when it was asked again.
    pub(super) fn refusal_stands(&mut self, node: usize) {
        let vote = &mut self.votes.0[node].vote;
        if self.round.taken == Some(node) && !matches!(vote, Vote::Granted(_)) {
            *vote = Vote::Refused;
        }
    }

    /// Each node's state. A node that failed to vote lately, and does not queue
    /// us, is as good as out.
    pub(crate) fn node_states(&self, env: &impl Env) -> Vec<NodeState> {
        (0..self.votes.0.len())
            .map(|i| self.node_state(i, env))
            .collect()
    }

    fn node_state(&self, i: usize, env: &impl Env) -> NodeState {
        let queued = |node: &NodeVote| node.line.is_some_and(|line| line.place.is_some());
        let node = &self.votes.0[i];
        match node.vote {
            Vote::Unasked => NodeState::Unasked,
            Vote::Awaited => NodeState::Awaited,
            Vote::Granted(_) => NodeState::Granted,
            Vote::Failed => NodeState::Out,
            // A refusal stands, though the home becomes unreachable a moment later.
            Vote::Refused if !queued(node) && env.is_out(i) && self.round.taken != Some(i) => {
                NodeState::Out
            }
            Vote::Refused => NodeState::Refused {
                left: match node.answer {
                    Answer::Refused { left, .. } => left,
                    _ => None,
                },
                line: node.line,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFUSED: NodeState = NodeState::Refused {
        left: None,
        line: None,
    };

    fn states() -> impl Strategy<Value = Vec<NodeState>> {
        let one = prop_oneof![
            Just(NodeState::Awaited),
            Just(NodeState::Granted),
            Just(REFUSED),
            Just(NodeState::Out),
        ];
        proptest::collection::vec(one, 1..=7)
    }

    proptest! {
        /// Whatever the nodes have answered, of two contenders that none of
        /// them has left without an answer one goes on, and only one.
        #[test]
        fn one_of_two_goes_on(ours in states(), key in any::<[u8; 4]>()) {
            let order = order(&key, 0..ours.len() as u64);
            // What one was granted the other was refused.
            let theirs: Vec<NodeState> = ours
                .iter()
                .map(|state| match state {
                    NodeState::Granted => REFUSED,
                    NodeState::Refused { .. } => NodeState::Granted,
                    other => *other,
                })
                .collect();
            let (we, they) = (next(&order, &ours), next(&order, &theirs));
            match we {
                NextStep::Pause => {
                    prop_assert!(ours.iter().all(|state| *state == NodeState::Out));
                    prop_assert_eq!(they, NextStep::Pause);
                }
                NextStep::Yield(home) => {
                    prop_assert_eq!(ours[home], REFUSED);
                    prop_assert!(!matches!(they, NextStep::Yield(_) | NextStep::Pause));
                }
                NextStep::Retry(nodes) => {
                    prop_assert!(matches!(they, NextStep::Yield(_)));
                    prop_assert!(nodes.iter().all(|node| ours[node] != NodeState::Granted));
                }
                NextStep::Await => prop_assert!(ours.contains(&NodeState::Awaited)),
            }
        }

        /// All clients agree on the order, however they list the nodes.
        #[test]
        fn the_order_is_that_of_the_nodes(ids in proptest::collection::hash_set(any::<u64>(), 1..7)) {
            let ids: Vec<u64> = ids.into_iter().collect();
            let turned: Vec<u64> = ids.iter().rev().copied().collect();
            let named = |ids: &[u64]| -> Vec<u64> {
                order(b"lock:{k}", ids.iter().copied()).iter().map(|node| ids[*node]).collect()
            };
            prop_assert_eq!(named(&ids), named(&turned));
        }
    }

    #[test]
    fn the_first_that_is_there_has_the_word() {
        let (yes, asked, out) = (NodeState::Granted, NodeState::Awaited, NodeState::Out);
        let order = order(b"lock:{k}", 0..3);
        for (states, lame, expected) in [
            ([yes, REFUSED, yes], None, HomeVote::Agrees),
            ([REFUSED, yes, yes], None, HomeVote::Refuses),
            ([asked, yes, yes], None, HomeVote::Pending(order[0])),
            // A node that is out, or known to be, is not the home.
            ([out, yes, REFUSED], None, HomeVote::Agrees),
            ([asked, REFUSED, yes], Some(0), HomeVote::Refuses),
            ([asked, yes, yes], Some(1), HomeVote::Pending(order[0])),
            ([out; 3], None, HomeVote::Agrees),
        ] {
            // In the order in which they are home.
            let place = |node| order.iter().position(|i| *i == node).unwrap();
            let lame = |node| lame == Some(place(node));
            let vote = vote(b"lock:{k}", 0..3, |node| states[place(node)], lame);
            assert_eq!(vote, expected, "{states:?}");
        }
    }

    #[test]
    fn locks_have_different_homes() {
        let mut homes = [0; 5];
        for i in 0..1000_u32 {
            let ids = ["a", "b", "c", "d", "e"].map(|id| fnv1a(id.as_bytes()));
            homes[order(&i.to_le_bytes(), ids.into_iter())[0]] += 1;
        }
        assert!(
            homes.iter().all(|locks| (150..250).contains(locks)),
            "{homes:?}"
        );
    }
}
