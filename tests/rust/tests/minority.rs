//! A majority is enough: with two of five nodes hung, then dead, nothing fails
//! and nothing waits for them.

use std::time::Duration;

use quorlock::{Client, blocking};
use quorlock_tests::{Stage, nap};

const CYCLES: u64 = 1_000;
/// Attempts or rounds that a machine may cost which stands still meanwhile: the
/// servers are late then, too.
const STILL: u64 = 2;

fn cycles(client: &Client, count: u64) {
    let lock = client.lock("minority");
    for i in 0..count {
        let lease = blocking::wait(lock.acquire()).unwrap_or_else(|e| panic!("cycle {i}: {e}"));
        let held = blocking::wait(lease.release()).expect("release");
        assert!(held, "cycle {i}");
    }
}

#[test]
fn two_of_five_hung_then_dead_cost_nothing() {
    let stage = Stage::new(5);
    let client = Client::new(&stage.nodes).unwrap();
    cycles(&client, 1);

    stage.tell("stop 2,4");
    cycles(&client, CYCLES);
    // Beyond the time within which a node may carry out what it was sent: one that
    // goes on sooner may do so behind the release, which comes over another
    // connection (docs/reference/promises.md, "What it costs").
    nap(Duration::from_millis(500));
    stage.tell("cont 2,4");
    // What the hung nodes had in their sockets must leave nothing.
    stage.tell("await-free lock:{minority} 5000");

    stage.tell("kill 2,4");
    cycles(&client, CYCLES);
    stage.tell("await-free lock:{minority} 5000");

    let stats = client.stats();
    assert_eq!(stats.acquired, 2 * CYCLES + 1);
    assert!(stats.attempts_lost <= STILL, "{stats:?}");
    assert!(stats.timeouts_awaited <= STILL, "{stats:?}");
    blocking::wait(client.close());
}

#[test]
fn contenders_do_not_wait_for_a_hung_node_again_and_again() {
    let stage = Stage::new(3);
    let holder = Client::new(&stage.nodes).unwrap();
    let rival = Client::new(&stage.nodes).unwrap();
    let lease = blocking::wait(holder.lock("k").acquire()).unwrap();
    assert!(
        blocking::wait(rival.lock("k").try_acquire())
            .unwrap()
            .is_none()
    );
    stage.tell("stop 1");
    // One node refuses, one grants (its key is gone), one hangs: only the
    // hung one could decide the round.
    stage.tell("redis 2 DEL lock:{k}");
    for _ in 0..20 {
        let wait = std::time::Duration::ZERO;
        let refused = blocking::wait(rival.lock("k").wait(wait).acquire());
        assert!(refused.is_err());
    }
    let waits = rival.stats().timeouts_awaited;
    assert!(
        waits <= 1 + STILL,
        "{waits} of 20 rounds waited for the hung node"
    );
    stage.tell("cont 1");
    drop(lease);
    stage.tell("await-free lock:{k} 5000");
}
