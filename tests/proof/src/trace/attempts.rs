//! An attempt has its time, and then it is over: nothing more is asked for it, and its votes are given back: "Timings", "Which means,
//! and what follows". And no node is asked for one token twice at once.

use std::collections::{BTreeMap, BTreeSet};

use quorlock::sim::{AfterRelease, Op, Request};
use quorlock_sim::trace::Step;
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::{Clients, shown, token};
use crate::spec::Action;
use crate::spec::claim::nanos;

/// What is not told apart: timers, and rates of clocks.
const SLACK: u64 = 2_000_000;
/// So many waiters of one client for one lock may find in one moment that none of its homes can be reached.
const AT_ONCE: usize = 20;

/// The times of one token's attempt.
#[derive(Debug, Default)]
struct Times {
    client: usize,
    /// How long it may take.
    long: u64,
    /// Time for one request to one node.
    timeout: u64,
    /// For so long answers are awaited behind its end that say why it was in vain.
    overtime: u64,
    /// What must be left of a lease when it is won.
    least: u64,
    fenced: bool,
    /// Its client was held up meanwhile, and takes an answer late.
    held_up: bool,
}

/// The attempts that are not won, nor over.
#[derive(Debug, Default)]
pub struct Attempts {
    tokens: BTreeMap<Vec<u8>, Times>,
    /// By when, in true time, those that have votes are won or given up.
    due: BTreeSet<(u64, Vec<u8>)>,
    /// What was asked in this moment and not answered in it: token, place, and the fence that is written back, or 0 for a vote.
    asked: BTreeSet<(Vec<u8>, usize, u64)>,
    /// What is to be won in this moment.
    won: BTreeSet<Vec<u8>>,
    /// The tokens among them that a waiter asks for.
    waiters: BTreeSet<Vec<u8>>,
    /// How many nodes each client lists.
    nodes: BTreeMap<usize, usize>,
    /// How many tokens of waiters each client has asked for and given up in this moment, by the queue.
    vain: BTreeMap<(usize, Vec<u8>), usize>,
    /// The clients of which some leases are told late or not at all: see [`Step::Client`](quorlock_sim::trace::Step::Client).
    unseen: BTreeSet<usize>,
}

