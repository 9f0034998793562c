//! Settings: every default, every bound, and the check of what a user gives.

mod asked;
mod times;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::given;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::names::{MOST_SLOTS, Naming};
use crate::node::{Mode, Waits};
use crate::owner::{Owner, ThreadBinding};
use crate::protocol::group::Group;
use crate::protocol::timing::Timing;
pub(crate) use times::{Given, Times};

/// The defaults. Tables of them in the documentation are made from here.
pub mod defaults {
    use std::time::Duration;

    /// Node used where nothing is configured.
    pub const NODE: &str = "redis://127.0.0.1:6379";
    /// Environment variable with the node list, split at commas and blanks.
    pub const NODES_VARIABLE: &str = "QUORLOCK_NODES";
    // Made from core/options.toml: defaults.
    /// Auto-release time on the nodes: how long the lock outlives a crashed holder.
    pub const TTL: Duration = Duration::from_secs(10);
    /// How long an acquire waits: zero tries once, no limit waits forever.
    pub const WAIT: Duration = Duration::from_secs(10);
    /// Whether the lease is renewed until it is released.
    pub const RENEW: bool = true;
    /// The longest life of a lease, renewed or not.
    pub const MAX_HOLD: Duration = Duration::from_secs(3600);
    /// Whether the key on the nodes is the name itself, so that other Redlock libraries and
    /// Quorlock exclude each other.
    pub const RAW: bool = false;
    /// Whether leases have a fence.
    pub const FENCING: bool = true;
    /// How many calls of the client may wait for the lock in a line, behind the one that asks the
    /// nodes or holds it; one more gets `TooManyWaiters` at once.
    pub const MAX_WAITERS: usize = 10_000;
    /// Whether every release goes over the nodes, where the waiters of all clients queue in their
    /// order.
    pub const FAIR: bool = false;
    /// For how long the lock stays taken after it was won, also when it is released before: so
    /// that a job which every host starts at about the same time runs once.
    pub const KEEP: Duration = Duration::ZERO;
    /// Whether an acquire by the `owner` of a lease enters that lease again, at once.
    pub const REENTRANT: bool = true;
    /// Whether the lease is one of many that share the lock: readers, which a lease that is not
    /// shared keeps out, and which keep that out.
    pub const SHARED: bool = false;
    /// The longest `ttl` of any lock of the set, and so how long a node that may have lost its
    /// memory gives no vote.
    pub const MAX_TTL: Duration = Duration::from_secs(60);
    /// Time for one request to one node: connect, queue, write and reply; at most a quarter of a
    /// lock's `ttl`.
    pub const NODE_TIMEOUT: Duration = Duration::from_millis(250);
    /// Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked
    /// before it may vote.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
    /// Bound on the difference of clock rates, as a fraction: validity is the `ttl` less this
    /// part of it and 2 ms.
    pub const DRIFT: f64 = 0.01;
    /// The fraction of the `ttl` that must be left when a lease is won.
    pub const MIN_VALIDITY: f64 = 0.1;
    /// Prefix of every key.
    pub const NAMESPACE: &str = "lock:";
    /// How long a lock's counter of fences lives after its last use; at least twice `max_ttl`.
    pub const FENCE_TTL: Duration = Duration::from_secs(600);
    /// The name of the set that the nodes form: 1 to 64 printable ASCII characters without
    /// blanks. Nodes of another set are refused.
    pub const SET_NAME: &str = "default";
    /// Whether servers are accepted that drop keys when they are full: with them a lock may
    /// vanish under its holder.
    pub const ACCEPT_EVICTION: bool = false;
    /// How many replicas of a node must have a vote before it counts.
    pub const WAIT_REPLICAS: usize = 0;
    // End of what is made.
}

