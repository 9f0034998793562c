//! What is done to both nodes: calls and steps of the clock, from a seed. Few
//! keys and values, so that they meet; times at the edges of lives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names::{Naming, counter_key, lock_key};
use quorlock::sim::{Counter, Instant, MemoryNode, Op, Repair, Request, Value};
use quorlock_sim::random::Random;

pub const NAMESPACE: &str = "lock:";
/// Votes with a label, bare, with a label of any bytes, empty of it, and what
/// other programs may store.
const VALUES: [&[u8]; 6] = [
    b"aaaa.host:1",
    b"bbbb",
    b"cccc.a.b\r\n\0\xff",
    b"dddd.",
    b"no token.x",
    b".",
];
const RECORDS: [&str; 3] = [
    "1 s 1 3 60000 n1 r1",
    "1 s 1 3 60000 n1 r2",
    "1 s 2 5 60000 n2 r1",
];
/// The furthest that the clock is set at once, in µs.
const FAR: u64 = 30_000_000;

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Call {
    /// A request; what the node must hold.
    Ask(Request, Option<Arc<str>>),
    /// A new record over the one that was read (empty: none), and for how long
    /// a quarantine.
    Init(String, &'static str, Duration),
    /// The clock is set, in µs.
    Clock(u64),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Clock(micros) => write!(f, "clock {micros}"),
            Call::Init(old, new, quarantine) => write!(f, "init {old:?} {new:?} {quarantine:?}"),
            Call::Ask(request, record) => write!(
                f,
                "{:?} {} {} counter {:?} not_after {} record {record:?}",
                request.op,
                request.key.escape_ascii(),
                request.value.0.escape_ascii(),
                request.counter.as_ref().map(|c| c.ttl),
                request.not_after
            ),
        }
    }
}

/// The key of a lock, and of its counter.
pub type Keys = (Arc<[u8]>, Arc<[u8]>);

/// Those of all locks.
pub fn keys() -> Vec<Keys> {
    let names = [&b"a"[..], b"t_{7}", b"\0\r\n"];
    let keys = |name| {
        let key = lock_key(NAMESPACE, name, Naming::Tagged).expect("a good name");
        let counter = counter_key(NAMESPACE, &key, Naming::Tagged);
        (key.into(), counter.into())
    };
    names.into_iter().map(keys).collect()
}

/// A generator of calls.
#[derive(Debug)]
pub struct Calls {
    random: Random,
    keys: Vec<Keys>,
}

impl Calls {
    pub fn new(seed: u64) -> Calls {
        Calls {
            random: Random::new(seed),
            keys: keys(),
        }
    }

    /// The next call on a node in this state, at `now` in µs.
    pub fn next(&self, node: &MemoryNode, now: u64) -> Call {
        match self.random.below(100) {
            0..22 => Call::Clock(self.step(node, now).max(1)),
            22..30 => self.init(node),
            _ => self.ask(node, now),
        }
    }

    /// Moments at which something ends, and a little beside them; or any.
    fn step(&self, node: &MemoryNode, now: u64) -> u64 {
        let at = Instant(now * 1000);
        let mut ends: Vec<u64> = node.counters(at).map(|(_, _, end)| end.0 / 1000).collect();
        ends.extend(node.quarantine(at).map(|left| now + micros(left)));
        for (key, _) in &self.keys {
            ends.extend(node.get(key, at).map(|(_, end)| end.0 / 1000));
        }
        match self.random.below(10) {
            0..5 if !ends.is_empty() => {
                let end = *self.random.pick(&ends);
                let edge = *self.random.pick(&[0, 1, 999, 1000, 1001, 2000]);
                (end + edge).saturating_sub(*self.random.pick(&[0, 0, 0, 1, 1000]))
            }
            0..7 => now + self.random.below(3_000),
            7 => now + self.random.below(FAR),
            8 => now - self.random.below(20_000),
            _ => now - self.random.below(FAR),
        }
    }

