//! One lazy connection to a server, replaced when in doubt.
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
//!
//! redis-rs's connections do not serve here. Its `ConnectionManager` never
//! replaces a connection whose peer is silent, does not bound a request while
//! it reconnects, and stays broken after a wrong password; and see
//! `wire` for its multiplexed connection.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::Value as Resp;

use super::connect::{Connected, Target, broken, connect};
use super::redis::{Inbox, Item};
use super::script::{self, Guard, Outcome};
use super::wire::Wire;
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

/// Releases that wait for a node that is away. Beyond it the oldest are given
/// up: their keys end by themselves.
const CLEAN_UP_BOUND: usize = 10_000;

type Connecting = Pin<Box<dyn Future<Output = Result<Connected, Fault>> + Send>>;

/// A stream, and what was written to it and not answered. A place is empty
/// where nobody cares for the answer any more.
struct Pipe {
    wire: Wire,
    guard: Option<Guard>,
    /// The node's `TIME` on connect, in µs, and when that was.
    time: (u64, Instant),
    in_flight: VecDeque<Option<Item>>,
}

/// See the [module documentation](self).
pub(crate) struct Connection {
    target: Arc<Target>,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    /// The connection in use.
    up: Option<Pipe>,
    /// The one before it, in doubt.
    old: Option<Pipe>,
    /// The next one, and when to give it up.
    connecting: Option<(Instant, Connecting)>,
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
    /// No item is due before this moment.
    due: Instant,
    timer: Option<(Instant, Sleep)>,
    /// The client is closed; the task ends now at the latest.
    farewell: Option<Instant>,
}

enum Event {
    Inbox,
    Reply(Resp),
    /// A reply over the connection in doubt.
    OldReply(Resp),
    Broken(io::Error),
    OldBroken,
    Connected(Result<Connected, Fault>),
    Timer,
}

