//! Time and chance, the same in each run.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock::sim::{Clock, Instant, Rng, Sleep};

/// A time of this century, as servers have it.
const START: u64 = 1_800_000_000_000_000_000;

/// A clock that stands still until it is set forward. No scene is so long that a sleep ends.
pub struct SteppedClock(AtomicU64);

impl Default for SteppedClock {
    fn default() -> SteppedClock {
        SteppedClock(AtomicU64::new(START))
    }
}

impl SteppedClock {
    pub fn step(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(pending())
    }
}

/// Chance by SplitMix64.
pub struct Seeded(AtomicU64);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(AtomicU64::new(seed))
    }
}

impl Rng for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let step = 0x9e37_79b9_7f4a_7c15;
            let mut z = self.0.fetch_add(step, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            part.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..part.len()]);
        }
    }
}
