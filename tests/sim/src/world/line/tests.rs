//! When a line is judged, and what excuses it.

use super::*;

const A: Who = (0, 0);
const B: Who = (1, 0);
const C: Who = (2, 1);
/// 45 % of the reservation.
const GAP: Time = 90 * MS;
const VAIN: Time = 200 * MS + POLL_FAR;

/// Three nodes; A holds the lock on all of them, B waits, from 100 ms on.
fn held(bounds: Bounds) -> Line {
    let mut line = Line::new(3, bounds);
    line.calm(0);
    line.wins(A, 100 * MS);
    (0..3).for_each(|node| line.votes_from(node, 1_000 * MS, 100 * MS));
    line.waits(B, false, 100 * MS);
    line
}

fn bounds() -> Bounds {
    Bounds {
        quorum: 2,
        reservation: 200 * MS,
        trip: MS,
        longest: 20_000 * MS,
        healthy: false,
    }
}

fn release(line: &mut Line, who: Who, at: Time) {
    line.ends(who, at);
    (0..3).for_each(|node| line.votes_from(node, 0, at));
}

/// Nothing is wrong until `at`, and a moment later it is.
fn judged_at(line: &mut Line, at: Time) {
    assert_eq!(line.check(at), None);
    let wrong = line.check(at + 1).expect("too long");
    assert!(wrong.starts_with("L4 a lock is idle"), "{wrong}");
}

#[test]
fn a_free_lock_that_is_waited_for_is_won_soon() {
    let mut line = held(bounds());
    release(&mut line, A, 500 * MS);
    line.wins(B, 510 * MS);
    assert_eq!(line.check(10_000 * MS), None, "won in time, and kept");
    let mut line = held(bounds());
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP);
    line.wins(B, 600 * MS);
    assert!(line.check(600 * MS).is_some(), "too late, and that stays");
    let mut line = held(bounds());
    release(&mut line, A, 500 * MS);
    line.wins(B, 600 * MS);
    assert!(line.check(600 * MS).is_some(), "seen as it is won at last");
}

#[test]
fn it_is_free_where_a_quorum_would_vote() {
    let mut line = held(bounds());
    line.ends(A, 500 * MS);
    line.votes_from(0, 0, 500 * MS);
    assert_eq!(line.check(950 * MS), None, "two keys are left");
    line.votes_from(1, 0, 950 * MS);
    judged_at(&mut line, 950 * MS + GAP);
    // Keys that nobody deletes end by themselves.
    let mut line = held(bounds());
    line.ends(A, 500 * MS);
    line.votes_from(2, 1_500 * MS, 600 * MS);
    judged_at(&mut line, 1_000 * MS + GAP);
    // A vote that is taken anew ends the gap.
    let mut line = held(bounds());
    release(&mut line, A, 500 * MS);
    line.votes_from(0, 2_000 * MS, 510 * MS);
    line.votes_from(1, 2_000 * MS, 510 * MS);
    judged_at(&mut line, 2_000 * MS + GAP);
}

#[test]
fn nobody_who_waits_no_gap() {
    let mut line = held(bounds());
    line.leaves(B, 400 * MS);
    release(&mut line, A, 500 * MS);
    assert_eq!(line.check(9_000 * MS), None);
    line.waits(C, false, 9_000 * MS);
    judged_at(&mut line, 9_000 * MS + GAP);
}

#[test]
fn whoever_holds_it_holds_it_without_keys_too() {
    let mut line = held(bounds());
    (0..3).for_each(|node| line.votes_from(node, 0, 500 * MS));
    assert_eq!(line.check(900 * MS), None);
    line.ends(A, 900 * MS);
    judged_at(&mut line, 900 * MS + GAP);
}

#[test]
fn nothing_is_judged_before_the_calm() {
    let mut line = Line::new(
        1,
        Bounds {
            quorum: 1,
            ..bounds()
        },
    );
    line.waits(B, false, 0);
    assert_eq!(line.check(5_000 * MS), None);
    line.calm(5_000 * MS);
    judged_at(&mut line, 5_000 * MS + GAP);
}

