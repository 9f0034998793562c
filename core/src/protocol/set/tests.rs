use std::future::Future as _;

use super::*;
use crate::clock::Sleep;
use crate::node::{AfterRelease, AuxKeys, Keys, Mode, Op, TimeReading, Value, Waits};
use crate::token::SystemRng;

/// A node whose task has yet to be woken, if `owing`, for each request.
struct Slow {
    owing: bool,
    parts: bool,
    done: Arc<Mutex<Vec<String>>>,
}

impl Link for Slow {
    fn send(
        &self,
        _: Request,
        ticket: RequestContext,
        _: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        lock(&self.done).push(format!("sent to {}", ticket.node));
        let mut owed = Wakers::default();
        owed.extend([Waker::noop().clone()]);
        self.owing.then_some(owed)
    }

    fn ring(&self, owed: Wakers) {
        lock(&self.done).push(format!("rung for {}", owed.into_iter().count()));
    }

    fn shown(&self) -> Arc<str> {
        "slow".into()
    }

    fn in_parts(&self) -> bool {
        self.parts
    }

    fn close(&self) {}
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant(1)
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

struct Nobody;

impl Sink for Nobody {
    fn on_reply(&self, _: RequestContext, _: Reply, _: Option<TimeReading>) {}

    fn wanted(&self) -> bool {
        true
    }
}

fn release(node: usize) -> Outgoing {
    let keys = Keys {
        lock: b"k"[..].into(),
        aux: AuxKeys::of(b"q", b"f"),
        waits: Waits {
            reservation: Duration::ZERO,
            place: Duration::ZERO,
            most: 0,
        },
        fence_ttl: None,
        mode: Mode::Exclusive,
        adopts: None,
        field: None,
    };
    Outgoing {
        request: Request {
            op: Op::Release,
            keys: Arc::new(keys),
            value: Value(Arc::default()),
            waiter: None,
            leaving: AfterRelease::Free,
            native: false,
            not_after: 0,
        },
        ticket: RequestContext {
            node,
            sent: Instant(1),
            deadline: Instant::FAR,
            op: Op::Release,
            server: 0,
        },
        give_up: Instant::FAR,
    }
}

/// A set of so many nodes that never answer.
pub(crate) fn of_silent(nodes: usize) -> Arc<Set> {
    let link = || -> Arc<dyn Link> {
        Arc::new(Slow {
            owing: false,
            parts: false,
            done: Arc::default(),
        })
    };
    let links = (0..nodes).map(|_| link()).collect();
    let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
    Arc::new(Set::new(
        links,
        clock,
        rng,
        Duration::from_secs(1),
        0.01,
        |_| (),
    ))
}

/// A node of which that is known.
struct Known(Option<bool>);

impl Link for Known {
    fn send(&self, _: Request, _: RequestContext, _: Arc<dyn Sink>, _: Instant) -> Option<Wakers> {
        None
    }

    fn shown(&self) -> Arc<str> {
        "known".into()
    }

    fn poll_met(&self, _: &Context<'_>) -> Poll<bool> {
        self.0.map_or(Poll::Pending, Poll::Ready)
    }

    fn close(&self) {}
}

#[test]
fn what_asks_once_waits_for_a_quorum_of_connections_or_until_there_can_be_none() {
    let (up, away, open) = (Some(true), Some(false), None);
    for (nodes, waits) in [
        (&[up, up, open][..], false),
        (&[up, open, away], true),
        (&[open, open, up], true),
        (&[open, away, away], false),
        (&[open], true),
    ] {
        let links = nodes
            .iter()
            .map(|known| Arc::new(Known(*known)) as Arc<dyn Link>);
        let (links, clock, rng) = (links.collect(), Arc::new(Still), Arc::new(SystemRng));
        let set = Set::new(links, clock, rng, Duration::from_secs(1), 0.01, |_| ());
        let mut meet = std::pin::pin!(set.meet(Duration::MAX));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(meet.as_mut().poll(&mut cx).is_pending(), waits, "{nodes:?}");
    }
}

/// A node that is connected to once a task has waited for it.
struct Comes(AtomicBool);

impl Link for Comes {
    fn send(&self, _: Request, _: RequestContext, _: Arc<dyn Sink>, _: Instant) -> Option<Wakers> {
        None
    }

    fn shown(&self) -> Arc<str> {
        "comes".into()
    }

    fn poll_met(&self, _: &Context<'_>) -> Poll<bool> {
        if self.0.swap(true, Ordering::Relaxed) {
            Poll::Ready(true)
        } else {
            Poll::Pending
        }
    }

