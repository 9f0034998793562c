//! From what clients measure to what is read of it: of one, and of all of the process.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::inner::Inner;
use super::stats::Stats;
use crate::metrics::{Durations, Histogram, Metrics, NodeMetrics};
use crate::mutex::lock;
use crate::node::Link;
use crate::protocol::counters::Counters;
use crate::protocol::measures::{self, BOUNDS, Outcome};
use crate::protocol::set::Set;
use crate::protocol::waiting::inbox::Inbox;
use crate::runtime::{Runtime, process};

/// What is measured in this process.
#[derive(Default)]
pub(crate) struct Measured(Mutex<State>);

#[derive(Default)]
struct State {
    clients: Vec<Arc<Counted>>,
    /// What those had counted that are gone.
    past: Metrics,
}

/// What a client counts. Kept by the process until its last count is added to the past, so
/// that no reader ever finds less than before.
struct Counted {
    counters: Arc<Counters>,
    links: Vec<Arc<dyn Link>>,
    inbox: Arc<Inbox>,
    /// Who knows how it stands.
    inner: Weak<Inner>,
}

/// That a client is measured, as long as it lives.
pub(crate) struct Registered {
    runtime: &'static Runtime,
    process: u32,
    counted: Arc<Counted>,
}

impl Registered {
    pub(super) fn new(set: &Set, inbox: &Arc<Inbox>, inner: Weak<Inner>) -> Registered {
        let counted = Arc::new(Counted {
            counters: set.counters.clone(),
            links: set.links.clone(),
            inbox: inbox.clone(),
            inner,
        });
        let runtime = Runtime::get();
        lock(&runtime.measured().0).clients.push(counted.clone());
        Registered {
            runtime,
            process: process::id(),
            counted,
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A forked child must not touch what its parent had locked.
        if self.process != process::id() {
            return;
        }
        let mut state = lock(&self.runtime.measured().0);
        state.clients.retain(|c| !Arc::ptr_eq(c, &self.counted));
        state.past.add(&self.counted.read(None).past());
    }
}

impl Counted {
    /// `inner`: to tell how it stands, too.
    fn read(&self, inner: Option<&Inner>) -> Metrics {
        let measures = &self.counters.measures;
        let stats = Stats::counted(&self.counters, &self.links, &self.inbox);
        let mut metrics = Metrics {
            held: self.counters.held(),
            stats: match inner {
                Some(inner) => stats.standing(inner),
                None => stats,
            },
            lost: measures.losses().collect(),
            ..Metrics::default()
        };
        let push = |all: &mut Vec<Durations>, group, outcome, times: &measures::Histogram| {
            let times = histogram(times);
            if times.count() > 0 {
                all.push(Durations {
                    group,
                    outcome,
                    times,
                });
            }
        };
        for (group, of) in measures.groups() {
            for (outcome, times) in Outcome::ALL.iter().zip(&of.acquires) {
                push(&mut metrics.acquires, group.name(), outcome.as_str(), times);
            }
            push(&mut metrics.holds, group.name(), "released", &of.released);
            push(&mut metrics.holds, group.name(), "lost", &of.lost);
        }
        let nodes = self.links.iter().zip(&measures.nodes).enumerate();
        metrics.nodes = nodes
            .map(|(place, (link, of))| NodeMetrics {
                node: link.shown().to_string(),
                up: inner.is_none_or(|inner| !inner.set.has_failed(place)),
                clock_offset: inner.and_then(|inner| offset(&inner.set, place)),
                quarantine: inner.map_or(Duration::ZERO, |inner| inner.set.quarantine(place)),
                round_trips: histogram(&of.round_trips),
                connects: link.connects(),
                clock_steps: of.clock_steps(),
            })
            .collect();
        metrics
    }
}

/// How the clock of a node stands against the one in the middle, in seconds.
fn offset(set: &Set, node: usize) -> Option<f64> {
    let now = set.clock.now();
    let (time, median) = (set.guess(node, now)?, set.median(now));
    (median != 0).then(|| (time as f64 - median as f64) / 1e6)
}

fn histogram(of: &measures::Histogram) -> Histogram {
    let (counts, sum) = of.read();
    Histogram {
        bounds: BOUNDS.iter().copied().map(Duration::from_micros).collect(),
        counts: counts.to_vec(),
        sum,
    }
}

/// What one client has measured.
pub(super) fn of_client(inner: &Inner) -> Metrics {
    match &inner.registered {
        Some(registered) => registered.counted.read(Some(inner)),
        None => Metrics::default(),
    }
}

/// What all clients of the process have measured.
pub(crate) fn of_process() -> Metrics {
    let mut all = Metrics::default();
    // Dropped behind the lock: one may be the last that holds a client, whose end locks it.
    let mut alive: Vec<Option<Arc<Inner>>> = Vec::new();
    for runtime in Runtime::all_of_process() {
        let state = lock(&runtime.measured().0);
        all.add(&state.past);
        for client in &state.clients {
            let inner = client.inner.upgrade();
            all.add(&client.read(inner.as_deref()));
            alive.push(inner);
        }
    }
    drop(alive);
    all
}
