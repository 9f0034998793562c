//! The times of one lock. Pure.

use std::time::Duration;

use crate::clock;

/// The times of one lock, all derived from its ttl and the client's settings.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Auto-release time on the nodes, in whole milliseconds.
    pub ttl: Duration,
    /// How long one confirmed request makes a vote count: ttl less drift.
    pub counted: Duration,
    /// What must be left of a lease when it is won.
    pub min_validity: Duration,
    /// Time for one request to one node.
    pub node_timeout: Duration,
}

impl Timing {
    /// The times for `ttl`, with `drift` and `min_validity` as fractions.
    pub fn of(ttl: Duration, drift: f64, min_validity: f64, node_timeout: Duration) -> Timing {
        Timing {
            ttl,
            counted: ttl.saturating_sub(clock::drift_allowance(ttl, drift)),
            min_validity: ttl.mul_f64(min_validity),
            node_timeout: node_timeout.min(ttl / 4),
        }
    }
}
