//! The seam to a node: [`Link`] and what it calls. The protocol knows nodes by this alone, so that
//! it runs in the simulator as it does over sockets.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::admission::QuarantineCause;
use super::{Hint, Op, Reply, Request, Server};
use crate::clock::Instant;
use crate::hash::fnv1a;
use crate::wakers::Wakers;

/// What goes with a request and comes back with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// What a node's clock showed as it answered.
#[derive(Clone, Copy, Debug)]
pub struct TimeReading {
    /// The node's `TIME`, in µs.
    pub time: u64,
    /// A moment of our clock after the answer had come.
    pub at: Instant,
}

/// Where the reply to a request goes.
pub trait Sink: Send + Sync {
    /// Takes the reply. The link calls this once for each request, at the latest a moment after its
    /// deadline, on any thread; it must not block. `time`: the node's clock as it answered, where
    /// the reply shows it.
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>);

    /// Whether the request still matters. A link neither writes nor repeats a request that does
    /// not: an acquire must never follow the release of its token.
    fn wanted(&self) -> bool;
}

/// The seam to a node.
///
/// The node carries out requests in the order of the calls, as long as the connection stands. The
/// link sends an [`Op::Release`] again after each reconnect until the node has acknowledged it or
/// `give_up` has come, whatever reply its sink was given meanwhile.
pub trait Link: Send + Sync + 'static {
    /// Queues a request. Never blocks; may call the sink before it returns. It returns the wake-up
    /// that it owes: the caller [rings](Link::ring) for it, once everything that leaves together is
    /// queued. An empty wake-up is rung for too: the task has been woken then, but is yet to be
    /// driven.
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

/// The subscriber of an inbox, which is given the messages that a node publishes unasked. A message
/// is a hint: it may be lost, late, or sent twice. The link calls it on the I/O thread; it must not
/// block, but may send requests.
pub trait Subscriber: Send + Sync {
    /// `node` tells a waiter that its turn has come.
    fn on_message(&self, node: usize, hint: Hint);

    /// The inbox is subscribed on `node`, for the first time or anew: what was
    /// published before is lost. A subscription that is lost comes again once the
    /// node is reached, by whatever request or because messages are
    /// [awaited](Subscriber::is_awaited).
    fn on_subscribed(&self, node: usize);

    /// Whether a waiter awaits messages of `node`: then the link makes a lost connection that had
    /// subscribed again, although no request asks for it.
    fn is_awaited(&self, node: usize) -> bool {
        let _ = node;
        false
    }
}
