//! Which nodes may vote, where a scenario cannot say it.

use std::time::Duration;

use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::Stage;

#[test]
fn one_server_behind_two_urls_is_refused() {
    // Undeclared: a record that says one node would be the first thing told.
    let stage = Stage::like(1, &["new"]);
    let same = stage.nodes[0].replace("127.0.0.1", "localhost");
    let client = Client::new([stage.nodes[0].clone(), same]).unwrap();
    let lock = client.lock("a").wait(None);
    let error = blocking::wait(lock.acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("same server as"), "{error}");
}

#[test]
fn releases_that_wait_for_a_dead_node_are_bounded() {
    let stage = Stage::new(1);
    let client = Client::builder()
        .nodes(&stage.nodes)
        .renew(false)
        .ttl(Duration::from_secs(60))
        .build()
        .unwrap();
    let leases: Vec<_> = (0..10_100)
        .map(|i| blocking::wait(client.lock(format!("{i}")).acquire()).unwrap())
        .collect();
    stage.tell("kill 1");
    drop(leases);
    let dropped = || client.stats().releases_dropped;
    for _ in 0..500 {
        if dropped() >= 90 {
            break;
        }
        quorlock_tests::nap(Duration::from_millis(10));
    }
    assert!((90..=200).contains(&dropped()), "{}", dropped());
    blocking::wait(client.close());
}
