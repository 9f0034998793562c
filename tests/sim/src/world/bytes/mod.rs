//! The layer of bytes: clients have the real links, and a world makes their streams.
//!
//! | module | one idea |
//! |---|---|
//! | [`stream`] | a client's end of a connection: dials, reads, writes, closes |
//! | [`serve`] | the node's end: commands out of bytes, carried out in their order |
//! | [`link`] | the real link between two taps: what it is asked, and what it tells |
//! | [`sentinel`] | who says where a node's master is |
//! | [`judge`] | what a link promises, judged from both of its ends |
//! | [`breaks`] | how streams come to harm |
//!
//! Under it lies the same network as under the layer of links: a connection is a
//! [`Connection`](super::network::Connection) with bytes on it, delays and losses are
//! drawn by the same rules, and a node carries requests out by the same path. What is
//! real here, and imitated there, is everything from the link's outbox down to RESP.

mod breaks;
mod judge;
mod link;
mod natives;
mod sentinel;
mod serve;
mod stream;

use natives::{Ballot, Reading};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use quorlock::sim::probe;
use quorlock::sim::{AfterRelease, Link, Mode, Op, Reply, Request, Subscriber};

use super::{Inner, Network};
use crate::server::Session;
use crate::server::resp::Input;
pub use breaks::Breaks;
use judge::Lane;

/// What a world has for its streams.
#[derive(Default)]
pub(super) struct Bytes {
    /// How they misbehave.
    breaks: Breaks,
    /// They never do worse than to cut what they carry, and carry it swiftly.
    harmless: bool,
    /// Every connection that was ever dialled, by its number.
    wires: Vec<Wire>,
    /// From each client to each node, as pairs are.
    lanes: Vec<Lane>,
    /// What clients have with sentinels.
    talks: Vec<sentinel::Talk>,
    /// Which scripts each node has loaded, and its other server or that to which it leads
    /// astray.
    loaded: Vec<[u16; 2]>,
    /// What came of the request that a node has just carried out.
    served: Option<Reply>,
    /// What was carried out last is not answered yet, or to no effect.
    deferred: bool,
    /// Votes that were settled by what was carried out last.
    settled: Vec<Answered>,
}

/// What a lane has that refers to the world.
type Given = (Option<Arc<dyn Link>>, Option<Arc<dyn Subscriber>>);

/// One connection: its bytes on the way, and its two ends.
struct Wire {
    pair: usize,
    /// The node's end: what it knows of the connection, and what it has yet to read.
    session: Session,
    /// The node accepts, and never reads.
    ignored: bool,
    /// What the client has written, cut into commands.
    tap: Input,
    /// Bytes that it has written.
    written: u64,
    /// The requests among them that were neither carried out nor lost.
    sent: VecDeque<Sent>,
    /// Bytes that the node has written, and those that the client has read of them.
    answered: u64,
    read: u64,
    /// What the node has answered to requests, yet to be read.
    answers: VecDeque<Answered>,
    /// When the releases that it has written are due, whose answers it has not read.
    releases: VecDeque<u64>,
    /// One of them was answered late, or is: it may be in doubt for that.
    late: bool,
    /// What has arrived at the client.
    incoming: VecDeque<u8>,
    /// What comes behind that.
    end: Option<End>,
    reader: Option<Waker>,
    /// Writes find no room before this time.
    full_until: u64,
    /// They ever did: what was written says little of when.
    was_full: bool,
    /// Something waits for room now.
    waits: bool,
    /// Requests that were written over it, and the release of their token was not; and
    /// whether that was asked meanwhile.
    not_undone: Vec<(Request, bool)>,
    /// The client has closed it.
    closed: bool,
    /// What its client had in use before, if it takes no requests: somebody looks at a server
    /// that was the master.
    before: Option<(Option<u64>, bool)>,
    /// The client has begun to prepare it: its node is admitted.
    prepared: bool,
    /// A request over it was not answered in time.
    doubted: bool,
    /// Something came over it for which a client may want another.
    suspect: bool,
    /// What it was told of the lives of counters.
    lives: natives::Lives,
    /// The last request that was written over it for the first time: of all, of those by script,
    /// and of each lock.
    last: u64,
    last_script: u64,
    last_of: BTreeMap<Arc<[u8]>, u64>,
    /// Native votes whose trailer has yet to come, and what is known of that.
    ballots: Vec<Ballot>,
    trailer: Reading,
}

/// How a connection ends for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node sends no more.
    Closed,
    /// It is reset.
    Reset,
}

/// A request on its way.
struct Sent {
    /// The connection's bytes up to its last.
    end: u64,
    /// Its number among all that clients asked.
    message: u64,
    request: Request,
    /// When it was written.
    at: u64,
    /// Over a connection in doubt: its answer tells the link nothing.
    copy: bool,
}

/// An answer on its way.
struct Answered {
    end: u64,
    message: u64,
    mark: Mark,
    /// `None`: an error, or another record than expected.
    reply: Option<Reply>,
    release: bool,
    copy: bool,
}

