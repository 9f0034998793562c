//! One command at one server of a cluster: sent elsewhere, or carried out there.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::{
    AfterRelease, Hint, Instant, Keys, MemoryNode, Message, Mode, Op, OtherRecord, Repair, Reply,
    Request, Value, names, probe,
};

use super::servers::{ANY_RECORD, Cluster, Data};
use super::world::{Inner, MS, Time};
use crate::server::resp::{array, bulk, int, line, number};
use crate::server::scripts::{Call, Script};
use crate::server::{self, Host, Life, Told};

/// How many hash slots there are.
pub const SLOTS: u16 = 16_384;
/// The namespace of all clients.
pub const NAMESPACE: &str = "lock:";

/// The hash slot of a key: CRC-16 (XModem) of its tag, if it has one (Redis cluster
/// specification, "Hash tags").
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|b| *b == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|b| *b == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// What becomes of a command.
enum Route {
    /// It has no key, or it is served.
    Here(Option<u16>),
    /// An error.
    Sent(String),
}

impl Inner {
    /// Carries out all commands that have arrived whole, and answers them.
    pub(super) fn serve(&mut self, wire: usize, bytes: &[u8]) {
        let mut session = std::mem::take(&mut self.wires[wire].session);
        session.input.add(bytes);
        let mut out = Vec::new();
        let mut messages = Vec::new();
        loop {
            let words = match session.input.command() {
                Ok(Some(words)) => words,
                Ok(None) => break,
                Err(_) => {
                    self.violation
                        .get_or_insert("L5 a client writes what is no command".into());
                    break;
                }
            };
            let texts = words.iter().map(|word| session.input.word(word));
            let texts: Vec<&[u8]> = texts.collect();
            let route = self.route(wire, &texts);
            self.says_command(wire, &texts, &route);
            let before = out.len();
            let slot = match route {
                Route::Sent(error) => {
                    line(&mut out, b'-', &error);
                    continue;
                }
                Route::Here(slot) => slot,
            };
            if self.is_clusters(wire, &texts, slot, &mut out) {
                continue;
            }
            let key = key_of(&texts).map(<[u8]>::to_vec).unwrap_or_default();
            let (now, w) = (self.time, &self.wires[wire]);
            let place = (w.cluster, w.server);
            let mut host = Serving {
                cluster: &mut self.clusters[place.0],
                server: place.1,
                slot,
                key,
                now,
                messages: &mut messages,
                subscribed: None,
            };
            server::serve(&mut session, &words, &mut host, &mut out);
            let subscribed = host.subscribed;
            self.says(|| format!("  says {}", out[before..].escape_ascii()));
            if let Some(inbox) = subscribed {
                self.clusters[place.0].servers[place.1].subscribe(&inbox);
                self.wires[wire].inbox = Some(inbox);
            }
        }
        self.wires[wire].session = session;
        if !out.is_empty() {
            self.answers(wire, out);
        }
        let cluster = self.wires[wire].cluster;
        for (inbox, hint) in messages {
            self.publishes(cluster, &inbox, hint);
        }
    }

    fn says_command(&mut self, wire: usize, words: &[&[u8]], route: &Route) {
        if self.lines.is_none() {
            return;
        }
        let w = &self.wires[wire];
        let name = self.clusters[w.cluster].servers[w.server].name.clone();
        let word = |word: &&[u8]| match word.len() {
            0..60 => word.escape_ascii().to_string(),
            long => format!("({long} bytes {})", word[..40].escape_ascii()),
        };
        let words: Vec<String> = words.iter().map(word).collect();
        let sent = match route {
            Route::Sent(error) => format!("  sent: {error}"),
            Route::Here(_) => String::new(),
        };
        self.says(|| format!("{name} over {wire}: {}{sent}", words.join(" ")));
    }

    /// A message goes to whoever listens, at whichever server of the cluster.
    fn publishes(&mut self, cluster: usize, inbox: &[u8], hint: Hint) {
        let mut out = Vec::new();
        array(&mut out, b'>', 3);
        let said = match hint.slot {
            Some(slot) => format!("{} {slot}", hint.number),
            None => hint.number.to_string(),
        };
        for word in [b"message", inbox, said.as_bytes()] {
            bulk(&mut out, word);
        }
        for wire in 0..self.wires.len() {
            let w = &self.wires[wire];
            let listens = w.inbox.as_ref().is_some_and(|own| **own == *inbox);
            if w.cluster == cluster && listens && !w.dead {
                self.answers(wire, out.clone());
            }
        }
    }

