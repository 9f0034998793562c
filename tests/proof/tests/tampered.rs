//! The checker refuses what is no behaviour: each trace here is one of the simulator with one thing changed.

use std::time::Duration;

use quorlock::sim::{Instant, Reply};
use quorlock_proof::trace::Checker;
use quorlock_sim::schedule::traced;
use quorlock_sim::trace::{Served, Step, Trace};

/// Changes the first step that it can, in the first of these schedules that has one; whether the trace is refused then, and was
/// not before.
fn refused(change: impl Fn(&mut Step) -> bool) -> bool {
    for seed in 1..200 {
        let (_, trace) = traced(seed);
        let mut changed = trace.clone();
        if !changed.0.iter_mut().any(|traced| change(&mut traced.step)) {
            continue;
        }
        assert_eq!(Checker::default().check(&trace), Ok(()));
        return Checker::default().check(&changed).is_err();
    }
    panic!("no schedule has such a step");
}

/// The same without the first step that is such a one.
fn refused_without(is: impl Fn(&Step) -> bool) -> bool {
    for seed in 1..200 {
        let (_, trace) = traced(seed);
        let Some(place) = trace.0.iter().position(|traced| is(&traced.step)) else {
            continue;
        };
        assert_eq!(Checker::default().check(&trace), Ok(()));
        let mut steps = trace.0.clone();
        steps.remove(place);
        return Checker::default().check(&Trace(steps)).is_err();
    }
    panic!("no schedule has such a step");
}

#[test]
fn a_vote_that_the_node_did_not_give() {
    assert!(refused(|step| match step {
        Step::Serves {
            served: Served::Script(Some(reply @ Reply::Refused { .. }), _),
            request,
            ..
        } if request.keys.field.is_none() => {
            *reply = Reply::Granted {
                fence: 1,
                lasts: None,
            };
            true
        }
        _ => false,
    }));
}

#[test]
fn a_key_that_lives_longer_than_was_asked_for() {
    assert!(refused(|step| match step {
        Step::Serves {
            request,
            views,
            served: Served::Script(Some(Reply::Granted { .. }), _),
            ..
        } if request.keys.field.is_none() => match &mut views.after[0].key {
            Some((_, end)) => {
                *end = *end + Duration::from_millis(1);
                true
            }
            None => false,
        },
        _ => false,
    }));
}

#[test]
fn a_lease_that_ends_later_than_its_votes() {
    assert!(refused(|step| match step {
        Step::Stands { end, now, .. } if *end > *now => {
            *end = *end + Duration::from_millis(1);
            true
        }
        _ => false,
    }));
}

#[test]
fn a_fence_that_no_quorum_stores() {
    assert!(refused(|step| match step {
        Step::Won {
            fence: Some(fence), ..
        } if *fence > 0 => {
            *fence += 1;
            true
        }
        _ => false,
    }));
}

#[test]
fn a_vote_that_counts_from_later_than_it_was_asked_for() {
    assert!(refused(|step| match step {
        Step::Asks { ticket, now, .. } => {
            ticket.sent = Instant(now.0 + 1);
            true
        }
        _ => false,
    }));
}

#[test]
fn an_answer_that_was_not_given() {
    assert!(refused_without(|step| matches!(
        step,
        Step::Hears {
            reply: Reply::Granted { .. },
            ..
        }
    )));
}
