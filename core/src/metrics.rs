//! What clients have measured, for operators of a service: typed, and as the text that Prometheus
//! reads.

use std::fmt;
use std::time::Duration;

use crate::protocol::loss::LossReason;
use crate::protocol::measures::AcquireOutcome;
use crate::stats::Stats;

/// What clients have measured since they were made: of a single client
/// ([`Client::metrics`](crate::Client::metrics)), or of the whole process
/// ([`metrics_text`](crate::metrics_text)).
///
/// Displayed, it is the text that Prometheus and OpenMetrics collectors read: see
/// `docs/operations/metrics.md` for every name in it, its unit and its labels.
///
/// ```
/// # fn main() -> Result<(), quorlock::Error> {
/// let client = quorlock::Client::new(["memory://metrics"])?;
/// let lease = quorlock::blocking::wait(client.lock("orders:42").group("orders").acquire())?;
/// let metrics = client.metrics();
/// assert_eq!(metrics.held, 1);
/// assert_eq!(metrics.acquires[0].group, "orders");
/// assert_eq!(metrics.acquires[0].times.count(), 1);
/// # drop(lease); Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Leases that are held now.
    pub held: u64,
    /// What is counted, and how many calls wait now.
    pub stats: Stats,
    /// How long callers took to get a lock or to give up, by group and outcome. Not of
    /// re-entries, which take no time.
    pub acquires: Vec<Durations>,
    /// How long leases were held that have ended, by group and outcome: `released` or `lost`.
    pub holds: Vec<Durations>,
    /// How many leases were lost, for each reason there is.
    pub lost: Vec<(LossReason, u64)>,
    /// For how long the oldest is held, or waited for, of each group that was used.
    pub oldest: Vec<Oldest>,
    /// The sets of nodes, each once.
    pub sets: Vec<SetMetrics>,
    /// The nodes; a node that several clients name is there once.
    pub nodes: Vec<NodeMetrics>,
}

/// Times of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Durations {
    /// The [group](crate::Lock::group) of the locks; empty for those without.
    pub group: &'static str,
    /// In which mode they were asked for, as a word: `exclusive`, `shared` or `slot`.
    pub mode: &'static str,
    /// What it came to, as a word: `won`, `contended`, `timeout`, `no_quorum`, `cancelled`,
    /// `busy` or `failed` for an acquire, `released` or `lost` for a hold.
    pub outcome: &'static str,
    /// How long it took.
    pub times: Histogram,
}

/// The oldest of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oldest {
    /// The [group](crate::Lock::group) of the locks; empty for those without.
    pub group: &'static str,
    /// In which mode they were asked for, as a word: `exclusive`, `shared` or `slot`.
    pub mode: &'static str,
    /// For how long the oldest lease is held; zero if none is.
    pub hold: Duration,
    /// For how long the caller waits that has waited longest; zero if none does. Candidates of
    /// an election do not count: they wait for as long as another leads.
    pub wait: Duration,
}

/// How one set of nodes stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetMetrics {
    /// Its [name](crate::ClientBuilder::set_name).
    pub set: String,
    /// How many more nodes may fail before locks stop; below zero: so many are missing for a lock
    /// to be won. Of sets of one or two nodes nothing is reported, for they can spare none.
    pub spare: i64,
}

/// What is known of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeMetrics {
    /// The node, as in errors; never with credentials.
    pub node: String,
    /// Whether it would vote: as it was when it was asked last, which is not long ago while
    /// metrics are read; also if it was never asked. `None` where no client is left that asks it.
    pub up: Option<bool>,
    /// How its clock stands against the median of the set's, in seconds; `None` where too little is
    /// known.
    pub clock_offset: Option<f64>,
    /// How much longer it gives no vote, as far as it has said.
    pub quarantine: Duration,
    /// From when a request for a vote is handed to its connection to the answer.
    pub round_trips: Histogram,
    /// Connections made to it.
    pub connects: u64,
    /// Steps of its clock that were seen.
    pub clock_steps: u64,
    /// How much memory its server uses, in bytes, and how much it may; `None` where that has no
    /// bound, or is not known.
    pub memory_used: Option<u64>,
    /// See [`memory_used`](NodeMetrics::memory_used).
    pub memory_limit: Option<u64>,
    /// When the first of the certificates ends that it shows, in seconds since 1970; `None` without
    /// TLS. It is looked at when it is connected to, and in its last three weeks each hour.
    pub certificate_expires: Option<u64>,
}

