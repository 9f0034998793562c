//! The protocol: how the nodes' votes make a lease, keep it and end it, and how
//! one waits for it. It sees nodes by the seam [`Link`](crate::node::Link), and
//! reads neither sockets nor clocks nor settings, so that the simulator runs all
//! of it.

pub mod acquire;
pub(crate) mod adopt;
pub(crate) mod apart;
pub(crate) mod ask_all;
pub mod asked;
pub(crate) mod claim;
pub mod claim_cell;
pub(crate) mod contention;
pub(crate) mod counters;
pub(crate) mod fence;
pub(crate) mod force;
pub mod group;
pub(crate) mod heartbeat;
pub(crate) mod inspect;
pub(crate) mod loss;
pub(crate) mod measures;
pub(crate) mod order;
pub(crate) mod quorum;
pub(crate) mod reentry;
pub(crate) mod renewal;
pub(crate) mod retry;
pub(crate) mod set;
pub(crate) mod timed;
pub(crate) mod timing;
