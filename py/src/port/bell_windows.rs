//! How the thread of an event loop is woken for what waits for it, on Windows: the default
//! loop there watches no descriptors. So a thread waits in its place, and calls
//! `call_soon_threadsafe`; the I/O thread, which rings, never waits for the interpreter.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTypeInfo, intern};
use quorlock::binding::lock;

use crate::kept::name;

/// What the thread waits for, until it is [started](Bell::calls).
pub(crate) struct Bell(Mutex<Option<Receiver<()>>>);

/// Its other end. The thread ends when this is dropped.
pub(super) struct Rope(Sender<()>);

impl Bell {
    pub(super) fn new(_: Python<'_>) -> PyResult<(Bell, Rope)> {
        let (sender, receiver) = channel();
        Ok((Bell(Mutex::new(Some(receiver))), Rope(sender)))
    }

    /// Starts the thread: it calls `port` in `event_loop` whenever the bell has rung, and keeps
    /// neither of them.
    pub(super) fn calls<P: PyTypeInfo>(
        &self,
        port: &Bound<'_, P>,
        event_loop: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let port = PyWeakrefReference::new(port.as_any())?.unbind();
        let event_loop = PyWeakrefReference::new(event_loop)?.unbind();
        let Some(rung) = lock(&self.0).take() else {
            return Ok(());
        };
        let call = move |py: Python<'_>| -> PyResult<()> {
            let ends = (event_loop.bind(py).upgrade(), port.bind(py).upgrade());
            if let (Some(event_loop), Some(port)) = ends {
                event_loop.call_method1(name!(py, "call_soon_threadsafe"), (port,))?;
            }
            Ok(())
        };
        let waits = move || {
            while rung.recv().is_ok() {
                // A loop that is closed is not called, nor an interpreter that ends.
                if Python::try_attach(|py| drop(call(py))).is_none() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("quorlock-bell".into())
            .spawn(waits)?;
        Ok(())
    }

    pub(super) fn heard(&self) {}
}

impl Rope {
    pub(super) fn pull(&self) {
        // No thread waits once the interpreter has ended.
        let _ = self.0.send(());
    }
}
