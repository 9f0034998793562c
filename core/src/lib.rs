//! A distributed lock over independent Redis or Valkey masters.
//!
//! A lock is won by the votes of a majority of the nodes (Redlock), renewed
//! while it is held, and lost loudly. A minority of nodes that hang or die does
//! not hold it up, a node that lost its memory gives no vote for a while, and
//! every hold has a larger [fence](Lease::fence) than those before it.
//!
//! ```no_run
//! # async fn charge() {}
//! # async fn f() -> Result<(), quorlock::Error> {
//! let client = quorlock::Client::new([
//!     "redis://10.0.0.1:6379",
//!     "redis://10.0.0.2:6379",
//!     "redis://10.0.0.3:6379",
//! ])?;
//! let lease = client.lock("orders:42").acquire().await?;
//! tokio::select! {
//!     () = charge() => {}
//!     reason = lease.lost() => panic!("lost the lock: {}", reason.as_str()),
//! }
//! lease.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Words
//!
//! A [`Lock`] is a name with options and holds nothing. A [`Lease`] is a hold on it: what
//! [`Lock::acquire`] returns. `docs/explanation/words.md` says in a sentence each what node, set,
//! quorum, ttl, validity and the other words mean.
//!
//! # What is promised
//!
//! *Order*: a hold whose votes were cast after another was won has a larger
//! [fence](Lease::fence), whatever clocks do, as long as the nodes keep their
//! data. *Exclusion*: two leases on one lock are never valid at the same instant,
//! as long as clock *rates* stay within the drift bound and no clock steps
//! forward on a node that the lease needs. [`Lease::is_held`] is exact at every call, and loss is
//! final. A lease that fails, is cancelled or dropped leaves no key behind on
//! any node that can be reached. `docs/reference/promises.md` says all of it.
//!
//! What no lock can promise: that work begun under a valid lease ends before
//! the lease does. Give the fence to the resource, which then refuses a smaller
//! one; or look at [`Lease::remaining`], or call [`Lease::ensure`], before a
//! step that must not overlap.
//!
//! # Logs and spans
//!
//! What is worth knowing goes to the crate `log`, with the target `quorlock`, or to
//! [`set_log_sink`]: each line with the kind of what it tells, its template, and what differs as
//! fields ([`LogEvent`]); those of `log` are its key-values, and the first two are named `event`
//! and `template`. With the feature `tracing` it goes to that crate with the fields `lock`, `node`
//! and `reason`, and each acquire is a span `acquire` with the fields `lock`, `group`, `outcome`
//! and `error`.
//!
//! # Features
//!
//! `tls`, on by default, is for `rediss://` and its like; without it such a URL is refused, and
//! rustls is not compiled. `tracing`, off by default, is described above. `serde`, off by default,
//! has options as data, for those that stand in a file: `ClientOptions` and `LockOptions`.
//!
//! # Blocking code
//!
//! The API is asynchronous and needs no particular executor; the I/O runs on a
//! thread of Quorlock's own. From ordinary code wait with [`blocking::wait`].

// Comments on private modules link to each other for readers of the code.
#![allow(rustdoc::private_intra_doc_links)]

// The specification, which tests of the core include, names the core so.
#[cfg(test)]
extern crate self as quorlock;

#[doc(hidden)]
pub mod binding;
pub mod blocking;
mod client;
mod clock;
mod config;
mod display;
mod election;
mod error;
mod event;
#[cfg(all(test, not(quorlock_loom)))]
mod exhaustive;
mod export;
mod force;
#[doc(hidden)]
pub mod foreign;
mod given;
mod hash;
mod inspect;
mod lean;
mod lease;
mod leases;
mod lock;
mod locks;
mod metrics;
mod mutex;
mod node;
#[cfg(feature = "serde")]
mod options;
mod owner;
mod permissions;
#[doc(hidden)]
pub mod probe;
mod process;
mod protocol;
mod report;
mod runtime;
mod stats;
mod sync;
pub mod testing;
mod token;
mod unwind;
mod wakers;

pub use client::metrics::metrics_text;
#[doc(hidden)]
pub use client::spelled_time;
pub use client::{Client, ClientBuilder, Listing};
pub use config::{Layout, RestartGuard, defaults};
pub use election::{Election, Leadership, Observer};
pub use error::{Error, ErrorKind, NodeError};
pub use event::LogEvent;
pub use force::Forced;
pub use inspect::{Holder, Inspection, NodeView, Verdict};
pub use lease::{Lease, Lost};
#[doc(hidden)]
pub use leases::Places;
pub use leases::{Leases, LostOne};
pub use lock::Lock;
pub use locks::Locks;
pub use metrics::{Durations, Histogram, Metrics, NodeMetrics, Oldest, SetMetrics};
#[cfg(feature = "serde")]
pub use options::{ClientOptions, LockOptions};
pub use owner::Owner;
pub use permissions::{operator_permissions, permissions};
pub use protocol::loss::LossReason;
pub use report::{ClockOffset, Finding, Health, NodeReport, Probe, Readiness, Severity};
pub use runtime::dispatch::{Level, set_log_sink};
pub use stats::Stats;

/// The protocol modules, for the simulator. Not part of the API: anything here
/// may change at any time.
#[doc(hidden)]
pub mod sim {
    pub use crate::clock::{Clock, Instant, Sleep};
    pub use crate::node::admission;
    pub use crate::node::memory::{
        MemoryNode, Message, NodeQueue, OtherRecord, QueueEntry, Readers, ReservedFor, StoredValue,
    };
    pub use crate::node::names;
    pub use crate::node::native;
    pub use crate::node::{
        Adoption, AfterRelease, AuxKeys, Cause, Fault, FaultKind, Field, Hint, Keys, Link, LockId,
        LockState, Mode, Op, Repair, Reply, Request, RequestContext, Sink, Standing, Subscriber,
        TimeReading, Value, Waiter, Waits,
    };
    pub use crate::probe;
    pub use crate::protocol::acquire::inbox::Inbox;
    pub use crate::protocol::acquire::local_queue::LocalQueues;
    pub use crate::protocol::acquire::{AcquireResult, Wait, acquire};
    pub use crate::protocol::asked::LeaseOptions;
    pub use crate::protocol::claim::LockParams;
    pub use crate::protocol::claim_cell::{ClaimCell, ExtendResult, Watch};
    pub use crate::protocol::counters::Counters;
    pub use crate::protocol::loss::LossReason;
    pub use crate::protocol::renewal::Watchdog;
    pub use crate::protocol::set::Set;
    pub use crate::protocol::timing::Timing;
    pub use crate::runtime::lasting::lasting;
    pub use crate::token::{Rng, Token};
    pub use crate::wakers::Wakers;
}
