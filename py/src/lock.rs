//! The lock.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorlock::binding::Owned;
use quorlock::{Lock as CoreLock, Owner as Core};

use crate::call::Call;
use crate::error::{checked, entry};
use crate::options::{self, ANY, Options};

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Lock {
    core: Owned<CoreLock>,
}

/// The owner that may re-enter: one of our own, different from every other, which no thread ends with. What
/// makes two callers one owner stands in `_owner.py`.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Owner(Core);

#[pymethods]
impl Owner {
    #[new]
    fn new() -> Owner {
        Owner(Core::task())
    }
}

impl Lock {
    pub(crate) fn new(py: Python<'_>, core: CoreLock, options: &Options<'_>) -> PyResult<Lock> {
        let core = options::of_lock(core, options)?;
        checked(py, core.check())?;
        Ok(Lock {
            core: Owned::new(core),
        })
    }

    /// As it was made.
    pub(crate) fn plain(&self) -> CoreLock {
        self.core.clone()
    }

    /// The lock of this owner, unless it was given one by name.
    pub(crate) fn of(&self, owner: &Owner) -> CoreLock {
        self.core.clone().owner_or(|| owner.0.clone())
    }
}

#[pymethods]
impl Lock {
    /// By which metrics tell it from others; empty for none.
    #[getter]
    fn group(&self) -> &'static str {
        self.core.group_name()
    }

    /// What is the same for all locks of one client and one key.
    fn place(&self, py: Python<'_>) -> PyResult<(usize, Py<PyBytes>)> {
        entry(py, || {
            let (client, key) = checked(py, self.core.place())?;
            Ok((client, PyBytes::new(py, &key).unbind()))
        })
    }

    /// Whether the lease of this owner is held; `None` where it has none.
    fn holds(&self, owner: &Owner) -> Option<bool> {
        self.of(owner).is_held_by_owner()
    }

    /// Whether it is asked for to be shared.
    #[getter]
    fn shared(&self) -> bool {
        self.core.is_shared()
    }

    /// Whether it is a semaphore.
    #[getter]
    fn has_slots(&self) -> bool {
        self.core.has_slots()
    }

    /// Whether this owner has a lease that is shared.
    fn shares(&self, owner: &Owner) -> bool {
        self.of(owner).is_shared_by_owner()
    }

    /// `options`: those that hold for this call alone.
    fn acquire(&self, py: Python<'_>, owner: &Owner, options: &Options<'_>) -> PyResult<Call> {
        entry(py, || {
            let core = options::of_lock(self.of(owner), options)?;
            let lease = async move { core.win().await.map(Some) };
            Ok(Call::new(true, lease))
        })
    }

    /// As `acquire`; `None` where others hold the lock all the time.
    fn try_acquire(&self, py: Python<'_>, owner: &Owner, options: &Options<'_>) -> PyResult<Call> {
        entry(py, || {
            let core = options::of_lock(self.of(owner), options)?;
            Ok(Call::new(true, async move { core.try_win().await }))
        })
    }

    fn inspect(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move { core.inspect().await })
    }

    fn force_release(
        &self,
        py: Python<'_>,
        fence: Option<&Bound<'_, PyAny>>,
        slot: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Call> {
        entry(py, || {
            let fence = fence.map(options::fence).transpose()?;
            let slot = slot.map(options::slot).transpose()?;
            let core = self.core.clone();
            Ok(Call::new(false, async move {
                match slot {
                    Some(slot) => core.force_release_slot(slot, fence).await,
                    None => core.force_release(fence).await,
                }
            }))
        })
    }

    fn wait_until_free(&self, py: Python<'_>, timeout: &Bound<'_, PyAny>) -> PyResult<Call> {
        entry(py, || {
            let (core, wait) = (self.core.clone(), options::limit("timeout", timeout, ANY)?);
            Ok(Call::new(
                false,
                async move { core.wait_until_free(wait).await },
            ))
        })
    }

    fn is_locked(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move { core.is_locked().await })
    }

    fn holder(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move { core.holder().await })
    }

    fn release(&self, owner: &Owner) -> Call {
        let core = self.of(owner);
        Call::new(false, async move { core.release().await })
    }
}