/// Shortest ttl. Below it the drift allowance and a round trip leave nothing.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(10);
/// A bound on every duration, so that no sum of them overflows.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const MAX_NODES: usize = 32;
/// How long a lock is kept for the waiter whose turn it is.
const RESERVATION: Duration = Duration::from_millis(200);
/// The longest time between two polls of a waiter.
const POLL: Duration = Duration::from_secs(2);
/// How many may stand in one queue of a node.
const QUEUE_BOUND: u32 = 10_000;

/// Whether a node that lost its memory is kept from voting for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// On for sets of three nodes and more, and where a node fails over to another
    /// server.
    #[default]
    Auto,
    /// Always, and for a wholly new set, too.
    On,
    /// Never: a restart without data may give a lock to a second holder.
    Off,
}

impl RestartGuard {
    /// The option as a word: `auto`, `on`, `off`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RestartGuard::Auto => "auto",
            RestartGuard::On => "on",
            RestartGuard::Off => "off",
        }
    }

    /// What it means for a set of this many nodes, some of which fail over or none.
    pub(crate) fn is_on(self, nodes: usize, fails_over: bool) -> bool {
        match self {
            RestartGuard::Auto => nodes >= 3 || fails_over,
            RestartGuard::On => true,
            RestartGuard::Off => false,
        }
    }
}

impl std::str::FromStr for RestartGuard {
    type Err = Error;

    fn from_str(word: &str) -> Result<RestartGuard, Error> {
        match word {
            "auto" => Ok(RestartGuard::Auto),
            "on" => Ok(RestartGuard::On),
            "off" => Ok(RestartGuard::Off),
            _ => Err(Error::invalid(format!(
                "restart_guard is {}: give auto, on or off",
                given::shown("restart_guard", word)
            ))),
        }
    }
}

/// How a lock is stored on the nodes, and so which other libraries it excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Quorlock's own: a string, fair waiting, and all that Quorlock offers.
    #[default]
    Plain,
    /// That of Redisson's `RLock`: one lock with Java programs. See
    /// [`Lock::layout`](crate::Lock::layout).
    Redisson,
}

impl Layout {
    /// The option as a word: `plain`, `redisson`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Redisson => "redisson",
        }
    }
}

impl std::str::FromStr for Layout {
    type Err = Error;

    /// By its word in every language: `plain`, `redisson`.
    fn from_str(word: &str) -> Result<Layout, Error> {
        match word {
            "plain" => Ok(Layout::Plain),
            "redisson" => Ok(Layout::Redisson),
            _ => Err(Error::invalid(format!(
                "layout is {}: give plain or redisson",
                given::shown("layout", word)
            ))),
        }
    }
}

