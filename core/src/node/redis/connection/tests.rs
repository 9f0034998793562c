//! What a link does where its connection is in doubt, step by step: nothing is read
//! and no time passes but as a test says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;

use super::*;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::admission::{Expected, Gate, Roster, Survey};
use crate::node::redis::connect::Told;
use crate::node::redis::dial::{Dial, Dialling, Stream};
use crate::node::redis::wire::Wire;
use crate::node::{Companions, Keys, Op, Request, Sink, Ticket, Value, Waits};
use crate::token::SystemRng;

/// How long each request may take.
const PATIENCE: Duration = Duration::from_nanos(100);
const ACQUIRE: Op = Op::Acquire {
    ttl: Duration::from_secs(1),
    candidate: 0,
    home: false,
    block: 1,
};

/// Goes on as it is told.
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// Whoever is dialled does not answer.
struct Silence;

impl Dial for Silence {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
        Box::pin(std::future::pending())
    }
}

/// The kinds of faults that were told.
#[derive(Default)]
struct Heard(Mutex<Vec<FaultKind>>);

impl Sink for Heard {
    fn on_reply(&self, _: Ticket, reply: Reply, _: Option<u64>) {
        if let Reply::Failed(fault) = reply {
            lock(&self.0).push(fault.kind);
        }
    }

    fn wanted(&self) -> bool {
        true
    }
}

/// A link whose task is played by hand, with the far ends of its streams.
struct Link {
    clock: Arc<ByHand>,
    connection: Connection,
    heard: Arc<Heard>,
    ends: Vec<UnixStream>,
}

impl Link {
    /// One with a connection that stands.
    fn connected() -> Link {
        let clock = Arc::new(ByHand(AtomicU64::new(1_000)));
        let expected = Expected::new("s", 1, Duration::from_secs(1), 0.01, false);
        let key = || Arc::<[u8]>::from(&b"k"[..]);
        let gate = Gate {
            accept_eviction: false,
            drift: 0.01,
            record_key: key(),
            quarantine_key: key(),
            scratch_key: key(),
            inbox: key(),
            told_deaf: AtomicBool::new(false),
            roster: Roster::new(&expected),
            survey: Survey::new(expected, vec![("n".into(), false)]),
            clock: clock.clone(),
            rng: Arc::new(SystemRng),
            warn: drop,
            note: drop,
        };
        let target = Target {
            address: Address {
                endpoint: Endpoint::Unix("/nowhere".into()),
                user: None,
                password: None,
                db: 0,
                origin: Origin::Caller,
                shown: "n".into(),
            },
            dial: Arc::new(Silence),
            node: 0,
            gate: Arc::new(gate),
        };
        let mut link = Link {
            connection: Connection::new(target, clock.clone(), Arc::default()),
            clock,
            heard: Arc::default(),
            ends: Vec::new(),
        };
        link.connects();
        link
    }

    /// The connection that is being made is there.
    fn connects(&mut self) {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        self.ends.push(far);
        let now = self.clock.now();
        self.connection.connecting = None;
        self.connection.take_connection(Box::new(Connected {
            wire: Wire::new(Stream::Unix(near), Arc::from(&b"in"[..])),
            guard: None,
            id: 1,
            server: 1,
            time: Told {
                time: 0,
                asked: now,
                at: now,
            },
            stepped: false,
            subscribed: false,
        }));
        self.connection.push_on();
    }

    /// A request is asked for, of the one token that there is.
    fn asks(&mut self, op: Op) {
        let item = self.item(op);
        lock(&self.connection.outbox.state).items.push(item);
        self.connection.take_outbox();
        self.connection.push_on();
    }

    fn item(&self, op: Op) -> Item {
        let now = self.clock.now();
        let keys = Keys {
            companions: Companions::new(b"qrf"),
            lock: b"k"[..].into(),
            waits: Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: None,
        };
        Item {
            request: Request {
                op,
                keys: Arc::new(keys),
                value: Value(b"v"[..].into()),
                waiter: None,
                not_after: 0,
            },
            ticket: Ticket {
                node: 0,
                sent: now,
                deadline: now + PATIENCE,
                op,
                server: 0,
            },
            sink: Some(self.heard.clone()),
            give_up: Instant::FAR,
            with_text: false,
            readmitted: false,
            on_old: false,
            written: Instant::NEVER,
        }
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
        [old, up].map(|pipe| pipe.as_ref().map_or(0, |pipe| pipe.in_flight.len()))
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
        assert!(up.answered().flatten().is_some());
        link.patience_ends();
        assert_eq!(link.written(), [3, left]);
    }
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
}

#[tokio::test]
async fn the_copy_of_a_release_goes_out_before_its_connection_is_closed() {
    let mut link = Link::connected();
    let release = link.item(Op::Release);
    let mut theirs = link.ends.pop().expect("one connection");
    let pipe = link.connection.up.as_mut().expect("a connection");
    assert!(pipe.is_idle());
    // Nobody reads, and this is more than there is room for. Nobody waits for an answer
    // either, and yet the connection must not be closed.
    for _ in 0..20_000 {
        pipe.write_copy(&release);
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
