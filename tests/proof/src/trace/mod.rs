//! The checker of traces: whether each step of a schedule is one that the specification allows.

pub mod answers;
pub mod attempts;
pub mod calls;
pub mod clients;
pub mod forces;
pub mod founding;
pub mod frame;
pub mod keys;
pub mod nodes;
pub mod order;
pub mod places;
pub mod residues;
pub mod told;
pub mod users;
pub mod view;

use quorlock_sim::trace::{Step, Trace, Traced};
use quorlock_sim::world::FaultEvent;

use crate::spec::Action;
use crate::spec::claim::nanos;
use answers::Answers;
use attempts::Attempts;
use calls::Calls;
use clients::Clients;
use forces::Forces;
use founding::Founding;
use nodes::Nodes;
use order::Order;
use places::Waiters;
use residues::Residues;
use told::Told;

/// A step that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which action it is not.
    pub action: Action,
    /// Why.
    pub why: String,
    /// True time, in ns.
    pub at: u64,
}

impl Refused {
    /// Why a step is no such action.
    pub fn new(action: Action, why: impl FnOnce() -> String) -> Refused {
        Refused {
            action,
            why: why(),
            at: 0,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (action, why) = (self.action, &self.why);
        write!(f, "{:.3} ms {action:?}: {why}", self.at as f64 / 1e6)
    }
}

/// What the checker knows.
#[derive(Debug, Default)]
pub struct Checker {
    nodes: Nodes,
    clients: Clients,
    founding: Founding,
    residues: Residues,
    answers: Answers,
    order: Order,
    places: Waiters,
    calls: Calls,
    attempts: Attempts,
    forces: Forces,
    told: Told,
    /// How often each action was taken.
    pub taken: std::collections::BTreeMap<Action, u64>,
}

impl Checker {
    /// The first step of a trace that is not allowed, if there is one.
    pub fn check(&mut self, trace: &Trace) -> Result<(), Refused> {
        let mut before = 0;
        for traced in &trace.0 {
            let told = |at| move |refused| Refused { at, ..refused };
            if traced.at > before {
                self.settles().map_err(told(before))?;
                self.calls.waits(traced.at).map_err(told(traced.at))?;
                self.attempts.waits(traced.at).map_err(told(traced.at))?;
                self.told.waits(traced.at).map_err(told(traced.at))?;
            }
            before = traced.at;
            self.step(traced).map_err(told(before))?;
        }
        self.settles().map_err(|refused| Refused {
            at: before,
            ..refused
        })
    }

    /// A moment is over.
    fn settles(&mut self) -> Result<(), Refused> {
        self.clients.settles()?;
        self.order.settles()?;
        self.places.settles()?;
        self.residues.settles()
    }

    fn step(&mut self, traced: &Traced) -> Result<(), Refused> {
        let (at, step) = (traced.at, &traced.step);
        self.residues.step(step, &self.clients)?;
        self.answers.step(step)?;
        self.order.step(at, step)?;
        self.places.step(step);
        self.told.step(at, step);
        self.forces.step(step)?;
        self.calls.step(at, step, &self.clients)?;
        self.takes(traced)?;
        self.attempts.step(at, step, &self.clients)
    }

    /// A step that is an action.
    fn takes(&mut self, traced: &Traced) -> Result<(), Refused> {
        if let Some(action) = self.founding.step(traced.at, &traced.step) {
            *self.taken.entry(action?).or_default() += 1;
            return Ok(());
        }
        let action = match &traced.step {
            Step::Client {
                client,
                nodes,
                max_ttl,
                failing_over,
                unseen,
                offset,
                rate,
                ..
            } => {
                self.nodes.failing_over |= failing_over;
                if *unseen {
                    self.clients.unseen.insert(*client);
                }
                let clock = (*offset, *rate);
                self.clients.begins(*client, *nodes, nanos(*max_ttl), clock);
                return Ok(());
            }
            Step::Asks {
                client,
                place,
                now,
                request,
                ticket,
                drift,
                lease,
                ..
            } => {
                self.clients.shows(*client, traced.at, now.0)?;
                let lease = lease.map(|end| end.0);
                self.clients
                    .asks(*client, *place, now.0, request, ticket, *drift, lease)?
            }
            Step::Hears {
                client,
                place,
                now,
                request,
                ticket,
                reply,
                time,
                ..
            } => {
                self.clients.shows(*client, traced.at, now.0)?;
                self.clients
                    .hears(*client, *place, now.0, request, ticket, reply, *time)
            }
            Step::Serves {
                between,
                record,
                request,
                views,
                served,
                ..
            } => self
                .nodes
                .serves(between, record.as_ref(), request, views, served)?,
            Step::Counts {
                record,
                request,
                view,
                voted,
                outcome,
                ..
            } => self
                .nodes
                .counts(record.as_ref(), request, view, *voted, outcome)?,
            Step::Fault(fault) => {
                self.nodes.fault(*fault);
                if let FaultEvent::CrashClient(client) = fault {
                    self.clients.ends(*client);
                }
                return Ok(());
            }
            Step::Stands { hold, now, .. }
                if self.clients.shows(hold.client, traced.at, now.0).is_err() =>
            {
                return self.clients.shows(hold.client, traced.at, now.0);
            }
            other => match self.clients.user(traced.at, other) {
                Some(action) => action?,
                None => return Ok(()),
            },
        };
        *self.taken.entry(action).or_default() += 1;
        Ok(())
    }
}
