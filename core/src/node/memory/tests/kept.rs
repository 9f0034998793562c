//! A lock that stays taken behind its release.

use super::*;

/// Gives it back, and has it stay taken for this many ms.
fn keep(node: &mut MemoryNode, name: &str, ms: u64, long: u64) -> (Reply, usize) {
    let release = Request {
        leaving: AfterRelease::TakenFor(Duration::from_millis(long)),
        ..request(Op::Release, name)
    };
    let (answer, messages) = node.execute(&release, None, at(ms));
    (answer.unwrap(), messages.len())
}

fn kept(name: &str, ms: u64) -> StoredValue {
    StoredValue::Kept {
        until: START + ms * 1000,
        value: value(name),
    }
}

#[test]
fn what_is_kept_stays_whatever_is_released() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    assert_eq!(
        keep(&mut node, "a", 1, 300).0,
        Reply::Released { held: true }
    );
    assert_eq!(stands(&node, 1), Some((kept("a", 301), 300)));
    // A second release of the same token, with keep or without, and a release of another token.
    for release in [("a", true), ("b", false)] {
        let reply = ask(&mut node, Op::Release, release.0, 2);
        assert_eq!(reply, Reply::Released { held: release.1 });
        keep(&mut node, release.0, 3, 900);
        assert!(!node.delete(&request(Op::Release, release.0), at(3)));
        assert_eq!(stands(&node, 3), Some((kept("a", 301), 298)));
    }
    assert!(granted(&ask(&mut node, ACQUIRE, "b", 302)));
}

#[test]
fn the_token_behind_it_is_dead() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    keep(&mut node, "a", 0, 300);
    assert_eq!(refused(ask(&mut node, ACQUIRE, "a", 1)), (299, None));
    for repair in [Repair::No, Repair::Yes, Repair::InQuarantine { server: 0 }] {
        assert_eq!(ask(&mut node, extend(repair), "a", 1), Reply::NotMine);
    }
    assert_eq!(stands(&node, 1), Some((kept("a", 300), 299)));
}

#[test]
fn nobody_is_told_before_it_is_over() {
    let mut node = with_queue(2);
    assert_eq!(keep(&mut node, "a", 10, 300).1, 0);
    assert_eq!(stands(&node, 10), Some((kept("a", 310), 500)));
    let (reply, told) = ask_for(&mut node, 2, JOIN, "b", 300);
    assert_eq!((refused(reply), told), ((10, Some(1)), vec![]));
    // After the kept time any client that asks serves the queue.
    let (reply, told) = ask_for(&mut node, 2, JOIN, "b", 311);
    assert_eq!((refused(reply), told), ((20, Some(0)), vec![1]));
}

#[test]
fn it_is_kept_where_it_has_no_vote_and_nobody_else_has() {
    let mut node = MemoryNode::default();
    // The node had refused this lease's vote for another's, which is gone by now.
    assert_eq!(keep(&mut node, "a", 1, 300).0, Reply::Kept);
    assert_eq!(stands(&node, 1).map(|(form, _)| form), Some(kept("a", 301)));
    assert_eq!(refused(ask(&mut node, ACQUIRE, "b", 2)).0, 299);
    // Another lease has the lock, or another waiter is called for it.
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "b", 0);
    let another = Reply::Released { held: false };
    assert_eq!(keep(&mut node, "a", 1, 300).0, another);
    assert_eq!(
        stands(&node, 1).map(|(form, _)| form),
        Some(StoredValue::Uncontended(value("b")))
    );
    // A release without a value keeps nothing.
    let mut node = MemoryNode::default();
    let request = Request {
        value: Value(Arc::default()),
        leaving: AfterRelease::TakenFor(Duration::from_millis(300)),
        ..request(Op::Release, "a")
    };
    assert_eq!(node.execute(&request, None, at(1)).0.unwrap(), another);
    assert_eq!(stands(&node, 1), None);
}

#[test]
fn a_node_that_may_have_forgotten_a_vote_keeps_but_does_not_count() {
    let mut node = MemoryNode::default();
    node.init(None, "r".into(), Duration::from_millis(500), at(1));
    let mut ask = |name, record, ms, long| {
        let release = Request {
            leaving: AfterRelease::TakenFor(Duration::from_millis(long)),
            ..request(Op::Release, name)
        };
        node.execute(&release, Some(record), at(ms)).0.unwrap()
    };
    // Another client may count a vote of this node that the node has forgotten.
    let kept_for_nothing = Reply::Released { held: false };
    assert_eq!(ask("a", "r", 2, 10), kept_for_nothing, "in quarantine");
    assert_eq!(ask("a", "s", 502, 10), kept_for_nothing, "another record");
    assert_eq!(ask("a", "r", 513, 10), Reply::Kept);
    assert_eq!(
        stands(&node, 513).map(|(form, _)| form),
        Some(kept("a", 523))
    );
}
