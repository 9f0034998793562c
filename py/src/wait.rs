//! Waiting on the calling thread, with the interpreter let go.

use std::future::Future;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use quorlock::binding::spawn;
use quorlock::blocking;

use crate::error::checked;

/// How often a wait in the main thread looks for signals: Ctrl-C ends it within
/// this time.
const LOOK: Duration = Duration::from_millis(50);

/// Waits for a future, at most `limit`: `None` when that has passed. In the main
/// thread a signal handler that raises ends the wait; the future is dropped.
pub(crate) fn wait<F>(
    py: Python<'_>,
    mut future: F,
    limit: Option<Duration>,
) -> PyResult<Option<F::Output>>
where
    F: Future<Output: Send> + Send + Unpin + 'static,
{
    // A caller's patience decides nothing of the protocol, so it needs no seam.
    #[allow(clippy::disallowed_methods)]
    let begun = Instant::now();
    let limit = limit.unwrap_or(Duration::MAX);
    let passed = |time| begun.elapsed() >= time;
    // Nearly every wait is over before there is anything to look for.
    let soon = limit.min(LOOK);
    let first = py.detach(|| blocking::wait_or(&mut future, soon, || passed(soon)));
    if first.is_some() || passed(limit) {
        return Ok(first);
    }
    if !is_main_thread(py)? {
        return Ok(py.detach(|| blocking::wait_or(future, limit, || passed(limit))));
    }
    // To look for signals takes the interpreter, which another thread may keep for
    // longer than a lease lives. On the I/O thread a lease is renewed once it is won.
    let task = checked(py, spawn(future))?;
    let mut raised = None;
    let over = || passed(limit) || signalled(&mut raised);
    let output = py.detach(|| blocking::wait_or(task, LOOK.min(limit), over));
    raised.map_or(Ok(output), Err)
}

/// Runs the handlers of signals that have come; whether one raised.
fn signalled(raised: &mut Option<PyErr>) -> bool {
    // While the interpreter ends there is nothing to attach to.
    *raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    raised.is_some()
}

/// Whether this is the thread in which Python runs signal handlers.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?;
    let this = threading.call_method0(intern!(py, "get_ident"))?;
    main.getattr(intern!(py, "ident"))?.eq(this)
}