/// Options of a lock. A client's are the defaults of its locks.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    // Made from core/options.toml: fields of a lock.
    /// Auto-release time on the nodes: how long the lock outlives a crashed holder.
    pub(crate) ttl: Option<Duration>,
    /// How long an acquire waits: zero tries once, no limit waits forever.
    pub(crate) wait: Option<Duration>,
    /// Whether the lease is renewed until it is released.
    pub(crate) renew: bool,
    /// The longest life of a lease, renewed or not.
    pub(crate) max_hold: Option<Option<Duration>>,
    /// Whether the key on the nodes is the name itself, so that other Redlock libraries and
    /// Quorlock exclude each other.
    pub(crate) raw: bool,
    /// How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's
    /// `RLock` of that name.
    pub(crate) layout: Layout,
    /// Text that is stored with the token of a lease, which names the holder.
    pub(crate) label: Option<Arc<String>>,
    /// Whether leases have a fence.
    pub(crate) fencing: bool,
    /// How many calls of the client may wait for the lock in a line, behind the one that asks the
    /// nodes or holds it; one more gets `TooManyWaiters` at once.
    pub(crate) max_waiters: usize,
    /// Whether every release goes over the nodes, where the waiters of all clients queue in their
    /// order.
    pub(crate) fair: bool,
    /// For how long the lock stays taken after it was won, also when it is released before: so
    /// that a job which every host starts at about the same time runs once.
    pub(crate) keep: Duration,
    /// Whether an acquire by the `owner` of a lease enters that lease again, at once.
    pub(crate) reentrant: bool,
    /// The lock's group in metrics, which never name locks: a word for all of a kind, such as
    /// `orders`.
    pub(crate) group: Result<Group, Error>,
    /// Whether the lease is one of many that share the lock: readers, which a lease that is not
    /// shared keeps out, and which keep that out.
    pub(crate) shared: bool,
    /// Makes it a semaphore of this many slots: no more of them are held at once.
    pub(crate) slots: Option<u32>,
    /// The owner of leases, by a name that is valid within the client: it enters its lease again.
    pub(crate) owner: Option<Owner>,
    // End of what is made.
    /// How often a job begins that is to run once each time: a try in the same moment as others is
    /// made again, until one of them has it.
    pub(crate) once: Option<Duration>,
    /// It is won for a term of a leader.
    pub(crate) election: bool,
    /// Whether each thread that acquires it is an owner of its own, for bindings.
    pub(crate) owned_by_threads: bool,
    /// Of a lease without an owner: the thread that acquires it.
    pub(crate) acquirer: Option<Arc<ThreadBinding>>,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        LockOptions {
            // Made from core/options.toml: defaults of a lock.
            ttl: None,
            wait: Some(defaults::WAIT),
            renew: defaults::RENEW,
            max_hold: None,
            raw: defaults::RAW,
            layout: Layout::default(),
            label: None,
            fencing: defaults::FENCING,
            max_waiters: defaults::MAX_WAITERS,
            fair: defaults::FAIR,
            keep: defaults::KEEP,
            reentrant: defaults::REENTRANT,
            group: Ok(Group::default()),
            shared: defaults::SHARED,
            slots: None,
            owner: None,
            // End of what is made.
            once: None,
            election: false,
            owned_by_threads: false,
            acquirer: None,
        }
    }
}

