//! The tasks of the library's own runtime. The library keeps them so that it can take them from a
//! runtime that can be driven no more: then they end, or go on in the next.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crate::mutex::lock;

/// Something to be begun there.
pub(crate) type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What drives the runtime of such tasks.
pub(super) trait TaskDriver: Sync {
    /// Its tasks.
    fn kept(&self) -> &TaskList;

    /// Wakes one of its tasks, if it still can be woken.
    fn ring(&'static self, task: &Arc<Bell>);
}

/// What becomes of a task whose runtime can be driven no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanPolicy {
    /// It ends, and with it what depends on it.
    Ends,
    /// It is a call, which goes on, to find out.
    GoesOn,
}

/// The tasks of the library's own runtime, by their numbers.
#[derive(Default)]
pub(crate) struct TaskList(Mutex<TaskTable>);

#[derive(Default)]
struct TaskTable {
    last: u64,
    tasks: BTreeMap<u64, (Arc<CallSlot>, OrphanPolicy)>,
}

/// A call in the list, until it is over.
type CallSlot = Mutex<Option<Call>>;

impl TaskList {
    /// The same, to be spawned on the runtime that `driver` drives, and what wakes it.
    pub(super) fn keep(
        &self,
        driver: &'static dyn TaskDriver,
        call: Call,
        then: OrphanPolicy,
    ) -> (impl Future<Output = ()> + Send + use<>, Arc<Bell>) {
        let slot = Arc::new(Mutex::new(Some(call)));
        let mut all = lock(&self.0);
        all.last += 1;
        let number = all.last;
        all.tasks.insert(number, (slot.clone(), then));
        drop(all);
        let bell = Arc::new(Bell {
            driver,
            task: OnceLock::new(),
            slot: Some(slot.clone()),
            listed: AtomicBool::new(false),
        });
        let run = TaskRun {
            driver,
            number,
            slot,
            bell: bell.clone(),
            waker: Waker::from(bell.clone()),
        };
        (run, bell)
    }

    /// Takes all of them from their runtime.
    pub(crate) fn take(&self) -> Vec<(Call, OrphanPolicy)> {
        let tasks = std::mem::take(&mut lock(&self.0).tasks);
        let tasks = tasks.into_values();
        let taken = tasks.filter_map(|(slot, then)| Some((lock(&slot).take()?, then)));
        taken.collect()
    }
}

/// Runs a task where it is kept.
struct TaskRun {
    driver: &'static dyn TaskDriver,
    number: u64,
    slot: Arc<CallSlot>,
    bell: Arc<Bell>,
    /// Rings that.
    waker: Waker,
}

impl Future for TaskRun {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Before the call is polled: what has woken it before this poll is seen by it.
        self.bell.task.get_or_init(|| cx.waker().clone());
        poll(&self.slot, &self.waker)
    }
}

/// Polls a call where it is kept; one that is over is there no more.
fn poll(slot: &CallSlot, waker: &Waker) -> Poll<()> {
    let mut slot = lock(slot);
    let Some(call) = &mut *slot else {
        return Poll::Ready(());
    };
    let polled = call.as_mut().poll(&mut Context::from_waker(waker));
    let over = polled.is_ready().then(|| slot.take());
    drop(slot);
    drop(over);
    polled
}

impl Drop for TaskRun {
    fn drop(&mut self) {
        lock(&self.driver.kept().0).tasks.remove(&self.number);
        let call = lock(&self.slot).take();
        drop(call);
    }
}

thread_local! {
    /// Tasks that this thread is to run itself: in a step of an event loop. `None`: the runtime runs them.
    pub(super) static LISTED: RefCell<Option<Vec<Arc<Bell>>>> = const { RefCell::new(None) };
}

/// Whether this thread runs tasks itself, in a step.
pub(super) fn is_listing() -> bool {
    LISTED.with_borrow(Option::is_some)
}

/// Whether this thread runs the task itself, and is going to.
pub(super) fn runs_here(task: &Arc<Bell>) -> bool {
    LISTED.with_borrow_mut(|listed| listed.as_mut().is_some_and(|list| task.list(list)))
}

/// Wakes a task from anywhere, as long as there are the descriptors by which its runtime is woken.
pub(super) struct Bell {
    driver: &'static dyn TaskDriver,
    /// Its waker in the runtime, once that has polled it: until then it is going to.
    task: OnceLock<Waker>,
    /// `None`: it is no task, but what drives them.
    slot: Option<Arc<CallSlot>>,
    /// It is to be [run](Bell::run).
    listed: AtomicBool,
}

impl Bell {
    /// For what drives the tasks, polled with `cx`.
    pub(super) fn of(driver: &'static dyn TaskDriver, cx: &Context<'_>) -> Arc<Bell> {
        Arc::new(Bell {
            driver,
            task: OnceLock::from(cx.waker().clone()),
            slot: None,
            listed: AtomicBool::new(false),
        })
    }

    /// Has the runtime poll it.
    pub(super) fn wake_in_runtime(&self) {
        self.listed.store(false, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// It is to be run by the thread that calls this. False where it is no task.
    fn list(self: &Arc<Bell>, list: &mut Vec<Arc<Bell>>) -> bool {
        if self.slot.is_some() && !self.listed.swap(true, Ordering::AcqRel) {
            list.push(self.clone());
        }
        self.slot.is_some()
    }

    /// Polls it on this thread, which drives, in place of the runtime. A panic ends it.
    pub(super) fn run(self: Arc<Bell>) {
        // Before: what wakes it meanwhile lists it once more.
        self.listed.store(false, Ordering::Release);
        let Some(slot) = &self.slot else { return };
        let waker = Waker::from(self.clone());
        let polled = catch_unwind(AssertUnwindSafe(|| poll(slot, &waker)));
        if polled.is_err() {
            let call = lock(slot).take();
            drop(call);
        }
        if !matches!(polled, Ok(Poll::Pending)) {
            self.wake_in_runtime();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.driver.ring(self);
    }
}
