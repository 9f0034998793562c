//! Whether nodes vote, while metrics are read: a node that said nothing of its votes lately is
//! asked for one, of a lock that no client has. So a node that is killed, or is well again, is
//! known though no program wants a lock.
//!
//! The vote is asked for as a lock's is, so that what keeps a node from voting shows by it: no
//! connection, no answer, no memory, no right, a quarantine. It ends by itself, and no lock rests
//! on what comes of it. Without readers nothing is asked, and no timer runs.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::names::{Naming, aux, beat_key};
use crate::node::{
    AfterRelease, Keys, Mode, Op, Reply, Request, RequestContext, Sink, TimeReading, Value, Waits,
    native,
};
use crate::protocol::set::{Outgoing, Set};
use crate::token::Token;
use crate::wakers::Wakers;

/// How often nodes are asked.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// For how long they are, after metrics were read.
pub(crate) const READ: Duration = Duration::from_secs(120);
/// How long a vote stands at most: it is gone before the next.
const TTL: Duration = Duration::from_secs(1);

/// See the [module documentation](self).
pub(crate) struct Heartbeat {
    set: Arc<Set>,
    node_timeout: Duration,
    read_until: AtomicU64,
    state: Mutex<HeartbeatState>,
}

#[derive(Default)]
struct HeartbeatState {
    runner: Wakers,
    /// It waits for a reader.
    asleep: bool,
    closed: bool,
}

