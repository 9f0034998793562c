//! Leases and locks at their edges: passed on, shared, several at once, kept, over as they are handed
//! over.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use quorlock::{ErrorKind, Owner};
use quorlock_sim::contender::NAMES;
use quorlock_sim::mutants::choose;
use quorlock_sim::world::MS;

use crate::stage::{Stage, TTL, time_of, with_and_without};

/// A lease of which more than a fifth of `max_hold` is used goes to nobody of its client: the next
/// one has all of its own.
#[test]
fn a_lease_that_has_used_its_max_hold_is_not_passed_on() {
    assert!(choose(""));
    for (held, passes) in [(300, true), (500, false)] {
        let stage = Stage::new(3);
        let door = stage.door(0);
        let lock = door
            .lock(NAMES[0])
            .ttl(TTL)
            .max_hold(TTL)
            .fencing(false)
            .wait(Duration::from_secs(9));
        let (first, next) = (lock.clone(), lock);
        let first = stage.does(0, async move { first.acquire().await.expect("free") });
        stage.pass(20 * MS);
        let first = first.lock().unwrap().take().expect("all answer at once");
        let next = stage.does(0, async move { next.acquire().await.expect("in time") });
        stage.pass(held * MS);
        let token = first.token().to_owned();
        stage.does(0, async move { first.release().await });
        stage.pass(20 * MS);
        let next = next.lock().unwrap().take().expect("it is called");
        assert_eq!(next.token() == token, passes, "after {held} ms");
        assert!(next.remaining() > TTL / 2);
        stage.does(0, async move { next.release().await });
        stage.pass(20 * MS);
        assert_eq!(stage.end(), None);
    }
}

