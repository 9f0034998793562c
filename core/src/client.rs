//! The client: a configured set, and what runs for it.

mod admission;
mod builder;
mod ends;
mod environment;
mod findings;
pub(crate) mod inner;
mod list;
pub(crate) mod metrics;
mod probe;
pub(crate) mod shared;
mod simulated;
mod variables;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shared::ClientCore;

use crate::election::Election;
use crate::error::{Error, ErrorKind};
use crate::export::LeaseText;
use crate::force::Forced;
use crate::inspect::Inspection;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::locks::Locks;
use crate::metrics::Metrics;
use crate::report::{Probe, Readiness};
use crate::stats::Stats;

pub use builder::ClientBuilder;
pub use list::Listing;
pub use variables::spelled_time;

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
    shared: Arc<ClientCore>,
}

impl Client {
    /// A lock by its name: 1 to 1,024 bytes. A name with a hash tag of its own
    /// (`buy_{7}`) is used as it is; any other braces are refused.
    ///
    /// Name and options are checked when the lock is used, or by
    /// [`Lock::check`].
    pub fn lock(&self, name: impl Into<Vec<u8>>) -> Lock {
        Lock::new(self.shared.clone(), name.into())
    }

    /// Goes on with a lease that another client has [exported](crate::Lease::export), as long as
    /// that has not ended: with what was left of its `max_hold`, the same ttl, or that if it is
    /// less, and a larger fence. Of two that adopt one lease one wins at most.
    ///
    /// Waits for nodes that do not answer at most as long as the client's `wait`, and no longer than
    /// the lease's ttl.
    ///
    /// # Errors
    ///
    /// `LockLost` if the lease has ended, or another has adopted it; `QuorumUnavailable` if too
    /// few nodes answered; `InvalidArgument` for a text that is damaged, or of another set,
    /// namespace or version; `Misconfigured`, `Closed`, `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back what was taken over: the lock may be free then.
    pub async fn adopt(&self, text: &str) -> Result<Lease, Error> {
        let exported = LeaseText::parse(text)?;
        let lock = Lock::of_export(self.shared.clone(), &exported)?;
        lock.adopt(&exported).await
    }

    /// Several locks by their names, to be held together: all of them, or none. 1 to 16 that
    /// differ, in any order; a name that is given twice is held once.
    ///
    /// Names and options are checked when it is used, or by [`Locks::check`].
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Locks {
        let names = names.into_iter();
        Locks::of(names.map(|name| self.lock(name.as_ref())).collect())
    }

    /// A semaphore by its name: at most `slots` of it are held at once, 1 to 128. It is
    /// acquired and released as a lock is; the lease of one tells its [slot](crate::Lease::slot).
    ///
    /// Each slot is a lock on the quorum, so the limit is kept as a lock's is: a semaphore that
    /// counts on each node instead lets in more than its limit. Its name is another than that
    /// of a lock.
    ///
    /// All callers have to ask for the same number of slots: the largest number in use is the
    /// limit. While that is being changed, a caller that asks for fewer may wait longer.
    ///
    /// Name and options are checked when it is used, or by [`Lock::check`]. Not with
    /// [`raw`](Lock::raw) or [`shared`](Lock::shared).
    ///
    /// ```no_run
    /// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
    /// let lease = client.semaphore("api", 5).acquire().await?;
    /// println!("one of five at most: {:?}", lease.slot());
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn semaphore(&self, name: impl Into<Vec<u8>>, slots: u32) -> Lock {
        self.lock(name).slots(slots)
    }

    /// A candidate of the election of that name: see [`Election`].
    pub fn election(&self, name: impl Into<Vec<u8>>) -> Election {
        Election::of(self.lock(name).for_election())
    }

