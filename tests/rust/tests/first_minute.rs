//! What somebody meets who has just installed it: no server, one that cannot be a
//! node, new ones; and URLs as other libraries write them.

use std::net::TcpListener;
use std::time::Duration;

use quorlock::sim::probe::unnamed;
use quorlock::{Client, Error, ErrorKind, Lease, Owner, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, monotonic};

fn attempt(client: &Client, wait: impl Into<Option<Duration>>) -> Result<Lease, Error> {
    blocking::wait(client.lock("a").wait(wait).acquire())
}

fn assert_says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn without_a_server_and_without_a_list_it_fails_at_once_and_says_what_to_do() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", port.local_addr().unwrap());
    drop(port);
    let client = unnamed(&url).build().unwrap();
    let asked = monotonic();
    // Although it would wait forever.
    let error = attempt(&client, None).unwrap_err();
    assert!(monotonic() - asked < 5_000_000_000, "{error}");
    let words = ["default", "redis-server", "QUORLOCK_NODES"];
    assert_says(&error, ErrorKind::Misconfigured, &words);
    let error = blocking::wait(client.init_set()).unwrap_err();
    assert_says(&error, ErrorKind::Misconfigured, &words);
    // A node that was named may come yet.
    let client = Client::new([&url]).unwrap();
    let error = attempt(&client, Duration::ZERO).unwrap_err();
    assert_says(&error, ErrorKind::QuorumUnavailable, &[]);
}

#[test]
fn a_default_node_that_was_there_may_restart() {
    let stage = Stage::new(1);
    let client = unnamed(&stage.nodes[0]).build().unwrap();
    drop(attempt(&client, Duration::from_secs(10)).unwrap());
    stage.tell("kill 1");
    until("the server is gone", || {
        attempt(&client, Duration::ZERO).is_err()
    });
    let error = attempt(&client, Duration::ZERO).unwrap_err();
    assert_says(&error, ErrorKind::QuorumUnavailable, &["default"]);
    stage.tell("start 1");
    drop(attempt(&client, Duration::from_secs(10)).unwrap());
}

#[test]
fn three_new_servers_say_for_how_long_they_do_not_vote_and_what_to_do() {
    let stage = Stage::like(3, &["new"]);
    let client = Client::new(&stage.nodes).unwrap();
    let error = attempt(&client, Duration::from_secs(2)).unwrap_err();
    let words = ["a quorum may vote in", "explain sets"];
    assert_says(&error, ErrorKind::QuorumUnavailable, &words);
    // From one node to three is another set: what to do then.
    let one = Client::new(&stage.nodes[..1]).unwrap();
    let error = attempt(&one, Duration::ZERO).unwrap_err();
    let words = ["Any other change", "explain sets"];
    assert_says(&error, ErrorKind::Misconfigured, &words);
}

#[test]
fn a_server_in_cluster_mode_is_refused_at_once() {
    let stage = Stage::like(1, &["cluster"]);
    let client = Client::new(&stage.nodes).unwrap();
    for slots in ["", "redis 1 CLUSTER ADDSLOTSRANGE 0 16383"] {
        if !slots.is_empty() {
            stage.tell(slots);
        }
        let error = attempt(&client, None).unwrap_err();
        let words = ["cluster mode", "cluster-enabled no"];
        assert_says(&error, ErrorKind::Misconfigured, &words);
    }
}

/// What its address leads to may be a master again.
#[test]
fn a_master_that_becomes_a_replica_is_connected_to_anew() {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes).unwrap();
    drop(attempt(&client, Duration::from_secs(10)).unwrap());
    stage.tell("redis 1 REPLICAOF 127.0.0.1 1");
    until("looked at again", || {
        let error = attempt(&client, Duration::ZERO).err();
        error.is_some_and(|error| error.to_string().contains("a replica of 127.0.0.1:1"))
    });
    stage.tell("redis 1 REPLICAOF NO ONE");
    until("a master again", || {
        attempt(&client, Duration::ZERO).is_ok()
    });
}

#[test]
fn a_lock_of_another_library_is_named_and_left_alone() {
    let stage = Stage::new(1);
    stage.tell("redis 1 HSET lock:{a} 0b5c:1 1");
    let client = Client::new(&stage.nodes).unwrap();
    let error = attempt(&client, None).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Misconfigured,
        &["Redisson", "another name"],
    );
    assert!(!error.to_string().contains("delete"), "{error}");
}

#[test]
fn urls_are_written_as_for_other_libraries() {
    for url in [
        "valkey://h",
        "valkeys://h:1",
        "redis://h?db=0",
        "redis://h:1/?db=2",
    ] {
        Client::new([url]).unwrap();
    }
    let refused = |nodes: &[&str]| Client::new(nodes.iter().copied()).unwrap_err();
    let databases = refused(&["redis://h/1", "redis://h/2"]);
    let words = ["h:6379/1 and h:6379/2", "databases of one server"];
    assert_says(&databases, ErrorKind::InvalidArgument, &words);
    for url in ["localhost:6379", "127.0.0.1:6379", "localhost"] {
        let error = refused(&[url]);
        assert_says(&error, ErrorKind::InvalidArgument, &["redis://host:port"]);
        assert!(!error.to_string().contains("localhost:/"), "{error}");
    }
}

#[test]
fn an_owner_is_told_in_words() {
    let client = Client::new(["memory://words"]).unwrap();
    for (owner, words) in [
        (
            Some(Owner::current_thread()),
            "the calling thread does not hold",
        ),
        (Some(Owner::named("me")), "the owner `me` does not hold"),
        (None, "release its lease"),
    ] {
        let error = blocking::wait(client.lock("a").owner(owner).release()).unwrap_err();
        assert_says(&error, ErrorKind::NotOwner, &[words]);
    }
}
