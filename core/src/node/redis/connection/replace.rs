//! Replacing a connection: when the next one is made, when the one in use is in
//! doubt or lost, and what becomes of its requests.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::failover::CurrentMaster;
use super::{Connection, LOOKED_AT_ANEW, SOON};
use crate::clock::Instant;
use crate::event::{LogEvent, event};
use crate::mutex::lock;
use crate::node::admission::StepWatch;
use crate::node::redis::connect::{ConnectHints, NewConnection, ServerTime, connect};
use crate::node::redis::outbox::Item;
use crate::node::redis::pipe::InFlight;
use crate::node::{Fault, FaultKind, Reply, RequestContext, TimeReading};

/// This many requests' time a connection has: its set-up takes several round trips, where
/// a request takes one.
const CONNECT_STEPS: u32 = 4;

impl Connection {
    /// Whether a connection is missed though nothing waits to be written: for the sake of
    /// messages; of releases that the one in doubt has not acknowledged, for its node may
    /// never have had these, and no request may ever follow them; or of a server that was
    /// promoted.
    pub(super) fn is_missed(&self) -> bool {
        let none = self.up.is_none() && self.connecting.is_none();
        let owed = || self.owes_in_doubt();
        none && (self.hailed
            || self.subscription.wants_connection()
            || owed()
            || self.failover.is_unmet())
    }

    /// Whether the connection in doubt has releases to acknowledge.
    fn owes_in_doubt(&self) -> bool {
        let mut items = self.old.iter().flat_map(InFlight::items);
        items.any(Item::is_release)
    }

    /// Begins to make the next connection.
    pub(super) fn start_connecting(&mut self, now: Instant) {
        let target = self.target.clone();
        let how = ConnectHints {
            reached: self.outbox.connects.load(Ordering::Relaxed) != 0,
            subscribe: self.subscription.is_wanted(),
            stepped: self.stepped,
            before: self.failover.here(),
        };
        let connecting = Box::pin(async move { connect(&target, how).await.map(Box::new) });
        let most = self.time_to_connect();
        self.connecting = Some((now + most, connecting));
    }

    /// How long a connection may take to be made, once its name is known. Longer than a
    /// request waits, so that a slow set-up delays the first requests only.
    pub(super) fn time_to_connect(&self) -> Duration {
        let least = self.target.gate.connect_timeout;
        least.max(self.patience * CONNECT_STEPS)
    }

    /// There is a new connection: releases that went out over the one before are
    /// sent again on it.
    pub(super) fn take_connection(&mut self, connected: Box<NewConnection>) {
        self.outbox.connects.fetch_add(1, Ordering::Relaxed);
        self.outbox.id.store(connected.id, Ordering::Relaxed);
        *lock(&self.outbox.server) = connected.about;
        self.silent = false;
        self.last_fault = None;
        self.is_met(Some(true));
        if std::mem::take(&mut self.told_away) {
            self.note(event!(
                "node_reached",
                "the node {node} is reached again",
                node = self.target.address.shown,
            ));
        }
        // The releases that the connection before owes are sent again on this connection, and need
        // no copy over that one.
        for place in self.old.iter_mut().flat_map(InFlight::items_mut) {
            let owed = place.as_ref().is_some_and(|item| item.is_release());
            if owed {
                let written = place.take().map(|mut item| {
                    item.on_old = true;
                    item.by_script();
                    item
                });
                self.waiting.extend(written);
            }
        }
        let (subscribed, server, told) = (connected.subscribed, connected.server, connected.time);
        self.anew_at = anew_at(connected.about.certificate_expires, told, self.clock.now());
        self.here = Some(connected.endpoint.clone());
        let here = CurrentMaster {
            at: connected.endpoint.clone(),
            server,
            promotions: connected.promotions,
        };
        let (succeeds, now) = (connected.succeeds, self.clock.now());
        self.failover.connected(&self.target, here, succeeds, now);
        let stepped = self.watch.admitted(server, told.asked, told.at, told.time);
        // A reply over the connection in doubt may have shown a step meanwhile.
        let missed = self.stepped && !connected.stepped;
        self.stepped = self.guarded() && (stepped || missed);
        self.calm_from = now + connected.quarantine;
        self.up = Some(InFlight::new(*connected));
        self.subscription.connected(subscribed);
        if self.stepped {
            self.readmit();
        }
    }

