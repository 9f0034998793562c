//! What the bindings to other languages share, and a program in Rust does not need.

mod call;
mod election;
mod lease;
mod leases;
mod lock;
mod locks;
mod mailbox;
mod owned;
mod spawn;

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::blocking;
use crate::runtime::drive::SentRequests;
use crate::runtime::threads::without_signals;
use crate::runtime::wait::run;

pub use crate::binding::call::{CallBatch, Revocation, call, caught, start};
pub use crate::binding::mailbox::Mailbox;
pub use crate::binding::owned::Owned;
pub use crate::binding::spawn::{Steps, Task, Work, dispatch, shutdown, spawn};
pub use crate::election::Failures;
pub use crate::error::shown;
pub use crate::given::{check as check_shared, is_secret, shown as given};
pub use crate::mutex::lock;
pub use crate::process::{LazyValue, PerProcess, id as process_id};
pub use crate::runtime::cancel::CancelShield;
pub use crate::runtime::close_all;
pub use crate::runtime::threads::Mask;

/// Gone when the thread's own storage is: destructors of static objects in C++
/// run after that, and may well call us.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

thread_local! {
    static ALIVE: Alive = const { Alive };
}

/// Notes that the thread uses us; from then on its end is noticed.
pub fn entered() {
    let _ = ALIVE.try_with(|_| ());
}

/// As [`blocking::wait`], for a future that runs no foreign code; also on a thread that is about to
/// end.
pub fn wait<F: Future<Output: Send> + Send>(future: F) -> F::Output {
    if ALIVE.try_with(|_| ()).is_ok() {
        return run(future, None, SentRequests::with_the_wait())
            .expect("nothing interrupts this wait");
    }
    // The standard library has no parking place for this thread any more.
    thread::scope(|scope| {
        let waiting = without_signals(|| scope.spawn(|| blocking::wait(future)));
        waiting.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// As [`blocking::wait_or`], for a future that runs no foreign code. `interrupted` may.
pub fn wait_or<F: Future>(
    future: F,
    every: Duration,
    mut interrupted: impl FnMut() -> bool,
) -> Option<F::Output> {
    let interrupt = Some((every, &mut interrupted as _));
    run(future, interrupt, SentRequests::with_the_wait())
}

thread_local! {
    /// Without a destructor, so it can be had to the last.
    static HERE: u8 = const { 0 };
}

/// A number that no other living thread has.
pub fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// A place for one callback of a user's, which is over when it has been taken
/// back: what it works with may then be freed.
#[derive(Debug)]
pub struct CallbackSlot<C> {
    state: Mutex<CallbackState<C>>,
    idle: Condvar,
}

#[derive(Debug)]
struct CallbackState<C> {
    callback: Option<C>,
    /// The thread that runs it now.
    running: Option<usize>,
    /// No callback is taken any more.
    closed: bool,
}

impl<C> Default for CallbackSlot<C> {
    fn default() -> CallbackSlot<C> {
        CallbackSlot {
            state: Mutex::new(CallbackState {
                callback: None,
                running: None,
                closed: false,
            }),
            idle: Condvar::new(),
        }
    }
}

impl<C: Copy> CallbackSlot<C> {
    /// Replaces the callback. Returns when the previous callback is over. A callback that replaces
    /// itself is over when it returns.
    pub fn set(&self, callback: Option<C>) {
        let mut state = self.state();
        state.callback = callback.filter(|_| !state.closed);
        drop(self.others_over(state));
    }

    /// Takes the callback back for good: as [`set`](CallbackSlot::set) with none, and a callback that is
    /// set after this is never run.
    pub fn close(&self) {
        let mut state = self.state();
        state.callback = None;
        state.closed = true;
        drop(self.others_over(state));
    }

    /// Runs the callback, if there is one; with `once` it is taken out.
    pub fn run(&self, once: bool, call: impl FnOnce(C)) {
        let mut state = self.others_over(self.state());
        let callback = if once {
            state.callback.take()
        } else {
            state.callback
        };
        let Some(callback) = callback else {
            return;
        };
        state.running = Some(this_thread());
        drop(state);
        call(callback);
        self.state().running = None;
        self.idle.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, CallbackState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others_over<'a>(
        &self,
        state: MutexGuard<'a, CallbackState<C>>,
    ) -> MutexGuard<'a, CallbackState<C>> {
        let here = this_thread();
        self.idle
            .wait_while(state, |s| s.running.is_some_and(|thread| thread != here))
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    #[test]
    fn a_callback_is_over_when_it_is_taken_back() {
        let slot = CallbackSlot::default();
        let (told, hear) = channel();
        let (go_on, wait) = channel::<()>();
        slot.set(Some(1));
        thread::scope(|scope| {
            let slot = &slot;
            let telling = told.clone();
            scope.spawn(move || {
                slot.run(false, |one| {
                    telling.send(one).unwrap();
                    wait.recv().unwrap();
                    telling.send(2).unwrap();
                });
            });
            assert_eq!(hear.recv(), Ok(1));
            scope.spawn(move || {
                slot.set(None);
                told.send(3).unwrap();
            });
            // The callback still runs: the thread that takes it back has to wait.
            let early = hear.recv_timeout(Duration::from_millis(50));
            assert_eq!(early, Err(RecvTimeoutError::Timeout));
            go_on.send(()).unwrap();
            assert_eq!((hear.recv(), hear.recv()), (Ok(2), Ok(3)));
        });
        slot.run(false, |_| panic!("it was taken back"));
    }

    #[test]
    fn a_callback_can_take_itself_back_and_runs_once_if_so_asked() {
        let slot = CallbackSlot::default();
        slot.set(Some(()));
        slot.run(false, |()| slot.set(None));
        slot.run(false, |()| panic!("it was taken back"));
        slot.set(Some(()));
        slot.run(true, |()| {});
        slot.run(true, |()| panic!("it ran before"));
    }

    // Elsewhere the order in which a thread's storage goes is another.
    #[cfg(unix)]
    #[test]
    fn a_thread_that_has_lost_its_storage_can_wait() {
        struct Late(std::sync::mpsc::Sender<i32>);
        impl Drop for Late {
            fn drop(&mut self) {
                // Destroyed after `ALIVE`: what was made last goes first.
                assert!(ALIVE.try_with(|_| ()).is_err());
                self.0.send(wait(async { 7 })).unwrap();
            }
        }
        thread_local! {
            static LATE: std::cell::OnceCell<Late> = const { std::cell::OnceCell::new() };
        }
        let (told, hear) = std::sync::mpsc::channel();
        thread::spawn(move || {
            LATE.with(|late| late.set(Late(told)).ok());
            entered();
        });
        assert_eq!(hear.recv(), Ok(7));
    }
}
