//! The runtime of the process: one I/O thread, one dispatcher thread, both
//! started when first needed.
//!
//! A process that forks has threads no more. Its first use of Quorlock there
//! finds the runtime of another process id and builds one anew; what was
//! inherited is left alone, for to drop it would be to join threads that do
//! not exist.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;

use crate::client::Inner;
use crate::dispatch::Dispatcher;
use crate::drive::Driver;
use crate::error::{Error, ErrorKind};
use crate::mutex::lock;
use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;

/// The runtime of one process.
pub(crate) struct Runtime {
    process: u32,
    io: OnceCell<&'static Driver>,
    dispatcher: Dispatcher,
    clients: Mutex<Vec<Weak<Inner>>>,
    /// Ends the I/O thread.
    thread: Mutex<Option<JoinHandle<()>>>,
    stopped: AtomicBool,
    /// The runtime of a child that this process has become by forking, or the
    /// one after [`shutdown`].
    next: OnceBox<Runtime>,
}

/// `race`: no lock that another thread could have held at the fork.
static FIRST: OnceBox<Runtime> = OnceBox::new();

impl Runtime {
    fn boxed() -> Box<Runtime> {
        Box::new(Runtime {
            process: crate::process::id(),
            io: OnceCell::new(),
            dispatcher: Dispatcher::new(),
            clients: Mutex::default(),
            thread: Mutex::default(),
            stopped: AtomicBool::new(false),
            next: OnceBox::new(),
        })
    }

    /// The runtime of this process. Starts no thread.
    pub(crate) fn get() -> &'static Runtime {
        let mut runtime = FIRST.get_or_init(Runtime::boxed);
        while !runtime.is_current() {
            runtime = runtime.next.get_or_init(Runtime::boxed);
        }
        runtime
    }

    /// What drives the I/O of the process.
    pub(crate) fn io(&self) -> Result<&'static Driver, Error> {
        let driver = self.io.get_or_try_init(|| {
            let failed = |e: std::io::Error| {
                Error::new(
                    ErrorKind::Internal,
                    format!("the I/O thread could not be started: {e}"),
                )
            };
            // As long-lived as the runtime of the process, which is a static.
            let driver: &'static Driver = Box::leak(Box::new(Driver::new().map_err(failed)?));
            let thread = std::thread::Builder::new()
                .name("quorlock-io".into())
                .spawn(|| driver.run())
                .map_err(failed)?;
            *lock(&self.thread) = Some(thread);
            // SAFETY: the handler is an `extern "C"` function that does not
            // unwind. If the table is full, leases simply expire.
            unsafe { libc::atexit(at_exit) };
            Ok(driver)
        });
        driver.copied()
    }

    fn is_current(&self) -> bool {
        self.process == crate::process::id() && !self.stopped.load(Ordering::Acquire)
    }

    /// The thread for loss callbacks and logs.
    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Registers a client to be closed when the process exits.
    pub(crate) fn register(&self, client: &Arc<Inner>) {
        let mut clients = lock(&self.clients);
        clients.retain(|c| c.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Every client of the process that is still in use.
    pub(crate) fn clients(&self) -> Vec<Arc<Inner>> {
        lock(&self.clients)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

/// Releases what the process still holds, within `node_timeout`.
extern "C" fn at_exit() {
    // A panic must not cross into the C library.
    let _ = std::panic::catch_unwind(|| {
        let Some(first) = FIRST.get() else { return };
        // A forked child that never used Quorlock has nothing of its own.
        if Runtime::get_existing(first).is_none() {
            return;
        }
        // The thread that exits has lost its thread-local storage already.
        let closer = std::thread::Builder::new().spawn(crate::client::close_all);
        let _ = closer.map(|thread| thread.join());
    });
}

impl Runtime {
    fn get_existing(first: &'static Runtime) -> Option<&'static Runtime> {
        let mut runtime = first;
        while !runtime.is_current() {
            runtime = runtime.next.get()?;
        }
        Some(runtime)
    }
}

/// Closes every client of the process and ends its threads, once what waits for
/// the dispatcher is done. `memory://` nodes end too. What is made later starts
/// them again. No other call may be under way.
#[doc(hidden)]
pub fn shutdown() {
    let Some(runtime) = FIRST.get().and_then(Runtime::get_existing) else {
        return;
    };
    crate::client::close_all();
    runtime.stopped.store(true, Ordering::Release);
    runtime.dispatcher.stop();
    let thread = lock(&runtime.thread).take();
    if let (Some(driver), Some(thread)) = (runtime.io.get(), thread) {
        driver.stop();
        let _ = thread.join();
    }
    crate::node::memory::forget();
}

/// Runs a future on the I/O thread: for bindings, whose own threads may be kept
/// from running by their interpreter while a lease has to be looked after.
#[doc(hidden)]
pub fn spawn<F>(future: F) -> Result<Task<F::Output>, Error>
where
    F: Future<Output: Send> + Send + 'static,
{
    let driver = Runtime::get().io()?;
    let task = driver.handle().spawn(future);
    driver.notice();
    Ok(Task(Some(task)))
}

/// Runs futures on the I/O thread, each to its end by itself: what is started
/// in one turn of an event loop, in one wake-up.
#[doc(hidden)]
pub fn spawn_all(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) -> Result<(), Error> {
    if futures.len() <= 1 {
        return futures
            .pop()
            .map_or(Ok(()), |one| spawn(one).map(Task::detach));
    }
    let all = async move {
        for future in futures {
            drop(tokio::spawn(future));
        }
    };
    spawn(all).map(Task::detach)
}

/// A future that runs on the I/O thread. Dropped, it ends there soon.
#[doc(hidden)]
pub struct Task<T>(Option<tokio::task::JoinHandle<T>>);

impl<T> Task<T> {
    /// Lets the future run to its end by itself.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(task) = &mut self.0 else {
            return Poll::Pending;
        };
        match ready!(Pin::new(task).poll(cx)) {
            Ok(output) => Poll::Ready(output),
            // The panic goes on where the result is awaited.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Poll::Pending,
            },
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}