    /// Whether the server carries a command out, and for which hash slot (Redis cluster
    /// specification, "MOVED Redirection" and "ASK Redirection"). While a hash slot is moved a
    /// script of several keys finds some of them missing, wherever it comes.
    fn route(&mut self, wire: usize, words: &[&[u8]]) -> Route {
        let asking = std::mem::take(&mut self.wires[wire].asking);
        let Some(key) = key_of(words) else {
            return Route::Here(None);
        };
        let several = keys_of(words).len() > 1;
        let number = slot_of(key);
        let w = &self.wires[wire];
        let (cluster, server) = (&self.clusters[w.cluster], w.server);
        if cluster.down_until > self.time {
            return Route::Sent("CLUSTERDOWN The cluster is down".into());
        }
        let Some(slot) = cluster.slots.get(&number) else {
            return Route::Sent("CLUSTERDOWN Hash slot not served".into());
        };
        if cluster.loops_until > self.time && several {
            return self.sends_on(wire, number, words);
        }
        let at = |server: usize| format!("{number} {}:6379", cluster.servers[server].name);
        let try_again = "TRYAGAIN Multiple keys request during rehashing of slot".into();
        let sent = match slot.moving {
            None if slot.at == server => return Route::Here(Some(number)),
            Some((to, keys)) if slot.at == server => {
                let there =
                    !keys && has(&slot.data, key, cluster.servers[slot.at].local(self.time));
                match several {
                    false if there => return Route::Here(Some(number)),
                    true if !keys => try_again,
                    _ => format!("ASK {}", at(to)),
                }
            }
            Some((to, _)) if to == server && asking => {
                if several {
                    try_again
                } else {
                    return Route::Here(Some(number));
                }
            }
            _ => format!("MOVED {}", at(slot.at)),
        };
        // Where they were sent in circles they may come from anywhere for a while.
        let looped = cluster.loops_until > 0;
        let known = slot.served.contains(&server) || asking || looped;
        if !known {
            let name = &cluster.servers[server].name;
            let what = format!("S3 {name} is asked for a hash slot that it never served");
            self.violation.get_or_insert(what);
        }
        Route::Sent(sent)
    }

    /// Sends a script to the next server, whichever serves it. L5: nobody is sent in circles
    /// forever: a request is, five times for each map, which is read ten times a second.
    fn sends_on(&mut self, wire: usize, number: u16, words: &[&[u8]]) -> Route {
        let (place, server) = (self.wires[wire].cluster, self.wires[wire].server);
        let cluster = &mut self.clusters[place];
        let primaries = cluster.primaries();
        let next = primaries.iter().find(|other| **other > server);
        let next = *next.unwrap_or(&primaries[0]);
        let maps = cluster.loops_for / (100 * MS) + 2;
        // An acquire, extensions, and the release.
        let most = 4 * 6 * maps;
        let token = words.get(3 + keys_of(words).len());
        let token = token.map_or(Vec::new(), |token| token.to_vec());
        let count = cluster.looped.entry(token).or_default();
        *count += 1;
        let name = cluster.servers[next].name.clone();
        if *count > most {
            let what = format!("L5 a token is sent from server to server {count} times");
            self.violation.get_or_insert(what);
        }
        Route::Sent(format!("MOVED {number} {name}:6379"))
    }

    /// L2: no shard is in quarantine because hash slots move.
    fn is_marked(&mut self) {
        if self.keeps {
            let what = "L2 a hash slot is marked, though nothing was lost";
            self.violation.get_or_insert(what.into());
        }
    }

