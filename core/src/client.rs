//! The client: a configured set, and what runs for it.

mod builder;
#[cfg(feature = "sim")]
mod simulated;
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
use crate::config::{LockOptions, RestartGuard, Settings};
use crate::error::{Error, ErrorKind, NodeError};
use crate::lock::Lock;
use crate::node::Waits;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::{Expected, Gate, Roster, Survey};
use crate::node::connect::{self, Target};
use crate::node::inbox;
use crate::node::names;
use crate::node::tls::Tls;
use crate::node::{Fault, FaultKind};
use crate::owner::Owners;
use crate::post::Post;
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
    /// How nodes keep lines for its locks.
    pub(crate) waits: Waits,
    pub(crate) owners: Owners,
    pub(crate) lines: Arc<Lines>,
    /// Where the nodes call its waiters.
    pub(crate) post: Arc<Post>,
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

    /// Declares the set: where no node has a record yet, founds it by writing its
    /// record to all of them. Returns how long it takes yet until every node
    /// votes. `memory://` nodes need none of this.
    ///
    /// A wholly new set, whose servers have run for longer than `max_ttl` and
    /// never stored anything, votes at once. Where servers are only too young the
    /// call waits until they are not; the log says how long. Servers that may have
    /// lost something give no vote for `max_ttl` first. Where all nodes have this
    /// set's record already, nothing is changed and no quarantine is lifted: it is
    /// safe to call at every deploy.
    ///
    /// A client founds its set by itself when it first uses it, by the same rule.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, naming the nodes, if one has a record of another set or
    /// cannot be a node; `QuorumUnavailable`, naming them, if some do not answer
    /// within 5 s. Nothing is written then to nodes without a record, but in one
    /// case: a node fails in the middle.
    ///
    /// # Cancel safety
    ///
    /// The work goes on in the background.
    pub async fn init_set(&self) -> Result<Duration, Error> {
        self.declare(false).await
    }

    /// As [`init_set`](Client::init_set), but no node of the set is in quarantine
    /// afterwards, whatever it may have lost: two may hold a lock that was held
    /// within the last `max_ttl`. Only where you know that no lock is held.
    ///
    /// # Errors
    ///
    /// As [`init_set`](Client::init_set).
    ///
    /// # Cancel safety
    ///
    /// The work goes on in the background.
    pub async fn init_set_forced(&self) -> Result<Duration, Error> {
        self.declare(true).await
    }

    async fn declare(&self, force: bool) -> Result<Duration, Error> {
        self.inner.check()?;
        let inner = self.inner.clone();
        let work = self
            .inner
            .io
            .spawn(async move { inner.declare(force).await });
        work.await
            .unwrap_or_else(|e| Err(Error::new(ErrorKind::Internal, e.to_string())))
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

    async fn declare(&self, force: bool) -> Result<Duration, Error> {
        let Set {
            clock, rng, warn, ..
        } = &*self.set;
        let gate = Arc::new(gate(&self.settings, clock.clone(), rng.clone(), *warn));
        // All at once, for the nodes of a new set wait for each other.
        let mut work = Vec::new();
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
            let declared = declared(target, force, clock.clone());
            work.push((address, self.io.spawn(declared)));
        }
        let (mut left, mut faults, mut kind) =
            (Duration::ZERO, Vec::new(), ErrorKind::QuorumUnavailable);
        for (address, declared) in work {
            let outcome = declared.await;
            match outcome.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))? {
                Ok(quarantine) => left = left.max(quarantine),
                Err(fault) => {
                    if matches!(fault.kind, FaultKind::Misconfigured | FaultKind::Foreign) {
                        kind = ErrorKind::Misconfigured;
                    }
                    faults.push(NodeError::new(
                        address.shown.clone(),
                        fault.text.to_string(),
                    ));
                }
            }
        }
        if !faults.is_empty() {
            let message = "the set is not declared: every node must answer, and belong to this \
                           set or to none";
            return Err(Error::with_nodes(kind, message, faults));
        }
        if gate.survey.is_young() && !left.is_zero() {
            warn(format!(
                "the set is declared; its servers have run for less than max_ttl, so they give no \
                 vote for another {left:?}: waiting"
            ));
            clock.sleep_until(clock.now() + left).await;
            left = Duration::ZERO;
        }
        Ok(left)
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
        self.post.close();
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

/// Declares a set to one of its nodes, in time.
async fn declared(target: Target, force: bool, clock: Arc<dyn Clock>) -> Result<Duration, Fault> {
    let mut timer = clock.sleep_until(clock.now() + INIT_TIMEOUT);
    let mut work = std::pin::pin!(connect::declare(&target, force));
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Pending => timer.as_mut().poll(cx).map(|()| {
            let why = target.gate.survey.waits_for(target.node);
            let why = why.unwrap_or_else(|| "no answer".into());
            Err(Fault::new(FaultKind::Timeout, why, false))
        }),
        done => done,
    })
    .await
}

/// What the nodes of a client are admitted by.
fn gate(settings: &Settings, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>, warn: fn(String)) -> Gate {
    let (nodes, guard) = (settings.nodes.len(), settings.restart_guard);
    let mut expected = Expected::new(
        &settings.set_name,
        nodes,
        settings.max_ttl,
        settings.drift,
        guard.is_on(nodes),
    );
    expected.declares &= guard == RestartGuard::Auto;
    let name = |node: &Address| {
        let apart = matches!(node.endpoint, Endpoint::Memory(_));
        (node.shown.clone(), apart)
    };
    let scratch = format!("{}#try", settings.namespace);
    Gate {
        accept_eviction: settings.accept_eviction,
        drift: settings.drift,
        record_key: names::record_key(&settings.namespace).into(),
        quarantine_key: names::quarantine_key(&settings.namespace).into(),
        scratch_key: scratch.into_bytes().into(),
        inbox: inbox::channel(&settings.namespace, &*rng),
        told_deaf: AtomicBool::new(false),
        roster: Roster::new(&expected),
        survey: Survey::new(expected, settings.nodes.iter().map(name).collect()),
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
