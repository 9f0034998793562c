//! What is known of the clocks of a node's servers, from the `TIME` in their
//! replies. Pure.
//!
//! A reply was made between the sending of its request and its arrival, so it
//! bounds the difference between the node's `TIME` and our clock from both
//! sides (Cristian, "Probabilistic clock synchronization"). Bounds that no
//! longer meet, though clocks may run apart by the drift, are a step.

use std::time::Duration;

use crate::clock::Instant;

/// Bounds on a node's `TIME` less our clock, in µs, and when they were right.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTime {
    known: Option<Bounds>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    at: Instant,
}

/// What is known of the clocks of the servers to which one node's address has
/// led. Each is compared with itself alone: that another answers is no step.
#[derive(Debug, Default)]
pub struct NodeTimes {
    /// The clocks by the server's number; a clock that answered last is first.
    known: Vec<(u64, NodeTime)>,
}

/// How many servers of one node are remembered.
const SERVERS: usize = 4;

impl NodeTimes {
    /// [`NodeTime::observe`], of this server.
    pub fn observe(
        &mut self,
        server: u64,
        sent: Instant,
        received: Instant,
        time: u64,
        drift: f64,
    ) -> Option<Step> {
        match self.known.iter().position(|known| known.0 == server) {
            Some(place) => self.known[..=place].rotate_right(1),
            None => {
                self.known.truncate(SERVERS - 1);
                self.known.insert(0, (server, NodeTime::default()));
            }
        }
        self.known[0].1.observe(sent, received, time, drift)
    }

    /// The clock of the server that answered last.
    pub fn present(&self) -> NodeTime {
        self.known.first().map_or_else(NodeTime::default, |k| k.1)
    }

    /// The clock of this server, whichever answered last.
    pub fn of(&self, server: u64) -> NodeTime {
        let known = self.known.iter().find(|known| known.0 == server);
        known.map_or_else(NodeTime::default, |known| known.1)
    }

    /// Which server that is.
    pub fn server(&self) -> u64 {
        self.known.first().map_or(0, |k| k.0)
    }
}

/// Steps smaller than this are left to the drift allowance, which has 2 ms to
/// spare for them.
const TOLERANCE: i64 = 2_000;

/// A node's clock has stepped, by this many µs at the most; forward is
/// positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step(pub i64);

fn micros(at: Instant) -> i64 {
    i64::try_from(at.0 / 1000).unwrap_or(i64::MAX)
}

/// By how many µs two clocks may come apart in that time.
fn drifted(time: Duration, drift: f64) -> i64 {
    (time.as_secs_f64() * 1_000_000.0 * drift) as i64
}

impl NodeTime {
    /// Takes into account that the node's `TIME` was `time` µs, at a moment
    /// between `sent` and `received` of our clock. `drift` bounds the
    /// difference of clock rates.
    pub fn observe(
        &mut self,
        sent: Instant,
        received: Instant,
        time: u64,
        drift: f64,
    ) -> Option<Step> {
        let time = i64::try_from(time).ok()?;
        // Each bound is wider by 1 µs, for our clock is cut to whole µs below; and by the time of
        // the arrival the node's clock may have run ahead by the drift.
        let ahead = 1 + drifted(sent.until(received), drift);
        let new = Bounds {
            low: time.checked_sub(micros(received))?.checked_sub(1)?,
            high: time.checked_sub(micros(sent))?.checked_add(ahead)?,
            at: received,
        };
        let Some(old) = self.known else {
            self.known = Some(new);
            return None;
        };
        // The caller may observe replies in another order than they arrived in.
        let apart = old.at.until(received).max(received.until(old.at));
        let slack = drifted(apart, drift);
        let (low, high) = (
            old.low.saturating_sub(slack),
            old.high.saturating_add(slack),
        );
        if new.low > high.saturating_add(TOLERANCE) {
            self.known = Some(new);
            return Some(Step(new.high.saturating_sub(low)));
        }
        if new.high < low.saturating_sub(TOLERANCE) {
            self.known = Some(new);
            return Some(Step(new.low.saturating_sub(high)));
        }
        let (low, high) = (low.max(new.low), high.min(new.high));
        self.known = Some(if low <= high {
            Bounds {
                low,
                high,
                at: received.max(old.at),
            }
        } else {
            new
        });
        None
    }

