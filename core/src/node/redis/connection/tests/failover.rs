//! A node that fails over: where its sentinels lead, and what a promoted server's answers
//! are worth.

use std::collections::HashMap;
use std::pin::pin;

use super::*;
use crate::node::Repair;
use crate::node::address::Sentinels;
use crate::node::admission::{GRACE, Info};
use crate::node::redis::connect::locate;
use crate::node::redis::dial::DialError;

const EXTEND: Op = Op::Extend {
    ttl: Duration::from_secs(1),
    repair: Repair::No,
    fence: 0,
    behind: 0,
};

fn at(host: &str) -> Endpoint {
    Endpoint::Tcp {
        host: host.into(),
        port: 7,
        tls: false,
    }
}

/// What answers at an address: no listener; a silent one; these texts, one for each connection.
enum Answers {
    Refused,
    Silence,
    Say(Vec<&'static str>),
}
use Answers::{Refused, Say};

#[derive(Default)]
struct World(Mutex<(HashMap<String, Answers>, Vec<Far>)>);

impl World {
    fn of(answers: impl IntoIterator<Item = (&'static str, Answers)>) -> Arc<World> {
        let world = World::default();
        let answers = answers.into_iter();
        lock(&world.0).0 = answers.map(|(host, a)| (host.to_owned(), a)).collect();
        Arc::new(world)
    }
}

impl Dial for World {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> StreamFuture<'a> {
        let Endpoint::Tcp { host, .. } = endpoint else {
            panic!("{endpoint:?} is dialled")
        };
        let mut state = lock(&self.0);
        let (answers, ends) = &mut *state;
        match answers.get_mut(host).unwrap_or(&mut Answers::Silence) {
            Answers::Silence => Box::pin(std::future::pending()),
            Refused => Box::pin(async {
                let fault = Fault::new(FaultKind::Unreachable, "refused", false);
                Err(DialError::Refused(fault))
            }),
            Say(texts) => {
                let (near, far) = dial::pair();
                let text = texts.remove(0).as_bytes();
                socket2::SockRef::from(&far).send(text).expect("room");
                ends.push(far);
                Box::pin(async { Ok(near) })
            }
        }
    }
}

fn link(world: Arc<World>, guard: bool) -> Link {
    let sentinels = Sentinels {
        master: "m".into(),
        hosts: vec![at("s1"), at("s2")],
        tls: false,
        user: None,
        password: None,
    };
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, guard).failing_over();
    let endpoint = Endpoint::Sentinel(Arc::new(sentinels));
    let mut link = Link::to(endpoint, expected, world, (at("a"), 1));
    // A client that accepts eviction does not ask for it behind the tests' requests.
    link.accept_eviction = true;
    link.connects();
    link
}

impl Link {
    /// There is a connection to another server.
    fn moves(&mut self, host: &str, server: u64) {
        self.here = (at(host), server);
        self.connection.readmit();
        self.connects();
    }

    /// An extension, answered well by the server in use: whether it counts.
    fn extends(&mut self) -> bool {
        let told = lock(&self.heard.1).len();
        self.asks(EXTEND);
        self.answered(&[":1\r\n"]);
        lock(&self.heard.1).len() > told
    }

