//! Which seeded bug is on, in a copy that has them: see tests/sim/bugs.py.
//!
//! `mutant!("name", right, wrong)` is `wrong` on a thread that has [chosen](choose) that name, and
//! `right` on any other. In unit tests the environment variable `QUORLOCK_MUTANT` chooses for all
//! threads.

use std::cell::Cell;

macro_rules! mutant {
    ($name:literal, $right:expr, $wrong:expr) => {{
        if $crate::mutants::on(const { $crate::mutants::number($name) }) {
            $wrong
        } else {
            $right
        }
    }};
}
pub(crate) use mutant;

// A number, for some of these places are passed at every message.
#[cfg(not(test))]
thread_local! {
    static CHOSEN: Cell<u64> = const { Cell::new(0) };
}
#[cfg(test)]
thread_local! {
    static CHOSEN: Cell<u64> =
        Cell::new(std::env::var("QUORLOCK_MUTANT").map_or(0, |name| number(&name)));
}

/// The number of a name: its hash; zero for none.
pub const fn number(name: &str) -> u64 {
    match name.is_empty() {
        true => 0,
        false => crate::hash::fnv1a(name.as_bytes()),
    }
}

/// Turns on the bug of that name on this thread; none with an empty name.
pub fn choose(name: &str) {
    CHOSEN.set(number(name));
}

/// Whether the bug of that number is on.
pub fn on(number: u64) -> bool {
    CHOSEN.get() == number
}
