//! How much of what there was in programs: a judge is worth as much as what it has seen.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted as a schedule is played.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "named as what they count")]
pub struct Counts {
    pub programs: AtomicU64,
    pub exports: AtomicU64,
    pub adoptions: AtomicU64,
    pub forces: AtomicU64,
    pub closes: AtomicU64,
    pub readers: AtomicU64,
}

/// The same of one schedule or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted([u64; 6]);

impl Counts {
    fn all(&self) -> [&AtomicU64; 6] {
        [
            &self.programs,
            &self.exports,
            &self.adoptions,
            &self.forces,
            &self.closes,
            &self.readers,
        ]
    }

    /// What was counted so far.
    pub fn counted(&self) -> Counted {
        Counted(self.all().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Adds what another schedule has come to.
    pub fn add(&self, more: Counted) {
        for (count, more) in self.all().into_iter().zip(more.0) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl Counted {
    /// The least of the numbers.
    pub fn least(&self) -> u64 {
        self.0.into_iter().min().unwrap_or(0)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [programs, exports, adoptions, forces, closes, readers] = self.0;
        write!(
            f,
            "{programs} programs: {exports} exports, {adoptions} adoptions, {forces} locks taken \
             away, {closes} clients closed, {readers} readers in crowds"
        )
    }
}
