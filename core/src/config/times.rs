//! Derives the times of a lock that the user did not give from those that the user gave. Pure.

use std::time::Duration;

use super::{MIN_TTL, defaults};

/// The times that bound each other, as a user gave them; `None` where nothing was
/// given, which then [follows](ExplicitTimes::settled) what was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExplicitTimes {
    pub(crate) ttl: Option<Duration>,
    /// `Some(None)`: no cap.
    pub(crate) max_hold: Option<Option<Duration>>,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) fence_ttl: Option<Duration>,
}

/// The same times, all of them known; not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) ttl: Duration,
    /// `None`: no cap.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_ttl: Duration,
    pub(crate) fence_ttl: Duration,
}

impl ExplicitTimes {
    /// What was given, as it is but for whole milliseconds, and for the rest the
    /// default or the nearest value that goes with what was given. Only `max_ttl`
    /// follows nothing: it is a mark of the set, which all clients have alike, so
    /// one client's ttl must not change it unseen.
    pub(crate) fn settled(&self) -> Times {
        let max_ttl = self.max_ttl.map_or(defaults::MAX_TTL, whole_millis);
        let follows = || {
            let cap = self.max_hold.flatten().unwrap_or(Duration::MAX);
            defaults::TTL.min(max_ttl).min(cap).max(MIN_TTL)
        };
        let ttl = self.ttl.map_or_else(follows, whole_millis);
        let max_hold = self.max_hold;
        let twice = max_ttl.saturating_mul(2);
        Times {
            ttl,
            max_hold: max_hold.unwrap_or(Some(defaults::MAX_HOLD.max(ttl))),
            max_ttl,
            fence_ttl: self
                .fence_ttl
                .map_or(defaults::FENCE_TTL.max(twice), whole_millis),
        }
    }
}

/// A time for the nodes, which know whole milliseconds: rounded up, so that a caller never gets
/// less than it asked for. Less than a millisecond is refused, as it was given.
fn whole_millis(time: Duration) -> Duration {
    match time.subsec_nanos() % 1_000_000 {
        _ if time < Duration::from_millis(1) => time,
        0 => time,
        over => time.saturating_add(Duration::from_nanos((1_000_000 - over).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn what_was_not_given_follows_what_was() {
        let none = ExplicitTimes::default();
        // ttl, max_hold, max_ttl, fence_ttl, in seconds; 0: no cap.
        for (given, settled) in [
            (none, [10, 3600, 60, 600]),
            (ExplicitTimes { ttl: s(20), ..none }, [20, 3600, 60, 600]),
            (
                ExplicitTimes {
                    max_ttl: s(5),
                    ..none
                },
                [5, 3600, 5, 600],
            ),
            (
                ExplicitTimes {
                    max_ttl: s(600),
                    ..none
                },
                [10, 3600, 600, 1200],
            ),
            (
                ExplicitTimes {
                    ttl: s(4000),
                    max_ttl: s(4000),
                    ..none
                },
                [4000, 4000, 4000, 8000],
            ),
            (
                ExplicitTimes {
                    max_hold: Some(s(5)),
                    ..none
                },
                [5, 5, 60, 600],
            ),
            (
                ExplicitTimes {
                    max_hold: Some(s(5)),
                    max_ttl: s(3),
                    ..none
                },
                [3, 5, 3, 600],
            ),
            (
                ExplicitTimes {
                    max_hold: Some(None),
                    ..none
                },
                [10, 0, 60, 600],
            ),
            (
                ExplicitTimes {
                    fence_ttl: s(200),
                    ..none
                },
                [10, 3600, 60, 200],
            ),
            // A mark of the set bends to nothing, and contradictions stand.
            (ExplicitTimes { ttl: s(90), ..none }, [90, 3600, 60, 600]),
            (
                ExplicitTimes {
                    fence_ttl: s(60),
                    ..none
                },
                [10, 3600, 60, 60],
            ),
            (
                ExplicitTimes {
                    ttl: s(20),
                    max_hold: Some(s(5)),
                    ..none
                },
                [20, 5, 60, 600],
            ),
            (
                ExplicitTimes {
                    ttl: s(20),
                    max_ttl: s(5),
                    ..none
                },
                [20, 3600, 5, 600],
            ),
        ] {
            let Times {
                ttl,
                max_hold,
                max_ttl,
                fence_ttl,
            } = given.settled();
            let found = [ttl, max_hold.unwrap_or_default(), max_ttl, fence_ttl];
            assert_eq!(found, settled.map(Duration::from_secs), "{given:?}");
        }
    }

    #[test]
    fn times_for_nodes_are_rounded_up_to_milliseconds() {
        for (nanos, millis) in [
            (0, 0),
            (1_000_000, 1),
            (1_000_001, 2),
            (3_333_333_333, 3334),
        ] {
            let rounded = whole_millis(Duration::from_nanos(nanos));
            assert_eq!(rounded, Duration::from_millis(millis), "{nanos}");
        }
        assert_eq!(whole_millis(Duration::MAX), Duration::MAX);
        let nano = Duration::from_nanos(1);
        assert_eq!(whole_millis(nano), nano);
    }
}
