//! What is noticed of a server that is connected to: its memory, its certificate, and whether it drops keys.

use super::*;

/// Shows such a certificate, and counts how often.
struct Shows(Arc<AtomicU64>, u64);

impl Dial for Shows {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        Box::pin(std::future::pending())
    }

    fn certificate_expires<'a>(
        &'a self,
        _: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Some(self.1)))
    }
}

/// What a server uses is asked for behind what is written, from time to time, and known as long as
/// it is connected to.
#[tokio::test]
async fn how_full_a_server_is_follows_what_it_says() {
    let mut link = Link::connected();
    let memory = |link: &Link| lock(&link.connection.outbox.server).memory;
    let says = |link: &mut Link, said: &str| {
        let nanos = LOOKED_AT.as_nanos() as u64;
        link.clock.0.fetch_add(nanos, Ordering::Relaxed);
        link.asks(ACQUIRE);
        let info = format!("${}\r\n{said}\r\n", said.len());
        link.answered(&[":1\r\n", &info]);
    };
    assert_eq!(memory(&link), None);
    let bounded = "used_memory:7\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n";
    says(&mut link, bounded);
    assert_eq!(memory(&link), Some(Memory { used: 7, limit: 9 }));
    says(
        &mut link,
        "used_memory:8\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
    );
    assert_eq!(memory(&link), None);
    says(&mut link, bounded);
    link.patience_ends();
    assert!(memory(&link).is_some());
    link.asks(ACQUIRE);
    link.patience_ends();
    assert_eq!(memory(&link), None);
    link.connects();
    says(&mut link, bounded);
    link.connection.lose_connection(&stray());
    assert_eq!(memory(&link), None);
}

/// A renewed certificate is shown to new connections alone.
#[tokio::test]
async fn a_certificate_that_soon_ends_is_looked_at_anew() {
    let (day, hour) = (24 * 3600, LOOKED_AT_ANEW.as_secs());
    let here = (Endpoint::Unix("/nowhere".into()), 1);
    for (days, looks) in [
        (None, [0, 0, 0]),
        (Some(40), [0, 0, 1]),
        (Some(10), [0, 1, 2]),
    ] {
        let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, false);
        let count = Arc::new(AtomicU64::new(0));
        let dial = Arc::new(Shows(count.clone(), 90 * day));
        let mut link = Link::to(here.0.clone(), expected, dial, here.clone());
        link.certificate_expires = days.map(|days| days * day);
        link.connects();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let known = |link: &Link| lock(&link.connection.outbox.server).certificate_expires;
        for (later, looks) in [hour - 1, 1, 20 * day].into_iter().zip(looks) {
            link.clock
                .0
                .fetch_add(later * 1_000_000_000, Ordering::Relaxed);
            link.connection.push_on();
            let before = known(&link);
            let _: bool = link.connection.next(&mut cx).is_ready();
            assert_eq!(count.load(Ordering::Relaxed), looks, "{days:?} {later}");
            let shown = Some(90 * day).filter(|_| looks > 0);
            assert_eq!(known(&link), shown.or(before));
        }
    }
}

/// A policy that is set while a client is connected is seen behind what it asks, from time to time.
#[tokio::test]
async fn a_server_that_may_drop_keys_by_now_is_looked_at_anew() {
    const KEEPS: &str = "$42\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n\r\n";
    const DROPS: &str = "$43\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lfu\r\n\r\n";
    const DENIED: &str = "-NOPERM no permissions\r\n";
    const ONE: &str = ":1\r\n";
    let asks_later = |link: &mut Link, later: Duration| {
        let nanos = later.as_nanos() as u64;
        link.clock.0.fetch_add(nanos, Ordering::Relaxed);
        link.asks(ACQUIRE);
        link.written()[1]
    };
    let mut link = Link::connected();
    let early = LOOKED_AT / 2;
    assert_eq!(asks_later(&mut link, early), 1);
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, early), 2);
    // The request does not wait for the question about eviction.
    link.answered(&[ONE]);
    assert_eq!(lock(&link.heard.1).len(), 2);
    link.answered(&[KEEPS]);
    assert_eq!(asks_later(&mut link, early), 1);
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, early), 2);
    link.answered(&[ONE, DROPS]);
    assert!(link.connection.up.is_none());
    link.asks(ACQUIRE);
    assert!(link.connection.connecting.is_some());
    // The client may not ask that, or it does not matter.
    link.connects();
    link.answered(&[ONE]);
    assert_eq!(asks_later(&mut link, LOOKED_AT), 2);
    link.answered(&[ONE, DENIED]);
    assert_eq!(asks_later(&mut link, LOOKED_AT), 1);
    link.answered(&[ONE]);
    link.accept_eviction = true;
    link.connects();
    assert_eq!(asks_later(&mut link, LOOKED_AT), 1);
}

/// What a client asks after it was idle is behind the look, and no vote where keys may be dropped by
/// now: it is asked for again over the next connection.
#[tokio::test]
async fn no_vote_counts_that_is_behind_the_word_of_a_server_that_may_drop_keys() {
    const DROPS: &str = "$43\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lfu\r\n\r\n";
    for native in [false, true] {
        let mut link = Link::connected();
        let idle = (LOOKED_AT + IDLE).as_nanos() as u64;
        link.clock.0.fetch_add(idle, Ordering::Relaxed);
        link.asks_all(&[ACQUIRE], native);
        let vote = if native {
            vec![OK, OURS, TIME]
        } else {
            vec![":1\r\n"]
        };
        let up = link.connection.up.as_mut().expect("a connection");
        let mut done = VecDeque::new();
        for reply in [vec![DROPS], vote].concat() {
            let reply = redis::parse_redis_value(reply.as_bytes()).expect("RESP");
            assert!(up.take_reply(reply, &mut done), "nobody has asked");
        }
        link.connection.done = done;
        link.connection.take_outcomes();
        link.connection.push_on();
        assert!(lock(&link.heard.1).is_empty(), "no vote is told");
        assert!(link.connection.up.is_none() && link.connection.connecting.is_some());
        link.connects();
        assert_eq!(link.written()[1], 1, "it is asked for again");
    }
}
