//! The right to drive the I/O of the process, and how threads pass it on.
//!
//! All I/O runs on one tokio runtime, and one thread at a time drives it: at
//! rest the I/O thread, which sleeps there until something happens. A hop to it
//! and back costs a blocking caller more than all the rest of an operation, so a
//! caller that is alone asks for the wheel, and drives until its own wait is
//! over. The rules:
//!
//! - **The wheel is never free for long.** The I/O thread stands aside when it is
//!   asked to, and looks every [`BREATH`](super::wheel::BREATH): it takes a wheel that no caller took since
//!   it looked last, so a timer is late by twice that at most. It takes the wheel
//!   at once where another caller waits.
//! - **Alone, or not at all.** A second caller that sends something, async or
//!   blocking, makes the first hand the wheel to the I/O thread, which keeps it
//!   for [`CROWDED`](super::wheel::CROWDED).
//! - **Not for long.** A caller that waits for more than [`TURN`](super::wheel::TURN) is no better
//!   off at the wheel: it is asked to leave, and parks.
//! - **An event loop drives in steps.** One with a single call under way begins it
//!   and reads the answers on its own thread ([`Driver::step`]), and never waits
//!   there: [`sockets`](super::sockets) call it back when there is something to
//!   read. A loop that is blocked leaves a free wheel, which is the first rule's.
//! - **No foreign code at the wheel.** A caller drives within [`SentRequests::wait`]
//!   and [`Driver::step`] alone. The future that it waits for, a signal handler, an interpreter:
//!   they run when it has left.
//! - The wheel is a guard: a panic gives it back too.
//!
//! - **Closed descriptors end it.** A program may close all that it finds, as a daemon does that
//!   does not fork, and open its own files under the numbers. A thread that is about to wake, drive
//!   or poll looks first whether the descriptors are [whole](Driver::is_whole). Where they are not,
//!   nothing of the runtime is driven or dropped any more, for that would close those numbers;
//!   its tasks are taken from it, clients end, and the next is of another runtime. What is left
//!   is the millisecond for which a look counts, or the moment behind it at a blocking call: then
//!   tokio may panic, which is caught here, and a wake-up may write to what has the number now.
//!
//! Whose turn it is, is decided in [`wheel`](super::wheel). There is the doorbell,
//! too: tasks that are woken from outside of the runtime are given to the thread
//! that drives ([`Driver::wake`]), those of one fan-out in one.

mod sent;
mod sleeper;
mod step;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use once_cell::sync::OnceCell;
use tokio::runtime::{Handle, Runtime};
use tokio::task::AbortHandle;

use crate::clock::system_now;
use crate::mutex::lock;
use crate::runtime::cancel::CancelShield;
use crate::runtime::kept::{Bell, Call, OrphanPolicy, TaskDriver, TaskList, is_listing, runs_here};
use crate::runtime::parked::Parker;
use crate::runtime::sockets::{RuntimeDescriptors, Sockets, numbered_high};
use crate::runtime::wheel::Wheel;
use crate::wakers::Wakers;

pub(crate) use sent::{SentRequests, sending, sending_in_loop, waits_here};
pub(crate) use sleeper::Sleeper;

