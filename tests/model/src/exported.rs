//! Texts of exported leases that nobody exported: random ones and changed ones are adopted, by a client of a real server on
//! which locks of every form stand. What a text has no token of stays as it is. The checksum of a text is no
//! signature, so most are written with the right one.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::sim::names::{self, Naming};
use quorlock::{Client, Error, Layout, Lease, blocking};
use quorlock_sim::random::Random;
use quorlock_tests::Stage;

use crate::server::{Plain, Server};

/// How many look at the same time.
const THREADS: u64 = 8;
/// How many texts each of them tries until what stands there is looked at.
const AT_ONCE: u64 = 500;
/// The longest that the servers of a stage allow. Leases are renewed, which changes no content here.
const TTL: Duration = Duration::from_secs(60);
/// What is put there by hand lives longer than all of it takes, in ms.
const LIFE: &str = "3600000";
/// The layout that stands before a text.
const PREFIX: &str = "quorlock1.";
const NONE: u64 = u64::MAX;

/// What other programs store, under names that are keys.
const FOREIGN: [(&str, &str); 5] = [
    ("other:digits", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("other:word", "worker-7"),
    ("other:held", "=1 worker"),
    ("other:readers", "&0 1 "),
    ("other:empty", ""),
];

/// Everything that stands there: each key with its content.
type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The parts of a text.
#[derive(Clone, Debug)]
struct Text {
    /// The set's name, the queue, the lock's name, the value.
    parts: [Vec<u8>; 4],
    /// The number of nodes, raw, the slot, the ttl, renewed, the fence, what is left of `max_hold`.
    numbers: [u64; 7],
}

/// A lock that stands there.
struct Known {
    text: Text,
    /// Its value is that of a lease which holds it alone: who has that may go on with it.
    adoptable: bool,
}

/// Tries so many texts of each kind. `bearer`: one of them has the token of a lease, which must be seen.
pub fn play(random: u64, mutated: u64, bearer: bool) -> io::Result<bool> {
    let stage = Stage::new(1);
    let client = client(&stage).map_err(io::Error::other)?;
    let mut server = Server::connect(&stage.nodes[0])?;
    let (known, held) = stand(&client, &mut server)?;
    let before = contents(&mut server)?;
    if bearer {
        let text = written(&known[0].text, true);
        let adopted = blocking::wait(client.adopt(&text));
        std::mem::forget(adopted.map_err(io::Error::other)?);
    }
    let tries = Tries {
        known: &known,
        before: &before,
        next: AtomicU64::new(0),
        all: random + mutated,
        random,
        wrong: Mutex::new(Vec::new()),
        reached: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| tries.go_on(&stage));
        }
    });
    let wrong = tries.wrong.into_inner().expect("no panic");
    wrong
        .iter()
        .take(10)
        .for_each(|line| println!("FAIL {line}"));
    let lost = held.iter().filter(|lease| !lease.is_held()).count();
    let reached = tries.reached.into_inner();
    println!(
        "{random} random and {mutated} changed texts, {reached} of which a node was asked for: {} changes of what they had no \
         token of, {lost} of {} leases lost",
        wrong.len(),
        held.len()
    );
    // Texts that no node is asked for show nothing.
    Ok(wrong.is_empty() && lost == 0 && reached >= (random + mutated) / 10)
}

fn client(stage: &Stage) -> Result<Client, Error> {
    let builder = Client::builder().nodes(&stage.nodes).label("bench");
    let builder = builder.ttl(TTL).max_hold(None);
    builder.wait(Duration::ZERO).build()
}

