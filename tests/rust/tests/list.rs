//! The locks of a set by their names.

use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::{Stage, at_once, documented_permissions};

fn names(client: &Client, pattern: Option<&str>) -> Vec<String> {
    let found = blocking::wait(client.list(pattern, 100)).expect("nodes answer");
    assert!(found.complete && found.unread.is_empty(), "{found:?}");
    let text = |name| String::from_utf8(name).expect("UTF-8");
    found.names.into_iter().map(text).collect()
}

#[test]
fn locks_are_listed_and_nothing_else() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).expect("nodes");
    let held = ["orders:1", "orders:2", "b{7}", "x"];
    let leases: Vec<_> = held
        .iter()
        .map(|name| blocking::wait(client.lock(*name).acquire()).expect("free"))
        .collect();
    // A counter stays, and keys of others are none of ours.
    drop(blocking::wait(client.lock("gone").acquire()).expect("free"));
    stage.tell("await-free lock:{gone} 5000");
    stage.tell("redis 1 SET lock:other v");
    assert_eq!(names(&client, None), ["b{7}", "orders:1", "orders:2", "x"]);
    assert_eq!(names(&client, Some("orders:*")), ["orders:1", "orders:2"]);
    assert_eq!(names(&client, Some("b{*}")), ["b{7}"]);
    let few = blocking::wait(client.list(None, 2)).expect("nodes answer");
    assert_eq!((few.names.len(), few.complete), (2, false));
    drop(leases);
}

#[test]
fn a_minority_is_missed_and_a_majority_is_an_error() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).expect("nodes");
    let _lease = blocking::wait(client.lock("a").acquire()).expect("free");
    stage.tell("kill 3");
    let found = blocking::wait(client.list(None, 9)).expect("two answer");
    assert_eq!((found.names.len(), found.unread.len()), (1, 1));
    stage.tell("kill 2");
    let failed = blocking::wait(client.list(None, 9)).expect_err("one answers");
    assert_eq!(failed.kind(), ErrorKind::QuorumUnavailable);
    assert_eq!(failed.nodes().len(), 2, "{failed}");
}

/// What comes of a listing, which has to end though a server hangs.
fn ended(client: &Client) -> Result<quorlock::Listing, quorlock::Error> {
    let (tell, told) = std::sync::mpsc::channel();
    let client = client.clone();
    std::thread::spawn(move || tell.send(blocking::wait(client.list(None, 9))));
    let long = std::time::Duration::from_secs(60);
    told.recv_timeout(long).expect("the listing ends")
}

#[test]
fn a_server_that_hangs_is_told_and_ends_the_wait() {
    let cases = [
        (&[][..], ""),
        (&["shards=2"], ".shard2"),
        (&["shards=2"], ".shards"),
        (&["replicas=1", "sentinels=1"], ""),
    ];
    // What each waits for is the time that a server is given, so they wait beside each other.
    at_once(cases, |(kinds, part)| {
        let stage = Stage::like(3, kinds);
        let client = Client::new(&stage.nodes).expect("nodes");
        let _lease = blocking::wait(client.lock("a").acquire()).expect("free");
        stage.tell(&format!("stop 3{part}"));
        let found = ended(&client).expect("two answer");
        assert_eq!((found.names.len(), found.unread.len()), (1, 1), "{part}");
        let why = found.unread[0].message();
        assert!(why.contains("no answer within"), "{part}: {why}");
        stage.tell(&format!("stop 2{part}"));
        let failed = ended(&client).expect_err("one answers");
        assert_eq!(failed.kind(), ErrorKind::QuorumUnavailable, "{part}");
    });
}

#[test]
fn who_may_not_scan_is_told_so() {
    let stage = Stage::like(1, &["auth"]);
    let mut words = documented_permissions();
    stage.permit(words.iter().map(String::as_str));
    let client = Client::new(&stage.nodes).expect("nodes");
    let failed = blocking::wait(client.list(None, 9)).expect_err("the line has no +scan");
    assert_eq!(failed.kind(), ErrorKind::Misconfigured);
    assert!(failed.to_string().contains("+scan"), "{failed}");
    words.push("+scan".into());
    stage.permit(words.iter().map(String::as_str));
    let found = blocking::wait(client.list(None, 9)).expect("it may now");
    assert!(found.names.is_empty() && found.complete);
}

#[test]
fn the_line_of_the_page_is_that_of_the_core() {
    let words = documented_permissions();
    assert_eq!(words.join(" "), quorlock::permissions("lock:"));
}
