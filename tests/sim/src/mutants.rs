//! Seeded bugs: those of the core, and those of what the simulator stands in for, the connection's
//! order and its resending, the choice of the clock. They are there in a copy alone, which is built
//! with `--cfg mutants`: see tests/sim/bugs.py.

#[cfg(mutants)]
macro_rules! mutant {
    ($name:literal, $right:expr, $wrong:expr) => {{
        if $crate::mutants::on(const { $crate::mutants::number($name) }) {
            $wrong
        } else {
            $right
        }
    }};
}
#[cfg(mutants)]
pub(crate) use mutant;
#[cfg(mutants)]
pub(crate) use quorlock::sim::{number, on};

/// Turns on the bug of that name on this thread; none with an empty name.
/// False in a build without bugs.
pub fn choose(name: &str) -> bool {
    #[cfg(mutants)]
    quorlock::sim::choose(name);
    cfg!(mutants) || name.is_empty()
}