/// Locks of every form.
fn stand(client: &Client, server: &mut Server) -> io::Result<(Vec<Known>, Vec<Lease>)> {
    let get = |lock: quorlock::Lock| blocking::wait(lock.acquire()).map_err(io::Error::other);
    let mut held = Vec::new();
    let mut known = Vec::new();
    let mut note = |name: &str, raw, lease: Option<&Lease>, value: Vec<u8>, adoptable| {
        let slot = lease.and_then(Lease::slot);
        known.push(Known {
            text: text_of(name, raw, slot, value),
            adoptable,
        });
    };
    let value = |lease: &Lease, label: &str| format!("{}.{label}", lease.token()).into_bytes();
    for name in ["alone", "t_{7}"] {
        let lease = get(client.lock(name))?;
        note(name, false, Some(&lease), value(&lease, "bench"), true);
        held.push(lease);
    }
    let lease = get(client.lock("raw:ours").raw(true))?;
    note("raw:ours", true, Some(&lease), value(&lease, ""), true);
    held.push(lease);
    for _ in 0..2 {
        let lease = get(client.lock("doc").shared(true))?;
        note("doc", false, None, value(&lease, "bench"), false);
        held.push(lease);
    }
    for _ in 0..2 {
        let lease = get(client.semaphore("pool", 3))?;
        note("pool", false, Some(&lease), value(&lease, "bench"), true);
        held.push(lease);
    }
    let lease = get(client.lock("java").layout(Layout::Redisson))?;
    note("java", true, None, value(&lease, ""), false);
    held.push(lease);
    let far = "9007199254740991";
    let mut put = |name: &str, text: &[u8]| {
        let words: [&[u8]; 5] = [b"SET", name.as_bytes(), text, b"PX", LIFE.as_bytes()];
        server.ask(&words).map(drop)
    };
    let kept = get(client.lock("job").keep(TTL))?;
    let text = value(&kept, "bench");
    note("job", false, None, text.clone(), false);
    blocking::wait(kept.release()).map_err(io::Error::other)?;
    put("lock:{job}", &[b"-", far.as_bytes(), b" ", &text].concat())?;
    // Crowded, as it is while somebody waits.
    let crowded = get(client.lock("crowded"))?;
    let text = value(&crowded, "bench");
    note("crowded", false, Some(&crowded), text.clone(), true);
    put(
        "lock:{crowded}",
        &[b"=", far.as_bytes(), b" ", &text].concat(),
    )?;
    held.push(crowded);
    for (name, text) in [
        ("reserved", format!("@{far} 7 lock:#in:7")),
        ("readers", format!("@{far} s3")),
        ("nobody", "@0 ".to_owned()),
    ] {
        put(&format!("lock:{{{name}}}"), text.as_bytes())?;
        note(name, false, None, text.into_bytes(), false);
    }
    for (name, text) in FOREIGN {
        put(name, text.as_bytes())?;
        note(name, true, None, text.into(), false);
    }
    Ok((known, held))
}

/// The text that says so.
fn text_of(name: &str, raw: bool, slot: Option<u32>, value: Vec<u8>) -> Text {
    let naming = if raw { Naming::Raw } else { Naming::Tagged };
    let key = names::lock_key("lock:", name.as_bytes(), naming).expect("a good name");
    let aux = match slot {
        Some(_) => names::semaphore("lock:", &key).1,
        None => names::aux("lock:", &key, naming),
    };
    Text {
        parts: [
            b"default".to_vec(),
            aux.queue().to_vec(),
            name.into(),
            value,
        ],
        numbers: [
            1,
            raw.into(),
            slot.map_or(NONE, u64::from),
            10_000,
            0,
            1,
            NONE,
        ],
    }
}

