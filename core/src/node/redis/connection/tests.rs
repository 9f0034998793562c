//! What a link does where its connection is in doubt, step by step: nothing is read
//! and time passes only as a test says.

mod alike;
mod failover;
mod replicas;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::node::Link as _;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::admission::{DeleteByValue, Expected, Gate, PromotionHistory, Roster, Survey};
use crate::node::redis::RedisLink;
use crate::node::redis::connect::{Location, ServerTime};
use crate::node::redis::dial::{self, Dial, Dialling};
use crate::node::redis::pipe::{IDLE, LOOKED_AT};
use crate::node::redis::script::Guard;
use crate::node::redis::wire::Wire;
use crate::node::{
    AfterRelease, AuxKeys, Hint, Keys, Memory, Mode, Op, Request, RequestContext, Server, Sink,
    Subscriber, Value, Waits,
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

/// Goes on as it is told; its sleepers have to look.
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

/// Whoever is dialled does not answer.
struct Silence;

impl Dial for Silence {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
        Box::pin(std::future::pending())
    }
}

/// Whoever is dialled has a name that is being looked up, for as long as this says.
struct Unknown(Arc<AtomicBool>);

impl Dial for Unknown {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
        Box::pin(std::future::pending())
    }

    fn is_looking_up(&self, _: &Endpoint) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The kinds of faults that were told, all other replies, and of each fault whether the node may
/// have done what was asked.
#[derive(Default)]
struct Heard(Mutex<Vec<FaultKind>>, Mutex<Vec<Reply>>, Mutex<Vec<bool>>);

impl Sink for Heard {
    fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<u64>) {
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
    /// One with a connection that stands.
    fn connected() -> Link {
        let here = (Endpoint::Unix("/nowhere".into()), 1);
        let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, false);
        let mut link = Link::to(here.0.clone(), expected, Arc::new(Silence), here);
        link.connects();
        link
    }

    /// One to the node at that address, of such a set, that is yet to connect.
    fn to(
        endpoint: Endpoint,
        expected: Expected,
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

#[tokio::test]
async fn a_release_has_one_copy_over_the_connection_in_doubt() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(link.written(), [1, 0]);
    // Behind what it undoes at once, and over the next one when that is there.
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 0]);
    link.connects();
    assert_eq!(link.written(), [2, 1]);
    // One that was written to the connection before needs no copy over that either;
    // over the one before that, the copy is gone with it.
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
    link.connects();
    assert_eq!(link.written(), [1, 1]);
    // While both stand, a release goes out over each of them, once.
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 2]);
}

#[tokio::test]
async fn a_release_that_was_set_aside_goes_out_over_a_connection_in_doubt_from_the_first() {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, true);
    let mut link = Link::to(here.0.clone(), expected, Arc::new(Silence), here);
    link.connects();
    link.asks(ACQUIRE);
    link.patience_ends();
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 0]);
    // A reply over the connection in doubt has told of a step: the next one is in doubt as
    // soon as it stands, and answers.
    link.connection.stepped = true;
    link.connects();
    assert_eq!(link.written(), [1, 0]);
    // The one behind that has it, too.
    link.connection.stepped = false;
    link.connects();
    assert_eq!(link.written(), [1, 1]);
}

#[tokio::test]
async fn a_release_that_is_not_acknowledged_is_worth_a_connection() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.patience_ends();
    // Nobody owes that node anything.
    assert!(link.connection.connecting.is_none());
    let mut link = Link::connected();
    link.asks(Op::Release);
    assert!(link.connection.connecting.is_none());
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(link.written(), [1, 0]);
    assert!(link.connection.connecting.is_some());
    link.connects();
    assert_eq!(link.written(), [1, 1]);
    // Told already, and worth one more if that does not answer either.
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
    link.pause_ends();
    assert!(link.connection.connecting.is_some());
    // One that is not to be had is tried again, after a while.
    let mut link = Link::connected();
    link.asks(Op::Release);
    link.patience_ends();
    let fault = Fault::new(FaultKind::Unreachable, "refused", false);
    link.connection.connecting = None;
    link.connection.connect_failed(fault);
    link.connection.push_on();
    assert!(link.connection.connecting.is_none());
    link.pause_ends();
    assert!(link.connection.connecting.is_some());
}

