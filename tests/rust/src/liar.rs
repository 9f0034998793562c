//! A server that lies: a proxy before a real one, or one of its own, which is a node, a part of a
//! cluster and a sentinel at once. At any reply it may say something else: of another type, length
//! or order, nested, with numbers at their edges, ranges turned round, texts that are too long or
//! wicked, twice, never, behind pushes, or no protocol at all. What it says follows from its seed,
//! from which connection asks, and from how often that has asked.

mod lie;
mod word;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::nap;

/// How a liar behaves, from its next reply on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// It tells the truth.
    #[default]
    Honest,
    /// It lies now and then, each connection as its draw has it.
    Lies,
    /// It lies at each reply.
    Always,
    /// It says the truth between pushes without end.
    Floods,
    /// It says each reply twice.
    Twice,
    /// Its clock is in the year 2286.
    Late,
    /// Its `SCAN` has no end, and no key.
    Endless,
    /// It answers nothing.
    Silent,
    /// Each reply is of 2 MiB.
    Long,
}

impl Mood {
    /// All of them, by the words that they are called by.
    pub const ALL: [(&'static str, Mood); 9] = [
        ("honest", Mood::Honest),
        ("lies", Mood::Lies),
        ("always", Mood::Always),
        ("floods", Mood::Floods),
        ("twice", Mood::Twice),
        ("late", Mood::Late),
        ("endless", Mood::Endless),
        ("silent", Mood::Silent),
        ("long", Mood::Long),
    ];
}

/// Random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Those of that seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below that, which is not 0.
    pub fn below(&mut self, most: usize) -> usize {
        (self.any() % most as u64) as usize
    }

    /// One of those.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

use Word::{Bulk, Line, Nil, Row};
pub use lie::WICKED;
use lie::{Then, lie};
pub use word::Word;
use word::{int, row, text};

/// What a server of its own knows.
#[derive(Default)]
struct Store {
    texts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Liar {
    seed: u64,
    connections: Arc<AtomicU64>,
    mood: Arc<Mutex<Mood>>,
    store: Arc<Mutex<Store>>,
    before: Option<String>,
    /// Where it listens.
    pub port: u16,
}

impl std::fmt::Debug for Liar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Liar").field("port", &self.port).finish()
    }
}

