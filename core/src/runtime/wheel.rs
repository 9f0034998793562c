//! Whose turn it is to drive the I/O, and what it is woken for: the state of
//! [`drive`](super::drive), which has the rules. It knows no runtime and reads no
//! clock, so that it is explored in all interleavings.

use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use crate::clock::Instant;
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use crate::wakers::Wakers;

/// How long the wheel may be free while no task asks for the I/O.
pub(super) const BREATH: Duration = Duration::from_millis(3);
/// How many breaths a caller may drive at a time.
pub(super) const TURN: u32 = 7;
/// How long callers leave the wheel to the I/O thread after there was more than
/// one to serve.
pub(super) const CROWDED: Duration = Duration::from_millis(50);

/// See the [module documentation](self). `R` is what the driving thread needs.
pub(super) struct Wheel<R> {
    pub(super) state: Mutex<WheelState<R>>,
    /// For the I/O thread while it stands aside.
    needed: Condvar,
    /// For a caller that asked the I/O thread to.
    given: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WheelHolder {
    NoThread,
    IoThread,
    Caller,
}

pub(super) struct WheelState<R> {
    /// Empty once it has ended.
    pub(super) runtime: Option<R>,
    pub(super) who: WheelHolder,
    /// How often callers took the wheel.
    drives: u64,
    /// Wakes the driving thread.
    driver: Option<Waker>,
    /// Tasks to be woken by the driving thread.
    rung: Vec<Waker>,
    /// Callers that wait and do not drive.
    pub(super) parked: usize,
    /// A caller asks the I/O thread to stand aside.
    asked: bool,
    /// The I/O thread is to have the wheel: a caller that drives leaves it.
    pub(super) wanted: bool,
    crowded_until: Instant,
    stop: bool,
    /// Nothing can be driven any more.
    broken: bool,
}

impl<R: Clone> Wheel<R> {
    /// The I/O thread has it.
    pub(super) fn new(runtime: R) -> Wheel<R> {
        Wheel {
            state: Mutex::new(WheelState {
                runtime: Some(runtime),
                who: WheelHolder::IoThread,
                drives: 0,
                driver: None,
                rung: Vec::new(),
                parked: 0,
                asked: false,
                wanted: false,
                crowded_until: Instant::NEVER,
                stop: false,
                broken: false,
            }),
            needed: Condvar::new(),
            given: Condvar::new(),
        }
    }

    pub(super) fn runtime(&self) -> Option<R> {
        lock(&self.state).runtime.clone()
    }

    /// The I/O thread drives: whether it has to stand aside. If not, it has woken what there was to
    /// wake, and more of it wakes `driver`.
    pub(super) fn is_asked_for(&self, driver: &Waker) -> bool {
        let state = lock(&self.state);
        if state.stop || state.asked {
            return true;
        }
        self.answer(state, driver);
        false
    }

    /// A caller drives: whether it has to leave. If not, as above.
    pub(super) fn is_wanted(&self, driver: &Waker) -> bool {
        let state = lock(&self.state);
        if state.wanted || state.broken {
            return true;
        }
        self.answer(state, driver);
        false
    }

    /// Has the driving thread look what there is to do.
    fn answer(&self, mut state: MutexGuard<'_, WheelState<R>>, waker: &Waker) {
        match &mut state.driver {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        let rung = std::mem::take(&mut state.rung);
        drop(state);
        rung.into_iter().for_each(Waker::wake);
    }

    /// The I/O thread leaves the wheel and waits until it has to take it, and
    /// takes it; false when it has to end.
    pub(super) fn stand_aside(&self) -> bool {
        let mut state = lock(&self.state);
        state.leave();
        state.asked = false;
        self.given.notify_all();
        let mut breaths = 0;
        loop {
            let seen = state.drives;
            let in_need = |s: &WheelState<R>| s.stop || s.wanted && s.who == WheelHolder::NoThread;
            state = wait_a_breath(&self.needed, state, |s| !in_need(s));
            if state.stop {
                return false;
            }
            breaths = if state.drives == seen { breaths + 1 } else { 0 };
            match state.who {
                WheelHolder::NoThread if state.wanted || breaths > 0 => {
                    state.who = WheelHolder::IoThread;
                    state.wanted = false;
                    return true;
                }
                WheelHolder::Caller if breaths > TURN => {
                    state.wanted = true;
                    state.wake_driver();
                }
                _ => {}
            }
        }
    }

    /// The I/O thread is to end.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stop = true;
        state.wake_driver();
        self.needed.notify_one();
    }

