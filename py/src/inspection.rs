//! What the nodes have of a lock, or had before it was taken away, as tuples. What they mean stands in `_inspection.py`.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorlock::{Forced, Holder, Inspection};

use crate::call::Answer;

/// Seconds since the epoch.
fn epoch(time: SystemTime) -> Option<f64> {
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

pub(crate) type HolderParts<'a> = (
    Option<&'a str>,
    usize,
    Option<f64>,
    Option<f64>,
    Option<u64>,
);

pub(crate) fn parts(holder: &Holder) -> HolderParts<'_> {
    (
        holder.label(),
        holder.votes(),
        holder.left().map(|left| left.as_secs_f64()),
        holder.since().and_then(epoch),
        holder.fence(),
    )
}

impl Answer for Inspection {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let nodes: Vec<_> = self
            .nodes()
            .iter()
            .map(|node| {
                (
                    node.node(),
                    node.state(),
                    node.label(),
                    node.left().map(|left| left.as_secs_f64()),
                    node.fence(),
                    node.queued(),
                    node.quarantine().as_secs_f64(),
                    node.error(),
                )
            })
            .collect();
        let slots = self.slots().iter().map(|slot| slot.clone().into_python(py));
        let slots = slots.collect::<PyResult<Vec<_>>>()?;
        (
            PyBytes::new(py, self.name()),
            self.verdict().as_str(),
            self.holder().map(parts),
            self.fence(),
            self.queued(),
            nodes,
            self.slots_held(),
            self.slot(),
            slots,
        )
            .into_py_any(py)
    }
}

impl Answer for Forced {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let freed = self.freed();
        (self.found().clone().into_python(py)?, freed).into_py_any(py)
    }
}

impl Answer for Option<Holder> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.as_ref().map(parts).into_py_any(py)
    }
}
