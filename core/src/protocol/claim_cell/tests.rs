//! By whose clock an extension is bounded, where one address has led to two servers.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::clock::{Clock, Sleep};
use crate::node::names::{Naming, aux};
use crate::node::{Fault, Keys, Link, Mode, Repair, Waits};
use crate::protocol::claim::Path;
use crate::protocol::claim_cell::ExtendResult;
use crate::protocol::timing::Timing;
use crate::token::SystemRng;

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const NOW: Instant = Instant(1_000_000_000);
/// The server that gave the votes, and the server that was promoted; what their clocks show.
const FORMER: (u64, u64) = (7, 50_000_000);
const PROMOTED: (u64, u64) = (8, 90_000_000);

/// A clock that is set by hand.
pub(crate) struct ByHand(pub(crate) AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A node that answers when the test has it answer.
#[derive(Default)]
pub(crate) struct Slow(Mutex<Vec<(RequestContext, Arc<dyn Sink>)>>);

impl Link for Slow {
    fn send(
        &self,
        _: Request,
        asked: RequestContext,
        sink: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        lock(&self.0).push((asked, sink));
        None
    }

    fn shown(&self) -> Arc<str> {
        "slow".into()
    }

    fn close(&self) {}
}

impl Slow {
    /// That server answers what was asked.
    fn answers(&self, clock: &ByHand, (server, time): (u64, u64), reply: Reply) {
        let (ticket, sink) = lock(&self.0).pop().expect("it is asked");
        let reading = TimeReading {
            time,
            at: clock.now(),
        };
        sink.on_reply(RequestContext { server, ..ticket }, reply, Some(reading));
    }

    /// How much it has not answered.
    pub(crate) fn asked(&self) -> usize {
        lock(&self.0).len()
    }

    /// It answers the same to all that it was asked.
    pub(crate) fn answers_all(&self, reply: &Reply) {
        let asked = std::mem::take(&mut *lock(&self.0));
        for (ticket, sink) in asked {
            sink.on_reply(ticket, reply.clone(), None);
        }
    }
}

pub(crate) fn terms(key: &[u8]) -> LockParams {
    LockParams {
        keys: Arc::new(Keys {
            lock: key.into(),
            aux: aux("lock:", key, Naming::Tagged),
            waits: Waits {
                reservation: Duration::from_millis(200),
                place: Duration::from_secs(60),
                most: 10,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        }),
        label: Default::default(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(50)),
        drift: 0.01,
        asked: crate::protocol::asked::LeaseOptions {
            renew: true,
            ..Default::default()
        },
        bound: None,
        group: Default::default(),
    }
}

#[test]
fn every_lease_of_a_client_is_taken_back_by_the_server_that_was_promoted() {
    let (node, clock) = (Arc::new(Slow::default()), Arc::new(ByHand(NOW.0.into())));
    let links: Vec<Arc<dyn Link>> = vec![node.clone()];
    let set = Set::new(links, clock.clone(), Arc::new(SystemRng), TTL, 0.01, |_| ());
    let set = Arc::new(set);
    let holds: Vec<_> = [b"lock:{a}", b"lock:{b}", b"lock:{c}"]
        .map(|key| {
            let hold = ClaimCell::begin(&set, &terms(key), 1, None);
            let vote = Reply::Granted {
                fence: 0,
                lasts: None,
            };
            node.answers(&clock, FORMER, vote);
            assert!(hold.is_held());
            hold
        })
        .into();
    let bounded = |hold: &ClaimCell, now| hold.renewal_of(0, now);
    let before = bounded(&holds[1], NOW);
    let taken_back = |(op, not_after, by): (Op, u64, u64), (server, time): (u64, u64)| {
        let repair = Repair::InQuarantine { server };
        assert!(
            matches!(op, Op::Extend { repair: r, .. } if r == repair),
            "{op:?}"
        );
        assert!(by == server && (time..time + 10_000_000).contains(&not_after));
    };
    taken_back(before, FORMER);
    // The first extension is answered by the other server, whose clock shows another time.
    let mut extends = pin!(holds[0].extend(0, TTL));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(extends.as_mut().poll(&mut cx).is_pending());
    node.answers(&clock, PROMOTED, Reply::Extended { repaired: true });
    taken_back(bounded(&holds[0], NOW), PROMOTED);
    for hold in &holds[1..] {
        assert_eq!(bounded(hold, NOW), before);
    }
    // Near the end of the vote the bound is that end.
    let later = NOW + Duration::from_millis(9_880);
    let (_, not_after, _) = bounded(&holds[1], later);
    assert!(not_after <= FORMER.1 + 9_900_000, "{not_after}");
    // And behind it nothing is taken back.
    let over = NOW + TTL;
    let (op, _, by) = bounded(&holds[1], over);
    let repair = Repair::Yes;
    assert!(matches!(op, Op::Extend { repair: r, .. } if r == repair) && by == PROMOTED.0);
}

/// A request of the last moment is bounded by the end that the lease had then.
#[test]
fn an_extension_that_came_too_late_is_asked_for_again_where_another_has_lengthened_the_lease() {
    for lengthened in [true, false] {
        let (node, clock) = (Arc::new(Slow::default()), Arc::new(ByHand(NOW.0.into())));
        let links: Vec<Arc<dyn Link>> = vec![node.clone()];
        let set = Set::new(links, clock.clone(), Arc::new(SystemRng), TTL, 0.01, |_| ());
        let hold = ClaimCell::begin(&Arc::new(set), &terms(b"lock:{a}"), 1, None);
        let vote = Reply::Granted {
            fence: 0,
            lasts: None,
        };
        node.answers(&clock, FORMER, vote);
        let later = NOW + Duration::from_millis(9_880);
        clock.0.store(later.0, Ordering::Relaxed);
        let late = (FORMER.0, FORMER.1 + 9_885_000);
        let mut cx = Context::from_waker(Waker::noop());
        let mut last = pin!(hold.extend(hold.lease(), TTL));
        assert!(last.as_mut().poll(&mut cx).is_pending());
        let mut renewal = pin!(hold.extend(hold.lease(), TTL));
        if lengthened {
            assert!(renewal.as_mut().poll(&mut cx).is_pending());
            node.answers(
                &clock,
                (FORMER.0, FORMER.1 + 9_880_000),
                Reply::Extended { repaired: false },
            );
        }
        node.answers(&clock, late, Reply::Late);
        match last.as_mut().poll(&mut cx) {
            Poll::Pending if lengthened => {
                node.answers(&clock, late, Reply::Extended { repaired: false });
                let ended = last.as_mut().poll(&mut cx);
                assert!(
                    matches!(ended, Poll::Ready(ExtendResult::Done)),
                    "{ended:?}"
                );
            }
            ended => {
                let unanswered = matches!(ended, Poll::Ready(ExtendResult::Unanswered(_)));
                assert!(unanswered && !lengthened, "{ended:?}");
            }
        }
    }
}

/// Three nodes that have voted for a lease, and answer when the test has them answer.
fn voted(clock: &Arc<ByHand>) -> (Vec<Arc<Slow>>, Arc<ClaimCell>) {
    let nodes: Vec<Arc<Slow>> = (0..3).map(|_| Arc::default()).collect();
    let links = nodes.iter().map(|node| node.clone() as Arc<dyn Link>);
    let (links, rng) = (links.collect(), Arc::new(SystemRng));
    let set = Set::new(links, clock.clone(), rng, TTL, 0.01, |_| ());
    let hold = ClaimCell::begin(&Arc::new(set), &terms(b"lock:{a}"), 1, None);
    for node in &nodes {
        let vote = Reply::Granted {
            fence: 0,
            lasts: None,
        };
        node.answers(clock, FORMER, vote);
    }
    assert!(hold.is_held());
    (nodes, hold)
}

/// A vote that was lengthened and is worth less than was asked for, since its node's clock has
/// stepped meanwhile, is made up for by a vote that is still to come.
#[test]
fn an_extension_that_two_of_three_confirm_too_short_waits_for_the_third() {
    const STEP: u64 = 3_000_000;
    for comes in [true, false] {
        let clock = Arc::new(ByHand(NOW.0.into()));
        let (nodes, hold) = voted(&clock);
        let later = NOW + Duration::from_secs(1);
        clock.0.store(later.0, Ordering::Relaxed);
        let mut cx = Context::from_waker(Waker::noop());
        let mut extends = pin!(hold.extend(hold.lease(), TTL));
        assert!(extends.as_mut().poll(&mut cx).is_pending());
        let on_time = (FORMER.0, FORMER.1 + 1_000_000);
        let extended = || Reply::Extended { repaired: false };
        let asked = lock(&nodes[0].0).last().expect("it is asked").0;
        nodes[0].answers(&clock, on_time, extended());
        // By a reply to another request.
        let (server, time, at) = (FORMER.0, on_time.1 + STEP, later);
        hold.set
            .observe(RequestContext { server, ..asked }, TimeReading { time, at });
        nodes[1].answers(&clock, on_time, extended());
        let short = extends.as_mut().poll(&mut cx);
        assert!(short.is_pending(), "{short:?}");
        let reply = if comes {
            extended()
        } else {
            Reply::Failed(Fault::new(FaultKind::Timeout, "late", true))
        };
        nodes[2].answers(&clock, on_time, reply);
        match extends.as_mut().poll(&mut cx) {
            Poll::Ready(ExtendResult::Done) => assert!(comes),
            ended => {
                let unanswered = matches!(ended, Poll::Ready(ExtendResult::Unanswered(_)));
                assert!(unanswered && !comes, "{ended:?}");
            }
        }
    }
}

/// A renewal that was under way when the lease was passed on tells the node the label of the lease
/// that was: the next one follows it at once, and that is all.
#[test]
fn a_node_that_was_told_the_former_label_is_told_the_present_one_once() {
    let clock = Arc::new(ByHand(NOW.0.into()));
    let (nodes, hold) = voted(&clock);
    let asked = |node: &Slow| lock(&node.0).len();
    let renewed = |node: &Slow, after: Duration| {
        let time = FORMER.1 + after.as_micros() as u64;
        node.answers(
            &clock,
            (FORMER.0, time),
            Reply::Extended { repaired: false },
        );
    };
    let tends = |after: Duration| {
        clock.0.store((NOW + after).0, Ordering::Relaxed);
        assert!(hold.tend().is_some());
    };
    let ms = Duration::from_millis;
    tends(TTL * 2 / 5);
    assert!(nodes.iter().all(|node| asked(node) == 1));
    let next = LockParams {
        label: Arc::new("next".to_owned()),
        ..terms(b"lock:{a}")
    };
    clock
        .0
        .store((NOW + TTL * 2 / 5 + ms(1)).0, Ordering::Relaxed);
    assert!(hold.pass_on(&next));
    for node in &nodes {
        renewed(node, TTL * 2 / 5 + ms(1));
    }
    tends(TTL * 2 / 5 + ms(2));
    assert!(nodes.iter().all(|node| asked(node) == 1));
    for node in &nodes {
        renewed(node, TTL * 2 / 5 + ms(2));
    }
    tends(TTL * 2 / 5 + ms(3));
    assert!(nodes.iter().all(|node| asked(node) == 0));
}

/// A node that writes down what it is asked.
#[derive(Default)]
struct LeaseOptions(Mutex<Vec<Request>>);

impl Link for LeaseOptions {
    fn send(
        &self,
        request: Request,
        _: RequestContext,
        _: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        lock(&self.0).push(request);
        None
    }

    fn shown(&self) -> Arc<str> {
        "asked".into()
    }

    fn close(&self) {}
}

#[test]
fn what_a_writer_reserves_at_other_nodes_lasts_for_its_ttl_at_most_and_goes_with_its_place() {
    let second = Duration::from_secs(1);
    for (ttl, long) in [(TTL, Duration::from_millis(1_800)), (second, second)] {
        let nodes: Vec<Arc<LeaseOptions>> = (0..3).map(|_| Arc::default()).collect();
        let links = nodes.iter().map(|node| node.clone() as Arc<dyn Link>);
        let clock = Arc::new(ByHand(NOW.0.into()));
        let set = Set::new(
            links.collect(),
            clock,
            Arc::new(SystemRng),
            TTL,
            0.01,
            |_| (),
        );
        let mut terms = terms(b"lock:{a}");
        terms.timing = Timing::of(ttl, 0.01, 0.1, Duration::from_millis(50));
        let waiter = Waiter {
            inbox: b"inbox"[..].into(),
            number: 1,
        };
        let hold = ClaimCell::new(&Arc::new(set), &terms, 1, Some(waiter), None, NOW);
        let asked = |node: usize| -> Vec<(Op, bool)> {
            let asked = lock(&nodes[node].0).split_off(0).into_iter();
            asked.map(|one| (one.op, one.waiter.is_some())).collect()
        };
        hold.open(Nodes::one(1), Nodes::one(1), Path::Script, NOW);
        assert!(matches!(asked(1)[..], [(Op::Acquire { .. }, true)]));
        hold.reserve(1, NOW);
        for node in [0, 2] {
            assert_eq!(asked(node), [(Op::Reserve { long }, true)]);
        }
        assert!(asked(1).is_empty());
        hold.give_up(None);
        for node in [0, 1, 2] {
            assert_eq!(asked(node), [(Op::Release, true)], "{node}");
        }
        // What comes too late reserves nothing.
        hold.reserve(1, NOW);
        assert!((0..3).all(|node| asked(node).is_empty()));
    }
}
