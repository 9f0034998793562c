//! Virtual time, an executor, nodes, and the network between.
//!
//! One thread, one heap of events. True time is a number of nanoseconds; every
//! client and every node has a clock of its own that runs at its own rate. A
//! connection is first in, first out in both directions; what one connection
//! delivers says nothing about another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

use quorlock::sim::{
    Clock, Fault, FaultKind, Hold, Instant, Link, MemoryNode, Op, Reply, Request, Sink, Sleep,
    Ticket,
};

use crate::random::Random;

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

/// The connections between one client and one node.
struct Pair {
    client: usize,
    node: usize,
    /// The connection that new requests go over.
    current: u64,
    /// The one in doubt; takes copies of releases.
    old: Option<u64>,
    /// Requests that nobody has answered yet, by message.
    open: BTreeMap<u64, Open>,
    /// Nothing passes before this time.
    cut_until: Time,
}

struct Open {
    request: Request,
    ticket: Ticket,
    /// Gone once it has been told.
    sink: Option<Arc<dyn Sink>>,
    /// A release is sent again until this true time.
    give_up: Time,
}

#[derive(Clone, Copy, Default)]
struct Connection {
    broken: bool,
    requests_until: Time,
    replies_until: Time,
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

/// A lease that some worker holds or held.
#[derive(Debug)]
pub struct Watch {
    /// Which client.
    pub client: usize,
    /// The token's life.
    pub hold: Arc<Hold>,
    /// The worker gave it up.
    pub released: bool,
    /// It was seen invalid.
    pub over: bool,
}

/// A [`Watch`] as it is seen at one moment.
#[derive(Debug)]
pub struct Watched {
    /// Its place.
    pub index: usize,
    /// Which client.
    pub client: usize,
    /// The token's life.
    pub hold: Arc<Hold>,
    /// The worker gave it up.
    pub released: bool,
    /// It was seen invalid before.
    pub was_over: bool,
    /// Its client is gone.
    pub crashed: bool,
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

/// What is known of a token from outside.
#[derive(Clone, Copy, Debug)]
struct Life {
    task: usize,
    client: usize,
    /// Since when its task has no use for it any more.
    dead_since: Option<Time>,
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

    /// The polled task has no use any more for its tokens, but for `kept`.
    pub fn done_with_tokens(&self, kept: Option<&str>) {
        let mut inner = self.inner();
        let (now, task) = (inner.time, inner.polled);
        for (token, life) in &mut inner.tokens {
            if life.task == task && life.dead_since.is_none() && kept != Some(token) {
                life.dead_since = Some(now);
            }
        }
    }