    fn close(&self) {}
}

#[test]
fn what_was_asked_in_vain_is_asked_again_where_connections_were_lost() {
    let known = |known| Arc::new(Known(known)) as Arc<dyn Link>;
    for (link, before, again) in [
        (
            Arc::new(Comes(AtomicBool::new(false))) as Arc<dyn Link>,
            0,
            true,
        ),
        // It is the next one already.
        (known(Some(true)), 1, true),
        (known(Some(true)), 0, false),
        (known(Some(false)), 0, false),
    ] {
        let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
        let ttl = Duration::from_secs(1);
        let before = KnownConnects {
            connects: vec![before],
            left: ttl,
        };
        let set = Set::new(vec![link], clock, rng, ttl, 0.01, |_| ());
        let mut meets = std::pin::pin!(set.meets_again(&before));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(meets.as_mut().poll(&mut cx), Poll::Ready(again));
    }
}

/// A clock on which nothing happens while a task sleeps.
#[derive(Default)]
struct Passes(AtomicU64);

impl Clock for Passes {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        self.0.fetch_max(at.0, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn what_asks_twice_waits_for_connections_no_longer_than_what_asks_once() {
    let (clock, rng) = (Arc::new(Passes::default()), Arc::new(SystemRng));
    let links: Vec<Arc<dyn Link>> = vec![Arc::new(Known(None))];
    let ttl = Duration::from_secs(1);
    let mut set = Set::new(links, clock.clone(), rng, ttl, 0.01, |_| ());
    set.connect_timeout = Duration::from_secs(2);
    let asks = async {
        let before = set.met().await;
        set.meets_again(&before).await
    };
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(std::pin::pin!(asks).poll(&mut cx), Poll::Ready(false));
    assert_eq!(Instant(0).until(clock.now()), set.connect_timeout);
}

#[test]
fn one_fan_out_is_one_wake_up() {
    for (owing, expected) in [
        (
            [true; 3],
            &["sent to 0", "sent to 1", "sent to 2", "rung for 3"][..],
        ),
        (
            [false, true, false],
            &["sent to 0", "sent to 1", "sent to 2", "rung for 1"],
        ),
        ([false; 3], &["sent to 0", "sent to 1", "sent to 2"]),
    ] {
        let done = Arc::<Mutex<Vec<String>>>::default();
        let link = |owing| -> Arc<dyn Link> {
            let done = done.clone();
            Arc::new(Slow {
                owing,
                parts: false,
                done,
            })
        };
        let links = owing.into_iter().map(link).collect();
        let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
        let ttl = Duration::from_secs(1);
        let set = Set::new(links, clock, rng, ttl, 0.01, |_| ());
        let sink: Arc<dyn Sink> = Arc::new(Nobody);
        set.send((0..3).map(release), &sink);
        assert_eq!(*lock(&done), expected);
    }
}

fn set_of(parts: [bool; 2]) -> Set {
    let link = |parts| -> Arc<dyn Link> {
        Arc::new(Slow {
            owing: false,
            parts,
            done: Arc::default(),
        })
    };
    let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
    let links = parts.into_iter().map(link).collect();
    Set::new(links, clock, rng, Duration::from_secs(1), 0.01, |_| ())
}

#[test]
fn a_fault_is_the_locks_the_parts_or_the_nodes() {
    let (bad, good): (Arc<[u8]>, Arc<[u8]>) = (b"bad"[..].into(), b"good"[..].into());
    let long = Duration::from_secs(1);
    let out = |set: &Set| [&bad, &good].map(|key| [0, 1].map(|node| set.is_out(node, key)));
    let none = [[false; 2]; 2];
    // Node 0 is in one piece, node 1 in parts.
    for (node, of_lock, others) in [(0, true, false), (0, false, true), (1, false, false)] {
        let set = set_of([false, true]);
        let mut expected = none;
        (expected[0][node], expected[1][node]) = (true, others);
        set.shut(node, &bad, of_lock, long);
        assert_eq!(out(&set), expected);
        assert_eq!(set.has_failed(node, Some(&good)), others);
        assert_eq!(set.has_failed(node, None), others);
        // It refuses, in quarantine too.
        set.answered(node, Some(&bad), false);
        assert_eq!(out(&set), expected);
        set.answered(node, Some(&bad), true);
        assert_eq!(out(&set), none);
        assert!(!set.has_failed(node, Some(&bad)));
        if of_lock {
            continue;
        }
        set.silent(node, &bad, long);
        set.waited_in_vain(node, &bad);
        assert_eq!(out(&set), expected);
        let late = |set: &Set| [&bad, &good].map(|key| set.is_late(node, key));
        assert_eq!(late(&set), [true, others]);
        set.answered(node, Some(&bad), false);
        set.was_prompt(node, &bad);
        assert_eq!((out(&set), late(&set)), (none, [false; 2]));
    }
}

#[test]
fn more_locks_than_are_remembered_are_the_nodes_fault() {
    let set = set_of([false; 2]);
    let key = |n: u32| -> Arc<[u8]> { n.to_le_bytes().into() };
    let long = Duration::from_secs(1);
    for n in 0..1024 {
        set.shut(1, &key(n), true, long);
        assert!(!set.has_failed(1, None));
    }
    set.shut(1, &key(1024), true, long);
    assert!(set.is_out(1, &key(1024)) && set.has_failed(1, None));
    // Those whose time is over are forgotten.
    let set = set_of([false; 2]);
    for n in 0..3000 {
        set.shut(1, &key(n), true, Duration::ZERO);
    }
    assert!(!set.has_failed(1, None));
}
