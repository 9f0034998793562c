//! What plain commands may do to each other: a value that is no vote and would become one, a
//! crossing of three, and an operator beside a holder.

use std::time::Duration;

use quorlock::sim::{LeaseOptions, LockParams, LossReason};
use quorlock_sim::world::{FaultEvent, MS, Time, Ways};

use crate::stage::{QUARANTINE, Stage, TTL, terms, with_and_without};

/// A node forgets everything. The value that is stored there next was not checked by
/// anybody; asked for again by script, once the node has its new record and is in
/// quarantine, it is there, and is no vote: that which the node gave before counts on.
fn a_void_vote_is_confirmed_in_quarantine() -> Result<(), String> {
    let stage = Stage::new(1);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    stage.world.plan(stage.world.time(), FaultEvent::Flush(0));
    stage.pass(MS);
    let second = stage.tries(1);
    for _ in 0..100 {
        stage.pass(MS);
        if second.take().is_some() && first.is_held() {
            stage.world.end();
            return Err("two hold the lock".into());
        }
    }
    assert!(first.is_held(), "it was held all the time");
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn in_quarantine_no_value_is_taken_for_a_vote() {
    with_and_without(
        "own-confirmed-in-quarantine",
        a_void_vote_is_confirmed_in_quarantine,
    );
}

/// A node forgot everything, and its quarantine is over. A client that has not noticed
/// finds its vote void, for the record is another, and asks again by script: now it is a
/// vote. A release of the void one would come behind that, and delete it.
fn a_void_vote_is_released() -> Result<(), String> {
    let stage = Stage::new(1);
    stage.world.plan(stage.world.time(), FaultEvent::Flush(0));
    stage.pass(MS);
    // Has the node write its new record.
    let witness = stage.tries(0);
    stage.pass(QUARANTINE);
    assert!(witness.take().is_none(), "in quarantine");
    let first = stage.tries(1);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let second = stage.tries(2);
    stage.pass(20 * MS);
    assert!(first.is_held(), "it was held all the time");
    if second.take().is_some() {
        stage.world.end();
        return Err("two hold the lock".into());
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn a_void_vote_is_not_released_while_its_token_lives() {
    with_and_without("void-is-released", a_void_vote_is_released);
}

/// Who holds a lock that another waits for is gone, and so is the other: the key stays, and
/// means nothing. A try is refused natively, and asks by script whether that is so.
fn a_crowd_is_gone() -> Result<(), String> {
    let stage = Stage::new(1);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    first.take().expect("free");
    let second = stage.waits(1, Duration::from_millis(100));
    stage.pass(50 * MS);
    let crash = FaultEvent::CrashClient(0);
    stage.world.plan(stage.world.time(), crash);
    stage.pass(TTL.as_nanos() as Time + 200 * MS);
    assert!(second.take().is_none(), "held as long as it waited");
    let third = stage.tries(2);
    stage.pass(20 * MS);
    if third.take().is_none() {
        stage.world.end();
        return Err("a free lock is not to be had".into());
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn a_try_gets_what_a_crowd_has_left() {
    with_and_without("taken-is-held", a_crowd_is_gone);
}

/// The home has refused plain commands, for somebody waits there, and its connection breaks
/// before it says more to the script. The others are free: whoever is to have the lock next
/// does not hear that it is called. Its refusal stands.
fn a_home_refuses_and_is_gone() -> Result<(), String> {
    let stage = Stage::new(3);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let second = stage.waits(1, Duration::from_secs(10));
    stage.pass(50 * MS);
    for node in 0..3 {
        stage.cut(1, node, 900 * MS, false);
    }
    first.release();
    stage.pass(20 * MS);
    // Home is node 2. By then the script is on its way there.
    let reset = FaultEvent::Reset(2, 2);
    stage.world.plan(stage.world.time() + MS / 4, reset);
    let third = stage.tries(2);
    stage.pass(700 * MS);
    let passed = third.take().is_some();
    stage.pass(1_000 * MS);
    let called = second.take().is_some();
    match (passed, called, stage.end()) {
        (false, true, None) => Ok(()),
        other => Err(format!("passed, called, wrong: {other:?}")),
    }
}

#[test]
fn what_the_home_has_refused_stays_refused() {
    with_and_without("refusal-is-forgotten", a_home_refuses_and_is_gone);
}

/// The home of a lock answers one client 60 ms late, which is more than a tenth of the time
/// that a node has. It is waited for once; then the others' votes are enough, until it
/// answers sooner. It is waited for again then.
fn a_home_is_late() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2.
    let (base, late) = (2 * MS, 60 * MS);
    let mut took = Vec::new();
    for slow in [true, true, true, false, true] {
        if slow {
            stage.cut(0, 2, late, false);
        }
        let (begun, attempt) = (stage.world.time(), stage.tries(0));
        let hold = loop {
            stage.pass(base);
            if let Some(hold) = attempt.take() {
                break hold;
            }
            assert!(stage.world.time() < begun + 200 * MS, "it is free");
        };
        took.push(stage.world.time() - begun > 40 * MS);
        stage.pass(2 * late);
        hold.release();
        stage.pass(2 * late);
    }
    let wrong = stage.end();
    if wrong.is_none() && took == [true, false, false, false, true] {
        Ok(())
    } else {
        Err(format!("waited {took:?}, wrong: {wrong:?}"))
    }
}

#[test]
fn a_home_that_is_late_is_waited_for_once() {
    with_and_without("late-home-is-waited-for", a_home_is_late);
}

/// Three attempts cross. The third proposes the largest fence `c` to nodes 0 and 1, and
/// is given up. The first comes to nodes 2 and 0, finds `c` on the latter, and wins with
/// `c + 1`. The second comes to nodes 2 and 1 once that is over, finds `c` on node 1, and
/// writes `c + 1` back, which the first has left on node 2.
fn three_cross() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2. What they propose is drawn now.
    stage.cut(0, 2, 100 * MS, false);
    stage.cut(0, 0, 100 * MS, false);
    stage.cut(0, 1, 800 * MS, true);
    stage.cut(1, 2, 205 * MS, false);
    stage.cut(1, 1, 200 * MS, false);
    stage.cut(1, 0, 800 * MS, true);
    let (first, second) = (stage.tries(0), stage.tries(1));
    stage.pass(5 * MS);
    stage.cut(2, 2, 20 * MS, true);
    let third = stage.tries(2);
    stage.pass(70 * MS);
    third.take().expect("without its home").release();
    stage.pass(40 * MS);
    let first = first.take().expect("its home and node 0");
    let fence = first.fence();
    first.release();
    stage.pass(300 * MS);
    if let Some(wrong) = stage.world.violation() {
        stage.world.end();
        return Err(wrong);
    }
    let second = second.take().expect("its home and node 1");
    let other = second.fence();
    stage.world.end();
    if fence < other {
        Ok(())
    } else {
        Err(format!("the fence {other} comes after {fence}"))
    }
}

#[test]
fn a_fence_is_written_back_beyond_all_that_is_stored() {
    with_and_without("write-back-not-strict", three_cross);
}

/// A lock is taken away by force, and nobody waits for it: its key is gone. The renewal of
/// who held it comes next, and would store it anew.
fn a_holder_is_forced_out() -> Result<(), String> {
    let stage = Stage::new(3);
    let renewed = LockParams {
        asked: LeaseOptions {
            renew: true,
            ..LeaseOptions::default()
        },
        ..terms()
    };
    let first = stage.wants(0, Duration::ZERO, renewed);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let freed = stage.forces(1);
    stage.pass(20 * MS);
    assert_eq!(*freed.lock().unwrap(), Some(3));
    assert!(first.is_held(), "it cannot know yet");
    // Its renewals come, and its end is far yet.
    while first.is_held() && stage.world.time() < 1_800 * MS {
        first.tend();
        stage.pass(10 * MS);
    }
    let told = first.loss(0);
    let second = stage.tries(2);
    stage.pass(20 * MS);
    let free = second.take().is_some();
    match (told, free, stage.end()) {
        (Some(LossReason::Forced), true, None) => Ok(()),
        other => Err(format!("told, free, wrong: {other:?}")),
    }
}

#[test]
fn who_was_forced_out_learns_that_it_was() {
    with_and_without("ban-is-a-refusal", a_holder_is_forced_out);
}

/// A lock is taken away whose holder has two nodes' votes. One of them is not told of that; to the
/// third the holder's plain command is under way, and comes when it has been told: two again.
fn a_plain_command_comes_after_the_force() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2.
    stage.cut(0, 0, 200 * MS, false);
    let first = stage.tries(0);
    stage.pass(100 * MS);
    let first = first.take().expect("two nodes answer");
    let freed = stage.forces(1);
    // Between the look and the release.
    let cut = FaultEvent::Cut {
        client: 1,
        node: 1,
        long: 600 * MS,
        ways: Ways::Requests,
        lossy: true,
    };
    stage.world.plan(stage.world.time() + MS / 5, cut);
    while freed.lock().unwrap().is_none() {
        stage.pass(MS);
    }
    assert!(first.is_held(), "it cannot know yet");
    // Another finds what it has left.
    let left = stage.forces(2);
    while left.lock().unwrap().is_none() {
        stage.pass(MS);
    }
    let left = left.lock().unwrap().take();
    match (left, stage.end()) {
        (Some(0), None) => Ok(()),
        other => Err(format!("left, wrong: {other:?}")),
    }
}

#[test]
fn a_lock_is_taken_away_when_nothing_is_under_way_that_brings_it_back() {
    with_and_without("forces-once", a_plain_command_comes_after_the_force);
}
