//! What a link does where its connection is in doubt, step by step: nothing is read
//! and time passes only as a test says.

mod alike;
mod doubt;
mod failover;
mod native;
mod replicas;
mod watch;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::node::Link as _;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::admission::{DeleteByValue, Expectation, Gate, PromotionHistory, Roster, Survey};
use crate::node::redis::RedisLink;
use crate::node::redis::connect::{Location, ServerTime};
use crate::node::redis::dial::{self, Dial, StreamFuture};
use crate::node::redis::pipe::{IDLE, LOOKED_AT};
use crate::node::redis::script::Guard;
use crate::node::redis::wire::Wire;
use crate::node::{
    AfterRelease, AuxKeys, Hint, Keys, Memory, Mode, Op, Request, RequestContext, Server, Sink,
    Subscriber, TimeReading, Value, Waits,
};
use crate::token::SystemRng;

/// How long each request may take.
const PATIENCE: Duration = Duration::from_nanos(100);
const ACQUIRE: Op = Op::Acquire {
    ttl: Duration::from_secs(1),
    candidate: 0,
    home: false,
    let_in: false,
    block: 1,
};

/// A clock that the test moves by hand; its sleepers have to look.
struct ByHand(Arc<AtomicU64>);

impl Clock for ByHand {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let now = self.0.clone();
        Box::pin(poll_fn(move |_| match now.load(Ordering::Relaxed) {
            now if now < at.0 => Poll::Pending,
            _ => Poll::Ready(()),
        }))
    }
}

/// A dialler whose servers do not answer.
struct Silence;

impl Dial for Silence {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        Box::pin(std::future::pending())
    }
}

/// A dialler of a name that is being looked up, for as long as this says.
struct Unknown(Arc<AtomicBool>);

impl Dial for Unknown {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        Box::pin(std::future::pending())
    }

    fn is_looking_up(&self, _: &Endpoint) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The kinds of the faults that the sink was given, all other replies, and of each fault whether
/// the node may have carried the request out.
#[derive(Default)]
struct Heard(Mutex<Vec<FaultKind>>, Mutex<Vec<Reply>>, Mutex<Vec<bool>>);

impl Sink for Heard {
    fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<TimeReading>) {
        match reply {
            Reply::Failed(fault) => {
                lock(&self.0).push(fault.kind);
                lock(&self.2).push(fault.sent);
            }
            reply => lock(&self.1).push(reply),
        }
    }

    fn wanted(&self) -> bool {
        true
    }
}

#[cfg(unix)]
type Far = tokio::net::UnixStream;
#[cfg(not(unix))]
type Far = tokio::net::TcpStream;

/// A link whose task is played by hand, with the far ends of its streams.
struct Link {
    clock: Arc<ByHand>,
    connection: Connection,
    heard: Arc<Heard>,
    ends: Vec<Far>,
    fence_ttl: Option<Duration>,
    wait_replicas: u32,
    accept_eviction: bool,
    certificate_expires: Option<u64>,
    /// Where the next connection leads, and to which server.
    here: (Endpoint, u64),
    promotions: PromotionHistory,
}