/// How many took how long.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The upper bounds of the buckets, which belong to them.
    pub bounds: Vec<Duration>,
    /// How many fell into each bucket, and behind the last bound.
    pub counts: Vec<u64>,
    /// The sum of all times.
    pub sum: Duration,
}

impl Histogram {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            return self.clone_from(other);
        }
        for (mine, more) in self.counts.iter_mut().zip(&other.counts) {
            *mine += more;
        }
        self.sum += other.sum;
    }
}

impl Metrics {
    /// Adds what another client has measured.
    pub(crate) fn add(&mut self, other: &Metrics) {
        self.held += other.held;
        self.stats.add(&other.stats);
        add_times(&mut self.acquires, &other.acquires);
        add_times(&mut self.holds, &other.holds);
        for (reason, count) in &other.lost {
            match self.lost.iter_mut().find(|known| known.0 == *reason) {
                Some(known) => known.1 += count,
                None => self.lost.push((*reason, *count)),
            }
        }
        for oldest in &other.oldest {
            let known = self
                .oldest
                .iter_mut()
                .find(|known| known.labels() == oldest.labels());
            match known {
                Some(known) => {
                    known.hold = known.hold.max(oldest.hold);
                    known.wait = known.wait.max(oldest.wait);
                }
                None => self.oldest.push(oldest.clone()),
            }
        }
        for set in &other.sets {
            match self.sets.iter_mut().find(|known| known.set == set.set) {
                Some(known) => known.spare = known.spare.min(set.spare),
                None => self.sets.push(set.clone()),
            }
        }
        for node in &other.nodes {
            match self.nodes.iter_mut().find(|known| known.node == node.node) {
                Some(known) => known.add(node),
                None => self.nodes.push(node.clone()),
            }
        }
    }

    /// What stays of a client that is gone: what it has counted, and nothing of how it stands.
    pub(crate) fn past(mut self) -> Metrics {
        self.held = 0;
        self.stats = self.stats.past();
        (self.oldest, self.sets) = (Vec::new(), Vec::new());
        for node in &mut self.nodes {
            (node.up, node.clock_offset, node.quarantine) = (None, None, Duration::ZERO);
            (node.memory_used, node.memory_limit) = (None, None);
            node.certificate_expires = None;
        }
        self
    }
}

fn add_times(all: &mut Vec<Durations>, more: &[Durations]) {
    for times in more {
        let known = all
            .iter_mut()
            .find(|known| known.labels() == times.labels());
        match known {
            Some(known) => known.times.add(&times.times),
            None => all.push(times.clone()),
        }
    }
}

impl Durations {
    fn labels(&self) -> [(&'static str, &'static str); 3] {
        [
            ("group", self.group),
            ("outcome", self.outcome),
            ("mode", self.mode),
        ]
    }
}

impl Oldest {
    fn labels(&self) -> [(&'static str, &'static str); 2] {
        [("group", self.group), ("mode", self.mode)]
    }
}

impl NodeMetrics {
    fn add(&mut self, other: &NodeMetrics) {
        let both = self.up.zip(other.up).map(|(mine, theirs)| mine && theirs);
        self.up = both.or(self.up).or(other.up);
        // The worst that any client sees.
        let far = |offset: Option<f64>| offset.map_or(-1.0, f64::abs);
        if far(other.clock_offset) > far(self.clock_offset) {
            self.clock_offset = other.clock_offset;
        }
        self.quarantine = self.quarantine.max(other.quarantine);
        self.round_trips.add(&other.round_trips);
        self.connects += other.connects;
        self.clock_steps += other.clock_steps;
        if other.memory_used > self.memory_used {
            (self.memory_used, self.memory_limit) = (other.memory_used, other.memory_limit);
        }
        let ends = self.certificate_expires.into_iter();
        self.certificate_expires = ends.chain(other.certificate_expires).min();
    }
}

