//! `with`, where Ctrl-C must not come in between.
//!
//! A signal handler may raise before any line of a Python function, so also
//! before the first line of an `__exit__` written in Python: then nothing would
//! be released. Before a native function it cannot.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::lease::Lease;

/// A base for what can be entered. It has `_entered.leases`, a list for each
/// thread; `_enter()`, which gives a lease to put there; and `_leave(lease or
/// None, error)`, which releases it.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Scoped;

#[pymethods]
impl Scoped {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Scoped {
        Scoped
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let lease = this.call_method0("_enter")?;
        entered(this)?.append(&lease)?;
        Ok(lease)
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let entered = entered(this)?;
        let Some(last) = entered.len().checked_sub(1) else {
            return this.call_method1("_leave", (None::<()>, error)).map(|_| ());
        };
        let lease = entered.get_item(last)?;
        entered.del_item(last)?;
        let left = this.call_method1("_leave", (&lease, error));
        // Interrupted or not, it has been given back now.
        let core = lease.getattr("_core")?.cast_into::<Lease>()?;
        left.and(core.get().discard(this.py()))
    }
}

/// The leases of this thread. No Python runs for it, once the thread has entered.
fn entered<'py>(this: &Bound<'py, Scoped>) -> PyResult<Bound<'py, PyList>> {
    Ok(this.getattr("_entered")?.getattr("leases")?.cast_into()?)
}
