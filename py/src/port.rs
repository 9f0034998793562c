//! How results reach asyncio: one channel per event loop for all of them.
//!
//! The I/O thread puts what has completed into a queue and rings if
//! the queue was empty; it never attaches to the interpreter. The loop's thread
//! wakes up once, takes all there is and fills in the futures.
//!
//! The other way, the calls of one turn of the loop are submitted together at its end, so that
//! their requests leave in one write to each node. A call goes at once where the loop has no other
//! under way, unless the turn before had several calls: then this one is likely to be the first of
//! as many.
//!
//! The loop's own registration of the reader is the only lasting reference to a
//! [`Port`]. When the loop is closed or collected, the port is dropped: what
//! was under way is cancelled, and a lease that no caller took is released.

use std::any::Any;
use std::collections::HashMap;
use std::mem;
#[cfg(unix)]
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use quorlock::binding::{CallBatch, Mailbox, Owned, Steps, Work, lock};

use crate::error::{checked, entry};
use crate::kept::name;

#[cfg_attr(windows, path = "port/bell_windows.rs")]
mod bell;

/// Makes the result for its future, on the loop's thread. Dropped unused, it
/// drops what it would have made the result from: a lease is released.
pub(crate) type Delivery = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

pub(crate) type Queue = Mailbox<(u64, Delivery)>;

/// A future, and what runs for it until it is dropped.
type PendingFuture = (Py<PyAny>, Box<dyn Any + Send>);

/// The channel of one event loop.
#[pyclass(frozen, weakref, module = "quorlock._native")]
pub(crate) struct Port {
    queue: Owned<Arc<Queue>>,
    bell: bell::Bell,
    /// Never locked while the interpreter is called, so that no thread ever waits for
    /// the one while it holds the other.
    pending: Mutex<HashMap<u64, PendingFuture>>,
    turn: CallBatch,
    /// Whether several calls were made in the turn under way, or in the last one.
    several: AtomicBool,
    /// How the loop drives the I/O itself, and what it has to watch for that.
    steps: Option<(Steps, std::ffi::c_int)>,
    /// Whether the last step has brought nothing.
    idle: AtomicBool,
    /// Calls that are under way.
    calls: Arc<AtomicUsize>,
}

#[pymethods]
impl Port {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Port> {
        let (bell, rope) = bell::Bell::new(py)?;
        let queue = Queue::new(move || rope.pull());
        Ok(Port {
            queue: Owned::new(Arc::new(queue)),
            bell,
            pending: Mutex::default(),
            turn: CallBatch::default(),
            several: AtomicBool::new(false),
            steps: checked(py, Steps::new())?,
            idle: AtomicBool::new(false),
            calls: Arc::default(),
        })
    }

    /// The file descriptor for `loop.add_reader`.
    #[cfg(unix)]
    fn fileno(&self) -> RawFd {
        self.bell.descriptor()
    }

    /// Has itself called in the event loop, which can watch no descriptor.
    #[cfg(windows)]
    fn call_in(this: &Bound<'_, Self>, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        this.get().bell.calls(this, event_loop)
    }

    /// Another one, which calls for `step`; `None` where the I/O thread does it all.
    fn sockets(&self) -> Option<std::ffi::c_int> {
        self.steps.map(|(_, descriptor)| descriptor)
    }

