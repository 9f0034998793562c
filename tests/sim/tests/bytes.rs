//! The layer of bytes: its schedules keep every promise, a seed says it all, and where
//! nothing goes wrong users see what they see over links.

use quorlock_sim::plan::Plan;
use quorlock_sim::random::Random;
use quorlock_sim::schedule::{self, Layer};

#[test]
fn no_invariant_is_broken_over_bytes() {
    let (mut holds, mut faults) = (0, 0);
    for seed in 1_000_000..1_001_000 {
        let outcome = schedule::run_on(Layer::Bytes, seed, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        holds += outcome.holds;
        faults += outcome.faults;
    }
    assert!(
        holds > 1_000 && faults > 500,
        "{holds} holds, {faults} faults"
    );
}

/// A reply over a connection in doubt tells that a node's clock has stepped, while the next one
/// is made: that is in doubt, too, as soon as it stands. A release that was set aside for it
/// goes out over it all the same.
#[test]
fn a_connection_in_doubt_from_the_first_has_all_releases_that_are_owed() {
    let outcome = schedule::run_on(Layer::Bytes, 20_234_600, false);
    assert_eq!(outcome.violation, None);
}

#[test]
fn a_seed_gives_the_same_bytes_each_time() {
    for seed in 1..40 {
        let run = || schedule::run_on(Layer::Bytes, seed, true);
        let (once, twice) = (run(), run());
        assert_eq!(once.history, twice.history, "seed {seed}");
        assert_eq!(once.events, twice.events, "seed {seed}");
    }
}

/// In these two things come at once.
const AT_ONCE: [u64; 6] = [74, 147, 201, 370, 597, 740];

/// Whether the layers may tell a schedule in other ways: two things come at once, as where one
/// wants several locks, and asks for them in one nanosecond; or sentinels are asked over bytes;
/// or locks are shared, whose scripts a node is given when it is asked for one first.
fn may_differ(seed: u64) -> bool {
    let plan = Plan::draw(&Random::new(seed));
    AT_ONCE.contains(&seed)
        || plan.several
        || plan.shares
        || plan.slots.is_some()
        || plan.fails_over()
}

fn time_of(line: &str) -> u64 {
    let (time, _) = line.split_once(' ').expect("a time, and what happened");
    time.parse().expect("nanoseconds")
}

/// Without faults, and where each way takes a time that is always the same, a user is
/// told the same over links and over bytes, in the same nanosecond: what was asked and
/// what came of it, with which token and fence, until when, and what was lost. A
/// connection takes as many round trips on both layers then, for the nodes have their
/// records. What passes below that is not compared: what a link writes before a node
/// votes has no counterpart. Where two things come in the same nanosecond each layer
/// has an order of its own, and over bytes one trailer stands behind all votes of a
/// write: one schedule in about a hundred goes on otherwise for that.
#[test]
fn users_see_the_same_over_links_and_over_bytes() {
    let mut lines = 0;
    for seed in (1..=800).filter(|seed| !may_differ(*seed)) {
        let [links, bytes] = [Layer::Links, Layer::Bytes].map(|layer| {
            let (mut seen, outcome) = schedule::seen(layer, seed);
            assert_eq!(outcome.violation, None, "seed {seed} over {layer:?}");
            seen.sort_by_cached_key(|line| (time_of(line), line.clone()));
            seen
        });
        let differs = links.iter().zip(&bytes).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(links.len(), bytes.len(), "seed {seed}");
        lines += links.len();
    }
    assert!(lines > 5_500, "only {lines} lines");
}
