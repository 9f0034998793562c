//! What comes in an order that one connection alone does not bring about: a call
//! over the new one may overtake a refusal over the old.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::stages::SLOT_TRIES;
use super::*;
use crate::clock::Clock;
use crate::mutex::lock;
use crate::node::names::{Naming, aux};
use crate::node::{
    Fault, FaultKind, Hint, Keys, Link, Mode, Op, Reply, Request, RequestContext, Sink, Subscriber,
    Waits,
};
use crate::protocol::acquire::{Wait, acquire};
use crate::protocol::timing::Timing;
use crate::token::SystemRng;
use crate::wakers::Wakers;

/// Time stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant(1_000_000_000)
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

type LeaseOptions = (Request, RequestContext, Arc<dyn Sink>);

/// A node that answers when the test has it answer.
#[derive(Default)]
struct Slow {
    asked: Mutex<Vec<LeaseOptions>>,
    subscriber: OnceLock<Arc<dyn Subscriber>>,
}

impl Slow {
    /// The only request that waits for an answer.
    fn only(&self) -> Option<LeaseOptions> {
        let mut asked = lock(&self.asked);
        assert!(asked.len() <= 1);
        asked.pop()
    }
}

impl Link for Slow {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        lock(&self.asked).push((request, ticket, sink));
        None
    }

    fn shown(&self) -> Arc<str> {
        "slow".into()
    }

    fn close(&self) {}

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let _ = self.subscriber.set(subscriber);
    }
}

fn terms(mode: Mode) -> LockParams {
    LockParams {
        keys: Arc::new(Keys {
            lock: b"lock:{k}"[..].into(),
            aux: aux("lock:", b"lock:{k}", Naming::Tagged),
            waits: Waits {
                reservation: Duration::from_millis(200),
                place: Duration::from_secs(60),
                most: 10,
            },
            fence_ttl: None,
            mode,
            adopts: None,
            field: None,
        }),
        label: Default::default(),
        timing: Timing::of(
            Duration::from_millis(1_500),
            0.01,
            0.1,
            Duration::from_millis(50),
        ),
        drift: 0.01,
        asked: crate::protocol::asked::LeaseOptions {
            renew: true,
            ..Default::default()
        },
        bound: None,
        group: Default::default(),
    }
}

/// An acquire over these nodes, of which the home alone is asked first.
struct Asking {
    nodes: Vec<Arc<Slow>>,
    set: Arc<Set>,
    acquire: Pin<Box<dyn Future<Output = ()>>>,
}

impl Asking {
    fn new(nodes: usize) -> Asking {
        Asking::of(Mode::Exclusive, nodes)
    }

    fn of(mode: Mode, nodes: usize) -> Asking {
        let terms = terms(mode);
        let nodes: Vec<_> = (0..nodes).map(|_| Arc::new(Slow::default())).collect();
        let links: Vec<_> = nodes
            .iter()
            .map(|node| node.clone() as Arc<dyn Link>)
            .collect();
        let channel: Arc<[u8]> = b"lock:#in:1"[..].into();
        let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
        let inbox = Inbox::new(channel, &links);
        let ttl = terms.timing.ttl;
        let set = Arc::new(Set::new(links, clock, rng, ttl, 0.01, |_| ()));
        set.contention.note(&terms.keys.lock, set.clock.now());
        let asked = set.clone();
        let acquire = Box::pin(async move {
            let wait = Wait {
                limit: None,
                lines: &Arc::default(),
                inbox: &inbox,
                max_waiters: 1,
            };
            let _ = acquire(&asked, &terms, b"k", wait, || None::<()>).await;
        });
        Asking {
            nodes,
            set,
            acquire,
        }
    }

    fn turn(&mut self) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(self.acquire.as_mut().poll(&mut cx).is_pending());
    }

    /// What each node was asked since, at most one request.
    fn asked(&self) -> Vec<Option<LeaseOptions>> {
        self.nodes.iter().map(|node| node.only()).collect()
    }
}

