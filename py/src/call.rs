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
use crate::port::{Delivery, Port};
use crate::wait::wait;

/// What a call comes to. It becomes an object of Python where its caller goes on.
pub(crate) trait Answer: Send + 'static {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl Answer for () {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.None())
    }
}

impl Answer for bool {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_py_any(py)
    }
}

impl Answer for String {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_py_any(py)
    }
}

impl Answer for Duration {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.as_secs_f64().into_py_any(py)
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Delivery, Error>> + Send>>;

#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Call {
    work: Mutex<Option<Work>>,
    /// Giving up the wait for it undoes it. Any other goes on to its end.
    revocable: bool,
}

impl Call {
    pub(crate) fn new<A: Answer>(
        revocable: bool,
        work: impl Future<Output = Result<A, Error>> + Send + 'static,
    ) -> Call {
        let work = async {
            let answer = work.await?;
            Ok(Box::new(|py: Python<'_>| answer.into_python(py)) as Delivery)
        };
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
            checked(py, done)?(py)
        })
    }

    /// Starts it on the I/O thread. Its result goes to `future`; the number is
    /// for `Port.cancel`.
    fn start(&self, port: &Bound<'_, Port>, future: Bound<'_, PyAny>) -> PyResult<u64> {
        let py = port.py();
        entry(py, || {
            let (number, queue) = port.get().number();
            let (work, revocation) = call(self.take(), self.revocable, move |done| {
                queue.push((number, Box::new(|py| checked(py, done)?(py))));
            });
            let underway = Port::begin(port, &future, work)?;
            port.get()
                .expect(number, future.unbind(), Box::new((revocation, underway)));
            Ok(number)
        })
    }
}
