//! A vote that goes on under another value.

use super::*;
use crate::node::Adoption;

fn adopt(node: &mut MemoryNode, name: &str, old: &str, ms: u64) -> Reply {
    let mut request = request(acquire(7, false, 1), name);
    request.keys = Arc::new(Keys {
        adopts: Some(Box::new(Adoption {
            value: value(old),
            ban: Duration::from_millis(50),
        })),
        ..Keys::clone(&request.keys)
    });
    node.execute(&request, None, at(ms)).0.unwrap()
}

#[test]
fn the_vote_that_stands_is_taken_over_and_nothing_else() {
    let mut node = MemoryNode::default();
    assert_eq!(adopt(&mut node, "b", "d", 0), Reply::NotMine);
    assert_eq!(stands(&node, 0), None);
    let first = ask(&mut node, acquire(7, false, 1), "a", 1);
    assert_eq!(adopt(&mut node, "c", "e", 2), Reply::NotMine);
    let second = adopt(&mut node, "b", "a", 3);
    assert!(granted(&first) && granted(&second));
    let fence = |reply: &Reply| match reply {
        Reply::Granted { fence, .. } => *fence,
        other => panic!("{other:?}"),
    };
    assert!(fence(&second) > fence(&first));
    assert_eq!(
        stands(&node, 3).map(|(form, _)| form),
        Some(StoredValue::Uncontended(value("b")))
    );
    // A lease is adopted once; its new client may repeat the request.
    assert_eq!(adopt(&mut node, "c", "a", 4), Reply::NotMine);
    assert!(granted(&adopt(&mut node, "b", "a", 5)));
    assert_eq!(
        ask(&mut node, Op::Release, "b", 6),
        Reply::Released { held: true }
    );
    assert_eq!(adopt(&mut node, "c", "b", 7), Reply::NotMine);
}

/// Any client may guess or read what another library stores.
#[test]
fn the_same_text_as_another_librarys_value_is_no_proof() {
    for foreign in [
        "!worker-7",
        "!",
        "!=1 a",
        "!aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let mut node = MemoryNode::default();
        let there = (StoredValue::Uncontended(value(foreign)), Instant::FAR);
        node.meddle(b"k", Some(there.clone()));
        assert_eq!(adopt(&mut node, "b", foreign, 0), Reply::NotMine);
        for repair in [Repair::No, Repair::Yes, Repair::InQuarantine { server: 0 }] {
            let said = ask(&mut node, extend(repair), foreign, 1);
            assert_eq!(said, Reply::NotMine, "{foreign}");
        }
        let confirm = Op::Confirm {
            ttl: TTL,
            fence: 9,
            block: 1,
        };
        assert_eq!(ask(&mut node, confirm, foreign, 1), Reply::NotMine);
        assert!(!granted(&ask(&mut node, ACQUIRE, foreign, 1)));
        let mut shares = request(extend(Repair::No), foreign);
        Arc::make_mut(&mut shares.keys).mode = Mode::Shared;
        let said = node.execute(&shares, None, at(1)).0.unwrap();
        assert_eq!(said, Reply::NotMine);
        let not_held = Reply::Released { held: false };
        assert_eq!(ask(&mut node, Op::Release, foreign, 1), not_held);
        assert_eq!(node.form(b"k", at(1)), Some((&there.0, there.1)));
    }
}

/// Nor does it ban anything.
#[test]
fn a_text_that_names_no_lease_is_written_nowhere() {
    let mut node = MemoryNode::default();
    assert_eq!(adopt(&mut node, "b", "!worker-7", 0), Reply::NotMine);
    assert_eq!(node.bans(at(0)).count(), 0);
    assert_eq!(adopt(&mut node, "b", "a", 0), Reply::NotMine);
    assert_eq!(node.bans(at(0)).count(), 1);
}

#[test]
fn what_was_taken_over_is_not_stored_anew() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    assert!(granted(&adopt(&mut node, "b", "a", 1)));
    ask(&mut node, Op::Release, "b", 2);
    // The ban stands also where the lease has no vote.
    assert_eq!(adopt(&mut node, "d", "c", 2), Reply::NotMine);
    for name in ["a", "c"] {
        assert_eq!(ask(&mut node, extend(Repair::Yes), name, 51), Reply::Banned);
    }
    assert_eq!(stands(&node, 51), None);
    // The client that went on with the lease is not banned; the adopted value is, for so long.
    let repaired = Reply::Extended { repaired: true };
    for name in ["b", "a"] {
        assert_eq!(ask(&mut node, extend(Repair::Yes), name, 52), repaired);
        ask(&mut node, Op::Release, name, 52);
    }
}

#[test]
fn what_a_plain_command_stores_behind_the_ban_is_no_vote() {
    let mut node = MemoryNode::default();
    assert_eq!(adopt(&mut node, "b", "a", 1), Reply::NotMine);
    node.meddle(
        b"k",
        Some((StoredValue::Uncontended(value("a")), Instant::FAR)),
    );
    assert_eq!(adopt(&mut node, "c", "a", 2), Reply::NotMine);
    // The later of the two bans ends at 52 ms.
    assert!(granted(&adopt(&mut node, "c", "a", 53)));
}
