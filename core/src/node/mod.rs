//! One node: what it is asked, what it answers, and the seam to it.

pub(crate) mod address;
pub mod admission;
pub(crate) mod cluster;
mod fault;
pub(crate) mod hash_slot;
pub mod memory;
pub mod names;
pub mod native;
mod nodes;
pub(crate) mod redis;
pub mod time;
mod value;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Instant;
use crate::hash::fnv1a;
use crate::wakers::Wakers;
use admission::QuarantineCause;
pub use fault::{Cause, Fault, FaultKind, ServerState};
pub use nodes::Nodes;
pub use value::Value;

/// A request to one node: one script call, or where it is [native](Request::native)
/// a few plain commands.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub op: Op,
    /// An [`Op::Acquire`] that is asked with `SET … NX`, or an [`Op::Release`] that
    /// deletes by value: cheaper for the node than a script, for a lock that nobody
    /// waits for. It is never sent twice: what has to be asked again is asked by
    /// script.
    pub native: bool,
    /// For which lock.
    pub keys: Arc<Keys>,
    /// The value that marks our vote: the token, and the label if there is
    /// one. Empty in a release that takes back no vote.
    pub value: Value,
    /// Who asks, if it waits: see [`Op::Acquire`] and [`Op::Release`].
    pub waiter: Option<Waiter>,
    /// How an [`Op::Release`] leaves the lock.
    pub leaving: AfterRelease,
    /// The node's `TIME` in µs after which it does nothing; 0: at any time. Of a native
    /// acquire: when its key ends, in µs that are whole milliseconds; 0: the link tells
    /// when, by the `TIME` that it read on connect, or for a plain lock the node does, its
    /// ttl after the request has come there.
    pub not_after: u64,
}

/// A lock's keys on the nodes, and how they are kept: what all requests for it
/// have in common.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The lock's own.
    pub lock: Arc<[u8]>,
    /// The others.
    pub aux: AuxKeys,
    /// How nodes keep a line.
    pub waits: Waits,
    /// How long the counter of fences lives after a grant or a renewal; `None`
    /// without fences.
    pub fence_ttl: Option<Duration>,
    /// Whom a vote lets in beside it.
    pub mode: Mode,
    /// Of a lease that was another client's, what it was there: an [`Op::Acquire`] is given this
    /// one's vote and no other, and the request's value comes in its place. What stands there else
    /// is [not ours](Reply::NotMine).
    pub adopts: Option<Box<Adopted>>,
    /// Of a lock in Redisson's layout, who has it: see [`Field`].
    pub field: Option<Field>,
}

/// A lease of another client that is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Its value, whose vote is taken over.
    pub value: Value,
    /// For how long that is banned from then on, whether it stands there or not: what its
    /// client has sent before may come yet, and an [`Op::Extend`] would store it anew.
    pub ban: Duration,
}

/// Who has a lock in Redisson's layout. There the lock's key is a hash with one field, the
/// owner's, which counts how often that has entered; whose tokens those counts are is kept in
/// the key that is the [queue's](AuxKeys::queue) of other locks. Nobody is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name of the field.
    pub name: Arc<[u8]>,
    /// Others may be the same owner, in other processes and in Java.
    pub shared: bool,
}

/// In which mode a lock is held, or asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By one alone.
    #[default]
    Exclusive,
    /// By many at once, who are called readers, and by nobody alone.
    Shared,
    /// A semaphore of this many slots, of which any will do. It is asked for, and not held:
    /// what is held is one of its slots.
    AnySlot(u32),
    /// The slot of this number, counted from 0: by one alone, as a lock, beside those that
    /// hold the others. Whoever waits, waits for all of them in one queue.
    Slot(u32),
}

impl Mode {
    /// Whether a vote in it lets nobody in beside it: it is the lock's, or one slot's.
    pub fn is_alone(self) -> bool {
        !matches!(self, Mode::Shared)
    }

