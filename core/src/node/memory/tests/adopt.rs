//! A vote that goes on under another value.

use super::*;
use crate::node::Adopted;

fn adopt(node: &mut MemoryNode, name: &str, old: &str, ms: u64) -> Reply {
    let mut request = request(acquire(7, false, 1), name);
    request.keys = Arc::new(Keys {
        adopts: Some(Box::new(Adopted {
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
        Some(Form::Quiet(value("b")))
    );
    // Once; and whoever has it may ask again.
    assert_eq!(adopt(&mut node, "c", "a", 4), Reply::NotMine);
    assert!(granted(&adopt(&mut node, "b", "a", 5)));
    assert_eq!(
        ask(&mut node, Op::Release, "b", 6),
        Reply::Released { held: true }
    );
    assert_eq!(adopt(&mut node, "c", "b", 7), Reply::NotMine);
}

#[test]
fn what_was_taken_over_is_not_stored_anew() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "a", 0);
    assert!(granted(&adopt(&mut node, "b", "a", 1)));
    ask(&mut node, Op::Release, "b", 2);
    // Where it has no vote too.
    assert_eq!(adopt(&mut node, "d", "c", 2), Reply::NotMine);
    for name in ["a", "c"] {
        assert_eq!(ask(&mut node, extend(Repair::Yes), name, 51), Reply::Banned);
    }
    assert_eq!(stands(&node, 51), None);
    // Who went on with it is not, and it is banned for so long.
    let repaired = Reply::Extended { repaired: true };
    for name in ["b", "a"] {
        assert_eq!(ask(&mut node, extend(Repair::Yes), name, 52), repaired);
        ask(&mut node, Op::Release, name, 52);
    }
}
