//! Loss callbacks and logs run on threads of their own.

use std::sync::mpsc::channel;
use std::time::Duration;

use quorlock::{Client, Level, LossReason, blocking, set_log_sink};
use quorlock_tests::queue::{PATIENCE, until};
use quorlock_tests::{Stage, nap};

/// Of what is to be kept, so long that a machine which stands still for a second
/// costs nobody the lease.
const TTL: Duration = Duration::from_secs(2);
/// Of what is to be lost.
const BRIEF: Duration = Duration::from_millis(100);

#[test]
fn a_callback_that_blocks_loses_no_lease() {
    let client = Client::builder()
        .nodes(["memory://blocks"])
        .ttl(TTL)
        .build()
        .unwrap();
    let doomed = client.lock("doomed").ttl(BRIEF).renew(false);
    let doomed = blocking::wait(doomed.acquire()).unwrap();
    let kept = blocking::wait(client.lock("kept").acquire()).unwrap();
    let (told, hear) = channel();
    doomed.on_lost(move |reason| {
        // The work that a callback should not do, but may.
        nap(2 * TTL);
        told.send(reason).unwrap();
    });
    assert_eq!(hear.recv_timeout(PATIENCE), Ok(LossReason::Expired));
    assert!(kept.is_held(), "renewed while the callback slept");
    assert_eq!(client.stats().lost, 1);
}

#[test]
fn a_callback_that_blocks_withholds_no_loss() {
    let client = Client::builder()
        .nodes(["memory://withholds"])
        .build()
        .unwrap();
    let held = |name: &str| {
        let lock = client.lock(name).ttl(BRIEF).renew(false);
        blocking::wait(lock.acquire()).unwrap()
    };
    let (told, hear) = channel();
    let (go_on, wait) = channel::<()>();
    let first = held("first");
    let tells = told.clone();
    first.on_lost(move |_| {
        tells.send("first").unwrap();
        let _ = wait.recv();
    });
    let tells = told.clone();
    first.on_lost(move |_| tells.send("first again").unwrap());
    let heard = || hear.recv_timeout(PATIENCE);
    // They begin in this order, and go on side by side.
    let both = [heard(), heard()];
    assert!(both.contains(&Ok("first")) && both.contains(&Ok("first again")));
    // Those of other leases, however many, and of several locks at once.
    for name in ["second", "third"] {
        let (lease, tells) = (held(name), told.clone());
        lease.on_lost(move |_| tells.send(name).unwrap());
        assert_eq!(heard(), Ok(name));
    }
    drop(go_on);
}

#[test]
fn a_callback_that_panics_harms_nobody() {
    let client = Client::builder()
        .nodes(["memory://panics"])
        .ttl(TTL)
        .build()
        .unwrap();
    let kept = blocking::wait(client.lock("kept").acquire()).unwrap();
    let (told, hear) = channel();
    for name in ["first", "second"] {
        let told = told.clone();
        let lock = client.lock(name).ttl(BRIEF).renew(false);
        let doomed = blocking::wait(lock.acquire()).unwrap();
        doomed.on_lost(move |reason| {
            told.send(reason).unwrap();
            panic!("a bug of the user's");
        });
        // The second is told although the first has panicked on that thread.
        assert_eq!(hear.recv_timeout(PATIENCE), Ok(LossReason::Expired));
    }
    assert!(kept.is_held());
}

#[test]
fn logs_go_to_the_sink() {
    let (told, hear) = channel();
    set_log_sink(move |level, line| {
        let _ = told.send((level, line.to_string()));
    });
    let client = Client::builder()
        .nodes(["memory://logs"])
        .ttl(TTL)
        .build()
        .unwrap();
    let lock = client.lock("capped").max_hold(2 * TTL);
    let lease = blocking::wait(lock.acquire()).unwrap();
    // A warning comes at 80 % of max_hold, and then the loss.
    // The sink is the process's: other tests of this file are heard too.
    let heard = |word: &str| {
        std::iter::from_fn(|| hear.recv_timeout(PATIENCE).ok())
            .find(|(_, line)| line.contains(word))
            .unwrap()
    };
    let (level, line) = heard("capped");
    assert_eq!(level, Level::Warn);
    assert!(line.contains("max_hold"), "{line}");
    assert_eq!(blocking::wait(lease.lost()), LossReason::MaxHold);
    let (level, line) = heard("capped");
    assert_eq!(level, Level::Warn);
    assert!(line.contains("is lost: max_hold"), "{line}");
    // A node that goes and comes.
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes).unwrap();
    let attempt = |wait| blocking::wait(client.lock("a").wait(wait).acquire());
    drop(attempt(PATIENCE).unwrap());
    stage.tell("kill 1");
    assert_eq!(heard("has lost its connection").0, Level::Info);
    until("asked again", || {
        assert!(attempt(Duration::ZERO).is_err());
        hear.try_iter().any(|(level, line)| {
            level == Level::Warn && line.contains("is not reached: Connection refused")
        })
    });
    stage.tell("start 1");
    drop(attempt(PATIENCE).unwrap());
    assert_eq!(heard("is reached again").0, Level::Info);
}
