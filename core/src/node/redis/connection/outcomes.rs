//! What becomes of an answered request: its sink is given the reply, or the task asks again, by
//! script, on a new connection, or elsewhere in the cluster.

use super::{Connection, POSTPONED};
use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::redis::outbox::Item;
use crate::node::redis::pipe::InFlight;
use crate::node::redis::replies::RequestOutcome;
use crate::node::redis::server_error::Redirect;
use crate::node::{Fault, FaultKind, Reply, TimeReading};

impl Connection {
    /// Handles all outcomes of the last reply.
    pub(super) fn take_outcomes(&mut self) {
        self.failures = 0;
        // The reply has come: one reading of the clock serves all requests that it answers.
        let mut now = None;
        while let Some((item, outcome)) = self.done.pop_front() {
            self.take_outcome(item, outcome, &mut now);
        }
        if let Some(memory) = self.up.as_mut().and_then(InFlight::take_memory) {
            lock(&self.outbox.server).memory = memory;
        }
        if self.up.as_ref().is_some_and(InFlight::evicts) {
            // The admission decides whether the server is refused now, or accepted again.
            self.readmit();
        }
    }

    /// `now`: when the reply had come, once the clock was read for it.
    fn take_outcome(
        &mut self,
        mut item: Box<Item>,
        outcome: RequestOutcome,
        now: &mut Option<Instant>,
    ) {
        match outcome {
            RequestOutcome::AskByScript => {
                item.by_script();
                self.waiting.again(item);
            }
            RequestOutcome::NoScript if !item.with_text => {
                item.with_text = true;
                self.waiting.again(item);
            }
            RequestOutcome::NoScript => item.fail(FaultKind::NotReady, "NOSCRIPT twice", true),
            RequestOutcome::OtherRecord if !item.readmitted => {
                item.readmitted = true;
                item.by_script();
                self.waiting.again(item);
                self.readmit();
            }
            RequestOutcome::OtherRecord => {
                item.fail(FaultKind::NotReady, "its record has changed twice", true);
            }
            RequestOutcome::Elsewhere(redirect, fault) => match &self.target.routes {
                Some(routes) => {
                    let here = &self.target.address.endpoint;
                    routes.redirected(item, redirect, here, self.is_calm());
                }
                None if item.is_release() => self.failed(item, fault),
                None => item.tell(Reply::Failed(fault), None),
            },
            RequestOutcome::Demoted(fault) => {
                // The address may lead to another server now, which the next connection finds out.
                self.readmit();
                self.failed(item, fault);
            }
            // The one key of the lock says too little to call the lease lost.
            RequestOutcome::Reply(Reply::NotMine, _) if item.prolongs => {
                if let Some(routes) = &self.target.routes {
                    let here = &self.target.address.endpoint;
                    routes.redirected(item, Redirect::TryAgain, here, false);
                }
            }
            RequestOutcome::Reply(Reply::Failed(fault), _) if item.is_release() => {
                self.failed(item, fault);
            }
            RequestOutcome::Reply(reply, time) => {
                let time = time.map(|time| TimeReading {
                    time,
                    at: *now.get_or_insert_with(|| self.clock.now()),
                });
                // A request to a single server carries its own deadline, made from that server's
                // clock; only a cluster's links need this sample.
                if let (Some(_), Some(up), Some(time)) = (&self.target.routes, &mut self.up, time) {
                    up.told(&item, time);
                }
                let reply = match time {
                    Some(time) => self.look_at_time(item.ticket, time, reply),
                    None => reply,
                };
                let reply =
                    self.failover
                        .worth(reply, &item.request, item.ticket.server, &*self.clock);
                item.tell(reply, time);
            }
        }
    }

    /// Whether no quarantine lasts on it, of a shard.
    fn is_calm(&self) -> bool {
        self.clock.now() >= self.calm_from
    }

    /// The server could not carry a request out. A release is tried again.
    fn failed(&mut self, mut item: Box<Item>, fault: Fault) {
        item.tell(Reply::Failed(fault), None);
        if item.is_release() {
            self.postponed.push_back(item);
            self.due = self.due.min(self.clock.now() + POSTPONED);
            self.arm(self.clock.now());
        }
    }
}
