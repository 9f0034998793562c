//! Virtual time, an executor, nodes, and the network between.
//!
//! One thread, one heap of events. True time is a number of nanoseconds; every
//! client and every node has a clock of its own that runs at its own rate. A
//! connection is first in, first out in both directions; what one connection
//! delivers says nothing about another.

mod admission;
mod clocks;
mod faults;
mod network;
mod oracle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use quorlock::sim::admission::Roster;
use quorlock::sim::{Clock, Link, Op, Reply, Request};

use crate::mutants::mutant;
use crate::random::Random;
use admission::Hello;
pub use admission::Terms as Admission;
pub use clocks::Rate;
use clocks::{ClientState, SimClock};
use faults::Node;
pub use faults::{FaultEvent, Memory, Ways};
use network::{Connection, NOT_SENT, Open, Pair, SimLink};
use oracle::Oracle;

/// True time in nanoseconds.
pub type Time = u64;

/// A millisecond in nanoseconds.
pub const MS: Time = 1_000_000;

/// No schedule needs more events: something goes round in circles.
const EVENTS_BOUND: u64 = 50_000;
/// Nor are more polls needed between two events.
const POLLS_BOUND: u32 = 10_000;
/// As many moments at which something is due are remembered.
const EDGES: usize = 8;

/// How the network behaves in a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network {
    /// Shortest time one way.
    pub base: Time,
    /// Percent of messages that take long.
    pub slow: u64,
    /// The longest such time.
    pub tail: Time,
    /// Percent of messages that break their connection.
    pub cut: u64,
    /// Percent of messages that arrive when something is due, or nearly.
    pub edge: u64,
    /// Percent of requests that reach their node twice.
    pub twice: u64,
    /// Percent of requests that are not sent at all, for want of a connection.
    pub refuse: u64,
    /// How long a requester waits for one node.
    pub patience: Time,
    /// How far ahead messages and contenders aim at what is due.
    pub reach: Time,
}

impl Network {
    /// How long a release waits for its acknowledgement before the connection
    /// is replaced once more.
    pub fn reconnect(&self) -> Time {
        (15 * MS).max(12 * self.base).max(self.reach / 40)
    }

    /// How long a connection may take to become ready.
    pub fn connect(&self) -> Time {
        2 * self.reconnect()
    }
}

enum Event {
    /// A request reaches its node.
    Request {
        pair: usize,
        connection: u64,
        message: u64,
        request: Box<Request>,
        sent: Time,
    },
    /// A reply reaches its client.
    Reply {
        pair: usize,
        connection: u64,
        message: u64,
        answer: Answer,
    },
    /// A step of the way to a connection that is ready, at the node or back.
    Hello {
        pair: usize,
        connection: u64,
        hello: Box<Hello>,
    },
    /// A connection that is not ready by now is given up.
    Connecting { pair: usize, connection: u64 },
    /// The requester stops waiting.
    Deadline { pair: usize, message: u64 },
    /// Releases that were not acknowledged go over a new connection.
    Retry(usize),
    /// A timer rings that was set at a time.
    Timer {
        client: usize,
        set_at: Time,
        waker: Waker,
    },
    /// A task that was held up goes on.
    Wake(Waker),
    /// Something goes wrong.
    Fault(FaultEvent),
    /// A paused client goes on.
    ResumeClient(usize),
    /// A paused node goes on.
    ResumeNode(usize),
}

/// What a node says to a request: `None` if it holds another record.
#[derive(Debug)]
struct Answer {
    reply: Option<Reply>,
    /// The node's `TIME`, in µs, where it tells.
    time: Option<u64>,
}

