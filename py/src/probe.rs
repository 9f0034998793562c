//! The state of a set, as tuples. What they mean stands in `_probe.py`.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use quorlock::{Finding, NodeReport, Probe};

use crate::call::Answer;

fn findings(found: &[Finding]) -> Vec<(&str, &str, &str, &str)> {
    found
        .iter()
        .map(|f| (f.id, f.severity.as_str(), &*f.what, &*f.remedy))
        .collect()
}

fn node(py: Python<'_>, report: &NodeReport) -> PyResult<Py<PyAny>> {
    let seconds = |(least, middle): (std::time::Duration, std::time::Duration)| {
        (least.as_secs_f64(), middle.as_secs_f64())
    };
    let is = (
        &report.node,
        report.answers,
        report.votes,
        report.round_trip.map(seconds),
        report.server,
        report.version.as_deref(),
        report.role,
        report.uptime.map(|up| up.as_secs_f64()),
    );
    let clock = report.clock;
    let has = (
        clock.map(|clock| clock.micros as f64 / 1e6),
        clock.map(|clock| clock.error_micros as f64 / 1e6),
        report.eviction.as_deref(),
        report.memory_used,
        report.memory_limit,
        report.record,
        &report.differences,
        report.quarantine.as_secs_f64(),
        report.release,
    );
    (is, has, findings(&report.findings)).into_py_any(py)
}

impl Answer for Probe {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let nodes: PyResult<Vec<_>> = self.nodes.iter().map(|report| node(py, report)).collect();
        (
            &self.set_name,
            self.quorum,
            self.max_ttl.as_secs_f64(),
            self.guard,
            self.votes,
            self.health.as_str(),
            findings(&self.findings),
            nodes?,
        )
            .into_py_any(py)
    }
}
