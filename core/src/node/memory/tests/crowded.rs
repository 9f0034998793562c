//! What stands under the lock's key while others wait for it.

use super::*;

/// Asks natively, as a client that knows of no queue.
fn newcomer(node: &mut MemoryNode, name: &str, ms: u64) -> bool {
    let native = Request {
        native: true,
        not_after: START + (ms + 100) * 1000,
        ..request(ACQUIRE, name)
    };
    node.vote(&native, at(ms)).stored
}

/// Gives it back natively.
fn let_go(node: &mut MemoryNode, name: &str, ms: u64) -> bool {
    node.delete(&request(Op::Release, name), at(ms))
}

#[test]
fn whoever_joins_makes_a_hold_crowded_until_it_would_have_ended() {
    let mut node = MemoryNode::default();
    ask(&mut node, ACQUIRE, "alex", 0);
    // No waiter is queued yet: a refusal alone changes nothing.
    ask(&mut node, JOIN, "b", 10);
    ask_for(&mut node, 1, ACQUIRE, "b", 10);
    assert_eq!(stands(&node, 10), Some((quiet("alex"), 90)));
    let (reply, _) = ask_for(&mut node, 1, JOIN, "b", 10);
    assert_eq!(refused(reply), (90, Some(0)));
    // The hold ends no sooner, and the key outlives it with the waiter's place.
    assert_eq!(stands(&node, 10), Some((held("alex", 101), 500)));
    assert!(!let_go(&mut node, "alex", 11));
    // Each poll lengthens the key, and nothing else.
    let (reply, _) = ask_for(&mut node, 1, JOIN, "b", 51);
    assert_eq!(refused(reply), (50, Some(0)));
    assert_eq!(stands(&node, 51), Some((held("alex", 101), 500)));
    // The refusal still shows the holder's label.
    let reply = ask(&mut node, ACQUIRE, "c", 60);
    assert!(
        matches!(&reply, Reply::Refused { holder: Some(label), .. } if **label == *"lex"),
        "{reply:?}"
    );
    assert!(!newcomer(&mut node, "c", 60));
}

#[test]
fn a_hold_that_outlives_the_place_keeps_its_key() {
    let mut node = MemoryNode::default();
    let long = Op::Acquire {
        ttl: 9 * TTL,
        candidate: 0,
        home: false,
        let_in: false,
        block: 1,
    };
    ask(&mut node, long, "a", 0);
    ask_for(&mut node, 1, JOIN, "b", 0);
    assert_eq!(stands(&node, 0), Some((held("a", 901), 900)));
    // So does a vote that is crowded from the first.
    node.subscribe(&waiter(1).inbox);
    ask(&mut node, Op::Release, "a", 1);
    let (reply, _) = ask_for(&mut node, 1, long, "b", 2);
    assert!(granted(&reply));
    assert_eq!(stands(&node, 2), Some((held("b", 902), 900)));
}

#[test]
fn a_full_queue_marks_nothing() {
    let mut node = with_queue(3);
    ask_for(&mut node, 4, JOIN, "d", 50);
    assert_eq!(stands(&node, 50), Some((held("a", 101), 450)));
    node.meddle(b"k", Some((quiet("a"), at(100))));
    ask_for(&mut node, 4, JOIN, "d", 50);
    assert_eq!(stands(&node, 50), Some((quiet("a"), 50)));
}

#[test]
fn what_is_not_ours_is_never_marked() {
    let token = "!".to_owned() + &"a".repeat(40);
    for foreign in ["!somebody", &token] {
        let mut node = MemoryNode::default();
        assert!(granted(&ask(&mut node, ACQUIRE, foreign, 0)));
        let (reply, _) = ask_for(&mut node, 1, JOIN, "b", 10);
        assert_eq!(refused(reply), (90, Some(0)));
        assert_eq!(stands(&node, 10), Some((quiet(foreign), 90)), "{foreign}");
        assert_eq!(
            ask(&mut node, Op::Release, "a", 10),
            Reply::Released { held: false }
        );
        assert!(let_go(&mut node, foreign, 11));
        // Other waiters are queued: a client that asks by script lets them go first.
        node.subscribe(&waiter(1).inbox);
        let (reply, told) = ask_for(&mut node, 2, JOIN, "c", 12);
        assert_eq!((refused(reply), told), ((20, Some(0)), vec![1]));
    }
}

#[test]
fn a_value_without_an_end_is_held_for_as_long_as_it_stands() {
    let mut node = MemoryNode::default();
    node.meddle(b"k", Some((quiet("a"), Instant::FAR)));
    let (reply, _) = ask_for(&mut node, 1, JOIN, "b", 10);
    assert!(
        matches!(
            reply,
            Reply::Refused {
                left: None,
                place: Some(0),
                ..
            }
        ),
        "{reply:?}"
    );
    assert_eq!(node.form(b"k", at(10)), Some((&quiet("a"), Instant::FAR)));
}

#[test]
fn nobody_passes_a_line_whose_holder_is_gone() {
    let mut node = with_queue(2);
    // The value holds the lock to the promised end, by this node's clock.
    assert_eq!(refused(ask(&mut node, ACQUIRE, "c", 101)), (0, None));
    assert!(!newcomer(&mut node, "c", 102));
    // A newcomer's script serves the first.
    let (reply, told) = ask_for(&mut node, 7, ACQUIRE, "c", 102);
    assert_eq!((refused(reply), told), ((20, None), vec![1]));
    assert_eq!(stands(&node, 102), Some((reserved(1, 122), 500)));
    assert!(!newcomer(&mut node, "c", 123));
    // A client that does not wait is refused, too.
    assert_eq!(refused(ask(&mut node, ACQUIRE, "c", 123)), (20, None));
    assert_eq!(stands(&node, 123), Some((reserved(2, 143), 500)));
    // No waiter is left: the next vote is quiet again.
    assert!(!newcomer(&mut node, "c", 144));
    assert!(granted(&ask(&mut node, ACQUIRE, "c", 144)));
    assert_eq!(stands(&node, 144), Some((quiet("c"), 100)));
}

