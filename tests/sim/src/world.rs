//! Virtual time, an executor, nodes, and the network between.
//!
//! One thread, one heap of events. True time is a number of nanoseconds; every
//! client and every node has a clock of its own that runs at its own rate. A
//! connection is first in, first out in both directions; what one connection
//! delivers says nothing about another.

mod admission;
mod bytes;
mod clocks;
mod conditions;
mod connections;
mod events;
mod failover;
mod faults;
pub mod line;
mod lines;
mod link;
mod local;
mod messages;
mod natives;
mod network;
mod oracle;
mod surface;
mod tasks;
mod traced;

use std::cell::RefMut;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use quorlock::sim::Subscriber;
use quorlock::sim::admission::{Roster, StepWatch, Survey};

use crate::history::{Happened, History};
use crate::plan::DRIFT;
use crate::random::Random;
use crate::trace::Trace;
use crate::who;
pub use admission::Terms as Admission;
pub use bytes::Breaks;
use bytes::Bytes;
use clocks::ClientState;
pub use clocks::Rate;
pub use conditions::Network;
use events::{Event, Queued};
pub use failover::{Failover, settled};
use faults::Node;
pub use faults::{FOREIGN, FaultEvent, Memory, Ways};
use line::Line;
use local::Local;
pub use messages::HALF_OPEN;
use network::{Connection, Pair};
pub use oracle::Natives;
use oracle::Oracle;
use tasks::Task;

/// True time in nanoseconds.
pub type Time = u64;

/// A millisecond in nanoseconds.
pub const MS: Time = 1_000_000;

/// No schedule needs more events: something goes round in circles.
const EVENTS_BOUND: u64 = 50_000;
/// As many moments at which something is due are remembered.
const EDGES: usize = 8;

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
    /// Who has yet to be told that the inbox is subscribed.
    subscribed: Vec<(usize, Arc<dyn Subscriber>)>,
    /// Requests since time went on.
    at_once: u32,
    network: Network,
    admission: Admission,
    /// Whether a client lists a server twice.
    listed_twice: bool,
    /// A client has founded a set of its own.
    strayed: bool,
    /// What each client knows of who sits where, and of what the nodes show.
    rosters: Vec<Roster>,
    surveys: Vec<Survey>,
    random: Random,
    events: u64,
    /// So many more may be, for crowds.
    crowded: u64,
    faults: u64,
    history: Option<History>,
    trace: Option<Trace>,
    /// The connection at whose server something happens.
    serving: u64,
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
    /// For L4, by lock.
    lines: Vec<Line>,
    /// Locks have fences.
    fenced: bool,
    /// The streams, in a world of bytes.
    bytes: Option<Box<Bytes>>,
    /// What users saw, if that is kept; and what they draw their aims from then.
    seen: Option<(Vec<String>, Random)>,
}