/// Gives a type the setters of the options that a client and a lock both have. The
/// type says by a method `change` which [`LockOptions`] those are: its own.
macro_rules! lock_option_setters {
    ($Type:ident) => {
        /// Options of locks: a client's are the defaults of its locks.
        impl $Type {
            // Made from core/options.toml: setters of a client and its locks.
            /// Auto-release time on the nodes: how long the lock outlives a crashed holder.
            ///
            /// A part of a millisecond is rounded up. Less than 10 s by default where `max_ttl` or `max_hold`
            /// is less. 10 ms to `max_ttl`. Default: 10 s.
            pub fn ttl(self, ttl: Duration) -> $Type {
                self.change(|options| options.ttl = Some(ttl))
            }

            /// How long an acquire waits: zero tries once, no limit waits forever.
            ///
            /// At the end answers that are under way are awaited where they decide, at most for another
            /// `node_timeout`. No limit: `None`. Default: 10 s.
            pub fn wait(self, wait: impl Into<Option<Duration>>) -> $Type {
                let wait = wait.into();
                self.change(|options| options.wait = wait)
            }

            /// Whether the lease is renewed until it is released.
            ///
            /// Without, it ends after the `ttl`, unless extended. Default: `true`.
            pub fn renew(self, renew: bool) -> $Type {
                self.change(|options| options.renew = renew)
            }

            /// The longest life of a lease, renewed or not.
            ///
            /// By default the `ttl`, where that is longer than 1 h. No limit: `None`. At least `ttl`. Default:
            /// 1 h.
            pub fn max_hold(self, max_hold: impl Into<Option<Duration>>) -> $Type {
                let max_hold = max_hold.into();
                self.change(|options| options.max_hold = Some(max_hold))
            }

            /// Whether the key on the nodes is the name itself, so that other Redlock libraries and Quorlock
            /// exclude each other.
            ///
            /// Not with `shared` nor `slots`. Default: `false`.
            pub fn raw(self, raw: bool) -> $Type {
                self.change(|options| options.raw = raw)
            }

            /// How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's `RLock`
            /// of that name.
            ///
            /// In Redisson's layout the key is the name, a named `owner` is one in all processes and in Java,
            /// and waiters are not queued on the nodes. Both wake each other, and their fences are of one order
            /// with those of `RFencedLock`. Such a lease is not exported. Not with `shared`, `slots` nor
            /// `keep`. Default: `plain`.
            pub fn layout(self, layout: crate::Layout) -> $Type {
                self.change(|options| options.layout = layout)
            }

            /// Text that is stored with the token of a lease, which names the holder.
            ///
            /// Without control characters; empty for none. An acquire that enters a lease again leaves that
            /// lease's label as it is. What is `raw`, or in Redisson's layout, has no label. At most 256 bytes.
            /// Default: `host:pid`.
            pub fn label(self, label: impl Into<String>) -> $Type {
                let label = std::sync::Arc::new(label.into());
                self.change(|options| options.label = Some(label.clone()))
            }

            /// Whether leases have a fence.
            ///
            /// Without, one key less is written on each node. Default: `true`.
            pub fn fencing(self, fencing: bool) -> $Type {
                self.change(|options| options.fencing = fencing)
            }

            /// How many calls of the client may wait for the lock in a line, behind the one that asks the nodes
            /// or holds it; one more gets `TooManyWaiters` at once.
            ///
            /// With 0 no call waits behind another. Default: 10,000.
            pub fn max_waiters(self, max_waiters: usize) -> $Type {
                self.change(|options| options.max_waiters = max_waiters)
            }

            /// Whether every release goes over the nodes, where the waiters of all clients queue in their
            /// order.
            ///
            /// Without, a lease may be passed on to the next in line of this client, up to 16 times in a row.
            /// Default: `false`.
            pub fn fair(self, fair: bool) -> $Type {
                self.change(|options| options.fair = fair)
            }

            /// For how long the lock stays taken after it was won, also when it is released before: so that a
            /// job which every host starts at about the same time runs once.
            ///
            /// Counted on this client's clock, and kept by the nodes that the release reaches; a lease that is
            /// lost, or whose process dies, leaves the lock to its `ttl`. At most `max_ttl`. Not with `layout`
            /// nor `shared`. Default: 0.
            pub fn keep(self, keep: Duration) -> $Type {
                self.change(|options| options.keep = keep)
            }

            /// Whether an acquire by the `owner` of a lease enters that lease again, at once.
            ///
            /// Without, an owner by name waits as any other does, for its own lease too; an owner that is the
            /// calling thread would wait in vain, and gets `WouldDeadlock` at once. Default: `true`.
            pub fn reentrant(self, reentrant: bool) -> $Type {
                self.change(|options| options.reentrant = reentrant)
            }

            /// The lock's group in metrics, which never name locks: a word for all of a kind, such as `orders`.
            ///
            /// The process keeps 64 groups; those that come later are counted as `other`. At most 64 bytes.
            /// Default: empty.
            pub fn group(self, group: impl AsRef<str>) -> $Type {
                let group = crate::protocol::group::Group::given(group.as_ref());
                self.change(|options| options.group = group.clone())
            }
            // End of what is made.
        }
    };
}
pub(crate) use lock_option_setters;

