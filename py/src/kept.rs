//! What is made of Python's once, and kept, so that a fork cannot copy it half made.
//!
//! pyo3's own `PyOnceLock`, and `intern!` which has one, let go of the interpreter while they are
//! being made. A child that another thread forks at that moment would wait for a thread that it
//! does not have.

use once_cell::race::OnceBox;
use pyo3::prelude::*;

/// A value that is made when it is first asked for. Threads that ask at once each make one, and
/// that of the first is kept.
pub(crate) struct ForkSafe<T>(OnceBox<T>);

impl<T> ForkSafe<T> {
    pub(crate) const fn new() -> ForkSafe<T> {
        ForkSafe(OnceBox::new())
    }

    /// The value; where it cannot be made, the next call tries again.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        self.0.get_or_try_init(|| make().map(Box::new))
    }
}

/// A name as a string of Python's, made once.
macro_rules! name {
    ($py:expr, $text:literal) => {{
        static NAME: crate::kept::ForkSafe<pyo3::Py<pyo3::types::PyString>> =
            crate::kept::ForkSafe::new();
        let made = |py| Ok(pyo3::types::PyString::intern(py, $text).unbind());
        let py: pyo3::Python<'_> = $py;
        NAME.get_or_make(|| made(py))
            .expect("nothing fails")
            .bind(py)
    }};
}
pub(crate) use name;

/// Has pyo3 make what it keeps for its own errors: the names of types.
pub(crate) fn of_pyo3(py: Python<'_>) -> PyResult<()> {
    let none = py.None().into_bound(py);
    let kind = none.get_type();
    kind.name()?;
    kind.qualname()?;
    kind.module()?;
    kind.fully_qualified_name()?;
    if let Err(error) = none.extract::<String>() {
        drop(error.to_string());
    }
    Ok(())
}
