//! The home's word in a round that a quorum has voted for.
//!
//! The line of a lock stands at its home. The other nodes know of no line, so in the
//! moment of a release a newcomer may have their votes before it hears that the home
//! has refused. Its refusal decides; and where it has not answered yet it is waited
//! for: as long again as the quorum took, at least for a tenth of `node_timeout`, and
//! no longer. So a home that hangs costs an attempt little, and one that is known to be
//! out costs nothing.

use super::votes::Phase;
use super::{Hold, State};
use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::Nodes;
use crate::protocol::home::{self, Word};
use crate::protocol::quorum::Vote;

impl Hold {
    /// What the home says at `now`, where a quorum has voted.
    pub(super) fn word_of_home(&self, state: &mut State, now: Instant) -> Word {
        let granted = |vote: &Vote| matches!(vote, Vote::Granted(_));
        if mutant!("home-is-not-asked", false, true) || state.votes.cast.iter().all(granted) {
            return Word::Yes;
        }
        let word = match self.awaits_unmet(state) {
            true => Word::Awaited,
            false => home::word(&self.order(), &self.heard_in(state), |i| self.set.is_out(i)),
        };
        if word != Word::Awaited {
            return word;
        }
        let least = self.terms.timing.node_timeout / 10;
        let due = &mut state.round.home_due;
        let due = *due.get_or_insert_with(|| now + self.begun().until(now).max(least));
        if mutant!("home-is-not-waited-for", now < due, false) {
            return Word::Awaited;
        }
        match state.round.taken {
            Some(home) if state.votes.cast[home] == Vote::Awaited => {
                state.refusal_stands(home);
                Word::No
            }
            _ => Word::Yes,
        }
    }

    /// Whether a node has yet to answer that was not connected to before: then nobody can
    /// say which is the home, for that follows from the nodes' ids.
    fn awaits_unmet(&self, state: &State) -> bool {
        let unmet = |i: usize| !self.set.links[i].is_met() && !self.set.is_out(i);
        let mut nodes = 0..self.set.links.len();
        nodes.any(|i| state.votes.cast[i] == Vote::Awaited && unmet(i))
    }

    /// The nodes in the order in which they are home.
    fn order(&self) -> Vec<usize> {
        let ids = self.set.links.iter().map(|link| link.id());
        home::order(&self.terms.keys.lock, ids)
    }

    /// Asks the home by script, where `node` has refused plain commands, is the home, and
    /// nobody will ask again: what stands there may be a crowd that nobody holds the lock of any more,
    /// and the script says who does. Returns whether it asks.
    pub(super) fn asks_home_again(&self, node: usize) -> bool {
        let home = || {
            let order = self.order();
            order.into_iter().find(|i| !self.set.is_out(*i))
        };
        let again = self.waiter.is_none() && home() == Some(node);
        if mutant!("taken-is-held", again, false) {
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
            self.decide(state, now, false);
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
