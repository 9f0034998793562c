//! The models: which answers, which events and which moments each of them has.

use std::time::Duration;

use super::world::{DRIFT, World};
use super::{Happens, Small, answers};
use crate::exhaustive::{breaks, explore};
use crate::protocol::claim::Path;

const TTL: Duration = Duration::from_secs(1);

/// An attempt by these commands. Its moments: the first, the home's due, the end of a request, of the
/// attempt, and too late for a lease.
fn attempt(path: Path) -> Small {
    Small {
        world: World::new(TTL, false),
        moments: &[0, 7, 60, 120, 900],
        block: 1,
        path,
        answers: answers::of_votes,
        won: 0,
        happens: &[Happens::HomeDue, Happens::Releases],
        most: 1,
        drift: DRIFT,
    }
}

/// The same with fences. `early`: what is drawn before the clocks of the nodes are known.
fn fenced(path: Path, early: u64, block: u32) -> Small {
    let mut world = World::new(TTL, true);
    world.drawn[0] = early;
    Small {
        world,
        moments: &[0, 60],
        block,
        answers: answers::of_fences,
        happens: &[Happens::HomeDue],
        ..attempt(path)
    }
}

/// A lease, from when it is won. Its moments: two renewals, and the ends of the votes before each.
fn lease() -> Small {
    Small {
        world: World::new(TTL, true),
        moments: &[0, 1, 340, 995, 1_330],
        answers: answers::of_renewals,
        won: 3,
        happens: &[Happens::Ticks],
        most: 1,
        ..attempt(Path::Script)
    }
}

/// A lease, and all that its user may do with it.
fn used(keep: Duration, max_hold: Option<Duration>) -> Small {
    let mut model = lease();
    model.world.terms.asked.keep = keep;
    model.world.terms.asked.max_hold = max_hold;
    Small {
        moments: &[0, 1, 340, 1_000],
        block: 3,
        won: 1,
        answers: answers::of_leases,
        happens: &[
            Happens::Looks,
            Happens::Ticks,
            Happens::Steps,
            Happens::Extends,
            Happens::ExtendsAnother,
            Happens::Shares,
            Happens::Exports,
            Happens::PassesOn,
            Happens::PassesOnLabelled,
            Happens::HandsOver,
            Happens::TakesBack,
            Happens::Releases,
            Happens::Forfeits,
        ],
        most: 2,
        ..model
    }
}

#[test]
fn an_attempt_without_fences() {
    explore("plain attempt", attempt(Path::Plain), 1_000);
    explore("attempt by script", attempt(Path::Script), 1_000);
    let mut capped = attempt(Path::Script);
    capped.world.terms.asked.max_hold = Some(Duration::from_millis(150));
    explore("attempt under max_hold", capped, 1_000);
}

#[test]
fn an_attempt_with_fences() {
    explore(
        "plain attempt with fences",
        fenced(Path::Plain, 7, 1),
        1_000,
    );
    explore("attempt with fences", fenced(Path::Script, 7, 1), 1_000);
    explore("attempt without clocks", fenced(Path::Script, 0, 1), 1_000);
    explore(
        "attempt for a block of fences",
        fenced(Path::Script, 7, 3),
        1_000,
    );
}

#[test]
fn a_lease_that_is_renewed() {
    explore("renewed once", lease(), 1_000);
    let twice = Small {
        moments: &[0, 1, 340, 680, 1_670],
        answers: answers::of_renewals_twice,
        won: 1,
        most: 2,
        ..lease()
    };
    explore("renewed twice", twice, 1_000);
}

#[test]
fn a_lease_that_is_used() {
    explore("used", used(Duration::ZERO, None), 1_000);
    let keep = Duration::from_millis(500);
    let max_hold = Some(Duration::from_millis(800));
    explore("kept", used(keep, max_hold), 1_000);
    let passed = Small {
        moments: &[0, 1, 100, 1_000],
        happens: &[
            Happens::PassesOn,
            Happens::PassesOnLabelled,
            Happens::HandsOver,
            Happens::Ticks,
            Happens::Exports,
            Happens::Releases,
        ],
        most: 4,
        ..used(Duration::from_millis(50), None)
    };
    explore("passed on and on", passed, 1_000);
}

/// A claim that counted votes for longer than the specification does would be seen.
#[test]
fn a_claim_that_reckons_with_another_drift_is_told() {
    for model in [attempt(Path::Plain), fenced(Path::Script, 7, 1), lease()] {
        let drift = 2.0 * DRIFT;
        breaks(
            Small { drift, ..model },
            "the claim does as the specification says",
        );
    }
}
