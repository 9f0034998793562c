//! Errors of the core as exceptions, and panics as errors.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorlock::binding::caught;
use quorlock::{Error, ErrorKind};

use crate::kept::ForkSafe;

/// The exception for an error. Which class it is stands in `errors.py`, by the
/// number of the kind.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    static MAKE: ForkSafe<Py<PyAny>> = ForkSafe::new();
    let nodes = error.nodes().iter().map(|n| (n.node(), n.message()));
    let nodes = nodes.collect::<Vec<_>>();
    let name = error.name().map(|name| PyBytes::new(py, name));
    let parts = (
        error.kind().number(),
        error.to_string(),
        nodes,
        name,
        error.holder(),
    );
    let made = MAKE
        .get_or_make(|| Ok(py.import("quorlock.errors")?.getattr("make")?.unbind()))
        .and_then(|make| make.bind(py).call1(parts));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        // The interpreter is out of memory or on its way out.
        Err(failed) => failed,
    }
}

/// An error that only the binding can see.
pub(crate) fn refused(py: Python<'_>, kind: ErrorKind, message: impl Into<String>) -> PyErr {
    raised(py, &Error::from_binding(kind, message))
}

/// A result of the core as one of Python's.
pub(crate) fn checked<T>(py: Python<'_>, result: Result<T, Error>) -> PyResult<T> {
    result.map_err(|error| raised(py, &error))
}

/// Every entry from Python goes through here: a panic becomes an
/// `InternalError`. PyO3 by itself would raise a `BaseException`, which passes
/// by `except Exception`.
pub(crate) fn entry<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    checked(py, caught(work))?
}
