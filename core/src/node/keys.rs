//! A lock's keys on the nodes, and how it is held there: what all requests for one lock have in
//! common.

use std::sync::Arc;
use std::time::Duration;

use super::Value;

/// A lock's keys on the nodes, and how they are kept: what all requests for it
/// have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Which other votes this vote lets in beside it.
    pub mode: Mode,
    /// The lease of another client that this one takes over: an [`Op::Acquire`](super::Op::Acquire) replaces the vote
    /// of that lease by the request's value, and takes no other vote. Anything else under the key
    /// is [not ours](super::Reply::NotMine).
    pub adopts: Option<Box<Adoption>>,
    /// The owner, of a lock in Redisson's layout: see [`Field`].
    pub field: Option<Field>,
}

/// A lease of another client that is taken over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adoption {
    /// The value of the lease, whose vote is taken over.
    pub value: Value,
    /// For how long the node bans that value from then on, whether it stands there or not: a
    /// request that its client has sent before may arrive late, and an [`Op::Extend`](super::Op::Extend) would store
    /// it anew.
    pub ban: Duration,
}

/// The owner of a lock in Redisson's layout. There the lock's key is a hash with one field for the
/// owner, which counts its entries; the tokens of those entries are kept in the key that is the
/// [queue's](AuxKeys::queue) of other locks. So no waiter is queued.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The name of the field.
    pub name: Arc<[u8]>,
    /// Whether other holders may be the same owner, in other processes and in Java.
    pub shared: bool,
}

/// In which mode a lock is held, or asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One holder has the lock alone.
    #[default]
    Exclusive,
    /// Many holders, called readers, share the lock; none has it alone.
    Shared,
    /// A semaphore of this many slots, of which any will do. It is asked for, and not held:
    /// what is held is one of its slots.
    AnySlot(u32),
    /// The slot of this number, counted from 0: its holder has it alone, as a lock, beside the
    /// holders of the other slots. A waiter waits for all slots in one queue.
    Slot(u32),
}

impl Mode {
    /// Whether a vote in this mode excludes every other one: from the lock, or from one slot.
    pub fn is_alone(self) -> bool {
        !matches!(self, Mode::Shared)
    }

    /// The mode in which a waiter stands in a queue: to share the lock, or to have it for itself.
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

    /// The keys of one slot, where these are of a semaphore. The slot's number stands in the names
    /// of the lock and the counter; the queue is common to all slots.
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

/// The identity of a lock among all of a client's: two requests are for one lock where these are
/// equal. The lock's key does not suffice, for a raw lock and a lock in Redisson's layout may have
/// the same; the keys that go with it tell namespace, layout and name.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuxKeys {
    /// The key of the queue, and behind it the key of the counter. No two locks have equal ones.
    keys: LockId,
    /// How long the first is.
    queue: u32,
}

impl AuxKeys {
    /// Makes the keys from those of the queue and the counter.
    pub fn of(queue: &[u8], counter: &[u8]) -> AuxKeys {
        AuxKeys {
            keys: LockId([queue, counter].concat().into()),
            queue: u32::try_from(queue.len()).expect("names are short"),
        }
    }

    /// The lock that the keys belong to.
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

    /// The key of the votes that share the lock. Made when it is asked for, as [the
    /// bans](Self::bans).
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
        // The queue of a raw lock begins with `NAMESPACE#q:#`; the queue of no other lock begins
        // so.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waits {
    /// How long the lock is kept for the waiter whose turn it is.
    pub reservation: Duration,
    /// How long a waiter stays in the queue from when it asked last.
    pub place: Duration,
    /// How many may stand in one queue.
    pub most: u32,
}

/// One place in a node's queue. It is no token: the waiter may leave at any time.
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
