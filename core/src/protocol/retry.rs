//! How long a waiter or a renewal waits before the next try. Pure.

use std::time::Duration;

/// Bounds of the random time until a waiter asks its home again, in case the home called and the
/// waiter did not hear of it: 400 to 600 ms for the first two in the queue, 1.6 to 2.4 s behind
/// them. A waiter that the home cannot call, since its inbox has no listener, or that is not
/// queued, asks every 80 to 120 ms.
///
/// `place` is how many wait before it there, `None` where it is not queued; `deaf`: the home has no
/// listener on its inbox. `left` is how much longer the holder's vote lasts, as far as the home
/// said: a lock about to expire is asked for right after it has.
pub(crate) fn poll_pause(
    left: Option<Duration>,
    place: Option<u32>,
    deaf: bool,
) -> (Duration, Duration) {
    let interval = match place {
        Some(0 | 1) if !deaf => Duration::from_millis(500),
        Some(_) if !deaf => Duration::from_secs(2),
        _ => Duration::from_millis(100),
    };
    let (low, high) = (interval.mul_f64(0.8), interval.mul_f64(1.2));
    match left {
        Some(left) if left < high => (
            left + Duration::from_millis(1),
            left + Duration::from_millis(2),
        ),
        _ => (low, high),
    }
}

/// Bounds of the random pause before a waiter that has the home's vote asks the nodes again that
/// refused: 1 ms, doubling to 64 ms, give or take 30 %.
pub(crate) fn retry_pause(tries: u32) -> (Duration, Duration) {
    let pause = Duration::from_millis(1 << tries.min(6));
    (pause.mul_f64(0.7), pause.mul_f64(1.3))
}

/// Bounds of the random pause after an attempt that came to its end: 10 ms,
/// doubling to 640 ms, or half of it.
pub(crate) fn back_off(attempts: u32) -> (Duration, Duration) {
    let pause = Duration::from_millis(10 << attempts.min(6));
    (pause / 2, pause)
}

/// Bounds of the random pause before a candidate of an election campaigns again, after the
/// work of this many terms in a row had failed before this one's: 0.5 to 1 s, doubling to 15
/// to 30 s.
pub(crate) fn campaign_pause(failures: u32) -> (Duration, Duration) {
    let high = Duration::from_secs(1 << failures.min(5));
    let high = high.min(Duration::from_secs(30));
    (high / 2, high)
}

/// Pause before asking a node again to renew one vote, after `failures` in a
/// row: 20 ms doubling, and at least twelve tries in a ttl.
pub(crate) fn renewal_pause(failures: u32, ttl: Duration) -> Duration {
    Duration::from_millis(20 << failures.saturating_sub(1).min(10)).min(ttl / 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_line_ask_more_often() {
        let low = |place, deaf| poll_pause(None, place, deaf).0.as_millis();
        assert_eq!(low(Some(0), false), 400);
        assert_eq!(low(Some(2), false), 1600);
        assert_eq!(low(None, false), 80);
        assert_eq!(low(Some(9), true), 80);
        let pause = |left| poll_pause(Some(left), Some(2), false);
        let (low, high) = pause(Duration::from_millis(5));
        assert!(low > Duration::from_millis(5) && high < Duration::from_millis(10));
        // Nor does one whose interval might outlast the vote leave the lock idle.
        let (low, high) = poll_pause(Some(Duration::from_millis(407)), Some(1), false);
        assert!(low > Duration::from_millis(407) && high < Duration::from_millis(410));
        // No waiter asks less often because the holder's vote lasts long.
        let far = pause(Duration::from_secs(60));
        assert_eq!(far, poll_pause(None, Some(2), false));
    }

    #[test]
    fn pauses_double_to_a_bound() {
        let high = |pause: fn(u32) -> (Duration, Duration), n| pause(n).1.as_micros();
        assert_eq!(
            [0, 1, 6, u32::MAX].map(|n| high(retry_pause, n)),
            [1_300, 2_600, 83_200, 83_200]
        );
        assert_eq!(
            [0, 1, 6, u32::MAX].map(|n| high(back_off, n)),
            [10_000, 20_000, 640_000, 640_000]
        );
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
