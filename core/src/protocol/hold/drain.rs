//! Letting no more readers in, for one that wants the lock for itself.
//!
//! The home alone knows the line. Readers that win without the home's vote would keep such a
//! waiter out forever, so the one that stands first at the home reserves the lock on the
//! other nodes, with each of its polls. It has to be that one alone: if all did, their
//! reservations would split over the nodes, and readers would starve in their place. A
//! reservation carries no safety, and ends by itself.
//!
//! A reader with the home's vote passes it. The home has let that reader in before this waiter
//! was the first, and its requests to the other nodes may be on their way: refused there it would
//! leave both without a quorum until its attempt ends. The waiter does not starve for that: the
//! home lets no more readers in behind it, and a client that takes another node for the home asks
//! that one first, without any vote. A waiter that alone cannot reach the home waits longer:
//! readers win without the nodes in whose queues it stands, until its retries have queued it on
//! so many that no quorum is left to them. It leaves these queues with its attempt, so that
//! readers that hold the lock for longer, and always overlap, can keep it out.

use std::sync::Arc;
use std::time::Duration;

use super::Hold;
use super::votes::Phase;
use crate::clock::Instant;
use crate::node::{Op, Sink};

/// For how long: three polls of the first in a line. No longer than its ttl, for a client
/// that dies costs the others no more than that.
const LIFE: Duration = Duration::from_millis(1_800);

impl Hold {
    /// Reserves the lock on all nodes but the `home`.
    pub(crate) fn drain(&self, home: usize, now: Instant) {
        let mut state = self.state();
        if state.phase != Phase::Asking {
            return;
        }
        let others = (0..self.set.links.len()).filter(|node| *node != home);
        let others: Vec<usize> = others.filter(|node| !self.is_out(*node)).collect();
        // What is reserved there has to be taken back with the waiter's place.
        for node in &others {
            state.votes.nodes[*node].queued = true;
        }
        drop(state);
        if let Some(hold) = self.me.upgrade() {
            let sink: Arc<dyn Sink> = hold;
            let op = Op::Reserve {
                long: LIFE.min(self.terms.timing.ttl),
            };
            self.send(others.into_iter().map(|node| (node, op)), now, &sink);
        }
    }
}