    /// The node's `TIME` at `now`, by our best guess.
    pub fn estimate(&self, now: Instant) -> Option<u64> {
        let Bounds { low, high, .. } = self.known?;
        let middle = low.midpoint(high);
        u64::try_from(middle.saturating_add(micros(now))).ok()
    }

    /// The earliest and the latest that the node's `TIME` may be at `now`.
    pub fn bounds(&self, now: Instant, drift: f64) -> Option<(u64, u64)> {
        let Bounds { low, high, at } = self.known?;
        let slack = drifted(at.until(now), drift);
        let low = low.saturating_sub(slack).saturating_add(micros(now));
        let high = high.saturating_add(slack).saturating_add(micros(now));
        Some((u64::try_from(low).ok()?, u64::try_from(high).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant(ms * MS)
    }

    #[test]
    fn a_step_is_seen_with_its_sign() {
        let mut node = NodeTime::default();
        assert_eq!(node.observe(at(10), at(11), 1_000_010_500, 0.01), None);
        assert_eq!(node.observe(at(20), at(21), 1_000_020_500, 0.01), None);
        // The node's clock has stepped 500 ms forward.
        let step = node.observe(at(30), at(31), 1_000_530_500, 0.01).unwrap();
        assert!((500_000..503_000).contains(&step.0), "{step:?}");
        assert_eq!(node.observe(at(40), at(41), 1_000_540_500, 0.01), None);
        let step = node.observe(at(50), at(51), 1_000_050_500, 0.01).unwrap();
        assert!((-503_000..=-500_000).contains(&step.0), "{step:?}");
    }

    #[test]
    fn another_server_is_no_step() {
        let mut node = NodeTimes::default();
        let mut told = |server, ms, time| node.observe(server, at(ms), at(ms + 1), time, 0.01);
        assert_eq!(told(7, 10, 1_000_010_500), None);
        assert_eq!(told(8, 20, 1_000_520_500), None);
        assert_eq!(told(7, 30, 1_000_030_500), None);
        // The server's clock stepped while the other server was asked.
        assert_eq!(told(8, 40, 1_000_540_500), None);
        assert!(told(7, 50, 1_000_550_500).is_some_and(|step| step.0 > 0));
        for server in 100..110 {
            assert_eq!(told(server, 60, 1_000_000_000 * server), None);
        }
        assert!(node.known.len() <= SERVERS);
        assert_eq!(node.server(), 109);
        let shows = |node: &NodeTimes, server| node.of(server).estimate(at(60));
        assert_eq!(shows(&node, 108), Some(108_000_000_000 - 500 + 5));
        assert_eq!(shows(&node, 7), None);
        // The estimate is the middle of the round trip, widened by what the clock may have run
        // ahead since.
        assert_eq!(
            node.present().estimate(at(60)),
            Some(109_000_000_000 - 500 + 5)
        );
    }

    proptest! {
        // A clock that only drifts is never accused, and the true time is always within the bounds.
        #[test]
        fn drift_is_no_step(
            rate in -0.01f64..0.01,
            talks in proptest::collection::vec((1u64..5_000, 0u64..300, 0.0f64..=1.0), 1..30)
        ) {
            let truth = |ms: f64| ((1e9 + ms) * 1000.0 * (1.0 + rate)) as u64;
            let mut node = NodeTime::default();
            let mut now = 0;
            for (pause, round_trip, share) in talks {
                let sent = now + pause;
                now = sent + round_trip;
                let made = sent as f64 + share * round_trip as f64;
                prop_assert_eq!(node.observe(at(sent), at(now), truth(made), 0.011), None);
                let (low, high) = node.bounds(at(now + 100), 0.011).unwrap();
                let truth = truth((now + 100) as f64);
                prop_assert!(low <= truth + 2 && truth <= high + 2);
            }
        }
    }
}
