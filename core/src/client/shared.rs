//! A client as it was configured, which starts at its first use, in the process that uses it.
//!
//! Until then nothing runs for it and no lock has been taken for it, so a process that was forked
//! meanwhile can start it for itself. A client that was used before the fork is the parent's.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use once_cell::race::OnceBox;
use tokio::runtime::Handle;

use super::admission::{gate, target};
use super::ends::EndWatch;
use super::inner::Inner;
use super::metrics::MetricsEntry;
use crate::clock::Clock;
use crate::config::{self, Settings};
use crate::error::Error;
use crate::event::LogEvent;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::cluster::{ClusterLink, Spawn};
use crate::node::memory::MemoryLink;
use crate::node::redis::RedisLink;
use crate::node::redis::tls::Tls;
use crate::node::{Link, Waits};
use crate::process;
use crate::protocol::acquire::inbox::Inbox;
use crate::protocol::heartbeat::Heartbeat;
use crate::protocol::order::Order;
use crate::protocol::reentry::Owners;
use crate::protocol::renewal::Watchdog;
use crate::protocol::set::Set;
use crate::runtime::dispatch::Level;
use crate::runtime::lasting::lasting;
use crate::runtime::task::Io;
use crate::runtime::timers::SystemClock;
use crate::runtime::{Closeable, Runtime};
use crate::token::{Rng, SystemRng};

/// What clones of a client and its locks share.
pub(crate) struct ClientCore {
    pub(crate) settings: Settings,
    /// How nodes keep lines for its locks.
    pub(crate) waits: Waits,
    /// How long their counters of fences live.
    pub(crate) fence_ttl: Duration,
    /// Where the nodes' URLs come from.
    origin: Origin,
    tls: Tls,
    /// Closed, perhaps before it was used.
    closed: AtomicBool,
    /// `race`: no lock that another thread could have held at the fork. Where two threads start it
    /// at once, one of the two has made its own in vain.
    inner: OnceBox<Arc<Inner>>,
}

impl ClientCore {
    /// A client that has not started.
    pub(super) fn new(settings: Settings, origin: Origin, tls: Tls) -> ClientCore {
        ClientCore {
            waits: settings.waits(),
            fence_ttl: settings.fence_ttl(),
            settings,
            origin,
            tls,
            closed: AtomicBool::new(false),
            inner: OnceBox::new(),
        }
    }

    /// A client that was made in another way, and runs.
    pub(super) fn started_as(inner: Inner, waits: Waits) -> ClientCore {
        let settings = inner.settings.clone();
        let mut shared = ClientCore::new(settings, Origin::Caller, Tls::default());
        shared.waits = waits;
        let _ = shared.inner.set(Box::new(Arc::new(inner)));
        shared
    }

    /// What runs for the client, if it has been used.
    pub(crate) fn started(&self) -> Option<&Arc<Inner>> {
        self.inner.get()
    }

    /// Whether no process has used it before this one did.
    pub(crate) fn is_ours(&self) -> bool {
        let started = self.inner.get();
        started.is_none_or(|inner| inner.process == process::id())
    }

    /// What runs for the client, started if need be. Refuses after close; what was
    /// started by the parent of a forked child refuses by itself.
    pub(crate) fn running(&self) -> Result<&Arc<Inner>, Error> {
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        let inner = self
            .inner
            .get_or_try_init(|| self.start(None).map(Box::new))?;
        // A thread that closed the client meanwhile has not seen this start.
        if self.closed.load(Ordering::SeqCst) {
            Err(Error::closed())
        } else {
            Ok(inner)
        }
    }

    /// Starts it on a runtime of the caller's.
    pub(super) fn start_on(&self, handle: Handle) -> Result<(), Error> {
        self.inner
            .get_or_try_init(|| self.start(Some(handle)).map(Box::new))
            .map(|_| ())
    }