    /// L1: a key on a node whose token has been dead for longer than `within`,
    /// while nothing was wrong for as long.
    pub fn leak(&self, within: Time) -> Option<String> {
        let inner = self.inner();
        for (i, node) in inner.nodes.iter().enumerate() {
            let now = node.clock.local(inner.time);
            for (_, value) in node.state.keys(now) {
                let token = String::from_utf8_lossy(&value.0);
                let life = inner.tokens.get(&*token)?;
                let since = life.dead_since.unwrap_or(Time::MAX).max(inner.mended_at);
                if !inner.clients[life.client].crashed && inner.time.saturating_sub(within) > since
                {
                    return Some(format!("L1 n{i} still holds a key of {}", &token[..6]));
                }
            }
        }
        None
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

    /// Reports a broken invariant.
    pub fn violated(&self, what: String) {
        let mut inner = self.inner();
        if inner.violation.is_none() {
            inner.note(|| format!("VIOLATION {what}"));
            inner.violation = Some(what);
        }
    }

    /// Leases that workers hold or held.
    pub fn watch(&self, client: usize, hold: Arc<Hold>) -> usize {
        let mut inner = self.inner();
        inner.watches.push(Watch {
            client,
            hold,
            released: false,
            over: false,
        });
        inner.watches.len() - 1
    }

    /// The worker gave its lease up.
    pub fn unwatch(&self, index: usize) {
        self.inner().watches[index].released = true;
    }

    /// The leases to check.
    pub fn watched(&self) -> Vec<Watched> {
        let inner = self.inner();
        let seen = |(index, w): (usize, &Watch)| Watched {
            index,
            client: w.client,
            hold: w.hold.clone(),
            released: w.released,
            was_over: w.over,
            crashed: inner.clients[w.client].crashed,
        };
        inner.watches.iter().enumerate().map(seen).collect()
    }

    /// Whether the client was paused within the last moments.
    pub fn was_paused(&self, client: usize) -> bool {
        self.inner().clients[client].paused_until > 0
    }

    /// Marks a lease as seen invalid: it must stay so.
    pub fn mark_over(&self, index: usize) {
        self.inner().watches[index].over = true;
    }

    /// How many nodes hold `value` under `key`.
    pub fn votes(&self, key: &[u8], value_prefix: &str) -> usize {
        let inner = self.inner();
        inner
            .nodes
            .iter()
            .filter(|node| {
                let now = node.clock.local(inner.time);
                node.state
                    .get(key, now)
                    .is_some_and(|(value, _)| value.0.starts_with(value_prefix.as_bytes()))
            })
            .count()
    }

    /// How many keys live on all nodes.
    pub fn all_keys(&self) -> usize {
        let inner = self.inner();
        let living = |node: &Node| node.state.keys(node.clock.local(inner.time)).count();
        inner.nodes.iter().map(living).sum()
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

    /// One way through the network.
    fn delay(&self) -> Time {
        let n = self.network;
        let mut delay = n.base + self.random.below(n.base + 1);
        if self.random.chance(n.slow) {
            // From a little to very long, evenly over the decades.
            delay += (n.tail as f64).powf(self.random.share()) as u64;
        }
        delay
    }

    /// Puts a request on a connection.
    fn put(&mut self, pair: usize, connection: u64, message: u64, request: Request) {
        let mut at = self.time + self.delay();
        let cut = self.random.chance(self.network.cut);
        let cut_until = self.pairs[pair].cut_until;
        let wire = &mut self.connections[connection as usize];
        if cut || cut_until > self.time {
            // The bytes are gone, and all that come behind them.
            wire.broken = true;
            return;
        }
        at = at.max(wire.requests_until);
        wire.requests_until = at;
        if wire.broken {
            return;
        }
        let request = Box::new(request);
        self.push(
            at,
            Event::Request {
                pair,
                connection,
                message,
                request,
            },
        );
    }

    /// A request reaches its node.
    fn arrive(&mut self, pair: usize, connection: u64, message: u64, request: Box<Request>) {
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let now = self.time;
        if self.nodes[node].paused_until > now {
            // Waits in the node's socket.
            let waiting = Event::Request {
                pair,
                connection,
                message,
                request,
            };
            self.nodes[node].held_back.push(waiting);
            return;
        }
        if self.nodes[node].down_until > now {
            self.connections[connection as usize].broken = true;
            return;
        }
        let local = self.nodes[node].clock.local(now);
        let before = self.nodes[node]
            .state
            .get(&request.key, local)
            .map(|(value, end)| (value.clone(), end));
        let reply = self.nodes[node].state.execute(&request, local);
        self.note(|| {
            let token = String::from_utf8_lossy(&request.value.0[..6]).into_owned();
            format!(
                "n{node} m{message} c{client} {:?} {token} -> {reply:?}",
                request.op
            )
        });
        self.check_theft(node, &request, before, local);
        let delay = self.delay();
        let lost = self.random.chance(self.network.cut) || self.pairs[pair].cut_until > now;
        let wire = &mut self.connections[connection as usize];
        if wire.broken || lost {
            wire.broken = true;
            return;
        }
        let at = wire.replies_until.max(now + delay);
        wire.replies_until = at;
        self.push(
            at,
            Event::Reply {
                pair,
                message,
                reply,
            },
        );
    }

    /// S3: only the token that owns a key extends or deletes it.
    fn check_theft(
        &mut self,
        node: usize,
        request: &Request,
        before: Option<(quorlock::sim::Value, Instant)>,
        local: Instant,
    ) {
        let Some((value, end)) = before else { return };
        if value == request.value {
            return;
        }
        let after = self.nodes[node].state.get(&request.key, local);
        let same = after.is_some_and(|(v, e)| *v == value && e == end);
        if !same {
            self.violation.get_or_insert(format!(
                "S3 a stranger's {:?} changed a key on n{node}",
                request.op
            ));
        }
    }

    /// Nothing more is awaited of a pair's connection: a new one is made. What
    /// was sent may still arrive.
    fn replace_connection(&mut self, pair: usize, message: u64) {
        if !self.pairs[pair].open.contains_key(&message) {
            return;
        }
        let fresh = self.connections.len() as u64;
        let start = self.time + 2 * self.delay();
        self.connections.push(Connection {
            broken: false,
            requests_until: start,
            replies_until: start,
        });
        let p = &mut self.pairs[pair];
        p.old = Some(p.current);
        p.current = fresh;
        // Releases are sent again on the new connection, and new ones behind.
        let (now, mut again) = (self.time, Vec::new());
        p.open.retain(|message, open| {
            let release = open.request.op == Op::Release;
            if release && open.give_up > now {
                again.push((*message, open.request.clone()));
            }
            !release || open.give_up > now
        });
        for (waiting, request) in again {
            self.put(pair, fresh, waiting, request);
            if waiting == message {
                let at = self.time + RECONNECT;
                self.push(at, Event::Deadline { pair, message });
            }
        }
    }

    /// Whom to tell that a request was not answered in time.
    fn timed_out(&mut self, pair: usize, message: u64) -> Option<(Arc<dyn Sink>, Ticket)> {
        let client = self.pairs[pair].client;
        let open = self.pairs[pair].open.get_mut(&message)?;
        let (sink, ticket) = (open.sink.take(), open.ticket);
        if open.request.op != Op::Release {
            self.pairs[pair].open.remove(&message);
        }
        self.note(|| format!("c{client} m{message} timed out"));
        Some((sink?, ticket))
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

struct SimLink {
    world: Weak<World>,
    pair: usize,
    name: Arc<str>,
}

impl Link for SimLink {
    fn send(&self, request: Request, ticket: Ticket, sink: Arc<dyn Sink>, give_up: Instant) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        if !sink.wanted() {
            let fault = Fault {
                kind: FaultKind::Refused,
                text: "given up".into(),
                sent: false,
            };
            return sink.on_reply(ticket, Reply::Failed(fault));
        }
        let mut inner = world.inner();
        let pair = self.pair;
        let client = inner.pairs[pair].client;
        if inner.clients[client].crashed {
            return;
        }
        inner.messages += 1;
        let message = inner.messages;
        inner.note(|| {
            let token = String::from_utf8_lossy(&request.value.0[..6]).into_owned();
            format!(
                "c{client} -> n{} m{message} {:?} {token}",
                ticket.node, request.op
            )
        });
        inner.check_extend(client, &request);
        if matches!(request.op, Op::Acquire { .. }) {
            let token = String::from_utf8_lossy(&request.value.0).into_owned();
            let life = Life {
                task: inner.polled,
                client,
                dead_since: None,
            };
            inner.tokens.insert(token, life);
        }
        let clock = inner.clients[client].clock;
        let open = Open {
            request: request.clone(),
            ticket,
            sink: Some(sink),
            give_up: clock.time(give_up),
        };
        inner.pairs[pair].open.insert(message, open);
        inner.push(
            clock.time(ticket.deadline),
            Event::Deadline { pair, message },
        );
        if let (Op::Release, Some(old)) = (request.op, inner.pairs[pair].old) {
            inner.put(pair, old, message, request.clone());
        }
        let current = inner.pairs[pair].current;
        inner.put(pair, current, message, request);
    }

    fn shown(&self) -> Arc<str> {
        self.name.clone()
    }

    fn close(&self) {}
}

impl Inner {
    /// S3 and S5: nothing is renewed or repaired but for a lease that is
    /// valid at that moment.
    fn check_extend(&mut self, client: usize, request: &Request) {
        if !matches!(request.op, Op::Extend { .. }) {
            return;
        }
        let now = self.clients[client].clock.local(self.time);
        let valid = self.watches.iter().rev().any(|w| {
            !w.released
                && request
                    .value
                    .0
                    .starts_with(w.hold.token().as_str().as_bytes())
                && now < w.hold.end()
        });
        if !valid {
            self.violation
                .get_or_insert("S3 a vote was renewed for a lease that is not valid".into());
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
