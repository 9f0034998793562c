//! What requests mean on a node in memory, each rule by itself.

mod adopt;
mod crowded;
mod fences;
mod forced;
mod hashed;
mod kept;
mod line;
mod native;
mod shared;
mod slots;

use super::*;
use crate::node::{AfterRelease, AuxKeys, Keys, Mode, Waits};
use crate::node::{Op, Repair, Request, SHOWN_BYTES, Value, Waiter};

const TTL: Duration = Duration::from_millis(100);
const ACQUIRE: Op = acquire(0, false, 1);
const JOIN: Op = acquire(0, true, 1);

const fn acquire(candidate: u64, home: bool, block: u32) -> Op {
    Op::Acquire {
        ttl: TTL,
        candidate,
        home,
        let_in: false,
        block,
    }
}

fn extend(repair: Repair) -> Op {
    Op::Extend {
        ttl: TTL,
        repair,
        fence: 0,
        behind: 0,
    }
}

/// The node's `TIME` at the start of a test, in µs.
const START: u64 = 10_000_000;

fn at(ms: u64) -> Instant {
    Instant(START * 1000 + ms * 1_000_000)
}

/// The value of a token of one digit, without a label; none of an empty name; after `!` a
/// foreign text as it is.
fn value(name: &str) -> Value {
    let text = match name.strip_prefix('!') {
        Some(foreign) => foreign.to_owned(),
        None if name.is_empty() => String::new(),
        None => format!("{}.{}", name[..1].repeat(40), &name[1..]),
    };
    Value(text.as_bytes().into())
}

fn request(op: Op, name: &str) -> Request {
    Request {
        op,
        native: false,
        keys: Arc::new(Keys {
            lock: b"k"[..].into(),
            aux: AuxKeys::of(b"q", b"f"),
            waits: Waits {
                reservation: Duration::from_millis(20),
                place: Duration::from_millis(500),
                most: 3,
            },
            fence_ttl: Some(Duration::from_secs(10)),
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        }),
        value: value(name),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: 0,
    }
}

fn ask(node: &mut MemoryNode, op: Op, name: &str, ms: u64) -> Reply {
    let answer = node.execute(&request(op, name), None, at(ms)).0;
    answer.unwrap()
}

/// The waiter of that number.
fn waiter(number: u64) -> Waiter {
    let inbox = format!("in:{number}").into_bytes().into();
    Waiter { number, inbox }
}

/// Asks for a waiter; returns the reply and the notified waiters.
fn ask_for(node: &mut MemoryNode, number: u64, op: Op, name: &str, ms: u64) -> (Reply, Vec<u64>) {
    let request = Request {
        waiter: Some(waiter(number)),
        ..request(op, name)
    };
    let (answer, messages) = node.execute(&request, None, at(ms));
    let told = messages.into_iter().map(|(_, call)| call.number).collect();
    (answer.unwrap(), told)
}

/// A node on which `a` holds the lock and the waiters 1, 2, … are queued, all with a subscriber.
fn with_queue(waiters: u64) -> MemoryNode {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    for number in 1..=waiters {
        node.subscribe(&waiter(number).inbox);
        let (reply, told) = ask_for(&mut node, number, JOIN, "d", 0);
        let place = u32::try_from(number - 1).unwrap();
        assert!(
            matches!(reply, Reply::Refused { place: Some(p), subscribers: 1, .. } if p == place),
            "{reply:?}"
        );
        assert!(told.is_empty());
    }
    node
}

fn vote(fence: u64) -> Reply {
    Reply::Granted { fence, lasts: None }
}

fn granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted { .. })
}

/// What a refusal says of the time, and of the place.
fn refused(reply: Reply) -> (u128, Option<u32>) {
    match reply {
        Reply::Refused { left, place, .. } => (left.unwrap().as_millis(), place),
        other => panic!("{other:?}"),
    }
}

/// What stands under the lock's key, and for how many ms from then.
fn stands(node: &MemoryNode, ms: u64) -> Option<(StoredValue, u128)> {
    let (form, end) = node.form(b"k", at(ms))?;
    Some((form.clone(), at(ms).until(end).as_millis()))
}

fn quiet(name: &str) -> StoredValue {
    StoredValue::Uncontended(value(name))
}

/// Held, crowded, until this many ms have passed.
fn held(name: &str, ms: u64) -> StoredValue {
    StoredValue::Contended {
        until: START + ms * 1000,
        value: value(name),
    }
}

/// Reserved, until this many ms have passed.
fn reserved(number: u64, ms: u64) -> StoredValue {
    StoredValue::Reserved {
        until: START + ms * 1000,
        whom: ReservedFor::Waiter(waiter(number)),
    }
}

/// A crowded lock that is free, and reserved for no waiter.
const FOR_NOBODY: StoredValue = StoredValue::Reserved {
    until: 0,
    whom: ReservedFor::NoWaiter,
};

