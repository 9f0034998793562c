//! What happens, and the heap of what is yet to happen.

use std::cmp::Reverse;
use std::task::Waker;

use quorlock::sim::{Hint, Reply, Request};

use super::admission::Hello;
use super::bytes::End;
use super::network::Pair;
use super::{FaultEvent, Inner, Time};
use crate::who::Who;

/// What happens at a moment.
pub(super) enum Event {
    /// A request reaches its node.
    Request {
        pair: usize,
        connection: u64,
        message: u64,
        request: Box<Request>,
        sent: Time,
    },
    /// The end of a write with a native acquire reaches its node.
    Trailer {
        pair: usize,
        connection: u64,
        message: u64,
    },
    /// A reply reaches its client.
    Reply {
        pair: usize,
        connection: u64,
        message: u64,
        answer: Answer,
    },
    /// A step of the way to a connection that is ready, at the node or back.
    Hello {
        pair: usize,
        connection: u64,
        hello: Box<Hello>,
    },
    /// A connection that is not ready by now is given up.
    Connecting { pair: usize, connection: u64 },
    /// The requester stops waiting.
    Deadline { pair: usize, message: u64 },
    /// Releases that were not acknowledged go over a new connection.
    Retry(usize),
    /// A message reaches its client.
    Message {
        pair: usize,
        connection: u64,
        hint: Hint,
    },
    /// A node sees the end of a connection; `closed`: it closes it itself.
    Ended {
        node: usize,
        connection: u64,
        closed: bool,
    },
    /// Bytes of a connection reach their node.
    Forth { wire: usize, bytes: Vec<u8> },
    /// The server at the end of a connection has waited for replicas for long enough.
    Waited { wire: usize },
    /// Bytes of a connection reach their client, or its end does.
    Back {
        wire: usize,
        bytes: Vec<u8>,
        end: Option<End>,
    },
    /// A request that was asked at a time has to be told by now.
    Overdue {
        pair: usize,
        message: u64,
        asked: Time,
    },
    /// A release is given up.
    GivenUp { pair: usize, message: u64 },
    /// A release that a node could not carry out at a time has to be sent again by now.
    Postponed { pair: usize, message: u64, at: Time },
    /// A connection that had subscribed was lost at a time: if messages are awaited,
    /// another has to be dialled by now.
    Missed { pair: usize, at: Time },
    /// The connection of a release was in doubt at a time: if it is not acknowledged,
    /// another has to be dialled by now.
    Owed {
        pair: usize,
        message: u64,
        wire: u64,
        at: Time,
    },
    /// A timer rings that was set at a time.
    Timer {
        client: usize,
        set_at: Time,
        waker: Waker,
    },
    /// A task that was held up goes on.
    Wake(Waker),
    /// Something goes wrong.
    Fault(FaultEvent),
    /// The server of a node whose place was taken at that promotion hears of it.
    Demoted {
        node: usize,
        place: usize,
        promotions: u64,
    },
    /// The sentinels of a client say that its node has failed over.
    Switched(usize),
    /// A paused client goes on.
    ResumeClient(usize),
    /// A paused node goes on.
    ResumeNode(usize),
}

/// What comes back to a request.
#[derive(Debug)]
pub(super) enum Said {
    /// Its requester is told this.
    Reply(Reply),
    /// The node holds another record than its connection was admitted with.
    OtherRecord,
    /// Plain commands have not decided it.
    AskByScript,
    /// The server has become a replica.
    Demoted,
}

/// What a node says to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) said: Said,
    /// The node's `TIME`, in µs, where it tells.
    pub(super) time: Option<u64>,
}

/// An event in the heap: small, for it is moved about. The event itself waits
/// in its slot.
pub(super) struct Queued {
    pub(super) at: Time,
    order: u64,
    pub(super) slot: u32,
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

impl Event {
    /// The client that it happens to: nothing does to one that is gone, and one
    /// that stands still finds it later.
    pub(super) fn client(&self, pairs: &[Pair]) -> Option<usize> {
        match self {
            Event::Reply { pair, .. }
            | Event::Message { pair, .. }
            | Event::Connecting { pair, .. }
            | Event::Deadline { pair, .. }
            | Event::Switched(pair)
            | Event::Retry(pair) => Some(pairs[*pair].client),
            Event::Hello { pair, hello, .. } if !hello.at_node() => Some(pairs[*pair].client),
            _ => None,
        }
    }
}

impl Inner {
    /// A number for what is between a client and a place of its list, however
    /// many nodes there are.
    pub(super) fn wire(&self, pair: usize) -> usize {
        (self.pairs[pair].client << 8) + pair % self.nodes.len()
    }

    /// Who acts in what happens.
    pub(super) fn who(&self, event: &Event) -> Who {
        match event {
            Event::Request { pair, .. } | Event::Trailer { pair, .. } => {
                Who::AtNode(self.wire(*pair))
            }
            Event::Hello { pair, hello, .. } if hello.at_node() => Who::AtNode(self.wire(*pair)),
            Event::Hello { pair, .. }
            | Event::Reply { pair, .. }
            | Event::Message { pair, .. }
            | Event::Connecting { pair, .. }
            | Event::Deadline { pair, .. }
            | Event::Switched(pair)
            | Event::Retry(pair) => Who::AtClient(self.wire(*pair)),
            _ => Who::World,
        }
    }

    pub(super) fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        let order = self.order;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() as u32 - 1
            }
        };
        self.heap.push(Reverse(Queued { at, order, slot }));
    }

    /// Whether nothing comes of an event: a timer of a request that has been
    /// answered.
    pub(super) fn is_idle(&self, event: &Event) -> bool {
        match event {
            Event::Deadline { pair, message }
            | Event::Overdue { pair, message, .. }
            | Event::Owed { pair, message, .. }
            | Event::GivenUp { pair, message } => !self.pairs[*pair].open.contains_key(message),
            // A stream without room rings for each look that its task has taken at it.
            Event::Wake(_) => true,
            _ => false,
        }
    }
}
