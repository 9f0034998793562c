//! The wire's floor: a hand-written client with `SET NX PX` and a
//! compare-and-delete script, nothing else. It writes to all nodes, then waits
//! with `poll` until a quorum has answered; later answers are read when they
//! come. With several workers it pipelines them over the same connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use crate::measure::{Meter, monotonic};
use crate::words::Words;

const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

struct Node {
    stream: TcpStream,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// For each request under way: its worker.
    asked: std::collections::VecDeque<usize>,
}

struct Worker {
    key: String,
    releasing: bool,
    answers: usize,
    begun: u64,
    /// Answers of the step before that may still come: they count for nothing.
    stale: Vec<usize>,
}

fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

pub(crate) fn run(words: &Words) {
    let mut nodes: Vec<Node> = words.nodes.iter().map(|url| connect(url)).collect();
    let shas: Vec<String> = nodes.iter_mut().map(load).collect();
    let sha = &shas[0];
    let quorum = nodes.len() / 2 + 1;
    let mut list: Vec<Worker> = (0..words.workers)
        .map(|i| Worker {
            key: format!("lock:{{bench-{i}}}"),
            releasing: false,
            answers: 0,
            begun: 0,
            stale: vec![0; nodes.len()],
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
        let times = cycles(&mut nodes, &mut list, sha, quorum, end);
        if !warm {
            meter.add(times, 0);
        }
    }
    println!("{}", meter.finish().json(&words.peer));
    words.end();
}

fn cycles(
    nodes: &mut [Node],
    workers: &mut [Worker],
    sha: &str,
    quorum: usize,
    end: u64,
) -> Vec<u64> {
    let mut times = Vec::with_capacity(1 << 18);
    let mut busy = 0;
    for (index, worker) in workers.iter_mut().enumerate() {
        worker.begun = monotonic();
        step(nodes, worker, index, sha);
        busy += 1;
    }
    flush(nodes);
    let mut fds: Vec<libc::pollfd> = nodes
        .iter()
        .map(|n| libc::pollfd {
            fd: n.stream.as_raw_fd(),
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
            for index in replies(&mut nodes[i]) {
                let worker = &mut workers[index];
                if worker.stale[i] > 0 {
                    worker.stale[i] -= 1;
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
                        worker.releasing = false;
                        worker.answers = usize::MAX / 2;
                        continue;
                    }
                }
                worker.releasing = !worker.releasing;
                next(nodes, workers, index, sha);
            }
        }
        flush(nodes);
    }
    drain(nodes);
    for worker in workers {
        worker.releasing = false;
        worker.answers = 0;
        worker.stale.fill(0);
    }
    times
}

/// Begins a worker's next step; what nodes still owe it is stale.
fn next(nodes: &mut [Node], workers: &mut [Worker], index: usize, sha: &str) {
    for (i, node) in nodes.iter().enumerate() {
        workers[index].stale[i] = node.asked.iter().filter(|w| **w == index).count();
    }
    step(nodes, &mut workers[index], index, sha);
}

fn step(nodes: &mut [Node], worker: &mut Worker, index: usize, sha: &str) {
    worker.answers = 0;
    for node in nodes {
        if worker.releasing {
            command(&mut node.out, &["EVALSHA", sha, "1", &worker.key, TOKEN]);
        } else {
            command(
                &mut node.out,
                &["SET", &worker.key, TOKEN, "NX", "PX", "30000"],
            );
        }
        node.asked.push_back(index);
    }
}

fn flush(nodes: &mut [Node]) {
    for node in nodes {
        if !node.out.is_empty() {
            node.stream.write_all(&node.out).expect("written");
            node.out.clear();
        }
    }
}

/// Reads what is there; the workers whose replies are complete. Every reply of
/// this protocol is one line.
fn replies(node: &mut Node) -> Vec<usize> {
    let mut chunk = [0; 16 * 1024];
    let read = node.stream.read(&mut chunk).expect("read");
    assert!(read > 0, "the node is gone");
    node.buffer.extend_from_slice(&chunk[..read]);
    let mut done = Vec::new();
    let mut from = 0;
    while let Some(length) = node.buffer[from..].windows(2).position(|w| w == b"\r\n") {
        let line = &node.buffer[from..from + length];
        assert!(line[0] != b'-', "{}", String::from_utf8_lossy(line));
        from += length + 2;
        done.push(node.asked.pop_front().expect("a request for each reply"));
    }
    node.buffer.drain(..from);
    done
}

fn drain(nodes: &mut [Node]) {
    for node in nodes {
        while !node.asked.is_empty() {
            replies(node);
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
    }
}

fn load(node: &mut Node) -> String {
    command(&mut node.out, &["SCRIPT", "LOAD", DELETE]);
    node.stream.write_all(&node.out).expect("written");
    node.out.clear();
    let mut chunk = [0; 256];
    let read = node.stream.read(&mut chunk).expect("read");
    let text = String::from_utf8_lossy(&chunk[..read]).into_owned();
    text.split("\r\n").nth(1).expect("a hash").to_owned()
}
