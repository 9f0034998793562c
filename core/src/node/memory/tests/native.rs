//! Votes and releases by plain commands.

use super::*;
use crate::node::native::{NativeReplies, Trailer};

/// A native acquire of a key that ends at this many ms; 0: a plain one.
fn native(name: &str, candidate: u64, end: u64) -> Request {
    Request {
        native: true,
        not_after: if end == 0 { 0 } else { START + end * 1000 },
        ..request(acquire(candidate, false, 1), name)
    }
}

const fn voted(stored: bool, counted: bool) -> NativeReplies {
    NativeReplies { stored, counted }
}

#[test]
fn a_key_is_made_where_none_is_and_ends_when_it_is_told_to() {
    let mut node = MemoryNode::default();
    assert_eq!(node.vote(&native("a", 0, 150), at(5)), voted(true, false));
    assert_eq!(stands(&node, 5), Some((quiet("a"), 145)));
    for name in ["a", "b"] {
        let vote = node.vote(&native(name, 0, 900), at(150));
        assert_eq!(vote, voted(false, false));
    }
    assert_eq!(node.vote(&native("b", 0, 900), at(151)), voted(true, false));
    assert_eq!(stands(&node, 151), Some((quiet("b"), 749)));
    // A plain vote stands for its ttl.
    let mut node = MemoryNode::default();
    assert_eq!(node.vote(&native("a", 5, 0), at(5)), voted(true, false));
    assert_eq!(stands(&node, 5), Some((quiet("a"), 100)));
    assert_eq!(node.fence(b"f", at(5)), None);
}

#[test]
fn a_key_whose_end_is_past_is_not_made() {
    let mut node = MemoryNode::default();
    for end in [4, 5] {
        let vote = node.vote(&native("a", 0, end), at(5));
        assert_eq!(vote, voted(true, false));
        assert_eq!(stands(&node, 5), None);
        assert_eq!(stands(&node, 0), None, "nor where the clock is set back");
    }
}

#[test]
fn a_fence_counts_where_it_is_beyond_what_is_stored() {
    let mut node = MemoryNode::default();
    assert_eq!(node.vote(&native("a", 7, 90), at(1)), voted(true, true));
    // The node counts the loser's fence too, though the loser has no vote.
    assert_eq!(node.vote(&native("b", 9, 90), at(1)), voted(false, true));
    assert_eq!(node.fence(b"f", at(1)), Some(9));
    assert!(node.delete(&native("a", 0, 0), at(2)));
    for less in [8, 9] {
        let vote = node.vote(&native("c", less, 90), at(2));
        assert_eq!(vote, voted(less == 8, false));
        assert_eq!(node.fence(b"f", at(2)), Some(9));
    }
    // Without a candidate the node counts nothing.
    let mut node = MemoryNode::default();
    assert_eq!(node.vote(&native("a", 0, 90), at(1)), voted(true, false));
    assert_eq!(node.fence(b"f", at(1)), None);
}

#[test]
fn the_trailer_says_what_the_node_holds_then() {
    let mut node = MemoryNode::default();
    let trailer = |node: &MemoryNode, record, ms| {
        let Trailer {
            admitted,
            quarantined,
            time,
        } = node.trailer(record, at(ms));
        assert_eq!(time, START + ms * 1000);
        (admitted, quarantined)
    };
    assert_eq!(trailer(&node, Some("r"), 1), (false, false));
    assert_eq!(trailer(&node, None, 1), (true, false));
    node.init(None, "r".into(), Duration::from_millis(10), at(1));
    assert_eq!(trailer(&node, Some("r"), 11), (true, true));
    assert_eq!(trailer(&node, Some("r"), 12), (true, false));
    assert_eq!(trailer(&node, Some("s"), 11), (false, true));
    assert_eq!(trailer(&node, None, 11), (true, false));
}

#[test]
fn what_is_exactly_the_value_is_deleted_and_nothing_else() {
    let mut node = MemoryNode::default();
    let delete = |node: &mut MemoryNode, name, ms| node.delete(&request(Op::Release, name), at(ms));
    assert!(!delete(&mut node, "alex", 0));
    node.vote(&native("alex", 0, 90), at(0));
    assert!(!delete(&mut node, "a", 1));
    assert!(delete(&mut node, "alex", 1));
    assert_eq!(stands(&node, 1), None);
    node.vote(&native("alex", 0, 90), at(1));
    assert!(!delete(&mut node, "alex", 91), "its life is over");
}