/// The text exposition format of Prometheus, version 0.0.4.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Exposition(f);
        // In each process from its start on, so that the first of them is seen to come.
        let name = "quorlock_acquires_total";
        out.head(name, "counter", "Acquires that have come to an end.")?;
        for outcome in AcquireOutcome::ALL.map(AcquireOutcome::as_str) {
            let these = self.acquires.iter().filter(|of| of.outcome == outcome);
            let count: u64 = these.map(|of| of.times.count()).sum();
            out.value(name, &[("outcome", outcome)], count)?;
        }
        out.times(
            "quorlock_acquire_duration_seconds",
            "How long callers took to get a lock, or to give up.",
            &self.acquires,
        )?;
        out.times(
            "quorlock_hold_duration_seconds",
            "How long locks were held, of those that are held no longer.",
            &self.holds,
        )?;
        let s = &self.stats;
        for (name, help, value) in [
            ("quorlock_held", "Locks that are held now.", self.held),
            (
                "quorlock_waiting",
                "Callers that wait in this process now, behind those that ask the nodes.",
                s.waiting,
            ),
            (
                "quorlock_queued",
                "Callers that stand in the queue of a node now.",
                s.queued,
            ),
            (
                "quorlock_ahead",
                "Waiters of other clients before the last of those, as far as nodes told.",
                s.ahead,
            ),
            (
                "quorlock_releases_pending",
                "Releases that nodes have not acknowledged yet.",
                s.releases_pending,
            ),
        ] {
            out.head(name, "gauge", help)?;
            out.value(name, &[], value)?;
        }
        out.oldest(&self.oldest)?;
        let name = "quorlock_spare_nodes";
        let help = "How many more nodes may fail before locks stop.";
        out.head(name, "gauge", help)?;
        for set in &self.sets {
            out.value(name, &[("set", &set.set)], set.spare)?;
        }
        let name = "quorlock_lost_total";
        out.head(
            name,
            "counter",
            "Locks that were lost while they were held.",
        )?;
        for reason in LossReason::ALL {
            let these = self.lost.iter().filter(|(known, _)| known == reason);
            let count: u64 = these.map(|(_, count)| count).sum();
            out.value(name, &[("reason", reason.as_str())], count)?;
        }
        for (name, help, value) in [
            (
                "quorlock_attempts_lost_total",
                "Attempts that did not win, each undone.",
                s.attempts_lost,
            ),
            (
                "quorlock_timeouts_awaited_total",
                "Rounds that the timeout of a node decided.",
                s.timeouts_awaited,
            ),
            (
                "quorlock_passed_on_total",
                "Locks that went to the next waiter of their client without a request.",
                s.passed_on,
            ),
            (
                "quorlock_reentered_total",
                "Acquires by the owner of a lock that it held already.",
                s.reentered,
            ),
            (
                "quorlock_renewals_total",
                "Votes that were renewed.",
                s.renewals,
            ),
            (
                "quorlock_repairs_total",
                "Votes that were missing on a node and have been stored anew.",
                s.repairs,
            ),
            (
                "quorlock_write_backs_total",
                "Fences that were written back to a node because votes disagreed.",
                s.write_backs,
            ),
            (
                "quorlock_stray_messages_total",
                "Messages that named no waiter, or that no node sends.",
                s.stray_messages,
            ),
            (
                "quorlock_releases_dropped_total",
                "Releases that were given up because too many waited for a node.",
                s.releases_dropped,
            ),
        ] {
            out.head(name, "counter", help)?;
            out.value(name, &[], value)?;
        }
        out.nodes(&self.nodes)
    }
}

