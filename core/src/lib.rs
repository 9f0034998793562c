//! A distributed lock over independent Redis or Valkey masters.
//!
//! A lock is won by the votes of a majority of the nodes (Redlock), renewed
//! while it is held, and lost loudly. A minority of nodes that hang or die does
//! not hold it up. A node that restarts *without its data* is not guarded
//! against yet: keep it away for the longest ttl.
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
//! - A **node** is one independent master; the nodes of a client are its
//!   **set**; `N/2 + 1` of them are a **quorum**.
//! - A [`Lock`] is a name with options and holds nothing. A [`Lease`] is a hold
//!   on it: what [`Lock::acquire`] returns.
//! - The **ttl** is the auto-release time on the nodes; **validity** is the time
//!   left in which the holder may act, by the holder's own clock.
//!
//! # What is promised
//!
//! Two leases on one lock are never valid at the same instant, as long as clock
//! *rates* stay within the drift bound, the clocks of a quorum do not step
//! forward, and nodes do not lose their data. [`Lease::is_held`] is exact at
//! every call, and loss is final. A lease that fails, is cancelled or dropped
//! leaves no key behind on any node that can be reached.
//!
//! What no lock can promise: that work begun under a valid lease ends before
//! the lease does. Look at [`Lease::remaining`], or call [`Lease::ensure`],
//! before a step that must not overlap.
//!
//! # Blocking code
//!
//! The API is asynchronous and needs no particular executor; the I/O runs on a
//! thread of Quorlock's own. From ordinary code wait with [`blocking::wait`].

// Comments on private modules link to each other for those who read the code.
#![allow(rustdoc::private_intra_doc_links)]

mod acquire;
pub mod blocking;
mod client;
mod clock;
mod config;
mod dispatch;
mod error;
mod lease;
mod lock;
mod mutants;
mod node;
mod owner;
mod quorum;
mod renewal;
mod retry;
mod round;
mod runtime;
mod set;
mod sync;
mod token;
mod waiting;

#[doc(hidden)]
pub use client::close_all;
pub use client::{Client, ClientBuilder, Stats};
pub use config::defaults;
pub use dispatch::{Level, set_log_sink};
pub use error::{Error, ErrorKind, NodeError};
pub use lease::{Lease, Lost};
pub use lock::Lock;
pub use owner::Owner;
pub use round::LossReason;
#[doc(hidden)]
pub use runtime::{Task, shutdown, spawn};

/// The protocol modules, for the simulator. Not part of the API: anything here
/// may change at any time.
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim {
    pub use crate::acquire::{Acquired, acquire};
    pub use crate::clock::{Clock, Instant, Sleep};
    pub use crate::config::Timing;
    pub use crate::node::memory::MemoryNode;
    pub use crate::node::{Fault, FaultKind, Link, Op, Reply, Request, Sink, Ticket, Value};
    pub use crate::renewal::{Watchdog, Watched};
    pub use crate::round::{Hold, LossReason, Terms};
    pub use crate::set::{Counters, Set};
    pub use crate::token::{Rng, Token};
}
