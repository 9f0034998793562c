//! The floor of waiting: a hand-written client of a queue in scripts on one node,
//! without fences and guard. One contender, one connection, RESP3: it asks, waits where
//! it is queued for its message, and asks again. Its scripts (`line/`) are those that
//! Quorlock had when the target for the gap was set, so that the measure stays what it was.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::measure::{cpu, monotonic};
use crate::raw::command;
use crate::words::{Contend, Words};

const ACQUIRE: &str = concat!(
    include_str!("line/line.lua"),
    include_str!("line/acquire.lua")
);
const RELEASE: &str = concat!(
    include_str!("line/line.lua"),
    include_str!("line/release.lua")
);
const TTL_MS: &str = "30000";
const RESERVATION_MS: &str = "200";
/// The reservation, the life of a place, and how many may be queued.
const WAITS: &str = "200 7200 10000";
/// Whoever was not told by then asks.
const POLL: Duration = Duration::from_millis(500);
const WARM_CYCLES: usize = 200;

pub(crate) fn run(words: &Words, contend: &Contend) {
    let mut node = Node::connect(&words.nodes[0]);
    let warm = Keys::of(&format!("warm-{}", std::process::id()));
    for _ in 0..WARM_CYCLES {
        assert!(node.take(&warm, u64::MAX));
        node.give(&warm);
    }
    words.ready();
    let (began, used) = (monotonic(), cpu());
    let end = began + (words.seconds * 1e9) as u64;
    let keys = Keys::of("bench");
    // As handoffs.py reads them: contender, granted, releasing, released.
    let mut holds: Vec<[u64; 4]> = Vec::with_capacity(1 << 20);
    while monotonic() < end && node.take(&keys, end) {
        let granted = monotonic();
        if !contend.stay.is_zero() && granted < end {
            stay(contend.stay);
        }
        let releasing = monotonic();
        node.give(&keys);
        holds.push([0, granted, releasing, monotonic()]);
    }
    let used = cpu() - used;
    let history = holds.iter().flatten().flat_map(|n| n.to_ne_bytes());
    std::fs::write(&contend.history, history.collect::<Vec<u8>>()).expect("the history is written");
    println!(
        "{{\"peer\": \"{}\", \"began\": {began}, \"ended\": {end}, \"cpu_ns\": {used}, \"failures\": 0, \"late\": 0}}",
        words.peer,
    );
    words.end();
}

#[allow(clippy::disallowed_methods)]
fn stay(long: Duration) {
    std::thread::sleep(long);
}

struct Keys([String; 3]);

impl Keys {
    fn of(name: &str) -> Keys {
        Keys(["", "#q:", "#r:"].map(|mark| format!("lock:{mark}{{{name}}}")))
    }
}

struct Node {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
    acquire: String,
    release: String,
    waiter: String,
    /// Another for each hold.
    token: String,
    holds: u64,
    /// A message has come.
    called: bool,
}

impl Node {
    fn connect(url: &str) -> Node {
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_nodelay(true).expect("an option of TCP");
        let inbox = format!("lock:#in:{:032x}", std::process::id());
        let mut node = Node {
            stream: BufReader::new(stream),
            out: Vec::new(),
            acquire: String::new(),
            release: String::new(),
            waiter: format!("1 {inbox}"),
            token: String::new(),
            holds: 0,
            called: false,
        };
        node.send(&["HELLO", "3"]);
        node.reply();
        node.send(&["SUBSCRIBE", &inbox]);
        while !std::mem::take(&mut node.called) {
            node.frame();
        }
        for script in [ACQUIRE, RELEASE] {
            node.send(&["SCRIPT", "LOAD", script]);
            let sha = node.reply();
            let known = [&mut node.acquire, &mut node.release];
            *known.into_iter().find(|k| k.is_empty()).expect("two") = sha;
        }
        node
    }

    /// Waits for the lock, and until `end` if it is not to be had.
    fn take(&mut self, keys: &Keys, end: u64) -> bool {
        let (script, waiter) = (self.acquire.clone(), self.waiter.clone());
        self.holds += 1;
        let token = format!("{:016x}{:024x}", std::process::id(), self.holds);
        self.token.clone_from(&token);
        loop {
            if self.script(&script, keys, &[&token, TTL_MS, WAITS, &waiter]) {
                self.called = false;
                return true;
            }
            let again = (monotonic() + POLL.as_nanos() as u64).min(end);
            while !self.called && monotonic() < again {
                self.wait(Duration::from_nanos(
                    again.saturating_sub(monotonic()).max(1_000),
                ));
            }
            self.called = false;
            if monotonic() >= end {
                self.let_go(keys, "");
                return false;
            }
        }
    }

    fn give(&mut self, keys: &Keys) {
        let token = self.token.clone();
        self.let_go(keys, &token);
    }

    /// Deletes the token, or without one leaves the queue.
    fn let_go(&mut self, keys: &Keys, token: &str) {
        let (script, waiter) = (self.release.clone(), self.waiter.clone());
        let waiter = if token.is_empty() { &*waiter } else { "" };
        self.script(&script, keys, &[token, waiter, RESERVATION_MS]);
    }

    /// Whether it answers with one, alone or at the head of a list.
    fn script(&mut self, sha: &str, keys: &Keys, own: &[&str]) -> bool {
        let [lock, queue, reservation] = keys.0.each_ref().map(String::as_str);
        self.send(&[&["EVALSHA", sha, "3", lock, queue, reservation], own].concat());
        self.reply() == "1"
    }

    fn send(&mut self, words: &[&str]) {
        command(&mut self.out, words);
        self.stream.get_mut().write_all(&self.out).expect("written");
        self.out.clear();
    }

    /// Reads messages until nothing comes for so long, or one has come.
    fn wait(&mut self, long: Duration) {
        let timeout = |node: &Node, long| {
            node.stream
                .get_ref()
                .set_read_timeout(long)
                .expect("an option")
        };
        timeout(self, Some(long));
        let ready = match self.stream.fill_buf() {
            Ok(there) => !there.is_empty(),
            Err(e) => {
                let none = matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(none, "{e}");
                false
            }
        };
        timeout(self, None);
        if ready {
            self.frame();
        }
    }

    /// The next reply, of a list the first word; messages before it are noted.
    fn reply(&mut self) -> String {
        loop {
            if let Some(reply) = self.frame() {
                return reply;
            }
        }
    }

    /// Reads a reply, or `None` for a message.
    fn frame(&mut self) -> Option<String> {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let many = || rest.parse::<i64>().expect("a length").max(0) as usize;
        match kind {
            "-" => panic!("{rest}"),
            "$" | "=" if rest != "-1" => {
                let mut text = vec![0; many() + 2];
                self.stream.read_exact(&mut text).expect("read");
                text.truncate(text.len() - 2);
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            "*" | ">" | "%" => {
                let words = many() * if kind == "%" { 2 } else { 1 };
                let all: Vec<_> = (0..words).filter_map(|_| self.frame()).collect();
                let first = all.into_iter().next();
                if kind == ">" {
                    self.called = true;
                    return None;
                }
                Some(first.unwrap_or_default())
            }
            _ => Some(rest.to_owned()),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).expect("read");
        assert!(read > 0, "the node is gone");
        line.truncate(line.trim_end().len());
        line
    }
}
