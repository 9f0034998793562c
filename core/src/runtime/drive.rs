//! Who drives the I/O of the process.
//!
//! All I/O runs on one tokio runtime, and one thread at a time drives it: at
//! rest the I/O thread, which sleeps there until something happens. A hop to it
//! and back costs a blocking caller more than all the rest of an operation, so a
//! caller that is alone asks for the wheel, and drives until its own wait is
//! over. The rules:
//!
//! - **The wheel is never free for long.** The I/O thread stands aside when it is
//!   asked to, and looks every [`BREATH`]: it takes a wheel that nobody took since
//!   it looked last, so a timer is late by twice that at most. At once, if there
//!   is anybody else to serve.
//! - **Alone, or not at all.** Whoever else sends something, async or blocking,
//!   has the wheel handed to the I/O thread, which keeps it for [`CROWDED`].
//! - **Not for long.** A caller that waits for more than [`TURN`] is no better
//!   off at the wheel: it is asked to leave, and parks.
//! - **No foreign code at the wheel.** A caller drives within [`Sent::wait`]
//!   alone. The future that it waits for, a signal handler, an interpreter:
//!   they run when it has left.
//! - The wheel is a guard: a panic gives it back too.
//!
//! Beside it the doorbell: tasks that are woken from outside of the runtime are
//! given to whoever drives ([`Driver::wake`]), those of one fan-out in one.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

use crate::clock::{Instant, system_now};
use crate::mutex::lock;
use crate::runtime::parked::Parked;
use crate::wakers::Wakers;

/// How long the wheel may be free while nobody asks for the I/O.
const BREATH: Duration = Duration::from_millis(3);
/// How many breaths a caller may drive at a time.
const TURN: u32 = 7;
/// How long callers leave the wheel to the I/O thread after there was more than
/// one to serve.
const CROWDED: Duration = Duration::from_millis(50);
/// A name that is being looked up is not waited for when the runtime ends.
const FAREWELL: Duration = Duration::from_millis(100);

/// The runtime, and the wheel.
pub(crate) struct Driver {
    handle: Handle,
    state: Mutex<State>,
    /// For the I/O thread while it stands aside.
    needed: Condvar,
    /// For a caller that asked the I/O thread to.
    given: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    IoThread,
    Caller,
}

struct State {
    /// Empty once it has ended.
    runtime: Option<Arc<Runtime>>,
    who: Who,
    /// How often callers took the wheel.
    drives: u64,
    /// Wakes who drives.
    driver: Option<Waker>,
    /// Tasks to be woken by who drives.
    rung: Vec<Waker>,
    /// Callers that wait and do not drive.
    parked: usize,
    /// A caller asks the I/O thread to stand aside.
    asked: bool,
    /// The I/O thread is to have the wheel: a caller that drives leaves it.
    wanted: bool,
    crowded_until: Instant,
    stop: bool,
}

thread_local! {
    /// This thread drives.
    static AT_WHEEL: Cell<bool> = const { Cell::new(false) };
    /// This thread polls what a blocking call waits for, and may drive.
    static MAY_DRIVE: Cell<bool> = const { Cell::new(false) };
    /// What a blocking call has sent through, if anything.
    static USED: Cell<Option<&'static Driver>> = const { Cell::new(None) };
}

