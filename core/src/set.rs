//! The set of nodes that vote together, and the seams to them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::node::Link;
use crate::sync::{Wakers, lock};
use crate::token::Rng;

/// What the protocol modules see of the world: links to the nodes, a clock,
/// and randomness.
pub struct Set {
    /// One link for each node, in the order of the node list.
    pub links: Vec<Arc<dyn Link>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// The longest ttl of any lock of the set: no vote outlives its last
    /// request by more.
    pub max_ttl: Duration,
    /// What happened.
    pub counters: Counters,
    /// Where warnings go.
    pub warn: fn(String),
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.links.iter().map(|link| link.shown()).collect();
        f.debug_struct("Set").field("nodes", &nodes).finish()
    }
}

/// Counts of a client. All grow only, except the number of pending releases.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) acquired: AtomicU64,
    pub(crate) reentered: AtomicU64,
    pub(crate) attempts_lost: AtomicU64,
    pub(crate) timeouts_awaited: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) repairs: AtomicU64,
    pub(crate) releases_pending: AtomicUsize,
    idle: Mutex<Wakers>,
}

impl Counters {
    /// A release has been acknowledged, or given up.
    pub(crate) fn release_done(&self) {
        if self.releases_pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let wakers = lock(&self.idle).take();
            wakers.wake();
        }
    }

    /// Waits until no release is pending, and at most until `until`.
    pub(crate) async fn quiet(&self, clock: &dyn Clock, until: Instant) {
        let mut timer = clock.sleep_until(until);
        poll_fn(|cx| {
            let mut idle = lock(&self.idle);
            if self.releases_pending.load(Ordering::Acquire) == 0
                || timer.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(());
            }
            idle.park(cx)
        })
        .await;
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