impl Wire {
    /// Takes the next request, if it is of the command that ends there.
    fn next_sent(&mut self, end: u64) -> Option<Sent> {
        let next = self.sent.front().is_some_and(|sent| sent.end == end);
        next.then(|| self.sent.pop_front()).flatten()
    }
}

impl Answered {
    /// What a node has answered to a request.
    fn to(sent: &Sent, reply: Option<Reply>, end: u64) -> Answered {
        Answered {
            end,
            message: sent.message,
            mark: Mark::of(&sent.request),
            reply,
            release: sent.request.op == Op::Release,
            copy: sent.copy,
        }
    }
}

/// What tells requests apart that one client sends to one node: which kind, whose.
#[derive(Clone, Debug)]
struct Mark {
    kind: u8,
    value: Arc<[u8]>,
    waiter: Option<u64>,
}

/// Whether it says no token: a reservation, or what is asked of all slots.
fn names_waiter_alone(request: &Request) -> bool {
    let slots = matches!(request.keys.mode, Mode::AnySlot(_));
    slots || matches!(request.op, Op::Reserve { .. })
}

impl PartialEq for Mark {
    fn eq(&self, other: &Mark) -> bool {
        // Plain commands do not name the waiter.
        let (own, its) = (self.waiter, other.waiter);
        let unnamed = !self.value.is_empty() && (own.is_none() || its.is_none());
        (self.kind, &self.value) == (other.kind, &other.value) && (own == its || unnamed)
    }
}

impl Mark {
    fn of(request: &Request) -> Mark {
        // Others do not name it.
        let names = matches!(
            request.op,
            Op::Acquire { .. } | Op::Release | Op::Reserve { .. }
        );
        let waiter = request.waiter.as_ref().filter(|_| names);
        Mark {
            kind: match request.op {
                Op::Acquire { .. } => 0,
                Op::Extend { .. } => 1,
                Op::Confirm { .. } => 2,
                // By whom the lock is taken away; it may be the lease's own client.
                Op::Release if matches!(request.leaving, AfterRelease::Forced(_)) => 6,
                Op::Release => 3,
                Op::Inspect => 4,
                Op::Reserve { .. } => 5,
            },
            value: if names_waiter_alone(request) {
                [].into()
            } else {
                request.value.identity().into()
            },
            waiter: waiter.map(|waiter| waiter.number),
        }
    }
}

impl Bytes {
    pub(super) fn new(breaks: Breaks, network: Network, nodes: usize, clients: usize) -> Bytes {
        let slow = network.slow + network.edge + network.cut + network.refuse;
        Bytes {
            breaks,
            harmless: breaks == breaks.calm() && slow == 0,
            loaded: vec![[0; 2]; nodes],
            lanes: (0..nodes * clients).map(|_| Lane::default()).collect(),
            ..Bytes::default()
        }
    }

    /// From here on streams do no more than their network.
    pub(super) fn calm(&mut self) {
        self.breaks = self.breaks.calm();
    }

    /// A node has no scripts any more.
    pub(super) fn unload(&mut self, node: usize) {
        self.loaded[node][0] = 0;
    }

    /// The connections of a pair that the client has not closed.
    pub(super) fn open(&self, pair: usize) -> impl Iterator<Item = u64> {
        let open = move |(_, w): &(usize, &Wire)| w.pair == pair && !w.closed;
        let wires = self.wires.iter().enumerate();
        wires.filter(open).map(|(number, _)| number as u64)
    }

    /// Gives back what refers to the world.
    pub(super) fn end(&mut self) -> Vec<Given> {
        let lanes = self.lanes.iter_mut();
        lanes
            .map(|lane| (lane.link.take(), lane.subscriber.take()))
            .collect()
    }
}

/// The port of every server.
const PORT: &str = "6379";

/// The host of a node's first server, and of its other, or of that to which it leads astray.
fn host(node: usize, place: usize) -> String {
    format!("10.0.{place}.{node}")
}

/// The address at which a node has its connections; `astray`: the server in its place.
fn address(node: usize, astray: bool) -> String {
    format!("{}:{PORT}", host(node, usize::from(astray)))
}

/// Which of its node's servers is at an address; `None`: it names none.
fn place_at(node: usize, address: &str) -> Option<usize> {
    let host_of = address.strip_suffix(PORT)?.strip_suffix(':')?;
    (0..2).find(|place| host(node, *place) == host_of)
}

/// The number by which a client knows the server to which a node's address leads
/// astray.
fn other_server(node: usize) -> u64 {
    probe::link::server(&address(node, true))
}

/// A node's `run_id` in its run of that number, as far as a record holds it.
pub(super) fn run_id(node: usize, run: u64) -> String {
    format!("{node:08x}{run:08x}")
}

impl Inner {
    fn open_wire(&mut self, wire: usize) -> &mut Wire {
        &mut self.bytes().wires[wire]
    }

    fn bytes(&mut self) -> &mut Bytes {
        self.bytes.as_mut().expect("a world of bytes")
    }
}