impl Liar {
    /// One that lives as long as its process: before the server at that address, or of its own.
    pub fn new(seed: u64, before: Option<&str>) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let liar = Liar {
            seed,
            connections: Arc::default(),
            mood: Arc::default(),
            store: Arc::default(),
            before: before.map(str::to_owned),
            port: listener.local_addr().expect("bound").port(),
        };
        let served = liar.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let liar = served.clone();
                thread::spawn(move || liar.serve(client));
            }
        });
        liar
    }

    /// From its next reply on.
    pub fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    fn mood(&self) -> Mood {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut talk = Talk::new(Draw::new(
            self.seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93),
        ));
        let out = Arc::new(Mutex::new(client.try_clone()?));
        let open = Arc::new(AtomicBool::new(true));
        self.flood(&out, &open);
        let done = match &self.before {
            Some(before) => {
                let server = TcpStream::connect(before)?;
                server.set_nodelay(true)?;
                let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let mut replies = BufReader::new(server.try_clone()?);
                let done = self.pass_on(&mut replies, &mut talk, &out);
                let _ = server.shutdown(Shutdown::Both);
                done
            }
            None => {
                let mut asked = BufReader::new(client.try_clone()?);
                self.answer(&mut asked, &mut talk, &out)
            }
        };
        open.store(false, Ordering::Relaxed);
        let _ = client.shutdown(Shutdown::Both);
        done
    }

    /// Pushes without end, while it is in the mood for that.
    fn flood(&self, out: &Arc<Mutex<TcpStream>>, open: &Arc<AtomicBool>) {
        let (liar, out, open) = (self.clone(), out.clone(), open.clone());
        thread::spawn(move || {
            let call = b">3\r\n$7\r\nmessage\r\n$41\r\nlock:#in:00000000000000000000000000000000\r\n$1\r\n1\r\n";
            let calls = call.repeat(700);
            loop {
                if !open.load(Ordering::Relaxed) {
                    return;
                }
                if liar.mood() != Mood::Floods {
                    nap(Duration::from_millis(2));
                    continue;
                }
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                if out.write_all(&calls).is_err() {
                    return;
                }
            }
        });
    }

    fn pass_on(
        &self,
        from: &mut impl BufRead,
        talk: &mut Talk,
        out: &Mutex<TcpStream>,
    ) -> io::Result<()> {
        loop {
            let word = Word::read(from)?;
            if !self.say(talk, word, out)? {
                return Ok(());
            }
        }
    }

    fn answer(
        &self,
        from: &mut impl BufRead,
        talk: &mut Talk,
        out: &Mutex<TcpStream>,
    ) -> io::Result<()> {
        loop {
            let Row(_, words) = Word::read(from)? else {
                return Ok(());
            };
            for word in self.truth(&words) {
                if !self.say(talk, word, out)? {
                    return Ok(());
                }
            }
        }
    }

    /// Says it, or something else; false where the connection ends.
    fn say(&self, talk: &mut Talk, word: Word, out: &Mutex<TcpStream>) -> io::Result<bool> {
        let (words, then) = match self.mood() {
            _ if matches!(word, Row(b'>', _)) => (vec![word], Then::GoOn),
            Mood::Honest | Mood::Floods => (vec![word], Then::GoOn),
            Mood::Always => lie(&mut talk.draw, word),
            Mood::Lies if talk.lies() => lie(&mut talk.draw, word),
            Mood::Lies => (vec![word], Then::GoOn),
            Mood::Twice => (vec![word.clone(), word], Then::GoOn),
            Mood::Late => (vec![late(word)], Then::GoOn),
            Mood::Endless => (vec![endless(word)], Then::GoOn),
            Mood::Silent => (Vec::new(), Then::GoOn),
            Mood::Long => (vec![Bulk(vec![b'x'; 2 << 20])], Then::GoOn),
        };
        if talk.hushed {
            return Ok(true);
        }
        let mut bytes = Vec::new();
        words.iter().for_each(|word| word.write(&mut bytes));
        out.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&bytes)?;
        talk.hushed = then == Then::Hush;
        Ok(then != Then::Close)
    }

    /// What a server would say to a command, which is a node, a part of a cluster and a sentinel.
    fn truth(&self, words: &[Word]) -> Vec<Word> {
        let word = |at: usize| match words.get(at) {
            Some(Bulk(word)) => String::from_utf8_lossy(word).to_uppercase(),
            _ => String::new(),
        };
        let bytes = |at: usize| match words.get(at) {
            Some(Bulk(word)) => word.clone(),
            _ => Vec::new(),
        };
        let (port, id) = (self.port, "a".repeat(40));
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let get = |store: &Store, key: &[u8]| {
            let found = store.texts.iter().find(|(has, _)| has == key);
            found.map_or(Nil, |(_, value)| Bulk(value.clone()))
        };
        let own = || row(vec![text("127.0.0.1"), int(port.into()), text(&id)]);
        let now = time();
        vec![match (&*word(0), &*word(1)) {
            ("INFO", _) => text(&format!(
                "# S\r\nredis_version:7.0.15\r\nrun_id:{id}\r\nrole:master\r\nmaxmemory:0\r\nuptime_in_seconds:99999\r\n\
                 evicted_keys:0\r\nmaster_replid2:{}\r\nmaster_replid:{id}\r\ncluster_enabled:0\r\ncmdstat_info:calls=1\r\n",
                "0".repeat(40)
            )),
            ("HELLO", _) => Row(b'%', vec![text("proto"), int(3)]),
            ("TIME", _) => now,
            ("CLIENT", "INFO") => text(&format!(
                "id=3 addr=127.0.0.1:1 laddr=127.0.0.1:{port} name= db=0\n"
            )),
            ("GET", _) => get(&store, &bytes(1)),
            ("MGET", _) => row((1..words.len()).map(|at| get(&store, &bytes(at))).collect()),
            ("SCAN", _) => row(vec![text("0"), row(vec![text("lock:{a}")])]),
            ("SET", _) => {
                let key = bytes(1);
                store.texts.retain(|(has, _)| *has != key);
                if store.texts.len() < 100 {
                    store.texts.push((key, bytes(2)));
                }
                Line(b'+', b"OK".to_vec())
            }
            ("SCRIPT", "LOAD") => text(&id),
            ("PING" | "AUTH" | "SELECT" | "ASKING", _) => Line(b'+', b"OK".to_vec()),
            ("SUBSCRIBE", _) => Row(b'>', vec![text("subscribe"), Bulk(bytes(1)), int(1)]),
            ("CLUSTER", "SLOTS") => row(vec![row(vec![int(0), int(16383), own()])]),
            ("CLUSTER", "NODES") => text(&format!(
                "{id} 127.0.0.1:{port}@1 myself,master - 0 0 1 connected 0-16383\n"
            )),
            ("CLUSTER", "MYID") => text(&id),
            ("CLUSTER", _) => text("cluster_state:ok\r\n"),
            ("SENTINEL", _) => row(vec![text("127.0.0.1"), text(&port.to_string())]),
            ("EVAL" | "EVALSHA", _) => {
                let Row(_, parts) = now else {
                    return Vec::new();
                };
                let mut reply = vec![int(1), text("5")];
                reply.extend(parts);
                row(reply)
            }
            ("PUBSUB", _) => row(vec![Bulk(bytes(2)), int(1)]),
            _ => int(1),
        }]
    }
}

