//! One sequence of calls, on the memory node and on the server, with the clock
//! of both in our hand: after each call both said the same and hold the same.

use std::collections::BTreeMap;
use std::io;

use quorlock::sim::names::{quarantine_key, record_key};
use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{
    Instant, MemoryNode, Mode, NodeQueue, Op, OtherRecord, Reply, Request, ReservedFor,
    StoredValue, native,
};

use crate::calls::{Call, Calls, INBOXES, Keys, NAMESPACE, keys};
use crate::clock::Clock;
use crate::listener::Listener;
use crate::native::commands;
use crate::server::{Plain, Server, command};

/// How many calls a sequence has.
pub const LENGTH: u64 = 200;
/// Where the clock stands first, in µs since 1970: in 2027.
pub const START: u64 = 1_800_000_000_123_456;

/// What is on a node: under each key its value, and how many ms are left. Of a
/// queue, its members and their scores.
type Contents = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// A script with one thing changed, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub script: &'static str,
    pub old: &'static str,
    pub new: &'static str,
    /// It shows only in the millisecond of a key's end.
    pub at_the_end: bool,
}

/// Both nodes.
#[derive(Debug)]
pub struct Game {
    pub server: Server,
    pub listener: Listener,
    pub clock: Clock,
    /// Pieces of commands, and what takes their place.
    replaced: Vec<(Vec<u8>, Vec<u8>)>,
    /// A script of Redisson's layout is changed, or of the others, or none.
    changed: Option<bool>,
    /// How often each kind of answer came.
    pub answers: BTreeMap<String, u64>,
}

impl Game {
    pub fn new(server: Server, listener: Listener, clock: Clock) -> Game {
        Game {
            server,
            listener,
            clock,
            replaced: Vec::new(),
            changed: None,
            answers: BTreeMap::new(),
        }
    }

