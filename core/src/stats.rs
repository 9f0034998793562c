//! The counters of a client, and their names.

/// Counts of a client since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    // Made from core/vocabulary.toml: counts.
    /// Leases won.
    pub acquired: u64,
    /// Acquisitions that were re-entries.
    pub reentered: u64,
    /// Attempts that did not win, each undone.
    pub attempts_lost: u64,
    /// Rounds that a node's timeout decided: no quorum had answered before.
    pub timeouts_awaited: u64,
    /// Leases released while held.
    pub released: u64,
    /// Leases lost.
    pub lost: u64,
    /// Votes renewed.
    pub renewals: u64,
    /// Votes that were missing and have been stored anew.
    pub repairs: u64,
    /// Releases that nodes have not acknowledged yet. Falls too.
    pub releases_pending: u64,
    /// Steps seen of nodes' clocks.
    pub clock_steps: u64,
    /// Fences written back to a node because the votes disagreed.
    pub write_backs: u64,
    /// Releases given up because too many waited for a node; their keys end by themselves.
    pub releases_dropped: u64,
    /// Connections made to nodes.
    pub connects: u64,
    /// Calls that wait in a line now, behind the one that asks the nodes or holds the lock. Falls
    /// too.
    pub waiting: u64,
    /// Leases that were released and went to the next in line of this client without a request.
    pub passed_on: u64,
    /// Calls that stand in the queue of a node now, among those of all clients: at most one for
    /// each lock. Falls too.
    pub queued: u64,
    /// Waiters of other clients before the last of those, as far as the node has said. Falls too.
    pub ahead: u64,
    /// Messages that named no waiter, or that no node sends: late, or forged.
    pub stray_messages: u64,
    // End of what is made.
}

impl Stats {
    /// What stays of a client that is gone: what only grows.
    pub(crate) fn past(mut self) -> Stats {
        (self.releases_pending, self.waiting) = (0, 0);
        (self.queued, self.ahead) = (0, 0);
        self
    }

    /// Adds what another client has counted.
    pub(crate) fn add(&mut self, other: &Stats) {
        for (mine, (_, more)) in self.all_mut().into_iter().zip(other.named()) {
            *mine += more;
        }
    }
}

// Made from core/vocabulary.toml: lists of counts.
impl Stats {
    /// In the order of [`named`](Stats::named).
    fn all_mut(&mut self) -> [&mut u64; 18] {
        [
            &mut self.acquired,
            &mut self.reentered,
            &mut self.attempts_lost,
            &mut self.timeouts_awaited,
            &mut self.released,
            &mut self.lost,
            &mut self.renewals,
            &mut self.repairs,
            &mut self.releases_pending,
            &mut self.clock_steps,
            &mut self.write_backs,
            &mut self.releases_dropped,
            &mut self.connects,
            &mut self.waiting,
            &mut self.passed_on,
            &mut self.queued,
            &mut self.ahead,
            &mut self.stray_messages,
        ]
    }

    /// For bindings: the counts with their names.
    #[doc(hidden)]
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("acquired", self.acquired),
            ("reentered", self.reentered),
            ("attempts_lost", self.attempts_lost),
            ("timeouts_awaited", self.timeouts_awaited),
            ("released", self.released),
            ("lost", self.lost),
            ("renewals", self.renewals),
            ("repairs", self.repairs),
            ("releases_pending", self.releases_pending),
            ("clock_steps", self.clock_steps),
            ("write_backs", self.write_backs),
            ("releases_dropped", self.releases_dropped),
            ("connects", self.connects),
            ("waiting", self.waiting),
            ("passed_on", self.passed_on),
            ("queued", self.queued),
            ("ahead", self.ahead),
            ("stray_messages", self.stray_messages),
        ]
    }
}
// End of what is made.

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_added_to_its_own() {
        let mut stats = Stats::default();
        for (value, place) in (1..).zip(stats.all_mut()) {
            *place = value;
        }
        let mut sum = stats.clone();
        sum.add(&stats);
        for ((value, (name, one)), (_, two)) in (1..).zip(stats.named()).zip(sum.named()) {
            assert_eq!((one, two), (value, 2 * value), "{name}");
        }
    }
}