#[test]
fn what_was_in_vain_costs_a_reservation_and_a_poll() {
    let mut line = held(bounds());
    line.in_vain(None, 499 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + VAIN);
    let mut line = held(bounds());
    line.in_vain(None, 499 * MS);
    line.placed(B, NEAR - 1, 499 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + 200 * MS + POLL_NEAR);
    // It is an excuse until that waiter must have asked, whoever wins
    // meanwhile, and not after.
    let mut line = held(bounds());
    line.in_vain(None, 499 * MS);
    line.waits(C, false, 499 * MS);
    release(&mut line, A, 500 * MS);
    line.wins(B, 600 * MS);
    line.votes_from(0, 9_000 * MS, 600 * MS);
    line.votes_from(1, 9_000 * MS, 600 * MS);
    release(&mut line, B, 700 * MS);
    judged_at(&mut line, 700 * MS + GAP + VAIN);
    let mut line = held(bounds());
    line.in_vain(None, 499 * MS);
    (0..3).for_each(|node| line.votes_from(node, 9_000 * MS, 500 * MS));
    release(&mut line, A, 499 * MS + VAIN);
    judged_at(&mut line, 499 * MS + VAIN + GAP);
}

#[test]
fn who_hears_again_asks_at_once() {
    let (lost, other) = (Some(7), 8);
    let mut line = held(bounds());
    line.in_vain(lost, 501 * MS);
    release(&mut line, A, 500 * MS);
    line.hears(other, 520 * MS);
    line.hears(7, 530 * MS);
    judged_at(&mut line, 530 * MS + GAP);
    // Until then its message is an excuse like any other, and what was lost
    // besides goes on to be one.
    let mut line = held(bounds());
    line.in_vain(lost, 499 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + VAIN);
    let mut line = held(bounds());
    line.in_vain(lost, 499 * MS);
    line.in_vain(None, 499 * MS);
    line.hears(7, 499 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + VAIN);
}

#[test]
fn who_could_not_have_it_with_the_homes_vote_pauses() {
    let mut line = held(bounds());
    line.backs_off(400 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 400 * MS + BACK_OFF + GAP);
    // Nobody holds it, but for keys of the dead.
    let mut line = held(bounds());
    line.ends(A, 500 * MS);
    line.backs_off(999 * MS);
    judged_at(&mut line, 999 * MS + BACK_OFF + GAP);
    // It is to be had.
    let mut line = held(bounds());
    release(&mut line, A, 500 * MS);
    line.backs_off(501 * MS);
    judged_at(&mut line, 500 * MS + GAP);
}

#[test]
fn who_cannot_be_called_asks_all_the_time() {
    let mut line = held(bounds());
    line.leaves(B, 200 * MS);
    line.waits(C, true, 200 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + POLL_MUTE);
    // Whoever can be called does not wait for that, from when it is there.
    let mut line = held(bounds());
    line.leaves(B, 200 * MS);
    line.waits(C, true, 200 * MS);
    release(&mut line, A, 500 * MS);
    line.waits(B, false, 510 * MS);
    judged_at(&mut line, 510 * MS + GAP);
    let mut line = held(bounds());
    line.waits(C, true, 200 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP);
}

#[test]
fn who_vanished_is_an_excuse_while_nodes_take_it_for_alive() {
    let mut line = held(bounds());
    line.waits(C, false, 200 * MS);
    line.vanishes(B.0, 800 * MS, 400 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP + VAIN);
    let mut line = held(bounds());
    line.waits(C, false, 200 * MS);
    line.vanishes(B.0, 450 * MS, 400 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP);
    // A holder that vanished leaves its keys behind.
    let mut line = held(bounds());
    line.vanishes(A.0, 450 * MS, 400 * MS);
    judged_at(&mut line, 1_000 * MS + GAP);
}

