//! The runtime of the process: one I/O thread, the threads of the dispatcher, and a thread for each
//! name that is being looked up, all started when first needed.
//!
//! A process that forks has threads no more. Its first use of Quorlock there
//! finds the runtime of another process id and builds one anew; what was
//! inherited is left alone, for to drop it would be to join threads that do
//! not exist.

mod callers;
pub(crate) mod cancel;
pub mod dispatch;
pub(crate) mod drive;
mod kept;
pub(crate) mod lasting;
pub(crate) mod lookups;
pub(crate) mod parked;
pub(crate) mod sockets;
pub(crate) mod task;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod wait;
mod wheel;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::thread::JoinHandle;

use crate::error::{Error, ErrorKind};
use crate::event::event;
use crate::mutex::lock;
use crate::runtime::dispatch::{Dispatcher, Level};
use crate::runtime::drive::{Driver, SentRequests};
use crate::runtime::kept::OrphanPolicy;
use crate::runtime::lookups::Lookups;
use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;

/// Something that is to be closed before the process exits: a client, or what one has left.
pub(crate) trait Closeable: Send + Sync {
    /// Releases what it holds and ends what runs for it.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;

    /// Whether nothing is left to be closed.
    fn is_over(&self) -> bool;
}

/// The runtime of one process.
pub(crate) struct Runtime {
    process: u32,
    io: OnceCell<&'static Driver>,
    dispatcher: Dispatcher,
    lookups: Lookups,
    clients: Mutex<Vec<Weak<dyn Closeable>>>,
    /// What clients that are gone have left on its way.
    left: Mutex<Vec<Arc<dyn Closeable>>>,
    /// Ends the I/O thread.
    thread: Mutex<Option<JoinHandle<()>>>,
    stopped: AtomicBool,
    /// The runtime of a child that this process has become by forking, or the next after
    /// [`stop`](Runtime::stop).
    next: OnceBox<Runtime>,
}

/// `race`: no lock that another thread could have held at the fork.
static FIRST: OnceBox<Runtime> = OnceBox::new();

