//! Readers and a writer of one lock on three healthy nodes, in virtual time: the lock is always in
//! use, and the writer has it in time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::{
    AcquireResult, Inbox, Instant, Keys, LeaseOptions, LocalQueues, LockParams, Mode, Set, Timing,
    Wait, Waits, acquire,
};
use quorlock_sim::contender::{KEYS, keys_of};
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, FaultEvent, MS, Network, Rate, Time, Ways, World};

const TTL: Duration = Duration::from_secs(10);
const CLIENTS: usize = 4;

const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

fn terms(mode: Mode) -> LockParams {
    let keys = keys_of(KEYS[0], WAITS, Some(Duration::from_secs(600)));
    LockParams {
        keys: Arc::new(Keys {
            mode,
            ..(*keys).clone()
        }),
        label: Arc::default(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(250)),
        drift: 0.01,
        asked: LeaseOptions::default(),
        bound: None,
        group: Default::default(),
    }
}

/// The writer, who is the first user, has a client of its own.
fn client_of(user: usize) -> usize {
    match user {
        0 => 0,
        _ => 1 + user % (CLIENTS - 1),
    }
}

/// Who is inside, and what came of it.
#[derive(Default)]
struct Seen {
    inside: u32,
    since: Option<Instant>,
    idle: Duration,
    turns: [u32; 2],
    /// The longest wait for the lock alone.
    waited: Duration,
}

/// How one schedule is played.
#[derive(Clone, Copy)]
struct Play {
    /// How many take the lock again and again: the first of them alone, the others to share it.
    users: usize,
    /// For how long at most a reader holds it.
    hold: Duration,
    /// For how long they come.
    long: Time,
    /// A node that the writer's client cannot reach once it knows it.
    cut: Option<usize>,
}

fn play(how: Play, seed: u64) -> Seen {
    let network = Network {
        base: MS / 10,
        slow: 20,
        tail: 2 * MS,
        reach: TTL.as_nanos() as Time,
        patience: 250 * MS,
        ..Network::default()
    };
    let clock = Rate {
        offset: 1_000 * MS,
        rate: 1.0,
    };
    let world = World::new(
        Random::new(seed),
        network,
        Admission::new(3, TTL, false, true),
        &[clock; 3],
        &[clock; CLIENTS],
        false,
    );
    if let Some(node) = how.cut {
        let fault = FaultEvent::Cut {
            client: client_of(0),
            node,
            long: 2 * how.long,
            ways: Ways::Both,
            lossy: true,
        };
        world.plan(100 * MS, fault);
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let random = Arc::new(Random::new(seed + client as u64));
            let links = world.links(client);
            let set = Set::new(links, world.clock(client), random, TTL, 0.01, |_| ());
            let inbox = Inbox::new(world.inbox(client), &set.links);
            (Arc::new(set), inbox, Arc::new(LocalQueues::default()))
        })
        .collect();
    for user in 0..how.users {
        let client = client_of(user);
        let (set, inbox, lines) = clients[client].clone();
        let (seen, draws) = (seen.clone(), Random::new(seed * 100 + user as u64));
        let (mode, hold) = match user {
            0 => (Mode::Exclusive, Duration::from_millis(4)),
            _ => (Mode::Shared, how.hold),
        };
        world.spawn(client, async move {
            let terms = terms(mode);
            let clock = &set.clock;
            let end = clock.now() + Duration::from_nanos(how.long);
            while clock.now() < end {
                let asked = clock.now();
                let wait = Wait {
                    limit: Some(Duration::from_secs(60)),
                    lines: &lines,
                    inbox: &inbox,
                    max_waiters: 100,
                };
                let won = acquire(&set, &terms, b"k", wait, || None::<()>).await;
                let Ok(AcquireResult::Won(won)) = won else {
                    panic!("nothing fails");
                };
                enter(&seen, mode, asked, clock.now());
                let long = hold.mul_f64(draws.share());
                clock.sleep_until(clock.now() + long).await;
                leave(&seen, clock.now());
                won.release();
            }
        });
    }
    world.run(how.long + 5_000 * MS);
    assert_eq!(world.violation(), None);
    world.end();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn enter(seen: &Mutex<Seen>, mode: Mode, asked: Instant, now: Instant) {
    let mut seen = seen.lock().unwrap();
    if let (0, Some(since)) = (seen.inside, seen.since) {
        seen.idle = seen.idle.max(since.until(now));
    }
    seen.inside += 1;
    seen.turns[usize::from(mode == Mode::Exclusive)] += 1;
    if mode == Mode::Exclusive {
        seen.waited = seen.waited.max(asked.until(now));
    }
}

fn leave(seen: &Mutex<Seen>, now: Instant) {
    let mut seen = seen.lock().unwrap();
    seen.inside -= 1;
    seen.since = Some(now);
}

#[test]
fn a_lock_that_many_share_and_one_wants_alone_never_stands_still() {
    let how = Play {
        users: 12,
        hold: Duration::from_millis(4),
        long: 1_000 * MS,
        cut: None,
    };
    for seed in 0..10 {
        let seen = play(how, seed);
        assert!(seen.idle < WAITS.reservation, "{seed}: {:?}", seen.idle);
    }
}

#[test]
fn a_writer_has_it_beside_readers_that_hold_it_long() {
    let how = Play {
        users: 40,
        hold: Duration::from_secs(2),
        long: 1_500 * MS,
        cut: None,
    };
    for seed in 0..5 {
        let seen = play(how, seed);
        assert!(seen.turns[1] >= 1, "{seed}: {:?}", seen.turns);
        let long = Duration::from_secs(5);
        assert!(seen.waited < long, "{seed}: {:?}", seen.waited);
    }
}

#[test]
fn a_writer_that_cannot_reach_the_home_has_it_beside_readers_that_can() {
    let hold = Duration::from_millis(20);
    for node in 0..3 {
        let how = Play {
            users: 8,
            hold,
            long: 3_000 * MS,
            cut: Some(node),
        };
        let seen = play(how, 0);
        assert!(seen.turns[1] >= 10, "{node}: {:?}", seen.turns);
        let long = Duration::from_millis(1_500);
        assert!(seen.waited < long, "{node}: {:?}", seen.waited);
    }
}
