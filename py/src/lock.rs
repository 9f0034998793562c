//! The lock.

use futures_util::TryFutureExt;
use pyo3::prelude::*;
use quorlock::{Lock as Core, Owner};

use crate::call::{Call, Value};
use crate::error::{checked, entry};
use crate::options::{self, Options};
use crate::process::Owned;

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Lock {
    core: Owned<Core>,
    /// It has an owner with a name, who owns it wherever it is used.
    named: bool,
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
            named: options.contains("owner")?,
        })
    }

    /// The lock of the calling task or thread.
    fn of(&self, task: Option<&Task>) -> Core {
        let core = self.core.clone();
        match task {
            _ if self.named => core,
            Some(Task(owner)) => core.owner(owner.clone()),
            None => core.owner(Owner::current_thread()),
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
            Ok(Call::new(true, lease.map_ok(Value::Lease)))
        })
    }

    fn try_acquire(&self, task: Option<&Task>) -> Call {
        let core = self.of(task);
        Call::new(
            true,
            async move { Ok(Value::Lease(core.try_acquire().await?)) },
        )
    }

    fn release(&self, task: Option<&Task>) -> Call {
        let core = self.of(task);
        Call::new(false, async move { core.release().await.map(Value::Flag) })
    }
}
