//! The library's own threads.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread of that name.
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(work)
}
