//! Pointers across the boundary. A handle is always a `Box`, so there is one
//! way to make it, to look at it and to free it, each typed.

use std::ffi::c_char;
use std::ops::RangeInclusive;
use std::time::Duration;

use quorlock_core::binding::{self, process_id};
use quorlock_core::{Error, ErrorKind};

use crate::time::QUORLOCK_FOREVER;

/// A type that C holds by pointer. All may be shared between threads.
pub(crate) trait Handle: Send + Sync {
    /// Plain memory, which a forked child owns as much as its parent.
    const PLAIN: bool = false;

    /// What a forked child makes instead of one that its parent has used.
    const ANEW: &str = "client";

    /// Whether a process that has inherited it by a fork may use it as its own:
    /// where nothing has been done with it that could be under way in the parent.
    fn starts_anew(&self) -> bool {
        false
    }
}

/// A handle that may be freed while a call on it is under way, by another thread or by a callback.
pub(crate) trait Shareable: Handle {
    /// What the call goes on with.
    type Share;

    fn share(&self) -> Self::Share;
}

/// What the pointer leads to.
struct Allocation<T> {
    /// The process that made it.
    process: u32,
    handle: T,
}

impl<T: Handle> Allocation<T> {
    /// False for what was inherited by a fork. Locks in it may be held by threads
    /// that do not exist here: it must not be touched at all, not even to free it.
    fn is_ours(&self) -> bool {
        T::PLAIN || self.process == process_id() || self.handle.starts_anew()
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::from_binding(ErrorKind::InvalidArgument, message)
}

fn null(what: &str) -> Error {
    invalid(format!("{what} is NULL"))
}

/// A handle that C lends for a call, for what is done at once. It lives no longer than the
/// pointer, so that [`wait`] cannot be given it: see [`share`].
pub(crate) fn borrow<'a, T: Handle>(pointer: &'a *const T, what: &str) -> Result<&'a T, Error> {
    // SAFETY: by the header's contract a pointer is NULL or from `boxed` and not
    // yet freed; only shared references to handles exist, but for builders.
    let owned = unsafe { pointer.cast::<Allocation<T>>().as_ref() }.ok_or_else(|| null(what))?;
    if !owned.is_ours() {
        let anew = T::ANEW;
        let message = format!("the {what} was used before the process was forked: make a new {anew} in the child");
        return Err(Error::from_binding(ErrorKind::Forked, message));
    }
    Ok(&owned.handle)
}

/// What a call that waits, or runs a callback, has of a handle. By the header's contract that
/// may be freed meanwhile, so nothing of it is touched any more.
pub(crate) fn share<T: Shareable>(pointer: *const T, what: &str) -> Result<T::Share, Error> {
    Ok(borrow(&pointer, what)?.share())
}

/// Waits for a call on the calling thread. It borrows from no handle.
pub(crate) fn wait<F: Future<Output: Send> + Send + 'static>(call: F) -> F::Output {
    binding::wait(call)
}

/// As [`borrow`], where NULL has a meaning of its own.
pub(crate) fn maybe<'a, T: Handle>(pointer: &'a *const T, what: &str) -> Result<Option<&'a T>, Error> {
    (!pointer.is_null()).then(|| borrow(pointer, what)).transpose()
}

/// A builder that C lends to change it.
pub(crate) fn borrow_mut<'a, T: Handle>(pointer: *mut T, what: &str) -> Result<&'a mut T, Error> {
    // SAFETY: as for `borrow`; by the header's contract one thread at a time
    // uses a builder.
    let owned = unsafe { pointer.cast::<Allocation<T>>().as_mut() }.ok_or_else(|| null(what))?;
    Ok(&mut owned.handle)
}

/// A new handle for C.
pub(crate) fn boxed<T: Handle>(handle: T) -> *mut T {
    Box::into_raw(Box::new(Allocation { process: process_id(), handle })).cast()
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

/// Copies a struct to where C wants it, as far as there is room: that of an older header
/// is shorter.
pub(crate) fn fill<T: Copy>(out: *mut T, what: &str, room: usize, value: &T) -> Result<(), Error> {
    wanted(out, what)?;
    let size = room.min(size_of::<T>());
    // SAFETY: by the header's contract there is room for this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), out.cast(), size) };
    Ok(())
}

/// Frees a handle, unless it is NULL or the parent's.
pub(crate) fn free<T: Handle>(pointer: *mut T) -> Result<(), Error> {
    let pointer = pointer.cast::<Allocation<T>>();
    // SAFETY: as for `borrow`.
    if unsafe { pointer.as_ref() }.is_some_and(Allocation::is_ours) {
        // SAFETY: it comes from `boxed`, and C gives it back here once.
        drop(unsafe { Box::from_raw(pointer) });
    }
    Ok(())
}

/// Bytes that C lends for a call.
pub(crate) fn bytes<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a [u8], Error> {
    items(data.cast(), len, what)
}

/// A list that C lends for a call.
pub(crate) fn items<'a, T>(data: *const T, count: usize, what: &str) -> Result<&'a [T], Error> {
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(invalid(format!("{what} has an impossible length, {count}")));
    }
    match (data.is_null(), count) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: by the header's contract this many of them can be read there.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, count) }),
    }
}

/// Text that C lends for a call.
pub(crate) fn text<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes(data, len, what)?).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// A number of things, of which there may be so many.
pub(crate) fn count(count: i64, may: RangeInclusive<usize>, what: &str) -> Result<usize, Error> {
    let given = usize::try_from(count).ok().filter(|count| may.contains(count));
    given.ok_or_else(|| invalid(format!("{what} is {count}: give {} to {}", may.start(), may.end())))
}

/// A time that cannot be without end.
pub(crate) fn millis(ms: i64, what: &str) -> Result<Duration, Error> {
    u64::try_from(ms).map(Duration::from_millis).map_err(|_| {
        invalid(match ms {
            QUORLOCK_FOREVER => format!("{what} is without end: give a time"),
            // What C++ gives for any time below 0.
            i64::MIN => format!("{what} is below 0: give 0 or more"),
            _ => format!("{what} is {ms} ms: give 0 or more"),
        })
    })
}

/// A time, or `None` for `QUORLOCK_FOREVER`.
pub(crate) fn limit(ms: i64, what: &str) -> Result<Option<Duration>, Error> {
    (ms != QUORLOCK_FOREVER).then(|| millis(ms, what)).transpose()
}