#[test]
fn a_waiter_that_was_called_keeps_the_lock_crowded() {
    let mut node = with_queue(2);
    ask(&mut node, Op::Release, "a", 10);
    assert_eq!(stands(&node, 10), Some((reserved(1, 30), 500)));
    assert!(granted(&ask_for(&mut node, 1, JOIN, "b", 11).0));
    assert_eq!(stands(&node, 11), Some((held("b", 111), 500)));
    // A waiter that asks when it is next ends the reservation, too: the reservation was not used.
    ask(&mut node, Op::Release, "b", 12);
    ask_for(&mut node, 3, JOIN, "c", 13);
    let (reply, told) = ask_for(&mut node, 3, JOIN, "c", 33);
    assert!(granted(&reply) && told.is_empty());
    assert_eq!(stands(&node, 33), Some((held("c", 133), 500)));
    ask_for(&mut node, 4, JOIN, "d", 34);
    ask(&mut node, Op::Release, "c", 35);
    assert_eq!(stands(&node, 35), None, "nobody listens");
}

#[test]
fn a_renewal_lengthens_the_end_within_and_the_key() {
    let mut node = with_queue(1);
    let reply = ask(&mut node, extend(Repair::No), "a", 90);
    assert_eq!(reply, Reply::Extended { repaired: false });
    assert_eq!(stands(&node, 90), Some((held("a", 190), 410)));
    // The key lives to its end, if that is later; a shorter ttl changes nothing.
    for (ttl, until, left) in [(6 * TTL, 691, 600), (TTL, 691, 600)] {
        let extend = Op::Extend {
            ttl,
            repair: Repair::No,
            fence: 0,
            behind: 0,
        };
        ask(&mut node, extend, "a", 91);
        assert_eq!(stands(&node, 91), Some((held("a", until), left)));
    }
    // A hold that is over stays over, though its value stands there.
    assert_eq!(ask(&mut node, extend(Repair::No), "a", 692), Reply::NotMine);
}

#[test]
fn a_vote_that_is_stored_anew_stays_crowded_and_ends_a_reservation() {
    for gone_at in [10, 102] {
        let mut node = with_queue(2);
        if gone_at == 10 {
            ask(&mut node, Op::Release, "a", 10);
        }
        for mode in [Repair::No, Repair::Yes] {
            let reply = ask(&mut node, extend(mode), "a", gone_at + 1);
            let repaired = Reply::Extended { repaired: true };
            assert_eq!(
                reply,
                if mode == Repair::No {
                    Reply::NotMine
                } else {
                    repaired
                }
            );
        }
        let left = if gone_at == 10 { 499 } else { 397 };
        let end = gone_at + 101;
        assert_eq!(stands(&node, gone_at + 1), Some((held("a", end), left)));
        let reply = ask_for(&mut node, 1, ACQUIRE, "d", gone_at + 1).0;
        assert_eq!(refused(reply), (100, None));
    }
    // The value of another lease is not lengthened.
    let mut node = with_queue(1);
    assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 1), Reply::NotMine);
    assert_eq!(stands(&node, 1), Some((held("a", 101), 499)));
}

#[test]
fn a_hold_that_is_over_is_given_back_all_the_same() {
    let mut node = with_queue(2);
    let (reply, told) = ask_for(&mut node, 9, Op::Release, "a", 102);
    assert_eq!((reply, told), (Reply::Released { held: true }, vec![1]));
    // A release without a value: a waiter that leaves serves the queue, too.
    let mut node = with_queue(2);
    let (reply, told) = ask_for(&mut node, 1, Op::Release, "", 102);
    assert_eq!((reply, told), (Reply::Released { held: false }, vec![2]));
    // The release does not touch another waiter's reservation.
    let reserved = stands(&node, 103);
    let (reply, told) = ask_for(&mut node, 1, Op::Release, "a", 103);
    assert_eq!((reply, told), (Reply::Released { held: false }, vec![]));
    assert_eq!(stands(&node, 103), reserved);
}

#[test]
fn without_a_vote_to_give_the_line_is_kept_closed() {
    for (record, quarantine) in [("s", 0), ("r", 300)] {
        let mut node = with_queue(1);
        let quarantine = Duration::from_millis(quarantine);
        node.init(None, "r".into(), quarantine, at(1));
        let mut release = |value: &str, number| {
            let release = Request {
                waiter: Some(waiter(number)),
                ..request(Op::Release, value)
            };
            let (answer, messages) = node.execute(&release, Some(record), at(2));
            assert!(messages.is_empty() && answer.is_ok());
            stands(&node, 2)
        };
        assert_eq!(release("a", 9), Some((FOR_NOBODY, 500)));
        assert_eq!(release("", 9), Some((FOR_NOBODY, 500)));
        // No waiter is queued any more.
        assert_eq!(release("", 1), None);
    }
}

#[test]
fn where_nobody_may_be_told_a_vote_is_quiet() {
    let mut node = with_queue(2);
    node.permit_messages(false);
    ask(&mut node, Op::Release, "a", 10);
    assert_eq!(stands(&node, 10), None);
    assert!(granted(&ask(&mut node, ACQUIRE, "b", 11)));
    assert_eq!(stands(&node, 11), Some((quiet("b"), 100)));
    // The next poll marks it.
    ask_for(&mut node, 1, JOIN, "d", 12);
    assert_eq!(stands(&node, 12), Some((held("b", 112), 500)));
}
