//! The queue in all interleavings: each call that waits gets its turn, none gets it beside another,
//! and nothing stays when all have gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use super::tests::terms;
use super::*;
use crate::clock::{Clock, Instant, Sleep};
use crate::node::{Link, Op, Reply, Request, RequestContext, Sink, Subscriber};
use crate::protocol::loss::LossReason;
use crate::protocol::renewal::Watchdog;
use crate::protocol::set::Set;
use crate::sync::explore::{ExploreWaker, explore, wait};
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

/// A node that grants everything at once.
struct Willing;

impl Link for Willing {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        _: Instant,
    ) -> Option<Wakers> {
        if let Op::Acquire { .. } = request.op {
            sink.on_reply(
                ticket,
                Reply::Granted {
                    fence: 0,
                    lasts: None,
                },
                None,
            );
        }
        None
    }

    fn shown(&self) -> Arc<str> {
        "willing".into()
    }

    fn close(&self) {}

    fn subscribe(&self, _: Arc<dyn Subscriber>) {}
}

/// What the callers of one client share.
struct Shop {
    lines: Arc<LocalQueues>,
    set: Arc<Set>,
    watchdog: Arc<Watchdog>,
    /// The calls that ask or hold.
    inside: AtomicUsize,
    served: AtomicUsize,
}

impl Shop {
    fn new() -> Arc<Shop> {
        let (clock, rng) = (Arc::new(Still), Arc::new(SystemRng));
        let (links, ttl) = (vec![Arc::new(Willing) as _], Duration::from_secs(1));
        Arc::new(Shop {
            lines: Arc::default(),
            set: Arc::new(Set::new(links, clock.clone(), rng, ttl, 0.01, |_| ())),
            watchdog: Watchdog::new(clock),
            inside: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
        })
    }

    fn enter(&self) -> LocalPlace {
        self.lines.enter(&terms(), 9).expect("not full")
    }

    /// Waits for a lease or the turn to win one, and gives it up.
    fn serve(&self, mut place: LocalPlace) {
        let (hold, watched) = match wait(|cx| place.poll_turn(cx)) {
            Grant::Given(given) => {
                self.goes_in();
                given
            }
            Grant::Ask => {
                self.goes_in();
                let hold = ClaimCell::begin(&self.set, &terms(), 1, None);
                assert!(hold.is_held());
                place.won(&hold);
                let watched = self.watchdog.watch(hold.clone());
                (hold, watched)
            }
        };
        thread::yield_now();
        self.served.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.inside.fetch_sub(1, Ordering::Relaxed), 1);
        if let PassOutcome::Not(_watched) = self.lines.pass(&hold, watched) {
            hold.release();
        }
    }

    fn goes_in(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0);
    }

    fn is_left(&self) {
        assert!(lock(&self.lines.0).is_empty(), "a line stays");
        assert!(self.watchdog.leases().is_empty(), "a lease stays");
    }
}

fn spawn(shop: &Arc<Shop>, act: impl FnOnce(&Shop) + 'static) -> JoinHandle<()> {
    let shop = shop.clone();
    thread::spawn(move || act(&shop))
}

#[test]
fn all_that_wait_are_served_one_at_a_time() {
    explore(3, || {
        let shop = Shop::new();
        let threads = [(); 2].map(|()| spawn(&shop, |shop| shop.serve(shop.enter())));
        shop.serve(shop.enter());
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shop.served.load(Ordering::Relaxed), 3);
        shop.is_left();
    });
}

#[test]
fn whoever_gives_up_at_any_moment_holds_up_nobody() {
    explore(3, || {
        let shop = Shop::new();
        // In this order in the line.
        let (first, mut second, third) = (shop.enter(), shop.enter(), shop.enter());
        let leaves = spawn(&shop, move |_| {
            let waker = Waker::from(ExploreWaker::new());
            let turn = second.poll_turn(&Context::from_waker(&waker));
            thread::yield_now();
            // It may have been called meanwhile, by its turn or with a lease.
            match turn {
                Poll::Pending => drop(second),
                Poll::Ready(Grant::Ask) => drop(second),
                Poll::Ready(Grant::Given((hold, watched))) => {
                    drop(watched);
                    hold.release();
                }
            }
        });
        let waits = spawn(&shop, move |shop| shop.serve(third));
        shop.serve(first);
        leaves.join().unwrap();
        waits.join().unwrap();
        assert_eq!(shop.served.load(Ordering::Relaxed), 2);
        shop.is_left();
    });
}

#[test]
fn a_lease_that_is_lost_as_it_is_won_calls_the_next() {
    explore(3, || {
        let shop = Shop::new();
        let (first, second) = (shop.enter(), shop.enter());
        let waits = spawn(&shop, move |shop| shop.serve(second));
        let hold = ClaimCell::begin(&shop.set, &terms(), 1, None);
        let lost = hold.clone();
        let loses = spawn(&shop, move |_| lost.forfeit(LossReason::Closed));
        first.won(&hold);
        loses.join().unwrap();
        waits.join().unwrap();
        shop.is_left();
    });
}