impl Runtime {
    fn boxed() -> Box<Runtime> {
        Box::new(Runtime {
            process: crate::process::id(),
            io: OnceCell::new(),
            dispatcher: Dispatcher::default(),
            lookups: Lookups::default(),
            clients: Mutex::default(),
            left: Mutex::default(),
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

    /// As [`get`](Runtime::get), but `None` where nothing has been built.
    pub(crate) fn existing() -> Option<&'static Runtime> {
        let mut runtime = FIRST.get()?;
        while !runtime.is_current() {
            runtime = runtime.next.get()?;
        }
        Some(runtime)
    }

    /// The runtime of this process, and what drives its I/O.
    pub(crate) fn with_io() -> Result<(&'static Runtime, &'static Driver), Error> {
        loop {
            let runtime = Runtime::get();
            let driver = runtime.io()?;
            if driver.is_whole_now() {
                return Ok((runtime, driver));
            }
        }
    }

    /// What drives the I/O of the process.
    fn io(&self) -> Result<&'static Driver, Error> {
        let driver = self.io.get_or_try_init(|| {
            let failed = |e: std::io::Error| {
                Error::new(
                    ErrorKind::Internal,
                    format!("the I/O thread could not be started: {e}"),
                )
            };
            // As long-lived as the runtime of the process, which is a static.
            let driver: &'static Driver =
                Box::leak(Box::new(Driver::new(Runtime::give_up).map_err(failed)?));
            let thread = threads::start("quorlock-io", || driver.run()).map_err(failed)?;
            *lock(&self.thread) = Some(thread);
            Ok(driver)
        });
        driver.copied()
    }

    /// The event loop that drives the I/O hears what comes over this socket.
    pub(crate) fn watch(socket: socket2::SockRef) {
        if let Some(driver) = Runtime::existing().and_then(|runtime| runtime.io.get()) {
            driver.sockets.watch(&socket);
        }
    }

    /// A connection is about to be made: see [`Driver::connects`].
    pub(crate) fn connects() {
        if let Some(driver) = Runtime::existing().and_then(|runtime| runtime.io.get()) {
            driver.connects();
        }
    }

    fn is_current(&self) -> bool {
        self.process == crate::process::id() && !self.stopped.load(Ordering::Acquire)
    }

    /// What runs callbacks and hands on log lines.
    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// What looks names up.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Registers a client to be closed when the process exits.
    pub(crate) fn register(&self, client: Weak<dyn Closeable>) {
        let mut clients = lock(&self.clients);
        clients.retain(|c| c.strong_count() > 0);
        clients.push(client);
    }

    /// Keeps what a client that goes has left on its way, for the process may exit before that
    /// has arrived.
    pub(crate) fn leave(&self, left: Arc<dyn Closeable>) {
        let mut all = lock(&self.left);
        all.retain(|before| !before.is_over());
        all.push(left);
    }

    /// Every client of the process that is still in use, and what others have left.
    fn to_be_closed(&self) -> Vec<Arc<dyn Closeable>> {
        // In this order: a client that goes meanwhile is found as what it leaves.
        let mut all: Vec<_> = lock(&self.clients)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        all.append(&mut lock(&self.left));
        all
    }

    /// The driver can drive the I/O no more: its clients are closed, and the next is of another
    /// runtime. That is done on a thread of its own, for the thread that found out may hold locks.
    pub(crate) fn give_up(driver: &'static Driver) {
        if let Some(runtime) = Runtime::existing()
            && runtime.io.get().is_some_and(|io| std::ptr::eq(*io, driver))
        {
            runtime.stopped.store(true, Ordering::Release);
        }
        let ends = || {
            driver.dismiss();
            drive::ends_here();
            let line = event!(
                "descriptors_closed",
                "the program has closed file descriptors of the library: its clients are closed, and leases lost"
            );
            Runtime::get().dispatcher().log(Level::Warn, line);
            let (end, go_on): (Vec<_>, Vec<_>) = driver
                .kept
                .take()
                .into_iter()
                .partition(|(_, then)| *then == OrphanPolicy::Ends);
            // Each tells its client, which all others find closed then.
            drop(end);
            driver.wake_sleepers();
            if let Ok((_, next)) = Runtime::with_io() {
                for (call, then) in go_on {
                    next.spawn(call, then);
                }
                next.notice();
            }
        };
        // Without a thread leases end by their clocks.
        let _ = threads::start("quorlock-end", ends);
    }

    /// Ends the threads, once what waits for the dispatcher is done. The next
    /// [`get`](Runtime::get) builds another runtime.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.dispatcher.stop();
        let thread = lock(&self.thread).take();
        if let (Some(driver), Some(thread)) = (self.io.get(), thread) {
            driver.stop();
            let _ = thread.join();
        }
    }
}

/// Has what the process still holds released at its exit. Called when a client is made, not when it
/// starts: exit handlers run newest first, so a program that registers its own with a client at
/// hand may still release by it.
pub(crate) fn release_at_exit() {
    // A forked child inherits the handlers.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::SeqCst) {
        // SAFETY: the handler is an `extern "C"` function that does not unwind. If
        // the table is full, leases simply expire. To run it twice does no harm.
        unsafe { libc::atexit(at_exit) };
        REGISTERED.store(true, Ordering::SeqCst);
    }
}

/// Closes every client of the process, for its exit, and waits for what was released before.
/// Blocks for at most the longest `node_timeout`.
pub fn close_all() {
    let all = Runtime::get().to_be_closed();
    // At once: the nodes of one may not answer.
    let mut closing: Vec<_> = all.iter().map(|one| one.close()).collect();
    let all_closed = poll_fn(|cx| {
        closing.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if closing.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    wait::run(all_closed, None, SentRequests::at_once());
}

/// Releases what the process still holds, within `node_timeout`.
extern "C" fn at_exit() {
    // A panic must not cross into the C library.
    let _ = std::panic::catch_unwind(|| {
        // A forked child that never used Quorlock has nothing of its own.
        if Runtime::existing().is_none() {
            return;
        }
        // The thread that exits has lost its thread-local storage already.
        let closer = threads::start("quorlock-exit", close_all);
        let _ = closer.map(|thread| thread.join());
    });
}
