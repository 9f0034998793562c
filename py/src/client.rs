//! The client.

use std::collections::HashMap;

use pyo3::prelude::*;
use quorlock::Client as Core;
use quorlock::binding::Owned;

use crate::call::Call;
use crate::error::entry;
use crate::lock::Lock;
use crate::options::{self, Options};

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Client {
    core: Owned<Core>,
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, options: &Options<'_>) -> PyResult<Client> {
        entry(py, || {
            let builder = options::of_client(Core::builder(), options)?;
            let core = builder
                .build()
                .map_err(|e| options::respelled(py, options, &e))?;
            Ok(Client {
                core: Owned::new(core),
            })
        })
    }

    fn lock(&self, py: Python<'_>, name: Vec<u8>, options: &Options<'_>) -> PyResult<Lock> {
        entry(py, || Lock::new(py, self.core.lock(name), options))
    }

    /// The lock of an election.
    fn election(&self, py: Python<'_>, name: Vec<u8>, options: &Options<'_>) -> PyResult<Lock> {
        entry(py, || {
            Lock::new(py, self.core.lock(name).for_election(), options)
        })
    }

    /// Goes on with an exported lease.
    fn adopt(&self, text: &Bound<'_, PyAny>) -> PyResult<Call> {
        let text = options::text("the exported lease", text)?;
        let core = self.core.clone();
        Ok(Call::new(
            true,
            async move { core.adopt(&text).await.map(Some) },
        ))
    }

    fn nodes(&self) -> Vec<&str> {
        self.core.nodes()
    }

    fn stats(&self) -> HashMap<&'static str, u64> {
        self.core.stats().named().into()
    }

    fn probe(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move { core.probe().await })
    }

    fn init_set(&self, force: bool) -> Call {
        let core = self.core.clone();
        Call::new(false, async move {
            if force {
                core.init_set_forced().await
            } else {
                core.init_set().await
            }
        })
    }

    fn close(&self) -> Call {
        let core = self.core.clone();
        Call::new(false, async move {
            core.close().await;
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", *self.core)
    }
}
