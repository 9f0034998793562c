//! Moments and lengths of time as a node in memory stores and answers them: a server counts
//! lives of keys in milliseconds, and its `TIME` in microseconds.

use std::time::Duration;

use crate::clock::Instant;

/// The node's `TIME` in µs when its own clock shows `now`.
pub(super) fn server_time(now: Instant) -> u64 {
    now.0 / 1000
}

/// The lives of keys begin and end with a millisecond.
pub(super) fn tick(now: Instant) -> Instant {
    Instant(now.0 - now.0 % 1_000_000)
}

/// A length of time as it goes over the wire: in milliseconds.
pub(super) fn whole(length: Duration) -> Duration {
    Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// A length as it goes over the wire, in µs.
pub(super) fn micros(length: Duration) -> u64 {
    u64::try_from(whole(length).as_micros()).unwrap_or(u64::MAX / 2)
}

/// The end of a key that is given so long a life at `now`.
pub(super) fn life(now: Instant, length: Duration) -> Instant {
    tick(now) + whole(length)
}

/// How long it is until then, in whole milliseconds.
pub(super) fn left(until: u64, time: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(time).div_ceil(1000))
}