#[test]
fn connections_that_broke_are_waited_for() {
    let mut line = held(bounds());
    line.breaks(560 * MS, 480 * MS);
    line.breaks(540 * MS, 500 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 560 * MS + GAP);
    let mut line = held(bounds());
    line.breaks(490 * MS, 480 * MS);
    release(&mut line, A, 500 * MS);
    judged_at(&mut line, 500 * MS + GAP);
}

#[test]
fn small_reservations_and_long_trips_have_bounds_of_their_own() {
    for (reservation, trip, gap) in [(MS, MS, GAP_LEAST), (MS, 10 * MS, 80 * MS)] {
        let mut line = held(Bounds {
            reservation,
            trip,
            ..bounds()
        });
        release(&mut line, A, 500 * MS);
        judged_at(&mut line, 500 * MS + gap);
    }
}

#[test]
fn a_lock_stands_still_whatever_those_have_that_come_to_nothing() {
    let troubled = Bounds {
        quorum: 3,
        ..bounds()
    };
    let healthy = Bounds {
        healthy: true,
        ..troubled
    };
    let still = |line: &mut Line, at: Time| {
        assert_eq!(line.check(at), None);
        let wrong = line.check(at + 1).expect("too long");
        assert!(wrong.starts_with("L4 nobody is inside"), "{wrong}");
    };
    let released = |bounds| {
        let mut line = held(bounds);
        line.ends(A, 500 * MS);
        // Somebody has the vote of one node, and does not get the others'.
        (0..2).for_each(|node| line.votes_from(node, 0, 500 * MS));
        line
    };
    still(&mut released(healthy), 500 * MS + GAP_LEAST);
    let far = Bounds {
        trip: 7 * MS,
        ..healthy
    };
    still(&mut released(far), 570 * MS);
    assert_eq!(released(troubled).check(999 * MS), None);
    // Who has the votes of a majority is on the way in, or died.
    let mut line = held(healthy);
    line.ends(A, 500 * MS);
    line.votes_from(0, 0, 500 * MS);
    assert_eq!(line.check(999 * MS), None);
    // A wake-up that came to nothing is told by the other bound.
    let mut line = released(healthy);
    line.in_vain(None, 501 * MS);
    assert_eq!(line.check(999 * MS), None);
    let mut line = released(healthy);
    line.wins(B, 510 * MS);
    assert_eq!(line.check(999 * MS), None);
}

#[test]
fn a_healthy_lock_does_not_stand_still_before_the_calm_either() {
    let healthy = Bounds {
        healthy: true,
        ..bounds()
    };
    let stands = |always: bool| {
        let mut line = Line::new(3, healthy);
        if always {
            line.is_healthy();
        }
        line.waits(B, false, 100 * MS);
        line
    };
    assert_eq!(stands(false).check(9_000 * MS), None);
    assert_eq!(stands(true).check(100 * MS + STILL_TRIPS * MS), None);
    let mut line = stands(true);
    let wrong = line
        .check(100 * MS + STILL_TRIPS * MS + 1)
        .expect("too long");
    assert!(wrong.starts_with("L4 nobody is inside"), "{wrong}");
    // Who goes may have been called: the turn is passed on from then.
    let mut line = stands(true);
    line.waits(C, false, 103 * MS);
    line.leaves(B, 105 * MS);
    assert_eq!(line.check(105 * MS + STILL_TRIPS * MS), None);
    assert!(line.check(105 * MS + STILL_TRIPS * MS + 1).is_some());
}

#[test]
fn nobody_waits_for_ever() {
    let mut line = held(bounds());
    assert_eq!(line.check(20_100 * MS), None);
    let wrong = line.check(20_100 * MS + 1).expect("too long");
    assert!(wrong.starts_with("L4 c1's worker 0 waits"), "{wrong}");
    // Others may come and go meanwhile.
    let mut line = held(bounds());
    for turn in 1..200 {
        release(&mut line, A, turn * 200 * MS);
        line.wins(A, turn * 200 * MS + MS);
    }
    assert!(line.check(40_000 * MS).is_some());
}
