//! What is done to both nodes: calls and steps of the clock, from a seed. Few
//! keys and values, so that they meet; times at the edges of lives.

mod keys;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use keys::{Keys, keys};
use keys::{SLOTS, locks, slot};
use quorlock::sim::{
    self, AfterRelease, Instant, MemoryNode, Mode, Op, Repair, Request, ReservedFor, StoredValue,
    Value, Waiter, Waits,
};
use quorlock_sim::random::Random;

pub const NAMESPACE: &str = "lock:";
/// Votes with a label, with another of the same lease, with one of any bytes, with one that
/// looks like something else, and without.
const VALUES: [&[u8]; 5] = [
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.host:1",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.another",
    b"0123456789abcdef0123456789abcdef01234567.a.b\r\n\0\xff",
    b"cccccccccccccccccccccccccccccccccccccccc.=17 x",
    b"dddddddddddddddddddddddddddddddddddddddd.",
];
/// What other programs store: tokens of 40 digits too, but without a dot, and others that
/// are nearly ours.
const FOREIGN: [&[u8]; 12] = [
    b"",
    b".",
    b"no token.x",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.x",
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.x",
    b"&1800000000123456 s",
    b"-7 worker",
    b"=1 worker",
    b"@12 host",
    b"&5 0 x",
    b"@12 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.x",
];
const RECORDS: [&str; 3] = [
    "1 s 1 3 60000 n1 r1",
    "1 s 1 3 60000 n1 r2",
    "1 s 2 5 60000 n2 r1",
];
/// Inboxes, of which some are subscribed. A namespace may be any bytes.
pub const INBOXES: [&[u8]; 3] = [b"lock:#in:1", b"lock:#in:22", b"a 1\0\r\n\xff %#in:3"];
/// How many waiters a client has.
const WAITERS: u64 = 2;
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
    /// Another program stores a value under a lock's key, with an end or without.
    Meddle(Arc<[u8]>, Value, Option<Duration>),
    /// The clock is set, in µs.
    Clock(u64),
    /// A client listens on an inbox, or does no more.
    Listen(usize, bool),
    /// Clients may publish messages and ask who listens, or may not.
    Permit(bool),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Clock(micros) => write!(f, "clock {micros}"),
            Call::Listen(inbox, on) => write!(f, "listen {inbox} {on}"),
            Call::Permit(messages) => write!(f, "permit messages {messages}"),
            Call::Meddle(key, value, life) => write!(
                f,
                "another program stores {} {} for {life:?}",
                key.escape_ascii(),
                value.0.escape_ascii()
            ),
            Call::Init(old, new, quarantine) => write!(f, "init {old:?} {new:?} {quarantine:?}"),
            Call::Ask(request, record) => write!(
                f,
                "{}{:?} {} {:?} in place of {:?} for {:?}, {:?}, counter {:?} not_after {} record {record:?}",
                if request.native { "native " } else { "" },
                request.op,
                request.keys.lock.escape_ascii(),
                request.value.0.escape_ascii().to_string(),
                request
                    .keys
                    .adopts
                    .as_ref()
                    .map(|old| (old.value.0.escape_ascii().to_string(), old.ban)),
                request
                    .waiter
                    .as_ref()
                    .map(|w| w.text(request.keys.mode).escape_ascii().to_string()),
                request.keys.waits,
                request.keys.fence_ttl,
                request.not_after
            ),
        }
    }
}

/// A generator of calls.
#[derive(Debug)]
pub struct Calls {
    random: Random,
    keys: Vec<Keys>,
    /// One lock that many want, and little that keeps them from its line.
    contended: bool,
    /// The slots of a semaphore.
    slots: bool,
}

impl Calls {
    pub fn new(seed: u64) -> Calls {
        let slots = seed % 5 == 1;
        let contended = seed.is_multiple_of(2) || slots;
        let mut keys = locks();
        if slots {
            keys = (0..SLOTS).map(slot).collect();
        } else if contended {
            keys.truncate(1);
        }
        Calls {
            random: Random::new(seed),
            keys,
            contended,
            slots,
        }
    }

