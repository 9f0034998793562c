//! The shell in all interleavings of two threads: a renewal, a release, a loss, a lease that is
//! passed on, and an export beside each other.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::Context;
use std::time::Duration;

use loom::thread;

use super::tests::terms;
use super::*;
use crate::clock::{Clock, Sleep};
use crate::node::{Fault, Link, Op, Reply};
use crate::sync::explore::{explore, wait};
use crate::token::SystemRng;

/// When the leases are won, and when their renewal is due.
const WON: u64 = 1_000_000_000;
const DUE: u64 = WON + 4_000_000_000;

/// A clock that the test sets.
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A node that has a token, and answers at once. As a connection does, it asks whether a request is
/// still wanted in the moment in which it is written, behind all that was written before.
#[derive(Default)]
struct Node(Mutex<bool>);

impl Link for Node {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        let mut has = lock(&self.0);
        let reply = if sink.wanted() {
            match request.op {
                Op::Acquire { .. } => {
                    *has = true;
                    Reply::Granted {
                        fence: 0,
                        lasts: None,
                    }
                }
                Op::Extend { .. } => {
                    let repaired = !std::mem::replace(&mut *has, true);
                    Reply::Extended { repaired }
                }
                _ => Reply::Released {
                    held: std::mem::take(&mut *has),
                },
            }
        } else {
            Reply::Failed(Fault::unwanted())
        };
        drop(has);
        sink.on_reply(ticket, reply, None);
        None
    }

    fn shown(&self) -> Arc<str> {
        "node".into()
    }

    fn close(&self) {}
}

/// A lease of one node, whose renewal is due.
fn lease() -> (Arc<Node>, Arc<ClaimCell>) {
    let (node, clock) = (Arc::new(Node::default()), Arc::new(ByHand(WON.into())));
    let set = Set::new(
        vec![node.clone() as _],
        clock.clone(),
        Arc::new(SystemRng),
        Duration::from_secs(10),
        0.01,
        |_| (),
    );
    let hold = ClaimCell::begin(&Arc::new(set), &terms(b"lock:{a}"), 1, None);
    assert!(hold.is_held());
    clock.0.store(DUE, Ordering::Relaxed);
    (node, hold)
}

fn beside<T: 'static>(
    hold: &Arc<ClaimCell>,
    act: impl FnOnce(&ClaimCell) -> T + 'static,
) -> thread::JoinHandle<T> {
    let hold = hold.clone();
    thread::spawn(move || act(&hold))
}

#[test]
fn a_renewal_beside_a_release_leaves_nothing_on_the_node() {
    explore(3, || {
        let (node, hold) = lease();
        let renews = beside(&hold, |hold| hold.tend());
        assert!(hold.release().0);
        renews.join().unwrap();
        assert!(!*lock(&node.0), "the token stays");
    });
}

#[test]
fn a_renewal_beside_a_loss_does_not_revive_the_lease() {
    explore(3, || {
        let (node, hold) = lease();
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        hold.on_lost(
            0,
            Box::new(move |_| _ = count.fetch_add(1, Ordering::Relaxed)),
        );
        let renews = beside(&hold, |hold| hold.tend());
        hold.forfeit(LossReason::Forced);
        renews.join().unwrap();
        assert_eq!(hold.end(), Instant::NEVER);
        assert!(!hold.is_held() && hold.loss(0) == Some(LossReason::Forced));
        assert_eq!(told.load(Ordering::Relaxed), 1, "once");
        assert!(!*lock(&node.0), "the token stays");
    });
}

#[test]
fn the_loss_of_a_lease_that_was_passed_on_wakes_its_watcher() {
    explore(3, || {
        let (_, hold) = lease();
        let passes = beside(&hold, |hold| hold.pass_on(&terms(b"lock:{a}")));
        let watches = beside(&hold, |hold| {
            let hold = hold.me.upgrade().expect("it is held");
            // The previous lease is lost for no user: its user has released it.
            if hold.lease() == 1 {
                let mut watch = hold.lost(1);
                wait(|cx| Pin::new(&mut watch).poll(&mut Context::from_waker(cx.waker())));
            }
        });
        assert!(passes.join().unwrap());
        hold.forfeit(LossReason::Forced);
        watches.join().unwrap();
    });
}

#[test]
fn a_lease_is_exported_or_released_and_never_both() {
    explore(3, || {
        let (node, hold) = lease();
        let exports = beside(&hold, |hold| hold.export(0).is_some());
        let (released, _) = hold.release();
        let exported = exports.join().unwrap();
        assert_ne!(exported, released);
        assert_eq!(
            *lock(&node.0),
            exported,
            "an export leaves the votes, a release does not"
        );
    });
}
