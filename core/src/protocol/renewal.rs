//! One watchdog for all leases of a client: it renews what is due and tells
//! what is over. It also ends the waits of attempts for their homes: a timer for
//! each would cost more than such a wait, which mostly ends with the home's answer.
//!
//! The decisions are [`ClaimCell::tend`]'s; here is only the order in which leases
//! come up. Renewals that are due together leave in one write per node,
//! because links gather what is sent in one turn. The nodes are given a bounded
//! number of renewals at a time, so that those of many leases that were won
//! together, or are late together because the process stood still, are
//! answered in time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Poll;

use crate::clock::{Clock, Instant};
use crate::mutex::lock;
use crate::protocol::claim::home::HomeWait;
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::set::Set;
use crate::wakers::Wakers;

/// See the [module documentation](self).
pub struct Watchdog {
    clock: Arc<dyn Clock>,
    state: Mutex<WatchdogState>,
}

struct WatchdogState {
    /// By the moment to look at them.
    due: BTreeMap<(Instant, u64), Arc<Entry>>,
    /// Attempts that wait for their homes, by the end of that. Those whose home has answered stay
    /// until the next look.
    home_waits: BTreeMap<(Instant, u64), Weak<dyn HomeWait>>,
    /// When [`Watchdog::run`] wakes up by itself.
    armed: Instant,
    runner: Wakers,
    closed: bool,
}

/// A lease under watch; names its place in the order.
pub(crate) struct Entry {
    hold: Arc<ClaimCell>,
    at: AtomicU64,
}

impl Watchdog {
    /// A watchdog that reads `clock`. It does nothing until it
    /// [runs](Watchdog::run).
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Watchdog> {
        let state = WatchdogState {
            due: BTreeMap::new(),
            home_waits: BTreeMap::new(),
            armed: Instant::FAR,
            runner: Wakers::default(),
            closed: false,
        };
        Arc::new(Watchdog {
            clock,
            state: Mutex::new(state),
        })
    }

    /// Watches over a lease until it is dead or [forgotten](WatchHandle).
    pub fn watch(self: &Arc<Self>, hold: Arc<ClaimCell>) -> WatchHandle {
        let entry = Arc::new(Entry {
            hold: hold.clone(),
            at: AtomicU64::new(Instant::FAR.0),
        });
        let (watchdog, watched) = (Arc::downgrade(self), Arc::downgrade(&entry));
        hold.on_earlier_look(move |by| {
            if let (Some(watchdog), Some(entry)) = (watchdog.upgrade(), watched.upgrade()) {
                watchdog.look_earlier(&entry, by);
            }
        });
        // A step that was seen between its winning and now.
        hold.stepped();
        self.insert(hold.first_look(), Instant::NEVER, entry.clone());
        WatchHandle {
            watchdog: self.clone(),
            entry,
        }
    }

    /// A lease is to be looked at by then, or by its end, which may have come nearer.
    fn look_earlier(&self, entry: &Arc<Entry>, by: Instant) {
        let mut state = lock(&self.state);
        let at = Instant(entry.at.load(Ordering::Relaxed));
        let known = state.due.remove(&(at, entry.hold.id));
        drop(state);
        // While it is tended it is not there, and inserted after.
        if let Some(entry) = known {
            self.insert(at.min(by), Instant::NEVER, entry);
        }
    }

    /// To be looked at by `at`, or at the end of the lease; not before `floor`.
    fn insert(&self, at: Instant, floor: Instant, entry: Arc<Entry>) {
        let mut state = lock(&self.state);
        // Read under the lock, so that no nearer end is missed.
        let end = entry.hold.end();
        let at = at.min(end).max(floor);
        entry.at.store(at.0, Ordering::Relaxed);
        state.due.insert((at, entry.hold.id), entry);
        arm(state, at);
    }

    /// Has the leases under watch shortened whenever a node's clock has
    /// stepped forward, and ends the waits for homes.
    pub fn serve(self: &Arc<Self>, set: &Set) {
        let watched = Arc::downgrade(self);
        set.on_step(move || {
            let leases = watched.upgrade().map(|w| w.leases());
            leases.iter().flatten().for_each(|hold| hold.stepped());
        });
        let watched = Arc::downgrade(self);
        set.on_home_wait(move |due, id, attempt| {
            if let Some(watchdog) = watched.upgrade() {
                let mut state = lock(&watchdog.state);
                state.home_waits.insert((due, id), attempt);
                arm(state, due);
            }
        });
    }

    /// The leases under watch.
    pub(crate) fn leases(&self) -> Vec<Arc<ClaimCell>> {
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
        self.end_home_waits(now);
        loop {
            let entry = {
                let mut state = lock(&self.state);
                if state.closed {
                    return None;
                }
                match state.due.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    first => {
                        let due = first.map_or(Instant::FAR, |f| f.key().0);
                        let next = match state.home_waits.first_key_value() {
                            Some(((home_due, _), _)) => due.min(*home_due),
                            None => due,
                        };
                        // A timer that rings too early only looks again, once in a
                        // while. Set anew for each lease that comes and goes, it
                        // would cost a wake-up each time.
                        if state.armed <= now || next < state.armed {
                            state.armed = next;
                        }
                        return Some(state.armed);
                    }
                }
            };
            if let Some(at) = entry.hold.may_wait().or_else(|| entry.hold.tend()) {
                // Always in the future, or this loop would not end.
                self.insert(at, Instant(now.0 + 1), entry);
            }
        }
    }

    /// Ends the waits that are over, and forgets those in front that ended by themselves: so the next
    /// look is due for an attempt that waits.
    fn end_home_waits(&self, now: Instant) {
        loop {
            let first = lock(&self.state).home_waits.pop_first();
            let Some((key, attempt)) = first else { return };
            let Some(waits) = attempt.upgrade() else {
                continue;
            };
            if key.0 <= now {
                waits.look_for_home(now);
            } else if waits.home_is_due() == Some(key.0) {
                lock(&self.state).home_waits.insert(key, attempt);
                return;
            }
        }
    }
}

/// Wakes the [runner](Watchdog::run) if it would sleep for longer.
fn arm(mut state: MutexGuard<'_, WatchdogState>, at: Instant) {
    if at < state.armed {
        state.armed = at;
        let wakers = state.runner.take();
        drop(state);
        wakers.wake();
    }
}

/// A lease under watch. Dropped, it is watched no more.
pub struct WatchHandle {
    watchdog: Arc<Watchdog>,
    entry: Arc<Entry>,
}

impl Drop for WatchHandle {
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

impl std::fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}