    /// The next call on a node in this state, at `now` in µs.
    pub fn next(&self, node: &MemoryNode, now: u64) -> Call {
        match self.random.below(100) {
            0..20 => Call::Clock(self.step(node, now).max(1)),
            20..22 => self.init(node),
            22..26 if !self.contended => self.init(node),
            26..32 => Call::Listen(
                self.random.below(INBOXES.len() as u64) as usize,
                self.random.chance(75),
            ),
            32 => Call::Permit(self.random.chance(75)),
            33 => self.meddle(),
            _ => self.ask(node, now),
        }
    }

    /// Moments at which something ends, and a little beside them; or any.
    fn step(&self, node: &MemoryNode, now: u64) -> u64 {
        let random = &self.random;
        let at = Instant(now * 1000);
        let mut ends: Vec<u64> = node.counters(at).map(|(_, _, end)| end.0 / 1000).collect();
        ends.extend(node.quarantine(at).map(|left| now + micros(left)));
        // Crowded holds, reservations and places end with a µs.
        let mut claims: Vec<u64> = Vec::new();
        for keys in &self.keys {
            if let Some((form, end)) = node.form(&keys.lock, at) {
                ends.extend((end != Instant::FAR).then_some(end.0 / 1000));
                match form {
                    StoredValue::Contended { until, .. }
                    | StoredValue::Kept { until, .. }
                    | StoredValue::Reserved { until, .. }
                    | StoredValue::Shared { until, .. }
                        if *until != 0 =>
                    {
                        claims.push(*until);
                    }
                    _ => {}
                }
            }
            if let Some(line) = node.line(keys.aux.queue(), at) {
                ends.push(line.end.0 / 1000);
                claims.extend(line.queue.iter().map(|place| place.end));
            }
            if let Some(readers) = node.readers(&keys.aux.shared(), at) {
                ends.push(readers.end.0 / 1000);
                claims.extend(readers.votes.values());
            }
        }
        match random.below(if self.contended { 14 } else { 10 }) {
            0..5 if !ends.is_empty() => {
                let end = *random.pick(&ends);
                let edge = *random.pick(&[0, 1, 999, 1000, 1001, 2000]);
                (end + edge).saturating_sub(*random.pick(&[0, 0, 0, 1, 1000]))
            }
            5 if !claims.is_empty() => *random.pick(&claims),
            10..12 if !claims.is_empty() => claims[0] + random.below(3) - 1,
            7 => now + random.below(FAR),
            8 => now - random.below(20_000),
            9 => now - random.below(FAR),
            _ => now + random.below(3_000),
        }
    }

    fn meddle(&self) -> Call {
        let values = if self.random.chance(70) {
            &FOREIGN[..]
        } else {
            &VALUES[..]
        };
        let value = Value(self.random.pick(values).to_vec().into());
        let life = self.random.chance(60).then(|| self.whole(500_000));
        Call::Meddle(self.random.pick(&self.keys).lock.clone(), value, life)
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
        let chooses = self.slots && random.chance(45);
        let any = slot(SLOTS);
        let keys = if chooses {
            &any
        } else {
            random.pick(&self.keys)
        };
        let Keys { lock: key, aux, .. } = keys;
        let at = Instant(now * 1000);
        let record = match (random.below(5), node.record()) {
            (0..3, Some(stored)) if self.contended => Some(stored.clone()),
            (0..2, _) => None,
            (2, _) | (_, None) => Some((*random.pick::<&str>(&RECORDS)).into()),
            (_, Some(stored)) => Some(stored.clone()),
        };
        let fence_ttl = random.chance(70).then(|| match random.below(3) {
            0 => self.length(10_000),
            _ => self.length(20_000_000),
        });
        let stored = fence_ttl.and_then(|_| node.fence(aux.counter(), at));
        let (op, mode) = match keys.mode {
            Mode::AnySlot(_) => (self.choice(), keys.mode),
            Mode::Slot(_) => (self.op_of_slot(now, stored), keys.mode),
            _ => self.mode(self.op(now, stored)),
        };
        let native = random.chance(15)
            && mode.is_alone()
            && !chooses
            && (op == Op::Release || matches!(op, Op::Acquire { block: 1, .. }));
        // A vote is taken over: of one alone, by nobody who waits.
        let adopts = random.chance(12)
            && mode.is_alone()
            && !chooses
            && !native
            && matches!(op, Op::Acquire { .. });
        let leaving = match op == Op::Release && !native && !chooses && random.chance(25) {
            true if random.chance(50) => AfterRelease::Forced(self.often_long(3_000_000)),
            true => AfterRelease::TakenFor(self.often_long(3_000_000)),
            false => AfterRelease::Free,
        };
        // Without record and counter it is not sent (docs/reference/protocol.md).
        let not_after = match random.below(8) {
            _ if record.is_none() && fence_ttl.is_none() => 0,
            // The end of the key. Whether one is made that ends in this very millisecond
            // differs from server to server; no such vote is counted.
            _ if native => (now + 1_000 + random.below(1_000_000)) / 1000 * 1000,
            0..5 if self.contended && !self.slots => 0,
            0 => now - 1,
            1 => now,
            2 => now + 1,
            3 => now + random.below(1_000_000),
            4 => now - random.below(1_000_000),
            _ => 0,
        };
        let request = Request {
            op,
            native,
            value: self.value(op, node, keys, at),
            keys: Arc::new(sim::Keys {
                lock: key.clone(),
                aux: aux.clone(),
                waits: Waits {
                    reservation: self.length(300_000),
                    place: self.often_long(3_000_000),
                    most: *random.pick(&[2, 4, 10]),
                },
                fence_ttl,
                mode,
                adopts: adopts.then(|| {
                    Box::new(sim::Adoption {
                        value: self.old(node, keys, at),
                        ban: self.often_long(3_000_000),
                    })
                }),
                field: None,
            }),
            waiter: if adopts {
                None
            } else {
                self.waiter(op, mode, node, keys, at)
            },
            leaving,
            not_after,
        };
        Call::Ask(request, record)
    }

