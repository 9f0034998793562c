//! What has happened and JavaScript does not know yet. One per environment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use quorlock::Error;

/// Calls JavaScript from any thread; does not keep its event loop alive.
pub(crate) type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

/// What an operation comes to.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    Lease(Option<crate::lease::Lease>),
}

pub(crate) enum Event {
    /// An operation is over.
    Done(i64, Result<Value, Error>),
    /// A lease may be lost, named by the number of the operation that won it.
    Lost(i64),
    /// A log line, and whether it is a warning.
    Log(bool, String),
}

pub(crate) struct Queue {
    state: Mutex<State>,
    bell: Bell,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    closed: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    pub(crate) fn new(bell: Bell) -> Arc<Queue> {
        Arc::new(Queue {
            state: Mutex::default(),
            bell,
        })
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Called on the I/O thread: it blocks on nothing that JavaScript holds.
    pub(crate) fn push(&self, event: Event) {
        let mut state = lock(&self.state);
        if state.closed {
            // Dropped after the lock: dropping a lease takes others.
            drop(state);
            return drop(event);
        }
        let first = state.events.is_empty();
        state.events.push(event);
        drop(state);
        if first {
            // A bell that is gone belongs to an environment that is gone.
            self.bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.state).events)
    }

    /// The environment ends: a lease that nobody took is released.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        drop(self.take());
    }
}