    /// As a waiter stands in a queue: to share, or alone.
    pub fn in_line(self) -> Mode {
        if self.is_alone() {
            Mode::Exclusive
        } else {
            Mode::Shared
        }
    }

    /// Which slot that is.
    pub fn slot(self) -> Option<u32> {
        match self {
            Mode::Slot(slot) => Some(slot),
            Mode::Exclusive | Mode::Shared | Mode::AnySlot(_) => None,
        }
    }
}

impl Keys {
    /// Which lock these are of.
    pub fn id(&self) -> &LockId {
        self.aux.id()
    }

    /// Where fences are counted, and how long that lives.
    pub fn counter(&self) -> Option<(&[u8], Duration)> {
        self.fence_ttl.map(|ttl| (self.aux.counter(), ttl))
    }

    /// Those of one slot, where these are of a semaphore. Its number stands in the names of
    /// the lock and the counter; the queue is that of all slots.
    pub fn of_slot(&self, slot: u32) -> Keys {
        let numbered = |key: &[u8], at: usize| {
            let number = slot.to_string();
            let (before, behind) = key.split_at(at.min(key.len()));
            [before, number.as_bytes(), behind].concat()
        };
        let mark = self.aux.mark().unwrap_or(self.lock.len());
        let counter = self.aux.counter();
        let counter = numbered(counter, mark + 1);
        Keys {
            lock: numbered(&self.lock, mark).into(),
            aux: AuxKeys::of(self.aux.queue(), &counter),
            mode: Mode::Slot(slot),
            ..self.clone()
        }
    }
}

/// Which lock it is, among all of a client's: whoever asks whether two requests are for one lock
/// compares these. Its key does not tell, for a raw lock and one in Redisson's layout may have the
/// same; the keys that go with it tell namespace, layout and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockId(Arc<[u8]>);

impl LockId {
    /// As bytes, which no other lock of the client has.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The keys that go with a lock's own, in one piece of memory: every lock that
/// is held has them.
#[derive(Clone, Debug)]
pub struct AuxKeys {
    /// That of the queue, and behind it that of the counter. No two locks have them alike.
    keys: LockId,
    /// How long the first is.
    queue: u32,
}

impl AuxKeys {
    /// Of the keys of the queue and the counter.
    pub fn of(queue: &[u8], counter: &[u8]) -> AuxKeys {
        AuxKeys {
            keys: LockId([queue, counter].concat().into()),
            queue: u32::try_from(queue.len()).expect("names are short"),
        }
    }

    /// Of which lock they are.
    pub fn id(&self) -> &LockId {
        &self.keys
    }

    /// Where the waiters stand in their order.
    pub fn queue(&self) -> &[u8] {
        &self.keys.0[..self.queue as usize]
    }

    /// Where fences are counted.
    pub fn counter(&self) -> &[u8] {
        &self.keys.0[self.queue as usize..]
    }

    /// Which values were forced out. Seldom asked for, so it is made then, and no lock has it.
    pub fn bans(&self) -> Vec<u8> {
        self.marked(b'x')
    }

    /// Whose votes share the lock. Made when it is asked for, as [the bans](Self::bans).
    pub fn shared(&self) -> Vec<u8> {
        self.marked(b's')
    }

    /// A key named as the others are, by a mark of its own.
    pub fn marked(&self, with: u8) -> Vec<u8> {
        let mut key = self.queue().to_vec();
        if let Some(mark) = self.mark() {
            key[mark] = with;
        }
        key
    }

    /// Whether the lock is a raw one, which has no readers: those under its key are of a lock of
    /// another namespace, and hold it.
    pub fn is_raw(&self) -> bool {
        // `NAMESPACE#q:` and a `#`, with which no other name begins here.
        let mark = self.mark().and_then(|mark| self.queue().get(mark + 2));
        mark == Some(&b'#')
    }

