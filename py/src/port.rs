//! How results reach asyncio: one channel per event loop for all of them.
//!
//! The I/O thread puts what has completed into a queue and writes one byte if
//! the queue was empty; it never attaches to the interpreter. The loop's thread
//! wakes up once, takes all there is and fills in the futures.
//!
//! The loop's own registration of the reader is the only lasting reference to a
//! [`Port`]. When the loop is closed or collected, the port is dropped: what
//! was under way is cancelled, and a lease that nobody took is released.

use std::any::Any;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, intern};

use crate::error::entry;
use crate::process::Owned;

/// Makes the result for its future, on the loop's thread. Dropped unused, it
/// drops what it would have made the result from: a lease is released.
type Made = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What the I/O thread shares with the loop's thread.
pub(crate) struct Queue {
    state: Mutex<State>,
    bell: UnixStream,
}

#[derive(Default)]
struct State {
    ready: Vec<(u64, Made)>,
    closed: bool,
}

/// Locks; never while the interpreter is called, so that no thread ever waits
/// for the one while it holds the other.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    pub(crate) fn push(&self, number: u64, made: Made) {
        let mut state = lock(&self.state);
        if state.closed {
            // Dropped after the lock: dropping a lease takes others.
            drop(state);
            return drop(made);
        }
        let first = state.ready.is_empty();
        state.ready.push((number, made));
        drop(state);
        if first {
            // A full buffer has woken the loop already.
            let _ = (&self.bell).write(&[0]);
        }
    }
}

/// A future, and what runs for it until it is dropped.
type Pending = (Py<PyAny>, Box<dyn Any + Send>);

/// The channel of one event loop.
#[pyclass(frozen, weakref, module = "quorlock._native")]
pub(crate) struct Port {
    queue: Owned<Arc<Queue>>,
    reader: UnixStream,
    pending: Mutex<HashMap<u64, Pending>>,
}

#[pymethods]
impl Port {
    #[new]
    fn new() -> PyResult<Port> {
        let (reader, bell) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (state, pending) = (Mutex::default(), Mutex::default());
        let queue = Owned::new(Arc::new(Queue { state, bell }));
        Ok(Port {
            queue,
            reader,
            pending,
        })
    }

    /// The file descriptor for `loop.add_reader`.
    fn fileno(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Whether this process made it. Parent and child share the descriptors,
    /// so the child must not read from them.
    fn is_ours(&self) -> bool {
        self.queue.is_ours()
    }

    /// Fills in the futures of all that has completed.
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || {
            let mut bytes = [0; 64];
            while matches!((&self.reader).read(&mut bytes), Ok(64)) {}
            let ready = mem::take(&mut lock(&self.queue.state).ready);
            for (number, made) in ready {
                let pending = lock(&self.pending).remove(&number);
                let filled = pending.map_or(Ok(()), |(future, _)| fill(future.bind(py), made));
                filled.unwrap_or_else(|error| error.write_unraisable(py, None));
            }
            Ok(())
        })
    }

    /// Ends the work for a future that is awaited no more.
    fn cancel(&self, number: u64) {
        let pending = lock(&self.pending).remove(&number);
        drop(pending);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.pending.try_lock() {
            Ok(pending) => pending.values().try_for_each(|p| visit.call(&p.0)),
            Err(_) => Ok(()),
        }
    }
}

impl Port {
    /// A number for something to come, and where to push it.
    pub(crate) fn number(&self) -> (u64, Arc<Queue>) {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        (number, Arc::clone(&self.queue))
    }

    /// Registers the future for a number. What has been pushed is taken by the
    /// loop's thread alone, which is this one: nothing is taken before.
    pub(crate) fn expect(&self, number: u64, future: Py<PyAny>, work: Box<dyn Any + Send>) {
        lock(&self.pending).insert(number, (future, work));
    }

    /// Gives `None` to `future` when the lease is lost.
    pub(crate) fn watch(&self, future: Py<PyAny>, lease: &quorlock::Lease) -> u64 {
        let (number, queue) = self.number();
        let bell = Arc::new(Bell { queue, number });
        let mut lost = lease.lost();
        let now = lost.poll_unpin(&mut Context::from_waker(&Waker::from(bell.clone())));
        self.expect(number, future, Box::new(lost));
        if now.is_ready() {
            bell.wake();
        }
        number
    }
}

/// Gives a future its result, unless it has been cancelled.
fn fill(future: &Bound<'_, PyAny>, made: Made) -> PyResult<()> {
    let py = future.py();
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match entry(py, || made(py)) {
        Ok(result) => future.call_method1(intern!(py, "set_result"), (result,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

impl Drop for Port {
    fn drop(&mut self) {
        let pending = mem::take(&mut *lock(&self.pending));
        if !self.queue.is_ours() {
            // Work for the parent's threads.
            return mem::forget(pending);
        }
        let mut state = lock(&self.queue.state);
        state.closed = true;
        let ready = mem::take(&mut state.ready);
        drop(state);
        drop((pending, ready));
    }
}

/// Wakes the loop for one number. Called where a loss is found out.
struct Bell {
    queue: Arc<Queue>,
    number: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.number, Box::new(|py| Ok(py.None())));
    }
}
