//! The wire's floor: a hand-written client that writes, reads and decides nothing.
//! As `raw` it does what peers do, `SET NX PX` and a compare-and-delete script. As
//! `raw-native` it sends what Quorlock sends while nobody contends: the floor of what
//! Quorlock promises. It writes to all nodes, then waits with `poll` until a quorum has
//! answered, as `raw-native` also until the lock's home has; later answers are read when they come. A home
//! that keeps it waiting is not waited for again until it answers sooner. With several workers it pipelines
//! them over the same connections. A node that breaks its connection is left out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::measure::{Meter, monotonic};
use crate::words::{Words, cold_name};

const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// The script by which Quorlock releases the locks of one write.
const DELETES: &str = include_str!("../../../../core/src/node/redis/lua/lean.lua");
/// So many at most.
const TOGETHER: usize = 16;
const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";
/// The token, and behind the dot no label.
const VALUE: &str = "0123456789abcdef0123456789abcdef01234567.";
const RECORD: &str = "1 0123456789abcdef0123456789abcdef 30000";
const RECORD_KEY: &str = "lock:#raw:record";
const QUARANTINE_KEY: &str = "lock:#raw:quarantine";
const SCRATCH_KEY: &str = "lock:#raw:scratch";
/// 1.25 times the life of a counter on defaults, in ms.
const COUNTER_LIFE: &str = "750000";

/// How long a home is waited for, in ms.
const HOME_WAIT: libc::c_int = 5;

/// What a cycle sends.
#[derive(Clone, Copy, PartialEq)]
enum Protocol {
    /// What peers send.
    Bare,
    /// Quorlock's commands without fences and guard.
    Plain,
    /// Quorlock's commands on its defaults.
    Default,
}

/// How a worker asks for its lock, and gives it back.
#[derive(Clone, Copy)]
struct Way {
    protocol: Protocol,
    /// The name was not used lately: its counter's life is set anew, each time.
    cold: bool,
}

impl Way {
    fn of(words: &Words) -> Way {
        let protocol = match (&*words.peer, &*words.settings) {
            ("raw", _) => Protocol::Bare,
            (_, "plain") => Protocol::Plain,
            _ => Protocol::Default,
        };
        let cold = words.settings == "cold";
        Way { protocol, cold }
    }
}

/// How a node deletes by value.
#[derive(Clone)]
enum Delete {
    /// `DELIFEQ`, of Valkey 9.
    IfEqual,
    /// `DELEX … IFEQ`, of Redis 8.4.
    Ex,
    /// By the script of this hash, one lock at a time.
    Script(String),
    /// By the script of this hash, all locks of a write at once.
    Scripts(String),
}

/// Replies that a node owes.
struct Owed {
    replies: usize,
    /// The worker and which step of it they answer; of the trailer of a write none.
    step: Option<(usize, u64)>,
    /// They count from the trailer on.
    votes: bool,
    /// The steps that they answer, of releases that were written at once.
    released: Vec<(usize, u64)>,
}

struct Node {
    stream: TcpStream,
    buffer: Vec<u8>,
    out: Vec<u8>,
    delete: Delete,
    owed: VecDeque<Owed>,
    /// Votes that wait for their trailer.
    votes: Vec<(usize, u64)>,
    /// What is to be written asks for votes.
    asks: bool,
    /// Locks that are to be released at once, and the steps for that.
    deletes: Vec<String>,
    released: Vec<(usize, u64)>,
    /// The connection is broken: it is asked no more.
    gone: bool,
    /// As a home it was waited for in vain.
    late: bool,
}

struct Worker {
    key: String,
    counter: String,
    releasing: bool,
    /// Counts requests and releases. Answers to an earlier one count for nothing.
    step: u64,
    answers: usize,
    /// Whether its home has answered, or is not waited for: Quorlock decides behind that alone.
    home_answered: bool,
    begun: u64,
}

impl Worker {
    fn name(&mut self, name: &str) {
        self.key = format!("lock:{{{name}}}");
        self.counter = format!("lock:#f:{{{name}}}");
    }
}

/// Appends a command.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

