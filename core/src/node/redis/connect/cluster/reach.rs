//! A connection to one server of a cluster, and the words for a server that is not reached.

use std::time::Duration;

use crate::node::address::{Endpoint, shown};
use crate::node::redis::connect::talk::{exchange, good, login};
use crate::node::redis::connect::target::Target;
use crate::node::redis::dial::DialError;
use crate::node::redis::wire::Wire;
use crate::node::{Fault, FaultKind};

/// How long one server has to say what it knows of the cluster, at least.
const PATIENCE: Duration = Duration::from_millis(250);
/// This many times what a node has to answer, where that is longer.
const STEPS: u32 = 3;
/// How long one server may take to be connected to and to say something.
pub(super) fn patience(target: &Target) -> Duration {
    PATIENCE.max(target.gate.node_timeout * STEPS)
}

pub(super) fn of_server(server: &Endpoint, fault: Fault) -> Fault {
    let text = format!(
        "the server {} of the cluster: {}",
        shown(server),
        fault.text
    );
    fault.with_text(text)
}

/// The fault of a server that was not reached where the cluster says that it is.
pub(crate) fn announced(server: &Endpoint, fault: Fault) -> Fault {
    if !matches!(fault.kind, FaultKind::Unreachable | FaultKind::Timeout) {
        return fault;
    }
    let text = format!("{} {}", fault.text, not_there(server));
    fault.with_text(text)
}

/// Where a server was looked for in vain.
pub(crate) fn not_there(server: &Endpoint) -> String {
    format!(
        "at {}, which the cluster announces: if it has another address for clients, set \
         cluster-announce-ip",
        shown(server)
    )
}

/// A connection to a server of the cluster, and nothing more.
pub(super) async fn reach(target: &Target, server: &Endpoint) -> Result<Wire, Fault> {
    let stream = target.dial.dial(server).await.map_err(|undialled| {
        let (DialError::Refused(fault) | DialError::Other(fault)) = undialled;
        fault
    })?;
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    for reply in exchange(&mut wire, &login(&target.address)).await? {
        good(reply)?;
    }
    Ok(wire)
}
