//! Seeded bugs, for the simulator to catch.
//!
//! `mutant!("name", right, wrong)` is `right`. Built with `--cfg mutants` it is
//! `wrong` where the environment variable `QUORLOCK_MUTANT` names it, so that
//! one build serves every bug. Each stands at the decision it spoils.

macro_rules! mutant {
    ($name:literal, $right:expr, $wrong:expr) => {{
        #[cfg(mutants)]
        let value = if $crate::mutants::on($name) {
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
pub(crate) fn on(name: &'static str) -> bool {
    use once_cell::sync::Lazy;
    static CHOSEN: Lazy<Option<String>> = Lazy::new(|| std::env::var("QUORLOCK_MUTANT").ok());
    CHOSEN.as_deref() == Some(name)
}
