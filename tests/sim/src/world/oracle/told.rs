//! What clients are told of the nodes' clocks, and what is not known of them meanwhile.

use std::time::Duration;

use quorlock::sim::{Instant, RequestContext};

use super::{Inner, Time};

/// A step of a node's clock that is larger than this, in µs, is seen.
const STEP_SEEN: i64 = 2_100;

/// What a client was told last of a server's `TIME`.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// The most that the server's clock is ahead of the client's, in µs.
    ahead: i64,
    /// When it was asked for, by the client's clock.
    at: Instant,
    server: u64,
    /// The longest between two such times so far.
    silence: Duration,
}

impl Inner {
    /// By how much a client may misjudge a node's clock that it was told nothing of for long.
    pub(in crate::world) fn unknown_of_clock(&self, client: usize, node: usize) -> Time {
        let now = self.clients[client].now(self.time);
        let place = 2 * (client * self.nodes.len() + node);
        let told = self.oracle.times.iter().skip(place).take(2).flatten();
        let silent = told.map(|told| told.at.until(now).max(told.silence)).max();
        let unknown = silent
            .unwrap_or_default()
            .mul_f64(self.clients[client].drift);
        unknown.as_nanos() as Time
    }

    /// A node's `TIME` has reached a client. If that cannot be but for a step
    /// forward, what stood on the node is worth less by it.
    pub(in crate::world) fn told_time(&mut self, client: usize, ticket: RequestContext, time: u64) {
        let now = self.clients[client].now(self.time);
        let micros = |at: Instant| (at.0 / 1000) as i64;
        let (low, high) = (time as i64 - micros(now), time as i64 - micros(ticket.sent));
        // Each server's clock is compared with itself.
        let place = 2 * (client * self.nodes.len() + ticket.node);
        let place = place + usize::from(ticket.server == Time::MAX);
        let times = &mut self.oracle.times;
        if times.len() <= place {
            times.resize(place + 1, None);
        }
        let before = times[place];
        let silence = before.map_or(Duration::ZERO, |told| {
            told.silence.max(told.at.until(ticket.sent))
        });
        times[place] = Some(Told {
            ahead: high,
            at: ticket.sent,
            server: ticket.server,
            silence,
        });
        let before = before.filter(|told| told.server == ticket.server);
        let Some(Told { ahead, at, .. }) = before else {
            return;
        };
        // It was told at the earliest then; clocks have drifted since.
        let drifted = (at.until(now) + ticket.sent.until(now)).mul_f64(self.clients[client].drift);
        let step = low - ahead - drifted.as_micros() as i64;
        if step <= STEP_SEEN {
            return;
        }
        let step = Duration::from_micros(step as u64);
        for life in self.oracle.tokens.values_mut() {
            if life.client == client {
                let end = &mut life.ends[ticket.node];
                *end = Instant(end.0.saturating_sub(step.as_nanos() as u64));
            }
        }
    }
}
