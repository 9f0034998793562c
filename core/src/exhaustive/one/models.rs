//! The models: which answers, which events and which moments each of them has.

use std::sync::Arc;
use std::time::Duration;

use super::world::{DRIFT, World};
use super::{Happens, Small, answers};
use crate::exhaustive::{self, breaks};
use crate::mutex::lock;
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
        seen: Arc::default(),
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

/// A lease, from when it is won. Its moments: a renewal, one just before the votes end, and both ends.
fn lease() -> Small {
    Small {
        world: World::new(TTL, true),
        moments: &[0, 1, 340, 960, 1_330],
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
        answers: answers::of_leases,
        happens: &[
            Happens::Looks,
            Happens::Ticks,
            Happens::Steps,
            Happens::Extends,
            Happens::ExtendsAnother,
            Happens::ExportsAnother,
            Happens::Shares,
            Happens::SharesAnother,
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

/// Goes through a model, and through what is not all that common in it.
fn explore(name: &str, model: Small, floor: usize, sees: &[&str]) {
    let model = Small {
        seen: Arc::default(),
        ..model
    };
    let seen = model.seen.clone();
    exhaustive::explore(name, model, floor);
    let seen = lock(&seen);
    let missing: Vec<_> = sees.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(
        missing.is_empty(),
        "{name}: never {missing:?}, only {seen:?}"
    );
}

#[test]
#[ignore = "`make prove` runs it"]
fn an_attempt_without_fences() {
    const COMMON: &[&str] = &["asks a node once more", "waits for the home in vain"];
    let plain = [COMMON, &["releases by plain commands"]].concat();
    explore("plain attempt", attempt(Path::Plain), 140_000, &plain);
    explore("attempt by script", attempt(Path::Script), 50_000, COMMON);
    let mut capped = attempt(Path::Script);
    capped.world.terms.asked.max_hold = Some(Duration::from_millis(150));
    explore("attempt under max_hold", capped, 50_000, COMMON);
}

#[test]
#[ignore = "`make prove` runs it"]
fn an_attempt_with_fences() {
    let sees = &["writes a fence back"];
    let plain = fenced(Path::Plain, 7, 1);
    explore("plain attempt with fences", plain, 100_000, sees);
    explore(
        "attempt with fences",
        fenced(Path::Script, 7, 1),
        3_000,
        sees,
    );
    explore(
        "attempt without clocks",
        fenced(Path::Script, 0, 1),
        70_000,
        sees,
    );
    explore(
        "attempt for a block of fences",
        fenced(Path::Script, 7, 3),
        2_000,
        sees,
    );
}

#[test]
#[ignore = "`make prove` runs it"]
fn an_attempt_of_a_waiter() {
    let mut world = World::new(TTL, false);
    world.waits = true;
    let waiter = Small {
        world,
        moments: &[0, 60, 300],
        answers: answers::of_waiters,
        happens: &[Happens::HomeDue, Happens::GoesOn, Happens::Releases],
        most: 3,
        ..attempt(Path::Script)
    };
    explore("attempt of a waiter", waiter, 150_000, &["leaves queues"]);
}

#[test]
#[ignore = "`make prove` runs it"]
fn a_lease_that_is_renewed() {
    let sees = &[
        "takes a vote back in quarantine",
        "expired",
        "refused",
        "forced",
    ];
    explore("renewed once", lease(), 12_000, sees);
    let twice = Small {
        moments: &[0, 1, 340, 1_000, 1_340],
        answers: answers::of_renewals_twice,
        most: 2,
        ..lease()
    };
    let sees = &[
        "takes a vote back in quarantine",
        "takes a vote back",
        "expired",
        "refused",
    ];
    explore("renewed twice", twice, 25_000, sees);
}

#[test]
#[ignore = "`make prove` runs it"]
fn a_lease_that_is_used() {
    let sees = &["passes on", "expired", "closed"];
    explore("used", used(Duration::ZERO, None), 70_000, sees);
    let keep = Duration::from_millis(500);
    let max_hold = Some(Duration::from_millis(800));
    let sees = &["passes on", "closed", "keeps", "max_hold"];
    explore("kept", used(keep, max_hold), 70_000, sees);
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
        won: 1,
        most: 4,
        ..used(Duration::from_millis(50), None)
    };
    explore("passed on and on", passed, 120_000, &["passes on", "keeps"]);
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
