//! The link to a `memory://` node of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::MemoryNode;
use crate::clock::{Clock, Instant};
use crate::mutex::lock;
use crate::node::native::{Outcome, key_end, outcome};
use crate::node::{Fault, Link, Op, Reply, Request, RequestContext, Sink, Subscriber, TimeReading};
use crate::process::PerProcess;
use crate::wakers::Wakers;

/// A node that several clients of this process may share.
#[derive(Default)]
struct SharedNode {
    node: MemoryNode,
    /// The subscriptions, by inbox.
    subscriptions: HashMap<Arc<[u8]>, InboxSubscription>,
}

/// A client's subscription of its inbox on this node, and which of its nodes
/// this is to it.
#[derive(Clone)]
struct InboxSubscription {
    node: usize,
    subscriber: Arc<dyn Subscriber>,
}

/// The nodes of this process by name, for `memory://NAME`. A forked child has others.
#[derive(Default)]
struct MemoryNodes {
    named: HashMap<String, Arc<Mutex<SharedNode>>>,
    /// The number of nodes at which those without a client and without a lock are dropped.
    sweep_at: usize,
}
static NODES: PerProcess<Mutex<MemoryNodes>> = PerProcess::new();

impl MemoryNodes {
    /// The node of that name. Where no client has the node, it stays for as long as a lock is held
    /// or kept there: a later client may adopt that lock, or has to find it taken.
    fn get(&mut self, name: &str, now: Instant) -> Arc<Mutex<SharedNode>> {
        if self.named.len() >= self.sweep_at {
            // A second reference is a link, or a link in the making: links are made under this lock
            // alone.
            let is_linked = |node: &Arc<_>| Arc::strong_count(node) > 1;
            self.named
                .retain(|_, node| is_linked(node) || lock(node).node.has_locks(now));
            self.sweep_at = 64.max(2 * self.named.len());
        }
        self.named.entry(name.to_owned()).or_default().clone()
    }
}

/// Forgets all `memory://` nodes: those that links still know live on in them.
pub(crate) fn forget() {
    *lock(NODES.get()) = MemoryNodes::default();
}

/// The link to a `memory://` node: answers within the call, and delivers the
/// messages that it gave rise to.
pub(crate) struct MemoryLink {
    shared: Arc<Mutex<SharedNode>>,
    /// The node's place in the set.
    node: usize,
    /// The client's.
    inbox: Arc<[u8]>,
    clock: Arc<dyn Clock>,
    shown: Arc<str>,
}

impl MemoryLink {
    pub(crate) fn new(
        name: &str,
        node: usize,
        inbox: Arc<[u8]>,
        shown: Arc<str>,
        clock: Arc<dyn Clock>,
    ) -> MemoryLink {
        let shared = lock(NODES.get()).get(name, clock.now());
        MemoryLink {
            shared,
            node,
            inbox,
            clock,
            shown,
        }
    }
}

impl Link for MemoryLink {
    fn send(
        &self,
        mut request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        _give_up: Instant,
    ) -> Option<Wakers> {
        // A node in memory lives as long as its process, so it needs no guard.
        let (reply, time, told) = {
            let mut shared = lock(&self.shared);
            // The sink is asked under the node's lock, so that no release can come in between. The
            // caller of `send` has none of its own state locked, so the sink may look at that here.
            if !sink.wanted() {
                drop(shared);
                sink.on_reply(ticket, Reply::Failed(Fault::unwanted()), None);
                return None;
            }
            let now = self.clock.now();
            shared.node.sweep(now);
            request.leaving = request.leaving.at(now);
            let (reply, messages) = match natively(&mut shared.node, &mut request, now) {
                Some(reply) => (reply, Vec::new()),
                None => {
                    let (answer, messages) = shared.node.execute(&request, None, now);
                    (answer.expect("no record was asked for"), messages)
                }
            };
            let told: Vec<_> = messages
                .into_iter()
                .filter_map(|(inbox, hint)| Some((shared.subscriptions.get(&inbox)?.clone(), hint)))
                .collect();
            let (time, at) = (MemoryNode::time(now), now);
            (reply, TimeReading { time, at }, told)
        };
        sink.on_reply(ticket, reply, Some(time));
        for (InboxSubscription { node, subscriber }, hint) in told {
            subscriber.on_message(node, hint);
        }
        None
    }

    fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let mut shared = lock(&self.shared);
        shared.node.subscribe(&self.inbox);
        let subscription = InboxSubscription {
            node: self.node,
            subscriber: subscriber.clone(),
        };
        shared
            .subscriptions
            .insert(self.inbox.clone(), subscription);
        drop(shared);
        subscriber.on_subscribed(self.node);
    }

    fn close(&self) {
        let subscription = {
            let mut shared = lock(&self.shared);
            let subscription = shared.subscriptions.remove(&self.inbox);
            if subscription.is_some() {
                shared.node.unsubscribe(&self.inbox);
            }
            subscription
        };
        // The subscription is dropped after the node's lock, for it may hold the last reference to
        // other links.
        drop(subscription);
    }
}

