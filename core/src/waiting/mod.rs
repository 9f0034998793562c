//! How an acquire waits: in the line of its client, and, once it is first
//! there, between its attempts.
//!
//! Between attempts, for now, by a pause of random length, short enough that a
//! lock that is set free does not lie idle for long. The queue on the nodes and
//! its hand-off take this place.

mod line;

use std::time::Duration;

use crate::clock::Instant;
use crate::mutants::mutant;
use crate::retry;
use crate::set::Set;

pub use line::{Lines, Passed};
pub(crate) use line::{Place, Turn};

/// The waiting of one acquire.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    tries: u32,
}

impl Waiting {
    /// Waits until it makes sense to try again, and at most until `deadline`.
    /// `left` is how long the holder's votes last, if a node told it.
    pub(crate) async fn next(&mut self, set: &Set, left: Option<Duration>, deadline: Instant) {
        let (low, high) = retry::poll_pause(self.tries, left);
        self.tries = self.tries.saturating_add(1);
        let wake = set.clock.now() + set.rng.between(low, high);
        let wake = mutant!("pause-past-deadline", wake.min(deadline), wake);
        set.clock.sleep_until(wake).await;
    }
}