    /// Where the mark stands: all that the keys differ in.
    pub(crate) fn mark(&self) -> Option<usize> {
        let mut both = self.queue().iter().zip(self.counter());
        both.position(|(q, f)| q != f)
    }
}

/// How a node keeps a line, in whole milliseconds. It has no settings of its
/// own, so this goes with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How long the lock is kept for the waiter whose turn it is.
    pub reservation: Duration,
    /// How long a waiter stays in the queue from when it asked last.
    pub place: Duration,
    /// How many may stand in one queue.
    pub most: u32,
}

/// One place in a node's queue. Not a token: it may leave at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Names it among all that its client ever had.
    pub number: u64,
    /// The channel on which its client listens.
    pub inbox: Arc<[u8]>,
}

impl Waiter {
    /// As nodes store it: the number in decimal, a blank, the inbox; before that of one
    /// that shares an `s`.
    pub fn text(&self, mode: Mode) -> Vec<u8> {
        let mut text = if mode.is_alone() {
            Vec::new()
        } else {
            b"s".to_vec()
        };
        text.extend_from_slice(self.number.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(&self.inbox);
        text
    }
}

/// A message of a node to a waiter: that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Which waiter: see [`Waiter::number`].
    pub number: u64,
    /// Which slot is reserved for it, of a semaphore.
    pub slot: Option<u32>,
}

/// The scripts of docs/reference/protocol.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Store the value for `ttl` if the key is free and it is the waiter's turn:
    /// the lock is reserved for it, or for nobody and no other is before it in
    /// the queue. For a key that holds the value already, outside of a quarantine:
    /// lengthen its life to `ttl` and count a new fence. Of a [semaphore](Mode::AnySlot)
    /// store no value, but choose a slot, and reserve that for the waiter.
    Acquire {
        /// Auto-release time.
        ttl: Duration,
        /// The fence that is proposed, the last of its block; 0: none, so that
        /// the node counts nothing and tells what is stored. Of a
        /// [semaphore](Mode::AnySlot) the slot that is looked at first.
        candidate: u64,
        /// Whether this node is the waiter's home: where it is refused it is
        /// queued, or its place lengthened.
        home: bool,
        /// Whether the waiter's home has let it in, where it is to share the lock: it has voted
        /// for the value. A [reservation](Op::Reserve) for one that wants the lock for itself
        /// keeps it out no more.
        let_in: bool,
        /// How many fences are taken at once, at least 1. The vote's own is the
        /// first of them.
        block: u32,
    },
    /// Lengthen the life of our key to `ttl`; never shorten it.
    Extend {
        /// Auto-release time.
        ttl: Duration,
        /// Whether to store the value anew where the key is gone.
        repair: Repair,
        /// The last fence of the lease's block: the counter is raised to it.
        fence: u64,
        /// How many of the block are behind the lease's own.
        behind: u32,
    },
    /// Store this fence, the last of its block, if the key holds our value and all of
    /// the block is beyond what is stored; lengthens the key as
    /// [`Extend`](Op::Extend) does.
    Confirm {
        /// Auto-release time.
        ttl: Duration,
        /// The last fence of the block.
        fence: u64,
        /// How many fences are taken at once, at least 1.
        block: u32,
    },
    /// Delete the key if it holds our value; take the waiter out of the queue,
    /// and end a reservation for it. If the lock is free then, it is reserved
    /// for the first who waits, who is told. Where the lock is to stay taken
    /// (see [`AfterRelease`]) our value stays, dead: nothing but its end takes it away, and
    /// nobody is told. Of a [semaphore](Mode::AnySlot) the waiter goes, and what was reserved
    /// for it of its slots is free.
    Release,
    /// Look, and change nothing.
    Inspect,
    /// Reserve the lock for the waiter, who wants it for itself, if nobody has it so: no
    /// reader comes any more, and those that are there go. It is no vote.
    Reserve {
        /// For how long.
        long: Duration,
    },
}

/// How a release leaves the lock on the node, where that still holds our value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterRelease {
    /// Free.
    #[default]
    Free,
    /// Taken, until this moment of the client's clock: whoever writes the request says how
    /// long that is yet.
    TakenUntil(Instant),
    /// Taken for so long from when the node carries it out, as it goes over the wire.
    TakenFor(Duration),
    /// Free, though it was to stay taken, and whoever's value it is. That is banned for so
    /// long: no script stores it, or lengthens it. Also where it does not stand.
    Forced(Duration),
}

