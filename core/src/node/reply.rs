//! What a node answers.

use std::time::Duration;

use super::{Fault, Value};

/// What a node answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Native acquire: something stands under the key. The plain command does not tell the holder,
    /// nor for how long it holds.
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
        /// The fence that the node has stored.
        fence: u64,
    },
    /// Acquire, or extend: the node is in quarantine. It gives no new vote, confirms a vote only to
    /// a request that may count it, and is no home.
    Quarantined {
        /// How much longer the quarantine lasts.
        left: Duration,
    },
    /// The node's `TIME` is beyond `not_after`: nothing was done.
    Late,
    /// Extend: the key does not hold our value. Acquire: our value is [banned](super::AfterRelease::Forced), or
    /// that which it was to take over is not there.
    NotMine,
    /// Extend: our value is [banned](super::AfterRelease::Forced), and no vote, whether or not it is there.
    Banned,
    /// Release: done.
    Released {
        /// Whether the key still held our value.
        held: bool,
    },
    /// Release, of a lock that is to [stay taken](super::AfterRelease): our value was not there, and the lock
    /// stays taken all the same.
    Kept,
    /// Acquire, of a semaphore: this slot is free, and it is reserved for the waiter, if there
    /// is one. It is no vote.
    Chosen {
        /// The slot's number.
        slot: u32,
    },
    /// Inspect: what is there.
    Seen(Box<LockState>),
    /// Reserve: whether it was.
    Reserved {
        /// The reservation was made: no holder has the lock for itself, and it was not reserved for
        /// another waiter.
        done: bool,
    },
    /// No answer, or an answer that is no vote.
    Failed(Fault),
}

/// How many bytes of a value, a label or a record an inspection returns. Ours have fewer; a
/// stranger may have put anything of any length under a key of ours.
pub const SHOWN_BYTES: usize = 2048;

/// How many of the readers that share a lock an inspection returns.
pub const SHARERS: usize = 16;

/// What a node has of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockState {
    /// What stands under the lock's key.
    pub standing: Standing,
    /// How long that will last unless it is renewed; `None`: it has no end. Zero where
    /// nothing stands.
    pub left: Option<Duration>,
    /// The value that holds or keeps the lock; of readers the value whose vote ends last. A foreign
    /// key of another type has an empty one.
    pub value: Option<Value>,
    /// The last fence that was counted; 0 for none.
    pub fence: u64,
    /// The last fence that the value's own lease has reported to the node; 0 where it has reported
    /// none.
    pub own: u64,
    /// How many wait in the queue.
    pub queued: u32,
    /// How many slots of a [semaphore](super::Mode::AnySlot) are held.
    pub slots: u32,
    /// How many share the lock.
    pub readers: u32,
    /// The readers whose votes end last, at most [`SHARERS`], in the order of their ends.
    pub sharers: Vec<Value>,
    /// How much longer the node is in quarantine.
    pub quarantine: Duration,
}

/// What stands under a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Nothing that counts.
    Free,
    /// A vote of ours.
    Held,
    /// Votes that share it.
    Shared,
    /// A vote that was given back, with `keep`.
    Kept,
    /// The lock is free, and reserved for a waiter.
    Reserved,
    /// What no client of ours has put there.
    Foreign,
}

/// What a node says of a lock's line when it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueInfo {
    /// How many wait before us; `None`: we do not stand there.
    pub place: Option<u32>,
    /// The node counts no subscriber of our inbox.
    pub deaf: bool,
    /// Readers hold the lock.
    pub shared: bool,
}
