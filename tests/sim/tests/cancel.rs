//! An acquire that is dropped leaves no key behind: at every await point of
//! it, exhaustively, both right after it began to wait and in the very moment
//! in which it was woken.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use quorlock::sim::{
    AcquireResult, ClaimCell, Inbox, LeaseOptions, LockParams, Set, Timing, Wait, Waits, acquire,
};
use quorlock_sim::contender::keys_of;
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, FaultEvent, MS, Memory, Network, Rate, World};

const KEY: &[u8] = b"lock:{k}";
const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Case {
    Free,
    /// Another client holds the lock for 60 ms.
    Contended,
    MinorityHangs,
    MajorityHangs,
    MajorityDown,
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Never,
    /// Drop after this many polls, at once.
    After(usize),
    /// Drop instead of the next poll.
    Instead(usize),
}

struct Outcome {
    polls: usize,
    won: bool,
    keys_left: usize,
}

fn set(world: &Arc<World>, client: usize) -> Arc<Set> {
    Arc::new(Set::new(
        world.links(client),
        world.clock(client),
        Arc::new(Random::new(client as u64)),
        TTL,
        0.01,
        |_| (),
    ))
}

const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

fn terms() -> LockParams {
    LockParams {
        keys: keys_of(KEY, WAITS, None),
        label: Arc::default(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(50)),
        drift: 0.01,
        asked: LeaseOptions::default(),
        bound: None,
        group: Default::default(),
    }
}

/// Three nodes and two clients, without faults.
fn world() -> Arc<World> {
    let network = Network {
        base: 100_000,
        ..Network::default()
    };
    let clock = Rate {
        offset: 1_000 * MS,
        rate: 1.0,
    };
    // Without a guard: nodes that were down vote at once.
    let admission = Admission::new(3, TTL, false, true);
    World::new(
        Random::new(7),
        network,
        admission,
        &[clock; 3],
        &[clock; 2],
        false,
    )
}

fn run(case: Case, cut: Cut) -> Outcome {
    let world = world();
    match case {
        Case::MinorityHangs => world.plan(0, FaultEvent::PauseNode(1, 200 * MS)),
        Case::MajorityHangs | Case::MajorityDown => {
            for node in [0, 2] {
                world.plan(
                    0,
                    match case {
                        Case::MajorityHangs => FaultEvent::PauseNode(node, 200 * MS),
                        _ => FaultEvent::CrashNode(node, 200 * MS, Memory::Kept),
                    },
                );
            }
        }
        Case::Free | Case::Contended => {}
    }
    if let Case::Contended = case {
        let set = set(&world, 1);
        world.spawn(1, async move {
            let hold = ClaimCell::begin(&set, &terms(), 1, None);
            assert!(poll_fn(|cx| hold.poll_verdict(cx)).await.is_ok());
            let until = set.clock.now() + Duration::from_millis(60);
            set.clock.sleep_until(until).await;
            hold.release();
        });
        world.run(MS);
    }
    let polls = Arc::new(AtomicUsize::new(0));
    let won = Arc::new(AtomicUsize::new(0));
    let (counter, result) = (polls.clone(), won.clone());
    let set = set(&world, 0);
    let inbox = Inbox::new(world.inbox(0), &set.links);
    world.spawn(0, async move {
        let terms = terms();
        let lines = Arc::default();
        let wait = Wait {
            limit: Some(Duration::from_millis(300)),
            lines: &lines,
            inbox: &inbox,
            max_waiters: 1,
        };
        let mut future = Some(Box::pin(acquire(&set, &terms, b"k", wait, || None::<()>)));
        let hold = poll_fn(|cx| {
            let count = counter.fetch_add(1, Ordering::Relaxed);
            if matches!(cut, Cut::Instead(n) if n == count) {
                future = None;
                return Poll::Ready(None);
            }
            let inner: Pin<&mut _> = future.as_mut().expect("polled until it is cut").as_mut();
            match std::future::Future::poll(inner, cx) {
                Poll::Ready(outcome) => Poll::Ready(outcome.ok()),
                Poll::Pending if matches!(cut, Cut::After(n) if n == count) => {
                    future = None;
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        if let Some(AcquireResult::Won(hold)) = hold {
            result.fetch_add(1, Ordering::Relaxed);
            hold.release();
        }
    });
    // Long enough for all faults to end, far less than a ttl.
    world.run(1_000 * MS);
    let outcome = Outcome {
        polls: polls.load(Ordering::Relaxed),
        won: won.load(Ordering::Relaxed) > 0,
        keys_left: world.all_keys(),
    };
    world.end();
    outcome
}

#[test]
fn dropped_at_any_await_point_an_acquire_leaves_no_key() {
    let mut tried = 0;
    for case in [
        Case::Free,
        Case::Contended,
        Case::MinorityHangs,
        Case::MajorityHangs,
        Case::MajorityDown,
    ] {
        let whole = run(case, Cut::Never);
        assert!(whole.won, "{case:?}: undisturbed, the lock is won");
        assert_eq!(whole.keys_left, 0, "{case:?}: and released");
        for polls in 0..whole.polls {
            for cut in [Cut::After(polls), Cut::Instead(polls)] {
                let outcome = run(case, cut);
                assert_eq!(outcome.keys_left, 0, "{case:?} {cut:?} of {}", whole.polls);
                tried += 1;
            }
        }
    }
    assert!(tried >= 30, "only {tried} await points were tried");
}
