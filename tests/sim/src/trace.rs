//! The trace of a schedule: each step with all that decides whether it is allowed.
//!
//! A [history](crate::history) is for a reader, and keeps the first digits of a token. A trace is for the checker in
//! `tests/proof`: it has requests and replies as they are, what stood on the node before and after, and the moment by the
//! clock of the component that acts. It is kept where it is asked for ([`schedule::traced`](crate::schedule::traced)); nothing is
//! drawn for it, so a schedule stays what it is.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::admission::Admission;
use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{
    Instant, Keys, MemoryNode, Message, Mode, NodeQueue, Readers, Reply, Request, RequestContext,
    StoredValue,
};
use quorlock::{ErrorKind, LossReason};

use crate::world::{FaultEvent, Time};

/// What a lock is on a node, at a moment of that node's clock; what is dead is not there.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The moment.
    pub now: Instant,
    /// What stands under the lock's key, and the end of the key.
    pub key: Option<(StoredValue, Instant)>,
    /// A lock in Redisson's layout stands there.
    pub hashed: bool,
    /// The readers.
    pub readers: Option<Readers>,
    /// The leases that are banned, each until that `TIME`.
    pub bans: Vec<(Vec<u8>, u64)>,
    /// The counter of fences, and the end of its life.
    pub counter: Option<(u64, Instant)>,
    /// The queue, and how many connections listen for each place.
    pub queue: Option<NodeQueue>,
    /// See [`View::queue`].
    pub listeners: Vec<u32>,
    /// The node's record, and how much longer its quarantine lasts.
    pub record: Option<Arc<str>>,
    /// See [`View::record`].
    pub quarantine: Option<Duration>,
}

impl View {
    /// What a node has of the lock with these keys.
    pub fn of(state: &MemoryNode, keys: &Keys, now: Instant) -> View {
        let bans = keys.aux.bans();
        let banned = state.bans(now).find(|(key, ..)| *key == bans);
        let banned = banned.into_iter().flat_map(|(_, values, _)| values);
        let counters = || state.counters(now).find(|c| c.0 == keys.aux.counter());
        let queue = state.line(keys.aux.queue(), now).cloned();
        let places = queue.iter().flat_map(|line| &line.queue);
        View {
            now,
            key: state
                .form(&keys.lock, now)
                .map(|(form, end)| (form.clone(), end)),
            hashed: state.hashes(now).any(|(key, ..)| *key == *keys.lock),
            readers: state.readers(&keys.aux.shared(), now).cloned(),
            bans: banned.map(|(lease, end)| (lease.to_vec(), end)).collect(),
            counter: counters().map(|(_, fence, end)| (fence, end)),
            listeners: places.map(|place| state.listeners(&place.waiter)).collect(),
            queue,
            record: state.record().cloned(),
            quarantine: state.quarantine(now),
        }
    }
}

/// What a request is about on its node: the lock alone, or each slot of a semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    /// The keys of each.
    pub keys: Vec<Arc<Keys>>,
    /// What is there before.
    pub before: Vec<View>,
    /// And after.
    pub after: Vec<View>,
}

impl Views {
    /// What a node has of all that the request is about.
    pub fn of(state: &MemoryNode, request: &Request, now: Instant) -> Views {
        let keys = match request.keys.mode {
            Mode::AnySlot(slots) => (0..slots)
                .map(|slot| Arc::new(request.keys.of_slot(slot)))
                .collect(),
            _ => vec![request.keys.clone()],
        };
        let before = keys.iter().map(|keys| View::of(state, keys, now)).collect();
        Views {
            keys,
            before,
            after: Vec::new(),
        }
    }

    /// The same once the request is carried out.
    pub fn done(mut self, state: &MemoryNode, now: Instant) -> Views {
        let views = self.keys.iter().map(|keys| View::of(state, keys, now));
        self.after = views.collect();
        self
    }
}

/// How a request was carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Served {
    /// By its script; `None`: the node holds another record. With the waiters that are called.
    Script(Option<Reply>, Vec<Message>),
    /// The commands of a native acquire.
    Stored(NativeReplies),
    /// The command of a native release, and whether it has deleted the key.
    Deleted(bool),
}

/// Between which client and which server something happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// The client.
    pub client: usize,
    /// The node, by its place in the client's list.
    pub place: usize,
    /// The node.
    pub node: usize,
    /// Which of the servers that have stood in the node's place.
    pub server: (usize, u64),
    /// The number by which clients know that server.
    pub known_as: u64,
    /// The connection.
    pub connection: u64,
}

/// A node's record, and how much longer its quarantine lasts.
pub type Shown = (Option<Arc<str>>, Option<Duration>);

/// A handle on a lease, by what names the lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// The client.
    pub client: usize,
    /// The place of the lease among all.
    pub index: usize,
    /// The token.
    pub token: Vec<u8>,
    /// Which of the token's leases.
    pub number: u32,
}

