//! The API as a program of somebody else sees it: what is not there, re-entry that
//! is off, and what is printed.

use std::time::Duration;

use quorlock::{Client, ErrorKind, LossReason, Owner, blocking};

#[test]
fn without_fences_there_is_none() {
    let client = Client::new(["memory://unfenced"]).unwrap();
    for fencing in [true, false] {
        let lock = client.lock("a").fencing(fencing);
        let lease = blocking::wait(lock.acquire()).unwrap();
        assert_eq!(lease.fence().is_some(), fencing, "{lease:?}");
    }
}

/// Kinds and reasons may be added: their lists have no length that a program could
/// rely upon.
#[test]
fn lists_are_slices() {
    let kinds: &[ErrorKind] = ErrorKind::ALL;
    let reasons: &[LossReason] = LossReason::ALL;
    assert!(!kinds.is_empty() && !reasons.is_empty());
}

#[test]
fn what_is_acquired_belongs_to_nobody() {
    let client = Client::new(["memory://belongs-to-nobody"]).unwrap();
    let lock = client.lock("a");
    let held = blocking::wait(lock.acquire()).unwrap();
    assert!(blocking::wait(lock.try_acquire()).unwrap().is_none());
    let error = blocking::wait(lock.release()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotOwner);
    assert!(error.message().ends_with("release its lease"), "{error}");
    // Any thread may release the lease.
    let released = std::thread::spawn(move || blocking::wait(held.release()));
    assert!(released.join().unwrap().unwrap());
    drop(
        blocking::wait(lock.try_acquire())
            .unwrap()
            .expect("it is free"),
    );
}

#[test]
fn an_owner_enters_again_unless_that_is_off() {
    let client = Client::builder().nodes(["memory://reentrant"]);
    let client = client.reentrant(false).build().unwrap();
    let lock = client.lock("a").owner(Owner::named("me"));
    let held = blocking::wait(lock.acquire()).unwrap();
    let again = |lock: &quorlock::Lock| blocking::wait(lock.try_acquire()).unwrap();
    assert!(again(&lock).is_none());
    let brief = lock.clone().wait(Duration::from_millis(50));
    let error = blocking::wait(brief.acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    // The lock's own word goes first.
    let entered = again(&lock.clone().reentrant(true)).expect("the same lease");
    assert_eq!(entered.token(), held.token());
    assert!(blocking::wait(entered.release()).unwrap());
    // It is released by its owner all the same.
    assert!(blocking::wait(lock.release()).unwrap());
    drop(again(&lock).expect("it is free"));
    drop(held);
}

#[test]
fn a_lock_that_others_hold_is_left_out() {
    let client = Client::new(["memory://left-out"]).unwrap();
    let lock = client.lock("a");
    let tried = |wait: Option<Duration>| blocking::wait(lock.try_acquire_for(wait)).unwrap();
    let held = blocking::wait(lock.acquire()).unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        assert!(tried(Some(wait)).is_none());
    }
    let waits = std::thread::spawn({
        let lock = lock.clone();
        move || blocking::wait(lock.try_acquire_for(Duration::from_secs(20)))
    });
    drop(held);
    drop(waits.join().unwrap().unwrap().expect("it comes free"));
    drop(tried(None).expect("it is free"));
    let wrong = blocking::wait(client.lock("").try_acquire_for(None)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn what_is_printed_can_be_read_and_holds_no_secret() {
    let node = "redis://u:hunter2@127.0.0.1:1";
    let builder = Client::builder().nodes([node]).key("hunter2");
    assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
    let client = Client::new([node]).unwrap();
    let lock = client.lock("orders:42").ttl(Duration::from_secs(5));
    let shown = format!("{lock:?}");
    assert!(shown.contains("name: `orders:42`, ttl: 5s"), "{shown}");
    assert!(!shown.contains("hunter2") && shown.len() < 200, "{shown}");
}
