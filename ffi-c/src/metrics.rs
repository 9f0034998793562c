//! What is measured in the process.

use std::ffi::{CString, c_char};
use std::ptr;

use quorlock_core::{Error, ErrorKind};

/// What all clients of this process have measured, as the text that Prometheus
/// reads, ending with NUL: serve it as text/plain; version=0.0.4. What a client has
/// counted stays in it when the client is closed and freed. In a forked child it
/// begins anew. docs/operations/metrics.md explains every name in it. Free it with
/// quorlock_text_free(); NULL where the library has a bug, which the log tells.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_metrics_text() -> *mut c_char {
    boundary!(or ptr::null_mut(), {
        let text = CString::new(quorlock_core::metrics_text());
        let broken = |_| Error::from_binding(ErrorKind::Internal, "a metric has a NUL in it");
        text.map(CString::into_raw).map_err(broken)
    })
}

/// Frees a text. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_text_free(text: *mut c_char) {
    boundary!({
        if !text.is_null() {
            // SAFETY: by the header's contract it is from `quorlock_metrics_text`, and
            // comes back once.
            drop(unsafe { CString::from_raw(text) });
        }
        Ok(())
    });
}
