//! The claim alone, over a world that a test makes up: the conditions of winning one by one, and
//! drawn events.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use proptest::prelude::*;

use super::env::BoundThread;
use super::*;
use crate::node::names::{Naming, aux};
use crate::node::{Fault, FaultKind, Op, Waits};
use crate::protocol::timing::Timing;

const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(1);
const NOW: Instant = Instant(1_000_000_000);

/// A world in which each node is in the state that the test says.
#[derive(Clone)]
struct World {
    terms: LockParams,
    out: Nodes,
    late: Nodes,
    stepped: u64,
    contended: bool,
    fence: u64,
}

impl Env for World {
    fn terms(&self) -> &LockParams {
        &self.terms
    }

    fn id(&self, node: usize) -> u64 {
        node as u64
    }

    fn is_met(&self, _: usize) -> bool {
        true
    }

    fn is_ours(&self, _: usize) -> bool {
        true
    }

    fn is_out(&self, node: usize) -> bool {
        self.out.contains(node)
    }

    fn is_late(&self, node: usize) -> bool {
        self.late.contains(node)
    }

    fn has_failed(&self, node: usize) -> bool {
        self.out.contains(node)
    }

    fn is_contended(&self, _: Instant) -> bool {
        self.contended
    }

    fn stepped(&self, _: usize) -> u64 {
        self.stepped
    }

    fn node_time(&self, _: usize, _: Instant) -> Option<((u64, u64), u64)> {
        None
    }

    fn server_time(&self, _: usize, _: u64, _: Instant) -> Option<(u64, u64)> {
        None
    }

    fn guess(&self, _: usize, _: Instant) -> Option<(u64, u64)> {
        None
    }

    fn draw_fence(&self, _: Instant) -> u64 {
        self.fence
    }

    fn max_ttl(&self) -> Duration {
        TTL
    }

    fn thread(&self) -> BoundThread {
        BoundThread::Alive
    }
}

