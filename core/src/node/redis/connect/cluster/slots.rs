//! Which hash slots a shard serves, and the marks that put hash slots into quarantine.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value as Resp;

use super::reach::reach;
use crate::node::Fault;
use crate::node::redis::connect::prepare::permitted;
use crate::node::redis::connect::talk::{elsewhere, exchange, exchange_long, not_ready, refused};
use crate::node::redis::connect::target::Target;
use crate::node::redis::map::{self, at};
use crate::node::redis::replies::{self, text};
use crate::node::redis::resp;
use crate::node::redis::script::{mark, millis};
use crate::node::redis::server_error::{Redirect, redirect};
use crate::node::redis::wire::Wire;

/// How many marks are set at once.
pub(super) const AT_ONCE: usize = 1024;

/// The hash slots of a server, in order.
pub(super) struct Slots {
    /// The hash slots that the server serves.
    pub(super) own: Vec<u16>,
    /// The hash slots that are being moved to the server.
    pub(super) arriving: Vec<u16>,
    /// The hash slots of its own that are being moved elsewhere.
    pub(super) leaving: Vec<u16>,
}

/// The hash slots of the server. Those that are being moved are asked for first: a move to it
/// that ends in between is seen twice, not never.
pub(super) async fn slots_of(target: &Target, wire: &mut Wire) -> Result<Slots, Fault> {
    let commands = ["NODES", "SLOTS", "MYID"].map(|what| redis::cmd("CLUSTER").arg(what).take());
    let mut replies = exchange_long(wire, &commands, resp::MAP).await?;
    let mut reply = |what: &str| {
        let reply = replies.pop().ok_or_else(replies::unexpected)?;
        permitted(&target.gate, what, reply)
    };
    let id = text(&reply("cluster|myid")?);
    let slots = reply("cluster|slots")?;
    let nodes = text(&reply("cluster|nodes")?);
    Ok(Slots {
        own: map::own(&slots, &id).map_err(refused)?,
        arriving: map::arriving(&nodes),
        leaving: map::leaving(&nodes),
    })
}

/// Sets the marks of the hash slots that are being moved to this server, for so long: keys of
/// theirs that were here already may be lost as well.
pub(super) async fn mark_arriving(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    long: Duration,
) -> Result<(), Fault> {
    let mut commands = Vec::new();
    for slot in slots {
        commands.push(redis::cmd("ASKING"));
        commands.push(set_mark(target, *slot, long));
    }
    for reply in exchange(wire, &commands).await? {
        match &reply {
            // The move of the slot was called off meanwhile.
            Resp::ServerError(error) if redirect(error).is_some() => {}
            _ => drop(permitted(&target.gate, "set", reply)?),
        }
    }
    Ok(())
}

pub(super) fn set_mark(target: &Target, slot: u16, long: Duration) -> redis::Cmd {
    let mark = mark(&target.gate.quarantine_key, slot);
    let mut set = redis::cmd("SET");
    set.arg(mark).arg("1").arg("PX").arg(millis(long));
    set
}

/// Sets the marks of these hash slots, for so long; those of hash slots that are being moved
/// where these are moved to.
pub(super) async fn set_marks(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    long: Duration,
) -> Result<(), Fault> {
    let gate = &target.gate;
    let set = |slot| set_mark(target, slot, long);
    let mut moved: BTreeMap<(String, u16, bool), Vec<u16>> = BTreeMap::new();
    for slots in slots.chunks(AT_ONCE) {
        let commands: Vec<_> = slots.iter().map(|slot| set(*slot)).collect();
        for (slot, reply) in slots.iter().zip(exchange(wire, &commands).await?) {
            let sent = match &reply {
                Resp::ServerError(error) => redirect(error),
                _ => None,
            };
            let (host, port, asking) = match sent {
                None => {
                    permitted(gate, "set", reply)?;
                    continue;
                }
                Some(Redirect::Moved { host, port, .. }) => (host, port, false),
                Some(Redirect::Ask { host, port }) => (host, port, true),
                Some(_) => return Err(not_ready("its hash slots are being moved")),
            };
            let server = (host, port, asking);
            moved.entry(server).or_default().push(*slot);
        }
    }
    for ((host, port, asking), slots) in moved {
        let server = at(&host, port, &target.address.endpoint);
        let server = server.ok_or_else(replies::unexpected)?;
        let mut wire = reach(target, &server).await?;
        for slot in slots {
            let asks = asking.then(|| redis::cmd("ASKING"));
            let commands: Vec<_> = asks.into_iter().chain([set(slot)]).collect();
            for reply in exchange(&mut wire, &commands).await? {
                permitted(gate, "set", elsewhere(Some(reply))?)?;
            }
        }
    }
    Ok(())
}