/// Carries a native request out; `None`: it is for the script, at once or as what was
/// asked natively is not to be had so.
fn natively(node: &mut MemoryNode, request: &mut Request, now: Instant) -> Option<Reply> {
    if !request.native {
        return None;
    }
    let Op::Acquire { ttl, .. } = request.op else {
        let deleted = node.delete(request, now);
        return deleted.then_some(Reply::Released { held: true });
    };
    let fenced = request.keys.fence_ttl.is_some();
    request.not_after = match request.not_after {
        // A client that asks before the first reply does not know the node's clock.
        0 if fenced => key_end(MemoryNode::time(now), ttl),
        end if fenced => end,
        _ => 0,
    };
    let voted = node.vote(request, now);
    let trailer = fenced.then(|| node.trailer(None, now));
    match outcome(request, voted, trailer) {
        Outcome::Reply(reply) => Some(reply),
        Outcome::OtherRecord | Outcome::Quarantined => None,
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Sleep;
    use crate::node::{AfterRelease, AuxKeys, Hint, Keys, Mode, Op, Repair, Value, Waiter, Waits};
    use std::sync::mpsc;
    use std::time::Duration;

    struct FrozenClock;

    impl Clock for FrozenClock {
        fn now(&self) -> Instant {
            Instant(1_000_000_000)
        }

        fn sleep_until(&self, _: Instant) -> Sleep {
            Box::pin(std::future::pending())
        }
    }

    #[derive(Default)]
    struct HeardMessages(Mutex<Vec<(usize, Option<u64>)>>);

    impl Subscriber for HeardMessages {
        fn on_message(&self, node: usize, hint: Hint) {
            lock(&self.0).push((node, Some(hint.number)));
        }

        fn on_subscribed(&self, node: usize) {
            lock(&self.0).push((node, None));
        }
    }

    #[derive(Default)]
    struct LastReply(Mutex<Option<Reply>>);

    impl Sink for LastReply {
        fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<TimeReading>) {
            *lock(&self.0) = Some(reply);
        }

        fn wanted(&self) -> bool {
            true
        }
    }

    /// To a node that no other test has.
    fn link(name: &str, node: usize, inbox: &str) -> (MemoryLink, Arc<HeardMessages>) {
        let inbox = inbox.as_bytes().into();
        let link = MemoryLink::new(name, node, inbox, name.into(), Arc::new(FrozenClock));
        let heard = Arc::new(HeardMessages::default());
        link.subscribe(heard.clone());
        (link, heard)
    }

    fn ask(link: &MemoryLink, op: Op, value: &str, waiter: Option<u64>) -> Reply {
        ask_as(link, (op, false), value, waiter)
    }

    fn ask_as(link: &MemoryLink, op: (Op, bool), value: &str, waiter: Option<u64>) -> Reply {
        let last = Arc::new(LastReply::default());
        send(link, op, value, waiter, last.clone());
        let reply = lock(&last.0).take();
        reply.expect("answered within the call")
    }

    fn send(
        link: &MemoryLink,
        (op, native): (Op, bool),
        value: &str,
        waiter: Option<u64>,
        sink: Arc<dyn Sink>,
    ) {
        let waiter = waiter.map(|number| Waiter {
            number,
            inbox: link.inbox.clone(),
        });
        let request = Request {
            op,
            native,
            keys: Arc::new(Keys {
                lock: b"k"[..].into(),
                aux: AuxKeys::of(b"q", b"f"),
                waits: Waits {
                    reservation: Duration::from_millis(200),
                    place: Duration::from_secs(6),
                    most: 10,
                },
                fence_ttl: None,
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            value: Value((value.repeat(40) + ".").as_bytes().into()),
            waiter,
            leaving: AfterRelease::Free,
            not_after: 0,
        };
        let ticket = RequestContext {
            node: link.node,
            sent: FrozenClock.now(),
            deadline: Instant::FAR,
            op,
            server: 0,
        };
        assert!(link.send(request, ticket, sink, Instant::FAR).is_none());
    }

    /// The sink of a lease that another thread releases as soon as the sink has answered that the
    /// request is wanted, if the link lets that in between.
    struct Overtaken {
        go: mpsc::Sender<()>,
        released: Mutex<mpsc::Receiver<()>>,
    }

    impl Sink for Overtaken {
        fn on_reply(&self, _: RequestContext, _: Reply, _: Option<TimeReading>) {}

        fn wanted(&self) -> bool {
            self.go.send(()).expect("the other thread waits for it");
            // The time-out is the usual end: the link lets nothing in between.
            let _ = lock(&self.released).recv_timeout(Duration::from_millis(200));
            true
        }
    }

    #[test]
    fn no_release_comes_between_the_question_and_the_deed() {
        let (ours, _) = link("asked", 0, "in:o");
        let (theirs, _) = link("asked", 0, "in:t");
        let extend = Op::Extend {
            ttl: Duration::from_secs(1),
            repair: Repair::Yes,
            fence: 0,
            behind: 0,
        };
        let (go, gone) = mpsc::channel();
        let (done, released) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                gone.recv().expect("it is asked");
                ask(&theirs, Op::Release, "d", None);
                let _ = done.send(());
            });
            let released = Mutex::new(released);
            let sink = Arc::new(Overtaken { go, released });
            send(&ours, (extend, false), "d", None, sink);
        });
        let left = ask(&ours, Op::Release, "d", None);
        assert_eq!(left, Reply::Released { held: false }, "a key was left");
    }

    #[test]
    fn a_node_that_nobody_has_is_freed_unless_a_lock_is_held_there() {
        const ACQUIRE: Op = Op::Acquire {
            ttl: Duration::from_secs(1),
            candidate: 0,
            home: true,
            let_in: false,
            block: 1,
        };
        let mut nodes = MemoryNodes::default();
        let now = FrozenClock.now();
        let mut most = 0;
        let kept: Vec<_> = (0..10)
            .map(|n| nodes.get(&format!("kept{n}"), now))
            .collect();
        let link = |shared| MemoryLink {
            shared,
            node: 0,
            inbox: b"in:1"[..].into(),
            clock: Arc::new(FrozenClock),
            shown: "node".into(),
        };
        ask(&link(nodes.get("taken", now)), ACQUIRE, "a", None);
        for n in 0..10_000 {
            let here = link(nodes.get(&format!("n{n}"), now));
            ask(&here, ACQUIRE, "a", None);
            ask(&here, Op::Release, "a", None);
            most = most.max(nodes.named.len());
        }
        assert!(most <= 64, "{most}");
        for (n, node) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(node, &nodes.get(&format!("kept{n}"), now)));
        }
        assert!(nodes.named.contains_key("taken"));
        let later = now + Duration::from_secs(2);
        for n in 0..100 {
            nodes.get(&format!("m{n}"), later);
        }
        assert!(!nodes.named.contains_key("taken"));
    }

    #[test]
    fn whoever_listens_is_told_until_it_closes() {
        const ACQUIRE: Op = Op::Acquire {
            ttl: Duration::from_secs(1),
            candidate: 0,
            home: true,
            let_in: false,
            block: 1,
        };
        let (holder, _) = link("told", 0, "in:h");
        let ((first, heard), (second, silence)) =
            (link("told", 3, "in:1"), link("told", 4, "in:2"));
        assert_eq!(*lock(&heard.0), [(3, None)]);
        ask(&holder, ACQUIRE, "a", None);
        let refused = ask(&second, ACQUIRE, "c", Some(7));
        assert!(
            matches!(
                refused,
                Reply::Refused {
                    place: Some(0),
                    subscribers: 1,
                    ..
                }
            ),
            "{refused:?}"
        );
        ask(&first, ACQUIRE, "b", Some(8));
        second.close();
        ask(&holder, Op::Release, "a", None);
        assert_eq!(*lock(&heard.0), [(3, None), (3, Some(8))]);
        assert_eq!(*lock(&silence.0), [(4, None)]);
    }

    #[test]
    fn what_natives_cannot_give_back_the_script_does() {
        const ACQUIRE: Op = Op::Acquire {
            ttl: Duration::from_secs(1),
            candidate: 0,
            home: true,
            let_in: false,
            block: 1,
        };
        let (a, b) = ("a", "b");
        let (holder, _) = link("native", 0, "in:h");
        let (first, heard) = link("native", 0, "in:1");
        let held = |held| Reply::Released { held };
        for _ in 0..2 {
            let vote = ask_as(&holder, (ACQUIRE, true), a, None);
            assert!(matches!(vote, Reply::Granted { .. }), "{vote:?}");
            assert_eq!(ask_as(&first, (ACQUIRE, true), b, None), Reply::Taken);
            assert_eq!(ask_as(&holder, (Op::Release, true), a, None), held(true));
        }
        // A waiter has to be notified, which the script alone does.
        ask_as(&holder, (ACQUIRE, true), a, None);
        ask(&first, ACQUIRE, b, Some(7));
        assert_eq!(ask_as(&first, (Op::Release, true), b, None), held(false));
        assert_eq!(lock(&heard.0)[1..], []);
        assert_eq!(ask_as(&holder, (Op::Release, true), a, None), held(true));
        assert_eq!(lock(&heard.0)[1..], [(0, Some(7))]);
        assert_eq!(ask_as(&holder, (ACQUIRE, true), a, None), Reply::Taken);
    }
}
