//! Sequences of calls to locks in Redisson's layout, on the memory node and on the server.
//! What Java does in between is done by what its locks tell a server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names;
use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{
    AfterRelease, Field, Instant, Keys, MemoryNode, Mode, Op, OtherRecord, Repair, Request, Value,
    Waits,
};
use quorlock_sim::random::Random;

use crate::calls::NAMESPACE;
use crate::game::{Game, LENGTH, START};
use crate::server::Plain;

const RECORDS: [&str; 2] = ["1 s 1 3 60000 n1 r1", "1 s 1 3 60000 n1 r2"];
const OWNERS: [&[u8]; 3] = [b"java:1", b"a\xff b", b"x"];
const TOKENS: [&[u8]; 4] = [b"a.", b"b.", b"c.", b"d."];
/// With braces that are a hash tag, and without: Redisson names the rest by them.
const NAMES: [&[u8]; 2] = [b"r", b"t{7}"];

/// What is done.
#[derive(Debug)]
enum Step {
    Ask(Request, Option<Arc<str>>),
    /// Java's watchdog, or its lease of another length: so long from now.
    Renew(usize, Duration),
    /// Java forces the lock open.
    Force(usize),
    /// Java's `RFencedLock` has counted up.
    Count(usize),
    Init(&'static str, Duration),
    Clock(u64),
}

pub fn keys(name: usize, fenced: bool, field: &[u8]) -> Keys {
    let second = Duration::from_secs(1);
    Keys {
        lock: NAMES[name].into(),
        aux: names::redisson(NAMESPACE, NAMES[name]),
        waits: Waits {
            reservation: second,
            place: second,
            most: 1,
        },
        fence_ttl: fenced.then_some(second),
        mode: Mode::Exclusive,
        adopts: None,
        field: Some(Field {
            name: field.into(),
            shared: true,
        }),
    }
}

fn length(random: &Random) -> Duration {
    let longest = *random.pick(&[20, 2_000, 60_000]);
    Duration::from_millis(1 + random.below(longest))
}

fn step(random: &Random, node: &MemoryNode, now: u64) -> Step {
    let name = random.below(NAMES.len() as u64) as usize;
    match random.below(100) {
        0..12 => Step::Clock(now + random.below(*random.pick(&[3_000, 300_000, 30_000_000])) + 1),
        12..15 => Step::Init(
            random.pick::<&str>(&RECORDS),
            if random.chance(60) {
                Duration::ZERO
            } else {
                length(random)
            },
        ),
        15..20 => Step::Renew(name, length(random)),
        20..24 => Step::Force(name),
        24..27 => Step::Count(name),
        _ => Step::Ask(
            request(random, node, name, now),
            match (random.below(4), node.record()) {
                (0..2, Some(stored)) => Some(stored.clone()),
                (2, _) => Some((*random.pick::<&str>(&RECORDS)).into()),
                _ => None,
            },
        ),
    }
}

fn request(random: &Random, node: &MemoryNode, name: usize, now: u64) -> Request {
    let fenced = random.chance(80);
    let keys = keys(
        name,
        fenced,
        random.pick::<&[u8]>(&OWNERS[..1 + random.below(3) as usize]),
    );
    let at = Instant(now * 1000);
    let stored = node.fence(keys.aux.counter(), at).unwrap_or(now);
    let near = (stored + random.below(40)).saturating_sub(20);
    let fence = *random.pick(&[0, near, near, now, now + 20_000_000]);
    let (ttl, block) = (length(random), *random.pick(&[1, 1, 17]));
    let op = match random.below(10) {
        0..4 => Op::Acquire {
            ttl,
            candidate: fence,
            home: random.chance(50),
            let_in: false,
            block,
        },
        4..7 => Op::Release,
        7..9 => Op::Extend {
            ttl,
            repair: *random.pick(&[Repair::No, Repair::Yes, Repair::InQuarantine { server: 0 }]),
            fence,
            behind: 0,
        },
        _ => Op::Confirm { ttl, fence, block },
    };
    Request {
        op,
        native: false,
        keys: Arc::new(keys),
        value: Value(if op == Op::Release && random.chance(10) {
            Arc::default()
        } else {
            (*random.pick(&TOKENS)).into()
        }),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: match random.below(12) {
            0 => now,
            1 => now - 1,
            2 => now + 1,
            _ => 0,
        },
    }
}

impl Game {
    /// Plays the sequence of this seed: see [`Game::play`].
    pub fn play_hashed(&mut self, seed: u64, show: bool) -> io::Result<Result<(), String>> {
        let random = Random::new(seed);
        let (mut node, mut now) = (MemoryNode::default(), START);
        self.clear()?;
        let mut history = Vec::new();
        for number in 1..=LENGTH {
            let step = step(&random, &node, now);
            let said = self.take_step(&step, &mut node, &mut now)?;
            let held = (stored(&node, now), self.stored()?);
            history.push(format!(
                "{number:4} at {now}  {step:?}\n       -> {}",
                said.0
            ));
            if show {
                println!("{}", history[history.len() - 1]);
            }
            if said.0 == said.1 && held.0 == held.1 {
                continue;
            }
            let before = history[history.len().saturating_sub(12)..].join("\n");
            return Ok(Err(format!(
                "seed {seed}, call {number}:\n{before}\nthe server says {}\nthen memory holds\n{:#?}\nthe server\n{:#?}",
                said.1, held.0, held.1
            )));
        }
        Ok(Ok(()))
    }

