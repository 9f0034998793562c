//! The client: a configured set, and what runs for it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::blocking;
use crate::clock::{Clock, SystemClock};
use crate::config::{self, LockOptions, RestartGuard, Settings, defaults};
use crate::dispatch::Level;
use crate::error::{Error, ErrorKind, NodeError};
use crate::lock::Lock;
use crate::node::Link;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::{Expected, Gate, Roster};
use crate::node::connect::{self, Target};
use crate::node::inbox;
use crate::node::memory::MemoryLink;
use crate::node::names::{self, Naming};
use crate::node::redis::RedisLink;
use crate::node::tls::Tls;
use crate::owner::Owners;
use crate::quorum;
use crate::renewal::Watchdog;
use crate::round::LossReason;
use crate::runtime::Runtime;
use crate::set::Set;
use crate::token::{Rng, SystemRng};
use crate::waiting::Lines;

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
    pub(crate) fn links(&self) -> &[Arc<dyn Link>] {
        &self.inner.set.links
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        let c = &self.inner.set.counters;
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
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
            clock_steps: get(&c.clock_steps),
            write_backs: get(&c.write_backs),
            passed_on: get(&c.passed_on),
            releases_dropped: self.inner.set.links.iter().map(|l| l.dropped()).sum(),
            connects: self.inner.set.links.iter().map(|l| l.connects()).sum(),
            waiting: self.inner.lines.waiting() as u64,
            queued: self.inner.set.post.queued() as u64,
            ahead: self.inner.set.post.ahead().into(),
            stray_messages: self.inner.set.post.stray()
                + self
                    .inner
                    .set
                    .links
                    .iter()
                    .map(|link| link.stray())
                    .sum::<u64>(),
        }
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
    pub async fn init_set(&self) -> Result<(), Error> {
        self.inner.check()?;
        let inner = self.inner.clone();
        let work = self.inner.io.spawn(async move { inner.init_set().await });
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

/// Counts of a client since it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Leases won.
    pub acquired: u64,
    /// Acquisitions that were re-entries.
    pub reentered: u64,
    /// Attempts that did not win, each undone.
    pub attempts_lost: u64,
    /// Rounds that a node's timeout decided: no quorum had answered before.
    pub timeouts_awaited: u64,
    /// Leases released while held.
    pub released: u64,
    /// Leases lost.
    pub lost: u64,
    /// Votes renewed.
    pub renewals: u64,
    /// Votes that were missing and have been stored anew.
    pub repairs: u64,
    /// Releases that nodes have not acknowledged yet.
    pub releases_pending: u64,
    /// Steps seen of nodes' clocks.
    pub clock_steps: u64,
    /// Fences written back to a node because the votes disagreed.
    pub write_backs: u64,
    /// Releases given up because too many waited for a node; their keys end by
    /// themselves.
    pub releases_dropped: u64,
    /// Connections made to nodes.
    pub connects: u64,
    /// Acquires that wait in a line now, behind the one that asks the nodes.
    pub waiting: u64,
    /// Leases that were released and went to the next waiter of this client
    /// without a request.
    pub passed_on: u64,
    /// Acquires that stand in the queue of a node now, among those of all
    /// clients: at most one for each lock.
    pub queued: u64,
    /// How many waiters of other clients stand before the last of those, as
    /// far as the node told.
    pub ahead: u64,
    /// Messages to this client that named nobody who waits, or that no node
    /// sends: late, or forged.
    pub stray_messages: u64,
}

impl Stats {
    /// For bindings: the counts with their names.
    #[doc(hidden)]
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("acquired", self.acquired),
            ("reentered", self.reentered),
            ("attempts_lost", self.attempts_lost),
            ("timeouts_awaited", self.timeouts_awaited),
            ("released", self.released),
            ("lost", self.lost),
            ("renewals", self.renewals),
            ("repairs", self.repairs),
            ("releases_pending", self.releases_pending),
            ("clock_steps", self.clock_steps),
            ("write_backs", self.write_backs),
            ("releases_dropped", self.releases_dropped),
            ("connects", self.connects),
            ("waiting", self.waiting),
            ("passed_on", self.passed_on),
            ("queued", self.queued),
            ("ahead", self.ahead),
            ("stray_messages", self.stray_messages),
        ]
    }
}

