//! The tasks that run for a client, and how they end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::metrics::{MetricsEntry, MetricsSource, counted};
use crate::config::{LockOptions, Settings};
use crate::error::{Error, ErrorKind};
use crate::event::event;
use crate::hash::HashMap;
use crate::metrics::{Metrics, Oldest, SetMetrics};
use crate::node::names::{Naming, lock_key, semaphore};
use crate::node::redis::tls::Tls;
use crate::protocol::acquire::inbox::Inbox;
use crate::protocol::acquire::local_queue::LocalQueues;
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::heartbeat::Heartbeat;
use crate::protocol::loss::LossReason;
use crate::protocol::order::Order;
use crate::protocol::quorum::quorum;
use crate::protocol::reentry::Owners;
use crate::protocol::renewal::Watchdog;
use crate::protocol::set::Set;
use crate::runtime::drive::waits_here;
use crate::runtime::task::Io;
use crate::runtime::{Closeable, Runtime};
use crate::stats::Stats;

/// What runs for a client: its locks and leases share it.
pub(crate) struct Inner {
    pub(crate) set: Arc<Set>,
    pub(crate) settings: Settings,
    pub(crate) owners: Owners,
    /// In which order they take locks.
    pub(crate) order: Order,
    pub(crate) lines: Arc<LocalQueues>,
    /// Where the nodes call its waiters.
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) watchdog: Arc<Watchdog>,
    /// Asks the nodes while metrics are read. Not run in the simulator.
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(crate) runtime: &'static Runtime,
    pub(crate) io: Io,
    /// The label of leases that are given none.
    pub(crate) process_label: Arc<String>,
    pub(super) tls: Tls,
    pub(super) closed: AtomicBool,
    /// The runtime that it ran on has ended.
    pub(super) gone: Arc<AtomicBool>,
    pub(super) process: u32,
    /// It runs on the library's own thread.
    pub(super) ours: bool,
    /// Dropped last: what it has counted is kept by the process. None in the simulator.
    pub(super) registered: Option<MetricsEntry>,
}

impl Inner {
    /// Whether it is of this process, and not inherited by a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.process == crate::process::id()
    }

    /// For a call that waits. Refuses in a forked child.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_here() {
            if !self.ours && waits_here() {
                self.check_thread();
            }
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            "this client was used before the process was forked, and its leases are the parent's: \
             make a new client in the child",
        ))
    }

    /// The calling thread is about to wait. Panics where it drives the runtime that the client
    /// runs on, for it would wait for itself; not where that lets it block.
    fn check_thread(&self) {
        let here = Handle::try_current();
        if here.is_ok_and(|here| here.id() == self.io.handle.id()) {
            self.io.handle.block_on(std::future::ready(()));
        }
    }

    /// Refuses in a forked child and after close.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_process()?;
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::runtime_has_ended());
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// An owner holds the lock with the first key, and waits for the other: warns where an owner
    /// did the same the other way round.
    pub(crate) fn tell_order(&self, held: &Arc<[u8]>, awaited: &Arc<[u8]>) {
        if self.order.waits(held, awaited) {
            (self.set.warn)(event!(
                "locks_in_two_orders",
                "the lock `{lock}` is waited for while `{held}` is held, and elsewhere it is the \
                 other way round: two who do so at once wait for each other until their wait is \
                 over. Take both together, or always in the same order",
                lock = self.set.lock_of(awaited),
                held = self.set.lock_of(held),
            ));
        }
    }

    /// See [`Client::is_closed`](crate::Client::is_closed).
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The ttl of an extension that was given one, checked.
    pub(crate) fn ttl(&self, ttl: Duration) -> Result<Duration, Error> {
        let options = LockOptions {
            ttl: Some(ttl),
            max_hold: Some(None),
            ..LockOptions::default()
        };
        options.check(&self.settings)?;
        Ok(self.settings.times(&options).ttl)
    }

    /// See [`Client::close`](crate::Client::close).
    pub(crate) async fn close(&self) {
        if self.check_process().is_err() || self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let until = self.set.clock.now() + self.settings.node_timeout;
        self.give_up_all();
        self.set.counters.quiet(&*self.set.clock, until).await;
        for link in &self.set.links {
            link.close();
        }
    }

    /// Ends every lease and every wait.
    fn give_up_all(&self) {
        for hold in self.watchdog.leases() {
            hold.forfeit(LossReason::Closed);
        }
        self.watchdog.close();
        self.heartbeat.close();
        // A call that asks or waits gives up, and leaves the queues.
        self.inbox.close();
    }

    /// The runtime that it runs on ends, and with it all that would renew, answer or wait.
    pub(super) fn runtime_has_ended(&self) {
        if !self.is_here() || self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.give_up_all();
        for link in &self.set.links {
            link.close();
        }
    }
}

/// What is measured of it.
impl Inner {
    /// What it has counted, and how many calls wait now.
    pub(super) fn stats(&self) -> Stats {
        let (counters, links) = (&self.set.counters, &self.set.links);
        let mut stats = counted(counters, links, &self.inbox);
        self.tell_waiters(&mut stats);
        stats
    }

