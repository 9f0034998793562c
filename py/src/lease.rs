//! The lease.

use std::ffi::CString;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use futures::FutureExt;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use quorlock::binding::{Owned, shown};
use quorlock::{Lease as Core, LossReason};

use crate::call::{Answer, Call};
use crate::ending;
use crate::error::{checked, entry, raised};
use crate::log::warn;
use crate::options::{ANY, flag, limit, seconds};
use crate::port::Port;
use crate::wait::wait;

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Lease {
    core: Owned<Arc<Core>>,
    /// Others keep it as well: leases that were won together.
    shared: bool,
    /// A release of it has begun, or will.
    given_back: AtomicBool,
}

impl Lease {
    fn new(core: Core) -> Lease {
        Lease {
            core: Owned::new(Arc::new(core)),
            shared: false,
            given_back: AtomicBool::new(false),
        }
    }

    /// One of several that were won together, which tell of themselves.
    pub(crate) fn shared(core: Arc<Core>) -> Lease {
        Lease {
            core: Owned::new(core),
            shared: true,
            given_back: AtomicBool::new(false),
        }
    }

    /// Releases in the background.
    pub(crate) fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || {
            // Once polled, a release is on its way.
            let _ = pin!(self.core.release()).poll_unpin(&mut Context::from_waker(Waker::noop()));
            Ok(())
        })
    }
}

/// As a file or socket that was not closed. Not written in Python: there Ctrl-C
/// would strike in the middle and be lost.
impl Drop for Lease {
    fn drop(&mut self) {
        // The loss of a lease has been reported, and a forked child holds nothing.
        let is_cared_for = self.shared || self.given_back.load(Ordering::Relaxed);
        if !is_cared_for && self.core.is_ours() && self.core.is_held() {
            unkept(self.core.name());
        }
    }
}

/// Warns, and logs, that a lease is collected while it is held.
pub(crate) fn unkept(name: &[u8]) {
    const UNKEPT: &str = "the lock {lock} is released because nobody keeps its lease: keep the \
                          lease and release it, or hold the lock by `with`";
    let warning = UNKEPT.replace("{lock}", &shown(name));
    warn("lease_unkept", UNKEPT, shown(name));
    Python::try_attach(|py| {
        // The error of the code that runs while this is collected.
        let other = PyErr::take(py);
        let warning = CString::new(warning).unwrap_or_default();
        let category = py.get_type::<PyResourceWarning>();
        if let Err(error) = PyErr::warn(py, &category, &warning, 1) {
            error.write_unraisable(py, None);
        }
        if let Some(other) = other {
            other.restore(py);
        }
    });
}

impl Answer for Option<Core> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // Here, where its caller goes on: the interpreter may have been busy for long.
        let lease = checked(py, self.map(Core::delivered).transpose())?;
        lease.map(Lease::new).into_py_any(py)
    }
}

#[pymethods]
impl Lease {
    #[getter]
    fn name(&self) -> &[u8] {
        self.core.name()
    }

    #[getter]
    fn token(&self) -> &str {
        self.core.token()
    }

    #[getter]
    fn fence(&self) -> Option<u64> {
        self.core.fence()
    }

    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.core.loss().map(LossReason::as_str)
    }

    fn is_held(&self) -> bool {
        self.core.is_held()
    }

    /// Whether the handle has been given back.
    fn is_released(&self) -> bool {
        self.core.is_released()
    }

    fn remaining(&self) -> f64 {
        self.core.remaining().as_secs_f64()
    }

    /// The error of a scope that ends after the loss.
    fn lost_error(&self, py: Python<'_>) -> Py<PyAny> {
        raised(py, &self.core.lost_error()).into_value(py).into()
    }

    fn extend(&self, py: Python<'_>, ttl: &Bound<'_, PyAny>) -> PyResult<Call> {
        entry(py, || {
            let (core, ttl) = (Arc::clone(&self.core), limit("ttl", ttl, ANY)?);
            Ok(Call::new(false, async move { core.extend(ttl).await }))
        })
    }

    #[getter]
    fn slot(&self) -> Option<u32> {
        self.core.slot()
    }

    fn is_shared(&self) -> bool {
        self.core.is_shared()
    }

    fn downgrade(&self) -> Call {
        let core = Arc::clone(&self.core);
        Call::new(false, async move { core.downgrade().await })
    }

    /// Does what of an export has to be waited for; the lease is held as before.
    fn prepare_export(&self) -> Call {
        let core = Arc::clone(&self.core);
        Call::new(false, async move { core.prepare_export().await })
    }

    /// Ends it here; a text with which another client goes on.
    #[getter]
    fn exported(&self, py: Python<'_>) -> PyResult<String> {
        entry(py, || checked(py, self.core.export_now()))
    }

    fn ensure(&self, py: Python<'_>, min: &Bound<'_, PyAny>) -> PyResult<Call> {
        entry(py, || {
            let (core, min) = (Arc::clone(&self.core), seconds("min_remaining", min, ANY)?);
            Ok(Call::new(false, async move { core.ensure(min).await }))
        })
    }

    /// Whether a release waits for the nodes, where its caller says `confirm`, or nothing. Fails where it
    /// has to wait, and is not to.
    fn waits(&self, py: Python<'_>, confirm: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        entry(py, || {
            let confirm = confirm.map(|said| flag("confirm", said)).transpose()?;
            checked(py, self.core.waits(confirm))
        })
    }

    fn release(&self) -> Call {
        // A call that is cancelled at once is carried out all the same.
        self.given_back.store(true, Ordering::Relaxed);
        let core = Arc::clone(&self.core);
        Call::new(false, async move { core.release_confirmed().await })
    }

    /// Releases without waiting for the nodes. `port`: of the event loop that runs here.
    fn release_unconfirmed(&self, py: Python<'_>, port: Option<&Port>) -> PyResult<bool> {
        entry(py, || {
            self.given_back.store(true, Ordering::Relaxed);
            let core = Arc::clone(&self.core);
            match port {
                Some(port) => Ok(core.release_in_loop(port.drives())),
                None => checked(py, py.detach(|| core.release_unconfirmed())),
            }
        })
    }

    /// Releases in the background: for a lease that its acquirer gave up before it had it.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || {
            self.given_back.store(true, Ordering::Relaxed);
            self.core.take_back();
            Ok(())
        })
    }

    /// Waits for the loss on the calling thread; false when `timeout` has passed.
    fn wait_lost(&self, py: Python<'_>, timeout: &Bound<'_, PyAny>) -> PyResult<bool> {
        entry(py, || {
            let limit = limit("timeout", timeout, ANY)?;
            wait(py, self.core.lost(), limit).map(|lost| lost.is_some())
        })
    }

    /// Gives `None` to `future` at the loss.
    fn watch_lost(&self, py: Python<'_>, port: &Port, future: Py<PyAny>) -> PyResult<u64> {
        entry(py, || Ok(port.watch(future, |ring| self.core.bell(ring))))
    }

    /// Calls `callback(reason)` at the loss, on a thread of the dispatcher.
    fn on_lost(&self, callback: Py<PyAny>) {
        let call = move |reason: LossReason| ending::tell(&callback, &[reason.as_str()]);
        self.core.on_lost(call);
    }
}
