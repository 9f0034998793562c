//! Settings: the options of clients and locks with every default, and what follows from them.

mod asked;
mod check;
mod environment;
mod times;
mod words;

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::node::address::{Address, Endpoint};
use crate::node::names::Naming;
use crate::node::{Mode, Waits};
use crate::owner::{Owner, ThreadBinding};
use crate::protocol::group::Group;
use crate::protocol::timing::Timing;
pub(crate) use check::{is_label, unconfirmed};
pub(crate) use environment::{nodes_of_environment, process_label};
pub(crate) use times::{ExplicitTimes, Times};
pub use words::{Layout, RestartGuard};

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
    /// Whether a release waits until a quorum of the nodes has carried it out.
    pub const CONFIRM: bool = true;
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
/// How long a lock is kept for the waiter whose turn it is.
const RESERVATION: Duration = Duration::from_millis(200);
/// The longest time between two polls of a waiter.
const POLL: Duration = Duration::from_secs(2);
/// How many may stand in one queue of a node.
const QUEUE_BOUND: u32 = 10_000;

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
    /// Whether a release waits until a quorum of the nodes has carried it out.
    pub(crate) confirm: bool,
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
            confirm: defaults::CONFIRM,
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
            /// lost, or whose process dies, leaves the lock to its `ttl`. At most `max_ttl`. Not with `layout`,
            /// `shared` nor `confirm` off. Default: 0.
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
}

impl Settings {
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
        let given = ExplicitTimes {
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
}
