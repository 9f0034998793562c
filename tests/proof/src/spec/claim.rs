//! What a client makes of the answers to one token: "Votes", "Fences", "Rules".
//!
//! All moments are of the client's clock, in ns; 0 is before every moment.

use std::time::Duration;

use quorlock::sim::{Op, Reply, RequestContext};

/// More than half of the nodes.
pub fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The drift of a time: what of it is not counted on ("Timings").
pub fn drift_of(time: Duration, drift: f64) -> u64 {
    (nanos(time) as f64 * drift) as u64 + 2_000_000
}

/// For how long a vote of that length counts.
pub fn counted(time: Duration, drift: f64) -> u64 {
    nanos(time).saturating_sub(drift_of(time, drift))
}

/// A length in ns.
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

/// The vote of one node, as the client counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vote {
    /// Until when it counts.
    pub end: u64,
    /// The fence that the node stores for this token: its mark; 0 for none.
    pub mark: u64,
    /// The fence that was found there, which may be another's.
    pub found: u64,
    /// The node was asked without a candidate: what it answers is no mark.
    pub blind: bool,
    /// Until when it was counted last, whatever was said since, and by which server.
    pub confirmed: (u64, u64),
    /// When the request was sent that it came with first.
    pub since: u64,
}

impl Vote {
    /// The node is asked for it, with that candidate.
    pub fn ask(&mut self, candidate: u64) {
        self.blind |= candidate == 0;
        (self.mark, self.found) = (0, 0);
    }

    /// The node's clock has stepped forward by so many ns: its vote ends sooner.
    pub fn step(&mut self, by: u64) {
        self.end = self.end.saturating_sub(by);
        self.confirmed.0 = self.confirmed.0.saturating_sub(by);
    }

    /// Takes the node's answer.
    pub fn take(&mut self, ticket: &RequestContext, reply: &Reply, drift: f64) {
        let sent = ticket.sent.0;
        match reply {
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed => {
                let long = match (reply, ticket.op) {
                    (
                        Reply::Granted {
                            lasts: Some(lasts), ..
                        },
                        _,
                    ) => *lasts,
                    (_, Op::Acquire { ttl, .. } | Op::Extend { ttl, .. }) => ttl,
                    (_, Op::Confirm { ttl, .. }) => ttl,
                    _ => Duration::ZERO,
                };
                let end = sent + counted(long, drift);
                if self.end == 0 {
                    self.since = sent;
                }
                self.end = self.end.max(end);
                let (until, server) = self.confirmed;
                let until = if server == ticket.server {
                    until.max(end)
                } else {
                    end
                };
                self.confirmed = (until, ticket.server);
                match (reply, ticket.op) {
                    (Reply::Granted { fence, .. }, _) if self.blind => self.found = *fence,
                    (Reply::Granted { fence, .. }, _) => self.mark = *fence,
                    (Reply::Confirmed, Op::Confirm { fence, .. }) => self.mark = fence,
                    _ => {}
                }
            }
            Reply::Greater { fence } => self.found = self.found.max(*fence),
            // "What an answer of 0 counts for": a vote that is over.
            Reply::Refused { .. } | Reply::Taken | Reply::NotMine | Reply::Banned => self.end = 0,
            // Until the quarantine ends a lost vote counts, for no client is given it.
            Reply::Quarantined { left } => self.end = self.end.min(sent + counted(*left, drift)),
            _ => {}
        }
    }
}

/// The end of the lease that votes make: the quorum-th largest of their ends.
pub fn lease_end(votes: &[Vote]) -> u64 {
    let mut ends: Vec<u64> = votes.iter().map(|vote| vote.end).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends[quorum(votes.len()) - 1]
}

/// Whether a quorum of votes that last beyond `needed` bears this mark.
pub fn agreed(votes: &[Vote], fence: u64, needed: u64) -> bool {
    let bears = |vote: &&Vote| vote.end > needed && vote.mark == fence;
    votes.iter().filter(bears).count() >= quorum(votes.len())
}

/// The least fence that may be written back: the largest of all marks; beyond what was found, by all of the block; and where a
/// vote bears none, no less than the median.
pub fn least_written(votes: &[Vote], needed: u64, block: u32, median: u64) -> u64 {
    let good = || votes.iter().filter(|vote| vote.end > needed);
    let beyond = |vote: &Vote| match vote.found {
        0 => vote.mark,
        found => vote.mark.max(found + u64::from(block)),
    };
    let least = good().map(beyond).max().unwrap_or(0);
    if good().any(|vote| vote.mark == 0) {
        least.max(median)
    } else {
        least
    }
}