impl Link {
    /// A link with a connection that stands.
    fn connected() -> Link {
        let here = (Endpoint::Unix("/nowhere".into()), 1);
        let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, false);
        let mut link = Link::to(here.0.clone(), expected, Arc::new(Silence), here);
        link.connects();
        link
    }

    /// A link to the node at that address, of such a set, that is yet to connect.
    fn to(
        endpoint: Endpoint,
        expected: Expectation,
        dial: Arc<dyn Dial>,
        here: (Endpoint, u64),
    ) -> Link {
        let clock = Arc::new(ByHand(Arc::new(AtomicU64::new(1_000))));
        let key = || Arc::<[u8]>::from(&b"k"[..]);
        let gate = Gate {
            accept_eviction: false,
            drift: 0.01,
            wait_replicas: 0,
            told_few: AtomicBool::new(false),
            node_timeout: Duration::from_millis(250),
            connect_timeout: Duration::from_secs(1),
            record_key: key(),
            quarantine_key: key(),
            scratch_key: key(),
            connection_name: key(),
            inbox: key(),
            told_deaf: AtomicBool::new(false),
            told_runless: AtomicBool::new(false),
            told_placeless: AtomicBool::new(false),
            roster: Roster::new(&expected),
            survey: Survey::new(expected, vec![("n".into(), false)]),
            clock: clock.clone(),
            rng: Arc::new(SystemRng),
            warn: drop,
            note: drop,
        };
        let target = Target {
            address: Address {
                endpoint,
                user: None,
                password: None,
                db: 0,
                origin: Origin::Caller,
                shown: "n".into(),
            },
            dial,
            node: 0,
            gate: Arc::new(gate),
            located: Location::default(),
            routes: None,
        };
        Link {
            connection: Connection::new(Arc::new(target), clock.clone(), Arc::default()),
            clock,
            heard: Arc::default(),
            ends: Vec::new(),
            fence_ttl: None,
            wait_replicas: 0,
            accept_eviction: false,
            certificate_expires: None,
            here,
            promotions: PromotionHistory::default(),
        }
    }

    /// The connection that is being made is there.
    fn connects(&mut self) {
        let (near, far) = dial::pair();
        self.ends.push(far);
        let now = self.clock.now();
        self.connection.connecting = None;
        self.connection.take_connection(Box::new(NewConnection {
            wire: Wire::new(near, Arc::from(&b"in"[..]), self.clock.clone()),
            guard: Some(Guard {
                record: "r".into(),
                record_key: b"#node"[..].into(),
                quarantine_key: b"#quarantine"[..].into(),
                shard: false,
            }),
            in_cluster: false,
            delete: DeleteByValue::ByScript,
            id: 1,
            server: self.here.1,
            endpoint: self.here.0.clone(),
            promotions: self.promotions,
            succeeds: false,
            wait_replicas: self.wait_replicas,
            accept_eviction: self.accept_eviction,
            node_timeout: PATIENCE,
            about: Server {
                memory: None,
                certificate_expires: self.certificate_expires,
            },
            drift: 0.01,
            time: ServerTime {
                time: 0,
                asked: now,
                at: now,
            },
            stepped: false,
            subscribed: false,
            quarantine: Duration::ZERO,
        }));
        self.connection.push_on();
    }

    /// A request is asked for by script, of the one token that there is.
    fn asks(&mut self, op: Op) {
        self.asks_all(&[op], false);
    }

    /// These are asked for at once.
    fn asks_all(&mut self, ops: &[Op], native: bool) {
        let items = ops.iter().map(|op| self.item(*op, native));
        let items: Vec<Box<Item>> = items.collect();
        lock(&self.connection.outbox.state).items.extend(items);
        self.connection.take_outbox();
        self.connection.push_on();
    }

    fn item(&self, op: Op, native: bool) -> Box<Item> {
        let now = self.clock.now();
        let keys = Keys {
            aux: AuxKeys::of(b"q", b"f"),
            lock: b"k"[..].into(),
            waits: Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: self.fence_ttl,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        };
        let request = Request {
            op,
            keys: Arc::new(keys),
            value: Value(b"v"[..].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            native,
            not_after: 0,
        };
        let ticket = RequestContext {
            node: 0,
            sent: now,
            deadline: now + PATIENCE,
            op,
            server: 0,
        };
        Item::new(request, ticket, self.heard.clone(), Instant::FAR)
    }

    /// The connection in use is answered this.
    fn answered(&mut self, replies: &[&str]) {
        for reply in replies {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("RESP");
            let Connection { up, done, .. } = &mut self.connection;
            let up = up.as_mut().expect("a connection");
            assert!(up.take_reply(reply, done), "nobody has asked");
            self.connection.take_outcomes();
        }
        self.connection.push_on();
    }

    /// Whether each request that is written over the connection in use, and is not
    /// answered, is native.
    fn natives(&self) -> Vec<bool> {
        let up = self.connection.up.iter();
        up.flat_map(InFlight::items)
            .map(|i| i.request.native)
            .collect()
    }

    /// Whether each request that is written and not answered tells the counter's life.
    fn colds(&self) -> Vec<bool> {
        let up = self.connection.up.iter();
        up.flat_map(InFlight::items).map(|i| i.cold).collect()
    }

    /// Nothing is answered for as long as requests wait.
    fn patience_ends(&mut self) {
        let nanos = PATIENCE.as_nanos() as u64;
        self.clock.0.fetch_add(nanos, Ordering::Relaxed);
        self.connection.look_at_deadlines();
        self.connection.push_on();
    }

    /// The time has come at which a node is tried again that was left alone.
    fn pause_ends(&mut self) {
        let Connection {
            retry_at, timer, ..
        } = &self.connection;
        assert!(timer.as_ref().is_some_and(|(at, _)| at <= retry_at));
        self.clock.0.store(retry_at.0, Ordering::Relaxed);
        self.connection.push_on();
    }

    /// What was written and is not answered: over the connection in doubt, and over
    /// the one in use.
    fn written(&self) -> [usize; 2] {
        let Connection { old, up, .. } = &self.connection;
        [old, up].map(|pipe| pipe.as_ref().map_or(0, |pipe| pipe.awaits()))
    }
}

