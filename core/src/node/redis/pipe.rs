//! A stream to a node, and what was written to it and is not answered yet.

mod replicas;

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::Value as Resp;

use super::connect::{NewConnection, ServerTime};
use super::hashed;
use super::native::{self, AcquireReplies, TrailerReplies};
use super::outbox::Item;
use super::pushes::Push;
use super::replies::{self, Outcome};
use super::resp;
use super::script::{self, Guard, Script};
use super::wire::{Incoming, Wire};
use crate::clock::Instant;
use crate::hash::{HashMap, fnv1a};
use crate::lean::trim;
use crate::node::admission::{DeleteByValue, Info};
use crate::node::native::{key_end_of, outcome};
use crate::node::time::NodeTime;
use crate::node::{FaultKind, Memory, Op, Reply, Request, names};
use replicas::Replicas;

/// How long a connection is used before its server is asked again whether it drops keys, behind
/// what is written then.
pub(crate) const LOOKED_AT: Duration = Duration::from_secs(4);
/// One that was idle for so much longer is asked so before anything else.
pub(crate) const IDLE: Duration = Duration::from_secs(1);

/// This many counters are remembered whose life was told; beyond it all are forgotten.
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
    /// Until when a counter's life need not be told again, by the hash of its key.
    pub(super) warm: HashMap<u64, Instant>,
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
    /// It has answered since somebody [looked](InFlight::expire), and when that was that
    /// it had.
    heard: bool,
    quiet_since: Instant,
    /// How many replies it has brought.
    replies: u64,
    /// The scripts whose text the node was sent over it.
    taught: Vec<&'static Script>,
}

