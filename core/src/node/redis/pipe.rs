//! A stream to a node, and what was written to it and is not answered yet.

mod read;
mod replicas;
mod write;

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use super::connect::{NewConnection, ServerTime};
use super::native::{AcquireReplies, TrailerReplies};
use super::outbox::Item;
use super::pushes::Push;
use super::script::{self, Guard, Script};
use super::wire::{ServerMessage, Wire};
use crate::clock::Instant;
use crate::hash::HashMap;
use crate::node::admission::DeleteByValue;
use crate::node::time::NodeTime;
use crate::node::{FaultKind, Memory, Op};
use replicas::Replicas;

/// How long a connection is used before its server is asked again whether it drops keys, behind
/// what is written then.
pub(crate) const LOOKED_AT: Duration = Duration::from_secs(4);
/// After so much idleness the server is asked whether it drops keys before anything else.
pub(crate) const IDLE: Duration = Duration::from_secs(1);

/// How many counters the connection remembers as warm; beyond it the connection forgets all of
/// them.
const REMEMBERED: usize = 1024;

/// See the [module documentation](self).
pub(crate) struct InFlight {
    wire: Wire,
    guard: Option<Guard>,
    in_cluster: bool,
    delete: DeleteByValue,
    /// The node has forgotten the lean script: send its text.
    lean_text: bool,
    /// See [`RequestContext::server`](crate::node::RequestContext::server).
    server: u64,
    /// The node's `TIME` on connect, in µs, and when that was.
    time: (u64, Instant),
    /// The channels of locks in Redisson's layout may be heard here.
    listens: bool,
    /// The server's clock, as far as it is known from that and from replies since.
    clock: NodeTime,
    drift: f64,
    /// Until when a counter's expiry need not be set again, by the hash of its key.
    pub(super) warm: HashMap<u64, Instant>,
    /// Native releases of this write that are yet to be written: one script deletes them all.
    deletes: VecDeque<Box<Item>>,
    /// Votes were asked for in this write that need its trailer.
    owes_trailer: bool,
    places: VecDeque<PendingReply>,
    /// Votes that were given, in front of their trailer's reply.
    voted: VecDeque<(Option<Box<Item>>, AcquireReplies)>,
    /// Where votes wait for replicas.
    replicas: Option<Replicas>,
    /// When the server is asked again whether it drops keys; it was found to.
    look_at: Instant,
    evicts: bool,
    /// What it has said of its memory since that was [taken](InFlight::take_memory).
    memory: Option<Option<Memory>>,
    /// Whether the server has answered since the last [look](InFlight::expire), and the last look
    /// at which it had.
    heard: bool,
    quiet_since: Instant,
    /// How many replies it has brought.
    replies: u64,
    /// The scripts whose text the node was sent over it.
    taught: Vec<&'static Script>,
}

/// The replies that are awaited, in order. The item is `None` where its requester awaits no answer
/// any more.
enum PendingReply {
    /// A script's reply.
    Script(Option<Box<Item>>),
    /// This many replies to the commands of a native acquire.
    Acquire(Option<Box<Item>>, u8, AcquireReplies),
    /// The reply to a native release.
    Delete(Option<Box<Item>>),
    /// The one reply to this many native releases, which come behind this.
    Deletes(usize),
    /// The replies to the trailer of a write.
    Trailer(TrailerReplies),
    /// The reply to the `WAIT` of a write.
    Wait,
    /// What a server says of its memory.
    Memory,
    /// A push, or the error that the channel of a lock may not be heard.
    Listen,
}

impl InFlight {
    pub(crate) fn new(connected: NewConnection) -> InFlight {
        let (ServerTime { time, asked, at }, drift) = (connected.time, connected.drift);
        let mut clock = NodeTime::default();
        clock.observe(asked, at, time, drift);
        InFlight {
            wire: connected.wire,
            guard: connected.guard,
            in_cluster: connected.in_cluster,
            delete: connected.delete,
            lean_text: false,
            listens: connected.subscribed,
            server: connected.server,
            time: (time, at),
            clock,
            drift,
            warm: HashMap::default(),
            deletes: VecDeque::new(),
            owes_trailer: false,
            places: VecDeque::new(),
            voted: VecDeque::new(),
            replicas: Replicas::new(connected.wait_replicas, connected.node_timeout),
            look_at: if connected.accept_eviction {
                Instant::FAR
            } else {
                at + LOOKED_AT
            },
            evicts: false,
            memory: None,
            heard: false,
            quiet_since: Instant::NEVER,
            replies: 0,
            taught: script::ALL.to_vec(),
        }
    }