    /// Has the server show its certificate once more, over a connection that is made for it alone.
    pub(super) fn look_at_certificate(&mut self, now: Instant) {
        self.anew_at = now + LOOKED_AT_ANEW;
        let Some(here) = self.here.clone().filter(|_| self.up.is_some()) else {
            return;
        };
        let target = self.target.clone();
        self.showing = Some(Box::pin(async move {
            target.dial.certificate_expires(&here).await
        }));
    }

    /// Whether restarts are guarded.
    fn guarded(&self) -> bool {
        self.target.gate.expected().guard
    }

    /// Looks at the node's `TIME` in a reply: if that has stepped forward, and a quarantine may
    /// last there, the task has the node admitted anew, and the quarantine begins again. Returns
    /// what the reply is worth then.
    pub(super) fn look_at_time(
        &mut self,
        ticket: RequestContext,
        reading: TimeReading,
        reply: Reply,
    ) -> Reply {
        let quarantined = matches!(reply, Reply::Quarantined { .. });
        let (server, sent) = (ticket.server, ticket.sent);
        let TimeReading { time, at } = reading;
        if !(self.guarded() && self.watch.told(server, sent, at, time, quarantined)) {
            return reply;
        }
        self.stepped = true;
        self.readmit();
        StepWatch::worth(reply)
    }

    /// The next connection was not to be had.
    pub(super) fn connect_failed(&mut self, fault: Fault) {
        // A connection that was ended on the way says nothing of the next, as a server may end it
        // that was idle for long; a second such end does.
        let ended = fault.kind == FaultKind::Unreachable && fault.sent && self.failures == 0;
        // A connection that broke is replaced without a pause; a connection that could not be made
        // is not tried again at once.
        self.failures = self.failures.saturating_add(1).max(2);
        self.retry_at = self.clock.now() + reconnect_pause(self.failures);
        let fault = Fault {
            sent: false,
            ..fault
        };
        self.send_elsewhere();
        self.waiting.fail_requests(&fault);
        // The log repeats nothing: it is given a fault that differs in any regard.
        let known = self.last_fault.as_ref() == Some(&fault);
        let lasting = matches!(fault.kind, FaultKind::Misconfigured | FaultKind::Foreign);
        if lasting && !known {
            // With a quorum of other nodes no caller would learn of this fault.
            (self.target.gate.warn)(event!(
                "node_refused",
                "the node {node} may not vote: {reason}",
                node = self.target.address.shown,
                reason = fault.text,
            ));
            self.told_away = true;
        } else if !known && self.farewell.is_none() {
            self.tell_unreached(&fault);
            self.told_away = true;
        }
        self.last_fault = Some(fault);
        self.is_met((!ended).then_some(false));
    }

    /// Notifies the waiting callers of how a try to connect has ended.
    fn is_met(&mut self, met: Option<bool>) {
        self.hailed &= met.is_none();
        self.outbox.meet(met);
    }

    /// A shard of a cluster is not reached: another may serve by now what waits for it.
    fn send_elsewhere(&mut self) {
        if let Some(routes) = &self.target.routes {
            routes.doubt();
            let waiting = self.waiting.drain().collect();
            let kept = routes.take_strays(&self.target.address.endpoint, waiting);
            self.waiting.extend(kept);
        }
    }

    /// The node has another record than on connect, so it may have lost its
    /// memory behind a proxy: it has to be admitted anew. The connection only
    /// takes the replies that are under way.
    pub(super) fn readmit(&mut self) {
        if self.up.is_some() {
            self.doubt();
            self.retry_at = Instant::NEVER;
        }
    }

