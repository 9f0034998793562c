//! Pointers across the boundary. A handle is always a `Box`, so there is one
//! way to make it, to look at it and to free it, each typed.

use std::ffi::c_char;
use std::time::Duration;

use quorlock_core::{Error, ErrorKind};

/// A type that C holds by pointer. All may be shared between threads.
pub(crate) trait Handle: Send + Sync {
    /// The process that may use it; `None` for plain memory, which a forked
    /// child owns as much as its parent.
    fn process(&self) -> Option<Process> {
        None
    }
}

/// For a handle that must not be used in a forked child: it has a `process`.
macro_rules! of_process {
    ($handle:ty) => {
        impl $crate::handle::Handle for $handle {
            fn process(&self) -> Option<Process> {
                Some(self.process)
            }
        }
    };
}

/// The process that made a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Process {
        Process(std::process::id())
    }
}

/// Whether a handle was inherited by a fork. Locks in it may be held by threads
/// that do not exist here: it must not be touched at all, not even to free it.
fn inherited(handle: &impl Handle) -> bool {
    handle.process().is_some_and(|made_by| made_by != Process::current())
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::from_binding(ErrorKind::InvalidArgument, message)
}

fn null(what: &str) -> Error {
    invalid(format!("{what} is NULL"))
}

/// A handle that C lends for a call.
pub(crate) fn borrow<'a, T: Handle>(pointer: *const T, what: &str) -> Result<&'a T, Error> {
    // SAFETY: by the header's contract a pointer is NULL or from `give` and not
    // yet freed; only shared references to handles exist, but for builders.
    let handle = unsafe { pointer.as_ref() }.ok_or_else(|| null(what))?;
    if inherited(handle) {
        return Err(Error::from_binding(
            ErrorKind::Forked,
            format!(
                "the {what} was made before the process was forked, and is the parent's: make a \
                 new client in the child"
            ),
        ));
    }
    Ok(handle)
}

/// As [`borrow`], where NULL has a meaning of its own.
pub(crate) fn maybe<'a, T: Handle>(pointer: *const T, what: &str) -> Result<Option<&'a T>, Error> {
    (!pointer.is_null()).then(|| borrow(pointer, what)).transpose()
}

/// A builder that C lends to change it.
pub(crate) fn borrow_mut<'a, T: Handle>(pointer: *mut T, what: &str) -> Result<&'a mut T, Error> {
    // SAFETY: as for `borrow`; by the header's contract one thread at a time
    // uses a builder.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// A new handle for C.
pub(crate) fn boxed<T: Handle>(handle: T) -> *mut T {
    Box::into_raw(Box::new(handle))
}

/// Writes a new handle to where C wants it.
pub(crate) fn give<T: Handle>(out: *mut *mut T, what: &str, handle: T) -> Result<(), Error> {
    put(out, what, boxed(handle))
}

/// Refuses a place for a result before any work is done.
pub(crate) fn wanted<T>(out: *mut T, what: &str) -> Result<(), Error> {
    if out.is_null() {
        return Err(null(what));
    }
    Ok(())
}

/// Writes a result to where C wants it.
pub(crate) fn put<T>(out: *mut T, what: &str, value: T) -> Result<(), Error> {
    wanted(out, what)?;
    // SAFETY: by the header's contract it is NULL or room for one `T`.
    unsafe { out.write(value) };
    Ok(())
}

/// Frees a handle, unless it is NULL or the parent's.
pub(crate) fn free<T: Handle>(pointer: *mut T) -> Result<(), Error> {
    // SAFETY: as for `borrow`.
    if let Some(handle) = unsafe { pointer.as_ref() }
        && !inherited(handle)
    {
        // SAFETY: it comes from `give`, and C gives it back here once.
        drop(unsafe { Box::from_raw(pointer) });
    }
    Ok(())
}

/// Bytes that C lends for a call.
pub(crate) fn bytes<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a [u8], Error> {
    if len > isize::MAX as usize {
        return Err(invalid(format!("{what} has an impossible length, {len}")));
    }
    match (data.is_null(), len) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: by the header's contract so many bytes can be read there.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
    }
}

/// Text that C lends for a call.
pub(crate) fn text<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes(data, len, what)?).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// A time that cannot be without end.
pub(crate) fn millis(ms: i64, what: &str) -> Result<Duration, Error> {
    u64::try_from(ms).map(Duration::from_millis).map_err(|_| invalid(format!("{what} is {ms} ms: give 0 or more")))
}

/// A time, or `None` for `QUORLOCK_FOREVER`.
pub(crate) fn limit(ms: i64, what: &str) -> Result<Option<Duration>, Error> {
    match ms {
        crate::lock::QUORLOCK_FOREVER => Ok(None),
        _ => millis(ms, what).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_and_have_an_end_or_none() {
        assert_eq!(millis(0, "t").unwrap(), Duration::ZERO);
        assert_eq!(limit(-1, "t").unwrap(), None);
        assert_eq!(limit(5, "t").unwrap(), Some(Duration::from_millis(5)));
        for wrong in [-1, -2, i64::MIN] {
            assert!(millis(wrong, "t").is_err());
        }
        assert!(limit(-2, "t").is_err());
    }

    #[test]
    fn no_bytes_may_be_null() {
        assert_eq!(bytes(std::ptr::null(), 0, "name").unwrap(), b"");
        assert!(bytes(std::ptr::null(), 1, "name").is_err());
        assert!(bytes(c"a".as_ptr(), usize::MAX, "name").is_err());
        assert!(text(c"\xff".as_ptr(), 1, "name").is_err());
    }
}
