//! The wire's floor: a hand-written client with `SET NX PX` and a
//! compare-and-delete script, nothing else; or with Quorlock's own scripts
//! (`raw-scripts`), which is the floor of what Quorlock promises. It writes to all
//! nodes, then waits with `poll` until a quorum has answered; later answers are
//! read when they come. With several workers it pipelines them over the same
//! connections. A node that breaks its connection is left out.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::measure::{Meter, monotonic};
use crate::words::Words;

const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
pub(crate) const ACQUIRE: &str = concat!(
    include_str!("../../../../core/src/node/redis/lua/line.lua"),
    include_str!("../../../../core/src/node/redis/lua/acquire.lua")
);
pub(crate) const RELEASE: &str = concat!(
    include_str!("../../../../core/src/node/redis/lua/line.lua"),
    include_str!("../../../../core/src/node/redis/lua/release.lua")
);
const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";
const WAITER: &str = "1 lock:#in:0123456789abcdef0123456789abcdef";
const RECORD: &str = "1 0123456789abcdef0123456789abcdef 30000";
const RECORD_KEY: &str = "lock:#raw:record";
const QUARANTINE_KEY: &str = "lock:#raw:quarantine";

/// How a worker asks for its lock, and gives it back.
#[derive(Clone, Copy, PartialEq)]
enum Protocol {
    /// What peers do.
    Bare,
    /// Quorlock's scripts without fences and guard.
    Plain,
    /// Quorlock's scripts as on its defaults.
    Default,
}

/// What is sent for a cycle.
struct Cycle {
    protocol: Protocol,
    acquire: String,
    release: String,
}

struct Node {
    stream: TcpStream,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// For each request under way: its worker, and which step of the worker's.
    asked: std::collections::VecDeque<(usize, u64)>,
    /// The connection is broken: it is asked no more.
    gone: bool,
}

struct Worker {
    key: String,
    queue: String,
    reservation: String,
    counter: String,
    releasing: bool,
    /// Counts requests and releases. Answers to an earlier one count for nothing.
    step: u64,
    answers: usize,
    begun: u64,
}

/// Appends a command.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

pub(crate) fn run(words: &Words) {
    let protocol = match (&*words.peer, &*words.settings) {
        ("raw", _) => Protocol::Bare,
        (_, "plain") => Protocol::Plain,
        _ => Protocol::Default,
    };
    let mut nodes: Vec<Node> = words.nodes.iter().map(|url| connect(url)).collect();
    let scripts = match protocol {
        Protocol::Bare => [DELETE, DELETE],
        _ => [ACQUIRE, RELEASE],
    };
    let mut cycle = Cycle {
        protocol,
        acquire: String::new(),
        release: String::new(),
    };
    for node in &mut nodes {
        let [acquire, release] = scripts.map(|text| load(node, text));
        (cycle.acquire, cycle.release) = (acquire, release);
        ask(node, &["SET", RECORD_KEY, RECORD]);
        let free = node.stream.set_nonblocking(true);
        free.expect("an option of the socket");
    }
    let quorum = nodes.len() / 2 + 1;
    let mut list: Vec<Worker> = (0..words.workers)
        .map(|i| Worker {
            key: format!("lock:{{bench-{i}}}"),
            queue: format!("lock:#q:{{bench-{i}}}"),
            reservation: format!("lock:#r:{{bench-{i}}}"),
            counter: format!("lock:#f:{{bench-{i}}}"),
            releasing: false,
            step: 0,
            answers: 0,
            begun: 0,
        })
        .collect();
    let mut meter = Meter::default();
    for warm in [true, false] {
        if !warm {
            words.ready();
        }
        meter.start();
        let end = monotonic()
            + if warm {
                50_000_000
            } else {
                (words.seconds * 1e9) as u64
            };
        let times = cycles(&mut nodes, &mut list, &cycle, quorum, end);
        if warm {
            drain(&mut nodes);
        } else {
            meter.add(times, 0);
        }
    }
    println!("{}", meter.finish().json(&words.peer));
    words.end();
}