/// What replies are awaited for. An item is gone where nobody cares for the answer any
/// more.
enum PendingReply {
    /// A script's reply.
    Script(Option<Box<Item>>),
    /// This many replies to the commands of a native acquire.
    Acquire(Option<Box<Item>>, u8, AcquireReplies),
    /// The reply to a native release.
    Delete(Option<Box<Item>>),
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
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        // Reads go on while a write waits for room: the node may be waiting
        // for us to read.
        if let Poll::Ready(Err(error)) = self.wire.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        loop {
            match self.wire.poll_next(cx) {
                Poll::Ready(Ok(Incoming::Push(Push::Listens))) => self.take_listening(),
                next => return next,
            }
        }
    }

    /// Writes out what the system takes at once.
    pub(crate) fn write_out(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let _: Poll<io::Result<()>> = self.wire.poll_flush(&mut cx);
    }

    /// Writes a request, now.
    pub(crate) fn write(&mut self, mut item: Box<Item>, now: Instant) {
        let idle = now >= self.look_at + IDLE;
        if idle {
            self.look(now);
        }
        item.written = now;
        item.heard = self.replies;
        item.request.op = item.request.op.on(self.server);
        if item.ticket.server != self.server {
            item.request.not_after = 0;
        }
        item.ticket.server = self.server;
        item.cold = self.is_cold(&item, now);
        if let Some(replicas) = &mut self.replicas
            && !matches!(item.request.op, Op::Release | Op::Inspect)
        {
            replicas.wrote(item.ticket.deadline);
        }
        self.listen(&item);
        self.write_asking(&item);
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        let place = match (item.request.native, item.request.op) {
            (true, Op::Acquire { ttl, .. }) => {
                if native::needs_trailer(&item.request, guard) {
                    self.owes_trailer = true;
                    if item.request.not_after == 0 {
                        item.request.not_after = key_end_of(item.ticket.sent, self.time, ttl);
                    }
                }
                let replies = native::write_acquire(out, &item.request, guard, item.cold);
                PendingReply::Acquire(Some(item), replies, AcquireReplies::default())
            }
            (true, Op::Release) => {
                let with_text = std::mem::take(&mut self.lean_text);
                native::write_delete(out, &item.request, self.delete, with_text);
                PendingReply::Delete(Some(item))
            }
            _ => {
                if item.request.not_after == 0 && !item.is_release() {
                    // The least that it may be, for a request must not be carried out long
                    // after its time; too little costs one that is late, and tells the time.
                    let known = self.clock.bounds(now, 0.0);
                    let earliest = known.map_or(0, |(earliest, _)| earliest);
                    item.request.not_after = not_after(earliest, &item, now);
                }
                // The first of its kind: a node that lacks the script would cost a round trip.
                let script = script_of(&item);
                if !self.taught.iter().any(|known| std::ptr::eq(*known, script)) {
                    self.taught.push(script);
                    item.with_text = true;
                }
                write_script(out, &item, (guard, self.in_cluster), item.cold, now);
                PendingReply::Script(Some(item))
            }
        };
        self.places.push_back(place);
    }

    /// Has the waiter of a lock in Redisson's layout called by what is told on the lock's
    /// channel, from before it asks until it goes.
    fn listen(&mut self, item: &Item) {
        let request = &item.request;
        let (Some(_), Some(waiter)) = (&request.keys.field, &request.waiter) else {
            return;
        };
        if let Some(channel) = hashed::channel(request).filter(|_| self.listens) {
            if self.wire.input.pushes.listen(&channel, waiter.number) {
                self.write_listening(b"SUBSCRIBE", &channel);
            }
        } else if item.is_release() {
            self.hush(request);
        }
    }

    /// The waiter of the request waits no more.
    fn hush(&mut self, request: &Request) {
        let (Some(_), Some(waiter)) = (&request.keys.field, &request.waiter) else {
            return;
        };
        let channel = names::redisson_channel(&request.keys.lock);
        if self.wire.input.pushes.hush(&channel, waiter.number) {
            self.write_listening(b"UNSUBSCRIBE", &channel);
        }
    }

    fn write_listening(&mut self, command: &[u8], channel: &[u8]) {
        resp::write_array(&mut self.wire.out, 2);
        resp::write_text(&mut self.wire.out, command);
        resp::write_text(&mut self.wire.out, channel);
        self.places.push_back(PendingReply::Listen);
    }

    /// A push has said that a channel is heard, or is no more.
    fn take_listening(&mut self) {
        if let Some(PendingReply::Listen) = self.places.front() {
            self.places.pop_front();
        }
    }

    /// The reply to a request has told the server's `TIME`, in µs.
    pub(crate) fn told(&mut self, item: &Item, now: Instant, time: u64) {
        if item.ticket.server == self.server {
            self.clock.observe(item.written, now, time, self.drift);
        }
    }

    /// What is carried out where its hash slot is being moved to says so first.
    fn write_asking(&mut self, item: &Item) {
        if item.asking {
            resp::write_array(&mut self.wire.out, 1);
            resp::write_text(&mut self.wire.out, b"ASKING");
            self.places.push_back(PendingReply::Script(None));
        }
    }

    /// Whether the life of the counter that an acquire counts on has to be told with it.
    fn is_cold(&self, item: &Item, now: Instant) -> bool {
        let until = counted_on(item).and_then(|(counter, _)| self.warm.get(&fnv1a(counter)));
        let warm = until.is_some_and(|until| now < *until);
        !warm
    }

    /// Writes what goes behind the votes of this write, if there are any: their trailer, and
    /// that they wait for replicas.
    pub(crate) fn end_write(&mut self, now: Instant) {
        if std::mem::take(&mut self.owes_trailer) {
            let replies = native::write_trailer(&mut self.wire.out, self.guard.as_ref());
            let reading = TrailerReplies::new(replies);
            self.places.push_back(PendingReply::Trailer(reading));
        }
        if let Some(replicas) = &mut self.replicas
            && replicas.end_write(&mut self.wire.out, now)
        {
            self.places.push_back(PendingReply::Wait);
        }
        // Last, so that nothing waits for it.
        if now >= self.look_at {
            self.look(now);
        }
    }

    /// Asks whether the server drops keys: that was seen on connect, but a policy can be set at any
    /// time.
    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOKED_AT;
        resp::write_array(&mut self.wire.out, 2);
        resp::write_text(&mut self.wire.out, b"INFO");
        resp::write_text(&mut self.wire.out, b"memory");
        self.places.push_back(PendingReply::Memory);
    }

    /// Whether the server has said that it may drop keys, since it was connected to.
    pub(crate) fn evicts(&self) -> bool {
        self.evicts
    }

    /// What it says of its memory, if it has said that since this was asked last.
    pub(crate) fn take_memory(&mut self) -> Option<Option<Memory>> {
        self.memory.take()
    }

    /// Takes a reply, the oldest request's; appends to `done` what it tells of whom.
    /// Returns false if nobody has asked.
    pub(crate) fn take_reply(
        &mut self,
        reply: Resp,
        done: &mut VecDeque<(Box<Item>, Outcome)>,
    ) -> bool {
        let before = done.len();
        let waited = matches!(self.places.front(), Some(PendingReply::Wait));
        let asked = self.read(reply, done);
        if self.evicts {
            // What it gives or keeps from here on is no vote: it is asked for again where the server
            // is admitted anew, or refused.
            let votes = |item: &Item| !matches!(item.request.op, Op::Release | Op::Inspect);
            let since = done.range_mut(before..).filter(|(item, _)| votes(item));
            since.for_each(|(_, outcome)| *outcome = Outcome::OtherRecord);
        }
        if let Some(replicas) = self.replicas.as_mut().filter(|_| !waited) {
            replicas.park(done, before);
        }
        asked
    }

    /// The same, of a reply whatever replicas have.
    fn read(&mut self, reply: Resp, done: &mut VecDeque<(Box<Item>, Outcome)>) -> bool {
        self.heard = true;
        self.replies += 1;
        let Some(place) = self.places.front_mut() else {
            return false;
        };
        match place {
            PendingReply::Script(item) => {
                if let Some(item) = item.take() {
                    let said = replies::outcome(item.request.op, &reply);
                    let granted = matches!(said, Outcome::Reply(Reply::Granted { .. }, _));
                    if granted {
                        warm_up(&mut self.warm, &item);
                    }
                    if granted {
                        self.hush(&item.request);
                    }
                    done.push_back((item, said));
                }
            }
            PendingReply::Delete(item) => {
                self.lean_text |= replies::is_forgotten(&reply);
                if let Some(item) = item.take() {
                    let said = match reply {
                        Resp::Int(1) => Outcome::Reply(Reply::Released { held: true }, None),
                        _ => Outcome::AskByScript,
                    };
                    done.push_back((item, said));
                }
            }
            PendingReply::Acquire(item, left, replies) => {
                replies.take(reply);
                *left -= 1;
                if *left > 0 {
                    return true;
                }
                let (item, replies) = (item.take(), std::mem::take(replies));
                if let Some(item) = item.as_ref().filter(|_| replies.told) {
                    warm_up(&mut self.warm, item);
                }
                if let Some(failed) = &replies.failed {
                    done.extend(item.map(|item| {
                        let said = replies::outcome(item.request.op, failed);
                        (item, said)
                    }));
                } else if replies.voted.stored
                    && item
                        .as_ref()
                        .is_none_or(|i| native::needs_trailer(&i.request, self.guard.as_ref()))
                {
                    self.voted.push_back((item, replies));
                } else {
                    done.extend(item.map(|item| {
                        let said = outcome(&item.request, replies.voted, None);
                        (item, replies::of_native(said, None))
                    }));
                }
            }
            PendingReply::Trailer(reading) => {
                reading.take(&reply, self.guard.as_ref());
                if reading.left > 0 {
                    return true;
                }
                for (item, replies) in self.voted.drain(..) {
                    let Some(item) = item else { continue };
                    let said = match &reading.failed {
                        Some(fault) => Outcome::Reply(Reply::Failed(fault.clone()), None),
                        None => {
                            let said = outcome(&item.request, replies.voted, Some(reading.trailer));
                            replies::of_native(said, Some(reading.trailer.time))
                        }
                    };
                    done.push_back((item, said));
                }
                trim(&mut self.voted);
            }
            PendingReply::Memory => match &reply {
                // A user that may not ask was told so on connect.
                Resp::ServerError(_) => self.look_at = Instant::FAR,
                said => {
                    let info = Info::parse(&replies::text(said));
                    self.evicts = info.evicts();
                    self.memory = Some(info.memory);
                }
            },
            PendingReply::Listen => {
                // Whoever may not listen asks from time to time.
                self.listens = false;
                self.places.pop_front();
                // A push would have come before it: see `take_listening`.
                return matches!(reply, Resp::ServerError(_));
            }
            PendingReply::Wait => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.take(&reply, done);
                }
            }
        }
        self.places.pop_front();
        trim(&mut self.places);
        true
    }

    /// The requests that are not answered yet.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut Option<Box<Item>>> {
        let voted = self.voted.iter_mut().map(|(item, _)| item);
        let asked = self.places.iter_mut().filter_map(|place| match place {
            PendingReply::Script(item)
            | PendingReply::Delete(item)
            | PendingReply::Acquire(item, ..) => Some(item),
            PendingReply::Trailer(_)
            | PendingReply::Wait
            | PendingReply::Memory
            | PendingReply::Listen => None,
        });
        let parked = self.replicas.iter_mut().flat_map(Replicas::items_mut);
        parked.chain(voted).chain(asked)
    }

    /// The same, to be looked at.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        let voted = self.voted.iter().filter_map(|(item, _)| item.as_deref());
        let asked = self.places.iter().filter_map(|place| match place {
            PendingReply::Script(item)
            | PendingReply::Delete(item)
            | PendingReply::Acquire(item, ..) => item.as_deref(),
            PendingReply::Trailer(_)
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
        self.places.len()
    }

    /// Whether nobody waits for an answer, and all is written: the copy of a release may
    /// be the last that is left, and must go out behind what it undoes.
    pub(crate) fn is_idle(&self) -> bool {
        let written = self.wire.out.is_empty();
        written && self.items().next().is_none()
    }

    /// Writes a request whose answer is awaited on another connection.
    pub(crate) fn write_copy(&mut self, item: &Item, now: Instant) {
        self.write_asking(item);
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        write_script(out, item, (guard, self.in_cluster), true, now);
        self.places.push_back(PendingReply::Script(None));
    }

    /// Writes again by script what is to be deleted natively, and may stand behind a vote
    /// that is yet to be given: in between a waiter may come, whom that does not mind,
    /// and the same over the next connection may have come before it.
    pub(crate) fn copy_deletes(&mut self) {
        let deletes = self.places.iter().filter_map(|place| match place {
            PendingReply::Delete(item) => item.as_deref(),
            _ => None,
        });
        let (out, guard) = (&mut self.wire.out, self.guard.as_ref());
        let mut copies = 0;
        for item in deletes {
            script::write_command(out, &item.request, guard, item.with_text, true);
            copies += 1;
        }
        self.places
            .extend((0..copies).map(|_| PendingReply::Script(None)));
    }

    /// Fails what is past its deadline; lowers `due` to what comes next.
    /// Returns whether somebody waited in vain: for half of the time at least that its
    /// requester had. One that was written with little of it left, over a connection
    /// that had yet to be made, says nothing of that connection. Nor does a release that
    /// was told already, while anything is answered: it may be the last of thousands
    /// that were kept for a node.
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

/// The script that carries a request out.
fn script_of(item: &Item) -> &'static Script {
    match item.request.op {
        Op::Extend { .. } if item.prolongs => &script::PROLONG,
        _ if hashed::is_meant(&item.request) => hashed::of(&item.request),
        _ => script::of(&item.request),
    }
}

