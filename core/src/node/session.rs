//! One lazy connection to a server, replaced when in doubt.
//!
//! Built on redis-rs's `MultiplexedConnection`. Its `ConnectionManager` does
//! not serve: it never replaces a connection whose peer is silent, does not
//! bound a request while it reconnects, and stays broken after a wrong
//! password.
//!
//! One task per node owns the connection. What reaches it within one turn of
//! the runtime leaves in one write, in order. The rules:
//!
//! - A request fails at its deadline, whatever it is waiting for.
//! - A timeout puts the connection in doubt: a new one is made beside it. The
//!   old one takes releases yet, so that each goes out behind the request it
//!   undoes, and is closed when nobody waits for its replies any more.
//! - A release is kept until it is acknowledged, and sent again on each new
//!   connection.
//! - A node that fails is left alone for a while, each time longer; requests
//!   that come meanwhile fail at once, unsent. So do requests to a node that
//!   did not answer, until it does: a round that cannot be won need not wait
//!   for it.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream};
use redis::{RedisResult, Value as Resp};

use super::address::Address;
use super::connect::{Wire, connect, fault};
use super::redis::{Inbox, Item};
use super::script::{self, Outcome};
use super::tls::Tls;
use super::{Fault, FaultKind, Reply};
use crate::clock::{Clock, Instant, Sleep};
use crate::retry;
use crate::sync::lock;

/// Time for a connection to be made. Longer than a request waits, so that a
/// slow name server delays the first requests only.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a release is sent again that the node could not carry out.
const POSTPONED: Duration = Duration::from_millis(200);
/// How long a closed link goes on sending releases.
const FAREWELL: Duration = Duration::from_secs(1);

type Replies = (Option<u64>, RedisResult<Vec<Resp>>);
type Writing = Pin<Box<dyn Future<Output = Replies> + Send>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Wire, Fault>> + Send>>;

/// Requests written together, and the number of the connection they went
/// over. An item that is settled leaves its place empty.
struct Batch {
    connection: u64,
    items: Vec<Option<Item>>,
}

/// See the [module documentation](self).
pub(crate) struct Session {
    address: Arc<Address>,
    tls: Tls,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    /// The connection in use, by its number.
    up: Option<(u64, Wire)>,
    /// The one before it, in doubt.
    old: Option<(u64, Wire)>,
    /// The next one, and when to give it up.
    connecting: Option<(Instant, Connecting)>,
    connections: u64,
    /// The node left a request unanswered, and has not answered since.
    silent: bool,
    /// In a row.
    failures: u32,
    retry_at: Instant,
    last_fault: Option<Fault>,
    /// Requests to be written.
    waiting: VecDeque<Item>,
    /// Releases that the node could not carry out.
    postponed: Vec<Item>,
    batches: HashMap<u64, Batch>,
    batch_ids: u64,
    writing: FuturesUnordered<Writing>,
    /// No item is due before this moment.
    due: Instant,
    timer: Option<(Instant, Sleep)>,
    /// The client is closed; the session ends now at the latest.
    farewell: Option<Instant>,
}

enum Event {
    Inbox,
    Replies(Replies),
    Connected(Result<Wire, Fault>),
    Timer,
}

impl Session {
    pub(crate) fn new(
        address: Address,
        tls: Tls,
        clock: Arc<dyn Clock>,
        inbox: Arc<Inbox>,
    ) -> Session {
        Session {
            address: Arc::new(address),
            tls,
            clock,
            inbox,
            up: None,
            old: None,
            connecting: None,
            connections: 0,
            silent: false,
            failures: 0,
            retry_at: Instant::NEVER,
            last_fault: None,
            waiting: VecDeque::new(),
            postponed: Vec::new(),
            batches: HashMap::new(),
            batch_ids: 0,
            writing: FuturesUnordered::new(),
            due: Instant::FAR,
            timer: None,
            farewell: None,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            match poll_fn(|cx| self.next(cx)).await {
                Event::Inbox => self.take_inbox(),
                Event::Replies(replies) => self.take_replies(replies),
                Event::Connected(Ok(wire)) => self.take_connection(wire),
                Event::Connected(Err(fault)) => self.connect_failed(fault),
                Event::Timer => self.look_at_deadlines(),
            }
            self.push_on();
            if self.is_over() {
                return self.end();
            }
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(Some(replies)) = Pin::new(&mut self.writing).poll_next(cx) {
            return Poll::Ready(Event::Replies(replies));
        }
        if let Some((_, connecting)) = &mut self.connecting
            && let Poll::Ready(outcome) = connecting.as_mut().poll(cx)
        {
            self.connecting = None;
            return Poll::Ready(Event::Connected(outcome));
        }
        let mut inbox = lock(&self.inbox.state);
        let closing = inbox.closed && self.farewell.is_none();
        if !inbox.items.is_empty() || !inbox.broken.is_empty() || closing {
            return Poll::Ready(Event::Inbox);
        }
        let _: Poll<()> = inbox.task.park(cx);
        drop(inbox);
        if let Some((_, timer)) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            return Poll::Ready(Event::Timer);
        }
        Poll::Pending
    }

