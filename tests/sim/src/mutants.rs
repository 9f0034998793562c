//! Seeded bugs of what the simulator stands in for: the connection's order and
//! its resending, the choice of the clock. `mutant!` is as in the core, whose
//! own bugs are chosen by the same [`choose`].

macro_rules! mutant {
    ($name:literal, $right:expr, $wrong:expr) => {{
        #[cfg(mutants)]
        let value = if quorlock::sim::on(const { quorlock::sim::number($name) }) {
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

/// Turns on the bug of that name on this thread; none with an empty name.
/// False in a build without bugs.
pub fn choose(name: &str) -> bool {
    #[cfg(mutants)]
    quorlock::sim::choose(name);
    cfg!(mutants) || name.is_empty()
}
