//! Every script with every command refused: a user may lose the right to one at any time, and what
//! a script has written by then stays. Nothing of another's is undone; an answer says what the node
//! has; and what is released when all is permitted again leaves nothing.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names::{self, Naming};
use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{AfterRelease, Keys, Mode, Op, Repair, Reply, Request, Value, Waits};
use quorlock_sim::random::Random;

use crate::calls::NAMESPACE;
use crate::game::{Game, START};
use crate::hashed;
use crate::server::{Plain, command};

/// The commands of all scripts.
pub const COMMANDS: [&str; 20] = [
    "set", "get", "mget", "pttl", "pexpire", "zadd", "zincrby", "zcard", "zrange", "zrank",
    "zscore", "zrem", "del", "time", "hget", "hset", "hdel", "hgetall", "hincrby", "publish",
];
/// Sequences for each of them and each kind of lock.
const SEQUENCES: u64 = 16;
/// Requests in one.
const STEPS: usize = 40;
const TTL: Duration = Duration::from_secs(10);
/// The owner in Redisson's layout, whose other holds are Java's.
const OWNER: &[u8] = b"java:1";

fn values() -> [Value; 3] {
    [b'a', b'b', b'c'].map(|digit| Value([&[digit; 40][..], b"."].concat().into()))
}

/// One lock on a server.
struct Lock<'a> {
    game: &'a mut Game,
    keys: Keys,
    /// How often Java has entered it.
    java: i64,
}

/// Plays all sequences; returns in which something was wrong, at most one for each command.
pub fn play(game: &mut Game) -> io::Result<Vec<String>> {
    let mut failed = Vec::new();
    for refused in COMMANDS {
        for seed in 0..2 * SEQUENCES {
            if let Some(why) = sequence(game, refused, seed)? {
                failed.push(format!("{refused} is refused, sequence {seed}: {why}"));
                break;
            }
        }
    }
    Ok(failed)
}

fn sequence(game: &mut Game, refused: &str, seed: u64) -> io::Result<Option<String>> {
    let random = Random::new(seed);
    game.clear()?;
    let hashed = seed % 2 == 1;
    let mut lock = Lock {
        keys: if hashed {
            hashed::keys(0, random.chance(80), OWNER)
        } else {
            plain_keys(random.chance(80))
        },
        java: if hashed { random.below(3) as i64 } else { 0 },
        game,
    };
    if lock.java > 0 {
        let (key, count) = (lock.keys.lock.clone(), lock.java.to_string());
        let server = &mut lock.game.server;
        server.ask(&[b"HINCRBY", &key, OWNER, count.as_bytes()])?;
        server.ask(&[b"PEXPIRE", &key, b"99999999"])?;
    }
    let values = values();
    for step in 1..=STEPS {
        let (op, value) = (op(&random), random.pick(&values));
        // One wants it alone, the others share it.
        let shared = !hashed && *value != values[0];
        let before = lock.holders()?;
        let refuse = random.chance(50).then_some(refused);
        let said = lock.ask(op, value, shared, refuse)?;
        let after = lock.holders()?;
        if let Some(why) = lock.wrong(&said, value, &before, &after)? {
            return Ok(Some(format!(
                "step {step}, {op:?}, refused {refuse:?}, {said:?}: {why}"
            )));
        }
    }
    for value in &values {
        lock.ask(Op::Release, value, false, None)?;
    }
    let left = lock.holders()?.len();
    let counted = lock.counted()?;
    let clean = left == 0 && (!hashed || counted == lock.java);
    Ok((!clean).then(|| format!("at the end {left} hold it, {counted} are counted")))
}

fn plain_keys(fenced: bool) -> Keys {
    let lock = names::lock_key(NAMESPACE, b"r", Naming::Tagged).expect("a good name");
    Keys {
        aux: names::aux(NAMESPACE, &lock, Naming::Tagged),
        lock: lock.into(),
        waits: Waits {
            reservation: Duration::from_secs(1),
            place: Duration::from_secs(6),
            most: 4,
        },
        fence_ttl: fenced.then_some(TTL),
        mode: Mode::Exclusive,
        adopts: None,
        field: None,
    }
}

