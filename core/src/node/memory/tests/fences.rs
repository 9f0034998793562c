//! The counter of fences.

use super::*;
use crate::node::native::FURTHEST;

const fn confirm(fence: u64, block: u32) -> Op {
    Op::Confirm {
        ttl: TTL,
        fence,
        block,
    }
}

fn counting(candidate: u64) -> Op {
    acquire(candidate, false, 1)
}

#[test]
fn fences_grow_and_are_clamped() {
    let mut node = MemoryNode::default();
    let fence = START + 7_000;
    assert_eq!(ask(&mut node, counting(fence), "a", 1), vote(fence));
    ask(&mut node, Op::Release, "a", 1);
    assert_eq!(ask(&mut node, counting(5), "b", 2), vote(fence + 1));
    ask(&mut node, Op::Release, "b", 2);
    // Without a candidate the node counts nothing, for a new vote and for its own.
    for _ in 0..2 {
        assert_eq!(ask(&mut node, ACQUIRE, "d", 2), vote(fence + 1));
    }
    ask(&mut node, Op::Release, "d", 2);
    let far = counting(u64::MAX / 2);
    let bound = START + 3_000 + FURTHEST;
    assert_eq!(ask(&mut node, far, "c", 3), vote(bound));
}

#[test]
fn what_is_written_back_is_beyond_all_that_is_stored() {
    let mut node = MemoryNode::default();
    let fence = START + 7_000;
    ask(&mut node, counting(fence), "b", 1);
    assert_eq!(
        ask(&mut node, confirm(fence + 9, 1), "a", 2),
        Reply::NotMine
    );
    for less in [fence - 1, fence] {
        let reply = ask(&mut node, confirm(less, 1), "b", 2);
        assert_eq!(reply, Reply::Greater { fence });
        assert_eq!(stands(&node, 2), Some((quiet("b"), 99)), "nothing was done");
    }
    let reply = ask(&mut node, confirm(fence + 1, 1), "b", 2);
    assert_eq!(reply, Reply::Confirmed);
    assert_eq!(stands(&node, 2), Some((quiet("b"), 100)));
    // Each fence of a block counts as taken.
    let stored = Reply::Greater { fence: fence + 1 };
    assert_eq!(ask(&mut node, confirm(fence + 17, 17), "b", 3), stored);
    let reply = ask(&mut node, confirm(fence + 18, 17), "b", 3);
    assert_eq!(reply, Reply::Confirmed);
    assert_eq!(node.fence(b"f", at(3)), Some(fence + 18));
    // Nothing is stored, so the fence may be any.
    let mut node = MemoryNode::default();
    ask(&mut node, counting(0), "b", 1);
    assert_eq!(ask(&mut node, confirm(3, 17), "b", 3), Reply::Confirmed);
}

#[test]
fn an_own_token_takes_a_new_number() {
    let mut node = MemoryNode::default();
    let fence = START + 1_000;
    assert_eq!(ask(&mut node, counting(fence), "a", 1), vote(fence));
    // A native attempt of another has moved the counter.
    let other = Request {
        not_after: START + 100_000,
        ..request(counting(fence + 5), "b")
    };
    node.vote(&other, at(2));
    assert_eq!(ask(&mut node, counting(fence), "a", 3), vote(fence + 6));
}

#[test]
fn a_renewal_raises_the_counter_and_never_lowers_it() {
    let mut node = MemoryNode::default();
    let fence = START + 1_000;
    ask(&mut node, counting(fence), "a", 1);
    for (with, stored) in [(fence - 1, fence), (fence + 4, fence + 4), (0, fence + 4)] {
        let renew = Op::Extend {
            ttl: TTL,
            repair: Repair::No,
            fence: with,
            behind: 0,
        };
        ask(&mut node, renew, "a", 2);
        assert_eq!(node.fence(b"f", at(2)), Some(stored));
    }
    // So does a vote that is stored anew.
    let repair = Op::Extend {
        ttl: TTL,
        repair: Repair::Yes,
        fence: fence + 9,
        behind: 0,
    };
    let repaired = Reply::Extended { repaired: true };
    assert_eq!(ask(&mut node, repair, "a", 200), repaired);
    assert_eq!(node.fence(b"f", at(200)), Some(fence + 9));
}

#[test]
fn whose_a_fence_is_stays_known_where_others_ask_in_vain() {
    let mut node = MemoryNode::default();
    let fence = START + 1_000;
    let own = |node: &mut MemoryNode| match ask(node, Op::Inspect, "", 2) {
        Reply::Seen(seen) => (seen.own, seen.fence),
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&mut node, counting(fence), "a", 1), vote(fence));
    assert!(node.propose(b"f", fence + 9, at(1)));
    assert_eq!(own(&mut node), (fence, fence + 9));
    let renew = Op::Extend {
        ttl: TTL,
        repair: Repair::No,
        fence: fence + 3,
        behind: 0,
    };
    ask(&mut node, renew, "a", 2);
    assert_eq!(own(&mut node), (fence + 3, fence + 9));
    // The fence of another lease is not taken for this lease's.
    ask(&mut node, Op::Release, "a", 2);
    assert_eq!(ask(&mut node, counting(0), "b", 2), vote(fence + 9));
    assert_eq!(own(&mut node), (0, fence + 9));
}

#[test]
fn a_node_counts_by_no_clock_of_its_own() {
    let mut node = MemoryNode::default();
    assert_eq!(ask(&mut node, ACQUIRE, "a", 1), vote(0));
    ask(&mut node, Op::Release, "a", 1);
    for fence in [5, 6] {
        assert_eq!(ask(&mut node, counting(5), "a", 2), vote(fence));
        ask(&mut node, Op::Release, "a", 2);
    }
    // The counter goes on from the stored fence only where that is ahead.
    assert_eq!(ask(&mut node, counting(50), "a", 2), vote(50));
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
    assert_eq!(taken(&mut node, fence, 17, 1), vote(fence));
    assert_eq!(taken(&mut node, fence + 3, 17, 2), vote(fence + 17));
}

#[test]
fn the_counter_lives_on_after_each_use_by_a_quarter_more_than_is_promised() {
    let lives = |node: &MemoryNode, since: u64| {
        let last = node.fence(b"f", at(since + 12_500)).is_some();
        last && node.fence(b"f", at(since + 12_501)).is_none()
    };
    let mut node = MemoryNode::default();
    ask(&mut node, counting(START), "a", 1);
    assert!(lives(&node, 1));
    for (ms, op) in [
        (2, counting(START)),
        (3, extend(Repair::No)),
        (4, confirm(START + 9, 1)),
    ] {
        ask(&mut node, op, "a", ms);
        assert!(lives(&node, ms), "{op:?}");
    }
    let native = Request {
        not_after: START + 90_000,
        ..request(counting(START), "b")
    };
    node.vote(&native, at(5));
    assert!(lives(&node, 5));
    // The counter begins anew once it has ended.
    assert_eq!(ask(&mut node, counting(7), "b", 20_000), vote(7));
}
