//! Waiting on the calling thread, with the interpreter let go.

use std::future::Future;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use quorlock::binding::{self, spawn};

use crate::ending;
use crate::error::checked;
use crate::kept::{ForkSafe, name};

/// How often a wait in the main thread looks for what is raised there: Ctrl-C ends it within
/// this time.
const LOOK: Duration = Duration::from_millis(50);
/// How often a wait in another thread does, where exceptions alone may be set for it: there are
/// many, and each look takes the interpreter.
const LOOK_ELSEWHERE: Duration = Duration::from_millis(150);

/// Waits for a future, at most `limit`: `None` when that has passed. A signal handler that
/// raises, in the main thread, ends the wait, and so does an exception that is set for the
/// thread (`PyThreadState_SetAsyncExc`); the future is dropped.
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
    let first = py.detach(|| binding::wait_or(&mut future, soon, || passed(soon)));
    if first.is_some() || passed(limit) {
        // What a handler raises takes the place of what has come. So it is raised here, where that
        // is dropped before any caller was given it, and not where its caller would have had it.
        py.check_signals()?;
        return Ok(first);
    }
    let every = if is_main_thread(py)? {
        LOOK
    } else {
        LOOK_ELSEWHERE
    };
    let nothing = nothing(py)?;
    // To look takes the interpreter, which another thread may keep for
    // longer than a lease lives. On the I/O thread a lease is renewed once it is won.
    let task = checked(py, spawn(future))?;
    let mut raised = None;
    let over = || passed(limit) || is_raised(nothing, &mut raised);
    let output = py.detach(|| binding::wait_or(task, every.min(limit), over));
    if let Some(raised) = raised {
        return Err(raised);
    }
    py.check_signals()?;
    output.map(|output| checked(py, output)).transpose()
}

/// A function of Python that does nothing: the interpreter looks for signals and for exceptions
/// that were set for the thread where such a function begins, and nothing else has it look
/// for the latter.
fn nothing(py: Python<'_>) -> PyResult<&'static Py<PyAny>> {
    static NOTHING: ForkSafe<Py<PyAny>> = ForkSafe::new();
    NOTHING.get_or_make(|| Ok(py.eval(c"lambda: None", None, None)?.unbind()))
}

/// Whether a handler of a signal has raised, or an exception was set for the thread.
fn is_raised(nothing: &Py<PyAny>, raised: &mut Option<PyErr>) -> bool {
    *raised = ending::call(nothing, &[]);
    raised.is_some()
}

/// Whether this is the thread in which Python runs signal handlers.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(name!(py, "threading"))?;
    let main = threading.call_method0(name!(py, "main_thread"))?;
    let this = threading.call_method0(name!(py, "get_ident"))?;
    main.getattr(name!(py, "ident"))?.eq(this)
}