    /// Carries out what servers that stand alone are not asked.
    fn is_clusters(
        &mut self,
        wire: usize,
        words: &[&[u8]],
        slot: Option<u16>,
        out: &mut Vec<u8>,
    ) -> bool {
        let now = self.time;
        let (number_, server) = (self.wires[wire].cluster, self.wires[wire].server);
        let cluster = &mut self.clusters[number_];
        let clock = cluster.servers[server].local(now);
        let lower = |word: Option<&&[u8]>| word.map_or(Vec::new(), |w| w.to_ascii_lowercase());
        // Of longer ones the second word is a key, or a whole script.
        let second = words.get(1).filter(|_| words.len() == 2);
        let (first, second) = (lower(words.first()), lower(second));
        let text = |word| std::str::from_utf8(word).unwrap_or_default();
        match (text(&first), text(&second)) {
            ("asking", _) => {
                self.wires[wire].asking = true;
                line(out, b'+', "OK");
            }
            ("cluster", "myid") => bulk(out, cluster.servers[server].id().as_bytes()),
            ("cluster", "info") => {
                let state = if cluster.down_until > now {
                    "fail"
                } else {
                    "ok"
                };
                bulk(out, format!("cluster_state:{state}\r\n").as_bytes());
            }
            ("cluster", "nodes") => {
                let id = cluster.servers[server].id();
                let others = cluster.servers.iter().map(|other| other.id());
                let others = others.filter(|other| *other != id);
                let line = |id| format!("{id} 10.0.0.2:6379@16379 master - 0 0 1 connected\n");
                let mut nodes: String = others.map(line).collect();
                nodes += &format!("{id} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected");
                for (number, slot) in &cluster.slots {
                    let Some((to, _)) = slot.moving else {
                        continue;
                    };
                    if to == server {
                        let from = cluster.servers[slot.at].id();
                        nodes += &format!(" [{number}-<-{from}]");
                    }
                    if slot.at == server {
                        let to = cluster.servers[to].id();
                        nodes += &format!(" [{number}->-{to}]");
                    }
                }
                bulk(out, nodes.as_bytes());
            }
            ("cluster", "slots") => {
                array(out, b'*', cluster.slots.len());
                for (number, slot) in &cluster.slots {
                    let primary = &cluster.servers[slot.at];
                    array(out, b'*', 3);
                    int(out, i64::from(*number));
                    int(out, i64::from(*number));
                    array(out, b'*', 3);
                    bulk(out, primary.name.as_bytes());
                    int(out, 6379);
                    bulk(out, primary.id().as_bytes());
                }
            }
            // A mark.
            ("set", _) if words.len() == 5 && words[3] == b"PX" => {
                let data = &mut cluster
                    .slots
                    .get_mut(&slot.unwrap_or(0))
                    .expect("served")
                    .data;
                let long = Duration::from_millis(number(words[4]).unwrap_or(0));
                data.mark(long, clock);
                line(out, b'+', "OK");
                self.is_marked();
            }
            // A stamp where the server has one elsewhere.
            ("set", _) if words.len() == 3 => {
                let data = &mut cluster
                    .slots
                    .get_mut(&slot.unwrap_or(0))
                    .expect("served")
                    .data;
                let stamp = text(words[2]).to_owned();
                data.texts.insert(words[1].to_vec(), stamp);
                line(out, b'+', "OK");
            }
            ("eval" | "evalsha", _) if is_prolong(words) => {
                let loaded = &mut cluster.servers[server].loaded;
                let bit = 1 << 15;
                if first == b"evalsha" && *loaded & bit == 0 {
                    line(out, b'-', "NOSCRIPT No matching script. Please use EVAL.");
                    return true;
                }
                *loaded |= bit;
                let data = &mut cluster
                    .slots
                    .get_mut(&slot.unwrap_or(0))
                    .expect("served")
                    .data;
                prolong(data, &words[3..], clock, out);
            }
            _ => return false,
        }
        true
    }
}

/// The script of one key that lengthens a vote: an extension that stores nothing.
fn prolong(data: &mut Data, words: &[&[u8]], clock: Instant, out: &mut Vec<u8>) {
    let [lock, value, ttl, not_after] = *words else {
        return line(out, b'-', "ERR user_script:1: no client of ours asks that");
    };
    let request = Request {
        op: Op::Extend {
            ttl: Duration::from_millis(number(ttl).unwrap_or(0)),
            repair: Repair::No,
            fence: 0,
            behind: 0,
        },
        native: false,
        keys: Arc::new(Keys {
            lock: lock.into(),
            aux: names::aux(NAMESPACE, lock, names::Naming::Tagged),
            waits: quorlock::sim::Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        }),
        value: Value(value.into()),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: number(not_after).unwrap_or(0),
    };
    let time = MemoryNode::time(clock);
    let (answer, _) = data.node.execute(&request, None, clock);
    let code = match answer {
        Ok(Reply::Extended { .. }) => 1,
        Ok(Reply::Late) => 5,
        _ => 0,
    };
    array(out, b'*', if code == 1 { 4 } else { 3 });
    int(out, code);
    if code == 1 {
        bulk(out, b"");
    }
    server::scripts::moment(out, time);
}

fn is_prolong(words: &[&[u8]]) -> bool {
    let (text, sha) = probe::prolong();
    words
        .get(1)
        .is_some_and(|body| *body == text.as_bytes() || *body == sha.as_bytes())
}

/// Whether a key of a hash slot is there.
fn has(data: &Data, key: &[u8], clock: Instant) -> bool {
    let mark = key.starts_with(b"lock:#quarantine:");
    data.texts.contains_key(key)
        || mark && data.node.quarantine(clock).is_some()
        || data.node.form(key, clock).is_some()
}

/// The keys of a command.
fn keys_of<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let name = words[0].to_ascii_lowercase();
    match (&*name, words) {
        (b"get" | b"pttl" | b"set" | b"del", [_, key, ..]) => vec![key],
        (b"eval" | b"evalsha", [_, _, count, keys @ ..]) => {
            let count = number(count).unwrap_or(0) as usize;
            keys.iter().take(count).copied().collect()
        }
        _ => Vec::new(),
    }
}

