//! One node: what it is asked, what it answers, and the seam to it.

pub(crate) mod address;
pub mod admission;
pub(crate) mod cluster;
mod fault;
pub(crate) mod hash_slot;
mod keys;
mod link;
pub mod memory;
pub mod names;
pub mod native;
mod nodes;
pub(crate) mod redis;
mod reply;
mod request;
mod server;
pub mod time;
mod value;

pub use fault::{Cause, Fault, FaultKind, ServerState};
pub use keys::{Adoption, AuxKeys, Field, Hint, Keys, LockId, Mode, Waiter, Waits};
pub use link::{Link, RequestContext, Sink, Subscriber, TimeReading};
pub use nodes::Nodes;
pub use reply::{LockState, QueueInfo, Reply, SHARERS, SHOWN_BYTES, Standing};
pub use request::{AfterRelease, Op, Repair, Request};
pub use server::{Memory, Server};
pub use value::Value;
