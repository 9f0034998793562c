//! Connections in doubt: releases go out over them yet, and what was asked over a lost one is asked again.

use super::*;

#[tokio::test]
async fn a_release_has_one_copy_over_the_connection_in_doubt() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(link.written(), [1, 0]);
    // The release goes out at once behind the request that it undoes, and over the next connection
    // when that stands.
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 0]);
    link.connects();
    assert_eq!(link.written(), [2, 1]);
    // A release that was written to the connection before needs no copy over that either; a copy
    // over the connection before that is gone with it.
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
    link.connects();
    assert_eq!(link.written(), [1, 1]);
    // While both connections stand, a release goes out over each of them, once.
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 2]);
}

#[tokio::test]
async fn a_release_that_was_set_aside_goes_out_over_a_connection_in_doubt_from_the_first() {
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, true);
    let mut link = Link::to(here.0.clone(), expected, Arc::new(Silence), here);
    link.connects();
    link.asks(ACQUIRE);
    link.patience_ends();
    link.asks(Op::Release);
    assert_eq!(link.written(), [2, 0]);
    // A reply over the connection in doubt has shown a step: the next connection is in doubt as
    // soon as it stands, and answers.
    link.connection.stepped = true;
    link.connects();
    assert_eq!(link.written(), [1, 0]);
    // The connection after that has the step, too.
    link.connection.stepped = false;
    link.connects();
    assert_eq!(link.written(), [1, 1]);
}

#[tokio::test]
async fn a_release_that_is_not_acknowledged_is_worth_a_connection() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.patience_ends();
    // The task owes that node no release.
    assert!(link.connection.connecting.is_none());
    let mut link = Link::connected();
    link.asks(Op::Release);
    assert!(link.connection.connecting.is_none());
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(link.written(), [1, 0]);
    assert!(link.connection.connecting.is_some());
    link.connects();
    assert_eq!(link.written(), [1, 1]);
    // The sink has its reply, and the release justifies one more connection if this one does not
    // answer either.
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
    link.pause_ends();
    assert!(link.connection.connecting.is_some());
    // The task tries again, after a while, to make a connection that could not be made.
    let mut link = Link::connected();
    link.asks(Op::Release);
    link.patience_ends();
    let fault = Fault::new(FaultKind::Unreachable, "refused", false);
    link.connection.connecting = None;
    link.connection.connect_failed(fault);
    link.connection.push_on();
    assert!(link.connection.connecting.is_none());
    link.pause_ends();
    assert!(link.connection.connecting.is_some());
}

#[tokio::test]
async fn thousands_of_releases_cost_no_connection_that_answers() {
    let mut link = Link::connected();
    link.asks(Op::Release);
    link.asks(Op::Release);
    link.asks(Op::Release);
    link.patience_ends();
    link.connects();
    assert_eq!(link.written(), [3, 3]);
    // No request awaits the replies any more. The server answers one each time, just before the
    // doubt.
    for left in [2, 1] {
        let up = link.connection.up.as_mut().expect("a connection");
        assert!(up.take_reply(redis::Value::Int(1), &mut VecDeque::new()));
        link.patience_ends();
        assert_eq!(link.written(), [3, left]);
    }
    link.patience_ends();
    assert_eq!(link.written(), [1, 0]);
}

#[tokio::test]
async fn the_copy_of_a_release_goes_out_before_its_connection_is_closed() {
    let mut link = Link::connected();
    let release = link.item(Op::Release, false);
    let mut theirs = link.ends.pop().expect("one connection");
    let pipe = link.connection.up.as_mut().expect("a connection");
    assert!(pipe.is_idle());
    // The server does not read, and the copies exceed the room. No request awaits an answer either,
    // and yet the task must not close the connection.
    for _ in 0..20_000 {
        pipe.write_copy(&release, Instant(1));
    }
    poll_fn(|cx| Poll::Ready(pipe.poll(cx).is_pending())).await;
    assert!(!pipe.is_idle());
    let mut bytes = vec![0; 1 << 20];
    poll_fn(|cx| {
        loop {
            assert!(pipe.poll(cx).is_pending());
            if pipe.is_idle() {
                return Poll::Ready(());
            }
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut theirs).poll_read(cx, &mut read)).expect("bytes");
        }
    })
    .await;
}

#[tokio::test]
async fn a_delete_in_doubt_is_followed_by_the_script() {
    let mut link = Link::connected();
    // The server answers neither the vote, nor its trailer, nor the delete. Before the delete is
    // carried out a waiter may join, which the script alone notifies.
    link.asks_all(&[ACQUIRE], true);
    link.asks_all(&[Op::Release], true);
    assert_eq!(link.written(), [0, 3]);
    link.patience_ends();
    assert_eq!(link.written(), [4, 0]);
    // A release that went by script in the first place needs no copy.
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.asks(Op::Release);
    link.patience_ends();
    assert_eq!(link.written(), [2, 0]);
}

#[tokio::test]
async fn what_a_connection_that_was_gone_was_asked_is_asked_of_the_next_once() {
    let lost = |link: &mut Link| {
        let gone = Fault::new(FaultKind::Unreachable, "gone", true);
        link.connection.lose_connection(&gone);
        link.connection.push_on();
    };
    let extend = Op::Extend {
        ttl: Duration::from_secs(1),
        repair: crate::node::Repair::No,
        fence: 0,
        behind: 0,
    };
    let mut link = Link::connected();
    // The task repeats plain commands by script.
    link.asks_all(&[ACQUIRE, extend, Op::Inspect], true);
    assert_eq!(link.natives(), [true, true, true]);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), []);
    link.connects();
    assert_eq!(link.natives(), [false, false, false]);
    // The next connection is lost, too.
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable; 3]);
    // The connection lived until it brought an answer, so later requests are not repeated.
    let mut link = Link::connected();
    link.asks_all(&[extend, ACQUIRE], false);
    link.answered(&[":1\r\n"]);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable]);
    // A request that might be answered otherwise the second time fails.
    let mut link = Link::connected();
    let confirm = Op::Confirm {
        ttl: Duration::from_secs(1),
        fence: 7,
        block: 1,
    };
    let long = Duration::from_secs(1);
    link.asks_all(&[confirm, Op::Reserve { long }], false);
    lost(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable; 2]);
}

#[tokio::test]
async fn what_is_asked_twice_ends_when_it_would_have_ended() {
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    link.clock.0.fetch_add(60, Ordering::Relaxed);
    let gone = Fault::new(FaultKind::Unreachable, "gone", true);
    link.connection.lose_connection(&gone);
    link.connection.push_on();
    link.clock.0.fetch_add(40, Ordering::Relaxed);
    link.connection.look_at_deadlines();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
}
