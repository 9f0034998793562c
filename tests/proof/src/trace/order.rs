//! What a link owes to a release: "Order". It is written behind what it undoes, on each connection, and again to each new one,
//! until the node has acknowledged it behind all that, or nothing of its token can stand any more.

use std::collections::{BTreeMap, HashMap};

use quorlock::sim::{AfterRelease, Op};
use quorlock_sim::trace::Step;
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::{shown, token};
use crate::spec::Action;
use crate::spec::claim::{drift_of, nanos};

/// By so much a native key may outlast its ttl, in ns.
const LONGER: u64 = 6_000_000;

/// A client's way to a node, by the places of its list.
type Way = (usize, usize);

/// A release that the node has not acknowledged.
#[derive(Debug)]
struct Release {
    token: Vec<u8>,
    native: bool,
    /// Until then it is sent again, in true time.
    until: u64,
    /// The connection that it went over last, as the one in use.
    last: Option<u64>,
}

/// What is known of one way.
#[derive(Debug, Default)]
struct State {
    /// The connection before, once that is in doubt.
    doubted: Option<u64>,
    releases: BTreeMap<u64, Release>,
    /// The requests without an answer: their tokens, and what they were written to.
    open: HashMap<u64, (Vec<u8>, Vec<u64>)>,
}

/// What links owe.
#[derive(Debug, Default)]
pub struct Order {
    ways: BTreeMap<Way, State>,
    /// The longest ttl of each client, and its clock.
    clients: BTreeMap<usize, (std::time::Duration, (u64, f64))>,
    /// What is to be written in this moment: way, connection and message; and whether by script.
    due: Vec<(Way, u64, u64, bool)>,
    /// What was.
    put: Vec<(Way, u64, u64, bool)>,
    /// Each node has another server that may take its place: one that has says so, and its release goes again by itself.
    failing_over: bool,
}

impl Order {
    /// A step, at a moment of true time.
    pub fn step(&mut self, at: u64, step: &Step) -> Result<(), Refused> {
        match step {
            Step::Client {
                client,
                max_ttl,
                failing_over,
                offset,
                rate,
                ..
            } => {
                self.failing_over |= failing_over;
                self.clients.insert(*client, (*max_ttl, (*offset, *rate)));
            }
            Step::Asks {
                client,
                place,
                message,
                request,
                ticket,
                drift,
                ..
            } => {
                let way = (*client, *place);
                let name = token(&request.value.0);
                let state = self.ways.entry(way).or_default();
                if request.op != Op::Release {
                    state.open.insert(*message, (name, Vec::new()));
                    return Ok(());
                }
                // Of another client's token, which is no affair of this way's order.
                if matches!(request.leaving, AfterRelease::Forced(_)) {
                    return Ok(());
                }
                let Some((_, (offset, rate))) = self.clients.get(client) else {
                    return Ok(());
                };
                // Of a client that is of another mind about the set its own may be shorter than what it expects there.
                let all = self.clients.values().map(|(max_ttl, _)| *max_ttl);
                let max_ttl = all.min().unwrap_or_default();
                let late = 2 * (ticket.deadline.0 - ticket.sent.0) + LONGER;
                let until = ticket.sent.0 + nanos(max_ttl) + drift_of(max_ttl, *drift) + late;
                let until = (until.saturating_sub(*offset) as f64 / rate) as u64;
                // guard: behind what it undoes, also where that is in doubt
                if let Some(doubted) = state.doubted
                    && state
                        .open
                        .values()
                        .any(|(of, over)| *of == name && over.contains(&doubted))
                    && !name.is_empty()
                {
                    self.due.push((way, doubted, *message, false));
                }
                let release = Release {
                    token: name,
                    native: request.native,
                    until,
                    last: None,
                };
                state.releases.insert(*message, release);
            }
            Step::Puts {
                client,
                place,
                connection,
                message,
                native,
            } => {
                let way = (*client, *place);
                let state = self.ways.entry(way).or_default();
                if let Some((_, over)) = state.open.get_mut(message) {
                    over.push(*connection);
                }
                if let Some(release) = state.releases.get_mut(message)
                    && state.doubted != Some(*connection)
                {
                    (release.last, release.native) = (Some(*connection), *native);
                }
                self.put.push((way, *connection, *message, !native));
            }
            Step::Doubts {
                client,
                place,
                connection,
            } => {
                let way = (*client, *place);
                let state = self.ways.entry(way).or_default();
                state.doubted = Some(*connection);
                // guard: the script behind each native release that is not answered on it
                for (message, release) in &state.releases {
                    let on_it = release.native && release.last == Some(*connection);
                    if on_it && !self.failing_over {
                        self.due.push((way, *connection, *message, true));
                    }
                }
            }
            Step::Ready { between, .. } => {
                let way = (between.client, between.place);
                // guard: again after each reconnect
                for (message, release) in &self.ways.entry(way).or_default().releases {
                    if at < release.until {
                        self.due.push((way, between.connection, *message, false));
                    }
                }
            }
            Step::Hears {
                client,
                place,
                connection,
                message,
                ..
            } => {
                let state = self.ways.entry((*client, *place)).or_default();
                state.open.remove(message);
                if let Some(release) = state.releases.remove(message)
                    && release.last != Some(*connection)
                {
                    // guard: behind all that it undoes
                    return Err(Refused::new(Action::ClientRelease, || {
                        format!(
                            "the release of {} counts as done by what connection {connection} says, and went over {:?}",
                            shown(&release.token),
                            release.last
                        )
                    }));
                }
            }
            Step::Fault(FaultEvent::CrashClient(client)) => {
                self.ways.retain(|(of, _), _| of != client);
                self.due.retain(|((of, _), ..)| of != client);
            }
            _ => {}
        }
        Ok(())
    }

    /// A moment is over.
    pub fn settles(&mut self) -> Result<(), Refused> {
        let put = std::mem::take(&mut self.put);
        for (way, connection, message, script) in std::mem::take(&mut self.due) {
            let written = |one: &&(Way, u64, u64, bool)| {
                (one.0, one.1, one.2) == (way, connection, message) && (one.3 || !script)
            };
            if put.iter().find(written).is_none() {
                return Err(Refused::new(Action::ClientRelease, || {
                    format!(
                        "client {}, node {}: the release {message} is not written to connection {connection}",
                        way.0, way.1
                    )
                }));
            }
        }
        Ok(())
    }
}