impl Driver {
    /// Makes the runtime. [`run`](Driver::run) is for the I/O thread.
    pub(crate) fn new() -> std::io::Result<Driver> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("quorlock-dns")
            .max_blocking_threads(4)
            .build()?;
        Ok(Driver {
            handle: runtime.handle().clone(),
            state: Mutex::new(State {
                runtime: Some(Arc::new(runtime)),
                who: Who::IoThread,
                drives: 0,
                driver: None,
                rung: Vec::new(),
                parked: 0,
                asked: false,
                wanted: false,
                crowded_until: Instant::NEVER,
                stop: false,
            }),
            needed: Condvar::new(),
            given: Condvar::new(),
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Drives whenever no caller does, until [stopped](Driver::stop).
    pub(crate) fn run(&self) {
        loop {
            let Some(runtime) = lock(&self.state).runtime.clone() else {
                return;
            };
            at_wheel(|| {
                runtime.block_on(poll_fn(|cx| {
                    let state = lock(&self.state);
                    if state.stop || state.asked {
                        return Poll::Ready(());
                    }
                    self.answer(state, cx.waker());
                    Poll::Pending
                }));
            });
            drop(runtime);
            let mut state = lock(&self.state);
            state.leave();
            state.asked = false;
            self.given.notify_all();
            if !self.stand_aside(state) {
                break;
            }
        }
        // No other call is under way then; if one is, its runtime is left to it.
        let runtime = lock(&self.state).runtime.take();
        match runtime.map(Arc::try_unwrap) {
            Some(Ok(runtime)) => runtime.shutdown_timeout(FAREWELL),
            Some(Err(shared)) => std::mem::forget(shared),
            None => {}
        }
    }

    /// Waits until the I/O thread has to take the wheel, and takes it; false
    /// when it has to end.
    fn stand_aside(&self, mut state: MutexGuard<'_, State>) -> bool {
        let mut breaths = 0;
        loop {
            let seen = state.drives;
            let in_need = |s: &State| s.stop || s.wanted && s.who == Who::Nobody;
            state = self
                .needed
                .wait_timeout_while(state, BREATH, |s| !in_need(s))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if state.stop {
                return false;
            }
            breaths = if state.drives == seen { breaths + 1 } else { 0 };
            match state.who {
                Who::Nobody if state.wanted || breaths > 0 => {
                    state.who = Who::IoThread;
                    state.wanted = false;
                    return true;
                }
                Who::Caller if breaths > TURN => {
                    state.wanted = true;
                    state.wake_driver();
                }
                _ => {}
            }
        }
    }

    /// Ends [`run`](Driver::run).
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stop = true;
        state.wake_driver();
        self.needed.notify_one();
    }

    /// Tells whoever drives that there is work from elsewhere.
    pub(crate) fn notice(&self) {
        if !AT_WHEEL.get() {
            self.ring(Wakers::default(), false);
        }
    }

    /// Wakes tasks of the runtime from wherever this is: at this thread's own
    /// wheel if it is a blocking caller and alone, else by who drives. Without any
    /// task it is told all the same that there is something to drive.
    pub(crate) fn wake(&'static self, wakers: Wakers) {
        if AT_WHEEL.get() {
            return wakers.wake();
        }
        if !MAY_DRIVE.get() {
            return self.ring(wakers, false);
        }
        USED.set(Some(self));
        match self.take() {
            Some(wheel) => wheel.pass(wakers),
            None => self.ring(wakers, true),
        }
    }

    fn ring(&self, wakers: Wakers, from_caller: bool) {
        let mut state = lock(&self.state);
        let idle = state.rung.is_empty();
        state.rung.extend(wakers);
        let first = idle && !state.rung.is_empty();
        if !from_caller || state.who == Who::Caller || state.parked > 0 {
            state.crowded_until = system_now() + CROWDED;
        }
        match state.who {
            Who::IoThread if !first => {}
            Who::IoThread => state.wake_driver(),
            Who::Caller => {
                state.wanted = true;
                state.wake_driver();
            }
            Who::Nobody => {
                state.wanted = true;
                self.needed.notify_one();
            }
        }
    }

    /// Who drives looks what there is to do.
    fn answer(&self, mut state: MutexGuard<'_, State>, waker: &Waker) {
        match &mut state.driver {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        let rung = std::mem::take(&mut state.rung);
        drop(state);
        rung.into_iter().for_each(Waker::wake);
    }

    /// The wheel, if this caller is alone. Waits for no more than a turn of the
    /// I/O thread.
    fn take(&self) -> Option<Wheel<'_>> {
        // A thread within a runtime of its own cannot drive another, nor can one
        // whose thread-local storage is gone.
        if !matches!(Handle::try_current(), Err(none) if none.is_missing_context()) {
            return None;
        }
        let mut state = lock(&self.state);
        loop {
            match state.who {
                Who::Nobody if !state.wanted && !state.stop => {
                    let runtime = state.runtime.clone()?;
                    state.who = Who::Caller;
                    state.drives += 1;
                    return Some(Wheel {
                        driver: self,
                        runtime: Some(runtime),
                    });
                }
                Who::IoThread if state.is_quiet() => {
                    state.asked = true;
                    state.wake_driver();
                    state = wait(&self.given, state);
                }
                _ => return None,
            }
        }
    }
}

impl State {
    /// Nobody but one blocking caller has needed the I/O for a while.
    fn is_quiet(&self) -> bool {
        let alone = self.parked == 0 && !self.asked && !self.stop;
        alone && self.crowded_until <= system_now()
    }

    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    fn leave(&mut self) {
        self.who = Who::Nobody;
        self.driver = None;
    }
}

/// The right to drive. Dropped, it is free.
struct Wheel<'a> {
    driver: &'a Driver,
    runtime: Option<Arc<Runtime>>,
}

