//! How an acquire waits: in the [line] of its client, and, once it
//! is first there, in the [queue] of a node, which the clients
//! share.

pub(crate) mod inbox;
mod line;
mod queue;

pub use line::{Lines, Passed};
pub(crate) use line::{Place, Turn};
pub(crate) use queue::{Ended, Quest};