fn key_of<'a>(words: &[&'a [u8]]) -> Option<&'a [u8]> {
    keys_of(words).first().copied()
}

impl Data {
    /// Notes releases, and a vote that comes behind its own.
    fn follow(&mut self, op: Op, value: &Value, granted: bool) {
        let dead = || self.released.iter().any(|one| **one == *value.identity());
        match op {
            Op::Release if !value.0.is_empty() && !dead() => {
                self.released.push(value.identity().into())
            }
            Op::Acquire { .. } if granted && dead() => self.too_late = true,
            _ => {}
        }
    }

    /// Marks the hash slot: no new vote for so long.
    pub fn mark(&mut self, long: Duration, clock: Instant) {
        self.node
            .init(Some(ANY_RECORD), ANY_RECORD.into(), long, clock);
    }
}

/// A server that carries out what came over a connection.
struct Serving<'a> {
    cluster: &'a mut Cluster,
    server: usize,
    slot: Option<u16>,
    key: Vec<u8>,
    now: Time,
    messages: &'a mut Vec<Message>,
    subscribed: Option<Arc<[u8]>>,
}

impl Serving<'_> {
    /// What the server's clock shows.
    fn clock(&self) -> Instant {
        self.cluster.servers[self.server].local(self.now)
    }

    fn data(&mut self) -> &mut Data {
        let slot = self.slot.expect("a command with a key");
        let slot = self.cluster.slots.get_mut(&slot).expect("it is served");
        slot.data
            .listen(self.cluster.servers[self.server].listeners());
        &mut slot.data
    }
}

impl Host for Serving<'_> {
    fn password(&self) -> Option<&str> {
        None
    }

    fn refusal(&mut self, _: &str) -> Option<String> {
        None
    }

    fn time(&self) -> u64 {
        MemoryNode::time(self.clock())
    }

    fn info(&self, section: Option<&str>) -> String {
        if section == Some("commandstats") {
            return "# Commandstats\r\ncmdstat_evalsha:calls=1\r\n".into();
        }
        let server = &self.cluster.servers[self.server];
        let promotions = u64::from(server.promoted);
        let uptime = server.uptime(self.now);
        let info = server::info(&server.run_id(), uptime, promotions, false);
        info.replace("cluster_enabled:0", "cluster_enabled:1")
    }

    fn own_address(&self) -> String {
        format!("{}:6379", self.cluster.servers[self.server].name)
    }

    fn get(&mut self, key: &[u8]) -> Option<String> {
        self.data().texts.get(key).cloned()
    }

    fn pttl(&mut self, _: &[u8]) -> Option<Duration> {
        let now = self.clock();
        self.data().node.quarantine(now)
    }

    fn load(&mut self, script: Script) {
        self.cluster.servers[self.server].loaded |= script.bit();
    }

    fn knows(&mut self, script: Script) -> bool {
        self.cluster.servers[self.server].loaded & script.bit() != 0
    }

    fn deletes_by(&self) -> Option<&'static str> {
        None
    }

    fn set_new(&mut self, _: &[u8], _: &[u8], _: Life) -> bool {
        false
    }

    fn propose(&mut self, _: &[u8], _: u64) -> bool {
        false
    }

    fn keep_counter(&mut self, _: &[u8], _: Duration) {}

    fn delete(&mut self, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn told(&mut self, _: Told<'_>) {}

    fn carry_out(&mut self, call: &Call) -> Result<Reply, OtherRecord> {
        let now = self.clock();
        let record = call.record.as_deref();
        let (answer, messages) = self.data().node.execute(&call.request, record, now);
        self.messages.extend(messages);
        let Request { op, value, .. } = &call.request;
        let granted = matches!(answer, Ok(Reply::Granted { .. }));
        self.data().follow(*op, value, granted);
        answer
    }

    fn init(&mut self, old: &str, new: Arc<str>, quarantine: Duration) -> Result<(), String> {
        let (key, now) = (self.key.clone(), self.clock());
        let data = self.data();
        let found = data.texts.get(&key).cloned().unwrap_or_default();
        if found != old {
            return Err(found);
        }
        data.texts.insert(key.clone(), new.to_string());
        if key.starts_with(b"lock:#shard:") {
            self.cluster.was_stamped(self.server);
        }
        let data = self.data();
        if quarantine.as_nanos() as Time >= MS {
            data.mark(quarantine, now);
        }
        Ok(())
    }

    fn wait(&mut self, _: u64, _: Duration) -> Option<u32> {
        Some(0)
    }

    fn subscribe(&mut self, channel: &[u8]) -> usize {
        self.subscribed = Some(channel.into());
        1
    }
}