impl AfterRelease {
    /// Whether the lock stays taken for a while.
    pub fn keeps(self) -> bool {
        matches!(
            self,
            AfterRelease::TakenUntil(_) | AfterRelease::TakenFor(_)
        )
    }

    /// As it goes over the wire at `now`: to the end of the last millisecond that has begun.
    pub fn at(self, now: Instant) -> AfterRelease {
        match self {
            AfterRelease::TakenUntil(end) if end <= now => AfterRelease::Free,
            AfterRelease::TakenUntil(end) => AfterRelease::TakenFor(whole_millis(now.until(end))),
            other => other,
        }
    }
}

/// Rounded up to whole milliseconds.
fn whole_millis(length: Duration) -> Duration {
    let millis = length.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Whether an extension stores a vote anew that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It does not.
    No,
    /// It does, unless the node is in quarantine.
    Yes,
    /// It does, also in quarantine, on this server: the lease has had a vote of
    /// that very one whose end is still ahead, so no other vote on it can be
    /// pending (rule R11).
    InQuarantine {
        /// See [`RequestContext::server`].
        server: u64,
    },
}

impl Op {
    /// What is asked of this server. Another than the one before takes no vote
    /// back: while it does, the first may give the same to another client.
    pub fn on(self, here: u64) -> Op {
        match self {
            Op::Extend {
                ttl,
                repair: Repair::InQuarantine { server },
                fence,
                behind,
            } if (server != here || here == 0) => Op::Extend {
                ttl,
                repair: Repair::Yes,
                fence,
                behind,
            },
            op => op,
        }
    }
}

/// What a node answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Acquire: our value stands under the key.
    Granted {
        /// The fence that is stored on the node: the last of the block, or, where
        /// none was proposed, what others have left there. 0 for none.
        fence: u64,
        /// For how long it stands there, counted from any moment before the request was
        /// sent, where that may be less than the ttl.
        lasts: Option<Duration>,
    },
    /// Native acquire: something stands under the key. Who holds the lock, and for how
    /// long, is not told.
    Taken,
    /// Acquire: another's value stands there, or the lock is reserved for
    /// another.
    Refused {
        /// How long that will last, unless it is renewed. `None`: it has no
        /// end, so no lock library put it there.
        left: Option<Duration>,
        /// The label of its value, if it has one. A reservation has none.
        holder: Option<Box<str>>,
        /// How many wait before ours in the queue of its home; `None` where it
        /// is not queued: not its home, no waiter, or the queue is full.
        place: Option<u32>,
        /// How many connections listen on our inbox there: with none a message
        /// would be lost. Always 1 where `place` is `None`.
        subscribers: u32,
        /// Readers hold it.
        shared: bool,
    },
    /// Extend: our key lives for the ttl, counted from now.
    Extended {
        /// Whether it was gone and has been stored anew.
        repaired: bool,
    },
    /// Confirm: done.
    Confirmed,
    /// Confirm: a fence is stored that is not below all of the block.
    Greater {
        /// That fence.
        fence: u64,
    },
    /// Acquire, or extend: the node is in quarantine, gives no new vote, confirms none
    /// but to whom counts it, and is no home.
    Quarantined {
        /// How long yet.
        left: Duration,
    },
    /// The node's `TIME` is beyond `not_after`: nothing was done.
    Late,
    /// Extend: the key does not hold our value. Acquire: our value is [banned](AfterRelease::Forced), or
    /// that which it was to take over is not there.
    NotMine,
    /// Extend: our value is [banned](AfterRelease::Forced), and no vote, whether or not it is there.
    Banned,
    /// Release: done.
    Released {
        /// Whether the key still held our value.
        held: bool,
    },
    /// Release, of a lock that is to [stay taken](AfterRelease): our value was not there, and the lock
    /// stays taken all the same.
    Kept,
    /// Acquire, of a semaphore: this slot is free, and it is reserved for the waiter, if there
    /// is one. It is no vote.
    Chosen {
        /// Its number.
        slot: u32,
    },
    /// Inspect: what is there.
    Seen(Box<Seen>),
    /// Reserve: whether it was.
    Reserved {
        /// Nobody has the lock for itself, and it was not reserved for another.
        done: bool,
    },
    /// No answer, or an answer that is no vote.
    Failed(Fault),
}

