//! Native votes: what the plain commands of an acquire, and the trailer behind them, are
//! worth (docs/reference/protocol.md, "Native acquire"). Pure: no I/O, no clock, no await.
//!
//! `SET … NX` gives the vote unchecked: a node that has lost its memory gives it too.
//! So a vote is counted only by what was read *behind* it on the same connection, in
//! the trailer of its write: the node's record, its quarantine, its `TIME`. What is
//! not counted is *void*: it stays with its token, is asked for again by script, and
//! goes with the token's release.

use std::time::Duration;

use super::{Op, Reply, Request};
use crate::clock::Instant;

/// The furthest that a fence may be ahead of the node's `TIME`, in µs.
pub const FURTHEST: u64 = 10_000_000;

/// What a node answered to the commands of a native acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeReplies {
    /// The value was stored.
    pub stored: bool,
    /// The candidate was beyond what the counter had, and is stored there.
    pub counted: bool,
}

/// What a node answered behind them, to the trailer of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The node holds the record that it was admitted with, or the client does not mind the record.
    pub admitted: bool,
    /// The node is in quarantine, and the client minds it.
    pub quarantined: bool,
    /// The node's `TIME`, in µs.
    pub time: u64,
}

/// What a native acquire has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The requester is given this reply.
    Reply(Reply),
    /// The vote is void, for the node holds another record.
    OtherRecord,
    /// The vote is void, for the node is in quarantine: the script says for how long.
    Quarantined,
}

/// How much later than its ttl a native key ends, by the guess of the node's `TIME`: for
/// what the guess may be wrong by.
const SPARE: Duration = Duration::from_millis(5);

/// The most that [`SPARE`] comes to: a key ends with a whole millisecond, so it is rounded up.
pub const LONGER: Duration = Duration::from_millis(6);

/// When a key ends that is to stand for `ttl` from the node's `time` on: in µs that are
/// whole milliseconds.
pub fn key_end(time: u64, ttl: Duration) -> u64 {
    let micros = u64::try_from((ttl + SPARE).as_micros()).unwrap_or(u64::MAX / 2);
    time.saturating_add(micros).div_ceil(1000) * 1000
}

/// When the key ends of a vote that was asked for at `asked`, by what the node's `TIME`
/// was at another moment. It counts from then, however late it is written: its requester
/// undoes it for no longer than a key can stand that was asked for then.
pub fn key_end_of(asked: Instant, (time, at): (u64, Instant), ttl: Duration) -> u64 {
    let micros =
        |from: Instant, to| u64::try_from(from.until(to).as_micros()).unwrap_or(u64::MAX / 2);
    let time = (time + micros(at, asked)).saturating_sub(micros(asked, at));
    key_end(time, ttl)
}