impl Wheel<'_> {
    /// Wakes tasks and lets them do what they can at once.
    fn pass(&self, wakers: Wakers) {
        let mut wakers = Some(wakers);
        self.drive(poll_fn(|cx| match wakers.take() {
            Some(wakers) => {
                wakers.wake();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        }));
    }

    /// Drives until `parked` is woken, and at most until the wheel is wanted.
    fn wait(&self, parked: &Parked) {
        self.drive(poll_fn(|cx| {
            if parked.is_woken(cx.waker()) {
                return Poll::Ready(());
            }
            let state = lock(&self.driver.state);
            if state.wanted {
                return Poll::Ready(());
            }
            self.driver.answer(state, cx.waker());
            Poll::Pending
        }));
        parked.forget_driver();
    }

    fn drive(&self, future: impl Future<Output = ()>) {
        let runtime = self.runtime.as_ref().expect("emptied by drop only");
        at_wheel(|| runtime.block_on(pin!(future)));
    }
}

impl Drop for Wheel<'_> {
    fn drop(&mut self) {
        // First: the I/O thread may end the runtime once the wheel is free.
        self.runtime = None;
        let mut state = lock(&self.driver.state);
        state.leave();
        state.wanted |= state.parked > 0 || !state.rung.is_empty();
        if state.wanted {
            drop(state);
            self.driver.needed.notify_one();
        }
    }
}

fn at_wheel<T>(drive: impl FnOnce() -> T) -> T {
    struct Leave(cancel::State);
    impl Drop for Leave {
        fn drop(&mut self) {
            AT_WHEEL.set(false);
            cancel::set(self.0);
        }
    }
    AT_WHEEL.set(true);
    let _leave = Leave(cancel::set(cancel::DISABLED));
    drive()
}

/// POSIX cancellation. A thread of a C program that is cancelled in a system call
/// of the I/O would be unwound through it; so it is cancelled when it has left.
mod cancel {
    pub(super) type State = libc::c_int;
    /// `PTHREAD_CANCEL_DISABLE`, which libc does not name everywhere.
    pub(super) const DISABLED: State = if cfg!(target_os = "linux") { 1 } else { 0 };

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    unsafe extern "C" {
        fn pthread_setcancelstate(new: State, old: *mut State) -> libc::c_int;
    }

    /// Sets the calling thread's state and returns the one before.
    pub(super) fn set(state: State) -> State {
        #[cfg_attr(
            not(any(target_os = "linux", target_vendor = "apple")),
            allow(unused_mut)
        )]
        let mut before = state;
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        // SAFETY: `before` is an int to write to.
        unsafe {
            pthread_setcancelstate(state, &mut before)
        };
        before
    }
}

fn wait<'a, T>(condition: &Condvar, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

/// What a blocking call has sent so far, and with it how to wait for more.
pub(crate) struct Sent(Option<&'static Driver>);

impl Sent {
    pub(crate) fn nothing() -> Sent {
        Sent(None)
    }

    /// Polls what the call waits for.
    pub(crate) fn by<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        struct Before(bool, Option<&'static Driver>);
        impl Drop for Before {
            fn drop(&mut self) {
                MAY_DRIVE.set(self.0);
                USED.set(self.1);
            }
        }
        let _before = Before(MAY_DRIVE.replace(true), USED.replace(self.0));
        let output = poll();
        self.0 = USED.get();
        output
    }

    /// Waits until `parked` is woken, at most for `limit`, or less: at the wheel
    /// if it can be had.
    pub(crate) fn wait(&self, parked: &Parked, limit: Option<Duration>) {
        let Some(driver) = self.0 else {
            return parked.park(limit);
        };
        // At the wheel there is no timer but the end of a turn.
        if limit.is_none_or(|limit| limit > BREATH * (TURN + 1))
            && let Some(wheel) = driver.take()
        {
            return wheel.wait(parked);
        }
        let mut state = lock(&driver.state);
        state.parked += 1;
        if state.who == Who::Nobody {
            state.wanted = true;
            driver.needed.notify_one();
        }
        drop(state);
        parked.park(limit);
        lock(&driver.state).parked -= 1;
    }
}

#[cfg(test)]
mod tests;
