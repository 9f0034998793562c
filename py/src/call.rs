//! A call of the core, made and not begun. Python drives it in one of two ways:
//! it waits for it on the calling thread, or starts it for an asyncio future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use quorlock::binding::{call, lock};
use quorlock::{Error, ErrorKind};

use crate::ending;
use crate::error::{checked, entry};
use crate::lease::Lease;
use crate::port::Port;
use crate::wait::wait;

/// What a call comes to.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    Time(Duration),
    Lease(Option<quorlock::Lease>),
}

impl Value {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Value::Nothing => Ok(py.None()),
            Value::Flag(flag) => flag.into_py_any(py),
            Value::Time(time) => time.as_secs_f64().into_py_any(py),
            // Here, where its caller goes on: the interpreter may have been busy for long.
            Value::Lease(lease) => {
                let lease = checked(py, lease.map(quorlock::Lease::delivered).transpose())?;
                lease.map(Lease::new).into_py_any(py)
            }
        }
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Call {
    work: Mutex<Option<Work>>,
    /// Giving up the wait for it undoes it. Any other goes on to its end.
    revocable: bool,
}

impl Call {
    pub(crate) fn new(
        revocable: bool,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> Call {
        Call {
            work: Mutex::new(Some(Box::pin(work))),
            revocable,
        }
    }

    fn take(&self) -> Work {
        lock(&self.work).take().expect("a call is made once")
    }
}

#[pymethods]
impl Call {
    /// Waits for it on the calling thread.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        entry(py, || {
            let done = wait(py, self.take(), None)?.expect("a wait without limit");
            if matches!(&done, Err(error) if error.kind() == ErrorKind::Closed) {
                ending::linger(py);
            }
            checked(py, done)?.into_python(py)
        })
    }

    /// Starts it on the I/O thread. Its result goes to `future`; the number is
    /// for `Port.cancel`.
    fn start(&self, py: Python<'_>, port: &Port, future: Py<PyAny>) -> PyResult<u64> {
        entry(py, || {
            let (number, queue) = port.number();
            let (work, revocation) = call(self.take(), self.revocable, move |done| {
                queue.push((number, Box::new(|py| checked(py, done)?.into_python(py))));
            });
            checked(py, port.turn.submit(work))?;
            port.expect(number, future, Box::new(revocation));
            Ok(number)
        })
    }
}
