//! What a claim reads of the world around it.

use std::time::Duration;

use crate::clock::Instant;
use crate::protocol::claim::LockParams;

/// What a decision reads beside the claim itself. The claim is locked while it reads, and nothing
/// here waits or sends. `draw_fence` draws: another call
/// would return another fence.
pub(crate) trait Env {
    /// What the lock asks for with the token.
    fn terms(&self) -> &LockParams;

    /// The number by which the node is weighed as a home: see [`order`](super::home::order).
    fn id(&self, node: usize) -> u64;

    /// Whether the node was connected to before, so that its id is known.
    fn is_met(&self, node: usize) -> bool;

    /// Whether the node is known to belong to the set.
    fn is_ours(&self, node: usize) -> bool;

    /// Whether the node failed to vote for the lock lately.
    fn is_out(&self, node: usize) -> bool;

    /// Whether it is in vain to wait for the node as the lock's home.
    fn is_late(&self, node: usize) -> bool;

    /// Whether the node failed to vote when it was asked last, however long ago.
    fn has_failed(&self, node: usize) -> bool;

    /// Whether others were seen lately that want the lock.
    fn is_contended(&self, now: Instant) -> bool;

    /// How far the node's clock has stepped forward so far, in µs.
    fn stepped(&self, node: usize) -> u64;

    /// Bounds on the `TIME` of the node's server that answered last, in µs, and which server that
    /// is; `None` while no time of it is known.
    fn node_time(&self, node: usize, now: Instant) -> Option<((u64, u64), u64)>;

    /// Bounds on the `TIME` of this server of the node, in µs.
    fn server_time(&self, node: usize, server: u64, now: Instant) -> Option<(u64, u64)>;

    /// The best guess of the `TIME` of the node's server that answered last, in µs, and which
    /// server that is.
    fn guess(&self, node: usize, now: Instant) -> Option<(u64, u64)>;

    /// Draws the fence to propose: the median of the nodes' clocks, beyond all that this client
    /// has proposed before; 0 where too few clocks are known.
    fn draw_fence(&self, now: Instant) -> u64;

    /// The longest ttl of any lock of the set.
    fn max_ttl(&self) -> Duration;

    /// The thread that the lease is bound to.
    fn thread(&self) -> BoundThread;
}

/// What has become of the thread that a lease is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundThread {
    /// It lives, or there is none.
    Alive,
    /// It has ended, and the lease is renewed no more.
    EndsLease,
    /// It has ended, the lease lives on, and its user is to be warned.
    Warns,
}