fn refused(place: u32, shared: bool) -> Reply {
    refused_to(1, place, shared)
}

fn refused_to(subscribers: u32, place: u32, shared: bool) -> Reply {
    Reply::Refused {
        left: Some(Duration::from_secs(10)),
        holder: None,
        place: Some(place),
        subscribers,
        shared,
    }
}

#[test]
fn a_call_that_overtakes_the_refusal_is_answered() {
    let mut asking = Asking::new(1);
    asking.turn();
    let (request, ticket, sink) = asking.asked().remove(0).expect("it is asked");
    let number = request.waiter.expect("one that may be queued").number;
    let subscriber = asking.nodes[0].subscriber.get().expect("subscribed to");
    subscriber.on_message(0, Hint { number, slot: None });
    asking.turn();
    assert!(asking.asked()[0].is_none(), "the home has yet to answer");
    sink.on_reply(ticket, refused(0, false), None);
    asking.turn();
    let (request, ..) = asking.asked().remove(0).expect("the call is answered");
    assert!(matches!(request.op, Op::Acquire { home: true, .. }));
}

#[test]
fn who_is_first_behind_readers_lets_no_more_in_elsewhere_and_nobody_else_does() {
    let cases = [
        (refused(0, true), 2),
        (refused(1, true), 0),
        (refused(0, false), 0),
        // The home does not queue a waiter that it cannot call.
        (refused_to(0, 0, true), 0),
    ];
    for (refused, reserves) in cases {
        let mut asking = Asking::new(3);
        asking.turn();
        let mut asked = asking.asked();
        let home = asked
            .iter()
            .position(Option::is_some)
            .expect("the home is asked");
        let (request, ticket, sink) = asked[home].take().expect("it is");
        let told = format!("{refused:?}");
        sink.on_reply(ticket, refused, None);
        asking.turn();
        let asked = asking.asked();
        assert!(asked[home].is_none());
        let waiter = request.waiter;
        let reserve = |asked: &LeaseOptions| {
            let (request, ..) = asked;
            // No longer than its ttl, which is less than three polls.
            let long = terms(Mode::Exclusive).timing.ttl;
            request.op == Op::Reserve { long } && request.waiter == waiter
        };
        let done = asked
            .iter()
            .flatten()
            .filter(|asked| reserve(asked))
            .count();
        assert_eq!(done, reserves, "{told}");
        // What is reserved is given back with the place.
        drop(asking.acquire);
        let left = asking.nodes.iter().map(|node| node.only()).enumerate();
        let left = left.filter(|(_, asked)| {
            let released =
                |asked: &LeaseOptions| asked.0.op == Op::Release && asked.0.waiter == waiter;
            asked.as_ref().is_some_and(released)
        });
        assert_eq!(left.count(), 1 + reserves);
    }
}

/// Whether the requests that wait for an answer, so many, say that the home has let the asker in.
fn say_let_in(asked: &[Option<LeaseOptions>], many: usize) -> bool {
    let says = |(request, ..): &LeaseOptions| match request.op {
        Op::Acquire { let_in, .. } => let_in,
        other => panic!("{other:?}"),
    };
    let said: Vec<bool> = asked.iter().flatten().map(says).collect();
    assert!(said.len() == many && said.iter().all(|one| *one == said[0]));
    said[0]
}