    /// Loads the scripts, with one change or none.
    pub fn load(&mut self, change: Option<&Change>) -> io::Result<()> {
        self.replaced.clear();
        self.changed = change.map(|change| change.script.starts_with('h'));
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

    /// The hash of a script as it is loaded, with its change.
    pub fn sha(&self, name: &str) -> Vec<u8> {
        let known = probe::scripts().into_iter().zip(&self.replaced);
        let mut shas = known.filter(|(script, _)| script.0 == name);
        shas.next().expect("a script").1.1.clone()
    }

    /// Both nodes empty, nobody listening, everything permitted, at the first moment.
    pub fn clear(&mut self) -> io::Result<()> {
        self.server.ask(&[b"FLUSHALL"])?;
        self.listener.clear()?;
        permit_messages(&mut self.server, true)?;
        self.clock.stand(START)
    }

    /// Sends a command, which is of scripts as they were loaded.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        for (old, new) in &self.replaced {
            if let Some(at) = bytes.windows(old.len()).position(|part| part == old) {
                bytes.splice(at..at + old.len(), new.iter().copied());
            }
        }
        self.server.send(&bytes)
    }

    /// Whether the server may drop a key in the millisecond of its end already, in
    /// the background, in which others and the memory node have it yet: from Redis 8.
    pub fn drops_early(&mut self) -> io::Result<bool> {
        let said = self.server.ask(&[b"INFO", b"server"])?;
        let Plain::Text(Some(info)) = said else {
            return Err(io::Error::other("no INFO"));
        };
        let info = String::from_utf8_lossy(&info).into_owned();
        let mut lines = info.lines();
        let version = lines.find_map(|line| line.strip_prefix("redis_version:"));
        let major = version.and_then(|version| version.split('.').next());
        let major = major.and_then(|major| major.parse::<u32>().ok());
        Ok(major.ok_or_else(|| io::Error::other("no version"))? >= 8)
    }

    /// Plays the sequence of this seed. `Err`: where they differ first, and
    /// what came before.
    pub fn play(&mut self, seed: u64, show: bool) -> io::Result<Result<(), String>> {
        if self.changed.unwrap_or(seed % 8 == 7) {
            return self.play_hashed(seed, show);
        }
        let calls = Calls::new(seed);
        let mut node = MemoryNode::default();
        let mut now = START;
        let drops_early = self.drops_early()?;
        self.clear()?;
        let mut history = Vec::new();
        for number in 1..=LENGTH {
            let mut call = calls.next(&node, now);
            if let Call::Clock(to) = &mut call {
                while drops_early && last_millisecond(&node, *to) {
                    *to += 1000;
                }
                now = *to;
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
                (true, false) => {
                    let (ours, theirs) = (shown(&held.0), shown(&held.1));
                    format!("then memory holds\n{ours}the server\n{theirs}")
                }
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
                words.extend(texts());
                words.extend(sets());
                let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
                self.server.ask(&words)?;
                Ok(Default::default())
            }
            Call::Listen(inbox, on) => {
                if self.listener.set(*inbox, *on)? {
                    if *on {
                        node.subscribe(&INBOXES[*inbox].into())
                    } else {
                        node.unsubscribe(INBOXES[*inbox])
                    }
                }
                Ok(Default::default())
            }
            Call::Permit(messages) => {
                permit_messages(&mut self.server, *messages)?;
                node.permit_messages(*messages);
                Ok(Default::default())
            }
            Call::Meddle(key, value, life) => {
                let ms = life.map(|life| life.as_millis().to_string());
                let mut words: Vec<&[u8]> = vec![b"SET", key, &value.0];
                if let Some(ms) = &ms {
                    words.extend([b"PX", ms.as_bytes()]);
                }
                self.server.ask(&words)?;
                // From the beginning of a millisecond, as keys live.
                let from = Instant(at.0 - at.0 % 1_000_000);
                let end = life.map_or(Instant::FAR, |life| from + life);
                node.meddle(key, Some((StoredValue::Uncontended(value.clone()), end)));
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
                if request.native {
                    return self.natively(request, record.as_deref(), node, now);
                }
                // As memory nodes have it: a counter's life always goes along.
                let cold = true;
                self.send(&probe::command(request, NAMESPACE, record.clone(), cold))?;
                let theirs = self.server.said(request.op)?;
                let plain = record.is_none() && request.keys.fence_ttl.is_none();
                let (answer, messages) = node.execute(request, record.as_deref(), at);
                let ours = match answer {
                    Ok(reply) => {
                        // TIME is told where it is minded, and with each refusal.
                        let refused = matches!(reply, Reply::Refused { .. })
                            || reply == Reply::NotMine && matches!(request.op, Op::Acquire { .. });
                        let chooses = matches!(request.keys.mode, Mode::AnySlot(_));
                        let always = refused
                            || chooses && request.op != Op::Release
                            || reply == Reply::Banned
                            || matches!(request.op, Op::Inspect | Op::Reserve { .. });
                        let told = always || !plain && request.op != Op::Release;
                        ProbeReply::Reply(reply, told.then_some(now))
                    }
                    Err(OtherRecord) => ProbeReply::OtherRecord,
                };
                self.count(&kind(request, &ours, !messages.is_empty()));
                let messages = messages.into_iter();
                let published = messages.map(|(inbox, hint)| {
                    let text = match hint.slot {
                        Some(slot) => format!("{} {slot}", hint.number),
                        None => hint.number.to_string(),
                    };
                    (inbox.to_vec(), text.into_bytes())
                });
                let heard = self.listener.heard()?;
                Ok((said(&ours, published), said(&theirs, heard)))
            }
        }
    }

    /// A request by plain commands, and the trailer behind them.
    fn natively(
        &mut self,
        request: &Request,
        record: Option<&str>,
        node: &mut MemoryNode,
        now: u64,
    ) -> io::Result<(String, String)> {
        let at = Instant(now * 1000);
        if request.op == Op::Release {
            let (sha, key) = (self.sha("lean"), &request.keys.lock);
            let words: [&[u8]; 5] = [b"EVALSHA", &sha, b"1", key, &request.value.0];
            self.server.send(&crate::server::command(&words))?;
            let theirs = self.server.row()? == [Plain::Number(1)];
            let ours = node.delete(request, at);
            self.count(&format!("native release {ours}"));
            return Ok((ours.to_string(), theirs.to_string()));
        }
        let voted = node.vote(request, at);
        let trailer = node.trailer(record, at);
        self.server.send(&commands(request))?;
        let stored = self.server.plain()? == Plain::Status("OK".to_owned());
        let fences = crate::native::fence(request).is_some();
        let counted = fences && self.server.plain()? == Plain::Number(1);
        if fences {
            self.server.plain()?;
        }
        let (found, time) = (self.server.row()?, self.server.row()?);
        let text = |plain: &Plain| match plain {
            Plain::Text(Some(text)) => Some(text.clone()),
            _ => None,
        };
        let time = time.iter().filter_map(text);
        let time = time.map(|digits| String::from_utf8_lossy(&digits).parse::<u64>());
        let time: Vec<u64> = time.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let theirs = (
            native::NativeReplies { stored, counted },
            native::Trailer {
                admitted: record.is_none()
                    || text(&found[0]).as_deref() == record.map(str::as_bytes),
                quarantined: record.is_some() && text(&found[1]).is_some(),
                time: time[0] * 1_000_000 + time[1],
            },
        );
        self.count(&format!("native acquire {stored} {counted}"));
        Ok((format!("{:?}", (voted, trailer)), format!("{theirs:?}")))
    }

    fn count(&mut self, answer: &str) {
        *self.answers.entry(answer.to_owned()).or_default() += 1;
    }

    /// What is on the server.
    fn contents(&mut self) -> io::Result<Contents> {
        let (texts, sets) = (texts(), sets());
        let mut commands = command(&[b"DBSIZE"]);
        for key in &texts {
            commands.extend(command(&[b"GET", key]));
            commands.extend(command(&[b"PTTL", key]));
        }
        for key in &sets {
            commands.extend(command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
            commands.extend(command(&[b"PTTL", key]));
        }
        self.server.send(&commands)?;
        let size = self.server.plain()?;
        let mut found = Contents::new();
        for key in texts {
            let (value, left) = (self.server.plain()?, self.server.plain()?);
            if let (Plain::Text(Some(value)), Plain::Number(left)) = (value, left) {
                // Why a quarantine began is told to people, and nothing rests on it.
                let value = if key == quarantine_key(NAMESPACE) {
                    b"1".to_vec()
                } else {
                    value
                };
                found.insert(key, (value, u64::try_from(left).ok()));
            }
        }
        for key in sets {
            let (members, left) = (self.server.row()?, self.server.plain()?);
            if let (false, Plain::Number(left)) = (members.is_empty(), left) {
                found.insert(key, (scores(members)?, u64::try_from(left).ok()));
            }
        }
        if size != Plain::Number(found.len() as i64) {
            found.insert(b"keys that nobody knows".to_vec(), (vec![], None));
        }
        Ok(found)
    }
}

