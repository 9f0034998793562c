//! The set of nodes that vote together, and the seams to them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::fence;
use crate::mutants::mutant;
use crate::node::Link;
use crate::node::time::NodeTime;
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
    /// Bound on the difference of clock rates.
    pub drift: f64,
    /// What happened.
    pub counters: Counters,
    /// Where warnings go.
    pub warn: fn(String),
    clocks: Vec<NodeClock>,
    on_step: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What is known of one node's clock.
#[derive(Default)]
struct NodeClock {
    time: Mutex<NodeTime>,
    /// The sum of its forward steps, in µs.
    stepped: AtomicU64,
}

impl Set {
    /// A set of these nodes.
    pub fn new(
        links: Vec<Arc<dyn Link>>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        max_ttl: Duration,
        drift: f64,
        warn: fn(String),
    ) -> Set {
        Set {
            clocks: links.iter().map(|_| NodeClock::default()).collect(),
            links,
            clock,
            rng,
            max_ttl,
            drift,
            counters: Counters::default(),
            warn,
            on_step: OnceLock::new(),
        }
    }

    /// Calls `act` whenever a node's clock has stepped forward: the votes that
    /// it gave end earlier than they were counted.
    pub fn on_step(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_step.set(Box::new(act));
    }

    /// Takes a node's `TIME` into account, told between `sent` and `received`.
    pub(crate) fn observe(&self, node: usize, sent: Instant, received: Instant, time: u64) {
        let clock = &self.clocks[node];
        let step = lock(&clock.time).observe(sent, received, time, self.drift);
        let Some(step) = step else { return };
        count(&self.counters.clock_steps);
        (self.warn)(format!(
            "the clock of the node {} has stepped by about {} ms{}",
            self.links[node].shown(),
            step.0 / 1000,
            if step.0 > 0 {
                ": leases that stand on it are shortened by that"
            } else {
                ""
            }
        ));
        let forward = mutant!("steps-not-noticed", step.0, -1);
        if let Ok(forward) = u64::try_from(forward) {
            clock.stepped.fetch_add(forward, Ordering::AcqRel);
            if let Some(act) = self.on_step.get() {
                act();
            }
        }
    }

    /// How far a node's clock has stepped forward so far, in µs.
    pub(crate) fn stepped(&self, node: usize) -> u64 {
        self.clocks[node].stepped.load(Ordering::Acquire)
    }

    /// Bounds on a node's `TIME` at `now`, in µs.
    pub(crate) fn node_time(&self, node: usize, now: Instant) -> Option<(u64, u64)> {
        lock(&self.clocks[node].time).bounds(now, self.drift)
    }

    /// The fence to propose at `now`: see [`fence::candidate`].
    pub(crate) fn candidate(&self, now: Instant) -> u64 {
        let known = self.clocks.iter();
        let mut known: Vec<u64> = known
            .filter_map(|clock| lock(&clock.time).estimate(now))
            .collect();
        fence::candidate(&mut known, self.links.len())
    }
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
    pub(crate) clock_steps: AtomicU64,
    pub(crate) write_backs: AtomicU64,
    pub(crate) passed_on: AtomicU64,
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
