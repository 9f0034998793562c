//! What comes in an order that one connection alone does not bring about: a call
//! over the new one may overtake a refusal over the old.

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::mutex::lock;
use crate::node::names::{Naming, companions};
use crate::node::{Keys, Link, Mode, Op, Reply, Request, Sink, Subscriber, Ticket, Waits};
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

type Asked = (Request, Ticket, Arc<dyn Sink>);

/// A node that answers when it is told to.
#[derive(Default)]
struct Slow {
    asked: Mutex<Vec<Asked>>,
    subscriber: OnceLock<Arc<dyn Subscriber>>,
}

impl Slow {
    /// The only request that waits for an answer.
    fn only(&self) -> Option<Asked> {
        let mut asked = lock(&self.asked);
        assert!(asked.len() <= 1);
        asked.pop()
    }
}

impl Link for Slow {
    fn send(
        &self,
        request: Request,
        ticket: Ticket,
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

fn terms() -> Terms {
    Terms {
        keys: Arc::new(Keys {
            lock: b"lock:{k}"[..].into(),
            companions: companions("lock:", b"lock:{k}", Naming::Tagged),
            waits: Waits {
                reservation: Duration::from_millis(200),
                place: Duration::from_secs(60),
                most: 10,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
        }),
        label: "".into(),
        timing: Timing::of(
            Duration::from_secs(10),
            0.01,
            0.1,
            Duration::from_millis(50),
        ),
        drift: 0.01,
        renew: true,
        max_hold: None,
        fair: false,
        keep: Duration::ZERO,
        gone: None,
        group: Default::default(),
    }
}

#[test]
fn a_call_that_overtakes_the_refusal_is_answered() {
    let (node, terms) = (Arc::new(Slow::default()), terms());
    let (links, ttl) = (vec![node.clone() as Arc<dyn Link>], terms.timing.ttl);
    let channel: Arc<[u8]> = b"lock:#in:1"[..].into();
    let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
    let inbox = Inbox::new(channel, &links);
    let set = Arc::new(Set::new(links, clock, rng, ttl, 0.01, |_| ()));
    // So that the home alone is asked first.
    set.contention.note(&terms.keys.lock, set.clock.now());
    let wait = Wait {
        limit: None,
        lines: &Arc::default(),
        inbox: &inbox,
        max_waiters: 1,
    };
    let mut acquire = Box::pin(acquire(&set, &terms, b"k", wait, || None::<()>));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut turn = || assert!(acquire.as_mut().poll(&mut cx).is_pending());
    turn();
    let (request, ticket, sink) = node.only().expect("it is asked");
    let number = request.waiter.expect("one that may be queued").number;
    node.subscriber
        .get()
        .expect("subscribed to")
        .on_message(0, number);
    turn();
    assert!(node.only().is_none(), "the home has yet to answer");
    let refused = Reply::Refused {
        left: Some(Duration::from_secs(10)),
        holder: None,
        place: Some(0),
        subscribers: 1,
        shared: false,
    };
    sink.on_reply(ticket, refused, None);
    turn();
    let (request, ..) = node.only().expect("the call is answered");
    assert!(matches!(request.op, Op::Acquire { home: true, .. }));
}