fn cycles(
    nodes: &mut [Node],
    workers: &mut [Worker],
    cycle: &Cycle,
    quorum: usize,
    end: u64,
) -> Vec<u64> {
    let mut times = Vec::with_capacity(1 << 18);
    let mut busy = 0;
    for (index, worker) in workers.iter_mut().enumerate() {
        worker.begun = monotonic();
        step(nodes, worker, index, cycle);
        busy += 1;
    }
    flush(nodes);
    let open = |n: &Node| if n.gone { -1 } else { n.stream.as_raw_fd() };
    let mut fds: Vec<libc::pollfd> = nodes
        .iter()
        .map(|n| libc::pollfd {
            fd: open(n),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    while busy > 0 {
        // SAFETY: `fds` is an array of that many pollfds.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
        for i in 0..nodes.len() {
            if fds[i].revents == 0 {
                continue;
            }
            let answered = replies(&mut nodes[i]);
            fds[i].fd = open(&nodes[i]);
            for (index, asked) in answered {
                let worker = &mut workers[index];
                if worker.step != asked {
                    continue;
                }
                worker.answers += 1;
                if worker.answers < quorum {
                    continue;
                }
                if worker.releasing {
                    times.push(monotonic() - worker.begun);
                    worker.begun = monotonic();
                    if worker.begun >= end {
                        busy -= 1;
                        worker.step += 1;
                        worker.releasing = false;
                        continue;
                    }
                }
                worker.releasing = !worker.releasing;
                step(nodes, worker, index, cycle);
            }
        }
        flush(nodes);
    }
    times
}

/// Begins a worker's next step.
fn step(nodes: &mut [Node], worker: &mut Worker, index: usize, cycle: &Cycle) {
    worker.answers = 0;
    worker.step += 1;
    for node in nodes.iter_mut().filter(|node| !node.gone) {
        cycle.write(&mut node.out, worker);
        node.asked.push_back((index, worker.step));
    }
}

impl Cycle {
    fn write(&self, out: &mut Vec<u8>, worker: &Worker) {
        let (protocol, lock) = (self.protocol, &*worker.key);
        let (queue, reservation) = (&*worker.queue, &*worker.reservation);
        if worker.releasing {
            let keys: &[&str] = &[lock, queue, reservation, RECORD_KEY, QUARANTINE_KEY];
            let own: &[&str] = &[TOKEN, "", "200", RECORD];
            let (keys, own) = match protocol {
                Protocol::Bare => (&keys[..1], &own[..1]),
                Protocol::Plain => (&keys[..3], &own[..3]),
                Protocol::Default => (keys, own),
            };
            return script(out, &self.release, keys, own);
        }
        let waiting = [TOKEN, "30000", "200 7200 10000", WAITER];
        match protocol {
            Protocol::Bare => command(out, &["SET", lock, TOKEN, "NX", "PX", "30000"]),
            Protocol::Plain => script(out, &self.acquire, &[lock, queue, reservation], &waiting),
            Protocol::Default => {
                let now = micros();
                let (late, fence) = ((now + 1_000_000).to_string(), now.to_string());
                let counter = &*worker.counter;
                let keys = [
                    lock,
                    queue,
                    reservation,
                    counter,
                    RECORD_KEY,
                    QUARANTINE_KEY,
                ];
                let own = [&waiting[..], &[RECORD, &late, &fence, "600000"]].concat();
                script(out, &self.acquire, &keys, &own);
            }
        }
    }
}

fn script(out: &mut Vec<u8>, sha: &str, keys: &[&str], own: &[&str]) {
    let count = keys.len().to_string();
    command(out, &[&["EVALSHA", sha, &count], keys, own].concat());
}

/// The servers are on this machine: their clock is ours.
#[allow(clippy::disallowed_methods)]
fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_micros() as u64
}

/// Writes what a node takes; one that hangs takes no more after a while.
fn flush(nodes: &mut [Node]) {
    for node in nodes {
        while !node.out.is_empty() {
            match node.stream.write(&node.out) {
                Ok(written) => drop(node.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    node.gone = true;
                    node.out.clear();
                }
            }
        }
    }
}

/// Reads what is there; whose replies are complete.
fn replies(node: &mut Node) -> Vec<(usize, u64)> {
    let mut chunk = [0; 16 * 1024];
    match node.stream.read(&mut chunk) {
        Ok(read) if read > 0 => node.buffer.extend_from_slice(&chunk[..read]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        _ => node.gone = true,
    }
    let mut done = Vec::new();
    let mut from = 0;
    while let Some(length) = reply(&node.buffer[from..]) {
        from += length;
        done.push(node.asked.pop_front().expect("a request for each reply"));
    }
    node.buffer.drain(..from);
    done
}

/// The length of the reply at the start, if all of it has come.
fn reply(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|w| w == b"\r\n")?;
    let text = || String::from_utf8_lossy(&bytes[1..line]);
    let count = || text().parse::<usize>().expect("a length");
    let head = line + 2;
    match bytes[0] {
        b'-' => panic!("{}", text()),
        b'$' => Some(head + count() + 2).filter(|end| *end <= bytes.len()),
        b'*' => (0..count()).try_fold(head, |end, _| Some(end + reply(&bytes[end..])?)),
        _ => Some(head),
    }
}

/// Reads what the nodes still owe; all of them are well.
fn drain(nodes: &mut [Node]) {
    for node in nodes {
        while !node.asked.is_empty() && !node.gone {
            replies(node);
            std::thread::yield_now();
        }
    }
}

fn connect(url: &str) -> Node {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_nodelay(true).expect("an option of TCP");
    Node {
        stream,
        buffer: Vec::new(),
        out: Vec::new(),
        asked: std::collections::VecDeque::new(),
        gone: false,
    }
}

fn load(node: &mut Node, script: &str) -> String {
    let reply = ask(node, &["SCRIPT", "LOAD", script]);
    reply.split("\r\n").nth(1).expect("a hash").to_owned()
}

fn ask(node: &mut Node, words: &[&str]) -> String {
    command(&mut node.out, words);
    node.stream.write_all(&node.out).expect("written");
    node.out.clear();
    let mut chunk = [0; 256];
    let read = node.stream.read(&mut chunk).expect("read");
    String::from_utf8_lossy(&chunk[..read]).into_owned()
}
