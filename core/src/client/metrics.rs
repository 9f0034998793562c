//! Adds up what clients measure for its readers: for one client, and for all of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::metrics::{Durations, Histogram, Metrics, NodeMetrics};
use crate::mutex::lock;
use crate::node::Link;
use crate::process;
use crate::protocol::acquire::inbox::Inbox;
use crate::protocol::counters::Counters;
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use crate::protocol::measures::{self, AcquireOutcome, BOUNDS, NodeMeasures};
use crate::protocol::set::Set;
use crate::stats::Stats;

/// What is measured in one process.
struct ProcessMeasures {
    process: u32,
    state: Mutex<RegistryState>,
    /// What is measured in a child that this process has become by forking.
    next: OnceBox<ProcessMeasures>,
}

#[derive(Default)]
struct RegistryState {
    clients: Vec<Arc<ClientCounts>>,
    /// What those had counted that are gone.
    past: Metrics,
}

/// `race`: no lock that another thread could have held at the fork.
static FIRST: OnceBox<ProcessMeasures> = OnceBox::new();

impl ProcessMeasures {
    fn boxed() -> Box<ProcessMeasures> {
        Box::new(ProcessMeasures {
            process: process::id(),
            state: Mutex::default(),
            next: OnceBox::new(),
        })
    }

    /// That of this process.
    fn get() -> &'static ProcessMeasures {
        let mut measured = FIRST.get_or_init(ProcessMeasures::boxed);
        while measured.process != process::id() {
            measured = measured.next.get_or_init(ProcessMeasures::boxed);
        }
        measured
    }
}

/// What a client counts. Kept by the process until its last count is added to the past, so
/// that no reader ever finds less than before.
struct ClientCounts {
    counters: Arc<Counters>,
    links: Vec<Arc<dyn Link>>,
    inbox: Arc<Inbox>,
    client: Weak<dyn MetricsSource>,
}

/// A client that lives, which knows how it stands.
pub(crate) trait MetricsSource: Send + Sync {
    /// Adds the calls that wait now, and how the nodes stand.
    fn tell(&self, metrics: &mut Metrics);

    /// See [`testing::lose`](crate::testing::lose).
    fn lose(&self, name: &[u8], reason: LossReason) -> usize;
}

/// Those of this process.
pub(crate) fn clients_of_process() -> Vec<Arc<dyn MetricsSource>> {
    let state = lock(&ProcessMeasures::get().state);
    let clients = state.clients.iter();
    clients
        .filter_map(|counted| counted.client.upgrade())
        .collect()
}

/// That a client is measured, as long as it lives.
pub(crate) struct MetricsEntry {
    measured: &'static ProcessMeasures,
    counted: Arc<ClientCounts>,
}

impl MetricsEntry {
    pub(super) fn new(
        set: &Set,
        inbox: &Arc<Inbox>,
        client: Weak<dyn MetricsSource>,
    ) -> MetricsEntry {
        let counted = Arc::new(ClientCounts {
            counters: set.counters.clone(),
            links: set.links.clone(),
            inbox: inbox.clone(),
            client,
        });
        let measured = ProcessMeasures::get();
        lock(&measured.state).clients.push(counted.clone());
        MetricsEntry { measured, counted }
    }
}

impl MetricsEntry {
    /// What the client has measured, but not how it stands.
    pub(super) fn read(&self) -> Metrics {
        self.counted.read()
    }
}

impl Drop for MetricsEntry {
    fn drop(&mut self) {
        // A forked child must not touch what its parent had locked.
        if self.measured.process != process::id() {
            return;
        }
        let mut state = lock(&self.measured.state);
        state.clients.retain(|c| !Arc::ptr_eq(c, &self.counted));
        state.past.add(&self.read().past());
    }
}

impl ClientCounts {
    fn read(&self) -> Metrics {
        let measures = &self.counters.measures;
        let mut metrics = Metrics {
            held: self.counters.held(),
            stats: counted(&self.counters, &self.links, &self.inbox),
            lost: measures.losses().collect(),
            ..Metrics::default()
        };
        let push = |all: &mut Vec<Durations>,
                    group: Group,
                    outcome,
                    times: &measures::HistogramCounters| {
            let times = histogram(times);
            if times.count() > 0 {
                all.push(Durations {
                    group: group.name(),
                    mode: group.mode(),
                    outcome,
                    times,
                });
            }
        };
        for (group, of) in measures.groups() {
            for (outcome, times) in AcquireOutcome::ALL.iter().zip(&of.acquires) {
                push(&mut metrics.acquires, group, outcome.as_str(), times);
            }
            push(&mut metrics.holds, group, "released", &of.released);
            push(&mut metrics.holds, group, "lost", &of.lost);
        }
        let nodes = self.links.iter().zip(&measures.nodes);
        metrics.nodes = nodes
            .map(|(link, of)| NodeMetrics {
                node: link.shown().to_string(),
                up: None,
                clock_offset: None,
                quarantine: Duration::ZERO,
                round_trips: histogram(&of.round_trips),
                connects: link.connects(),
                clock_steps: of.clock_steps(),
                memory_used: None,
                memory_limit: None,
                certificate_expires: None,
            })
            .collect();
        metrics
    }
}

fn histogram(of: &measures::HistogramCounters) -> Histogram {
    let (counts, sum) = of.read();
    Histogram {
        bounds: BOUNDS.iter().copied().map(Duration::from_micros).collect(),
        counts: counts.to_vec(),
        sum,
    }
}

/// The text that Prometheus reads, of all clients of this process together. What a client has
/// counted stays in it when the client is closed and gone. Serve it as
/// `text/plain; version=0.0.4`.
///
/// Waits for nothing. While it is read, nodes that no client asks for a vote are asked for one
/// every two seconds, so that what it says of them is known. In a forked child it begins anew.
pub fn metrics_text() -> String {
    of_process().to_string()
}

fn of_process() -> Metrics {
    let state = lock(&ProcessMeasures::get().state);
    let mut all = state.past.clone();
    let clients = state.clients.iter();
    let clients: Vec<_> = clients.map(|c| (c.read(), c.client.upgrade())).collect();
    // How they stand is asked, and they are dropped, behind the lock: each may be the last that
    // holds a client, or a lease, whose end locks it.
    drop(state);
    for (mut metrics, client) in clients {
        if let Some(client) = client {
            client.tell(&mut metrics);
        }
        all.add(&metrics);
    }
    all
}

/// What only grows, and the releases on their way.
pub(super) fn counted(c: &Counters, links: &[Arc<dyn Link>], inbox: &Inbox) -> Stats {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Stats {
        acquired: get(&c.acquired),
        reentered: get(&c.reentered),
        attempts_lost: get(&c.attempts_lost),
        timeouts_awaited: get(&c.timeouts_awaited),
        released: get(&c.released),
        lost: get(&c.lost),
        renewals: get(&c.renewals),
        repairs: get(&c.repairs),
        releases_pending: c.releases_pending.load(Ordering::Relaxed) as u64,
        clock_steps: c.measures.nodes.iter().map(NodeMeasures::clock_steps).sum(),
        write_backs: get(&c.write_backs),
        passed_on: get(&c.passed_on),
        releases_dropped: links.iter().map(|l| l.dropped()).sum(),
        connects: links.iter().map(|l| l.connects()).sum(),
        stray_messages: inbox.stray() + links.iter().map(|l| l.stray()).sum::<u64>(),
        ..Stats::default()
    }
}
