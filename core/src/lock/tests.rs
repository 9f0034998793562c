use std::thread;

use super::*;
use crate::{Client, Layout, blocking};

fn kind(outcome: Result<Lease, Error>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

#[test]
fn a_thread_that_may_not_enter_again_would_wait_for_itself() {
    let client = Client::new(["memory://own-thread"]).unwrap();
    let owned = || client.lock("a").owned_by_threads(true).reentrant(false);
    let tried = |lock: Lock| blocking::wait(lock.wait(Duration::from_millis(20)).win());
    let held = blocking::wait(owned().of_this_thread().acquire()).unwrap();
    // It would wait for a reader of its own, too, behind a writer that waits for that one.
    for lock in [owned(), owned().shared(true), owned().wait(Duration::ZERO)] {
        let outcome = tried(lock.of_this_thread());
        assert_eq!(kind(outcome), Some(ErrorKind::WouldDeadlock));
    }
    // A lease of another thread, and one without an owner, may be given back meanwhile.
    let other = thread::scope(|scope| scope.spawn(|| tried(owned().of_this_thread())).join());
    assert_eq!(kind(other.unwrap()), Some(ErrorKind::Timeout));
    let by_hand = client.lock("a").of_this_thread();
    assert_eq!(kind(tried(by_hand.clone())), Some(ErrorKind::Timeout));
    // One that may enter again does, and one that may not is refused beside it.
    let entered = tried(owned().reentrant(true).of_this_thread()).unwrap();
    drop(held);
    assert_eq!(
        kind(tried(owned().of_this_thread())),
        Some(ErrorKind::WouldDeadlock)
    );
    assert!(entered.is_held());
    drop(entered);
    // Slots are given back by anybody.
    let slots = || {
        client
            .semaphore("s", 2)
            .owned_by_threads(true)
            .reentrant(false)
    };
    let both = [
        tried(slots().of_this_thread()),
        tried(slots().of_this_thread()),
    ];
    assert!(both.iter().all(Result::is_ok));
    let held = blocking::wait(by_hand.acquire()).unwrap();
    assert_eq!(
        kind(tried(owned().of_this_thread())),
        Some(ErrorKind::Timeout)
    );
    drop(held);
}

#[test]
fn raw_and_redisson_of_one_name_are_two_locks() {
    let client = Client::new(["memory://two-layouts"]).unwrap();
    let lock = || {
        let lock = client.lock("orders").wait(Duration::ZERO);
        lock.owner(Owner::current_thread())
    };
    let (raw, redisson) = (lock().raw(true), lock().layout(Layout::Redisson));
    for (one, other) in [(&raw, &redisson), (&redisson, &raw)] {
        let held = blocking::wait(one.acquire()).unwrap();
        // Its owner is not within the other one, whose key they both have.
        let refused = blocking::wait(other.acquire());
        assert_eq!(kind(refused), Some(ErrorKind::Misconfigured));
        let unowned = other.clone().owner(None::<Owner>);
        let refused = blocking::wait(unowned.wait(Duration::from_secs(9)).acquire());
        assert_eq!(kind(refused), Some(ErrorKind::Misconfigured));
        assert!(blocking::wait(held.release()).unwrap());
    }
}

#[test]
fn a_lease_goes_on_in_its_namespace_alone() {
    let client = |namespace: &str| {
        let client = Client::builder().nodes(["memory://exported-namespace"]);
        client.namespace(namespace).build().unwrap()
    };
    for raw in [true, false] {
        let lock = client("a:").lock("jobs").raw(raw);
        let text = blocking::wait(blocking::wait(lock.acquire()).unwrap().export()).unwrap();
        let refused = blocking::wait(client("b:").adopt(&text)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("another namespace"), "{refused}");
        let adopted = blocking::wait(client("a:").adopt(&text)).unwrap();
        assert!(blocking::wait(adopted.release()).unwrap());
    }
}

#[test]
fn what_the_owner_has_lost_is_to_be_released_first() {
    let client = Client::new(["memory://lost-before"]).unwrap();
    for reentrant in [true, false] {
        let lock = client
            .lock("lost-before")
            .owned_by_threads(true)
            .reentrant(reentrant);
        let held = blocking::wait(lock.clone().of_this_thread().acquire()).unwrap();
        crate::testing::lose("lost-before", LossReason::Refused);
        let error = blocking::wait(lock.clone().of_this_thread().acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockLost);
        let told = "is lost (refused), and it has not been released";
        assert!(error.message().contains(told), "{error}");
        drop(held);
        drop(blocking::wait(lock.of_this_thread().acquire()).unwrap());
    }
}

#[test]
fn what_is_left_already_is_ensured_whatever_the_ttl() {
    let client = Client::new(["memory://ensured"]).unwrap();
    let second = Duration::from_secs(1);
    let lease = blocking::wait(client.lock("a").ttl(2 * second).acquire()).unwrap();
    let refused = blocking::wait(lease.ensure(20 * second)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    blocking::wait(lease.extend(Some(50 * second))).unwrap();
    blocking::wait(lease.ensure(20 * second)).unwrap();
}

#[test]
fn a_job_is_not_kept_into_its_next_run() {
    let client = Client::new(["memory://keeps"]).unwrap();
    let second = Duration::from_secs(1);
    let job = || client.lock("job").once(second);
    assert!(job().check().is_ok() && job().keep(second / 2).check().is_ok());
    for keep in [second, 2 * second] {
        let refused = job().keep(keep).check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("left out"), "{refused}");
    }
    assert!(client.lock("job").keep(2 * second).check().is_ok());
}

#[test]
fn what_is_acquired_by_hand_outlives_its_thread() {
    let client = Client::new(["memory://by-hand"]).unwrap();
    let lock = client.lock("outlives").ttl(Duration::from_millis(600));
    let acquired = || blocking::wait(lock.clone().of_this_thread().acquire()).unwrap();
    let lease = thread::scope(|scope| scope.spawn(acquired).join()).unwrap();
    // A second one may have been under way when the thread ended.
    let begun = client.stats().renewals + 2;
    while client.stats().renewals < begun && lease.is_held() {
        thread::yield_now();
    }
    assert!(lease.is_held(), "{:?}", lease.loss());
}
