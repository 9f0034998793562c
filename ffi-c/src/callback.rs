//! A callback that C gave. It runs on the dispatcher thread, and is over when
//! it has been taken back.

use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::wait::this_thread;

/// Locks a mutex, poisoned or not.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pointer of the user's, handed back with every call.
#[derive(Clone, Copy)]
pub(crate) struct Userdata(pub(crate) *mut c_void);

// SAFETY: it is never looked at here; that another thread gets it back is what
// the header says.
unsafe impl Send for Userdata {}

/// A place for one callback of the type `C`.
pub(crate) struct Slot<C> {
    state: Mutex<State<C>>,
    idle: Condvar,
}

struct State<C> {
    callback: Option<(C, Userdata)>,
    /// The thread that runs it now.
    running: Option<usize>,
}

impl<C: Copy> Slot<C> {
    pub(crate) const fn new() -> Slot<C> {
        Slot { state: Mutex::new(State { callback: None, running: None }), idle: Condvar::new() }
    }

    /// Replaces the callback. Returns when the one before is over, unless it is
    /// that one which calls: then it is over when it returns.
    pub(crate) fn set(&self, callback: Option<(C, Userdata)>) {
        let mut state = lock(&self.state);
        state.callback = callback;
        drop(self.others_over(state));
    }

    /// Runs the callback, if there is one; with `once` it is taken out.
    pub(crate) fn run(&self, once: bool, call: impl FnOnce(C, *mut c_void)) {
        let mut state = self.others_over(lock(&self.state));
        let callback = match once {
            true => state.callback.take(),
            false => state.callback,
        };
        let Some((callback, userdata)) = callback else {
            return;
        };
        state.running = Some(this_thread());
        drop(state);
        call(callback, userdata.0);
        lock(&self.state).running = None;
        self.idle.notify_all();
    }

    fn others_over<'a>(&self, state: MutexGuard<'a, State<C>>) -> MutexGuard<'a, State<C>> {
        let here = this_thread();
        self.idle
            .wait_while(state, |s| s.running.is_some_and(|thread| thread != here))
            .unwrap_or_else(PoisonError::into_inner)
    }
}
