//! What is wrong with one lock, hash slot or shard is no matter of the other locks of a client:
//! those that wait are called, and come at once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, Lock, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, documented_permissions, nap, root};

const TURNS: usize = 12;
/// So often another lock is acquired and released in one turn, at most: in one that waits for a
/// timer it is hundreds of times.
const CYCLES: u64 = 40;
/// How often the fault is given: it is remembered for longer.
const GIVEN: Duration = Duration::from_millis(5);

/// Two clients hand a lock on, while each is given what is wrong with another one, again and
/// again. The time is told by a third, which acquires and releases a lock of its own meanwhile. A
/// machine may be busy, so a quarter of the turns have to be quick; where calls are not heard none
/// is.
fn others_are_handed_on(stage: &Stage, what: &str, bad: impl Fn(&Client) -> Lock + Sync) {
    handed_on_meanwhile(stage, what, ["k", "pulse"], bad, || {});
}

/// The same of locks of these names; `happens` once all are connected.
fn handed_on_meanwhile(
    stage: &Stage,
    what: &str,
    [name, pulse]: [&str; 2],
    bad: impl Fn(&Client) -> Lock + Sync,
    happens: impl FnOnce(),
) {
    let clients = [(); 3].map(|()| Client::new(&stage.nodes).expect("URLs"));
    let lock = |client: usize| clients[client].lock(name).wait(None);
    let cycle = || {
        let lease = blocking::wait(clients[2].lock(pulse).wait(None).acquire()).expect("free");
        assert!(blocking::wait(lease.release()).expect("it is asked"));
    };
    for client in [1, 0] {
        let connected = blocking::wait(lock(client).acquire()).expect("free");
        assert!(blocking::wait(connected.release()).expect("it is asked"));
    }
    cycle();
    happens();
    let over = AtomicBool::new(false);
    let (given, cycles) = ([(); 2].map(|()| AtomicU64::new(0)), AtomicU64::new(0));
    let mut long = std::thread::scope(|scope| {
        let over = Over(&over);
        for (client, given) in clients.iter().zip(&given) {
            let (bad, over) = (&bad, over.0);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    let bad = blocking::wait(bad(client).wait(Duration::ZERO).acquire());
                    assert!(bad.is_err(), "{what}: it cannot be voted for");
                    given.fetch_add(1, Ordering::AcqRel);
                    nap(GIVEN);
                }
            });
        }
        scope.spawn(|| {
            while !over.0.load(Ordering::Acquire) {
                cycle();
                cycles.fetch_add(1, Ordering::AcqRel);
            }
        });
        let met = || given.iter().all(|given| given.load(Ordering::Acquire) > 0);
        until("both have met what is wrong", met);
        let mut held = blocking::wait(lock(0).acquire()).expect("free");
        let mut long = Vec::new();
        for turn in 1..=TURNS {
            let next = turn % 2;
            let waits = lock(next);
            let waiter = std::thread::spawn(move || blocking::wait(waits.acquire()));
            until("it queues", || clients[next].stats().queued == 1);
            // A vote for another lock shows that a node is there: once more behind the last.
            let met = || given[next].load(Ordering::Acquire);
            let before = met();
            until("it meets what is wrong", || met() > before + 1);
            let begun = cycles.load(Ordering::Acquire);
            assert!(blocking::wait(held.release()).expect("it is asked"));
            held = waiter.join().expect("it ends").expect("its turn");
            long.push(cycles.load(Ordering::Acquire) - begun);
        }
        long
    });
    long.sort_unstable();
    eprintln!("{what}: {long:?} cycles");
    assert!(long[TURNS / 4] < CYCLES, "{what}: {long:?}");
}

/// Ends what goes on meanwhile, also where a turn fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// docs/reference/protocol.md, "Home", has each error that servers give in the row of those whose it is, and
/// each code that stands there is one that they give.
#[test]
fn the_page_has_each_error_in_its_row() {
    let page =
        std::fs::read_to_string(root().join("docs/reference/protocol.md")).expect("the page");
    let (_, table) = page
        .split_once("| what the server answers, or does |")
        .expect("the table");
    let rows = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| "));
    let written: BTreeSet<(String, &str)> = rows
        .zip(["lock", "slot", "node"])
        .flat_map(|(row, whose)| {
            let codes = row.split('`').skip(1).step_by(2);
            codes.map(move |code| (code.to_owned(), whose))
        })
        .collect();
    let errors = root().join("core/src/node/redis/errors.txt");
    let errors = std::fs::read_to_string(errors).expect("the list");
    let lines = errors.lines().filter(|line| !line.starts_with('#'));
    let given = lines.map(|line| {
        let (whose, wire) = line.split_once(" -").expect("whose, and the error");
        let code = wire.split(' ').next().expect("its code").to_owned();
        let whose = ["lock", "slot", "node"]
            .into_iter()
            .find(|known| *known == whose);
        (code, whose.expect("one of three"))
    });
    assert_eq!(written, given.collect());
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

/// What is wrong with one of three shards, which the lock `bad` is on, while locks of the others
/// are handed on.
fn of_one_shard(what: &str, command: &str) {
    let stage = Stage::like(1, &["shards=3"]);
    stage.tell("redis 1 CONFIG SET cluster-require-full-coverage no");
    let slot = |name: &str| quorlock::sim::probe::hash_slot(format!("lock:{{{name}}}").as_bytes());
    let names: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    let (first, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| slot(name) < 16_384 / 3);
    let bad = |client: &Client| client.lock(&**first[0]);
    handed_on_meanwhile(&stage, what, [others[0], others[1]], bad, || {
        stage.tell(command);
    });
}

#[test]
fn a_shard_that_is_dead() {
    of_one_shard("dead", "kill 1.shard1");
}

#[test]
fn a_shard_that_hangs() {
    of_one_shard("hangs", "stop 1.shard1");
}

#[test]
fn a_shard_that_is_full() {
    of_one_shard("full", "redis 1.shard1 CONFIG SET maxmemory 1");
}
