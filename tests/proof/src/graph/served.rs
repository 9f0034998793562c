//! What the specification makes of a message at a node of the small model: the state in units is put into µs and ms, the request
//! is carried out as one of a trace is, and what comes of it is read in units again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{
    AfterRelease, AuxKeys, Instant, Keys, Mode, Op, Repair, Reply, Request, RequestContext, Value,
    Waits,
};

use super::state::{Message, Model, Node};
use crate::spec::claim::Vote;
use crate::spec::lock::{Form, Key, Lock};
use crate::spec::native::{Trailer, worth};
use crate::spec::node::{Answer, Node as Served};

/// A unit of time, in ms.
const UNIT: u64 = 1_000;
/// The present millisecond of every node, and the present moment of every client in ns.
const NOW: u64 = 1_000_000;
const CLIENT: u64 = 1_000_000_000_000;

fn value(token: u64) -> Value {
    Value(format!("{token:040x}.").into_bytes().into())
}

fn token(value: &Value) -> u64 {
    let digits = std::str::from_utf8(&value.0[..40]).unwrap_or("");
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// The request that a message is.
fn request(model: &Model, message: &Message, op: Op) -> Request {
    let time = NOW * 1000 + message.a * UNIT * 1000;
    let native = matches!(message.k, "native" | "trailer");
    Request {
        op,
        native,
        keys: Arc::new(Keys {
            lock: b"lock:{k}"[..].into(),
            aux: AuxKeys::of(b"lock:#q:{k}", b"lock:#f:{k}"),
            waits: Waits {
                reservation: Duration::from_millis(200),
                place: Duration::from_secs(60),
                most: 10,
            },
            fence_ttl: model.fencing.then(|| Duration::from_secs(3600)),
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        }),
        value: value(message.t),
        waiter: None,
        leaving: AfterRelease::Free,
        // A script comes in time while any of it is left.
        not_after: if native { time } else { time - 1 },
    }
}

/// What comes of a message at its node: the node as it is then, and the answer.
#[derive(Clone, Debug)]
pub struct Done {
    /// The node.
    pub node: Node,
    /// The answer, if it is not lost.
    pub reply: Option<Reply>,
}

/// Carries a script out, or the command of a release.
pub fn script(model: &Model, node: &Node, message: &Message) -> Done {
    let ttl = Duration::from_millis(model.ttl * UNIT);
    let repair = match message.m {
        2 => Repair::InQuarantine { server: 1 },
        _ => Repair::Yes,
    };
    let op = match message.k {
        "native" | "acquire" => Op::Acquire {
            ttl,
            candidate: message.f,
            home: false,
            let_in: false,
            block: 1,
        },
        "extend" => Op::Extend {
            ttl,
            repair,
            fence: message.f,
            behind: 0,
        },
        "confirm" => Op::Confirm {
            ttl,
            fence: message.f,
            block: 1,
        },
        _ => Op::Release,
    };
    let request = request(model, message, op);
    let key = (node.key.1 > 0).then(|| Key {
        form: Form::Quiet(value(node.key.0)),
        end: Some(NOW + node.key.1 * UNIT - 1),
    });
    let lock = Lock {
        key,
        counter: (node.count > 0).then_some((node.count, None)),
        ..Lock::default()
    };
    let mut served = Served {
        lock,
        time: NOW * 1000,
        quarantine: (node.quar > 0).then(|| Duration::from_millis(node.quar * UNIT)),
        admitted: node.rec == message.r || message.k == "release",
        other_layout: false,
        request: &request,
        listeners: &BTreeMap::new(),
        called: Vec::new(),
    };
    let reply = if message.k == "native" {
        let (stored, counted) = served.set_if_none();
        let fence = u64::from(counted);
        (stored && served.lock.key.is_some()).then_some(Reply::Granted { fence, lasts: None })
    } else {
        match served.carry_out().1 {
            Answer::Says(reply) => Some(reply),
            Answer::Fails | Answer::OtherRecord => None,
        }
    };
    let key = served.lock.key.as_ref().map_or((0, 0), |key| {
        let left = key.end.map_or(0, |end| (end + 1 - NOW + UNIT / 2) / UNIT);
        (key.form.value().map_or(0, token), left)
    });
    let count = served.lock.counter.map_or(0, |(fence, _)| fence);
    let node = Node {
        key,
        count,
        ..node.clone()
    };
    Done { node, reply }
}

/// What is left of the vote that a trailer makes of plain commands, and its mark; `None`: it is void.
pub fn trailer(model: &Model, node: &Node, message: &Message) -> Option<(u64, u64)> {
    let ttl = Duration::from_millis(model.ttl * UNIT);
    let op = Op::Acquire {
        ttl,
        candidate: message.f,
        home: false,
        let_in: false,
        block: 1,
    };
    let voted = NativeReplies {
        stored: true,
        counted: message.f > 0,
    };
    let shown = Trailer {
        admitted: node.rec == message.r,
        quarantined: node.quar > 0,
        time: NOW * 1000,
    };
    match worth(&request(model, message, op), voted, shown) {
        Outcome::Reply(reply @ Reply::Granted { .. }) => {
            // It was sent when its count was whole.
            let vote = take(Vote::default(), op, &reply, model.ttl - message.c);
            Some((left(&vote), vote.mark))
        }
        _ => None,
    }
}

/// What a client that has so much of a vote left, with that mark, makes of an answer whose count has `c` left.
pub fn heard(model: &Model, vote: u64, mark: u64, message: &Message) -> (u64, u64) {
    let before = Vote {
        end: if vote > 0 {
            CLIENT + vote * UNIT * 1_000_000
        } else {
            0
        },
        mark,
        ..Vote::default()
    };
    let ttl = Duration::from_millis(model.ttl * UNIT);
    let lasts = Duration::from_millis(message.c * UNIT + 2);
    let extend = Op::Extend {
        ttl: lasts,
        repair: Repair::Yes,
        fence: 0,
        behind: 0,
    };
    let confirm = Op::Confirm {
        ttl: lasts,
        fence: message.f,
        block: 1,
    };
    let acquire = Op::Acquire {
        ttl,
        candidate: 1,
        home: false,
        let_in: false,
        block: 1,
    };
    let (op, reply) = match (message.k, message.m) {
        ("vote", 1) => (
            acquire,
            Reply::Granted {
                fence: message.f,
                lasts: Some(lasts),
            },
        ),
        ("vote", _) => (extend, Reply::Extended { repaired: false }),
        ("mark", _) => (confirm, Reply::Confirmed),
        _ => (extend, Reply::NotMine),
    };
    let vote = take(before, op, &reply, 0);
    (left(&vote), vote.mark)
}

fn take(mut vote: Vote, op: Op, reply: &Reply, ago: u64) -> Vote {
    let ticket = RequestContext {
        node: 0,
        sent: Instant(CLIENT - ago * UNIT * 1_000_000),
        deadline: Instant::FAR,
        op,
        server: 1,
    };
    vote.take(&ticket, reply, 0.0);
    vote
}

/// In units, to which the two milliseconds of the drift are nothing.
fn left(vote: &Vote) -> u64 {
    let left = vote.end.saturating_sub(CLIENT) / 1_000_000;
    (left + UNIT / 2) / UNIT
}
