//! What a node is asked: one script, or a few plain commands.

use std::sync::Arc;
use std::time::Duration;

use super::{Keys, Value, Waiter};
use crate::clock::Instant;

/// A request to one node: one script call, or where it is [native](Request::native)
/// a few plain commands.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub op: Op,
    /// An [`Op::Acquire`] that is asked with `SET … NX`, or an [`Op::Release`] that deletes by
    /// value: cheaper for the node than a script, for a lock without waiters. The link never sends
    /// it twice: a repetition is asked by script.
    pub native: bool,
    /// For which lock.
    pub keys: Arc<Keys>,
    /// The value that marks our vote: the token, and the label if there is
    /// one. Empty in a release that takes back no vote.
    pub value: Value,
    /// The waiter that asks, if the call waits: see [`Op::Acquire`] and [`Op::Release`].
    pub waiter: Option<Waiter>,
    /// How an [`Op::Release`] leaves the lock.
    pub leaving: AfterRelease,
    /// The node's `TIME` in µs after which it does nothing; 0: at any time. Of a native
    /// acquire: when its key ends, in µs that are whole milliseconds; 0: the link tells
    /// when, by the `TIME` that it read on connect, or for a plain lock the node does, its
    /// ttl after the request has come there.
    pub not_after: u64,
}

/// The scripts of docs/reference/protocol.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Store the value for `ttl` if the key is free and it is the waiter's turn: the node has
    /// reserved the lock for this waiter, or has reserved it for none and this waiter is first in
    /// the queue. For a key that holds the value already, outside of a quarantine: lengthen its
    /// life to `ttl` and count a new fence. For a [semaphore](super::Mode::AnySlot) store no value, but
    /// choose a slot, and reserve that for the waiter.
    Acquire {
        /// Auto-release time.
        ttl: Duration,
        /// The fence that is proposed, the last of its block; 0: none, so that
        /// the node counts nothing and tells what is stored. Of a
        /// [semaphore](super::Mode::AnySlot) the slot that is looked at first.
        candidate: u64,
        /// Whether this node is the waiter's home: where it is refused it is
        /// queued, or its place lengthened.
        home: bool,
        /// Whether the waiter's home has let it in, where it is to share the lock: the home has
        /// voted for the value. A [reservation](Op::Reserve) for a waiter that wants the lock for
        /// itself then keeps it out no more.
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
    /// Delete the key if it holds our value; take the waiter out of the queue, and end a
    /// reservation for it. If the lock is free then, the node reserves it for the first waiter and
    /// notifies that. Where the lock is to stay taken (see [`AfterRelease`]) our value stays, dead:
    /// nothing but its end takes it away, and no waiter is notified. For a
    /// [semaphore](super::Mode::AnySlot) the waiter leaves the queue, and a slot that was reserved for it
    /// is free.
    Release,
    /// Look, and change nothing.
    Inspect,
    /// Reserve the lock for the waiter, which wants it for itself, if no holder has it so: the node
    /// lets no further reader in, and the present ones leave in time. A reservation is no vote.
    Reserve {
        /// For how long.
        long: Duration,
    },
}

/// How a release leaves the lock on the node, where that still holds our value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AfterRelease {
    /// Free.
    #[default]
    Free,
    /// Taken, until this moment of the client's clock: the request says how long that still is when
    /// it is written.
    TakenUntil(Instant),
    /// Taken for so long from when the node carries it out, as it goes over the wire.
    TakenFor(Duration),
    /// Free, though it was to stay taken, and whatever value holds it. The node bans that value for
    /// so long, also where it does not stand: no script stores or lengthens it meanwhile.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    /// The node's answer does not count.
    No,
    /// The node's answer counts, unless the node is in quarantine.
    Yes,
    /// The node's answer counts, also in quarantine, on this server: the lease has a vote of that
    /// very server whose end is still ahead, so no other vote on it can be pending (rule R11).
    InQuarantine {
        /// See [`RequestContext::server`](super::RequestContext::server).
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
