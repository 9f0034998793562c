//! The search for a shorter schedule in which the same oracle sees the same.
//!
//! Parts are taken away, many at once and then fewer, for as long as what is
//! left breaks the same promise and is no longer told: users first, then nodes,
//! rounds, faults, the ways of the network, settings; and again from the first,
//! until nothing more can go (Zeller, Hildebrandt, "Simplifying and isolating
//! failure-inducing input", 2002).
//!
//! That ends where no single step leads on. So it is done many times over: in
//! other orders, from the beginning or from the best with some parts put back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::random::Random;
use crate::schedule::{self, Layer, Outcome};
use crate::script::Tapes;
use crate::without::{Part, Without, parts_of};

/// How long a search may take, unless told.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The shortest schedule that was found.
#[derive(Debug)]
pub struct Shrunk {
    /// What is taken away.
    pub without: Without,
    /// What comes of the rest.
    pub outcome: Outcome,
    /// How many lines the history had before.
    pub lines_before: usize,
    /// And has now.
    pub lines: usize,
    /// How many schedules were tried.
    pub tried: u64,
    /// Whether the search came to its end; else the time was up.
    pub done: bool,
}

/// How often parts are taken away until no more can go.
const DESCENTS: u64 = 60;
/// How many other draws are tried.
const DRAWS: u64 = 10_000;
/// A history of so few lines is short enough: nobody draws anew for less.
const SHORT: usize = 25;

/// A schedule that violates the same.
struct Found {
    without: Without,
    outcome: Outcome,
    lines: usize,
}

struct Search<'a> {
    layer: Layer,
    seed: u64,
    tapes: Tapes,
    /// What is to be seen again.
    same: String,
    at: Found,
    tried: u64,
    random: Random,
    /// Whether a history may become longer on the way.
    free: bool,
    in_time: &'a dyn Fn() -> bool,
}

/// Looks for a shorter schedule than that of `seed` without these parts, while
/// `in_time` says so. `None` if nothing is violated to begin with.
pub fn shrink(
    layer: Layer,
    seed: u64,
    without: Without,
    in_time: &dyn Fn() -> bool,
) -> Option<Shrunk> {
    let (whole, tapes) = schedule::record(layer, seed);
    let outcome = if without.0.is_empty() {
        whole
    } else {
        schedule::rerun(layer, seed, &tapes, without.clone())
    };
    let lines_before = outcome.lines().len();
    let mut search = Search {
        layer,
        seed,
        tapes,
        same: kind_of(outcome.violation.as_ref()?),
        at: Found {
            without: without.clone(),
            outcome,
            lines: lines_before,
        },
        tried: 0,
        random: Random::new(seed),
        free: false,
        in_time,
    };
    let done = search.run(&without);
    search.tidy(&without);
    Some(Shrunk {
        without: search.at.without,
        outcome: search.at.outcome,
        lines_before,
        lines: search.at.lines,
        tried: search.tried,
        done,
    })
}

/// What a violation is, without whom, when and how much: its words that have no
/// digit in them, and the name of the promise.
pub fn kind_of(violation: &str) -> String {
    let plain = |word: &&str| !word.bytes().any(|byte| byte.is_ascii_digit());
    let mut words = violation.split_whitespace();
    let promise = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.filter(plain).collect();
    format!("{promise} {}", rest.join(" "))
}

