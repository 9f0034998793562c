//! Seeded bugs, for the simulator to catch.
//!
//! `mutant!("name", right, wrong)` is `right`. Built with `--cfg mutants` it is
//! `wrong` on a thread that has [chosen](choose) that name, so that one build,
//! and one process, serves every bug. Each stands at the decision it spoils. In
//! unit tests the environment variable `QUORLOCK_MUTANT` chooses for all threads.

macro_rules! mutant {
    ($name:literal, $right:expr, $wrong:expr) => {{
        #[cfg(mutants)]
        let value = if $crate::mutants::on(const { $crate::mutants::number($name) }) {
            $wrong
        } else {
            $right
        };
        #[cfg(not(mutants))]
        let value = $right;
        value
    }};
}
pub(crate) use mutant;

#[cfg(mutants)]
pub use chosen::{choose, number, on};

#[cfg(mutants)]
mod chosen {
    use std::cell::Cell;

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

    /// The number of a name (FNV-1a); zero for none.
    pub const fn number(name: &str) -> u64 {
        let (bytes, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            i += 1;
        }
        if bytes.is_empty() { 0 } else { hash }
    }

    /// Turns on the bug of that name on this thread; none with an empty name.
    pub fn choose(name: &str) {
        CHOSEN.set(number(name));
    }

    /// Whether the bug of that number is on.
    pub fn on(number: u64) -> bool {
        CHOSEN.get() == number
    }
}
