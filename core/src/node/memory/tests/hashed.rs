//! Locks in Redisson's layout.

use super::*;
use crate::node::Field;

/// Asks for the owner of that name, by a token.
fn by(node: &mut MemoryNode, owner: &str, op: Op, token: &str, ms: u64) -> Reply {
    let mut request = request(op, token);
    request.keys = Arc::new(Keys {
        field: Some(Field {
            name: owner.as_bytes().into(),
            shared: true,
        }),
        ..Keys::clone(&request.keys)
    });
    node.execute(&request, None, at(ms)).0.unwrap()
}

fn fence(reply: Reply) -> u64 {
    match reply {
        Reply::Granted { fence, .. } => fence,
        other => panic!("{other:?}"),
    }
}

const LEFT: Reply = Reply::Released { held: true };

#[test]
fn an_owner_enters_as_often_as_he_has_tokens_and_nobody_else() {
    let mut node = MemoryNode::default();
    let first = fence(by(&mut node, "java", acquire(7, false, 1), "a", 0));
    // The owner enters again, and by another token: the hold is the owner's, and so is its fence.
    for token in ["a", "b"] {
        let again = by(&mut node, "java", acquire(9, false, 1), token, 1);
        assert_eq!(fence(again), first);
    }
    let refused = by(&mut node, "other", acquire(9, false, 1), "c", 2);
    assert!(matches!(refused, Reply::Refused { .. }), "{refused:?}");
    assert_eq!(by(&mut node, "java", Op::Release, "a", 3), LEFT);
    assert_eq!(
        by(&mut node, "java", Op::Release, "a", 4),
        Reply::Released { held: false }
    );
    let refused = by(&mut node, "other", acquire(9, false, 1), "c", 5);
    assert!(matches!(refused, Reply::Refused { .. }), "{refused:?}");
    assert_eq!(by(&mut node, "java", Op::Release, "b", 6), LEFT);
    assert!(fence(by(&mut node, "other", acquire(0, false, 1), "c", 7)) == 0);
    assert_eq!(by(&mut node, "other", Op::Release, "c", 8), LEFT);
    assert!(fence(by(&mut node, "other", acquire(1, false, 1), "c", 9)) > first);
}

#[test]
fn a_token_of_a_lock_that_was_forced_open_is_nothing_any_more() {
    let mut node = MemoryNode::default();
    fence(by(&mut node, "java", acquire(7, false, 1), "a", 0));
    node.hashes.clear();
    assert_eq!(
        by(&mut node, "java", extend(Repair::Yes), "a", 1),
        Reply::NotMine
    );
    fence(by(&mut node, "java", acquire(7, false, 1), "b", 2));
    assert_eq!(
        by(&mut node, "java", extend(Repair::No), "a", 3),
        Reply::NotMine
    );
    assert_eq!(
        by(&mut node, "java", Op::Release, "a", 4),
        Reply::Released { held: false }
    );
    assert_eq!(by(&mut node, "java", Op::Release, "b", 5), LEFT);
}

#[test]
fn fences_are_counted_without_end() {
    let mut node = MemoryNode::default();
    let first = fence(by(&mut node, "java", acquire(7, false, 1), "a", 0));
    assert_eq!(by(&mut node, "java", Op::Release, "a", 1), LEFT);
    let year = 365 * 24 * 3_600_000;
    node.expire(at(year));
    let second = fence(by(&mut node, "java", acquire(1, false, 1), "a", year));
    assert_eq!(second, first + 1);
}

#[test]
fn a_lock_in_another_layout_finds_another_type() {
    let mut node = MemoryNode::default();
    fence(by(&mut node, "java", acquire(7, false, 1), "a", 0));
    for op in [acquire(7, false, 1), JOIN] {
        let refused = ask(&mut node, op, "b", 1);
        assert!(
            matches!(&refused, Reply::Failed(fault) if fault.of_lock),
            "{refused:?}"
        );
    }
    assert!(!node.vote(&request(acquire(7, false, 1), "b"), at(1)).stored);
    assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 1), Reply::NotMine);
    assert_eq!(
        ask(&mut node, Op::Release, "b", 1),
        Reply::Released { held: false }
    );
    assert_eq!(by(&mut node, "java", Op::Release, "a", 2), LEFT);
    assert!(fence(ask(&mut node, acquire(7, false, 1), "b", 3)) > 0);
}