pub(crate) fn run(words: &Words) {
    let way = Way::of(words);
    let mut nodes: Vec<Node> = words.nodes.iter().map(|url| connect(url)).collect();
    for node in &mut nodes {
        node.delete = delete(node, way.protocol);
        ask(node, &["SET", RECORD_KEY, RECORD]);
        let free = node.stream.set_nonblocking(true);
        free.expect("an option of the socket");
    }
    let quorum = nodes.len() / 2 + 1;
    let mut list: Vec<Worker> = (0..words.workers)
        .map(|i| {
            let mut worker = Worker {
                key: String::new(),
                counter: String::new(),
                releasing: false,
                step: 0,
                answers: 0,
                home_answered: false,
                begun: 0,
            };
            worker.name(&format!("bench-{i}"));
            worker
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
        let times = cycles(&mut nodes, &mut list, way, quorum, end);
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
    way: Way,
    quorum: usize,
    end: u64,
) -> Vec<u64> {
    let mut times = Vec::with_capacity(1 << 18);
    let mut busy = 0;
    for (index, worker) in workers.iter_mut().enumerate() {
        worker.begun = monotonic();
        step(nodes, worker, index, way);
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
        let waits = workers
            .iter()
            .any(|w| w.answers >= quorum && !w.home_answered);
        let longest = if waits { HOME_WAIT } else { -1 };
        // SAFETY: `fds` is an array of that many pollfds.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, longest) };
        if ready == 0 {
            for index in 0..workers.len() {
                let worker = &mut workers[index];
                if worker.answers >= quorum && !worker.home_answered {
                    nodes[index % nodes.len()].late = true;
                    worker.home_answered = true;
                    worker.releasing = true;
                    step(nodes, worker, index, way);
                }
            }
        }
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
                nodes[i].late = false;
                worker.home_answered |= index % nodes.len() == i;
                if worker.answers < quorum || !worker.home_answered {
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
                step(nodes, worker, index, way);
            }
        }
        flush(nodes);
    }
    times
}

/// Begins a worker's next step.
fn step(nodes: &mut [Node], worker: &mut Worker, index: usize, way: Way) {
    worker.answers = 0;
    let home = &nodes[index % nodes.len()];
    let votes = way.protocol != Protocol::Bare && !worker.releasing;
    worker.home_answered = !votes || home.gone || home.late;
    worker.step += 1;
    if way.cold && !worker.releasing {
        // Each step but one is a cycle's other half.
        worker.name(&cold_name(index, worker.step as usize / 2));
    }
    let now = micros();
    for node in nodes.iter_mut().filter(|node| !node.gone) {
        if let (true, Delete::Scripts(_)) = (worker.releasing, &node.delete) {
            node.deletes.push(worker.key.clone());
            node.released.push((index, worker.step));
            continue;
        }
        let replies = if worker.releasing {
            release(node, worker, way.protocol);
            1
        } else {
            acquire(&mut node.out, worker, way, now)
        };
        let votes = !worker.releasing && way.protocol == Protocol::Default;
        node.asks |= votes;
        node.owed.push_back(Owed {
            replies,
            step: Some((index, worker.step)),
            votes,
            released: Vec::new(),
        });
    }
}

/// Asks for the lock; how many replies that has.
fn acquire(out: &mut Vec<u8>, worker: &Worker, way: Way, now: u64) -> usize {
    let (lock, counter) = (&*worker.key, &*worker.counter);
    match way.protocol {
        Protocol::Bare => command(out, &["SET", lock, TOKEN, "NX", "PX", "30000"]),
        Protocol::Plain => command(out, &["SET", lock, VALUE, "NX", "PX", "30000"]),
        Protocol::Default => {
            let (end, fence) = ((now / 1000 + 30_005).to_string(), now.to_string());
            command(out, &["SET", lock, VALUE, "NX", "PXAT", &end]);
            command(out, &["ZADD", counter, "GT", "CH", &fence, "f"]);
            if way.cold {
                command(out, &["PEXPIRE", counter, COUNTER_LIFE]);
                return 3;
            }
            return 2;
        }
    }
    1
}

fn release(node: &mut Node, worker: &Worker, protocol: Protocol) {
    let lock = &*worker.key;
    let value = if protocol == Protocol::Bare {
        TOKEN
    } else {
        VALUE
    };
    match &node.delete {
        Delete::IfEqual => command(&mut node.out, &["DELIFEQ", lock, value]),
        Delete::Ex => command(&mut node.out, &["DELEX", lock, "IFEQ", value]),
        Delete::Script(hash) | Delete::Scripts(hash) => {
            command(&mut node.out, &["EVALSHA", hash, "1", lock, value]);
        }
    }
}

/// How this node deletes by value: Quorlock takes the command where there is one.
fn delete(node: &mut Node, protocol: Protocol) -> Delete {
    if protocol != Protocol::Bare {
        if ask(node, &["DELIFEQ", SCRATCH_KEY, "-"]).starts_with(':') {
            return Delete::IfEqual;
        }
        if ask(node, &["DELEX", SCRATCH_KEY, "IFEQ", "-"]).starts_with(':') {
            return Delete::Ex;
        }
    }
    let bare = protocol == Protocol::Bare;
    let reply = ask(
        node,
        &["SCRIPT", "LOAD", if bare { DELETE } else { DELETES }],
    );
    let hash = reply.split("\r\n").nth(1).expect("a hash").to_owned();
    if bare {
        Delete::Script(hash)
    } else {
        Delete::Scripts(hash)
    }
}

/// The servers are on this machine: their clock is ours.
#[allow(clippy::disallowed_methods)]
fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_micros() as u64
}

