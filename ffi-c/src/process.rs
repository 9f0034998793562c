//! What concerns the process as a whole: the log, and the end.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use quorlock_core::{Error, ErrorKind, Level};

use crate::callback::{Slot, Userdata};
use crate::error::{c_text, quorlock_error_t};
use crate::handle::Process;

/// Something is wrong that the library can bear: look at it.
pub const QUORLOCK_LOG_WARN: i32 = 2;
/// Something worth knowing.
pub const QUORLOCK_LOG_INFO: i32 = 3;

/// Called with each line of the log, on a thread of Quorlock's own for such
/// calls. `message` ends with NUL and is gone when the callback returns. It
/// holds no passwords and no tokens. It must not throw.
pub type quorlock_log_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, level: i32, message: *const c_char)>;

type Callback = unsafe extern "C" fn(*mut c_void, i32, *const c_char);

/// Where the lines of one process go. A forked child has one of its own, for
/// the lock in the parent's may be held by a thread that it does not have.
struct Log {
    process: Process,
    slot: Slot<Callback>,
    /// The parent's, kept so that no memory is lost.
    _inherited: AtomicPtr<Log>,
}

static LOG: AtomicPtr<Log> = AtomicPtr::new(ptr::null_mut());
static SINK: Once = Once::new();

fn log() -> &'static Log {
    loop {
        let found = LOG.load(Ordering::Acquire);
        // SAFETY: it is NULL or was leaked below.
        if let Some(log) = unsafe { found.as_ref() }
            && log.process == Process::current()
        {
            return log;
        }
        let made = Box::into_raw(Box::new(Log {
            process: Process::current(),
            slot: Slot::new(),
            _inherited: AtomicPtr::new(found),
        }));
        let stored = LOG.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: made above, and seen by nobody else.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

fn sink(level: Level, line: &str) {
    let level = match level {
        Level::Warn => QUORLOCK_LOG_WARN,
        Level::Info => QUORLOCK_LOG_INFO,
    };
    let line = c_text(line);
    // SAFETY: by the header's contract the callback can be called with its
    // userdata until it is taken back.
    log().slot.run(false, |callback, userdata| unsafe {
        callback(userdata, level, line.as_ptr());
    });
}

/// Sends the log of the whole process to `callback`; NULL for nowhere, as at
/// first. When it returns, a callback set before is over and will not be called
/// any more; called by that callback itself, this does not wait for it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_set_log_callback(userdata: *mut c_void, callback: quorlock_log_callback_t) {
    boundary!({
        SINK.call_once(|| quorlock_core::set_log_sink(sink));
        log().slot.set(callback.map(|callback| (callback, Userdata(userdata))));
        Ok(())
    });
}

/// Closes every client of the process, ends Quorlock's threads and waits for
/// their end. Callbacks of losses come before it returns. For a program that
/// wants to end without anything left running; one that just exits has its
/// leases released too. No other call may be under way. Handles are to be freed
/// all the same, before or after; a client made later starts the threads again,
/// and finds memory:// nodes empty.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_shutdown() {
    boundary!({
        quorlock_core::shutdown();
        Ok(())
    });
}

/// Panics inside and reports it as every call would: #QUORLOCK_INTERNAL. For
/// tests of this library and of what is built upon it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_test_panic(error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        let panic: fn() -> Result<(), Error> = || panic!("a test");
        panic().map_err(|e| Error::from_binding(ErrorKind::Internal, e.message()))
    })
}
