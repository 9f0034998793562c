//! Leader election: what it has beside the lock that its terms are leases of.

use std::sync::{Arc, Mutex};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use quorlock::binding::{Failures as CoreFailures, Owned, lock};
use quorlock::{Election as Core, Leadership, Observer as CoreObserver};

use crate::call::{Answer, Call};
use crate::error::entry;
use crate::inspection::parts;
use crate::lock::Lock;
use crate::options::{ANY, seconds};

/// The election of a lock that `Client.election` has made.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Election {
    core: Owned<Core>,
}

#[pymethods]
impl Election {
    #[new]
    fn new(py: Python<'_>, lock: &Lock) -> PyResult<Election> {
        entry(py, || {
            let core = Owned::new(Core::of(lock.plain()));
            Ok(Election { core })
        })
    }

    fn leader(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move { core.leader().await })
    }

    fn observe(&self, py: Python<'_>, every: &Bound<'_, PyAny>) -> PyResult<Observer> {
        entry(py, || {
            let core = self.core.observe(seconds("every", every, ANY)?);
            Ok(Observer {
                core: Owned::new(Arc::new(Mutex::new(core))),
            })
        })
    }

    /// Waits for so long, or until the client is closed.
    fn pause(&self, py: Python<'_>, time: &Bound<'_, PyAny>) -> PyResult<Call> {
        entry(py, || {
            let (core, time) = (self.core.clone(), seconds("pause", time, ANY)?);
            Ok(Call::new(true, async move { core.pause(time).await }))
        })
    }
}

/// Follows who leads.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Observer {
    core: Owned<Arc<Mutex<CoreObserver>>>,
}

#[pymethods]
impl Observer {
    /// How it is, and at later calls the next change: a `Change`.
    fn next(&self) -> Call {
        let place = Arc::clone(&self.core);
        let mut core = lock(&place).clone();
        Call::new(true, async move {
            let leadership = core.next().await?;
            Ok(Change {
                leadership,
                core: Owned::new(core),
                place: Owned::new(place),
            })
        })
    }
}

/// A change. It counts as seen once it is taken: a call that is given up in the very moment in which it has come leaves it
/// to the next.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Change {
    leadership: Leadership,
    /// As it is once this is taken.
    core: Owned<CoreObserver>,
    place: Owned<Arc<Mutex<CoreObserver>>>,
}

impl Answer for Change {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, self)?.into_any())
    }
}

#[pymethods]
impl Change {
    /// Who leads, if any candidate does, and whether that is known.
    fn taken(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        *lock(&self.place) = CoreObserver::clone(&self.core);
        let known = self.leadership.is_known();
        (self.leadership.leader().map(parts), known).into_py_any(py)
    }
}

/// Terms in a row whose work failed.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Failures(Mutex<CoreFailures>);

#[pymethods]
impl Failures {
    #[new]
    fn new() -> Failures {
        Failures(Mutex::default())
    }

    /// The same after one whose work ended well.
    fn none_after(&self, py: Python<'_>, led: &Bound<'_, PyAny>) -> PyResult<f64> {
        entry(py, || {
            let led = seconds("led", led, ANY)?;
            Ok(lock(&self.0).none_after(led).as_secs_f64())
        })
    }

    /// For how many seconds to pause after another one, which lasted for `led` seconds.
    fn pause_after(&self, py: Python<'_>, led: &Bound<'_, PyAny>) -> PyResult<f64> {
        entry(py, || {
            let led = seconds("led", led, ANY)?;
            Ok(lock(&self.0).pause_after(led).as_secs_f64())
        })
    }
}
