//! Tasks on the runtime that a client runs on. Those on the library's own are kept so that they
//! can be taken from it, where it can be driven no more: then they end, or go on in the next.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::mutex::lock;
use crate::runtime::drive::{Call, Driver};

/// The runtime that a client runs on.
#[derive(Clone)]
pub(crate) struct Io {
    pub(crate) handle: Handle,
    /// Who drives it; empty if that is the caller's.
    pub(crate) driver: Option<&'static Driver>,
}

/// What becomes of a task whose runtime can be driven no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It ends, and with it what depends on it.
    Ends,
    /// It is a call, which goes on, to find out.
    GoesOn,
}

impl Io {
    /// The library's own.
    pub(crate) fn of(driver: &'static Driver) -> Io {
        Io {
            handle: driver.handle().clone(),
            driver: Some(driver),
        }
    }

    /// Runs a future to its end, or to that of the runtime.
    pub(crate) fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self.driver {
            Some(driver) => drop(driver.spawn(Box::pin(future), Then::Ends)),
            None => drop(self.handle.spawn(future)),
        }
    }

    /// Runs a future whose result somebody waits for.
    pub(crate) fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let call = async move {
            let mut future = Box::pin(future);
            let output = poll_fn(|cx| {
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
                polled.map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
            });
            let output = output.await;
            // It is over before that is told.
            drop(future);
            drop(tell.send(output));
        };
        let abort = match self.driver {
            Some(driver) => driver.spawn(Box::pin(call), Then::GoesOn),
            None => Some(self.handle.spawn(call).abort_handle()),
        };
        Task { told, abort }
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Io")
    }
}

/// A future that runs on the I/O thread. Dropped, it ends there soon. `Closed`, where the runtime
/// has ended before it.
pub struct Task<T> {
    told: oneshot::Receiver<std::thread::Result<T>>,
    abort: Option<AbortHandle>,
}

impl<T> Task<T> {
    /// Lets the future run to its end by itself.
    pub fn detach(mut self) {
        self.abort = None;
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.told).poll(cx)) {
            Ok(Ok(output)) => Ok(output),
            // The panic goes on where the result is awaited.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::runtime_has_ended()),
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.abort {
            task.abort();
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// The tasks of the library's own runtime, by their numbers.
#[derive(Default)]
pub(crate) struct Kept(Mutex<All>);

#[derive(Default)]
struct All {
    last: u64,
    tasks: BTreeMap<u64, (Arc<Slot>, Then)>,
}

/// One of them, until it is over.
type Slot = Mutex<Option<Call>>;

impl Kept {
    /// The same, to be spawned on the runtime that `driver` drives.
    pub(crate) fn keep(
        &self,
        driver: &'static Driver,
        call: Call,
        then: Then,
    ) -> impl Future<Output = ()> + Send + use<> {
        let slot = Arc::new(Mutex::new(Some(call)));
        let mut all = lock(&self.0);
        all.last += 1;
        let number = all.last;
        all.tasks.insert(number, (slot.clone(), then));
        Runs {
            driver,
            number,
            slot,
            waker: None,
        }
    }

    /// Takes all of them from their runtime.
    pub(crate) fn take(&self) -> Vec<(Call, Then)> {
        let tasks = std::mem::take(&mut lock(&self.0).tasks);
        let tasks = tasks.into_values();
        let taken = tasks.filter_map(|(slot, then)| Some((lock(&slot).take()?, then)));
        taken.collect()
    }
}

/// Runs a task where it is kept.
struct Runs {
    driver: &'static Driver,
    number: u64,
    slot: Arc<Slot>,
    waker: Option<Waker>,
}

impl Future for Runs {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let waker = this.waker.get_or_insert_with(|| bell(this.driver, cx));
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

impl Drop for Runs {
    fn drop(&mut self) {
        lock(&self.driver.kept.0).tasks.remove(&self.number);
        let call = lock(&self.slot).take();
        drop(call);
    }
}

/// See [`Bell`].
pub(super) fn bell(driver: &'static Driver, cx: &Context<'_>) -> Waker {
    let task = cx.waker().clone();
    Waker::from(Arc::new(Bell { driver, task }))
}

/// Wakes a task from anywhere, as long as there are the descriptors by which its runtime is woken.
struct Bell {
    driver: &'static Driver,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.driver.may_be_rung() {
            self.driver.wakes(|| self.task.wake_by_ref());
        }
    }
}