/// The simulated world. Single-threaded, whatever the core's traits ask.
pub struct World {
    inner: Local<Inner>,
    ready: Arc<Local<VecDeque<usize>>>,
    tasks: Local<Vec<Option<Task>>>,
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
        let (nodes_of, clients_of) = (node_clocks.len(), client_clocks.len());
        let bytes = admission.breaks;
        let bytes = bytes.map(|breaks| Box::new(Bytes::new(breaks, network, nodes_of, clients_of)));
        let declared = |(i, clock): (usize, &Rate)| {
            let server = admission.servers.get(i).copied();
            Node::new(*clock, admission.declared(i), server)
        };
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
                    failed_at: 0,
                    late_from: None,
                    old: None,
                    open: BTreeMap::new(),
                    requests_cut: Default::default(),
                    replies_cut: Default::default(),
                    replaced_at: 0,
                    retries: false,
                    astray_until: 0,
                    subscription: None,
                    fault: None,
                    news: Default::default(),
                    watch: StepWatch::new(admission.of(client).quarantine, DRIFT),
                    stepped: false,
                });
            }
        }
        Arc::new(World {
            inner: Local::new(Inner {
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
                subscribed: Vec::new(),
                at_once: 0,
                network,
                rosters: (0..client_clocks.len())
                    .map(|client| Roster::new(admission.of(client)))
                    .collect(),
                surveys: (0..client_clocks.len())
                    .map(|client| {
                        let expected = admission.of(client).clone();
                        let names = (0..expected.nodes).map(|i| (format!("n{i}").into(), false));
                        Survey::new(expected, names.collect())
                    })
                    .collect(),
                listed_twice: false,
                strayed: admission.elsewhere.is_some(),
                admission,
                random,
                events: 0,
                crowded: 0,
                faults: 0,
                history: history.then(History::default),
                trace: None,
                serving: 0,
                violation: None,
                polled: 0,
                mended_at: 0,
                edges: [0; EDGES],
                edge: 0,
                oracle: Oracle::default(),
                lines: Vec::new(),
                fenced: false,
                bytes,
                seen: None,
            }),
            ready: Arc::new(Local::new(VecDeque::new())),
            tasks: Local::new(Vec::new()),
        })
    }

    fn inner(&self) -> RefMut<'_, Inner> {
        self.inner.get()
    }

    /// Runs until `until`, or until a violation.
    pub fn run(&self, until: Time) {
        loop {
            self.run_ready();
            let mut inner = self.inner();
            if inner.violation.is_some() {
                return;
            }
            if !inner.subscribed.is_empty() {
                self.tell_subscribed(inner);
                continue;
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
            // Bytes come in pieces, and real links have longer pauses.
            let bound = (EVENTS_BOUND + inner.crowded) * if inner.bytes.is_some() { 5 } else { 1 };
            if inner.events > bound {
                inner.violation = Some(format!("L5 more than {bound} events"));
                return;
            }
            self.happen(inner, event);
        }
    }

    fn happen(&self, mut inner: RefMut<'_, Inner>, event: Event) {
        let now = inner.time;
        if let Some(client) = event.client(&inner.pairs) {
            let state = &mut inner.clients[client];
            if state.crashed {
                return;
            }
            if state.paused_until > now {
                return state.held_back.push(event);
            }
        }
        let _acting = who::act(inner.who(&event));
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
                inner.at_server(pair, connection, |inner| {
                    inner.arrive(pair, connection, message, request, sent);
                });
            }
            Event::Trailer {
                pair,
                connection,
                message,
            } => {
                inner.at_server(pair, connection, |inner| {
                    inner.arrive_trailer(pair, connection, message);
                });
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
                if !inner.connections[connection as usize].reset {
                    self.replied(inner, pair, connection, message, answer);
                }
            }
            Event::Hello {
                pair,
                connection,
                hello,
            } => {
                if hello.at_node() {
                    return inner.at_server(pair, connection, |inner| {
                        inner.hello_at_node(pair, connection, hello);
                    });
                }
                let told = inner.hello_at_client(pair, connection, *hello);
                drop(inner);
                network::tell(told);
            }
            Event::Connecting { pair, connection } => {
                let told = inner.connecting_in_vain(pair, connection);
                drop(inner);
                network::tell(told);
            }
            Event::Deadline { pair, message } => {
                inner.replace_connection(pair, message);
                let told = inner.timed_out(pair, message);
                drop(inner);
                network::tell(told);
            }
            Event::Retry(pair) => {
                let (mut inner, awaited) = self.awaited(inner, pair);
                inner.retry(pair, awaited);
            }
            Event::Message {
                pair,
                connection,
                hint,
            } => self.heard(inner, pair, connection, hint),
            Event::Ended {
                node,
                connection,
                closed,
            } => inner.ended(node, connection, closed),
            Event::Forth { wire, bytes } => inner.arrive_forth(wire, bytes),
            Event::Waited { wire } => inner.has_waited(wire),
            Event::Back { wire, bytes, end } => inner.arrive_back(wire, &bytes, end),
            Event::Overdue {
                pair,
                message,
                asked,
            } => inner.overdue(pair, message, asked),
            Event::GivenUp { pair, message } => inner.given_up(pair, message),
            Event::Postponed { pair, message, at } => inner.sent_again(pair, message, at),
            Event::Owed {
                pair,
                message,
                wire,
                at,
            } => inner.redials(pair, message, wire, at),
            Event::Missed { pair, at } => {
                let subscriber = inner.misses(pair, at);
                let place = pair % inner.nodes.len();
                drop(inner);
                if subscriber.is_some_and(|subscriber| subscriber.is_awaited(place)) {
                    self.violated(format!("L6 pair {pair} awaits messages and does not dial"));
                }
            }
            Event::Fault(FaultEvent::Reset(client, node)) if inner.bytes.is_some() => {
                inner.faults += 1;
                inner.note(|| format!("reset c{client} n{node}"));
                let pair = client * inner.nodes.len() + node;
                inner.reset_wire(pair);
            }
            Event::Fault(FaultEvent::Reset(client, node)) => {
                let pair = client * inner.nodes.len() + node;
                let (mut inner, awaited) = self.awaited(inner, pair);
                let told = inner.reset(client, node, awaited);
                drop(inner);
                network::tell(told);
            }
            Event::Fault(fault) => inner.go_wrong(fault),
            Event::Demoted {
                node,
                place,
                promotions,
            } => inner.told_of_its_place(node, place, promotions),
            Event::Switched(pair) => inner.switched(pair),
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
}

impl Inner {
    fn note<H: Into<Happened>>(&mut self, what: impl FnOnce() -> H) {
        if let Some(history) = &mut self.history {
            history.add(self.time, what().into());
        }
    }

    fn saw(&mut self, what: impl FnOnce() -> String) {
        if let Some((seen, _)) = &mut self.seen {
            seen.push(format!("{} {}", self.time, what()));
        }
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
        let random = match &self.seen {
            Some((_, random)) => random,
            None => &self.random,
        };
        let at = *random.pick(&self.edges);
        if at <= self.time || at > self.time + reach + reach / 4 {
            return None;
        }
        let off = match random.below(3) {
            0 => self.network.base.min(reach / 100) as f64,
            _ => reach as f64 / 100.0,
        };
        Some(((at as f64 + off * random.either_way()) as Time).max(self.time))
    }
}
