//! Scopes: what an object has open, and which of it is left.
//!
//! `with`, where Ctrl-C must not come in between: a signal handler may raise before any
//! line of a Python function, so also before the first line of an `__exit__` written in
//! Python: then nothing would be released. Before a native function it cannot.
//!
//! Which scope is left is never guessed: `docs/explanation/owners.md` has the rules.

mod book;
mod choice;
mod entered;
mod frame;
mod open;
mod site;
mod wrapper;

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use quorlock::binding::lock;

use self::entered::Entrance;
use self::open::{Departure, OpenScopes};
use crate::kept::name;
use crate::lease::Lease;
use crate::several::Leases;

/// A base for what can be entered. It has `_enter(at_once)`, which gives the lease of a new scope, or `None` where the
/// scope goes on without; and `_leave(lease, error)`, which releases it; `_leave_none(elsewhere, error)`, where no
/// scope may be left, and `_leave_doubt(leases, warn, error)`, where several may.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Scoped(OpenScopes);

#[pymethods]
impl Scoped {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Scoped {
        Scoped(OpenScopes::default())
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let open = &this.get().0;
        let at = Entrance::entering(frame::current(py), py)?;
        open.refuse_more(py, &at)?;
        let lease = if open.awaits_itself(py)? {
            this.call_method1(name!(py, "_enter"), (true,))?
        } else {
            this.call_method0(name!(py, "_enter"))?
        };
        open.enter(py, at, lease.clone().unbind());
        Ok(lease)
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = this.py();
        match this.get().0.leave(py, frame::current(py))? {
            Departure::Scopes { left, first } => {
                let mut ended = Ok(());
                for (at, entry) in left.into_iter().enumerate() {
                    let scope = entry.scope.scope.bind(py);
                    if scope.is_none() {
                        continue;
                    }
                    // A scope that was left before has raised its loss there.
                    let left = if first && at > 0 {
                        Ok(())
                    } else {
                        this.call_method1(name!(py, "_leave"), (scope, error))
                            .map(|_| ())
                    };
                    // Interrupted or not, it has been given back now.
                    ended = ended.and(left.and(let_go(scope)));
                }
                ended
            }
            Departure::Doubt { scopes, warn } => {
                this.call_method1(name!(py, "_leave_doubt"), (scopes, warn, error))?;
                Ok(())
            }
            Departure::Nothing { elsewhere } => {
                this.call_method1(name!(py, "_leave_none"), (elsewhere, error))?;
                Ok(())
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit)
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// A base for what is entered but once, and left wherever that is: a lease.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Ends;

#[pymethods]
impl Ends {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Ends {
        Ends
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> Bound<'py, Self> {
        this.clone()
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let left = this.call_method1(name!(this.py(), "_leave"), (error,));
        left.and(let_go(this.as_any()))
    }
}

/// Entrance a scope is entered that is open later: in asyncio.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Place(Mutex<Option<Entrance>>);

#[pymethods]
impl Place {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(held) => held.as_ref().map_or(Ok(()), |at| at.visit(&visit)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let at = lock(&self.0).take();
        drop(at);
    }
}

/// The scopes of an object in asyncio.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Scopes(OpenScopes);

#[pymethods]
impl Scopes {
    #[new]
    fn new() -> Scopes {
        Scopes(OpenScopes::default())
    }

    /// Entrance this frame enters.
    fn place(&self, py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<Place> {
        let at = Entrance::entering(Some(frame.clone()), py)?;
        self.0.refuse_more(py, &at)?;
        Ok(Place(Mutex::new(Some(at))))
    }

    /// Whether the caller has left one of several, and would now wait for what is not released on that account.
    fn awaits_itself(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.awaits_itself(py)
    }

    /// Opens a scope there.
    fn enter(&self, py: Python<'_>, place: &Place, scope: Py<PyAny>) {
        let at = lock(&place.0).take();
        let at = at.unwrap_or_else(Entrance::unknown);
        self.0.enter(py, at, scope);
    }

    /// Which scopes are left from this frame; whether that is in doubt; and whether that is to be said, or else whether the first
    /// of them is left here, or, where there are none, whether there is a scope that another function alone leaves.
    fn leave(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Py<PyAny>>, bool, bool)> {
        Ok(match self.0.leave(py, Some(frame.clone()))? {
            Departure::Scopes { left, first } => {
                let scopes = left.into_iter().map(|entry| entry.scope.scope).collect();
                (scopes, false, first)
            }
            Departure::Doubt { scopes, warn } => (scopes, true, warn),
            Departure::Nothing { elsewhere } => (Vec::new(), false, elsewhere),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit)
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// Releases what a scope holds in the background.
fn let_go(scope: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = scope.py();
    let core = scope.getattr(name!(py, "_core"))?;
    match core.cast_into::<Lease>() {
        Ok(lease) => lease.get().let_go(py),
        Err(other) => other.into_inner().cast_into::<Leases>()?.get().let_go(py),
    }
}
