//! Several locks at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use quorlock::binding::Owned;
use quorlock::{Leases as Core, Locks, LossReason};

use crate::call::{Answer, Call};
use crate::ending;
use crate::error::{checked, entry, raised};
use crate::lease::{Lease, unkept};
use crate::lock::{Lock, Owner};
use crate::options::{self, ANY, Options, flag, limit, seconds};
use crate::port::Port;
use crate::wait::wait;

/// Those that were given, each for the owner beside it.
fn asked(
    locks: &[PyRef<'_, Lock>],
    owners: &[PyRef<'_, Owner>],
    options: &Options<'_>,
) -> PyResult<Locks> {
    let of = |(lock, owner): (&PyRef<'_, Lock>, &PyRef<'_, Owner>)| {
        options::of_lock(lock.of(owner), options)
    };
    let locks = locks.iter().zip(owners).map(of).collect::<PyResult<_>>()?;
    Ok(Locks::of(locks))
}

/// Refuses what cannot be held together.
#[pyfunction]
pub(crate) fn check_all(py: Python<'_>, locks: Vec<PyRef<'_, Lock>>) -> PyResult<()> {
    entry(py, || {
        let locks = locks.iter().map(|lock| lock.plain()).collect();
        checked(py, Locks::of(locks).check())
    })
}

/// Acquires all of them. `options`: those that hold for this call alone.
#[pyfunction]
pub(crate) fn acquire_all(
    py: Python<'_>,
    locks: Vec<PyRef<'_, Lock>>,
    owners: Vec<PyRef<'_, Owner>>,
    options: &Options<'_>,
) -> PyResult<Call> {
    entry(py, || {
        let locks = asked(&locks, &owners, options)?;
        Ok(Call::new(true, async move { locks.win().await.map(Some) }))
    })
}

/// As `acquire_all`; `None` where others hold one of them all the time.
#[pyfunction]
pub(crate) fn try_all(
    py: Python<'_>,
    locks: Vec<PyRef<'_, Lock>>,
    owners: Vec<PyRef<'_, Owner>>,
    options: &Options<'_>,
) -> PyResult<Call> {
    entry(py, || {
        let locks = asked(&locks, &owners, options)?;
        Ok(Call::new(true, async move { locks.try_win().await }))
    })
}

/// Leases that were won together: to be asked as one is.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Leases {
    core: Owned<Arc<Core>>,
    /// A release of them has begun, or will.
    given_back: AtomicBool,
}

impl Leases {
    /// Releases in the background.
    pub(crate) fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || {
            self.core.let_go();
            Ok(())
        })
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        if !self.given_back.load(Ordering::Relaxed) && self.core.is_ours() && self.core.is_held() {
            let names: Vec<&[u8]> = self.core.iter().map(quorlock::Lease::name).collect();
            unkept(&names.join(&b", "[..]));
        }
    }
}

impl Answer for Option<Core> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // Here, where its caller goes on: the interpreter may have been busy for long.
        let leases = checked(py, self.map(Core::delivered).transpose())?;
        let leases = leases.map(|leases| Leases {
            core: Owned::new(Arc::new(leases)),
            given_back: AtomicBool::new(false),
        });
        leases.into_py_any(py)
    }
}

#[pymethods]
impl Leases {
    /// Each lease, in the order of the locks' keys.
    fn parts(&self) -> Vec<Lease> {
        let parts = self.core.parts().iter();
        parts.map(|lease| Lease::shared(lease.clone())).collect()
    }

    /// Which of them is the lease on the lock of that name.
    fn place_of(&self, name: &[u8]) -> Option<usize> {
        self.core.places().of(name)
    }

    /// Why the first of them was lost.
    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.core.loss().map(|(_, reason)| reason.as_str())
    }

    /// The lock whose lease was lost.
    #[getter]
    fn lost_name(&self) -> Option<&[u8]> {
        self.core.loss().map(|(name, _)| name)
    }

    fn is_held(&self) -> bool {
        self.core.is_held()
    }

    fn remaining(&self) -> f64 {
        self.core.remaining().as_secs_f64()
    }

    /// The error of a scope that ends after the loss; `None` where there was none.
    fn lost_error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.core.lost_error()?;
        Some(raised(py, &error).into_value(py).into())
    }

    fn extend(&self, py: Python<'_>, ttl: &Bound<'_, PyAny>) -> PyResult<Call> {
        entry(py, || {
            let (core, ttl) = (Arc::clone(&self.core), limit("ttl", ttl, ANY)?);
            Ok(Call::new(false, async move { core.extend(ttl).await }))
        })
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

    /// Releases in the background: for leases that their acquirer gave up before it had them.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, || {
            self.given_back.store(true, Ordering::Relaxed);
            self.core.take_back();
            Ok(())
        })
    }

    /// Waits for the first loss on the calling thread; false when `timeout` has passed.
    fn wait_lost(&self, py: Python<'_>, timeout: &Bound<'_, PyAny>) -> PyResult<bool> {
        entry(py, || {
            let (core, limit) = (Arc::clone(&self.core), limit("timeout", timeout, ANY)?);
            let lost = Box::pin(async move { core.lost().await.1 });
            wait(py, lost, limit).map(|lost| lost.is_some())
        })
    }

    /// Gives `None` to `future` at the first loss.
    fn watch_lost(&self, py: Python<'_>, port: &Port, future: Py<PyAny>) -> PyResult<u64> {
        entry(py, || Ok(port.watch(future, |ring| self.core.bell(ring))))
    }

    /// Calls `callback(reason)` at the first loss, on a thread of the dispatcher.
    fn on_lost(&self, callback: Py<PyAny>) {
        let call = move |_: &[u8], reason: LossReason| ending::tell(&callback, &[reason.as_str()]);
        self.core.on_lost(call);
    }
}
