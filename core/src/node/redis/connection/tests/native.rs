//! Votes by plain commands: what each reply of a write says of them.

use super::*;

#[tokio::test]
async fn votes_of_one_write_are_told_behind_one_trailer() {
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE, ACQUIRE, ACQUIRE], true);
    assert_eq!(link.written(), [0, 4]);
    // A refused acquire needs no trailer.
    link.answered(&[OK, NIL, OK]);
    assert_eq!(*lock(&link.heard.1), [Reply::Taken]);
    link.answered(&[OURS]);
    assert_eq!(lock(&link.heard.1).len(), 1);
    link.answered(&[TIME]);
    let told = lock(&link.heard.1).clone();
    assert!(matches!(
        told[1..],
        [Reply::Granted { .. }, Reply::Granted { .. }]
    ));
    assert_eq!(link.written(), [0, 0]);
}

#[tokio::test]
async fn a_vote_without_its_trailer_is_none() {
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK]);
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    assert_eq!(*lock(&link.heard.1), []);
}

#[tokio::test]
async fn what_plain_commands_do_not_decide_is_asked_by_script() {
    // The request goes by script: in quarantine over the same connection; at another record once
    // the node is admitted anew.
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK, QUARANTINED, TIME]);
    assert_eq!(link.natives(), [false]);
    let mut link = Link::connected();
    link.asks_all(&[ACQUIRE], true);
    link.answered(&[OK, ANOTHERS, TIME]);
    assert_eq!(link.written(), [0, 0]);
    link.connects();
    assert_eq!(link.natives(), [false]);
    // A delete that finds no vote of ours is asked again by script: a waiter may be queued there.
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    link.answered(&[":0\r\n"]);
    assert_eq!(link.natives(), [false]);
    assert_eq!(*lock(&link.heard.1), []);
    link.answered(&[":1\r\n"]);
    assert_eq!(*lock(&link.heard.1), [Reply::Released { held: true }]);
}

/// Native requests, each for the lock of that name.
fn ask_for(link: &mut Link, asked: &[(Op, &str)]) {
    let items = asked.iter().map(|(op, name)| {
        let mut item = link.item(*op, true);
        let keys = Arc::get_mut(&mut item.request.keys).expect("not shared yet");
        keys.lock = name.as_bytes().into();
        item
    });
    let items: Vec<_> = items.collect();
    lock(&link.connection.outbox.state).items.extend(items);
    link.connection.take_outbox();
    link.connection.push_on();
}

#[tokio::test]
async fn one_script_carries_out_the_releases_of_a_write() {
    let release = |name| (Op::Release, name);
    let released = Reply::Released { held: true };
    let mut link = Link::connected();
    // A vote for another lock may stand before the releases, a vote for one of theirs stands behind.
    ask_for(&mut link, &[release("a"), (ACQUIRE, "b"), release("c")]);
    assert_eq!(link.written(), [0, 3]);
    link.answered(&[NIL, "*2\r\n:1\r\n:1\r\n", OURS, TIME]);
    let heard = std::mem::take(&mut *lock(&link.heard.1));
    assert_eq!(heard, [Reply::Taken, released.clone(), released.clone()]);
    ask_for(
        &mut link,
        &[release("a"), release("b"), (ACQUIRE, "b"), release("c")],
    );
    assert_eq!(link.written(), [0, 4]);
    link.answered(&["*2\r\n:1\r\n:1\r\n", NIL]);
    let heard = std::mem::take(&mut *lock(&link.heard.1));
    assert_eq!(heard, [released.clone(), released.clone(), Reply::Taken]);
    // The release script is sent for each lock that had another value, and for all of them where
    // the answer says nothing of them.
    for (said, left) in [
        ("*3\r\n:1\r\n:0\r\n:1\r\n", 1),
        ("*1\r\n:1\r\n", 2),
        ("-NOSCRIPT No matching script.\r\n", 3),
        ("*3\r\n:0\r\n:0\r\n:0\r\n", 3),
    ] {
        let mut link = Link::connected();
        ask_for(&mut link, &["a", "b", "c"].map(release));
        assert_eq!((link.written(), link.natives()), ([0, 1], vec![true; 3]));
        link.answered(&[said]);
        assert_eq!(link.natives(), vec![false; left], "{said}");
        assert_eq!(
            *lock(&link.heard.1),
            vec![released.clone(); 3 - left],
            "{said}"
        );
    }
    // A script stands behind the releases that were asked for before it.
    let mut link = Link::connected();
    ask_for(&mut link, &["a", "b"].map(release));
    let inspect = link.item(Op::Inspect, false);
    lock(&link.connection.outbox.state).items.extend([inspect]);
    ask_for(&mut link, &["c"].map(release));
    assert_eq!(link.natives(), [true, true, false, true]);
}

