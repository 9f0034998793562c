//! The lock.

use pyo3::prelude::*;
use quorlock::binding::Owned;
use quorlock::{Lock as Core, Owner};

use crate::call::Call;
use crate::error::{checked, entry};
use crate::options::{self, Options};

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Lock {
    core: Owned<Core>,
}

/// An asyncio task as an owner.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Task(Owner);

#[pymethods]
impl Task {
    #[new]
    fn new() -> Task {
        Task(Owner::task())
    }
}

impl Lock {
    pub(crate) fn new(py: Python<'_>, core: Core, options: &Options<'_>) -> PyResult<Lock> {
        let core = options::of_lock(core, options)?;
        checked(py, core.check())?;
        Ok(Lock {
            core: Owned::new(core),
        })
    }

    /// The lock of the calling task or thread.
    fn of(&self, task: Option<&Task>) -> Core {
        let core = self.core.clone();
        match task {
            Some(Task(owner)) => core.owner_or(|| owner.clone()),
            None => core.owner_or(Owner::current_thread),
        }
    }
}

#[pymethods]
impl Lock {
    /// `options`: those that hold for this call alone.
    fn acquire(
        &self,
        py: Python<'_>,
        task: Option<&Task>,
        options: &Options<'_>,
    ) -> PyResult<Call> {
        entry(py, || {
            let core = options::of_lock(self.of(task), options)?;
            let lease = async move { core.acquire().await.map(Some) };
            Ok(Call::new(true, lease))
        })
    }

    fn try_acquire(&self, task: Option<&Task>) -> Call {
        let core = self.of(task);
        Call::new(true, async move { core.try_acquire().await })
    }

    fn release(&self, task: Option<&Task>) -> Call {
        let core = self.of(task);
        Call::new(false, async move { core.release().await })
    }
}