impl Heartbeat {
    /// That of the nodes of `set`. It does nothing until it [runs](Heartbeat::run).
    pub(crate) fn new(set: Arc<Set>, node_timeout: Duration) -> Arc<Heartbeat> {
        Arc::new(Heartbeat {
            set,
            node_timeout,
            read_until: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Metrics are read now. Waits for nothing.
    pub(crate) fn read(&self) {
        let until = self.set.clock.now() + READ;
        self.read_until.store(until.0, Ordering::Relaxed);
        self.rouse(|state| std::mem::take(&mut state.asleep));
    }

    /// Ends [`run`](Heartbeat::run).
    pub(crate) fn close(&self) {
        self.rouse(|state| {
            state.closed = true;
            true
        });
    }

    fn rouse(&self, change: impl FnOnce(&mut HeartbeatState) -> bool) {
        let mut state = lock(&self.state);
        let wakers = if change(&mut state) {
            state.runner.take()
        } else {
            Wakers::default()
        };
        drop(state);
        wakers.wake();
    }

    fn is_read(&self, now: Instant) -> bool {
        let until = Instant(self.read_until.load(Ordering::Relaxed));
        now < until
    }

    /// Asks, as long as metrics are read, until it is [closed](Heartbeat::close).
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let goes_on = poll_fn(|cx| {
                let mut state = lock(&self.state);
                if state.closed || self.is_read(self.set.clock.now()) {
                    return Poll::Ready(!state.closed);
                }
                state.asleep = true;
                state.runner.park(cx)
            });
            if !goes_on.await {
                return;
            }
            let now = self.set.clock.now();
            self.beat(now);
            let mut timer = self.set.clock.sleep_until(now + BEAT);
            poll_fn(|cx| {
                if timer.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                let mut state = lock(&self.state);
                if state.closed {
                    Poll::Ready(())
                } else {
                    state.runner.park(cx)
                }
            })
            .await;
        }
    }

    /// Asks the nodes that said nothing of their votes since the last time.
    fn beat(&self, now: Instant) {
        let set = &self.set;
        let is_due = |node: &usize| set.last_word(*node).until(now) >= BEAT / 2;
        let due: Vec<usize> = (0..set.links.len()).filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        let ttl = TTL.min(set.max_ttl);
        let [name, token] = [(); 2].map(|()| Token::with_jitter(&*set.rng, 0).0);
        let key = beat_key(&set.namespace, &name.as_str()[..16]);
        let keys = Arc::new(Keys {
            aux: aux(&set.namespace, &key, Naming::Tagged),
            lock: key.into(),
            waits: Waits {
                reservation: ttl,
                place: ttl,
                most: 1,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        });
        let value = Value([token.as_str(), "."].concat().into_bytes().into());
        let op = Op::Acquire {
            ttl,
            candidate: 0,
            home: false,
            let_in: false,
            block: 1,
        };
        let deadline = now + self.node_timeout;
        let ask = |node| {
            let ends = |(time, server)| (native::key_end(time, ttl), server);
            let (not_after, server) = set.guess(node, now).map_or((0, 0), ends);
            Outgoing {
                request: Request {
                    op,
                    native: true,
                    keys: keys.clone(),
                    value: value.clone(),
                    waiter: None,
                    leaving: AfterRelease::Free,
                    not_after,
                },
                ticket: RequestContext {
                    node,
                    sent: now,
                    deadline,
                    op,
                    server,
                },
                give_up: deadline,
            }
        };
        let sink: Arc<dyn Sink> = Arc::new(Beat(set.clone()));
        set.send(due.into_iter().map(ask), &sink);
    }
}

/// What nodes answer.
struct Beat(Arc<Set>);

impl Sink for Beat {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>) {
        let Beat(set) = self;
        if let Some(time) = time {
            set.observe(ticket, time);
        }
        match reply {
            Reply::Quarantined { left } => set.quarantined(ticket.node, left),
            // One part says nothing of the others.
            Reply::Granted { .. } if !set.links[ticket.node].in_parts() => {
                set.quarantined(ticket.node, Duration::ZERO);
            }
            _ => {}
        }
        set.heard(ticket.node, &reply, set.clock.now());
    }

    fn wanted(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::clock::{Clock, Sleep};
    use crate::node::{Fault, FaultKind, Link};
    use crate::token::SystemRng;

    /// A clock that the test sets.
    struct ByHand(Arc<AtomicU64>);

    impl Clock for ByHand {
        fn now(&self) -> Instant {
            Instant(self.0.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, at: Instant) -> Sleep {
            let now = self.0.clone();
            Box::pin(poll_fn(move |_| {
                if now.load(Ordering::Relaxed) < at.0 {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            }))
        }
    }

    /// A node that counts its requests, and gives the answers that the test has set.
    struct Says {
        asked: Mutex<Vec<Request>>,
        reply: Mutex<Reply>,
        parts: bool,
    }

    impl Link for Says {
        fn send(
            &self,
            request: Request,
            ticket: RequestContext,
            sink: Arc<dyn Sink>,
            _: Instant,
        ) -> Option<Wakers> {
            let votes = matches!(request.op, Op::Acquire { .. });
            lock(&self.asked).push(request);
            let reply = match lock(&self.reply).clone() {
                Reply::Failed(fault) if fault.kind == FaultKind::NotReady && !votes => {
                    Reply::Released { held: false }
                }
                reply => reply,
            };
            sink.on_reply(ticket, reply, None);
            None
        }

        fn shown(&self) -> Arc<str> {
            "n".into()
        }

        fn in_parts(&self) -> bool {
            self.parts
        }

        fn close(&self) {}
    }

    const GRANTED: Reply = Reply::Granted {
        fence: 0,
        lasts: None,
    };

    fn failed(kind: FaultKind) -> Reply {
        Reply::Failed(Fault::new(kind, "x", true))
    }

    struct Played {
        now: Arc<AtomicU64>,
        node: Arc<Says>,
        set: Arc<Set>,
        heart: Arc<Heartbeat>,
        run: Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>,
    }

    impl Played {
        fn new(parts: bool) -> Played {
            let now = Arc::new(AtomicU64::new(1_000_000_000));
            let node = Arc::new(Says {
                asked: Mutex::default(),
                reply: Mutex::new(GRANTED),
                parts,
            });
            let clock = Arc::new(ByHand(now.clone()));
            let second = Duration::from_secs(1);
            let links: Vec<Arc<dyn Link>> = vec![node.clone()];
            let set = Set::new(links, clock, Arc::new(SystemRng), 60 * second, 0.01, drop);
            let set = Arc::new(set);
            let heart = Heartbeat::new(set.clone(), second / 4);
            Played {
                run: Some(Box::pin(heart.clone().run())),
                now,
                node,
                set,
                heart,
            }
        }

        /// Time passes; returns how often the node was asked meanwhile.
        fn passes(&mut self, seconds: u64) -> usize {
            let before = lock(&self.node.asked).len();
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..=10 * seconds {
                if let Some(run) = &mut self.run
                    && run.as_mut().poll(&mut cx).is_ready()
                {
                    self.run = None;
                }
                self.now.fetch_add(100_000_000, Ordering::Relaxed);
            }
            lock(&self.node.asked).len() - before
        }

        fn hears(&self, reply: &Reply) {
            self.set.heard(0, reply, self.set.clock.now());
        }

        fn says(&mut self, reply: Reply) -> bool {
            *lock(&self.node.reply) = reply;
            self.passes(3);
            self.set.votes(0)
        }
    }

    #[test]
    fn a_node_is_asked_while_metrics_are_read_and_at_no_other_time() {
        let mut played = Played::new(false);
        assert_eq!(played.passes(600), 0);
        played.heart.read();
        let asked = played.passes(100);
        assert!((49..=51).contains(&asked), "{asked}");
        played.heart.read();
        let asked = played.passes(600);
        assert!((60..=61).contains(&asked), "{asked}");
        assert_eq!(played.passes(600), 0);
        played.heart.read();
        assert!(played.passes(10) > 0);
        played.heart.close();
        assert_eq!(played.passes(10), 0);
    }

    #[test]
    fn each_beat_is_a_vote_of_a_lock_that_nobody_has() {
        let mut played = Played::new(false);
        played.heart.read();
        played.passes(6);
        let asked = lock(&played.node.asked);
        let keys: std::collections::HashSet<_> =
            asked.iter().map(|r| r.keys.lock.clone()).collect();
        assert_eq!(keys.len(), asked.len());
        for request in asked.iter() {
            let Op::Acquire { ttl, candidate, .. } = request.op else {
                panic!("{:?}", request.op);
            };
            assert!(ttl < BEAT && candidate == 0 && request.value.is_ours());
            assert_eq!(crate::node::names::name_of("", &request.keys.lock), None);
        }
    }

    #[test]
    fn a_node_that_votes_for_locks_is_not_asked() {
        let mut played = Played::new(false);
        played.heart.read();
        for _ in 0..20 {
            played.hears(&GRANTED);
            assert_eq!(played.passes(0), 0);
        }
        assert!(played.passes(5) > 0);
    }

    #[test]
    fn what_keeps_a_node_from_voting_shows_and_ends() {
        let mut played = Played::new(false);
        played.heart.read();
        let left = Duration::from_secs(40);
        for wrong in [
            failed(FaultKind::Unreachable),
            failed(FaultKind::Timeout),
            failed(FaultKind::NotReady),
            failed(FaultKind::Misconfigured),
            failed(FaultKind::Foreign),
            Reply::Quarantined { left },
        ] {
            assert!(!played.says(wrong.clone()), "{wrong:?}");
            assert_eq!(
                !played.set.quarantine(0).is_zero(),
                matches!(wrong, Reply::Quarantined { .. })
            );
            assert!(played.says(GRANTED), "{wrong:?}");
            assert!(played.set.quarantine(0).is_zero());
        }
        // What is the client's own, or the lock's, is not the node's.
        assert!(played.says(failed(FaultKind::Refused)));
        let of_lock = Fault::new(FaultKind::NotReady, "x", true).of_lock(true);
        assert!(played.says(Reply::Failed(of_lock)));
    }

    #[test]
    fn what_a_full_node_lengthens_is_no_vote() {
        let mut played = Played::new(false);
        played.heart.read();
        assert!(!played.says(failed(FaultKind::NotReady)));
        played.hears(&Reply::Extended { repaired: false });
        assert!(!played.set.votes(0));
        // Any answer of a node that was silent says that it is there.
        assert!(!played.says(failed(FaultKind::Timeout)));
        played.hears(&Reply::Extended { repaired: false });
        assert!(played.set.votes(0));
    }

    #[test]
    fn one_part_of_a_node_says_nothing_of_it() {
        let mut played = Played::new(true);
        played.heart.read();
        assert!(played.says(failed(FaultKind::Unreachable)));
        let left = Duration::from_secs(40);
        assert!(played.says(Reply::Quarantined { left }));
    }
}