    fn take_inbox(&mut self) {
        let (items, broken, closed) = {
            let mut inbox = lock(&self.inbox.state);
            (
                std::mem::take(&mut inbox.items),
                std::mem::take(&mut inbox.broken),
                inbox.closed,
            )
        };
        for connection in broken {
            self.lose_connection(connection);
        }
        for item in items {
            self.due = self.due.min(item.due());
            self.waiting.push_back(item);
        }
        if closed && self.farewell.is_none() {
            self.farewell = Some(self.clock.now() + FAREWELL);
            self.fail_all_but_releases("the client is closed");
        }
    }

    /// Sends what waits, connecting first if need be, and sets the timer.
    fn push_on(&mut self) {
        let now = self.clock.now();
        if !self.waiting.is_empty() {
            if self.up.is_some() {
                self.write();
            } else if self.connecting.is_some() || now >= self.retry_at {
                if self.connecting.is_none() {
                    self.start_connecting(now);
                }
                if self.silent {
                    self.fail_waiting(&Fault::new(
                        FaultKind::Unreachable,
                        "no answer to earlier requests",
                        false,
                    ));
                }
                self.write_releases_to_old();
            } else {
                let fault = self.last_fault.clone().unwrap_or_else(|| {
                    Fault::new(FaultKind::Unreachable, "the connection was lost", false)
                });
                self.fail_waiting(&fault);
            }
        }
        self.close_old();
        self.arm(now);
    }

    fn start_connecting(&mut self, now: Instant) {
        self.connections += 1;
        let number = self.connections;
        let (address, tls, inbox) = (self.address.clone(), self.tls.clone(), self.inbox.clone());
        let connecting = Box::pin(async move {
            let broken = move || {
                let mut state = lock(&inbox.state);
                state.broken.push(number);
                let task = state.task.take();
                drop(state);
                task.wake();
            };
            connect(&address, &tls, broken).await
        });
        self.connecting = Some((now + CONNECT_TIMEOUT, connecting));
    }

    fn take_connection(&mut self, wire: Wire) {
        self.inbox.connects.fetch_add(1, Ordering::Relaxed);
        self.up = Some((self.connections, wire));
        self.silent = false;
        self.last_fault = None;
        // Releases written to the connection before are sent again on this one.
        for batch in self.batches.values_mut() {
            let releases = batch
                .items
                .iter_mut()
                .filter(|item| item.as_ref().is_some_and(Item::is_release));
            self.waiting.extend(releases.filter_map(Option::take));
        }
        for item in &mut self.waiting {
            item.on_old = false;
        }
    }

    fn connect_failed(&mut self, fault: Fault) {
        // No pause after a connection broke; but one that was not to be had
        // is not tried again at once.
        self.failures = self.failures.saturating_add(1).max(2);
        self.retry_at = self.clock.now() + retry::reconnect_pause(self.failures);
        let fault = Fault {
            sent: false,
            ..fault
        };
        self.fail_waiting(&fault);
        self.last_fault = Some(fault);
    }

    /// Requests fail; releases go on waiting.
    fn fail_waiting(&mut self, fault: &Fault) {
        for item in self.waiting.iter_mut().filter(|item| !item.is_release()) {
            item.tell(Reply::Failed(fault.clone()));
        }
        self.waiting.retain(Item::is_release);
    }