/// Settings of a client, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) nodes: Vec<Address>,
    // Made from core/options.toml: settings.
    /// The longest `ttl` of any lock of the set, and so how long a node that may have lost its
    /// memory gives no vote.
    pub(crate) max_ttl: Option<Duration>,
    /// Time for one request to one node: connect, queue, write and reply; at most a quarter of a
    /// lock's `ttl`.
    pub(crate) node_timeout: Duration,
    /// Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked
    /// before it may vote.
    pub(crate) connect_timeout: Duration,
    /// Bound on the difference of clock rates, as a fraction: validity is the `ttl` less this
    /// part of it and 2 ms.
    pub(crate) drift: f64,
    /// The fraction of the `ttl` that must be left when a lease is won.
    pub(crate) min_validity: f64,
    /// Prefix of every key.
    pub(crate) namespace: Arc<str>,
    /// How long a lock's counter of fences lives after its last use; at least twice `max_ttl`.
    pub(crate) fence_ttl: Option<Duration>,
    /// The name of the set that the nodes form: 1 to 64 printable ASCII characters without
    /// blanks. Nodes of another set are refused.
    pub(crate) set_name: Arc<str>,
    /// Whether a node that may have lost its memory gives no vote until every vote that it may
    /// have given is over, which is after `max_ttl`.
    pub(crate) restart_guard: RestartGuard,
    /// Whether servers are accepted that drop keys when they are full: with them a lock may
    /// vanish under its holder.
    pub(crate) accept_eviction: bool,
    /// How many replicas of a node must have a vote before it counts.
    pub(crate) wait_replicas: usize,
    // End of what is made.
    pub(crate) lock: LockOptions,
}

impl LockOptions {
    /// How the lock is asked for.
    pub(crate) fn mode(&self) -> Mode {
        match self.slots {
            Some(slots) => Mode::AnySlot(slots),
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        }
    }

    /// How its name becomes its key in Quorlock's own layout.
    fn own_naming(&self) -> Naming {
        if self.raw {
            Naming::Raw
        } else {
            Naming::Tagged
        }
    }

    /// How its name becomes its key.
    pub(crate) fn naming(&self) -> Naming {
        match self.layout {
            Layout::Plain => self.own_naming(),
            Layout::Redisson => Naming::Raw,
        }
    }