/// Writes what a node takes; one that hangs takes no more after a while. Behind votes
/// comes once the trailer that makes them count.
fn flush(nodes: &mut [Node]) {
    for node in nodes {
        while let (Delete::Scripts(hash), false) = (&node.delete, node.deletes.is_empty()) {
            let together = node.deletes.len().min(TOGETHER);
            let many = together.to_string();
            let locks: Vec<String> = node.deletes.drain(..together).collect();
            let mut words = vec!["EVALSHA", hash, &many];
            words.extend(locks.iter().map(String::as_str));
            words.extend(locks.iter().map(|_| VALUE));
            command(&mut node.out, &words);
            node.owed.push_back(Owed {
                replies: 1,
                step: None,
                votes: false,
                released: node.released.drain(..together).collect(),
            });
        }
        if std::mem::take(&mut node.asks) {
            command(&mut node.out, &["MGET", RECORD_KEY, QUARANTINE_KEY]);
            command(&mut node.out, &["TIME"]);
            node.owed.push_back(Owed {
                replies: 2,
                step: None,
                votes: false,
                released: Vec::new(),
            });
        }
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

/// Reads what is there; which steps are answered by it.
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
        // Only `SET NX` answers with nothing.
        let free = !node.buffer[from..].starts_with(b"$-1");
        assert!(free, "a lock that nobody else asks for is taken");
        from += length;
        let first = node.owed.front_mut().expect("a request for each reply");
        first.replies -= 1;
        if first.replies > 0 {
            continue;
        }
        match (first.step, first.votes) {
            (Some(step), true) => node.votes.push(step),
            (Some(step), false) => done.push(step),
            (None, _) if first.released.is_empty() => done.append(&mut node.votes),
            (None, _) => done.append(&mut first.released),
        }
        node.owed.pop_front();
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
        b'$' if bytes[1] == b'-' => Some(head),
        b'-' => panic!("{}", text()),
        b'$' => Some(head + count() + 2).filter(|end| *end <= bytes.len()),
        b'*' => (0..count()).try_fold(head, |end, _| Some(end + reply(&bytes[end..])?)),
        _ => Some(head),
    }
}

/// Reads what the nodes still owe; all of them are well.
fn drain(nodes: &mut [Node]) {
    for node in nodes {
        while !node.owed.is_empty() && !node.gone {
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
        delete: Delete::IfEqual,
        owed: VecDeque::new(),
        votes: Vec::new(),
        asks: false,
        deletes: Vec::new(),
        released: Vec::new(),
        gone: false,
        late: false,
    }
}

fn ask(node: &mut Node, words: &[&str]) -> String {
    command(&mut node.out, words);
    node.stream.write_all(&node.out).expect("written");
    node.out.clear();
    let mut chunk = [0; 256];
    let read = node.stream.read(&mut chunk).expect("read");
    String::from_utf8_lossy(&chunk[..read]).into_owned()
}