    fn start(&self, on: Option<Handle>) -> Result<Arc<Inner>, Error> {
        let settings = self.settings.clone();
        let ours = on.is_none();
        let (runtime, io) = match on {
            Some(handle) => (
                Runtime::get(),
                Io {
                    handle,
                    driver: None,
                },
            ),
            None => {
                let (runtime, driver) = Runtime::with_io()?;
                (runtime, Io::of(driver))
            }
        };
        let driver = io.driver;
        let ends = Arc::new(EndWatch::default());
        let clock = SystemClock::new(io.clone(), ends.gone().clone());
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let rng: Arc<dyn Rng> = Arc::new(SystemRng);
        let warn: fn(LogEvent) = |event| Runtime::get().dispatcher().log(Level::Warn, event);
        let note: fn(LogEvent) = |event| Runtime::get().dispatcher().log(Level::Info, event);
        let gate = gate(&settings, clock.clone(), rng.clone(), [warn, note]);
        let gate = Arc::new(gate);
        let link = |(i, node): (usize, &Address)| -> Arc<dyn Link> {
            if let Endpoint::Memory(name) = &node.endpoint {
                let (inbox, clock) = (gate.inbox.clone(), clock.clone());
                return Arc::new(MemoryLink::new(name, i, inbox, node.shown.clone(), clock));
            }
            let target = target(node, i, &self.tls, &gate);
            if let Endpoint::Cluster(_) = &node.endpoint {
                let (spawns, told) = (io.clone(), ends.clone());
                // From its first step on: where the runtime has ended already the worker is dropped
                // at once, within the cluster's lock.
                let spawn: Spawn = Box::new(move |worker| {
                    let told = told.clone();
                    spawns.run(async move { told.told_by(worker.last()).await });
                });
                let link = ClusterLink::new(target, driver, spawn);
                io.run(ends.told_by(link.last()));
                return Arc::new(link);
            }
            let (link, worker) = RedisLink::new(target, clock.clone(), driver);
            io.run(ends.told_by(worker.last()));
            Arc::new(link)
        };
        let links: Vec<_> = settings.nodes.iter().enumerate().map(link).collect();
        let watchdog = Watchdog::new(clock.clone());
        let (watches, its_clock) = (watchdog.clone(), clock.clone());
        io.run(ends.told_by(async move {
            let what = "the watchdog of the leases";
            lasting(|| watches.clone().run(), its_clock, warn, what).await;
        }));
        let (max_ttl, drift) = (settings.max_ttl(), settings.drift);
        let inbox = Inbox::new(gate.inbox.clone(), &links);
        let mut set = Set::new(links, clock, rng, max_ttl, drift, warn);
        set.origin = self.origin.to_string();
        set.namespace = settings.namespace.clone();
        set.note = note;
        set.connect_timeout = settings.connect_timeout;
        watchdog.serve(&set);
        let set = Arc::new(set);
        let heartbeat = Heartbeat::new(set.clone(), settings.node_timeout);
        let (beats, its_clock) = (heartbeat.clone(), set.clock.clone());
        io.run(ends.told_by(async move {
            let what = "the heartbeat of the nodes";
            lasting(|| beats.clone().run(), its_clock, warn, what).await;
        }));
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| Inner {
            registered: Some(MetricsEntry::new(&set, &inbox, inner.clone())),
            set,
            settings,
            owners: Owners::default(),
            order: Order::default(),
            lines: Arc::default(),
            inbox,
            watchdog,
            heartbeat,
            runtime,
            io,
            process_label: Arc::new(config::process_label()),
            tls: self.tls.clone(),
            closed: AtomicBool::new(false),
            gone: ends.gone().clone(),
            process: process::id(),
            ours,
        });
        ends.of(&inner);
        // A client on the caller's runtime is closed where that ends, which it does before
        // the process exits, or not at all.
        if ours {
            let client: Arc<dyn Closeable> = inner.clone();
            runtime.register(Arc::downgrade(&client));
        }
        Ok(inner)
    }

    /// See [`Client::close`](crate::Client::close).
    pub(crate) async fn close(&self) {
        // First: a thread that starts the client after this sees that it is closed.
        self.closed.store(true, Ordering::SeqCst);
        if let Some(inner) = self.inner.get() {
            inner.close().await;
        }
    }

    /// See [`Client::is_closed`](crate::Client::is_closed).
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || self.inner.get().is_some_and(|i| i.is_closed())
    }
}

impl fmt::Debug for ClientCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.settings.nodes.iter().map(|n| &n.shown).collect();
        f.debug_struct("Client").field("nodes", &nodes).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Client, ErrorKind};

    #[test]
    fn a_place_lives_longer_over_a_slow_network() {
        for (timeout, expected) in [
            (250, [200, 60_000]),
            (375, [300, 60_000]),
            (5_000, [4_000, 67_400]),
        ] {
            let client = Client::builder().nodes(["memory://slow"]);
            let client = client.node_timeout(Duration::from_millis(timeout));
            let waits = client.build().unwrap().shared.waits;
            let told = [waits.reservation, waits.place].map(|long| long.as_millis());
            assert_eq!(told, expected, "{timeout}");
        }
    }

    #[test]
    fn a_client_starts_when_it_is_first_used() {
        let client = Client::new(["memory://first-use"]).unwrap();
        let lock = client.lock("a");
        lock.check().unwrap();
        assert_eq!(
            (client.stats().acquired, lock.is_held_by_owner()),
            (0, None)
        );
        assert!(client.shared.started().is_none());
        let lease = crate::blocking::wait(lock.acquire()).unwrap();
        assert!(lease.is_held() && client.shared.started().is_some());
    }

    #[test]
    fn one_that_is_closed_before_starts_nothing() {
        let client = Client::new(["memory://first-use"]).unwrap();
        crate::blocking::wait(client.close());
        assert!(client.is_closed());
        let refused = crate::blocking::wait(client.lock("a").acquire()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        assert!(client.shared.started().is_none());
    }
}
