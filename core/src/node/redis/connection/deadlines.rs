//! When something is due: requests past their deadlines, a connection that takes too long to be
//! made, and the timer for whatever comes next.

use std::borrow::Cow;

use super::{ConnectFuture, Connection};
use crate::clock::Instant;
use crate::event::event;
use crate::mutex::lock;
use crate::node::address::Endpoint;
use crate::node::redis::connect::{Target, not_there, of_server};
use crate::node::{Fault, FaultKind};

impl Connection {
    /// Says that no connection was made in time, and why or where.
    fn no_connection(&self) -> Cow<'static, str> {
        const WHY: &str = "no connection in time";
        match &self.target.routes {
            None if self.is_looking_up() => {
                format!("{WHY}: the name of its host is still being looked up").into()
            }
            // A plain server on that port waits for the end of a line, which TLS does not have, and
            // stays silent.
            None if matches!(
                self.target.address.endpoint,
                Endpoint::Tcp { tls: true, .. }
            ) =>
            {
                format!("{WHY} (over TLS: write redis:// where its port does not speak that)")
                    .into()
            }
            None => {
                let attempt = self.target.located.attempt();
                let text = format!("{WHY}: {}", attempt.lacks());
                match attempt.endpoint {
                    Some(endpoint) => of_server(&self.target.address, &endpoint, &text).into(),
                    None => text.into(),
                }
            }
            Some(_) => format!("{WHY} {}", not_there(&self.target.address.endpoint)).into(),
        }
    }

    /// Whether a connection is being made, and its name is not known yet.
    fn is_looking_up(&self) -> bool {
        let Target { dial, address, .. } = &*self.target;
        self.connecting.is_some() && dial.is_looking_up(&address.endpoint)
    }

    /// Fails what is past its deadline, puts its connection in doubt, and
    /// finds out what is due next.
    pub(super) fn look_at_deadlines(&mut self) {
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
        let wait = self.waits_for_others();
        let away = self.no_connection();
        let why = wait.as_deref().unwrap_or(&away);
        self.waiting.expire(now, &mut self.due, why);
        if doubtful {
            self.note(event!(
                "node_silent",
                "the node {node} leaves a request unanswered: it is connected to anew",
                node = self.target.address.shown,
            ));
            self.doubt();
            self.silent = true;
            lock(&self.outbox.server).memory = None;
            self.pause();
        }
        let looks_up = self.is_looking_up();
        let given_up = |(until, _): &(Instant, ConnectFuture)| *until <= now;
        if self.connecting.as_ref().is_some_and(given_up) {
            // The look-up of a name may take all its time, but no request waits for it any more.
            let more = now + self.time_to_connect();
            match &mut self.connecting {
                Some((until, _)) if looks_up => *until = more,
                connecting => *connecting = None,
            }
            // A node that waits for the founding of its set has answered.
            let fault = match wait {
                Some(why) => Fault::new(FaultKind::NotReady, why, false),
                None => {
                    self.silent = true;
                    self.target.gate.survey.absent(self.target.node);
                    Fault::new(FaultKind::Timeout, away, false)
                }
            };
            self.connect_failed(fault);
        }
    }

    /// Sets the timer for whatever comes first.
    pub(super) fn arm(&mut self, now: Instant) {
        let mut next = self.due;
        if let Some((until, _)) = &self.connecting {
            next = next.min(*until);
        } else if self.up.is_none() && !self.waiting.is_empty() || self.is_missed() {
            next = next.min(self.retry_at);
        }
        if let Some(farewell) = self.farewell {
            next = next.min(farewell);
        }
        match &self.timer {
            // A timer that rings early makes the task look once too often, so it stays as it is.
            Some((at, _)) if *at <= next => {}
            _ if next == Instant::FAR => self.timer = None,
            _ => self.timer = Some((next, self.clock.sleep_until(next.max(now)))),
        }
    }
}