/// The runtime, and the wheel.
pub(crate) struct Driver {
    handle: Handle,
    wheel: Wheel<Arc<Runtime>>,
    /// Whether the runtime may have tasks in its queue that a [step](Turn::step) has to let run: they were woken from
    /// elsewhere, or left by the thread that drove before.
    queued: AtomicBool,
    /// Whether a [step](Turn::step) has begun something whose end no event loop hears.
    unheard: AtomicBool,
    /// For event loops.
    pub(crate) sockets: Arc<Sockets>,
    /// Its tasks.
    pub(super) kept: TaskList,
    /// The sleepers that await a timer of the runtime elsewhere than in its tasks.
    sleepers: Mutex<Sleepers>,
    /// Its descriptors are gone.
    broken: AtomicBool,
    /// What stood for them was put back, so that it can be left in order.
    hidden: Option<RuntimeDescriptors>,
    put_back: OnceCell<bool>,
    /// Wakes the thread that drives. The waker points into the bell, for a leak checker looks for the start of what it points to.
    bell: OnceCell<(Arc<Bell>, Waker)>,
    /// Called once, when the runtime can be driven no more.
    give_up: fn(&'static Driver),
}

/// By their numbers.
#[derive(Default)]
struct Sleepers {
    last: u64,
    wakers: BTreeMap<u64, Waker>,
}

thread_local! {
    /// What this thread drives.
    static AT_WHEEL: Cell<Option<&'static Driver>> = const { Cell::new(None) };
    /// This thread ends the tasks of a runtime whose descriptors are gone.
    static ENDS: Cell<bool> = const { Cell::new(false) };
    /// This is an I/O thread.
    static DRIVES_ALWAYS: Cell<bool> = const { Cell::new(false) };
    /// This thread polls what a blocking call waits for, and may drive.
    static MAY_DRIVE: Cell<bool> = const { Cell::new(false) };
    /// What a blocking call has sent through, if anything.
    static USED: Cell<Option<&'static Driver>> = const { Cell::new(None) };
    /// Tasks that a poll of a binding's call has woken, which run when the call waits. `None`: they
    /// run at once.
    static OWED: Cell<Option<Wakers>> = const { Cell::new(None) };
}

impl Driver {
    /// Makes the runtime. [`run`](Driver::run) is for the I/O thread.
    /// `give_up` is called once, when the runtime can be driven no more.
    pub(crate) fn new(give_up: fn(&'static Driver)) -> std::io::Result<Driver> {
        numbered_high(|| Driver::made(give_up))
    }

    fn made(give_up: fn(&'static Driver)) -> std::io::Result<Driver> {
        let sockets = Arc::new(Sockets::new()?);
        let looks_at = sockets.clone();
        let looks = move || {
            if !looks_at.are_whole() {
                strand();
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(looks.clone())
            .on_thread_unpark(looks)
            .build()?;
        let hidden = RuntimeDescriptors::of(&runtime);
        Ok(Driver {
            handle: runtime.handle().clone(),
            wheel: Wheel::new(Arc::new(runtime)),
            queued: AtomicBool::new(false),
            unheard: AtomicBool::new(false),
            sockets,
            kept: TaskList::default(),
            sleepers: Mutex::default(),
            broken: AtomicBool::new(false),
            hidden,
            put_back: OnceCell::new(),
            bell: OnceCell::new(),
            give_up,
        })
    }

    /// Runs a future as a task of the runtime; drops it where that can be driven no more.
    pub(crate) fn spawn(&'static self, call: Call, then: OrphanPolicy) -> Option<AbortHandle> {
        if !self.is_here() && !self.is_whole() {
            return None;
        }
        let (run, bell) = self.kept.keep(self, call, then);
        let task = self.handle.spawn(run);
        if !(self.is_here() && runs_here(&bell)) {
            self.queued.store(true, Ordering::Release);
        }
        Some(task.abort_handle())
    }

    /// Whether this thread drives it.
    pub(crate) fn is_here(&self) -> bool {
        AT_WHEEL.get().is_some_and(|here| std::ptr::eq(here, self))
    }

    /// Whether its descriptors are still its own. Where they are not, it ends.
    pub(crate) fn is_whole(&'static self) -> bool {
        if self.is_broken() {
            return false;
        }
        self.unless_broken(self.sockets.are_whole())
    }

    /// The same at this moment.
    pub(crate) fn is_whole_now(&'static self) -> bool {
        !self.is_broken() && self.unless_broken(self.sockets.are_whole_now())
    }

    fn unless_broken(&'static self, whole: bool) -> bool {
        if !whole {
            self.break_down();
        }
        whole
    }

    /// Whether they were seen not to be.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Wakes the thread that drives, by the waker of `cx`, which is the same for all.
    fn bell(&'static self, cx: &Context<'_>) -> &'static Waker {
        let (_, waker) = self.bell.get_or_init(|| {
            let bell = Bell::of(self, cx);
            (bell.clone(), Waker::from(bell))
        });
        waker
    }

    fn break_down(&'static self) {
        let put_back = || {
            self.hidden
                .as_ref()
                .is_some_and(RuntimeDescriptors::put_back)
        };
        self.put_back.get_or_init(put_back);
        if !self.broken.swap(true, Ordering::AcqRel) {
            (self.give_up)(self);
        }
    }

    /// Makes the thread that drives leave. Not called where the loss is found out, for the wheel may be locked there.
    pub(super) fn dismiss(&self) {
        self.wheel.break_down();
    }

    /// Its clients know that it is broken: those that sleep are to look.
    pub(super) fn wake_sleepers(&self) {
        let wakers = std::mem::take(&mut lock(&self.sleepers).wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Drives whenever no caller does, until [stopped](Driver::stop).
    pub(crate) fn run(&'static self) {
        DRIVES_ALWAYS.set(true);
        loop {
            let Some(runtime) = self.wheel.runtime() else {
                return;
            };
            if !self.is_whole() {
                return;
            }
            self.sockets.disarm();
            let driven = catch_unwind(AssertUnwindSafe(|| {
                at_wheel(self, || {
                    runtime.block_on(poll_fn(|cx| {
                        if self.wheel.is_asked_for(self.bell(cx)) {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    }));
                });
            }));
            if driven.is_err() {
                return self.break_down();
            }
            drop(runtime);
            self.queued.store(true, Ordering::Release);
            if !self.wheel.stand_aside() {
                break;
            }
        }
        if self.is_broken() {
            return;
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

    /// Lets the thread that drives know that there is work from elsewhere.
    pub(crate) fn notice(&'static self) {
        if !self.is_here() {
            self.ring(Wakers::default(), false);
        }
    }

    fn ring(&'static self, wakers: Wakers, from_caller: bool) {
        if self.is_whole() {
            self.wheel.ring(wakers, from_caller, system_now());
        }
    }

    /// Wakes tasks of the runtime from wherever this is: at this thread's own
    /// wheel if it is a blocking caller and alone, else by the thread that drives. That thread
    /// looks for work even where there is no task.
    pub(crate) fn wake(&'static self, wakers: Wakers) {
        if self.is_here() {
            return wakers.wake();
        }
        if !MAY_DRIVE.get() {
            return self.ring(wakers, false);
        }
        USED.set(Some(self));
        // What the program did to them before this call of its own is seen. An event loop has many
        // steps for each call.
        if !self.is_whole_now() {
            return;
        }
        match OWED.take() {
            Some(mut owed) => {
                owed.extend(wakers);
                OWED.set(Some(owed));
            }
            None => self.pass(wakers),
        }
    }

    /// Has tasks run that a blocking call of this thread has woken.
    fn pass(&'static self, wakers: Wakers) {
        match self.take() {
            Some(turn) => turn.pass(wakers),
            None => self.ring(wakers, true),
        }
    }

    /// For the thread of an event loop, if it is alone: begins these calls, or reads what
    /// there is to read, and lets the tasks do what they can at once. It waits for nothing
    /// but a turn of the I/O thread. From then on the loop hears of what comes by the
    /// [descriptor](Sockets::descriptor), until the I/O thread drives again: a loop that
    /// does not come back for a breath leaves it all to that. Gives the calls back if it is
    /// not alone.
    pub(crate) fn step(&'static self, calls: Vec<Call>) -> Result<(), Vec<Call>> {
        match self.take() {
            Some(turn) => {
                turn.step(calls);
                drop(turn);
                if self.unheard.swap(false, Ordering::AcqRel) {
                    self.ring(Wakers::default(), true);
                }
                Ok(())
            }
            None => Err(calls),
        }
    }

    /// The loop has heard that there is something to read, though its last step brought nothing: it is not to hear of that
    /// again.
    pub(crate) fn has_heard(&self) {
        self.sockets.clear();
    }

    /// A task begins to make a connection, whose socket is [watched](Sockets::watch) only once it is there: after a step
    /// the I/O thread drives at once, and not a breath later.
    pub(crate) fn connects(&self) {
        if is_listing() {
            self.unheard.store(true, Ordering::Release);
        }
    }

    /// The wheel, if this caller is alone. Waits for no more than a turn of the
    /// I/O thread.
    fn take(&'static self) -> Option<Turn> {
        // A thread within a runtime of its own cannot drive another, nor can one
        // whose thread-local storage is gone.
        if !matches!(Handle::try_current(), Err(none) if none.is_missing_context()) {
            return None;
        }
        if !self.is_whole() {
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
struct Turn {
    driver: &'static Driver,
    runtime: Option<Arc<Runtime>>,
}

impl Turn {
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
        self.driver.queued.store(true, Ordering::Release);
    }

    /// Drives until `parked` is woken, and at most until the wheel is wanted. The tasks that are `owed` a
    /// wake-up have run by then, whatever becomes of the wait.
    fn wait(&self, parked: &Parker, owed: Wakers) {
        self.driver.sockets.disarm();
        let mut owed = (!owed.is_empty()).then_some(owed);
        self.drive(poll_fn(|cx| {
            let first = owed.take().map(Wakers::wake).is_some();
            let bell = self.driver.bell(cx);
            match (
                parked.is_woken(bell) || self.driver.wheel.is_wanted(bell),
                first,
            ) {
                (true, false) => return Poll::Ready(()),
                (true, true) => cx.waker().wake_by_ref(),
                (false, _) => {}
            }
            Poll::Pending
        }));
        self.driver.queued.store(true, Ordering::Release);
        parked.forget_driver();
    }

    fn drive(&self, future: impl Future<Output = ()>) {
        let runtime = self.runtime.as_ref().expect("emptied by drop only");
        let driven = catch_unwind(AssertUnwindSafe(|| {
            at_wheel(self.driver, || runtime.block_on(pin!(future)));
        }));
        if let Err(panic) = driven {
            if self.driver.is_broken() || is_of_descriptors(&*panic) {
                self.driver.break_down()
            } else {
                resume_unwind(panic)
            }
        }
    }
}

impl TaskDriver for Driver {
    fn kept(&self) -> &TaskList {
        &self.kept
    }

    fn ring(&'static self, task: &Arc<Bell>) {
        if self.is_here() && runs_here(task) {
            return;
        }
        // It is whole, or others stand in the places of what is gone.
        if self.is_here() || self.is_whole() || self.put_back.get() == Some(&true) {
            if !self.is_here() {
                self.queued.store(true, Ordering::Release);
            }
            // A panic where the descriptor is gone by which that is done.
            if catch_unwind(AssertUnwindSafe(|| task.wake_in_runtime())).is_err() {
                self.break_down();
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // First: the I/O thread may end the runtime once the wheel is free.
        self.runtime = None;
        self.driver.wheel.leave();
    }
}

/// The descriptors of what this thread drives are gone. It leaves that, if others stand in their places.
/// If not, it goes no further: their numbers may be the program's by now, and would be closed.
fn strand() {
    let Some(driver) = AT_WHEEL.get() else { return };
    driver.break_down();
    if driver.put_back.get() == Some(&true) {
        return;
    }
    while DRIVES_ALWAYS.get() {
        thread::park();
    }
    resume_unwind(Box::new(()));
}

/// Whether it is tokio's word for a descriptor of its own that is gone.
fn is_of_descriptors(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.is_some_and(|text| text.contains("I/O driver"))
}

/// This thread ends the tasks of a runtime whose descriptors are gone.
pub(super) fn ends_here() {
    ENDS.set(true);
}

/// Lets something go that may have sockets; where their numbers may be the program's by now, it is
/// left as it is.
pub(crate) fn let_go<T>(what: T) {
    if ENDS.get() {
        std::mem::forget(what)
    } else {
        drop(what)
    }
}

/// What this thread drives.
pub(crate) fn driven_here() -> Option<&'static Driver> {
    AT_WHEEL.get()
}

fn at_wheel<T>(driver: &'static Driver, drive: impl FnOnce() -> T) -> T {
    struct LeaveGuard {
        _whole: CancelShield,
    }
    impl Drop for LeaveGuard {
        fn drop(&mut self) {
            AT_WHEEL.set(None);
        }
    }
    AT_WHEEL.set(Some(driver));
    let _leave = LeaveGuard {
        _whole: CancelShield::new(),
    };
    drive()
}
