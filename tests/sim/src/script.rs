//! What was drawn in a schedule, kept apart by whom it was for: so that the
//! schedule can be played again without some of its parts, and all others still
//! draw what they drew.
//!
//! In a schedule as its seed gives it, all users draw from one generator, in the
//! order in which they happen to run, and so does the network for all messages.
//! Take one user away, and everybody would draw something else: it would be
//! another schedule. Hence a schedule is *recorded* first, as it is: each draw is
//! written down under the name of who [acts](crate::who) and in which of its
//! rounds. When it is *played*, everybody reads its own tape. Whoever draws more than
//! it did goes on from a generator of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::who::{self, Who};
use crate::without::{Part, Without};
use crate::world::{FaultEvent, Time};

/// Whose tape: which generator, who, in which round.
type Whose = (u32, Who, u64);

/// What went wrong or was planned to: when, what, and its name.
pub type Planned = (Time, FaultEvent, Part);

#[derive(Debug, Default)]
struct State {
    /// Where each generator was whenever it was asked.
    recorded: HashMap<Whose, Vec<u64>>,
    /// How far each tape has been read, and where its reader is behind its end.
    read: HashMap<Whose, (usize, u64)>,
    /// In which round a user is.
    rounds: BTreeMap<Who, u64>,
    /// Rounds that were begun.
    begun: Vec<Part>,
    planned: Vec<Planned>,
    /// How many faults each has planned.
    counts: BTreeMap<(Who, u64), u64>,
}

/// A schedule's script: what is recorded, or what is played.
#[derive(Debug, Default)]
pub struct Script {
    /// What is read; nothing in a script that records.
    tapes: Option<Arc<HashMap<Whose, Vec<u64>>>>,
    without: Without,
    state: Mutex<State>,
}

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What was recorded, to be played as often as one likes.
    pub fn recorded(&self) -> Tapes {
        Tapes(Arc::new(std::mem::take(&mut self.state().recorded)))
    }

    /// What is taken away.
    pub fn without(&self) -> &Without {
        &self.without
    }

    /// Somebody asks a generator that is at `at`. Returns where it is for the one
    /// who asks.
    pub(crate) fn drawn(&self, generator: u32, at: impl FnOnce() -> u64) -> u64 {
        let who = who::now();
        let mut state = self.state();
        let round = state.rounds.get(&who).copied().unwrap_or(0);
        let whose = (generator, who, round);
        let Some(tapes) = &self.tapes else {
            let at = at();
            state.recorded.entry(whose).or_default().push(at);
            return at;
        };
        let (place, own) = state.read.entry(whose).or_default();
        *place += 1;
        let other = self.without.draws();
        let tape = tapes.get(&whose).filter(|_| other.is_none());
        let tape = tape.map_or(&[][..], Vec::as_slice);
        match tape.get(*place - 1) {
            Some(at) => *at,
            None => {
                *own = own.wrapping_add(0x9e37_79b9_7f4a_7c15);
                // Not from the end of its tape: there others went on, whose tokens it would draw.
                own.wrapping_add(seed_of(whose, other.unwrap_or(0)))
            }
        }
    }

    /// Who acts begins a round; false if it is taken away.
    pub(crate) fn begins(&self, user: usize, round: u64) -> bool {
        let mut state = self.state();
        state.rounds.insert(Who::User(user), round);
        let part = Part::Round(user, round);
        let plays = !self.without.has(&part);
        if plays {
            state.begun.push(part);
        }
        plays
    }

    /// Somebody is to do something in its program; false if it is taken away.
    pub(crate) fn does(&self, deed: Part) -> bool {
        let done = !self.without.has(&deed);
        if done {
            self.state().begun.push(deed);
        }
        done
    }

    /// Something is to go wrong; false if it is taken away.
    pub(crate) fn plans(&self, at: Time, fault: FaultEvent) -> bool {
        let mut state = self.state();
        let who = who::now();
        let round = state.rounds.get(&who).copied().unwrap_or(0);
        let count = state.counts.entry((who, round)).or_default();
        let number = *count;
        *count += 1;
        let part = match who {
            Who::User(user) => Part::FaultOf(user, round, number),
            _ => Part::Fault(number),
        };
        let goes_wrong = !self.without.has(&part);
        if goes_wrong {
            state.planned.push((at, fault, part));
        }
        goes_wrong
    }

    /// What was planned to go wrong.
    pub fn planned(&self) -> Vec<Planned> {
        self.state().planned.clone()
    }

    /// The rounds that were begun.
    pub fn begun(&self) -> Vec<Part> {
        self.state().begun.clone()
    }
}

/// A place for who draws what it did not draw before.
fn seed_of((generator, who, round): Whose, other: u64) -> u64 {
    let (kind, number) = match who {
        Who::World => (0, 0),
        Who::Client(n) => (1, n),
        Who::User(n) => (2, n),
        Who::AtClient(n) => (3, n),
        Who::AtNode(n) => (4, n),
    };
    let words = [other, u64::from(generator), kind, number as u64, round];
    words.iter().fold(7, |seed, word| {
        let mixed = (seed ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    })
}

/// What everybody drew in a schedule.
#[derive(Clone, Debug)]
pub struct Tapes(Arc<HashMap<Whose, Vec<u64>>>);

impl Tapes {
    /// The script to play them again without some parts.
    pub fn script(&self, without: Without) -> Script {
        Script {
            tapes: Some(self.0.clone()),
            without,
            state: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::who::{Who, act};

    #[test]
    fn who_draws_more_than_it_did_draws_nothing_of_anybody_elses() {
        let recording = Arc::new(Script::default());
        let random = Random::scripted(7, 0, Some(&recording));
        let draw = |random: &Random, user| {
            let _acting = act(Who::User(user));
            random.bits()
        };
        let drawn = [0, 1, 0, 1].map(|user| draw(&random, user));
        let script = Arc::new(recording.recorded().script(Without::default()));
        let random = Random::scripted(7, 0, Some(&script));
        let of = |user| [(); 4].map(|()| draw(&random, user));
        let (first, second) = (of(0), of(1));
        assert_eq!([first[0], second[0], first[1], second[1]], drawn);
        assert!(first.iter().all(|bits| !second.contains(bits)));
    }
}