    fn init(&self, node: &MemoryNode) -> Call {
        let stored = node.record().map_or("", |record| record).to_owned();
        let old = match self.random.below(4) {
            0 => (*self.random.pick::<&str>(&RECORDS)).to_owned(),
            1 => String::new(),
            _ => stored,
        };
        let quarantine = match self.random.below(4) {
            0..2 => Duration::ZERO,
            2 => self.length(5_000),
            _ => self.length(3_000_000),
        };
        Call::Init(old, self.random.pick::<&str>(&RECORDS), quarantine)
    }

    fn ask(&self, node: &MemoryNode, now: u64) -> Call {
        let random = &self.random;
        let (key, counter) = random.pick(&self.keys);
        let at = Instant(now * 1000);
        // Often whose key it is, so that not everything is refused.
        let value = match node.get(key, at) {
            Some((value, _)) if random.chance(50) => value.clone(),
            _ => Value(random.pick(&VALUES).to_vec().into()),
        };
        let record = match (random.below(5), node.record()) {
            (0..2, _) => None,
            (2, _) | (_, None) => Some((*random.pick::<&str>(&RECORDS)).into()),
            (_, Some(stored)) => Some(stored.clone()),
        };
        let counter = random.chance(70).then(|| Counter {
            key: counter.clone(),
            ttl: match random.below(3) {
                0 => self.length(10_000),
                _ => self.length(20_000_000),
            },
        });
        let stored = counter.as_ref().and_then(|c| node.fence(&c.key, at));
        let ttl = match random.below(3) {
            0 => self.length(5_000),
            1 => self.length(200_000),
            _ => self.length(10_000_000),
        };
        let op = match random.below(12) {
            0..5 => Op::Acquire {
                ttl,
                candidate: self.candidate(now, stored),
            },
            5..8 => Op::Extend {
                ttl,
                repair: *random.pick(&[Repair::No, Repair::Yes, Repair::InQuarantine]),
                fence: self.fence(now, stored),
            },
            8..10 => Op::Confirm {
                ttl,
                fence: self.fence(now, stored),
            },
            _ => Op::Release,
        };
        // Without record and counter it is not sent (docs/PROTOCOL.md).
        let not_after = match random.below(8) {
            _ if record.is_none() && counter.is_none() => 0,
            0 => now - 1,
            1 => now,
            2 => now + 1,
            3 => now + random.below(1_000_000),
            4 => now - random.below(1_000_000),
            _ => 0,
        };
        let request = Request {
            op,
            key: key.clone(),
            value,
            counter,
            not_after,
            guess: None,
        };
        Call::Ask(request, record)
    }

    /// A proposed fence: none, near, at the edges of what a node takes, beyond.
    fn candidate(&self, now: u64, stored: Option<u64>) -> u64 {
        match self.random.below(10) {
            0 => 0,
            1 => self.random.below(1_000),
            2 => now - 1_000_000 - 1 + self.random.below(3),
            3 => now + 10_000_000 - 1 + self.random.below(3),
            4 => now + 1_000_000_000_000,
            5..7 => (stored.unwrap_or(now) + self.random.below(3)).saturating_sub(1),
            _ => now - 500_000 + self.random.below(1_000_000),
        }
    }

    /// The fence of a lease: none, about the stored one, another.
    fn fence(&self, now: u64, stored: Option<u64>) -> u64 {
        match self.random.below(6) {
            0 => 0,
            1 => now + self.random.below(20_000_000),
            2 => now - self.random.below(20_000_000),
            _ => (stored.unwrap_or(now) + self.random.below(3)).saturating_sub(1),
        }
    }

    /// A length of at least 1 ms, seldom of whole ones.
    fn length(&self, longest: u64) -> Duration {
        let micros = 1_000 + self.random.below(longest);
        let whole = self.random.chance(70);
        Duration::from_micros(if whole {
            micros - micros % 1_000
        } else {
            micros
        })
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).expect("short")
}