impl Attempts {
    /// A step, at a moment of true time.
    pub fn step(&mut self, at: u64, step: &Step, clients: &Clients) -> Result<(), Refused> {
        match step {
            Step::Client {
                client,
                nodes,
                unseen,
                ..
            } => {
                if *unseen {
                    self.unseen.insert(*client);
                }
                self.nodes.insert(*client, *nodes);
            }
            Step::Probes { client } => {
                self.unseen.insert(*client);
            }
            Step::Asks {
                client,
                place,
                now,
                request,
                ticket,
                ..
            } => {
                let name = token(&request.value.0);
                let (ttl, back) = match request.op {
                    Op::Acquire { ttl, .. } => (ttl, 0),
                    Op::Confirm { ttl, fence, .. } => (ttl, fence),
                    Op::Release if !matches!(request.leaving, AfterRelease::Forced(_)) => {
                        self.forgets(&name);
                        return self.gives_up(*client, &name, request);
                    }
                    _ => return Ok(()),
                };
                // guard: a node that has not answered is not asked for the same at once
                if !self.asked.insert((name.clone(), *place, back)) {
                    return Err(Refused::new(Action::ClientAsk, || {
                        format!("client {client} asks node {place} twice at once")
                    }));
                }
                if request.waiter.is_some() {
                    self.waiters.insert(name.clone());
                }
                let timeout = ticket.deadline.0.saturating_sub(ticket.sent.0);
                let times = self.tokens.entry(name.clone()).or_default();
                times.client = *client;
                times.timeout = times.timeout.max(timeout);
                times.fenced = request.keys.fence_ttl.is_some();
                times.least = nanos(ttl) / 10;
                if request.waiter.is_some() {
                    times.overtime = times.timeout;
                }
                let twice = 2 * times.timeout;
                times.long = if request.waiter.is_some() {
                    let reservation = nanos(request.keys.waits.reservation);
                    twice.max(reservation.min(nanos(ttl) / 2))
                } else if request.keys.adopts.is_some() {
                    twice.max(nanos(ttl))
                } else {
                    twice
                };
                // guard: nothing is asked for an attempt that is over
                let since = clients.votes_since(&name, now.0);
                let since = since.filter(|_| !times.held_up);
                if since.is_some_and(|since| now.0 > since + times.long + times.overtime + SLACK) {
                    let of = shown(&name);
                    return Err(Refused::new(Action::ClientAsk, || {
                        format!(
                            "client {client} asks for {of} at {now:?}, whose attempt is over: since {since:?}, for {}",
                            times.long
                        )
                    }));
                }
            }
            Step::Hears {
                client,
                place,
                now,
                request,
                ..
            } => {
                let name = token(&request.value.0);
                let back = match request.op {
                    Op::Acquire { .. } => 0,
                    Op::Confirm { fence, .. } => fence,
                    _ => return Ok(()),
                };
                self.asked.remove(&(name.clone(), *place, back));
                let Some(times) = self.tokens.get(&name) else {
                    return Ok(());
                };
                let since = clients.votes_since(&name, now.0);
                if let Some(since) = since.filter(|_| !times.held_up) {
                    let left = (since + times.long + times.overtime).saturating_sub(now.0);
                    let by = at + left + left / 20 + SLACK;
                    if !self.due.iter().any(|(_, of)| *of == name) {
                        self.due.insert((by, name.clone()));
                    }
                }
                // guard: won in the moment in which nothing is awaited any more; what is adopted may have too little left of its max_hold
                let won = clients.may_be_won(&name, now.0, times.least, times.fenced);
                let unseen = self.unseen.contains(client);
                let adopts = request.keys.adopts.is_some();
                if !unseen && !adopts && won && clients.has_all(&name, now.0) {
                    self.won.insert(name.clone());
                }
                // Its user may have it later, or is not seen to have it.
                if unseen && won && times.client == *client {
                    self.forgets(&name);
                }
            }
            Step::Won { hold, .. } => self.forgets(&hold.token),
            Step::Fault(
                FaultEvent::PauseClient(client, _)
                | FaultEvent::SuspendClient(client, _)
                | FaultEvent::CrashClient(client),
            ) => {
                let of = |name: &Vec<u8>| self.tokens.get(name).map(|times| times.client);
                self.due.retain(|(_, name)| of(name) != Some(*client));
                let theirs = self.tokens.values_mut().filter(|t| t.client == *client);
                theirs.for_each(|times| times.held_up = true);
            }
            _ => {}
        }
        Ok(())
    }

    /// A token is given up.
    fn gives_up(&mut self, client: usize, name: &[u8], request: &Request) -> Result<(), Refused> {
        let own = (name.to_vec(), 0, 0)..=(name.to_vec(), usize::MAX, u64::MAX);
        let now: Vec<_> = self.asked.range(own).cloned().collect();
        if now.is_empty() || !self.waiters.contains(name) {
            return Ok(());
        }
        now.iter().for_each(|one| _ = self.asked.remove(one));
        let queue = (client, request.keys.aux.queue().to_vec());
        let vain = self.vain.entry(queue).or_default();
        *vain += 1;
        let nodes = self.nodes.get(&client).copied().unwrap_or(0);
        // guard: after as many as there may be homes there is a pause
        if *vain > AT_ONCE * nodes {
            return Err(Refused::new(Action::ClientJoin, || {
                format!("client {client} asks and gives up, again and again, without a pause")
            }));
        }
        Ok(())
    }

    fn forgets(&mut self, name: &[u8]) {
        self.tokens.remove(name);
        self.due.retain(|(_, of)| of != name);
        self.won.remove(name);
    }

    /// A moment is over, and it is `at` now.
    pub fn waits(&mut self, at: u64) -> Result<(), Refused> {
        self.asked.clear();
        self.waiters.clear();
        self.vain.clear();
        if let Some(name) = self.won.pop_first() {
            return Err(Refused::new(Action::ClientWin, || {
                format!(
                    "{} has the votes of all nodes, and is not won",
                    shown(&name)
                )
            }));
        }
        // guard: what is not won in its time is given up
        match self.due.first() {
            Some((by, name)) if *by < at => {
                let of = shown(name);
                Err(Refused::new(Action::ClientGiveUp, || {
                    format!("the attempt of {of} is over, and its votes are not given back")
                }))
            }
            _ => Ok(()),
        }
    }
}