/// Writes a request's script. What is left of its time is told as of now, however often
/// it is written.
fn write_script(
    out: &mut Vec<u8>,
    item: &Item,
    (guard, in_cluster): (Option<&Guard>, bool),
    cold: bool,
    now: Instant,
) {
    if let (true, Op::Extend { ttl, .. }) = (item.prolongs, item.request.op) {
        return script::write_prolong(out, &item.request, ttl, item.with_text);
    }
    let mark = guard.and_then(|guard| guard.of_shard(&item.request.keys.lock));
    let guard = mark.as_ref().or(guard);
    if hashed::is_meant(&item.request) {
        return hashed::write_command(out, &item.request, guard, in_cluster, item.with_text);
    }
    let leaving = item.request.leaving.at(now);
    if leaving == item.request.leaving {
        return script::write_command(out, &item.request, guard, item.with_text, cold);
    }
    let request = Request {
        leaving,
        ..item.request.clone()
    };
    script::write_command(out, &request, guard, item.with_text, cold);
}

/// Until when a request is worth carrying out that was made without knowing the server's
/// clock, which shows this now at the earliest.
fn not_after(earliest: u64, item: &Item, now: Instant) -> u64 {
    let (sent, deadline) = (item.ticket.sent, item.ticket.deadline);
    let due = now.until(deadline) + sent.until(deadline) / 10;
    let due = due.as_micros();
    earliest + u64::try_from(due).unwrap_or(u64::MAX / 2)
}

/// The counter that an acquire counts on, if it proposes a fence, and how long it lives.
fn counted_on(item: &Item) -> Option<(&[u8], Duration)> {
    let counts = matches!(item.request.op, Op::Acquire { candidate: 1.., .. });
    item.request.keys.counter().filter(|_| counts)
}

/// Remembers that the life of the counter was told with `item`, where it was.
fn warm_up(warm: &mut HashMap<u64, Instant>, item: &Item) {
    let Some((counter, life)) = counted_on(item).filter(|_| item.cold) else {
        return;
    };
    if warm.len() >= REMEMBERED {
        warm.clear();
    }
    warm.insert(fnv1a(counter), item.written + life / 4);
}