impl Search<'_> {
    /// Looks for the shortest; `first` stays away in any case. False if the time
    /// was up.
    fn run(&mut self, first: &Without) -> bool {
        self.descend();
        for descent in 0..DESCENTS {
            if !(self.in_time)() {
                return false;
            }
            // From the beginning, or from where the best is with some put back.
            let kept = [0, 30, 60, 90][descent as usize % 4];
            let mut start = self.at.without.clone();
            start
                .0
                .retain(|part| first.has(part) || self.random.chance(kept));
            let Some(found) = self.look_at(start) else {
                continue;
            };
            let best = std::mem::replace(&mut self.at, found);
            self.descend_freely();
            let size = |found: &Found| (found.lines, found.without.0.len());
            // Of two with as many lines, the one with fewer parts.
            if size(&best).0 < self.at.lines
                || size(&best).0 == self.at.lines && size(&best).1 >= size(&self.at).1
            {
                self.at = best;
            }
        }
        self.redraw(first)
    }

    /// Looks for draws with which what is left violates the same in fewer lines.
    /// False if the time was up.
    fn redraw(&mut self, first: &Without) -> bool {
        let from = self.at.without.clone();
        for other in 0..DRAWS {
            if first.draws().is_some() || self.at.lines <= SHORT {
                return true;
            }
            if !(self.in_time)() {
                return false;
            }
            let mut start = self.at.without.clone();
            if other % 2 == 1 {
                start
                    .0
                    .retain(|part| first.has(part) || self.random.chance(75));
                start.0.extend(
                    from.0
                        .iter()
                        .filter(|p| matches!(p, Part::User(_)))
                        .cloned(),
                );
            }
            let found = self.look_at(start.with_draws(other));
            let shorter = |found: &Found| found.lines < self.at.lines;
            if let Some(found) = found.filter(shorter) {
                self.at = found;
                self.descend();
            }
        }
        true
    }

    fn descend_freely(&mut self) {
        self.free = true;
        self.descend();
        self.free = false;
        self.descend();
    }

    /// Takes away until nothing more can go.
    fn descend(&mut self) {
        loop {
            let before = self.at.without.clone();
            if self.free {
                self.take_away((0..6).flat_map(|kind| self.parts(kind)).collect())
            } else {
                (0..6).for_each(|kind| self.take_away(self.parts(kind)))
            }
            if self.at.without == before || !(self.in_time)() {
                return;
            }
        }
    }

    /// The parts of one kind that are left; the last first, for little rests on
    /// them.
    fn parts(&self, kind: usize) -> Vec<Part> {
        let Some(plan) = &self.at.outcome.plan else {
            return Vec::new();
        };
        let [users, nodes, nets, settings] = parts_of(plan);
        let mut parts = match kind {
            0 => users,
            1 => nodes,
            2 => self.at.outcome.begun.clone(),
            3 => {
                let planned = self.at.outcome.planned.iter();
                planned.map(|p| p.2.clone()).collect()
            }
            4 => nets,
            _ => settings,
        };
        parts.retain(|part| !self.at.without.has(part));
        parts.reverse();
        parts
    }

    fn take_away(&mut self, mut parts: Vec<Part>) {
        if self.free {
            for place in (1..parts.len()).rev() {
                parts.swap(place, self.random.below(place as u64 + 1) as usize);
            }
        }
        let mut size = parts.len();
        while size > 0 {
            let mut kept = Vec::new();
            for some in parts.chunks(size) {
                if !(self.in_time)() {
                    return;
                }
                if !self.try_without(some) {
                    kept.extend_from_slice(some);
                }
            }
            parts = kept;
            size = if size > 1 { size.div_ceil(2) } else { 0 };
        }
    }

    /// Whether the same comes of the schedule without these too; they are away
    /// then.
    fn try_without(&mut self, parts: &[Part]) -> bool {
        let found = self.look_at(self.at.without.and(parts));
        let shorter = |found: &Found| self.free || found.lines <= self.at.lines;
        let Some(found) = found.filter(shorter) else {
            return false;
        };
        self.at = found;
        true
    }

    /// The schedule without these, if it violates the same.
    fn look_at(&mut self, without: Without) -> Option<Found> {
        self.tried += 1;
        let rerun = || schedule::rerun(self.layer, self.seed, &self.tapes, without.clone());
        let outcome = catch_unwind(AssertUnwindSafe(rerun)).ok()?;
        let same = outcome.violation.as_deref().map(kind_of) == Some(self.same.clone());
        same.then(|| Found {
            without,
            lines: outcome.lines().len(),
            outcome,
        })
    }

    /// Names nothing that makes no difference: the rounds of users that are away,
    /// say.
    fn tidy(&mut self, first: &Without) {
        for part in self.at.without.0.clone().into_iter().rev() {
            let mut fewer = self.at.without.clone();
            fewer.0.remove(&part);
            if let Some(found) = self.look_at(fewer).filter(|_| !first.has(&part))
                && found.outcome.history == self.at.outcome.history
            {
                self.at = found;
            }
        }
    }
}
