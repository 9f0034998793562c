//! Schedules of clusters: what the guard is worth, and that a seed stands for one thing.

use quorlock_sim::cluster::schedule::run;

#[test]
fn nothing_is_violated() {
    let mut holds = 0;
    for seed in 1..=80 {
        let outcome = run(seed, true, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        holds += outcome.holds;
    }
    assert!(holds > 200, "{holds}");
}

/// A primary that lost its votes, or a replica without them, gives the lock to a second holder:
/// the judges see that.
#[test]
fn without_the_guard_a_lock_is_held_twice() {
    let found = (1..=150).filter_map(|seed| run(seed, false, false).violation);
    let twice = found.filter(|what| what.starts_with("S1")).count();
    assert!(twice > 0);
}

#[test]
fn a_seed_stands_for_one_schedule() {
    for seed in 1..=8 {
        let [one, other] = [(); 2].map(|()| run(seed, true, true).lines);
        assert_eq!(one, other, "seed {seed}");
        assert!(one.len() > 10);
    }
}
