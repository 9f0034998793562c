//! Votes that share a lock.

use super::*;

const SHARE: Op = acquire(0, false, 1);

/// Asks for a waiter that shares; returns the reply and the notified waiters.
fn share(node: &mut MemoryNode, number: u64, op: Op, name: &str, ms: u64) -> (Reply, Vec<u64>) {
    let mut request = Request {
        waiter: (number > 0).then(|| waiter(number)),
        ..request(op, name)
    };
    request.keys = Arc::new(Keys {
        mode: Mode::Shared,
        ..(*request.keys).clone()
    });
    let (answer, messages) = node.execute(&request, None, at(ms));
    let told = messages.into_iter().map(|(_, call)| call.number).collect();
    (answer.unwrap(), told)
}

/// Until when each shares the lock, in ms.
fn readers(node: &MemoryNode, ms: u64) -> Vec<u64> {
    let key = request(SHARE, "a").keys.aux.shared();
    let readers = node.readers(&key, at(ms));
    let ends = readers.into_iter().flat_map(|r| r.votes.values());
    ends.map(|until| (until - START) / 1000).collect()
}

fn listening(waiters: u64) -> MemoryNode {
    let mut node = MemoryNode::default();
    for number in 1..=waiters {
        node.subscribe(&waiter(number).inbox);
    }
    node
}

#[test]
fn readers_keep_out_who_wants_it_alone_and_are_kept_out() {
    let mut node = listening(0);
    for name in ["a", "b", "c"] {
        assert!(granted(&share(&mut node, 0, SHARE, name, 0).0));
    }
    let reply = ask(&mut node, ACQUIRE, "dx", 1);
    assert!(
        matches!(reply, Reply::Refused { shared: true, .. }),
        "{reply:?}"
    );
    assert_eq!(refused(reply).0, 99);
    // One reader renews; the others end.
    share(&mut node, 0, extend(Repair::No), "b", 50);
    assert_eq!(refused(ask(&mut node, ACQUIRE, "d", 101)).0, 49);
    assert!(granted(&ask(&mut node, ACQUIRE, "d", 151)));
    let reply = share(&mut node, 0, SHARE, "e", 152).0;
    assert!(
        matches!(reply, Reply::Refused { shared: false, .. }),
        "{reply:?}"
    );
}

#[test]
fn readers_have_a_fence_beyond_all_that_was_counted_for_one_alone() {
    let mut node = listening(0);
    let fence = |reply| match reply {
        Reply::Granted { fence, .. } => fence,
        other => panic!("{other:?}"),
    };
    let alone = fence(ask(&mut node, acquire(START, false, 1), "a", 0));
    ask(&mut node, Op::Release, "a", 1);
    let low = fence(share(&mut node, 0, acquire(START - 9, false, 1), "b", 1).0);
    assert_eq!(low, alone + 1);
    // The node gives one number to two readers, and takes one below the largest that readers have.
    for candidate in [START + 50, START + 50, START + 20] {
        let name = format!("{}", candidate % 7);
        let reply = share(&mut node, 0, acquire(candidate, false, 1), &name, 2).0;
        assert_eq!(fence(reply), candidate);
    }
    node.expire(at(200));
    let next = fence(ask(&mut node, acquire(START, false, 1), "c", 200));
    assert_eq!(next, START + 51);
}

#[test]
fn a_reader_without_fences_hides_none_that_was_counted() {
    let mut node = listening(0);
    ask(&mut node, acquire(START + 500, false, 1), "a", 0);
    ask(&mut node, Op::Release, "a", 1);
    let mut unfenced = request(SHARE, "b");
    unfenced.keys = Arc::new(Keys {
        mode: Mode::Shared,
        fence_ttl: None,
        ..(*unfenced.keys).clone()
    });
    let (answer, _) = node.execute(&unfenced, None, at(2));
    assert!(granted(&answer.unwrap()));
    for name in ["c", "d"] {
        let reply = share(&mut node, 0, acquire(START + 20, false, 1), name, 3).0;
        assert_eq!(reply, vote(START + 501));
    }
}