const OK: &str = "+OK\r\n";
const NIL: &str = "$-1\r\n";
const TIME: &str = "*2\r\n$1\r\n0\r\n$1\r\n9\r\n";
const OURS: &str = "*2\r\n$1\r\nr\r\n$-1\r\n";
const QUARANTINED: &str = "*2\r\n$1\r\nr\r\n$1\r\n1\r\n";
const ANOTHERS: &str = "*2\r\n$1\r\nx\r\n$-1\r\n";

/// What a server uses is asked for behind what is written, from time to time, and known as long as
/// it is connected to.
#[tokio::test]
async fn how_full_a_server_is_follows_what_it_says() {
    let mut link = Link::connected();
    let memory = |link: &Link| lock(&link.connection.outbox.server).memory;
    let says = |link: &mut Link, said: &str| {
        let nanos = LOOKED_AT.as_nanos() as u64;
        link.clock.0.fetch_add(nanos, Ordering::Relaxed);
        link.asks(ACQUIRE);
        let info = format!("${}\r\n{said}\r\n", said.len());
        link.answered(&[":1\r\n", &info]);
    };
    assert_eq!(memory(&link), None);
    let bounded = "used_memory:7\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n";
    says(&mut link, bounded);
    assert_eq!(memory(&link), Some(Memory { used: 7, limit: 9 }));
    says(
        &mut link,
        "used_memory:8\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
    );
    assert_eq!(memory(&link), None);
    says(&mut link, bounded);
    link.patience_ends();
    assert!(memory(&link).is_some());
    link.asks(ACQUIRE);
    link.patience_ends();
    assert_eq!(memory(&link), None);
    link.connects();
    says(&mut link, bounded);
    link.connection.lose_connection(&stray());
    assert_eq!(memory(&link), None);
}

/// Shows such a certificate, and counts how often.
struct Shows(Arc<AtomicU64>, u64);

impl Dial for Shows {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
        Box::pin(std::future::pending())
    }

    fn certificate_expires<'a>(
        &'a self,
        _: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Some(self.1)))
    }
}

/// A renewed certificate is shown to new connections alone.
#[tokio::test]
async fn a_certificate_that_soon_ends_is_looked_at_anew() {
    let (day, hour) = (24 * 3600, LOOKED_AT_ANEW.as_secs());
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    for (days, looks) in [
        (None, [0, 0, 0]),
        (Some(40), [0, 0, 1]),
        (Some(10), [0, 1, 2]),
    ] {
        let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, false);
        let count = Arc::new(AtomicU64::new(0));
        let dial = Arc::new(Shows(count.clone(), 90 * day));
        let mut link = Link::to(here.0.clone(), expected, dial, here.clone());
        link.certificate_expires = days.map(|days| days * day);
        link.connects();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let known = |link: &Link| lock(&link.connection.outbox.server).certificate_expires;
        for (later, looks) in [hour - 1, 1, 20 * day].into_iter().zip(looks) {
            link.clock
                .0
                .fetch_add(later * 1_000_000_000, Ordering::Relaxed);
            link.connection.push_on();
            let before = known(&link);
            let _: bool = link.connection.next(&mut cx).is_ready();
            assert_eq!(count.load(Ordering::Relaxed), looks, "{days:?} {later}");
            let shown = Some(90 * day).filter(|_| looks > 0);
            assert_eq!(known(&link), shown.or(before));
        }
    }
}