const OK: &str = "+OK\r\n";
const NIL: &str = "$-1\r\n";
const TIME: &str = "*2\r\n$1\r\n0\r\n$1\r\n9\r\n";
const OURS: &str = "*2\r\n$1\r\nr\r\n$-1\r\n";
const QUARANTINED: &str = "*2\r\n$1\r\nr\r\n$1\r\n1\r\n";
const ANOTHERS: &str = "*2\r\n$1\r\nx\r\n$-1\r\n";

#[tokio::test]
async fn a_name_that_is_looked_up_has_more_time_than_a_connection_and_requests_have_not() {
    let unknown = Arc::new(AtomicBool::new(true));
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expectation::new("s", 3, Duration::from_secs(1), 0.01, true);
    let dial = Arc::new(Unknown(unknown.clone()));
    let mut link = Link::to(here.0.clone(), expected, dial, here);
    let second = Duration::from_secs(1).as_nanos() as u64;
    link.asks(ACQUIRE);
    for waited in 1..5 {
        link.clock.0.fetch_add(second, Ordering::Relaxed);
        link.connection.look_at_deadlines();
        link.connection.push_on();
        assert!(
            link.connection.connecting.is_some(),
            "given up after {waited} s"
        );
        // The next request fails at once: it does not wait for the name.
        assert_eq!(lock(&link.heard.0).len(), waited);
        link.asks(ACQUIRE);
        assert_eq!(lock(&link.heard.0).len(), waited + 1);
    }
    // From the moment that the name is known the connection has its usual time.
    unknown.store(false, Ordering::Relaxed);
    link.clock.0.fetch_add(second, Ordering::Relaxed);
    link.connection.look_at_deadlines();
    assert!(link.connection.connecting.is_none());
}

#[tokio::test]
async fn a_node_that_is_waited_for_is_connected_to_and_says_how_that_ended() {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, true);
    let mut link = Link::to(here.0.clone(), expected, Arc::new(Silence), here);
    let face = RedisLink {
        shown: "n".into(),
        node: 0,
        gate: link.connection.target.gate.clone(),
        outbox: link.connection.outbox.clone(),
        driver: None,
    };
    let met = || face.poll_met(&Context::from_waker(std::task::Waker::noop()));
    let begins = async |link: &mut Link| {
        let event = poll_fn(|cx| link.connection.next(cx)).await;
        assert!(matches!(event, ConnectionEvent::Outbox));
        link.connection.take_outbox();
        link.connection.push_on();
        link.connection.connecting.is_some()
    };
    assert_eq!(met(), Poll::Pending);
    assert!(begins(&mut link).await);
    assert_eq!(met(), Poll::Pending);
    link.connects();
    assert_eq!(met(), Poll::Ready(true));
    // Callers wait for the next connection as for the first.
    let gone = Fault::new(FaultKind::Unreachable, "gone", true);
    link.connection.lose_connection(&gone);
    assert_eq!(met(), Poll::Pending);
    assert!(begins(&mut link).await);
    // A connection that is ended on the way says nothing of the next.
    link.connection.connecting = None;
    link.connection.failures = 0;
    link.connection.connect_failed(gone.clone());
    // But the task begins the next, for the same callers.
    link.connection.retry_at = Instant::NEVER;
    link.connection.push_on();
    assert!(link.connection.connecting.take().is_some());
    assert_eq!(met(), Poll::Pending);
    link.connection.connect_failed(gone);
    // From then on the node is known to be away, until a request goes to it.
    assert_eq!(met(), Poll::Ready(false));
    link.connection.outbox.end();
    assert_eq!(met(), Poll::Ready(false));
}

#[tokio::test]
async fn the_first_of_its_kind_takes_the_text_of_its_script_along() {
    let mut link = Link::connected();
    link.asks_all(&[Op::Inspect, Op::Inspect, ACQUIRE], false);
    let texts = link.connection.up.iter().flat_map(InFlight::items);
    let texts: Vec<bool> = texts.map(|item| item.with_text).collect();
    assert_eq!(texts, [true, false, false]);
}

/// A dialler whose servers accept, and do not answer.
struct Listener(Arc<Mutex<Vec<Far>>>);

