//! One lazy connection to a server, replaced when in doubt.
//!
//! One task per node owns the connection. The requests that reach the task within one turn of the
//! runtime leave in one write, in order. The rules:
//!
//! - A request fails at its deadline, whatever it is waiting for.
//! - A timeout puts the connection in doubt, unless its request was written late: the task makes a
//!   new connection beside it. So does a release that was sent again, if the server answers nothing
//!   for as long. The connection in doubt still takes releases, so that each goes out behind the
//!   request it undoes, and the task closes it once it owes no awaited reply. The task closes it at
//!   once when the next connection is in doubt too: a release that finds no room in it even then is
//!   not written, and the key that it would have deleted ends by itself.
//! - The task keeps a release until the server has acknowledged it, and sends it again on each new
//!   connection. It makes a connection for a release alone, where the connection in doubt owes the
//!   answer.
//! - After a failure the task leaves the node alone for a while, each time longer; requests that
//!   come meanwhile fail at once, unsent. So do requests to a node that did not answer, until it
//!   does: a round that cannot be won need not wait for it.
//! - Messages to the client's inbox come between the replies, over any connection that has
//!   subscribed it. When the subscribed connection is lost, the task makes the next for the
//!   messages alone, while a waiter awaits them.
//!
//! redis-rs's connections do not serve here. Its `ConnectionManager` never replaces a connection
//! whose peer is silent, does not bound a request while it reconnects, and stays broken after a
//! wrong password; and see `wire` for its multiplexed connection.

mod deadlines;
mod end;
mod failover;
mod outcomes;
mod replace;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::Value as Resp;

use super::backlog::{Backlog, ReleaseCounts};
use super::connect::{NewConnection, Target, broken};
use super::outbox::{Item, Outbox};
use super::pipe::InFlight;
use super::pushes::Push;
use super::replies::RequestOutcome;
use super::subscription::Subscription;
use super::wire::ServerMessage;
use crate::clock::{Clock, Instant, Sleep};
use crate::event::event;
use crate::mutex::lock;
use crate::node::address::Endpoint;
use crate::node::admission::StepWatch;
use crate::node::{Fault, FaultKind, Reply};
use crate::runtime::task;
use failover::Failover;

/// Pause before a release is sent again that the node could not carry out.
const POSTPONED: Duration = Duration::from_millis(200);
/// How many replies the task of a client's only node hands on before it writes again. Where there
/// are several nodes, the server of one works while the task of another hands on.
const TURN: usize = 16;
/// How long a closed link goes on sending releases.
const FAREWELL: Duration = Duration::from_secs(1);

/// A certificate that soon ends is looked at anew once in so long: a renewed one is shown to new
/// connections alone. So long before its end that begins.
const LOOKED_AT_ANEW: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(21 * 24 * 3600);

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Box<NewConnection>, Fault>> + Send>>;
type ShowFuture = Pin<Box<dyn Future<Output = Option<u64>> + Send>>;

/// See the [module documentation](self).
pub(crate) struct Connection {
    target: Arc<Target>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Outbox>,
    /// The connection in use.
    up: Option<InFlight>,
    /// The one before it, in doubt.
    old: Option<InFlight>,
    /// The client's inbox, subscribed over them.
    subscription: Subscription,
    /// Where its sentinels say that the node's server is.
    failover: Failover,
    /// Where its server is, when that is asked to show its certificate once more, and where that is under way.
    here: Option<Endpoint>,
    anew_at: Instant,
    showing: Option<ShowFuture>,
    /// The next one, and when to give it up.
    connecting: Option<(Instant, ConnectFuture)>,
    /// Whether the node's clock ends a quarantine too early.
    watch: StepWatch,
    /// Until when a shard's own quarantine may last.
    calm_from: Instant,
    /// Whether the clock may have stepped: the next connection begins the quarantine again.
    stepped: bool,
    /// The node left a request unanswered, and has not answered since.
    silent: bool,
    /// In a row.
    failures: u32,
    retry_at: Instant,
    last_fault: Option<Fault>,
    /// The log says that the node is not reached.
    told_away: bool,
    /// Whether a caller waits until a try to connect has ended.
    hailed: bool,
    /// Requests to be written.
    waiting: Backlog,
    /// Releases that the node could not carry out.
    postponed: VecDeque<Box<Item>>,
    /// The outcomes in the last reply that are yet to be looked at.
    done: VecDeque<(Box<Item>, RequestOutcome)>,
    /// The longest that a request was ready to wait for this node.
    patience: Duration,
    /// No item is due before this moment.
    due: Instant,
    timer: Option<(Instant, Sleep)>,
    /// The client is closed; the task ends now at the latest.
    farewell: Option<Instant>,
    /// How many outcomes were handed on in this turn of the runtime, and how many may be.
    told: usize,
    turn: usize,
    /// Whether no step of the task is under way: if the task is dropped now, no panic of its own is
    /// the cause.
    rests: bool,
}

/// What a connection knows of the node's clock and of its servers: votes that were lost are
/// guarded against by it, so that it outlives its task.
struct NodeKnowledge {
    watch: StepWatch,
    stepped: bool,
    failover: Failover,
}

