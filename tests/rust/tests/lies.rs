//! Servers that lie in one way: what calls and probes say of them. All ways together: `lies`.

use std::time::Duration;

use quorlock::{Client, ErrorKind, RestartGuard, blocking};
use quorlock_tests::Stage;
use quorlock_tests::liar::{Liar, Mood};
use quorlock_tests::queue::until;

fn client(nodes: Vec<String>) -> Client {
    let builder = Client::builder()
        .nodes(nodes)
        .restart_guard(RestartGuard::Off)
        .namespace("lies:");
    builder.build().unwrap()
}

/// What a node that is alone is said to be at an acquire and by a probe.
fn alone(mood: Mood, id: &str, word: &str) {
    let stage = Stage::new(1);
    let liar = Liar::new(1, stage.nodes[0].strip_prefix("redis://"));
    let client = client(vec![format!("redis://127.0.0.1:{}", liar.port)]);
    drop(blocking::wait(client.lock("a").acquire()).unwrap());
    liar.is(mood);
    let lock = client.lock("b").wait(Duration::from_millis(500));
    // A busy machine makes a connection late, and then that is what is told.
    until("an error that says so", || {
        let error = blocking::wait(lock.acquire()).unwrap_err();
        let kinds = [ErrorKind::Misconfigured, ErrorKind::QuorumUnavailable];
        assert!(kinds.contains(&error.kind()), "{error}");
        error.nodes()[0].message().contains(word)
    });
    let probe = blocking::wait(client.probe()).unwrap();
    let found = &probe.nodes[0].findings[0];
    assert_eq!(found.id, id, "{found}");
    assert!(found.what.contains(word), "{found}");
    assert_eq!(probe.votes, 0);
}

#[test]
fn a_reply_that_is_too_long_is_a_finding() {
    alone(Mood::Long, "QD28", "longer than");
}

#[test]
fn a_clock_beyond_the_numbers_of_fences_is_a_finding() {
    alone(Mood::Late, "QD29", "the year 2255");
}

#[test]
fn fences_are_of_the_healthy_nodes_beside_a_clock_in_2286() {
    let stage = Stage::new(3);
    let liar = Liar::new(1, stage.nodes[0].strip_prefix("redis://"));
    let mut nodes = stage.nodes.clone();
    nodes[0] = format!("redis://127.0.0.1:{}", liar.port);
    // The set is founded.
    drop(blocking::wait(client(nodes.clone()).lock("a").acquire()).unwrap());
    liar.is(Mood::Late);
    let client = client(nodes);
    let mut last = 0;
    for _ in 0..20 {
        let lease = blocking::wait(client.lock("a").acquire()).unwrap();
        let fence = lease.fence().expect("fences are counted");
        assert!(fence > last && fence < 1 << 52, "{fence} behind {last}");
        last = fence;
        assert!(blocking::wait(lease.release()).unwrap());
    }
}
