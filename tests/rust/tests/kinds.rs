//! Held by another, or nodes that do not answer: which of the two is said where
//! some nodes are dead, and where nobody has had time to hear of all.

use std::time::Duration;

use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::Stage;

/// What an acquire fails with, and its text.
fn failure(client: &Client, wait: Duration) -> (ErrorKind, String) {
    let outcome = blocking::wait(client.lock("k").wait(wait).acquire());
    let error = outcome.expect_err("somebody holds it");
    (error.kind(), error.to_string())
}

#[test]
fn a_try_beside_a_dead_minority_says_that_the_lock_is_held() {
    let stage = Stage::new(3);
    let holder = Client::new(&stage.nodes).unwrap();
    let rival = Client::new(&stage.nodes).unwrap();
    stage.tell("kill 2");
    let lease = blocking::wait(holder.lock("k").acquire()).unwrap();
    for attempt in 0..50 {
        let new = Client::new(&stage.nodes).unwrap();
        for client in [&rival, &new] {
            let (kind, text) = failure(client, Duration::ZERO);
            assert_eq!(kind, ErrorKind::Contended, "try {attempt}: {text}");
        }
        blocking::wait(new.close());
    }
    assert!(lease.is_held());
    blocking::wait(lease.release()).unwrap();
}

#[test]
fn a_short_wait_beside_a_holder_is_a_timeout_for_whoever_comes_new() {
    let stage = Stage::new(3);
    let holder = Client::new(&stage.nodes).unwrap();
    let lease = blocking::wait(holder.lock("k").acquire()).unwrap();
    let come = |from: u64| {
        for attempt in from..from + 25 {
            let wait = Duration::from_millis(50 + attempt % 6 * 50);
            let rival = Client::new(&stage.nodes).unwrap();
            let (kind, text) = failure(&rival, wait);
            assert_eq!(kind, ErrorKind::Timeout, "client {attempt}: {text}");
            blocking::wait(rival.close());
        }
    };
    std::thread::scope(|scope| {
        for from in [0, 25, 50, 75] {
            scope.spawn(move || come(from));
        }
    });
    assert!(lease.is_held());
    blocking::wait(lease.release()).unwrap();
}

#[test]
fn one_refusal_beside_a_dead_majority_says_that_nodes_do_not_answer() {
    let stage = Stage::new(3);
    stage.tell("redis all SET lock:{k} other");
    stage.tell("kill 2,3");
    let known = Client::new(&stage.nodes).unwrap();
    for wait in [0, 0, 100, 600, 0, 100] {
        let wait = Duration::from_millis(wait);
        let new = Client::new(&stage.nodes).unwrap();
        for client in [&known, &new] {
            let (kind, text) = failure(client, wait);
            assert_eq!(kind, ErrorKind::QuorumUnavailable, "{wait:?}: {text}");
        }
        blocking::wait(new.close());
    }
}
