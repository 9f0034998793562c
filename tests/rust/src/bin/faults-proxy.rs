//! A TCP proxy that fails on demand, in front of several servers:
//! `faults-proxy SEED BACKEND-PORT...`. It prints `ports P1 P2 ...`, one for
//! each server, then obeys lines on stdin, answers each with `ok` or `error: WHY`,
//! and ends with its input. NODE is a number from 1, or `all`; WAY is
//! `requests`, `replies` or `both`.
//!
//! | line | from now on |
//! |---|---|
//! | `NODE delay MS MS JITTER` | requests and replies are late by so much, and by a random part of JITTER |
//! | `NODE hold WAY` | bytes stay here, to arrive after `heal` |
//! | `NODE drop WAY` | bytes vanish; connections that lost some are reset by `heal` |
//! | `NODE reset` | every connection is reset, on both sides |
//! | `NODE half-open` | connections are silent for good; new ones, until `heal`, are never answered |
//! | `NODE cut WAY BYTES` | each connection is closed after this many further bytes |
//! | `NODE split WAY` | each connection is closed within the next chunk of several commands (replies), between two of them |
//! | `NODE backend PORT [move]` | new connections go there; with `move` quiet ones too, and others are reset |
//! | `NODE heal` | all of this is over, the backend excepted |
//! | `NODE show` | answers `ok CONNECTIONS` |

// The proxy is a tool of real time; the seams of the core are not for it.
#![allow(clippy::disallowed_methods)]

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use quorlock_tests::boundaries::Boundaries;

const REQUESTS: usize = 0;
const REPLIES: usize = 1;
/// A connection whose last bytes were a reply, so long ago, awaits nothing.
const QUIET: Duration = Duration::from_millis(20);
/// Chunks on their way in one direction of one connection.
const IN_TRANSIT: usize = 4096;

/// What happens to bytes that go one way.
#[derive(Clone, Copy, Default)]
struct Way {
    delay: Duration,
    jitter: Duration,
    hold: bool,
    drop: bool,
}

struct Node {
    backend: Cell<u16>,
    ways: [Cell<Way>; 2],
    half_open: Cell<bool>,
    connections: RefCell<Vec<Rc<Connection>>>,
    random: Cell<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Run,
    /// Silent for good.
    Mute,
    /// On to the node's present backend.
    Move,
    Close,
    Reset,
}

struct Connection {
    order: Cell<Order>,
    /// Something here or at the node has changed.
    changed: Notify,
    /// How many bytes may still pass.
    budgets: [Cell<Option<usize>>; 2],
    /// Whether to close it between two commands that came as one.
    split: [Cell<bool>; 2],
    lost_bytes: Cell<bool>,
    last: Cell<(usize, Instant)>,
}

impl Node {
    fn new(backend: u16, seed: u64) -> Node {
        Node {
            backend: Cell::new(backend),
            ways: Default::default(),
            half_open: Cell::new(false),
            connections: RefCell::default(),
            random: Cell::new(seed),
        }
    }

    /// SplitMix64.
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn lateness(&self, way: usize) -> Duration {
        let Way { delay, jitter, .. } = self.ways[way].get();
        let part = (self.random() % 1000) as u32;
        delay + jitter * part / 1000
    }

    fn change(&self, ways: &[usize], change: impl Fn(&mut Way)) {
        for way in ways {
            let mut changed = self.ways[*way].get();
            change(&mut changed);
            self.ways[*way].set(changed);
        }
        self.wake();
    }

    fn order(&self, choose: impl Fn(&Connection) -> Order) {
        for connection in self.connections.borrow().iter() {
            connection.order.set(choose(connection));
        }
        self.wake();
    }

    fn wake(&self) {
        for connection in self.connections.borrow().iter() {
            connection.changed.notify_waiters();
        }
    }

