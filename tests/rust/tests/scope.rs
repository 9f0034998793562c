//! What is wrong with one lock, hash slot or shard is no matter of the other locks of a client:
//! those that wait are called, and come at once.

use std::time::Duration;

use quorlock::{Client, Lock, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, documented_permissions, monotonic};

const TURNS: usize = 12;
/// Sooner than the end of a reservation, which is when those ask who were not called.
const CALLED: Duration = Duration::from_millis(200);

/// Two clients hand a lock on, and each has just met what is wrong with another one when it is
/// called. A machine may be busy, so a quarter of the turns have to be quick; where calls are not
/// heard none is.
fn others_are_handed_on(stage: &Stage, what: &str, bad: impl Fn(&Client) -> Lock) {
    let clients = [(); 2].map(|()| Client::new(&stage.nodes).expect("URLs"));
    let lock = |client: usize| clients[client].lock("k").wait(None);
    let mut held = blocking::wait(lock(0).acquire()).expect("free");
    let mut times = Vec::new();
    for turn in 1..=TURNS {
        let next = turn % 2;
        let waits = lock(next);
        let waiter = std::thread::spawn(move || blocking::wait(waits.acquire()));
        until("it queues", || clients[next].stats().queued == 1);
        let bad = blocking::wait(bad(&clients[next]).wait(Duration::ZERO).acquire());
        assert!(bad.is_err(), "{what}: it cannot be voted for");
        let begun = monotonic();
        assert!(blocking::wait(held.release()).expect("it is asked"));
        held = waiter.join().expect("it ends").expect("its turn");
        times.push(since(begun));
    }
    times.sort_unstable();
    eprintln!("{what}: {times:?}");
    assert!(times[TURNS / 4] < CALLED, "{what}: {times:?}");
}

#[test]
fn a_key_of_another_type() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        stage.tell("redis all RPUSH lock:{bad} x");
        others_are_handed_on(&stage, "another type", |client| client.lock("bad"));
    }
}

#[test]
fn a_key_that_the_user_may_not_touch() {
    let stage = Stage::like(3, &["auth"]);
    let line = documented_permissions();
    stage.permit(line.iter().map(String::as_str));
    others_are_handed_on(&stage, "permission", |client| {
        client.lock("elsewhere:bad").raw(true)
    });
}

#[test]
fn a_hash_slot_that_is_being_moved() {
    let stage = Stage::like(1, &["shards=3"]);
    let bad = |client: &Client| client.lock("bad");
    let first = Client::new(&stage.nodes).expect("URLs");
    let won = blocking::wait(bad(&first).acquire()).expect("free");
    assert!(blocking::wait(won.release()).expect("it is asked"));
    stage.tell("begin-move 1 lock:{bad} next");
    stage.tell("move-keys 1 lock:{bad}");
    others_are_handed_on(&stage, "is being moved", bad);
}

#[test]
fn a_hash_slot_in_quarantine() {
    let stage = Stage::like(1, &["shards=3"]);
    let slot = quorlock::sim::probe::hash_slot(b"lock:{bad}");
    let of = |tag: &u32| quorlock::sim::probe::hash_slot(tag.to_string().as_bytes());
    let tag = (0..).find(|tag| of(tag) == slot).expect("each has one");
    stage.tell(&format!(
        "redis 1 SET lock:%23quarantine:{{{tag}}} 1 PX 120000"
    ));
    others_are_handed_on(&stage, "quarantine", |client| client.lock("bad"));
}