/// All that stands there, but for what a text that names some token may leave: that this one is banned; and for what a client
/// tries its permissions on. Of readers without their ends, which are renewed. What
/// is reserved is nobody's: an attempt that has come to nothing calls the next, or leaves nothing where nobody waits; that it was
/// taken is told by the lease that came of it.
fn contents(server: &mut Server) -> io::Result<Contents> {
    let look: &[u8] = b"local all = {}
      for _, key in ipairs(redis.call('KEYS', '*')) do
        local kind, held = redis.call('TYPE', key).ok, nil
        if kind == 'string' then held = redis.call('GET', key)
        elseif string.find(key, '#s:', 1, true) then held = table.concat(redis.call('ZRANGE', key, '0', '-1'), ' ')
        elseif kind == 'zset' then held = table.concat(redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES'), ' ')
        else held = table.concat(redis.call('HGETALL', key), ' ') end
        local free = kind == 'string' and string.find(held, '^@%d')
        if not free and not string.find(key, '#p?x:') and not string.find(key, '#try', 1, true) then all[#all + 1] = key all[#all + 1] = held end
      end
      return all";
    server.send(&crate::server::command(&[b"EVAL", look, b"0"]))?;
    let row = server.row()?.into_iter().map(|word| match word {
        Plain::Text(Some(text)) => text,
        other => format!("{other:?}").into_bytes(),
    });
    let row: Vec<Vec<u8>> = row.collect();
    Ok(row
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect())
}

/// What all threads work at.
struct Tries<'a> {
    known: &'a [Known],
    before: &'a Contents,
    next: AtomicU64,
    all: u64,
    random: u64,
    wrong: Mutex<Vec<String>>,
    reached: AtomicU64,
}

impl Tries<'_> {
    fn go_on(&self, stage: &Stage) {
        let done = self.try_all(stage);
        let failed =
            done.map_err(|error| self.wrong.lock().expect("no panic").push(error.to_string()));
        failed.unwrap_or_default();
    }

    fn try_all(&self, stage: &Stage) -> io::Result<()> {
        let client = client(stage).map_err(io::Error::other)?;
        let mut server = Server::connect(&stage.nodes[0])?;
        loop {
            let from = self.next.fetch_add(AT_ONCE, Ordering::Relaxed);
            if from >= self.all {
                return Ok(());
            }
            for number in from..(from + AT_ONCE).min(self.all) {
                self.one(&client, number);
            }
            let now = contents(&mut server)?;
            for key in self.before.keys().chain(now.keys()) {
                let (was, is) = (self.before.get(key), now.get(key));
                if was != is {
                    self.note(format!(
                        "texts {from} and on changed {}",
                        key.escape_ascii()
                    ));
                }
            }
        }
    }

    fn one(&self, client: &Client, number: u64) {
        let random = Random::new(number);
        let text = if number < self.random {
            self.random_text(&random)
        } else {
            self.changed_text(&random)
        };
        let Some(text) = text else { return };
        match blocking::wait(client.adopt(&text)) {
            Ok(lease) => {
                let name = lease.name().escape_ascii();
                self.note(format!(
                    "text {number} took {name}: {}",
                    text.escape_debug()
                ));
            }
            Err(error) if error.kind() == quorlock::ErrorKind::InvalidArgument => {}
            Err(_) => drop(self.reached.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn note(&self, line: String) {
        self.wrong.lock().expect("no panic").push(line);
    }

    /// A text whose parts are drawn: of what stands there, of what is near it, and at random.
    fn random_text(&self, random: &Random) -> Option<String> {
        let any = random.pick(self.known);
        let mut text = any.text.clone();
        let other = random.pick(self.known);
        text.parts[3] = match random.below(10) {
            // What another lock is held by, and what stands there as it is written.
            0 => other.text.parts[3].clone(),
            1 => {
                let stands: Vec<&Vec<u8>> = self.before.values().collect();
                (*random.pick(&stands)).clone()
            }
            2 => {
                let mut near = any.text.parts[3].clone();
                self.spoil(random, &mut near);
                near
            }
            3 => bytes(random, 60),
            _ => {
                let digits = b"0123456789abcdef";
                let mut value: Vec<u8> = (0..40).map(|_| *random.pick(digits)).collect();
                value.extend(
                    random
                        .pick::<&[u8]>(&[b".", b".bench", b"", b".a\nb", b":x"])
                        .iter(),
                );
                value
            }
        };
        for (place, odd) in text.numbers.iter_mut().enumerate() {
            if random.chance(if place == 0 { 1 } else { 6 }) {
                *odd = *random.pick(&[
                    0,
                    1,
                    2,
                    127,
                    128,
                    1 << 32,
                    1 << 53,
                    NONE - 1,
                    NONE,
                    random.bits(),
                ]);
            }
        }
        if random.chance(5) {
            let part = random.below(3) as usize;
            text.parts[part] = bytes(random, 30);
        }
        self.unless_of_a_bearer(&text, written(&text, random.chance(98)))
    }

    /// One of what stands there, changed somewhere, mostly with the right sum.
    fn changed_text(&self, random: &Random) -> Option<String> {
        let mut text = random.pick(self.known).text.clone();
        match random.below(3) {
            0 => {
                let other = random.pick(self.known);
                let part = random.below(4) as usize;
                text.parts[part] = other.text.parts[part].clone();
            }
            1 => {
                let part = random.below(4) as usize;
                self.spoil(random, &mut text.parts[part]);
            }
            _ => {
                let place = random.below(7) as usize;
                text.numbers[place] ^= 1 << random.below(64);
            }
        }
        let mut shown = written(&text, random.chance(80));
        if random.chance(20) {
            let place = random.below(shown.len() as u64) as usize;
            shown.replace_range(place..=place, "A");
        }
        self.unless_of_a_bearer(&text, shown)
    }

    /// Bytes with something changed.
    fn spoil(&self, random: &Random, bytes: &mut Vec<u8>) {
        let place = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(3) {
            0 if place < bytes.len() => bytes[place] ^= 1 << random.below(8),
            1 => bytes.truncate(place),
            _ => bytes.insert(place, *random.pick(b"0a.@&=- ")),
        }
    }

    /// None of a text that has the token of a lease: its bearer may go on with that.
    fn unless_of_a_bearer(&self, text: &Text, shown: String) -> Option<String> {
        let token = |value: &[u8]| value.get(..41).map(<[u8]>::to_vec);
        let has =
            |known: &Known| known.adoptable && token(&known.text.parts[3]) == token(&text.parts[3]);
        let same = |known: &Known| known.text.parts[2] == text.parts[2];
        let bears = self.known.iter().any(|known| has(known) && same(known));
        (!bears).then_some(shown)
    }
}

fn bytes(random: &Random, most: u64) -> Vec<u8> {
    (0..random.below(most))
        .map(|_| random.bits() as u8)
        .collect()
}

/// As core writes it; `whole`: with the sum that belongs to it.
fn written(text: &Text, whole: bool) -> String {
    let mut bytes = Vec::new();
    for part in &text.parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    for number in text.numbers {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    bytes.extend_from_slice(&(sum ^ u64::from(!whole)).to_be_bytes());
    format!("{PREFIX}{}", base64url(&bytes))
}

/// RFC 4648, section 5, without padding.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .fold(0, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            text.push(DIGITS[(bits >> (18 - 6 * place)) as usize & 63].into());
        }
    }
    text
}