impl Dial for Listener {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        let (near, far) = dial::pair();
        lock(&self.0).push(far);
        Box::pin(async { Ok(near) })
    }
}

/// What a link asks a server first: a link that has reached a server before or not, with waiters to
/// be notified or without.
async fn greeted(reached: bool, subscriber: Option<Arc<dyn Subscriber>>) -> String {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, true);
    let ends = Arc::new(Mutex::new(Vec::new()));
    let dial = Arc::new(Listener(ends.clone()));
    let mut link = Link::to(here.0.clone(), expected, dial, here);
    let connects = &link.connection.outbox.connects;
    connects.store(u64::from(reached), Ordering::Relaxed);
    if let Some(subscriber) = subscriber {
        link.connection.subscription.begin(subscriber);
    }
    link.asks(ACQUIRE);
    let _ = poll_fn(|cx| Poll::Ready(link.connection.next(cx).is_ready())).await;
    let far = lock(&ends).pop().expect("it was dialled");
    far.readable().await.unwrap();
    let mut written = vec![0; 4096];
    let length = far.try_read(&mut written).unwrap();
    String::from_utf8_lossy(&written[..length]).into_owned()
}

#[tokio::test]
async fn a_server_is_asked_at_once_what_matters_where_it_has_no_record() {
    for reached in [false, true] {
        let written = greeted(reached, None).await;
        let record = written.find("GET").expect("its record");
        // The statistics come behind the record: what was carried out before the record was read.
        let counts = written.find("commandstats");
        assert_eq!(counts.is_some_and(|counts| counts > record), !reached);
    }
}

/// Hears nothing.
struct Deaf;

impl Subscriber for Deaf {
    fn on_message(&self, _: usize, _: Hint) {}

    fn on_subscribed(&self, _: usize) {}
}

#[tokio::test]
async fn every_connection_of_those_who_wait_subscribes() {
    for reached in [false, true] {
        assert!(
            greeted(reached, Some(Arc::new(Deaf)))
                .await
                .contains("HELLO")
        );
        assert!(!greeted(reached, None).await.contains("HELLO"));
    }
}

/// The first that dials has a bug, and the next get no answer. Tells when each dials.
struct Fails(tokio::sync::mpsc::UnboundedSender<()>, AtomicBool);

impl Dial for Fails {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        let _ = self.0.send(());
        if !self.1.swap(true, Ordering::Relaxed) {
            panic!("a test");
        }
        Box::pin(std::future::pending())
    }
}

/// Tells of each answer.
struct Tells(tokio::sync::mpsc::UnboundedSender<Reply>);

impl Sink for Tells {
    fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<TimeReading>) {
        let _ = self.0.send(reply);
    }

    fn wanted(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_task_that_a_bug_ends_answers_and_is_begun_anew() {
    let (dials, mut dialled) = tokio::sync::mpsc::unbounded_channel();
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, false);
    let fails = Arc::new(Fails(dials, AtomicBool::new(false)));
    let link = Link::to(here.0.clone(), expected, fails, here);
    let (target, outbox) = (link.connection.target.clone(), Arc::<Outbox>::default());
    let gone = Arc::<AtomicBool>::default();
    let clock: Arc<dyn Clock> = Arc::new(crate::runtime::timers::SystemClock::new(
        crate::runtime::task::Io {
            handle: tokio::runtime::Handle::current(),
            driver: None,
        },
        gone,
    ));
    let (tells, now) = (Arc::new(Tells(told)), clock.now());
    let item = |op| {
        let mut item = link.item(op, false);
        item.ticket.deadline = now + Duration::from_secs(60);
        item.sink = Some(tells.clone());
        item
    };
    for op in [ACQUIRE, Op::Release] {
        lock(&outbox.state).items.push_back(item(op));
    }
    let worker = crate::node::redis::Worker {
        target,
        clock,
        outbox: outbox.clone(),
    };
    let task = tokio::spawn(worker.last());
    dialled.recv().await.unwrap();
    // The request has failed; the release is left to the next task, which dials for it.
    for _ in 0..2 {
        let Some(Reply::Failed(fault)) = hears.recv().await else {
            panic!("it is answered");
        };
        assert_eq!(fault.kind, FaultKind::Unreachable);
    }
    dialled.recv().await.unwrap();
    assert!(hears.try_recv().is_err());
    // However the task ends, it answers all, and refuses what comes later.
    lock(&outbox.state).items.push_back(item(ACQUIRE));
    task.abort();
    assert!(matches!(hears.recv().await, Some(Reply::Failed(_))));
    assert!(lock(&outbox.state).ended);
}