enum ConnectionEvent {
    Outbox,
    Reply(Resp),
    /// A reply over the connection in doubt.
    OldReply(Resp),
    /// A push over any of them.
    Push(Push),
    Broken(io::Error),
    OldBroken,
    NewConnection(Result<Box<NewConnection>, Fault>),
    /// The sentinels name another server.
    Moved,
    Timer,
}

impl Connection {
    pub(crate) fn new(
        target: Arc<Target>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Outbox>,
    ) -> Connection {
        let known = {
            let mut outbox = lock(&outbox.state);
            outbox.rests = false;
            outbox.known.take()
        };
        let expected = target.gate.expected();
        let quarantine = expected.quarantine;
        let turn = if expected.nodes == 1 {
            TURN
        } else {
            usize::MAX
        };
        let known = known.and_then(|known| known.downcast::<NodeKnowledge>().ok());
        let known = known.map_or_else(
            || NodeKnowledge {
                watch: StepWatch::new(quarantine, target.gate.drift),
                stepped: false,
                failover: Failover::default(),
            },
            |known| *known,
        );
        Connection {
            subscription: Subscription::new(target.node),
            watch: known.watch,
            calm_from: Instant::NEVER,
            stepped: known.stepped,
            target,
            clock,
            outbox,
            up: None,
            old: None,
            here: None,
            anew_at: Instant::FAR,
            showing: None,
            failover: known.failover,
            connecting: None,
            silent: false,
            failures: 0,
            retry_at: Instant::NEVER,
            last_fault: None,
            told_away: false,
            hailed: false,
            waiting: Backlog::default(),
            postponed: VecDeque::new(),
            done: VecDeque::new(),
            patience: Duration::ZERO,
            due: Instant::FAR,
            timer: None,
            farewell: None,
            told: 0,
            turn,
            rests: true,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let next = poll_fn(|cx| {
                self.rests = false;
                let next = self.next(cx);
                self.rests = next.is_pending();
                next
            });
            match next.await {
                // A reply is the common case: nothing else has changed, unless the reply has cost
                // the connection.
                ConnectionEvent::Reply(reply) => {
                    let up = self.up.as_mut();
                    if up.is_some_and(|up| up.take_reply(reply, &mut self.done)) {
                        self.told += self.done.len();
                        self.take_outcomes();
                    } else {
                        self.lose_connection(&stray());
                    }
                    if self.told >= self.turn {
                        // The requesters that have their replies go on, and the server works on
                        // their next requests while the task hands on the rest.
                        self.told = 0;
                        self.rests = true;
                        task::yield_now().await;
                        self.rests = false;
                        self.take_outbox();
                    } else if self.farewell.is_none() && self.up.is_some() {
                        continue;
                    }
                }
                ConnectionEvent::OldReply(reply) => {
                    let old = self.old.as_mut();
                    if old.is_some_and(|old| old.take_reply(reply, &mut self.done)) {
                        self.take_outcomes();
                    } else {
                        self.lose_old();
                    }
                }
                ConnectionEvent::Push(push) => {
                    if !self.subscription.take(push) {
                        self.outbox.stray.fetch_add(1, Ordering::Relaxed);
                    }
                    continue;
                }
                ConnectionEvent::Broken(error) => self.lose_connection(&broken(&error)),
                ConnectionEvent::OldBroken => self.lose_old(),
                ConnectionEvent::Outbox => self.take_outbox(),
                ConnectionEvent::NewConnection(Ok(connected)) => self.take_connection(connected),
                ConnectionEvent::NewConnection(Err(fault)) => self.connect_failed(fault),
                ConnectionEvent::Moved => {
                    self.note(event!(
                        "node_failed_over",
                        "the node {node} has failed over, say its sentinels: it is connected to anew",
                        node = self.target.address.shown,
                    ));
                    self.readmit();
                }
                ConnectionEvent::Timer => self.look_at_deadlines(),
            }
            self.push_on();
            if self.is_over() {
                self.rests = true;
                return;
            }
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEvent> {
        if let Some(up) = &mut self.up {
            match up.poll(cx) {
                Poll::Ready(Ok(ServerMessage::Reply(reply))) => {
                    return Poll::Ready(ConnectionEvent::Reply(reply));
                }
                Poll::Ready(Ok(ServerMessage::Push(push))) => {
                    return Poll::Ready(ConnectionEvent::Push(push));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(ConnectionEvent::Broken(error)),
                Poll::Pending => self.told = 0,
            }
        }
        if let Some(old) = &mut self.old {
            match old.poll(cx) {
                Poll::Ready(Ok(ServerMessage::Reply(reply))) => {
                    return Poll::Ready(ConnectionEvent::OldReply(reply));
                }
                Poll::Ready(Ok(ServerMessage::Push(push))) => {
                    return Poll::Ready(ConnectionEvent::Push(push));
                }
                Poll::Ready(Err(_)) => return Poll::Ready(ConnectionEvent::OldBroken),
                Poll::Pending => self.close_old(),
            }
        }
        if let Some((_, connecting)) = &mut self.connecting
            && let Poll::Ready(outcome) = connecting.as_mut().poll(cx)
        {
            self.connecting = None;
            return Poll::Ready(ConnectionEvent::NewConnection(outcome));
        }
        if let Some(showing) = &mut self.showing
            && let Poll::Ready(shown) = showing.as_mut().poll(cx)
        {
            self.showing = None;
            let mut server = lock(&self.outbox.server);
            server.certificate_expires = shown.or(server.certificate_expires);
        }
        if self.failover.poll(cx).is_ready() {
            return Poll::Ready(ConnectionEvent::Moved);
        }
        let mut outbox = lock(&self.outbox.state);
        let closing = outbox.closed && self.farewell.is_none();
        // Replies that were taken without waking the task may have left work behind.
        let hailed = outbox.hailed && !self.hailed;
        if !outbox.items.is_empty()
            || hailed
            || closing
            || !self.waiting.is_empty() && self.up.is_some()
        {
            return Poll::Ready(ConnectionEvent::Outbox);
        }
        let _: Poll<()> = outbox.task.park(cx);
        drop(outbox);
        if let Some((_, timer)) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            return Poll::Ready(ConnectionEvent::Timer);
        }
        Poll::Pending
    }

    fn take_outbox(&mut self) {
        let (items, subscriber, closed) = {
            let mut outbox = lock(&self.outbox.state);
            let items = std::mem::take(&mut outbox.items);
            self.hailed = outbox.hailed;
            (items, outbox.subscriber.take(), outbox.closed)
        };
        if let Some(subscriber) = subscriber {
            self.subscription.begin(subscriber);
        }
        for item in items {
            self.due = self.due.min(item.due());
            self.patience = self.patience.max(item.patience());
            self.waiting.add(item);
        }
        if self.up.is_none() {
            let dropped = self.waiting.drop_oldest_releases();
            self.outbox.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if closed && self.farewell.is_none() {
            self.subscription.end();
            self.farewell = Some(self.clock.now() + FAREWELL);
            self.fail_all_but_releases("the client is closed");
        }
    }

    /// Sends what waits, connecting first if need be, and sets the timer.
    fn push_on(&mut self) {
        let now = self.clock.now();
        if now >= self.anew_at {
            self.look_at_certificate(now);
        }
        if !self.waiting.is_empty() {
            if self.up.is_some() {
                self.write(now);
            } else {
                self.wait_for_connection(now);
            }
        } else if self.is_missed() && now >= self.retry_at {
            self.start_connecting(now);
        }
        self.close_old();
        self.arm(now);
    }

    /// Does for what waits what can be done without a connection.
    fn wait_for_connection(&mut self, now: Instant) {
        if self.connecting.is_none() && now >= self.retry_at {
            self.start_connecting(now);
        }
        // The releases go out whether or not another connection follows soon: the requests that
        // they undo may be on their way.
        self.write_releases_to_old(now);
        if self.connecting.is_none() {
            let fault = self.last_fault.clone().unwrap_or_else(|| {
                Fault::new(FaultKind::Unreachable, "the connection was lost", false)
            });
            self.waiting.fail_requests(&fault);
        } else if self.silent {
            let why = "no answer to earlier requests";
            self.waiting
                .fail_requests(&Fault::new(FaultKind::Unreachable, why, false));
        }
    }

    /// Writes everything that waits, in order. A request of a dead token is
    /// left out, unless the release behind it makes it harmless: a cycle costs
    /// each node one acquire and one release, however the threads run.
    fn write(&mut self, now: Instant) {
        let Some(up) = &mut self.up else { return };
        // Counted where a request is unwanted: there may be as many of those as leases, and to look for the release of each
        // would keep the thread busy for minutes.
        let mut releases: Option<ReleaseCounts> = None;
        while let Some(mut item) = self.waiting.next() {
            if let (Some(releases), true) = (&mut releases, item.is_release()) {
                releases.remove(&item);
            }
            let unwanted = !item.wanted();
            let count = || ReleaseCounts::of(&self.waiting);
            if unwanted && !releases.get_or_insert_with(count).have_of(&item) {
                item.tell(Reply::Failed(Fault::unwanted()), None);
                continue;
            }
            if let (Some(old), true) = (&mut self.old, item.is_release() && !item.on_old) {
                old.write_copy(&item, now);
            }
            if item.sink.is_none() {
                self.due = self.due.min(now + item.patience());
            }
            item.request.op = self.failover.on(item.request.op);
            up.write(item, now);
        }
        up.end_write(now);
    }

    /// While there is only the connection in doubt, releases go out over it at
    /// once, behind the requests that they undo. They stay queued for the next
    /// one.
    fn write_releases_to_old(&mut self, now: Instant) {
        let Some(old) = &mut self.old else { return };
        for item in self.waiting.fresh_mut() {
            if item.is_release() && !item.on_old {
                item.on_old = true;
                old.write_copy(item, now);
            }
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

#[cfg(test)]
mod tests;
