//! How a binding gives work to the I/O thread, and ends the library with its program.
//!
//! A binding's own threads may be kept from running by their interpreter while a
//! lease has to be looked after; the I/O thread never is.

use std::future::Future;
use std::pin::Pin;

use crate::error::Error;
use crate::node::memory;
use crate::runtime::drive::Driver;
use crate::runtime::task::Io;
pub use crate::runtime::task::Task;
use crate::runtime::{self, Runtime};

/// A call to be carried out, which gives its result away by itself.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a future on the I/O thread.
pub fn spawn<F>(future: F) -> Result<Task<F::Output>, Error>
where
    F: Future<Output: Send> + Send + 'static,
{
    let driver = Runtime::with_io()?.1;
    let task = Io::of(driver).spawn(future);
    driver.notice();
    Ok(task)
}

/// For an event loop that drives the I/O on its own thread while it is alone: a hop to the
/// I/O thread and back costs it more than all the rest of a call. What it does not come to do
/// in time the I/O thread does, so no lease depends on a loop that turns.
#[derive(Clone, Copy)]
pub struct Steps(&'static Driver);

impl Steps {
    /// The steps, and the descriptor that the loop has to watch; `None` where the system
    /// has no such thing.
    ///
    /// # Errors
    ///
    /// `Internal` if the I/O thread cannot be started.
    pub fn new() -> Result<Option<(Steps, i32)>, Error> {
        let driver = Runtime::with_io()?.1;
        let descriptor = driver.sockets.descriptor();
        Ok(descriptor.map(|descriptor| (Steps(driver), descriptor)))
    }

    /// To be called before a step that reads, where the last one brought nothing: what is not read by anybody is heard of
    /// once.
    pub fn has_heard(&self) {
        self.0.has_heard();
    }

    /// Begins calls, or with none reads what there is to read; gives the calls back where
    /// others need the I/O too. Nothing of an interpreter's runs here.
    pub fn step(&self, calls: Vec<Work>) -> Result<(), Vec<Work>> {
        self.0.step(calls)
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steps")
    }
}

/// Runs a callback on the dispatcher, behind no other that blocks. None is ever dropped there.
pub fn dispatch(callback: impl FnOnce() + Send + 'static) {
    Runtime::get().dispatcher().call(Box::new(callback));
}

/// Closes every client of the process and ends its threads, once what waits for
/// the dispatcher is done. `memory://` nodes end too. What is made later starts
/// them again. No other call may be under way.
pub fn shutdown() {
    let Some(runtime) = Runtime::existing() else {
        return;
    };
    runtime::close_all();
    runtime.stop();
    memory::forget();
}
