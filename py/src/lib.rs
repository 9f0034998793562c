//! `quorlock._native`: the core for Python. Conversion only; what users see is
//! written in Python, in `python/quorlock`.
//!
//! Importing it starts no thread, so that a server may import it and fork.

mod call;
mod client;
mod election;
mod ending;
mod error;
mod inspection;
mod kept;
mod lease;
mod lock;
mod log;
mod options;
mod port;
mod probe;
mod scoped;
mod several;
mod wait;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use quorlock::{ErrorKind, Owner};

/// The number of the calling thread, by the core: the system's ids are used again, and frameworks put their own in the
/// place of those of Python.
#[pyfunction]
fn _thread() -> u64 {
    Owner::thread_number()
}

/// Closes every client of the process, for its exit.
#[pyfunction]
fn _close_all(py: Python<'_>) -> PyResult<()> {
    error::entry(py, || {
        ending::end(py);
        Ok(())
    })
}

/// Number, name, summary and exception of every error kind of the core, for the test that
/// each has its class.
#[pyfunction]
fn _kinds(py: Python<'_>) -> Vec<(i32, &'static str, &'static str, Py<PyAny>)> {
    let raised = |kind| error::refused(py, kind, "a test").into_value(py).into();
    let kinds = ErrorKind::ALL.iter();
    kinds
        .map(|&kind| (kind.number(), kind.name(), kind.summary(), raised(kind)))
        .collect()
}

/// A call that panics, for the test that it arrives as an exception: at once,
/// or while it is waited for.
#[pyfunction]
fn _panic(py: Python<'_>, at_once: bool) -> PyResult<call::Call> {
    error::entry(py, || {
        if at_once {
            panic!("a test")
        } else {
            Ok(call::Call::new::<()>(true, async { panic!("a test") }))
        }
    })
}

/// A value that was given for an option, as messages show it.
#[pyfunction]
fn given(option: &str, value: &Bound<'_, PyAny>) -> String {
    options::shown(option, value)
}

/// Why a name is refused that everybody would see, with `{what}` for what it is; `None`: it is not.
#[pyfunction]
fn secret_in(name: &[u8]) -> Option<String> {
    quorlock::binding::check_shared("{what}", name).err()
}

/// See [`quorlock::metrics_text`].
#[pyfunction]
fn metrics_text(py: Python<'_>) -> String {
    py.detach(quorlock::metrics_text)
}

/// See [`quorlock::testing::nodes`].
#[pyfunction]
fn testing_nodes(count: usize) -> Vec<String> {
    quorlock::testing::nodes(count)
}

/// See [`quorlock::testing::lose`].
#[pyfunction]
fn testing_lose(py: Python<'_>, name: &[u8], reason: &str) -> PyResult<usize> {
    let reason = error::checked(py, reason.parse())?;
    Ok(py.detach(|| quorlock::testing::lose(name, reason)))
}

/// Refuses an interpreter that is not the first, as CPython does by itself from
/// 3.12 on. Another interpreter that is still there at the exit waits for threads that wait for it.
fn refuse_another_interpreter() -> PyResult<()> {
    // SAFETY: the thread is attached to the interpreter that imports this.
    match unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "quorlock does not run in subinterpreters",
        )),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_another_interpreter()?;
    kept::of_pyo3(module.py())?;
    module.add_class::<call::Call>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<lock::Owner>()?;
    module.add_class::<election::Election>()?;
    module.add_class::<election::Failures>()?;
    module.add_class::<election::Observer>()?;
    module.add_class::<election::Change>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<several::Leases>()?;
    module.add_class::<port::Port>()?;
    module.add_class::<scoped::Ends>()?;
    module.add_class::<scoped::Place>()?;
    module.add_class::<scoped::Scoped>()?;
    module.add_class::<scoped::Scopes>()?;
    module.add_function(wrap_pyfunction!(several::check_all, module)?)?;
    module.add_function(wrap_pyfunction!(several::acquire_all, module)?)?;
    module.add_function(wrap_pyfunction!(several::try_all, module)?)?;
    module.add_function(wrap_pyfunction!(_thread, module)?)?;
    module.add_function(wrap_pyfunction!(_close_all, module)?)?;
    module.add_function(wrap_pyfunction!(log::_log_to, module)?)?;
    module.add_function(wrap_pyfunction!(_kinds, module)?)?;
    module.add_function(wrap_pyfunction!(_panic, module)?)?;
    module.add_function(wrap_pyfunction!(given, module)?)?;
    module.add_function(wrap_pyfunction!(options::seconds_of, module)?)?;
    module.add_function(wrap_pyfunction!(secret_in, module)?)?;
    module.add_function(wrap_pyfunction!(metrics_text, module)?)?;
    module.add_function(wrap_pyfunction!(testing_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(testing_lose, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
