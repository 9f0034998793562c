use super::scripts::FURTHEST;
use super::*;
use crate::node::{Companions, Keys, Waits};
use crate::node::{Op, Repair, Request, Waiter};

const TTL: Duration = Duration::from_millis(100);
const ACQUIRE: Op = acquire(0, false, 1);

const fn acquire(candidate: u64, home: bool, block: u32) -> Op {
    Op::Acquire {
        ttl: TTL,
        candidate,
        home,
        block,
    }
}

fn extend(repair: Repair) -> Op {
    Op::Extend {
        ttl: TTL,
        repair,
        fence: 0,
    }
}

/// The node's `TIME` at the start of a test, in µs.
const START: u64 = 10_000_000;

fn at(ms: u64) -> Instant {
    Instant(START * 1000 + ms * 1_000_000)
}

fn request(op: Op, value: &str) -> Request {
    Request {
        op,
        keys: Arc::new(Keys {
            lock: b"k"[..].into(),
            companions: Companions::new(b"qrf"),
            waits: Waits {
                reservation: Duration::from_millis(20),
                place: Duration::from_millis(500),
                most: 3,
            },
            fence_ttl: Some(Duration::from_secs(10)),
        }),
        value: Value(value.as_bytes().into()),
        waiter: None,
        not_after: 0,
    }
}

fn ask(node: &mut MemoryNode, op: Op, value: &str, ms: u64) -> Reply {
    let answer = node.execute(&request(op, value), None, at(ms)).0;
    answer.unwrap()
}

#[test]
fn only_the_owner_extends_and_releases() {
    let mut node = MemoryNode::default();
    let first = acquire(START + 1_000, false, 1);
    assert_eq!(
        ask(&mut node, first, "a", 1),
        Reply::Granted {
            fence: START + 1_000
        }
    );
    let left = Duration::from_millis(60);
    assert_eq!(
        ask(&mut node, ACQUIRE, "b", 41),
        Reply::Refused {
            left: Some(left),
            holder: None,
            place: None,
            subscribers: 1,
        }
    );
    assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 51), Reply::NotMine);
    assert_eq!(
        ask(&mut node, Op::Release, "b", 51),
        Reply::Released { held: false }
    );
    // Its own token again: lengthened to the full ttl, with the same fence.
    assert_eq!(
        ask(&mut node, first, "a", 51),
        Reply::Granted {
            fence: START + 1_000
        }
    );
    assert!(node.get(b"k", at(151)).is_some());
    assert!(node.get(b"k", at(152)).is_none());
    assert_eq!(ask(&mut node, extend(Repair::No), "a", 152), Reply::NotMine);
    assert_eq!(
        ask(&mut node, extend(Repair::Yes), "a", 152),
        Reply::Extended { repaired: true }
    );
    assert_eq!(
        ask(&mut node, Op::Release, "a", 153),
        Reply::Released { held: true }
    );
}

#[test]
fn fences_grow_and_are_clamped() {
    let mut node = MemoryNode::default();
    let acquire = |candidate| acquire(candidate, false, 1);
    assert_eq!(
        ask(&mut node, acquire(START + 7_000), "a", 1),
        Reply::Granted {
            fence: START + 7_000
        }
    );
    ask(&mut node, Op::Release, "a", 1);
    assert_eq!(
        ask(&mut node, acquire(5), "b", 2),
        Reply::Granted {
            fence: START + 7_001
        }
    );
    let confirm = |fence| Op::Confirm { ttl: TTL, fence };
    assert_eq!(
        ask(&mut node, confirm(START + 9_000), "a", 2),
        Reply::NotMine
    );
    assert_eq!(
        ask(&mut node, confirm(START + 7_000), "b", 2),
        Reply::Greater {
            fence: START + 7_001
        }
    );
    assert_eq!(
        ask(&mut node, confirm(START + 9_000), "b", 2),
        Reply::Confirmed
    );
    ask(&mut node, Op::Release, "b", 2);
    // Nothing proposed: nothing is counted.
    for _ in 0..2 {
        let fence = START + 9_000;
        assert_eq!(ask(&mut node, acquire(0), "d", 2), Reply::Granted { fence });
    }
    ask(&mut node, Op::Release, "d", 2);
    let far = acquire(u64::MAX / 2);
    assert_eq!(
        ask(&mut node, far, "c", 3),
        Reply::Granted {
            fence: START + 3_000 + FURTHEST
        }
    );
}

