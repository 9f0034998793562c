//! What concerns the process as a whole: the log, and the end.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_core::Level;
use quorlock_core::binding::{PerProcess, shutdown};

use crate::callback::{Callback, Slot};
use crate::error::{c_text, quorlock_error_t};

/// Something is wrong that the library can bear: look at it.
pub const QUORLOCK_LOG_WARN: i32 = 2;
/// Something worth knowing.
pub const QUORLOCK_LOG_INFO: i32 = 3;

/// Called with each line of the log, on a thread of Quorlock's own for such
/// calls. One that blocks holds up other lines, and no loss; beyond 1024 lines that
/// wait the oldest are dropped. `message` ends with NUL and is gone when the callback returns. It
/// holds no passwords and no tokens. It must not throw.
pub type quorlock_log_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, level: i32, message: *const c_char)>;

type Function = unsafe extern "C" fn(*mut c_void, i32, *const c_char);

static LOG: PerProcess<Slot<Callback<Function>>> = PerProcess::new();
static SINK_IS_SET: AtomicBool = AtomicBool::new(false);

fn sink(level: Level, line: &str) {
    let level = match level {
        Level::Warn => QUORLOCK_LOG_WARN,
        // Less grave ones that there may be one day, too.
        _ => QUORLOCK_LOG_INFO,
    };
    let line = c_text(line);
    // SAFETY: by the header's contract the callback can be called with its
    // userdata until it is taken back.
    LOG.get().run(false, |told| unsafe { (told.function)(told.userdata, level, line.as_ptr()) });
}

/// Sends the log of the whole process to `callback`; NULL for nowhere, as at
/// first. When it returns, a callback set before is over and will not be called
/// any more; called by that callback itself, this does not wait for it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_set_log_callback(userdata: *mut c_void, callback: quorlock_log_callback_t) {
    boundary!({
        // Of threads that come at once each may set it. A `Once` that another thread is in
        // would never be over in a forked child.
        if !SINK_IS_SET.load(Ordering::Acquire) {
            quorlock_core::set_log_sink(sink);
            SINK_IS_SET.store(true, Ordering::Release);
        }
        LOG.get().set(callback.map(|function| Callback { function, userdata }));
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
        shutdown();
        Ok(())
    });
}

/// Panics inside and reports it as every call would: #QUORLOCK_INTERNAL. For
/// tests of this library and of what is built upon it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_test_panic(error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, { panic!("a test") })
}

/// The calling thread's number, which no other thread of the process ever has: the system's
/// ids are used again. 0 while the thread's own storage is being torn down.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_thread_number() -> u64 {
    quorlock_core::Owner::thread_number()
}
