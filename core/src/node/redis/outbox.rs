//! What callers share with the task of one node's connection: the requests that
//! it is to write, and what it tells of the node.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::{
    Fault, FaultKind, Op, Reply, Request, RequestContext, Server, Sink, Subscriber, TimeReading,
};
use crate::wakers::Wakers;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) state: Mutex<OutboxState>,
    pub(crate) connects: AtomicU64,
    /// The hash of the node's id; 0 before that is known.
    pub(crate) id: AtomicU64,
    /// Releases that were given up because too many waited.
    pub(crate) dropped: AtomicU64,
    /// Pushes that no node sends to the client's inbox.
    pub(crate) stray: AtomicU64,
    /// What the server has said of itself last.
    pub(crate) server: Mutex<Server>,
}

#[derive(Default)]
pub(crate) struct OutboxState {
    pub(crate) items: VecDeque<Box<Item>>,
    /// The subscriber of the node's messages, until the task has taken it.
    pub(crate) subscriber: Option<Arc<dyn Subscriber>>,
    /// The task that owns the connection.
    pub(crate) task: Wakers,
    /// How the last try to connect has ended; `None`: none has, since the link was made or
    /// lost its connection.
    pub(crate) met: Option<bool>,
    /// Whether callers wait for a try to connect, so that the task has to begin one.
    pub(crate) hailed: bool,
    pub(crate) hailing: Wakers,
    /// Whether the task has panicked and waits for its restart. A request fails at once meanwhile,
    /// for no task would answer it in time.
    pub(crate) rests: bool,
    /// What the task that has ended knew of the node, for the next, which alone knows what it is.
    pub(super) known: Option<Box<dyn Any + Send>>,
    pub(crate) closed: bool,
    /// The task has ended for good, and takes no more items.
    pub(crate) ended: bool,
}

impl Outbox {
    /// Records how a try to connect has ended; `None`: it says nothing of the next try, or the
    /// connection is lost, so the waiting callers go on waiting.
    pub(crate) fn meet(&self, met: Option<bool>) {
        let mut state = lock(&self.state);
        state.met = met;
        if met.is_none() {
            return;
        }
        state.hailed = false;
        let hailing = state.hailing.take();
        drop(state);
        hailing.wake();
    }

    /// Records that no task takes items any more.
    pub(crate) fn end(&self) {
        let items = {
            let mut state = lock(&self.state);
            state.ended = true;
            state.subscriber = None;
            std::mem::take(&mut state.items)
        };
        self.meet(Some(false));
        for mut item in items {
            item.fail(FaultKind::Refused, "the client is closed", true);
        }
    }
}

/// The fault of a request that its ended task has left behind.
pub(crate) const HAS_ENDED: &str = "its connection has ended";

/// A request on its way. It is boxed, for it goes through several queues.
pub(crate) struct Item {
    pub(crate) request: Request,
    pub(crate) ticket: RequestContext,
    /// The requester's sink; `None` once it was given a reply.
    pub(crate) sink: Option<Arc<dyn Sink>>,
    /// A release is sent again until then.
    pub(crate) give_up: Instant,
    /// The node has forgotten the script: send its text.
    pub(crate) with_text: bool,
    /// Whether the request has once met another record than the connection was made with.
    pub(crate) readmitted: bool,
    /// Plain commands of it were carried out, to no effect that counts.
    pub(crate) void: bool,
    /// Whether the request was written in vain, and is to be written before anything new.
    pub(crate) again: bool,
    /// Whether the request has once met a connection that was gone without a word.
    pub(crate) rewritten: bool,
    /// How many replies its connection had brought when it was written.
    pub(crate) heard: u64,
    /// A release that already went out over the connection in doubt.
    pub(crate) on_old: bool,
    /// Whether the hash slot is being moved to the server that the request is sent to.
    pub(crate) asking: bool,
    /// Whether this is an extension that names the one key of its lock alone, because the hash slot
    /// is being moved.
    pub(crate) prolongs: bool,
    /// How often in a row a server of its cluster has sent it to another,
    pub(crate) redirects: u32,
    /// and how often one could not serve it yet.
    pub(crate) pauses: u32,
    /// Whether the request was written with the expiry of its counter.
    pub(crate) cold: bool,
    /// When it was written last.
    pub(crate) written: Instant,
}

impl Item {
    /// A request that nothing has been done about.
    pub(crate) fn new(
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Box<Item> {
        Box::new(Item {
            request,
            ticket,
            sink: Some(sink),
            give_up,
            with_text: false,
            readmitted: false,
            void: false,
            again: false,
            rewritten: false,
            heard: 0,
            on_old: false,
            asking: false,
            prolongs: false,
            redirects: 0,
            pauses: 0,
            cold: false,
            written: Instant::NEVER,
        })
    }

    pub(crate) fn is_release(&self) -> bool {
        matches!(self.request.op, Op::Release)
    }

    /// Turns the request into a script's: the link never sends plain commands twice.
    pub(crate) fn by_script(&mut self) {
        if std::mem::take(&mut self.request.native) && !self.is_release() {
            self.void = true;
            self.request.not_after = 0;
        }
    }

    /// Whether a repetition is answered as the first copy, so that the request may be written to
    /// the next connection although the fate of the first is not known: see
    /// docs/reference/protocol.md, "A connection that is gone". A lock in Redisson's layout counts
    /// its entries, so its requests are not repeatable.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self.request.op {
            Op::Acquire { .. } | Op::Extend { .. } => self.request.keys.field.is_none(),
            Op::Inspect => true,
            Op::Confirm { .. } | Op::Reserve { .. } | Op::Release => false,
        }
    }

    /// Gives the sink its reply, once.
    pub(crate) fn tell(&mut self, reply: Reply, time: Option<TimeReading>) {
        if let Some(sink) = self.sink.take() {
            let reply = match reply {
                // The plain commands may have left a vote, so the failure says that they were sent.
                Reply::Failed(fault) if self.void => Reply::Failed(Fault {
                    sent: true,
                    ..fault
                }),
                reply => reply,
            };
            sink.on_reply(self.ticket, reply, time);
        }
    }

    pub(crate) fn fail(&mut self, kind: FaultKind, text: &str, sent: bool) {
        if self.sink.is_some() {
            self.tell(Reply::Failed(Fault::new(kind, text, sent)), None);
        }
    }

    /// Whether the request is to be written: a release always, other requests while their token
    /// lives.
    pub(crate) fn wanted(&self) -> bool {
        self.is_release() || self.sink.as_ref().is_some_and(|sink| sink.wanted())
    }

    /// Whether it was written.
    pub(crate) fn is_sent(&self) -> bool {
        self.written != Instant::NEVER
    }

    /// Prepares a release to be sent again over another connection, by script where it was written:
    /// the client keeps it until it is acknowledged.
    pub(crate) fn begin_anew(mut self: Box<Item>) -> Box<Item> {
        self.by_script();
        self.on_old = false;
        self
    }

    /// How long the requester waits for an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.ticket.sent.until(self.ticket.deadline)
    }

    /// The latest moment at which something has to be done about the request.
    pub(crate) fn due(&self) -> Instant {
        match self.sink {
            Some(_) => self.ticket.deadline,
            None => self.give_up,
        }
    }
}

impl Drop for Item {
    /// Answers the requester, whatever becomes of the item.
    fn drop(&mut self) {
        let sent = self.is_sent();
        self.fail(FaultKind::Unreachable, HAS_ENDED, sent);
    }
}
