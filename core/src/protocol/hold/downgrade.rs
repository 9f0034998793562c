//! A lease that becomes one of many: from its own holder's to a shared one.
//!
//! It is shared from the moment in which it says so; each node's vote follows by the next
//! extension that reaches it. Nobody is let in before, since a vote for one alone excludes
//! no less than one that is shared. It keeps its fence, and what it was to
//! [keep](super::Terms::keep) it keeps no more.

use std::sync::Arc;

use super::Hold;
use super::votes::Phase;
use crate::node::{Keys, Mode};

impl Hold {
    /// In which mode the lease is held.
    pub fn mode(&self) -> Mode {
        self.keys().mode
    }

    /// What all requests for the token have in common.
    pub(crate) fn keys(&self) -> &Arc<Keys> {
        self.own_keys.get().unwrap_or(&self.terms.keys)
    }

    /// Shares this [lease](Hold::lease) of the token from now on, which is no slot's. False, and
    /// nothing has changed, if it is not held, or was passed on. An extension tells the nodes, or
    /// the renewals that follow.
    pub(crate) fn share(&self, lease: u32) -> bool {
        let now = self.set.clock.now();
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
            return false;
        }
        let passed = state.is_passed(lease);
        if state.phase != Phase::Held || passed {
            return false;
        }
        if self.terms.keys.mode == Mode::Exclusive {
            let keys = &*self.terms.keys;
            let mode = Mode::Shared;
            let shared = || {
                Arc::new(Keys {
                    mode,
                    ..keys.clone()
                })
            };
            self.own_keys.get_or_init(shared);
        }
        true
    }
}
