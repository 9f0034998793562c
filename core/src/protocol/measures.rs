//! What a client measures: how long callers waited for locks, how long they held them, how
//! fast nodes answer.
//!
//! A histogram is a row of counters, so to measure is to add one to one of them. A reader sums them
//! up: a histogram has no count of its own that could differ from its buckets.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::clock::Instant;
use crate::mutex::lock;
use crate::protocol::group::{GROUPS, Group};
use crate::protocol::loss::LossReason;

/// The upper bounds of the buckets, in µs: from a fast node's answer to a patient caller's
/// wait. Behind the last is one more bucket, for whatever took longer.
pub(crate) const BOUNDS: [u64; 19] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// How many took how long.
#[derive(Debug, Default)]
pub(crate) struct HistogramCounters {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl HistogramCounters {
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| bound * 1000 < nanos);
        one_more(&self.buckets[bucket]);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Each bucket by itself, and the sum of the times.
    pub(crate) fn read(&self) -> ([u64; BOUNDS.len() + 1], Duration) {
        let buckets = self.buckets.each_ref().map(|b| b.load(Ordering::Relaxed));
        (
            buckets,
            Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        )
    }
}

/// What an acquire came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireOutcome {
    Won,
    /// Held by another, and the caller does not wait.
    Contended,
    /// Held by others for as long as the caller waits.
    Timeout,
    NoQuorum,
    /// The caller gave up before.
    Cancelled,
    /// Too many wait already.
    Busy,
    /// Anything else, such as a wrong password.
    Failed,
}

impl AcquireOutcome {
    pub(crate) const ALL: [AcquireOutcome; 7] = [
        AcquireOutcome::Won,
        AcquireOutcome::Contended,
        AcquireOutcome::Timeout,
        AcquireOutcome::NoQuorum,
        AcquireOutcome::Cancelled,
        AcquireOutcome::Busy,
        AcquireOutcome::Failed,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            AcquireOutcome::Won => "won",
            AcquireOutcome::Contended => "contended",
            AcquireOutcome::Timeout => "timeout",
            AcquireOutcome::NoQuorum => "no_quorum",
            AcquireOutcome::Cancelled => "cancelled",
            AcquireOutcome::Busy => "busy",
            AcquireOutcome::Failed => "failed",
        }
    }
}

/// What is measured of the locks of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupMeasures {
    /// By the outcome's place in [`AcquireOutcome::ALL`].
    pub(crate) acquires: [HistogramCounters; AcquireOutcome::ALL.len()],
    pub(crate) released: HistogramCounters,
    pub(crate) lost: HistogramCounters,
    waits: WaitStarts,
}

/// When the calls began that are under way, and how many did at each moment.
#[derive(Debug, Default)]
struct WaitStarts(Mutex<BTreeMap<Instant, u32>>);

impl GroupMeasures {
    /// When the oldest of the calls that are under way began.
    pub(crate) fn oldest_wait(&self) -> Option<Instant> {
        let waits = lock(&self.waits.0);
        let first = waits.keys().next();
        first.copied()
    }
}

/// What is measured of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeMeasures {
    /// From when a request for a vote was handed to the connection to its answer.
    pub(crate) round_trips: HistogramCounters,
    clock_steps: AtomicU64,
}

impl NodeMeasures {
    pub(crate) fn clock_stepped(&self) {
        one_more(&self.clock_steps);
    }

    /// How many steps of its clock were seen.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.clock_steps.load(Ordering::Relaxed)
    }
}

/// All that one client measures.
#[derive(Debug)]
pub(crate) struct Measures {
    groups: [OnceBox<GroupMeasures>; GROUPS],
    pub(crate) nodes: Box<[NodeMeasures]>,
    losses: [AtomicU64; LossReason::ALL.len()],
}

impl Measures {
    pub(crate) fn new(nodes: usize) -> Measures {
        Measures {
            groups: std::array::from_fn(|_| OnceBox::new()),
            nodes: (0..nodes).map(|_| NodeMeasures::default()).collect(),
            losses: Default::default(),
        }
    }

    fn group(&self, group: Group) -> &GroupMeasures {
        self.groups[group.place()].get_or_init(Box::default)
    }

    /// The groups in which something was measured.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Group, &GroupMeasures)> {
        let known = self.groups.iter().enumerate();
        known.filter_map(|(place, of)| Some((Group::at(place), of.get()?)))
    }

    /// A call begins that waits for a lock.
    pub(crate) fn waits(&self, group: Group, since: Instant) {
        *lock(&self.group(group).waits.0).entry(since).or_default() += 1;
    }

    /// It has ended.
    pub(crate) fn waits_no_more(&self, group: Group, since: Instant) {
        let mut waits = lock(&self.group(group).waits.0);
        if let Some(count) = waits.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                waits.remove(&since);
            }
        }
    }

    pub(crate) fn acquired(&self, group: Group, outcome: AcquireOutcome, time: Duration) {
        self.group(group).acquires[outcome as usize].add(time);
    }

    pub(crate) fn released(&self, group: Group, held: Duration) {
        self.group(group).released.add(held);
    }

    pub(crate) fn lost(&self, group: Group, held: Duration, reason: LossReason) {
        self.group(group).lost.add(held);
        let place = LossReason::ALL.iter().position(|known| *known == reason);
        if let Some(place) = place {
            one_more(&self.losses[place]);
        }
    }

    /// How many leases were lost for that reason.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (LossReason, u64)> {
        let losses = LossReason::ALL.iter().zip(&self.losses);
        losses.map(|(reason, count)| (*reason, count.load(Ordering::Relaxed)))
    }
}

fn one_more(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_time_falls_into_the_first_bucket_that_holds_it(micros in 0_u64..400_000_000) {
            let histogram = HistogramCounters::default();
            histogram.add(Duration::from_micros(micros));
            let (buckets, sum) = histogram.read();
            let place = buckets.iter().position(|count| *count == 1).unwrap();
            prop_assert!(BOUNDS.get(place).is_none_or(|bound| micros <= *bound));
            prop_assert!(place == 0 || micros > BOUNDS[place - 1]);
            prop_assert_eq!(sum, Duration::from_micros(micros));
        }
    }

    #[test]
    fn the_oldest_of_those_that_wait_is_told() {
        let (measures, group) = (Measures::new(0), Group::default());
        let oldest = || {
            let of = measures.groups().next();
            of.and_then(|(_, of)| of.oldest_wait())
        };
        assert_eq!(oldest(), None);
        for since in [5, 3, 3, 9] {
            measures.waits(group, Instant(since));
        }
        for (gone, left) in [
            (9, Some(3)),
            (3, Some(3)),
            (3, Some(5)),
            (7, Some(5)),
            (5, None),
        ] {
            assert!(oldest().is_some());
            measures.waits_no_more(group, Instant(gone));
            assert_eq!(oldest(), left.map(Instant));
        }
    }

    #[test]
    fn outcomes_stand_in_their_order() {
        for (place, outcome) in AcquireOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
    }
}