    /// There may be something to read from a node: reads it, and fills in the futures.
    fn step(this: &Bound<'_, Self>) -> PyResult<()> {
        entry(this.py(), || {
            let port = this.get();
            // A forked child shares the descriptor, and must not touch what the parent has.
            if let (true, Some((steps, _))) = (port.queue.is_ours(), &port.steps) {
                if port.idle.load(Ordering::Relaxed) {
                    steps.has_heard();
                }
                port.queue.attend();
                let _ = steps.step(Vec::new());
                let any = Port::deliver(this)?;
                port.idle.store(!any, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    /// Whether this process made it. Parent and child share the descriptors,
    /// so the child must not read from them.
    fn is_ours(&self) -> bool {
        self.queue.is_ours()
    }

    /// Fills in the futures of all that has completed.
    fn __call__(this: &Bound<'_, Self>) -> PyResult<()> {
        let (py, port) = (this.py(), this.get());
        entry(py, || {
            port.bell.heard();
            Port::deliver(this).map(drop)
        })
    }

    /// Submits what was held.
    fn turn_end(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || checked(py, self.turn.end()))
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
    /// Fills in the futures of what the core has completed; whether there was anything.
    fn deliver(this: &Bound<'_, Self>) -> PyResult<bool> {
        let (py, port) = (this.py(), this.get());
        let ready = port.queue.take();
        let any = !ready.is_empty();
        for (number, made) in ready {
            let pending = lock(&port.pending).remove(&number);
            if let Some((future, _)) = pending {
                fill(future.bind(py), made)
                    .unwrap_or_else(|error| error.write_unraisable(py, None));
            }
        }
        Ok(any)
    }

    /// Begins a call whose result goes to `future`: on this thread and at once, if the loop has no
    /// other, else at the end of the turn.
    pub(crate) fn begin(
        this: &Bound<'_, Self>,
        future: &Bound<'_, PyAny>,
        call: Work,
    ) -> PyResult<CallCount> {
        let (py, port) = (this.py(), this.get());
        let others = port.calls.fetch_add(1, Ordering::Relaxed);
        let underway = CallCount(Arc::clone(&port.calls));
        if port.turn.is_begun() {
            port.several.store(true, Ordering::Relaxed);
        } else if let Some((steps, _)) = &port.steps
            && others == 0
            && !port.several.load(Ordering::Relaxed)
        {
            checked(py, port.turn.submit_alone(call, steps))?;
            return Ok(underway);
        } else {
            // Comes behind the tasks that are about to run.
            let event_loop = future.call_method0(name!(py, "get_loop"))?;
            let turn_end = this.getattr(name!(py, "turn_end"))?;
            event_loop.call_method1(name!(py, "call_soon"), (turn_end,))?;
            port.several.store(false, Ordering::Relaxed);
            port.turn.begin();
        }
        checked(py, port.turn.submit(call))?;
        Ok(underway)
    }

    /// Whether the loop drives what it sends itself: it has no call under way.
    pub(crate) fn drives(&self) -> bool {
        let alone = self.calls.load(Ordering::Relaxed) == 0;
        alone && self.steps.is_some() && self.queue.is_ours()
    }

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

    /// Gives `None` to `future` when the bell rings that `hang` hangs up.
    pub(crate) fn watch<B: Send + 'static>(
        &self,
        future: Py<PyAny>,
        hang: impl FnOnce(Box<dyn Fn() + Send + Sync>) -> B,
    ) -> u64 {
        let (number, queue) = self.number();
        let ring = move || queue.push((number, Box::new(|py| Ok(py.None()))));
        let lost = hang(Box::new(ring));
        self.expect(number, future, Box::new(lost));
        number
    }
}

/// A call that the loop has begun, until it has its result.
pub(crate) struct CallCount(Arc<AtomicUsize>);

impl Drop for CallCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives a future its result, unless it has been cancelled.
fn fill(future: &Bound<'_, PyAny>, made: Delivery) -> PyResult<()> {
    let py = future.py();
    if future.call_method0(name!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match entry(py, || made(py)) {
        Ok(result) => future.call_method1(name!(py, "set_result"), (result,))?,
        Err(error) => future.call_method1(name!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

impl Drop for Port {
    fn drop(&mut self) {
        let pending = mem::take(&mut *lock(&self.pending));
        if !self.queue.is_ours() {
            // Work for the parent's threads.
            return mem::forget((pending, mem::take(&mut self.turn)));
        }
        self.queue.close();
        drop(pending);
        // What was held goes on: a release is carried out, a call that its future has revoked ends.
        let _ = self.turn.end();
    }
}
