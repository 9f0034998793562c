//! The end of the interpreter, and a thread of ours that meets it.
//!
//! Once the interpreter is ending, CPython (before 3.14) kills a thread that
//! would go on with Python: its stack is unwound without a panic. PyO3 stops a
//! thread that is killed while it attaches. A thread that is killed within a user's
//! function has to be stopped here, before any destructor on the way touches
//! Python objects and before `catch_unwind` aborts.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{mem, thread};

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use quorlock::binding;

unsafe extern "C-unwind" {
    /// PyO3 declares it as a function that never unwinds.
    fn PyObject_CallObject(function: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject;
}

/// The process that is ending. A child forked by then is not.
static ENDING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether it is this thread that ends the interpreter.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire) == binding::process_id()
}

/// Closes every client. Afterwards no thread of ours runs Python.
pub(crate) fn end(py: Python<'_>) {
    ENDING.store(binding::process_id(), Ordering::Release);
    ENDS.set(true);
    py.detach(binding::close_all);
}

/// Keeps a thread whose wait was ended by [`end`] from going on: it is about to
/// be killed, and to print its exception while the streams go could be fatal.
/// Not forever, since an exit handler may join it.
#[allow(clippy::disallowed_methods, reason = "there is no event to wait for")]
pub(crate) fn linger(py: Python<'_>) {
    if is_ending() && !ENDS.get() {
        py.detach(|| thread::sleep(Duration::from_secs(1)));
    }
}

/// Calls a function on a thread of ours, unless the interpreter is ending. What
/// it raises goes to `sys.unraisablehook`.
pub(crate) fn tell(function: &Py<PyAny>, arguments: &[&str]) {
    if let Some(error) = call(function, arguments) {
        Python::try_attach(|py| error.write_unraisable(py, None));
    }
}

/// Calls a function on a thread that is not attached, unless the interpreter is ending; what it
/// raises.
pub(crate) fn call(function: &Py<PyAny>, arguments: &[&str]) -> Option<PyErr> {
    if is_ending() && !ENDS.get() {
        return None;
    }
    let called = Python::try_attach(|py| -> PyResult<()> {
        let arguments = PyTuple::new(py, arguments)?;
        let stop = Stop;
        // SAFETY: the thread is attached, and both objects are alive.
        let result = unsafe { PyObject_CallObject(function.as_ptr(), arguments.as_ptr()) };
        mem::forget(stop);
        // SAFETY: the call gives a new reference, or null and an error.
        unsafe { Bound::from_owned_ptr_or_err(py, result) }.map(drop)
    });
    // While the interpreter ends there is nothing to attach to.
    called?.err()
}

/// Stops a thread that is unwound: it would never have run Python again.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        loop {
            thread::park();
        }
    }
}