/// So many bytes of a value, a label or a record are told. Ours have fewer; what stands under a key
/// of ours may be anybody's, and of any length.
pub const TOLD: usize = 2048;

/// So many of those that share a lock are told at once.
pub const SHARERS: usize = 16;

/// What a node has of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What stands under the lock's key.
    pub standing: Standing,
    /// How long that will last unless it is renewed; `None`: it has no end. Zero where
    /// nothing stands.
    pub left: Option<Duration>,
    /// By whose value the lock is held or kept; of readers by the one whose vote ends last. Of
    /// a foreign one of another type it is empty.
    pub value: Option<Value>,
    /// The last fence that was counted; 0 for none.
    pub fence: u64,
    /// The last fence that was taken for the value's own lease, where the node has been told; else 0.
    pub own: u64,
    /// How many wait in the queue.
    pub queued: u32,
    /// Of the slots of a [semaphore](Mode::AnySlot), how many are held.
    pub slots: u32,
    /// How many share the lock.
    pub readers: u32,
    /// Of those up to [`SHARERS`] whose votes end last, the last of all behind the others.
    pub sharers: Vec<Value>,
    /// How much longer the node is in quarantine.
    pub quarantine: Duration,
}

/// What stands under a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that counts.
    Free,
    /// A vote of ours.
    Held,
    /// Votes that share it.
    Shared,
    /// A vote that was given back, with `keep`.
    Kept,
    /// It is free, and reserved for a waiter.
    Reserved,
    /// What no client of ours has put there.
    Foreign,
}

/// What a node says of a lock's line when it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// How many wait before us; `None`: we do not stand there.
    pub place: Option<u32>,
    /// Nobody listens on our inbox there.
    pub deaf: bool,
    /// Readers hold the lock.
    pub shared: bool,
}

/// What goes with a request and comes back with its reply.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext {
    /// The node's place in the set.
    pub node: usize,
    /// A moment before the first byte of the request left: votes are counted
    /// from here.
    pub sent: Instant,
    /// When the requester stops waiting for this node.
    pub deadline: Instant,
    /// What the request was.
    pub op: Op,
    /// Which server it was written to: the hash of the address that it has by
    /// its own account, which a proxy does not change and a restart seldom; 0
    /// where that is not known. The link sets it; before, it is the server by whose
    /// clock the request's `not_after` is.
    pub server: u64,
}

/// Where the reply to a request goes.
pub trait Sink: Send + Sync {
    /// Takes the reply. Called once for each request, at the latest a moment
    /// after its deadline, on any thread; must not block. `time`: the node's
    /// `TIME` in µs as it answered, where it told.
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<u64>);

    /// Whether the request still matters. One that does not is not written,
    /// and not written again: an acquire must never follow the release of its
    /// token.
    fn wanted(&self) -> bool;
}

/// What a node's server says of itself, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `None`: it has no bound, or does not tell.
    pub memory: Option<Memory>,
    /// When the first of the certificates ends that it has shown, in seconds since 1970.
    pub certificate_expires: Option<u64>,
}

impl Server {
    /// The worse of both, in each regard.
    pub(crate) fn worse(self, other: Server) -> Server {
        let fuller = |one: Memory, other: Memory| {
            let (mine, theirs) = (
                u128::from(one.used) * u128::from(other.limit),
                u128::from(other.used) * u128::from(one.limit),
            );
            if mine >= theirs { one } else { other }
        };
        let both = self.memory.zip(other.memory);
        let ends = self.certificate_expires.into_iter();
        Server {
            memory: both
                .map(|(one, other)| fuller(one, other))
                .or(self.memory)
                .or(other.memory),
            certificate_expires: ends.chain(other.certificate_expires).min(),
        }
    }
}