#[test]
fn in_quarantine_votes_are_kept_but_not_given() {
    let mut node = MemoryNode::default();
    let record: Arc<str> = "r".into();
    assert!(node.init(None, record.clone(), Duration::ZERO, at(0)));
    assert!(!node.init(None, "s".into(), Duration::ZERO, at(0)));
    let mut ask = |op, value: &str, record: &str, ms| {
        node.execute(&request(op, value), Some(record), at(ms)).0
    };
    assert_eq!(ask(ACQUIRE, "a", "s", 1), Err(OtherRecord));
    assert!(matches!(
        ask(ACQUIRE, "a", "r", 1),
        Ok(Reply::Granted { .. })
    ));
    assert!(node.init(Some("r"), "t".into(), Duration::from_millis(500), at(2)));
    let left = Duration::from_millis(498);
    let mut ask = |op, value: &str, ms| node.execute(&request(op, value), Some("t"), at(ms)).0;
    assert!(matches!(ask(ACQUIRE, "a", 3), Ok(Reply::Granted { .. })));
    assert!(matches!(
        ask(extend(Repair::Yes), "a", 3),
        Ok(Reply::Extended { .. })
    ));
    ask(Op::Release, "a", 3).unwrap();
    for op in [ACQUIRE, extend(Repair::Yes)] {
        assert_eq!(ask(op, "a", 4), Ok(Reply::Quarantined { left }));
    }
    let repaired = Ok(Reply::Extended { repaired: true });
    assert_eq!(
        ask(extend(Repair::InQuarantine { server: 7 }), "a", 4),
        repaired
    );
}

#[test]
fn a_late_request_does_nothing() {
    let mut node = MemoryNode::default();
    let late = Request {
        not_after: START + 4_999,
        ..request(ACQUIRE, "a")
    };
    assert_eq!(node.execute(&late, None, at(5)).0, Ok(Reply::Late));
    assert!(node.get(b"k", at(5)).is_none());
}

/// The waiter of that number.
fn waiter(number: u64) -> Waiter {
    let inbox = format!("in:{number}").into_bytes().into();
    Waiter { number, inbox }
}

/// Asks for a waiter; returns the reply and who was told.
fn ask_for(node: &mut MemoryNode, number: u64, op: Op, value: &str, ms: u64) -> (Reply, Vec<u64>) {
    let request = Request {
        waiter: Some(waiter(number)),
        ..request(op, value)
    };
    let (answer, messages) = node.execute(&request, None, at(ms));
    let told = messages.into_iter().map(|(_, number)| number).collect();
    (answer.unwrap(), told)
}

/// A node on which `a` holds the lock and the waiters 1, 2, … are queued, all
/// of whom listen.
fn with_queue(waiters: u64) -> MemoryNode {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    for number in 1..=waiters {
        node.subscribe(&waiter(number).inbox);
        let (reply, told) = ask_for(&mut node, number, JOIN, "t", 0);
        let place = u32::try_from(number - 1).unwrap();
        assert!(
            matches!(reply, Reply::Refused { place: Some(p), subscribers: 1, .. } if p == place),
            "{reply:?}"
        );
        assert!(told.is_empty());
    }
    node
}

const JOIN: Op = acquire(0, true, 1);

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

#[test]
fn a_release_reserves_for_the_first_in_line_and_tells_it() {
    let mut node = with_queue(2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 10).1, [1]);
    // Reserved: not for others, whoever they are, for 20 ms.
    assert_eq!(refused(ask(&mut node, ACQUIRE, "n", 11)), (19, None));
    assert_eq!(
        refused(ask_for(&mut node, 2, JOIN, "t", 12).0),
        (18, Some(0))
    );
    let (reply, told) = ask_for(&mut node, 1, JOIN, "t", 29);
    assert!(granted(&reply) && told.is_empty());
    // A vote ends it: the next release tells the next.
    assert_eq!(ask_for(&mut node, 9, Op::Release, "t", 29).1, [2]);
}

#[test]
fn a_reservation_that_is_not_used_ends_and_whoever_asks_serves_the_line() {
    let mut node = with_queue(3);
    ask(&mut node, Op::Release, "a", 10);
    // The third asks: it is the second's turn now, who is told.
    let (reply, told) = ask_for(&mut node, 3, JOIN, "t", 30);
    assert_eq!((refused(reply), told), ((20, Some(0)), vec![2]));
    // Its own turn is told to nobody. The first joins at the tail.
    assert_eq!(
        refused(ask_for(&mut node, 1, JOIN, "u", 40).0),
        (10, Some(1))
    );
    let (reply, told) = ask_for(&mut node, 3, JOIN, "t", 50);
    assert!(granted(&reply) && told.is_empty());
}

