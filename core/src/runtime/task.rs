//! Tasks on the runtime that a client runs on.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::runtime::drive::Driver;
use crate::runtime::kept::{OrphanPolicy, is_listing};

/// The runtime that a client runs on.
#[derive(Clone)]
pub(crate) struct Io {
    pub(crate) handle: Handle,
    /// The driver of the runtime; empty if the runtime is the caller's.
    pub(crate) driver: Option<&'static Driver>,
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
            Some(driver) => drop(driver.spawn(Box::pin(future), OrphanPolicy::Ends)),
            None => drop(self.handle.spawn(future)),
        }
    }

    /// Runs a future whose result a task waits for.
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
            // The future is over before its result is sent.
            drop(future);
            drop(tell.send(output));
        };
        let abort = match self.driver {
            Some(driver) => driver.spawn(Box::pin(call), OrphanPolicy::GoesOn),
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

/// Lets the other tasks run first, and the sockets be looked at: what those tasks send is under way when the caller goes on. In
/// a step of an event loop, which ends without such a look, only the other tasks run.
pub(crate) async fn yield_now() {
    if !is_listing() {
        return tokio::task::yield_now().await;
    }
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