/// Whether clients may publish messages and ask who listens.
pub fn permit_messages(server: &mut Server, permitted: bool) -> io::Result<()> {
    let rules: [&[u8]; 2] = if permitted {
        [b"+publish", b"+pubsub"]
    } else {
        [b"-publish", b"-pubsub"]
    };
    server.ask(&[b"ACL", b"SETUSER", b"default", rules[0], rules[1]])?;
    Ok(())
}

/// Every key of a text that may be on a node.
fn texts() -> Vec<Vec<u8>> {
    let mut all = vec![record_key(NAMESPACE), quarantine_key(NAMESPACE)];
    all.extend(keys().iter().map(|keys| keys.lock.to_vec()));
    all
}

/// Those of sorted sets: queues and counters.
fn sets() -> Vec<Vec<u8>> {
    let of = |keys: &Keys| {
        let aux = &keys.aux;
        let (queue, counter) = (aux.queue(), aux.counter());
        [queue.to_vec(), counter.to_vec(), aux.bans(), aux.shared()]
    };
    keys().iter().flat_map(of).collect()
}

/// The members of a sorted set on the server and their scores, as one text.
fn scores(members: Vec<Plain>) -> io::Result<Vec<u8>> {
    let mut pairs = Vec::new();
    for pair in members.chunks(2) {
        let [Plain::Text(Some(member)), Plain::Text(Some(score))] = pair else {
            return Err(io::Error::other("no member with its score"));
        };
        let score = String::from_utf8_lossy(score).parse::<f64>();
        let score = score.map_err(io::Error::other)?;
        pairs.push((score as i64, member.clone()));
    }
    Ok(listed(pairs))
}

/// Those of a queue on the memory node.
fn places(line: &NodeQueue) -> Vec<u8> {
    let pairs = line.queue.iter().flat_map(|place| {
        let waiter = place.waiter.text(place.mode);
        let end = [b"!", &waiter[..]].concat();
        [(place.ticket as i64, waiter), (-(place.end as i64), end)]
    });
    listed(pairs.collect())
}

fn listed(mut pairs: Vec<(i64, Vec<u8>)>) -> Vec<u8> {
    pairs.sort();
    let shown = |(score, member): (i64, Vec<u8>)| format!("{score} {}\n", member.escape_ascii());
    pairs
        .into_iter()
        .map(shown)
        .collect::<String>()
        .into_bytes()
}

