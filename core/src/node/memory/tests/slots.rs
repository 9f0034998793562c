//! Slots of a semaphore: which slot the node chooses, and which waiter it notifies.

use super::*;
use crate::node::Hint;
use crate::node::names::semaphore;

const SLOTS: u32 = 2;
/// Looks at the first slot first, without and with a place in the queue.
const LOOK: Op = acquire(0, false, 1);
const WAIT: Op = acquire(0, true, 1);

fn any_slot() -> Keys {
    let (lock, aux) = semaphore("l:", b"l:{k}");
    Keys {
        lock: lock.into(),
        aux,
        mode: Mode::AnySlot(SLOTS),
        ..(*request(LOOK, "").keys).clone()
    }
}

fn asked(node: &mut MemoryNode, request: &Request, ms: u64) -> (Reply, Vec<Hint>) {
    let (answer, messages) = node.execute(request, None, at(ms));
    let told = messages.into_iter().map(|(_, hint)| hint).collect();
    (answer.unwrap(), told)
}

/// Asks for any slot, or leaves; waiter 0 is none.
fn choose(node: &mut MemoryNode, number: u64, op: Op, ms: u64) -> (Reply, Vec<Hint>) {
    let request = Request {
        waiter: (number > 0).then(|| waiter(number)),
        keys: Arc::new(any_slot()),
        ..request(op, "")
    };
    asked(node, &request, ms)
}

/// Asks for that slot, or gives it back.
fn of(
    node: &mut MemoryNode,
    slot: u32,
    number: u64,
    op: Op,
    name: &str,
    ms: u64,
) -> (Reply, Vec<Hint>) {
    let request = Request {
        waiter: (number > 0).then(|| waiter(number)),
        keys: Arc::new(any_slot().of_slot(slot)),
        ..request(op, name)
    };
    asked(node, &request, ms)
}

fn chosen(slot: u32) -> (Reply, Vec<Hint>) {
    (Reply::Chosen { slot }, Vec::new())
}

fn hint(number: u64, slot: u32) -> Vec<Hint> {
    let slot = Some(slot);
    vec![Hint { number, slot }]
}

/// A node on which `a` and `b` have both slots and the waiters 1, 2, … are queued.
fn with_waiters(waiters: u64) -> MemoryNode {
    let mut node = MemoryNode::default();
    assert!(granted(&of(&mut node, 0, 0, ACQUIRE, "a", 0).0));
    assert!(granted(&of(&mut node, 1, 0, ACQUIRE, "b", 0).0));
    for number in 1..=waiters {
        node.subscribe(&waiter(number).inbox);
        let place = refused(choose(&mut node, number, WAIT, 0).0).1;
        assert_eq!(place, Some(number as u32 - 1));
    }
    node
}

#[test]
fn each_slot_is_one_holders() {
    let mut node = MemoryNode::default();
    assert_eq!(choose(&mut node, 0, LOOK, 0), chosen(0));
    // A client that looks and does not wait reserves nothing.
    assert_eq!(choose(&mut node, 0, LOOK, 0), chosen(0));
    assert!(granted(&of(&mut node, 0, 0, ACQUIRE, "a", 0).0));
    assert_eq!(choose(&mut node, 0, LOOK, 1), chosen(1));
    assert!(granted(&of(&mut node, 1, 0, ACQUIRE, "b", 1).0));
    // The refusal lasts until the first vote ends.
    assert_eq!(refused(choose(&mut node, 0, LOOK, 2).0), (98, None));
    let other = of(&mut node, 0, 0, ACQUIRE, "c", 2).0;
    assert!(matches!(other, Reply::Refused { .. }), "{other:?}");
    let gave = of(&mut node, 1, 0, Op::Release, "b", 3);
    assert_eq!(gave, (Reply::Released { held: true }, Vec::new()));
    assert_eq!(choose(&mut node, 0, LOOK, 4), chosen(1));
}

#[test]
fn who_is_first_is_called_for_the_slot_that_is_free() {
    let mut node = with_waiters(2);
    // All slots that the waiters wait for are crowded: no plain command takes one.
    for slot in 0..SLOTS {
        let key = any_slot().of_slot(slot).lock;
        let form = node.form(&key, at(1)).unwrap().0;
        assert!(matches!(form, StoredValue::Contended { .. }), "{form:?}");
    }
    assert_eq!(of(&mut node, 1, 0, Op::Release, "b", 1).1, hint(1, 1));
    // The slot is reserved for that waiter alone.
    assert_eq!(refused(choose(&mut node, 3, WAIT, 2).0).1, Some(1));
    let other = of(&mut node, 1, 2, ACQUIRE, "c", 2).0;
    assert!(matches!(other, Reply::Refused { .. }), "{other:?}");
    assert_eq!(choose(&mut node, 1, WAIT, 2), chosen(1));
    assert!(granted(&of(&mut node, 1, 1, ACQUIRE, "d", 3).0));
    assert_eq!(of(&mut node, 0, 0, Op::Release, "a", 4).1, hint(2, 0));
}

#[test]
fn who_goes_leaves_its_slot_to_the_next() {
    let mut node = with_waiters(2);
    assert_eq!(of(&mut node, 1, 0, Op::Release, "b", 1).1, hint(1, 1));
    let gone = choose(&mut node, 1, Op::Release, 2);
    assert_eq!(gone, (Reply::Released { held: false }, hint(2, 1)));
    let gone = choose(&mut node, 2, Op::Release, 3);
    assert_eq!(gone, (Reply::Released { held: false }, Vec::new()));
    // No waiter is left, and the slot is as it was before any waited.
    assert!(node.form(&any_slot().of_slot(1).lock, at(4)).is_none());
    let line = node.lines.get(any_slot().aux.queue());
    assert!(line.is_none_or(|line| !line.lives(at(4))));
    assert_eq!(choose(&mut node, 0, LOOK, 4), chosen(1));
}

#[test]
fn who_comes_serves_those_who_wait_first() {
    let mut node = with_waiters(1);
    // Both votes have ended, and no waiter was notified.
    assert_eq!(
        choose(&mut node, 2, WAIT, 150),
        (Reply::Chosen { slot: 1 }, hint(1, 0))
    );
    let mut node = with_waiters(3);
    let (reply, told) = choose(&mut node, 4, WAIT, 150);
    assert_eq!(told, [hint(1, 0), hint(2, 1)].concat());
    assert_eq!(refused(reply).1, Some(1));
}