/// Who waits in the holder's own client to share the lock does so at once when the holder lets
/// others in.
#[test]
fn a_holder_that_shares_its_lease_calls_those_of_its_client() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).wait(Duration::from_secs(9));
    let (alone, writer) = (lock.clone(), lock.clone());
    let holder = stage.does(0, async move { alone.acquire().await.expect("free") });
    stage.pass(20 * MS);
    let holder = holder.lock().unwrap().take().expect("all answer at once");
    let reader = || {
        let lock = lock.clone().shared(true);
        stage.does(0, async move { lock.acquire().await.expect("in time") })
    };
    let readers = [reader(), reader()];
    let writer = stage.does(0, async move { writer.acquire().await.expect("in time") });
    stage.pass(100 * MS);
    let shares = stage.does(0, async move {
        holder.downgrade().await.expect("held");
        holder
    });
    stage.pass(20 * MS);
    let holder = shares.lock().unwrap().take().expect("all answer at once");
    let inside = readers.map(|reader| reader.lock().unwrap().take().expect("it is called"));
    assert!(holder.is_held() && inside.iter().all(|lease| lease.is_held()));
    assert!(writer.lock().unwrap().is_none());
    stage.does(0, async move { drop((holder, inside)) });
    stage.pass(20 * MS);
    assert!(
        writer
            .lock()
            .unwrap()
            .take()
            .expect("it is called")
            .is_held()
    );
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// The `wait` of several locks is for all of them together: what the first takes of it the second
/// has not.
#[test]
fn several_locks_are_waited_for_as_long_as_one() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let other = stage.door(1);
    let holds = stage.does(1, async move {
        let first = other.lock(NAMES[0]).ttl(TTL).acquire().await;
        let second = other.lock(NAMES[1]).ttl(TTL).acquire().await;
        (first.expect("free"), second.expect("free"))
    });
    stage.pass(20 * MS);
    let (first, second) = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let all = door.lock_all(&NAMES[..2]).ttl(TTL);
    let waits = all.wait(Duration::from_millis(1_000));
    let waits = stage.does(0, async move { waits.acquire().await.map(drop) });
    stage.pass(600 * MS);
    assert!(waits.lock().unwrap().is_none());
    stage.does(1, async move { first.release().await });
    let (took, waited) = time_of(&stage, &waits).expect("it ends");
    assert_eq!(waited.expect_err("one is held").kind(), ErrorKind::Timeout);
    assert!(
        (400 * MS..402 * MS).contains(&took),
        "it took {took} ns more"
    );
    assert!(second.is_held());
    stage.does(1, async move { second.release().await });
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// Of several locks one that was won before a wait, and would be over too soon behind it, is asked
/// for anew.
#[test]
fn several_locks_are_given_with_enough_left_of_each() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let other = stage.door(1);
    let holds = stage.does(1, async move {
        let lock = other.lock(NAMES[1]).ttl(TTL);
        lock.acquire().await.expect("free")
    });
    stage.pass(20 * MS);
    let holds = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let all = door
        .lock_all(&NAMES[..2])
        .ttl(TTL)
        .wait(Duration::from_secs(9));
    let waits = stage.does(0, async move { all.acquire().await.expect("in time") });
    // A tenth of the ttl is too little, and nobody renews it here.
    stage.pass(1_850 * MS);
    assert!(waits.lock().unwrap().is_none());
    stage.does(1, async move { holds.release().await });
    stage.pass(20 * MS);
    let both = waits.lock().unwrap().take().expect("both are free");
    assert!(both.remaining() > TTL / 2, "{:?}", both.remaining());
    stage.does(0, async move { both.release().await });
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// Of several locks one that is over too soon behind a wait for another is asked for while that is
/// held, and the next in line for it waits on.
fn the_first_of_two_is_over_too_soon() -> Result<(), String> {
    let stage = Stage::new(3);
    let (other, third) = (stage.door(1), stage.door(2));
    let holds = stage.does(1, async move {
        let lock = other.lock(NAMES[1]).ttl(TTL);
        lock.acquire().await.expect("free")
    });
    stage.pass(20 * MS);
    let holds = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let long = Duration::from_secs(9);
    let all = door.lock_all(&NAMES[..2]).ttl(TTL).wait(long);
    let waits = stage.does(0, async move { all.acquire().await.expect("in time") });
    stage.pass(20 * MS);
    let behind = third.lock(NAMES[1]).ttl(TTL).wait(long);
    let behind = stage.does(2, async move { behind.acquire().await.expect("in time") });
    stage.pass(1_830 * MS);
    stage.does(1, async move { holds.release().await });
    stage.pass(20 * MS);
    let both = waits.lock().unwrap().take();
    let both = both.ok_or("the one that was waited for was given back")?;
    assert!(behind.lock().unwrap().is_none());
    stage.does(0, async move { both.release().await });
    stage.pass(20 * MS);
    let behind = behind.lock().unwrap().take().expect("it is free");
    stage.does(2, async move { behind.release().await });
    stage.pass(20 * MS);
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn several_locks_are_not_given_back_for_what_may_be_had_at_once() {
    with_and_without("asks-for-the-lost-later", the_first_of_two_is_over_too_soon);
}

/// For how long a lock stays taken counts from when it was won, however often its owner enters it
/// again; and not at all once others were let in.
#[test]
fn what_is_kept_is_kept_from_the_first_and_not_beside_others() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).ttl(TTL).owner(Owner::named("me"));
    let lock = lock.keep(Duration::from_secs(1));
    let enters = |lock: quorlock::Lock| {
        let enters = stage.does(0, async move { lock.acquire().await.expect("it is ours") });
        stage.pass(20 * MS);
        let lease = enters.lock().unwrap().take();
        lease.expect("all answer at once")
    };
    let first = enters(lock.clone());
    stage.pass(580 * MS);
    let again = enters(lock.clone());
    stage.does(
        0,
        async move { (again.release().await, first.release().await) },
    );
    stage.pass(280 * MS);
    assert!(stage.tries_in_vain(1), "it is kept for a second");
    stage.pass(300 * MS);
    assert!(!stage.tries_in_vain(1), "and no longer");
    let shares = enters(lock);
    stage.does(0, async move {
        shares.downgrade().await.expect("it is held");
        shares.release().await
    });
    stage.pass(40 * MS);
    assert!(!stage.tries_in_vain(1), "a reader keeps nothing");
    assert_eq!(stage.end(), None);
}