    /// What can go on without an answer does.
    async fn turns(&mut self) {
        for _ in 0..10 {
            let _ = poll_fn(|cx| Poll::Ready(self.connection.next(cx).is_ready())).await;
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_promoted_server_lengthens_nothing_while_the_one_before_may_vote() {
    let mut link = link(World::of([]), true);
    assert!(link.extends());
    link.moves("b", 2);
    assert!(!link.extends());
    assert_eq!(*lock(&link.heard.0), [FaultKind::NotReady]);
    // A denial of the promoted server counts.
    link.asks(EXTEND);
    link.answered(&[":0\r\n"]);
    assert_eq!(lock(&link.heard.1).last(), Some(&Reply::NotMine));
    // Until then the former master must have heard of its demotion, by the slowest clock.
    let grace = GRACE.mul_f64(1.01).as_nanos() as u64;
    let begun = link.clock.now().0;
    link.clock.0.store(begun + grace - 1_000, Ordering::Relaxed);
    assert!(!link.extends());
    link.clock.0.store(begun + grace, Ordering::Relaxed);
    assert!(link.extends());
}

/// A lease that stood at the server before is not left alone until its next renewal.
#[tokio::test]
async fn what_it_cannot_take_back_yet_is_no_matter_of_its_quarantine() {
    let mut link = link(World::of([]), true);
    let ttl = Duration::from_secs(1);
    let repair = Repair::InQuarantine { server: 1 };
    let asks = |link: &mut Link| {
        link.asks(Op::Extend {
            ttl,
            repair,
            fence: 0,
            behind: 0,
        });
        link.answered(&["*2\r\n:3\r\n:9000\r\n"]);
    };
    link.moves("b", 2);
    asks(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::NotReady]);
    assert_eq!(*lock(&link.heard.1), []);
    // The same holds for all requests that were sent before the former master was over.
    let grace = GRACE.mul_f64(1.01).as_nanos() as u64;
    link.clock.0.fetch_add(grace, Ordering::Relaxed);
    asks(&mut link);
    asks(&mut link);
    assert_eq!(*lock(&link.heard.0), [FaultKind::NotReady; 3]);
    // Where no server was promoted the reply counts.
    let mut link = self::link(World::of([]), true);
    asks(&mut link);
    let left = Duration::from_secs(9);
    assert_eq!(*lock(&link.heard.1), [Reply::Quarantined { left }]);
}

#[tokio::test]
async fn back_at_the_one_before_it_counts_again() {
    let mut link = link(World::of([]), true);
    link.moves("b", 2);
    assert!(!link.extends());
    link.moves("a", 1);
    // The server b may vote now.
    assert!(!link.extends());
    let grace = GRACE.mul_f64(1.02).as_nanos() as u64;
    link.clock.0.fetch_add(grace, Ordering::Relaxed);
    assert!(link.extends());
}

#[tokio::test]
async fn a_master_in_between_that_was_never_met_may_vote_too() {
    let promotions = |text: &str| Info::parse(text).promotions;
    let first = promotions("master_replid:1\nmaster_replid2:0\n");
    let third = promotions("master_replid:3\nmaster_replid2:2\n");
    // The third master is at the address of the first, or at another; it does not matter where the
    // second is.
    for host in ["a", "c"] {
        let mut link = link(World::of([("a", Refused)]), true);
        link.promotions = first;
        link.moves("a", 1);
        assert!(link.extends());
        link.promotions = third;
        link.moves(host, 3);
        link.turns().await;
        assert!(!link.extends());
        // The next connection does not forget it, either.
        link.moves(host, 3);
        assert!(!link.extends());
        let grace = GRACE.mul_f64(1.01).as_nanos() as u64;
        link.clock.0.fetch_add(grace, Ordering::Relaxed);
        assert!(link.extends());
    }
    // A server that has restarted took the place of no other.
    let mut link = link(World::of([]), true);
    link.promotions = first;
    link.moves("a", 1);
    link.promotions = promotions("master_replid:4\nmaster_replid2:0\n");
    link.moves("a", 2);
    assert!(link.extends());
}

#[tokio::test]
async fn where_the_one_before_gives_no_votes_leases_go_on() {
    let replica = "$25\r\n# Replication\r\nrole:slave\r\n\r\n";
    let master = "$26\r\n# Replication\r\nrole:master\r\n\r\n";
    for (answers, over) in [
        (Refused, true),
        (Say(vec![replica]), true),
        (Say(vec![master]), false),
        (Say(vec!["-NOPERM no\r\n"]), false),
        (Answers::Silence, false),
    ] {
        let mut link = link(World::of([("a", answers)]), true);
        let of = |server| Op::Extend {
            ttl: Duration::from_secs(1),
            repair: Repair::InQuarantine { server },
            fence: 0,
            behind: 0,
        };
        assert_eq!(link.connection.failover.on(of(1)), of(1));
        link.moves("b", 2);
        assert!(!link.extends());
        assert_eq!(link.connection.failover.on(of(1)), of(1));
        link.turns().await;
        assert_eq!(link.extends(), over);
        // The promoted server takes back the votes of its predecessor, and of no other.
        let taken = if over { of(2) } else { of(1) };
        assert_eq!(link.connection.failover.on(of(1)), taken);
        assert_eq!(link.connection.failover.on(of(3)), of(3));
    }
}

#[tokio::test]
async fn without_a_guard_nothing_is_awaited() {
    let mut link = link(World::of([]), false);
    link.moves("b", 2);
    assert!(link.extends());
}

const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
const IS_A: &str = "*2\r\n$1\r\na\r\n$1\r\n7\r\n";
const IS_B: &str = "*2\r\n$1\r\nb\r\n$1\r\n7\r\n";

#[tokio::test]
async fn a_switch_puts_the_connection_in_doubt() {
    let switched = "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n*3\r\n$7\r\nmessage\r\n\
                    $14\r\n+switch-master\r\n$9\r\nm a 7 b 7\r\n";
    let others = "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n*3\r\n$7\r\nmessage\r\n\
                    $14\r\n+switch-master\r\n$9\r\nn a 7 b 7\r\n";
    for (first, second, moved) in [
        (Say(vec![SUBSCRIBED, IS_B]), Answers::Silence, true),
        (Say(vec![switched, IS_A]), Answers::Silence, true),
        (Say(vec![others, IS_A]), Answers::Silence, false),
        (Say(vec![SUBSCRIBED, IS_A]), Answers::Silence, false),
        (Refused, Say(vec![SUBSCRIBED, IS_B]), true),
        (
            Say(vec!["-NOAUTH no\r\n"]),
            Say(vec![SUBSCRIBED, IS_B]),
            true,
        ),
        (Refused, Refused, false),
    ] {
        let mut link = link(World::of([("s1", first), ("s2", second)]), true);
        let mut events = 0;
        for _ in 0..20 {
            let next = poll_fn(|cx| Poll::Ready(link.connection.next(cx))).await;
            events += u32::from(matches!(next, Poll::Ready(ConnectionEvent::Moved)));
            tokio::task::yield_now().await;
        }
        assert_eq!(events, u32::from(moved));
    }
}

#[tokio::test]
async fn the_first_sentinel_that_answers_says_where_the_master_is() {
    for (first, second, named) in [
        (Say(vec![IS_A]), Refused, Ok("a")),
        (Refused, Say(vec![IS_B]), Ok("b")),
        (Say(vec!["$-1\r\n"]), Say(vec![IS_B]), Ok("b")),
        (Say(vec!["-NOAUTH x\r\n"]), Say(vec![IS_B]), Ok("b")),
        (
            Say(vec!["$-1\r\n"]),
            Say(vec!["$-1\r\n"]),
            Err("no master of the name `m`"),
        ),
        (
            Say(vec!["$-1\r\n"]),
            Refused,
            Err("and the others know no master"),
        ),
        (Refused, Refused, Err("no sentinel says")),
        (
            Refused,
            Say(vec!["-NOAUTH x\r\n"]),
            Err("sentinel_password"),
        ),
        (
            Refused,
            Say(vec!["-WRONGPASS x\r\n"]),
            Err("sentinel_password"),
        ),
        (
            Refused,
            Say(vec!["-NOPERM x\r\n"]),
            Err("sentinel_password"),
        ),
        (
            Refused,
            Say(vec!["-ERR unknown command\r\n"]),
            Err("does not serve as one"),
        ),
        (
            Refused,
            Say(vec!["+OK\r\n"]),
            Err("answers as no sentinel does"),
        ),
    ] {
        let link = link(World::of([("s1", first), ("s2", second)]), true);
        match (locate(&link.connection.target).await, named) {
            (Ok((found, _)), Ok(named)) => assert_eq!(found, at(named)),
            (Err(fault), Err(word)) => assert!(fault.text.contains(word), "{}", fault.text),
            (found, named) => panic!("{found:?} for {named:?}"),
        }
    }
    // The sentinel that has answered is asked first the next time; the sentinel that has not, last.
    let world = World::of([("s1", Refused), ("s2", Say(vec![IS_A, IS_B]))]);
    let link = link(world.clone(), true);
    locate(&link.connection.target).await.unwrap();
    lock(&world.0).0.insert("s1".into(), Say(vec![IS_A]));
    let (found, _) = locate(&link.connection.target).await.unwrap();
    assert_eq!(found, at("b"));
}

#[tokio::test]
async fn a_sentinel_that_does_not_answer_in_time_is_asked_last_the_next_time() {
    let world = [("s1", Answers::Silence), ("s2", Say(vec![IS_B]))];
    let link = link(World::of(world), true);
    // The connection's time ends before the sentinel's.
    for named in [None, Some(at("b"))] {
        let mut locating = pin!(locate(&link.connection.target));
        let mut found = None;
        for _ in 0..20 {
            let polled = poll_fn(|cx| Poll::Ready(locating.as_mut().poll(cx))).await;
            if let Poll::Ready(located) = polled {
                found = Some(located.unwrap().0);
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(found, named);
    }
}

/// A silent sentinel has the time of three answers of a node, and then the next sentinel is asked.
#[tokio::test]
async fn a_sentinel_that_is_silent_is_waited_for_as_long_as_three_answers_take() {
    let world = [("s1", Answers::Silence), ("s2", Say(vec![IS_B]))];
    let link = link(World::of(world), true);
    let mut locating = pin!(locate(&link.connection.target));
    let mut goes_on = async |millis: u64| {
        link.clock
            .0
            .fetch_add(millis * 1_000_000, Ordering::Relaxed);
        for _ in 0..20 {
            let polled = poll_fn(|cx| Poll::Ready(locating.as_mut().poll(cx))).await;
            if let Poll::Ready(located) = polled {
                return Some(located.unwrap().0);
            }
            tokio::task::yield_now().await;
        }
        None
    };
    assert_eq!(goes_on(0).await, None);
    assert_eq!(goes_on(749).await, None);
    assert_eq!(goes_on(1).await, Some(at("b")));
}