impl Inner {
    /// Refuses in a forked child.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process == std::process::id() {
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
        if self.closed.load(Ordering::Acquire) {
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
        let gate = Arc::new(gate(&self.settings, self.set.rng.clone(), self.set.warn));
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
        if self.check_process().is_err() || self.closed.swap(true, Ordering::AcqRel) {
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
        // Who waits gives up what it asked for, and leaves the queues; or has
        // just won.
        self.set.post.look_again(None);
        self.set.post.empty(&*self.set.clock, until).await;
        forfeit();
        // Sends the releases just queued, each at most node_timeout long.
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
fn gate(settings: &Settings, rng: Arc<dyn Rng>, warn: fn(String)) -> Gate {
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
        quarantine: settings.max_ttl + quorum::drift_allowance(settings.max_ttl, settings.drift),
        record_key: names::record_key(&settings.namespace).into(),
        quarantine_key: names::quarantine_key(&settings.namespace).into(),
        scratch_key: scratch.into_bytes().into(),
        inbox: inbox::channel(&settings.namespace, &*rng),
        told_deaf: AtomicBool::new(false),
        roster: Roster::default(),
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

/// Options of a [`Client`]; those of locks are the defaults of its locks.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    nodes: Option<Vec<String>>,
    settings: Settings,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    on_current_runtime: bool,
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        ClientBuilder {
            nodes: None,
            settings: Settings {
                nodes: Vec::new(),
                namespace: defaults::NAMESPACE.into(),
                label: config::default_label().into(),
                max_ttl: defaults::MAX_TTL,
                node_timeout: defaults::NODE_TIMEOUT,
                drift: defaults::DRIFT,
                min_validity: defaults::MIN_VALIDITY,
                fence_ttl: defaults::FENCE_TTL,
                set_name: defaults::SET_NAME.into(),
                restart_guard: RestartGuard::default(),
                accept_eviction: defaults::ACCEPT_EVICTION,
                lock: LockOptions::default(),
            },
            ca: None,
            cert: None,
            key: None,
            on_current_runtime: false,
        }
    }
}

impl ClientBuilder {
    /// The nodes of the set: `redis://[user:password@]host[:port][/db]`,
    /// `rediss://…` for TLS, `redis+unix:///path?db=1&user=u&password=p`, or
    /// `memory://name` for a node in this process.
    pub fn nodes<S: Into<String>>(mut self, nodes: impl IntoIterator<Item = S>) -> ClientBuilder {
        self.nodes = Some(nodes.into_iter().map(Into::into).collect());
        self
    }

    /// See [`Lock::ttl`]. 10 s.
    pub fn ttl(mut self, ttl: Duration) -> ClientBuilder {
        self.settings.lock.ttl = ttl;
        self
    }

    /// See [`Lock::wait`]. 10 s.
    pub fn wait(mut self, wait: impl Into<Option<Duration>>) -> ClientBuilder {
        self.settings.lock.wait = wait.into();
        self
    }

    /// See [`Lock::renew`]. On.
    pub fn renew(mut self, renew: bool) -> ClientBuilder {
        self.settings.lock.renew = renew;
        self
    }

    /// See [`Lock::max_hold`]. One hour.
    pub fn max_hold(mut self, max_hold: impl Into<Option<Duration>>) -> ClientBuilder {
        self.settings.lock.max_hold = max_hold.into();
        self
    }

    /// See [`Lock::raw`]. Off.
    pub fn raw(mut self, raw: bool) -> ClientBuilder {
        self.settings.lock.naming = if raw { Naming::Raw } else { Naming::Tagged };
        self
    }

    /// See [`Lock::max_waiters`]. 10,000.
    pub fn max_waiters(mut self, max_waiters: usize) -> ClientBuilder {
        self.settings.lock.max_waiters = max_waiters;
        self
    }

    /// See [`Lock::fair`]. Off.
    pub fn fair(mut self, fair: bool) -> ClientBuilder {
        self.settings.lock.fair = fair;
        self
    }

    /// See [`Lock::fencing`]. On.
    pub fn fencing(mut self, fencing: bool) -> ClientBuilder {
        self.settings.lock.fencing = fencing;
        self
    }

    /// How long a lock's counter of fences lives after its last use; at least
    /// twice `max_ttl`. After that the order of fences rests on the nodes'
    /// clocks. 10 min.
    pub fn fence_ttl(mut self, fence_ttl: Duration) -> ClientBuilder {
        self.settings.fence_ttl = fence_ttl;
        self
    }

    /// The name of the set that the nodes form: 1 to 64 printable characters.
    /// Nodes of another set are refused. `default`.
    pub fn set_name(mut self, set_name: impl Into<String>) -> ClientBuilder {
        self.settings.set_name = set_name.into().into();
        self
    }

    /// Whether a node that may have lost its memory gives no vote until every
    /// vote that it may have given is over. `Auto`: on for three nodes and
    /// more.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> ClientBuilder {
        self.settings.restart_guard = restart_guard;
        self
    }

    /// Accepts servers that drop keys when they are full: with them a lock may
    /// vanish under its holder. Off.
    pub fn accept_eviction(mut self, accept: bool) -> ClientBuilder {
        self.settings.accept_eviction = accept;
        self
    }

    /// The longest ttl of any lock of the set, and so how long a node that may
    /// have lost its memory gives no vote; the same for all clients of a set.
    /// 60 s.
    pub fn max_ttl(mut self, max_ttl: Duration) -> ClientBuilder {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// Time for one request to one node: connect, queue, write and reply; at
    /// most a quarter of a lock's ttl. 250 ms. A hung node costs no latency, for
    /// rounds end at the quorum.
    pub fn node_timeout(mut self, node_timeout: Duration) -> ClientBuilder {
        self.settings.node_timeout = node_timeout;
        self
    }

    /// Bound on the difference of clock rates, as a fraction: validity is the
    /// ttl less `drift` of it and 2 ms. 0.01; at least 0.001.
    pub fn drift(mut self, drift: f64) -> ClientBuilder {
        self.settings.drift = drift;
        self
    }

    /// The fraction of the ttl that must be left when a lease is won. 0.1.
    pub fn min_validity(mut self, min_validity: f64) -> ClientBuilder {
        self.settings.min_validity = min_validity;
        self
    }

    /// Prefix of every key. `lock:`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> ClientBuilder {
        self.settings.namespace = namespace.into().into();
        self
    }

    /// Text stored with the token, to tell who holds a lock; empty for none.
    /// `host:pid`.
    pub fn label(mut self, label: impl Into<String>) -> ClientBuilder {
        self.settings.label = label.into().into();
        self
    }

    /// Certificates that vouch for `rediss://` nodes, in place of the
    /// system's: the path of a PEM file, or its text.
    pub fn ca(mut self, ca: impl Into<String>) -> ClientBuilder {
        self.ca = Some(ca.into());
        self
    }

    /// The client's certificate: the path of a PEM file, or its text. Goes
    /// with [`key`](ClientBuilder::key).
    pub fn cert(mut self, cert: impl Into<String>) -> ClientBuilder {
        self.cert = Some(cert.into());
        self
    }

    /// The key of the client's certificate: the path of a PEM file, or its
    /// text.
    pub fn key(mut self, key: impl Into<String>) -> ClientBuilder {
        self.key = Some(key.into());
        self
    }

    /// Runs the client on the tokio runtime that [`build`](ClientBuilder::build)
    /// is called in, in place of Quorlock's own I/O thread. Saves the hop
    /// between threads; but renewal then waits for the runtime whenever a task
    /// blocks it.
    pub fn on_current_runtime(mut self) -> ClientBuilder {
        self.on_current_runtime = true;
        self
    }

    /// Checks all options and makes the client. Connects to nothing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the option, its value and what to give.
    pub fn build(self) -> Result<Client, Error> {
        let mut settings = self.settings;
        settings.nodes = self
            .nodes
            .unwrap_or_else(config::nodes_of_environment)
            .iter()
            .enumerate()
            .map(|(i, url)| Address::parse(i, url))
            .collect::<Result<_, _>>()?;
        settings.check()?;
        let tls = Tls::new(self.ca, self.cert, self.key)?;
        let runtime = Runtime::get();
        let (handle, driver) = if self.on_current_runtime {
            let handle = Handle::try_current().map_err(|_| {
                Error::invalid("on_current_runtime: build() was not called within a tokio runtime")
            })?;
            (handle, None)
        } else {
            let driver = runtime.io()?;
            (driver.handle().clone(), Some(driver))
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(handle.clone()));
        let rng: Arc<dyn Rng> = Arc::new(SystemRng);
        let warn = |line| Runtime::get().dispatcher().log(Level::Warn, line);
        let gate = Arc::new(gate(&settings, rng.clone(), warn));
        let link = |(i, node): (usize, &Address)| -> Arc<dyn Link> {
            if let Endpoint::Memory(name) = &node.endpoint {
                let (inbox, clock) = (gate.inbox.clone(), clock.clone());
                return Arc::new(MemoryLink::new(name, i, inbox, node.shown.clone(), clock));
            }
            let target = Target {
                address: node.clone(),
                tls: tls.clone(),
                node: i,
                gate: gate.clone(),
            };
            Arc::new(RedisLink::new(target, clock.clone(), &handle, driver))
        };
        let links = settings.nodes.iter().enumerate().map(link).collect();
        let watchdog = Watchdog::new(clock.clone());
        handle.spawn(watchdog.clone().run());
        let (max_ttl, drift) = (settings.max_ttl, settings.drift);
        let inbox = gate.inbox.clone();
        let set = Set::new(links, clock, rng, max_ttl, drift, warn, inbox);
        watchdog.follow_steps(&set);
        let inner = Arc::new(Inner {
            set: Arc::new(set),
            settings,
            owners: Owners::default(),
            lines: Arc::default(),
            watchdog,
            runtime,
            io: handle,
            tls,
            closed: AtomicBool::new(false),
            process: std::process::id(),
        });
        // A client on the caller's runtime cannot be closed after that has
        // ended, so the exit of the process leaves it to its ttl.
        if !self.on_current_runtime {
            runtime.register(&inner);
        }
        Ok(Client { inner })
    }
}