    /// Reports the holder of a lock, without acquiring it: see [`Inspection`]. For a lock with
    /// [`raw`](Lock::raw) see [`Lock::inspect`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that is not valid, `Closed`, `Forked`. That nodes do not
    /// answer is no error, but part of the result.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn inspect(&self, name: impl Into<Vec<u8>>) -> Result<Inspection, Error> {
        self.lock(name).inspect().await
    }

    /// Takes a lock away from its holder, or ends its keeping, for an operator: deletes its vote on
    /// all nodes, whatever client or library put it there, and calls the next waiter; waiters in
    /// the holder's own client go on when that client learns of it. Two requests to each node, each
    /// at most `node_timeout`, and two more for each further reader of a lock that is shared: all
    /// of them go. Where so many nodes do not answer, or had no vote, that a request of the
    /// holder's which is under way might restore a quorum, another request after twice
    /// `node_timeout`. When it returns no quorum of nodes has the holder's votes, and nothing that
    /// is under way restores one. A lock that is free is no error. For a lock with
    /// [`raw`](Lock::raw) see [`Lock::force_release`].
    ///
    /// The holder learns it at its next renewal, at most about a third of its ttl later, or
    /// when it extends: its lease is lost, [`Forced`](crate::LossReason::Forced), or
    /// [`Refused`](crate::LossReason::Refused) where another has taken the lock meanwhile. A
    /// lease that is not renewed learns nothing before its end. Until then two may work, and
    /// their fences tell them apart.
    ///
    /// `fence`: only if the holder has it, or it is the last that was counted for the lock, so that
    /// a holder that has got the lock since is never hit. Give that of the lease that is to go, or
    /// what [`inspect`](Client::inspect) reports. Since a node counts a fence also for some callers
    /// that ask in vain, and several at once for a client in which many wait, the call may be
    /// refused though the holder is still the same.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name or a fence that is not valid; `Contended` if the lock is
    /// held, and not by `fence` for certain, and nothing is changed, or where more came to share
    /// it than could be taken away; `QuorumUnavailable` if too few nodes answer: some may have
    /// done it then. `Misconfigured` where the lock's key
    /// is no string. `Closed`, also where the client is closed meanwhile: some may have done it then,
    /// too. `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves what has been sent to be carried out: the lock may be
    /// taken away on all nodes, on some, or on none. Calling again completes it.
    pub async fn force_release(
        &self,
        name: impl Into<Vec<u8>>,
        fence: Option<u64>,
    ) -> Result<Forced, Error> {
        self.lock(name).force_release(fence).await
    }

    /// The names of locks that are held, kept, or waited for now, at most `most` of them: for an
    /// operator's view. `names`: a pattern of names as Redis's `KEYS` has it, such as `orders:*`; a
    /// pattern with braces is for names with a hash tag of their own.
    ///
    /// Over a connection of its own to each node it walks through all keys there (`SCAN`), a
    /// thousand a step, each at most `node_timeout`: on a server with millions of other keys
    /// that takes a while. A server that does not answer is given up after eight times
    /// `node_timeout` when it is connected to, and after one at any step. The user needs `+scan`, which locks do not. Locks with
    /// [`raw`](crate::Lock::raw) are not found, for their keys are like any other.
    ///
    /// # Errors
    ///
    /// `QuorumUnavailable` or `Misconfigured`, naming the nodes, if fewer than a quorum could be
    /// read; `Closed`, `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn list(&self, names: Option<&str>, most: usize) -> Result<Listing, Error> {
        let inner = self.shared.running()?.clone();
        inner.check()?;
        list::list(&inner, names, most).await
    }

    /// For the command: what [`list`](Client::list) would give where fewer nodes than a quorum are read, and why
    /// it fails there.
    #[doc(hidden)]
    pub async fn list_partly(
        &self,
        names: Option<&str>,
        most: usize,
    ) -> Result<(Listing, Option<ErrorKind>), Error> {
        let inner = self.shared.running()?.clone();
        inner.check()?;
        list::list_partly(&inner, names, most).await
    }

    /// Checks the state of the set: which nodes answer, which would vote, and what
    /// needs to be fixed, each with an id, what is wrong, and what to do. Made for monitors and for
    /// people; `docs/operations/doctor.md` lists what may be found.
    ///
    /// Over a connection of its own to each node it asks what a client asks when it connects,
    /// and for the time; and where the node is of this set, for a vote for a lock that no client has, which it gives
    /// back. Nothing is admitted or founded by it, and a server that is new is still new afterwards. It takes at most `connect_timeout` and
    /// eight times `node_timeout`.
    ///
    /// # Errors
    ///
    /// `Closed`, `Forked`. That nodes do not answer, or cannot be used, is no error, but part
    /// of the result.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn probe(&self) -> Result<Probe, Error> {
        let inner = self.shared.running()?.clone();
        inner.check()?;
        probe::probe(&inner).await
    }

    /// Checks one node of the set, of this URL without a password, or of the name by which errors have it: whether it
    /// votes, for what starts and stops servers. `quorlock doctor --node` is that.
    ///
    /// It asks what [`probe`](Client::probe) asks, of this node in at most `connect_timeout` and eight times
    /// `node_timeout`, and of the others only as long as that takes and `node_timeout` more.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the URL is none, holds a password, or is of no node of the client; `Closed`,
    /// `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn probe_node(&self, url: &str) -> Result<Readiness, Error> {
        let inner = self.shared.running()?.clone();
        inner.check()?;
        probe::probe_node(&inner, url).await
    }

    /// For bindings: the nodes as messages name them, never with credentials.
    #[doc(hidden)]
    pub fn nodes(&self) -> Vec<&str> {
        let nodes = self.shared.settings.nodes.iter();
        nodes.map(|node| &*node.shown).collect()
    }

    /// For bindings: whether this process may use it. Not where the process that this
    /// one was forked from has; touches nothing that another thread could hold.
    #[doc(hidden)]
    pub fn is_ours(&self) -> bool {
        self.shared.is_ours()
    }

    /// For tests of what comes in over the links.
    pub(crate) fn links(&self) -> &[Arc<dyn crate::node::Link>] {
        let inner = self.shared.running();
        &inner.expect("a client of a test starts").set.links
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        self.shared
            .started()
            .map(|inner| inner.stats())
            .unwrap_or_default()
    }

    /// What has been measured so far: how long callers waited and held, what was lost, how
    /// the nodes do. See also [`metrics_text`](crate::metrics_text).
    pub fn metrics(&self) -> Metrics {
        let started = self.shared.started();
        started.map(|inner| inner.metrics()).unwrap_or_default()
    }

    /// Declares the set: where no node has a record, founds it by writing its record to all of
    /// them. Returns how much longer it takes until every node votes. `memory://` nodes need none
    /// of this.
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
        let inner = self.shared.running()?.clone();
        inner.check()?;
        let io = inner.io.clone();
        let work = io.spawn(async move { admission::declare(&inner, force).await });
        work.await.and_then(|declared| declared)
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
        self.shared.close().await;
    }

    /// Whether [`close`](Client::close) was called.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
