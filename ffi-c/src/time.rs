//! Times: whole milliseconds, and two numbers with a meaning of their own.

/// A time without end, or no limit.
pub const QUORLOCK_FOREVER: i64 = -1;
/// A time as the options say.
pub const QUORLOCK_DEFAULT: i64 = -2;
