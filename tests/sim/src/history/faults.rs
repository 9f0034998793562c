//! What goes wrong, in words.

use super::words::ms;
use crate::neighbour::known;
use crate::world::{Failover, FaultEvent, MS, Memory, Time, Ways};

/// What goes wrong.
pub(super) fn begin_of(fault: FaultEvent) -> String {
    match fault {
        FaultEvent::PauseNode(n, long) => format!("n{n} hangs for {}", ms(long)),
        FaultEvent::SlowNode(n, long) => format!("n{n} is slow for {}", ms(long)),
        FaultEvent::CrashNode(n, long, memory) => {
            let memory = match memory {
                Memory::Kept => "all its data",
                Memory::Lost => "no data",
                Memory::Old => "the data of its last snapshot",
            };
            format!("n{n} is down for {} and comes back with {memory}", ms(long))
        }
        FaultEvent::Snapshot(n) => format!("n{n} saves a snapshot of its data"),
        FaultEvent::Flush(n) => format!("all data of n{n} is deleted"),
        FaultEvent::StepNode(n, by) => format!("the clock of n{n} steps by {}", signed(by)),
        FaultEvent::SetRight(n, by) => format!("the clock of n{n} is set right by {}", signed(by)),
        FaultEvent::Cut {
            client,
            node,
            long,
            ways,
            lossy,
        } => {
            let what = match ways {
                Ways::Both => "nothing passes",
                Ways::Requests => "no requests pass",
                Ways::Replies => "no replies pass",
            };
            let then = if lossy {
                "is lost, and the connection with it"
            } else {
                "comes later"
            };
            let long = ms(long);
            format!("{what} between c{client} and n{node} for {long}; what is sent {then}")
        }
        FaultEvent::Reset(c, n) => format!("the connection of c{c} to place {n} is reset"),
        FaultEvent::Astray(c, n, long) => {
            format!(
                "the address of n{n} leads c{c} to an empty server for {}",
                ms(long)
            )
        }
        FaultEvent::PauseClient(c, long) => format!("c{c} stands still for {}", ms(long)),
        FaultEvent::SuspendClient(c, long) => {
            format!("the machine of c{c} sleeps for {}", ms(long))
        }
        FaultEvent::CrashClient(c) => format!("c{c} is gone forever"),
        FaultEvent::FallsBehind(n) => {
            format!("what n{n} has from here on does not reach its replica in time")
        }
        FaultEvent::FailsOver(Failover {
            node,
            told,
            dies: true,
            ..
        }) => {
            format!(
                "the master of n{node} dies, and its replica takes its place; it is back after {}",
                ms(told)
            )
        }
        FaultEvent::FailsOver(Failover { node, told, .. }) => {
            format!(
                "the replica of n{node} takes its master's place, which is told after {}",
                ms(told)
            )
        }
        FaultEvent::Foreign {
            node, lock, long, ..
        } => format!(
            "another program has the lock {} on n{node} for {}, if nothing stands there",
            String::from_utf8_lossy(&known()[lock].lock).replace(['{', '}'], ""),
            ms(long)
        ),
        FaultEvent::Forge(c, n) => format!("c{c} hears a call as if of n{n}, which calls nobody"),
    }
}

fn signed(by: i64) -> String {
    format!("{:+.3} ms", by as f64 / MS as f64)
}

/// When that is over, and what is said then.
pub(super) fn end_of(fault: FaultEvent, from: Time) -> Option<(Time, String)> {
    Some(match fault {
        FaultEvent::PauseNode(n, long) => (from + long, format!("over: n{n} goes on")),
        FaultEvent::SlowNode(n, long) => (from + long, format!("over: n{n} is slow no more")),
        FaultEvent::CrashNode(n, long, _) => (from + long, format!("over: n{n} is up again")),
        FaultEvent::Cut {
            client, node, long, ..
        } => (
            from + long,
            format!("over: all passes between c{client} and n{node} again"),
        ),
        FaultEvent::Astray(c, n, long) => (
            from + long,
            format!("over: the address of n{n} leads c{c} there again"),
        ),
        FaultEvent::FailsOver(Failover { node, told, .. }) => (
            from + told,
            format!("over: the server of n{node} from before is a replica"),
        ),
        FaultEvent::Foreign { node, long, .. } => (
            from + long,
            format!("over: what another program had on n{node}"),
        ),
        FaultEvent::PauseClient(c, long) => (from + long, format!("over: c{c} goes on")),
        FaultEvent::SuspendClient(c, long) => {
            (from + long, format!("over: the machine of c{c} wakes up"))
        }
        FaultEvent::Snapshot(_)
        | FaultEvent::Flush(_)
        | FaultEvent::StepNode(..)
        | FaultEvent::SetRight(..)
        | FaultEvent::Reset(..)
        | FaultEvent::CrashClient(_)
        | FaultEvent::FallsBehind(_)
        | FaultEvent::Forge(..) => return None,
    })
}