#[test]
fn the_dead_the_absent_and_the_late_are_passed_over() {
    let mut node = with_queue(3);
    node.unsubscribe(&waiter(1).inbox);
    let (reply, _) = ask_for(&mut node, 1, JOIN, "t", 1);
    assert!(
        matches!(
            reply,
            Reply::Refused {
                place: Some(0),
                subscribers: 0,
                ..
            }
        ),
        "{reply:?}"
    );
    ask_for(&mut node, 2, Op::Release, "", 2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 3).1, [3]);
    // Places end by the node's clock, 500 ms after their waiters asked last.
    for (ms, told) in [(499, 1), (500, 2)] {
        let mut node = with_queue(3);
        ask_for(&mut node, 2, JOIN, "t", 90);
        assert_eq!(ask_for(&mut node, 9, Op::Release, "", ms).1, [told]);
    }
}

#[test]
fn whoever_leaves_gives_its_reservation_to_the_next() {
    let mut node = with_queue(2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 10).1, [1]);
    assert_eq!(ask_for(&mut node, 1, Op::Release, "", 11).1, [2]);
    assert_eq!(ask_for(&mut node, 2, Op::Release, "", 11).1, []);
    assert!(granted(&ask(&mut node, ACQUIRE, "n", 11)));
}

#[test]
fn nothing_is_reserved_over_a_live_key_nor_in_quarantine() {
    let mut node = with_queue(2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "stranger", 1).1, []);
    node.init(None, "r".into(), Duration::from_millis(300), at(1));
    let mut told = |value, record, ms| {
        let release = request(Op::Release, value);
        node.execute(&release, Some(record), at(ms)).1.len()
    };
    assert_eq!(told("a", "r", 2), 0, "in quarantine");
    assert_eq!(told("", "s", 302), 0, "another record");
    assert_eq!(told("", "r", 302), 1);
}

#[test]
fn a_full_queue_takes_nobody_but_keeps_who_is_there() {
    let mut node = with_queue(3);
    assert_eq!(refused(ask_for(&mut node, 4, JOIN, "t", 10).0), (90, None));
    assert_eq!(
        refused(ask_for(&mut node, 3, JOIN, "t", 10).0),
        (90, Some(2))
    );
}

#[test]
fn without_messages_the_queue_stays_and_whoever_asks_is_served() {
    let mut node = with_queue(2);
    node.permit_messages(false);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 10).1, []);
    let (reply, told) = ask_for(&mut node, 2, JOIN, "t", 11);
    assert!(granted(&reply) && told.is_empty());
    let (reply, _) = ask_for(&mut node, 1, JOIN, "u", 11);
    assert!(
        matches!(
            reply,
            Reply::Refused {
                place: Some(0),
                subscribers: 1,
                ..
            }
        ),
        "{reply:?}"
    );
}

#[test]
fn a_repair_ends_a_reservation_and_its_own_token_is_never_queued() {
    let mut node = with_queue(2);
    ask(&mut node, Op::Release, "a", 10);
    let repaired = Reply::Extended { repaired: true };
    assert_eq!(ask(&mut node, extend(Repair::Yes), "a", 11), repaired);
    assert!(granted(&ask_for(&mut node, 5, JOIN, "a", 12).0));
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 13).1, [2]);
}

#[test]
fn a_node_counts_by_no_clock_of_its_own() {
    let mut node = MemoryNode::default();
    let acquire = |candidate| acquire(candidate, false, 1);
    assert_eq!(
        ask(&mut node, acquire(0), "a", 1),
        Reply::Granted { fence: 0 }
    );
    ask(&mut node, Op::Release, "a", 1);
    for fence in [5, 6] {
        assert_eq!(ask(&mut node, acquire(5), "a", 2), Reply::Granted { fence });
        ask(&mut node, Op::Release, "a", 2);
    }
}

#[test]
fn a_block_of_fences_is_counted_by_its_last() {
    let mut node = MemoryNode::default();
    let taken = |node: &mut MemoryNode, candidate, block, ms| {
        let reply = ask(node, acquire(candidate, false, block), "a", ms);
        ask(node, Op::Release, "a", ms);
        reply
    };
    let fence = START + 5_000;
    let reply = taken(&mut node, fence, 17, 1);
    assert_eq!(reply, Reply::Granted { fence });
    let reply = taken(&mut node, fence + 3, 17, 2);
    assert_eq!(reply, Reply::Granted { fence: fence + 17 });
}
