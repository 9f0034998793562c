//! Seeded randomness: SplitMix64 (Steele, Lea, Flood, "Fast splittable
//! pseudorandom number generators", 2014).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock::sim::Rng;

use crate::script::Script;

/// A generator that is wholly given by its seed.
#[derive(Debug)]
pub struct Random {
    at: AtomicU64,
    /// Where what is drawn is written down, or read, and under which number.
    script: Option<(u32, Arc<Script>)>,
}

impl Random {
    /// The generator for `seed`.
    pub fn new(seed: u64) -> Random {
        Random {
            at: AtomicU64::new(seed),
            script: None,
        }
    }

    /// The generator for `seed`, as a script has it. `number` is its own among the
    /// generators of its schedule.
    pub fn scripted(seed: u64, number: u32, script: Option<&Arc<Script>>) -> Random {
        Random {
            at: AtomicU64::new(seed),
            script: script.map(|script| (number, script.clone())),
        }
    }

    /// What is recorded or played here.
    pub fn script(&self) -> Option<&Arc<Script>> {
        self.script.as_ref().map(|(_, script)| script)
    }

    /// Another generator, given by where this one is. What is drawn there
    /// changes nothing here, so that seeds go on to stand for what they stood
    /// for before there was anything of the kind to be drawn.
    pub fn aside(&self) -> Random {
        let at = || self.at.load(Ordering::Relaxed);
        Random::new(!self.drawn(at))
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let at = || self.at.fetch_add(step, Ordering::Relaxed);
        let mut z = self.drawn(at).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn drawn(&self, at: impl FnOnce() -> u64) -> u64 {
        match &self.script {
            None => at(),
            Some((number, script)) => script.drawn(*number, at),
        }
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number in `low..=high`.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number in `0.0..1.0`.
    pub fn share(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `low..=high`, evenly over the decades.
    pub fn over_decades(&self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    /// A number in `-1.0..1.0`.
    pub fn either_way(&self) -> f64 {
        self.share() * 2.0 - 1.0
    }

    /// One of `items`.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

impl Rng for Random {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}
