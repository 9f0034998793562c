//! A Redis Cluster as one node, on real servers.

use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, monotonic};

const SOON: Duration = Duration::from_millis(300);

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

#[test]
fn locks_of_all_shards_are_held_and_given_back() -> Result<(), Error> {
    for clusters in [1, 3] {
        let stage = Stage::like(clusters, &["shards=3"]);
        let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        for name in (0..30).map(|n| format!("k{n}")) {
            let lease = get(one.lock(&*name))?;
            assert!(lease.is_held() && lease.fence().is_some());
            blocking::wait(lease.extend(Duration::from_secs(20)))?;
            let refused = get(other.lock(&*name).wait(Duration::ZERO)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
            assert!(blocking::wait(lease.release())?);
            let next = get(other.lock(&*name).wait(SOON))?;
            assert!(next.fence() > lease.fence());
            blocking::wait(next.release())?;
        }
        let shared = get(one.lock("s").shared(true))?;
        let beside = get(other.lock("s").shared(true))?;
        assert!(shared.is_held() && beside.is_held());
        let slots = [get(one.semaphore("p", 2))?, get(other.semaphore("p", 2))?];
        assert_ne!(slots[0].slot(), slots[1].slot());
        let late = get(one.semaphore("p", 2).wait(SOON)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
        drop((shared, beside, slots));
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn who_waits_is_called() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    for name in ["a", "b", "c", "d", "e"] {
        let held = get(one.lock(name))?;
        let waits = other.clone();
        let name = name.to_owned();
        let waiter = std::thread::spawn(move || get(waits.lock(&*name).wait(None)));
        until("it queues", || other.stats().queued == 1);
        let begun = monotonic();
        blocking::wait(held.release())?;
        let lease = waiter.join().unwrap()?;
        eprintln!("handed over after {:?}", since(begun));
        blocking::wait(lease.release())?;
    }
    stage.await_nothing_left();
    Ok(())
}

/// The hash slot of a lock is moved, step by step, while it is held, and while somebody waits
/// for it.
#[test]
fn a_lock_outlives_the_move_of_its_hash_slot() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let client = |ttl| {
        let builder = Client::builder().nodes(&stage.nodes);
        builder.ttl(Duration::from_millis(ttl)).build()
    };
    let (one, other) = (client(1000)?, client(1000)?);
    for step in ["held", "waited"] {
        let lock = one.lock(step).wait(None);
        let held = get(lock)?;
        let waiter = (step == "waited").then(|| {
            let waits = other.clone();
            let waiter = std::thread::spawn(move || get(waits.lock("waited").wait(None)));
            until("it queues", || other.stats().queued == 1);
            waiter
        });
        stage.tell(&format!("begin-move 1 lock:{{{step}}} next"));
        // Longer than its ttl: it is renewed.
        quorlock_tests::nap(Duration::from_millis(1500));
        assert!(held.is_held(), "{:?}", held.loss());
        stage.tell(&format!("move-keys 1 lock:{{{step}}}"));
        quorlock_tests::nap(Duration::from_millis(1500));
        assert!(held.is_held(), "{:?}", held.loss());
        let refused = get(one.lock(step).wait(Duration::ZERO)).unwrap_err();
        assert!(refused.to_string().contains("is being moved"), "{refused}");
        stage.tell(&format!("end-move 1 lock:{{{step}}}"));
        quorlock_tests::nap(Duration::from_millis(500));
        assert!(held.is_held());
        let begun = monotonic();
        assert!(blocking::wait(held.release())?);
        let next = match waiter {
            Some(waiter) => waiter.join().unwrap()?,
            None => get(other.lock(step).wait(SOON))?,
        };
        eprintln!("{step}: handed over after {:?}", since(begun));
        assert!(next.fence() > held.fence());
        blocking::wait(next.release())?;
    }
    stage.await_nothing_left();
    Ok(())
}

/// A name whose lock is in the first shard, or is not.
fn name_in(stage: &Stage, first: bool) -> String {
    let is_there = |name: &String| {
        let slot = stage.tell(&format!("redis 1.shard1 CLUSTER KEYSLOT lock:{{{name}}}"));
        (slot.parse::<u32>().expect("a number") < 16_384 / 3) == first
    };
    let mut names = (0..).map(|n| format!("k{n}"));
    names.find(is_there).expect("one of them is")
}

/// A replica takes the place of a primary that has died: whoever held a lock there has it, as
/// far as its vote was replicated, nobody gets one that may be held, and other shards go on.
#[test]
fn a_shard_that_failed_over_gives_no_vote_for_a_while() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3", "replicas=1"]);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let (here, elsewhere) = (name_in(&stage, true), name_in(&stage, false));
    let held = get(one.lock(&*here).ttl(Duration::from_secs(30)))?;
    stage.tell("redis 1.shard1 WAIT 1 5000");
    stage.tell("kill 1.shard1");
    stage.tell("await-failover 1 20000");
    let next = get(other.lock(&*elsewhere).wait(Duration::from_secs(5)))?;
    assert!(held.is_held() && next.is_held());
    let refused = get(other.lock(&*here).wait(SOON)).unwrap_err();
    eprintln!("{refused}");
    let new = get(other
        .lock(format!("new:{{{here}}}"))
        .wait(Duration::from_secs(2)));
    let new = new.unwrap_err();
    assert!(new.to_string().contains("quarantine"), "{new}");
    // Its shard has the vote, and takes the release.
    assert!(blocking::wait(held.release())?);
    stage.tell(&format!("await-free lock:{{{here}}} 5000"));
    Ok(())
}