    /// Whether Redisson's layout allows the other options.
    fn check_redisson(&self) -> Result<(), Error> {
        let refused = [
            (self.slots.is_some(), "a semaphore's slots", "slots"),
            (self.shared, "readers of Quorlock's", "shared"),
            (!self.keep.is_zero(), "locks that are kept", "keep"),
        ];
        if let Some((_, what, option)) = refused.iter().find(|(given, ..)| *given) {
            return Err(Error::invalid(format!(
                "Redisson's RLock knows no {what}: leave {option} out, or layout"
            )));
        }
        match self.owner.as_ref().and_then(Owner::name) {
            Some(name)
                if name.is_empty() || name.len() > 256 || name.iter().any(u8::is_ascii_control) =>
            {
                Err(Error::invalid(format!(
                    "the owner, of {} bytes, is the field of a hash in Redisson's layout: give it 1 to \
                     256 bytes without control characters",
                    name.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether the label can be told apart from the token, and shown in one line.
    fn check_label(&self) -> Result<(), Error> {
        match self.label.as_deref().map(String::as_str) {
            Some(label) if !is_label(label) => Err(Error::invalid(format!(
                "label is {}: give at most 256 bytes without control characters",
                given::shown("label", label)
            ))),
            Some(label) => given::check("label", label.as_bytes()).map_err(Error::invalid),
            None => Ok(()),
        }
    }

    /// Whether a term can be won with the mode: one leads, and only the exclusive mode has one holder.
    fn check_election(&self) -> Result<(), Error> {
        let refused = [
            (self.slots.is_some(), "a semaphore is held by many", "slots"),
            (self.shared, "a shared lock is held by many", "shared"),
        ];
        match refused.iter().find(|(given, ..)| *given) {
            Some((_, why, option)) => Err(Error::invalid(format!(
                "an election has one leader, and {why}: leave {option} out"
            ))),
            None => Ok(()),
        }
    }

    /// Checks the options of one lock against its client's settings.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Error> {
        self.group.clone()?;
        self.check_label()?;
        if let Some(name) = self.owner.as_ref().and_then(Owner::name) {
            given::check("owner", name).map_err(Error::invalid)?;
        }
        let Times { ttl, max_hold, .. } = settings.times(self);
        let max_ttl = settings.max_ttl();
        if ttl < MIN_TTL {
            return Err(Error::invalid(format!(
                "ttl is {}: give {MIN_TTL:?} to {max_ttl:?}, the max_ttl of this client",
                shown(ttl)
            )));
        }
        if ttl > max_ttl {
            return Err(Error::invalid(format!(
                "ttl is {ttl:?}, above max_ttl ({max_ttl:?}): lower it, or raise max_ttl on every \
                 client of this set"
            )));
        }
        let timing = settings.timing(ttl);
        if timing.counted <= timing.min_validity {
            return Err(Error::invalid(format!(
                "ttl {ttl:?} with drift {} and min_validity {} leaves no time to hold the lock: \
                 raise the ttl, or lower the other two",
                settings.drift, settings.min_validity
            )));
        }
        if let Some(wait) = self.wait {
            within("wait", wait, Duration::ZERO, LONGEST)?;
        }
        // Made from core/options.toml: bounds of a lock.
        // End of what is made.
        if self.election {
            self.check_election()?;
        }
        if self.shared {
            settings.may_share(self.own_naming())?;
            if !self.keep.is_zero() {
                return Err(Error::invalid(format!(
                    "keep is {:?}, and a shared lease keeps nothing: leave keep or shared out",
                    self.keep
                )));
            }
        }
        if let Some(slots) = self.slots {
            if self.shared {
                return Err(Error::invalid(
                    "a slot of a semaphore is one holder's: leave slots or shared out",
                ));
            }
            if !(1..=MOST_SLOTS).contains(&slots) {
                return Err(Error::invalid(format!(
                    "slots is {slots}: give 1 to {MOST_SLOTS}"
                )));
            }
            if self.once.is_some() {
                return Err(Error::invalid(
                    "a job that one host runs is held by one: leave slots or once out",
                ));
            }
            if self.own_naming() == Naming::Raw {
                return Err(Error::invalid(
                    "a semaphore has no raw key, for other libraries count otherwise: leave raw out",
                ));
            }
        }
        if self.layout == Layout::Redisson {
            self.check_redisson()?;
        }
        if self.keep > max_ttl {
            return Err(Error::invalid(format!(
                "keep is {:?}, above max_ttl ({max_ttl:?}): lower it, or raise max_ttl on every \
                 client of this set",
                self.keep
            )));
        }
        if let Some(every) = self.once
            && (self.keep >= every)
        {
            return Err(Error::invalid(format!(
                "keep is {:?} of a job that is to run every {every:?}: the next run would be left \
                 out; lower it",
                self.keep
            )));
        }
        let Some(max_hold) = max_hold else {
            return Ok(());
        };
        within("max_hold", max_hold, MIN_TTL, LONGEST)?;
        if max_hold < ttl {
            return Err(Error::invalid(format!(
                "max_hold is {max_hold:?}, below the ttl ({ttl:?}): raise it, or lower the ttl"
            )));
        }
        Ok(())
    }
}

impl Settings {
    /// Whether a lock that is named so may be shared.
    pub(crate) fn may_share(&self, naming: Naming) -> Result<(), Error> {
        if naming == Naming::Raw {
            return Err(Error::invalid(
                "a raw lock cannot be shared, for the other libraries that use its key know no \
                 readers: leave raw or shared out",
            ));
        }
        if self.accept_eviction {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "a lock cannot be shared where nodes may evict keys (accept_eviction): one key \
                 says that readers are there, and a writer would not see them without it",
            ));
        }
        Ok(())
    }

    /// Whether another server takes a node's place when its own fails.
    pub(crate) fn fails_over(&self) -> bool {
        self.nodes.iter().any(Address::fails_over)
    }

    /// Whether a node is a cluster.
    pub(crate) fn has_cluster(&self) -> bool {
        let is_cluster = |node: &Address| matches!(node.endpoint, Endpoint::Cluster(_));
        self.nodes.iter().any(is_cluster)
    }

    /// The times of a lock, where some follow others.
    pub(crate) fn times(&self, lock: &LockOptions) -> Times {
        let given = Given {
            ttl: lock.ttl,
            max_hold: lock.max_hold,
            max_ttl: self.max_ttl,
            fence_ttl: self.fence_ttl,
        };
        given.settled()
    }

    /// The longest ttl of any lock of the set.
    pub(crate) fn max_ttl(&self) -> Duration {
        self.times(&self.lock).max_ttl
    }

    /// How long a lock's counter of fences lives.
    pub(crate) fn fence_ttl(&self) -> Duration {
        self.times(&self.lock).fence_ttl
    }

    /// The times of a lock with this ttl.
    pub(crate) fn timing(&self, ttl: Duration) -> Timing {
        Timing::of(ttl, self.drift, self.min_validity, self.node_timeout)
    }

    /// How nodes keep lines. A place outlives three polls, so that one whose
    /// replies are lost is kept, and every lease that may be waited for.
    pub(crate) fn waits(&self) -> Waits {
        // A waiter that is called has to come in time, over a slow network too.
        let reservation = RESERVATION.max(self.node_timeout.mul_f64(0.8));
        // By so much later it is taken for stopped.
        let slower = (2 * reservation).saturating_sub(3 * RESERVATION);
        Waits {
            reservation,
            place: self.max_ttl().max(3 * POLL) + slower,
            most: QUEUE_BOUND,
        }
    }

    /// Checks what a user gave; `lock` is checked with it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.nodes.is_empty() {
            return Err(Error::invalid(
                "the node list is empty: give at least one URL, such as redis://127.0.0.1:6379",
            ));
        }
        if self.nodes.len() > MAX_NODES {
            return Err(Error::invalid(format!(
                "{} nodes given; at most {MAX_NODES} make sense: 3 or 5 are usual",
                self.nodes.len()
            )));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let mut before = self.nodes[..i].iter();
            let Some(other) = before.find(|other| other.endpoint == node.endpoint) else {
                continue;
            };
            let origin = node.origin;
            return Err(Error::invalid(if other.db == node.db {
                format!(
                    "the node {} is listed twice: each node must be a server of its own{origin}",
                    node.shown
                )
            } else {
                format!(
                    "the nodes {} and {} are databases of one server, and fail together: each node \
                     must be a server of its own{origin}",
                    other.shown, node.shown
                )
            }));
        }
        let times = self.times(&self.lock);
        // Made from core/options.toml: bounds.
        within(
            "max_ttl",
            times.max_ttl,
            Duration::from_millis(10),
            Duration::from_secs(86400),
        )?;
        within(
            "node_timeout",
            self.node_timeout,
            Duration::from_millis(1),
            Duration::from_secs(60),
        )?;
        within(
            "connect_timeout",
            self.connect_timeout,
            Duration::from_millis(1),
            Duration::from_secs(60),
        )?;
        fraction("drift", self.drift, 0.001, 0.5)?;
        fraction("min_validity", self.min_validity, 0.0, 0.9)?;
        counted("wait_replicas", self.wait_replicas, 0, 16)?;
        // End of what is made.
        let memory = |node: &&Address| matches!(node.endpoint, Endpoint::Memory(_));
        if self.wait_replicas > 0
            && let Some(node) = self.nodes.iter().find(memory)
        {
            return Err(Error::invalid(format!(
                "wait_replicas is {}, and the node {} has no replicas: it lives in this process; \
                 set wait_replicas to 0",
                self.wait_replicas, node.shown
            )));
        }
        if self.namespace.is_empty()
            || self.namespace.len() > 256
            || self.namespace.contains(['{', '}'])
        {
            return Err(Error::invalid(format!(
                "namespace is {}: give 1 to 256 bytes without braces",
                given::shown("namespace", &self.namespace)
            )));
        }
        given::check("namespace", self.namespace.as_bytes()).map_err(Error::invalid)?;
        given::check("set_name", self.set_name.as_bytes()).map_err(Error::invalid)?;
        if self.set_name.is_empty()
            || self.set_name.len() > 64
            || !self.set_name.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(Error::invalid(format!(
                "set_name is {}: give 1 to 64 printable ASCII characters without blanks",
                given::shown("set_name", &self.set_name)
            )));
        }
        let max_ttl = times.max_ttl;
        within("fence_ttl", times.fence_ttl, 2 * max_ttl, LONGEST).map_err(|e| {
            let least = format!("at least twice max_ttl ({max_ttl:?})");
            Error::invalid(format!("{}, {least}", e.detail()))
        })?;
        self.lock.check(self)
    }
}