/// A policy that is set while a client is connected is seen behind what it asks, from time to time.
#[tokio::test]
async fn a_server_that_may_drop_keys_by_now_is_looked_at_anew() {
    const KEEPS: &str = "$42\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n\r\n";
    const DROPS: &str = "$43\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lfu\r\n\r\n";
    const DENIED: &str = "-NOPERM no permissions\r\n";
    const ONE: &str = ":1\r\n";
    let asks_later = |link: &mut Link, later: Duration| {
        let nanos = later.as_nanos() as u64;
        link.clock.0.fetch_add(nanos, Ordering::Relaxed);
        link.asks(ACQUIRE);
        link.written()[1]
    };
    let mut link = Link::connected();
    let early = LOOKED_AT / 2;
    assert_eq!(asks_later(&mut link, early), 1);
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, early), 2);
    // What was asked does not wait for it.
    link.answered(&[ONE]);
    assert_eq!(lock(&link.heard.1).len(), 2);
    link.answered(&[KEEPS]);
    assert_eq!(asks_later(&mut link, early), 1);
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, early), 2);
    link.answered(&[ONE, DROPS]);
    assert!(link.connection.up.is_none());
    link.asks(ACQUIRE);
    assert!(link.connection.connecting.is_some());
    // It may not be asked, or it does not matter.
    link.connects();
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, LOOKED_AT), 2);
    link.answered(&[ONE, DENIED]);
    assert_eq!(asks_later(&mut link, LOOKED_AT), 1);
    link.answered(&[ONE]);
    link.accept_eviction = true;
    link.connects();
    assert_eq!(asks_later(&mut link, LOOKED_AT), 1);
}

/// What a client asks after it was idle is behind the look, and no vote where keys may be dropped by
/// now: it is asked for again over the next connection.
#[tokio::test]
async fn no_vote_counts_that_is_behind_the_word_of_a_server_that_may_drop_keys() {
    const DROPS: &str = "$43\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lfu\r\n\r\n";
    for native in [false, true] {
        let mut link = Link::connected();
        let idle = (LOOKED_AT + IDLE).as_nanos() as u64;
        link.clock.0.fetch_add(idle, Ordering::Relaxed);
        link.asks_all(&[ACQUIRE], native);
        let vote = if native {
            vec![OK, OURS, TIME]
        } else {
            vec![":1\r\n"]
        };
        let up = link.connection.up.as_mut().expect("a connection");
        let mut done = VecDeque::new();
        for reply in [vec![DROPS], vote].concat() {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("RESP");
            assert!(up.take_reply(reply, &mut done), "nobody has asked");
        }
        link.connection.done = done;
        link.connection.take_outcomes();
        link.connection.push_on();
        assert!(lock(&link.heard.1).is_empty(), "no vote is told");
        assert!(link.connection.up.is_none() && link.connection.connecting.is_some());
        link.connects();
        assert_eq!(link.written()[1], 1, "it is asked for again");
    }
}

#[tokio::test]
async fn votes_of_one_write_are_told_behind_one_trailer() {
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE, ACQUIRE, ACQUIRE], true);
    assert_eq!(link.written(), [0, 4]);
    // What is taken needs no trailer.
    link.answered(&[OK, NIL, OK]);
    assert_eq!(*lock(&link.heard.1), [Reply::Taken]);
    link.answered(&[OURS]);
    assert_eq!(lock(&link.heard.1).len(), 1);
    link.answered(&[TIME]);
    let told = lock(&link.heard.1).clone();
    assert!(matches!(
        told[1..],
        [Reply::Granted { .. }, Reply::Granted { .. }]
    ));
    assert_eq!(link.written(), [0, 0]);
}

#[tokio::test]
async fn a_vote_without_its_trailer_is_none() {
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK]);
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(*lock(&link.heard.1), []);
}