/// An answer and what was published with it.
fn said(answer: &ProbeReply, messages: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> String {
    let shown = |(inbox, text): (Vec<u8>, Vec<u8>)| {
        format!(" {} to {}", text.escape_ascii(), inbox.escape_ascii())
    };
    let messages: String = messages.into_iter().map(shown).collect();
    format!("{answer:?}{messages}")
}

/// Whether something on the memory node is in the millisecond of its end.
fn last_millisecond(node: &MemoryNode, now: u64) -> bool {
    let mut held = contents(node, now).into_values();
    held.any(|(_, left)| left == Some(0))
}

/// What is on the memory node.
fn contents(node: &MemoryNode, now: u64) -> Contents {
    let at = Instant(now * 1000);
    // As PTTL says it: the server counts in whole ms.
    let left = |end: Instant| (end != Instant::FAR).then(|| end.0 / 1_000_000 - now / 1000);
    let mut found = Contents::new();
    for (key, form, end) in node.keys(at) {
        found.insert(key.to_vec(), (stored(form), left(end)));
    }
    for (key, fence, end) in node.counters(at) {
        let mut members = vec![(fence as i64, b"f".to_vec())];
        if let Some((whose, fence)) = node.told(key, at) {
            members.extend([(fence as i64, b"h".to_vec()), (whose as i64, b"t".to_vec())]);
        }
        found.insert(key.to_vec(), (listed(members), left(end)));
    }
    for (key, values, end) in node.bans(at) {
        let values = values.map(|(value, until)| (until as i64, value.to_vec()));
        found.insert(key.to_vec(), (listed(values.collect()), left(end)));
    }
    for keys in keys() {
        if let Some(line) = node.line(keys.aux.queue(), at) {
            let queue = (places(line), left(line.end));
            found.insert(keys.aux.queue().to_vec(), queue);
        }
    }
    for keys in keys() {
        let key = keys.aux.shared();
        if let Some(readers) = node.readers(&key, at) {
            let votes = readers.votes.iter();
            let votes = votes.map(|(value, until)| (*until as i64, value.0.to_vec()));
            found.insert(key, (listed(votes.collect()), left(readers.end)));
        }
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

/// What a server has under a lock's key for this.
pub fn stored(form: &StoredValue) -> Vec<u8> {
    match form {
        StoredValue::Uncontended(value) => value.0.to_vec(),
        StoredValue::Contended { until, value } => {
            [format!("={until} ").as_bytes(), &value.0].concat()
        }
        StoredValue::Kept { until, value } => [format!("-{until} ").as_bytes(), &value.0].concat(),
        StoredValue::Reserved { until, whom } => {
            [format!("@{until} ").as_bytes(), &whose(whom)].concat()
        }
        StoredValue::Shared { until, base, whom } => {
            [format!("&{until} {base} ").as_bytes(), &whose(whom)].concat()
        }
    }
}

/// For whom a lock is reserved, as a server has it.
fn whose(whom: &ReservedFor) -> Vec<u8> {
    match whom {
        ReservedFor::NoWaiter => Vec::new(),
        ReservedFor::Waiter(waiter) => waiter.text(Mode::Exclusive),
        ReservedFor::Readers(ticket) => format!("s{ticket}").into_bytes(),
    }
}

/// Contents as text: a line for each key.
fn shown(contents: &Contents) -> String {
    let line = |(key, (value, left)): (&Vec<u8>, &(Vec<u8>, Option<u64>))| {
        let (key, value) = (key.escape_ascii(), value.escape_ascii());
        format!("       {key} {value} {left:?}\n")
    };
    contents.iter().map(line).collect()
}

/// The kind of an answer, by request and reply, and whether somebody was told.
fn kind(request: &Request, said: &ProbeReply, told: bool) -> String {
    let word = |text: String| text.split([' ', '(']).next().unwrap_or_default().to_owned();
    let op = match request.op {
        Op::Extend { repair, .. } => format!("extend/{repair:?}"),
        op => word(format!("{op:?}")),
    };
    let op = match request.keys.mode {
        Mode::Shared if request.op != Op::Release => format!("shared {op}"),
        Mode::AnySlot(_) if request.op == Op::Release => "leave slots".into(),
        Mode::AnySlot(_) => "choose".into(),
        Mode::Slot(_) if matches!(request.op, Op::Acquire { .. } | Op::Release) => {
            format!("slot {op}")
        }
        _ => op,
    };
    let and = if told { " and a message" } else { "" };
    match said {
        ProbeReply::Reply(
            Reply::Refused {
                place: Some(place),
                subscribers,
                ..
            },
            _,
        ) if !told => {
            let place = if *place == 0 {
                "first"
            } else {
                "behind others"
            };
            let heard = if *subscribers == 0 { ", deaf" } else { "" };
            format!("{op} Refused, {place}{heard}")
        }
        ProbeReply::Reply(reply, _) => format!("{op} {}{and}", word(format!("{reply:?}"))),
        said => format!("{op} {said:?}"),
    }
}