fn time() -> Word {
    // A server of its own has the clock of this machine.
    #[allow(clippy::disallowed_methods)]
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    row(vec![
        text(&now.as_secs().to_string()),
        text(&now.subsec_micros().to_string()),
    ])
}

/// The same with clocks that are in the year 2286.
fn late(mut word: Word) -> Word {
    if let Row(_, words) = &mut word {
        let seconds = |said: &[u8]| said.len() == 10 && said.iter().all(u8::is_ascii_digit);
        for word in words.iter_mut() {
            match word {
                Bulk(said) if seconds(said) => *said = b"9999999999".to_vec(),
                _ => {}
            }
        }
    }
    word
}

/// The same with a cursor that never ends.
fn endless(mut word: Word) -> Word {
    if let Row(_, words) = &mut word
        && let [Bulk(cursor), Row(_, keys)] = &mut words[..]
    {
        *cursor = b"7".to_vec();
        keys.clear();
    }
    word
}

/// How one connection is talked to.
struct Talk {
    draw: Draw,
    /// So many replies are true yet.
    true_yet: usize,
    /// One of so many is a lie.
    one_of: usize,
    hushed: bool,
}

impl Talk {
    fn new(mut draw: Draw) -> Talk {
        Talk {
            true_yet: *draw.one(&[0, 3, 12, 30, 60]),
            one_of: *draw.one(&[1, 2, 5, 20, 50]),
            draw,
            hushed: false,
        }
    }

    fn lies(&mut self) -> bool {
        if self.true_yet > 0 {
            self.true_yet -= 1;
            return false;
        }
        self.draw.below(self.one_of) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        let stream = b"*2\r\n:1\r\n$1\r\na\r\n>1\r\n+x\r\n%1\r\n$1\r\nk\r\n_\r\n$-1\r\n-ERR x\r\n";
        let (mut from, mut out) = (&stream[..], Vec::new());
        while !from.is_empty() {
            Word::read(&mut from).unwrap().write(&mut out);
        }
        assert_eq!(out, stream);
    }

    #[test]
    fn a_seed_tells_the_same_lies() {
        let said = |seed| {
            let mut draw = Draw::new(seed);
            let mut out = Vec::new();
            for _ in 0..200 {
                let (words, _) = lie(
                    &mut draw,
                    row(vec![int(0), int(9), row(vec![text("a"), Nil])]),
                );
                words.iter().for_each(|word| word.write(&mut out));
            }
            out
        };
        assert_eq!(said(1), said(1));
        assert_ne!(said(1), said(2));
    }
}
