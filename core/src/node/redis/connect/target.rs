//! Which node a connection is made to, and how.

use std::sync::Arc;

use super::locate::Located;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::Gate;
use crate::node::redis::dial::Dial;

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) dial: Arc<dyn Dial>,
    /// Its place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
    /// What is known of its sentinels.
    pub(crate) located: Located,
}

/// How a connection is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// The node has been reached before.
    pub(crate) reached: bool,
    /// Subscribe the inbox, where the node permits it.
    pub(crate) subscribe: bool,
    /// See [`Look::stepped`](crate::node::admission::Look::stepped).
    pub(crate) stepped: bool,
    /// Where the connection before led.
    pub(crate) before: Option<Endpoint>,
}
