//! What the body of every export runs in: no panic crosses into C, and errors
//! leave by the out-parameter.

use quorlock_core::{Error, binding};

use crate::error::quorlock_error_t;
use crate::handle;

/// The body of an export. A NULL or a parent's handle in it ends it by `?`:
/// see [`handle::borrow`].
///
/// `boundary!(error, { … })` is for exports that return a code,
/// `boundary!(or value, { … })` for those that cannot tell of an error, and
/// `boundary!({ … })` for those that return nothing.
macro_rules! boundary {
    ($body:block) => {
        $crate::boundary::run(move || $body).unwrap_or(())
    };
    (or $fallback:expr, $body:block) => {
        $crate::boundary::run(move || $body).unwrap_or($fallback)
    };
    ($error:expr, $body:block) => {
        $crate::boundary::code($error, $crate::boundary::run(move || $body))
    };
}

/// Runs `body`; a panic in it is an error of the kind `Internal`. The thread is not cancelled
/// meanwhile, but when the call is over: no frame of `body` can be unwound by that.
pub(crate) fn run<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let _whole = binding::CancelShield::new();
    binding::entered();
    binding::caught(body)?
}

/// The code for C; the error itself, if there is one, goes to `out`.
pub(crate) fn code(out: *mut *mut quorlock_error_t, result: Result<(), Error>) -> i32 {
    let Err(error) = result else { return 0 };
    let code = error.kind().number();
    if !out.is_null() {
        // Converting allocates and copies: should even that panic, the code
        // has to do.
        let _ = run(|| handle::give(out, "error", quorlock_error_t::new(&error)));
    }
    code
}
