//! What is wrong with one lock, hash slot or shard delays no turn of another lock. Each error
//! that servers give is given to one lock by all nodes, in virtual time, while two clients hand
//! another one on: their turns are those that they have without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use quorlock::Client;
use quorlock::sim::probe::{ProbeReply, read};
use quorlock::sim::{
    Cause, Fault, FaultKind, Inbox, Instant, Link, Op, Reply, Request, RequestContext, Set, Sink,
    Subscriber, Waits, Wakers, Watchdog,
};
use quorlock_sim::mutants::choose;
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, MS, Network, Rate, Time, World};

const TTL: Duration = Duration::from_secs(2);
const LONG: Time = 1_000 * MS;
const CLIENTS: usize = 2;

const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

/// A node that says this to every request for one lock, and serves the others.
struct Faulty {
    node: Arc<dyn Link>,
    says: Reply,
    parts: bool,
}

impl Link for Faulty {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        if &*request.keys.lock != b"lock:{bad}" {
            return self.node.send(request, ticket, sink, give_up);
        }
        let reply = match request.op {
            Op::Release => Reply::Released { held: false },
            _ => self.says.clone(),
        };
        sink.on_reply(ticket, reply, None);
        None
    }

    fn ring(&self, owed: Wakers) {
        self.node.ring(owed);
    }

    fn shown(&self) -> Arc<str> {
        self.node.shown()
    }

    fn id(&self) -> u64 {
        self.node.id()
    }

    fn is_met(&self) -> bool {
        self.node.is_met()
    }

    fn poll_met(&self, cx: &Context<'_>) -> Poll<bool> {
        self.node.poll_met(cx)
    }

    fn is_ours(&self) -> bool {
        self.node.is_ours()
    }

    fn in_parts(&self) -> bool {
        self.parts
    }

    fn close(&self) {
        self.node.close();
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        self.node.subscribe(subscriber);
    }
}

/// How often two clients hand a lock on, while each asks for another one again and again of
/// which all nodes say this, if they do.
fn turns(nodes: usize, parts: bool, says: Option<&Reply>) -> u32 {
    let network = Network {
        base: MS,
        reach: TTL.as_nanos() as Time,
        patience: 500 * MS,
        even: true,
        ..Network::default()
    };
    let clock = Rate {
        offset: 1_000 * MS,
        rate: 1.0,
    };
    let world = World::new(
        Random::new(7),
        network,
        Admission::new(nodes, TTL, true, true),
        &vec![clock; nodes],
        &[clock; CLIENTS],
        false,
    );
    let turns = Arc::new(AtomicU32::new(0));
    for client in 0..CLIENTS {
        let links = world.links(client).into_iter().map(|node| match says {
            Some(says) => Arc::new(Faulty {
                node,
                says: says.clone(),
                parts,
            }) as Arc<dyn Link>,
            None => node,
        });
        let (random, clock) = (Arc::new(Random::new(client as u64)), world.clock(client));
        let set = Set::new(links.collect(), clock.clone(), random, TTL, 0.01, |_| ());
        let inbox = Inbox::new(world.inbox(client), &set.links);
        let options = Client::builder().max_ttl(TTL).ttl(TTL).renew(false);
        let door = options.simulated(Arc::new(set), inbox, Watchdog::new(clock.clone()), WAITS);
        let (good, bad, turns) = (door.lock("k").wait(None), door.lock("bad"), turns.clone());
        world.spawn(client, async move {
            loop {
                let lease = good.acquire().await.expect("nothing is wrong with it");
                turns.fetch_add(1, Ordering::Relaxed);
                lease.release().await.expect("no fork");
            }
        });
        if says.is_some() {
            world.spawn(client, async move {
                loop {
                    let refused = bad.clone().wait(Duration::ZERO).acquire().await;
                    assert!(refused.is_err());
                    let soon = clock.now() + Duration::from_millis(5);
                    clock.sleep_until(soon).await;
                }
            });
        }
    }
    world.run(LONG);
    assert_eq!(world.violation(), None);
    world.end();
    turns.load(Ordering::Relaxed)
}

/// What a node says, and whose it is.
fn said() -> Vec<(&'static str, String, Reply)> {
    let fault = |kind| {
        Reply::Failed(Fault {
            kind,
            text: "none".into(),
            sent: true,
            of_lock: false,
            cause: Cause::Other,
        })
    };
    // A node that calls has shown that it is there.
    let mut said: Vec<_> = [
        ("nobody", "no answer", fault(FaultKind::Timeout)),
        ("nobody", "no connection", fault(FaultKind::Unreachable)),
        ("node", "quarantine", Reply::Quarantined { left: TTL }),
    ]
    .map(|(whose, what, reply)| (whose, what.to_owned(), reply))
    .into();
    let lines = include_str!("../../../core/src/node/redis/errors.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (whose, wire) = line.split_once(' ').expect("whose, and the error");
        let op = Op::Extend {
            ttl: TTL,
            repair: quorlock::sim::Repair::Yes,
            fence: 0,
            behind: 0,
        };
        let answer = read(op, format!("{wire}\r\n").as_bytes());
        match answer.expect("it is RESP").expect("whole").0 {
            ProbeReply::Reply(reply, None) => said.push((whose, wire.to_owned(), reply)),
            other => panic!("{wire}: {other:?}"),
        }
    }
    said
}

/// Whether what is said of one lock delays those who wait for another.
fn delays(nodes: usize, parts: bool, says: &Reply, before: u32) -> bool {
    let turns = turns(nodes, parts, Some(says));
    assert!(
        turns * 10 >= before * 9 || turns * 2 < before,
        "{turns} of {before}"
    );
    turns * 2 < before
}

#[test]
fn what_is_one_locks_delays_no_other_lock() {
    assert!(choose(""));
    for nodes in [1, 3] {
        let before = turns(nodes, false, None);
        assert!(before > 100, "{before}");
        for (whose, what, says) in said() {
            let delays = |parts| delays(nodes, parts, &says, before);
            // A node in one piece is out for all of its locks, where the fault is its own.
            if whose != "slot" {
                assert_eq!(delays(false), whose == "node", "{what}");
            }
            // One in parts, as a cluster is, never: no shard's fault is another's.
            assert!(!delays(true), "{what}");
        }
    }
    let quarantine = Reply::Quarantined { left: TTL };
    if choose("shard-fault-is-the-nodes") {
        let before = turns(1, false, None);
        assert!(delays(1, true, &quarantine, before));
        choose("");
    }
}
