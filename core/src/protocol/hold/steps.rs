//! Steps of nodes' clocks, and what they take from the votes.

use std::sync::atomic::Ordering;

use super::votes::Phase;
use super::{Hold, State};
use crate::clock::Instant;

impl Hold {
    /// Shortens the votes of nodes whose clocks have stepped forward since.
    pub(super) fn settle_steps(&self, state: &mut State) {
        let mut shortened = false;
        for node in 0..state.votes.cast.len() {
            shortened |= state.votes.step(node, self.set.stepped(node));
        }
        if shortened && state.phase == Phase::Held {
            self.end.store(self.end_of(state).0, Ordering::Release);
        }
    }

    /// Looks again after a step of a node's clock.
    pub(crate) fn stepped(&self) {
        let now = self.set.clock.now();
        let mut state = self.state();
        let before = self.end();
        self.settle_steps(&mut state);
        if self.end_if_over(&mut state, now) {
            self.publish(state);
        } else {
            drop(state);
            self.tell_earlier_end(before);
        }
    }

    /// Calls `act` whenever the lease is to be looked at earlier than was said, with the moment;
    /// at its end in any case.
    pub(crate) fn on_earlier_look(&self, act: impl Fn(Instant) + Send + Sync + 'static) {
        let _ = self.told.earlier_look.set(Box::new(act));
    }

    pub(super) fn tell_earlier_end(&self, before: Instant) {
        if self.end() < before {
            self.tell_look_by(Instant::FAR);
        }
    }

    pub(super) fn tell_look_by(&self, at: Instant) {
        if let Some(act) = self.told.earlier_look.get() {
            act(at);
        }
    }
}
