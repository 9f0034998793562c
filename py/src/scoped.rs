//! `with`, where Ctrl-C must not come in between.
//!
//! A signal handler may raise before any line of a Python function, so also
//! before the first line of an `__exit__` written in Python: then nothing would
//! be released. Before a native function it cannot.

use pyo3::ffi::PyEval_GetFrame;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::_thread;
use crate::lease::Lease;
use crate::several::Leases;

/// A base for what can be entered. It has `_entered`, a list of the scopes that
/// are open; `_enter()`, which gives the lease of a new one, or `None` where the scope
/// goes on without; and `_leave(lease or None, error)`, which releases it, and is told
/// `None` where no scope is open.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Scoped;

/// Where a scope was entered. A `with` is left by the frame that entered it, in
/// whatever thread a generator goes on. No frame is as good as one: what opens
/// scopes for others, as an `ExitStack`, leaves them elsewhere.
type Place = (usize, u64);

fn here() -> Place {
    // SAFETY: the thread is attached. What comes is null or the caller's frame, which
    // is only compared.
    (unsafe { PyEval_GetFrame() } as usize, _thread())
}

#[pymethods]
impl Scoped {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Scoped {
        Scoped
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let lease = this.call_method0("_enter")?;
        entered(this)?.append((here(), &lease))?;
        Ok(lease)
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let Some(lease) = left(&entered(this)?)? else {
            return this.call_method1("_leave", (None::<()>, error)).map(|_| ());
        };
        if lease.is_none() {
            return Ok(());
        }
        let left = this.call_method1("_leave", (&lease, error));
        // Interrupted or not, it has been given back now.
        left.and(core(&lease)?.let_go(this.py()))
    }
}

/// The scopes that are open. No Python runs for it.
fn entered<'py>(this: &Bound<'py, Scoped>) -> PyResult<Bound<'py, PyList>> {
    Ok(this.getattr("_entered")?.cast_into()?)
}

/// What a scope holds.
enum Core<'py> {
    One(Bound<'py, Lease>),
    All(Bound<'py, Leases>),
}

impl Core<'_> {
    fn is_lost(&self) -> bool {
        match self {
            Core::One(lease) => lease.get().is_lost(),
            Core::All(leases) => leases.get().is_lost(),
        }
    }

    fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Core::One(lease) => lease.get().let_go(py),
            Core::All(leases) => leases.get().let_go(py),
        }
    }
}

fn core<'py>(lease: &Bound<'py, PyAny>) -> PyResult<Core<'py>> {
    let core = lease.getattr("_core")?;
    match core.cast_into() {
        Ok(lease) => Ok(Core::One(lease)),
        Err(other) => Ok(Core::All(other.into_inner().cast_into()?)),
    }
}

/// Takes the lease of the scope that is left here: the newest that this frame has
/// entered, else one of this thread, else of any. Of several then one that is
/// lost, so that none is ended that somebody else may be inside of.
fn left<'py>(entered: &Bound<'py, PyList>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (frame, thread) = here();
    let mut best: Option<((bool, bool), usize, _)> = None;
    for at in (0..entered.len()).rev() {
        let (place, lease): (Place, Bound<'py, PyAny>) = entered.get_item(at)?.extract()?;
        if place.0 == frame {
            best = Some(((true, true), at, lease));
            break;
        }
        let lost = !lease.is_none() && core(&lease)?.is_lost();
        let fits = (place.1 == thread, lost);
        if best.as_ref().is_none_or(|(best, ..)| *best < fits) {
            best = Some((fits, at, lease));
        }
    }
    let Some((_, at, lease)) = best else {
        return Ok(None);
    };
    entered.del_item(at)?;
    Ok(Some(lease))
}