/// The outcome of a native acquire with these answers. A refused acquire, or a plain one without a
/// trailer, needs no trailer.
pub fn outcome(request: &Request, voted: NativeReplies, trailer: Option<Trailer>) -> Outcome {
    let Op::Acquire { ttl, candidate, .. } = request.op else {
        return Outcome::Reply(Reply::Released { held: voted.stored });
    };
    if !voted.stored {
        return Outcome::Reply(Reply::Taken);
    }
    let Some(trailer) = trailer else {
        return Outcome::Reply(Reply::Granted {
            fence: 0,
            lasts: None,
        });
    };
    if !trailer.admitted {
        return Outcome::OtherRecord;
    }
    if trailer.quarantined {
        return Outcome::Quarantined;
    }
    let left = request.not_after.saturating_sub(trailer.time);
    let left = Duration::from_micros(left);
    // The guess of the node's clock was wrong by more than a vote can bear. The answer has brought
    // a better reading, and a script makes the key last.
    if left < (ttl / 2) {
        return Outcome::Reply(Reply::Late);
    }
    let counted = voted.counted && (candidate <= trailer.time + FURTHEST);
    Outcome::Reply(Reply::Granted {
        fence: if counted { candidate } else { 0 },
        lasts: Some(left.min(ttl)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{AfterRelease, AuxKeys, Keys, Mode, Value, Waits};
    use std::sync::Arc;

    const TTL: Duration = Duration::from_millis(1_000);
    const TIME: u64 = 50_000_000;

    fn request(candidate: u64) -> Request {
        Request {
            op: Op::Acquire {
                ttl: TTL,
                candidate,
                home: false,
                let_in: false,
                block: 1,
            },
            native: true,
            keys: Arc::new(Keys {
                lock: b"k"[..].into(),
                aux: AuxKeys::of(b"q", b"f"),
                waits: Waits {
                    reservation: TTL,
                    place: TTL,
                    most: 1,
                },
                fence_ttl: Some(TTL),
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            value: Value(b"v"[..].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            not_after: key_end(TIME, TTL),
        }
    }

    #[test]
    fn a_key_ends_by_when_it_was_asked_for() {
        let told = (TIME, Instant(5_000_000));
        for (asked, end) in [(5, 1_005_000), (8, 1_008_000), (2, 1_002_000)] {
            let asked = Instant(asked * 1_000_000);
            assert_eq!(key_end_of(asked, told, TTL), TIME + end);
        }
    }

    const VOTED: NativeReplies = NativeReplies {
        stored: true,
        counted: true,
    };
    const GOOD: Trailer = Trailer {
        admitted: true,
        quarantined: false,
        time: TIME,
    };

    fn granted(fence: u64, millis: u64) -> Outcome {
        let lasts = Some(Duration::from_millis(millis));
        Outcome::Reply(Reply::Granted { fence, lasts })
    }

    #[test]
    fn a_key_ends_with_a_millisecond() {
        assert_eq!(key_end(TIME, TTL), TIME + 1_005_000);
        assert_eq!(key_end(TIME + 1, TTL), TIME + 1_006_000);
    }

    #[test]
    fn a_vote_that_soon_ends_is_asked_for_again() {
        let at = |time| outcome(&request(7), VOTED, Some(Trailer { time, ..GOOD }));
        assert_eq!(at(TIME + 505_000), granted(7, 500));
        assert_eq!(at(TIME + 505_001), Outcome::Reply(Reply::Late));
    }

    #[test]
    fn a_vote_counts_by_what_was_read_behind_it() {
        let at = |time| Trailer { time, ..GOOD };
        for (trailer, expected) in [
            (GOOD, granted(7, 1_000)),
            // The node's clock is behind the guess, or ahead of it.
            (at(TIME - 90_000), granted(7, 1_000)),
            (at(TIME + 105_000), granted(7, 900)),
            (at(TIME + 1_005_000), Outcome::Reply(Reply::Late)),
            (
                Trailer {
                    admitted: false,
                    ..GOOD
                },
                Outcome::OtherRecord,
            ),
            (
                Trailer {
                    quarantined: true,
                    ..GOOD
                },
                Outcome::Quarantined,
            ),
        ] {
            assert_eq!(outcome(&request(7), VOTED, Some(trailer)), expected);
        }
    }

    #[test]
    fn a_mark_is_a_candidate_that_the_node_has_counted_and_bounds() {
        let uncounted = NativeReplies {
            counted: false,
            ..VOTED
        };
        assert_eq!(
            outcome(&request(7), uncounted, Some(GOOD)),
            granted(0, 1_000)
        );
        for (candidate, mark) in [
            (TIME + FURTHEST, TIME + FURTHEST),
            (TIME + FURTHEST + 1, 0),
            (0, 0),
        ] {
            let outcome = outcome(&request(candidate), VOTED, Some(GOOD));
            assert_eq!(outcome, granted(mark, 1_000));
        }
    }

    #[test]
    fn what_needs_no_trailer() {
        let taken = Outcome::Reply(Reply::Taken);
        assert_eq!(outcome(&request(7), NativeReplies::default(), None), taken);
        let plain = Outcome::Reply(Reply::Granted {
            fence: 0,
            lasts: None,
        });
        assert_eq!(outcome(&request(0), VOTED, None), plain);
    }
}