    /// What is asked of all slots at once: for one, or who waits goes.
    fn choice(&self) -> Op {
        if self.random.chance(70) {
            Op::Acquire {
                ttl: Duration::ZERO,
                candidate: self.random.below(7),
                home: self.random.chance(70),
                let_in: false,
                block: 1,
            }
        } else {
            Op::Release
        }
    }

    /// What is asked of one. Nobody waits for that one.
    fn op_of_slot(&self, now: u64, stored: Option<u64>) -> Op {
        match self.op(now, stored) {
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } => Op::Acquire {
                ttl,
                candidate,
                home: false,
                let_in: false,
                block,
            },
            Op::Reserve { .. } => Op::Inspect,
            op => op,
        }
    }

    /// Whether the request shares the lock. Readers take one fence at once.
    fn mode(&self, op: Op) -> (Op, Mode) {
        let shares = self.random.chance(if self.contended { 45 } else { 25 });
        match op {
            Op::Inspect | Op::Reserve { .. } => (op, Mode::Exclusive),
            _ if !shares => (op, Mode::Exclusive),
            Op::Acquire {
                ttl,
                candidate,
                home,
                ..
            } => {
                let op = Op::Acquire {
                    ttl,
                    candidate,
                    home,
                    let_in: self.random.chance(40),
                    block: 1,
                };
                (op, Mode::Shared)
            }
            Op::Confirm { ttl, fence, .. } => (
                Op::Confirm {
                    ttl,
                    fence,
                    block: 1,
                },
                Mode::Shared,
            ),
            op => (op, Mode::Shared),
        }
    }

    /// What is done; the fence that is stored.
    fn op(&self, now: u64, stored: Option<u64>) -> Op {
        let random = &self.random;
        let ttl = match random.below(3) {
            0 => self.length(200_000),
            _ => self.often_long(10_000_000),
        };
        match random.below(16) {
            0..7 => Op::Acquire {
                ttl,
                candidate: self.candidate(now, stored),
                home: random.chance(70),
                let_in: false,
                block: *random.pick(&[1, 1, 2, 17]),
            },
            7..10 => Op::Release,
            10 if random.chance(20) => Op::Inspect,
            10 if random.chance(30) => Op::Reserve {
                long: self.length(300_000),
            },
            _ if self.contended && random.chance(60) => Op::Acquire {
                ttl,
                candidate: 0,
                home: true,
                let_in: false,
                block: 1,
            },
            10..14 => Op::Extend {
                ttl,
                repair: *random.pick(&[
                    Repair::No,
                    Repair::Yes,
                    Repair::InQuarantine { server: 0 },
                ]),
                fence: self.fence(now, stored),
                behind: *random.pick(&[0, 0, 1, 16]),
            },
            _ => Op::Confirm {
                ttl,
                fence: self.fence(now, stored),
                block: *random.pick(&[1, 1, 2, 17]),
            },
        }
    }

    /// In whose name: often the one whose key it is, so that not everything is
    /// refused.
    fn value(&self, op: Op, node: &MemoryNode, keys: &Keys, at: Instant) -> Value {
        let random = &self.random;
        let stored = node.form(&keys.lock, at).and_then(|(form, _)| form.value());
        let readers = node.readers(&keys.aux.shared(), at);
        let readers: Vec<&Value> = readers.iter().flat_map(|r| r.votes.keys()).collect();
        let stored = if readers.is_empty() {
            stored
        } else {
            Some(*random.pick(&readers))
        };
        let own = match op {
            Op::Acquire { .. } if self.contended => 15,
            _ => 55,
        };
        // A waiter that leaves may have no vote to take back.
        let empty = op == Op::Release && random.chance(25);
        // One that was forced out comes back, with or without its vote.
        let repairs = matches!(op, Op::Extend { repair, .. } if repair != Repair::No);
        if repairs
            && random.chance(75)
            && let Some((value, _)) = node
                .bans(at)
                .flat_map(|(_, values, _)| values)
                .find(|(value, _)| !value.is_empty())
        {
            return Value(value.to_vec().into());
        }
        match stored {
            _ if empty => Value([].into()),
            Some(value) if random.chance(own) && value.is_ours() => value.clone(),
            _ => Value(random.pick(&VALUES).to_vec().into()),
        }
    }

    /// Whose vote is taken over: mostly that which stands there.
    fn old(&self, node: &MemoryNode, keys: &Keys, at: Instant) -> Value {
        let stored = node.form(&keys.lock, at).and_then(|(form, _)| form.value());
        match stored {
            Some(value) if self.random.chance(80) && value.is_ours() => value.clone(),
            _ => Value(self.random.pick(&VALUES).to_vec().into()),
        }
    }

    /// Who asks: nobody who waits, any waiter, or one that is queued or has the
    /// reservation.
    fn waiter(
        &self,
        op: Op,
        mode: Mode,
        node: &MemoryNode,
        keys: &Keys,
        at: Instant,
    ) -> Option<Waiter> {
        let random = &self.random;
        let line = node.line(keys.aux.queue(), at);
        let queued = line.iter().flat_map(|line| &line.queue);
        let queued = queued.filter(|place| place.mode == mode.in_line());
        let mut known: Vec<&Waiter> = queued.map(|place| &place.waiter).collect();
        if let Some((StoredValue::Reserved { whom, .. } | StoredValue::Shared { whom, .. }, _)) =
            node.form(&keys.lock, at)
            && let (ReservedFor::Waiter(waiter), true) = (whom, mode.is_alone())
        {
            known.push(waiter);
        }
        let nobody = match op {
            Op::Release => 60,
            Op::Reserve { .. } => 0,
            _ => 15,
        };
        match () {
            () if random.chance(nobody) => None,
            () if !known.is_empty() && random.chance(40) => Some((*random.pick(&known)).clone()),
            () => Some(Waiter {
                number: random.below(WAITERS) * u64::from(u32::MAX) + 1,
                inbox: (*random.pick(&INBOXES)).into(),
            }),
        }
    }

    /// A proposed fence: none, old, near, at the edges of what a node takes, beyond.
    fn candidate(&self, now: u64, stored: Option<u64>) -> u64 {
        match self.random.below(10) {
            0 => 0,
            1 => self.random.below(1_000),
            2 => now - self.random.below(FAR),
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

    /// A length that ends soon, or more often later.
    fn often_long(&self, longest: u64) -> Duration {
        let soon = self.random.chance(if self.contended { 10 } else { 35 });
        self.length(if soon { 10_000 } else { longest })
    }

    /// A length of whole milliseconds.
    fn whole(&self, longest: u64) -> Duration {
        Duration::from_millis(1 + self.random.below(longest) / 1_000)
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
