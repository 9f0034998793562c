//! A short run of the simulator, and that a seed says it all.

use quorlock_sim::program::Counts;
use quorlock_sim::schedule::{self, PLAIN};

#[test]
fn no_invariant_is_broken() {
    let (mut holds, mut faults) = (0, 0);
    let counts = Counts::default();
    for seed in 1_000_000..1_002_000 {
        let outcome = schedule::run(seed, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        holds += outcome.holds;
        faults += outcome.faults;
        counts.add(outcome.counted);
    }
    let counted = counts.counted();
    assert!(counted.least() > 10, "{counted}");
    assert!(
        holds > 2_000 && faults > 1_000,
        "{holds} holds, {faults} faults"
    );
}

/// Several clients found a new set, and the writes of one are late: meanwhile another has won the
/// lock, and two nodes have lost their data. The first gives them its pledge, for they were new
/// when it looked.
#[test]
fn a_late_pledge_makes_no_node_vote_that_may_have_lost_a_vote() {
    let outcome = schedule::run(PLAIN + 40_138_363, false);
    assert_eq!(outcome.violation, None);
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    for seed in 1..20 {
        let (once, twice) = (schedule::run(seed, true), schedule::run(seed, true));
        assert_eq!(once.history, twice.history, "seed {seed}");
        assert_eq!(once.events, twice.events, "seed {seed}");
    }
    for seed in 1..1_000 {
        let (once, twice) = (schedule::run(seed, false), schedule::run(seed, false));
        let counts = |o: &schedule::Outcome| (o.events, o.faults, o.holds);
        assert_eq!(counts(&once), counts(&twice), "seed {seed}");
    }
}