    /// Nothing can be driven any more: every thread that waits for the wheel goes.
    pub(super) fn break_down(&self) {
        let mut state = lock(&self.state);
        (state.broken, state.stop) = (true, true);
        state.rung.clear();
        state.wake_driver();
        self.needed.notify_one();
        self.given.notify_all();
    }

    /// It has ended. What it drove.
    pub(super) fn end(&self) -> Option<R> {
        lock(&self.state).runtime.take()
    }

    /// Has tasks woken by the driving thread.
    pub(super) fn ring(&self, wakers: Wakers, from_caller: bool, now: Instant) {
        let mut state = lock(&self.state);
        let idle = state.rung.is_empty();
        state.rung.extend(wakers);
        let first = idle && !state.rung.is_empty();
        if !from_caller || state.who == WheelHolder::Caller || state.parked > 0 {
            state.crowded_until = now + CROWDED;
        }
        match state.who {
            WheelHolder::IoThread if !first => {}
            WheelHolder::IoThread => state.wake_driver(),
            WheelHolder::Caller => {
                state.wanted = true;
                state.wake_driver();
            }
            WheelHolder::NoThread => {
                state.wanted = true;
                self.needed.notify_one();
            }
        }
    }

    /// For a caller that is alone: what it needs to drive. Waits for no more than
    /// a turn of the I/O thread.
    pub(super) fn take(&self, now: impl Fn() -> Instant) -> Option<R> {
        let mut state = lock(&self.state);
        loop {
            if state.broken {
                return None;
            }
            match state.who {
                WheelHolder::NoThread if !state.wanted && !state.stop => {
                    let runtime = state.runtime.clone()?;
                    state.who = WheelHolder::Caller;
                    state.drives += 1;
                    return Some(runtime);
                }
                WheelHolder::IoThread if state.is_quiet(&now) => {
                    state.asked = true;
                    state.wake_driver();
                    state = wait(&self.given, state);
                }
                _ => return None,
            }
        }
    }

    /// A caller has driven.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.leave();
        state.wanted |= state.parked > 0 || !state.rung.is_empty();
        if state.wanted {
            drop(state);
            self.needed.notify_one();
        }
    }

    /// A caller is going to wait and does not drive.
    pub(super) fn park(&self) {
        let mut state = lock(&self.state);
        state.parked += 1;
        if state.who == WheelHolder::NoThread {
            state.wanted = true;
            self.needed.notify_one();
        }
    }

    /// It has waited.
    pub(super) fn unpark(&self) {
        lock(&self.state).parked -= 1;
    }
}

impl<R> WheelState<R> {
    /// No thread but one blocking caller has needed the I/O for a while.
    fn is_quiet(&self, now: &impl Fn() -> Instant) -> bool {
        let alone = self.parked == 0 && !self.asked && !self.stop;
        alone && self.crowded_until <= now()
    }

    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    fn leave(&mut self) {
        self.who = WheelHolder::NoThread;
        self.driver = None;
    }
}

fn wait<'a, T>(condition: &Condvar, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Waits while `idle`, and at most for a [`BREATH`].
#[cfg(not(all(test, quorlock_loom)))]
fn wait_a_breath<'a, T>(
    condition: &Condvar,
    state: MutexGuard<'a, T>,
    idle: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    condition
        .wait_timeout_while(state, BREATH, |state| idle(state))
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

/// Without the end of a breath, of which loom knows nothing: no wake-up may depend on it.
#[cfg(all(test, quorlock_loom))]
fn wait_a_breath<'a, T>(
    condition: &Condvar,
    mut state: MutexGuard<'a, T>,
    idle: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    while idle(&state) {
        state = wait(condition, state);
    }
    state
}

#[cfg(all(test, quorlock_loom))]
mod loom_tests;
