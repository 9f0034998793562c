//! Readers and writers of one lock on three healthy nodes, in virtual time: the lock is always in
//! use, and whoever wants it alone has it in time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::{
    Acquired, Inbox, Instant, Keys, Lines, Mode, Set, Terms, Timing, Wait, Waits, acquire,
};
use quorlock_sim::contender::{KEYS, keys_of};
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, MS, Network, Rate, Time, World};

const TTL: Duration = Duration::from_secs(10);
const CLIENTS: usize = 4;
const PLAYED: Time = 1_500 * MS;

const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

fn terms(mode: Mode) -> Terms {
    let keys = keys_of(KEYS[0], WAITS, Some(Duration::from_secs(600)));
    Terms {
        keys: Arc::new(Keys {
            mode,
            ..(*keys).clone()
        }),
        label: "".into(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(250)),
        drift: 0.01,
        renew: false,
        max_hold: None,
        fair: false,
        keep: Duration::ZERO,
        gone: None,
        group: Default::default(),
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

/// So many users take the lock again and again, the first of them alone, the others to share it.
/// Readers hold it for up to so long.
fn play(users: usize, hold: Duration, seed: u64) -> Seen {
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
    let seen = Arc::new(Mutex::new(Seen::default()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let random = Arc::new(Random::new(seed + client as u64));
            let links = world.links(client);
            let set = Set::new(links, world.clock(client), random, TTL, 0.01, |_| ());
            let inbox = Inbox::new(world.inbox(client), &set.links);
            (Arc::new(set), inbox, Arc::new(Lines::default()))
        })
        .collect();
    for user in 0..users {
        let (set, inbox, lines) = clients[user % CLIENTS].clone();
        let (seen, draws) = (seen.clone(), Random::new(seed * 100 + user as u64));
        let (mode, hold) = match user {
            0 => (Mode::Exclusive, Duration::from_millis(4)),
            _ => (Mode::Shared, hold),
        };
        world.spawn(user % CLIENTS, async move {
            let terms = terms(mode);
            let clock = &set.clock;
            let end = clock.now() + Duration::from_nanos(PLAYED);
            while clock.now() < end {
                let asked = clock.now();
                let wait = Wait {
                    limit: Some(Duration::from_secs(60)),
                    lines: &lines,
                    inbox: &inbox,
                    max_waiters: 100,
                };
                let won = acquire(&set, &terms, b"k", wait, || None::<()>).await;
                let Ok(Acquired::Hold(won)) = won else {
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
    world.run(PLAYED + 5_000 * MS);
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
    for seed in 0..5 {
        let seen = play(12, Duration::from_millis(4), seed);
        assert!(seen.idle < WAITS.reservation, "{seed}: {:?}", seen.idle);
    }
}

#[test]
fn who_wants_it_alone_has_it_beside_readers_that_hold_it_long() {
    for seed in 0..5 {
        let seen = play(40, Duration::from_secs(2), seed);
        assert!(seen.turns[1] >= 1, "{seed}: {:?}", seen.turns);
        assert!(
            seen.waited < Duration::from_secs(5),
            "{seed}: {:?}",
            seen.waited
        );
    }
}