/// Writes lines of that format.
struct Exposition<'a, 'b>(&'a mut fmt::Formatter<'b>);

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition<'_, '_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")
    }

    fn value(&mut self, name: &str, labels: Labels<'_>, value: impl fmt::Display) -> fmt::Result {
        self.0.write_str(name)?;
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            write!(self.0, "{before}{label}=\"{}\"", Escaped(text))?;
        }
        let close = if labels.is_empty() { "" } else { "}" };
        writeln!(self.0, "{close} {value}")
    }

    fn times(&mut self, name: &str, help: &str, all: &[Durations]) -> fmt::Result {
        self.head(name, "histogram", help)?;
        for one in all {
            self.histogram(name, &one.labels(), &one.times)?;
        }
        Ok(())
    }

    /// Those without a group are there from the start on.
    fn oldest(&mut self, all: &[Oldest]) -> fmt::Result {
        let none = Oldest {
            group: "",
            mode: "exclusive",
            hold: Duration::ZERO,
            wait: Duration::ZERO,
        };
        let is_there = all.iter().any(|oldest| oldest.labels() == none.labels());
        let none = Some(&none).filter(|_| !is_there);
        let hold: fn(&Oldest) -> Duration = |oldest| oldest.hold;
        let wait: fn(&Oldest) -> Duration = |oldest| oldest.wait;
        for (name, help, age) in [
            (
                "quorlock_oldest_hold_seconds",
                "For how long the lock is held that is held longest.",
                hold,
            ),
            (
                "quorlock_oldest_wait_seconds",
                "For how long the caller waits that has waited longest.",
                wait,
            ),
        ] {
            self.head(name, "gauge", help)?;
            for oldest in none.into_iter().chain(all) {
                self.value(name, &oldest.labels(), age(oldest).as_secs_f64())?;
            }
        }
        Ok(())
    }

    fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) -> fmt::Result {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        let bounds = histogram.bounds.iter().map(|b| b.as_secs_f64().to_string());
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            below += count;
            let labels = [labels, &[("le", &*bound)]].concat();
            self.value(&bucket, &labels, below)?;
        }
        self.value(&format!("{name}_sum"), labels, histogram.sum.as_secs_f64())?;
        self.value(&format!("{name}_count"), labels, below)
    }

    fn nodes(&mut self, nodes: &[NodeMetrics]) -> fmt::Result {
        self.of_each(
            nodes,
            "quorlock_node_up",
            "gauge",
            "Whether the node votes.",
            |node| node.up.map(|up| f64::from(u8::from(up))),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_clock_offset_seconds",
            "gauge",
            "How the clock of the node stands against the one in the middle of the set's.",
            |node| node.clock_offset,
        )?;
        self.of_each(
            nodes,
            "quorlock_node_quarantine_seconds",
            "gauge",
            "How much longer the node gives no vote, since it may have lost some.",
            |node| node.up.map(|_| node.quarantine.as_secs_f64()),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_memory_used_bytes",
            "gauge",
            "How much memory the server of the node uses, where that has a limit.",
            |node| node.memory_used.map(|bytes| bytes as f64),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_memory_limit_bytes",
            "gauge",
            "How much memory the server of the node may use.",
            |node| node.memory_limit.map(|bytes| bytes as f64),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_certificate_expires_timestamp_seconds",
            "gauge",
            "When the first of the certificates ends that the node has shown.",
            |node| node.certificate_expires.map(|at| at as f64),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_connects_total",
            "counter",
            "Connections that were made to the node.",
            |node| Some(node.connects as f64),
        )?;
        self.of_each(
            nodes,
            "quorlock_node_clock_steps_total",
            "counter",
            "Steps of the clock of the node.",
            |node| Some(node.clock_steps as f64),
        )?;
        let name = "quorlock_node_round_trip_seconds";
        self.head(
            name,
            "histogram",
            "From when a request for a vote is handed to the connection to its answer.",
        )?;
        for node in nodes {
            self.histogram(name, &[("node", &node.node)], &node.round_trips)?;
        }
        Ok(())
    }

    fn of_each(
        &mut self,
        nodes: &[NodeMetrics],
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&NodeMetrics) -> Option<f64>,
    ) -> fmt::Result {
        self.head(name, kind, help)?;
        for node in nodes {
            if let Some(value) = value(node) {
                self.value(name, &[("node", &node.node)], value)?;
            }
        }
        Ok(())
    }
}

/// The value of a label, as the format wants it.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
