//! One watchdog for all leases of a client: it renews what is due and tells
//! what is over.
//!
//! The decisions are [`Hold::tend`]'s; here is only the order in which leases
//! come up. Renewals that are due together leave in one write per node,
//! because links gather what is sent in one turn.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::clock::{Clock, Instant};
use crate::round::Hold;
use crate::sync::{Wakers, lock};

/// See the [module documentation](self).
pub struct Watchdog {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    /// By the moment to look at them.
    due: BTreeMap<(Instant, u64), Arc<Entry>>,
    /// When [`Watchdog::run`] wakes up by itself.
    armed: Instant,
    runner: Wakers,
    closed: bool,
}

/// A lease under watch; names its place in the order.
pub(crate) struct Entry {
    hold: Arc<Hold>,
    at: AtomicU64,
}

impl Watchdog {
    /// A watchdog that reads `clock`. It does nothing until it
    /// [runs](Watchdog::run).
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Watchdog> {
        let state = State {
            due: BTreeMap::new(),
            armed: Instant::FAR,
            runner: Wakers::default(),
            closed: false,
        };
        Arc::new(Watchdog {
            clock,
            state: Mutex::new(state),
        })
    }

    /// Watches over a lease until it is dead or [forgotten](Watched).
    pub fn watch(self: &Arc<Self>, hold: Arc<Hold>) -> Watched {
        let at = hold.first_look();
        let entry = Arc::new(Entry {
            hold,
            at: AtomicU64::new(at.0),
        });
        self.insert(at, entry.clone());
        Watched {
            watchdog: self.clone(),
            entry,
        }
    }

    fn insert(&self, at: Instant, entry: Arc<Entry>) {
        let mut state = lock(&self.state);
        entry.at.store(at.0, Ordering::Relaxed);
        state.due.insert((at, entry.hold.id), entry);
        if at < state.armed {
            state.armed = at;
            let wakers = state.runner.take();
            drop(state);
            wakers.wake();
        }
    }

    /// The leases under watch.
    pub(crate) fn leases(&self) -> Vec<Arc<Hold>> {
        let state = lock(&self.state);
        state.due.values().map(|e| e.hold.clone()).collect()
    }

    /// Ends [`run`](Watchdog::run).
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let wakers = state.runner.take();
        drop(state);
        wakers.wake();
    }

    /// Watches until [closed](Watchdog::close).
    pub async fn run(self: Arc<Self>) {
        loop {
            let Some(next) = self.look() else { return };
            let mut timer = (next < Instant::FAR).then(|| self.clock.sleep_until(next));
            // Ends when the timer does, or when something earlier is due.
            poll_fn(|cx| {
                if let Some(Poll::Ready(())) = timer.as_mut().map(|t| t.as_mut().poll(cx)) {
                    return Poll::Ready(());
                }
                let mut state = lock(&self.state);
                if state.closed || state.armed < next {
                    return Poll::Ready(());
                }
                state.runner.park(cx)
            })
            .await;
        }
    }

    /// Tends what is due. Returns when the next lease is, `None` once closed.
    fn look(&self) -> Option<Instant> {
        let now = self.clock.now();
        loop {
            let entry = {
                let mut state = lock(&self.state);
                if state.closed {
                    return None;
                }
                match state.due.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    first => {
                        state.armed = first.map_or(Instant::FAR, |f| f.key().0);
                        return Some(state.armed);
                    }
                }
            };
            if let Some(at) = entry.hold.tend() {
                // Always in the future, or this loop would not end.
                self.insert(at.max(Instant(now.0 + 1)), entry);
            }
        }
    }
}

/// A lease under watch. Dropped, it is watched no more.
pub struct Watched {
    watchdog: Arc<Watchdog>,
    entry: Arc<Entry>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = lock(&self.watchdog.state);
        let at = Instant(self.entry.at.load(Ordering::Relaxed));
        state.due.remove(&(at, self.entry.hold.id));
    }
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watchdog")
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}
