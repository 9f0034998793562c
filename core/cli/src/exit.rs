//! Exit codes: those of `sysexits.h`, so that they differ from what most commands use.

use quorlock::{Error, ErrorKind};

use crate::given;

/// Locks can be won, but something needs to be fixed.
pub const TO_MEND: i32 = 1;
/// No client holds it.
pub const FREE: i32 = 3;
/// The command line cannot be understood.
pub const USAGE: i32 = 64;
/// Too few nodes answered.
pub const NO_QUORUM: i32 = 69;
/// A bug in Quorlock.
pub const BUG: i32 = 70;
/// The set is declared, and no quorum votes so far.
pub const NO_VOTES: i32 = 74;
/// The lock is held by another: try later.
pub const HELD: i32 = 75;
/// The lock was lost while the command ran.
pub const LOST: i32 = 76;
/// Nodes or credentials are set up wrong.
pub const CONFIG: i32 = 78;
/// The command cannot be run, as in a shell.
pub const NOT_RUNNABLE: i32 = 126;
/// The command is not found, as in a shell.
pub const NOT_FOUND: i32 = 127;
/// Ended by a signal: this much more than its number, as in a shell.
pub const SIGNAL: i32 = 128;

/// Why nothing came of it: what to say, and what to end with.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub message: String,
}

impl Failure {
    pub fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(of(error.kind()), given::by_flags(&error))
    }
}

/// The code for an error of the core.
pub fn of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::InvalidArgument => USAGE,
        ErrorKind::Contended | ErrorKind::Timeout | ErrorKind::TooManyWaiters => HELD,
        ErrorKind::QuorumUnavailable => NO_QUORUM,
        ErrorKind::LockLost => LOST,
        ErrorKind::Misconfigured => CONFIG,
        _ => BUG,
    }
}

/// Ends the process.
pub fn with(code: i32) -> ! {
    std::process::exit(code)
}
