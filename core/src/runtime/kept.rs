//! The tasks of the library's own runtime. The library keeps them so that it can take them from a
//! runtime that can be driven no more: then they end, or go on in the next.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::mutex::lock;

/// Something to be begun there.
pub(crate) type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What drives the runtime of such tasks.
pub(super) trait TaskDriver: Sync {
    /// Its tasks.
    fn kept(&self) -> &TaskList;

    /// Wakes one of its tasks, if it still can be woken.
    fn ring(&'static self, task: &Waker);
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
    /// The same, to be spawned on the runtime that `driver` drives.
    pub(crate) fn keep(
        &self,
        driver: &'static dyn TaskDriver,
        call: Call,
        then: OrphanPolicy,
    ) -> impl Future<Output = ()> + Send + use<> {
        let slot = Arc::new(Mutex::new(Some(call)));
        let mut all = lock(&self.0);
        all.last += 1;
        let number = all.last;
        all.tasks.insert(number, (slot.clone(), then));
        TaskRun {
            driver,
            number,
            slot,
            waker: None,
        }
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
    waker: Option<Waker>,
}

impl Future for TaskRun {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let waker = this
            .waker
            .get_or_insert_with(|| Waker::from(Bell::of(this.driver, cx)));
        let mut slot = lock(&this.slot);
        let Some(call) = &mut *slot else {
            return Poll::Ready(());
        };
        let polled = call.as_mut().poll(&mut Context::from_waker(waker));
        let over = polled.is_ready().then(|| slot.take());
        drop(slot);
        drop(over);
        polled
    }
}

impl Drop for TaskRun {
    fn drop(&mut self) {
        lock(&self.driver.kept().0).tasks.remove(&self.number);
        let call = lock(&self.slot).take();
        drop(call);
    }
}

/// Wakes a task from anywhere, as long as there are the descriptors by which its runtime is woken.
pub(super) struct Bell {
    driver: &'static dyn TaskDriver,
    task: Waker,
}

impl Bell {
    /// For the task that is polled with `cx`.
    pub(super) fn of(driver: &'static dyn TaskDriver, cx: &Context<'_>) -> Arc<Bell> {
        let task = cx.waker().clone();
        Arc::new(Bell { driver, task })
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.driver.ring(&self.task);
    }
}
