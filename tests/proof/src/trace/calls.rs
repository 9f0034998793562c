//! A waiter that stands in the queue of its home asks when that calls it, when the inbox is subscribed anew there, or when it
//! is time for its poll, and no sooner: "Messages", "Timings".

use std::collections::{BTreeMap, BTreeSet};

use quorlock::sim::{Op, Reply, Request};
use quorlock_sim::trace::Step;
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::Clients;
use crate::spec::Action;
use crate::spec::claim::nanos;

const MS: u64 = 1_000_000;

/// A waiter that has been told its place.
#[derive(Debug)]
struct Queued {
    home: usize,
    /// It asks no sooner by itself, by its client's clock.
    poll: u64,
    /// It was called, or has to ask for another reason.
    called: bool,
    /// Time for one request to one node.
    timeout: u64,
}

/// The waiters that stand in queues.
#[derive(Debug, Default)]
pub struct Calls {
    /// By client and number.
    queued: BTreeMap<(usize, u64), Queued>,
    /// Those that were called while an answer was awaited.
    early: BTreeSet<(usize, u64)>,
    /// The requests for a vote that are on their way: by message, and until when at most, in true time.
    open: BTreeMap<(usize, u64), BTreeMap<u64, u64>>,
    /// When each has left the queue of a node.
    left: BTreeMap<(usize, u64, usize), u64>,
    /// By when which of them has to have asked, in true time.
    due: BTreeMap<(usize, u64), u64>,
}

impl Calls {
    /// A step, at a moment of true time.
    pub fn step(&mut self, at: u64, step: &Step, clients: &Clients) -> Result<(), Refused> {
        match step {
            Step::Asks {
                client,
                place,
                message,
                now,
                request,
                ticket,
                ..
            } => {
                let Some(waiter) = &request.waiter else {
                    return Ok(());
                };
                let name = (*client, waiter.number);
                if matches!(request.op, Op::Reserve { .. }) {
                    return Ok(());
                }
                if matches!(request.op, Op::Acquire { .. }) {
                    let left = ticket.deadline.0.saturating_sub(now.0);
                    let open = self.open.entry(name).or_default();
                    open.insert(*message, at + left + left / 50 + MS);
                }
                if request.op == Op::Release {
                    self.left.insert((name.0, name.1, *place), now.0);
                }
                self.due.remove(&name);
                self.early.remove(&name);
                if let Some(queued) = self.queued.remove(&name)
                    && matches!(request.op, Op::Acquire { .. })
                    // guard: a poll has its time
                    && !queued.called
                    && now.0 < queued.poll
                {
                    return Err(Refused::new(Action::ClientJoin, || {
                        format!(
                            "client {client}: waiter {} asks {} ns before its poll is due",
                            name.1,
                            queued.poll - now.0
                        )
                    }));
                }
            }
            Step::Hears {
                client,
                place,
                message,
                now,
                request,
                ticket,
                reply,
                ..
            } => {
                let waiter = request.waiter.as_ref();
                if let Some(name) = waiter.map(|waiter| (*client, waiter.number)) {
                    self.open.entry(name).or_default().remove(message);
                    // It is let in, and its attempt goes on.
                    if matches!(reply, Reply::Granted { .. }) {
                        self.queued.remove(&name);
                        self.due.remove(&name);
                    }
                }
                let Some((number, mut poll)) = told(request, reply, now.0) else {
                    return Ok(());
                };
                // What it asked elsewhere is still to be answered: it does not wait yet.
                if self.awaits(at, (*client, number)) {
                    poll = 0;
                }
                let left = self.left.get(&(*client, number, *place));
                if left.is_some_and(|left| ticket.sent.0 <= *left) {
                    return Ok(());
                }
                // It has been let in elsewhere: its attempt goes on.
                if clients.has_vote(&request.value.0, now.0) {
                    return Ok(());
                }
                let queued = Queued {
                    home: *place,
                    poll,
                    called: self.early.remove(&(*client, number)),
                    timeout: ticket.deadline.0 - ticket.sent.0,
                };
                self.queued.insert((*client, number), queued);
            }
            Step::Calls {
                client,
                place,
                number,
            } => self.call(at, (*client, *number), *place, false),
            Step::Subscribes { client, place } => {
                let own = self.queued.range((*client, 0)..=(*client, u64::MAX));
                let own: Vec<_> = own.map(|(name, _)| *name).collect();
                for name in own {
                    self.call(at, name, *place, true);
                }
            }
            // It does nothing for a while, or for ever; and what it is asked then is held up.
            Step::Fault(
                FaultEvent::PauseClient(client, _)
                | FaultEvent::SuspendClient(client, _)
                | FaultEvent::CrashClient(client),
            ) => self.due.retain(|(of, _), _| of != client),
            _ => {}
        }
        Ok(())
    }

    /// Whether it may be answered yet by another node.
    fn awaits(&self, at: u64, name: (usize, u64)) -> bool {
        let open = self.open.get(&name);
        open.is_some_and(|open| open.values().any(|until| at < *until))
    }

    fn call(&mut self, at: u64, name: (usize, u64), place: usize, subscribed: bool) {
        let awaits = self.awaits(at, name);
        if let Some(queued) = self.queued.get_mut(&name)
            && queued.home == place
        {
            queued.called = true;
            // What it asked elsewhere may decide otherwise.
            if awaits {
                return;
            }
            // It asks at once; one that was called, when they may be back, where too few nodes are there.
            let soon = at + queued.timeout + queued.timeout / 50 + 2 * MS;
            let by = if subscribed { at } else { soon };
            self.due.entry(name).or_insert(by);
        } else {
            self.early.insert(name);
        }
    }

    /// Time goes on.
    pub fn waits(&mut self, at: u64) -> Result<(), Refused> {
        // guard: a waiter that is called asks
        match self.due.iter().find(|(_, by)| **by < at) {
            Some(((client, number), _)) => Err(Refused::new(Action::ClientHear, || {
                format!("client {client}: waiter {number} was called, and does not ask")
            })),
            None => Ok(()),
        }
    }
}

/// Which waiter was told its place by this answer, and when it polls at the soonest.
fn told(request: &Request, reply: &Reply, now: u64) -> Option<(u64, u64)> {
    let Reply::Refused {
        left,
        place: Some(place),
        subscribers,
        ..
    } = reply
    else {
        return None;
    };
    let waiter = request
        .waiter
        .as_ref()
        .filter(|_| request.keys.field.is_none())?;
    let (low, high) = match *place {
        _ if *subscribers == 0 => (80 * MS, 120 * MS),
        0 | 1 => (400 * MS, 600 * MS),
        _ => (1_600 * MS, 2_400 * MS),
    };
    // Sooner where what refused it ends sooner: behind that end.
    let pause = match left.map(nanos) {
        Some(left) if left < high => left + MS,
        _ => low,
    };
    Some((waiter.number, now + pause))
}