fn op(random: &Random) -> Op {
    match random.below(10) {
        0..4 => Op::Acquire {
            ttl: TTL,
            candidate: START,
            home: false,
            let_in: false,
            block: 1,
        },
        4..8 => Op::Release,
        _ => Op::Extend {
            ttl: TTL,
            repair: Repair::No,
            fence: START,
            behind: 0,
        },
    }
}

impl Lock<'_> {
    fn ask(
        &mut self,
        op: Op,
        value: &Value,
        shared: bool,
        refuse: Option<&str>,
    ) -> io::Result<ProbeReply> {
        let mode = if shared {
            Mode::Shared
        } else {
            Mode::Exclusive
        };
        let request = Request {
            op,
            native: false,
            keys: Arc::new(Keys {
                mode,
                ..self.keys.clone()
            }),
            value: value.clone(),
            waiter: None,
            leaving: AfterRelease::Free,
            not_after: 0,
        };
        if let Some(command) = refuse {
            self.permit("-", command)?;
        }
        self.game
            .send(&probe::command(&request, NAMESPACE, None, true))?;
        let said = self.game.server.said(op)?;
        if let Some(command) = refuse {
            self.permit("+", command)?;
        }
        Ok(said)
    }

    fn permit(&mut self, sign: &str, command: &str) -> io::Result<()> {
        let rule = format!("{sign}{command}");
        self.game
            .server
            .ask(&[b"ACL", b"SETUSER", b"default", rule.as_bytes()])?;
        Ok(())
    }

    /// Whose votes stand.
    fn holders(&mut self) -> io::Result<BTreeSet<Vec<u8>>> {
        let keys = self.keys.clone();
        let server = &mut self.game.server;
        if keys.field.is_some() {
            let tokens = keys.aux.queue().to_vec();
            let mut found = BTreeSet::new();
            for value in values() {
                let stored = server.ask(&[b"HGET", &tokens, &value.0])?;
                if stored == Plain::Text(Some(b"1".to_vec())) {
                    found.insert(value.0.to_vec());
                }
            }
            return Ok(found);
        }
        let Plain::Text(Some(text)) = server.ask(&[b"GET", &keys.lock])? else {
            return Ok(BTreeSet::new());
        };
        if text.first() == Some(&b'&') {
            let shared = keys.aux.shared();
            server.send(&command(&[b"ZRANGE", &shared, b"0", b"-1"]))?;
            let readers = server.row()?.into_iter().filter_map(|reader| match reader {
                Plain::Text(text) => text,
                _ => None,
            });
            return Ok(readers.collect());
        }
        let value = match text.first() {
            Some(b'=') => text
                .splitn(2, |byte| *byte == b' ')
                .nth(1)
                .unwrap_or_default(),
            _ => &text[..],
        };
        Ok(BTreeSet::from([value.to_vec()]))
    }

    /// How often the owner has entered, in Redisson's layout.
    fn counted(&mut self) -> io::Result<i64> {
        if self.keys.field.is_none() {
            return Ok(0);
        }
        let key = self.keys.lock.clone();
        Ok(match self.game.server.ask(&[b"HGET", &key, OWNER])? {
            Plain::Text(Some(count)) => String::from_utf8_lossy(&count).parse().unwrap_or(-1),
            _ => 0,
        })
    }

    /// What is wrong with an answer, and with what is there after it.
    fn wrong(
        &mut self,
        said: &ProbeReply,
        value: &Value,
        before: &BTreeSet<Vec<u8>>,
        after: &BTreeSet<Vec<u8>>,
    ) -> io::Result<Option<String>> {
        let has = |holders: &BTreeSet<Vec<u8>>| holders.contains(&value.0[..]);
        let undone = before
            .iter()
            .any(|holder| **holder != *value.0 && !after.contains(holder));
        let counted = self.counted()?;
        let told = match said {
            ProbeReply::Reply(Reply::Granted { .. } | Reply::Extended { .. }, _) => has(after),
            ProbeReply::Reply(Reply::Released { held }, _) => !has(after) && *held == has(before),
            ProbeReply::Reply(Reply::NotMine, _) => !has(before),
            _ => true,
        };
        Ok(if undone {
            Some("another's vote is undone".into())
        } else if counted < self.java {
            Some(format!("{counted} are counted, and Java has {}", self.java))
        } else if !told {
            Some("that is not what is there".into())
        } else {
            None
        })
    }
}
