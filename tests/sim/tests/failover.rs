//! Nodes that fail over: what the guard is for shows without it.

use quorlock_sim::schedule;

/// Enough of them, of which one in a dozen fails over.
const SEEDS: std::ops::Range<u64> = 1..3_000;

#[test]
fn without_a_guard_a_failover_gives_a_lock_twice() {
    let (mut played, mut twice) = (0, 0);
    for seed in SEEDS {
        let Some(outcome) = schedule::unguarded(seed) else {
            continue;
        };
        played += 1;
        let broken = outcome.violation.unwrap_or_default();
        twice += u32::from(broken.starts_with("S1"));
        if broken.starts_with("S1") {
            // The same with its guard, if it has one.
            assert_eq!(schedule::run(seed, false).violation, None, "seed {seed}");
        }
    }
    assert!(played > 150, "{played}");
    assert!(twice > 10, "{twice} of {played}");
}