impl Connection {
    pub(crate) fn new(target: Target, clock: Arc<dyn Clock>, inbox: Arc<Inbox>) -> Connection {
        Connection {
            target: Arc::new(target),
            clock,
            inbox,
            up: None,
            old: None,
            connecting: None,
            silent: false,
            failures: 0,
            retry_at: Instant::NEVER,
            last_fault: None,
            waiting: VecDeque::new(),
            postponed: Vec::new(),
            due: Instant::FAR,
            timer: None,
            farewell: None,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            match poll_fn(|cx| self.next(cx)).await {
                // The common case: nothing else has changed.
                Event::Reply(reply) => {
                    match self.up.as_mut().and_then(|c| c.in_flight.pop_front()) {
                        Some(item) => self.take_reply(item, &reply),
                        None => self.lose_connection(&stray()),
                    }
                    if self.farewell.is_none() {
                        continue;
                    }
                }
                Event::OldReply(reply) => {
                    match self.old.as_mut().and_then(|c| c.in_flight.pop_front()) {
                        Some(item) => self.take_reply(item, &reply),
                        None => self.lose_old(),
                    }
                }
                Event::Broken(error) => self.lose_connection(&broken(&error)),
                Event::OldBroken => self.lose_old(),
                Event::Inbox => self.take_inbox(),
                Event::Connected(Ok(connected)) => self.take_connection(connected),
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
        if let Some(up) = &mut self.up {
            match up.poll(cx) {
                Poll::Ready(Ok(reply)) => return Poll::Ready(Event::Reply(reply)),
                Poll::Ready(Err(error)) => return Poll::Ready(Event::Broken(error)),
                Poll::Pending => {}
            }
        }
        if let Some(old) = &mut self.old {
            match old.poll(cx) {
                Poll::Ready(Ok(reply)) => return Poll::Ready(Event::OldReply(reply)),
                Poll::Ready(Err(_)) => return Poll::Ready(Event::OldBroken),
                Poll::Pending => {}
            }
        }
        if let Some((_, connecting)) = &mut self.connecting
            && let Poll::Ready(outcome) = connecting.as_mut().poll(cx)
        {
            self.connecting = None;
            return Poll::Ready(Event::Connected(outcome));
        }
        let mut inbox = lock(&self.inbox.state);
        let closing = inbox.closed && self.farewell.is_none();
        // Replies that were taken without more may have left work behind.
        if !inbox.items.is_empty() || closing || !self.waiting.is_empty() && self.up.is_some() {
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
        let (items, closed) = {
            let mut inbox = lock(&self.inbox.state);
            (std::mem::take(&mut inbox.items), inbox.closed)
        };
        for item in items {
            self.due = self.due.min(item.due());
            self.waiting.push_back(item);
        }
        if self.up.is_none() && self.waiting.len() > CLEAN_UP_BOUND {
            self.drop_oldest_releases();
        }
        if closed && self.farewell.is_none() {
            self.farewell = Some(self.clock.now() + FAREWELL);
            self.fail_all_but_releases("the client is closed");
        }
    }

    fn drop_oldest_releases(&mut self) {
        let mut over = self.waiting.len() - CLEAN_UP_BOUND;
        self.waiting.retain_mut(|item| {
            let drop = over > 0 && item.is_release();
            if drop {
                over -= 1;
                self.inbox.dropped.fetch_add(1, Ordering::Relaxed);
                item.fail(FaultKind::Refused, "too many releases wait for it", true);
            }
            !drop
        });
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
        let target = self.target.clone();
        let connecting = Box::pin(async move { connect(&target).await });
        self.connecting = Some((now + CONNECT_TIMEOUT, connecting));
    }

    fn take_connection(&mut self, connected: Connected) {
        self.inbox.connects.fetch_add(1, Ordering::Relaxed);
        self.silent = false;
        self.last_fault = None;
        // Releases written to the connection before are sent again on this one.
        for place in self.old.iter_mut().flat_map(|old| &mut old.in_flight) {
            if place.as_ref().is_some_and(Item::is_release) {
                self.waiting.extend(place.take());
            }
        }
        for item in &mut self.waiting {
            item.on_old = false;
        }
        self.up = Some(Pipe::new(connected, self.clock.now()));
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
        let known = self
            .last_fault
            .as_ref()
            .is_some_and(|f| f.text == fault.text);
        if fault.kind == FaultKind::Misconfigured && !known {
            // With a quorum of others no caller would hear of it.
            let shown = &self.target.address.shown;
            (self.target.gate.warn)(format!("the node {shown} may not vote: {}", fault.text));
        }
        self.last_fault = Some(fault);
    }

    /// Requests fail; releases go on waiting.
    fn fail_waiting(&mut self, fault: &Fault) {
        for item in self.waiting.iter_mut().filter(|item| !item.is_release()) {
            item.tell(Reply::Failed(fault.clone()), None);
        }
        self.waiting.retain(Item::is_release);
    }

    /// Writes everything that waits, in order. A request of a dead token is
    /// left out, unless the release behind it makes it harmless: a cycle costs
    /// each node one acquire and one release, however the threads run.
    fn write(&mut self) {
        let Some(up) = &mut self.up else { return };
        while let Some(mut item) = self.waiting.pop_front() {
            let undone =
                |later: &Item| later.is_release() && later.request.value == item.request.value;
            if !item.wanted() && !self.waiting.iter().any(undone) {
                item.tell(Reply::Failed(Fault::unwanted()), None);
                continue;
            }
            if let (Some(old), true) = (&mut self.old, item.is_release() && !item.on_old) {
                old.write_copy(&item);
            }
            up.write(item);
        }
    }

    /// While there is only the connection in doubt, releases go out over it at
    /// once, behind the requests that they undo. They stay queued for the next
    /// one.
    fn write_releases_to_old(&mut self) {
        let Some(old) = &mut self.old else { return };
        for item in &mut self.waiting {
            if item.is_release() && !item.on_old {
                item.on_old = true;
                old.write_copy(item);
            }
        }
    }

    /// The answer to the oldest request of a connection.
    fn take_reply(&mut self, item: Option<Item>, reply: &Resp) {
        self.failures = 0;
        let Some(mut item) = item else { return };
        match script::outcome(item.request.op, reply) {
            Outcome::NoScript if !item.with_text => {
                item.with_text = true;
                self.write_again(item);
            }
            Outcome::NoScript => item.fail(FaultKind::NotReady, "NOSCRIPT twice", true),
            Outcome::OtherRecord if !item.readmitted => {
                item.readmitted = true;
                self.write_again(item);
                self.readmit();
            }
            Outcome::OtherRecord => {
                item.fail(FaultKind::NotReady, "its record has changed twice", true);
            }
            Outcome::Reply(Reply::Failed(fault), _) if item.is_release() => {
                item.tell(Reply::Failed(fault), None);
                self.postponed.push(item);
                self.due = self.due.min(self.clock.now() + POSTPONED);
                self.arm(self.clock.now());
            }
            Outcome::Reply(reply, time) => item.tell(reply, time),
        }
    }

    /// What was behind a request comes behind it again: replies come in order,
    /// and this queue is written before anything new.
    fn write_again(&mut self, item: Item) {
        let again = |i: &&Item| i.with_text || i.readmitted;
        let place = self.waiting.iter().take_while(again).count();
        self.waiting.insert(place, item);
    }

    /// The node has another record than on connect, so it may have lost its
    /// memory behind a proxy: it has to be admitted anew. The connection only
    /// takes the replies that are under way.
    fn readmit(&mut self) {
        if self.up.is_some() {
            self.lose_old();
            self.old = self.up.take();
            self.retry_at = Instant::NEVER;
        }
    }

    /// The connection broke, or is in disorder. The next one may be made after
    /// a pause, if there were failures before.
    fn lose_connection(&mut self, fault: &Fault) {
        let Some(up) = self.up.take() else { return };
        self.pause();
        self.abandon(up, fault);
    }

    fn lose_old(&mut self) {
        if let Some(old) = self.old.take() {
            let fault = Fault::new(FaultKind::Unreachable, "the connection was lost", true);
            self.abandon(old, &fault);
        }
    }

    fn abandon(&mut self, connection: Pipe, fault: &Fault) {
        for mut item in connection.in_flight.into_iter().flatten() {
            if item.is_release() {
                self.waiting.push_back(item);
            } else {
                item.tell(Reply::Failed(fault.clone()), None);
            }
        }
    }

    fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.clock.now() + retry::reconnect_pause(self.failures);
    }

    /// Fails what is past its deadline, puts its connection in doubt, and
    /// finds out what is due next.
    fn look_at_deadlines(&mut self) {
        let now = self.clock.now();
        self.due = Instant::FAR;
        let doubtful = self
            .up
            .as_mut()
            .is_some_and(|up| up.expire(now, &mut self.due));
        if let Some(old) = &mut self.old {
            old.expire(now, &mut self.due);
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
        if doubtful {
            self.lose_old();
            self.old = self.up.take();
            self.silent = true;
            self.pause();
        }
        let given_up = |(until, _): &(Instant, Connecting)| *until <= now;
        if self.connecting.as_ref().is_some_and(given_up) {
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
        let idle = |old: &Pipe| old.in_flight.iter().all(Option::is_none);
        if self.up.is_some() && self.old.as_ref().is_some_and(idle) {
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

    fn in_flight(&mut self) -> impl Iterator<Item = &mut Option<Item>> {
        let connections = self.up.iter_mut().chain(&mut self.old);
        connections.flat_map(|connection| &mut connection.in_flight)
    }

    fn fail_all_but_releases(&mut self, why: &str) {
        let open = |place: &&mut Option<Item>| place.as_ref().is_some_and(|i| !i.is_release());
        for mut item in self.in_flight().filter(open).filter_map(Option::take) {
            item.fail(FaultKind::Refused, why, true);
        }
        self.fail_waiting(&Fault::new(FaultKind::Refused, why, false));
    }

    /// The task is over when its releases are acknowledged, or its
    /// time is up.
    fn is_over(&mut self) -> bool {
        let Some(farewell) = self.farewell else {
            return false;
        };
        let idle = self.in_flight().all(|place| place.is_none())
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
        let mut left: Vec<Item> = self.in_flight().filter_map(Option::take).collect();
        left.extend(self.waiting.drain(..));
        left.extend(items);
        for mut item in left {
            item.fail(FaultKind::Refused, "the client is closed", true);
        }
    }
}

fn stray() -> Fault {
    Fault::new(
        FaultKind::Unreachable,
        "a reply that nobody asked for",
        true,
    )
}

impl Pipe {
    fn new(connected: Connected, now: Instant) -> Pipe {
        Pipe {
            wire: connected.wire,
            guard: connected.guard,
            time: (connected.time, now),
            in_flight: VecDeque::new(),
        }
    }

    /// Moves bytes both ways; ready with the next reply.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Resp>> {
        // Reads go on while a write waits for room: the node may be waiting
        // for us to read.
        if let Poll::Ready(Err(error)) = self.wire.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        self.wire.poll_reply(cx)
    }

    fn write(&mut self, mut item: Item) {
        if item.request.not_after == 0 && !item.is_release() {
            item.request.not_after = self.not_after(&item);
        }
        self.put(&item);
        self.in_flight.push_back(Some(item));
    }

    /// For a request that was made before the node's clock was known: it is,
    /// from the connection's set-up.
    fn not_after(&self, item: &Item) -> u64 {
        let (time, at) = self.time;
        let due =
            at.until(item.ticket.deadline) + item.ticket.sent.until(item.ticket.deadline) / 10;
        time + u64::try_from(due.as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Writes a request whose answer is awaited on another connection.
    fn write_copy(&mut self, item: &Item) {
        self.put(item);
        self.in_flight.push_back(None);
    }

    fn put(&mut self, item: &Item) {
        // Asked for only before other replies have told the nodes' clocks.
        let (time, at) = self.time;
        let sent = item.ticket.sent;
        let now = || time + u64::try_from(at.until(sent).as_micros()).unwrap_or(0);
        let guard = self.guard.as_ref();
        script::write_command(
            &mut self.wire.out,
            &item.request,
            guard,
            now,
            item.with_text,
        );
    }

    /// Fails what is past its deadline; lowers `due` to what comes next.
    /// Returns whether somebody waited in vain.
    fn expire(&mut self, now: Instant, due: &mut Instant) -> bool {
        let mut doubtful = false;
        for place in &mut self.in_flight {
            let Some(item) = place else { continue };
            if item.due() <= now {
                doubtful |= item.sink.is_some();
                item.fail(FaultKind::Timeout, "no answer in time", true);
            }
            if item.due() <= now || (item.sink.is_none() && !item.is_release()) {
                *place = None;
            } else {
                *due = (*due).min(item.due());
            }
        }
        doubtful
    }
}
