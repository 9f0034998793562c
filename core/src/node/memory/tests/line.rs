//! The waiters of a lock, and which of them is next.

use super::*;

#[test]
fn a_release_reserves_for_the_first_in_line_and_tells_it() {
    let mut node = with_queue(2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 10).1, [1]);
    // The node reserves the lock against all other waiters, for 20 ms.
    assert_eq!(refused(ask(&mut node, ACQUIRE, "c", 11)), (19, None));
    assert_eq!(
        refused(ask_for(&mut node, 2, JOIN, "d", 12).0),
        (18, Some(0))
    );
    let (reply, told) = ask_for(&mut node, 1, JOIN, "d", 29);
    assert!(granted(&reply) && told.is_empty());
    // A vote ends the reservation: the next release notifies the next waiter.
    assert_eq!(ask_for(&mut node, 9, Op::Release, "d", 29).1, [2]);
}

#[test]
fn a_reservation_that_is_not_used_ends_and_whoever_asks_serves_the_line() {
    let mut node = with_queue(3);
    ask(&mut node, Op::Release, "a", 10);
    // The third waiter asks: the second is next now, and is notified.
    let (reply, told) = ask_for(&mut node, 3, JOIN, "d", 31);
    assert_eq!((refused(reply), told), ((20, Some(0)), vec![2]));
    // A waiter that asks when it is next needs no message. The first joins at the tail.
    assert_eq!(
        refused(ask_for(&mut node, 1, JOIN, "e", 40).0),
        (11, Some(1))
    );
    let (reply, told) = ask_for(&mut node, 3, JOIN, "d", 52);
    assert!(granted(&reply) && told.is_empty());
}

#[test]
fn the_dead_the_absent_and_the_late_are_passed_over() {
    let mut node = with_queue(3);
    node.unsubscribe(&waiter(1).inbox);
    let (reply, _) = ask_for(&mut node, 1, JOIN, "d", 1);
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
        ask_for(&mut node, 2, JOIN, "d", 90);
        assert_eq!(ask_for(&mut node, 9, Op::Release, "", ms).1, [told]);
    }
}

#[test]
fn whoever_leaves_gives_its_reservation_to_the_next() {
    let mut node = with_queue(2);
    assert_eq!(ask_for(&mut node, 9, Op::Release, "a", 10).1, [1]);
    assert_eq!(ask_for(&mut node, 1, Op::Release, "", 11).1, [2]);
    assert!(ask_for(&mut node, 2, Op::Release, "", 11).1.is_empty());
    assert!(granted(&ask(&mut node, ACQUIRE, "c", 11)));
}

#[test]
fn nothing_is_reserved_over_a_live_key_nor_in_quarantine() {
    let mut node = with_queue(2);
    assert!(ask_for(&mut node, 9, Op::Release, "f", 1).1.is_empty());
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
    assert_eq!(refused(ask_for(&mut node, 4, JOIN, "d", 10).0), (91, None));
    assert_eq!(
        refused(ask_for(&mut node, 3, JOIN, "d", 10).0),
        (91, Some(2))
    );
}

#[test]
fn without_messages_the_queue_stays_and_whoever_asks_is_served() {
    let mut node = with_queue(2);
    node.permit_messages(false);
    assert!(ask_for(&mut node, 9, Op::Release, "a", 10).1.is_empty());
    let (reply, told) = ask_for(&mut node, 2, JOIN, "d", 11);
    assert!(granted(&reply) && told.is_empty());
    let (reply, _) = ask_for(&mut node, 1, JOIN, "e", 11);
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
