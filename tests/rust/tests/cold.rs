//! The first calls of a process whose nodes are far away.

use std::net::TcpListener;
use std::time::Duration;

use quorlock::{Client, ErrorKind, Verdict, blocking};
use quorlock_tests::relay::Far;
use quorlock_tests::{Stage, monotonic};

/// How long a request may take: three round trips are more, and one is much less.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const ROUND_TRIP: Duration = Duration::from_millis(400);

fn far(stage: &Stage) -> (Vec<Far>, Vec<String>) {
    let nodes = stage.nodes.iter();
    let far: Vec<Far> = nodes.map(|node| Far::new(node, ROUND_TRIP)).collect();
    let urls = far.iter().map(|far| far.url.clone()).collect();
    (far, urls)
}

/// A client that is not connected yet.
fn new(urls: &[String]) -> Client {
    // A wholly new set takes more round trips, and a busy machine longer for each.
    let client = Client::builder().nodes(urls).node_timeout(NODE_TIMEOUT);
    client
        .connect_timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

#[test]
fn a_first_call_that_asks_once_waits_for_its_connections() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (_far, urls) = far(&stage);
        let client = new(&urls);
        let lease = blocking::wait(client.lock("a").try_acquire()).unwrap();
        let lease = lease.expect("it is free");
        let other = new(&urls);
        let seen = blocking::wait(other.lock("a").inspect()).unwrap();
        assert_eq!(seen.verdict(), Verdict::Held, "{seen:?}");
        let exported = blocking::wait(lease.export()).unwrap();
        let third = new(&urls);
        let adopted = blocking::wait(third.adopt(&exported)).unwrap();
        blocking::wait(adopted.release()).unwrap();
        let fourth = new(&urls);
        let every = Duration::from_secs(3600);
        let ran = blocking::wait(fourth.lock("j").once(every).try_acquire()).unwrap();
        assert!(ran.is_some());
    }
}

#[test]
fn a_first_call_waits_for_no_minority() {
    let stage = Stage::new(3);
    let (_far, mut urls) = far(&stage);
    // Connections to it stand, and nothing is answered.
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    urls[2] = format!("redis://{}", hung.local_addr().expect("bound"));
    let set = Client::new(&stage.nodes).unwrap();
    blocking::wait(set.init_set()).unwrap();
    let client = new(&urls);
    let lease = blocking::wait(client.lock("a").try_acquire()).unwrap();
    assert!(lease.is_some());
}

#[test]
fn connect_timeout_says_how_long() {
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", hung.local_addr().expect("bound"));
    let most = Duration::from_millis(600);
    let client = Client::builder().nodes([url]).connect_timeout(most);
    let client = client.build().unwrap();
    let begun = monotonic();
    let error = blocking::wait(client.lock("a").try_acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable, "{error}");
    let waited = Duration::from_nanos(monotonic() - begun);
    assert!(waited >= most, "{waited:?}");
}

#[test]
fn calls_of_a_process_that_was_frozen_find_their_connections_gone_and_work() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (far, urls) = far(&stage);
        let client = new(&urls);
        let lease = blocking::wait(client.lock("held").acquire()).unwrap();
        let cut = || far.iter().for_each(Far::cut);
        // Whether the client has seen yet that they are gone, is left to chance.
        cut();
        let other = blocking::wait(client.lock("a").try_acquire()).unwrap();
        blocking::wait(other.expect("it is free").release()).unwrap();
        cut();
        let seen = blocking::wait(client.lock("held").inspect()).unwrap();
        assert_eq!(seen.verdict(), Verdict::Held, "{seen:?}");
        cut();
        blocking::wait(lease.extend(None)).unwrap();
        cut();
        blocking::wait(lease.release()).unwrap();
    }
}
