//! Virtual time, an executor, nodes, and the network between.
//!
//! One thread, one heap of events. True time is a number of nanoseconds; every
//! client and every node has a clock of its own that runs at its own rate. A
//! connection is first in, first out in both directions; what one connection
//! delivers says nothing about another.

mod network;
mod oracle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

use quorlock::sim::{Clock, Fault, FaultKind, Instant, Link, MemoryNode, Reply, Request, Sleep};

use crate::random::Random;
use network::{Connection, Pair, SimLink};
use oracle::Life;
pub use oracle::{Watch, Watched};

/// True time in nanoseconds.
pub type Time = u64;

/// A millisecond in nanoseconds.
pub const MS: Time = 1_000_000;

/// How long a release waits for its acknowledgement before the connection is
/// replaced once more.
pub const RECONNECT: Time = 15 * MS;
/// No schedule needs more events: something goes round in circles.
const EVENTS_BOUND: u64 = 20_000;

/// A clock that runs at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// What it shows at true time zero.
    pub offset: u64,
    /// Local nanoseconds for a true one.
    pub rate: f64,
}

impl Rate {
    /// What the clock shows at `time`.
    pub fn local(&self, time: Time) -> Instant {
        Instant(self.offset + (time as f64 * self.rate) as u64)
    }

    /// The first true time at which it shows `at` or more.
    fn time(&self, at: Instant) -> Time {
        let time = (at.0.saturating_sub(self.offset) as f64 / self.rate) as u64;
        time.saturating_add(1)
    }
}

/// How the network behaves in a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Shortest time one way.
    pub base: Time,
    /// Percent of messages that take long.
    pub slow: u64,
    /// The longest such time.
    pub tail: Time,
    /// Percent of messages that break their connection.
    pub cut: u64,
}

struct Node {
    state: MemoryNode,
    clock: Rate,
    /// It takes nothing in before this time.
    paused_until: Time,
    /// What came meanwhile.
    held_back: Vec<Event>,
    /// Down until then: what arrives is lost.
    down_until: Time,
}

enum Event {
    /// A request reaches its node.
    Request {
        pair: usize,
        connection: u64,
        message: u64,
        request: Box<Request>,
    },
    /// A reply reaches its client.
    Reply {
        pair: usize,
        message: u64,
        reply: Reply,
    },
    /// The requester stops waiting.
    Deadline { pair: usize, message: u64 },
    /// A timer rings.
    Wake(Waker),
    /// Something goes wrong.
    Fault(FaultEvent),
    /// A paused client goes on.
    ResumeClient(usize),
    /// A paused node goes on.
    ResumeNode(usize),
}

/// What goes wrong at a moment.
#[derive(Clone, Copy, Debug)]
pub enum FaultEvent {
    /// The node takes nothing in for so long.
    PauseNode(usize, Time),
    /// The node is down for so long; it keeps its data.
    CrashNode(usize, Time),
    /// Nothing passes between client and node for so long.
    Cut(usize, usize, Time),
    /// The client does nothing for so long.
    PauseClient(usize, Time),
    /// The client is gone for ever.
    CrashClient(usize),
}

