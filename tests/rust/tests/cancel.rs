//! Acquires that are given up at random instants leave no key on real servers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use quorlock::{Client, ErrorKind};
use quorlock_tests::{Stage, monotonic};

/// Drops `future` after this many turns of the runtime. True if it ended before.
///
/// Turns and not time: an acquire takes a small part of a timer's millisecond,
/// and few of them would be given up where it is fast.
async fn impatient<F: Future>(future: F, turns: u64) -> bool {
    let mut future = pin!(future);
    for _ in 0..turns {
        if poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

fn random(below: u64) -> u64 {
    (monotonic().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % below
}

#[tokio::test]
async fn given_up_at_random_instants_nothing_is_left() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).unwrap();
    let rival = Client::new(&stage.nodes).unwrap();
    let mut given_up = 0;
    for round in 0..300u64 {
        // A third of the time the lock is contended.
        let held = match round % 3 {
            0 => Some(rival.lock("k").acquire().await.unwrap()),
            _ => None,
        };
        if !impatient(client.lock("k").acquire(), random(1_000)).await {
            given_up += 1;
        }
        drop(held);
    }
    assert!(given_up >= 100, "only {given_up} of 300 were given up");
    // Well below the ttl of ten seconds: nothing expired, all was undone.
    stage.tell("await-free lock:{k} 5000");
    client.close().await;
}

#[tokio::test]
async fn a_dropped_lease_is_released_in_the_background() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).unwrap();
    drop(client.lock("k").acquire().await.unwrap());
    stage.tell("await-free lock:{k} 5000");
    // Also when the client goes with it.
    let lease = client.lock("k").acquire().await.unwrap();
    drop(client);
    stage.tell("expect-votes lock:{k} 3 5000");
    drop(lease);
    stage.tell("await-free lock:{k} 5000");
}

#[tokio::test]
async fn closed_at_random_instants_nothing_is_left() {
    let stage = Stage::new(3);
    let rival = Client::new(&stage.nodes).unwrap();
    let mut given_up = [0; 2];
    for round in 0..300u64 {
        let client = Client::new(&stage.nodes).unwrap();
        let lease = client.lock("other").acquire().await.unwrap();
        lease.release().await.unwrap();
        // A third of the time the lock is contended.
        let held = match round % 3 {
            0 => Some(rival.lock("k").acquire().await.unwrap()),
            _ => None,
        };
        let lock = client.lock("k");
        let once = round % 2 == 0;
        let task = tokio::spawn(async move {
            if once {
                lock.try_acquire().await
            } else {
                lock.acquire().await.map(Some)
            }
        });
        impatient(std::future::pending::<()>(), random(1_000)).await;
        client.close().await;
        match task.await.unwrap() {
            Ok(Some(lease)) => assert!(!lease.is_held()),
            Ok(None) => assert!(once && held.is_some()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed);
                given_up[usize::from(once)] += 1;
            }
        }
        drop(held);
    }
    assert!(
        given_up.iter().all(|n| *n >= 5),
        "given up: {given_up:?} of 150"
    );
    stage.tell("await-free lock:{k} 5000");
    // Nor does anybody stand in a queue.
    stage.tell("await all 0 5000 EXISTS lock:#q:{k}");
}