#[tokio::test]
async fn what_plain_commands_do_not_decide_is_asked_by_script() {
    // In quarantine, over the same connection; at another's, once admitted anew.
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK, QUARANTINED, TIME]);
    assert_eq!(link.natives(), [false]);
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK, ANOTHERS, TIME]);
    assert_eq!(link.written(), [0, 0]);
    link.connects();
    assert_eq!(link.natives(), [false]);
    // One that finds no vote of ours: somebody may wait there.
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    link.answered(&[":0\r\n"]);
    assert_eq!(link.natives(), [false]);
    assert_eq!(*lock(&link.heard.1), []);
    link.answered(&[":1\r\n"]);
    assert_eq!(*lock(&link.heard.1), [Reply::Released { held: true }]);
}

#[tokio::test]
async fn the_life_of_a_counter_is_told_until_a_reply_says_that_it_was() {
    let mut link = Link::connected();
    link.fence_ttl = Some(4 * PATIENCE);
    let counts = Op::Acquire {
        ttl: Duration::from_secs(1),
        candidate: 7,
        home: false,
        let_in: false,
        block: 1,
    };
    // A script that is unknown, or that refuses, has told nothing;
    link.asks(counts);
    link.answered(&["-NOSCRIPT x\r\n"]);
    assert_eq!(link.colds(), [true]);
    link.answered(&["*7\r\n:0\r\n:9\r\n$0\r\n\r\n:-1\r\n:1\r\n:0\r\n:9\r\n"]);
    // nor have plain commands of which the last failed.
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [true]);
    link.answered(&[NIL, ":0\r\n", "-OOM x\r\n", OURS, TIME]);
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [true]);
    link.answered(&[NIL, ":1\r\n", ":1\r\n", OURS, TIME]);
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [false]);
    link.answered(&[NIL, ":1\r\n", OURS, TIME]);
    // It is told again once a quarter of it has gone by.
    link.patience_ends();
    link.asks(counts);
    assert_eq!(link.colds(), [true]);
    link.answered(&["*4\r\n:1\r\n$1\r\n7\r\n:0\r\n:9\r\n"]);
    link.asks(counts);
    assert_eq!(link.colds(), [false]);
}

#[tokio::test]
async fn nothing_native_is_sent_twice() {
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    assert_eq!(link.natives(), [true]);
    link.patience_ends();
    link.connects();
    assert_eq!(link.natives(), [false]);
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    let fault = Fault::new(FaultKind::Unreachable, "lost", true);
    link.connection.lose_connection(&fault);
    link.connection.push_on();
    link.connects();
    assert_eq!(link.natives(), [false]);
}

#[tokio::test]
async fn thousands_of_releases_cost_no_connection_that_answers() {
    let mut link = Link::connected();
    link.asks(Op::Release);
    link.asks(Op::Release);
    link.asks(Op::Release);
    link.patience_ends();
    link.connects();
    assert_eq!(link.written(), [3, 3]);
    // Nobody waits for them any more. One is answered each time, just before that.
    for left in [2, 1] {
        let up = link.connection.up.as_mut().expect("a connection");
        assert!(up.take_reply(redis::Value::Int(1), &mut VecDeque::new()));
        link.patience_ends();
        assert_eq!(link.written(), [3, left]);
    }
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
}

#[tokio::test]
async fn the_copy_of_a_release_goes_out_before_its_connection_is_closed() {
    let mut link = Link::connected();
    let release = link.item(Op::Release, false);
    let mut theirs = link.ends.pop().expect("one connection");
    let pipe = link.connection.up.as_mut().expect("a connection");
    assert!(pipe.is_idle());
    // Nobody reads, and this is more than there is room for. Nobody waits for an answer
    // either, and yet the connection must not be closed.
    for _ in 0..20_000 {
        pipe.write_copy(&release, Instant(1));
    }
    poll_fn(|cx| Poll::Ready(pipe.poll(cx).is_pending())).await;
    assert!(!pipe.is_idle());
    let mut bytes = vec![0; 1 << 20];
    poll_fn(|cx| {
        loop {
            assert!(pipe.poll(cx).is_pending());
            if pipe.is_idle() {
                return Poll::Ready(());
            }
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut theirs).poll_read(cx, &mut read)).expect("bytes");
        }
    })
    .await;
}

