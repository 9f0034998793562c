//! What is to be done after one step of a claim.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Instant;
use crate::node::{AfterRelease, Keys, Op, Value};
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;

/// One entry for each of up to nine nodes without an allocation: larger sets are rare.
pub(crate) type PerNode<T> = SmallVec<[T; 9]>;

/// What is to be done after one step. The shell performs it with the claim unlocked, in the order
/// of the fields; effects of two threads may be performed in either order.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Whether the event was carried out: the lease was valid, and has changed as was asked.
    pub(crate) done: bool,
    /// What the counters count.
    pub(crate) counts: Counts,
    /// The lease is over, as this says.
    pub(crate) over: Option<LeaseEnd>,
    /// The token went on with another lease; this is how long the previous lease was held.
    pub(crate) passed_on: Option<(Group, Duration)>,
    /// The user is to be warned.
    pub(crate) warnings: Warnings,
    /// What the set learns of its nodes as homes.
    pub(crate) homes: Homes,
    /// The lease is to be looked at by then: its end has come nearer, or its label has changed.
    pub(crate) look_by: Option<Instant>,
    /// When a lease that was looked at is to be looked at again; `None` once the token is dead.
    pub(crate) look_again: Option<Instant>,
    /// The home is waited for until then: the claim is to be told when that
    /// [is over](super::Event::HomeDue).
    pub(crate) home_due: Option<Instant>,
    /// What the nodes are asked, in requests that leave together.
    pub(crate) asks: PerNode<Ask>,
    /// By which keys, and with which value.
    pub(crate) asks_for: Option<(Arc<Keys>, Value)>,
    /// What is taken away from the nodes.
    pub(crate) release: Option<ReleasePlan>,
    /// What the adopted lease has left on nodes whose votes were not taken over.
    pub(crate) release_adopted: Option<Box<ReleasePlan>>,
    /// The tasks that wait for the verdict of the round are to be woken.
    pub(crate) wake: Option<Wake>,
}

/// When the tasks are woken that wait for the verdict of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Of a token that is given up: nothing that is sent is of interest to them.
    BeforeSending,
    /// So that what they ask next is written behind what is sent.
    AfterSending,
}

/// What one node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) node: usize,
    pub(crate) op: Op,
    /// By plain commands, and by script otherwise.
    pub(crate) native: bool,
    /// The node's `TIME` after which it must do nothing; 0 where none is known.
    pub(crate) not_after: u64,
    /// By the clock of which server that is.
    pub(crate) server: u64,
    /// Until when its answer is waited for.
    pub(crate) deadline: Instant,
}

/// What is sent to take a token, or its waiter, away from the nodes.
#[derive(Clone, Debug)]
pub(crate) struct ReleasePlan {
    pub(crate) keys: Arc<Keys>,
    pub(crate) value: Value,
    /// How the release leaves the lock.
    pub(crate) after: AfterRelease,
    /// The lock is to stay taken: only a node that has stored so has done it.
    pub(crate) keeps: bool,
    /// Until when an answer is waited for.
    pub(crate) deadline: Instant,
    /// Until when it is sent again.
    pub(crate) give_up: Instant,
    pub(crate) nodes: PerNode<NodeRelease>,
}

/// What is sent to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRelease {
    pub(crate) node: u8,
    /// The vote is taken back: the token may stand there.
    pub(crate) token: bool,
    /// The waiter is taken out of the queue: it may stand there.
    pub(crate) waiter: bool,
    /// By plain commands, and by script otherwise.
    pub(crate) native: bool,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseEnd {
    /// Why it was lost; `None` where it was released, or goes on in another client.
    pub(crate) lost: Option<LossReason>,
    pub(crate) group: Group,
    pub(crate) held_for: Duration,
}

/// What the counters count of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) acquired: bool,
    pub(crate) attempt_lost: bool,
    pub(crate) renewed: bool,
    pub(crate) repaired: bool,
    /// A timeout without which the round would still be open.
    pub(crate) awaited_timeout: bool,
    pub(crate) write_backs: u32,
}

/// What the user of a lease is warned of, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warnings {
    /// Four fifths of `max_hold` are over.
    pub(crate) near_max_hold: bool,
    /// The thread that acquired the lock by hand has ended, and the lease lives on.
    pub(crate) thread_ended: bool,
}

/// What a step tells of nodes as homes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Homes {
    /// This node has answered while it would be waited for as a home.
    pub(crate) prompt: Option<usize>,
    /// This node was waited for as the home in vain.
    pub(crate) in_vain: Option<usize>,
}