#[test]
fn all_up_to_the_first_who_wants_it_alone_are_called_at_once() {
    let mut node = listening(5);
    ask(&mut node, ACQUIRE, "a", 0);
    for (number, shares) in [(1, true), (2, true), (3, false)] {
        let reply = if shares {
            share(&mut node, number, JOIN, "d", 0).0
        } else {
            ask_for(&mut node, number, JOIN, "d", 0).0
        };
        assert_eq!(refused(reply).1, Some(number as u32 - 1));
    }
    let release = |node: &mut MemoryNode, name: &str, ms| {
        let (answer, told) = node.execute(&request(Op::Release, name), None, at(ms));
        assert_eq!(answer.unwrap(), Reply::Released { held: true });
        told.into_iter()
            .map(|(_, call)| call.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(release(&mut node, "a", 1), [1, 2]);
    assert!(granted(&share(&mut node, 1, JOIN, "b", 2).0));
    // Readers may enter meanwhile; a waiter that wants the lock for itself may not.
    assert!(granted(&share(&mut node, 0, SHARE, "e", 2).0));
    assert_eq!(refused(ask_for(&mut node, 3, JOIN, "c", 2).0).1, Some(1));
    assert!(granted(&share(&mut node, 2, JOIN, "f", 3).0));
    assert!(release(&mut node, "e", 4).is_empty());
    assert!(release(&mut node, "b", 4).is_empty());
    // The waiter is notified when the last reader goes, although other readers might still be
    // called.
    assert_eq!(release(&mut node, "f", 4), [3]);
    assert!(granted(&ask_for(&mut node, 3, JOIN, "c", 5).0));
    assert_eq!(refused(share(&mut node, 5, JOIN, "d", 5).0).1, Some(0));
}

#[test]
fn who_waits_alone_behind_readers_that_came_is_called_when_the_last_goes() {
    let mut node = listening(2);
    ask(&mut node, ACQUIRE, "a", 0);
    assert_eq!(refused(share(&mut node, 1, JOIN, "b", 0).0).1, Some(0));
    let (_, told) = node.execute(&request(Op::Release, "a"), None, at(1));
    assert_eq!(told.len(), 1);
    assert!(granted(&share(&mut node, 1, JOIN, "b", 2).0));
    // The queue is empty, so the waiter gets the ticket of the called reader: within the
    // reservation the node does not mistake it for that reader.
    assert_eq!(refused(ask_for(&mut node, 2, JOIN, "c", 3).0).1, Some(0));
    let (_, told) = node.execute(&request(Op::Release, "b"), None, at(4));
    let told: Vec<u64> = told.into_iter().map(|(_, hint)| hint.number).collect();
    assert_eq!(told, [2]);
    assert!(granted(&ask_for(&mut node, 2, JOIN, "c", 5).0));
}

#[test]
fn who_is_called_and_does_not_come_has_no_place_any_more() {
    let mut node = listening(2);
    ask(&mut node, ACQUIRE, "a", 0);
    share(&mut node, 1, JOIN, "d", 0);
    ask_for(&mut node, 2, JOIN, "d", 0);
    ask(&mut node, Op::Release, "a", 1);
    let reply = ask_for(&mut node, 2, JOIN, "d", 2).0;
    assert_eq!(refused(reply), (19, Some(1)));
    assert!(granted(&ask_for(&mut node, 2, JOIN, "b", 22).0));
}

#[test]
fn a_vote_is_shared_from_then_on_and_calls_who_waits_to_share_it() {
    for crowded in [false, true] {
        let mut node = listening(2);
        ask(&mut node, ACQUIRE, "a", 0);
        if crowded {
            share(&mut node, 1, JOIN, "d", 0);
        }
        // The end that the vote was counted until stands, although the request asks for less.
        let short = Op::Extend {
            ttl: Duration::from_millis(30),
            repair: Repair::No,
            fence: 0,
            behind: 0,
        };
        let (reply, told) = share(&mut node, 0, short, "a", 10);
        assert_eq!(reply, Reply::Extended { repaired: false });
        assert_eq!(told, if crowded { vec![1] } else { vec![] });
        assert_eq!(readers(&node, 10), [101]);
        assert!(granted(&share(&mut node, 1, JOIN, "b", 11).0));
        let reply = ask(&mut node, Op::Release, "a", 12);
        assert_eq!(reply, Reply::Released { held: true });
        assert_eq!(readers(&node, 12), [111]);
    }
}

#[test]
fn a_reservation_beside_readers_is_for_one_that_wants_it_alone() {
    let mut node = listening(1);
    share(&mut node, 0, SHARE, "a", 0);
    let reserve = Op::Reserve {
        long: Duration::from_millis(50),
    };
    let (reply, _) = ask_for(&mut node, 1, reserve, "", 1);
    assert_eq!(reply, Reply::Reserved { done: true });
    assert_eq!(refused(share(&mut node, 0, SHARE, "b", 2).0).0, 49);
    assert_eq!(
        ask_for(&mut node, 2, reserve, "", 2).0,
        Reply::Reserved { done: false }
    );
    assert_eq!(refused(ask_for(&mut node, 1, ACQUIRE, "c", 2).0).0, 98);
    ask(&mut node, Op::Release, "a", 3);
    assert!(granted(&ask_for(&mut node, 1, ACQUIRE, "c", 4).0));
    assert_eq!(
        ask_for(&mut node, 2, reserve, "", 5).0,
        Reply::Reserved { done: false }
    );
}

#[test]
fn a_reader_that_its_home_has_let_in_passes_a_reservation_and_nothing_else() {
    let let_in = |home| Op::Acquire {
        ttl: TTL,
        candidate: 0,
        home,
        let_in: true,
        block: 1,
    };
    let reserve = Op::Reserve {
        long: Duration::from_millis(50),
    };
    for beside_readers in [false, true] {
        let mut node = listening(2);
        if beside_readers {
            share(&mut node, 0, SHARE, "a", 0);
        }
        ask_for(&mut node, 1, reserve, "", 1);
        assert_eq!(refused(share(&mut node, 0, SHARE, "b", 2).0).0, 49);
        assert!(granted(&share(&mut node, 0, let_in(true), "b", 2).0));
        // The reservation stands, for other readers and for its waiter.
        assert_eq!(refused(share(&mut node, 0, SHARE, "c", 3).0).0, 48);
        let readers = refused(ask_for(&mut node, 1, ACQUIRE, "d", 3).0).0;
        assert_eq!(readers, 99);
        ask(&mut node, Op::Release, "b", 4);
        ask(&mut node, Op::Release, "a", 4);
        assert!(granted(&ask_for(&mut node, 1, ACQUIRE, "d", 5).0));
        refused(share(&mut node, 0, let_in(false), "e", 6).0);
    }
    // Where another client takes this node for its home the queue counts.
    let mut node = listening(2);
    share(&mut node, 0, SHARE, "a", 0);
    assert_eq!(refused(ask_for(&mut node, 2, JOIN, "d", 0).0).1, Some(0));
    refused(share(&mut node, 0, let_in(false), "b", 1).0);
    ask_for(&mut node, 1, reserve, "", 1);
    refused(share(&mut node, 0, let_in(false), "b", 2).0);
}

#[test]
fn those_who_share_it_longest_are_told() {
    let mut node = listening(0);
    let name = |number: u64| format!("a{number:02}");
    for number in 0..20 {
        share(&mut node, 0, SHARE, &name(number), number);
    }
    // One of the readers has ended by then.
    let Reply::Seen(seen) = ask(&mut node, Op::Inspect, "", 101) else {
        panic!("it is looked at");
    };
    let last: Vec<_> = (4..20).map(|number| value(&name(number))).collect();
    assert_eq!((seen.readers, &seen.sharers), (19, &last));
    assert_eq!(seen.value.as_ref(), last.last());
}

#[test]
fn a_slow_writer_is_not_taken_for_stopped() {
    let mut node = listening(2);
    let long = Op::Acquire {
        ttl: Duration::from_secs(60),
        candidate: 0,
        home: true,
        let_in: false,
        block: 1,
    };
    // The waits are those of clients whose nodes may take 5 s to answer, and of others.
    let asks = |number, name: &str, mode, (reservation, place)| {
        let mut request = Request {
            waiter: Some(waiter(number)),
            ..request(long, name)
        };
        let keys = Arc::make_mut(&mut request.keys);
        keys.waits.reservation = Duration::from_millis(reservation);
        keys.waits.place = Duration::from_millis(place);
        keys.mode = mode;
        request
    };
    let (slow, quick) = ((4_000, 67_400), (200, 60_000));
    let mut ask = |request: Request, ms| node.execute(&request, None, at(ms)).0.unwrap();
    assert!(granted(&ask(asks(1, "a", Mode::Shared, quick), 0)));
    assert!(!granted(&ask(asks(2, "b", Mode::Exclusive, slow), 0)));
    for reader in [quick, slow] {
        let reader = asks(1, "c", Mode::Shared, reader);
        assert!(
            !granted(&ask(reader, 10_399)),
            "it may be at its next poll yet"
        );
    }
    assert!(granted(&ask(asks(1, "c", Mode::Shared, slow), 10_400)));
}

#[test]
fn a_writer_that_has_stopped_keeps_readers_out_for_three_seconds() {
    let mut node = listening(3);
    let patient = |op, number, name: &str, mode| {
        let mut request = Request {
            waiter: Some(waiter(number)),
            ..request(op, name)
        };
        let mut keys = Keys::clone(&request.keys);
        keys.waits.place = Duration::from_secs(60);
        keys.mode = mode;
        request.keys = Arc::new(keys);
        request
    };
    let long = Op::Acquire {
        ttl: Duration::from_secs(60),
        candidate: 0,
        home: true,
        let_in: false,
        block: 1,
    };
    let mut ask = |request: &Request, ms| node.execute(request, None, at(ms)).0.unwrap();
    assert!(granted(&ask(&patient(long, 1, "a", Mode::Shared), 0)));
    let writer = patient(long, 2, "b", Mode::Exclusive);
    assert!(!granted(&ask(&writer, 0)));
    assert!(!granted(&ask(&patient(long, 1, "c", Mode::Shared), 2_999)));
    // The writer has asked again.
    assert!(!granted(&ask(&writer, 2_999)));
    assert!(!granted(&ask(&patient(long, 1, "c", Mode::Shared), 5_998)));
    assert!(granted(&ask(&patient(long, 1, "c", Mode::Shared), 5_999)));
    // The writer is queued anew when it goes on, and does not pass another waiter behind it.
    assert!(!granted(&ask(&writer, 6_000)));
    assert!(!granted(&ask(
        &patient(long, 3, "e", Mode::Exclusive),
        8_000
    )));
    assert!(!granted(&ask(&patient(long, 1, "d", Mode::Shared), 9_000)));
}

/// A request of a reader that was under way when it was forced out does not let it in again.
#[test]
fn a_reader_that_was_forced_out_stays_out() {
    let mut node = listening(0);
    assert!(granted(&share(&mut node, 0, SHARE, "a", 0).0));
    let out = Request {
        leaving: AfterRelease::Forced(Duration::from_millis(50)),
        ..request(Op::Release, "a")
    };
    node.execute(&out, None, at(10)).0.unwrap();
    assert_eq!(share(&mut node, 0, SHARE, "a", 60).0, Reply::NotMine);
    assert!(granted(&share(&mut node, 0, SHARE, "b", 60).0));
    assert!(granted(&share(&mut node, 0, SHARE, "a", 61).0));
}
