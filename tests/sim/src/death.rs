//! Tasks of ours that end: a connection, a map of a cluster, a watchdog. Each is ended where it
//! waits, by a panic within what it waits for, as a bug would end it; the core begins it anew.
//!
//! Streams, dials and sleeps of the simulator say here that they are waited for, with
//! nothing locked. A draw of its own decides whether the task that waits ends there, so that
//! schedules without deaths are what they were.

use std::cell::RefCell;
use std::panic::resume_unwind;

use crate::random::Random;

/// At most so many tasks end in a schedule.
const MOST: u64 = 12;

/// Of this thread: a schedule has no other.
#[derive(Default)]
struct Deaths {
    /// Schedules have them.
    wanted: bool,
    /// Where they are drawn, until there is to be none any more.
    random: Option<Random>,
    left: u64,
    /// In so many percent of the waits.
    percent: u64,
    /// The task of ours that is polled.
    polled: Option<usize>,
    /// Those that have ended and rest until they begin anew: their wait is no task's.
    resting: Vec<usize>,
    ended: u64,
    /// How often the core said that it begins one anew.
    told: u64,
}

thread_local!(static DEATHS: RefCell<Deaths> = RefCell::default());

fn with<T>(act: impl FnOnce(&mut Deaths) -> T) -> T {
    DEATHS.with_borrow_mut(act)
}

/// Whether schedules of this thread have deaths, from now on.
pub fn choose(wanted: bool) {
    with(|deaths| deaths.wanted = wanted);
}

/// Whether they have.
pub fn are_wanted() -> bool {
    with(|deaths| deaths.wanted)
}

/// A schedule begins. `random`: where they are drawn.
pub(crate) fn begin(random: Random) {
    with(|deaths| {
        *deaths = Deaths {
            wanted: deaths.wanted,
            ..Deaths::default()
        };
        if deaths.wanted {
            deaths.left = random.between(1, MOST);
            deaths.percent = *random.pick(&[1, 3, 10, 30]);
            deaths.random = Some(random);
        }
    });
}

/// No task ends from now on.
pub(crate) fn calm() {
    with(|deaths| deaths.random = None);
}

/// This task of ours is polled; `None`: another's, or none.
pub(crate) fn polls(task: Option<usize>) {
    with(|deaths| deaths.polled = task);
}

/// The task that is polled waits for something. It may end here.
pub(crate) fn waits() {
    let ends = with(|deaths| {
        let (Some(task), Some(random)) = (deaths.polled, &deaths.random) else {
            return false;
        };
        let ends =
            deaths.left > 0 && !deaths.resting.contains(&task) && random.chance(deaths.percent);
        if ends {
            (deaths.left, deaths.ended) = (deaths.left - 1, deaths.ended + 1);
            deaths.resting.push(task);
        }
        ends
    });
    if ends {
        // Without the message that a panic prints.
        resume_unwind(Box::new("the task ends here"));
    }
}

/// What the task that is polled slept for is over: one that rested begins anew.
pub(crate) fn slept() {
    with(|deaths| {
        let polled = deaths.polled;
        deaths.resting.retain(|task| Some(*task) != polled);
    });
}

/// The core warns of something: that a task has ended by a panic and is begun anew, say.
pub(crate) fn told(line: quorlock::LogEvent) {
    with(|deaths| deaths.told += u64::from(line.message().starts_with("a panic in ")));
}

/// How long a client may have been without one of its tasks, in nanoseconds.
pub(crate) fn rested() -> u64 {
    // By its own clock, which may be slow.
    count() * 110_000_000
}

/// How many tasks have ended so far.
pub(crate) fn count() -> u64 {
    with(|deaths| deaths.ended)
}

/// What is wrong with them, if anything is: a task that has ended by itself, or was not begun anew.
pub(crate) fn judge() -> Option<String> {
    let (ended, told) = with(|deaths| (deaths.ended, deaths.told));
    (ended != told).then(|| format!("L5 {ended} tasks were ended, and {told} begun anew"))
}
