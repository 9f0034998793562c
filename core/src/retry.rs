//! How long to wait before the next try. Pure.

use std::time::Duration;

use crate::mutants::mutant;

/// Bounds of the random pause before attempt number `tries + 1` at a lock that
/// another holds: doubling from 8 ms to 100 ms, so that a crowd thins out and
/// a released lock does not lie idle for long.
///
/// `left` is how long the holder's vote lasts yet, as far as a node told it: a
/// lock about to expire is asked for right after it has.
pub(crate) fn poll_pause(tries: u32, left: Option<Duration>) -> (Duration, Duration) {
    let high = Duration::from_millis(8 << tries.min(4)).min(Duration::from_millis(100));
    match left {
        Some(left) if left < high / 2 => (
            left + Duration::from_millis(1),
            left + Duration::from_millis(3),
        ),
        _ => mutant!("polls-without-pause", (high / 2, high), Default::default()),
    }
}

/// How long a client that held a lock for so long, one owner after the other,
/// leaves it to other clients before its next owner asks: an eighth of that
/// time, from 4 to 100 ms. Others ask at least every 100 ms.
pub(crate) fn rest(held: Duration) -> Duration {
    (held / 8).clamp(Duration::from_millis(4), Duration::from_millis(100))
}

/// Pause before asking a node again to renew one vote, after `failures` in a
/// row: 20 ms doubling, and at least twelve tries in a ttl.
pub(crate) fn renewal_pause(failures: u32, ttl: Duration) -> Duration {
    Duration::from_millis(20 << failures.saturating_sub(1).min(10)).min(ttl / 12)
}

/// Pause before connecting again to a node, after `failures` in a row: none
/// after the first, for a connection may break without the node being ill;
/// then 50 ms doubling to 2 s.
pub(crate) fn reconnect_pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        n => Duration::from_millis(50 << (n - 2).min(6)).min(Duration::from_secs(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_double_to_a_bound() {
        assert_eq!(poll_pause(0, None).1, Duration::from_millis(8));
        assert_eq!(poll_pause(1, None).1, Duration::from_millis(16));
        assert_eq!(poll_pause(u32::MAX, None).1, Duration::from_millis(100));
        let (low, high) = poll_pause(9, Some(Duration::from_millis(5)));
        assert!(low > Duration::from_millis(5) && high < Duration::from_millis(10));
    }

    #[test]
    fn whoever_held_long_rests_long() {
        let rests = [0, 16, 80, 8_000].map(|ms| rest(Duration::from_millis(ms)).as_millis());
        assert_eq!(rests, [4, 4, 10, 100]);
    }

    #[test]
    fn a_node_is_left_alone_longer_and_longer() {
        let pauses: Vec<u64> = (0..9)
            .map(|n| reconnect_pause(n).as_millis() as u64)
            .collect();
        assert_eq!(pauses, [0, 0, 50, 100, 200, 400, 800, 1600, 2000]);
    }

    #[test]
    fn renewal_retries_stay_inside_the_ttl() {
        let ttl = Duration::from_millis(120);
        assert_eq!(renewal_pause(1, ttl), Duration::from_millis(10));
        assert_eq!(
            renewal_pause(3, Duration::from_secs(10)),
            Duration::from_millis(80)
        );
        assert!(renewal_pause(u32::MAX, Duration::from_secs(10)) < Duration::from_secs(1));
    }
}
