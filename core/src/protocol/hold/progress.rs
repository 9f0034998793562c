//! What the nodes have said in an attempt that may take many requests, for
//! whoever decides how it goes on.

use std::task::{Context, Poll};

use super::votes::{Node, Phase, Said};
use super::{Hold, State};
use crate::node::Reply;
use crate::protocol::home::Heard;
use crate::protocol::quorum::Vote;

impl Hold {
    /// Ready when there is more to know than `seen` counts: the attempt is
    /// [won](Hold::is_won), or a node said something other than yes, or the last
    /// one has answered.
    pub(crate) fn poll_progress(&self, seen: &mut u64, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.round.progress == *seen && state.phase == Phase::Asking {
            return state.round.wakers.park(cx);
        }
        *seen = state.round.progress;
        Poll::Ready(())
    }

    /// Whether every node that was asked for its vote has answered, or failed to.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().votes.are_in()
    }

    /// Has the task of `cx` woken at the next answer to a round that is over.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let _: Poll<()> = self.state().round.wakers.park(cx);
    }

    /// Whether a quorum voted for it.
    pub(crate) fn is_won(&self) -> bool {
        let state = self.state();
        // A lease may be lost before its winner looks: it was won.
        state.phase == Phase::Held || state.loss.is_some()
    }

    /// Each node's last word. One that failed to vote lately, and does not queue
    /// us, is as good as out.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        let state = &self.state();
        (0..state.votes.cast.len())
            .map(|i| self.heard_of(state, i))
            .collect()
    }

    /// One node's last word, with the state locked.
    pub(super) fn heard_of(&self, state: &State, i: usize) -> Heard {
        let queued = |node: &Node| node.line.is_some_and(|line| line.place.is_some());
        match (state.votes.cast[i], &state.votes.nodes[i]) {
            (Vote::Unasked, _) => Heard::Unasked,
            (Vote::Awaited, _) => Heard::Awaited,
            (Vote::Granted(_), _) => Heard::Granted,
            (Vote::Failed, _) => Heard::Out,
            // What a try was refused stands, though its home is gone a moment later.
            (Vote::Refused, node)
                if !queued(node) && self.is_out(i) && state.round.taken != Some(i) =>
            {
                Heard::Out
            }
            (Vote::Refused, node) => Heard::Refused {
                left: match node.said {
                    Said::Refused { left, .. } => left,
                    _ => None,
                },
                line: node.line,
            },
        }
    }
}

impl State {
    /// Counts a reply after which an attempt that is still open may go on
    /// otherwise.
    pub(super) fn count_progress(&mut self, reply: &Reply) -> bool {
        let told = !matches!(reply, Reply::Granted { .. }) || self.votes.are_in();
        self.round.progress += u64::from(told);
        told
    }
}