#[tokio::test]
async fn a_delete_in_doubt_is_followed_by_the_script() {
    let mut link = Link::connected();
    // The vote, its trailer, and what takes it back, none of it answered. Before that is
    // deleted a waiter may come, whom the script alone tells.
    link.asks_all(&[ACQUIRE], true);
    link.asks_all(&[Op::Release], true);
    assert_eq!(link.written(), [0, 3]);
    link.patience_ends();
    assert_eq!(link.written(), [4, 0]);
    // What went by script in the first place needs none.
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.asks(Op::Release);
    link.patience_ends();
    assert_eq!(link.written(), [2, 0]);
}

#[tokio::test]
async fn a_native_vote_ends_as_if_it_was_written_when_it_was_asked_for() {
    let mut link = Link::connected();
    let mut asked = link.item(ACQUIRE, true);
    asked.request.not_after = 0;
    // It waits for that long before it is written.
    link.clock.0.fetch_add(10_000_000, Ordering::Relaxed);
    lock(&link.connection.outbox.state).items.push_back(asked);
    link.connection.take_outbox();
    link.connection.push_on();
    let up = link.connection.up.iter();
    let ends: Vec<u64> = up
        .flat_map(InFlight::items)
        .map(|i| i.request.not_after)
        .collect();
    let (asked, second) = (0, 1_000_000);
    assert_eq!(ends, [asked + second + 5_000]);
}

#[tokio::test]
async fn until_when_is_told_by_the_clock_of_the_server_that_is_asked() {
    let mut link = Link::connected();
    let mut ask = |server, not_after| {
        let mut asked = link.item(ACQUIRE, false);
        (asked.ticket.server, asked.request.not_after) = (server, not_after);
        lock(&link.connection.outbox.state).items.push_back(asked);
        link.connection.take_outbox();
        link.connection.push_on();
        let up = link.connection.up.iter();
        let told = up.flat_map(InFlight::items).map(|i| i.request.not_after);
        let told = told.last().expect("one is written");
        // The server's `TIME` is seven seconds by now, as a shard's connection takes it.
        link.answered(&["*4\r\n:1\r\n$1\r\n1\r\n$1\r\n7\r\n$1\r\n0\r\n"]);
        let mut answered = link.item(ACQUIRE, false);
        let now = link.clock.now();
        (answered.ticket.server, answered.written) = (1, now);
        let up = link.connection.up.as_mut().expect("a connection");
        up.told(&answered, now, 7_000_000);
        told
    };
    // Requests wait for less than a microsecond here.
    let since = |time: u64| time.saturating_sub(10)..time + 10;
    // By its clock already.
    assert_eq!(ask(1, 5), 5);
    // By another's, or by none.
    assert!(since(7_000_000).contains(&ask(2, 5)));
    assert!(since(7_000_000).contains(&ask(0, 0)));
    // As the connection was made it was zero.
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    let up = link.connection.up.iter();
    let told: Vec<u64> = up
        .flat_map(InFlight::items)
        .map(|i| i.request.not_after)
        .collect();
    assert!(since(0).contains(&told[0]));
}

#[tokio::test]
async fn a_name_that_is_looked_up_has_more_time_than_a_connection_and_requests_have_not() {
    let unknown = Arc::new(AtomicBool::new(true));
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expected::new("s", 3, Duration::from_secs(1), 0.01, true);
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
        // The next request fails at once: nobody waits for the name.
        assert_eq!(lock(&link.heard.0).len(), waited);
        link.asks(ACQUIRE);
        assert_eq!(lock(&link.heard.0).len(), waited + 1);
    }
    // From the moment on at which the name is known the connection has its usual time.
    unknown.store(false, Ordering::Relaxed);
    link.clock.0.fetch_add(second, Ordering::Relaxed);
    link.connection.look_at_deadlines();
    assert!(link.connection.connecting.is_none());
}