#[test]
fn a_reader_with_the_vote_of_its_home_says_so_to_the_others() {
    let vote = Reply::Granted {
        fence: 0,
        lasts: None,
    };
    let answer = |asked: &mut Option<LeaseOptions>, reply: &Reply| {
        let (_, ticket, sink) = asked.take().expect("it is asked");
        sink.on_reply(ticket, reply.clone(), None);
    };
    for mode in [Mode::Shared, Mode::Exclusive] {
        for called in [false, true] {
            let mut asking = Asking::of(mode, 3);
            asking.turn();
            let mut asked = asking.asked();
            let home = asked.iter().position(Option::is_some);
            let home = home.expect("the home is asked");
            assert!(!say_let_in(&asked, 1));
            let (request, ..) = asked[home].as_ref().expect("it is");
            let number = request.waiter.as_ref().expect("it waits").number;
            let subscriber = asking.nodes[home].subscriber.get();
            let subscriber = subscriber.expect("subscribed to").clone();
            let call = || subscriber.on_message(home, Hint { number, slot: None });
            if called {
                answer(&mut asked[home], &refused(0, false));
                call();
                asking.turn();
                asked = asking.asked();
                // All are asked at once, and the home may refuse.
                assert!(!say_let_in(&asked, 3));
            }
            let others = [(home + 1) % 3, (home + 2) % 3];
            let refused = Reply::Refused {
                left: Some(Duration::from_secs(1)),
                holder: None,
                place: None,
                subscribers: 1,
                shared: false,
            };
            answer(&mut asked[home], &vote);
            if called {
                for node in others {
                    answer(&mut asked[node], &refused);
                }
            }
            for _ in 0..2 {
                // A call, so that the time of the next try is not waited for.
                call();
                asking.turn();
                asked = asking.asked();
                assert_eq!(say_let_in(&asked, 2), mode == Mode::Shared);
                for node in others {
                    answer(&mut asked[node], &refused);
                }
                asking.turn();
            }
        }
    }
}

/// One waits at the only node, which calls after this has happened; whether it asks at once.
fn answers_a_call_after(happened: impl FnOnce(&Asking)) -> bool {
    let mut asking = Asking::new(1);
    asking.turn();
    let (request, ticket, sink) = asking.asked().remove(0).expect("it is asked");
    let number = request.waiter.expect("one that may be queued").number;
    sink.on_reply(ticket, refused(0, false), None);
    asking.turn();
    happened(&asking);
    let subscriber = asking.nodes[0].subscriber.get().expect("subscribed to");
    subscriber.on_message(0, Hint { number, slot: None });
    asking.turn();
    asking.asked()[0].is_some()
}

#[test]
fn a_call_is_answered_whatever_is_wrong_with_another_lock() {
    let of_lock = |kind| Fault::new(kind, "wrong", true).of_lock(true);
    let other = |reply: Reply| {
        answers_a_call_after(|asking| {
            let mut terms = terms(Mode::Exclusive);
            let keys = Arc::make_mut(&mut terms.keys);
            keys.lock = b"lock:{bad}"[..].into();
            let hold = ClaimCell::begin(&asking.set, &terms, 1, None);
            let (_, ticket, sink) = asking.asked().remove(0).expect("it is asked");
            sink.on_reply(ticket, reply, None);
            let out = |key: &[u8]| asking.set.is_out(0, key);
            assert!(hold.is_over() && out(b"lock:{bad}"));
            // Its release.
            drop(asking.asked());
        })
    };
    let lasting = |kind| Reply::Failed(of_lock(kind));
    assert!(other(lasting(FaultKind::Misconfigured)));
    assert!(other(lasting(FaultKind::NotReady)));
    // What is wrong with the node is.
    let fault = |kind| Reply::Failed(Fault::new(kind, "wrong", true));
    assert!(!other(fault(FaultKind::NotReady)));
}

#[test]
fn who_waits_and_is_forced_out_goes_on_with_another_token() {
    let mut asking = Asking::new(1);
    asking.turn();
    let (first, ticket, sink) = asking.asked().remove(0).expect("it is asked");
    sink.on_reply(ticket, Reply::NotMine, None);
    asking.turn();
    let asked = std::mem::take(&mut *lock(&asking.nodes[0].asked));
    let mut asked = asked.into_iter().map(|(request, ..)| request);
    let again = asked.find(|request| matches!(request.op, Op::Acquire { .. }));
    let again = again.expect("it asks again");
    assert!(again.value != first.value && again.waiter == first.waiter);
}