fn world() -> World {
    World {
        terms: LockParams {
            keys: Arc::new(Keys {
                lock: b"lock:{k}"[..].into(),
                aux: aux("lock:", b"lock:{k}", Naming::Tagged),
                waits: Waits {
                    reservation: Duration::from_millis(200),
                    place: Duration::from_secs(60),
                    most: 10,
                },
                fence_ttl: Some(TTL),
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            label: Arc::default(),
            timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(50)),
            drift: 0.01,
            asked: crate::protocol::asked::LeaseOptions {
                ttl: TTL,
                renew: true,
                ..Default::default()
            },
            bound: None,
            group: Group::default(),
        },
        out: Nodes::NONE,
        late: Nodes::NONE,
        stepped: 0,
        contended: false,
        fence: 7,
    }
}

/// A claim that has asked all nodes at [`NOW`].
fn asked(world: &World) -> Claim {
    asked_by(world, false)
}

/// The same; whether its requester is a waiter, which may wait.
fn asked_by(world: &World, waits: bool) -> Claim {
    let value = [&b"0123456789"[..]; 4].concat();
    let beginning = ClaimInit {
        value: Value([&value[..], b"."].concat().into()),
        drawn: 7,
        block: 1,
        waits,
        queued: None,
        renew_every: TTL / 3,
        nodes: NODES,
    };
    let mut claim = Claim::new(beginning, NOW, world);
    let begins = Event::Begins {
        path: Path::Plain,
        nodes: Nodes::all(NODES),
        homes: Nodes::NONE,
    };
    let effects = claim.step(begins, NOW, world);
    assert_eq!(effects.asks.len(), NODES);
    claim
}

fn replies(claim: &mut Claim, world: &World, node: usize, reply: &Reply, at: Instant) -> Effects {
    let op = Op::Acquire {
        ttl: TTL,
        candidate: 7,
        home: false,
        let_in: false,
        block: 1,
    };
    let ticket = RequestContext {
        node,
        sent: NOW,
        deadline: NOW + Duration::from_millis(50),
        op,
        server: 1,
    };
    claim.step(Event::Replied { ticket, reply }, at, world)
}

fn granted(fence: u64) -> Reply {
    Reply::Granted { fence, lasts: None }
}

/// The nodes in the order in which they are home of the lock.
fn order(world: &World) -> Vec<usize> {
    home::order(&world.terms.keys.lock, 0..NODES as u64)
}

#[test]
fn an_attempt_is_won_by_all_five_conditions_and_not_by_four() {
    let soon = NOW + Duration::from_millis(1);
    let won = |world: &World, fences: [u64; 2], at| {
        let mut claim = asked(world);
        let order = order(world);
        for (node, fence) in order.iter().zip(fences) {
            replies(&mut claim, world, *node, &granted(fence), at);
        }
        claim.is_won()
    };
    assert!(won(&world(), [7, 7], soon));
    // Votes that would be over before the lease has its least validity.
    assert!(!won(&world(), [7, 7], NOW + Duration::from_millis(900)));
    // A lease that `max_hold` would end before that.
    let mut short = world();
    short.terms.asked.max_hold = Some(Duration::from_millis(50));
    assert!(!won(&short, [7, 7], soon));
    // Voters that store different fences are asked to store one first.
    assert!(!won(&world(), [7, 9], soon));
    // The home has refused, or has yet to answer.
    for (home, waits) in [(Some(Reply::Taken), false), (None, true)] {
        let world = world();
        let (mut claim, order) = (asked(&world), order(&world));
        if let Some(reply) = &home {
            let effects = replies(&mut claim, &world, order[0], reply, soon);
            // A try asks its home once more, by script, what stands there.
            assert_eq!(effects.asks.len(), 1);
            let refused = Reply::Refused {
                left: None,
                holder: None,
                place: None,
                subscribers: 1,
                shared: false,
            };
            replies(&mut claim, &world, order[0], &refused, soon);
        }
        for node in &order[1..] {
            replies(&mut claim, &world, *node, &granted(7), soon);
        }
        assert!(!claim.is_won(), "{home:?}");
        assert_eq!(claim.home_due().is_some(), waits, "{home:?}");
        if let Some(due) = claim.home_due() {
            let effects = claim.step(Event::HomeDue, due, &world);
            assert!(claim.is_won() && effects.homes.in_vain == Some(order[0]));
        }
    }
}

#[test]
fn a_waiter_hears_of_a_wait_for_its_home_that_was_too_long_for_the_votes() {
    let (world, soon) = (world(), NOW + Duration::from_millis(1));
    let (mut claim, order) = (asked_by(&world, true), order(&world));
    for node in &order[1..] {
        replies(&mut claim, &world, *node, &granted(7), soon);
    }
    assert!(claim.home_due().is_some());
    let seen = claim.progress();
    let effects = claim.step(Event::HomeDue, NOW + TTL, &world);
    assert!(!claim.is_won());
    assert!(effects.wake.is_some() && claim.progress() > seen);
}

#[test]
fn a_home_that_has_voted_when_it_was_asked_again_refuses_no_more() {
    let (world, soon) = (world(), NOW + Duration::from_millis(1));
    let mut claim = asked(&world);
    let order = order(&world);
    // Asked by script, it votes: what it said to plain commands was of a hold that was over.
    replies(&mut claim, &world, order[0], &Reply::Taken, soon);
    replies(&mut claim, &world, order[0], &granted(9), soon);
    let effects = replies(&mut claim, &world, order[1], &granted(7), soon);
    assert_eq!(effects.asks.len(), 1, "the larger fence is written back");
    let confirm = Op::Confirm {
        ttl: TTL,
        fence: 9,
        block: 1,
    };
    let answered = |claim: &mut Claim, node, reply: &Reply| {
        let ticket = RequestContext {
            node,
            sent: soon,
            deadline: soon + TTL / 20,
            op: confirm,
            server: 1,
        };
        claim.step(Event::Replied { ticket, reply }, soon, &world)
    };
    // Others have counted on there, so that the home is to store a larger one, and does not answer.
    let effects = answered(&mut claim, order[1], &Reply::Greater { fence: 10 });
    assert_eq!(effects.asks.len(), 2);
    let fault = Reply::Failed(Fault::new(FaultKind::Timeout, "no answer", true));
    answered(&mut claim, order[0], &fault);
    assert_eq!(claim.phase(), Phase::Asking);
    replies(&mut claim, &world, order[2], &granted(7), soon);
    // Two bear one fence, and the home's vote stands.
    assert!(claim.is_won());
}

#[test]
fn a_claim_that_is_won_is_released_on_every_node_that_may_know_it() {
    let (world, soon) = (world(), NOW + Duration::from_millis(1));
    let mut claim = asked(&world);
    let order = order(&world);
    for node in &order[..2] {
        replies(&mut claim, &world, *node, &granted(7), soon);
    }
    // The third has yet to answer.
    let effects = claim.step(Event::Released { stay: None }, soon, &world);
    assert!(effects.done && claim.end() == Instant::NEVER);
    let plan = effects.release.expect("something is left");
    let mut told: Vec<_> = plan.nodes.iter().map(|of| usize::from(of.node)).collect();
    told.sort_unstable();
    assert_eq!(told, [0, 1, 2]);
    assert!(plan.nodes.iter().all(|of| of.token && of.native));
}

/// What happens, and how long after what happened before, in ms.
fn event() -> impl Strategy<Value = (u8, usize, u64)> {
    (0u8..12, 0..NODES, 0u64..300)
}

proptest! {
    #[test]
    fn a_token_that_is_dead_stays_dead_and_a_lease_has_an_end(
        events in proptest::collection::vec(event(), 1..60)
    ) {
        let mut world = world();
        let mut claim = asked(&world);
        let (mut now, mut dead) = (NOW, false);
        for (what, node, after) in events {
            now = now + Duration::from_millis(after);
            let fault = Reply::Failed(Fault::new(FaultKind::Timeout, "no answer", true));
            let extended = Reply::Extended { repaired: false };
            let extend = Op::Extend { ttl: TTL, repair: crate::node::Repair::Yes, fence: 7, behind: 0 };
            let ticket = RequestContext { node, sent: now, deadline: now + TTL / 4, op: extend, server: 1 };
            let twin = claim.clone();
            let event = match what {
                0..=2 => {
                    let reply = [granted(7), fault, Reply::Taken][usize::from(what)].clone();
                    let effects = replies(&mut claim, &world, node, &reply, now);
                    prop_assert!(!dead || effects.asks.is_empty());
                    dead |= claim.phase() == Phase::Dead;
                    continue;
                }
                3 => Event::Replied { ticket, reply: &extended },
                4 => Event::Replied { ticket, reply: &Reply::NotMine },
                5 => Event::HomeDue,
                6 => Event::Tick,
                7 => { world.stepped += 100_000; Event::ClockStepped }
                8 => Event::Extends { lease: 0, ttl: TTL },
                9 => Event::LookedAt,
                10 => Event::Forfeited(LossReason::Closed),
                _ => Event::Released { stay: None },
            };
            let effects = claim.step(event, now, &world);
            // A step is a function of the claim, the event and the world.
            let mut again = twin;
            let same = again.step(event, now, &world);
            prop_assert_eq!(format!("{effects:?}"), format!("{same:?}"));
            prop_assert_eq!(&again, &claim);
            let hash = |claim: &Claim| { let mut hasher = DefaultHasher::new(); claim.hash(&mut hasher); hasher.finish() };
            prop_assert_eq!(hash(&again), hash(&claim));
            prop_assert!(!dead || claim.phase() == Phase::Dead);
            prop_assert!(!dead || effects.asks.is_empty() && !effects.done);
            prop_assert_eq!(claim.end() != Instant::NEVER, claim.phase() == Phase::Held);
            // A lease is over once.
            prop_assert!(!dead || effects.over.is_none());
            dead |= claim.phase() == Phase::Dead;
        }
    }
}