#[tokio::test]
async fn what_a_connection_that_was_gone_was_asked_is_asked_of_the_next_once() {
    let lost = |link: &mut Link| {
        let gone = Fault::new(FaultKind::Unreachable, "gone", true);
        link.connection.lose_connection(&gone);
        link.connection.push_on();
    };
    let extend = Op::Extend {
        ttl: Duration::from_secs(1),
        repair: crate::node::Repair::No,
        fence: 0,
        behind: 0,
    };
    let mut link = Link::connected();
    // Plain commands are not asked twice: it is a script's turn.
    link.asks_all(&[ACQUIRE, extend, Op::Inspect], true);
    assert_eq!(link.natives(), [true, true, true]);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), []);
    link.connects();
    assert_eq!(link.natives(), [false, false, false]);
    // The next one is lost, too.
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable; 3]);
    // What it has brought an answer to since lived until then.
    let mut link = Link::connected();
    link.asks_all(&[extend, ACQUIRE], false);
    link.answered(&[":1\r\n"]);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable]);
    // What may be answered otherwise the second time fails.
    let mut link = Link::connected();
    let confirm = Op::Confirm {
        ttl: Duration::from_secs(1),
        fence: 7,
        block: 1,
    };
    let long = Duration::from_secs(1);
    link.asks_all(&[confirm, Op::Reserve { long }], false);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable; 2]);
}

#[tokio::test]
async fn what_is_asked_twice_ends_when_it_would_have_ended() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.clock.0.fetch_add(60, Ordering::Relaxed);
    let gone = Fault::new(FaultKind::Unreachable, "gone", true);
    link.connection.lose_connection(&gone);
    link.connection.push_on();
    link.clock.0.fetch_add(40, Ordering::Relaxed);
    link.connection.look_at_deadlines();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
}

#[tokio::test]
async fn a_node_that_is_waited_for_is_connected_to_and_says_how_that_ended() {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, true);
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
    // The next connection is waited for as the first.
    let gone = Fault::new(FaultKind::Unreachable, "gone", true);
    link.connection.lose_connection(&gone);
    assert_eq!(met(), Poll::Pending);
    assert!(begins(&mut link).await);
    // One that is ended on the way says nothing of the next.
    link.connection.connecting = None;
    link.connection.failures = 0;
    link.connection.connect_failed(gone.clone());
    // But the next is begun, for the same who wait.
    link.connection.retry_at = Instant::NEVER;
    link.connection.push_on();
    assert!(link.connection.connecting.take().is_some());
    assert_eq!(met(), Poll::Pending);
    link.connection.connect_failed(gone);
    // Then it is known to be away, until somebody asks it something.
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

/// Whoever is dialled listens, and does not answer.
struct Listener(Arc<Mutex<Vec<Far>>>);

impl Dial for Listener {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
        let (near, far) = dial::pair();
        lock(&self.0).push(far);
        Box::pin(async { Ok(near) })
    }
}

/// What a server is asked first, by a link that has reached one before or not, and whose waiters
/// are to be told or not.
async fn greeted(reached: bool, subscriber: Option<Arc<dyn Subscriber>>) -> String {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, true);
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
        // Behind the record: what was carried out before that was read.
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
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
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
    fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<u64>) {
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
    let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, false);
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
    // The request has failed; the release, too, is left to the next task, which dials for it.
    for _ in 0..2 {
        let Some(Reply::Failed(fault)) = hears.recv().await else {
            panic!("it is answered");
        };
        assert_eq!(fault.kind, FaultKind::Unreachable);
    }
    dialled.recv().await.unwrap();
    assert!(hears.try_recv().is_err());
    // However the task ends, all is answered, and what comes later is refused.
    lock(&outbox.state).items.push_back(item(ACQUIRE));
    task.abort();
    assert!(matches!(hears.recv().await, Some(Reply::Failed(_))));
    assert!(lock(&outbox.state).ended);
}