    /// Whether it has said nothing since that was written.
    pub(crate) fn is_silent_since(&self, item: &Item) -> bool {
        item.heard == self.replies
    }

    /// Moves bytes both ways; ready with what comes next.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ServerMessage>> {
        // Reads go on while a write waits for room: the node may be waiting for the client to read.
        if let Poll::Ready(Err(error)) = self.wire.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        loop {
            match self.wire.poll_next(cx) {
                Poll::Ready(Ok(ServerMessage::Push(Push::Listens))) => self.take_listening(),
                next => return next,
            }
        }
    }

    /// Whether the server has said that it may drop keys, since it was connected to.
    pub(crate) fn evicts(&self) -> bool {
        self.evicts
    }

    /// What it says of its memory, if it has said that since this was asked last.
    pub(crate) fn take_memory(&mut self) -> Option<Option<Memory>> {
        self.memory.take()
    }

    /// The requests that are not answered yet.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut Option<Box<Item>>> {
        let voted = self.voted.iter_mut().map(|(item, _)| item);
        let asked = self.places.iter_mut().filter_map(|place| match place {
            PendingReply::Script(item)
            | PendingReply::Delete(item)
            | PendingReply::Acquire(item, ..) => Some(item),
            PendingReply::Deletes(_)
            | PendingReply::Trailer(_)
            | PendingReply::Wait
            | PendingReply::Memory
            | PendingReply::Listen => None,
        });
        let parked = self.replicas.iter_mut().flat_map(Replicas::items_mut);
        parked.chain(voted).chain(asked)
    }

    /// The items in flight, to be looked at.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        let voted = self.voted.iter().filter_map(|(item, _)| item.as_deref());
        let asked = self.places.iter().filter_map(|place| match place {
            PendingReply::Script(item)
            | PendingReply::Delete(item)
            | PendingReply::Acquire(item, ..) => item.as_deref(),
            PendingReply::Deletes(_)
            | PendingReply::Trailer(_)
            | PendingReply::Wait
            | PendingReply::Memory
            | PendingReply::Listen => None,
        });
        let parked = self.replicas.iter().flat_map(Replicas::items);
        parked.chain(voted).chain(asked)
    }

    /// How many replies are awaited, that of a trailer counted as one.
    #[cfg(test)]
    pub(crate) fn awaits(&self) -> usize {
        let together = self.places.iter().map(|place| match place {
            PendingReply::Deletes(many) => *many,
            _ => 0,
        });
        self.places.len() - together.sum::<usize>()
    }

    /// Whether no request awaits an answer, and all is written: the copy of a release may be the
    /// last that is left, and must go out behind the request that it undoes.
    pub(crate) fn is_idle(&self) -> bool {
        let written = self.wire.out.is_empty();
        written && self.items().next().is_none()
    }

    /// Fails requests past their deadlines; lowers `due` to the next deadline. Returns whether the
    /// silence puts the connection in doubt: a request has waited in vain over it for at least half
    /// of its time. A request that was written with little time left, over a connection that had
    /// yet to be made, says nothing of that connection. Nor does a release whose sink has its
    /// reply, while the server answers anything: it may be the last of thousands that were kept for
    /// a node.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Instant) -> bool {
        let mut doubtful = false;
        let heard = std::mem::take(&mut self.heard);
        if heard {
            self.quiet_since = now;
        }
        let quiet_since = self.quiet_since;
        for place in self.items_mut() {
            let Some(item) = place else { continue };
            let patience = item.patience();
            if item.due() <= now {
                doubtful |= item.sink.is_some() && (item.written.until(now) >= patience / 2);
                item.fail(FaultKind::Timeout, "no answer in time", true);
            }
            let told = item.sink.is_none();
            let over = told && !item.is_release();
            if item.due() <= now || over {
                *place = None;
            } else {
                let late = quiet_since.max(item.written) + patience;
                let next = if told && late > now { late } else { item.due() };
                doubtful |= told && late <= now;
                *due = (*due).min(next);
            }
        }
        doubtful
    }
}

/// The counter that an acquire counts on, if it proposes a fence, and how long it lives.
fn counted_on(item: &Item) -> Option<(&[u8], Duration)> {
    let counts = matches!(item.request.op, Op::Acquire { candidate: 1.., .. });
    item.request.keys.counter().filter(|_| counts)
}
