//! What a client counts, and how it is awaited that nothing is under way.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use crate::clock::{Clock, Instant};
use crate::mutex::lock;
use crate::protocol::measures::Measures;
use crate::wakers::Wakers;

/// Counts of a client. All grow only, except the number of pending releases.
#[derive(Debug)]
pub struct Counters {
    pub(crate) measures: Measures,
    pub(crate) acquired: AtomicU64,
    pub(crate) reentered: AtomicU64,
    pub(crate) attempts_lost: AtomicU64,
    pub(crate) timeouts_awaited: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) repairs: AtomicU64,
    pub(crate) write_backs: AtomicU64,
    pub(crate) passed_on: AtomicU64,
    pub(crate) releases_pending: AtomicUsize,
    calls: AtomicUsize,
    idle: Mutex<Wakers>,
}

/// A call under way that may leave something on the nodes, until it is dropped.
pub(crate) struct CallCount<'a>(&'a Counters);

impl Drop for CallCount<'_> {
    fn drop(&mut self) {
        self.0.one_less(&self.0.calls);
    }
}

impl Counters {
    /// Of a client with this many nodes.
    pub(crate) fn new(nodes: usize) -> Counters {
        Counters {
            measures: Measures::new(nodes),
            acquired: AtomicU64::new(0),
            reentered: AtomicU64::new(0),
            attempts_lost: AtomicU64::new(0),
            timeouts_awaited: AtomicU64::new(0),
            released: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
            repairs: AtomicU64::new(0),
            write_backs: AtomicU64::new(0),
            passed_on: AtomicU64::new(0),
            releases_pending: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            idle: Mutex::default(),
        }
    }

    /// Leases that are held now.
    pub(crate) fn held(&self) -> u64 {
        // In this order: a lease that is won and ended meanwhile is not counted as ended alone.
        let ended = self.released.load(Ordering::Acquire) + self.lost.load(Ordering::Acquire);
        self.acquired.load(Ordering::Acquire).saturating_sub(ended)
    }

    /// Counts a call. A client that closes waits for the calls that were counted before they saw it
    /// open.
    pub(crate) fn call(&self) -> CallCount<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        CallCount(self)
    }

    /// A release has been acknowledged, or given up.
    pub(crate) fn release_done(&self) {
        self.one_less(&self.releases_pending);
    }

    /// Whether no call is under way and no release is pending.
    pub(crate) fn is_quiet(&self) -> bool {
        // In this order: a call that ends leaves a release.
        self.calls.load(Ordering::SeqCst) == 0 && self.releases_pending.load(Ordering::Acquire) == 0
    }

    fn one_less(&self, of: &AtomicUsize) {
        if of.fetch_sub(1, Ordering::AcqRel) == 1 {
            let wakers = lock(&self.idle).take();
            wakers.wake();
        }
    }

    /// Waits until no call is under way and no release is pending, and at most
    /// until `until`.
    pub(crate) async fn quiet(&self, clock: &dyn Clock, until: Instant) {
        let mut timer = clock.sleep_until(until);
        poll_fn(|cx| {
            let mut idle = lock(&self.idle);
            if self.is_quiet() || timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            idle.park(cx)
        })
        .await;
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
