//! A future that is not polled for longer than its lease lasts: no lease is
//! returned that is lost already.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, blocking};
use quorlock_tests::Stage;

const TTL: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(10);

type Acquire<'a> = Pin<Box<dyn Future<Output = Result<Lease, Error>> + 'a>>;

/// An acquire under way: polled once, and not ready.
fn begun(lock: &Lock) -> Acquire<'_> {
    loop {
        let mut acquire = Box::pin(lock.acquire());
        let mut cx = Context::from_waker(Waker::noop());
        // A node may be quicker than a busy test.
        if acquire.as_mut().poll(&mut cx).is_pending() {
            return acquire;
        }
    }
}

#[test]
fn a_lease_that_ended_before_it_was_looked_at_is_not_returned() {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes).unwrap();
    let lock = client.lock("k").ttl(TTL).renew(false);
    // What asks once waits for the first connection before it asks.
    assert!(!blocking::wait(lock.is_locked()).unwrap());
    for wait in [Duration::ZERO, LONG] {
        let lock = lock.clone().wait(wait);
        let acquire = begun(&lock);
        // The node votes, and the executor is busy until the vote has ended.
        stage.tell("expect-votes lock:{k} 1 5000");
        stage.tell("await-free lock:{k} 5000");
        let outcome = blocking::wait(acquire);
        if wait.is_zero() {
            let error = outcome.expect_err("no time for another try");
            assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            assert!(error.to_string().contains("expired"), "{error}");
        } else {
            let lease = outcome.expect("another try");
            assert!(lease.is_held());
            assert!(blocking::wait(lease.release()).unwrap());
        }
    }
    assert_eq!(client.stats().lost, 2);
}

#[test]
fn nor_is_one_that_was_passed_on_and_ended() {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes).unwrap();
    let lock = client
        .lock("k")
        .ttl(2 * TTL)
        .max_hold(2 * TTL)
        .fencing(false);
    for wait in [Duration::from_millis(100), LONG] {
        let lock = lock.clone().wait(wait);
        let first = blocking::wait(lock.clone().wait(LONG).acquire()).unwrap();
        let acquire = begun(&lock);
        assert!(blocking::wait(first.release()).unwrap());
        stage.tell("await-free lock:{k} 5000");
        let outcome = blocking::wait(acquire);
        if wait == LONG {
            let lease = outcome.expect("another try");
            assert!(lease.is_held());
            assert!(blocking::wait(lease.release()).unwrap());
        } else {
            let error = outcome.expect_err("no time for another try");
            assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            assert!(error.to_string().contains("max_hold"), "{error}");
        }
    }
    assert_eq!(client.stats().passed_on, 2);
}

#[test]
fn what_is_lost_on_its_way_to_the_caller_is_given_back() {
    let client = Client::new(["memory://delivered"]).unwrap();
    let lock = client.lock("k").ttl(TTL).renew(false);
    let lease = blocking::wait(lock.acquire()).unwrap();
    let lease = lease.delivered().expect("it is held");
    blocking::wait(lease.lost());
    let error = lease.delivered().expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::LockLost);
    let next = blocking::wait(lock.acquire()).unwrap();
    assert!(next.delivered().is_ok());
}