#[test]
fn who_calls_is_there() {
    assert!(answers_a_call_after(|asking| {
        let (set, pause) = (&asking.set, Duration::from_secs(1));
        let key = terms(Mode::Exclusive).keys.lock.clone();
        set.silent(0, &key, pause);
        assert!(set.is_out(0, &key));
    }));
}

#[test]
fn a_slot_beyond_those_that_the_waiter_counts_is_not_asked_for() {
    for (slot, asks) in [(0, 3), (1, 3), (2, 1), (u32::MAX, 1)] {
        let mut asking = Asking::of(Mode::AnySlot(2), 3);
        asking.turn();
        let mut asked = asking.asked();
        let home = asked.iter().position(Option::is_some);
        let home = home.expect("the home is asked");
        let (request, ticket, sink) = asked[home].take().expect("it is");
        let number = request.waiter.expect("one that may be queued").number;
        sink.on_reply(ticket, refused(0, false), None);
        asking.turn();
        let subscriber = asking.nodes[home].subscriber.get().expect("subscribed to");
        let hint = Hint {
            number,
            slot: Some(slot),
        };
        subscriber.on_message(home, hint);
        asking.turn();
        let modes = asking.asked().into_iter().flatten();
        let modes: Vec<_> = modes.map(|(request, ..)| request.keys.mode).collect();
        // It asks its home again which one is free.
        let mode = match asks {
            1 => Mode::AnySlot(2),
            _ => Mode::Slot(slot),
        };
        assert_eq!(modes, vec![mode; asks]);
    }
}

#[test]
fn any_slot_may_be_looked_at_first_and_none_that_there_is_not() {
    let first = |slots| {
        let mut asking = Asking::of(Mode::AnySlot(slots), 1);
        asking.turn();
        let (request, ..) = asking.asked().remove(0).expect("it is asked");
        match request.op {
            Op::Acquire { candidate, .. } => candidate,
            other => panic!("{other:?}"),
        }
    };
    let firsts: BTreeSet<u64> = (0..200).map(|_| first(3)).collect();
    assert!(firsts.into_iter().eq(0..3));
}

#[test]
fn a_slot_that_others_refuse_again_and_again_is_given_up() {
    let mut asking = Asking::of(Mode::AnySlot(2), 3);
    asking.turn();
    let mut asked = asking.asked();
    let home = asked.iter().position(Option::is_some);
    let home = home.expect("the home is asked");
    let (request, ticket, sink) = asked[home].take().expect("it is");
    let number = request.waiter.expect("one that may be queued").number;
    sink.on_reply(ticket, Reply::Chosen { slot: 1 }, None);
    asking.turn();
    for tries in 0..=SLOT_TRIES {
        let asked = asking.asked();
        for (node, asked) in asked.into_iter().enumerate() {
            let Some((request, ticket, sink)) = asked else {
                assert!(node == home && tries > 0, "node {node} is not asked");
                continue;
            };
            assert!(matches!(request.op, Op::Acquire { .. }));
            let vote = Reply::Granted {
                fence: 1,
                lasts: None,
            };
            let taken = Reply::Refused {
                left: Some(Duration::from_secs(10)),
                holder: None,
                place: None,
                subscribers: 1,
                shared: false,
            };
            sink.on_reply(ticket, if node == home { vote } else { taken }, None);
            asking.turn();
        }
        // The test calls, so that no waiter waits for the time of the next try.
        let subscriber = asking.nodes[home].subscriber.get().expect("subscribed to");
        let slot = Some(1);
        subscriber.on_message(home, Hint { number, slot });
        asking.turn();
    }
    let asked = asking.asked();
    let released = asked.iter().flatten();
    let released = released.filter(|asked| asked.0.op == Op::Release);
    assert_eq!(released.count(), 3, "it is given up on all nodes");
}
