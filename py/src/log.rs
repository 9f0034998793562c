//! The log: what the core and the binding tell, as Python takes it.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use quorlock::binding::{dispatch, lock};

use crate::ending;

static LOG: Mutex<Option<Arc<Py<PyAny>>>> = Mutex::new(None);

/// Sends log lines to `log(level, event, template, name, value, …)`, on the thread for them.
#[pyfunction]
pub(crate) fn _log_to(log: Py<PyAny>) {
    let log = Arc::new(log);
    *lock(&LOG) = Some(Arc::clone(&log));
    quorlock::set_log_sink(move |level, event| {
        let fields = event.fields().iter();
        let fields = fields.flat_map(|(name, value)| [*name, value.as_str()]);
        let parts = [level.as_str(), event.name(), event.template()];
        let parts: Vec<_> = parts.into_iter().chain(fields).collect();
        ending::tell(&log, &parts);
    });
}

/// Logs a warning of the binding, on a thread of the core's: where there is something to be warned
/// of an object is being collected, and no Python should run. `template` has the place of a lock.
pub(crate) fn warn(event: &'static str, template: &'static str, name: String) {
    if let Some(log) = lock(&LOG).clone() {
        dispatch(move || ending::tell(&log, &["warning", event, template, "lock", &name]));
    }
}
