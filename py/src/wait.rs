//! Waiting on the calling thread, with the interpreter let go.

use std::future::Future;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use quorlock::blocking;

/// How often a wait in the main thread looks for signals: Ctrl-C ends it within
/// this time.
const LOOK: Duration = Duration::from_millis(50);

/// Waits for a future, at most `limit`: `None` when that has passed. In the main
/// thread a signal handler that raises ends the wait; the future is dropped.
pub(crate) fn wait<F>(
    py: Python<'_>,
    future: F,
    limit: Option<Duration>,
) -> PyResult<Option<F::Output>>
where
    F: Future<Output: Send> + Send,
{
    // A caller's patience decides nothing of the protocol, so it needs no seam.
    #[allow(clippy::disallowed_methods)]
    let begun = Instant::now();
    let main = is_main_thread(py)?;
    let every = if main { LOOK } else { Duration::MAX };
    let mut raised = None;
    let over =
        || limit.is_some_and(|limit| begun.elapsed() >= limit) || main && signalled(&mut raised);
    let every = every.min(limit.unwrap_or(every));
    let output = py.detach(|| blocking::wait_or(future, every, over));
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
