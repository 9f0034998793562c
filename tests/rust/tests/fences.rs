//! Fences where the counters are gone: the clocks of the nodes decide, and no
//! single one of them.

use quorlock::{Client, blocking};
use quorlock_tests::queue::{hold, patient, release};
use quorlock_tests::{Stage, escaped};

fn fence_of_a_hold(client: &Client) -> u64 {
    let lease = hold(client);
    let fence = lease.fence().unwrap();
    release(lease);
    fence
}

#[test]
fn one_clock_an_hour_ahead_makes_no_fence() {
    for ahead in 1..=3 {
        let stage = Stage::like(3, &["clocks"]);
        stage.set_clock(ahead, 3_600);
        let first = patient(&stage.nodes);
        let fences = [fence_of_a_hold(&first), fence_of_a_hold(&first)];
        assert!(fences[0] < fences[1], "{fences:?}");
        blocking::wait(first.close());
        // As if they had expired.
        for node in 1..=3 {
            stage.tell(&format!("redis {node} DEL {}", escaped("lock:#f:{k}")));
        }
        stage.tell(&format!("kill {ahead}"));
        let second = patient(&stage.nodes);
        let fence = fence_of_a_hold(&second);
        assert!(fence > fences[1], "{fence} after {fences:?}");
        blocking::wait(second.close());
    }
}

/// The clocks are known from the first one's replies: its fence is written back,
/// and none after it.
#[test]
fn only_the_first_acquire_of_a_client_writes_its_fence_back() {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let client = patient(&stage.nodes);
        fence_of_a_hold(&client);
        let first = client.stats().write_backs;
        assert!((1..=nodes as u64).contains(&first), "{first}");
        for _ in 0..20 {
            stage.tell("await-free lock:{k} 5000");
            fence_of_a_hold(&client);
        }
        assert_eq!(client.stats().write_backs, first);
        blocking::wait(client.close());
    }
}
