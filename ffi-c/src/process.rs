//! What concerns the process as a whole: the log, and the end.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_core::binding::{PerProcess, shutdown};
use quorlock_core::{Level, LogEvent};

use crate::callback::{Callback, CallbackSlot};
use crate::error::{c_text, quorlock_error_t};
use crate::handle;

/// Something is wrong that the library can bear: look at it.
pub const QUORLOCK_LOG_WARN: i32 = 2;
/// Something worth knowing.
pub const QUORLOCK_LOG_INFO: i32 = 3;

/// Called with each line of the log, on a thread of Quorlock's own for such
/// calls. A callback that blocks holds up other lines, and no loss; beyond 1024 lines that
/// wait the oldest are dropped. `message` ends with NUL and is gone when the callback returns. It
/// holds no passwords and no tokens. While it runs, quorlock_log_event(), quorlock_log_template() and
/// quorlock_log_field() tell what the line consists of. It must not throw.
pub type quorlock_log_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, level: i32, message: *const c_char)>;

type Function = unsafe extern "C" fn(*mut c_void, i32, *const c_char);

static LOG: PerProcess<CallbackSlot<Callback<Function>>> = PerProcess::new();
static SINK_IS_SET: AtomicBool = AtomicBool::new(false);

/// A line whose callback runs.
struct Line {
    event: CString,
    template: CString,
    fields: Vec<(&'static str, CString)>,
}

thread_local! {
    static LINE: Cell<*const Line> = const { Cell::new(ptr::null()) };
}

/// What `look` finds in the line whose callback runs on this thread; NULL where none does.
fn of_line(look: impl FnOnce(&Line) -> Option<&CStr>) -> *const c_char {
    let line = LINE.with(Cell::get);
    // SAFETY: it is null, or `sink` below has it on this thread's stack.
    let found = unsafe { line.as_ref() }.and_then(look);
    found.map_or(ptr::null(), CStr::as_ptr)
}

fn sink(level: Level, line: &LogEvent) {
    let level = match level {
        Level::Warn => QUORLOCK_LOG_WARN,
        // A level that a later core has is graver than none of these.
        _ => QUORLOCK_LOG_INFO,
    };
    let field = |(name, value): &(&'static str, String)| (*name, c_text(value));
    let parts = Line {
        event: c_text(line.name()),
        template: c_text(line.template()),
        fields: line.fields().iter().map(field).collect(),
    };
    let message = c_text(line.message());
    LINE.with(|place| place.set(&raw const parts));
    // SAFETY: by the header's contract the callback can be called with its
    // userdata until it is taken back.
    LOG.get().run(false, |log| unsafe { (log.function)(log.userdata, level, message.as_ptr()) });
    LINE.with(|place| place.set(ptr::null()));
}

/// Of the line whose log callback runs on the calling thread: what kind of thing it tells of, in
/// one word, such as "lease_lost" or "node_unreached". It is gone when the callback returns. NULL
/// elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_log_event() -> *const c_char {
    boundary!(or ptr::null(), { Ok(of_line(|line| Some(&line.event))) })
}

/// As quorlock_log_event(): its text with the names of its fields in braces, the same for all lines
/// of its kind, so that a log can group them: "the lease of the lock `{lock}` is lost: {reason}".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_log_template() -> *const c_char {
    boundary!(or ptr::null(), { Ok(of_line(|line| Some(&line.template))) })
}

/// As quorlock_log_event(): what stands in the place of that name. "lock" is the name of a lock,
/// "node" a node as in errors, "reason" why. NULL where the line has no such field, too.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_log_field(name: *const c_char) -> *const c_char {
    boundary!(or ptr::null(), {
        handle::wanted(name.cast_mut(), "name")?;
        // SAFETY: by the header's contract it is a text that ends with NUL.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(of_line(|line| {
            let found = line.fields.iter().find(|(field, _)| field.as_bytes() == name.to_bytes());
            found.map(|(_, value)| value.as_c_str())
        }))
    })
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
/// wants to end without anything left running; a program that just exits has its
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
