//! The locks of what is explored in all interleavings: the system's, or, built
//! with `--cfg quorlock_loom`, those of loom (`tests/loom.py`).

#[cfg(not(all(test, quorlock_loom)))]
pub(crate) use crate::mutex::lock;
#[cfg(not(all(test, quorlock_loom)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, quorlock_loom))]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

/// As [`crate::mutex::lock`]; loom poisons nothing.
#[cfg(all(test, quorlock_loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("not poisoned")
}

/// For the tests under loom: threads that wait for wake-ups, and seeded bugs
/// that have to be found.
#[cfg(all(test, quorlock_loom))]
pub(crate) mod explore;