fn within(what: &str, value: Duration, low: Duration, high: Duration) -> Result<(), Error> {
    if value < low || value > high {
        return Err(Error::invalid(format!(
            "{what} is {}: give {} to {}",
            shown(value),
            shown(low),
            shown(high)
        )));
    }
    Ok(())
}

/// A time for a message: nothing at all has no unit.
fn shown(time: Duration) -> String {
    match time {
        Duration::ZERO => "0".into(),
        time => format!("{time:?}"),
    }
}

fn counted(what: &str, value: usize, low: usize, high: usize) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {value}: give {low} to {high}"
    )))
}

fn fraction(what: &str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    // Written so that NaN fails.
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {value}: give a fraction from {low} to {high}"
    )))
}

/// Whether a value may have this label: it can be shown in one line.
pub(crate) fn is_label(label: &str) -> bool {
    label.len() <= 256 && !label.chars().any(char::is_control)
}

/// The label of this process, `host:pid`.
pub(crate) fn process_label() -> String {
    let host: String = host()
        .chars()
        .filter(|c| !c.is_control())
        .take(64)
        .collect();
    format!("{host}:{}", std::process::id())
}

#[cfg(unix)]
fn host() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is writable for its length; gethostname writes at
    // most that many bytes.
    let failed = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) } != 0;
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(if failed { b"?" } else { &buffer[..end] }).into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "?".into())
}

