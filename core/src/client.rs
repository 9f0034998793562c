//! The client: a configured set, and what runs for it.

mod builder;
mod stats;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::blocking;
use crate::clock::Clock;
use crate::config::{LockOptions, Settings};
use crate::error::{Error, ErrorKind, NodeError};
use crate::lock::Lock;
use crate::node::address::Endpoint;
use crate::node::admission::{Expected, Gate, Roster};
use crate::node::connect::{self, Target};
use crate::node::inbox;
use crate::node::names;
use crate::node::tls::Tls;
use crate::owner::Owners;
use crate::quorum;
use crate::renewal::Watchdog;
use crate::round::LossReason;
use crate::runtime::Runtime;
use crate::set::Set;
use crate::token::Rng;
use crate::waiting::Lines;

pub use builder::ClientBuilder;
pub use stats::Stats;

/// A set of nodes and the options for its locks.
///
/// Cheap to clone; clones share connections, watchdog and leases. Connections
/// are made when first needed and again when they break. Dropping the last
/// clone, lock and lease ends what runs for the client.
///
/// ```no_run
/// # async fn f() -> Result<(), quorlock::Error> {
/// let client = quorlock::Client::new([
///     "redis://10.0.0.1:6379",
///     "redis://10.0.0.2:6379",
///     "redis://10.0.0.3:6379",
/// ])?;
/// let lease = client.lock("orders:42").acquire().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// What clones of a client, its locks and its leases share.
pub(crate) struct Inner {
    pub(crate) set: Arc<Set>,
    pub(crate) settings: Settings,
    pub(crate) owners: Owners,
    pub(crate) lines: Arc<Lines>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) runtime: &'static Runtime,
    pub(crate) io: Handle,
    tls: Tls,
    closed: AtomicBool,
    process: u32,
}

impl Client {
    /// A client for `nodes`, with default options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a URL that is not understood or listed twice.
    /// Nothing is connected yet, so nothing about the nodes is known.
    pub fn new<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Result<Client, Error> {
        Client::builder().nodes(nodes).build()
    }

    /// A client for the nodes listed in the environment variable
    /// `QUORLOCK_NODES`, split at commas and blanks; without it for
    /// `redis://127.0.0.1:6379`.
    ///
    /// # Errors
    ///
    /// As [`new`](Client::new).
    pub fn from_env() -> Result<Client, Error> {
        Client::builder().build()
    }

    /// Options, one by one.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A lock by its name: 1 to 1,024 bytes. A name with a hash tag of its own
    /// (`buy_{7}`) is used as it is; any other braces are refused.
    ///
    /// Name and options are checked when the lock is used, or by
    /// [`Lock::check`].
    pub fn lock(&self, name: impl Into<Vec<u8>>) -> Lock {
        Lock::new(self.inner.clone(), name.into())
    }

    /// For bindings: the nodes as messages name them, never with credentials.
    #[doc(hidden)]
    pub fn nodes(&self) -> Vec<&str> {
        let nodes = self.inner.settings.nodes.iter();
        nodes.map(|node| &*node.shown).collect()
    }

    /// For tests of what comes in over the links.
    #[cfg(feature = "sim")]
    pub(crate) fn links(&self) -> &[Arc<dyn crate::node::Link>] {
        &self.inner.set.links
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner)
    }

    /// Declares a new set: writes the record of this set to all its nodes, so
    /// that they need not wait as nodes do that may have lost their memory.
    /// For an operator, once, before anything else uses the nodes. `memory://`
    /// nodes need none.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, naming the nodes, if any of them has a record already,
    /// cannot be a node of this set, or does not answer: nothing is written
    /// unless all are ready.
    ///
    /// # Cancel safety
    ///
    /// The work goes on in the background.
    pub async fn init_set(&self) -> Result<Duration, Error> {
        // Stand-in: the merge takes the core's own.
        self.inner.check()?;
        let inner = self.inner.clone();
        let work = self.inner.io.spawn(async move { inner.init_set().await });
        work.await
            .unwrap_or_else(|e| Err(Error::new(ErrorKind::Internal, e.to_string())))
            .map(|()| Duration::ZERO)
    }

    /// As [`init_set`](Client::init_set), without a quarantine.
    ///
    /// # Errors
    ///
    /// As [`init_set`](Client::init_set).
    pub async fn init_set_forced(&self) -> Result<Duration, Error> {
        // Stand-in: the merge takes the core's own.
        self.init_set().await
    }

    /// Releases every lease, then stops what runs for the client. Leases still
    /// held are lost with the reason `closed`. Returns when the releases are
    /// acknowledged, at the latest after `node_timeout`. A second call does
    /// nothing.
    ///
    /// # Cancel safety
    ///
    /// Once polled the client is closed; dropping the future only stops the
    /// wait for the releases.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    /// Whether [`close`](Client::close) was called.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.settings.nodes.iter().map(|n| &n.shown).collect();
        f.debug_struct("Client").field("nodes", &nodes).finish()
    }
}

