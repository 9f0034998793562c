//! The map of a cluster: which server serves which hash slots, as the first says that answers.

use super::reach::{of_server, patience, reach};
use crate::node::address::Endpoint;
use crate::node::redis::connect::prepare::permitted;
use crate::node::redis::connect::talk::{exchange_long, not_ready, refused, within};
use crate::node::redis::connect::target::Target;
use crate::node::redis::map::{self, Range};
use crate::node::redis::replies::{self, text};
use crate::node::redis::resp;
use crate::node::redis::server_error::clusterless;
use crate::node::{Fault, FaultKind};
use redis::Value as Resp;

/// Which server serves which hash slots, by the first answer of the servers `known` and those of
/// the URL, beginning with the server at that place. A server that takes the cluster for down
/// counts last, for it may be the only one that does. A server that knows none of the servers of
/// the map before, whose `ids` these were, is of another cluster, or all servers have been made
/// anew: it counts where no other server answers.
pub(crate) async fn map_of(
    target: &Target,
    known: &[Endpoint],
    ids: &[String],
    first: usize,
) -> Result<View, Fault> {
    let Endpoint::Cluster(seeds) = &target.address.endpoint else {
        return Err(refused("it is no cluster".into()));
    };
    // The servers of the last map come before those of the URL, which may be gone by now.
    let new = |seed: &&Endpoint| !known.contains(seed);
    let servers: Vec<&Endpoint> = known.iter().chain(seeds.hosts.iter().filter(new)).collect();
    let most = patience(target);
    let (mut down, mut other, mut refusal, mut away) = (None, None, None, None);
    for place in 0..servers.len() {
        let server = servers[(first + place) % servers.len()];
        match within(&target.gate.clock, most, ask(target, server)).await {
            Ok(view) if !ids.is_empty() && !view.knows(ids) => other = Some(view),
            Ok(view) if view.up && !view.ranges.is_empty() => return Ok(view),
            Ok(view) => down = Some(view),
            Err(fault) => {
                let fault = of_server(server, fault);
                match fault.kind {
                    FaultKind::Misconfigured => refusal = Some(fault),
                    _ => away = Some(fault),
                }
            }
        }
    }
    // A view of another cluster counts last, and a refusal before silence, for it says what to do.
    match (down.or(other), refusal, away) {
        (Some(view), ..) if !view.ranges.is_empty() => Ok(view),
        (Some(_), ..) => Err(not_ready("no server of the cluster serves a hash slot")),
        (None, Some(fault), _) | (None, None, Some(fault)) => Err(fault),
        (None, None, None) => Err(refused("the cluster has no servers".into())),
    }
}

/// What one server knows of its cluster.
pub(crate) struct View {
    pub(crate) ranges: Vec<Range>,
    /// The servers' own names.
    pub(crate) ids: Vec<String>,
    /// Whether the server takes the cluster for up.
    up: bool,
}

impl View {
    /// Whether it is of the cluster of those servers.
    fn knows(&self, ids: &[String]) -> bool {
        self.ids.iter().any(|id| ids.contains(id))
    }
}

/// Whether all servers of the URL that answer are of the cluster that has servers of these
/// `ids`: else its map would be now of the one, now of the other.
pub(crate) async fn look_for_strangers(target: &Target, ids: &[String]) -> Result<(), Fault> {
    let Endpoint::Cluster(seeds) = &target.address.endpoint else {
        return Ok(());
    };
    let most = patience(target);
    for server in &seeds.hosts {
        let view = within(&target.gate.clock, most, ask(target, server)).await;
        if view.is_ok_and(|view| !view.knows(ids)) {
            let why = "it belongs to another cluster than the others of its URL: name servers of one \
                       cluster in each URL";
            return Err(of_server(server, refused(why.into())));
        }
    }
    Ok(())
}

/// What the server at `server` says of the hash slots, and whether it takes the cluster for up.
async fn ask(target: &Target, server: &Endpoint) -> Result<View, Fault> {
    let mut wire = reach(target, server).await?;
    let commands = ["NODES", "SLOTS", "INFO"].map(|what| redis::cmd("CLUSTER").arg(what).take());
    let mut replies = exchange_long(&mut wire, &commands, resp::MAP).await?;
    let info = replies.pop().map(|reply| text(&reply)).unwrap_or_default();
    let slots = replies.pop().ok_or_else(replies::unexpected)?;
    let nodes = replies.pop().ok_or_else(replies::unexpected)?;
    if let Resp::ServerError(error) = &slots
        && clusterless(error)
    {
        return Err(refused(
            "it is not in cluster mode: write redis:// in place of redis+cluster://".into(),
        ));
    }
    let slots = permitted(&target.gate, "cluster|slots", slots)?;
    let nodes = permitted(&target.gate, "cluster|nodes", nodes)?;
    Ok(View {
        ranges: map::read(&slots, server).map_err(refused)?,
        ids: map::ids(&text(&nodes)),
        up: !info.contains("cluster_state:fail"),
    })
}
