//! Locks a mutex also after a panic of the thread that held it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, poisoned or not: no code of ours leaves shared state torn
/// when it panics, and a second panic would only hide the first.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