impl Inner {
    /// Refuses in a forked child.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process == crate::process::id() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            "this client was made before the process was forked, and its leases are the parent's: \
             make a new client in the child",
        ))
    }

    /// Refuses in a forked child and after close.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_process()?;
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the client is closed: make a new one",
            ));
        }
        Ok(())
    }

    /// Checks a ttl given to an extension.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<(), Error> {
        let options = LockOptions {
            ttl,
            max_hold: None,
            ..LockOptions::default()
        };
        options.check(&self.settings)
    }

    async fn init_set(&self) -> Result<(), Error> {
        let Set {
            clock, rng, warn, ..
        } = &*self.set;
        let gate = Arc::new(gate(&self.settings, clock.clone(), rng.clone(), *warn));
        let mut faults = Vec::new();
        // First without writing: a set is declared whole or not at all.
        for write in [false, true] {
            for (node, address) in self.settings.nodes.iter().enumerate() {
                if matches!(address.endpoint, Endpoint::Memory(_)) {
                    continue;
                }
                let target = Target {
                    address: address.clone(),
                    tls: self.tls.clone(),
                    node,
                    gate: gate.clone(),
                };
                let mut timer = self
                    .set
                    .clock
                    .sleep_until(self.set.clock.now() + INIT_TIMEOUT);
                let mut work = std::pin::pin!(connect::init(&target, write));
                let outcome = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
                    Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|f| f.text.to_string())),
                    Poll::Pending => timer.as_mut().poll(cx).map(|()| Err("no answer".into())),
                })
                .await;
                if let Err(why) = outcome {
                    faults.push(NodeError::new(address.shown.clone(), why));
                }
            }
            if !faults.is_empty() {
                let message = "the set is not declared: every node must be reachable and new";
                return Err(Error::with_nodes(ErrorKind::Misconfigured, message, faults));
            }
        }
        Ok(())
    }

    async fn close(&self) {
        if self.check_process().is_err() || self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let forfeit = || {
            let leases = self.watchdog.leases();
            leases
                .iter()
                .for_each(|hold| hold.forfeit(LossReason::Closed));
        };
        forfeit();
        self.watchdog.close();
        let until = self.set.clock.now() + self.settings.node_timeout;
        // Whoever asks or waits gives up, and leaves the queues.
        self.set.post.close();
        self.set.counters.quiet(&*self.set.clock, until).await;
        for link in &self.set.links {
            link.close();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            self.watchdog.close();
            for link in &self.set.links {
                link.close();
            }
        }
    }
}

/// Time for one node to be declared.
const INIT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the nodes of a client are admitted by.
fn gate(settings: &Settings, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>, warn: fn(String)) -> Gate {
    let votes_last = settings.max_ttl + quorum::drift_allowance(settings.max_ttl, settings.drift);
    let nodes = settings.nodes.len();
    let scratch = format!("{}#try", settings.namespace);
    Gate {
        expected: Expected {
            set_name: settings.set_name.to_string(),
            nodes,
            max_ttl: settings.max_ttl.as_millis() as u64,
            guard: settings.restart_guard.is_on(nodes),
        },
        accept_eviction: settings.accept_eviction,
        quarantine: votes_last,
        record_key: names::record_key(&settings.namespace).into(),
        quarantine_key: names::quarantine_key(&settings.namespace).into(),
        scratch_key: scratch.into_bytes().into(),
        inbox: inbox::channel(&settings.namespace, &*rng),
        told_deaf: AtomicBool::new(false),
        roster: Roster::new(votes_last),
        clock,
        rng,
        warn,
    }
}

/// Closes every client of the process, for its exit. Blocks for at most the
/// longest `node_timeout`.
#[doc(hidden)]
pub fn close_all() {
    let clients = Runtime::get().clients();
    blocking::wait(async {
        for client in &clients {
            client.close().await;
        }
    });
}