struct Queued {
    at: Time,
    order: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

struct ClientState {
    clock: Rate,
    paused_until: Time,
    crashed: bool,
    /// Replies and wake-ups that came while it was paused.
    held_back: Vec<Event>,
}

struct Inner {
    time: Time,
    order: u64,
    heap: BinaryHeap<Reverse<Queued>>,
    nodes: Vec<Node>,
    clients: Vec<ClientState>,
    pairs: Vec<Pair>,
    connections: Vec<Connection>,
    messages: u64,
    network: Network,
    random: Random,
    events: u64,
    faults: u64,
    history: Option<String>,
    violation: Option<String>,
    watches: Vec<Watch>,
    /// The task that is being polled.
    polled: usize,
    tokens: BTreeMap<String, Life>,
    /// Everything that went wrong is right again from here on.
    mended_at: Time,
}

/// The simulated world. Single-threaded; the locks are there for the traits.
pub struct World {
    inner: Mutex<Inner>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    tasks: Mutex<Vec<Option<Task>>>,
}

struct Task {
    client: usize,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
}

struct TaskWaker {
    id: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.lock().unwrap().push_back(self.id);
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// A world with these clocks. `history` records what happens, for a replay.
    pub fn new(
        random: Random,
        network: Network,
        node_clocks: &[Rate],
        client_clocks: &[Rate],
        history: bool,
    ) -> Arc<World> {
        let nodes = node_clocks.iter().map(|clock| Node {
            state: MemoryNode::default(),
            clock: *clock,
            paused_until: 0,
            held_back: Vec::new(),
            down_until: 0,
        });
        let clients = client_clocks.iter().map(|clock| ClientState {
            clock: *clock,
            paused_until: 0,
            crashed: false,
            held_back: Vec::new(),
        });
        let mut connections = Vec::new();
        let mut pairs = Vec::new();
        for client in 0..client_clocks.len() {
            for node in 0..node_clocks.len() {
                pairs.push(Pair {
                    client,
                    node,
                    current: connections.len() as u64,
                    old: None,
                    open: BTreeMap::new(),
                    cut_until: 0,
                    replaced_at: 0,
                });
                connections.push(Connection::default());
            }
        }
        Arc::new(World {
            inner: Mutex::new(Inner {
                time: 0,
                order: 0,
                heap: BinaryHeap::new(),
                nodes: nodes.collect(),
                clients: clients.collect(),
                pairs,
                connections,
                messages: 0,
                network,
                random,
                events: 0,
                faults: 0,
                history: history.then(String::new),
                violation: None,
                watches: Vec::new(),
                polled: 0,
                tokens: BTreeMap::new(),
                mended_at: 0,
            }),
            ready: Arc::default(),
            tasks: Mutex::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// The links of one client to all nodes.
    pub fn links(self: &Arc<Self>, client: usize) -> Vec<Arc<dyn Link>> {
        let nodes = self.inner().nodes.len();
        (0..nodes)
            .map(|node| -> Arc<dyn Link> {
                Arc::new(SimLink {
                    world: Arc::downgrade(self),
                    pair: client * nodes + node,
                    name: format!("n{node}").into(),
                })
            })
            .collect()
    }

    /// The clock of one client.
    pub fn clock(self: &Arc<Self>, client: usize) -> Arc<dyn Clock> {
        Arc::new(SimClock {
            world: Arc::downgrade(self),
            client,
        })
    }

    /// Starts a task of a client.
    pub fn spawn(&self, client: usize, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap();
        let id = tasks.len();
        let waker = Waker::from(Arc::new(TaskWaker {
            id,
            ready: self.ready.clone(),
        }));
        tasks.push(Some(Task {
            client,
            future: Box::pin(future),
            waker,
        }));
        self.ready.lock().unwrap().push_back(id);
    }

    /// Lets something go wrong at `at`.
    pub fn plan(&self, at: Time, fault: FaultEvent) {
        let mut inner = self.inner();
        let end = match fault {
            FaultEvent::PauseNode(_, long)
            | FaultEvent::CrashNode(_, long)
            | FaultEvent::Cut(_, _, long)
            | FaultEvent::PauseClient(_, long) => at + long,
            FaultEvent::CrashClient(_) => at,
        };
        inner.mended_at = inner.mended_at.max(end);
        inner.push(at, Event::Fault(fault));
    }

    /// Runs until `until`, or until a violation.
    pub fn run(&self, until: Time) {
        loop {
            self.run_ready();
            let mut inner = self.inner();
            if inner.violation.is_some() {
                return;
            }
            match inner.heap.peek() {
                Some(Reverse(next)) if next.at <= until => {}
                _ => {
                    inner.time = until;
                    return;
                }
            }
            let Some(Reverse(next)) = inner.heap.pop() else {
                return;
            };
            inner.time = next.at;
            inner.events += 1;
            if inner.events > EVENTS_BOUND {
                inner.violation = Some(format!("L5 more than {EVENTS_BOUND} events"));
                return;
            }
            self.happen(inner, next.event);
        }
    }

    /// Polls tasks until none is ready.
    fn run_ready(&self) {
        loop {
            let Some(id) = self.ready.lock().unwrap().pop_front() else {
                return;
            };
            let Some(mut task) = self.tasks.lock().unwrap()[id].take() else {
                continue;
            };
            {
                let mut inner = self.inner();
                let now = inner.time;
                let client = &mut inner.clients[task.client];
                if client.crashed {
                    // Whatever its drop would do, no byte leaves any more.
                    drop(inner);
                    drop(task);
                    continue;
                }
                if client.paused_until > now {
                    client.held_back.push(Event::Wake(task.waker.clone()));
                    drop(inner);
                    self.tasks.lock().unwrap()[id] = Some(task);
                    continue;
                }
                inner.polled = id;
            }
            let waker = task.waker.clone();
            let mut cx = Context::from_waker(&waker);
            if task.future.as_mut().poll(&mut cx) == Poll::Pending {
                self.tasks.lock().unwrap()[id] = Some(task);
            }
        }
    }

    fn happen(&self, mut inner: MutexGuard<'_, Inner>, event: Event) {
        let now = inner.time;
        match event {
            Event::Wake(waker) => {
                drop(inner);
                waker.wake();
            }
            Event::Request {
                pair,
                connection,
                message,
                request,
            } => {
                inner.arrive(pair, connection, message, request);
            }
            Event::Reply {
                pair,
                message,
                reply,
            } => {
                let client = inner.pairs[pair].client;
                let state = &mut inner.clients[client];
                if state.crashed {
                    return;
                }
                if state.paused_until > now {
                    state.held_back.push(Event::Reply {
                        pair,
                        message,
                        reply,
                    });
                    return;
                }
                if let Some(mut open) = inner.pairs[pair].open.remove(&message) {
                    inner.note(|| {
                        format!("c{client} <- n{} m{message} {reply:?}", open.ticket.node)
                    });
                    if let Some(sink) = open.sink.take() {
                        drop(inner);
                        sink.on_reply(open.ticket, reply);
                    }
                }
            }
            Event::Deadline { pair, message } => {
                let client = inner.pairs[pair].client;
                let state = &mut inner.clients[client];
                if state.crashed {
                    return;
                }
                if state.paused_until > now {
                    state.held_back.push(Event::Deadline { pair, message });
                    return;
                }
                inner.replace_connection(pair, message);
                let told = inner.timed_out(pair, message);
                drop(inner);
                if let Some((sink, ticket)) = told {
                    let fault = Fault {
                        kind: FaultKind::Timeout,
                        text: "no answer in time".into(),
                        sent: true,
                    };
                    sink.on_reply(ticket, Reply::Failed(fault));
                }
            }
            Event::Fault(fault) => inner.go_wrong(fault),
            Event::ResumeNode(node) => {
                let held = std::mem::take(&mut inner.nodes[node].held_back);
                for event in held {
                    inner.push(now, event);
                }
            }
            Event::ResumeClient(client) => {
                // All that came meanwhile is found now, in order.
                let held = std::mem::take(&mut inner.clients[client].held_back);
                for event in held {
                    inner.push(now, event);
                }
            }
        }
    }

    /// The present true time.
    pub fn time(&self) -> Time {
        self.inner().time
    }

    /// Events so far, and faults among them.
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.inner();
        (inner.events, inner.faults)
    }

    /// The broken invariant, if one is.
    pub fn violation(&self) -> Option<String> {
        self.inner().violation.clone()
    }

    /// What happened, if it was recorded.
    pub fn history(&self) -> Option<String> {
        self.inner().history.clone()
    }

    /// Adds a line to the history.
    pub fn note(&self, line: impl FnOnce() -> String) {
        self.inner().note(line);
    }

    /// Drops all tasks, so that the world can be dropped.
    pub fn end(&self) {
        {
            let mut inner = self.inner();
            inner.clients.iter_mut().for_each(|c| c.crashed = true);
            inner.watches.clear();
            inner.heap.clear();
            for pair in &mut inner.pairs {
                std::mem::take(&mut pair.open);
            }
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        drop(tasks);
    }
}

impl Inner {
    fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        let order = self.order;
        self.heap.push(Reverse(Queued { at, order, event }));
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            let _ = writeln!(
                history,
                "{:>12.3} ms  {}",
                self.time as f64 / MS as f64,
                line()
            );
        }
    }

    fn go_wrong(&mut self, fault: FaultEvent) {
        self.faults += 1;
        self.note(|| format!("{fault:?}"));
        let now = self.time;
        match fault {
            FaultEvent::PauseNode(node, long) => {
                let state = &mut self.nodes[node];
                if state.paused_until <= now {
                    state.paused_until = now + long;
                    self.push(now + long, Event::ResumeNode(node));
                }
            }
            FaultEvent::CrashNode(node, long) => {
                self.nodes[node].down_until = now + long;
                for pair in &self.pairs {
                    if pair.node == node {
                        self.connections[pair.current as usize].broken = true;
                    }
                }
            }
            FaultEvent::Cut(client, node, long) => {
                let nodes = self.nodes.len();
                self.pairs[client * nodes + node].cut_until = now + long;
            }
            FaultEvent::PauseClient(client, long) => {
                let state = &mut self.clients[client];
                if state.paused_until <= now {
                    state.paused_until = now + long;
                    self.push(now + long, Event::ResumeClient(client));
                }
            }
            FaultEvent::CrashClient(client) => self.clients[client].crashed = true,
        }
    }
}

struct SimClock {
    world: Weak<World>,
    client: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        match self.world.upgrade() {
            Some(world) => {
                let inner = world.inner();
                inner.clients[self.client].clock.local(inner.time)
            }
            None => Instant::FAR,
        }
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let world = self.world.clone();
        let client = self.client;
        let mut registered = false;
        Box::pin(std::future::poll_fn(move |cx| {
            let Some(world) = world.upgrade() else {
                return Poll::Pending;
            };
            let mut inner = world.inner();
            let clock = inner.clients[client].clock;
            if clock.local(inner.time) >= at {
                return Poll::Ready(());
            }
            if !registered && at < Instant::FAR {
                registered = true;
                let waker = cx.waker().clone();
                inner.push(clock.time(at), Event::Wake(waker));
            }
            Poll::Pending
        }))
    }
}
