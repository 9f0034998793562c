//! What the body of every export runs in: no panic crosses into C, and errors
//! leave by the out-parameter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorlock_core::{Error, ErrorKind};

use crate::error::quorlock_error_t;
use crate::handle;
use crate::wait;

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

/// Runs `body`; a panic in it is an error of the kind `Internal`.
pub(crate) fn run<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    wait::entered();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no text");
        let message = format!("a panic, which is a bug in Quorlock: report it ({text})");
        Err(Error::from_binding(ErrorKind::Internal, message))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let literal = run(|| -> Result<(), Error> { panic!("why") }).unwrap_err();
        let formatted = run(|| -> Result<(), Error> { panic!("why {}", 1) }).unwrap_err();
        assert_eq!(literal.kind(), ErrorKind::Internal);
        assert!(literal.message().ends_with("(why)"), "{literal}");
        assert!(formatted.message().ends_with("(why 1)"), "{formatted}");
        assert_eq!(boundary!(or 7, { panic!("why") }), 7);
    }
}
