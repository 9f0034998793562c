//! Codes: the numbers of the core's error kinds.

use std::ffi::{CString, c_char};

use quorlock_core::ErrorKind;
use quorlock_core::binding::LazyValue;

use crate::error::{Names, c_text, name_in};

/// The call has done what it says.
pub const QUORLOCK_OK: i32 = 0;
// Made from core/vocabulary.toml: codes.
/// An argument or option is not valid. Fix the call.
pub const QUORLOCK_INVALID_ARGUMENT: i32 = 1;
/// The lock is held by another, and the call was told not to wait.
pub const QUORLOCK_CONTENDED: i32 = 2;
/// The wait is over and the lock is still held by another.
pub const QUORLOCK_TIMEOUT: i32 = 3;
/// Too few nodes answered for a decision. Look at the nodes.
pub const QUORLOCK_QUORUM_UNAVAILABLE: i32 = 4;
/// The lease is held no longer. Stop the protected work.
pub const QUORLOCK_LOCK_LOST: i32 = 5;
/// Release or extension by an owner that holds nothing.
pub const QUORLOCK_NOT_OWNER: i32 = 6;
/// As many calls of this client wait for the lock as max_waiters allows. Shed load.
pub const QUORLOCK_TOO_MANY_WAITERS: i32 = 7;
/// Nodes or credentials are set up wrong. Never retried: fix the settings.
pub const QUORLOCK_MISCONFIGURED: i32 = 8;
/// The wait was cancelled by quorlock_cancel().
pub const QUORLOCK_CANCELLED: i32 = 9;
/// The client is closed. Make a new one.
pub const QUORLOCK_CLOSED: i32 = 10;
/// The handle was used before this process was forked. Make a client here.
pub const QUORLOCK_FORKED: i32 = 11;
/// A bug in Quorlock, or a panic caught at its boundary. Report it.
pub const QUORLOCK_INTERNAL: i32 = 12;
/// An owner that shares a lock wants it for itself: two that did would wait for each
/// other without end. Release the shared lease first, and look again at what it
/// protected.
pub const QUORLOCK_WOULD_DEADLOCK: i32 = 13;
// End of what is made.

/// The name of a code, such as "QuorumUnavailable"; "Ok" for 0 and NULL for a
/// number that is no code. The text lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_kind_name(kind: i32) -> *const c_char {
    static NAMES: LazyValue<Names> = LazyValue::new(|| {
        let named = |kind: ErrorKind| (kind.number(), c_text(kind.name()));
        ErrorKind::ALL.iter().copied().map(named).chain([(QUORLOCK_OK, CString::from(c"Ok"))]).collect()
    });
    boundary!(or std::ptr::null(), { Ok(name_in(&NAMES, kind)) })
}

/// What a code means in one sentence, without its full stop: what the message of every error of it
/// begins with, and errors can be grouped by, for the rest names locks and holders. NULL for 0 and
/// for a number that is no code. The text lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_kind_summary(kind: i32) -> *const c_char {
    static SUMMARIES: LazyValue<Names> = LazyValue::new(|| {
        let summary = |kind: &ErrorKind| (kind.number(), c_text(kind.summary()));
        ErrorKind::ALL.iter().map(summary).collect()
    });
    boundary!(or std::ptr::null(), { Ok(name_in(&SUMMARIES, kind)) })
}
