//! How a connection's task ends: by itself once its client is closed, with its runtime, or by a
//! panic. Whatever ends it, each request is answered, and releases are left to the task that comes
//! next.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::{Connection, NodeKnowledge};
use crate::mutex::lock;
use crate::node::admission::StepWatch;
use crate::node::redis::outbox::{HAS_ENDED, Item};
use crate::node::redis::pipe::InFlight;
use crate::node::{Fault, FaultKind};
use crate::runtime::drive::let_go;

impl Connection {
    fn in_flight(&mut self) -> impl Iterator<Item = &mut Option<Box<Item>>> {
        let connections = self.up.iter_mut().chain(&mut self.old);
        connections.flat_map(InFlight::items_mut)
    }

    pub(super) fn fail_all_but_releases(&mut self, why: &str) {
        let open = |place: &&mut Option<Box<Item>>| place.as_ref().is_some_and(|i| !i.is_release());
        for mut item in self.in_flight().filter(open).filter_map(Option::take) {
            item.fail(FaultKind::Refused, why, true);
        }
        self.waiting
            .fail_requests(&Fault::new(FaultKind::Refused, why, false));
    }

    /// The task is over when its releases are acknowledged, or its
    /// time is up.
    pub(super) fn is_over(&mut self) -> bool {
        let Some(farewell) = self.farewell else {
            return false;
        };
        let idle = self.in_flight().all(|place| place.is_none())
            && self.waiting.is_empty()
            && self.postponed.is_empty()
            && lock(&self.outbox.state).items.is_empty();
        idle || self.clock.now() >= farewell
    }

    /// Everything that it was asked and has not answered, but for what waits in the outbox.
    fn unanswered(&mut self) -> VecDeque<Box<Item>> {
        let mut all: VecDeque<_> = self.in_flight().filter_map(Option::take).collect();
        all.extend(self.done.drain(..).map(|(item, _)| item));
        all.extend(self.postponed.drain(..));
        all.extend(self.waiting.drain());
        all
    }

    /// The runtime ends before the client does. What there is room for in the system's buffers
    /// goes out yet, to a server that is connected to; no answer is waited for.
    fn write_at_the_end(&mut self) {
        self.take_outbox();
        let now = self.clock.now();
        if let Some(up) = &mut self.up {
            for item in self.waiting.drain().filter(|item| item.is_release()) {
                up.write(item, now);
            }
            up.end_write(now);
            up.write_out();
        }
    }

    /// Answers everything if the task has panicked; else requests alone. Leaves the releases, and
    /// the subscriber of the node's messages, to the next task, if one begins.
    fn hand_over(&mut self) {
        let bug = !self.rests;
        let (mut left, subscriber) = (self.unanswered(), self.subscription.leave());
        let nothing = StepWatch::new(Duration::ZERO, 0.0);
        let known: Box<dyn Any + Send> = Box::new(NodeKnowledge {
            watch: std::mem::replace(&mut self.watch, nothing),
            stepped: self.stepped,
            failover: self.failover.asleep(),
        });
        {
            let mut outbox = lock(&self.outbox.state);
            if outbox.subscriber.is_none() {
                outbox.subscriber = subscriber;
            }
            // The connection has gone with its task.
            outbox.met = outbox.met.filter(|met| !met);
            outbox.known = Some(known);
            outbox.rests = true;
            if bug {
                left.append(&mut outbox.items);
            }
        }
        left.retain_mut(|item| {
            if bug || !item.is_release() {
                item.fail(FaultKind::Unreachable, HAS_ENDED, item.is_sent());
            }
            item.is_release()
        });
        let mut outbox = lock(&self.outbox.state);
        for release in left.into_iter().rev() {
            outbox.items.push_front(release.begin_anew());
        }
    }
}

impl Drop for Connection {
    /// However the task ends, what it was asked is answered.
    fn drop(&mut self) {
        // A second panic would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if self.rests && self.farewell.is_none() {
                self.write_at_the_end();
                self.fail_all_but_releases("the client is closed");
            }
            self.hand_over();
            let left = (self.connecting.take(), self.showing.take());
            let_go((left, self.failover.leave()));
        }));
    }
}