    /// The connection broke, or is in disorder. The next one may be made after
    /// a pause, if there were failures before.
    pub(super) fn lose_connection(&mut self, fault: &Fault) {
        let Some(up) = self.up.take() else { return };
        self.note(event!(
            "connection_lost",
            "the node {node} has lost its connection: {reason}",
            node = self.target.address.shown,
            reason = fault.text,
        ));
        self.told_away = true;
        self.is_met(None);
        lock(&self.outbox.server).memory = None;
        self.pause();
        self.abandon(up, fault, true);
        self.subscription.lost();
    }

    /// The connection in use goes on as the one in doubt.
    pub(super) fn doubt(&mut self) {
        self.lose_old();
        self.old = self.up.take();
        if let Some(old) = &mut self.old {
            old.copy_deletes();
        }
        self.waiting.renew();
        self.subscription.lost();
    }

    /// Warns that the node is not reached: a call that waits for a lock meanwhile would see
    /// nothing but silence, and a majority that dies ends leases.
    fn tell_unreached(&self, fault: &Fault) {
        (self.target.gate.warn)(event!(
            "node_unreached",
            "the node {node} is not reached: {reason}",
            node = self.target.address.shown,
            reason = fault.text,
        ));
    }

    /// Logs the state of the node.
    pub(super) fn note(&self, what: LogEvent) {
        (self.target.gate.note)(what);
    }

    /// Gives up the connection in doubt.
    pub(super) fn lose_old(&mut self) {
        if let Some(old) = self.old.take() {
            let fault = Fault::new(FaultKind::Unreachable, "the connection was lost", true);
            self.abandon(old, &fault, false);
        }
    }

    /// Gives a connection up: its releases are sent again, its requests fail. A request that was
    /// written to a connection which had died unnoticed, having answered nothing since, is written
    /// to the next connection, once: a frozen process finds its connections so, and its servers
    /// well.
    fn abandon(&mut self, mut connection: InFlight, fault: &Fault, repeats: bool) {
        let items: Vec<_> = connection.items_mut().filter_map(Option::take).collect();
        for mut item in items {
            let again = repeats
                && !item.rewritten
                && item.is_repeatable()
                && item.wanted()
                && connection.is_silent_since(&item);
            if item.is_release() {
                item.by_script();
                self.waiting.add(item);
            } else if again {
                item.by_script();
                item.rewritten = true;
                // The first copy may have been carried out.
                item.void = true;
                self.waiting.add(item);
            } else {
                item.tell(Reply::Failed(fault.clone()), None);
            }
        }
    }

    /// The node has failed once more: the next connection may have to wait.
    pub(super) fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.clock.now() + reconnect_pause(self.failures);
    }

    /// Why the connection that is being made waits for other nodes.
    pub(super) fn waits_for_others(&self) -> Option<String> {
        let gate = &self.target.gate;
        let connecting = self.connecting.is_some();
        connecting
            .then(|| gate.survey.waits_for(self.target.node))
            .flatten()
    }

    /// Closes the connection in doubt once another stands and no request awaits its replies.
    pub(super) fn close_old(&mut self) {
        if self.up.is_some() && self.old.as_ref().is_some_and(InFlight::is_idle) {
            self.old = None;
        }
    }
}

/// When a certificate that ends then is to be looked at anew, of a server whose clock was so; at no
/// time without one.
fn anew_at(expires: Option<u64>, told: ServerTime, now: Instant) -> Instant {
    let Some(expires) = expires else {
        return Instant::FAR;
    };
    let left = Duration::from_secs(expires.saturating_sub(told.time / 1_000_000));
    now + left.saturating_sub(SOON).max(LOOKED_AT_ANEW)
}

/// Pause before connecting again to a node, after `failures` in a row: none
/// after the first, for a connection may break without the node being ill;
/// then 50 ms doubling to 2 s.
fn reconnect_pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        n => Duration::from_millis(50 << (n - 2).min(6)).min(Duration::from_secs(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_left_alone_longer_and_longer() {
        let pauses: Vec<u64> = (0..9)
            .map(|n| reconnect_pause(n).as_millis() as u64)
            .collect();
        assert_eq!(pauses, [0, 0, 50, 100, 200, 400, 800, 1600, 2000]);
    }
}
