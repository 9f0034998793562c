//! One sequence of calls, on the memory node and on the server, with the clock
//! of both in our hand: after each call both said the same and hold the same.

use std::collections::BTreeMap;
use std::io;

use quorlock::sim::names::{quarantine_key, record_key};
use quorlock::sim::probe::{self, Said};
use quorlock::sim::{Instant, MemoryNode, Op, OtherRecord, Request};

use crate::calls::{Call, Calls, NAMESPACE, keys};
use crate::clock::Clock;
use crate::server::{Plain, Server, command};

/// How many calls a sequence has.
pub const LENGTH: u64 = 200;
/// Where the clock stands first, in µs since 1970: in 2027.
const START: u64 = 1_800_000_000_123_456;

/// What is on a node: under each key its value, and how many ms are left.
type Contents = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// A script with one thing changed, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub script: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

/// Both nodes.
#[derive(Debug)]
pub struct Game {
    server: Server,
    clock: Clock,
    /// Pieces of commands, and what takes their place.
    replaced: Vec<(Vec<u8>, Vec<u8>)>,
    /// How often each kind of answer came.
    pub answers: BTreeMap<String, u64>,
}

impl Game {
    pub fn new(server: Server, clock: Clock) -> Game {
        Game {
            server,
            clock,
            replaced: Vec::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Loads the scripts, with one change or none.
    pub fn load(&mut self, change: Option<&Change>) -> io::Result<()> {
        self.replaced.clear();
        let changed = |name: &str, text: &str| match change {
            Some(change) if change.script == name => {
                assert_eq!(text.matches(change.old).count(), 1, "{change:?}");
                text.replace(change.old, change.new)
            }
            _ => text.to_owned(),
        };
        for (name, text, sha) in probe::scripts() {
            let text = changed(name, text);
            let loaded = self.server.ask(&[b"SCRIPT", b"LOAD", text.as_bytes()])?;
            let Plain::Text(Some(loaded)) = loaded else {
                return Err(io::Error::other("no hash"));
            };
            self.replaced.push((sha.as_bytes().to_vec(), loaded));
        }
        let init = probe::init_text();
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len()).into_bytes();
        self.replaced
            .push((bulk(init), bulk(&changed("init", init))));
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        for (old, new) in &self.replaced {
            if let Some(at) = bytes.windows(old.len()).position(|part| part == old) {
                bytes.splice(at..at + old.len(), new.iter().copied());
            }
        }
        self.server.send(&bytes)
    }

    /// Plays the sequence of this seed. `Err`: where they differ first, and
    /// what came before.
    pub fn play(&mut self, seed: u64, show: bool) -> io::Result<Result<(), String>> {
        let calls = Calls::new(seed);
        let mut node = MemoryNode::default();
        let mut now = START;
        self.server.ask(&[b"FLUSHALL"])?;
        self.clock.stand(now)?;
        let mut history = Vec::new();
        for number in 1..=LENGTH {
            let call = calls.next(&node, now);
            if let Call::Clock(to) = call {
                now = to;
            }
            let told = self.carry_out(&call, &mut node, now)?;
            let held = (contents(&node, now), self.contents()?);
            history.push(format!("{number:4} at {now}  {call}\n       -> {}", told.0));
            if show {
                println!("{}", history[history.len() - 1]);
            }
            let different = match (told.0 == told.1, held.0 == held.1) {
                (true, true) => continue,
                (false, _) => format!("the server says\n       -> {}", told.1),
                (true, false) => format!("then memory holds {:?}, the server {:?}", held.0, held.1),
            };
            let from = history.len().saturating_sub(12);
            let before = history[from..].join("\n");
            return Ok(Err(format!(
                "seed {seed}, call {number}:\n{before}\n{different}"
            )));
        }
        Ok(Ok(()))
    }

    /// Returns what both nodes said, the memory node first.
    fn carry_out(
        &mut self,
        call: &Call,
        node: &mut MemoryNode,
        now: u64,
    ) -> io::Result<(String, String)> {
        let at = Instant(now * 1000);
        match call {
            Call::Clock(micros) => {
                self.clock.stand(*micros)?;
                // A server drops what is dead at any time after, so that it may
                // live again or not where the clock is set back: both are made
                // to drop it now.
                node.expire(at);
                let mut words = vec![b"EXISTS".to_vec()];
                words.extend(all_keys());
                let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
                self.server.ask(&words)?;
                Ok(Default::default())
            }
            Call::Init(old, new, quarantine) => {
                self.send(&probe::init_command(NAMESPACE, old, new, *quarantine))?;
                let theirs = self.server.said_to_init()?;
                let before = node.record().map_or("", |record| record).to_owned();
                let expected = Some(&**old).filter(|old| !old.is_empty());
                let done = node.init(expected, (*new).into(), *quarantine, at);
                let ours = if done { Ok(()) } else { Err(before) };
                self.count(&format!("init {done}"));
                Ok((format!("{ours:?}"), format!("{theirs:?}")))
            }
            Call::Ask(request, record) => {
                self.send(&probe::command(request, NAMESPACE, record.clone()))?;
                let theirs = self.server.said(request.op)?;
                // TIME is told where it is asked for.
                let told =
                    request.op != Op::Release && (record.is_some() || request.counter.is_some());
                let ours = match node.execute(request, record.as_deref(), at) {
                    Ok(reply) => Said::Reply(reply, told.then_some(now)),
                    Err(OtherRecord) => Said::OtherRecord,
                };
                self.count(&kind(request, &ours));
                Ok((format!("{ours:?}"), format!("{theirs:?}")))
            }
        }
    }

    fn count(&mut self, answer: &str) {
        *self.answers.entry(answer.to_owned()).or_default() += 1;
    }

    /// What is on the server.
    fn contents(&mut self) -> io::Result<Contents> {
        let keys = all_keys();
        let mut commands = command(&[b"DBSIZE"]);
        for key in &keys {
            commands.extend(command(&[b"GET", key]));
            commands.extend(command(&[b"PTTL", key]));
        }
        self.server.send(&commands)?;
        let size = self.server.plain()?;
        let mut found = Contents::new();
        for key in keys {
            let (value, left) = (self.server.plain()?, self.server.plain()?);
            if let (Plain::Text(Some(value)), Plain::Number(left)) = (value, left) {
                found.insert(key, (value, u64::try_from(left).ok()));
            }
        }
        if size != Plain::Number(found.len() as i64) {
            found.insert(b"keys that nobody knows".to_vec(), (vec![], None));
        }
        Ok(found)
    }
}

/// Every key that may be on a node.
fn all_keys() -> Vec<Vec<u8>> {
    let mut all = vec![record_key(NAMESPACE), quarantine_key(NAMESPACE)];
    for (key, counter) in keys() {
        all.extend([key.to_vec(), counter.to_vec()]);
    }
    all
}

/// What is on the memory node.
fn contents(node: &MemoryNode, now: u64) -> Contents {
    let at = Instant(now * 1000);
    // As PTTL says it: the server counts in whole ms.
    let left = |end: Instant| Some(end.0 / 1_000_000 - now / 1000);
    let mut found = Contents::new();
    for (key, value) in node.keys(at) {
        let (_, end) = node.get(key, at).expect("it lives");
        found.insert(key.to_vec(), (value.0.to_vec(), left(end)));
    }
    for (key, fence, end) in node.counters(at) {
        found.insert(key.to_vec(), (fence.to_string().into_bytes(), left(end)));
    }
    if let Some(record) = node.record() {
        let record = record.as_bytes().to_vec();
        found.insert(record_key(NAMESPACE), (record, None));
    }
    if let Some(rest) = node.quarantine(at) {
        let rest = Some(rest.as_millis() as u64);
        found.insert(quarantine_key(NAMESPACE), (b"1".to_vec(), rest));
    }
    found
}

/// The kind of an answer, by request and reply.
fn kind(request: &Request, said: &Said) -> String {
    let word = |text: String| text.split([' ', '(']).next().unwrap_or_default().to_owned();
    let op = match request.op {
        Op::Extend { repair, .. } => format!("extend/{repair:?}"),
        op => word(format!("{op:?}")),
    };
    match said {
        Said::Reply(reply, _) => format!("{op} {}", word(format!("{reply:?}"))),
        said => format!("{op} {said:?}"),
    }
}