    fn obey(&self, words: &[&str]) -> Result<String, String> {
        let number = |at: usize| -> Result<u64, String> {
            let word = words.get(at).ok_or("a number is missing")?;
            word.parse().map_err(|_| format!("{word} is no number"))
        };
        match words[0] {
            "delay" => {
                let jitter = Duration::from_millis(number(3)?);
                for (way, at) in [(REQUESTS, 1), (REPLIES, 2)] {
                    let delay = Duration::from_millis(number(at)?);
                    self.change(&[way], |w| (w.delay, w.jitter) = (delay, jitter));
                }
            }
            "hold" => self.change(ways(words)?, |way| way.hold = true),
            "drop" => self.change(ways(words)?, |way| way.drop = true),
            "reset" => self.order(|_| Order::Reset),
            "half-open" => {
                self.half_open.set(true);
                self.order(|_| Order::Mute);
            }
            "cut" => {
                let bytes = number(2)? as usize;
                for way in ways(words)? {
                    for connection in self.connections.borrow().iter() {
                        connection.budgets[*way].set(Some(bytes));
                    }
                }
            }
            "split" => {
                for way in ways(words)? {
                    for connection in self.connections.borrow().iter() {
                        connection.split[*way].set(true);
                    }
                }
            }
            "backend" => {
                let port = number(1)?.try_into().map_err(|_| "no such port")?;
                self.backend.set(port);
                if words.get(2) == Some(&"move") {
                    self.order(|connection| {
                        let (way, at) = connection.last.get();
                        if way == REPLIES && at.elapsed() >= QUIET {
                            Order::Move
                        } else {
                            Order::Reset
                        }
                    });
                }
            }
            "heal" => {
                self.half_open.set(false);
                for connection in self.connections.borrow().iter() {
                    connection.budgets.iter().for_each(|b| b.set(None));
                    connection.split.iter().for_each(|split| split.set(false));
                }
                self.order(|connection| {
                    if connection.lost_bytes.get() {
                        Order::Reset
                    } else {
                        connection.order.get()
                    }
                });
                self.change(&[REQUESTS, REPLIES], |way| *way = Way::default());
            }
            "show" => return Ok(format!("ok {}", self.connections.borrow().len())),
            other => return Err(format!("no command {other}")),
        }
        Ok("ok".into())
    }
}

fn ways<'a>(words: &[&str]) -> Result<&'a [usize], String> {
    match words.get(1).copied() {
        Some("requests") => Ok(&[REQUESTS]),
        Some("replies") => Ok(&[REPLIES]),
        Some("both") => Ok(&[REQUESTS, REPLIES]),
        _ => Err("give requests, replies or both".into()),
    }
}

impl Connection {
    fn new(order: Order) -> Connection {
        Connection {
            order: Cell::new(order),
            changed: Notify::new(),
            budgets: Default::default(),
            split: Default::default(),
            lost_bytes: Cell::new(false),
            last: Cell::new((REQUESTS, Instant::now())),
        }
    }

    /// Waits for an order other than to run.
    async fn ordered(&self) -> Order {
        loop {
            let changed = self.changed.notified();
            if self.order.get() != Order::Run {
                return self.order.get();
            }
            changed.await;
        }
    }

    /// One direction, from the end of one stream to the end of the other.
    async fn pump(&self, node: &Node, way: usize, from: ReadHalf<'_>, to: WriteHalf<'_>) -> Order {
        let (sender, receiver) = mpsc::channel(IN_TRANSIT);
        let read = async {
            let mut from = from;
            let mut buffer = vec![0; 16 * 1024];
            loop {
                let Ok(size) = from.read(&mut buffer).await else {
                    return Order::Reset;
                };
                if size == 0 {
                    break;
                }
                self.last.set((way, Instant::now()));
                let due = Instant::now() + node.lateness(way);
                let _ = sender.send((due, buffer[..size].to_vec())).await;
            }
            drop(sender);
            // The other half of the work finishes what is under way.
            std::future::pending().await
        };
        tokio::select! {
            order = read => order,
            order = self.write(node, way, receiver, to) => order,
        }
    }

    async fn write(
        &self,
        node: &Node,
        way: usize,
        mut from: mpsc::Receiver<(Instant, Vec<u8>)>,
        mut to: WriteHalf<'_>,
    ) -> Order {
        let mut boundaries = Boundaries::default();
        while let Some((due, mut bytes)) = from.recv().await {
            let mut ends = boundaries.read(&bytes);
            sleep_until(due).await;
            loop {
                let changed = self.changed.notified();
                if !node.ways[way].get().hold {
                    break;
                }
                changed.await;
            }
            if node.ways[way].get().drop {
                self.lost_bytes.set(true);
                continue;
            }
            ends.retain(|end| *end < bytes.len());
            if self.split[way].get() && !ends.is_empty() {
                let among = node.random() as usize % ends.len();
                self.budgets[way].set(Some(ends[among]));
            }
            let budget = self.budgets[way].get();
            let spent = budget.is_some_and(|budget| budget <= bytes.len());
            if let Some(budget) = budget {
                bytes.truncate(budget);
                self.budgets[way].set(Some(budget - bytes.len()));
            }
            if to.write_all(&bytes).await.is_err() {
                return Order::Reset;
            }
            if spent {
                return Order::Close;
            }
        }
        // The end of this way only: the other may have something to say yet.
        let _ = to.shutdown().await;
        Order::Run
    }