/// The nodes of a client that was given none, and who has named them: those of the
/// environment, or the default node.
pub(crate) fn nodes_of_environment(environment: &str) -> (Vec<String>, Origin) {
    let listed: Vec<String> = environment
        .split([',', ' ', '\n', '\t'])
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect();
    if listed.is_empty() {
        (
            vec![defaults::NODE.to_owned()],
            Origin::Nobody(defaults::NODES_VARIABLE),
        )
    } else {
        (listed, Origin::Environment(defaults::NODES_VARIABLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_guarded_where_a_vote_may_be_lost_unseen() {
        use RestartGuard::{Auto, Off, On};
        for (guard, nodes, fails_over, on) in [
            (Auto, 1, false, false),
            (Auto, 2, false, false),
            (Auto, 3, false, true),
            (Auto, 1, true, true),
            (On, 1, false, true),
            (Off, 3, true, false),
        ] {
            assert_eq!(guard.is_on(nodes, fails_over), on, "{guard:?} {nodes}");
        }
    }

    #[test]
    fn votes_wait_for_replicas_that_there_may_be() {
        let refused = |node: &str, replicas| {
            let client = crate::Client::builder()
                .nodes([node])
                .wait_replicas(replicas);
            client.build().err().map(|e| e.message().to_owned())
        };
        assert_eq!(refused("redis://h", 16), None);
        let many = refused("redis://h", 17).unwrap();
        assert!(many.contains("wait_replicas is 17: give 0 to 16"), "{many}");
        let memory = refused("memory://h", 1).unwrap();
        assert!(memory.contains("memory://h has no replicas"), "{memory}");
        assert_eq!(refused("memory://h", 0), None);
    }
}