    /// What it has measured, and how it stands.
    pub(super) fn metrics(&self) -> Metrics {
        let registered = self.registered.as_ref();
        let mut metrics = registered.map(MetricsEntry::read).unwrap_or_default();
        self.tell(&mut metrics);
        metrics
    }

    fn tell_waiters(&self, stats: &mut Stats) {
        stats.waiting = self.lines.waiting() as u64;
        stats.queued = self.inbox.queued() as u64;
        stats.ahead = self.inbox.ahead().into();
    }

    /// For how long the oldest of each group is held, or waited for.
    fn oldest(&self) -> Vec<Oldest> {
        let now = self.set.clock.now();
        let mut holds = HashMap::default();
        for (group, age) in self.watchdog.leases().iter().filter_map(|h| h.age(now)) {
            let oldest: &mut Duration = holds.entry(group.place()).or_default();
            *oldest = age.max(*oldest);
        }
        let groups = self.set.counters.measures.groups();
        groups
            .map(|(group, of)| Oldest {
                group: group.name(),
                mode: group.mode(),
                hold: holds.get(&group.place()).copied().unwrap_or_default(),
                wait: of.oldest_wait().map_or(Duration::ZERO, |at| at.until(now)),
            })
            .collect()
    }

    /// How many of its nodes may still fail. A set of one or two can spare none, and that is no
    /// news.
    fn spare_nodes(&self) -> Option<SetMetrics> {
        let nodes = self.set.links.len();
        let vote = (0..nodes).filter(|node| self.set.votes(*node)).count();
        let spare = |vote: usize| vote as i64 - quorum(nodes) as i64;
        (spare(nodes) > 0).then(|| SetMetrics {
            set: self.settings.set_name.to_string(),
            spare: spare(vote),
        })
    }

    /// How the clock of a node stands against the median of the set's, in seconds.
    fn clock_offset(&self, node: usize) -> Option<f64> {
        let now = self.set.clock.now();
        let (time, median) = (self.set.guess(node, now)?.0, self.set.median(now));
        (median != 0).then(|| (time as f64 - median as f64) / 1e6)
    }
}

impl MetricsSource for Inner {
    fn tell(&self, metrics: &mut Metrics) {
        self.tell_waiters(&mut metrics.stats);
        metrics.oldest = self.oldest();
        if self.is_closed() {
            return;
        }
        if self.is_here() {
            self.heartbeat.read();
        }
        metrics.sets.extend(self.spare_nodes());
        for (place, node) in metrics.nodes.iter_mut().enumerate() {
            node.up = Some(self.set.votes(place));
            node.clock_offset = self.clock_offset(place);
            node.quarantine = self.set.quarantine(place);
            let server = self.set.links[place].server();
            node.memory_used = server.memory.map(|memory| memory.used);
            node.memory_limit = server.memory.map(|memory| memory.limit);
            node.certificate_expires = server.certificate_expires;
        }
    }

    fn lose(&self, name: &[u8], reason: LossReason) -> usize {
        let namespace = &self.settings.namespace;
        let key = |naming| lock_key(namespace, name, naming).ok();
        let tagged = key(Naming::Tagged);
        let slots = tagged.as_ref().map(|key| semaphore(namespace, key).0);
        let keys = [tagged, key(Naming::Raw), slots];
        let is_meant = |hold: &ClaimCell| {
            let held = &*hold.terms.keys.lock;
            keys.iter().flatten().any(|key| key == held)
        };
        let leases = self.watchdog.leases();
        let meant = leases
            .iter()
            .filter(|hold| is_meant(hold) && hold.is_held());
        meant.map(|hold| hold.forfeit(reason)).count()
    }
}

impl Closeable for Inner {
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        if !self.is_closed() || !self.is_here() {
            return Box::pin(self.close());
        }
        // A program that closes it and ends waits for no answer itself.
        self.give_up_all();
        let until = self.set.clock.now() + self.settings.node_timeout;
        Box::pin(self.set.counters.quiet(&*self.set.clock, until))
    }

    fn is_over(&self) -> bool {
        self.is_closed() && self.set.counters.is_quiet()
    }
}

/// The releases that a client has left on their way, which its links go on with. They are
/// waited for at the exit of the process alone.
struct PendingReleases {
    set: Arc<Set>,
    node_timeout: Duration,
}

impl Closeable for PendingReleases {
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let until = self.set.clock.now() + self.node_timeout;
        Box::pin(self.set.counters.quiet(&*self.set.clock, until))
    }

    fn is_over(&self) -> bool {
        self.set.counters.is_quiet()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        self.watchdog.close();
        self.heartbeat.close();
        for link in &self.set.links {
            link.close();
        }
        if self.ours && !self.set.counters.is_quiet() {
            self.runtime.leave(Arc::new(PendingReleases {
                set: self.set.clone(),
                node_timeout: self.settings.node_timeout,
            }));
        }
    }
}