    async fn serve(&self, node: &Node, mut client: TcpStream) {
        let mut server = None;
        let end = loop {
            match self.order.get() {
                Order::Mute => break self.mute(&mut client).await,
                order @ (Order::Close | Order::Reset) => break order,
                Order::Move => self.order.set(Order::Run),
                Order::Run => {}
            }
            let Ok(mut backend) = TcpStream::connect(("127.0.0.1", node.backend.get())).await
            else {
                break Order::Reset;
            };
            let _ = backend.set_nodelay(true);
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = backend.split();
            let both = async {
                let requests = self.pump(node, REQUESTS, from_client, to_server);
                let replies = self.pump(node, REPLIES, from_server, to_client);
                tokio::pin!(requests, replies);
                let first = tokio::select! { order = &mut requests => order, order = &mut replies => return order };
                match first {
                    Order::Run => replies.await,
                    order => order,
                }
            };
            let order = tokio::select! { order = both => order, order = self.ordered() => order };
            // A server that is left for another is closed here; else it shares its client's end.
            server = (order != Order::Move).then_some(backend);
            if !matches!(order, Order::Move | Order::Mute) {
                break order;
            }
        };
        if end == Order::Reset {
            let _ = client.set_zero_linger();
            let _ = server.map(|server| server.set_zero_linger());
        }
    }

    /// Takes what comes and does nothing, until the client gives up.
    async fn mute(&self, client: &mut TcpStream) -> Order {
        let mut buffer = vec![0; 4096];
        loop {
            let changed = self.changed.notified();
            if self.order.get() == Order::Reset {
                return Order::Reset;
            }
            tokio::select! {
                size = client.read(&mut buffer) => if !matches!(size, Ok(1..)) { return Order::Close },
                () = changed => {}
            }
        }
    }
}

async fn accept(listener: TcpListener, node: Rc<Node>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let _ = client.set_nodelay(true);
        let node = node.clone();
        let order = if node.half_open.get() {
            Order::Mute
        } else {
            Order::Run
        };
        let connection = Rc::new(Connection::new(order));
        node.connections.borrow_mut().push(connection.clone());
        tokio::task::spawn_local(async move {
            connection.serve(&node, client).await;
            node.connections
                .borrow_mut()
                .retain(|other| !Rc::ptr_eq(other, &connection));
        });
    }
}

fn obey(nodes: &[Rc<Node>], line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (Some(whom), true) = (words.first(), words.len() > 1) else {
        return Err("give NODE and a command".into());
    };
    if *whom == "all" {
        let answers: Result<Vec<_>, _> = nodes.iter().map(|node| node.obey(&words[1..])).collect();
        return answers.map(|answers| answers.last().cloned().unwrap_or_default());
    }
    let index = whom.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let node = index.and_then(|index| nodes.get(index));
    node.ok_or(format!("no node {whom}"))?.obey(&words[1..])
}

async fn run(seed: u64, backends: Vec<u16>) -> io::Result<()> {
    let mut nodes = Vec::new();
    let mut ports = String::from("ports");
    for (index, backend) in backends.into_iter().enumerate() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        ports += &format!(" {}", listener.local_addr()?.port());
        nodes.push(Rc::new(Node::new(backend, seed ^ (index as u64) << 32)));
        tokio::task::spawn_local(accept(listener, nodes[index].clone()));
    }
    println!("{ports}");
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    while let Some(line) = lines.recv().await {
        let answer = obey(&nodes, &line).unwrap_or_else(|why| format!("error: {why}"));
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|a| a.parse().ok()).collect();
    let Some([seed, ports @ ..]) = numbers.as_deref() else {
        eprintln!("usage: faults-proxy SEED BACKEND-PORT...");
        std::process::exit(2);
    };
    let backends = ports.iter().map(|port| *port as u16).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, run(*seed, backends))
}