#[test]
fn only_the_owner_extends_and_releases() {
    let mut node = MemoryNode::default();
    let first = acquire(START + 1_000, false, 1);
    assert_eq!(ask(&mut node, first, "alex", 1), vote(START + 1_000));
    assert_eq!(
        ask(&mut node, ACQUIRE, "b", 41),
        Reply::Refused {
            left: Some(Duration::from_millis(60)),
            holder: Some("lex".into()),
            place: None,
            subscribers: 1,
            shared: false,
        }
    );
    assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 51), Reply::NotMine);
    assert_eq!(
        ask(&mut node, Op::Release, "b", 51),
        Reply::Released { held: false }
    );
    // An acquire with its own token again lengthens the vote to the full ttl.
    assert!(granted(&ask(&mut node, first, "alex", 51)));
    assert_eq!(stands(&node, 151), Some((quiet("alex"), 0)));
    assert_eq!(stands(&node, 152), None);
    assert_eq!(
        ask(&mut node, extend(Repair::No), "alex", 152),
        Reply::NotMine
    );
    assert_eq!(
        ask(&mut node, extend(Repair::Yes), "alex", 152),
        Reply::Extended { repaired: true }
    );
    assert_eq!(
        ask(&mut node, Op::Release, "alex", 153),
        Reply::Released { held: true }
    );
    assert_eq!(stands(&node, 153), None);
}

#[test]
fn nothing_shortens_a_vote() {
    let mut node = MemoryNode::default();
    let long = Op::Acquire {
        ttl: 3 * TTL,
        candidate: 0,
        home: false,
        let_in: false,
        block: 1,
    };
    ask(&mut node, long, "a", 0);
    let confirm = Op::Confirm {
        ttl: TTL,
        fence: START,
        block: 1,
    };
    for op in [ACQUIRE, extend(Repair::Yes), confirm] {
        ask(&mut node, op, "a", 1);
        assert_eq!(stands(&node, 1), Some((quiet("a"), 299)));
    }
}

/// A node in quarantine from 2 ms on, for 500 ms, on which `a` holds the lock.
fn in_quarantine() -> MemoryNode {
    let mut node = MemoryNode::default();
    assert!(node.init(None, "r".into(), Duration::ZERO, at(0)));
    assert!(!node.init(None, "s".into(), Duration::ZERO, at(0)));
    let acquire = request(ACQUIRE, "a");
    for asked in [ACQUIRE, extend(Repair::No)] {
        let answer = node.execute(&request(asked, "a"), Some("s"), at(1)).0;
        assert_eq!(answer, Err(OtherRecord));
    }
    assert_eq!(node.execute(&acquire, Some("r"), at(1)).0, Ok(vote(0)));
    assert!(node.init(Some("r"), "t".into(), Duration::from_millis(500), at(2)));
    node
}

#[test]
fn in_quarantine_a_vote_is_confirmed_to_whom_counts_it_alone() {
    let mut node = in_quarantine();
    let left = Duration::from_millis(497);
    let shut = Ok(Reply::Quarantined { left });
    let mut ask = |op, name| node.execute(&request(op, name), Some("t"), at(5)).0;
    // The value may be a void vote, and stands all the same.
    for op in [ACQUIRE, extend(Repair::No), extend(Repair::Yes)] {
        assert_eq!(ask(op, "a"), shut);
    }
    let counts = extend(Repair::InQuarantine { server: 7 });
    assert_eq!(ask(counts, "a"), Ok(Reply::Extended { repaired: false }));
    let confirm = Op::Confirm {
        ttl: TTL,
        fence: START,
        block: 1,
    };
    assert_eq!(ask(confirm, "a"), Ok(Reply::Confirmed));
    // Other tokens are refused, or sent elsewhere.
    assert!(matches!(ask(ACQUIRE, "b"), Ok(Reply::Refused { .. })));
    assert_eq!(ask(extend(Repair::Yes), "b"), Ok(Reply::NotMine));
    assert_eq!(
        ask(Op::Release, "a"),
        Ok(Reply::Released { held: true }),
        "whoever lets go may"
    );
    for op in [ACQUIRE, extend(Repair::Yes)] {
        assert_eq!(ask(op, "a"), shut);
    }
    assert_eq!(ask(extend(Repair::No), "a"), Ok(Reply::NotMine));
    assert_eq!(ask(counts, "a"), Ok(Reply::Extended { repaired: true }));
}

#[test]
fn a_node_in_quarantine_is_no_home() {
    let mut node = in_quarantine();
    let join = Request {
        waiter: Some(waiter(1)),
        ..request(JOIN, "b")
    };
    let answer = node.execute(&join, Some("t"), at(5)).0;
    assert!(
        matches!(answer, Ok(Reply::Quarantined { .. })),
        "{answer:?}"
    );
    assert!(!node.is_queued(&join, at(5)));
    assert_eq!(stands(&node, 5), Some((quiet("a"), 96)), "not marked");
    // A client that minds no record minds no quarantine.
    assert!(granted(&ask(&mut node, ACQUIRE, "a", 5)));
}

#[test]
fn a_late_request_does_nothing() {
    let mut node = MemoryNode::default();
    let late = Request {
        not_after: START + 4_999,
        ..request(ACQUIRE, "a")
    };
    assert_eq!(node.execute(&late, None, at(5)).0, Ok(Reply::Late));
    assert_eq!(stands(&node, 5), None);
}
