//! What two requests for one lock are compared by: where a lease is entered again, and where it
//! is passed on.

use std::time::Duration;

/// What a lease was asked for with: of the options those that are `compared` where another
/// request meets the lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseOptions {
    // Made from core/options.toml: what is compared.
    /// Auto-release time on the nodes: how long the lock outlives a crashed holder.
    pub ttl: Duration,
    /// Whether the lease is renewed until it is released.
    pub renew: bool,
    /// The longest life of a lease, renewed or not.
    pub max_hold: Option<Duration>,
    /// Whether leases have a fence.
    pub fencing: bool,
    /// Whether every release goes over the nodes, where the waiters of all clients queue in their
    /// order.
    pub fair: bool,
    /// For how long the lock stays taken after it was won, also when it is released before: so
    /// that a job which every host starts at about the same time runs once.
    pub keep: Duration,
    // End of what is made.
}