    /// Writes everything that waits, in order, in one write.
    fn write(&mut self) {
        let Some((connection, wire)) = &self.up else {
            return;
        };
        let mut pipe = redis::pipe();
        let mut items = Vec::with_capacity(self.waiting.len());
        for mut item in self.waiting.drain(..) {
            if !item.wanted() {
                item.tell(Reply::Failed(Fault::unwanted()));
                continue;
            }
            pipe.add_command(script::command(&item.request, item.with_text));
            items.push(Some(item));
        }
        if items.is_empty() {
            return;
        }
        if let Some((_, old)) = &self.old {
            let releases = items.iter().flatten().filter(|item| item.is_release());
            self.writing.extend(copies(old, releases));
        }
        let (id, count) = (self.batch_ids, items.len());
        self.batch_ids += 1;
        let mut wire = wire.connection.clone();
        self.writing.push(Box::pin(async move {
            (Some(id), wire.send_packed_commands(&pipe, 0, count).await)
        }));
        let batch = Batch {
            connection: *connection,
            items,
        };
        self.batches.insert(id, batch);
    }

    /// While there is only the connection in doubt, releases go out over it at
    /// once, behind the requests that they undo. They stay queued for the next
    /// one.
    fn write_releases_to_old(&mut self) {
        let Some((_, old)) = &self.old else { return };
        let fresh = |item: &&Item| item.is_release() && !item.on_old;
        self.writing
            .extend(copies(old, self.waiting.iter().filter(fresh)));
        for item in &mut self.waiting {
            item.on_old |= item.is_release();
        }
    }

    fn take_replies(&mut self, (id, replies): Replies) {
        // Copies over the old connection are of no batch.
        let Some(batch) = id.and_then(|id| self.batches.remove(&id)) else {
            return;
        };
        let replies = match replies {
            Ok(replies) if replies.len() == batch.items.len() => replies,
            Ok(_) => {
                let fault = Fault::new(FaultKind::Unreachable, "replies out of step", true);
                return self.fail_batch(batch, &fault);
            }
            Err(error) => return self.fail_batch(batch, &fault(&error)),
        };
        self.failures = 0;
        let mut again = Vec::new();
        for (item, reply) in batch.items.into_iter().zip(replies) {
            let Some(mut item) = item else { continue };
            match script::outcome(item.request.op, &reply) {
                Outcome::NoScript if !item.with_text => {
                    item.with_text = true;
                    again.push(item);
                }
                Outcome::NoScript => item.fail(FaultKind::NotReady, "NOSCRIPT twice", true),
                Outcome::Reply(Reply::Failed(fault)) if item.is_release() => {
                    item.tell(Reply::Failed(fault));
                    self.postponed.push(item);
                    self.due = self.due.min(self.clock.now() + POSTPONED);
                }
                Outcome::Reply(reply) => item.tell(reply),
            }
        }
        // Before anything that came later: order is kept.
        for item in again.into_iter().rev() {
            self.waiting.push_front(item);
        }
    }

    /// The connection broke, or its replies are in disorder.
    fn fail_batch(&mut self, batch: Batch, fault: &Fault) {
        self.lose_connection(batch.connection);
        for mut item in batch.items.into_iter().flatten() {
            if item.is_release() {
                self.waiting.push_back(item);
            } else {
                item.tell(Reply::Failed(fault.clone()));
            }
        }
    }

    fn lose_connection(&mut self, number: u64) {
        let is = |c: &Option<(u64, Wire)>| c.as_ref().is_some_and(|(n, _)| *n == number);
        if is(&self.up) {
            self.up = None;
            self.pause();
        }
        if is(&self.old) {
            self.old = None;
        }
    }

