//! A round whose votes brought different fences: the largest is written back.

use std::sync::{Arc, MutexGuard};

use super::votes::Votes;
use super::{Hold, State};
use crate::clock::Instant;
use crate::node::{Op, Sink};
use crate::protocol::counters::count;

impl Hold {
    /// Writes the largest fence to the voters that store less, unless they
    /// have been asked to.
    pub(super) fn write_back(
        &self,
        mut state: MutexGuard<'_, State>,
        fence: u64,
        now: Instant,
        needed: Instant,
    ) {
        let Votes { cast, marks, .. } = &mut state.votes;
        let mut less = Vec::new();
        for (i, (vote, mark)) in cast.iter().zip(marks).enumerate() {
            if vote.lasts(needed) && !mark.failed && mark.stored != fence && mark.asked != fence {
                mark.asked = fence;
                less.push(i);
            }
        }
        drop(state);
        let Some(hold) = self.me.upgrade() else {
            return;
        };
        let sink: Arc<dyn Sink> = hold;
        let (ttl, block) = (self.terms.timing.ttl, self.fences.block);
        let confirm = |node| {
            count(&self.set.counters.write_backs);
            (node, Op::Confirm { ttl, fence, block })
        };
        self.send(less.into_iter().map(confirm), now, &sink);
    }
}