#[tokio::test]
async fn the_life_of_a_counter_is_told_until_a_reply_says_that_it_was() {
    let mut link = Link::connected();
    link.fence_ttl = Some(4 * PATIENCE);
    let counts = Op::Acquire {
        ttl: Duration::from_secs(1),
        candidate: 7,
        home: false,
        let_in: false,
        block: 1,
    };
    // A script that is unknown, or that refuses, has set no expiry;
    link.asks(counts);
    link.answered(&["-NOSCRIPT x\r\n"]);
    assert_eq!(link.colds(), [true]);
    link.answered(&["*7\r\n:0\r\n:9\r\n$0\r\n\r\n:-1\r\n:1\r\n:0\r\n:9\r\n"]);
    // nor have plain commands of which the last failed.
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [true]);
    link.answered(&[NIL, ":0\r\n", "-OOM x\r\n", OURS, TIME]);
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [true]);
    link.answered(&[NIL, ":1\r\n", ":1\r\n", OURS, TIME]);
    link.asks_all(&[counts], true);
    assert_eq!(link.colds(), [false]);
    link.answered(&[NIL, ":1\r\n", OURS, TIME]);
    // The expiry is set again once a quarter of the life has gone by.
    link.patience_ends();
    link.asks(counts);
    assert_eq!(link.colds(), [true]);
    link.answered(&["*4\r\n:1\r\n$1\r\n7\r\n:0\r\n:9\r\n"]);
    link.asks(counts);
    assert_eq!(link.colds(), [false]);
}

#[tokio::test]
async fn nothing_native_is_sent_twice() {
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    assert_eq!(link.natives(), [true]);
    link.patience_ends();
    link.connects();
    assert_eq!(link.natives(), [false]);
    let mut link = Link::connected();
    link.asks_all(&[Op::Release], true);
    let fault = Fault::new(FaultKind::Unreachable, "lost", true);
    link.connection.lose_connection(&fault);
    link.connection.push_on();
    link.connects();
    assert_eq!(link.natives(), [false]);
}

#[tokio::test]
async fn a_native_vote_ends_as_if_it_was_written_when_it_was_asked_for() {
    let mut link = Link::connected();
    let mut asked = link.item(ACQUIRE, true);
    asked.request.not_after = 0;
    // The request waits for that long before it is written.
    link.clock.0.fetch_add(10_000_000, Ordering::Relaxed);
    lock(&link.connection.outbox.state).items.push_back(asked);
    link.connection.take_outbox();
    link.connection.push_on();
    let up = link.connection.up.iter();
    let ends: Vec<u64> = up
        .flat_map(InFlight::items)
        .map(|i| i.request.not_after)
        .collect();
    let (asked, second) = (0, 1_000_000);
    assert_eq!(ends, [asked + second + 5_000]);
}

#[tokio::test]
async fn until_when_is_told_by_the_clock_of_the_server_that_is_asked() {
    let mut link = Link::connected();
    let mut ask = |server, not_after| {
        let mut asked = link.item(ACQUIRE, false);
        (asked.ticket.server, asked.request.not_after) = (server, not_after);
        lock(&link.connection.outbox.state).items.push_back(asked);
        link.connection.take_outbox();
        link.connection.push_on();
        let up = link.connection.up.iter();
        let told = up.flat_map(InFlight::items).map(|i| i.request.not_after);
        let told = told.last().expect("one is written");
        // The server's `TIME` is seven seconds by now, as a shard's connection takes it.
        link.answered(&["*4\r\n:1\r\n$1\r\n1\r\n$1\r\n7\r\n$1\r\n0\r\n"]);
        let mut answered = link.item(ACQUIRE, false);
        let now = link.clock.now();
        (answered.ticket.server, answered.written) = (1, now);
        let up = link.connection.up.as_mut().expect("a connection");
        let (time, at) = (7_000_000, now);
        up.told(&answered, TimeReading { time, at });
        told
    };
    // Requests wait for less than a microsecond here.
    let since = |time: u64| time.saturating_sub(10)..time + 10;
    // The deadline is by this server's clock already.
    assert_eq!(ask(1, 5), 5);
    // The deadline is by another server's clock, or by none.
    assert!(since(7_000_000).contains(&ask(2, 5)));
    assert!(since(7_000_000).contains(&ask(0, 0)));
    // The server's clock was zero as the connection was made.
    let mut link = Link::connected();
    link.asks(ACQUIRE);
    let up = link.connection.up.iter();
    let told: Vec<u64> = up
        .flat_map(InFlight::items)
        .map(|i| i.request.not_after)
        .collect();
    assert!(since(0).contains(&told[0]));
}