/// A step of a schedule.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the parts are named as elsewhere")]
pub enum Step {
    /// A client is there: how many nodes it lists, whether it guards against restarts, its longest ttl, and its clock,
    /// which shows `offset` and `rate` ns for each ns of true time. `unseen`: some of its users' leases are told
    /// late or not at all, as those of calls for several locks and of crowds.
    Client {
        client: usize,
        nodes: usize,
        guard: bool,
        max_ttl: Duration,
        failing_over: bool,
        unseen: bool,
        offset: u64,
        rate: f64,
    },
    /// A client asks a node. `lease`: the end of the lease that the user has by this token.
    Asks {
        client: usize,
        place: usize,
        node: usize,
        message: u64,
        now: Instant,
        request: Box<Request>,
        ticket: RequestContext,
        /// The drift that its client allows for.
        drift: f64,
        lease: Option<Instant>,
    },
    /// A link writes a request to a connection, by plain commands or by script.
    Puts {
        client: usize,
        place: usize,
        connection: u64,
        message: u64,
        native: bool,
    },
    /// The connection in use is in doubt, or has ended: another is made for what comes.
    Doubts {
        client: usize,
        place: usize,
        connection: u64,
    },
    /// A node carries a request out.
    Serves {
        between: Between,
        message: u64,
        record: Option<Arc<str>>,
        request: Box<Request>,
        views: Box<Views>,
        served: Served,
    },
    /// The trailer behind a native acquire is read.
    Counts {
        between: Between,
        message: u64,
        record: Option<Arc<str>>,
        request: Box<Request>,
        view: Box<View>,
        voted: NativeReplies,
        outcome: Outcome,
    },
    /// A reply reaches its client.
    Hears {
        client: usize,
        place: usize,
        connection: u64,
        message: u64,
        now: Instant,
        request: Box<Request>,
        ticket: RequestContext,
        reply: Reply,
        time: Option<u64>,
    },
    /// A message reaches a client: the turn of the waiter of this number has come.
    Calls {
        client: usize,
        place: usize,
        number: u64,
    },
    /// A client's inbox is subscribed on a node, over the connection in use.
    Subscribes { client: usize, place: usize },
    /// A node shows a connection what it is: the number of its run, and of the promotion that it went on from; whether it
    /// has stored anything in that run, and how many strings for its records.
    Shows {
        between: Between,
        local: Instant,
        run: (u64, u64),
        record: Option<Arc<str>>,
        quarantine: Option<Duration>,
        started: Instant,
        used: bool,
        stored: u64,
    },
    /// A client has looked at what the node has shown. `stepped`: it has seen the node's clock step.
    Decides {
        client: usize,
        place: usize,
        connection: u64,
        stepped: bool,
        decision: Box<Admission>,
    },
    /// A node is to replace its record `old` by another, with such a quarantine.
    Writes {
        between: Between,
        local: Instant,
        old: Option<Arc<str>>,
        new: Arc<str>,
        quarantine: Duration,
        before: Shown,
        after: Shown,
        /// How many strings the server has stored for its records in this run, before that.
        stored: u64,
    },
    /// Requests go over a connection from here on, with this record where restarts are guarded.
    Ready {
        between: Between,
        record: Option<Arc<str>>,
    },
    /// Something goes wrong.
    Fault(FaultEvent),
    /// A user has a lease.
    Won {
        hold: Hold,
        now: Instant,
        end: Instant,
        /// The acquire has just returned.
        at_once: bool,
        again: bool,
        fence: Option<u64>,
        mode: Mode,
        lock: Arc<[u8]>,
        ttl: Duration,
        min_validity: Duration,
        max_hold: Option<Duration>,
        keep: Duration,
        begun: Instant,
    },
    /// A lease, as a look finds it: its end, and until when its handles say that it is held, those that its users have
    /// and those that they gave back.
    Stands {
        hold: Hold,
        now: Instant,
        end: Instant,
        says: Instant,
        gave_back: Instant,
    },
    /// A user is about to give a handle up; `last`: it has no other. Or it has.
    GivesUp {
        hold: Hold,
        now: Instant,
        last: bool,
    },
    /// See [`Step::GivesUp`].
    GaveUp {
        hold: Hold,
        now: Instant,
        last: bool,
        end: Instant,
        goes_on: bool,
    },
    /// A user waits for its release to be done; its call returns what came of it.
    Awaits { hold: Hold },
    /// See [`Step::Awaits`].
    Told { hold: Hold },
    /// A user was told that its release is done; `again`: by a handle that it gave back before.
    Released { hold: Hold, again: bool },
    /// A user exports its lease.
    Exports { hold: Hold, now: Instant },
    /// A user shares its lease from here on.
    Shares { hold: Hold },
    /// A user looks whether its lease is held; `reason`: it was told that it is lost. It has listened from `since` on.
    Looks {
        hold: Hold,
        now: Instant,
        since: Time,
        held: bool,
        reason: Option<LossReason>,
        awake_since: Time,
    },
    /// A user has asked for an extension, or for so much to be left, at `asked`, and was told what came of it.
    Extended {
        hold: Hold,
        asked: Instant,
        now: Instant,
        ttl: Duration,
        says: Instant,
        ensures: bool,
        /// By a handle that was given back before.
        gave_back: bool,
        outcome: Result<(), ErrorKind>,
    },
    /// A user who shares the lock has asked to have it alone.
    Upgrades {
        hold: Hold,
        refused: bool,
        held: bool,
    },
    /// A user wants the lock to be taken away from its holder; its call returns what came of it.
    Forces { client: usize, lock: Arc<[u8]> },
    /// See [`Step::Forces`].
    Forced {
        client: usize,
        lock: Arc<[u8]>,
        done: bool,
    },
    /// From here on a client looks whether locks are to be had. What it wins is not in the trace.
    Probes { client: usize },
    /// Nothing is of use any more to the task that has asked for this token.
    Useless { token: u64 },
    /// The client is closed, or gone.
    Closed { client: usize },
    /// The trace is over.
    Ends,
}

/// A step, and when.
#[derive(Clone, Debug)]
pub struct Traced {
    /// True time.
    pub at: Time,
    /// What.
    pub step: Step,
}

/// All steps of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Trace(pub Vec<Traced>);
