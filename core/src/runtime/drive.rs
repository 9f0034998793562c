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
//!   has the wheel handed to the I/O thread, which keeps it for
//!   [`CROWDED`](super::wheel::CROWDED).
//! - **Not for long.** A caller that waits for more than [`TURN`] is no better
//!   off at the wheel: it is asked to leave, and parks.
//! - **An event loop drives in steps.** One with a single call under way begins it
//!   and reads the answers on its own thread ([`Driver::step`]), and never waits
//!   there: it is told by [`sockets`](super::sockets) when there is something to
//!   read. A loop that is blocked leaves a free wheel, which is the first rule's.
//! - **No foreign code at the wheel.** A caller drives within [`Sent::wait`]
//!   and [`Driver::step`] alone. The future that it waits for, a signal handler, an interpreter:
//!   they run when it has left.
//! - The wheel is a guard: a panic gives it back too.
//!
//! Whose turn it is, is decided in [`wheel`](super::wheel). There is the doorbell,
//! too: tasks that are woken from outside of the runtime are given to whoever
//! drives ([`Driver::wake`]), those of one fan-out in one.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

use crate::clock::system_now;
use crate::runtime::cancel::Uncancelled;
use crate::runtime::parked::Parked;
use crate::runtime::sockets::Sockets;
use crate::runtime::wheel::{BREATH, TURN, Wheel};
use crate::wakers::Wakers;

/// The runtime, and the wheel.
pub(crate) struct Driver {
    handle: Handle,
    wheel: Wheel<Arc<Runtime>>,
    /// For event loops.
    pub(crate) sockets: Sockets,
}

/// Something to be begun there.
pub(crate) type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

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
            .build()?;
        Ok(Driver {
            handle: runtime.handle().clone(),
            wheel: Wheel::new(Arc::new(runtime)),
            sockets: Sockets::new()?,
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Drives whenever no caller does, until [stopped](Driver::stop).
    pub(crate) fn run(&self) {
        loop {
            let Some(runtime) = self.wheel.runtime() else {
                return;
            };
            self.sockets.disarm();
            at_wheel(|| {
                runtime.block_on(poll_fn(|cx| match self.wheel.is_asked_for(cx.waker()) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }));
            });
            drop(runtime);
            if !self.wheel.stand_aside() {
                break;
            }
        }
        // No other call is under way then; if one is, its runtime is left to it.
        match self.wheel.end().map(Arc::try_unwrap) {
            Some(Ok(runtime)) => drop(runtime),
            Some(Err(shared)) => std::mem::forget(shared),
            None => {}
        }
    }

    /// Ends [`run`](Driver::run).
    pub(crate) fn stop(&self) {
        self.wheel.stop();
    }

    /// Tells whoever drives that there is work from elsewhere.
    pub(crate) fn notice(&self) {
        if !AT_WHEEL.get() {
            self.wheel.ring(Wakers::default(), false, system_now());
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
            return self.wheel.ring(wakers, false, system_now());
        }
        USED.set(Some(self));
        match self.take() {
            Some(turn) => turn.pass(wakers),
            None => self.wheel.ring(wakers, true, system_now()),
        }
    }

    /// For the thread of an event loop, if it is alone: begins these calls, or reads what
    /// there is to read, and lets the tasks do what they can at once. It waits for nothing
    /// but a turn of the I/O thread. From then on the loop is told what comes, by the
    /// [descriptor](Sockets::descriptor), until the I/O thread drives again: a loop that
    /// does not come back for a breath leaves it all to that. Gives the calls back if it is
    /// not alone.
    pub(crate) fn step(&self, calls: Vec<Call>) -> Result<(), Vec<Call>> {
        match self.take() {
            Some(turn) => {
                turn.step(calls);
                Ok(())
            }
            None => Err(calls),
        }
    }

    /// The wheel, if this caller is alone. Waits for no more than a turn of the
    /// I/O thread.
    fn take(&self) -> Option<Turn<'_>> {
        // A thread within a runtime of its own cannot drive another, nor can one
        // whose thread-local storage is gone.
        if !matches!(Handle::try_current(), Err(none) if none.is_missing_context()) {
            return None;
        }
        let runtime = self.wheel.take(system_now)?;
        Some(Turn {
            driver: self,
            runtime: Some(runtime),
        })
    }
}

/// The right to drive. Dropped, it is free.
struct Turn<'a> {
    driver: &'a Driver,
    runtime: Option<Arc<Runtime>>,
}

impl Turn<'_> {
    /// Wakes tasks and lets them do what they can at once.
    fn pass(&self, wakers: Wakers) {
        self.driver.sockets.disarm();
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

    /// Lets what there is to read reach its tasks, and what these wake.
    fn step(&self, calls: Vec<Call>) {
        let sockets = &self.driver.sockets;
        sockets.arm();
        // The first poll begins the calls, or has the sockets looked at; behind the last one
        // no task is left that was woken by then.
        let mut polls = if calls.is_empty() { 3 } else { 2 };
        if calls.is_empty() {
            sockets.clear();
        }
        let mut calls = Some(calls);
        self.drive(poll_fn(|cx| {
            for call in calls.take().unwrap_or_default() {
                drop(tokio::spawn(call));
            }
            // Wakes what others have rung for. Whether the wheel is wanted is no matter: it is left at once.
            self.driver.wheel.is_wanted(cx.waker());
            polls -= 1;
            if polls == 0 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    /// Drives until `parked` is woken, and at most until the wheel is wanted.
    fn wait(&self, parked: &Parked) {
        self.driver.sockets.disarm();
        self.drive(poll_fn(|cx| {
            if parked.is_woken(cx.waker()) {
                return Poll::Ready(());
            }
            match self.driver.wheel.is_wanted(cx.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        parked.forget_driver();
    }

    fn drive(&self, future: impl Future<Output = ()>) {
        let runtime = self.runtime.as_ref().expect("emptied by drop only");
        at_wheel(|| runtime.block_on(pin!(future)));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // First: the I/O thread may end the runtime once the wheel is free.
        self.runtime = None;
        self.driver.wheel.leave();
    }
}

fn at_wheel<T>(drive: impl FnOnce() -> T) -> T {
    struct Leave {
        _whole: Uncancelled,
    }
    impl Drop for Leave {
        fn drop(&mut self) {
            AT_WHEEL.set(false);
        }
    }
    AT_WHEEL.set(true);
    let _leave = Leave {
        _whole: Uncancelled::new(),
    };
    drive()
}

/// Whether this thread polls what a blocking call waits for.
pub(crate) fn waits_here() -> bool {
    MAY_DRIVE.get()
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
            && let Some(turn) = driver.take()
        {
            return turn.wait(parked);
        }
        driver.wheel.park();
        parked.park(limit);
        driver.wheel.unpark();
    }
}

#[cfg(test)]
mod tests;