/// How much memory a server uses, and may, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it uses.
    pub used: u64,
    /// What it may use; not 0.
    pub limit: u64,
}

/// The seam to a node.
///
/// Requests to one node are carried out in the order of the calls, as long as
/// the connection stands. A [`Op::Release`] is sent again after each reconnect
/// until it is acknowledged or `give_up` has come, whatever was told to its
/// sink meanwhile.
pub trait Link: Send + Sync + 'static {
    /// Queues a request. Never blocks; may call the sink before it returns. What
    /// it returns is the wake-up that it owes: whoever sends [rings](Link::ring)
    /// for it, once everything that leaves together is queued. That holds for an
    /// empty one too: the task has been woken then, but is yet to be driven.
    #[must_use]
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers>;

    /// Wakes the tasks that links of this set, which are driven alike, owe to
    /// requests: in one go, for from outside of their runtime that is a system
    /// call, and what it wakes may run before the next node has been asked.
    fn ring(&self, owed: Wakers) {
        owed.wake();
    }

    /// The node's name in errors and logs.
    fn shown(&self) -> Arc<str>;

    /// A number for the node, the same for all its clients: of its id, once that
    /// is known; before, of its name.
    fn id(&self) -> u64 {
        fnv1a(self.shown().as_bytes())
    }

    /// Whether that is the number of its id: it was connected to.
    fn is_met(&self) -> bool {
        true
    }

    /// Whether the node is connected to, once that is known: it is waited for where no try to
    /// connect has come to an end since the link was made, or since it lost its connection; and
    /// the next try is begun.
    fn poll_met(&self, cx: &Context<'_>) -> Poll<bool> {
        let _ = cx;
        Poll::Ready(true)
    }

    /// Whether the node has shown the record of this client's set, or needs none.
    fn is_ours(&self) -> bool {
        true
    }

    /// Why the node is in quarantine, if it is and that is known.
    fn cause(&self) -> Option<QuarantineCause> {
        None
    }

    /// Whether the node is made of parts with locks of their own, and is there: then one may
    /// be away, or in quarantine, while others vote.
    fn in_parts(&self) -> bool {
        false
    }

    /// Drops the connection and everything queued; answers nothing more.
    fn close(&self);

    /// How many releases were given up because too many waited.
    fn dropped(&self) -> u64 {
        0
    }

    /// How many connections were made.
    fn connects(&self) -> u64 {
        0
    }

    /// What its server has said of itself last.
    fn server(&self) -> Server {
        Server::default()
    }

    /// Subscribes the client's inbox over each connection that is made from here
    /// on, and tells `subscriber` what comes. Called once, before the first
    /// request. A link that carries no messages drops it.
    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        drop(subscriber);
    }

    /// How many messages came that no node sends to this client's inbox:
    /// forged, or too long.
    fn stray(&self) -> u64 {
        0
    }
}

/// The subscriber of an inbox: who is told of the messages that come without
/// having been asked for. They are hints: one may be lost, late, or sent twice.
/// Called on the I/O thread; must not block, but may send requests.
pub trait Subscriber: Send + Sync {
    /// `node` tells a waiter that its turn has come.
    fn on_message(&self, node: usize, hint: Hint);

    /// The inbox is subscribed on `node`, for the first time or anew: what was
    /// published before is lost. A subscription that is lost comes again once the
    /// node is reached, by whatever request or because messages are
    /// [awaited](Subscriber::is_awaited).
    fn on_subscribed(&self, node: usize);

    /// Whether anybody waits for messages of `node`: then a connection that was
    /// lost, and had subscribed, is made again although no request asks for it.
    fn is_awaited(&self, node: usize) -> bool {
        let _ = node;
        false
    }
}
