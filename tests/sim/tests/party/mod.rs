//! Clients that ask one node by hand, and note what they hear from it.

#![allow(dead_code, reason = "no test uses all of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::{
    AfterRelease, Clock, Hint, Link, Op, Reply, Request, RequestContext, Sink, Subscriber,
    TimeReading, Value, Waiter, Waits,
};
use quorlock_sim::contender::keys_of;
use quorlock_sim::plan::DRIFT;
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, HALF_OPEN, MS, Network, Rate, Time, World};

const KEY: &[u8] = b"lock:{k}";
pub const TTL: Time = 400 * MS;
pub const RESERVATION: Time = 100 * MS;
/// A dead connection has been found by then, and keys of its client have ended
/// by every clock.
pub const FOUND: Time = (TTL as f64 * HALF_OPEN * (1.0 + DRIFT)) as Time + 3 * MS;
pub const ACQUIRE: Op = Op::Acquire {
    ttl: Duration::from_secs(10),
    candidate: 0,
    home: true,
    let_in: false,
    block: 1,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Subscribed,
    Message(u64),
}

/// What a party heard, and whether it awaits more.
#[derive(Default)]
struct Notes {
    heard: Mutex<Vec<Heard>>,
    awaited: AtomicBool,
}

impl Subscriber for Notes {
    fn on_message(&self, _: usize, hint: Hint) {
        self.heard.lock().unwrap().push(Heard::Message(hint.number));
    }
    fn on_subscribed(&self, _: usize) {
        self.heard.lock().unwrap().push(Heard::Subscribed);
    }
    fn is_awaited(&self, _: usize) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Answer(Mutex<Option<Reply>>);

impl Sink for Answer {
    fn on_reply(&self, _: RequestContext, reply: Reply, _: Option<TimeReading>) {
        *self.0.lock().unwrap() = Some(reply);
    }
    fn wanted(&self) -> bool {
        true
    }
}

const WAITS: Waits = Waits {
    reservation: Duration::from_nanos(RESERVATION),
    place: Duration::from_secs(60),
    most: 10,
};

/// A client that asks by hand.
pub struct Party {
    pub world: Arc<World>,
    number: usize,
    link: Arc<dyn Link>,
    clock: Arc<dyn Clock>,
    notes: Arc<Notes>,
}

impl Party {
    pub fn ask(&self, op: Op, token: u64, waiter: Option<Waiter>) -> Reply {
        let now = self.clock.now();
        let deadline = now + Duration::from_millis(50);
        let request = Request {
            native: false,
            op,
            keys: keys_of(KEY, WAITS, None),
            value: Value(format!("{token:016x}{:024x}.", 0).into_bytes().into()),
            waiter,
            leaving: AfterRelease::Free,
            not_after: 0,
        };
        let ticket = RequestContext {
            node: 0,
            sent: now,
            deadline,
            op,
            server: 0,
        };
        let answer = Arc::new(Answer::default());
        let give_up = now + Duration::from_secs(10);
        let owed = self.link.send(request, ticket, answer.clone(), give_up);
        assert!(owed.is_none(), "nobody is woken in the simulator");
        for _ in 0..1_000 {
            if let Some(reply) = answer.0.lock().unwrap().take() {
                return reply;
            }
            self.world.run(self.world.time() + MS / 10);
        }
        panic!("c{} got no answer", self.number);
    }

    pub fn waiter(&self, number: u64) -> Waiter {
        Waiter {
            number,
            inbox: self.world.inbox(self.number),
        }
    }

    /// Takes the lock, which is free. Not as at its home: who gives such a vote
    /// back and was not seen to win is taken for one that backs off.
    pub fn take(&self, token: u64) {
        let Op::Acquire { ttl, .. } = ACQUIRE else {
            unreachable!()
        };
        let elsewhere = Op::Acquire {
            ttl,
            candidate: 0,
            home: false,
            let_in: false,
            block: 1,
        };
        let reply = self.ask(elsewhere, token, None);
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    }

    /// Joins the queue, or polls: its place there, and how many listen.
    pub fn join(&self, token: u64, number: u64) -> (u32, u32) {
        match self.ask(ACQUIRE, token, Some(self.waiter(number))) {
            Reply::Refused {
                place: Some(place),
                subscribers,
                ..
            } => (place, subscribers),
            other => panic!("{other:?}"),
        }
    }

    pub fn release(&self, token: u64) {
        let reply = self.ask(Op::Release, token, None);
        assert!(matches!(reply, Reply::Released { held: true }), "{reply:?}");
    }

    pub fn await_messages(&self, awaited: bool) {
        self.notes.awaited.store(awaited, Ordering::Relaxed);
    }

    pub fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.notes.heard.lock().unwrap())
    }

    /// How many listen on another's inbox, asked behind its back.
    pub fn listeners(&self, token: u64, other: &Party) -> u32 {
        let reply = self.ask(ACQUIRE, token, Some(other.waiter(99)));
        let Reply::Refused { subscribers, .. } = reply else {
            panic!("{reply:?}");
        };
        subscribers
    }
}

/// One node, and three clients that listen.
pub fn world(network: Network, seed: u64) -> (Arc<World>, [Party; 3]) {
    let network = Network {
        base: MS / 10,
        reach: TTL,
        patience: 50 * MS,
        ..network
    };
    let clock = Rate {
        offset: 1_000 * MS,
        rate: 1.0,
    };
    let admission = Admission::new(1, Duration::from_secs(10), false, true);
    let random = Random::new(seed);
    let world = World::new(random, network, admission, &[clock], &[clock; 3], false);
    let party = |number| {
        let link = world.links(number).remove(0);
        let notes = Arc::new(Notes::default());
        link.subscribe(notes.clone());
        Party {
            world: world.clone(),
            number,
            link,
            clock: world.clock(number),
            notes,
        }
    };
    let parties = [party(0), party(1), party(2)];
    (world, parties)
}

pub fn pass(world: &World, time: Time) {
    world.run(world.time() + time);
}