    /// Returns what both nodes said, the memory node first.
    fn take_step(
        &mut self,
        step: &Step,
        node: &mut MemoryNode,
        now: &mut u64,
    ) -> io::Result<(String, String)> {
        let at = Instant(*now * 1000);
        match step {
            Step::Clock(to) => {
                *now = *to;
                // Not in the millisecond of an end, in which servers differ.
                while node
                    .hashes(Instant(*now * 1000))
                    .any(|(_, _, end)| end.0 / 1_000_000 == *now / 1000)
                {
                    *now += 1000;
                }
                self.clock.stand(*now)?;
                node.expire(Instant(*now * 1000));
            }
            Step::Init(new, quarantine) => {
                let old = node.record().map_or("", |record| record).to_owned();
                self.send(&probe::init_command(NAMESPACE, &old, new, *quarantine))?;
                let theirs = self.server.said_to_init()?;
                let expected = Some(&*old).filter(|old| !old.is_empty());
                node.init(expected, (*new).into(), *quarantine, at);
                assert!(theirs.is_ok(), "the record that was read");
            }
            Step::Renew(name, long) => {
                let millis = long.as_millis().to_string();
                self.server
                    .ask(&[b"PEXPIRE", NAMES[*name], millis.as_bytes()])?;
                node.java_renews(NAMES[*name], *long, at);
            }
            Step::Force(name) => {
                self.server.ask(&[b"DEL", NAMES[*name]])?;
                node.java_forces(NAMES[*name]);
            }
            Step::Count(name) => {
                let aux = names::redisson(NAMESPACE, NAMES[*name]);
                self.server.ask(&[b"INCR", aux.counter()])?;
                node.java_counts(aux.counter());
            }
            Step::Ask(request, record) => {
                self.send(&probe::command(request, NAMESPACE, record.clone(), true))?;
                let theirs = self.server.said(request.op)?;
                let (answer, _) = node.execute(request, record.as_deref(), at);
                let ours = match answer {
                    Ok(reply) => {
                        ProbeReply::Reply(reply, (request.op != Op::Release).then_some(*now))
                    }
                    Err(OtherRecord) => ProbeReply::OtherRecord,
                };
                let word =
                    |text: String| text.split([' ', '(']).next().unwrap_or_default().to_owned();
                let kind = match &ours {
                    ProbeReply::Reply(reply, _) => word(format!("{reply:?}")),
                    other => format!("{other:?}"),
                };
                let op = word(format!("{:?}", request.op));
                *self
                    .answers
                    .entry(format!("hashed {op} {kind}"))
                    .or_default() += 1;
                return Ok((format!("{ours:?}"), format!("{theirs:?}")));
            }
        }
        Ok(Default::default())
    }

    /// What is on the server: the fields of hashes and what is counted, and for how long yet.
    fn stored(&mut self) -> io::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for name in NAMES {
            let aux = names::redisson(NAMESPACE, name);
            for key in [name, aux.queue()] {
                self.server
                    .send(&crate::server::command(&[b"HGETALL", key]))?;
                let fields = self.server.row()?;
                let mut fields: Vec<_> = fields.chunks(2).map(|pair| shown(pair, "=")).collect();
                fields.sort();
                let left = self.server.ask(&[b"PTTL", key])?;
                if !fields.is_empty() {
                    let (key, fields) = (key.escape_ascii().to_string(), fields.join(" "));
                    found.insert(key, format!("{fields} for {}", shown(&[left], "")));
                }
            }
            let counted = self.server.ask(&[b"GET", aux.counter()])?;
            let left = self.server.ask(&[b"PTTL", aux.counter()])?;
            if counted != Plain::Text(None) {
                let key = aux.counter().escape_ascii().to_string();
                let counted = shown(&[counted], "");
                found.insert(key, format!("{counted} for {}", shown(&[left], "")));
            }
        }
        Ok(found)
    }
}

fn shown(parts: &[Plain], between: &str) -> String {
    let text = |part: &Plain| match part {
        Plain::Number(number) => number.to_string(),
        Plain::Text(Some(text)) => text.escape_ascii().to_string(),
        other => format!("{other:?}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(between)
}

/// The same of the memory node.
fn stored(node: &MemoryNode, now: u64) -> BTreeMap<String, String> {
    let at = Instant(now * 1000);
    let left = |end: Instant| {
        if end == Instant::FAR {
            -1
        } else {
            (end.0 / 1_000_000) as i64 - (now / 1000) as i64
        }
    };
    let mut found = BTreeMap::new();
    for (key, fields, end) in node.hashes(at) {
        let mut fields: Vec<_> = fields
            .iter()
            .map(|(field, value)| format!("{}={value}", field.escape_ascii()))
            .collect();
        fields.sort();
        let key = key.escape_ascii().to_string();
        found.insert(key, format!("{} for {}", fields.join(" "), left(end)));
    }
    for (key, fence, end) in node.counters(at) {
        let key = key.escape_ascii().to_string();
        found.insert(key, format!("{fence} for {}", left(end)));
    }
    found
}
