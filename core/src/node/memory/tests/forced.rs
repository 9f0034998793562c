//! A value that is forced out of the lock, and does not come back.

use super::*;

/// Forces a lease out, banned for this many ms; returns the reply and the number of notified
/// waiters.
fn force(node: &mut MemoryNode, name: &str, ms: u64, long: u64) -> (Reply, usize) {
    let release = Request {
        leaving: AfterRelease::Forced(Duration::from_millis(long)),
        ..request(Op::Release, name)
    };
    let (answer, messages) = node.execute(&release, None, at(ms));
    (answer.unwrap(), messages.len())
}

const HELD: Reply = Reply::Released { held: true };
const NOT_HELD: Reply = Reply::Released { held: false };
const IN_QUARANTINE: Repair = Repair::InQuarantine { server: 0 };

#[test]
fn a_forced_vote_is_not_repaired() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    assert_eq!(force(&mut node, "a", 10, 50).0, HELD);
    assert_eq!(stands(&node, 10), None);
    assert_eq!(ask(&mut node, extend(Repair::No), "a", 11), Reply::NotMine);
    for repair in [Repair::Yes, IN_QUARANTINE] {
        assert_eq!(ask(&mut node, extend(repair), "a", 60), Reply::Banned);
    }
    // The node bans that value alone, and for so long.
    let repaired = Reply::Extended { repaired: true };
    assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 60), repaired);
    assert_eq!(ask(&mut node, extend(Repair::Yes), "a", 60), Reply::NotMine);
    ask(&mut node, Op::Release, "b", 60);
    assert_eq!(ask(&mut node, extend(Repair::Yes), "a", 61), repaired);
}

/// A forced release names the value that an inspection has shown.
#[test]
fn another_librarys_value_is_forced_out_and_not_released() {
    let mut node = MemoryNode::default();
    node.meddle(
        b"k",
        Some((StoredValue::Uncontended(value("!worker-7")), Instant::FAR)),
    );
    assert_eq!(ask(&mut node, Op::Release, "!worker-7", 0), NOT_HELD);
    assert_eq!(force(&mut node, "!worker-8", 0, 50).0, NOT_HELD);
    assert!(stands(&node, 0).is_some());
    assert_eq!(force(&mut node, "!worker-7", 0, 50).0, HELD);
    assert_eq!(stands(&node, 0), None);
}

#[test]
fn it_is_banned_where_it_has_no_vote_too() {
    let mut node = MemoryNode::default();
    assert_eq!(force(&mut node, "a", 0, 50).0, NOT_HELD);
    assert_eq!(force(&mut node, "b", 0, 20).0, NOT_HELD);
    // A later force makes the ban no shorter.
    assert_eq!(force(&mut node, "a", 10, 5).0, NOT_HELD);
    for name in ["a", "b"] {
        assert_eq!(ask(&mut node, extend(Repair::Yes), name, 20), Reply::Banned);
    }
    node.expire(at(21));
    assert_eq!(ask(&mut node, extend(Repair::Yes), "a", 50), Reply::Banned);
    assert_eq!(
        ask(&mut node, extend(Repair::Yes), "b", 50),
        Reply::Extended { repaired: true }
    );
}

#[test]
fn what_was_under_way_does_not_come_back() {
    let mut node = MemoryNode::default();
    force(&mut node, "a", 0, 50);
    assert_eq!(ask(&mut node, ACQUIRE, "a", 10), Reply::NotMine);
    assert_eq!(stands(&node, 10), None);
    // An adoption makes the ban no shorter, either.
    ask(&mut node, ACQUIRE, "b", 11);
    let mut adopts = request(ACQUIRE, "a");
    let old = crate::node::Adoption {
        value: value("b"),
        ban: Duration::ZERO,
    };
    Arc::make_mut(&mut adopts.keys).adopts = Some(Box::new(old));
    let reply = node.execute(&adopts, None, at(12)).0.unwrap();
    assert_eq!(reply, Reply::NotMine);
    assert!(granted(&ask(&mut node, ACQUIRE, "b", 13)));
    // When nothing is under way any more the ban is over.
    ask(&mut node, Op::Release, "b", 14);
    assert!(granted(&ask(&mut node, ACQUIRE, "a", 51)));
}

#[test]
fn a_reader_that_was_under_way_does_not_come_back() {
    let mut node = MemoryNode::default();
    force(&mut node, "a", 0, 50);
    let mut shares = request(ACQUIRE, "a");
    Arc::make_mut(&mut shares.keys).mode = Mode::Shared;
    let mut ask = |ms| node.execute(&shares, None, at(ms)).0.unwrap();
    assert_eq!(ask(10), Reply::NotMine);
    assert!(granted(&ask(51)));
}

#[test]
fn what_a_plain_command_has_brought_back_is_no_vote() {
    let mut node = MemoryNode::default();
    force(&mut node, "a", 0, 50);
    assert!(node.vote(&request(ACQUIRE, "a"), at(10)).stored);
    for repair in [Repair::No, Repair::Yes, IN_QUARANTINE] {
        assert_eq!(ask(&mut node, extend(repair), "a", 20), Reply::Banned);
    }
    let confirm = Op::Confirm {
        ttl: TTL,
        fence: 7,
        block: 1,
    };
    assert_eq!(ask(&mut node, confirm, "a", 20), Reply::Banned);
    assert_eq!(ask(&mut node, ACQUIRE, "a", 20), Reply::NotMine);
    assert_eq!(ask(&mut node, Op::Release, "a", 20), HELD);
}

#[test]
fn whoever_waits_is_called() {
    let mut node = with_queue(1);
    assert_eq!(force(&mut node, "a", 10, 50), (HELD, 1));
    let (reply, _) = ask_for(&mut node, 1, JOIN, "b", 11);
    assert!(granted(&reply));
    // The lock is another lease's now, so the node refuses the forced one as ever.
    assert_eq!(ask(&mut node, extend(Repair::Yes), "a", 12), Reply::NotMine);
}

#[test]
fn what_is_kept_or_foreign_goes_too() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    let keep = Request {
        leaving: AfterRelease::TakenFor(Duration::from_millis(300)),
        ..request(Op::Release, "a")
    };
    node.execute(&keep, None, at(0)).0.unwrap();
    assert_eq!(force(&mut node, "b", 1, 50).0, NOT_HELD);
    assert!(stands(&node, 1).is_some());
    assert_eq!(force(&mut node, "a", 1, 50).0, HELD);
    assert_eq!(stands(&node, 1), None);
    node.meddle(
        b"k",
        Some((StoredValue::Uncontended(value("!theirs")), Instant::FAR)),
    );
    assert_eq!(force(&mut node, "!theirs", 2, 50).0, HELD);
    assert_eq!(stands(&node, 2), None);
}

#[test]
fn of_a_value_of_any_length_a_node_tells_the_beginning() {
    let mut node = MemoryNode::default();
    let long = "x".repeat(100_000);
    ask(&mut node, ACQUIRE, &long, 0);
    let Reply::Seen(seen) = ask(&mut node, Op::Inspect, "b", 1) else {
        panic!("it tells what it has");
    };
    assert_eq!(seen.value.map(|value| value.0.len()), Some(SHOWN_BYTES));
}
