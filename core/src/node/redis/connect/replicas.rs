//! Whether a server can make votes wait for its replicas.

use std::sync::atomic::Ordering;

use redis::Value as Resp;

use super::prepare::permitted;
use super::talk::{exchange, refused};
use super::target::Target;
use crate::event::event;
use crate::node::Fault;
use crate::node::redis::server_error;
use crate::node::redis::wire::Wire;

/// Tries `WAIT`, where votes are to wait for replicas. Warns, once, where the server has too
/// few of them now: some may only be on their way back.
pub(super) async fn try_wait(target: &Target, wire: &mut Wire) -> Result<(), Fault> {
    let (gate, shown) = (&target.gate, &target.address.shown);
    if gate.wait_replicas == 0 {
        return Ok(());
    }
    let attempt = redis::cmd("WAIT").arg(0).arg(1).take();
    let reply = exchange(wire, &[attempt]).await?.pop();
    let have = match reply {
        Some(Resp::Int(have)) => u32::try_from(have).unwrap_or(0),
        Some(Resp::ServerError(error)) if server_error::unknown(&error) => {
            return Err(refused(
                "it does not know the command WAIT, which wait_replicas needs: set that to 0"
                    .into(),
            ));
        }
        Some(reply) => {
            permitted(gate, "wait", reply)?;
            0
        }
        None => 0,
    };
    if have < gate.wait_replicas && !gate.told_few.swap(true, Ordering::Relaxed) {
        (gate.warn)(event!(
            "node_lacks_replicas",
            "the node {node} has {replicas} replicas now, and wait_replicas is {wanted}: it gives \
             no vote until it has as many",
            node = shown,
            replicas = have,
            wanted = gate.wait_replicas,
        ));
    }
    Ok(())
}