/// What is passed on is kept for as long as what was won from the nodes.
#[test]
fn what_is_passed_on_is_kept_from_then_on() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).ttl(TTL).fencing(false);
    let lock = lock
        .keep(Duration::from_millis(300))
        .wait(Duration::from_secs(9));
    let (first, next) = (lock.clone(), lock);
    let first = stage.does(0, async move { first.acquire().await.expect("free") });
    stage.pass(20 * MS);
    let first = first.lock().unwrap().take().expect("all answer at once");
    let next = stage.does(0, async move { next.acquire().await.expect("in time") });
    stage.pass(400 * MS);
    let token = first.token().to_owned();
    stage.does(0, async move { first.release().await });
    stage.pass(20 * MS);
    let next = next.lock().unwrap().take().expect("it is called");
    assert_eq!(next.token(), token);
    stage.does(0, async move { next.release().await });
    stage.pass(100 * MS);
    assert!(stage.tries_in_vain(1), "it is kept");
    stage.pass(300 * MS);
    assert!(!stage.tries_in_vain(1), "and no longer");
    assert_eq!(stage.end(), None);
}

/// A client that stands still from when the nodes have given it the lock until the lease is over
/// asks once more, in what is left of its `wait`.
fn a_lease_is_over_before_it_is_handed_over() -> Result<(), String> {
    let frozen = 2_200;
    // How long it waits; whether another client has the lock by then; what comes of it, how long
    // after the client goes on.
    for (wait, taken, ends, after) in [
        (9_000, false, None, 0),
        (3_000, true, Some(ErrorKind::Timeout), 800),
        (1_000, false, Some(ErrorKind::LockLost), 0),
    ] {
        let stage = Stage::new(3);
        let (clock, door) = (stage.world.clock(0), stage.door(0));
        let on = clock.now() + Duration::from_millis(frozen);
        let lock = door.lock(NAMES[0]).ttl(TTL);
        let lock = lock.wait(Duration::from_millis(wait));
        let wins = stage.does(0, async move {
            let mut wins = Box::pin(lock.acquire());
            poll_fn(|cx| Poll::Ready(wins.as_mut().poll(cx).is_pending())).await;
            clock.sleep_until(on).await;
            wins.await
        });
        stage.pass(1_000 * MS);
        assert!(stage.tries_in_vain(1), "the nodes have given it");
        stage.pass(1_060 * MS);
        let other = taken.then(|| stage.tries(1));
        stage.pass(frozen * MS - 2_100 * MS);
        let other = other.map(|other| other.take().expect("it is over"));
        let (took, won) = time_of(&stage, &wins).expect("it ends");
        let kind = won.as_ref().err().map(|error| error.kind());
        let held = won.as_ref().is_ok_and(|lease| lease.is_held());
        let in_time = (after * MS..(after + 10) * MS).contains(&took);
        if kind != ends || held != ends.is_none() || !in_time {
            return Err(format!("wait of {wait} ms: {kind:?} after {took} ns"));
        }
        stage.does(0, async move { drop(won) });
        other.iter().for_each(|hold| drop(hold.release()));
        stage.pass(20 * MS);
        if let Some(violation) = stage.end() {
            return Err(violation);
        }
    }
    Ok(())
}

#[test]
fn what_is_lost_before_it_is_handed_over_is_asked_for_in_what_is_left_of_the_wait() {
    for bug in [
        "lost-is-handed-over",
        "lost-waits-anew",
        "lost-is-asked-for-behind-its-wait",
    ] {
        with_and_without(bug, a_lease_is_over_before_it_is_handed_over);
    }
}
