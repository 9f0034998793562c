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
    Seen(Box<LockState>),
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockState {
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
    /// It is free, and reserved for a waiter.
    Reserved,
    /// What no client of ours has put there.
    Foreign,
}

/// What a node says of a lock's line when it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueInfo {
    /// How many wait before us; `None`: we do not stand there.
    pub place: Option<u32>,
    /// Nobody listens on our inbox there.
    pub deaf: bool,
    /// Readers hold the lock.
    pub shared: bool,
}
