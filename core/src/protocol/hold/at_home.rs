//! The home's word in a round that a quorum has voted for.
//!
//! The line of a lock stands at its home. The other nodes know of no line, so in the
//! moment of a release a newcomer may have their votes before it hears that the home
//! has refused. Its refusal decides; and where it has not answered yet it is waited
//! for: as long again as the quorum took, at least for a tenth of `node_timeout`, and
//! no longer. One that was waited for in vain is *late*, and not waited for again until
//! it has answered sooner. So a home that hangs or is slow costs a client one such wait,
//! and one that is known to be out costs nothing.

use super::votes::Phase;
use super::{Hold, State};
use crate::clock::Instant;
use crate::node::{Mode, Nodes, Op, Reply, RequestContext};
use crate::protocol::home::{self, Word};
use crate::protocol::quorum::Vote;

impl Hold {
    /// What the home says at `now`, where a quorum has voted.
    pub(super) fn word_of_home(&self, state: &mut State, now: Instant) -> Word {
        let granted = |vote: &Vote| matches!(vote, Vote::Granted(_));
        if self.terms.keys.adopts.is_some() || state.votes.cast.iter().all(granted) {
            return Word::Yes;
        }
        let word = match self.awaited_unmet(state) {
            Some(node) => Word::Awaited(node),
            None => {
                let heard = |i| self.heard_of(state, i);
                home::word(self.key(), self.ids(), heard, |i| self.is_out(i))
            }
        };
        let Word::Awaited(node) = word else {
            return word;
        };
        let least = self.terms.timing.node_timeout / 10;
        let due = &mut state.round.home_due;
        let due = *due.get_or_insert_with(|| now + self.begun().until(now).max(least));
        let late = self.set.is_late(node, self.key());
        if now < due && !late {
            return word;
        }
        match state.round.taken {
            Some(home) if state.votes.cast[home] == Vote::Awaited => {
                state.refusal_stands(home);
                Word::No
            }
            _ => Word::Yes,
        }
    }

    /// A node that has yet to answer and was not connected to before: then nobody can
    /// say which is the home, for that follows from the nodes' ids.
    fn awaited_unmet(&self, state: &State) -> Option<usize> {
        let unmet = |i: usize| !self.set.links[i].is_met() && !self.is_out(i);
        let mut nodes = 0..self.set.links.len();
        nodes.find(|i| state.votes.cast[*i] == Vote::Awaited && unmet(*i))
    }

    /// Whether the home has let this reader in: its vote stands at `now`. Then a waiter that has
    /// come to be the first there keeps it out on no other node: see [`drain`](super::drain).
    pub(super) fn is_let_in(&self, state: &State, now: Instant) -> bool {
        let voted = |home| matches!(state.votes.cast[home], Vote::Granted(end) if now < end);
        (self.mode() == Mode::Shared) && self.home().is_some_and(voted)
    }

    /// The first node, in the order of homes, that is not out.
    fn home(&self) -> Option<usize> {
        let order = home::order(self.key(), self.ids());
        order.into_iter().find(|i| !self.is_out(*i))
    }

    fn key(&self) -> &[u8] {
        &self.terms.keys.lock
    }

    /// Whether the node failed to vote for the lock lately: see [`Set::is_out`].
    ///
    /// [`Set::is_out`]: crate::protocol::set::Set::is_out
    pub(super) fn is_out(&self, node: usize) -> bool {
        self.set.is_out(node, self.key())
    }

    fn ids(&self) -> impl Iterator<Item = u64> {
        self.set.links.iter().map(|link| link.id())
    }

    /// Asks the home by script, where `node` has refused plain commands, is the home, and
    /// nobody will ask again: what stands there may be a crowd that nobody holds the lock of any more,
    /// and the script says who does. Returns whether it asks.
    pub(super) fn asks_home_again(&self, node: usize) -> bool {
        let again = self.waiter.is_none() && self.home() == Some(node);
        if again {
            self.state().round.taken = Some(node);
            self.ask(Nodes::one(node), Nodes::NONE);
            return true;
        }
        false
    }

    /// Until when the home is waited for, where that alone keeps the attempt from being
    /// won.
    pub(crate) fn home_is_due(&self) -> Option<Instant> {
        let state = self.state();
        let awaits = state.phase == Phase::Asking && state.round.awaits_home;
        state.round.home_due.filter(|_| awaits)
    }

    /// Wins the attempt, if a quorum has voted and the home has been waited for long
    /// enough.
    pub(crate) fn look_for_home(&self, now: Instant) {
        let state = self.state();
        let due = state.round.home_due.is_some_and(|due| due <= now);
        if state.phase == Phase::Asking && state.round.awaits_home && due {
            let heard = |i| self.heard_of(&state, i);
            let word = home::word(self.key(), self.ids(), heard, |i| self.is_out(i));
            // Which one is the home is not known while others were never met.
            if let (Word::Awaited(home), None) = (word, self.awaited_unmet(&state)) {
                self.set.waited_in_vain(home, &self.terms.keys.lock);
            }
            self.decide(state, now, false);
        }
    }

    /// Notes whether a node that was asked for its vote has answered while it would be
    /// waited for as a home.
    pub(super) fn note_promptness(
        &self,
        state: &State,
        ticket: RequestContext,
        reply: &Reply,
        now: Instant,
    ) {
        let asked = matches!(ticket.op, Op::Acquire { .. });
        let answered = !matches!(reply, Reply::Failed(_) | Reply::Late);
        if asked && answered && state.round.home_due.is_none_or(|due| now <= due) {
            self.set.was_prompt(ticket.node, self.key());
        }
    }
}

impl State {
    /// What the home said to plain commands is its word, where it has not said another
    /// when it was asked again.
    pub(super) fn refusal_stands(&mut self, node: usize) {
        if self.round.taken == Some(node) {
            self.votes.cast[node] = Vote::Refused;
        }
    }
}