/// An event in the heap: small, for it is moved about. The event itself waits
/// in its slot.
struct Queued {
    at: Time,
    order: u64,
    slot: u32,
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

struct Inner {
    time: Time,
    order: u64,
    heap: BinaryHeap<Reverse<Queued>>,
    slots: Vec<Option<Event>>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    clients: Vec<ClientState>,
    pairs: Vec<Pair>,
    connections: Vec<Connection>,
    messages: u64,
    /// Requests since time went on.
    at_once: u32,
    network: Network,
    admission: Admission,
    /// Whether a client lists a server twice.
    listed_twice: bool,
    /// What each client knows of who sits where.
    rosters: Vec<Roster>,
    random: Random,
    events: u64,
    faults: u64,
    history: Option<String>,
    violation: Option<String>,
    /// The task that is being polled.
    polled: usize,
    /// Everything that went wrong is right again from here on.
    mended_at: Time,
    /// Moments at which something is due: leases end, keys expire, requests
    /// have waited long enough. The oldest is overwritten.
    edges: [Time; EDGES],
    edge: usize,
    oracle: Oracle,
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
        admission: Admission,
        node_clocks: &[Rate],
        client_clocks: &[Rate],
        history: bool,
    ) -> Arc<World> {
        let declared = |(i, clock): (usize, &Rate)| Node::new(*clock, admission.declared(i));
        let nodes = node_clocks.iter().enumerate().map(declared);
        let clients = client_clocks.iter().map(|clock| ClientState::new(*clock));
        let mut pairs = Vec::new();
        for client in 0..client_clocks.len() {
            for node in 0..node_clocks.len() {
                pairs.push(Pair {
                    client,
                    node,
                    current: None,
                    connecting: false,
                    silent: false,
                    old: None,
                    open: BTreeMap::new(),
                    requests_cut: Default::default(),
                    replies_cut: Default::default(),
                    replaced_at: 0,
                    retries: false,
                });
            }
        }
        Arc::new(World {
            inner: Mutex::new(Inner {
                time: 0,
                order: 0,
                heap: BinaryHeap::with_capacity(64),
                slots: Vec::with_capacity(64),
                free: Vec::new(),
                nodes: nodes.collect(),
                clients: clients.collect(),
                pairs,
                connections: Vec::new(),
                messages: 0,
                at_once: 0,
                network,
                rosters: client_clocks.iter().map(|_| Roster::default()).collect(),
                listed_twice: false,
                admission,
                random,
                events: 0,
                faults: 0,
                history: history.then(String::new),
                violation: None,
                polled: 0,
                mended_at: 0,
                edges: [0; EDGES],
                edge: 0,
                oracle: Oracle::default(),
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

    /// The client lists one server twice, in two places.
    pub fn list_twice(&self, client: usize, place: usize, other: usize) {
        let mut inner = self.inner();
        let nodes = inner.nodes.len();
        inner.listed_twice = true;
        inner.pairs[client * nodes + other].node = place;
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
            if next.at > inner.time {
                inner.at_once = 0;
            }
            inner.time = next.at;
            let Some(event) = inner.slots[next.slot as usize].take() else {
                continue;
            };
            inner.free.push(next.slot);
            inner.events += u64::from(!inner.is_idle(&event));
            if inner.events > EVENTS_BOUND {
                inner.violation = Some(format!("L5 more than {EVENTS_BOUND} events"));
                return;
            }
            self.happen(inner, event);
        }
    }

    /// Polls tasks until none is ready.
    fn run_ready(&self) {
        for polls in 0.. {
            if polls > POLLS_BOUND {
                return self.violated("L5 tasks wake each other for ever".into());
            }
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
                sent,
            } => {
                inner.arrive(pair, connection, message, request, sent);
            }
            Event::Timer {
                client,
                set_at,
                waker,
            } => match inner.clients[client].rings_later(set_at, now) {
                Some(later) => inner.push(
                    later,
                    Event::Timer {
                        client,
                        set_at: now,
                        waker,
                    },
                ),
                None => {
                    drop(inner);
                    waker.wake();
                }
            },
            Event::Reply {
                pair,
                connection,
                message,
                answer,
            } => {
                let client = inner.pairs[pair].client;
                if inner.clients[client].crashed || inner.connections[connection as usize].reset {
                    return;
                }
                if inner.clients[client].paused_until > now {
                    let reply = Event::Reply {
                        pair,
                        connection,
                        message,
                        answer,
                    };
                    return inner.clients[client].held_back.push(reply);
                }
                self.replied(inner, pair, connection, message, answer);
            }
            Event::Hello {
                pair,
                connection,
                hello,
            } => {
                if hello.at_node() {
                    return inner.hello_at_node(pair, connection, hello);
                }
                let client = inner.pairs[pair].client;
                let state = &mut inner.clients[client];
                if state.crashed {
                    return;
                }
                if state.paused_until > now {
                    return state.held_back.push(Event::Hello {
                        pair,
                        connection,
                        hello,
                    });
                }
                let told = inner.hello_at_client(pair, connection, *hello);
                drop(inner);
                network::tell(told);
            }
            Event::Connecting { pair, connection } => {
                let client = inner.pairs[pair].client;
                let state = &mut inner.clients[client];
                if state.crashed {
                    return;
                }
                if state.paused_until > now {
                    return state.held_back.push(Event::Connecting { pair, connection });
                }
                let told = inner.connecting_in_vain(pair, connection);
                drop(inner);
                network::tell(told);
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
                network::tell(told);
            }
            Event::Retry(pair) => {
                let client = inner.pairs[pair].client;
                let state = &mut inner.clients[client];
                if state.crashed {
                    return;
                }
                if state.paused_until > now {
                    return state.held_back.push(Event::Retry(pair));
                }
                inner.retry(pair);
            }
            Event::Fault(FaultEvent::Reset(client, node)) => {
                let told = inner.reset(client, node);
                drop(inner);
                network::tell(told);
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

    /// An answer has reached its client.
    fn replied(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        pair: usize,
        connection: u64,
        message: u64,
        answer: Answer,
    ) {
        let client = inner.pairs[pair].client;
        let open = &mut inner.pairs[pair].open;
        let counts = |open: &Open| {
            open.request.op != Op::Release
                || mutant!("acknowledged-anywhere", open.connection == connection, true)
        };
        let Some(waiting) = open.get_mut(&message).filter(|open| counts(open)) else {
            return;
        };
        if answer.reply.is_none() && !waiting.readmitted {
            // It is sent once more, behind what admits the node anew.
            waiting.readmitted = true;
            waiting.connection = NOT_SENT;
            return inner.readmit(pair);
        }
        let Some(mut open) = open.remove(&message) else {
            return;
        };
        let twice = || network::not_ready("its record has changed twice");
        let reply = answer.reply.unwrap_or_else(twice);
        let node = inner.pairs[pair].node;
        if let Some(time) = answer.time {
            inner.told_time(client, open.ticket, time);
        }
        inner.note(|| format!("c{client} <- n{node} m{message} {reply:?}"));
        if open.request.op == Op::Release {
            inner.under_way(node, &open.request, -1);
        }
        inner.confirm(&open, &reply);
        let Some(sink) = open.sink.take() else { return };
        let before = inner.before(&open.request);
        drop(inner);
        sink.on_reply(open.ticket, reply, answer.time);
        if let Some(before) = before {
            self.inner().after(before);
        }
    }

    /// A moment at which, or nearly, something is due to a rival.
    pub fn aim(&self) -> Option<Time> {
        self.inner().aim()
    }

    /// From here on the network is fast and loses nothing.
    pub fn calm(&self) {
        let network = &mut self.inner().network;
        (network.slow, network.cut, network.edge) = (0, 0, 0);
        (network.twice, network.refuse) = (0, 0);
        network.base = network.base.min(network.reach / 40);
    }

    /// When everything planned that goes wrong is right again.
    pub fn mended_at(&self) -> Time {
        self.inner().mended_at
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
            inner.oracle = Oracle::default();
            inner.heap.clear();
            inner.slots.clear();
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
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() as u32 - 1
            }
        };
        self.heap.push(Reverse(Queued { at, order, slot }));
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

    /// Whether nothing comes of an event: a timer of a request that has been
    /// answered.
    fn is_idle(&self, event: &Event) -> bool {
        matches!(event, Event::Deadline { pair, message } if !self.pairs[*pair].open.contains_key(message))
    }

    /// Remembers a moment at which something is due.
    fn due(&mut self, at: Time) {
        self.edges[self.edge % EDGES] = at;
        self.edge += 1;
    }

    /// A moment near one of those remembered that is still to come: exactly
    /// then, or within a hundredth of a ttl.
    fn aim(&self) -> Option<Time> {
        let reach = self.network.reach;
        let at = *self.random.pick(&self.edges);
        if at <= self.time || at > self.time + reach + reach / 4 {
            return None;
        }
        let off = match self.random.below(3) {
            0 => self.network.base.min(reach / 100) as f64,
            _ => reach as f64 / 100.0,
        };
        Some(((at as f64 + off * self.random.either_way()) as Time).max(self.time))
    }
}