    /// The connection is of no use any more: the next one may be made after a
    /// pause, if there were failures before.
    fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.clock.now() + retry::reconnect_pause(self.failures);
    }

    /// Fails what is past its deadline, puts its connection in doubt, and
    /// finds out what is due next.
    fn look_at_deadlines(&mut self) {
        let now = self.clock.now();
        let mut doubtful = Vec::new();
        self.due = Instant::FAR;
        for batch in self.batches.values_mut() {
            for place in &mut batch.items {
                let Some(item) = place else { continue };
                if item.due() <= now {
                    if item.sink.is_some() {
                        doubtful.push(batch.connection);
                    }
                    item.fail(FaultKind::Timeout, "no answer in time", true);
                }
                if item.due() <= now || (item.sink.is_none() && !item.is_release()) {
                    *place = None;
                } else {
                    self.due = self.due.min(item.due());
                }
            }
        }
        self.waiting.extend(self.postponed.drain(..));
        self.waiting.retain_mut(|item| {
            if item.due() <= now {
                item.fail(
                    FaultKind::Timeout,
                    "no connection in time",
                    item.is_release(),
                );
            }
            let keep = item.due() > now && (item.sink.is_some() || item.is_release());
            if keep {
                self.due = self.due.min(item.due());
            }
            keep
        });
        if self.up.as_ref().is_some_and(|(n, _)| doubtful.contains(n)) {
            self.old = self.up.take();
            self.silent = true;
            self.pause();
        }
        if self
            .connecting
            .as_ref()
            .is_some_and(|(until, _)| *until <= now)
        {
            self.connecting = None;
            self.silent = true;
            self.connect_failed(Fault::new(
                FaultKind::Timeout,
                "no connection in time",
                false,
            ));
        }
    }

    /// Closes the connection in doubt once there is another and nobody waits
    /// for its replies.
    fn close_old(&mut self) {
        let (Some((number, _)), Some(_)) = (&self.old, &self.up) else {
            return;
        };
        let awaited = self
            .batches
            .values()
            .filter(|batch| batch.connection == *number)
            .any(|batch| batch.items.iter().any(Option::is_some));
        if !awaited {
            self.old = None;
        }
    }

    /// Sets the timer for whatever comes first.
    fn arm(&mut self, now: Instant) {
        let mut next = self.due;
        if let Some((until, _)) = &self.connecting {
            next = next.min(*until);
        } else if self.up.is_none() && !self.waiting.is_empty() {
            next = next.min(self.retry_at);
        }
        if let Some(farewell) = self.farewell {
            next = next.min(farewell);
        }
        match &self.timer {
            // A timer that rings early only looks again.
            Some((at, _)) if *at <= next => {}
            _ if next == Instant::FAR => self.timer = None,
            _ => self.timer = Some((next, self.clock.sleep_until(next.max(now)))),
        }
    }

    fn fail_all_but_releases(&mut self, why: &str) {
        for place in self.batches.values_mut().flat_map(|b| &mut b.items) {
            if place.as_ref().is_some_and(|item| !item.is_release())
                && let Some(mut item) = place.take()
            {
                item.fail(FaultKind::Refused, why, true);
            }
        }
        self.fail_waiting(&Fault::new(FaultKind::Refused, why, false));
    }

    /// A closed session is over when its releases are acknowledged, or its
    /// time is up.
    fn is_over(&self) -> bool {
        let Some(farewell) = self.farewell else {
            return false;
        };
        let in_flight = self.batches.values().flat_map(|b| &b.items);
        let idle = in_flight.flatten().next().is_none()
            && self.waiting.is_empty()
            && self.postponed.is_empty()
            && lock(&self.inbox.state).items.is_empty();
        idle || self.clock.now() >= farewell
    }

    fn end(mut self) {
        let items = {
            let mut inbox = lock(&self.inbox.state);
            inbox.ended = true;
            std::mem::take(&mut inbox.items)
        };
        let in_flight = self.batches.drain().flat_map(|(_, b)| b.items).flatten();
        for mut item in in_flight.chain(self.waiting.drain(..)).chain(items) {
            item.fail(FaultKind::Refused, "the client is closed", true);
        }
    }
}

/// The future that writes copies of `releases` to `wire`, if there are any.
fn copies<'a>(wire: &Wire, releases: impl Iterator<Item = &'a Item>) -> Option<Writing> {
    let mut pipe = redis::pipe();
    let mut count = 0;
    for item in releases {
        pipe.add_command(script::command(&item.request, item.with_text));
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let mut wire = wire.connection.clone();
    Some(Box::pin(async move {
        (None, wire.send_packed_commands(&pipe, 0, count).await)
    }))
}
