//! How the thread of an event loop is woken for what waits for it.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};

use pyo3::prelude::*;

use crate::kept::name;

/// A pipe, of which the loop watches the end to read from.
pub(crate) struct Bell(PipeReader);

/// The end to write to.
pub(super) struct Rope(PipeWriter);

impl Bell {
    pub(super) fn new(py: Python<'_>) -> PyResult<(Bell, Rope)> {
        let (reader, writer) = pipe()?;
        let os = py.import(name!(py, "os"))?;
        for end in [reader.as_raw_fd(), writer.as_raw_fd()] {
            os.call_method1(name!(py, "set_blocking"), (end, false))?;
        }
        Ok((Bell(reader), Rope(writer)))
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// What has been rung so far is heard.
    pub(super) fn heard(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(64)) {}
    }
}

impl Rope {
    pub(super) fn pull(&self) {
        // A full buffer has woken the loop already.
        drop((&self.0).write(&[0]));
    }
}
